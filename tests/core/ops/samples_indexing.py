"""Samples of the operators that read and write parts of arrays, by number, slice, index array or condition."""

from __future__ import annotations

from typing import Any

import numpy as np

from .checks import Sample

_generator = np.random.default_rng(5)


def normal(*shape: int, dtype: str = "float32") -> Any:
    """Return random numbers of a shape."""
    return _generator.normal(size=shape).astype(dtype)


def index(*numbers: Any, dtype: str = "int64") -> Any:
    """Return an index array."""
    return np.array(numbers, dtype)


REGIONS: list[Sample] = [
    *[
        Sample("_assign_step", [normal(3, 4), normal(*value)], {"begin": begin, "end": end, "step": step})
        for value in ((), (2,), (2, 1), (2, 2))
        for begin, end, step in (((1, 0), (3, 2), (1, 1)), ((0, 3), (3, -1), (2, -2)))
    ],
    Sample("_assign_step", [normal(), normal()], {"begin": (), "end": (), "step": ()}),
    Sample("_assign_flat", [normal(3, 4), normal(2, 2)], {"start": 3}),
    Sample("_assign_flat", [normal(5), normal(1)], {"start": 4}),
    Sample("_view_flat", [normal(3, 4)], {"start": 4, "shape": (2, 3)}),
    Sample("_view_flat", [normal(3, 4)], {"start": 11, "shape": ()}),
    Sample("_view_step", [normal(3, 4)], {"begin": (2, 0), "end": (-1, 4), "step": (-1, 2)}),
    Sample("_view_step", [normal(3, 4)], {"begin": (0, 1), "end": (2, 3), "step": (1, 1)}),
]

POINTS: list[Sample] = [
    Sample("_positions", [index(-3, 1, 2)], {"extent": 3, "mode": "index"}, order=0),
    Sample("_point_positions", [index([-3, 1, 2], [3, -4, 0])], {"extents": (3, 4)}, order=0),
    Sample("_take_axis", [normal(2, 3, 2), index([0, 2], [2, 1])], {"axis": 1}),
    Sample("_take_axis", [normal(3), np.array(1)], {"axis": 0}),
    Sample("_add_axis", [normal(2, 2, 2, 3), index([0, 2], [2, 1])], {"axis": 1, "extent": 4}),
    Sample("_add_axis", [normal(0, 2), index()], {"axis": 0, "extent": 3}),
    Sample("_add_onto", [normal(3, 16), normal(2, 2, 16), index([0, 2], [2, 2])]),
    Sample("_put_axis", [normal(2, 3, 2), normal(2, 2, 2), index(2, 0)], {"axis": 1}),
    Sample("_put_axis", [normal(3, 2), normal(3, 1), index(2, 0, 2)], {"axis": 0}),
    Sample("_is_last", [index(2, 0, 2)], {"extent": 3}, order=0),
    Sample("_last_place", [index(2, 0, 2)], {"extent": 4}, order=0),
    Sample("_first_place", [index(2, 0, 2)], {"extent": 4}, order=0),
    Sample("_sum_slices", [normal(3, 2), index(2, 0, 2)], {"extent": 4}, order=0),
    Sample("_take_sums", [np.concatenate([np.zeros((1, 2)), normal(3, 2)]), index(2, 0, 1, 2)], {}, order=0),
    Sample("_take_along", [normal(2, 3), index([0, 2, 2, 1], [1, 1, 0, 2])], {"axis": 1}),
    Sample("_add_along", [normal(3, 2, 2), index(*[[[0, 1], [1, 1]]] * 3)], {"axis": 1, "extent": 2}),
    Sample("_take_points", [normal(3, 4, 2), index(0, -1, 0)], {"layout": (0, -1, -1)}),
    Sample("_take_points", [normal(3, 4, 2), index(0, 2), index([1], [-1])], {"layout": (-1, 0, 1)}),
    Sample("_take_points", [normal(3, 4, 2), index(0, 2), np.array(1)], {"layout": (0, -1, 1)}),
    Sample("_assign_points", [normal(3, 4), normal(2, 4), index(0, -1)], {"layout": (0, -1)}),
    Sample("_assign_points", [normal(3, 4), normal(3), index(0, 2, 0), index(1, 1, 1)], {"layout": (0, 1)}),
    Sample("_assign_points", [normal(3, 4, 2), normal(4), index(0, 2), index(1, 0)], {"layout": (0, -1, 1)}),
]

SLICES: list[Sample] = [
    Sample("slice", [normal(4, 5)], {"begin": (0, 1), "end": (2, None)}),
    Sample("slice", [normal(4, 5)], {"begin": (3, None), "end": (None, -1), "step": (-1, 2)}),
    Sample("slice", [normal(4, 5)], {"begin": (3,), "end": (1,)}, order=0),
    Sample("slice_axis", [normal(4, 3)], {"axis": -1, "begin": -2, "end": None}),
    Sample("slice_like", [normal(4, 3), normal(2, 2)]),
    Sample("slice_like", [normal(4, 3), normal(2)], {"axes": (0,)}),
    Sample("_slice_assign", [normal(4, 3), normal(2, 2)], {"begin": (1, 0), "end": (3, 2)}),
    Sample("_slice_assign_scalar", [normal(4, 3)], {"scalar": 2.5, "begin": (1,), "end": (4,), "step": (2,)}),
]

INDEX_ARRAYS: list[Sample] = [
    *[
        Sample(
            "take", [normal(2, 4, 3), index([0, 5], [-1, 2], dtype="float32")], {"axis": axis, "mode": mode}, wrt=(0,)
        )
        for axis in (0, 1, -1)
        for mode in ("clip", "wrap")
    ],
    Sample("take", [normal(4), index(3, 0)], {"mode": "raise"}),
    Sample("batch_take", [normal(3, 4), index(0, 9, 1, dtype="int32")], order=0),
    *[
        Sample("pick", [normal(2, 3, 2), index([0, 5], [-1, 2])], {"axis": 1, "mode": mode, "keepdims": keepdims})
        for mode in ("clip", "wrap")
        for keepdims in (False, True)
    ],
    Sample("pick", [normal(4), index(2)], {"axis": 0}),
    Sample("fill_element_0index", [normal(3, 4), normal(3), index(0, 3, 7)]),
    Sample("gather_nd", [normal(3, 4, 2), index([0, 2, 0], [1, -1, 1])]),
    Sample("gather_nd", [normal(3, 4), index([[0, 2]])]),
    Sample("scatter_nd", [normal(3), index([0, 2, 0], [1, 3, 1])], {"shape": (3, 4)}),
    Sample("scatter_nd", [normal(2, 4), index([0, 2])], {"shape": (3, 4)}),
    Sample("_scatter_set_nd", [normal(3, 4), normal(2), index([0, 2], [1, 3])], {"shape": (3, 4)}),
    Sample("_backward_gather_nd", [normal(3, 2), index([0, 2, 0])], {"shape": (3, 2)}),
    Sample("_index_add", [normal(3, 2), index([0, 2, 0]), normal(3, 2)]),
    Sample("_index_add", [normal(3, 2, 4), index([0, 2, 0], [1, -1, 1]), normal(1, 4)]),
    Sample("_index_add", [normal(3, 2, 16), index([0, 2, 0], [1, -1, 1]), normal(1, 16)]),
    Sample("_contrib_index_copy", [normal(3, 2), index(2, 0, 2), normal(3, 2)]),
    Sample("Embedding", [index([0, 3], [9, 3]), normal(4, 2)], {"input_dim": 4, "output_dim": 2}),
    Sample("_contrib_SparseEmbedding", [index(0, 3, 0), normal(4, 2)], {"input_dim": 4, "output_dim": 2}),
    Sample("_mask_positions", [index(0, 2, 0, 1)], {"count": 2}, order=0),
    Sample("where", [index([1, 0], [0, 1]), normal(2, 2), normal(2, 2)]),
    Sample("where", [index(1, 0), normal(2, 3), normal(2, 3)]),
]

CODES: list[Sample] = [
    *[
        Sample("one_hot", [index(0, 2, -1, dtype="int32")], {"depth": 3, "on_value": 5, "dtype": dtype}, order=0)
        for dtype in ("float16", "float32", "float64", "int8", "uint8", "int32", "int64")
    ],
    Sample("one_hot", [normal(2, 2)], {"depth": 0}),
    Sample("_onehot_encode", [index(0, 2, 5), normal(3, 3)], order=1),
    Sample("_ravel_multi_index", [index([0, 2], [3, 1], dtype="float32")], {"shape": (3, 4)}, order=0),
    Sample("_unravel_index", [index([0, 11], [7, 3], dtype="int32")], {"shape": (3, 4)}, order=0),
    Sample("_contrib_index_array", [normal(2, 3)], {}, order=1),
    Sample("_contrib_index_array", [normal(2, 3)], {"axes": (-1,)}, order=1),
    *[
        Sample(name, [np.array([1, 2, 0], dtype)], order=0)
        for name in ("_contrib_isnan", "_contrib_isinf", "_contrib_isfinite")
        for dtype in ("float16", "float32", "float64", "int32", "uint8")
    ],
    Sample("_contrib_allclose", [normal(2, 3), normal(2, 3)], {"rtol": 0.1}, order=1),
    Sample("_contrib_getnnz", [normal(2, 3)], order=0),
    Sample("_contrib_getnnz", [normal(2, 3)], {"axis": -1}, order=0),
]

LENGTHS = index(1, 4, 2, dtype="float32")

SEQUENCES: list[Sample] = [
    *[
        Sample(name, [normal(4, 3, 2), LENGTHS], {"use_sequence_length": True}, wrt=(0,))
        for name in ("SequenceMask", "SequenceLast", "SequenceReverse")
    ],
    *[Sample(name, [normal(4, 3)]) for name in ("SequenceMask", "SequenceLast", "SequenceReverse")],
    Sample("SequenceMask", [normal(3, 4), LENGTHS], {"use_sequence_length": True, "axis": 1, "value": 2}, wrt=(0,)),
    Sample("SequenceLast", [normal(3, 4, 2), LENGTHS], {"use_sequence_length": True, "axis": 1}, wrt=(0,)),
]

SAMPLES: list[Sample] = [*REGIONS, *POINTS, *SLICES, *INDEX_ARRAYS, *CODES, *SEQUENCES]
