"""Samples of recurrent layers, as small as they can be."""

from __future__ import annotations

from typing import Any

import numpy as np

from .checks import Sample

_generator = np.random.default_rng(54)
COUNTER = np.array([1, 2, 3, 4], np.uint32)
GATES = {"rnn_relu": 1, "rnn_tanh": 1, "lstm": 4, "gru": 3}


def array(*shape: int) -> np.ndarray:
    """Return small random numbers."""
    return (0.5 * _generator.normal(size=shape)).astype(np.float32)


def recurrent_inputs(
    mode: str,
    *,
    steps: int = 2,
    batch: int = 2,
    features: int = 1,
    size: int = 2,
    layers: int = 1,
    directions: int = 1,
    projection: int | None = None,
) -> list[np.ndarray]:
    """Return data, parameters, state and, for an LSTM, cells."""
    out = projection or size
    count = 0
    for layer in range(layers):
        inputs = features if layer == 0 else out * directions
        count += directions * (GATES[mode] * size * (inputs + out + 2) + (projection or 0) * size)
    arrays = [array(steps, batch, features), array(count), array(layers * directions, batch, out)]
    return [*arrays, array(layers * directions, batch, size)] if mode == "lstm" else arrays


def _sample(mode: str, order: int = 3, **options: Any) -> Sample:
    parameters = {
        "mode": mode,
        "state_size": 2,
        "num_layers": options.get("layers", 1),
        "bidirectional": options.get("directions", 1) == 2,
        "state_outputs": True,
    }
    return Sample("RNN", recurrent_inputs(mode, **options), parameters, order=order)


def _with(sample: Sample, inputs: list[Any], **parameters: Any) -> Sample:
    return Sample(sample.name, [*sample.inputs, *inputs], {**sample.parameters, **parameters}, order=sample.order)


SAMPLES: list[Sample] = [
    *[_sample(mode) for mode in GATES],
    *[_sample(mode, layers=2, directions=2) for mode in GATES],
    _with(_sample("lstm", projection=1), [], projection_size=1),
    _with(_sample("lstm"), [], lstm_state_clip_min=-0.2, lstm_state_clip_max=0.2, lstm_state_clip_nan=True),
    _with(_sample("gru"), [], state_outputs=False),
    _with(_sample("gru", layers=2), [None, None, COUNTER], p=0.5, training=True),
    _with(_sample("lstm", directions=2, steps=3), [np.array([2, 3])], use_sequence_length=True),
    _with(_sample("rnn_tanh", steps=3), [None, np.array([1, 3])], use_sequence_length=True),
]
