"""RecurrentCell: one step of a recurrent network, unrolled over sequences."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ... import ndarray
from ...core.base.docstrings import complete_classes
from ...core.ops.nn.activation import ACTIVATIONS
from ...ndarray.semantics import of_chosen_kind
from ..block import Block, HybridBlock
from ..nn import LeakyReLU
from ..parameter import ParameterDict, tensor_types
from .sequences import format_sequence, last_valid, mask_sequence

__all__ = ["HybridRecurrentCell", "RecurrentCell", "begin", "infos_of", "sigmoids", "states_of"]


def infos_of(cells: Iterable[Any], batch_size: int) -> list[dict[str, Any]]:
    """Return the shapes and layouts of the states of several cells."""
    return [info for cell in cells for info in cell.state_info(batch_size)]


def states_of(cells: Iterable[Any], **kwargs: Any) -> list[Any]:
    """Return the initial states of several cells."""
    return [state for cell in cells for state in cell.begin_state(**kwargs)]


def first_state(func: Callable[..., Any], name: str, info: dict[str, Any]) -> Any:
    """Create a state with a function like ``nd.zeros``; functions of arrays take no name and layout."""
    if (getattr(func, "__module__", None) or "").startswith(("phonograd.ndarray", "phonograd.numpy")):
        return of_chosen_kind(func(**{key: value for key, value in info.items() if key != "__layout__"}))
    return func(name=name, **info)


def begin(cell: Any, F: Any, begin_state: Any, inputs: Any, batch_size: int) -> Any:
    """Return the initial states: the given ones, or zeros."""
    if begin_state is not None:
        return begin_state
    if F is not ndarray:
        return cell.begin_state(func=F.zeros, batch_size=batch_size)
    first: Any = inputs if isinstance(inputs, tensor_types) else inputs[0]
    return cell.begin_state(func=F.zeros, batch_size=batch_size, ctx=first.context, dtype=first.dtype)


def sigmoids(F: Any, gates: Iterable[tuple[Any, str]], start: str) -> list[Any]:
    """Return the sigmoid of each gate, with its name in symbols."""
    return [F.Activation(gate, act_type="sigmoid", name=start + name) for gate, name in gates]


class RecurrentCell(Block):
    """The base class of cells: ``output, states = cell(input, states)``."""

    _prefix: str

    def __init__(self, prefix: str | None = None, params: ParameterDict | None = None) -> None:
        super().__init__(prefix=prefix, params=params)
        self._modified = False
        self.reset()

    def reset(self) -> None:
        """Reset the step and state counters; call it before a new sequence."""
        self._init_counter = -1
        self._counter = -1
        for cell in self._children.values():
            if isinstance(cell, RecurrentCell):
                cell.reset()

    def state_info(self, batch_size: int = 0) -> list[dict[str, Any]]:
        """Return the shapes and layouts of the states."""
        raise NotImplementedError(f"{type(self).__name__} has no state_info(self, batch_size)")

    def _check_free(self) -> None:
        assert not self._modified, (
            "After applying modifier cells (e.g. ZoneoutCell) the base cell cannot be called directly. Call the "
            "modifier cell instead."
        )

    def begin_state(self, batch_size: int = 0, func: Any = ndarray.zeros, **kwargs: Any) -> list[Any]:
        """Return the initial states, created by a function like ``nd.zeros``."""
        self._check_free()
        states = []
        for info in self.state_info(batch_size):
            self._init_counter += 1
            name = f"{self._prefix}begin_state_{self._init_counter}"
            states.append(first_state(func, name, {**info, **kwargs}))
        return states

    def unroll(
        self,
        length: int,
        inputs: Any,
        begin_state: Any = None,
        layout: str = "NTC",
        merge_outputs: bool | None = None,
        valid_length: Any = None,
    ) -> tuple[Any, Any]:
        """Return the outputs for all steps of a sequence, and the states after it.

        Parameters
        ----------
        length
            The number of steps.
        inputs
            The sequence: one array, or a list of steps.
        begin_state
            The initial states; zeros if None.
        layout
            The order of axes: T time, N batch, C features.
        merge_outputs
            Whether to return outputs as one array; None returns a list, unless `valid_length` is given.
        valid_length
            The number of valid steps of each sample; all steps if None.
        """
        self.reset()
        outputs, states = self._unroll(length, inputs, begin_state, layout, merge_outputs, valid_length)
        return outputs, states

    def _unroll(self, length: int, inputs: Any, begin_state: Any, layout: str, merge: Any, valid_length: Any) -> Any:
        """Implement :meth:`unroll`, which resets the cell first; a subclass may override this."""
        inputs, axis, F, batch_size = format_sequence(length, inputs, layout, False)
        states = begin(self, F, begin_state, inputs, batch_size)
        outputs: Any = []
        history = []
        for step in range(length):
            output, states = self(inputs[step], states)
            outputs.append(output)
            history.append(states)
        if valid_length is not None:
            states = last_valid(F, history, valid_length)
            outputs = mask_sequence(F, outputs, length, valid_length, axis, True)
        outputs, _, _, _ = format_sequence(length, outputs, layout, merge)
        return outputs, states

    def _get_activation(self, F: Any, inputs: Any, activation: Any, **kwargs: Any) -> Any:
        """Apply an activation, given by name or as a block or function, to an input."""
        if isinstance(activation, str):
            declared = ACTIVATIONS.get(activation)
            if declared is not None and declared.name == activation:
                return getattr(F, activation)(inputs, **kwargs)
            return F.Activation(inputs, act_type=activation, **kwargs)
        if isinstance(activation, LeakyReLU):
            return F.LeakyReLU(inputs, act_type="leaky", slope=activation._alpha, **kwargs)
        return activation(inputs)

    def forward(self, inputs: Any, states: Any) -> Any:
        """Return the output of one step and the states after it."""
        self._counter += 1
        return super().forward(inputs, states)


class HybridRecurrentCell(RecurrentCell, HybridBlock):
    """The base class of hybrid cells. A subclass overrides ``hybrid_forward(F, inputs, states, ...)``."""

    def __init__(self, prefix: str | None = None, params: ParameterDict | None = None) -> None:
        super().__init__(prefix=prefix, params=params)

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Return the output of one step and the states after it; a subclass overrides this."""
        raise NotImplementedError(f"{type(self).__name__} has no hybrid_forward(self, F, inputs, states, ...)")


complete_classes(globals())
