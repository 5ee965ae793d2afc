"""Compare arrays with tolerances by data type, and assertions that locate the largest error."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from ..core.base.dtypes import DType, as_array_dtype
from ..ndarray import NDArray

__all__ = [
    "almost_equal",
    "almost_equal_ignore_nan",
    "assert_allclose",
    "assert_almost_equal",
    "assert_almost_equal_ignore_nan",
    "assert_almost_equal_with_err",
    "assert_exception",
    "checkShapes",
    "compare_ndarray_tuple",
    "default_atols",
    "default_numeric_eps",
    "default_rtols",
    "effective_dtype",
    "find_max_violation",
    "get_atol",
    "get_etol",
    "get_rtol",
    "get_tolerance",
    "get_tols",
    "locationError",
    "same",
    "same_array",
]

Array: TypeAlias = "np.ndarray[Any, Any]"
Tolerance: TypeAlias = "float | Mapping[DType, float] | None"

_INTEGERS = ("bool", "int8", "uint8", "int32", "uint32", "int64", "uint64")
# Keeps the violation finite where both tolerances are zero; far below the smallest tolerance in use.
_TINY = 1e-20


def _by_dtype(half: float, single: float, double: float, exact: bool = True) -> dict[DType, float]:
    floats = {"float16": half, "float32": single, "float64": double}
    return {
        as_array_dtype(name): value
        for name, value in {**floats, **dict.fromkeys(_INTEGERS if exact else (), 0)}.items()
    }


def default_rtols() -> dict[DType, float]:
    """Return the relative tolerance of each data type."""
    return _by_dtype(1e-2, 1e-4, 1e-5)


def default_atols() -> dict[DType, float]:
    """Return the absolute tolerance of each data type."""
    return _by_dtype(1e-1, 1e-3, 1e-20)


def default_numeric_eps() -> dict[DType, float]:
    """Return the step of finite differences for each floating point type; powers of two, so that x + eps is exact."""
    return _by_dtype(2.0**-6, 2.0**-9, 2.0**-14, exact=False)


def get_rtol(rtol: Tolerance = None, dtype: DType = np.dtype(np.float64)) -> Any:  # noqa: B008 - MXNet's signature
    """Return `rtol`, or the default relative tolerance of a data type if it is None."""
    return default_rtols()[as_array_dtype(dtype)] if rtol is None else rtol


def get_atol(atol: Tolerance = None, dtype: DType = np.dtype(np.float64)) -> Any:  # noqa: B008 - MXNet's signature
    """Return `atol`, or the default absolute tolerance of a data type if it is None."""
    return default_atols()[as_array_dtype(dtype)] if atol is None else atol


def get_etol(etol: float | None = None) -> float:
    """Return the fraction of elements that may differ: `etol`, or 0 if it is None."""
    return 0 if etol is None else etol


def effective_dtype(dat: Any) -> DType:
    """Return the data type whose tolerance applies to an array, list or number."""
    dtype: DType = as_array_dtype(dat.dtype) if hasattr(dat, "dtype") else _as_numpy(dat).dtype
    return dtype


def get_tolerance(dat: Any, tol: Tolerance, default_tol: Mapping[DType, float]) -> float:
    """Return the tolerance for an array: a number itself, or the dictionary entry for the array's type."""
    if isinstance(tol, int | float | np.number):
        return float(tol)
    dtype = effective_dtype(dat)
    return (default_tol if tol is None else tol).get(dtype, default_tol.get(dtype, 0))


def get_tols(x: Any, y: Any, rtol: Tolerance, atol: Tolerance) -> tuple[float, float]:
    """Return (rtol, atol) for comparing two arrays; defaults are those of the less exact type."""
    return (
        max(get_tolerance(x, rtol, default_rtols()), get_tolerance(y, rtol, default_rtols())),
        max(get_tolerance(x, atol, default_atols()), get_tolerance(y, atol, default_atols())),
    )


def _as_numpy(value: Any) -> Array:
    """Convert an NDArray, a number, or nested lists of them to a NumPy array."""
    if isinstance(value, NDArray):
        return value.asnumpy()
    if isinstance(value, list | tuple):
        return np.array([_as_numpy(item) for item in value])
    return np.asarray(value)


def _differences(a: Array, b: Array, rtol: float, atol: float, equal_nan: bool) -> Array:
    """Return a mask of the elements that differ by more than the tolerance, after broadcasting."""
    exact = "b" in a.dtype.kind + b.dtype.kind or (rtol == atol == 0 and "f" not in a.dtype.kind + b.dtype.kind)
    if exact:
        return np.asarray(a != b)
    return ~np.isclose(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan)


def find_max_violation(a: Any, b: Any, rtol: float, atol: float) -> tuple[tuple[int, ...], float]:
    """Return the index of the largest error, and the error in multiples of the tolerance.

    >>> find_max_violation(np.array([1.0, 2.0]), np.array([1.0, 3.0]), 0.1, 0.1)
    ((1,), 2.5)
    """
    violation = _violation(_as_numpy(a), _as_numpy(b), rtol, atol)
    # A nan is worse than any number.
    index = np.unravel_index(np.argmax(np.where(np.isnan(violation), np.inf, violation)), violation.shape)
    position = tuple(int(axis) for axis in index)
    return position, float(violation[position])


def _violation(a: Array, b: Array, rtol: float, atol: float) -> Array:
    wide = np.result_type(a, b, np.float64)
    with np.errstate(all="ignore"):
        difference = np.abs(np.asarray(a, wide) - np.asarray(b, wide))
        result: Array = np.asarray(difference / (atol + rtol * np.abs(np.asarray(b, wide)) + _TINY))
        # Equal infinities, and nans on both sides, count as equal.
        return np.where((a == b) | ((a != a) & (b != b)), 0.0, result)


def almost_equal(
    a: Any,
    b: Any,
    rtol: Tolerance = None,
    atol: Tolerance = None,
    equal_nan: bool = False,
    use_broadcast: bool = True,
) -> bool:
    """Return whether ``|a - b| <= atol + rtol * |b|`` everywhere.

    >>> almost_equal([1.0, 2.0], [1.0, 2.1]), almost_equal([1.0, 2.0], [1.0, 2.1], rtol=0.1)
    (False, True)
    """
    relative, absolute = get_tols(a, b, rtol, atol)
    left, right = _as_numpy(a), _as_numpy(b)
    _check_shapes(left, right, use_broadcast, ("a", "b"))
    return not _differences(left, right, relative, absolute, equal_nan).any()


def assert_almost_equal(
    a: Any,
    b: Any,
    rtol: Tolerance = None,
    atol: Tolerance = None,
    names: Sequence[str] = ("a", "b"),
    equal_nan: bool = False,
    use_broadcast: bool = True,
    mismatches: tuple[int, int] = (10, 10),
) -> None:
    """Raise unless ``|a - b| <= atol + rtol * |b|`` everywhere; the message locates the largest error.

    Parameters
    ----------
    a, b
        Arrays of any kind, lists, or numbers.
    rtol, atol
        A number, a dictionary from data types to numbers, or None for the default of the less exact data type.
    names
        The names of the two in the message.
    equal_nan
        Whether nan equals nan.
    use_broadcast
        Whether shapes may differ if they broadcast.
    mismatches
        The number of errors to list, -1 for all; the second number is accepted but ignored.

    Raises
    ------
    AssertionError
        If the two differ; the message has the locations and values of the largest errors.
    """
    assert_almost_equal_with_err(a, b, rtol, atol, 0, names, equal_nan, mismatches, use_broadcast=use_broadcast)


def assert_almost_equal_with_err(
    a: Any,
    b: Any,
    rtol: Tolerance = None,
    atol: Tolerance = None,
    etol: float | None = None,
    names: Sequence[str] = ("a", "b"),
    equal_nan: bool = False,
    mismatches: tuple[int, int] = (10, 10),
    *,
    use_broadcast: bool = True,
) -> None:
    """Raise if more than a fraction `etol` of the elements differs; see :func:`assert_almost_equal`."""
    relative, absolute = get_tols(a, b, rtol, atol)
    left, right = _as_numpy(a), _as_numpy(b)
    _check_shapes(left, right, use_broadcast, names)
    different = _differences(left, right, relative, absolute, equal_nan)
    share = float(different.mean()) if different.size else 0.0
    if share > get_etol(etol):
        raise AssertionError(_message(left, right, different, relative, absolute, names, mismatches[0]))


def _check_shapes(a: Array, b: Array, use_broadcast: bool, names: Sequence[str]) -> None:
    if a.shape == b.shape:
        return
    problem = f"{names[0]}.shape = {a.shape} and {names[1]}.shape = {b.shape}"
    if not use_broadcast:
        raise AssertionError(f"\nItems are not equal: {problem} are not equal\n{_values(a, b, names)}")
    try:
        np.broadcast_shapes(a.shape, b.shape)
    except ValueError:
        raise AssertionError(f"\nItems are not equal: {problem} do not broadcast\n{_values(a, b, names)}") from None


def _message(a: Array, b: Array, different: Array, rtol: float, atol: float, names: Sequence[str], limit: int) -> str:
    a, b, different = np.broadcast_arrays(a, b, different)
    violation = np.where(different, _violation(a, b, rtol, atol), -1.0)
    order = np.argsort(-np.where(np.isnan(violation), np.inf, violation).reshape(-1), kind="stable")
    worst = order[: int(different.sum())]

    def place(flat: int) -> str:
        index = tuple(int(axis) for axis in np.unravel_index(flat, different.shape))
        return f"{index}, {names[0]}={a[index]!s}, {names[1]}={b[index]!s}"

    lines = [
        "",
        "Items are not equal:",
        f"Error {violation.reshape(-1)[worst[0]]:f} exceeds tolerance rtol={rtol:e}, atol={atol:e} "
        f"(mismatch {100 * different.mean():f}%).",
        f"Location of maximum error: {place(worst[0])}",
    ]
    others = worst[1:] if limit < 0 else worst[1 : max(limit, 1)]
    lines += [
        f"  {rank}: error {violation.reshape(-1)[flat]:f} at {place(flat)}" for rank, flat in enumerate(others, 2)
    ]
    return "\n".join([*lines, _values(a, b, names)])


def _values(a: Array, b: Array, names: Sequence[str]) -> str:
    with np.printoptions(threshold=50, edgeitems=3):
        return f" {names[0]}: {a!r}\n {names[1]}: {b!r}"


def assert_allclose(a: Any, b: Any, rtol: Tolerance = 1e-07, atol: Tolerance = 0, equal_nan: bool = True) -> None:
    """Raise unless two arrays are close by NumPy's default tolerances."""
    assert_almost_equal(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan)


def _without_nan(a: Any, b: Any) -> tuple[Array, Array]:
    """Return both arrays with zeros wherever one of them is nan."""
    left, right = np.broadcast_arrays(_as_numpy(a), _as_numpy(b))
    unknown = (left != left) | (right != right)
    return np.where(unknown, left.dtype.type(0), left), np.where(unknown, right.dtype.type(0), right)


def almost_equal_ignore_nan(a: Any, b: Any, rtol: Tolerance = None, atol: Tolerance = None) -> bool:
    """Return whether two arrays are almost equal wherever neither is nan."""
    return almost_equal(*_without_nan(a, b), rtol=rtol, atol=atol)


def assert_almost_equal_ignore_nan(
    a: Any, b: Any, rtol: Tolerance = None, atol: Tolerance = None, names: Sequence[str] = ("a", "b")
) -> None:
    """Raise unless two arrays are almost equal wherever neither is nan."""
    assert_almost_equal(*_without_nan(a, b), rtol=rtol, atol=atol, names=names)


def same(a: Any, b: Any) -> bool:
    """Return whether two arrays have the same shape and values; nan is unequal to everything."""
    return bool(np.array_equal(_as_numpy(a), _as_numpy(b)))


def same_array(array1: NDArray, array2: NDArray) -> bool:
    """Return whether two NDArrays of the same shape share memory, by writing to one and restoring it."""
    if array1.shape != array2.shape or array1.size == 0:
        return False
    from .. import autograd

    with autograd.pause():
        before = array1.asnumpy()
        other = np.asarray(array2.asnumpy() == 0).astype(before.dtype)
        array1[:] = other
        shared = bool(np.array_equal(array2.asnumpy(), other.astype(array2.dtype)))
        array1[:] = before
    return shared


def compare_ndarray_tuple(t1: Any, t2: Any, rtol: Tolerance = None, atol: Tolerance = None) -> None:
    """Raise unless two nested tuples hold almost equal arrays, or one is None."""
    if t1 is None or t2 is None:
        return
    if isinstance(t1, tuple):
        for first, second in zip(t1, t2):
            compare_ndarray_tuple(first, second, rtol, atol)
    else:
        assert_almost_equal(t1, t2, rtol=rtol, atol=atol)


def assert_exception(f: Callable[..., Any], exception_type: type[BaseException], *args: Any, **kwargs: Any) -> None:
    """Raise unless calling `f` raises the given exception; other exceptions propagate.

    Raises
    ------
    AssertionError
        If no exception was raised.
    """
    try:
        f(*args, **kwargs)
    except exception_type:
        return
    raise AssertionError(f"{getattr(f, '__name__', f)} did not raise {exception_type.__name__}")


def checkShapes(a: Any, b: Any) -> None:  # noqa: N802
    """Raise unless two arrays have the same shape."""
    if a.shape != b.shape:
        raise AssertionError(f"Items are not equal: a.shape = {a.shape} and b.shape = {b.shape} are not equal")


def locationError(  # noqa: N802
    a: Array,
    b: Array,
    index: tuple[Any, ...],
    names: tuple[str, str],
    maxError: bool = False,  # noqa: N803
) -> str:
    """Describe an element in which two arrays differ.

    >>> locationError(np.ones((2, 2)), np.zeros((2, 2)), (0, 1), ("x", "y"))
    'Location of error: (0, 1), x=1.00000000, y=0.00000000'
    """
    what = "maximum error" if maxError else "error"
    place = ", ".join(str(number) for number in index)
    return f"Location of {what}: ({place}), {names[0]}={a[index]:.8f}, {names[1]}={b[index]:.8f}"
