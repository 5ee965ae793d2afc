"""Functions of the nd namespace that are not operators: binary functions that accept numbers, and a few more."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.array.binary import Numbers, call_binary
from ..core.array.call import function_of
from ..core.array.handle import read
from ..core.array.values import naming_itself
from ..core.base.errors import unsupported_operand
from ..core.graph.operator import REGISTRY, Operator
from ..core.graph.signature import Type
from .array import NDArray, concrete
from .creation import array

__all__ = ["histogram", "matmul", "onehot_encode", "reset_arrays", "split_v2", "with_scalars"]


_SCALAR_TEXT = """{} Either operand may be a number.

Parameters
----------
{}
    The first operand.
{}
    The second operand; shapes broadcast.

Examples
--------
>>> mx.nd.{}(mx.nd.array([1.0, 4.0]), 2).asnumpy()
{!r}
"""


def with_scalars(declared: Operator) -> Callable[..., Any]:
    """Return a binary operator as a function whose operands may both be numbers."""
    word = declared.with_scalars
    on_numbers = declared.of_numbers
    assert word is not None
    assert on_numbers is not None
    own = getattr(operator, declared.python or "", None)
    method = f"_{word}" if f"_{word}" in vars(NDArray) else None

    def apply(lhs: Any, rhs: Any) -> Any:
        if isinstance(lhs, NDArray):
            if own is not None:
                # the method of the array, which is machine code, or a sparse array's own
                return own(lhs, rhs)
            if type(lhs) is NDArray:
                # machine code, once it is compiled
                if type(rhs) is NDArray:
                    return function_of(declared, declared.name)(lhs, rhs)
                if method is not None:
                    return getattr(lhs, method)(rhs)
            return call_binary(declared, lhs, rhs, NDArray)
        if isinstance(rhs, NDArray):
            return call_binary(declared, lhs, rhs, NDArray)
        if isinstance(lhs, Numbers) and isinstance(rhs, Numbers):
            return on_numbers(lhs, rhs)
        raise unsupported_operand(rhs if isinstance(lhs, Numbers) else lhs)

    def function(lhs: Any, rhs: Any) -> Any:
        return apply(lhs, rhs)

    def power(base: Any, exp: Any) -> Any:
        return apply(base, exp)

    chosen = power if word == "power" else function
    chosen.__name__ = chosen.__qualname__ = word
    chosen.__module__ = "phonograd.ndarray"
    names = list(chosen.__annotations__)[:2]
    chosen.__annotations__ = {name: Type("NDArray | float") for name in names} | {"return": Type("NDArray")}
    result = np.array([on_numbers(1.0, 2.0), on_numbers(4.0, 2.0)], np.float32)
    chosen.__doc__ = _SCALAR_TEXT.format((declared.__doc__ or "").splitlines()[0], *names, word, result)
    return chosen


def matmul(lhs: NDArray, rhs: NDArray) -> NDArray:
    """Return the matrix product ``lhs @ rhs`` of two matrices, stacks of matrices, or with a vector.

    Parameters
    ----------
    lhs
        The first operand: a vector, a matrix, or matrices in the last two axes.
    rhs
        The second operand; leading axes broadcast.

    Examples
    --------
    >>> mx.nd.matmul(mx.nd.ones((2, 3)), mx.nd.ones((5, 3, 4))).shape
    (5, 2, 4)
    """
    if not isinstance(lhs, NDArray) or not isinstance(rhs, NDArray):
        raise unsupported_operand(lhs if isinstance(rhs, NDArray) else rhs)
    if not lhs.shape or not rhs.shape:
        raise ValueError("matmul needs arrays with at least one axis; use * for numbers")
    if lhs.ndim <= 2 and rhs.ndim <= 2:
        return function_of(REGISTRY["dot"], "dot")(lhs, rhs)  # type: ignore[no-any-return]
    left = lhs.expand_dims(0) if lhs.ndim == 1 else lhs
    right = rhs.expand_dims(1) if rhs.ndim == 1 else rhs
    lead = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    rows, columns = left.shape[-2:-1] if lhs.ndim > 1 else (), right.shape[-1:] if rhs.ndim > 1 else ()
    left = left.broadcast_to((*lead, *left.shape[-2:])).reshape((-1, *left.shape[-2:]))
    right = right.broadcast_to((*lead, *right.shape[-2:])).reshape((-1, *right.shape[-2:]))
    product = function_of(REGISTRY["batch_dot"], "batch_dot")(left, right)
    return product.reshape((*lead, *rows, *columns))  # type: ignore[no-any-return]


def onehot_encode(indices: NDArray, out: NDArray) -> NDArray:
    """Write the one-hot encoding of indices into ``out`` and return it.

    Parameters
    ----------
    indices
        The index of the 1 in each row.
    out
        The matrix, one row for each index.

    Examples
    --------
    >>> mx.nd.onehot_encode(mx.nd.array([2, 0]), mx.nd.empty((2, 3))).asnumpy()
    array([[0., 0., 1.],
           [1., 0., 0.]], dtype=float32)
    """
    encoded = function_of(REGISTRY["one_hot"], "one_hot")(indices, depth=out.shape[1], dtype=out._dtype)
    out[:] = encoded
    return out


def split_v2(ary: NDArray, indices_or_sections: Any, axis: int = 0, squeeze_axis: bool = False) -> Any:
    """Split an array along an axis into equal sections, or at the given indices.

    Parameters
    ----------
    ary
        The array.
    indices_or_sections
        The number of equal sections, or the indices at which sections begin.
    axis
        The axis.
    squeeze_axis
        Whether to remove the axis from sections of extent 1.

    Examples
    --------
    >>> [part.shape for part in mx.nd.split_v2(mx.nd.ones((5, 2)), (1, 3))]
    [(1, 2), (2, 2), (2, 2)]
    """
    extent = ary.shape[axis]
    indices: tuple[int, ...] = (0,)
    sections = 0
    if isinstance(indices_or_sections, (int, np.integer)):
        sections = int(indices_or_sections)
        if sections <= 0 or extent % sections:
            raise ValueError("array split does not result in an equal division")
    elif isinstance(indices_or_sections, (tuple, list)):
        indices = (0, *indices_or_sections)
    else:
        raise ValueError("indices_or_sections must either int or tuple of ints")
    split = function_of(REGISTRY["_split_v2"], "_split_v2")
    return split(ary, indices=indices, axis=axis, squeeze_axis=squeeze_axis, sections=sections)


@naming_itself
def histogram(a: NDArray, bins: Any = 10, range: tuple[float, float] | None = None) -> list[NDArray]:
    """Return the number of elements in each bin, and the edges of the bins.

    Parameters
    ----------
    a
        The array; all of its elements count.
    bins
        The number of bins of equal width, or an array with their edges.
    range
        The outer edges; by default the smallest and the largest element.

    Examples
    --------
    >>> counts, edges = mx.nd.histogram(mx.nd.array([0, 1, 1, 4]), bins=2, range=(0, 4))
    >>> counts.asnumpy(), edges.asnumpy()
    (array([3, 1]), array([0., 2., 4.], dtype=float32))
    """
    values = read(a)
    if isinstance(bins, NDArray):
        counts, edges = np.histogram(values, read(bins))
        return [concrete(counts.astype(np.int64), a.context), bins]
    if not isinstance(bins, (int, np.integer)):
        raise ValueError("bins argument should be either an integer or an NDArray")
    counts, edges = np.histogram(values, int(bins), range)
    if range is None:
        return [array(counts, a.context), array(edges, a.context)]
    return [concrete(counts.astype(np.int64), a.context), array(edges, a.context)]


def reset_arrays(*data: NDArray, num_arrays: int | None = None) -> None:
    """Fill arrays with zeros, in place.

    Parameters
    ----------
    *data
        The arrays.
    num_arrays
        Their number, which MXNet needs.

    Examples
    --------
    >>> x = mx.nd.ones(2)
    >>> mx.nd.reset_arrays(x)
    >>> x.asnumpy()
    array([0., 0.], dtype=float32)
    """
    if num_arrays is not None and num_arrays != len(data):
        raise ValueError(f"reset_arrays got {len(data)} arrays, but num_arrays={num_arrays}")
    for one in data:
        one[:] = 0
