"""Recurrent cells with one, three or four gates, and stacks of cells."""

from __future__ import annotations

from typing import Any

from ... import ndarray
from ...core.base.docstrings import complete_classes
from ..block import Block
from ..parameter import Parameter, ParameterDict
from ..text import indented
from .base import HybridRecurrentCell, RecurrentCell, begin, infos_of, states_of
from .modifier_cells import BidirectionalCell, DropoutCell, ModifierCell, ResidualCell, ZoneoutCell
from .sequences import format_sequence, mask_sequence, reverse_sequence

__all__ = [
    "BidirectionalCell",
    "DropoutCell",
    "GRUCell",
    "HybridRecurrentCell",
    "HybridSequentialRNNCell",
    "LSTMCell",
    "ModifierCell",
    "RNNCell",
    "RecurrentCell",
    "ResidualCell",
    "SequentialRNNCell",
    "ZoneoutCell",
]

# MXNet's names, which cells of other libraries import from here
_cells_state_info = infos_of
_cells_begin_state = states_of
_get_begin_state = begin
_format_sequence = format_sequence
_mask_sequence_variable_length = mask_sequence


def _reverse_sequences(sequences: Any, unroll_step: int, valid_length: Any = None) -> list[Any]:
    """Return the steps of a sequence in reverse; with lengths, only the valid steps are reversed."""
    assert len(sequences) == unroll_step, f"the sequence has {len(sequences)} steps, not {unroll_step}"
    return reverse_sequence(sequences, valid_length)


class _LinearCell(HybridRecurrentCell):
    """The base class of cells with a linear function of input and state for each gate."""

    _gates: int
    i2h_weight: Parameter
    h2h_weight: Parameter

    def _add_parameters(self, hidden_size: int, input_size: int, width: int, initializers: Any) -> None:
        """Create a parameter for each pair (name, initializer); `width` is the number of outputs."""
        self._hidden_size = hidden_size
        self._input_size = input_size
        rows = self._gates * hidden_size
        shapes = {"i2h_weight": (rows, input_size), "h2h_weight": (rows, width), "h2r_weight": (width, hidden_size)}
        for name, init in initializers:
            shape = shapes.get(name, (rows,))
            setattr(self, name, self.params.get(name, shape=shape, init=init, allow_deferred_init=True))

    def _infer_quickly(self, inputs: Any, *states: Any) -> bool:
        self.i2h_weight.shape = self._gates * self._hidden_size, inputs.shape[-1]
        return True

    def _linear(
        self, F: Any, inputs: Any, state: Any, weights: tuple[Any, Any], biases: tuple[Any, Any]
    ) -> tuple[Any, Any]:
        """Return the linear functions of input and state."""
        start, rows = f"t{self._counter}_", self._gates * self._hidden_size
        i2h, h2h = [
            F.FullyConnected(data=data, weight=weight, bias=bias, num_hidden=rows, name=start + part)
            for data, weight, bias, part in zip((inputs, state), weights, biases, ("i2h", "h2h"))
        ]
        return i2h, h2h

    def state_info(self, batch_size: int = 0) -> list[dict[str, Any]]:
        """Return the shapes and layouts of the states."""
        return [{"shape": (batch_size, self._hidden_size), "__layout__": "NC"}]

    def _mapping(self) -> str:
        rows, inputs = self.i2h_weight.shape or (0, 0)
        return f"{inputs or None} -> {rows}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._mapping()})"


class _GatedCell(_LinearCell):
    """The base class of cells with as many outputs as hidden units."""

    def __init__(
        self,
        hidden_size: int,
        i2h_weight_initializer: Any = None,
        h2h_weight_initializer: Any = None,
        i2h_bias_initializer: Any = "zeros",
        h2h_bias_initializer: Any = "zeros",
        input_size: int = 0,
        prefix: str | None = None,
        params: ParameterDict | None = None,
    ) -> None:
        super().__init__(prefix=prefix, params=params)
        initializers = (
            ("i2h_weight", i2h_weight_initializer),
            ("h2h_weight", h2h_weight_initializer),
            ("i2h_bias", i2h_bias_initializer),
            ("h2h_bias", h2h_bias_initializer),
        )
        self._add_parameters(hidden_size, input_size, hidden_size, initializers)


class RNNCell(_GatedCell):
    """Elman's cell (1990): the activation of a linear function of input and last output.

    Parameters
    ----------
    hidden_size
        The number of outputs.
    activation
        The name of an activation function, or a block.
    i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer, h2h_bias_initializer
        The initializers of weights and biases of input and state.
    input_size
        The number of inputs; 0 to infer it in the first forward pass.
    """

    _gates = 1

    def __init__(
        self,
        hidden_size: int,
        activation: Any = "tanh",
        i2h_weight_initializer: Any = None,
        h2h_weight_initializer: Any = None,
        i2h_bias_initializer: Any = "zeros",
        h2h_bias_initializer: Any = "zeros",
        input_size: int = 0,
        prefix: str | None = None,
        params: ParameterDict | None = None,
    ) -> None:
        super().__init__(
            *(hidden_size, i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer, h2h_bias_initializer),
            *(input_size, prefix, params),
        )
        self._activation = activation

    def _alias(self) -> str:
        return "rnn"

    def hybrid_forward(
        self, F: Any, inputs: Any, states: Any, i2h_weight: Any, h2h_weight: Any, i2h_bias: Any, h2h_bias: Any
    ) -> Any:
        """Return the output of one step and the states after it."""
        start = f"t{self._counter}_"
        i2h, h2h = self._linear(F, inputs, states[0], (i2h_weight, h2h_weight), (i2h_bias, h2h_bias))
        total = F.elemwise_add(i2h, h2h, name=start + "plus0")
        output = self._get_activation(F, total, self._activation, name=start + "out")
        return output, [output]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._mapping()}, {self._activation})"


class LSTMCell(_GatedCell):
    """Long short-term memory (Hochreiter and Schmidhuber 1997), with two states: output and memory.

    Arguments are those of :class:`RNNCell`, and `recurrent_activation`: the activation of the gates.
    """

    _gates = 4

    def __init__(
        self,
        hidden_size: int,
        i2h_weight_initializer: Any = None,
        h2h_weight_initializer: Any = None,
        i2h_bias_initializer: Any = "zeros",
        h2h_bias_initializer: Any = "zeros",
        input_size: int = 0,
        prefix: str | None = None,
        params: ParameterDict | None = None,
        activation: Any = "tanh",
        recurrent_activation: Any = "sigmoid",
    ) -> None:
        super().__init__(
            *(hidden_size, i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer, h2h_bias_initializer),
            *(input_size, prefix, params),
        )
        self._activation = activation
        self._recurrent_activation = recurrent_activation

    def state_info(self, batch_size: int = 0) -> list[dict[str, Any]]:
        """Return the shapes and layouts of the states."""
        return [*super().state_info(batch_size), *super().state_info(batch_size)]

    def _alias(self) -> str:
        return "lstm"

    def hybrid_forward(
        self, F: Any, inputs: Any, states: Any, i2h_weight: Any, h2h_weight: Any, i2h_bias: Any, h2h_bias: Any
    ) -> Any:
        """Return the output of one step and the states after it."""
        start = f"t{self._counter}_"
        i2h, h2h = self._linear(F, inputs, states[0], (i2h_weight, h2h_weight), (i2h_bias, h2h_bias))
        parts = F.SliceChannel(F.elemwise_add(i2h, h2h, name=start + "plus0"), num_outputs=4, name=start + "slice")
        gate = self._recurrent_activation
        taken = self._get_activation(F, parts[0], gate, name=start + "i")
        kept = self._get_activation(F, parts[1], gate, name=start + "f")
        new = self._get_activation(F, parts[2], self._activation, name=start + "c")
        shown = self._get_activation(F, parts[3], gate, name=start + "o")
        memory = F.elemwise_add(
            F.elemwise_mul(kept, states[1], name=start + "mul0"),
            F.elemwise_mul(taken, new, name=start + "mul1"),
            name=start + "state",
        )
        if isinstance(self._activation, str):
            visible = F.Activation(memory, act_type=self._activation, name=start + "activation0")
        else:
            visible = self._get_activation(F, memory, self._activation)
        output = F.elemwise_mul(shown, visible, name=start + "out")
        return output, [output, memory]


class GRUCell(_GatedCell):
    """The gated recurrent unit (Cho et al. 2014). Arguments are those of :class:`RNNCell`."""

    _gates = 3

    def _alias(self) -> str:
        return "gru"

    def hybrid_forward(
        self, F: Any, inputs: Any, states: Any, i2h_weight: Any, h2h_weight: Any, i2h_bias: Any, h2h_bias: Any
    ) -> Any:
        """Return the output of one step and the states after it."""
        start, before = f"t{self._counter}_", states[0]
        i2h, h2h = self._linear(F, inputs, before, (i2h_weight, h2h_weight), (i2h_bias, h2h_bias))
        i2h_r, i2h_z, i2h_n = F.SliceChannel(i2h, num_outputs=3, name=start + "i2h_slice")
        h2h_r, h2h_z, h2h_n = F.SliceChannel(h2h, num_outputs=3, name=start + "h2h_slice")
        reset = F.Activation(
            F.elemwise_add(i2h_r, h2h_r, name=start + "plus0"), act_type="sigmoid", name=start + "r_act"
        )
        kept = F.Activation(
            F.elemwise_add(i2h_z, h2h_z, name=start + "plus1"), act_type="sigmoid", name=start + "z_act"
        )
        inner = F.elemwise_add(i2h_n, F.elemwise_mul(reset, h2h_n, name=start + "mul0"), name=start + "plus2")
        new = F.Activation(inner, act_type="tanh", name=start + "h_act")
        ones = F.ones_like(kept, name=start + "ones_like0")
        output = F.elemwise_add(
            F.elemwise_mul(F.elemwise_sub(ones, kept, name=start + "minus0"), new, name=start + "mul1"),
            F.elemwise_mul(kept, before, name=start + "mul20"),
            name=start + "out",
        )
        return output, [output]


class _Stack(RecurrentCell):
    """A stack of cells: the input of each is the output of the previous one."""

    def __repr__(self) -> str:
        lines = [f"({key}): {indented(repr(cell), 2)}" for key, cell in self._children.items()]
        return f"{type(self).__name__}(\n" + "\n".join(lines) + "\n)"

    def add(self, cell: Any) -> None:
        """Append a cell."""
        self.register_child(cell)

    def __getitem__(self, i: int) -> Block:
        return self._children[str(i)]

    def __len__(self) -> int:
        return len(self._children)

    def state_info(self, batch_size: int = 0) -> list[dict[str, Any]]:
        """Return the shapes and layouts of the states of all cells."""
        return infos_of(self._children.values(), batch_size)

    def begin_state(self, batch_size: int = 0, func: Any = ndarray.zeros, **kwargs: Any) -> list[Any]:
        """Return the initial states of all cells."""
        self._check_free()
        return states_of(self._children.values(), batch_size=batch_size, func=func, **kwargs)

    def __call__(self, inputs: Any, states: Any) -> Any:
        """Return the output of the last cell and the states of all cells after one step."""
        self._counter += 1
        after: list[Any] = []
        for cell, own in self._divide_states(states):
            assert not isinstance(cell, BidirectionalCell), "Bidirectional cannot be stepped. Please use unroll"
            inputs, own = cell(inputs, own)
            after.extend(own)
        return inputs, after

    def _divide_states(self, states: Any) -> Any:
        """Yield each cell with its own states."""
        start = 0
        for cell in self._children.values():
            count = len(infos_of([cell], 0))
            yield cell, states[start : start + count]
            start += count

    def _unroll(self, length: int, inputs: Any, begin_state: Any, layout: str, merge: Any, valid_length: Any) -> Any:
        inputs, _, F, batch_size = format_sequence(length, inputs, layout, None)
        states = begin(self, F, begin_state, inputs, batch_size)
        after: list[Any] = []
        last = len(self._children) - 1
        for number, (cell, own) in enumerate(self._divide_states(states)):
            inputs, own = cell.unroll(length, inputs, own, layout, merge if number == last else None, valid_length)
            after.extend(own)
        return inputs, after


class SequentialRNNCell(_Stack):
    """A stack of cells: the input of each is the output of the previous one."""


class HybridSequentialRNNCell(_Stack, HybridRecurrentCell):
    """A stack of hybrid cells: the input of each is the output of the previous one."""

    def hybrid_forward(self, F: Any, inputs: Any, states: Any) -> Any:
        """Return the output of the last cell and the states of all cells after one step."""
        return self(inputs, states)


complete_classes(globals())
