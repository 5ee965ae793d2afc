"""Functions that NumPy computes on the values of arrays, without gradients, as in MXNet."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.array.values import check_size, naming_itself
from ..core.base.dtypes import FLOAT64
from .declaration import FUNCTIONS, public
from .financial import FINANCIAL
from .protocols import on_values

__all__: list[str] = []

#: functions that MXNet leaves to NumPy and that have no operators here, and a few related ones: the arguments and the
#: result that help shows, and a sentence
_TABLE = """
apply_along_axis(func1d, axis, arr, *args, **kwargs) -> ndarray: Apply a function to each vector along an axis.
apply_over_axes(func, a, axes) -> ndarray: Apply a function to an array along one axis after the other.
argpartition(a, kth, axis=-1, kind='introselect') -> ndarray: Return the indices that partition an array along an axis.
array2string(a, max_line_width=None, precision=None, **kwargs) -> str: Return the text of an array.
array_repr(arr, max_line_width=None, precision=None) -> str: Return the text of an array as Python code.
array_str(a, max_line_width=None, precision=None) -> str: Return the text of the values of an array.
bartlett(M) -> ndarray: Return the Bartlett (triangular) window of ``M`` points.
broadcast_shapes(*shapes) -> tuple[int, ...]: Return the shape to which arrays of some shapes broadcast.
convolve(a, v, mode='full') -> ndarray: Return the discrete convolution of two vectors.
correlate(a, v, mode='valid') -> ndarray: Return the cross-correlation of two vectors.
digitize(x, bins, right=False) -> ndarray: Return the number of the bin of each element.
divmod(x1, x2) -> tuple[ndarray, ndarray]: Return the quotient, rounded down, and the remainder.
frexp(x) -> tuple[ndarray, ndarray]: Return a mantissa and an exponent of 2 for each element.
fromstring(string, dtype=float, count=-1, *, sep) -> ndarray: Return a vector of the numbers in a text.
genfromtxt(fname, dtype=float, **kwargs) -> ndarray: Read a table from a text file; missing values become NaN.
gradient(f, *varargs, axis=None, edge_order=1) -> ndarray | list[ndarray]: Return central differences along axes.
histogram2d(x, y, bins=10, range=None, density=None, weights=None) -> tuple[ndarray, ndarray, ndarray]: Count \
points of the plane in rectangular bins, and return the counts and the edges on both axes.
histogram_bin_edges(a, bins=10, range=None, weights=None) -> ndarray: Return the edges of the bins of a histogram.
histogramdd(sample, bins=10, range=None, density=None, weights=None) -> tuple[ndarray, list[ndarray]]: Count points of \
several dimensions in bins, and return the counts and the edges on each axis.
i0(x) -> ndarray: Return the modified Bessel function of the first kind and order 0.
in1d(ar1, ar2, assume_unique=False, invert=False) -> ndarray: Return whether each element of a vector is in another.
intersect1d(ar1, ar2, assume_unique=False, return_indices=False) -> ndarray: Return the sorted values in both arrays.
iscomplexobj(x) -> bool: Return whether an array has a complex dtype; those of this library never have.
isin(element, test_elements, assume_unique=False, invert=False) -> ndarray: Return whether each element is in another \
array.
isrealobj(x) -> bool: Return whether an array has no complex dtype.
isscalar(element) -> bool: Return whether an object is a number or a text instead of an array.
ix_(*args) -> tuple[ndarray, ...]: Return index arrays that select all combinations of some indices.
kaiser(M, beta) -> ndarray: Return the Kaiser window of ``M`` points.
left_shift(x1, x2) -> ndarray: Shift the bits of integers to the left.
lexsort(keys, axis=-1) -> ndarray: Return the indices that sort by several keys; the last key is the first criterion.
loadtxt(fname, dtype=float, **kwargs) -> ndarray: Read a table of numbers from a text file.
mirr(values, finance_rate, reinvest_rate) -> float: Return the modified internal rate of return of payments.
modf(x) -> tuple[ndarray, ndarray]: Return the fractional and the integral part of each element.
nanargmax(a, axis=None) -> ndarray: Return the index of the largest element along an axis, ignoring NaN.
nanargmin(a, axis=None) -> ndarray: Return the index of the smallest element along an axis, ignoring NaN.
nancumprod(a, axis=None, dtype=None) -> ndarray: Return cumulative products along an axis, counting NaN as one.
nanmedian(a, axis=None, keepdims=False) -> ndarray: Return the median along axes, ignoring NaN.
nanpercentile(a, q, axis=None, keepdims=False) -> ndarray: Return the q-th percentiles along axes, ignoring NaN.
nanquantile(a, q, axis=None, keepdims=False) -> ndarray: Return the q-th quantiles along axes, ignoring NaN.
nanstd(a, axis=None, dtype=None, ddof=0, keepdims=False) -> ndarray: Return the standard deviation, ignoring NaN.
nanvar(a, axis=None, dtype=None, ddof=0, keepdims=False) -> ndarray: Return the variance along axes, ignoring NaN.
nextafter(x1, x2) -> ndarray: Return the next floating point number after x1 in the direction of x2.
npv(rate, values) -> float: Return the net present value of payments, the first of which is due now.
packbits(a, axis=None, bitorder='big') -> ndarray: Pack zeros and ones into the bits of uint8 numbers.
partition(a, kth, axis=-1, kind='introselect') -> ndarray: Put the kth smallest element in its place, smaller ones \
before it and larger ones behind it.
piecewise(x, condlist, funclist, *args, **kwargs) -> ndarray: Evaluate one of several functions at each element.
poly(seq_of_zeros) -> ndarray: Return the coefficients of the polynomial with given roots.
polyadd(a1, a2) -> ndarray: Return the sum of two polynomials.
polyder(p, m=1) -> ndarray: Return a derivative of a polynomial.
polydiv(u, v) -> tuple[ndarray, ndarray]: Return the quotient and the remainder of two polynomials.
polyfit(x, y, deg, rcond=None, full=False, w=None, cov=False) -> ndarray: Fit a polynomial to points by least squares.
polyint(p, m=1, k=None) -> ndarray: Return an antiderivative of a polynomial.
polymul(a1, a2) -> ndarray: Return the product of two polynomials.
polysub(a1, a2) -> ndarray: Return the difference of two polynomials.
ppmt(rate, per, nper, pv, fv=0, when='end') -> ndarray: Return the part of the payment of a period that repays a loan.
pv(rate, nper, pmt, fv=0, when='end') -> ndarray: Return the present value of equal payments.
rate(nper, pmt, pv, fv, when='end', guess=None, tol=None, maxiter=100) -> ndarray: Return the interest of a period, \
or NaN if it is not found.
ravel_multi_index(multi_index, dims, mode='raise', order='C') -> ndarray: Convert coordinates, one array per axis, to \
indices into the flattened array.
right_shift(x1, x2) -> ndarray: Shift the bits of integers to the right.
roots(p) -> ndarray: Return the roots of a polynomial.
searchsorted(a, v, side='left', sorter=None) -> ndarray: Return where values would be inserted into a sorted vector.
setdiff1d(ar1, ar2, assume_unique=False) -> ndarray: Return the sorted values of the first array that are not in the \
second.
setxor1d(ar1, ar2, assume_unique=False) -> ndarray: Return the sorted values that are in exactly one of two arrays.
spacing(x) -> ndarray: Return the distance of each element to the next floating point number.
trim_zeros(filt, trim='fb') -> ndarray: Remove zeros at the ends of a vector.
union1d(ar1, ar2) -> ndarray: Return the sorted values that are in at least one of two arrays.
unpackbits(a, axis=None, count=None, bitorder='big') -> ndarray: Unpack the bits of uint8 numbers into zeros and ones.
unwrap(p, discont=None, axis=-1) -> ndarray: Add multiples of the period to angles, so that they change smoothly.
vander(x, N=None, increasing=False) -> ndarray: Return a matrix whose columns are powers of a vector.
"""


#: by name the shape of the result, where arguments give it
_SHAPES: dict[str, Callable[..., tuple[int, ...]]] = {
    "vander": lambda x, N=None, **_: (len(x), len(x) if N is None else N),  # noqa: N803 - NumPy's name
    "bartlett": lambda M: (M,),  # noqa: N803
    "kaiser": lambda M, **_: (M,),  # noqa: N803
}


def _define(name: str, arguments: str, result: str, sentence: str) -> None:
    function = getattr(np, name, None)
    if function is None and name == "in1d":
        # NumPy renamed it to isin in version 2.4
        function = np.isin
    function = FINANCIAL.get(name, function)
    if function is None or name in FUNCTIONS:
        return
    shape_of = _SHAPES.get(name)

    def body(*args: Any, **kwargs: Any) -> Any:
        if shape_of is not None:
            given = inspect.signature(function).bind(*args, **kwargs).arguments
            check_size(name, shape_of(**given), FLOAT64)
        return on_values(function, args, kwargs)

    body.__name__ = body.__qualname__ = name
    body.__doc__ = f"{sentence}\n\nNumPy computes it on the values of arrays; gradients do not pass through."
    # documentation.py reads it when somebody asks; NumPy checks the arguments of a call
    body.shown_as = (arguments, result)  # type: ignore[attr-defined]
    public()(naming_itself(body))


for _line in _TABLE.strip().splitlines():
    _head, _, _rest = _line.partition(") -> ")
    _name, _, _arguments = _head.partition("(")
    _result, _, _sentence = _rest.partition(": ")
    _define(_name, _arguments, _result, _sentence)
