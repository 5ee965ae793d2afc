"""Samples of the products of matrices."""

from __future__ import annotations

import numpy as np

from .checks import Sample

_generator = np.random.default_rng(21)


def array(*shape: int, dtype: str = "float32") -> np.ndarray:
    """Return random numbers around zero."""
    return _generator.normal(size=shape).astype(dtype)


SAMPLES: list[Sample] = [
    Sample("dot", [array(3), array(3)]),
    Sample("dot", [array(2, 3), array(3, 4)]),
    Sample("dot", [array(3, 2), array(3, 4)], {"transpose_a": True}),
    Sample("dot", [array(2, 3), array(4, 3)], {"transpose_b": True, "forward_stype": "default"}),
    Sample("dot", [array(3, 2), array(4, 3)], {"transpose_a": True, "transpose_b": True}),
    Sample("dot", [array(3), array(3, 4)]),
    Sample("dot", [array(2, 3), array(3)], {"transpose_b": True}),
    Sample("dot", [array(2, 2, 3), array(3, 2, 2)]),
    Sample("dot", [array(3, 2, 2), array(2, 2, 3)], {"transpose_a": True, "transpose_b": True}),
    Sample("dot", [array(2, 0), array(0, 3)], order=0),
    Sample("dot", [array(2, 3, dtype="float16"), array(3, 2, dtype="float16")], order=0),
    Sample("batch_dot", [array(2, 2, 3), array(2, 3, 2)]),
    Sample("batch_dot", [array(2, 3, 2), array(2, 2, 3)], {"transpose_a": True, "transpose_b": True}),
    Sample("batch_dot", [array(2, 1, 2, 3), array(2, 1, 4, 3)], {"transpose_b": True}),
    Sample("batch_dot", [array(0, 2, 3), array(0, 3, 2)], order=0),
    Sample("FullyConnected", [array(2, 3), array(4, 3), array(4)], {"num_hidden": 4}),
    Sample("FullyConnected", [array(2, 3, 2), array(4, 6), array(4)], {"num_hidden": 4}),
    Sample("FullyConnected", [array(2, 3), array(4, 3), None], {"num_hidden": 4, "no_bias": True}),
    Sample("FullyConnected", [array(2, 2, 3), array(4, 3), array(4)], {"num_hidden": 4, "flatten": False}),
    Sample("FullyConnected", [array(3), array(2, 3), array(2)], {"num_hidden": 2, "flatten": False}),
    Sample("khatri_rao", [array(2, 3)]),
    Sample("khatri_rao", [array(2, 2), array(3, 2), array(2, 2)]),
    Sample("_contrib_div_sqrt_dim", [array(2, 3)]),
    Sample("_contrib_div_sqrt_dim", [np.arange(6, dtype=np.int32).reshape(2, 3)], order=0),
    Sample("_contrib_interleaved_matmul_selfatt_qk", [array(3, 2, 12)], {"heads": 2}),
    Sample("_contrib_interleaved_matmul_selfatt_valatt", [array(3, 2, 12), array(4, 3, 3)], {"heads": 2}),
    Sample("_contrib_interleaved_matmul_encdec_qk", [array(2, 2, 4), array(3, 2, 8)], {"heads": 2}),
    Sample("_contrib_interleaved_matmul_encdec_valatt", [array(3, 2, 8), array(4, 2, 3)], {"heads": 2}),
]
