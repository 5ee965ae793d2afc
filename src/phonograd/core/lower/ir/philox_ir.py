"""Random words on vectors: Philox 4x32-10, with the same words as :mod:`phonograd.core.lower.philox`.

A call's words come in groups of four rows of sixteen: row *w* of group *g* holds word *w* of the blocks
``16 g .. 16 g + 15``. A vector of sixteen lanes computes one group at once, a shorter one a part of all four rows.
"""

from __future__ import annotations

from ...base.dtypes import FLOAT32, FLOAT64, INT64, UINT32, UINT64, DType
from .. import vector_math
from .emitter import ROW, Emitter, Index, Value

__all__ = ["Counter", "elements_per_group", "exponential", "normal", "uniform", "words"]

_MULTIPLIERS = 0xD2511F53, 0xCD9E8D57
_KEY_STEPS = 0x9E3779B9, 0xBB67AE85
_ROUNDS = 10

#: the four words of a counter (seed low, seed high, call low, call high), each in every lane
Counter = tuple[Value, Value, Value, Value]


def elements_per_group(dtype: DType) -> int:
    """Return the number of elements of a dtype that one group of 64 words makes."""
    return 4 * ROW // (2 if dtype.itemsize == 8 else 1)


def words(e: Emitter, counter: Counter, group: Index, lane: int) -> list[Value]:
    """Return lanes ``lane .. lane + e.lanes - 1`` of the four rows of a group.

    Each of the ten rounds is::

        %p = mul <16 x i64> (zext %c0), 3528531795      the products; both halves are used
        %q = mul <16 x i64> (zext %c2), 3449720151
        %c0 = xor (xor (high half of %q), %c1), %key0
        %c1 = low half of %q
        %c2 = xor (xor (high half of %p), %c3), %key1
        %c3 = low half of %p
        %key0 = add %key0, 2654435769
        %key1 = add %key1, 3144134277
    """
    first_block = e.plus(e.times(group, str(ROW)), str(lane))
    blocks = e.add(e.splat(first_block, INT64), e.steps(INT64))
    wide = Value(blocks.text, UINT64)
    low_key, high_key, third, fourth = counter
    first = e.convert(wide, UINT32)
    second = e.convert(e.bits("lshr", wide, e.constant(32, UINT64)), UINT32)
    for turn in range(_ROUNDS):
        if turn:
            low_key = e.add(low_key, e.constant(_KEY_STEPS[0], UINT32))
            high_key = e.add(high_key, e.constant(_KEY_STEPS[1], UINT32))
        product_high, product_low = _product(e, first, _MULTIPLIERS[0])
        other_high, other_low = _product(e, third, _MULTIPLIERS[1])
        first, second, third, fourth = (
            e.bits("xor", e.bits("xor", other_high, second), low_key),
            other_low,
            e.bits("xor", e.bits("xor", product_high, fourth), high_key),
            product_low,
        )
    return [first, second, third, fourth]


def _product(e: Emitter, word: Value, multiplier: int) -> tuple[Value, Value]:
    """Return the high and the low 32 bits of a product."""
    product = e.multiply(e.convert(word, UINT64), e.constant(multiplier, UINT64))
    high = e.convert(e.bits("lshr", product, e.constant(32, UINT64)), UINT32)
    return high, e.convert(product, UINT32)


def uniform(e: Emitter, rows: list[Value], dtype: DType) -> list[Value]:
    """Return rows of numbers in [0, 1): ``(word >> 8) * 2**-24``, or ``(two words >> 11) * 2**-53`` in float64."""
    if dtype == FLOAT32:
        shifted = [e.bits("lshr", row, e.constant(8, UINT32)) for row in rows]
        return [e.multiply(e.convert(row, FLOAT32), e.constant(2.0**-24, FLOAT32)) for row in shifted]
    return [e.multiply(number, e.constant(2.0**-53, FLOAT64)) for number in _in_pairs(e, rows)]


def _in_pairs(e: Emitter, rows: list[Value]) -> list[Value]:
    """Return rows of integers below 2**53, each from two words, in float64."""
    numbers = []
    for high, low in zip(rows[::2], rows[1::2], strict=True):
        upper = e.bits("shl", e.convert(high, UINT64), e.constant(32, UINT64))
        both = e.bits("lshr", e.bits("or", upper, e.convert(low, UINT64)), e.constant(11, UINT64))
        # below 2**53, so the signed conversion is right; it is one instruction, the unsigned one many
        numbers.append(e.convert(Value(both.text, INT64), FLOAT64))
    return numbers


def _positive(e: Emitter, rows: list[Value], dtype: DType) -> list[Value]:
    """Return rows of numbers in (0, 1], for logarithms."""
    if dtype == FLOAT32:
        scale, half = e.constant(2.0**-32, FLOAT32), e.constant(2.0**-33, FLOAT32)
        return [e.add(e.multiply(e.convert(row, FLOAT32), scale), half) for row in rows]
    one, scale = e.constant(1, FLOAT64), e.constant(2.0**-53, FLOAT64)
    return [e.multiply(e.add(number, one), scale) for number in _in_pairs(e, rows)]


def exponential(e: Emitter, rows: list[Value], dtype: DType) -> list[Value]:
    """Return rows of exponential numbers of mean 1: ``0 - log(positive)``."""
    return [e.subtract(e.constant(0, dtype), vector_math.log(e, number)) for number in _positive(e, rows, dtype)]


def normal(e: Emitter, rows: list[Value], dtype: DType) -> list[Value]:
    """Return rows of standard normal numbers, by Box and Muller: pairs of rows give cosine and sine."""
    words_each = 2 if dtype.itemsize == 8 else 1
    numbers = []
    for start in range(0, len(rows), 2 * words_each):
        first, second = rows[start : start + words_each], rows[start + words_each : start + 2 * words_each]
        logarithm = vector_math.log(e, _positive(e, first, dtype)[0])
        radius = e.call("sqrt", e.multiply(logarithm, e.constant(-2, dtype)))
        cosine, sine = vector_math.cos_sin_of_turns(e, uniform(e, second, dtype)[0])
        numbers += [e.multiply(radius, cosine), e.multiply(radius, sine)]
    return numbers
