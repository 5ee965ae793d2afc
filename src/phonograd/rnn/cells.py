"""Symbolic recurrent cells: the base class, and cells with one, three or four gates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import ndarray, symbol
from ..core.base.docstrings import complete_classes
from ..gluon import rnn as gluon_rnn
from ..gluon.rnn.sequences import format_sequence
from ..initializer import LSTMBias
from ..name import Prefix
from ..ndarray.array import NDArray

__all__ = ["Arrays", "BaseRNNCell", "GRUCell", "LSTMCell", "RNNCell", "RNNParams"]

Arrays = dict[str, NDArray]


class RNNParams:
    """The variables of cells by name; cells with the same container share their weights."""

    def __init__(self, prefix: str = "") -> None:
        self._prefix = prefix
        self._params: dict[str, Any] = {}

    def get(self, name: str, **kwargs: Any) -> Any:
        """Return the variable with a prefixed name; the first call creates it."""
        whole = self._prefix + name
        if whole not in self._params:
            self._params[whole] = symbol.Variable(whole, **kwargs)
        return self._params[whole]


class BaseRNNCell:
    """The base class of cells: ``output, states = cell(inputs, states)``, unrolled over sequences.

    A subclass defines ``__call__`` and the property ``state_info``.

    Parameters
    ----------
    prefix
        The prefix of names of variables and operators.
    params
        The variables of another cell, to share them.
    """

    #: the number of elements of each state
    _num_hidden = 0
    #: the name of each gate in the names of unpacked weights; empty for cells that do not unpack
    _gate_names: Sequence[str] = ()

    def __init__(self, prefix: str = "", params: RNNParams | None = None) -> None:
        self._own_params = params is None
        self._params = RNNParams(prefix) if params is None else params
        self._prefix = prefix
        self._modified = False
        self.reset()

    def reset(self) -> None:
        """Reset the step and state counters; call it before a new sequence."""
        self._init_counter = -1
        self._counter = -1
        for cell in getattr(self, "_cells", ()):
            cell.reset()

    def __call__(self, inputs: Any, states: Any) -> tuple[Any, list[Any]]:
        """Return the output of one step, and the states after it; a subclass overrides this."""
        raise NotImplementedError(f"{type(self).__name__} has no __call__(self, inputs, states)")

    @property
    def params(self) -> RNNParams:
        """The variables of the cell."""
        self._own_params = False
        return self._params

    @property
    def state_info(self) -> list[dict[str, Any]]:
        """Shapes and layouts of the states."""
        raise NotImplementedError(f"{type(self).__name__} has no property state_info")

    @property
    def state_shape(self) -> list[Any]:
        """Shapes of the states."""
        return [info["shape"] for info in self.state_info]

    def _check_free(self) -> None:
        assert not self._modified, (
            "After applying modifier cells (e.g. DropoutCell) the base cell cannot be called directly. Call the "
            "modifier cell instead."
        )

    def begin_state(self, func: Any = symbol.zeros, **kwargs: Any) -> list[Any]:
        """Return the initial states, created by a function like ``sym.zeros`` or ``sym.Variable``."""
        self._check_free()
        states = []
        for info in self.state_info:
            self._init_counter += 1
            states.append(func(name=f"{self._prefix}begin_state_{self._init_counter}", **{**(info or {}), **kwargs}))
        return states

    # -- weights of single gates

    def unpack_weights(self, args: Arrays) -> Arrays:
        """Split the weights in a dictionary by gate: ``lstm_i2h_f_weight``."""
        args = dict(args)
        if not self._gate_names:
            return args
        rows = self._num_hidden
        for part in ("i2h", "h2h"):
            for kind in ("weight", "bias"):
                whole = args.pop(f"{self._prefix}{part}_{kind}")
                for place, gate in enumerate(self._gate_names):
                    args[f"{self._prefix}{part}{gate}_{kind}"] = whole[place * rows : (place + 1) * rows].copy()
        return args

    def pack_weights(self, args: Arrays) -> Arrays:
        """Join the weights of all gates in a dictionary: the inverse of :meth:`unpack_weights`."""
        args = dict(args)
        if not self._gate_names:
            return args
        for part in ("i2h", "h2h"):
            for kind in ("weight", "bias"):
                gates = [args.pop(f"{self._prefix}{part}{gate}_{kind}") for gate in self._gate_names]
                args[f"{self._prefix}{part}_{kind}"] = ndarray.concatenate(gates)
        return args

    # -- sequences

    def unroll(
        self, length: int, inputs: Any, begin_state: Any = None, layout: str = "NTC", merge_outputs: bool | None = None
    ) -> tuple[Any, list[Any]]:
        """Return the outputs for all steps of a sequence, and the states after it.

        Parameters
        ----------
        length
            The number of steps.
        inputs
            The sequence: one symbol, or a list of steps.
        begin_state
            The initial states; zeros if None.
        layout
            The order of axes: T time, N batch, C features.
        merge_outputs
            Whether to return outputs as one symbol; None returns a list.
        """
        self.reset()
        outputs, states = self._unroll(length, inputs, begin_state, layout, merge_outputs)
        return outputs, states

    def _unroll(self, length: int, inputs: Any, begin_state: Any, layout: str, merge: bool | None) -> Any:
        """Implement :meth:`unroll`, which resets the cell first; a subclass may override this."""
        steps, _, _, _ = format_sequence(length, inputs, layout, False)
        states = self.begin_state() if begin_state is None else begin_state
        outputs: Any = []
        for step in steps:
            output, states = self(step, states)
            outputs.append(output)
        return format_sequence(length, outputs, layout, merge)[0], states


class _GatedCell(BaseRNNCell):
    """The base class of cells that run the step of a Gluon cell."""

    def __init__(
        self, step: Any, num_hidden: int, prefix: str, params: RNNParams | None, bias: dict[str, Any] | None = None
    ) -> None:
        super().__init__(prefix=prefix, params=params)
        self._num_hidden = num_hidden
        self._step = step
        names = ("i2h_weight", "i2h_bias", "h2h_weight", "h2h_bias")
        found = self.params
        self._variables = {
            name: found.get(name, **(bias or {})) if name == "i2h_bias" else found.get(name) for name in names
        }

    @property
    def state_info(self) -> list[dict[str, Any]]:
        """Shapes and layouts of the states."""
        found: list[dict[str, Any]] = self._step.state_info(0)
        return found

    def __call__(self, inputs: Any, states: Any) -> tuple[Any, list[Any]]:
        """Return the output of one step, and the states after it."""
        self._counter += 1
        self._step._counter = self._counter
        with Prefix(self._prefix):
            output, after = self._step.hybrid_forward(symbol, inputs, states, **self._variables)
        return output, after


class RNNCell(_GatedCell):
    """Elman's cell (1990): the activation of a linear function of input and last output."""

    _gate_names = ("",)

    def __init__(
        self, num_hidden: int, activation: str = "tanh", prefix: str = "rnn_", params: RNNParams | None = None
    ) -> None:
        step = gluon_rnn.RNNCell(num_hidden, activation=activation, prefix=prefix)
        super().__init__(step, num_hidden, prefix, params)


class LSTMCell(_GatedCell):
    """Long short-term memory (Hochreiter and Schmidhuber 1997); `forget_bias` initializes the forget gate."""

    _gate_names = ("_i", "_f", "_c", "_o")

    def __init__(
        self, num_hidden: int, prefix: str = "lstm_", params: RNNParams | None = None, forget_bias: float = 1.0
    ) -> None:
        step = gluon_rnn.LSTMCell(num_hidden, prefix=prefix)
        super().__init__(step, num_hidden, prefix, params, {"init": LSTMBias(forget_bias=forget_bias)})


class GRUCell(_GatedCell):
    """The gated recurrent unit (Cho et al. 2014)."""

    _gate_names = ("_r", "_z", "_o")

    def __init__(self, num_hidden: int, prefix: str = "gru_", params: RNNParams | None = None) -> None:
        super().__init__(gluon_rnn.GRUCell(num_hidden, prefix=prefix), num_hidden, prefix, params)


complete_classes(globals())
