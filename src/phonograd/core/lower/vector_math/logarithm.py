"""Functions based on the logarithm: log, log2, log10, log1p, the inverse hyperbolic functions, and softplus."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ...base.dtypes import FLOAT32
from . import coefficients
from .exponential import exp
from .formats import FORMATS
from .parts import (
    add_exactly,
    add_smaller,
    float_of,
    in_parts,
    multiply_exactly,
    polynomial,
    power_of_two,
    split,
    split_any,
)

if TYPE_CHECKING:
    from ..ir.emitter import Emitter
    from ..ir.function_builder import Value

__all__ = ["arccosh", "arcsinh", "arctanh", "log", "log1p", "log2", "log10", "softplus"]

_LOG2_E = "1.44269504088896340735992468100189213742664595415299"
_LOG10_E = "0.43429448190325182765112891891660508229439700580367"


class _Parts(NamedTuple):
    """A positive number as 2**whole * (1 + rest), and log(1 + rest) as rest + tail."""

    whole: Value
    rest: Value
    tail: Value


def _parts(e: Emitter, x: Value, correction: Value | None = None, doubled: Value | None = None) -> _Parts:
    """Return the parts of x + correction, with a correction below the last bit of x.

    Where the mask ``doubled`` is true, the parts are those of twice the number.
    """
    fraction, exponent = split_any(e, x) if correction is None else split(e, x)
    rest = e.subtract(fraction, e.like(x, 1))
    if correction is not None:
        # for larger exponents, no correction is visible
        most = e.like(exponent, 100)
        bounded = e.select(e.relation("gt", exponent, most), most, exponent)
        rest = e.fma(correction, power_of_two(e, e.negative(bounded)), rest)
    if doubled is not None:
        exponent = e.add(exponent, e.convert(doubled, exponent.dtype))
    return _Parts(float_of(e, exponent), rest, _tail(e, rest))


def _tail(e: Emitter, rest: Value) -> Value:
    """Return log(1 + rest) - rest."""
    whole_square = e.multiply(rest, rest)
    half_square = e.multiply(whole_square, e.like(rest, 0.5))
    if rest.dtype == FLOAT32:
        cube = e.multiply(whole_square, rest)
        series = polynomial(e, rest, coefficients.LOG[FLOAT32], whole_square)
        return e.fma(cube, series, e.negative(half_square))
    # 2 atanh(s) = log(1 + rest), and 2 s = rest - half_square + s * half_square
    s = e.divide(rest, e.add(rest, e.like(rest, 2)))
    square = e.multiply(s, s)
    series = e.multiply(square, polynomial(e, square, coefficients.ATANH[rest.dtype]))
    return e.subtract(e.multiply(s, e.add(half_square, series)), half_square)


def _natural(e: Emitter, parts: _Parts) -> Value:
    """Return the natural logarithm."""
    high, low = FORMATS[parts.rest.dtype].log2
    scale = e.multiply(parts.whole, e.like(parts.whole, high))
    total, error = add_smaller(e, scale, parts.rest)
    return e.add(total, e.add(error, e.fma(parts.whole, e.like(parts.whole, low), parts.tail)))


def _to_base(e: Emitter, parts: _Parts, unit: str, of_two: tuple[float, float]) -> Value:
    """Return the logarithm to a base, given the logarithms of e (``unit``) and of 2 (``of_two``) to it."""
    high, low = [e.like(parts.rest, part) for part in in_parts(unit, parts.rest.dtype)]
    main, product_error = multiply_exactly(e, parts.rest, high)
    small = e.fma(parts.tail, high, e.fma(parts.rest, low, product_error))
    if of_two[1]:
        small = e.fma(parts.whole, e.like(parts.whole, of_two[1]), small)
    scale = e.multiply(parts.whole, e.like(parts.whole, of_two[0]))
    total, error = add_smaller(e, scale, main)
    return e.add(total, e.add(error, small))


def _with_edges(e: Emitter, result: Value, x: Value, lowest: float) -> Value:
    """Return a logarithm with its special values: -inf at the lowest argument, NaN below, infinity at infinity."""
    result = e.select(e.relation("eq", x, e.like(x, float("inf"))), x, result)
    edge = e.like(x, lowest)
    outside = e.select(e.relation("eq", x, edge), e.like(x, float("-inf")), e.like(x, float("nan")))
    return e.select(e.relation("gt", x, edge), result, outside)


def log(e: Emitter, x: Value) -> Value:
    """Return the natural logarithm: with x = 2**k (1 + f), it is k log 2 + log(1 + f).

    ::

        %k = ashr (sub %bits, bits of the root of 1/2), 23
        %f = fsub (%bits - (%k << 23)), 1
        ...                                  the polynomial: log(1 + f) - f
        %s = fadd (fmul %k, 0.693145752), %f
        ...                                  the rounding error of %s, and %k times the rest of log 2
    """
    return _with_edges(e, _natural(e, _parts(e, x)), x, 0.0)


def log2(e: Emitter, x: Value) -> Value:
    """Return the binary logarithm, exact for powers of two."""
    return _with_edges(e, _to_base(e, _parts(e, x), _LOG2_E, (1.0, 0.0)), x, 0.0)


def log10(e: Emitter, x: Value) -> Value:
    """Return the decimal logarithm."""
    return _with_edges(e, _to_base(e, _parts(e, x), _LOG10_E, FORMATS[x.dtype].log10_2), x, 0.0)


def log1p(e: Emitter, x: Value) -> Value:
    """Return log(1 + x): the logarithm of the rounded sum and its error. The sign is that of x, even for zero."""
    total, error = add_exactly(e, e.like(x, 1), x)
    return e.with_sign_of(_with_edges(e, _natural(e, _parts(e, total, error)), x, -1.0), x)


def softplus(e: Emitter, x: Value) -> Value:
    """Return log(1 + exp(x)), as max(x, 0) + log1p(exp(-|x|))."""
    small = exp(e, e.negative(e.absolute(x)))
    total, error = add_smaller(e, e.like(x, 1), small)
    positive = e.select(e.compare("ugt", x, e.like(x, 0)), x, e.like(x, 0))
    return e.add(positive, _natural(e, _parts(e, total, error)))


def arcsinh(e: Emitter, x: Value) -> Value:
    """Return the inverse hyperbolic sine: log(1 + |x| + x**2 / (1 + root(x**2 + 1))), or log(2 |x|) if large."""
    form = FORMATS[x.dtype]
    size, one = e.absolute(x), e.like(x, 1)
    far = e.relation("gt", size, e.like(x, form.square_ignores_one))
    near = e.select(far, e.like(x, 0), size)
    square = e.multiply(near, near)
    more = e.divide(square, e.add(one, e.call("sqrt", e.add(square, one))))
    total, error = _one_plus(e, near, more)
    return e.with_sign_of(_of_large(e, size, far, total, error), x)


def arccosh(e: Emitter, x: Value) -> Value:
    """Return the inverse hyperbolic cosine: with t = x - 1, log(1 + t + root(2 t + t**2)), or log(2 x) if large."""
    form = FORMATS[x.dtype]
    far = e.relation("gt", x, e.like(x, form.square_ignores_one))
    above = e.select(far, e.like(x, 0), e.subtract(x, e.like(x, 1)))
    root = e.call("sqrt", e.fma(above, above, e.add(above, above)))
    total, error = _one_plus(e, root, above)
    result = _of_large(e, x, far, total, error)
    return e.select(e.relation("ge", x, e.like(x, 1)), result, e.like(x, float("nan")))


def arctanh(e: Emitter, x: Value) -> Value:
    """Return the inverse hyperbolic tangent: log(1 + 2 |x| / (1 - |x|)) / 2."""
    size, one = e.absolute(x), e.like(x, 1)
    divisor = e.subtract(one, size)
    lost = e.subtract(e.subtract(one, divisor), size)
    twice = e.add(size, size)
    quotient = e.divide(twice, divisor)
    remainder = e.fma(e.negative(quotient), lost, e.fma(e.negative(quotient), divisor, twice))
    total, error = add_exactly(e, one, quotient)
    error = e.add(error, e.divide(remainder, divisor))
    result = e.multiply(_natural(e, _parts(e, total, error)), e.like(x, 0.5))
    edge = e.select(e.relation("eq", size, one), e.like(x, float("inf")), e.like(x, float("nan")))
    return e.with_sign_of(e.select(e.relation("lt", size, one), result, edge), x)


def _one_plus(e: Emitter, larger: Value, smaller: Value) -> tuple[Value, Value]:
    """Return 1 + larger + smaller and its error."""
    part, lost = add_exactly(e, larger, smaller)
    total, error = add_exactly(e, e.like(larger, 1), part)
    return total, e.add(error, lost)


def _of_large(e: Emitter, size: Value, far: Value, total: Value, error: Value) -> Value:
    """Return log(total + error), or log(2 size) where the mask ``far`` is true."""
    whole = e.select(far, size, total)
    rest = e.select(far, e.like(size, 0), error)
    result = _natural(e, _parts(e, whole, rest, doubled=far))
    return e.select(e.relation("eq", size, e.like(size, float("inf"))), size, result)
