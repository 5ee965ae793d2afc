"""Fused recurrent layers: RNN, LSTM and GRU with several layers and both directions."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..graph import Array, Call, Graph, maps

__all__: list[str] = []

#: ONNX's operator, and the order of its gates as indices into MXNet's
_KINDS: dict[str, tuple[str, tuple[int, ...]]] = {
    # in, forget, new, out -> in, out, forget, new
    "lstm": ("LSTM", (0, 3, 1, 2)),
    # reset, update, new -> update, reset, new
    "gru": ("GRU", (1, 0, 2)),
    "rnn_relu": ("RNN", (0,)),
    "rnn_tanh": ("RNN", (0,)),
}


@maps("RNN")
def export_rnn(graph: Graph, call: Call) -> list[str]:
    if call["projection_size"] is not None or call["use_sequence_length"]:
        raise call.refuse("has a projection_size or use_sequence_length=True")
    if call["lstm_state_clip_min"] is not None or call["lstm_state_clip_max"] is not None:
        raise call.refuse("clips its state")
    packed = graph.constants.get(call.inputs[1])
    if packed is None:
        raise call.refuse("has parameters that are missing from params")
    directions = 2 if call["bidirectional"] else 1
    data, hidden_states, cell_states = call.data, [], []
    for layer, (weights, recurrent, biases) in enumerate(_unpack(call, packed, directions)):
        states = [_layer_state(graph, value, layer, directions) for value in call.inputs[2:]]
        outputs = _layer(graph, call, data, (weights, recurrent, biases), states)
        # time, direction, batch, channels -> time, batch, channels of all directions
        data = graph.reshape(graph.transpose(outputs[0], [0, 2, 1, 3]), [0, 0, -1])
        hidden_states.append(outputs[1])
        cell_states += outputs[2:]
    results = [data]
    if call["state_outputs"]:
        results.append(graph.add("Concat", hidden_states, axis=0))
        if cell_states:
            results.append(graph.add("Concat", cell_states, axis=0))
    return results


def _layer(graph: Graph, call: Call, data: str, parameters: tuple[Array, ...], states: list[str]) -> list[str]:
    operator, _ = _KINDS[call["mode"]]
    is_lstm = operator == "LSTM"
    inputs = [data, *[graph.constant(array, name=f"{call.name}_{word}") for array, word in zip(parameters, "WRB")]]
    inputs += ["", *states]
    while inputs[-1] == "":
        inputs.pop()
    facts: dict[str, Any] = {"hidden_size": call["state_size"]}
    if call["bidirectional"]:
        facts["direction"] = "bidirectional"
    if operator == "GRU":
        facts["linear_before_reset"] = 1
    if call["mode"] == "rnn_relu":
        facts["activations"] = ["Relu"] * (2 if call["bidirectional"] else 1)
    return graph.add_several(operator, inputs, 3 if is_lstm else 2, **facts)


def _layer_state(graph: Graph, value: str, layer: int, directions: int) -> str:
    """Return the initial state of one layer; empty if it is zero, for any batch size."""
    constant = graph.constants.get(value)
    if constant is not None and not constant.any():
        return ""
    rows = [graph.integers(number) for number in (layer * directions, (layer + 1) * directions, 0)]
    return graph.add("Slice", [value, *rows])


def _unpack(call: Call, packed: Array, directions: int) -> list[tuple[Array, Array, Array]]:
    """Return input weights, recurrent weights and biases of each layer, in ONNX's order of gates.

    The vector holds all weights, layer by layer and direction by direction, and then all biases in the same order.
    """
    _, order = _KINDS[call["mode"]]
    size, layers = call["state_size"], call["num_layers"]
    row, place = packed.reshape(-1), 0

    def take(*shape: int) -> Array:
        nonlocal place
        count = len(order) * size * int(np.prod(shape, dtype=np.int64))
        part = row[place : place + count].reshape(len(order), size, *shape)
        place += count
        return part[list(order)].reshape(len(order) * size, *shape)

    weights = []
    for layer in range(layers):
        width = call.shape[2] if layer == 0 else size * directions
        weights.append([(take(width), take(size)) for _ in range(directions)])
    biases = [[(take(), take()) for _ in range(directions)] for _ in range(layers)]
    return [
        (
            np.stack([inner for inner, _ in matrices]),
            np.stack([outer for _, outer in matrices]),
            np.stack([np.concatenate(pair) for pair in offsets]),
        )
        for matrices, offsets in zip(weights, biases)
    ]
