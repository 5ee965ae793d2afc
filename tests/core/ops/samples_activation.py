"""Samples of activation functions: away from zero, where some of them bend."""

from __future__ import annotations

import numpy as np

from .checks import Sample

DATA = np.array([[-2.0, -0.7, 0.4], [1.3, 0.9, -0.2]], np.float32)
COUNTER = np.array([1, 2, 3, 4], np.uint32)

SAMPLES: list[Sample] = [
    Sample("_softrelu", [DATA]),
    Sample("_softrelu", [DATA.astype(np.float16)], order=0),
    *[
        Sample("Activation", [DATA], {"act_type": act_type})
        for act_type in ("relu", "sigmoid", "softrelu", "softsign", "tanh")
    ],
    *[Sample("LeakyReLU", [DATA], {"act_type": act_type}) for act_type in ("leaky", "elu", "selu", "gelu")],
    Sample("LeakyReLU", [DATA], {"act_type": "elu", "slope": 0.6}),
    Sample("LeakyReLU", [DATA, np.array([0.1, 0.2, 0.3], np.float32)], {"act_type": "prelu"}),
    Sample("LeakyReLU", [DATA, np.array([0.1], np.float32)], {"act_type": "prelu"}),
    Sample("LeakyReLU", [DATA.reshape(1, 3, 2, 1), np.array([0.1, 0.2, 0.3], np.float32)], {"act_type": "prelu"}),
    Sample("LeakyReLU", [DATA, None, COUNTER], {"act_type": "rrelu"}),
    Sample("LeakyReLU", [DATA, None, COUNTER], {"act_type": "rrelu", "training": True}),
    Sample("LeakyReLU", [DATA[:0]], {"act_type": "gelu"}, order=0),
]
