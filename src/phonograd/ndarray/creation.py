"""Create arrays: from values, filled, and ranges. Filled arrays are expressions; they use no memory until read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.array import immediate
from ..core.array.binary import Numbers
from ..core.array.call import function_of, invoke, write
from ..core.array.handle import make_result, materialize_if_naive
from ..core.array.observed import LISTENERS, NamedAction, observe_call
from ..core.array.values import values_of
from ..core.base.devices import CPU, Context, as_context
from ..core.base.dtypes import DType, as_dtype
from ..core.base.errors import MXNetError, TooLarge, nearest
from ..core.graph.node import Shape
from ..core.graph.operator import REGISTRY
from ..core.graph.parameters import REQUIRED, Parameter
from ..core.ops.math.structural import full as _full
from ..core.trace.trace import ready_trace
from .array import NDArray, concrete

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

__all__ = [
    "arange",
    "array",
    "concatenate",
    "empty",
    "eye",
    "from_numpy",
    "full",
    "linspace",
    "moveaxis",
    "ones",
    "zeros",
]

_SHAPE = Parameter("shape", "Shape", REQUIRED)


def array(source_array: Any, ctx: Context | None = None, dtype: DTypeLike | None = None) -> NDArray:
    """Return an array with the given values; float32 unless ``dtype`` is given or the source is an NDArray.

    Parameters
    ----------
    source_array
        Numbers, nested lists of equal length, a NumPy array, an NDArray, or a csr matrix of SciPy.
    ctx
        The device of the result; by default the current one.
    dtype
        The dtype of the result.

    Examples
    --------
    >>> array([1, 2, 3])
    <BLANKLINE>
    [1. 2. 3.]
    <NDArray 3 @cpu(0)>
    """
    if isinstance(source_array, NDArray):
        target = source_array._dtype if dtype is None else as_dtype(dtype)
        moved = source_array if ctx is None else source_array.as_in_context(ctx)
        return moved.astype(target) if moved is source_array else moved.astype(target, copy=False)
    if getattr(source_array, "format", None) == "csr":
        # imported late: it depends on this module
        from .sparse import array as sparse_array

        return sparse_array(source_array, ctx, dtype)
    target = as_dtype(dtype)
    context = as_context(ctx)
    return concrete(values_of(source_array, target), context)


def _fill(
    name: str,
    shape: int | Sequence[int],
    value: Any,
    ctx: Context | None,
    dtype: Any,
    options: dict[str, Any] | None = None,
) -> NDArray:
    """Return an array filled with a number; ``options`` are the public function's extra keywords."""
    options = options or {}
    out = options.pop("out", None)
    for unknown in options:
        if unknown != "name":
            known = ["shape", "ctx", "dtype", "out"]
            raise MXNetError(
                f"Cannot find argument '{unknown}', Possible Arguments: {', '.join(known)}, in operator "
                f'{name}(name=""){nearest(unknown, known)}'
            )
    # read as a text, which refuses what is no integer, as MXNet does
    extents: tuple[int, ...] = _SHAPE.accept(str(shape) if isinstance(shape, float) else shape, name)
    if any([extent < 0 for extent in extents]):
        raise MXNetError(f"Shape cannot contain negative values: {extents}, in operator {name}")
    if isinstance(out, NDArray) and dtype is None:
        dtype = out._dtype
    arguments = extents, value, as_dtype(dtype), as_context(ctx), out
    try:
        if LISTENERS:
            return observe_call(NamedAction(name), (), None, (), _make_filled, arguments)  # type: ignore[no-any-return]
        return _make_filled(*arguments)
    except TooLarge as error:
        raise error.inside(name) from None


def _make_filled(shape: Shape, value: Any, dtype: DType, context: Context, out: Any) -> NDArray:
    trace = ready_trace()
    if trace.is_immediate and out is None and context is CPU and immediate.is_possible(trace):
        made = immediate.fill(shape, value, dtype, NDArray, trace)
        if made is not None:
            return made  # type: ignore[no-any-return]
    node = _full(shape, value, dtype, context)
    if out is not None:
        return materialize_if_naive(write(out, node, trace))  # type: ignore[no-any-return]
    return make_result(node, trace)  # type: ignore[no-any-return]


def zeros(
    shape: int | Sequence[int],
    ctx: Context | None = None,
    dtype: DTypeLike | None = None,
    stype: str | None = None,
    **kwargs: Any,
) -> NDArray:
    """Return an array of zeros; ``stype`` may be 'csr' or 'row_sparse'.

    Parameters
    ----------
    shape
        The extents of the result, or one extent.
    ctx
        The device of the result; by default the current one.
    dtype
        The dtype of the result; float32 by default.
    stype
        The storage: None, 'default', 'csr' or 'row_sparse'.
    **kwargs
        ``out``, an array that receives the result, and ``name``, which arrays ignore.

    Examples
    --------
    >>> mx.nd.zeros((2, 3), dtype="int32").asnumpy()
    array([[0, 0, 0],
           [0, 0, 0]], dtype=int32)
    """
    if stype not in (None, "default"):
        from .sparse import zeros as sparse_zeros

        return sparse_zeros(stype, shape, ctx, dtype, **kwargs)
    if ctx is None and dtype is None and not kwargs:
        plain: NDArray | None = immediate.fill_plainly(shape, 0, NDArray)
        if plain is not None:
            return plain
    return _fill("_zeros", shape, 0, ctx, dtype, kwargs)


def ones(
    shape: int | Sequence[int], ctx: Context | None = None, dtype: DTypeLike | None = None, **kwargs: Any
) -> NDArray:
    """Return an array of ones.

    Parameters
    ----------
    shape
        The extents of the result, or one extent.
    ctx
        The device of the result; by default the current one.
    dtype
        The dtype of the result; float32 by default.
    **kwargs
        ``out``, an array that receives the result, and ``name``, which arrays ignore.

    Examples
    --------
    >>> mx.nd.ones(3).asnumpy()
    array([1., 1., 1.], dtype=float32)
    """
    if ctx is None and dtype is None and not kwargs:
        plain: NDArray | None = immediate.fill_plainly(shape, 1, NDArray)
        if plain is not None:
            return plain
    return _fill("_ones", shape, 1, ctx, dtype, kwargs)


def full(
    shape: int | Sequence[int],
    val: float | np.generic | NDArray,
    ctx: Context | None = None,
    dtype: DTypeLike | None = np.float32,
    out: NDArray | None = None,
) -> NDArray:
    """Return an array filled with a number or with an array that broadcasts to the shape.

    With ``out``, the values are written there in its dtype.

    Parameters
    ----------
    shape
        The extents of the result, or one extent.
    val
        The number, or an array that broadcasts to the shape.
    ctx
        The device of the result; by default the current one.
    dtype
        The dtype of the result.
    out
        An array that receives the result.

    Examples
    --------
    >>> mx.nd.full((2, 2), 7).asnumpy()
    array([[7., 7.],
           [7., 7.]], dtype=float32)
    """
    if isinstance(val, Numbers):
        return _fill("_full", shape, val, ctx, dtype if out is None else None, {"out": out})
    target = _fill("_full", shape, 0, ctx, dtype) if out is None else out
    target[:] = val
    return target


def empty(
    shape: int | Sequence[int], ctx: Context | None = None, dtype: DTypeLike | None = None, stype: str | None = None
) -> NDArray:
    """Return an uninitialized array; here its values are zeros.

    Parameters
    ----------
    shape
        The extents of the result, or one extent.
    ctx
        The device of the result; by default the current one.
    dtype
        The dtype of the result; float32 by default.
    stype
        The storage: None, 'default', 'csr' or 'row_sparse'.

    Examples
    --------
    >>> mx.nd.empty((2, 3)).shape
    (2, 3)
    """
    return zeros(shape, ctx, dtype, stype)


def arange(
    start: float,
    stop: float | None = None,
    step: float = 1.0,
    repeat: int = 1,
    infer_range: bool | None = None,
    ctx: Context | None = None,
    dtype: DTypeLike | None = np.float32,
) -> NDArray:
    """Return evenly spaced numbers from ``start`` (0 if only one bound is given) up to but excluding ``stop``.

    Parameters
    ----------
    start
        The first number; the excluded end if `stop` is None.
    stop
        The end, which is excluded.
    step
        The distance of two numbers.
    repeat
        How often each number occurs.
    infer_range
        Has no effect, as in MXNet.
    ctx
        The device of the result; by default the current one.
    dtype
        The dtype of the result.

    Examples
    --------
    >>> mx.nd.arange(2, 6, step=2, repeat=2).asnumpy()
    array([2., 2., 4., 4.], dtype=float32)
    """
    given = {"start": start, "stop": stop, "step": step, "repeat": repeat, "dtype": dtype}
    return _call_creation("_arange", given, ctx)


def linspace(
    start: float,
    stop: float,
    num: int,
    endpoint: bool = True,
    ctx: Context | None = None,
    dtype: DTypeLike | None = np.float32,
) -> NDArray:
    """Return ``num`` evenly spaced numbers between two bounds.

    Parameters
    ----------
    start
        The first number.
    stop
        The last number, or the excluded end without `endpoint`.
    num
        How many numbers.
    endpoint
        Whether `stop` is the last number.
    ctx
        The device of the result; by default the current one.
    dtype
        The dtype of the result.

    Examples
    --------
    >>> mx.nd.linspace(0, 1, 5).asnumpy()
    array([0.  , 0.25, 0.5 , 0.75, 1.  ], dtype=float32)
    """
    given = {"start": start, "stop": stop, "num": num, "endpoint": endpoint, "dtype": dtype}
    return _call_creation("_linspace", given, ctx)


def eye(
    N: int, M: int = 0, k: int = 0, ctx: Context | None = None, dtype: DTypeLike | None = None, **kwargs: Any
) -> NDArray:
    """Return a matrix with ones on a diagonal and zeros elsewhere.

    Parameters
    ----------
    N
        The number of rows.
    M
        The number of columns; 0 for as many as rows.
    k
        The diagonal: above the main one if positive, below if negative.
    ctx
        The device of the result; by default the current one.
    dtype
        The dtype of the result; float32 by default.
    **kwargs
        ``out``, an array that receives the result, and ``name``, which arrays ignore.

    Examples
    --------
    >>> mx.nd.eye(2, 3, k=1).asnumpy()
    array([[0., 1., 0.],
           [0., 0., 1.]], dtype=float32)
    """
    return _call_creation("_eye", {"N": N, "M": M, "k": k, "dtype": dtype or "float32"}, ctx, kwargs)


def _call_creation(
    name: str, given: dict[str, Any], ctx: Context | None, options: dict[str, Any] | None = None
) -> NDArray:
    declared = REGISTRY[name]
    options = options or {}
    out = options.pop("out", None)
    values = tuple([given.get(parameter.name, parameter.default) for parameter in declared.parameters])
    return invoke(declared, (), values, out, {**options, "ctx": as_context(ctx)})  # type: ignore[no-any-return]


def from_numpy(ndarray: np.ndarray[Any, Any], zero_copy: bool = True, array_cls: Any = NDArray) -> NDArray:
    """Create an array with the values and dtype of a NumPy array.

    With ``zero_copy`` no memory is copied. The NumPy array becomes read-only, as in MXNet, because pending operators
    still read it.

    Parameters
    ----------
    ndarray
        The NumPy array.
    zero_copy
        Whether both share memory.
    array_cls
        The class of the result; :class:`NDArray` is the only one.

    Compatibility
    -------------
    A write to the result gives it its own memory; in MXNet the write shows in the NumPy array. To share writable
    memory, use DLPack: ``nd.from_dlpack(a)``.

    Examples
    --------
    >>> import numpy
    >>> mx.nd.from_numpy(numpy.array([1, 2], numpy.int8)).dtype
    <class 'numpy.int8'>
    """
    if not isinstance(ndarray, np.ndarray):
        raise TypeError(f"from_numpy takes a NumPy array, not {type(ndarray)}")
    try:
        native = as_dtype(ndarray.dtype)
    except KeyError:
        raise ValueError(f"{ndarray.dtype} is not supported.") from None
    if not zero_copy:
        return concrete(np.array(ndarray, native, order="C"), CPU)
    if not ndarray.flags["C_CONTIGUOUS"]:
        raise ValueError("Only c-contiguous arrays are supported for zero-copy")
    if ndarray.dtype != native:
        raise ValueError(f"zero-copy needs native byte order, not {ndarray.dtype.str}")
    ndarray.flags["WRITEABLE"] = False
    return concrete(ndarray.view(np.ndarray), CPU)


def moveaxis(tensor: NDArray, source: int | Sequence[int], destination: int | Sequence[int]) -> NDArray:
    """Return the array with axes moved to other positions.

    Parameters
    ----------
    tensor
        The array.
    source
        The axis, or axes, to move.
    destination
        The new position of each.

    Examples
    --------
    >>> mx.nd.moveaxis(mx.nd.ones((2, 3, 4)), 0, -1).shape
    (3, 4, 2)
    """
    ndim = tensor.ndim
    axes = _real_axes(source, ndim, "Source")
    places = _real_axes(destination, ndim, "Destination")
    if len(axes) != len(places):
        raise ValueError("`source` and `destination` arguments must have the same number of elements")
    order = [axis for axis in range(ndim) if axis not in axes]
    for place, axis in sorted(zip(places, axes, strict=True)):
        order.insert(place, axis)
    return tensor.transpose(tuple(order))


def _real_axes(given: Any, ndim: int, what: str) -> list[int]:
    axes = [given] if isinstance(given, (int, np.integer)) else list(given)
    for axis in axes:
        if not -ndim <= axis < ndim:
            raise ValueError(f"{what} should verify 0 <= {what.lower()} < tensor.ndim ({ndim}). Got {axis}")
    real = [int(axis) % ndim for axis in axes]
    if len(set(real)) != len(real):
        raise ValueError("repeated axis")
    return real


def concatenate(arrays: Sequence[NDArray], axis: int = 0, always_copy: bool = True) -> NDArray:
    """Join arrays along an existing axis.

    With ``always_copy=False``, a single array is returned itself.

    Parameters
    ----------
    arrays
        A list of arrays with equal extents on the other axes.
    axis
        The axis along which arrays are joined.
    always_copy
        Whether a list of one array gives a copy of it.

    Examples
    --------
    >>> mx.nd.concatenate([mx.nd.ones((2, 3)), mx.nd.zeros((1, 3))]).shape
    (3, 3)
    """
    if not isinstance(arrays, (list, tuple)) or not arrays:
        raise AssertionError(f"concatenate takes a list of at least one NDArray, not {arrays!r}")
    for item in arrays:
        if not isinstance(item, NDArray):
            raise AssertionError(f"concatenate takes a list of NDArrays, but it holds {type(item)}")
    if len(arrays) == 1 and not always_copy:
        return arrays[0]
    return function_of(REGISTRY["Concat"], "concat")(*arrays, dim=axis)  # type: ignore[no-any-return]
