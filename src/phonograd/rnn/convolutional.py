"""Symbolic recurrent cells with convolutions instead of matrix products, for sequences of images."""

from __future__ import annotations

import functools
from typing import Any, ClassVar

from .. import symbol
from ..core.base.docstrings import complete_classes
from ..gluon.contrib import rnn as gluon_rnn
from ..gluon.nn import LeakyReLU
from ..name import Prefix
from .cells import BaseRNNCell, RNNParams

__all__ = ["BaseConvRNNCell", "ConvGRUCell", "ConvLSTMCell", "ConvRNNCell"]

_Extents = tuple[int, ...]


class BaseConvRNNCell(BaseRNNCell):
    """The base class of cells with convolutions.

    Parameters
    ----------
    input_shape
        The shape of one input, with the batch axis.
    num_hidden
        The number of channels of each state.
    h2h_kernel, h2h_dilate
        The kernel size (odd) and dilation for the state.
    i2h_kernel, i2h_stride, i2h_pad, i2h_dilate
        The kernel size, stride, padding and dilation for the input.
    i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer, h2h_bias_initializer
        The initializers of weights and biases.
    activation
        The name of an activation, a block, or a function of symbols; a leaky ReLU of slope 0.2 by default.
    prefix, params
        The prefix of names, and the variables of another cell, to share them.
    conv_layout
        The order of axes.
    """

    _step_of: ClassVar[type[Any]]

    def __init__(
        self,
        input_shape: _Extents,
        num_hidden: int,
        h2h_kernel: _Extents,
        h2h_dilate: _Extents,
        i2h_kernel: _Extents,
        i2h_stride: _Extents,
        i2h_pad: _Extents,
        i2h_dilate: _Extents,
        i2h_weight_initializer: Any,
        h2h_weight_initializer: Any,
        i2h_bias_initializer: Any,
        h2h_bias_initializer: Any,
        activation: Any,
        prefix: str = "",
        params: RNNParams | None = None,
        conv_layout: str = "NCHW",
    ) -> None:
        super().__init__(prefix=prefix, params=params)
        self._num_hidden = num_hidden
        self._step = self._step_of(
            *(tuple(input_shape[1:]), num_hidden, i2h_kernel, h2h_kernel, i2h_pad, i2h_dilate, h2h_dilate),
            conv_layout=conv_layout,
            activation=activation,
            prefix=prefix,
        )
        pad = tuple([distance * (extent - 1) // 2 for extent, distance in zip(h2h_kernel, h2h_dilate, strict=True)])
        rows = num_hidden * self._num_gates
        convolution = functools.partial(symbol.Convolution, num_filter=rows, layout=conv_layout)
        window = {"kernel": i2h_kernel, "stride": i2h_stride, "pad": i2h_pad, "dilate": i2h_dilate}
        self._input = functools.partial(convolution, **window)
        self._state = functools.partial(
            convolution, kernel=h2h_kernel, stride=(1,) * len(pad), pad=pad, dilate=h2h_dilate
        )
        _, (shape,), _ = self._input(symbol.Variable("data")).infer_shape(data=tuple(input_shape))
        place = conv_layout.index("C")
        self._state_shape = (0, *shape[1:place], num_hidden, *shape[place + 1 :])
        self._conv_layout = conv_layout
        self._iW, self._hW, self._iB, self._hB = [
            self.params.get(name, init=init)
            for name, init in (
                ("i2h_weight", i2h_weight_initializer),
                ("h2h_weight", h2h_weight_initializer),
                ("i2h_bias", i2h_bias_initializer),
                ("h2h_bias", h2h_bias_initializer),
            )
        ]

    @property
    def _num_gates(self) -> int:
        return len(self._gate_names)

    @property
    def state_info(self) -> list[dict[str, Any]]:
        """Shapes and layouts of the states."""
        count = len(self._step.state_info())
        return [{"shape": self._state_shape, "__layout__": self._conv_layout} for _ in range(count)]

    def __call__(self, inputs: Any, states: Any) -> tuple[Any, list[Any]]:
        """Return the output of one step, and the states after it."""
        self._counter += 1
        start = f"t{self._counter}_"
        with Prefix(self._prefix):
            i2h = self._input(data=inputs, weight=self._iW, bias=self._iB, name=start + "i2h")
            h2h = self._state(data=states[0], weight=self._hW, bias=self._hB, name=start + "h2h")
            output, after = self._step._step(symbol, i2h, h2h, states, start)
        return output, after


class _WithDefaults(BaseConvRNNCell):
    """A cell with MXNet's defaults for all arguments."""

    _prefix_by_default: ClassVar[str]

    def __init__(
        self,
        input_shape: _Extents,
        num_hidden: int,
        h2h_kernel: _Extents = (3, 3),
        h2h_dilate: _Extents = (1, 1),
        i2h_kernel: _Extents = (3, 3),
        i2h_stride: _Extents = (1, 1),
        i2h_pad: _Extents = (1, 1),
        i2h_dilate: _Extents = (1, 1),
        i2h_weight_initializer: Any = None,
        h2h_weight_initializer: Any = None,
        i2h_bias_initializer: Any = "zeros",
        h2h_bias_initializer: Any = "zeros",
        activation: Any = None,
        prefix: str | None = None,
        params: RNNParams | None = None,
        conv_layout: str = "NCHW",
    ) -> None:
        super().__init__(
            *(input_shape, num_hidden, h2h_kernel, h2h_dilate, i2h_kernel, i2h_stride, i2h_pad, i2h_dilate),
            *(i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer, h2h_bias_initializer),
            # with a prefix, because MXNet counts blocks without one and derives later names from the count
            LeakyReLU(0.2, prefix="leaky_") if activation is None else activation,
            *(self._prefix_by_default if prefix is None else prefix, params, conv_layout),
        )


class ConvRNNCell(_WithDefaults):
    """Elman's cell with convolutions."""

    _step_of = gluon_rnn.Conv2DRNNCell
    _prefix_by_default = "ConvRNN_"
    _gate_names = ("",)


class ConvLSTMCell(_WithDefaults):
    """Long short-term memory with convolutions (Shi et al. 2015)."""

    _step_of = gluon_rnn.Conv2DLSTMCell
    _prefix_by_default = "ConvLSTM_"
    _gate_names = ("_i", "_f", "_c", "_o")


class ConvGRUCell(_WithDefaults):
    """The gated recurrent unit with convolutions."""

    _step_of = gluon_rnn.Conv2DGRUCell
    _prefix_by_default = "ConvGRU_"
    _gate_names = ("_r", "_z", "_o")


complete_classes(globals())
