"""Recurrent layers: read RNN, LSTM and GRU as fused layers."""

from __future__ import annotations

from typing import Any

import numpy as np

from .... import symbol as sym
from ....symbol import Symbol
from ..graph import Array
from ..model import Node, reads

__all__: list[str] = []

#: the order of gates here, as indices into ONNX's
_GATES = {"LSTM": (0, 2, 3, 1), "GRU": (1, 0, 2), "RNN": (0,)}
_DEFAULT_ACTIVATIONS = {"LSTM": ["Sigmoid", "Tanh", "Tanh"], "GRU": ["Sigmoid", "Tanh"], "RNN": ["Tanh"]}


def _mode(node: Node, directions: int) -> str:
    """Return the mode of the layer, if it is supported."""
    kind = node.operator
    activations = node.get("activations") or _DEFAULT_ACTIVATIONS[kind] * directions
    activations = [name.decode() if isinstance(name, bytes) else name for name in activations]
    if kind == "RNN" and activations == ["Relu"] * directions:
        return "rnn_relu"
    if activations != _DEFAULT_ACTIVATIONS[kind] * directions:
        raise node.refuse(f"has activations={activations}")
    if kind == "GRU" and not node.get("linear_before_reset", 0):
        raise node.refuse("has linear_before_reset=0")
    return "rnn_tanh" if kind == "RNN" else kind.lower()


def _pack(node: Node, directions: int, size: int) -> Array:
    """Return all weights followed by all biases in one vector."""
    gates = list(_GATES[node.operator])

    def reorder(rows: Array) -> Array:
        return rows.reshape(len(gates), size, -1)[gates].reshape(-1)

    weights, recurrent = node.array(1, "weights"), node.array(2, "weights")
    count = len(gates) * size
    biases = node.array(3, "biases") if node.has(3) else np.zeros((directions, 2 * count), weights.dtype)
    parts = []
    for direction in range(directions):
        parts += [reorder(weights[direction]), reorder(recurrent[direction])]
    for direction in range(directions):
        parts += [reorder(biases[direction][:count]), reorder(biases[direction][count:])]
    return np.concatenate(parts)


@reads("LSTM", "GRU", "RNN")
def import_lstm(node: Node) -> list[Symbol]:
    direction = node.get("direction", "forward")
    if direction == "reverse" or node.get("layout", 0) or node.get("clip") or node.get("input_forget", 0):
        raise node.refuse(f"has direction={direction!r}, layout=1, clip or input_forget")
    if node.has(4) or node.has(7):
        raise node.refuse("has lengths of sequences or peepholes")
    directions, size = 2 if direction == "bidirectional" else 1, node.get("hidden_size")
    mode = _mode(node, directions)
    inputs = [node.data, node.parameter(_pack(node, directions, size), "parameters")]
    for index in (5, 6) if node.operator == "LSTM" else (5,):
        # the batch size may be unknown
        inputs.append(node.symbol(index) if node.has(index) else sym.zeros((directions, 0, size)))
    facts: dict[str, Any] = {"state_size": size, "num_layers": 1, "mode": mode, "state_outputs": True}
    found = node.make("RNN", *inputs, bidirectional=directions == 2, **facts)
    # time, batch, channels of all directions -> time, direction, batch, channels
    apart = node.make("Reshape", found[0], shape=(0, 0, directions, size))
    return [node.make("transpose", apart, axes=(0, 2, 1, 3)), *list(found)[1:]]
