"""Recurrent cells with convolutions instead of matrix products, for sequences of images."""

from __future__ import annotations

from typing import Any

from ....base import numeric_types
from ....core.base.docstrings import complete_classes
from ...parameter import Parameter, ParameterDict
from ...rnn.base import HybridRecurrentCell, sigmoids

__all__ = [
    "Conv1DGRUCell",
    "Conv1DLSTMCell",
    "Conv1DRNNCell",
    "Conv2DGRUCell",
    "Conv2DLSTMCell",
    "Conv2DRNNCell",
    "Conv3DGRUCell",
    "Conv3DLSTMCell",
    "Conv3DRNNCell",
]


class _ConvCell(HybridRecurrentCell):
    """The base class of convolutional cells.

    Parameters
    ----------
    input_shape
        The shape of one input without the batch axis, in the order of the layout.
    hidden_channels
        The number of output channels.
    i2h_kernel, h2h_kernel
        The kernel sizes for input and state: a number, or one per axis; those for the state must be odd.
    i2h_pad
        The padding of the input.
    i2h_dilate, h2h_dilate
        The dilations.
    i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer, h2h_bias_initializer
        The initializers of weights and biases.
    conv_layout
        The order of axes.
    activation
        The name of an activation function, or a block.
    """

    _gates: int
    _states = 1
    _layout: str
    _hint: str
    i2h_weight: Parameter

    def __init__(
        self,
        input_shape: tuple[int, ...],
        hidden_channels: int,
        i2h_kernel: Any,
        h2h_kernel: Any,
        i2h_pad: Any = 0,
        i2h_dilate: Any = 1,
        h2h_dilate: Any = 1,
        i2h_weight_initializer: Any = None,
        h2h_weight_initializer: Any = None,
        i2h_bias_initializer: Any = "zeros",
        h2h_bias_initializer: Any = "zeros",
        conv_layout: str | None = None,
        activation: Any = "tanh",
        prefix: str | None = None,
        params: ParameterDict | None = None,
    ) -> None:
        super().__init__(prefix=prefix, params=params)
        self._hidden_channels = hidden_channels
        self._conv_layout = conv_layout or self._layout
        self._activation = activation
        self._channel_axis = self._conv_layout.find("C")
        self._input = self._window(i2h_kernel, i2h_pad, i2h_dilate)
        kernel, _, dilate = self._window(h2h_kernel, 0, h2h_dilate).values()
        assert all([extent % 2 == 1 for extent in kernel]), f"Only support odd number, get h2h_kernel= {h2h_kernel}"
        pad = tuple([distance * (extent - 1) // 2 for extent, distance in zip(kernel, dilate)])
        self._state = {"kernel": kernel, "pad": pad, "dilate": dilate}
        channels, extents = input_shape[self._channel_axis - 1], list(input_shape)
        del extents[self._channel_axis - 1]
        sizes = [
            extent + 2 * border - distance * (window - 1) if extent else 0
            for extent, window, border, distance in zip(extents, *self._input.values())
        ]
        self._state_shape = self._arrange(hidden_channels, tuple(sizes))
        rows = hidden_channels * self._gates
        for name, shape, init in (
            ("i2h_weight", (rows, *self._arrange(channels, self._input["kernel"])), i2h_weight_initializer),
            ("h2h_weight", (rows, *self._arrange(hidden_channels, kernel)), h2h_weight_initializer),
            ("i2h_bias", (rows,), i2h_bias_initializer),
            ("h2h_bias", (rows,), h2h_bias_initializer),
        ):
            setattr(self, name, self.params.get(name, shape=shape, init=init, allow_deferred_init=True))

    def _window(self, kernel: Any, pad: Any, dilate: Any) -> dict[str, tuple[int, ...]]:
        axes = len(self._conv_layout) - 2
        found: dict[str, tuple[int, ...]] = {}
        for name, value in (("kernel", kernel), ("pad", pad), ("dilate", dilate)):
            extents: tuple[Any, ...] = (value,) * axes if isinstance(value, numeric_types) else tuple(value)
            assert len(extents) == axes, (
                f"For {axes}D convolution, the convolution settings can only be either int or list/tuple of length "
                f"{axes}"
            )
            found[name] = extents
        return found

    def _arrange(self, channels: int, extents: tuple[int, ...]) -> tuple[int, ...]:
        """Return channels and extents in the order of the layout."""
        return (channels, *extents) if self._channel_axis == 1 else (*extents, channels)

    def _infer_quickly(self, inputs: Any, *states: Any) -> bool:
        rows = self._hidden_channels * self._gates
        channels = inputs.shape[self._channel_axis]
        self.i2h_weight.shape = (rows, *self._arrange(channels, self._input["kernel"]))
        return True

    def state_info(self, batch_size: int = 0) -> list[dict[str, Any]]:
        """Return the shapes and layouts of the states."""
        return [
            {"shape": (batch_size, *self._state_shape), "__layout__": self._conv_layout} for _ in range(self._states)
        ]

    def _alias(self) -> str:
        return self._hint

    def __repr__(self) -> str:
        shape = self.i2h_weight.shape or (0, 0)
        channels = shape[1 if self._channel_axis == 1 else -1]
        return f"{type(self).__name__}({channels or None} -> {shape[0]}, {self._activation}, {self._conv_layout})"

    def hybrid_forward(
        self, F: Any, inputs: Any, states: Any, i2h_weight: Any, h2h_weight: Any, i2h_bias: Any, h2h_bias: Any
    ) -> Any:
        """Return the output of one step and the states after it."""
        start, rows = f"t{self._counter}_", self._hidden_channels * self._gates
        ones = (1,) * (len(self._conv_layout) - 2)
        i2h, h2h = [
            F.Convolution(
                data=data,
                weight=weight,
                bias=bias,
                num_filter=rows,
                stride=ones,
                layout=self._conv_layout,
                name=start + name,
                **window,
            )
            for data, weight, bias, name, window in (
                (inputs, i2h_weight, i2h_bias, "i2h", self._input),
                (states[0], h2h_weight, h2h_bias, "h2h", self._state),
            )
        ]
        return self._step(F, i2h, h2h, states, start)

    def _activate(self, F: Any, value: Any, **kwargs: Any) -> Any:
        return self._get_activation(F, value, self._activation, **kwargs)

    def _step(self, F: Any, i2h: Any, h2h: Any, states: Any, start: str) -> Any:
        """Return the output and the new states, from the convolutions of input and state."""
        raise NotImplementedError


class _ConvRNNCell(_ConvCell):
    """Elman's recurrent cell with convolutions."""

    _gates = 1
    _hint = "conv_rnn"

    def _step(self, F: Any, i2h: Any, h2h: Any, states: Any, start: str) -> Any:
        output = self._activate(F, i2h + h2h, name=start + "out")
        return output, [output]


class _ConvLSTMCell(_ConvCell):
    """Long short-term memory with convolutions (Shi et al. 2015)."""

    _gates = 4
    _states = 2
    _hint = "conv_lstm"

    def _step(self, F: Any, i2h: Any, h2h: Any, states: Any, start: str) -> Any:
        parts = F.SliceChannel(i2h + h2h, num_outputs=4, axis=self._channel_axis, name=start + "slice")
        taken, kept, shown = sigmoids(F, zip((parts[0], parts[1], parts[3]), "ifo"), start)
        new = self._activate(F, parts[2], name=start + "c")
        memory = F.elemwise_add(kept * states[1], taken * new, name=start + "state")
        output = F.elemwise_mul(shown, self._activate(F, memory), name=start + "out")
        return output, [output, memory]


class _ConvGRUCell(_ConvCell):
    """A gated recurrent unit with convolutions."""

    _gates = 3
    _hint = "conv_gru"

    def _step(self, F: Any, i2h: Any, h2h: Any, states: Any, start: str) -> Any:
        (i2h_r, i2h_z, i2h_n), (h2h_r, h2h_z, h2h_n) = [
            F.SliceChannel(data, num_outputs=3, axis=self._channel_axis, name=f"{start}{name}_slice")
            for data, name in ((i2h, "i2h"), (h2h, "h2h"))
        ]
        gates = (i2h_r + h2h_r, "r_act"), (i2h_z + h2h_z, "z_act")
        reset, kept = sigmoids(F, gates, start)
        new = self._activate(F, i2h_n + reset * h2h_n, name=start + "h_act")
        output = F.elemwise_add((1.0 - kept) * new, kept * states[0], name=start + "out")
        return output, [output]


class Conv1DRNNCell(_ConvRNNCell):
    """Elman's recurrent cell with convolutions along one axis."""

    _layout = "NCW"


class Conv2DRNNCell(_ConvRNNCell):
    """Elman's recurrent cell with convolutions along two axes."""

    _layout = "NCHW"


class Conv3DRNNCell(_ConvRNNCell):
    """Elman's recurrent cell with convolutions along three axes."""

    _layout = "NCDHW"


class Conv1DLSTMCell(_ConvLSTMCell):
    """Long short-term memory with convolutions along one axis."""

    _layout = "NCW"


class Conv2DLSTMCell(_ConvLSTMCell):
    """Long short-term memory with convolutions along two axes."""

    _layout = "NCHW"


class Conv3DLSTMCell(_ConvLSTMCell):
    """Long short-term memory with convolutions along three axes."""

    _layout = "NCDHW"


class Conv1DGRUCell(_ConvGRUCell):
    """A gated recurrent unit with convolutions along one axis."""

    _layout = "NCW"


class Conv2DGRUCell(_ConvGRUCell):
    """A gated recurrent unit with convolutions along two axes."""

    _layout = "NCHW"


class Conv3DGRUCell(_ConvGRUCell):
    """A gated recurrent unit with convolutions along three axes."""

    _layout = "NCDHW"


complete_classes(globals())
