"""Check that a symbol computes the same with different dtypes, contexts and executors."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..core.base import settings
from ..core.base.devices import Context
from ..core.base.dtypes import as_array_dtype, name_of
from ..executor import Executor
from ..ndarray import NDArray, array
from ..symbol import Symbol
from .comparison import Tolerance, assert_almost_equal, default_atols, default_rtols
from .surroundings import default_context

__all__ = ["check_consistency", "simple_forward"]

_EXECUTORS = ("reference", "native")
_ORDER = ("float64", "float32", "float16", "int64", "int32", "int8", "uint8", "bool")


def simple_forward(sym: Symbol, ctx: Context | None = None, is_train: bool = False, **inputs: Any) -> Any:
    """Return the outputs of a symbol for NumPy arrays by name, as NumPy arrays; a single output is not in a list.

    >>> import phonograd as mx
    >>> simple_forward(mx.sym.var("x") * 2, x=np.array([1.0, 2.0]))
    array([2., 4.], dtype=float32)
    """
    place = ctx or default_context()
    bound = sym.bind(place, args={name: array(value, ctx=place) for name, value in inputs.items()})
    bound.forward(is_train=is_train)
    outputs = [output.asnumpy() for output in bound.outputs]
    return outputs[0] if len(outputs) == 1 else outputs


class _Place:
    """A symbol bound with given shapes, dtypes, context and executor."""

    def __init__(self, sym: Symbol, how: Mapping[str, Any], grad_req: Any) -> None:
        options = dict(how)
        self.executor_name: str = options.pop("executor", settings.current().executor)
        self.bound: Executor = sym.simple_bind(grad_req=grad_req, **options)
        self.names = sym.list_outputs()

    def load(self, arguments: Mapping[str, Any], states: Mapping[str, Any]) -> None:
        """Write values into arguments and auxiliary states, and zeros into gradients."""
        for values, arrays in ((arguments, self.bound.arg_dict), (states, self.bound.aux_dict)):
            for name, target in arrays.items():
                target[:] = np.asarray(values[name]).astype(target.dtype)
        for grad in self.bound.grad_arrays:
            if grad is not None:
                grad[:] = 0

    def run(self, train: bool, head_grads: Sequence[Any]) -> dict[str, Any]:
        """Return outputs and, in training, gradients by name."""
        with settings.override(executor=self.executor_name):
            self.bound.forward(is_train=train)
            found = dict(zip(self.names, [output.asnumpy() for output in self.bound.outputs], strict=True))
            if train:
                outputs = self.bound.outputs
                heads = [array(h, dtype=o.dtype, ctx=o.context) for h, o in zip(head_grads, outputs, strict=True)]
                self.bound.backward(heads)
                grads = {name: grad for name, grad in self.bound.grad_dict.items() if grad is not None}
                found.update({f"gradient of {name}": grad.asnumpy() for name, grad in grads.items()})
        return found

    @property
    def dtype(self) -> str:
        """The coarsest dtype of the outputs."""
        return max([name_of(output.dtype) for output in self.bound.outputs], key=_ORDER.index)


def _ways(ctx_list: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the ways to bind; a single one is repeated for each executor."""
    if len(ctx_list) == 1 and "executor" not in ctx_list[0]:
        return [{**ctx_list[0], "executor": name} for name in _EXECUTORS]
    return list(ctx_list)


def check_consistency(
    sym: Symbol | Sequence[Symbol],
    ctx_list: Sequence[Mapping[str, Any]],
    scale: float = 1.0,
    grad_req: Any = "write",
    arg_params: Mapping[str, Any] | None = None,
    aux_params: Mapping[str, Any] | None = None,
    rtol: Tolerance = None,
    atol: Tolerance = None,
    raise_on_err: bool = True,
    ground_truth: Mapping[str, Any] | None = None,
    equal_nan: bool = False,
    use_uniform: bool = False,
    rand_type: Any = np.float64,
) -> dict[str, Any]:
    """Check that all ways to compute agree; return the most exact outputs and gradients by name.

    Parameters
    ----------
    sym
        A symbol, or one per way to compute.
    ctx_list
        Ways to bind: dictionaries with the arguments of ``simple_bind`` (``ctx``, shapes by name, ``type_dict``) and,
        here, with ``executor``: ``"reference"`` or ``"native"``. A single way is computed by both executors.
    scale
        The standard deviation of random argument values.
    grad_req
        The gradient request.
    arg_params, aux_params
        Values by name; missing arguments are random, missing auxiliary states are zero.
    rtol, atol
        Tolerances; by default those of the coarser dtype in each comparison.
    raise_on_err
        Raise at the first difference; otherwise warn about each.
    ground_truth
        Expected outputs and gradients, instead of those of the most exact way.
    equal_nan
        Whether NaN equals NaN.
    use_uniform
        Draw values uniformly from [-scale, scale] instead of from a normal distribution.
    rand_type
        The dtype in which values are drawn.

    >>> import phonograd as mx
    >>> net = mx.sym.tanh(mx.sym.var("x"), name="t")
    >>> sorted(check_consistency(net, [{"ctx": mx.cpu(), "x": (2, 3)}]))
    ['gradient of x', 't_output']
    """
    ways = _ways(ctx_list)
    symbols = [sym] * len(ways) if isinstance(sym, Symbol) else list(sym)
    if len(symbols) != len(ways) or len(ways) < 2:
        raise ValueError(f"there are {len(symbols)} symbols for {len(ways)} ways to compute; at least two are needed")
    places = [_Place(symbol, how, grad_req) for symbol, how in zip(symbols, ways, strict=True)]
    for place in places[1:]:
        if place.names != places[0].names or list(place.bound.arg_dict) != list(places[0].bound.arg_dict):
            raise ValueError("the symbols have different arguments or outputs")
    first = places[0].bound
    values = _values(first.arg_dict, arg_params, scale, use_uniform, rand_type)
    states = {name: (aux_params or {}).get(name, np.zeros(state.shape)) for name, state in first.aux_dict.items()}
    heads = [_random(output.shape, scale, use_uniform, rand_type) for output in first.outputs]
    order = sorted(places, key=lambda place: _ORDER.index(place.dtype))
    truth = dict(ground_truth or {})
    for train in (False, True) if grad_req != "null" else (False,):
        expected: dict[str, Any] = {}
        for place in order:
            place.load(values, states)
            found = place.run(train, heads)
            expected = expected or {**found, **truth}
            _compare(found, expected, place, rtol, atol, equal_nan, raise_on_err)
        result = expected
    return result


def _random(shape: tuple[int, ...], scale: float, use_uniform: bool, dtype: Any) -> Any:
    if use_uniform:
        return np.random.uniform(-scale, scale, size=shape).astype(dtype)
    return np.random.normal(size=shape, scale=scale).astype(dtype)


def _values(
    arguments: Mapping[str, NDArray], given: Mapping[str, Any] | None, scale: float, use_uniform: bool, dtype: Any
) -> dict[str, Any]:
    values = {}
    for name, argument in arguments.items():
        value = (given or {}).get(name)
        if value is None:
            value = _random(argument.shape, scale, use_uniform, dtype)
        values[name] = value.asnumpy() if isinstance(value, NDArray) else value
    return values


def _compare(
    found: Mapping[str, Any],
    expected: Mapping[str, Any],
    place: _Place,
    rtol: Tolerance,
    atol: Tolerance,
    equal_nan: bool,
    raise_on_err: bool,
) -> None:
    coarse = as_array_dtype(place.dtype)
    relative = default_rtols()[coarse] if rtol is None else rtol
    absolute = default_atols()[coarse] if atol is None else atol
    for name, value in found.items():
        labels = (f"{name} by {place.executor_name} in {place.dtype}", "expected")
        try:
            assert_almost_equal(value, expected[name], relative, absolute, labels, equal_nan)
        except AssertionError as error:
            if raise_on_err:
                raise
            warnings.warn(str(error), stacklevel=3)
