"""Samples of losses. The gradient of an output layer is not the derivative of its value: order 0, see the tests."""

from __future__ import annotations

import numpy as np

from .checks import Sample

_generator = np.random.default_rng(53)


def array(*shape: int, dtype: str = "float32") -> np.ndarray:
    """Return random numbers around zero."""
    return _generator.normal(size=shape).astype(dtype)


LABEL = np.array([1, 3, -1], np.float32)
PATHS = {"frames": 4, "classes": 4, "blank_first": True}

OUTPUT_LAYERS: list[Sample] = [
    *[
        Sample("SoftmaxOutput", [array(3, 4), LABEL], parameters, order=0)
        for parameters in (
            {},
            {"use_ignore": True},
            {"use_ignore": True, "normalization": "valid"},
            {"normalization": "batch", "grad_scale": 2.0},
            {"smooth_alpha": 0.1},
        )
    ],
    Sample("SoftmaxOutput", [array(3, 4), np.abs(array(3, 4))], order=0),
    Sample("SoftmaxOutput", [array(2, 3, 2), np.array([1, 4], np.float32)], order=0),
    Sample("SoftmaxOutput", [array(2, 3, 2), np.array([[0, 1, 1], [0, -1, 1]])], {"preserve_shape": True}, order=0),
    Sample("SoftmaxOutput", [array(2, 3, 2), np.array([[0, 1], [2, -1]])], {"multi_output": True}, order=0),
    Sample("SoftmaxOutput", [array(1, 3, 2, 2), np.array([[0, 1, 2, 1]])], {"multi_output": True}, order=0),
    *[
        Sample(name, [array(*shape), array(*label)], {"grad_scale": 2.0}, order=0)
        for name in ("LinearRegressionOutput", "MAERegressionOutput", "LogisticRegressionOutput")
        for shape, label in (((2, 3), (2, 3)), ((3, 1), (3,)), ((2, 3, 2), (2, 6)))
    ],
    Sample("SVMOutput", [array(3, 4), LABEL], order=0),
    Sample("SVMOutput", [array(3, 4), LABEL], {"use_linear": True, "margin": 0.5}, order=0),
    *[
        Sample("MakeLoss", [array(*shape)], {"normalization": normalization, "grad_scale": 2.0}, order=0)
        for normalization in ("null", "batch", "valid")
        for shape in ((3,), (2, 3, 2))
    ],
]

SCORES = array(4, 2, 4)

SAMPLES: list[Sample] = [
    *OUTPUT_LAYERS,
    Sample("SoftmaxOutput", [array(3, 4, dtype="float16"), LABEL.astype(np.float16)], order=0),
    Sample("softmax_cross_entropy", [array(3, 4), np.array([1, 0, 3])]),
    Sample("_with_gradient", [array(2), array(2), array(2)], order=0),
    Sample("_with_scaled_gradient", [array(2), array(2), array(2)], order=0),
    Sample("_depending_on", [array(2), array(3)]),
    Sample("CTCLoss", [SCORES, np.array([[1, 2], [3, 3]])]),
    Sample("CTCLoss", [SCORES, np.array([[0, -1], [2, 2]])], {"blank_label": "last"}),
    Sample(
        "CTCLoss",
        [SCORES, np.array([[1, 2], [3, 0]], np.int32), np.array([3, 4]), np.array([2, 1])],
        {"use_data_lengths": True, "use_label_lengths": True},
    ),
    Sample("CTCLoss", [SCORES, np.array([[0, 0], [3, 3]]), np.array([2, 2])], {"use_data_lengths": True}),
    Sample("CTCLoss", [SCORES, np.array([[1], [3]])]),
    Sample("CTCLoss", [SCORES.astype(np.float16), np.array([[1, 2], [3, 3]])], order=0),
    Sample("_ctc_paths", [np.array([[1, 2], [3, 3]]), None, None], PATHS, order=0),
    Sample("_ctc_paths", [np.array([[1, 2], [3, 3]]), np.array([3, 4]), np.array([1, 2])], PATHS, order=0),
    Sample("_ctc_step", [array(2, 5), np.array([[0, 0, 0, 1, 0], [0, 0, 0, 0, 0]], bool)]),
]
