"""Cells that modify other cells: dropout, zoneout, residual connections; and bidirectional cells."""

from __future__ import annotations

from typing import Any

from ... import ndarray
from ...base import numeric_types
from ...core.base.docstrings import complete_classes
from ..parameter import ParameterDict, tensor_types
from .base import HybridRecurrentCell, begin, infos_of, states_of
from .sequences import format_sequence, mask_sequence, reverse_sequence

__all__ = ["BidirectionalCell", "DropoutCell", "ModifierCell", "ResidualCell", "ZoneoutCell"]


class DropoutCell(HybridRecurrentCell):
    """Set each input to 0 with probability `rate` while training; the cell has no states.

    Inputs share their mask along `axes`.
    """

    def __init__(
        self,
        rate: float,
        axes: tuple[int, ...] = (),
        prefix: str | None = None,
        params: ParameterDict | None = None,
    ) -> None:
        super().__init__(prefix, params)
        assert isinstance(rate, numeric_types), "rate must be a number"
        self._rate = rate
        self._axes = axes

    def __repr__(self) -> str:
        return f"{type(self).__name__}(rate={self._rate}, axes={self._axes})"

    def state_info(self, batch_size: int = 0) -> list[dict[str, Any]]:
        """Return an empty list."""
        return []

    def _alias(self) -> str:
        return "dropout"

    def hybrid_forward(self, F: Any, inputs: Any, states: Any) -> Any:
        """Return the input with some elements set to 0, and the states."""
        if self._rate > 0:
            inputs = F.Dropout(data=inputs, p=self._rate, axes=self._axes, name=f"t{self._counter}_fwd")
        return inputs, states

    def _unroll(self, length: int, inputs: Any, begin_state: Any, layout: str, merge: Any, valid_length: Any) -> Any:
        inputs, _, F, _ = format_sequence(length, inputs, layout, merge)
        if isinstance(inputs, tensor_types):
            return self.hybrid_forward(F, inputs, begin_state or [])
        return super()._unroll(length, inputs, begin_state, layout, merge, None)


class ModifierCell(HybridRecurrentCell):
    """The base class of cells that modify another cell and have its parameters and states."""

    def __init__(self, base_cell: Any) -> None:
        assert not base_cell._modified, f"Cell {base_cell.name} is already modified. One cell cannot be modified twice"
        base_cell._modified = True
        super().__init__(prefix=base_cell.prefix + self._alias(), params=None)
        self.base_cell = base_cell

    @property
    def params(self) -> ParameterDict:
        """The parameters of the other cell."""
        found: ParameterDict = self.base_cell.params
        return found

    def state_info(self, batch_size: int = 0) -> list[dict[str, Any]]:
        """Return the shapes and layouts of the other cell's states."""
        return infos_of([self.base_cell], batch_size)

    def begin_state(self, batch_size: int = 0, func: Any = ndarray.zeros, **kwargs: Any) -> list[Any]:
        """Return the initial states."""
        self._check_free()
        self.base_cell._modified = False
        states = states_of([self.base_cell], batch_size=batch_size, func=func, **kwargs)
        self.base_cell._modified = True
        return states

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_cell})"


class ZoneoutCell(ModifierCell):
    """Keep each previous output and state with a probability, while training (Krueger et al. 2016)."""

    _keeps_arrays = True

    def __init__(self, base_cell: Any, zoneout_outputs: float = 0.0, zoneout_states: float = 0.0) -> None:
        assert not isinstance(base_cell, BidirectionalCell), (
            "BidirectionalCell doesn't support zoneout since it doesn't support step. Please add ZoneoutCell to the "
            "cells underneath instead."
        )
        super().__init__(base_cell)
        self.zoneout_outputs = zoneout_outputs
        self.zoneout_states = zoneout_states
        self._prev_output: Any = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}(p_out={self.zoneout_outputs}, p_state={self.zoneout_states}, {self.base_cell})"

    def _alias(self) -> str:
        return "zoneout"

    def reset(self) -> None:
        """Reset the cell and the previous output; call it before a new sequence."""
        super().reset()
        self._prev_output = None

    def hybrid_forward(self, F: Any, inputs: Any, states: Any) -> Any:
        """Return the output of one step and the states after it."""
        output, after = self.base_cell(inputs, states)

        def mix(probability: float, new: Any, old: Any) -> Any:
            return F.where(F.Dropout(F.ones_like(new), p=probability), new, old)

        if self.zoneout_outputs != 0.0:
            before = F.zeros_like(output) if self._prev_output is None else self._prev_output
            output = mix(self.zoneout_outputs, output, before)
        if self.zoneout_states != 0.0:
            after = [mix(self.zoneout_states, new, old) for new, old in zip(after, states)]
        self._prev_output = output
        return output, after


class ResidualCell(ModifierCell):
    """Add the input to the output of another cell (He et al. 2016)."""

    def hybrid_forward(self, F: Any, inputs: Any, states: Any) -> Any:
        """Return the output of one step and the states after it."""
        output, after = self.base_cell(inputs, states)
        return F.elemwise_add(output, inputs, name=f"t{self._counter}_fwd"), after

    def _unroll(self, length: int, inputs: Any, begin_state: Any, layout: str, merge: Any, valid_length: Any) -> Any:
        self.base_cell._modified = False
        outputs, states = self.base_cell.unroll(length, inputs, begin_state, layout, merge, valid_length)
        self.base_cell._modified = True
        merge = isinstance(outputs, tensor_types) if merge is None else merge
        inputs, axis, F, _ = format_sequence(length, inputs, layout, merge)
        if valid_length is not None:
            inputs = mask_sequence(F, inputs, length, valid_length, axis, merge)
        if merge:
            return F.elemwise_add(outputs, inputs), states
        return [F.elemwise_add(output, step) for output, step in zip(outputs, inputs)], states


class BidirectionalCell(HybridRecurrentCell):
    """Run one cell forward and another backward over a sequence, and concatenate their outputs."""

    def __init__(self, l_cell: Any, r_cell: Any, output_prefix: str = "bi_") -> None:
        super().__init__(prefix="", params=None)
        self.register_child(l_cell, "l_cell")
        self.register_child(r_cell, "r_cell")
        self._output_prefix = output_prefix

    def __call__(self, inputs: Any, states: Any) -> Any:
        """Raise NotImplementedError: the backward cell starts at the end of the sequence."""
        raise NotImplementedError("Bidirectional cannot be stepped. Please use unroll")

    def __repr__(self) -> str:
        forward, backward = self._children.values()
        return f"{type(self).__name__}(forward={forward}, backward={backward})"

    def state_info(self, batch_size: int = 0) -> list[dict[str, Any]]:
        """Return the shapes and layouts of the states of both cells."""
        return infos_of(self._children.values(), batch_size)

    def begin_state(self, batch_size: int = 0, func: Any = ndarray.zeros, **kwargs: Any) -> list[Any]:
        """Return the initial states of both cells."""
        self._check_free()
        return states_of(self._children.values(), batch_size=batch_size, func=func, **kwargs)

    def _unroll(self, length: int, inputs: Any, begin_state: Any, layout: str, merge: Any, valid_length: Any) -> Any:
        inputs, axis, F, batch_size = format_sequence(length, inputs, layout, False)
        states = begin(self, F, begin_state, inputs, batch_size)
        forward, backward = self._children.values()
        count = len(infos_of([forward], batch_size))
        merge = bool(merge) or (merge is None and valid_length is not None)
        ahead, after = forward.unroll(length, inputs, states[:count], layout, merge, valid_length)  # type: ignore[attr-defined]
        steps = reverse_sequence(inputs, valid_length)
        back, own = backward.unroll(length, steps, states[count:], layout, False, valid_length)  # type: ignore[attr-defined]
        back = reverse_sequence(back, valid_length)
        if merge:
            back, _, _, _ = format_sequence(length, back, layout, True)
            result = F.concat(ahead, back, dim=2, name=f"{self._output_prefix}out")
        else:
            result = [
                F.concat(one, other, dim=1, name=f"{self._output_prefix}t{number}")
                for number, (one, other) in enumerate(zip(ahead, back, strict=True))
            ]
        if valid_length is not None:
            result = mask_sequence(F, result, length, valid_length, axis, merge)
        return result, [*after, *own]


complete_classes(globals())
