"""Recurrent layers: vanilla, LSTM and GRU, stacked and bidirectional, unrolled into other operators.

``parameters`` is one vector. It starts with all weights, for each layer and direction: input to gates, state to gates,
and the projection if there is one. All biases follow in the same order: input to gates, state to gates. The gates of
an LSTM are in the order input, forget, candidate, output, those of a GRU in the order reset, update, candidate.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from typing import Any, Literal

import numpy as np

from ...base.errors import MXNetError, check_bounds, format_shape
from ...graph.interface import Interface, Partial, separate_types
from ...graph.node import Node, Shape
from ...graph.operator import Operator, composite, single
from ..math.broadcasting import same_dtype
from ..math.comparison import equal
from ..math.conversion import clip
from ..math.elementary import relu, sigmoid, tanh
from ..math.gradient_control import depending_on
from ..math.primitives import matmul, reshape_to, select, swap_last
from ..math.structural import full
from ..shape.sequence import sequence_mask, sequence_reverse
from ..shape.shape import concatenate, split_at, stack_nodes
from .dropout import dropout_mask
from .softmax import demand_floating

__all__ = ["RNN"]

_GATES = {"rnn_relu": 1, "rnn_tanh": 1, "lstm": 4, "gru": 3}


@dataclasses.dataclass(frozen=True)
class _Layer:
    """Hold the weights of one direction of one layer, transposed for multiplication from the right."""

    input_weight: Node
    state_weight: Node
    projection: Node | None
    input_bias: Node
    state_bias: Node


@dataclasses.dataclass(frozen=True)
class _Form:
    """Describe a recurrent network: the facts that all layers and steps share."""

    mode: str
    state_size: int
    projection_size: int | None
    num_layers: int
    directions: int
    clip_range: tuple[float, float] | None
    clip_nan: bool

    @property
    def gates(self) -> int:
        return _GATES[self.mode] * self.state_size

    @property
    def output_size(self) -> int:
        return self.projection_size or self.state_size

    def weight_shapes(self, features: int) -> Iterator[tuple[Shape, ...]]:
        """Yield the shapes of the weights of each layer and direction, in the order of the parameter vector."""
        for layer in range(self.num_layers):
            for _ in range(self.directions):
                yield self._shapes_of(features if layer == 0 else self.output_size * self.directions)

    def _shapes_of(self, inputs: int) -> tuple[Shape, ...]:
        """Return the shapes of the weights of one layer and direction, given the number of its inputs."""
        shapes: tuple[Shape, ...] = ((self.gates, inputs), (self.gates, self.output_size))
        return (*shapes, (self.projection_size, self.state_size)) if self.projection_size else shapes

    def parameter_count(self, features: int) -> int:
        """Return the length of the parameter vector."""
        # in one step: a wrong number of layers may be huge
        first, later = [
            self.directions * (sum([rows * columns for rows, columns in self._shapes_of(inputs)]) + 2 * self.gates)
            for inputs in (features, self.output_size * self.directions)
        ]
        return first + later * (self.num_layers - 1) if self.num_layers > 0 else 0

    def unpack(self, parameters: Node, features: int) -> list[_Layer]:
        """Return the weights of each layer and direction from the parameter vector."""
        by_layer = list(self.weight_shapes(features))
        shapes = [shape for matrices in by_layer for shape in matrices] + [(self.gates,)] * (2 * len(by_layer))
        ends = np.cumsum([math.prod(shape) for shape in shapes]).tolist()
        pieces = split_at(parameters, tuple(ends[:-1]), 0)
        parts = iter([reshape_to(piece, shape) for piece, shape in zip(pieces, shapes, strict=True)])
        weights = [[swap_last(next(parts)) for _ in matrices] for matrices in by_layer]
        return [
            _Layer(
                input_weight=matrices[0],
                state_weight=matrices[1],
                projection=matrices[2] if len(matrices) == 3 else None,
                input_bias=next(parts),
                state_bias=next(parts),
            )
            for matrices in weights
        ]


# -- one step


def _vanilla(form: _Form, layer: _Layer, inputs: Node, state: Node) -> Node:
    function: Operator = relu if form.mode == "rnn_relu" else tanh
    return single(function(inputs + matmul(state, layer.state_weight)))


def _lstm(form: _Form, layer: _Layer, inputs: Node, state: Node, cell: Node) -> tuple[Node, Node]:
    size = form.state_size
    gates = inputs + matmul(state, layer.state_weight)
    entrance, keep, candidate, outlet = split_at(gates, (size, 2 * size, 3 * size), 1)
    cell = single(sigmoid(keep)) * cell + single(sigmoid(entrance)) * single(tanh(candidate))
    if form.clip_range is not None:
        low, high = form.clip_range
        if form.clip_nan:
            cell = select(equal(cell, cell), cell, low)
        cell = single(clip(cell, a_min=low, a_max=high))
    state = single(sigmoid(outlet)) * single(tanh(cell))
    return state if layer.projection is None else matmul(state, layer.projection), cell


def _gru(form: _Form, layer: _Layer, inputs: Node, state: Node) -> Node:
    size = form.state_size
    recurrent = matmul(state, layer.state_weight) + layer.state_bias
    reset, update, candidate = split_at(inputs, (size, 2 * size), 1)
    reset_state, update_state, candidate_state = split_at(recurrent, (size, 2 * size), 1)
    update = single(sigmoid(update + update_state))
    candidate = single(tanh(candidate + single(sigmoid(reset + reset_state)) * candidate_state))
    return candidate + update * (state - candidate)


# -- one direction of one layer


def _run(
    form: _Form, layer: _Layer, data: Node, state: Node, cell: Node | None, active: list[Node]
) -> tuple[Node, Node, Node | None]:
    """Return all outputs, the last state and the last cell. Inactive steps leave the states unchanged."""
    steps, batch, features = data.shape
    bias = layer.input_bias if form.mode == "gru" else layer.input_bias + layer.state_bias
    projected = matmul(reshape_to(data, (steps * batch, features)), layer.input_weight) + bias
    parts = split_at(reshape_to(projected, (steps, batch, form.gates)), tuple(range(1, steps)), 0)
    outputs = []
    for step, part in enumerate(parts):
        inputs = reshape_to(part, (batch, form.gates))
        new_cell = None
        if form.mode == "lstm":
            assert cell is not None
            new_state, new_cell = _lstm(form, layer, inputs, state, cell)
        else:
            new_state = (_gru if form.mode == "gru" else _vanilla)(form, layer, inputs, state)
        if active:
            new_state = select(active[step], new_state, state)
            new_cell = None if new_cell is None or cell is None else select(active[step], new_cell, cell)
        state, cell = new_state, new_cell
        outputs.append(state)
    return stack_nodes(outputs, 0), state, cell


def _reverse(data: Node, lengths: Node | None) -> Node:
    return single(sequence_reverse(data, lengths, use_sequence_length=lengths is not None))


def _rows(node: Node) -> list[Node]:
    """Split a node along its first axis, and remove that axis."""
    parts = split_at(node, tuple(range(1, node.shape[0])), 0)
    return [reshape_to(part, node.shape[1:]) for part in parts]


def _run_layers(
    form: _Form, data: Node, parameters: Node, state: Node, cell: Node | None, lengths: Node | None, masks: list[Node]
) -> tuple[Node, Node, Node | None]:
    """Return the outputs of the last layer, and the last states and cells of all layers."""
    layers = form.unpack(parameters, data.shape[2])
    states = _rows(state)
    cells: list[Node | None] = [*_rows(cell)] if cell is not None else [None] * len(states)
    active = _rows(_active(data, lengths)) if lengths is not None else []
    last_states, last_cells = [], []
    for number in range(form.num_layers):
        if number and masks:
            data = data * masks[number - 1]
        outputs = []
        for direction in range(form.directions):
            place = number * form.directions + direction
            inputs = _reverse(data, lengths) if direction else data
            out, last_state, last_cell = _run(form, layers[place], inputs, states[place], cells[place], active)
            outputs.append(_reverse(out, lengths) if direction else out)
            last_states.append(last_state)
            if last_cell is not None:
                last_cells.append(last_cell)
        data = concatenate(outputs, 2)
        if lengths is not None:
            data = single(sequence_mask(data, lengths, use_sequence_length=True))
    return data, stack_nodes(last_states, 0), stack_nodes(last_cells, 0) if last_cells else None


def _active(data: Node, lengths: Node) -> Node:
    """Return ones of shape (steps, batch, 1) for steps within the length of their sequence, zeros after it."""
    ones = full((*data.shape[:2], 1), 1, data.dtype, data.context)
    return single(sequence_mask(ones, lengths, use_sequence_length=True))


def _outputs(*arguments: Any, mode: str, state_outputs: bool, **parameters: Any) -> int:
    return (3 if mode == "lstm" else 2) if state_outputs else 1


def _check_shape(argument: str, node: Node, expected: Shape) -> None:
    if node.shape != expected:
        raise MXNetError(
            f"Shape inconsistent, Provided = {format_shape(node.shape)}, inferred shape={format_shape(expected)} for "
            f"{argument} in operator RNN"
        )


@composite(visible=_outputs, npx="rnn")
def RNN(
    data: Node,
    parameters: Node,
    state: Node,
    state_cell: Node | None = None,
    sequence_length: Node | None = None,
    counter: Node | None = None,
    *,
    state_size: int,
    num_layers: int,
    bidirectional: bool = False,
    mode: Literal["gru", "lstm", "rnn_relu", "rnn_tanh"],
    p: float = 0.0,
    state_outputs: bool = False,
    projection_size: int | None = None,
    lstm_state_clip_min: float | None = None,
    lstm_state_clip_max: float | None = None,
    lstm_state_clip_nan: bool = False,
    use_sequence_length: bool = False,
    training: bool = False,
) -> Any:
    """Return the outputs of recurrent layers for every step; with ``state_outputs`` also the last states.

    Parameters
    ----------
    data
        The sequences, of shape (steps, batch, features).
    parameters
        All weights and biases as one vector, in the order of cuDNN and MXNet.
    state, state_cell
        Initial states of shape (layers * directions, batch, size); the cells are for LSTM only.
    sequence_length
        Length of each sequence, given with ``use_sequence_length``. Outputs after it are zero, and the last state is
        that of its last step; the backward direction starts there.
    state_size, num_layers, bidirectional, mode
        Size of a state, number of layers, whether each layer runs in both directions, and the kind of cell.
    p
        Dropout probability of the outputs of each layer except the last, in training mode.
    projection_size
        Size to which an LSTM projects its states for the next step and layer.
    lstm_state_clip_min, lstm_state_clip_max, lstm_state_clip_nan
        Range to which an LSTM clips its cells, and whether NaN becomes the lower bound.
    """
    if use_sequence_length and mode != "lstm" and sequence_length is None:
        state_cell, sequence_length = None, state_cell
    demand_floating(data.dtype, "RNN")
    _check_inputs(mode, state_cell, sequence_length, use_sequence_length)
    _check_options(mode, p, projection_size)
    if data.ndim != 3 or 0 in data.shape[:1]:
        raise MXNetError(
            f"Input data should be rank-3 tensor of dim [sequence length, batch size, input size], got "
            f"{format_shape(data.shape)} in operator RNN"
        )
    steps, batch, features = data.shape
    form = _Form(
        mode=mode,
        state_size=state_size,
        projection_size=projection_size,
        num_layers=num_layers,
        directions=2 if bidirectional else 1,
        clip_range=_range(lstm_state_clip_min, lstm_state_clip_max) if mode == "lstm" else None,
        clip_nan=lstm_state_clip_nan,
    )
    _check_shape("parameters", parameters, (form.parameter_count(features),))
    stack = num_layers * form.directions
    _check_shape("state", state, (stack, batch, form.output_size))
    if state_cell is not None:
        _check_shape("state_cell", state_cell, (stack, batch, state_size))
    if sequence_length is not None:
        _check_shape("sequence_length", sequence_length, (batch,))
    for position, node in enumerate((parameters, state, state_cell), 1):
        if node is not None:
            same_dtype(data, node, position)
    masks: list[Node] = []
    if training and p > 0 and num_layers > 1:
        assert counter is not None, "the caller passes the position in the random stream"
        shape = (num_layers - 1, steps, batch, form.output_size * form.directions)
        masks = _rows(dropout_mask(counter, p, shape, data.dtype))
    out, states, cells = _run_layers(form, data, parameters, state, state_cell, sequence_length, masks)
    if sequence_length is not None:
        out = depending_on(out, [sequence_length])
    if not state_outputs:
        return out
    return (out, states) if cells is None else (out, states, cells)


def _check_inputs(mode: str, cell: Node | None, lengths: Node | None, use_sequence_length: bool) -> None:
    expected = 3 + (mode == "lstm") + use_sequence_length
    given = 3 + (cell is not None) + (lengths is not None)
    if (cell is not None) != (mode == "lstm") or (lengths is not None) != use_sequence_length:
        raise MXNetError(
            f"Operator RNN expects {expected} inputs, but got {given} instead. mode='lstm' takes state_cell, "
            f"use_sequence_length=True takes sequence_length."
        )


def _check_options(mode: str, p: float, projection: int | None) -> None:
    check_bounds("RNN", "p", p)
    if projection is not None and mode != "lstm":
        raise MXNetError("hidden layer projection is only supported for LSTM: projection_size in operator RNN")


def _range(low: float | None, high: float | None) -> tuple[float, float] | None:
    if low is not None and high is not None:
        return low, high
    if low is not None or high is not None:
        raise MXNetError("lstm_state_clip_min and lstm_state_clip_max must be given together in operator RNN")
    return None


# -- symbol declarations


def _recurrent_arguments(names: list[str], *, mode: str, use_sequence_length: bool) -> list[str]:
    absent = {"state_cell"} if mode != "lstm" else set()
    return [name for name in names if name not in absent and (name != "sequence_length" or use_sequence_length)]


def _recurrent_shapes(
    inputs: list[Partial],
    outputs: list[Partial],
    *,
    mode: str,
    state_size: int,
    num_layers: int,
    bidirectional: bool,
    projection_size: int | None,
) -> list[Partial]:
    data = inputs[0]
    if data is None or len(data) != 3:
        return inputs
    form = _Form(
        mode=mode,
        state_size=state_size,
        projection_size=projection_size,
        num_layers=num_layers,
        directions=2 if bidirectional else 1,
        clip_range=None,
        clip_nan=False,
    )
    stack = num_layers * form.directions
    parameters = form.parameter_count(data[2]) if data[2] else 0
    known: list[Partial] = [data, (parameters,), (stack, data[1], form.output_size)]
    if mode == "lstm":
        known.append((stack, data[1], state_size))
    return [*known, (data[1],)][: len(inputs)]


def _recurrent_results(
    inputs: list[Partial],
    *,
    mode: str,
    state_size: int,
    num_layers: int,
    bidirectional: bool,
    projection_size: int | None,
    state_outputs: bool,
) -> list[Partial] | None:
    data = inputs[0]
    if data is None or len(data) != 3:
        return None
    directions = 2 if bidirectional else 1
    size = projection_size or state_size
    stack = num_layers * directions
    shapes: list[Partial] = [(*data[:2], directions * size), (stack, data[1], size), (stack, data[1], state_size)]
    return shapes[: _outputs(mode=mode, state_outputs=state_outputs)]


RNN.interface = Interface(
    arguments=_recurrent_arguments,
    results=_recurrent_results,
    outputs=lambda *, mode, state_outputs: ("output", "state_output", "statecell_output")[
        : _outputs(mode=mode, state_outputs=state_outputs)
    ],
    shapes=_recurrent_shapes,
    types=separate_types(4),
)


# -- precision in mixed-precision training

for _declared in (RNN,):
    _declared.precision = "low"
