"""Recurrent layers: one operator computes a whole sequence."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ... import ndarray
from ...core.base.docstrings import complete_classes
from ...ndarray.array import NDArray
from ...symbol import Symbol
from ..block import HybridBlock
from ..parameter import Parameter, tensor_types
from ..parameter.parameter import symbols
from .base import first_state
from .rnn_cell import BidirectionalCell, DropoutCell, GRUCell, HybridSequentialRNNCell, LSTMCell, RNNCell

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ..block.naming import BlockArguments

__all__ = ["GRU", "LSTM", "RNN"]

_GATES = {"rnn_relu": 1, "rnn_tanh": 1, "lstm": 4, "gru": 3}
_NAME = re.compile(r"(l|r)(\d+)_(i2h|h2h|h2r)_(weight|bias)\Z")


class _RNNLayer(HybridBlock):
    """The base class of recurrent layers."""

    def __init__(
        self,
        mode: str,
        hidden_size: int,
        num_layers: int,
        layout: str,
        dropout: float,
        bidirectional: bool,
        input_size: int,
        initializers: dict[str, Any],
        dtype: Any,
        projection_size: int | None = None,
        clip: dict[str, Any] | None = None,
        use_sequence_length: bool = False,
        **kwargs: Unpack[BlockArguments],
    ) -> None:
        super().__init__(**kwargs)
        assert layout in ("TNC", "NTC"), f"Invalid layout {layout}; must be one of ['TNC' or 'NTC']"
        self._hidden_size = hidden_size
        self._projection_size = projection_size or None
        self._num_layers = num_layers
        self._mode = mode
        self._layout = layout
        self._dropout = dropout
        self._dir = 2 if bidirectional else 1
        self._input_size = input_size
        self._initializers = initializers
        self._clip = clip or {}
        self._dtype = dtype
        self._use_sequence_length = use_sequence_length
        self._gates = _GATES[mode]
        for name, shape in self._shapes(input_size):
            part = name.split("_", 1)[1]
            parameter = self.params.get(
                name, shape=shape, init=initializers[part], allow_deferred_init=True, dtype=dtype
            )
            setattr(self, name, parameter)

    def _shapes(self, input_size: int) -> list[tuple[str, tuple[int, ...]]]:
        """Return the name and shape of each parameter, layer by layer."""
        rows, width = self._gates * self._hidden_size, self._projection_size or self._hidden_size
        found: list[tuple[str, tuple[int, ...]]] = []
        for layer in range(self._num_layers):
            columns = input_size if layer == 0 else width * self._dir
            for start in [f"{side}{layer}_" for side in "lr"[: self._dir]]:
                found.append((start + "i2h_weight", (rows, columns)))
                found.append((start + "h2h_weight", (rows, width)))
                found.append((start + "i2h_bias", (rows,)))
                found.append((start + "h2h_bias", (rows,)))
                if self._projection_size:
                    found.append((start + "h2r_weight", (width, self._hidden_size)))
        return found

    def _infer_quickly(self, inputs: Any, *states: Any) -> bool:
        if len(inputs.shape) != 3:
            raise ValueError(
                f"{type(self).__name__} takes a sequence of 3 axes in the layout {self._layout} "
                f"(T time, N batch, C features), not {inputs.shape}"
            )
        for name, shape in self._shapes(inputs.shape[2]):
            self._reg_params[name].shape = shape
        return True

    def __repr__(self) -> str:
        rows, inputs = self._reg_params["l0_i2h_weight"].shape or (0, 0)
        parts = [f"{inputs or None} -> {rows // self._gates}", self._layout]
        if self._num_layers != 1:
            parts.append(f"num_layers={self._num_layers}")
        if self._dropout != 0:
            parts.append(f"dropout={self._dropout}")
        if self._dir == 2:
            parts.append("bidirectional")
        return f"{type(self).__name__}({', '.join(parts)})"

    def _collect_params_with_prefix(self, prefix: str = "") -> dict[str, Parameter]:
        """Return all parameters by their paths in cells, so that layers and cells read the same files."""
        start = prefix + "." if prefix else ""
        found = {}
        for key, parameter in self._reg_params.items():
            match = _NAME.match(key)
            assert match is not None, f"{key} is not the name of a recurrent layer's parameter"
            side, layer, part, kind = match.groups()
            cell = f"{side}_cell." if self._dir == 2 else ""
            found[f"{start}_unfused.{layer}.{cell}{part}_{kind}"] = parameter
        return found

    def cast(self, dtype: Any) -> None:
        """Convert all parameters to another dtype."""
        super().cast(dtype)
        self._dtype = dtype

    # -- states

    def state_info(self, batch_size: int = 0) -> list[dict[str, Any]]:
        """Return the shapes, layouts and dtypes of the states."""
        widths = [self._projection_size or self._hidden_size]
        if self._mode == "lstm":
            widths.append(self._hidden_size)
        count = self._num_layers * self._dir
        return [{"shape": (count, batch_size, width), "__layout__": "LNC", "dtype": self._dtype} for width in widths]

    def begin_state(self, batch_size: int = 0, func: Any = ndarray.zeros, **kwargs: Any) -> list[Any]:
        """Return the initial states, created by a function like ``nd.zeros``."""
        return [
            first_state(func, f"{self.prefix}h0_{number}", {**info, **kwargs})
            for number, info in enumerate(self.state_info(batch_size))
        ]

    def _unfuse(self) -> HybridSequentialRNNCell:
        """Return cells that share the parameters of the layer."""
        assert not self._projection_size, "_unfuse does not support projection layer yet!"
        assert not self._clip.get("lstm_state_clip_max"), "_unfuse does not support state clipping yet!"
        stack = HybridSequentialRNNCell(prefix=self.prefix, params=self.params)
        with stack.name_scope():
            columns = self._input_size
            for layer in range(self._num_layers):
                cells = [self._make_cell(f"{side}{layer}_", columns) for side in "lr"[: self._dir]]
                stack.add(BidirectionalCell(*cells) if self._dir == 2 else cells[0])
                if self._dropout > 0 and layer != self._num_layers - 1:
                    stack.add(DropoutCell(self._dropout))
                columns = self._hidden_size * self._dir
        return stack

    def _make_cell(self, prefix: str, input_size: int) -> Any:
        arguments = {
            f"{part}_initializer": init for part, init in self._initializers.items() if not part.startswith("h2r")
        }
        if self._mode.startswith("rnn_"):
            arguments["activation"] = self._mode[4:]
        kind: Any = {"lstm": LSTMCell, "gru": GRUCell}.get(self._mode, RNNCell)
        return kind(self._hidden_size, input_size=input_size, prefix=prefix, **arguments)

    # -- computing

    def __call__(self, inputs: Any, states: Any = None, sequence_length: Any = None) -> Any:
        """Return the outputs for a sequence, and the last states if initial states are given."""
        if isinstance(states, tensor_types):
            states = [states]
        lengths = (sequence_length,) if self._use_sequence_length else ()
        if states is None and isinstance(inputs, Symbol):
            # created outside the layer's scope, which would prefix their names a second time
            return super().__call__(inputs, self._zeros(symbols(), inputs), *lengths)[0]
        return super().__call__(inputs, states, *lengths)

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Return the outputs for a sequence, and the last states if initial states are given."""
        states, sequence_length = (*args, None, None)[:2]
        given = states
        if given is None:
            given = self._zeros(F, x)
        elif isinstance(x, NDArray):
            self._check_states(x, given)
        outputs, after = self._run_sequence(F, x, given, sequence_length, kwargs)
        return outputs if states is None else (outputs, after)

    def _zeros(self, F: Any, inputs: Any) -> list[Any]:
        if isinstance(inputs, NDArray):
            size = inputs.shape[self._layout.find("N")]
            return self.begin_state(size, ctx=inputs.context, dtype=inputs.dtype)
        return self.begin_state(0, func=F.zeros)

    def _check_states(self, inputs: NDArray, states: Any) -> None:
        size = inputs.shape[self._layout.find("N")]
        for state, info in zip(states, self.state_info(size)):
            if state.shape != info["shape"]:
                raise ValueError(f"Invalid recurrent state shape. Expecting {info['shape']}, got {state.shape}.")

    def _run_sequence(
        self, F: Any, inputs: Any, states: Any, sequence_length: Any, params: dict[str, Any]
    ) -> tuple[Any, list[Any]]:
        # the operator takes all weights, then all biases
        parts = ["i2h_weight", "h2h_weight", *(["h2r_weight"] if self._projection_size else [])]
        order = [
            f"{side}{layer}_{part}"
            for kind in (parts, ["i2h_bias", "h2h_bias"])
            for layer in range(self._num_layers)
            for side in "lr"[: self._dir]
            for part in kind
        ]
        flat = [F.reshape(params[name], shape=(-1,)) for name in order]
        if self._layout == "NTC":
            inputs = F.swapaxes(inputs, 0, 1)
        lengths = [sequence_length] if self._use_sequence_length else []
        results = F.RNN(
            inputs,
            F._internal._rnn_param_concat(*flat, dim=0),
            *states,
            *lengths,
            use_sequence_length=self._use_sequence_length,
            state_size=self._hidden_size,
            projection_size=self._projection_size,
            num_layers=self._num_layers,
            bidirectional=self._dir == 2,
            p=self._dropout,
            state_outputs=True,
            mode=self._mode,
            **self._clip,
        )
        outputs = F.swapaxes(results[0], 0, 1) if self._layout == "NTC" else results[0]
        return outputs, [results[number + 1] for number in range(len(states))]


def _initializers(i2h_weight: Any, h2h_weight: Any, i2h_bias: Any, h2h_bias: Any, h2r_weight: Any = None) -> Any:
    names = ("i2h_weight", "h2h_weight", "i2h_bias", "h2h_bias", "h2r_weight")
    return dict(zip(names, (i2h_weight, h2h_weight, i2h_bias, h2h_bias, h2r_weight), strict=True))


class RNN(_RNNLayer):
    """Apply layers of Elman's recurrent cells (1990) to a sequence.

    Parameters
    ----------
    hidden_size
        The number of outputs in each direction.
    num_layers
        The number of layers.
    activation
        'relu' or 'tanh'.
    layout
        The order of axes of the input: T time, N batch, C features.
    dropout
        The probability of setting an output to 0 while training, in all layers but the last.
    bidirectional
        Whether to process the sequence in reverse, too.
    i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer, h2h_bias_initializer
        The initializers of weights and biases of inputs and states.
    input_size
        The number of inputs; 0 to infer it in the first forward pass.
    dtype
        The dtype of parameters and states.
    """

    def __init__(
        self,
        hidden_size: int,
        num_layers: int = 1,
        activation: str = "relu",
        layout: str = "TNC",
        dropout: float = 0,
        bidirectional: bool = False,
        i2h_weight_initializer: Any = None,
        h2h_weight_initializer: Any = None,
        i2h_bias_initializer: Any = "zeros",
        h2h_bias_initializer: Any = "zeros",
        input_size: int = 0,
        dtype: Any = "float32",
        **kwargs: Unpack[BlockArguments],
    ) -> None:
        initializers = _initializers(
            i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer, h2h_bias_initializer
        )
        super().__init__(
            *("rnn_" + activation, hidden_size, num_layers, layout, dropout, bidirectional, input_size),
            *(initializers, dtype),
            **kwargs,
        )


class LSTM(_RNNLayer):
    """Apply layers of long short-term memory (Hochreiter and Schmidhuber 1997) to a sequence.

    Arguments are those of :class:`RNN`, and:

    Parameters
    ----------
    projection_size
        The number of outputs of a linear projection of each cell; None for no projection.
    h2r_weight_initializer
        The initializer of the weights of the projection.
    state_clip_min, state_clip_max, state_clip_nan
        The limits of the memory, and whether they replace NaN.
    """

    def __init__(
        self,
        hidden_size: int,
        num_layers: int = 1,
        layout: str = "TNC",
        dropout: float = 0,
        bidirectional: bool = False,
        input_size: int = 0,
        i2h_weight_initializer: Any = None,
        h2h_weight_initializer: Any = None,
        i2h_bias_initializer: Any = "zeros",
        h2h_bias_initializer: Any = "zeros",
        projection_size: int | None = None,
        h2r_weight_initializer: Any = None,
        state_clip_min: float | None = None,
        state_clip_max: float | None = None,
        state_clip_nan: bool = False,
        dtype: Any = "float32",
        **kwargs: Unpack[BlockArguments],
    ) -> None:
        initializers = _initializers(
            i2h_weight_initializer,
            h2h_weight_initializer,
            i2h_bias_initializer,
            h2h_bias_initializer,
            h2r_weight_initializer,
        )
        clip = {
            "lstm_state_clip_min": state_clip_min,
            "lstm_state_clip_max": state_clip_max,
            "lstm_state_clip_nan": state_clip_nan,
        }
        super().__init__(
            *("lstm", hidden_size, num_layers, layout, dropout, bidirectional, input_size, initializers, dtype),
            *(projection_size, clip),
            **kwargs,
        )


class GRU(_RNNLayer):
    """Apply layers of gated recurrent units (Cho et al. 2014). Arguments are those of :class:`RNN`."""

    def __init__(
        self,
        hidden_size: int,
        num_layers: int = 1,
        layout: str = "TNC",
        dropout: float = 0,
        bidirectional: bool = False,
        input_size: int = 0,
        i2h_weight_initializer: Any = None,
        h2h_weight_initializer: Any = None,
        i2h_bias_initializer: Any = "zeros",
        h2h_bias_initializer: Any = "zeros",
        dtype: Any = "float32",
        **kwargs: Unpack[BlockArguments],
    ) -> None:
        initializers = _initializers(
            i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer, h2h_bias_initializer
        )
        super().__init__(
            "gru", hidden_size, num_layers, layout, dropout, bidirectional, input_size, initializers, dtype, **kwargs
        )


complete_classes(globals())
