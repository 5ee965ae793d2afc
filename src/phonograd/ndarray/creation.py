"""Making arrays: from values, filled, and counting. Filled arrays are expressions; they take no memory until read."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..context import CPU, Context, as_context
from ..dtypes import as_dtype
from ..errors import MXNetError
from ..operator import REGISTRY
from ..operators.structural import full as _full
from ..trace import LOCAL, ready_trace
from .array import NDArray, concrete
from .call import invoke, settled, write
from .handle import enter, make

__all__ = ["arange", "array", "empty", "eye", "from_numpy", "full", "linspace", "ones", "zeros"]


def array(source_array: Any, ctx: Context | None = None, dtype: Any = None) -> NDArray:
    """Return an array with the given values; float32 unless ``dtype`` says otherwise or an NDArray is given.

    >>> array([1, 2, 3])
    <BLANKLINE>
    [1. 2. 3.]
    <NDArray 3 @cpu(0)>
    """
    if isinstance(source_array, NDArray):
        target = source_array._dtype if dtype is None else as_dtype(dtype)
        moved = source_array if ctx is None else source_array.as_in_context(ctx)
        return moved.astype(target) if moved is source_array else moved.astype(target, copy=False)
    target = as_dtype(dtype)
    context = as_context(ctx)
    try:
        values = np.array(source_array)
        if values.dtype.kind not in "biuf":
            values = np.array(source_array, dtype=target)
    except (TypeError, ValueError):
        raise TypeError("source_array must be array like object") from None
    with np.errstate(all="ignore"):
        return concrete(np.ascontiguousarray(values.astype(target)).reshape(values.shape), context)


def _filled(shape: Any, value: Any, ctx: Context | None, dtype: Any, out: Any = None) -> NDArray:
    extents = (int(shape),) if isinstance(shape, (int, np.integer)) else tuple([int(extent) for extent in shape])
    if any(extent < 0 for extent in extents):
        raise MXNetError(f"Shape cannot contain negative values: {extents}")
    trace = ready_trace()
    if isinstance(out, NDArray) and dtype is None:
        dtype = out._dtype
    node = _full(extents, value, as_dtype(dtype), as_context(ctx))
    if out is not None:
        return write(out, node)  # type: ignore[no-any-return]
    return make(node, trace)  # type: ignore[no-any-return]


def _dense(stype: Any) -> None:
    if stype not in (None, "default"):
        raise MXNetError(f"storage type {stype!r} is not available: arrays are dense here; use 'default'")


def zeros(shape: Any, ctx: Context | None = None, dtype: Any = None, stype: Any = None, **kwargs: Any) -> NDArray:
    """Return an array of zeros."""
    _dense(stype)
    return _filled(shape, 0, ctx, dtype, kwargs.get("out"))


def ones(shape: Any, ctx: Context | None = None, dtype: Any = None, **kwargs: Any) -> NDArray:
    """Return an array of ones."""
    return _filled(shape, 1, ctx, dtype, kwargs.get("out"))


def full(shape: Any, val: Any, ctx: Context | None = None, dtype: Any = None, out: Any = None) -> NDArray:
    """Return an array filled with a number."""
    return _filled(shape, val, ctx, dtype, out)


def empty(shape: Any, ctx: Context | None = None, dtype: Any = None, stype: Any = None) -> NDArray:
    """Return an array whose values are to be overwritten; here they are zeros."""
    _dense(stype)
    return _filled(shape, 0, ctx, dtype)


def arange(
    start: float,
    stop: float | None = None,
    step: float = 1.0,
    repeat: int = 1,
    infer_range: bool | None = None,
    ctx: Context | None = None,
    dtype: Any = np.float32,
) -> NDArray:
    """Return evenly spaced numbers from ``start`` (0 if only one bound is given) up to but without ``stop``."""
    first, last = (0, start) if stop is None else (start, stop)
    given = {"start": first, "stop": last, "step": step, "repeat": repeat, "dtype": dtype}
    return _counted("_arange", given, ctx)


def linspace(
    start: float,
    stop: float,
    num: int,
    endpoint: bool = True,
    ctx: Context | None = None,
    dtype: Any = np.float32,
) -> NDArray:
    """Return ``num`` evenly spaced numbers between two bounds."""
    given = {"start": start, "stop": stop, "num": num, "endpoint": endpoint, "dtype": dtype}
    return _counted("_linspace", given, ctx)


def eye(N: int, M: int = 0, k: int = 0, ctx: Context | None = None, dtype: Any = None, **kwargs: Any) -> NDArray:  # noqa: N803 - MXNet's names
    """Return a matrix with ones on a diagonal and zeros elsewhere."""
    return _counted("_eye", {"N": N, "M": M, "k": k, "dtype": dtype or "float32"}, ctx, kwargs.get("out"))


def _counted(name: str, given: dict[str, Any], ctx: Context | None, out: Any = None) -> NDArray:
    declared = REGISTRY[name]
    names = [parameter.name for parameter in declared.parameters]
    values = tuple([given.get(n, p.default) for n, p in zip(names, declared.parameters, strict=True)])
    return invoke(declared, (), values, out, {"ctx": as_context(ctx)})  # type: ignore[no-any-return]


def from_numpy(ndarray: Any, zero_copy: bool = True, array_cls: Any = NDArray) -> NDArray:
    """Return an array of a NumPy array's values and dtype.

    With ``zero_copy`` the memory is shared until either side changes: the NumPy array becomes read-only, and a change
    of the result gives it memory of its own.
    """
    if not isinstance(ndarray, np.ndarray):
        raise TypeError(f"from_numpy takes a NumPy array, not {type(ndarray)}")
    as_dtype(ndarray.dtype)
    if not zero_copy:
        return concrete(np.array(ndarray, order="C"), CPU)
    if not ndarray.flags["C_CONTIGUOUS"]:
        raise ValueError("Only c-contiguous arrays are supported for zero-copy")
    ndarray.flags["WRITEABLE"] = False
    return concrete(ndarray, CPU)


def moveaxis(tensor: NDArray, source: Any, destination: Any) -> NDArray:
    """Return the array with axes moved to other places."""
    axes = [source] if isinstance(source, int) else list(source)
    places = [destination] if isinstance(destination, int) else list(destination)
    if len(axes) != len(places):
        raise ValueError("`source` and `destination` arguments must have the same number of elements")
    ndim = tensor.ndim
    for axis in (*axes, *places):
        if not -ndim <= axis < ndim:
            raise ValueError(f"axis {axis} is out of range for an array with {ndim} axes")
    axes, places = [a % ndim for a in axes], [p % ndim for p in places]
    order = [axis for axis in range(ndim) if axis not in axes]
    for place, axis in sorted(zip(places, axes, strict=True)):
        order.insert(place, axis)
    return tensor.transpose(tuple(order))


def concatenate(arrays: Any, axis: int = 0, always_copy: bool = True) -> NDArray:
    """Return arrays joined along an existing axis."""
    arrays = list(arrays)
    if not arrays:
        raise ValueError("concatenate needs at least one array")
    if len(arrays) == 1 and not always_copy:
        return arrays[0]  # type: ignore[no-any-return]
    trace = LOCAL.trace
    nodes = [enter(item, trace) for item in arrays]
    return make(settled(REGISTRY["Concat"](*nodes, dim=axis)), trace)  # type: ignore[no-any-return]
