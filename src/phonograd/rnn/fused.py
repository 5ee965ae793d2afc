"""FusedRNNCell: all layers and steps in one operator, with one vector of weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .. import ndarray, symbol
from ..core.base.docstrings import complete_classes
from ..gluon.rnn.sequences import format_sequence
from ..initializer import FusedRNN
from ..ndarray.array import NDArray
from .cells import Arrays, BaseRNNCell, GRUCell, LSTMCell, RNNCell, RNNParams
from .compound import BidirectionalCell, DropoutCell, SequentialRNNCell

__all__ = ["FusedRNNCell"]

_GATES: dict[str, tuple[str, ...]] = {
    "rnn_relu": ("",),
    "rnn_tanh": ("",),
    "lstm": ("_i", "_f", "_c", "_o"),
    "gru": ("_r", "_z", "_o"),
}


class FusedRNNCell(BaseRNNCell):
    """Run recurrent layers over a sequence in one operator, without single steps.

    Parameters
    ----------
    num_hidden, num_layers
        The number of outputs of each layer, and the number of layers.
    mode
        'rnn_relu', 'rnn_tanh', 'lstm' or 'gru'.
    bidirectional
        Whether each layer processes the sequence in reverse, too.
    dropout
        The dropout rate of the inputs of all layers but the first.
    get_next_state
        Whether :meth:`unroll` returns the states after a sequence.
    forget_bias
        The initial bias of the forget gates.
    prefix, params
        As for :class:`BaseRNNCell`; the default prefix is the mode.
    """

    def __init__(
        self,
        num_hidden: int,
        num_layers: int = 1,
        mode: str = "lstm",
        bidirectional: bool = False,
        dropout: float = 0.0,
        get_next_state: bool = False,
        forget_bias: float = 1.0,
        prefix: str | None = None,
        params: RNNParams | None = None,
    ) -> None:
        if mode not in _GATES:
            raise ValueError(f"mode must be one of {', '.join(_GATES)}, not {mode!r}")
        super().__init__(prefix=f"{mode}_" if prefix is None else prefix, params=params)
        self._num_hidden = num_hidden
        self._num_layers = num_layers
        self._mode = mode
        self._gate_names = _GATES[mode]
        self._bidirectional = bidirectional
        self._dropout = dropout
        self._get_next_state = get_next_state
        self._forget_bias = forget_bias
        self._directions = ["l", "r"] if bidirectional else ["l"]
        self._initializer = FusedRNN(None, num_hidden, num_layers, mode, bidirectional, forget_bias)
        self._parameter = self.params.get("parameters", init=self._initializer)

    @property
    def state_info(self) -> list[dict[str, Any]]:
        """Shapes and layouts of the states."""
        shape = (len(self._directions) * self._num_layers, 0, self._num_hidden)
        return [{"shape": shape, "__layout__": "LNC"} for _ in range(2 if self._mode == "lstm" else 1)]

    def __call__(self, inputs: Any, states: Any) -> tuple[Any, list[Any]]:
        """Raise NotImplementedError: there are no single steps."""
        raise NotImplementedError("FusedRNNCell cannot be stepped. Please use unroll")

    # -- weights of single gates

    def _gates(self, size: int) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Yield the name and shape of each gate's weights, in the order of the vector."""
        for name, (rows, *columns) in self._initializer._pieces(size):
            start, _, kind = name.rpartition("_")
            for gate in self._gate_names:
                yield f"{self._prefix}{start}{gate}_{kind}", (rows // len(self._gate_names), *columns)

    def unpack_weights(self, args: Arrays) -> Arrays:
        """Split the weight vector in a dictionary by layer and gate: ``lstm_l0_i2h_f_weight``."""
        args = dict(args)
        vector = args.pop(f"{self._prefix}parameters")
        begin = 0
        for name, shape in self._gates(vector.size):
            end = begin + int(np.prod(shape))
            args[name] = vector[begin:end].reshape(shape).copy()
            begin = end
        assert begin == vector.size, f"this cell takes {begin} parameters, but the vector has {vector.size}"
        return args

    def pack_weights(self, args: Arrays) -> Arrays:
        """Join all weights in a dictionary into one vector: the inverse of :meth:`unpack_weights`."""
        args = dict(args)
        first = args[f"{self._prefix}l0_i2h{self._gate_names[0]}_weight"]
        parts: list[NDArray] = [args.pop(name).reshape((-1,)) for name, _ in self._gates(self._size(first.shape[1]))]
        args[f"{self._prefix}parameters"] = ndarray.concatenate(parts)
        return args

    def _size(self, inputs: int) -> int:
        """Return the number of weights, given the number of inputs."""
        ways, hidden = len(self._directions), self._num_hidden
        rows = ways * hidden * len(self._gate_names)
        return rows * (inputs + hidden + 2) + (self._num_layers - 1) * rows * (hidden * ways + hidden + 2)

    # -- sequences

    def _unroll(self, length: int, inputs: Any, begin_state: Any, layout: str, merge: bool | None) -> Any:
        sequence, axis, _, _ = format_sequence(length, inputs, layout, True)
        if axis == 1:
            sequence = symbol.swapaxes(sequence, dim1=0, dim2=1)
        states = self.begin_state() if begin_state is None else begin_state
        names = ("state", "state_cell")[: len(states)]
        function: Any = symbol.RNN
        found = function(
            data=sequence,
            parameters=self._parameter,
            state_size=self._num_hidden,
            num_layers=self._num_layers,
            bidirectional=self._bidirectional,
            p=self._dropout,
            state_outputs=self._get_next_state,
            mode=self._mode,
            name=f"{self._prefix}rnn",
            **dict(zip(names, states, strict=True)),
        )
        outputs, after = (
            (found[0], [found[1 + place] for place in range(len(states))]) if self._get_next_state else (found, [])
        )
        if axis == 1:
            outputs = symbol.swapaxes(outputs, dim1=0, dim2=1)
        return format_sequence(length, outputs, layout, merge)[0], after

    def unfuse(self) -> SequentialRNNCell:
        """Return cells that compute the same in single steps, with variables for each layer.

        ``unfuse().pack_weights(fused.unpack_weights(arrays))`` converts the weights.
        """
        kinds: dict[str, Callable[[str], BaseRNNCell]] = {
            "rnn_relu": lambda prefix: RNNCell(self._num_hidden, activation="relu", prefix=prefix),
            "rnn_tanh": lambda prefix: RNNCell(self._num_hidden, activation="tanh", prefix=prefix),
            "lstm": lambda prefix: LSTMCell(self._num_hidden, prefix=prefix),
            "gru": lambda prefix: GRUCell(self._num_hidden, prefix=prefix),
        }
        make = kinds[self._mode]
        stack = SequentialRNNCell()
        for layer in range(self._num_layers):
            cells = [make(f"{self._prefix}{direction}{layer}_") for direction in self._directions]
            if self._bidirectional:
                stack.add(BidirectionalCell(cells[0], cells[1], output_prefix=f"{self._prefix}bi_l{layer}_"))
            else:
                stack.add(cells[0])
            if self._dropout > 0 and layer != self._num_layers - 1:
                stack.add(DropoutCell(self._dropout, prefix=f"{self._prefix}_dropout{layer}_"))
        return stack


complete_classes(globals())
