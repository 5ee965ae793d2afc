"""Random arrays, shapes and coordinates for tests, from NumPy's global generator (``np.random.seed``)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np

from ..core.base.devices import Context
from ..core.base.errors import MXNetError
from ..ndarray import NDArray, array

__all__ = [
    "assign_each",
    "assign_each2",
    "collapse_sum_like",
    "create_2d_tensor",
    "create_sparse_array",
    "create_sparse_array_zd",
    "create_vector",
    "default_dtype",
    "np_reduce",
    "rand_coord_2d",
    "rand_ndarray",
    "rand_shape_2d",
    "rand_shape_3d",
    "rand_shape_nd",
    "rand_sparse_ndarray",
    "random_arrays",
    "random_sample",
    "random_uniform_arrays",
    "shuffle_csr_column_indices",
]

Array: TypeAlias = "np.ndarray[Any, Any]"
Shape: TypeAlias = "tuple[int, ...]"
_Item = TypeVar("_Item")
_AnyArray = TypeVar("_AnyArray", bound="Array | NDArray")


def default_dtype() -> type[np.floating[Any]]:
    """Return the data type of random arrays: float32."""
    return np.float32


def random_arrays(*shapes: Shape) -> Array | list[Array]:
    """Return one standard normal array per shape; a single array for a single shape."""
    arrays = [np.asarray(np.random.randn(*shape), dtype=default_dtype()) for shape in shapes]
    return arrays[0] if len(arrays) == 1 else arrays


def random_uniform_arrays(*shapes: Shape, **kwargs: Any) -> list[Array]:
    """Return one uniform array per shape.

    Parameters
    ----------
    low, high
        The bounds, 0 and 1 by default.
    dtype
        The data type, float32 by default.
    """
    low, high = kwargs.pop("low", 0.0), kwargs.pop("high", 1.0)
    dtype = kwargs.pop("dtype", default_dtype())
    if kwargs:
        raise TypeError(f"random_uniform_arrays got unexpected arguments: {', '.join(kwargs)}")
    return [np.asarray(np.random.uniform(low, high, size=shape)).astype(dtype) for shape in shapes]


def random_sample(population: Sequence[_Item], k: int) -> list[_Item]:
    """Return `k` distinct elements of a sequence in random order."""
    assert 0 <= k <= len(population), f"cannot choose {k} of {len(population)} elements"
    return [population[int(position)] for position in np.random.permutation(len(population))[:k]]


def rand_ndarray(
    shape: Shape,
    stype: str = "default",
    density: float | None = None,
    dtype: Any = None,
    modifier_func: Callable[[float], float] | None = None,
    shuffle_csr_indices: bool = False,
    distribution: str | None = None,
    ctx: Context | None = None,
) -> NDArray:
    """Return a standard normal NDArray, or a sparse one of uniform numbers (see :func:`rand_sparse_ndarray`).

    `modifier_func` is applied to every stored element.
    """
    assert stype in ("default", "csr", "row_sparse"), "unknown storage type"
    kind = default_dtype() if dtype is None else dtype
    if stype != "default":
        made, _ = rand_sparse_ndarray(shape, stype, density, dtype, distribution, None, None, modifier_func)
        return made if ctx is None else made.as_in_context(ctx)  # type: ignore[no-any-return]
    values = np.asarray(np.random.randn(*shape))
    if modifier_func is not None:
        values = assign_each(values, modifier_func)
    return array(values.astype(kind), ctx=ctx, dtype=kind)


def rand_sparse_ndarray(
    shape: Shape,
    stype: str,
    density: float | None = None,
    dtype: Any = None,
    distribution: str | None = None,
    data_init: float | None = None,
    rsp_indices: Any = None,
    modifier_func: Callable[[float], float] | None = None,
    shuffle_csr_indices: bool = False,
    ctx: Context | None = None,
) -> tuple[Any, tuple[Any, ...]]:
    """Return a random sparse array and its parts: ``(data, indices)``, or ``(indptr, indices, data)`` for csr.

    Parameters
    ----------
    density
        The probability that a row (row_sparse) or an element (csr) is stored, itself random if None.
    distribution
        ``"uniform"`` or, for csr, ``"powerlaw"``: rows have 2, 4, 8, ... elements until the array has the number
        that `density` requires, and one each after that.
    data_init, modifier_func
        The value of all stored elements, and a function applied to each of them.
    rsp_indices
        The rows that are stored.
    shuffle_csr_indices
        Has no effect: columns of a csr array are always sorted.
    """
    if distribution not in (None, "uniform", "powerlaw"):
        raise MXNetError(f"rand_sparse_ndarray: distribution must be 'uniform' or 'powerlaw', not {distribution!r}")
    chance = float(np.random.rand()) if density is None else density
    if not 0 <= chance <= 1:
        raise ValueError(f"density must be between 0 and 1, not {density}")
    values = np.asarray(np.random.uniform(-1, 1, shape)) if data_init is None else np.full(shape, float(data_init))
    if modifier_func is not None:
        values = assign_each(values, modifier_func)
    if stype == "csr":
        kept = _rows_that_double(shape, chance) if distribution == "powerlaw" else np.random.rand(*shape) < chance
    else:
        assert distribution != "powerlaw", f"Distribution {distribution} not supported for {stype}"
        rows = np.random.rand(shape[0]) < chance
        if rsp_indices is not None:
            rows = np.isin(np.arange(shape[0]), np.asarray(rsp_indices))
        kept = rows.reshape(-1, *(1,) * (len(shape) - 1))
    made: Any = array(np.where(kept, values, 0.0), ctx=ctx, dtype=default_dtype() if dtype is None else dtype).tostype(
        stype
    )
    if stype == "csr":
        return made, (made.indptr, made.indices, made.data)
    return made, (made.data, made.indices)


def _rows_that_double(shape: Shape, density: float) -> Array:
    """Return the mask of stored elements where each row has twice as many as the previous one, until none remain."""
    rows, columns = shape
    left = int(rows * columns * density)
    if left < 2 * rows:
        raise ValueError(
            f"not supported for this density: {density} for this shape {shape}. Please keep: "
            "num_rows * num_cols * density >= 2 * num_rows"
        )
    lengths, left = np.ones(rows, np.int64), left - rows
    for row in range(rows):
        more = min(2 ** min(row + 1, 62), columns, left + 1) - 1
        lengths[row], left = 1 + more, left - more
    if left:
        raise ValueError(f"not supported for this density: {density} for this shape {shape}: too few rows to double")
    return np.arange(columns) < lengths[:, None]


def create_sparse_array(
    shape: Shape,
    stype: str,
    data_init: float | None = None,
    rsp_indices: Any = None,
    dtype: Any = None,
    modifier_func: Callable[[float], float] | None = None,
    density: float = 0.5,
    shuffle_csr_indices: bool = False,
) -> Any:
    """Return a sparse array of random numbers or `data_init`, in `rsp_indices` or a fraction `density` of rows."""
    assert stype in ("csr", "row_sparse"), f"Unknown storage type: {stype}"
    return rand_sparse_ndarray(shape, stype, density, dtype, None, data_init, rsp_indices, modifier_func)[0]


def create_sparse_array_zd(
    shape: Shape,
    stype: str,
    density: float,
    data_init: float | None = None,
    rsp_indices: Any = None,
    dtype: Any = None,
    modifier_func: Callable[[float], float] | None = None,
    shuffle_csr_indices: bool = False,
) -> Any:
    """Return a sparse array that may be empty: ``density=0`` stores the valid rows in `rsp_indices`."""
    rows = None if rsp_indices is None or stype != "row_sparse" else [row for row in rsp_indices if row < shape[0]]
    return create_sparse_array(shape, stype, data_init, rows, dtype, modifier_func, density)


def shuffle_csr_column_indices(csr: Any) -> None:
    """Shuffle the columns within each row of a SciPy matrix, in place."""
    for start, stop in zip(csr.indptr[:-1], csr.indptr[1:]):
        np.random.shuffle(csr.indices[start:stop])


def _rand_dimension(bound: int, allow_zero_size: bool) -> int:
    return int(np.random.randint(0 if allow_zero_size else 1, bound + 1))


def rand_shape_2d(dim0: int = 10, dim1: int = 10, allow_zero_size: bool = False) -> Shape:
    """Return a random shape of two axes, each at most the given length."""
    return tuple(_rand_dimension(bound, allow_zero_size) for bound in (dim0, dim1))


def rand_shape_3d(dim0: int = 10, dim1: int = 10, dim2: int = 10, allow_zero_size: bool = False) -> Shape:
    """Return a random shape of three axes, each at most the given length."""
    return tuple(_rand_dimension(bound, allow_zero_size) for bound in (dim0, dim1, dim2))


def rand_shape_nd(num_dim: int, dim: int = 10, allow_zero_size: bool = False) -> Shape:
    """Return a random shape of `num_dim` axes, each at most `dim` long."""
    return tuple(_rand_dimension(dim, allow_zero_size) for _ in range(num_dim))


def rand_coord_2d(x_low: int, x_high: int, y_low: int, y_high: int) -> tuple[int, int]:
    """Return random coordinates x and y, low bounds included and high bounds excluded."""
    return int(np.random.randint(x_low, x_high)), int(np.random.randint(y_low, y_high))


def create_vector(size: int, dtype: Any = np.int64) -> NDArray:
    """Return the numbers 0 ... size - 1."""
    return array(np.arange(size), dtype=dtype)


def create_2d_tensor(rows: int, columns: int, dtype: Any = np.int64) -> NDArray:
    """Return a matrix whose elements are their row numbers.

    >>> create_2d_tensor(2, 3).asnumpy()
    array([[0, 0, 0],
           [1, 1, 1]])
    """
    return array(np.broadcast_to(np.arange(rows).reshape(rows, 1), (rows, columns)), dtype=dtype)


def collapse_sum_like(a: _AnyArray, shape: Shape) -> _AnyArray:
    """Sum `a` over the axes along which `shape` would be broadcast to ``a.shape``.

    >>> collapse_sum_like(np.ones((2, 3, 4)), (3, 1)).tolist()
    [[8.0], [8.0], [8.0]]
    """
    assert len(a.shape) >= len(shape), f"{shape} has more axes than {a.shape}"
    padded = (1,) * (len(a.shape) - len(shape)) + tuple(shape)
    for length, wanted in zip(a.shape, padded):
        assert wanted in (1, length), f"{shape} does not broadcast to {a.shape}"
    axes = tuple(axis for axis, (length, wanted) in enumerate(zip(a.shape, padded)) if length != wanted)
    summed: Any = a.sum(axis=axes, keepdims=True) if axes else a
    return summed.reshape(shape)  # type: ignore[no-any-return]


def np_reduce(dat: Array, axis: Any, keepdims: bool, numpy_reduce_func: Callable[..., Any]) -> Any:
    """Reduce a NumPy array over one axis, several axes, or all axes (None)."""
    axes = None if axis is None else (axis,) if isinstance(axis, int) else tuple(axis)
    return numpy_reduce_func(dat, axis=axes, keepdims=bool(keepdims))


def assign_each(the_input: Array, function: Callable[[Any], Any] | None) -> Array:
    """Apply a function to every element; return the input itself if the function is None."""
    if function is None:
        return np.array(the_input)
    results = [function(element) for element in the_input.reshape(-1)]
    return np.array(results, dtype=np.float64).reshape(the_input.shape)


def assign_each2(input1: Array, input2: Array, function: Callable[[Any, Any], Any] | None) -> Array:
    """Apply a function to every pair of elements; return `input1` if the function is None."""
    if function is None:
        return np.array(input1)
    assert input1.shape == input2.shape, f"{input1.shape} and {input2.shape} differ"
    results = [function(*pair) for pair in zip(input1.reshape(-1), input2.reshape(-1))]
    return np.array(results, dtype=np.float64).reshape(input1.shape)
