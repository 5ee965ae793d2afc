"""Check training code: compare two optimizers, and a network with its hybridized form."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import autograd
from ..core.base.dtypes import as_array_dtype
from ..ndarray import NDArray
from .comparison import assert_almost_equal, compare_ndarray_tuple
from .samples import rand_ndarray

__all__ = ["check_gluon_hybridize_consistency", "compare_optimizer"]


def compare_optimizer(
    opt1: Any,
    opt2: Any,
    shape: tuple[int, ...] | Sequence[tuple[int, ...]],
    dtype: Any,
    w_stype: str = "default",
    g_stype: str = "default",
    rtol: float = 1e-4,
    atol: float = 1e-5,
    compare_states: bool = True,
    ntensors: int = 1,
) -> None:
    """Check that two optimizers make the same updates for the same random weights and gradients.

    Parameters
    ----------
    shape
        The shape of the weights; with `ntensors` above one, one shape per weight.
    dtype, w_stype, g_stype
        The data type, and the storage types of weights and gradients.
    compare_states
        Whether to compare states as well, before and after the update.
    ntensors
        The number of weights updated at once.
    """
    shapes = [shape] if ntensors == 1 else list(shape)
    weights = [[_random(one, w_stype, dtype) for one in shapes]]
    grads = [[_random(one, g_stype, dtype) for one in shapes]]
    weights.append([weight.copy() for weight in weights[0]])
    grads.append([grad.copy() for grad in grads[0]])
    states = [
        [optimizer.create_state_multi_precision(number, weight) for number, weight in enumerate(of)]
        for optimizer, of in zip((opt1, opt2), weights, strict=True)
    ]

    def compare() -> None:
        if compare_states:
            for first, second in zip(*states, strict=True):
                compare_ndarray_tuple(_as_tuple(first), _as_tuple(second), rtol=rtol, atol=atol)
        for first, second in zip(*weights, strict=True):
            assert_almost_equal(first.asnumpy(), second.asnumpy(), rtol=rtol, atol=atol)

    compare()
    for optimizer, weight, grad, state in zip((opt1, opt2), weights, grads, states, strict=True):
        if ntensors == 1:
            optimizer.update_multi_precision(0, weight[0], grad[0], state[0])
        else:
            optimizer.update_multi_precision(list(range(ntensors)), weight, grad, state)
    compare()


def _random(shape: Any, stype: str, dtype: Any) -> Any:
    return rand_ndarray(shape, stype, density=None if stype == "default" else 1, dtype=dtype)


def _as_tuple(state: Any) -> Any:
    return state if isinstance(state, tuple) or state is None else (state,)


def check_gluon_hybridize_consistency(
    net_builder: Callable[[], Any],
    data_l: Sequence[NDArray],
    numpy_func: Callable[..., Any] | None = None,
    test_grad: bool = True,
    rtol: float = 1e-4,
    atol: float = 1e-4,
) -> None:
    """Check that a block computes the same with and without hybridization.

    Parameters
    ----------
    net_builder
        Returns the block, which must be deterministic; it is called twice.
    data_l
        The inputs.
    numpy_func
        Optional: computes the same result from the inputs as NumPy arrays.
    test_grad
        Whether to compare gradients of inputs and parameters as well.
    """
    values = None
    found: list[dict[str, Any]] = []
    for hybridize in (False, True):
        net = net_builder()
        net.initialize()
        if hybridize:
            net.hybridize()
        inputs = [_with_grad(data) for data in data_l]
        with autograd.predict_mode():
            net(*inputs)  # infers the shapes of parameters
        parameters = net.collect_params()
        if values is None:
            values = [parameter.data().asnumpy() for parameter in parameters.values()]
        for parameter, value in zip(parameters.values(), values, strict=True):
            parameter.set_data(value)
        with autograd.record(train_mode=test_grad):
            out = net(*inputs)
        found.append({"output": out.asnumpy()})
        if test_grad:
            out.backward()
            grads = {f"gradient of input {number}": data.grad for number, data in enumerate(inputs)}
            learned = [parameter for parameter in parameters.values() if parameter.grad_req != "null"]
            grads |= {f"gradient of parameter {number}": one.grad() for number, one in enumerate(learned)}
            found[-1] |= {name: grad.asnumpy() for name, grad in grads.items() if grad is not None}
    for name, value in found[0].items():
        assert_almost_equal(value, found[1][name], rtol=rtol, atol=atol, names=(name, f"{name}, hybridized"))
    if numpy_func is not None:
        expected = numpy_func(*[data.asnumpy() for data in data_l])
        assert_almost_equal(found[0]["output"], expected, rtol=rtol, atol=atol, names=("output", "NumPy"))


def _with_grad(data: NDArray) -> NDArray:
    copied = data.copy()
    if as_array_dtype(data.dtype).kind == "f":
        copied.attach_grad()
    return copied
