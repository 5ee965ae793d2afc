"""The random generator: published vectors, the order of its words, and what the distributions promise."""

from __future__ import annotations

import math

import numpy as np
import pytest

from phonograd.core.lower import philox

KEY = (0x12345678, 0x9ABCDEF0)
STREAM = (7, 1)
DTYPES = [np.dtype(name) for name in ("float16", "float32", "float64")]


# the three vectors that Random123 publishes for philox4x32 with 10 rounds: counter, key, words
@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [
        ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_published_vectors(counter, key, expected):
    assert philox.philox4x32(counter, key).tolist() == list(expected)


def test_words_are_rows_of_sixteen_blocks():
    found = philox.words(KEY, STREAM, 200)
    assert (found.dtype, found.shape) == (np.uint32, (200,))
    for place in (0, 1, 15, 16, 31, 63, 64, 130, 199):
        group, row, lane = place // 64, place % 64 // 16, place % 16
        block = philox.philox4x32((16 * group + lane, 0, *STREAM), KEY)
        assert found[place] == block[row]


def test_a_longer_call_begins_with_a_shorter_one():
    long = philox.words(KEY, STREAM, 70_000)
    for count in (0, 1, 63, 64, 65, 16384, 16385, 65536):
        assert np.array_equal(philox.words(KEY, STREAM, count), long[:count])


def test_keys_and_streams_differ():
    base = philox.words((1, 2), (3, 4), 64)
    for key, stream in (((2, 2), (3, 4)), ((1, 3), (3, 4)), ((1, 2), (4, 4)), ((1, 2), (3, 5))):
        assert not np.array_equal(base, philox.words(key, stream, 64))
    assert np.array_equal(base, philox.words(np.array([1, 2], np.uint32), np.array([3, 4], np.uint32), 64))


def test_uniform_bits():
    extremes = np.array([0, 0xFFFFFFFF] * 16, np.uint32)
    for dtype in DTYPES:
        values = philox.uniform01(extremes, dtype)
        assert values.dtype == dtype
        assert values.min() == 0
        assert values.max() < 1
    assert philox.uniform01(extremes, np.dtype("float16"))[1] == 1 - 2.0**-11
    assert philox.uniform01(extremes, np.dtype("float32"))[1] == 1 - 2.0**-24
    rows = np.zeros((2, 16), np.uint32)
    rows[0, 3], rows[1, 3], rows[1, 4] = 0xFFFFFFFF, 0xFFFFFFFF, 1 << 11
    wide = philox.uniform01(rows.reshape(-1), np.dtype("float64"))
    assert wide[3] == 1 - 2.0**-53
    assert wide[4] == 2.0**-53
    assert wide[0] == 0


def test_positive_is_never_zero():
    extremes = np.array([0, 0xFFFFFFFF] * 16, np.uint32)
    assert philox.positive01(extremes, np.dtype("float32"))[:2].tolist() == [2.0**-33, 1.0]
    assert philox.positive01(np.zeros(32, np.uint32), np.dtype("float64"))[0] == 2.0**-53
    assert philox.positive01(np.full(32, 0xFFFFFFFF, np.uint32), np.dtype("float64"))[0] == 1.0


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("draw", [philox.uniform, philox.normal, philox.exponential])
def test_elements_do_not_depend_on_the_count(draw, dtype):
    long = draw(KEY, STREAM, 1000, dtype)
    assert (long.dtype, long.shape) == (dtype, (1000,))
    for count in (0, 1, 16, 17, 31, 33, 64, 100):
        assert np.array_equal(draw(KEY, STREAM, count, dtype), long[:count])


@pytest.mark.parametrize("dtype", DTYPES)
def test_moments(dtype):
    count = 200_000
    noise = 5 / math.sqrt(count)
    uniform = philox.uniform(KEY, STREAM, count, dtype).astype(np.float64)
    # uniform numbers of 11 bits lie 2**-12 below the middle of their interval
    assert abs(uniform.mean() - 0.5) < noise
    assert abs(uniform.var() - 1 / 12) < noise
    normal = philox.normal(KEY, STREAM, count, dtype).astype(np.float64)
    assert abs(normal.mean()) < noise
    assert abs((normal**2).mean() - 1) < 2 * noise
    assert abs((normal**3).mean()) < 4 * noise
    assert abs((normal**4).mean() - 3) < 10 * noise
    assert abs(np.corrcoef(normal[:-16], normal[16:])[0, 1]) < noise
    exponential = philox.exponential(KEY, STREAM, count, dtype).astype(np.float64)
    assert exponential.min() >= 0
    assert not np.signbit(exponential).any()
    assert abs(exponential.mean() - 1) < noise
    assert abs(exponential.var() - 1) < 3 * noise


def test_normal_follows_its_definition():
    random_words = philox.words(KEY, STREAM, 32)
    radius = math.sqrt(-2 * math.log(np.float32(random_words[5]) * np.float32(2.0**-32) + np.float32(2.0**-33)))
    angle = 2 * math.pi * (int(random_words[21]) >> 8) * 2.0**-24
    values = philox.normal(KEY, STREAM, 32, np.dtype("float32"))
    assert np.isclose(values[5], radius * math.cos(angle), rtol=1e-6)
    assert np.isclose(values[21], radius * math.sin(angle), rtol=1e-6)


@pytest.mark.parametrize(
    ("low", "high"),
    [
        (0, 1),
        (0, 3),
        (-5, 5),
        (0, 2**32),
        (-3, 2**32 - 2),
        (0, 2**63),
        (0, 3 * 2**61),
        (-(2**63), 2**63),
        (-(2**63), 2**63 - 1),
    ],
)
def test_integers_are_as_python_computes_them(low, high):
    count, extent = 300, high - low
    bits = 32 if extent <= 2**32 else 64

    def word(place: int, attempt: int) -> int:
        block = place // 64 * 16 + place % 16
        return int(philox.philox4x32((block, attempt << 16, *STREAM), KEY)[place % 64 // 16])

    def draw(index: int) -> int:
        for attempt in range(100):
            if bits == 32:
                drawn = word(index, attempt)
            else:
                place = index // 16 * 32 + index % 16
                drawn = word(place, attempt) << 32 | word(place + 16, attempt)
            if drawn * extent % 2**bits >= 2**bits % extent:
                return low + (drawn * extent >> bits)
        raise AssertionError("a hundred rejections")

    found = philox.integers(KEY, STREAM, count, low, high)
    assert (found.dtype, found.shape) == (np.int64, (count,))
    assert found.tolist() == [draw(index) for index in range(count)]
    assert np.array_equal(philox.integers(KEY, STREAM, 77, low, high), found[:77])


def test_integers_are_even():
    # the range 3 * 2**30 rejects a quarter of all words: with a remainder instead, the first third would come twice
    found = philox.integers(KEY, STREAM, 30_000, 0, 3 * 2**30)
    assert np.abs(np.bincount(found >> 30) - 10_000).max() < 500
    assert np.abs(np.bincount(philox.integers(KEY, STREAM, 60_000, -2, 4) + 2) - 10_000).max() < 500


def test_errors_name_the_bounds():
    with pytest.raises(ValueError, match=r"\[4, 4\).*high must be greater"):
        philox.integers(KEY, STREAM, 1, 4, 4)
    with pytest.raises(ValueError, match="do not fit"):
        philox.integers(KEY, STREAM, 1, 0, 2**64)
    with pytest.raises(TypeError, match="int32"):
        philox.uniform(KEY, STREAM, 1, np.dtype("int32"))
    with pytest.raises(ValueError, match="multiple of 32"):
        philox.uniform01(np.zeros(16, np.uint32), np.dtype("float64"))
    with pytest.raises(ValueError, match="pairs of rows"):
        philox.normal01(np.zeros(16, np.uint32), np.dtype("float32"))
