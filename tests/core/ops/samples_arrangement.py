"""Samples of the operators that repeat, mirror, pad, crop and rearrange elements."""

from __future__ import annotations

import numpy as np

from .checks import Sample

_generator = np.random.default_rng(33)


def array(*shape: int, dtype: str = "float32") -> np.ndarray:
    """Return random numbers around zero."""
    return _generator.normal(size=shape).astype(dtype)


def whole(*shape: int, dtype: str = "int32") -> np.ndarray:
    """Return small whole numbers."""
    return _generator.integers(0, 9, shape).astype(dtype)


BORDER = (0, 0, 0, 0, 1, 2, 2, 0)

SAMPLES: list[Sample] = [
    Sample("tile", [array(2, 3)], {"reps": (2,)}),
    Sample("tile", [array(2, 3)], {"reps": (2, 1, 2)}),
    Sample("tile", [array(2, 2, 1)], {"reps": (2, 3)}),
    Sample("tile", [array()], {"reps": (2,)}),
    Sample("tile", [array(2)], {"reps": (0,)}),
    Sample("tile", [whole(2, dtype="bool")], {"reps": 2}, order=0),
    Sample("repeat", [array(2, 3)], {"repeats": 2}),
    Sample("repeat", [array(2, 3)], {"repeats": 3, "axis": -1}),
    Sample("repeat", [array(2, 3)], {"repeats": 2, "axis": 0}),
    Sample("repeat", [array(2, 3)], {"repeats": 0, "axis": 0}),
    Sample("broadcast_to", [array(2, 1, 1)], {"shape": (0, 3, 2)}),
    Sample("broadcast_axis", [array(1, 2, 1)], {"axis": (0, -1), "size": (3, 2)}),
    Sample("broadcast_axis", [whole(1, 2)], {"axis": 0, "size": 2}, order=0),
    Sample("broadcast_like", [array(2, 1), array(2, 3)]),
    Sample("broadcast_like", [array(1, 3), array(5, 2)], {"lhs_axes": (0,), "rhs_axes": (-1,)}),
    Sample("reverse", [array(2, 3)], {"axis": 1}),
    Sample("reverse", [array(2, 3, 2)], {"axis": (0, -1)}),
    Sample("reverse", [array(0, 2)], {"axis": 0}),
    Sample("diag", [array(3)]),
    Sample("diag", [array(2)], {"k": -2}),
    Sample("diag", [array(0)], {"k": 1}),
    Sample("diag", [array(3, 4)], {"k": 1}),
    Sample("diag", [array(3, 2)], {"k": -1}),
    Sample("diag", [array(2, 3)], {"k": 3}),
    Sample("diag", [array(2, 3, 4)], {"axis1": -1, "axis2": 1}),
    Sample("depth_to_space", [array(1, 8, 1, 2)], {"block_size": 2}),
    Sample("space_to_depth", [array(1, 2, 2, 4)], {"block_size": 2}),
    *[
        Sample("Pad", [array(1, 2, 3, 3)], {"mode": mode, "pad_width": BORDER})
        for mode in ("constant", "edge", "reflect")
    ],
    Sample("Pad", [array(1, 1, 2, 2, 2)], {"mode": "reflect", "pad_width": (0, 0, 0, 0, 1, 0, 0, 1, 1, 1)}),
    Sample("Pad", [array(1, 1, 1, 2)], {"mode": "constant", "pad_width": BORDER, "constant_value": 1.5}),
    Sample("Pad", [whole(1, 1, 1, 2)], {"mode": "constant", "pad_width": BORDER, "constant_value": 2}, order=0),
    Sample("Pad", [array(1, 1, 2, 2, dtype="float16")], {"mode": "edge", "pad_width": BORDER}, order=0),
    Sample("Crop", [array(1, 2, 4, 5)], {"h_w": (2, 3), "offset": (1, 2)}),
    Sample("Crop", [array(1, 2, 4, 5), array(1, 1, 2, 2)], {"center_crop": True}),
]
