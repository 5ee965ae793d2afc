"""Samples of arithmetic, comparisons, elementary functions and the building blocks of gradients."""

from __future__ import annotations

import numpy as np

from phonograd.core.graph.operator import REGISTRY, Operator
from phonograd.core.ops.math import arithmetic, comparison, elementary

from .checks import Sample

_generator = np.random.default_rng(11)


def between(low: float, high: float, *shape: int, dtype: str = "float32") -> np.ndarray:
    """Return numbers drawn evenly from an interval, at least a tenth of it away from its ends."""
    return _generator.uniform(low, high, shape).astype(dtype)


# Where a function is smooth; (0.3, 0.9) is inside the domain of all others.
DOMAINS = {"arccosh": (1.3, 2.5), "abs": (-0.9, -0.2), "relu": (0.2, 0.9), "sign": (0.2, 0.9)}
PIECEWISE_CONSTANT = {"ceil", "floor", "trunc", "fix", "round", "rint", "sign", "logical_not"}
UNARY = sorted(
    {v.name for m in (elementary, comparison) for v in vars(m).values() if getattr(v, "input_names", ()) == ("data",)}
)
BINARY = sorted(
    {
        v.name
        for m in (arithmetic, comparison)
        for v in vars(m).values()
        if getattr(v, "input_names", ()) in (("lhs", "rhs"), ("base", "exp"))
    }
)
BINARY += ["_maximum", "_minimum", "_power", "_mod", "_hypot"]
BINARY += ["_equal", "_not_equal", "_greater", "_greater_equal", "_lesser", "_lesser_equal"]
BINARY += ["_logical_and", "_logical_or", "_logical_xor"]
COMPARISONS = {v.name for v in vars(comparison).values() if isinstance(v, Operator)}

SAMPLES: list[Sample] = [
    *[
        Sample(name, [between(*DOMAINS.get(name, (0.3, 0.9)), 2, 3)], order=0 if name in PIECEWISE_CONSTANT else 3)
        for name in UNARY
    ],
    *[Sample(name, [np.array([[1, 2], [3, 4]], "int32")], order=0) for name in UNARY],
    *[
        Sample(name, [between(1.1, 1.9, 2, 3), between(0.3, 0.9, 2, 3)], order=0 if name in COMPARISONS else 3)
        for name in BINARY
    ],
    *[
        Sample(name, [between(1.1, 1.9, 2, 1, 3), between(0.3, 0.9, 4, 1)], order=0 if name in COMPARISONS else 3)
        for name in BINARY
        if name.startswith("broadcast_")
    ],
    *[
        Sample(name, [np.array([-7, 7, 5], "int32"), np.array([2, -2, 3], "int32")], order=0)
        for name in BINARY
        if REGISTRY[name].with_scalars
    ],
    Sample("add_n", [between(-1, 1, 2, 3) for _ in range(3)]),
    Sample("_integer_power", [between(0.5, 1.5, 2, 3)], {"exponent": 4}),
    Sample("_integer_power", [between(0.5, 1.5, 2, 3)], {"exponent": -2}),
    Sample("_broadcast", [between(-1, 1, 2, 1)], {"shape": (4, 2, 3)}),
    Sample("_sum_to", [between(-1, 1, 4, 2, 3)], {"shape": (2, 1)}),
    Sample("_reshape", [between(-1, 1, 2, 3)], {"shape": (3, 2)}),
    Sample("_permute", [between(-1, 1, 2, 3, 4)], {"axes": (2, 0, 1)}),
    Sample("_matmul", [between(-1, 1, 2, 3, 4), between(-1, 1, 2, 4, 2)]),
    Sample("_wide_matmul", [between(-1, 1, 2, 3, 4).astype("float16"), between(-1, 1, 2, 4, 2).astype("float16")]),
    Sample("_select", [np.array([1.0, 0.0, 2.0], "float32"), between(-1, 1, 2, 3), between(-1, 1, 3)], wrt=(1, 2)),
    Sample("_gather", [between(-1, 1, 2, 3), np.array([[5, 0], [0, 2]], "int64")]),
    Sample("_scatter_add", [between(-1, 1, 2, 2), np.array([[5, 0], [0, 2]], "int64")], {"shape": (2, 3)}),
    Sample("_slice_step", [between(-1, 1, 5, 4)], {"begin": (4, 1), "end": (-1, 4), "step": (-2, 1)}),
    Sample("_embed", [between(-1, 1, 3, 2)], {"shape": (5, 4), "begin": (0, 1), "end": (5, 3), "step": (2, 1)}),
    Sample("_cast", [between(-1, 1, 2, 3)], {"dtype": np.dtype("float64")}),
    Sample("_cast", [between(-300, 300, 6)], {"dtype": np.dtype("uint8")}, order=0),
]
