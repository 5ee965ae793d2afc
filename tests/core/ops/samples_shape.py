"""Samples of the operators that reshape, reorder, join and split arrays."""

from __future__ import annotations

import numpy as np

from .checks import Sample

_generator = np.random.default_rng(32)


def array(*shape: int, dtype: str = "float32") -> np.ndarray:
    """Return random numbers around zero."""
    return _generator.normal(size=shape).astype(dtype)


def whole(*shape: int, dtype: str = "int32") -> np.ndarray:
    """Return small whole numbers."""
    return _generator.integers(0, 9, shape).astype(dtype)


SAMPLES: list[Sample] = [
    Sample("Reshape", [array(2, 3, 4)], {"shape": (0, -1)}, order=2),
    Sample("Reshape", [array(2, 6)], {"shape": (0, -4, 2, -1), "reverse": False}),
    Sample("Reshape", [array(2, 3, 4)], {"shape": (-1, 0), "reverse": True}),
    Sample("Reshape", [array(2, 3, 4)], {"target_shape": (0, 6)}),
    Sample("Reshape", [array(0, 3)], {"shape": (0, -1)}),
    Sample("Reshape", [array()], {"shape": (1, 1)}),
    Sample("Reshape", [whole(2, 3, dtype="bool")], {"shape": (-1,)}, order=0),
    Sample("reshape_like", [array(2, 6), array(3, 4)]),
    Sample("reshape_like", [array(6, 2), array(3, 2, 4)], {"lhs_begin": 0, "lhs_end": 1, "rhs_begin": 0, "rhs_end": 2}),
    Sample("Flatten", [array(2, 3, 2)]),
    Sample("Flatten", [array(3)]),
    Sample("Flatten", [array(0, 2, 3)]),
    Sample("Flatten", [array()]),
    Sample("expand_dims", [array(2, 3)], {"axis": 1}),
    Sample("expand_dims", [array(2, 3)], {"axis": -1}),
    Sample("expand_dims", [array()], {"axis": 0}),
    Sample("squeeze", [array(1, 3, 1)]),
    Sample("squeeze", [array(1, 3, 1)], {"axis": (0, -1)}),
    Sample("squeeze", [array(1, 1)]),
    Sample("transpose", [array(2, 3)]),
    Sample("transpose", [array(2, 3, 4)], {"axes": (1, -1, 0)}),
    Sample("transpose", [array()]),
    Sample("SwapAxis", [array(2, 3, 4)], {"dim1": 0, "dim2": -1}),
    Sample("Concat", [array(2, 3), array(2, 1)]),
    Sample("Concat", [array(2, 3), array(0, 3), array(1, 3)], {"dim": 0}),
    Sample("Concat", [array(2, 3)], {"dim": 0}),
    Sample("Concat", [whole(2), whole(3)], {"dim": -1}, order=0),
    Sample("_rnn_param_concat", [array(4), array(2)], {"dim": 0}),
    Sample("stack", [array(2, 3), array(2, 3)]),
    Sample("stack", [array(2, 3), array(2, 3), array(2, 3)], {"axis": -1}),
    Sample("stack", [array(), array()]),
    Sample("SliceChannel", [array(2, 4)], {"num_outputs": 2}),
    Sample("SliceChannel", [array(3, 2)], {"num_outputs": 3, "axis": 0, "squeeze_axis": True}),
    Sample("SliceChannel", [array(2, 3)], {"num_outputs": 1}),
    Sample("SliceChannel", [whole(2, 4)], {"num_outputs": 4, "axis": -1}, order=0),
    Sample("_split_v2", [array(3, 4)], {"indices": (0, 1, 3)}),
    Sample("_split_v2", [array(3, 4)], {"indices": (), "sections": 3}),
    Sample("_split_v2", [array(3, 4)], {"indices": (0, 2, 2), "axis": 1}),
    Sample("_split_v2", [array(3, 4)], {"indices": (0, 1, 2), "axis": 0, "squeeze_axis": True}),
    Sample("_concatenate", [array(2, 2), array(2, 3)], {"axis": 1}),
    Sample("_split", [array(2, 5)], {"boundaries": (1, 3), "axis": 1}),
]
