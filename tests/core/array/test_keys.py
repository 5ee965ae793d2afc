"""Index keys against NumPy: every key selects the same elements, and what is called contiguous is."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from phonograd.core.array.keys import Advanced, Basic, is_contiguous, parse, simple, value_shape
from phonograd.core.base.errors import MXNetError
from phonograd.core.ops.math.primitives import _slices

SHAPES = st.lists(st.integers(1, 4), min_size=1, max_size=4).map(tuple)


def counting(shape: tuple[int, ...]) -> Any:
    return np.arange(int(np.prod(shape))).reshape(shape)


def spans(extent: int) -> st.SearchStrategy[slice]:
    bound = st.none() | st.integers(-extent - 2, extent + 2)
    return st.builds(slice, bound, bound, st.none() | st.sampled_from([1, 2, -1, -2, 3]))


Part = Callable[[Any, int], Any]


@st.composite
def keys(draw: Any, part: Part) -> tuple[tuple[int, ...], tuple[Any, ...]]:
    """Draw a shape and a key for it: parts for the first and the last axes, Ellipsis between them, and Nones."""
    shape = draw(SHAPES)
    first = draw(st.integers(0, len(shape)))
    last = draw(st.integers(min(first + 1, len(shape)), len(shape)))
    parts = [part(draw, extent) for extent in shape[:first]]
    if last < len(shape) or draw(st.booleans()):
        parts += [Ellipsis, *[part(draw, extent) for extent in shape[last:]]]
    for _ in range(draw(st.integers(0, 2))):
        parts.insert(draw(st.integers(0, len(parts))), None)
    return shape, tuple(parts)


def number_or_span(draw: Any, extent: int) -> Any:
    return draw(st.integers(-extent, extent - 1) | spans(extent) | spans(extent))


def number_span_or_array(draw: Any, extent: int) -> Any:
    if draw(st.booleans()):
        return number_or_span(draw, extent)
    size = draw(st.sampled_from([(1,), (2,), (2, 2), (1, 2), (2, 1), (3, 1, 1)]))
    count = int(np.prod(size))
    numbers = draw(st.lists(st.integers(-extent, extent - 1), min_size=count, max_size=count))
    return np.array(numbers).reshape(size)


def basic_keys() -> st.SearchStrategy[Any]:
    return keys(number_or_span)


def advanced_keys() -> st.SearchStrategy[Any]:
    def is_advanced(drawn: Any) -> bool:
        return any(isinstance(part, np.ndarray) for part in drawn[1])

    return keys(number_span_or_array).filter(is_advanced)


def select(data: Any, found: Basic | Advanced) -> Any:
    """Return what a selection means, as NumPy computes it from the description."""
    region = data[_slices(found.begin, found.end, found.step)]
    if isinstance(found, Basic):
        return region.reshape(found.shape)
    key = tuple([found.indices[number] if number >= 0 else slice(None) for number in found.layout])
    return region.reshape(found.expanded)[key]


def assign(data: Any, found: Basic | Advanced, value: Any) -> Any:
    """Return the array after an assignment, by the steps that a selection describes."""
    out = data.copy()
    fitted = value.reshape(value_shape(found, value.shape))
    slices = (*_slices(found.begin, found.end, found.step), ...)
    if isinstance(found, Basic):
        out[slices] = fitted
        return out
    region = out[slices].reshape(found.expanded)
    key = tuple([found.indices[number] if number >= 0 else slice(None) for number in found.layout])
    region[key] = fitted
    out[slices] = region.reshape(out[slices].shape)
    return out


@given(basic_keys())
def test_basic_keys_select_what_numpy_selects(drawn: Any) -> None:
    shape, key = drawn
    data = counting(shape)
    expected = data[key]
    found = parse(key, shape)
    assert isinstance(found, Basic)
    assert found.shape == (np.shape(expected) or (1,))
    np.testing.assert_array_equal(select(data, found), np.reshape(expected, found.shape))
    if found.offset is None:
        assert expected.size == 0 or not expected.flags.c_contiguous
    else:
        line = data.reshape(-1)[found.offset : found.offset + expected.size]
        np.testing.assert_array_equal(line.reshape(found.shape), np.reshape(expected, found.shape))


@given(advanced_keys())
def test_advanced_keys_select_what_numpy_selects(drawn: Any) -> None:
    shape, key = drawn
    data = counting(shape)
    expected = data[key]
    found = parse(key, shape)
    assert isinstance(found, Advanced)
    assert found.shape == found.target == expected.shape
    np.testing.assert_array_equal(select(data, found), expected)


@given(basic_keys() | advanced_keys(), st.data())
def test_assignment_writes_what_numpy_writes(drawn: Any, data: Any) -> None:
    shape, key = drawn
    writes = np.zeros(shape, int)
    np.add.at(writes, key, 1)
    assume(writes.max(initial=0) <= 1)  # NumPy does not promise an order of several
    expected = counting(shape)
    full = expected[key].shape
    # with None in the key, a value of fewer axes is one that leaves them out
    expands = any(part is None for part in key)
    missing = 0 if expands else data.draw(st.integers(0, len(full)))
    size = tuple([data.draw(st.sampled_from([1, extent])) for extent in full[missing:]])
    value = 100 + counting((1,) * data.draw(st.integers(0, 2)) + size)
    # the Ellipsis lets NumPy assign a vector of one to an element, too
    expected[key if any(part is ... for part in key) else (*key, ...)] = value
    found = parse(key, shape)
    np.testing.assert_array_equal(assign(counting(shape), found, value), expected)
    if expands:
        plain = value_shape(found, value.shape)
        kept = tuple([extent for axis, extent in enumerate(plain) if axis not in found.dropped])
        np.testing.assert_array_equal(assign(counting(shape), found, value.reshape(kept)), expected)


@given(SHAPES, st.data())
def test_contiguity_agrees_with_numpy(shape: tuple[int, ...], data: Any) -> None:
    slices = tuple([data.draw(spans(extent)) for extent in shape])
    assert is_contiguous(slices, shape) == np.zeros(shape)[slices].flags.c_contiguous


CUBE = (3, 4, 5)


@pytest.mark.parametrize(
    ("key", "shape"),
    [
        ((0, 1, 2), (1,)),
        (True, (4, 5)),
        ((True, False), (5,)),
        ([True, False, True], (3, 4, 5)),
        (np.array([True, False]), (2, 4, 5)),
        (np.int64(1), (4, 5)),
        (np.array([0.7, 1.9]), (2, 4, 5)),
        (range(2), (2, 4, 5)),
        (((0, 2), 1), (2, 5)),
        ((1, None, 2, None, 3), (1, 1)),
        ((0, slice(None), [1, 2]), (2, 4)),
        ((np.array(1), 0), (1, 5)),
        ([], (0, 4, 5)),
        (slice(5, 9), (0, 4, 5)),
        ((slice(2, 1),), (0, 4, 5)),
        (slice(-(2**70), 2**70), (3, 4, 5)),
    ],
)
def test_shapes_of_unusual_keys(key: Any, shape: tuple[int, ...]) -> None:
    assert parse(key, CUBE).shape == shape


def test_an_ellipsis_of_no_axes_does_not_separate_index_arrays() -> None:
    """NumPy would move the picked axis to the front."""
    assert parse((slice(None), [0, 1, 2], ..., [0, 1, 2]), (2, 3, 4)).shape == (2, 3)


def test_truth_values_are_numbers() -> None:
    assert parse((False, True), CUBE) == parse((0, 1), CUBE)
    assert parse([True, False, True], CUBE).indices[0].tolist() == [1, 0, 1]


@pytest.mark.parametrize("key", [slice(None), slice(None, None, 1), ()])
def test_whole_keys_are_the_array_itself(key: Any) -> None:
    assert parse(key, CUBE).whole
    assert parse(key, ()).whole


@pytest.mark.parametrize("key", [Ellipsis, None, slice(0, 3), (slice(None), slice(None)), 0])
def test_other_keys_are_new_arrays(key: Any) -> None:
    found = parse(key, CUBE)
    assert not found.whole
    assert found.offset == 0


@pytest.mark.parametrize(
    ("key", "kind", "message"),
    [
        (3, IndexError, "index 3 is out of bounds for axis 0 with size 3"),
        (-4, IndexError, "index -4 is out of bounds for axis 0 with size 3"),
        ((0, 4), IndexError, "index 4 is out of bounds for axis 1 with size 4"),
        (([0, 1], 4), IndexError, "index 4 is out of bounds for axis 1 with size 4"),
        ([0, 3], IndexError, "index 3 is out of bounds for axis 0 with size 3"),
        ((0, 0, 0, 0), IndexError, "too many indices (4) for array with 3 dimensions"),
        ((0, 0, [0], 0), IndexError, "too many indices (4) for array with 3 dimensions"),
        ((..., 0, ...), IndexError, "Cannot use more than one ellipsis (`...`) for indexing"),
        (slice(None, None, 0), ValueError, "slice step cannot be zero"),
        ((slice(None), slice(None, None, 0)), ValueError, "slice step cannot be zero"),
        (1.5, ValueError, "NDArray does not support slicing with key 1.5 of type <class 'float'>."),
        ((0, "a"), ValueError, "NDArray does not support slicing with key a of type <class 'str'>."),
        (np.float32(1), ValueError, "NDArray does not support slicing with key 1.0 of type <class 'numpy.float32'>."),
        (np.bool_(True), ValueError, "NDArray does not support slicing with key True of type"),
        (([0, 1], [0, 1, 2]), ValueError, "shape1=(2,) is not broadcastable to shape2=(3,)"),
        ([[0, 1], [0]], TypeError, "source_array must be array like object"),
        ([0, "a"], TypeError, "source_array must be array like object"),
        (slice(1, 2.5), TypeError, "'float' object cannot be interpreted as an integer"),
        (slice(2, 1), MXNetError, "Invalid slicing range [2, 1)"),
        (slice(-1, 1, 1), MXNetError, "Invalid slicing range [2, 1)"),
    ],
)
def test_errors(key: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind) as caught:
        parse(key, CUBE)
    assert message in str(caught.value)


class Stub:
    """What the parser needs of an array of the library."""

    def __init__(self, shape: tuple[int, ...], dtype: str) -> None:
        self.shape = shape
        self.dtype = np.dtype(dtype)


def is_stub(value: Any) -> bool:
    return isinstance(value, Stub)


def test_arrays_of_the_library_are_handed_on() -> None:
    rows = Stub((2, 1), "float32")
    found = parse((rows, slice(None), [0, 1, 2]), CUBE, is_stub)
    assert found.indices[0] is rows
    assert found.shape == (2, 3, 4)
    assert parse(Stub((), "int32"), CUBE, is_stub).shape == (1, 4, 5)


def test_boolean_arrays_of_the_library_are_refused() -> None:
    with pytest.raises(ValueError, match="Cannot perform boolean indexing in legacy mode"):
        parse(Stub((3,), "bool"), CUBE, is_stub)


@pytest.mark.parametrize(
    ("key", "value", "shape"),
    [
        (slice(1, 3), (4, 5), (1, 4, 5)),
        (slice(1, 3), (1, 1, 2, 4, 5), (2, 4, 5)),
        (0, (4, 5), (1, 4, 5)),
        ((0, 1, 2), (1,), (1, 1, 1)),
        ((0, 1, 2), (), (1, 1, 1)),
        ((slice(None), 0), (3, 5), (3, 1, 5)),
        ((slice(None), None, slice(1, 3)), (3, 1, 2, 5), (3, 2, 5)),
        ((slice(None), None, slice(1, 3)), (3, 2, 5), (3, 2, 5)),
        ((..., None), (3, 4, 5, 1), (3, 4, 5)),
        ((..., None), (4, 5), (1, 4, 5)),
        (([0, 2], None, [1, 3]), (2, 5), (2, 1, 5)),
        (([0, 2], None, [1, 3]), (2, 1, 5), (2, 1, 5)),
    ],
)
def test_values_are_aligned(key: Any, value: tuple[int, ...], shape: tuple[int, ...]) -> None:
    assert value_shape(parse(key, CUBE), value) == shape


@pytest.mark.parametrize(
    ("key", "value", "requested"),
    [(slice(1, 3), (3, 4, 5), "(2, 4, 5)"), ((0, 1, 2), (2,), "(1,)"), ((slice(None), 0), (3, 1, 5), "(3, 5)")],
)
def test_values_that_do_not_fit(key: Any, value: tuple[int, ...], requested: str) -> None:
    sentence = "operands could not be broadcast together with remapped shapes[original->remapped]: "
    with pytest.raises(ValueError, match="broadcast") as caught:
        value_shape(parse(key, CUBE), value)
    assert str(caught.value) == f"{sentence}{value} and requested shape {requested}"


# -- the quick way for keys of loops


@given(st.data(), st.lists(st.integers(0, 4), max_size=3))
def test_simple_keys_are_parsed_alike(data: Any, extents: list[int]) -> None:
    shape = tuple(extents)
    bound = st.one_of(st.none(), st.integers(-5, 5))
    key = data.draw(st.one_of(st.integers(-5, 5), st.builds(slice, bound, bound, bound)))
    for _ in range(2):
        try:
            expected: Any = parse(key, shape)
        except (IndexError, ValueError, MXNetError) as error:
            with pytest.raises(type(error), match=re.escape(str(error))):
                simple(key, shape)
        else:
            assert simple(key, shape) == expected


@pytest.mark.parametrize("key", [True, np.int64(1), (1,), ..., None, [0], slice(np.int64(0), 1), 1.0], ids=str)
def test_other_keys_are_not_simple(key: Any) -> None:
    assert simple(key, (3, 4)) is None
