"""Cells that contain other cells: stacks, bidirectional cells, and modifiers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import symbol
from ..core.base.docstrings import complete_classes
from ..gluon import rnn as gluon_rnn
from ..gluon.rnn.sequences import format_sequence
from ..symbol import Symbol
from .cells import Arrays, BaseRNNCell, RNNParams

__all__ = ["BidirectionalCell", "DropoutCell", "ModifierCell", "ResidualCell", "SequentialRNNCell", "ZoneoutCell"]


class _Several(BaseRNNCell):
    """The base class of cells that contain several cells."""

    def __init__(self, cells: Sequence[BaseRNNCell], params: RNNParams | None) -> None:
        self._cells: list[BaseRNNCell] = []
        super().__init__(prefix="", params=params)
        self._override = params is not None
        for cell in cells:
            self._take(cell)

    def _take(self, cell: BaseRNNCell) -> None:
        """Append a cell; if the cells share variables, this cell shares them too."""
        if self._override:
            assert cell._own_params, (
                f"Either specify params for {type(self).__name__} or child cells, not both: a child has its own"
            )
            cell.params._params.update(self._params._params)
        self._params._params.update(cell.params._params)
        self._cells.append(cell)

    @property
    def state_info(self) -> list[dict[str, Any]]:
        """Shapes and layouts of the states of all cells."""
        return [info for cell in self._cells for info in cell.state_info]

    def begin_state(self, func: Any = symbol.zeros, **kwargs: Any) -> list[Any]:
        """Return the initial states of all cells."""
        self._check_free()
        return [state for cell in self._cells for state in cell.begin_state(func=func, **kwargs)]

    def unpack_weights(self, args: Arrays) -> Arrays:
        """Split the weights in a dictionary by gate, for each cell."""
        for cell in self._cells:
            args = cell.unpack_weights(args)
        return args

    def pack_weights(self, args: Arrays) -> Arrays:
        """Join the weights of all gates in a dictionary, for each cell."""
        for cell in self._cells:
            args = cell.pack_weights(args)
        return args

    def _divide_states(self, states: Sequence[Any]) -> list[list[Any]]:
        """Return the states of each cell."""
        counts = [len(cell.state_info) for cell in self._cells]
        ends = [sum(counts[: place + 1]) for place in range(len(counts))]
        return [list(states[end - count : end]) for end, count in zip(ends, counts, strict=True)]


class SequentialRNNCell(_Several):
    """A stack of cells: the outputs of each are the inputs of the next."""

    def __init__(self, params: RNNParams | None = None) -> None:
        super().__init__((), params)

    def add(self, cell: BaseRNNCell) -> None:
        """Append a cell."""
        self._take(cell)

    def __call__(self, inputs: Any, states: Any) -> tuple[Any, list[Any]]:
        """Return the output of one step, and the states of all cells after it."""
        self._counter += 1
        after: list[Any] = []
        for cell, own in zip(self._cells, self._divide_states(states), strict=True):
            assert not isinstance(cell, BidirectionalCell), "BidirectionalCell has no single steps: use unroll"
            inputs, own = cell(inputs, own)
            after.extend(own)
        return inputs, after

    def _unroll(self, length: int, inputs: Any, begin_state: Any, layout: str, merge: bool | None) -> Any:
        states = self.begin_state() if begin_state is None else begin_state
        after: list[Any] = []
        for place, (cell, own) in enumerate(zip(self._cells, self._divide_states(states), strict=True)):
            inputs, own = cell.unroll(length, inputs, own, layout, merge if place == len(self._cells) - 1 else None)
            after.extend(own)
        return inputs, after


class BidirectionalCell(_Several):
    """Run one cell forward and another backward over a sequence, and concatenate their outputs."""

    def __init__(
        self, l_cell: BaseRNNCell, r_cell: BaseRNNCell, params: RNNParams | None = None, output_prefix: str = "bi_"
    ) -> None:
        super().__init__((l_cell, r_cell), params)
        self._output_prefix = output_prefix

    def __call__(self, inputs: Any, states: Any) -> tuple[Any, list[Any]]:
        """Raise NotImplementedError: the backward cell starts at the end of the sequence."""
        raise NotImplementedError("Bidirectional cannot be stepped. Please use unroll")

    def _unroll(self, length: int, inputs: Any, begin_state: Any, layout: str, merge: bool | None) -> Any:
        steps, _, _, _ = format_sequence(length, inputs, layout, False)
        states = self._divide_states(self.begin_state() if begin_state is None else begin_state)
        (forward, after), (backward, other) = [
            cell.unroll(length, part, own, layout, False)
            for cell, part, own in zip(self._cells, (steps, steps[::-1]), states, strict=True)
        ]
        if merge:
            halves = [format_sequence(length, part, layout, True)[0] for part in (forward, backward[::-1])]
            return symbol.concat(*halves, dim=2, name=f"{self._output_prefix}out"), [*after, *other]
        joined = [
            symbol.concat(*pair, dim=1, name=f"{self._output_prefix}t{number}")
            for number, pair in enumerate(zip(forward, backward[::-1], strict=True))
        ]
        return joined, [*after, *other]


class DropoutCell(BaseRNNCell):
    """Set some inputs to 0 while training; the cell has no states."""

    def __init__(self, dropout: float, prefix: str = "dropout_", params: RNNParams | None = None) -> None:
        super().__init__(prefix, params)
        self.dropout = dropout

    @property
    def state_info(self) -> list[dict[str, Any]]:
        """An empty list."""
        return []

    def __call__(self, inputs: Any, states: Any) -> tuple[Any, list[Any]]:
        """Return the input with some elements set to 0, and the states."""
        return symbol.Dropout(inputs, p=self.dropout) if self.dropout > 0 else inputs, states

    def _unroll(self, length: int, inputs: Any, begin_state: Any, layout: str, merge: bool | None) -> Any:
        sequence, _, _, _ = format_sequence(length, inputs, layout, merge)
        if isinstance(sequence, Symbol):
            return self(sequence, begin_state or [])
        return super()._unroll(length, sequence, begin_state, layout, merge)


class ModifierCell(BaseRNNCell):
    """The base class of cells that modify another cell; call the other cell only through them."""

    def __init__(self, base_cell: BaseRNNCell) -> None:
        super().__init__()
        base_cell._modified = True
        self.base_cell = base_cell

    @property
    def params(self) -> RNNParams:
        """The variables of the other cell."""
        self._own_params = False
        return self.base_cell.params

    @property
    def state_info(self) -> list[dict[str, Any]]:
        """Shapes and layouts of the states of the other cell."""
        return self.base_cell.state_info

    def begin_state(self, init_sym: Any = symbol.zeros, **kwargs: Any) -> list[Any]:  # type: ignore[override]
        """Return the initial states."""
        self._check_free()
        self.base_cell._modified = False
        try:
            return self.base_cell.begin_state(func=kwargs.pop("func", init_sym), **kwargs)
        finally:
            self.base_cell._modified = True

    def unpack_weights(self, args: Arrays) -> Arrays:
        """Split the other cell's weights in a dictionary by gate."""
        return self.base_cell.unpack_weights(args)

    def pack_weights(self, args: Arrays) -> Arrays:
        """Join the other cell's weights of all gates in a dictionary."""
        return self.base_cell.pack_weights(args)

    def reset(self) -> None:
        """Reset the step and state counters."""
        super().reset()
        if hasattr(self, "base_cell"):
            self.base_cell.reset()


class ZoneoutCell(ModifierCell):
    """Keep each previous output and state with a probability, while training (Krueger et al. 2016)."""

    def __init__(self, base_cell: BaseRNNCell, zoneout_outputs: float = 0.0, zoneout_states: float = 0.0) -> None:
        assert not isinstance(base_cell, BidirectionalCell), (
            "BidirectionalCell has no single steps: wrap the cells inside it in ZoneoutCell"
        )
        super().__init__(base_cell)
        self.zoneout_outputs = zoneout_outputs
        self.zoneout_states = zoneout_states

    def reset(self) -> None:
        """Reset the cell and the previous output; call it before a new sequence."""
        super().reset()
        self._prev_output: Any = None

    def __call__(self, inputs: Any, states: Any) -> tuple[Any, list[Any]]:
        """Return the output of one step, and the states after it."""
        # the step of Gluon's cell reads only attributes that this class has too
        step: Any = gluon_rnn.ZoneoutCell.hybrid_forward
        output, after = step(self, symbol, inputs, states)
        return output, after


class ResidualCell(ModifierCell):
    """Add the input to the output of another cell (He et al. 2016)."""

    def __call__(self, inputs: Any, states: Any) -> tuple[Any, list[Any]]:
        """Return the output of one step, and the states after it."""
        output, after = self.base_cell(inputs, states)
        return self._add(output, inputs), after

    def _unroll(self, length: int, inputs: Any, begin_state: Any, layout: str, merge: bool | None) -> Any:
        # the other cell is unrolled as a whole, because one that runs in both directions has no single steps
        self.base_cell._modified = False
        try:
            outputs, states = self.base_cell.unroll(length, inputs, begin_state, layout, merge)
        finally:
            self.base_cell._modified = True
        sequence, _, _, _ = format_sequence(length, inputs, layout, isinstance(outputs, Symbol))
        if isinstance(outputs, Symbol):
            return self._add(outputs, sequence), states
        return [self._add(*pair) for pair in zip(outputs, sequence, strict=True)], states

    def _add(self, output: Any, inputs: Any) -> Any:
        return symbol.elemwise_add(output, inputs, name=f"{output.name}_plus_residual")


complete_classes(globals())
