"""Create arrays: from values, filled, and ranges. Numbers and lists become float32 unless a dtype is given."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.array.binary import Numbers
from ..core.array.handle import as_class, make_result, node_in
from ..core.array.values import made_by_numpy, values_of
from ..core.base.devices import Context, as_context
from ..core.base.dtypes import BFLOAT16, CODES, INT64, DType, as_array_dtype, as_dtype, convert, kind_of
from ..core.base.errors import MXNetError
from ..core.ops.math.broadcasting import broadcast
from ..core.ops.math.primitives import cast
from ..core.trace.trace import ready_trace
from ..ndarray import creation as nd_creation
from ..ndarray.array import NDArray, concrete
from .declaration import public
from .multiarray import ndarray

__all__ = ["arange", "array", "empty", "full", "ones", "zeros"]


def from_values(values: np.ndarray[Any, Any]) -> ndarray:
    """Convert a NumPy array to an mx.np array; an unsupported dtype becomes the nearest supported one."""
    dtype = as_array_dtype(values.dtype)
    if dtype == BFLOAT16:
        return new(np.array(convert(values, dtype), order="C"))
    if dtype not in CODES:
        if kind_of(dtype) not in "iu":
            raise ValueError(f"{dtype} is not supported.")
        dtype = INT64
    return new(np.array(values, dtype, order="C"))


def new(values: np.ndarray[Any, Any], ctx: Context | None = None) -> ndarray:
    """Return a new array with values that must not be written to afterwards."""
    made: ndarray = as_class(concrete(values, as_context(ctx)), ndarray)
    return made


@public()
def array(object: Any, dtype: Any = None, ctx: Context | None = None) -> ndarray:  # noqa: A002 - MXNet's name
    """Return an array with the given values; float32 unless ``dtype`` is given or the source is an array.

    >>> array([1, 2, 3])
    array([1., 2., 3.])
    """
    if isinstance(object, NDArray):
        made = nd_creation.array(object, ctx, dtype)
        return as_class(made, ndarray)  # type: ignore[no-any-return]
    if isinstance(object, (np.ndarray, np.generic)) and dtype is None:
        target = as_dtype(object.dtype)
    else:
        target = as_dtype(dtype)
    if isinstance(object, (list, tuple)) and _holds_arrays(object):
        return new(values_of(_plain(object), target), ctx)
    return new(values_of(object, target), ctx)


def _holds_arrays(source: Any) -> bool:
    return any(
        [isinstance(item, NDArray) or (isinstance(item, (list, tuple)) and _holds_arrays(item)) for item in source]
    )


def _plain(source: Any) -> Any:
    """Replace arrays in nested lists by their values."""
    if isinstance(source, NDArray):
        return source.asnumpy()
    return [_plain(item) for item in source] if isinstance(source, (list, tuple)) else source


def number(value: Any) -> Any:
    """Convert a 0-d array to a number; other values are returned unchanged."""
    return value.item() if isinstance(value, NDArray) and not value.shape else value


def _shape_of(shape: Any) -> tuple[int, ...]:
    if isinstance(shape, (int, np.integer)):
        return (int(shape),)
    return tuple([operator.index(extent) for extent in shape])


def _order(order: str) -> None:
    if order != "C":
        raise NotImplementedError(f"only supports C-order, while received {order}")


@public()
def zeros(shape: Any, dtype: Any = None, order: str = "C", ctx: Context | None = None) -> ndarray:
    """Return an array of zeros, float32 unless a dtype is given."""
    _order(order)
    return as_class(nd_creation.zeros(_shape_of(shape), ctx, dtype), ndarray)  # type: ignore[no-any-return]


@public()
def ones(shape: Any, dtype: Any = None, order: str = "C", ctx: Context | None = None) -> ndarray:
    """Return an array of ones, float32 unless a dtype is given."""
    _order(order)
    return as_class(nd_creation.ones(_shape_of(shape), ctx, dtype), ndarray)  # type: ignore[no-any-return]


@public()
def empty(shape: Any, dtype: Any = None, order: str = "C", ctx: Context | None = None) -> ndarray:
    """Return an uninitialized array; here its values are zeros."""
    return zeros(shape, dtype, order, ctx)


@public()
def full(
    shape: Any, fill_value: Any, dtype: Any = None, order: str = "C", ctx: Context | None = None, out: Any = None
) -> ndarray:
    """Return an array filled with a number or with an array that broadcasts to the shape."""
    _order(order)
    extents = _shape_of(shape)
    if isinstance(fill_value, Numbers):
        if dtype is None and isinstance(fill_value, (bool, np.bool_)):
            dtype = "bool"
        made = nd_creation.full(extents, fill_value, ctx, dtype or "float32", out)
        return made if out is not None else as_class(made, ndarray)  # type: ignore[return-value]
    source = fill_value if isinstance(fill_value, NDArray) else array(fill_value, ctx=ctx)
    trace = ready_trace()
    node = node_in(source, trace)
    target: DType = node.dtype if dtype is None else as_dtype(dtype)
    result: ndarray = make_result(broadcast(cast(node, target), extents), trace, ndarray)
    if out is None:
        return result
    out[...] = result
    return out  # type: ignore[no-any-return]


@public()
def arange(start: Any, stop: Any = None, step: Any = 1, dtype: Any = None, ctx: Context | None = None) -> ndarray:
    """Return evenly spaced numbers from ``start`` (0 if only one bound is given) up to but excluding ``stop``."""
    if stop is None:
        start, stop = 0, start
    start, stop, step = number(start), number(stop), 1 if step is None else number(step)
    if step == 0:
        raise ZeroDivisionError("division by zero")
    if (stop - start) / step <= 0:
        return zeros((0,), dtype, ctx=ctx)
    made = nd_creation.arange(start, stop, step, ctx=ctx, dtype=dtype or "float32")
    return as_class(made, ndarray)  # type: ignore[no-any-return]


@public(method="zeros_like")
def zeros_like(a: Any, dtype: Any = None, order: str = "C", ctx: Context | None = None, out: Any = None) -> Any:
    """Return zeros with the shape and dtype of an array."""
    return full_like(a, 0, dtype, order, ctx, out)


@public(method="ones_like")
def ones_like(a: Any, dtype: Any = None, order: str = "C", ctx: Context | None = None, out: Any = None) -> Any:
    """Return ones with the shape and dtype of an array."""
    return full_like(a, 1, dtype, order, ctx, out)


@public()
def empty_like(prototype: Any, dtype: Any = None, order: str = "C", subok: bool = False, shape: Any = None) -> Any:
    """Return an uninitialized array with the shape and dtype of another one; here its values are zeros."""
    return zeros(prototype.shape if shape is None else shape, dtype or prototype.dtype, order)


@public()
def full_like(
    a: Any, fill_value: Any, dtype: Any = None, order: str = "C", ctx: Context | None = None, out: Any = None
) -> Any:
    """Return an array with the shape and dtype of another one, filled with a number."""
    return full(a.shape, fill_value, dtype or a._dtype, order, ctx or a.context, out)


@public()
def copy(a: Any, out: Any = None) -> Any:
    """Return a copy. The copy is recorded, so gradients pass through it."""
    made = array(a) if not isinstance(a, NDArray) else a.copy()
    if out is None:
        return made
    out[...] = made
    return out


@public("asarray", "ascontiguousarray")
def asarray(a: Any, dtype: Any = None, ctx: Context | None = None) -> Any:
    """Convert to an mx.np array; one that is such an array already is returned unchanged."""
    if isinstance(a, ndarray) and (dtype is None or as_dtype(dtype) == a._dtype):
        return a
    return array(a, dtype, ctx)


@public()
def eye(N: int, M: int | None = None, k: int = 0, dtype: Any = None, **kwargs: Any) -> Any:  # noqa: N803 - MXNet's names
    """Return a matrix with ones on a diagonal and zeros elsewhere."""
    columns = N if M is None else M
    ctx = kwargs.pop("ctx", None)
    _order(kwargs.pop("order", "C"))
    if kwargs:
        raise TypeError(f"eye got an unexpected keyword argument {next(iter(kwargs))!r}")
    if N < 0 or columns < 0:
        raise MXNetError(f"negative dimensions are not allowed: ({N}, {columns})")
    if not N or not columns:
        return zeros((N, columns), dtype, ctx=ctx)
    return as_class(nd_creation.eye(N, columns, k, ctx, dtype), ndarray)


@public()
def identity(n: int, dtype: Any = None, ctx: Context | None = None) -> Any:
    """Return a square matrix with ones on its main diagonal."""
    return eye(n, dtype=dtype, ctx=ctx)


@public()
def linspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = None,
    axis: int = 0,
    ctx: Context | None = None,
) -> Any:
    """Return ``num`` evenly spaced numbers between two bounds, and with ``retstep`` also the step."""
    start, stop = number(start), number(stop)
    if isinstance(start, (list, np.ndarray, NDArray)) or isinstance(stop, (list, np.ndarray, NDArray)):
        raise NotImplementedError("start and stop only support int")
    if axis != 0:
        raise NotImplementedError("the function only support axis 0")
    count = operator.index(num)
    if count < 0:
        raise ValueError(f"Number of samples, {count}, must be non-negative.")
    made = nd_creation.linspace(start, stop, count, endpoint, ctx, dtype or "float32")
    found = as_class(made, ndarray)
    gaps = count - 1 if endpoint else count
    return (found, (stop - start) / gaps if gaps > 0 else float("nan")) if retstep else found


def _made(name: str, shape: Any, dtype: Any, make: Callable[[], Any], ctx: Context | None) -> Any:
    return new(made_by_numpy(name, shape, dtype, make), ctx)


@public()
def logspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    base: float = 10.0,
    dtype: Any = None,
    axis: int = 0,
    ctx: Context | None = None,
) -> Any:
    """Return ``num`` numbers between two powers of a base, evenly spaced on a logarithmic scale."""
    if axis != 0:
        raise NotImplementedError("the function only support axis 0")
    target = as_dtype(dtype)
    return _made("logspace", (num,), target, lambda: np.logspace(start, stop, num, endpoint, base).astype(target), ctx)


@public()
def geomspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, dtype: Any = None, ctx: Context | None = None
) -> Any:
    """Return ``num`` numbers in geometric progression between two bounds."""
    target = as_dtype(dtype)
    return _made("geomspace", (num,), target, lambda: np.geomspace(start, stop, num, endpoint).astype(target), ctx)


@public()
def indices(dimensions: Any, dtype: Any = None, ctx: Context | None = None) -> Any:
    """Return the coordinates of all elements of an array with a shape: one array per axis, int32 by default."""
    shape, target = _shape_of(dimensions), as_dtype(dtype or "int32")
    return _made("indices", (len(shape), *shape), target, lambda: np.indices(shape, target), ctx)


@public()
def tri(
    N: int,  # noqa: N803 - MXNet's names
    M: int | None = None,  # noqa: N803
    k: int = 0,
    dtype: Any = None,
    ctx: Context | None = None,
) -> Any:
    """Return a matrix with ones on and below a diagonal."""
    target = as_dtype(dtype)
    return _made("tri", (N, N if M is None else M), target, lambda: np.tri(N, M, k, target), ctx)


@public()
def meshgrid(*xi: Any, **kwargs: Any) -> list[Any]:
    """Return coordinate arrays from coordinate vectors; ``indexing`` is 'xy' or 'ij'."""
    indexing, sparse = kwargs.pop("indexing", "xy"), kwargs.pop("sparse", False)
    kwargs.pop("copy", None)
    if kwargs:
        raise TypeError(f"meshgrid() got an unexpected keyword argument {next(iter(kwargs))!r}")
    if indexing not in ("xy", "ij"):
        raise ValueError("Valid values for `indexing` are 'xy' and 'ij'.")
    count = len(xi)
    order = list(range(count))
    if indexing == "xy" and count > 1:
        order[:2] = [1, 0]
    shaped = [x.reshape([-1 if axis == order[number] else 1 for axis in range(count)]) for number, x in enumerate(xi)]
    if sparse:
        return shaped
    shape = np.broadcast_shapes(*[x.shape for x in shaped])
    return [x.broadcast_to(shape) for x in shaped]


def _window(name: str) -> Any:
    function = getattr(np, name)

    def body(M: int, dtype: Any = None, ctx: Context | None = None) -> Any:  # noqa: N803 - MXNet's name
        target = as_dtype(dtype)
        return _made(name, (int(M),), target, lambda: function(M).astype(target), ctx)

    body.__name__ = name
    body.__doc__ = f"Return the {name.capitalize()} window of ``M`` points."
    return public()(body)


blackman, hamming, hanning = _window("blackman"), _window("hamming"), _window("hanning")
