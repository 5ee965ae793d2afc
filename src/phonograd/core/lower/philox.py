"""Random numbers from counters: the generator Philox 4x32-10, and the conversions of its words to distributions.

A counter-based generator is a function, not a state: a key (the seed), the number of the call and the position of an
element determine its random words. So an element's value does not depend on the number of threads or the vector width,
and a graph that is evaluated twice draws the same numbers twice.

**Counter.** Philox maps a counter of four 32-bit words and a key of two to four random words. Ours is::

    counter = (block & 0xFFFFFFFF, block >> 32 | attempt << 16, stream[0], stream[1])

``block`` counts the quadruples of one call (below 2**48), ``stream`` is the number of the call (low word first).
``attempt`` is 0, unless an element is drawn again after a rejection.

**Order of words.** The words of a call come in rows of sixteen and groups of four rows. Group *g* holds the blocks
``16 g .. 16 g + 15``; its row *w* holds word *w* of these blocks. In flat order, word ``64 g + 16 w + l`` is word
*w* of block ``16 g + l``: a vector kernel computes sixteen (or two times eight, or four times four) blocks at once
and stores rows unchanged.

**Words per element.** If an element needs one word, element *i* takes word *i*. If it needs two, rows are taken in
pairs: element ``16 r + l`` takes word *l* of rows ``2 r`` and ``2 r + 1`` as its high and low half, which together
are ``bits = high << 32 | low``. :func:`words_for` returns the number of words for a number of elements.

==============  =========  ====================================================================================
distribution    words      value (each operation rounded to the dtype named)
==============  =========  ====================================================================================
uniform f16     1          ``(word >> 21) * 2**-11``
uniform f32     1          ``(word >> 8) * 2**-24``
uniform f64     2          ``(bits >> 11) * 2**-53``
positive f32    1          ``f32(word) * 2**-32 + 2**-33``, which is in (0, 1]
positive f64    2          ``((bits >> 11) + 1) * 2**-53``, which is in (0, 1]
exponential     as above   ``-log(positive)``
normal f32      1          Box and Muller: rows ``2 r`` and ``2 r + 1`` of words give rows ``2 r`` (cosine) and
                           ``2 r + 1`` (sine) of values; radius ``sqrt(-2 log(positive(row 2 r)))``, angle
                           ``2 pi uniform(row 2 r + 1)``
normal f64      2          the same, with rows of pairs instead of rows of words
integers        1 or 2     Lemire's multiplication with rejection, see :func:`integers`
==============  =========  ====================================================================================

This module computes the float32 functions in double precision from exactly these uniform numbers and rounds once; a
kernel agrees with them to the precision of its logarithm and cosine. For float16 the float32 value is rounded, except
for uniform numbers (rounding could reach 1).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..base.dtypes import BFLOAT16, HALVES, DType, convert, kind_of, name_of

__all__ = [
    "exponential",
    "integers",
    "normal",
    "normal01",
    "philox4x32",
    "positive01",
    "uniform",
    "uniform01",
    "words",
    "words_for",
]

Array = np.ndarray[Any, Any]
Pair = Sequence[int] | Array

ROW = 16
GROUP = 4 * ROW

_ROUNDS = 10
_MULTIPLIERS = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_KEY_STEPS = 0x9E3779B9, 0xBB67AE85
_MASK = 0xFFFFFFFF
_LOW = np.uint64(_MASK)
_HALF = np.uint64(32)
#: blocks computed at once; the seven arrays of 32 KiB that the rounds work on stay in a core's cache
_CHUNK = 4096


def philox4x32(counter: Sequence[Array | int], key: Pair) -> Array:
    """Return the four words of every counter, as uint32 of shape (4, ...).

    Parameters
    ----------
    counter
        Four arrays (or numbers) of 32-bit words, broadcast against each other.
    key
        Two 32-bit words.

    Examples
    --------
    >>> [hex(word) for word in philox4x32((0, 0, 0, 0), (0, 0)).tolist()]
    ['0x6627e8d5', '0xe169c58d', '0xbc57ac4c', '0x9b00dbd8']
    """
    first, second, third, fourth = np.broadcast_arrays(*[np.asarray(word, np.uint64) for word in counter])
    low_key, high_key = int(key[0]) & _MASK, int(key[1]) & _MASK
    for _ in range(_ROUNDS):
        product, other = first * _MULTIPLIERS[0], third * _MULTIPLIERS[1]
        first = (other >> _HALF) ^ second ^ np.uint64(low_key)
        third = (product >> _HALF) ^ fourth ^ np.uint64(high_key)
        second, fourth = other & _LOW, product & _LOW
        low_key = (low_key + _KEY_STEPS[0]) & _MASK
        high_key = (high_key + _KEY_STEPS[1]) & _MASK
    return np.stack([first, second, third, fourth]).astype(np.uint32)


def _of_blocks(key: Pair, stream: Pair, blocks: Array, attempt: int) -> Array:
    """Return the words of some blocks (uint64) of a call, of shape (4, number of blocks)."""
    high = (blocks >> _HALF) | np.uint64(attempt << 16)
    return philox4x32((blocks & _LOW, high, int(stream[0]) & _MASK, int(stream[1]) & _MASK), key)


def words(key: Pair, stream: Pair, count: int) -> Array:
    """Return the first ``count`` random words (uint32) of a call, in the order described in the module docstring.

    Parameters
    ----------
    key
        The seed: two 32-bit words.
    stream
        The number of the call: two 32-bit words, the low one first.
    count
        Number of words.
    """
    groups = -(-count // GROUP)
    out = np.empty((groups, 4, ROW), np.uint32)
    for start in range(0, groups, _CHUNK // ROW):
        stop = min(start + _CHUNK // ROW, groups)
        blocks = np.arange(start * ROW, stop * ROW, dtype=np.uint64)
        out[start:stop] = _of_blocks(key, stream, blocks, 0).reshape(4, stop - start, ROW).transpose(1, 0, 2)
    return out.reshape(-1)[:count]


def words_for(count: int, dtype: DType) -> int:
    """Return the number of words that :func:`uniform01` and the like need for ``count`` numbers.

    It is a whole number of row pairs (of quadruples of rows for float64), so that a normal value has its partner.
    """
    rows = 2 * (-(-count // (2 * ROW)))
    return rows * ROW * _words_per_element(dtype)


def _words_per_element(dtype: DType) -> int:
    if kind_of(dtype) != "f":
        raise TypeError(f"random fractions need a floating point dtype, not {name_of(dtype)}")
    return 2 if dtype.itemsize == 8 else 1


def _pairs(random_words: Array) -> Array:
    """Return 64-bit numbers from pairs of rows: the first row is the high half, the second the low half."""
    if random_words.size % (2 * ROW):
        raise ValueError(
            f"64-bit numbers take pairs of rows: {random_words.size} words are not a multiple of {2 * ROW}"
        )
    rows = random_words.astype(np.uint64).reshape(-1, 2, ROW)
    return ((rows[:, 0] << _HALF) | rows[:, 1]).reshape(-1)


def uniform01(random_words: Array, dtype: DType) -> Array:
    """Return numbers in [0, 1) with as many random bits as the dtype has: one word each, two for float64."""
    if _words_per_element(dtype) == 2:
        return (_pairs(random_words) >> np.uint64(11)).astype(np.float64) * 2.0**-53
    if dtype in HALVES:
        digits = 8 if dtype == BFLOAT16 else 11
        return convert((random_words >> np.uint32(32 - digits)).astype(np.float32) * np.float32(2.0**-digits), dtype)
    return (random_words >> np.uint32(8)).astype(np.float32) * np.float32(2.0**-24)


def positive01(random_words: Array, dtype: DType) -> Array:
    """Return numbers in (0, 1], for logarithms: float64 from two words each, else float32 from one.

    Small float32 numbers keep all 32 bits, so their logarithm reaches -22.9.
    """
    if _words_per_element(dtype) == 2:
        return ((_pairs(random_words) >> np.uint64(11)).astype(np.float64) + 1) * 2.0**-53
    return random_words.astype(np.float32) * np.float32(2.0**-32) + np.float32(2.0**-33)


def normal01(random_words: Array, dtype: DType) -> Array:
    """Return standard normal numbers from a whole number of row pairs (of quadruples of rows for float64)."""
    wide = _words_per_element(dtype)
    if random_words.size % (2 * ROW * wide):
        raise ValueError(f"normal numbers take pairs of rows: {random_words.size} words leave one row without a pair")
    rows = random_words.reshape(-1, 2, wide * ROW)
    fraction = np.dtype(np.float64 if wide == 2 else np.float32)
    radius = np.sqrt(-2 * np.log(positive01(rows[:, 0].reshape(-1), fraction).astype(np.float64)))
    angle = uniform01(rows[:, 1].reshape(-1), fraction).astype(np.float64) * (2 * math.pi)
    values = np.stack([(radius * np.cos(angle)).reshape(-1, ROW), (radius * np.sin(angle)).reshape(-1, ROW)], axis=1)
    return convert(values.reshape(-1).astype(fraction), dtype)


def uniform(key: Pair, stream: Pair, count: int, dtype: DType) -> Array:
    """Return ``count`` numbers of a call, uniform in [0, 1)."""
    return uniform01(words(key, stream, words_for(count, dtype)), dtype)[:count]


def normal(key: Pair, stream: Pair, count: int, dtype: DType) -> Array:
    """Return ``count`` numbers of a call, normal with mean 0 and variance 1."""
    return normal01(words(key, stream, words_for(count, dtype)), dtype)[:count]


def exponential(key: Pair, stream: Pair, count: int, dtype: DType) -> Array:
    """Return ``count`` numbers of a call, exponential with mean 1: zero or greater."""
    positive = positive01(words(key, stream, words_for(count, dtype)), dtype)[:count]
    # "0 -" instead of a minus sign: the logarithm of 1 gives 0, not -0
    return convert((0 - np.log(positive.astype(np.float64))).astype(positive.dtype), dtype)


def integers(key: Pair, stream: Pair, count: int, low: int, high: int) -> Array:
    """Return ``count`` integers of a call in [low, high) as int64, all with exactly the same probability.

    Lemire's method: with *b* random bits *x* (one word, or two if the range is above 2**32) and ``product = x *
    range``, the result is ``low + (product >> b)``, unless ``product mod 2**b`` is below ``2**b mod range``. Such an
    element is drawn again, from the words at the same position of the next attempt. Elements never move, so no element
    depends on another's rejection.

    Parameters
    ----------
    low, high
        Bounds between -2**63 and 2**63, ``low < high``.

    Raises
    ------
    ValueError
        If the range is empty, or a bound does not fit.
    """
    extent = high - low
    if extent <= 0:
        raise ValueError(f"the range [{low}, {high}) is empty: high must be greater than low")
    if low < -(2**63) or high > 2**63:
        raise ValueError(f"the bounds [{low}, {high}) do not fit 64-bit integers")
    bits = 32 if extent <= 2**32 else 64
    random_words = words(key, stream, count if bits == 32 else 2 * ROW * -(-count // ROW))
    drawn = random_words.astype(np.uint64) if bits == 32 else _pairs(random_words)[:count]
    offsets, rejected = _scale(drawn, extent, bits)
    positions = np.flatnonzero(rejected)
    attempt = 0
    while positions.size:
        attempt += 1
        drawn = _words_at(key, stream, positions, attempt, bits)
        offsets[positions], rejected = _scale(drawn, extent, bits)
        positions = positions[rejected]
    # adding modulo 2**64 is right for every low: the sum fits int64 by construction
    return (offsets + np.uint64(low % 2**64)).view(np.int64)


def _scale(drawn: Array, extent: int, bits: int) -> tuple[Array, Array]:
    """Return (drawn * extent) >> bits, and a mask of the elements to draw again."""
    threshold = np.uint64(2**bits % extent)
    if bits == 32:
        product = drawn * np.uint64(extent)
        return product >> _HALF, (product & _LOW) < threshold
    if extent == 2**64:
        return drawn.copy(), np.zeros(drawn.shape, bool)
    # 64 x 64 -> 128 bits in four products of halves
    drawn_high, drawn_low = drawn >> _HALF, drawn & _LOW
    extent_high, extent_low = np.uint64(extent >> 32), np.uint64(extent & _MASK)
    lowest = drawn_low * extent_low
    middle = drawn_high * extent_low + (lowest >> _HALF)
    other = drawn_low * extent_high + (middle & _LOW)
    highest = drawn_high * extent_high + (middle >> _HALF) + (other >> _HALF)
    return highest, ((other << _HALF) | (lowest & _LOW)) < threshold


def _words_at(key: Pair, stream: Pair, positions: Array, attempt: int, bits: int) -> Array:
    """Return the random bits of some elements in a later attempt, as uint64."""

    def at(places: Array) -> Array:
        blocks = places // GROUP * ROW + places % ROW
        row = places % GROUP // ROW
        found: Array = _of_blocks(key, stream, blocks.astype(np.uint64), attempt)[row, np.arange(places.size)]
        return found.astype(np.uint64)

    if bits == 32:
        return at(positions)
    high = positions // ROW * (2 * ROW) + positions % ROW
    return (at(high) << _HALF) | at(high + ROW)
