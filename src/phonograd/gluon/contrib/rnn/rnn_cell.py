"""Variational dropout, long short-term memory with a projection, and unrolling by a loop in the graph."""

from __future__ import annotations

from typing import Any

from ....core.base.docstrings import complete_classes
from ...parameter import Parameter, ParameterDict, tensor_types
from ...rnn.base import begin, sigmoids
from ...rnn.rnn_cell import BidirectionalCell, ModifierCell, _LinearCell
from ...rnn.sequences import format_sequence, mask_sequence

__all__ = ["LSTMPCell", "VariationalDropoutCell", "dynamic_unroll"]


class VariationalDropoutCell(ModifierCell):
    """Apply dropout to inputs, first states and outputs, with one mask for all steps (Gal, Ghahramani 2016)."""

    _keeps_arrays = True

    def __init__(
        self, base_cell: Any, drop_inputs: float = 0.0, drop_states: float = 0.0, drop_outputs: float = 0.0
    ) -> None:
        assert not drop_states or not isinstance(base_cell, BidirectionalCell), (
            "BidirectionalCell doesn't support variational state dropout. Please add VariationalDropoutCell to the "
            "cells underneath instead."
        )
        super().__init__(base_cell)
        self.drop_inputs = drop_inputs
        self.drop_states = drop_states
        self.drop_outputs = drop_outputs

    def _alias(self) -> str:
        return "vardrop"

    def reset(self) -> None:
        """Reset the cell and its masks; call it before a new sequence."""
        super().reset()
        self._masks: dict[str, Any] = {}

    def _drop(self, F: Any, name: str, probability: float, value: Any) -> Any:
        """Apply dropout with the same mask in all steps."""
        if not probability:
            return value
        if name not in self._masks:
            self._masks[name] = F.Dropout(F.ones_like(value), p=probability)
        return value * self._masks[name]

    def hybrid_forward(self, F: Any, inputs: Any, states: Any) -> Any:
        """Return the output of one step and the states after it."""
        first = self._drop(F, "states", self.drop_states, states[0]) if states else None
        states = [first, *states[1:]] if states else states
        output, after = self.base_cell(self._drop(F, "inputs", self.drop_inputs, inputs), states)
        return self._drop(F, "outputs", self.drop_outputs, output), after

    def __repr__(self) -> str:
        return f"{type(self).__name__}(p_out = {self.drop_outputs}, p_state = {self.drop_states})"

    def _unroll(self, length: int, inputs: Any, begin_state: Any, layout: str, merge: Any, valid_length: Any) -> Any:
        if self.drop_states:
            return super()._unroll(length, inputs, begin_state, layout, merge, valid_length)
        inputs, axis, F, batch_size = format_sequence(length, inputs, layout, True)
        states = begin(self, F, begin_state, inputs, batch_size)
        if self.drop_inputs:
            inputs = F.Dropout(inputs, p=self.drop_inputs, axes=(axis,))
        outputs, states = self.base_cell.unroll(length, inputs, states, layout, True, valid_length)
        if self.drop_outputs:
            outputs = F.Dropout(outputs, p=self.drop_outputs, axes=(axis,))
        merge = isinstance(outputs, tensor_types) if merge is None else merge
        outputs, _, _, _ = format_sequence(length, outputs, layout, merge)
        if valid_length is not None:
            outputs = mask_sequence(F, outputs, length, valid_length, axis, merge)
        return outputs, states


class LSTMPCell(_LinearCell):
    """Long short-term memory with a linear projection of the output (Sak et al. 2014).

    Arguments are those of :class:`~phonograd.gluon.rnn.LSTMCell`, plus `projection_size` (the number of outputs) and
    `h2r_weight_initializer` (the initializer of the projection).
    """

    _gates = 4

    def __init__(
        self,
        hidden_size: int,
        projection_size: int,
        i2h_weight_initializer: Any = None,
        h2h_weight_initializer: Any = None,
        h2r_weight_initializer: Any = None,
        i2h_bias_initializer: Any = "zeros",
        h2h_bias_initializer: Any = "zeros",
        input_size: int = 0,
        prefix: str | None = None,
        params: ParameterDict | None = None,
    ) -> None:
        super().__init__(prefix=prefix, params=params)
        self._projection_size = projection_size
        self.h2r_weight: Parameter
        initializers = (
            ("i2h_weight", i2h_weight_initializer),
            ("h2h_weight", h2h_weight_initializer),
            ("h2r_weight", h2r_weight_initializer),
            ("i2h_bias", i2h_bias_initializer),
            ("h2h_bias", h2h_bias_initializer),
        )
        self._add_parameters(hidden_size, input_size, projection_size, initializers)

    def state_info(self, batch_size: int = 0) -> list[dict[str, Any]]:
        """Return the shapes and layouts of the states."""
        return [
            {"shape": (batch_size, self._projection_size), "__layout__": "NC"},
            {"shape": (batch_size, self._hidden_size), "__layout__": "NC"},
        ]

    def _alias(self) -> str:
        return "lstmp"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._mapping()} -> {self._projection_size})"

    def hybrid_forward(
        self,
        F: Any,
        inputs: Any,
        states: Any,
        i2h_weight: Any,
        h2h_weight: Any,
        h2r_weight: Any,
        i2h_bias: Any,
        h2h_bias: Any,
    ) -> Any:
        """Return the output of one step and the states after it."""
        start = f"t{self._counter}_"
        i2h, h2h = self._linear(F, inputs, states[0], (i2h_weight, h2h_weight), (i2h_bias, h2h_bias))
        parts = F.SliceChannel(i2h + h2h, num_outputs=4, name=start + "slice")
        taken, kept, shown = sigmoids(F, zip((parts[0], parts[1], parts[3]), "ifo"), start)
        new = F.Activation(parts[2], act_type="tanh", name=start + "c")
        memory = F.elemwise_add(kept * states[1], taken * new, name=start + "state")
        hidden = F.elemwise_mul(shown, F.Activation(memory, act_type="tanh"), name=start + "hidden")
        output = F.FullyConnected(
            data=hidden, weight=h2r_weight, num_hidden=self._projection_size, no_bias=True, name=start + "out"
        )
        return output, [output, memory]


def dynamic_unroll(
    cell: Any,
    inputs: Any,
    begin_state: Any,
    drop_inputs: float = 0,
    drop_outputs: float = 0,
    layout: str = "TNC",
    valid_length: Any = None,
) -> tuple[Any, Any]:
    """Unroll a cell with a loop in the graph; return the outputs of all steps and the final states.

    Parameters
    ----------
    cell
        The cell.
    inputs
        The sequence: one array or symbol, of any length.
    begin_state
        The initial states.
    drop_inputs, drop_outputs
        The dropout rates of inputs and outputs; all steps share one mask.
    layout
        The order of axes: T time, N batch, C features.
    valid_length
        The number of valid steps of each sample; all steps if None.

    Compatibility
    -------------
    With ``layout='NTC'`` MXNet uses one mask for all samples, and different masks in the steps.
    """
    inputs, axis, F, _ = format_sequence(None, inputs, layout, True)
    steps = F.swapaxes(inputs, 0, axis) if axis else inputs
    if drop_inputs:
        steps = F.Dropout(steps, p=drop_inputs, axes=(0,))
    states = [begin_state] if isinstance(begin_state, tensor_types) else list(begin_state)
    if valid_length is not None:
        states.append(F.zeros_like(F.slice_axis(valid_length, axis=0, begin=0, end=1)))

    def body(step: Any, states: Any) -> tuple[Any, list[Any]]:
        if valid_length is None:
            output, after = cell(step, states)
            return output, list(after)
        *before, number = states
        output, after = cell(step, before)
        is_valid = F.broadcast_greater(valid_length, number)
        return output, [*[F.where(is_valid, new, old) for new, old in zip(after, before)], number + 1]

    outputs, states = F.contrib.foreach(body, steps, states)
    if drop_outputs:
        outputs = F.Dropout(outputs, p=drop_outputs, axes=(0,))
    if axis:
        outputs = F.swapaxes(outputs, 0, axis)
    if valid_length is None:
        return outputs, states
    return mask_sequence(F, outputs, 0, valid_length, axis, True), states[:-1]


complete_classes(globals())
