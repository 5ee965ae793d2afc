"""Check gradients against finite differences, for functions of arrays and for symbols.

A *symbol* is any object with ``list_arguments()``, ``list_auxiliary_states()`` and ``bind(...)``, which returns an
*executor*: ``forward(is_train)``, ``backward(out_grads)``, ``outputs`` and the dictionaries ``arg_dict``, ``grad_dict``
and ``aux_dict``. Plain functions of NDArrays can be checked as well; they need no names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from ..core.base.devices import Context
from ..core.base.dtypes import as_array_dtype
from ..core.base.errors import MXNetError
from ..ndarray import NDArray, array
from .comparison import Tolerance, assert_almost_equal, default_numeric_eps
from .surroundings import default_context

__all__ = ["check_numeric_gradient", "check_symbolic_backward", "check_symbolic_forward", "numeric_grad"]

Array: TypeAlias = "np.ndarray[Any, Any]"
Location: TypeAlias = "Sequence[Any] | Mapping[str, Any]"


def _as_numpy(value: Any, dtype: Any) -> Array:
    return np.array(value.asnumpy() if isinstance(value, NDArray) else value, dtype=dtype)


def _by_name(values: Location | None, names: Sequence[str], dtype: Any) -> dict[str, Array]:
    """Return the values by name, in the order of the names."""
    if isinstance(values, Mapping):
        if set(values) != set(names):
            raise ValueError(f"the arguments are {', '.join(names)}, but values were given for {', '.join(values)}")
        return {name: _as_numpy(values[name], dtype) for name in names}
    given = [] if values is None else list(values)
    if len(given) != len(names):
        raise ValueError(f"the arguments are {', '.join(names) or 'none'}, but {len(given)} values were given")
    return {name: _as_numpy(value, dtype) for name, value in zip(names, given)}


def _require_symbol(sym: Any, caller: str) -> None:
    if not hasattr(sym, "bind") or not hasattr(sym, "list_arguments"):
        raise MXNetError(
            f"{caller} needs a Symbol with bind(), and got {type(sym).__name__}; check_numeric_gradient and "
            "numeric_grad also take plain functions of NDArrays."
        )


def _arrays(outputs: Any) -> list[NDArray]:
    return list(outputs) if isinstance(outputs, list | tuple) else [outputs]


def _bind(
    sym: Any,
    location: dict[str, Array],
    aux_states: Location | None,
    grad_req: Any,
    ctx: Context | None,
    dtype: Any,
) -> Any:
    """Bind copies of the values, with a gradient array of zeros for every argument."""
    place = default_context() if ctx is None else ctx

    def to_arrays(values: dict[str, Array]) -> dict[str, NDArray]:
        return {name: array(value, ctx=place, dtype=value.dtype) for name, value in values.items()}

    auxiliary = _by_name(aux_states, sym.list_auxiliary_states() if aux_states is not None else [], dtype)
    gradients = {name: np.zeros_like(value) for name, value in location.items()}
    return sym.bind(
        place,
        args=to_arrays(location),
        args_grad=to_arrays(gradients),
        grad_req=grad_req,
        aux_states=to_arrays(auxiliary),
    )


def _differences(evaluate: Callable[[], float], values: Sequence[Array], eps: float) -> list[Array]:
    """Return the central differences of a function with respect to every element of its arrays."""
    results = []
    for value in values:
        result = np.zeros_like(value)
        for index in np.ndindex(value.shape):
            middle = value[index]
            value[index] = middle + eps / 2
            above, right = evaluate(), float(value[index])
            value[index] = middle - eps / 2
            below, left = evaluate(), float(value[index])
            value[index] = middle
            # Divide by the actual step, which rounding may have changed.
            result[index] = (above - below) / (right - left)
        results.append(result)
    return results


def numeric_grad(
    executor: Any,
    location: Location,
    aux_states: Location | None = None,
    eps: float = 1e-4,
    use_forward_train: bool = True,
    dtype: Any = np.float32,
) -> Any:
    """Return the gradient of the sum of all outputs by central differences.

    Parameters
    ----------
    executor
        A function of NDArrays that returns one or more of them, or a bound executor.
    location
        The values of the arguments: a list, or a dictionary by name. The result has the same form.
    aux_states
        The values of auxiliary states, for an executor that has them.
    eps
        The distance between the two points of a difference.
    use_forward_train
        Whether to run in training mode.
    dtype
        The data type of the computation. float64 makes the differences far more exact.

    >>> numeric_grad(lambda x: x * x, [np.array([1.0, 3.0])], eps=2**-10, dtype=np.float64)
    [array([2., 6.])]
    """
    named = isinstance(location, Mapping)
    if hasattr(executor, "arg_dict"):
        values = _by_name(location, list(executor.arg_dict), dtype)
        for name, value in _by_name(
            aux_states, list(executor.aux_dict) if aux_states is not None else [], dtype
        ).items():
            executor.aux_dict[name][:] = value
        evaluate = _executor_sum(executor, values, use_forward_train, None)
    elif callable(executor):
        items = location.items() if isinstance(location, Mapping) else enumerate(location)
        values = {key: _as_numpy(value, dtype) for key, value in items}  # type: ignore[misc]
        evaluate = _function_sum(executor, values, named, use_forward_train, None)
    else:
        raise MXNetError(f"numeric_grad needs a function of NDArrays or a bound executor, not {executor!r}")
    results = _differences(evaluate, list(values.values()), eps)
    return dict(zip(values, results)) if named or hasattr(executor, "arg_dict") else results


def _weighted_sum(outputs: Any, weights: list[Array] | None) -> float:
    values = [output.asnumpy().astype(np.float64) for output in _arrays(outputs)]
    if weights is None:
        return float(sum(value.sum() for value in values))
    return float(sum((value * weight).sum() for value, weight in zip(values, weights)))


def _call(function: Callable[..., Any], arrays: Mapping[Any, NDArray], named: bool) -> Any:
    return function(**arrays) if named else function(*arrays.values())


def _function_sum(
    function: Callable[..., Any], values: Mapping[Any, Array], named: bool, train: bool, weights: list[Array] | None
) -> Callable[[], float]:
    from .. import autograd

    def evaluate() -> float:
        arrays = {key: array(value, dtype=value.dtype) for key, value in values.items()}
        with autograd.pause(train_mode=train):
            return _weighted_sum(_call(function, arrays, named), weights)

    return evaluate


def _executor_sum(
    executor: Any, values: Mapping[str, Array], train: bool, weights: list[Array] | None
) -> Callable[[], float]:
    def evaluate() -> float:
        for name, value in values.items():
            executor.arg_dict[name][:] = value
        executor.forward(is_train=train)
        return _weighted_sum(executor.outputs, weights)

    return evaluate


def check_numeric_gradient(
    sym: Any,
    location: Location,
    aux_states: Location | None = None,
    numeric_eps: float | None = None,
    rtol: Tolerance = None,
    atol: Tolerance = None,
    grad_nodes: Sequence[str] | Mapping[str, str] | None = None,
    use_forward_train: bool = True,
    ctx: Context | None = None,
    grad_stype_dict: Mapping[str, str] | None = None,
    dtype: Any = np.float32,
) -> None:
    """Raise unless backward agrees with central differences.

    The outputs are summed with random weights, so that errors in single outputs cannot cancel.

    Parameters
    ----------
    sym
        A function of NDArrays, or a Symbol.
    location
        The values of the arguments, as for :func:`numeric_grad`.
    aux_states
        The values of auxiliary states of a Symbol.
    numeric_eps
        The distance between the two points of a difference; by default one that suits `dtype`.
    rtol, atol
        The tolerances of the comparison.
    grad_nodes
        The arguments to check, by name (by position for a list of values); by default all.
    use_forward_train
        Whether to run in training mode.
    ctx
        The context to run a Symbol on.
    grad_stype_dict
        Storage types of gradients; they do not affect the values.
    dtype
        The data type of the computation: float16, float32 or float64.

    Raises
    ------
    AssertionError
        If a gradient differs; the message names the argument and the worst element.
    """
    assert as_array_dtype(dtype).kind == "f", "the data type of a gradient check must be float16, float32 or float64"
    step = default_numeric_eps()[as_array_dtype(dtype)] if numeric_eps is None else numeric_eps
    if callable(sym) and not hasattr(sym, "bind"):
        items = location.items() if isinstance(location, Mapping) else enumerate(location)
        values: dict[Any, Array] = {key: _as_numpy(value, dtype) for key, value in items}
        gradients, evaluate = _function_backward(sym, values, isinstance(location, Mapping), use_forward_train)
    else:
        _require_symbol(sym, "check_numeric_gradient")
        values = dict(_by_name(location, sym.list_arguments(), dtype))
        executor = _bind(sym, values, aux_states, "write", ctx, dtype)
        executor.forward(is_train=True)
        weights = [_weights(output) for output in executor.outputs]
        executor.backward([array(weight, dtype=weight.dtype) for weight in weights])
        gradients = {name: executor.grad_dict[name].asnumpy() for name in values}
        evaluate = _executor_sum(executor, values, use_forward_train, weights)
    checked = list(values) if grad_nodes is None else list(grad_nodes)
    for key in checked:
        (expected,) = _differences(evaluate, [values[key]], step)
        names = (f"numeric gradient of {key!r}", f"backward gradient of {key!r}")
        assert_almost_equal(expected, gradients[key], rtol, atol, names)


def _weights(output: NDArray) -> Array:
    """Return random weights away from zero in the shape and type of an output."""
    return np.asarray(np.random.uniform(0.1, 1.1, output.shape)).astype(output.dtype)


def _function_backward(
    function: Callable[..., Any], values: Mapping[Any, Array], named: bool, train: bool
) -> tuple[dict[Any, Array], Callable[[], float]]:
    """Return the gradients of a randomly weighted sum of the outputs, and a function that computes the sum."""
    from .. import autograd

    arrays = {key: array(value, dtype=value.dtype) for key, value in values.items()}
    buffers = {key: array(np.zeros_like(value), dtype=value.dtype) for key, value in values.items()}
    autograd.mark_variables(list(arrays.values()), list(buffers.values()))
    with autograd.record(train_mode=train):
        outputs = _arrays(_call(function, arrays, named))
    weights = [_weights(output) for output in outputs]
    autograd.backward(outputs, [array(weight, dtype=weight.dtype) for weight in weights], train_mode=train)
    gradients = {key: buffer.asnumpy() for key, buffer in buffers.items()}
    return gradients, _function_sum(function, values, named, train, weights)


def check_symbolic_forward(
    sym: Any,
    location: Location,
    expected: Location,
    rtol: Tolerance = None,
    atol: Tolerance = None,
    aux_states: Location | None = None,
    ctx: Context | None = None,
    equal_nan: bool = False,
    dtype: Any = np.float32,
) -> list[NDArray]:
    """Check the outputs of a Symbol against `expected` and return them.

    Parameters
    ----------
    sym
        The Symbol.
    location, aux_states
        The values of its arguments and auxiliary states: lists, or dictionaries by name.
    expected
        The expected outputs: a list, or a dictionary by output name.
    """
    _require_symbol(sym, "check_symbolic_forward")
    executor = _bind(sym, _by_name(location, sym.list_arguments(), dtype), aux_states, "null", ctx, dtype)
    wanted = [expected[name] for name in sym.list_outputs()] if isinstance(expected, Mapping) else list(expected)
    executor.forward(is_train=False)
    outputs = list(executor.outputs)
    assert len(outputs) == len(wanted), f"{len(outputs)} outputs, but {len(wanted)} were expected"
    for name, output, value in zip(sym.list_outputs(), outputs, wanted):
        assert_almost_equal(value, output, rtol, atol, (f"expected {name}", f"forward {name}"), equal_nan)
    return outputs


def check_symbolic_backward(
    sym: Any,
    location: Location,
    out_grads: Location | NDArray | None,
    expected: Location,
    rtol: Tolerance = None,
    atol: Tolerance = None,
    aux_states: Location | None = None,
    grad_req: str | Sequence[str] | Mapping[str, str] = "write",
    ctx: Context | None = None,
    grad_stypes: Any = None,
    equal_nan: bool = False,
    dtype: Any = np.float32,
) -> dict[str, NDArray]:
    """Check the gradients of a Symbol against `expected` and return them by argument name.

    Gradient arrays start with random numbers: ``'write'`` must replace them, ``'add'`` must add to them and ``'null'``
    must not change them.
    """
    _require_symbol(sym, "check_symbolic_backward")
    names = list(sym.list_arguments())
    values = _by_name(location, names, dtype)
    wanted = dict(expected) if isinstance(expected, Mapping) else dict(zip(names, expected))
    if isinstance(grad_req, str):
        requests = dict.fromkeys(names, grad_req)
    else:
        requests = dict(grad_req) if isinstance(grad_req, Mapping) else dict(zip(names, grad_req))
    executor = _bind(sym, values, aux_states, requests, ctx, dtype)
    start = {name: np.asarray(np.random.normal(size=value.shape)).astype(dtype) for name, value in values.items()}
    for name, value in start.items():
        executor.grad_dict[name][:] = value
    executor.forward(is_train=True)
    if isinstance(out_grads, Mapping):
        out_grads = [out_grads[name] for name in sym.list_outputs()]
    if out_grads is not None:
        heads = [out_grads] if isinstance(out_grads, NDArray | np.ndarray) else list(out_grads)
        out_grads = [array(_as_numpy(head, dtype), dtype=dtype) for head in heads]
    executor.backward(out_grads)
    for name, value in wanted.items():
        request = requests.get(name, "null")
        if request == "null":
            target = start[name]
        else:
            target = _as_numpy(value, dtype) + (start[name] if request == "add" else 0)
        labels = (f"expected gradient of {name}", f"backward gradient of {name}")
        assert_almost_equal(target, executor.grad_dict[name], rtol, atol, labels, equal_nan)
    return {name: executor.grad_dict[name] for name in names}
