"""Reading and writing parts of arrays, against NumPy and against what MXNet 1.9.1 answers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import phonograd.core.ops.math.examination
import phonograd.core.ops.shape.coordinates
import phonograd.core.ops.shape.indexing
import phonograd.core.ops.shape.sequence
import phonograd.core.ops.shape.slicing  # noqa: F401
from phonograd.core.base.errors import MXNetError
from phonograd.core.derive.gradient import differentiate
from phonograd.core.graph.node import Node, ancestors
from phonograd.core.ops.math.structural import full, variable
from phonograd.core.ops.shape.indexing import assign_flat, boolean_mask, take_points, view_flat
from phonograd.core.run.reference import evaluate

from .checks import Sample, check_gradients, check_inference, leaves_for
from .samples_indexing import SAMPLES

RANGES = st.integers(0, 9).flatmap(lambda start: st.tuples(st.just(start), st.integers(0, 10 - start)))
MATRIX = np.arange(12, dtype=np.float32).reshape(3, 4)


class Cubed(Sample):
    """A sample whose outputs are raised to the third power: gradients of linear operators get derivatives too."""

    def call(self, nodes: Any) -> list[Node]:
        return [out * out * out for out in super().call(nodes)]


@pytest.mark.parametrize("sample", SAMPLES, ids=repr)
def test_inference(sample: Sample) -> None:
    check_inference(sample)


@pytest.mark.parametrize("sample", [sample for sample in SAMPLES if sample.order], ids=repr)
def test_gradients(sample: Sample) -> None:
    check_gradients(sample)


@pytest.mark.parametrize("sample", [sample for sample in SAMPLES if sample.order == 3], ids=repr)
def test_gradients_of_gradients(sample: Sample) -> None:
    check_gradients(Cubed(sample.name, sample.inputs, sample.parameters, 3, sample.wrt))


def run(name: str, *arrays: Any, **parameters: Any) -> Any:
    """Return the value of one call."""
    return check_inference(Sample(name, arrays, parameters))[0]


def array(*numbers: Any, dtype: str = "float32") -> Any:
    return np.array(numbers, dtype)


# -- regions


@given(st.data())
def test_views_read_what_was_written_through_views(data: Any) -> None:
    """A random program of writes to flat ranges and reads of others, against NumPy."""
    (node,), bindings = leaves_for([np.arange(10.0)])
    model = np.arange(10.0)
    for number in range(data.draw(st.integers(1, 5))):
        start, size = data.draw(RANGES)
        node = assign_flat(node, full((size,), 100 + number, np.dtype("float64")), start)
        model[start : start + size] = 100 + number
        start, size = data.draw(RANGES)
        read = evaluate([view_flat(node, start, (size, 1))], bindings)[0]
        np.testing.assert_array_equal(read, model[start : start + size, None])


def test_what_was_written_is_read_without_the_base() -> None:
    (base, value), _ = leaves_for([np.zeros(6), np.ones(2)])
    written = assign_flat(base, value, 2)
    assert value in ancestors([view_flat(written, 2, (2,))])
    assert base not in ancestors([view_flat(written, 2, (2,))])
    assert value not in ancestors([view_flat(written, 4, (2,))])


def test_many_writes_can_be_looked_through() -> None:
    (node,), bindings = leaves_for([np.arange(3000.0)])
    base = node
    for place in range(2999):
        node = assign_flat(node, full((1,), 0, np.dtype("float64")), place)
    assert evaluate([view_flat(node, 2999, (1,))], bindings)[0] == 2999
    assert view_flat(node, 2999, (1,)).call[1] == (node,)
    assert base in ancestors([view_flat(node, 2999, (1,))], lambda found: found is not node)


# -- index arrays


@given(st.data())
def test_points_follow_numpy(data: Any) -> None:
    shape = data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=4).map(tuple))
    layout, indices, key = [], [], []
    for extent in shape:
        if data.draw(st.booleans()):
            size = data.draw(st.sampled_from([(), (2,), (1, 2), (2, 1)]))
            numbers = [data.draw(st.integers(-extent, extent - 1)) for _ in range(int(np.prod(size)))]
            layout.append(len(indices))
            indices.append(np.array(numbers, np.int64).reshape(size))
            key.append(indices[-1])
        else:
            layout.append(-1)
            key.append(slice(None))
    if not indices:
        return
    values = np.arange(float(np.prod(shape))).reshape(shape)
    expected = values[tuple(key)]
    np.testing.assert_array_equal(run("_take_points", values, *indices, layout=tuple(layout)), expected)
    new = 100 + np.arange(float(expected.size)).reshape(expected.shape)
    written = run("_assign_points", values, new, *indices, layout=tuple(layout))
    model = values.copy()
    model[tuple(key)] = new
    np.testing.assert_array_equal(written, model)


def test_no_index_arrays_take_everything() -> None:
    (node,), _ = leaves_for([MATRIX])
    assert take_points(node, (-1, -1), ()) is node


@pytest.mark.parametrize(("place", "axis", "size"), [((7, 0), 0, 3), ((0, -5), 1, 4)])
def test_points_out_of_range(place: tuple[int, int], axis: int, size: int) -> None:
    with pytest.raises(IndexError, match=f"index {place[axis]} is out of bounds for axis {axis} with size {size}"):
        run("_take_points", MATRIX, *[np.array([number]) for number in place], layout=(0, 1))
    with pytest.raises(IndexError, match="out of bounds"):
        run("gather_nd", MATRIX, array([place[0]], [place[1]]))


@pytest.mark.parametrize(
    ("shown", "operator", "arrays", "parameters"),
    [
        ("gather_nd", "gather_nd", [MATRIX, np.array([[7]])], {}),
        ("scatter_nd", "scatter_nd", [MATRIX[0], np.array([[7]] * 4).reshape(1, 4)], {"shape": (3,)}),
        ("index_add", "_index_add", [MATRIX, np.array([[7]]), MATRIX[:1]], {}),
        ("take", "take", [MATRIX, np.array([7])], {"mode": "raise"}),
        ("sparse_retain", "_sparse_retain", [MATRIX, np.array([7])], {}),
        ("indexing", "_take_points", [MATRIX, np.array([7])], {"layout": (0, -1)}),
    ],
)
def test_errors_name_the_operator_that_was_called(
    shown: str, operator: str, arrays: list[Any], parameters: dict[str, Any]
) -> None:
    with pytest.raises((IndexError, MXNetError), match=rf"(?s)7.*\n  in operator {shown}(,|$)"):
        run(operator, *arrays, **parameters)


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64"])
def test_negative_indices_of_any_size(dtype: str) -> None:
    """Extents exceed the range of int8, so its negative numbers are in range as unsigned ones."""
    index = np.array([[-1, 5], [127, -128]], dtype)
    assert run("_positions", index, extent=300, mode="index").tolist() == [[299, 5], [127, 172]]
    assert run("_positions", index, extent=300, mode="clip").tolist() == [[0, 5], [127, 0]]
    assert run("_positions", index, extent=300, mode="wrap").tolist() == [[299, 5], [127, 172]]
    with pytest.raises(IndexError, match="index 127 is out of bounds for axis 0 with size 127"):
        run("_positions", np.abs(index[:, 0]), extent=127, mode="index")
    with pytest.raises(MXNetError, match="indices out of bound: -1"):
        run("_positions", index, extent=300, mode="raise")


def gradients(sample: Sample, wrt: tuple[int, ...]) -> list[Any]:
    """Return the gradients of a sample's sum."""
    nodes, bindings = leaves_for(sample.inputs)
    for place in wrt:
        nodes[place] = variable(nodes[place], place)
    targets = differentiate((sample.call(nodes)[0],), (None,)).targets
    by_slot = {target.attributes[0]: grad for target, grad in targets.items()}
    return [None if by_slot[place] is None else evaluate([by_slot[place]], bindings)[0].tolist() for place in wrt]


def test_the_last_write_has_the_gradient() -> None:
    inputs = [np.zeros(3), np.ones(3), np.array([1, 2, 1])]
    sample = Sample("_assign_points", inputs, {"layout": (0,)})
    assert gradients(sample, (0, 1)) == [[1, 0, 0], [0, 1, 1]]
    assert gradients(Sample("scatter_nd", [np.ones(2), array([1, 1])], {"shape": (2,)}), (0,)) == [[0, 1]]


def test_gradients_of_equal_indices_add_up() -> None:
    assert gradients(Sample("take", [MATRIX[:, 0], array(2, 2, 0)]), (0, 1)) == [[1, 0, 2], None]
    assert gradients(Sample("gather_nd", [MATRIX[0], array([2, 2, 0])]), (0,)) == [[1, 0, 2, 0]]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32", "uint8"])
def test_sums_at_positions(dtype: str) -> None:
    values = np.arange(24).reshape(2, 4, 3).astype(dtype)
    place = np.array([2, 0, 2, 2])
    expected = np.zeros((2, 3, 3), dtype)
    np.add.at(expected, (slice(None), place), values)
    np.testing.assert_array_equal(run("_add_axis", values, place, axis=1, extent=3), expected)


def test_take() -> None:
    numbers = array(0, -1, 3, -5, 7.9)
    assert run("take", MATRIX, numbers)[:, 0].tolist() == [0, 0, 8, 0, 8]
    assert run("take", MATRIX, numbers, mode="wrap")[:, 0].tolist() == [0, 8, 0, 4, 4]
    assert run("take", MATRIX, array([0, 1.9]), axis=-1).tolist() == [[[0, 1]], [[4, 5]], [[8, 9]]]
    with pytest.raises(MXNetError, match="take operator contains indices out of bound"):
        run("take", MATRIX, numbers, mode="raise")
    with pytest.raises(MXNetError, match=r"Axis should be in the range of \[-r, r-1\]"):
        run("take", MATRIX, numbers, axis=2)
    with pytest.raises(MXNetError, match="Invalid Input: 'foo'"):
        run("take", MATRIX, numbers, mode="foo")


def test_pick() -> None:
    numbers = array(-1.5, 4.7, 1.9)
    assert run("pick", MATRIX, numbers).tolist() == [0, 7, 9]
    assert run("pick", MATRIX, numbers, mode="wrap").tolist() == [3, 4, 9]
    assert run("pick", MATRIX, numbers[:, None], keepdims=True).shape == (3, 1)
    assert run("choose_element_0index", MATRIX, array(0, 1, 2)).tolist() == [0, 5, 10]
    with pytest.raises(MXNetError, match="axis=None is not supported by pick yet"):
        run("pick", MATRIX, numbers, axis=None)
    with pytest.raises(MXNetError, match=r"Provided = \[2\], inferred shape=\[3\]"):
        run("pick", MATRIX, numbers[:2])
    with pytest.raises(MXNetError, match="axis 2 exceeds the input dimension of 2"):
        run("pick", MATRIX, numbers, axis=2)


def test_batch_take_has_no_gradient() -> None:
    assert run("batch_take", MATRIX, array(0, 9, -1, dtype="int32")).tolist() == [0, 7, 8]
    sample = Sample("batch_take", [MATRIX, array(0, 1, 2, dtype="int32")])
    with pytest.raises(MXNetError, match="Operator batch_take is non-differentiable"):
        gradients(sample, (0,))
    with pytest.raises(MXNetError, match="Provided = float32, inferred type = int32"):
        run("batch_take", MATRIX, array(0, 1, 2))


def test_fill_element() -> None:
    filled = run("fill_element_0index", MATRIX, array(-1, -2, -3), array(0, 1, 9))
    assert filled.tolist() == [[-1, 1, 2, 3], [4, -2, 6, 7], [8, 9, 10, 11]]


def test_scatter() -> None:
    assert run("scatter_nd", array(1, 2), array([0, 0], [1, 1]), shape=(2, 2)).tolist() == [[0, 2], [0, 0]]
    assert run("_backward_gather_nd", array(1, 2), array([0, 0], [1, 1]), shape=(2, 2)).tolist() == [[0, 3], [0, 0]]
    with pytest.raises(MXNetError, match="Invalid data, indices, and output shape combination for scatter_nd"):
        run("scatter_nd", array(1, 2, 3), array([0, 1]), shape=(3,))
    with pytest.raises(MXNetError, match="Number of indices exceeds output dimension"):
        run("scatter_nd", array(1, 2), array([0, 1], [0, 1]), shape=(3,))
    with pytest.raises(MXNetError, match="at least 2 dimensions"):
        run("gather_nd", MATRIX, array(0, 1))
    with pytest.raises(MXNetError, match="Number of indices exceeds data dimension"):
        run("gather_nd", MATRIX, array([0], [0], [0]))


def test_index_copy() -> None:
    copied = run("_contrib_index_copy", MATRIX[:, :2], array(0, 2), -np.ones((2, 2), np.float32))
    assert copied.tolist() == [[-1, -1], [4, 5], [-1, -1]]
    with pytest.raises(MXNetError, match="_contrib_index_copy"):
        run("_contrib_index_copy", MATRIX, array(0, 1), np.ones((3, 4), np.float32))


def test_embedding() -> None:
    rows = run("Embedding", array(0, 1.9, -1, 5), MATRIX, input_dim=3, output_dim=4)
    assert rows[:, 0].tolist() == [0, 4, 0, 8]
    with pytest.raises(MXNetError, match=r"Provided = \[3,4\], inferred shape=\[3,5\]"):
        run("Embedding", array(0, 1), MATRIX, input_dim=3, output_dim=5)


# -- slices


def test_slices_have_the_bounds_of_python() -> None:
    assert run("slice", MATRIX, begin=(-9,), end=(2,)).shape == (2, 4)
    assert run("slice", MATRIX, begin=(9,), end=(None,), step=(-1,))[:, 0].tolist() == [8, 4, 0]
    assert run("slice", MATRIX, begin=(2,), end=(-9,), step=(-1,))[:, 0].tolist() == [8, 4, 0]
    assert run("slice", MATRIX, begin=(0, 5), end=(2, 9)).shape == (2, 0)
    assert run("crop", MATRIX, begin=0, end=2, step=2).tolist() == [[0, 1, 2, 3]]
    assert run("slice", MATRIX, begin=(), end=()).shape == (3, 4)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"begin": (0, 0, 0), "end": (1, 1, 1)}, "Slicing axis exceeds data dimensions"),
        ({"begin": (0, 1), "end": (2,)}, "begin and end must have the same length"),
        ({"begin": (0, 1), "end": (2, 3), "step": (1,)}, "step and begin must have the same length"),
        ({"begin": (0,), "end": (2,), "step": (0,)}, r"slice op step\[0\] cannot be 0"),
    ],
)
def test_slice_errors(parameters: Any, message: str) -> None:
    with pytest.raises(MXNetError, match=message):
        run("slice", MATRIX, **parameters)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"axis": 2, "begin": 0, "end": 1}, "Recieved axis=2, src_ndim=2, transformed axis=2"),
        ({"axis": 0, "begin": 2, "end": 2}, "Invalid begin, end, get begin=2, end=2"),
        ({"axis": 0, "begin": 1, "end": 9}, "Invalid end for end=9 as axis_size is 3"),
        ({"axis": 0, "begin": -9, "end": 2}, "Invalid begin for begin=-9"),
        ({"axis": 0, "begin": 3, "end": None}, "Invalid begin, end, get begin=3, end=None"),
        ({"axis": 0, "begin": 0}, "Required parameter end"),
    ],
)
def test_slice_axis_errors(parameters: Any, message: str) -> None:
    with pytest.raises(MXNetError, match=message):
        run("slice_axis", MATRIX, **parameters)


def test_slice_like() -> None:
    assert run("slice_like", MATRIX, np.zeros((2, 2, 5)), axes=(-1,)).shape == (3, 2)
    sample = Sample("slice_like", [MATRIX, np.zeros((2, 9), np.float32)], {"axes": (0,)})
    assert gradients(sample, (0, 1)) == [[[1] * 4, [1] * 4, [0] * 4], None]
    with pytest.raises(MXNetError, match="ndim mismatch for inputs: 2 vs"):
        run("slice_like", MATRIX, np.zeros((2, 2, 2)))
    with pytest.raises(MXNetError, match="Slice axis: 1 exceeds second input: 1"):
        run("slice_like", MATRIX, np.zeros(2), axes=(1,))
    with pytest.raises(MXNetError, match="Slice axis 0 with size 5 exceeds limit of input with size 3"):
        run("slice_like", MATRIX, np.zeros((5, 2)))


# -- conditions and codes


def test_where() -> None:
    x, y = np.ones((2, 3), np.float32), np.zeros((2, 3), np.float32)
    assert run("where", array(np.nan, 0), x, y).tolist() == [[1, 1, 1], [0, 0, 0]]
    for condition in (np.ones(3), np.ones((2, 1))):
        with pytest.raises(MXNetError, match="Operator where inferring shapes failed"):
            run("where", condition, x, y)
    with pytest.raises(MXNetError, match="expected float32, got int32"):
        run("where", array(1, 0), x, y.astype(np.int32))


@pytest.mark.parametrize("axis", [0, 1, -2])
def test_boolean_mask(axis: int) -> None:
    mask = array(0, -1, 0.5) if axis != 1 else array(1, 0, 0, 1)
    (data, index), bindings = leaves_for([MATRIX, mask])
    assert data is not None
    marked = variable(data, 0)
    out = boolean_mask(marked, index, axis, mask)
    np.testing.assert_array_equal(evaluate([out], bindings)[0], np.compress(mask != 0, MATRIX, axis))
    (grad,) = differentiate((out,), (None,)).targets.values()
    taken = np.expand_dims(mask != 0, 1 - axis % 2) * np.ones_like(MATRIX)
    np.testing.assert_array_equal(evaluate([grad], bindings)[0], taken)
    with pytest.raises(MXNetError, match="boolean_mask needs a mask"):
        boolean_mask(marked, leaves_for([np.zeros(9)])[0][0], axis, np.zeros(9))


def test_one_hot() -> None:
    codes = run("one_hot", array(0, 2, -1, 5, 1.9), depth=3)
    assert codes.tolist() == [[1, 0, 0], [0, 0, 1], [0, 0, 0], [0, 0, 0], [0, 1, 0]]
    assert run("_onehot_encode", array(0, 5), np.zeros((2, 3), np.float16)).tolist() == [[1, 0, 0], [0, 0, 0]]


def test_coordinates() -> None:
    assert run("ravel_multi_index", array([0, 1], [3, 9]), shape=(3, 4)).tolist() == [3, 13]
    assert run("ravel_multi_index", array([0, 1], [3, 1]), shape=(-1, 4)).tolist() == [3, 5]
    assert run("unravel_index", array(0, 13, -1), shape=(3, 4)).tolist() == [[0, 3, 0], [0, 1, -1]]
    assert run("_contrib_index_array", MATRIX[:2, :2], axes=(1, 0)).tolist() == [[[0, 0], [1, 0]], [[0, 1], [1, 1]]]
    with pytest.raises(MXNetError, match="Empty shape parameter for unravel operator"):
        run("unravel_index", array(0))
    with pytest.raises(MXNetError, match="must be two-dimensional"):
        run("ravel_multi_index", array(1, 2), shape=(3, 4))
    with pytest.raises(MXNetError, match="does not match shape parameter dimension"):
        run("ravel_multi_index", array([0], [3]), shape=(3, 4, 5))


def test_examination() -> None:
    odd = array(1, np.nan, np.inf, -np.inf)
    assert run("_contrib_isnan", odd).tolist() == [0, 1, 0, 0]
    assert run("_contrib_isinf", odd).tolist() == [0, 0, 1, 1]
    assert run("_contrib_isfinite", odd).tolist() == [1, 0, 0, 0]
    assert run("_contrib_allclose", odd, odd) == 1
    assert run("_contrib_allclose", odd, odd, equal_nan=False) == 0
    assert run("_contrib_allclose", array(1), array(1.1), rtol=0.2) == 1
    assert run("_contrib_getnnz", MATRIX).tolist() == [11]
    assert run("_contrib_getnnz", MATRIX, axis=1).tolist() == [3, 4, 4]


# -- sequences

SEQUENCES = np.arange(8, dtype=np.float32).reshape(4, 2)


def test_sequences() -> None:
    lengths = array(1, 3.9)
    masked = run("SequenceMask", SEQUENCES, lengths, use_sequence_length=True, value=-1)
    assert masked.tolist() == [[0, 1], [-1, 3], [-1, 5], [-1, -1]]
    masked = run("SequenceMask", SEQUENCES.T, array(0, 9), use_sequence_length=True, axis=1)
    assert masked.tolist() == [[0, 0, 0, 0], [1, 3, 5, 7]]
    assert run("SequenceLast", SEQUENCES, lengths, use_sequence_length=True).tolist() == [0, 5]
    assert run("SequenceLast", SEQUENCES, axis=1).tolist() == [1, 3, 5, 7]
    assert run("SequenceLast", SEQUENCES, array(0, 9, dtype="uint8"), use_sequence_length=True).tolist() == [0, 7]
    turned = run("SequenceReverse", SEQUENCES, lengths, use_sequence_length=True)
    assert turned.tolist() == [[0, 5], [2, 3], [4, 1], [6, 7]]
    assert run("SequenceReverse", SEQUENCES).tolist() == SEQUENCES[::-1].tolist()


@pytest.mark.parametrize("name", ["SequenceMask", "SequenceLast", "SequenceReverse"])
def test_sequence_errors(name: str) -> None:
    with pytest.raises(MXNetError, match=f"Operator {name} expects 1 inputs, but got 2 instead"):
        run(name, SEQUENCES, array(1, 2))
    with pytest.raises(MXNetError, match=f"Operator {name} expects 2 inputs, but got 1 instead"):
        run(name, SEQUENCES, use_sequence_length=True)
    with pytest.raises(MXNetError, match="must be of rank 2 or greater"):
        run(name, SEQUENCES[0])
    with pytest.raises(MXNetError, match="Current implementation expects axis to be 0"):
        run(name, SEQUENCES, axis=2)
    with pytest.raises(MXNetError, match=r"Provided = \[3\], inferred shape=\[2\]"):
        run(name, SEQUENCES, array(1, 2, 3), use_sequence_length=True)
