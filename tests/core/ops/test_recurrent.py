"""Recurrent layers against plain NumPy loops, and against values of MXNet 1.9.1."""

from __future__ import annotations

import numpy as np
import pytest

from phonograd.core.base.errors import MXNetError

from .calls import call, gradients
from .samples_recurrent import COUNTER, GATES, array, recurrent_inputs


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def step(mode, gates_x, gates_h, h, c):
    """Return the next state and cell."""
    size = h.shape[1]
    if mode.startswith("rnn"):
        total = gates_x + gates_h
        return (np.maximum(total, 0) if mode == "rnn_relu" else np.tanh(total)), None
    x, s = np.split(gates_x, GATES[mode], 1), np.split(gates_h, GATES[mode], 1)
    if mode == "gru":
        reset, update = sigmoid(x[0] + s[0]), sigmoid(x[1] + s[1])
        candidate = np.tanh(x[2] + reset * s[2])
        return (1 - update) * candidate + update * h, None
    i, f, g, o = [a + b for a, b in zip(x, s, strict=True)]
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    assert c.shape[1] == size
    return sigmoid(o) * np.tanh(c), c


def layers(mode, data, parameters, state, cell=None, *, size, count, directions):
    """Return outputs, states and cells of stacked layers, computed one step after the other."""
    gates = GATES[mode] * size
    position = 0

    def take(*shape):
        nonlocal position
        part = parameters[position : position + int(np.prod(shape))].reshape(shape)
        position += part.size
        return part

    weights = []
    for layer in range(count):
        features = data.shape[2] if layer == 0 else size * directions
        weights += [(take(gates, features), take(gates, size)) for _ in range(directions)]
    biases = [(take(gates), take(gates)) for _ in weights]
    assert position == parameters.size
    states, cells = [], []
    for layer in range(count):
        outputs = []
        for direction in range(directions):
            place = layer * directions + direction
            (w_x, w_h), (b_x, b_h) = weights[place], biases[place]
            h, c = state[place], None if cell is None else cell[place]
            order = range(len(data))[::-1] if direction else range(len(data))
            out = np.zeros((len(data), *h.shape))
            for t in order:
                h, c = step(mode, data[t] @ w_x.T + b_x, h @ w_h.T + b_h, h, c)
                out[t] = h
            outputs.append(out)
            states.append(h)
            cells.append(c)
        data = np.concatenate(outputs, axis=2)
    return data, np.stack(states), None if cell is None else np.stack(cells)


@pytest.mark.parametrize("mode", GATES)
@pytest.mark.parametrize(("count", "directions"), [(1, 1), (3, 1), (1, 2), (2, 2)])
def test_agrees_with_a_loop(mode, count, directions):
    inputs = [
        a.astype(np.float64)
        for a in recurrent_inputs(mode, steps=4, batch=3, features=2, size=3, layers=count, directions=directions)
    ]
    expected = layers(mode, *inputs, size=3, count=count, directions=directions)
    found = call(
        "RNN",
        *inputs,
        mode=mode,
        state_size=3,
        num_layers=count,
        bidirectional=directions == 2,
        state_outputs=True,
    )
    assert len(found) == (3 if mode == "lstm" else 2)
    for values, wanted in zip(found, expected, strict=False):
        np.testing.assert_allclose(values, wanted, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    ("mode", "last"),
    [
        ("rnn_tanh", [[0.41668585, 0.05427743]]),
        ("lstm", [[0.24502409, 0.04792118]]),
        ("gru", [[0.32575479, 0.87656224]]),
    ],
)
def test_values_of_mxnet(mode, last):
    """Parameters 0.02, 0.04, ... in order: a wrong order of gates, weights or biases changes the result."""
    count = GATES[mode] * 2 * (2 + 2 + 2)
    data = np.array([[[0.5, -1.0]], [[1.0, 0.25]]], np.float32)
    parameters = (np.arange(1, count + 1) * 0.02).astype(np.float32)
    parameters[::3] *= -1
    states = [np.full((1, 1, 2), 0.1, np.float32)] * (2 if mode == "lstm" else 1)
    out = call("RNN", data, parameters, *states, mode=mode, state_size=2, num_layers=1)
    np.testing.assert_allclose(out[-1], last, rtol=1e-5)


def test_projection():
    inputs = recurrent_inputs("lstm", steps=3, size=3, projection=2)
    out, state, cell = call(
        "RNN", *inputs, mode="lstm", state_size=3, num_layers=1, projection_size=2, state_outputs=True
    )
    assert (out.shape, state.shape, cell.shape) == ((3, 2, 2), (1, 2, 2), (1, 2, 3))
    np.testing.assert_array_equal(out[-1], state[0])


@pytest.mark.parametrize("mode", ["lstm", "gru"])
def test_sequences_of_different_length_are_independent(mode):
    inputs = recurrent_inputs(mode, steps=4, batch=2, features=2, layers=2, directions=2)
    options = {"mode": mode, "state_size": 2, "num_layers": 2, "bidirectional": True, "state_outputs": True}
    lengths = np.array([2, 4])
    found = call("RNN", *inputs, *([] if mode == "lstm" else [None]), lengths, use_sequence_length=True, **options)
    np.testing.assert_array_equal(found[0][2:, 0], np.zeros((2, 4)))
    for row, length in enumerate(lengths):
        data, parameters, *states = inputs
        alone = call("RNN", data[:length, row : row + 1], parameters, *[s[:, row : row + 1] for s in states], **options)
        np.testing.assert_allclose(found[0][:length, row], alone[0][:, 0], rtol=1e-5, atol=1e-6)
        for values, wanted in zip(found[1:], alone[1:], strict=True):
            np.testing.assert_allclose(values[:, row], wanted[:, 0], rtol=1e-5, atol=1e-6)


def test_lengths_may_follow_the_state():
    inputs = recurrent_inputs("gru", steps=3)
    options = {"mode": "gru", "state_size": 2, "num_layers": 1, "use_sequence_length": True}
    lengths = np.array([1, 3])
    np.testing.assert_array_equal(
        call("RNN", *inputs, lengths, **options), call("RNN", *inputs, None, lengths, **options)
    )


def test_bounds_of_cells_are_given_together():
    inputs = recurrent_inputs("lstm")
    with pytest.raises(MXNetError, match="must be given together"):
        call("RNN", *inputs, mode="lstm", state_size=2, num_layers=1, lstm_state_clip_min=1.0)


def test_cells_are_clipped():
    data, parameters, state, cell = recurrent_inputs("lstm", steps=3)
    options = {"mode": "lstm", "state_size": 2, "num_layers": 1, "state_outputs": True}
    _, _, last = call(
        "RNN", data, parameters, state, cell * 100, lstm_state_clip_min=-0.1, lstm_state_clip_max=0.2, **options
    )
    assert last.min() >= np.float32(-0.1)
    assert last.max() <= np.float32(0.2)
    broken = np.full_like(cell, np.nan)
    bounds = {"lstm_state_clip_min": -0.1, "lstm_state_clip_max": 0.2}
    assert np.isnan(call("RNN", data, parameters, state, broken, **bounds, **options)[0]).all()
    assert np.isfinite(
        call("RNN", data, parameters, state, broken, lstm_state_clip_nan=True, **bounds, **options)[0]
    ).all()


def test_dropout_between_layers():
    inputs = recurrent_inputs("rnn_tanh", steps=3, layers=2)
    options = {"mode": "rnn_tanh", "state_size": 2, "num_layers": 2, "state_outputs": True}
    plain = call("RNN", *inputs, **options)
    predicting = call("RNN", *inputs, None, None, COUNTER, p=0.5, **options)
    training = call("RNN", *inputs, None, None, COUNTER, p=0.5, training=True, **options)
    np.testing.assert_array_equal(plain[0], predicting[0])
    np.testing.assert_array_equal(plain[1][0], training[1][0])
    assert (plain[1][1] != training[1][1]).any()
    dropped = call("RNN", *inputs, None, None, COUNTER, p=1.0, training=True, **options)
    assert np.isfinite(dropped[0]).all()


def test_gradient_reaches_every_input():
    inputs = recurrent_inputs("lstm", layers=2, directions=2)
    grads = gradients("RNN", inputs, wrt=(0, 1, 2, 3), mode="lstm", state_size=2, num_layers=2, bidirectional=True)
    for grad, value in zip(grads, inputs, strict=True):
        assert grad.shape == value.shape
        assert np.abs(grad).max() > 0


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"parameters": array(5)}, r"Shape inconsistent, Provided = \[5\], inferred shape=\[30\] for parameters"),
        ({"state": array(2, 2, 2)}, r"Provided = \[2,2,2\], inferred shape=\[1,2,2\] for state"),
        ({"data": array(2, 2)}, "Input data should be rank-3 tensor"),
        ({"mode": "lstm"}, "Operator RNN expects 4 inputs, but got 3 instead"),
        ({"use_sequence_length": True}, "Operator RNN expects 4 inputs, but got 3 instead"),
        ({"projection_size": 1}, "hidden layer projection is only supported for LSTM"),
        ({"p": 1.5}, "value 1.5 for Parameter p exceed bound"),
        ({"data": array(2, 2, 1).astype(np.float64)}, "Incompatible attr in node  at 1-th input"),
        ({"mode": "elman"}, "Invalid Input: 'elman', valid values are: {'gru', 'lstm', 'rnn_relu', 'rnn_tanh'}"),
    ],
)
def test_errors(change, sentence):
    data, parameters, state = recurrent_inputs("gru")
    arrays = {"data": data, "parameters": parameters, "state": state}
    options = {"mode": "gru", "state_size": 2, "num_layers": 1}
    for name, value in change.items():
        (arrays if name in arrays else options)[name] = value
    with pytest.raises(MXNetError, match=sentence):
        call("RNN", *arrays.values(), **options)
