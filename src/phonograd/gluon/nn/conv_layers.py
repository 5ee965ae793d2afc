"""Convolutions, transposed convolutions and padding; pooling is in :mod:`.pooling_layers` and found here, too."""

from __future__ import annotations

from typing import Any

from ...base import numeric_types
from ..block import HybridBlock
from ..parameter import Parameter, ParameterDict
from ..parameter.parameter import symbols
from .activations import Activation
from .pooling_layers import (
    AvgPool1D,
    AvgPool2D,
    AvgPool3D,
    GlobalAvgPool1D,
    GlobalAvgPool2D,
    GlobalAvgPool3D,
    GlobalMaxPool1D,
    GlobalMaxPool2D,
    GlobalMaxPool3D,
    MaxPool1D,
    MaxPool2D,
    MaxPool3D,
)
from .pooling_layers import _Pooling as _Pooling  # some scripts derive classes of their own from it

__all__ = [
    "AvgPool1D",
    "AvgPool2D",
    "AvgPool3D",
    "Conv1D",
    "Conv1DTranspose",
    "Conv2D",
    "Conv2DTranspose",
    "Conv3D",
    "Conv3DTranspose",
    "GlobalAvgPool1D",
    "GlobalAvgPool2D",
    "GlobalAvgPool3D",
    "GlobalMaxPool1D",
    "GlobalMaxPool2D",
    "GlobalMaxPool3D",
    "MaxPool1D",
    "MaxPool2D",
    "MaxPool3D",
    "ReflectionPad2D",
]


def _checked_layout(layout: str | None, choices: tuple[str, ...]) -> str:
    """Return the layout that is meant: the first one if none is given. It must be one of the choices, if there are."""
    if layout is None:
        return choices[0]
    listed = " and ".join([repr(name) for name in choices])
    assert not choices or layout in choices, f"Only supports {listed} layout for now"
    return layout


def _extents(value: Any, count: int, name: str) -> tuple[int, ...]:
    """Return one number per axis of a window; a single number is meant for all of them."""
    extents: tuple[Any, ...] = (value,) * count if isinstance(value, numeric_types) else tuple(value)
    assert len(extents) == count, f"{name} must be a number or a list of {count} ints"
    return extents


def _infer_weight_shape(op_name: str, data_shape: Any, kwargs: dict[str, Any]) -> Any:
    """Return the shapes of data, weight and bias of an operator; layers of other libraries take it from here."""
    output = getattr(symbols(), op_name)(symbols().var("data", shape=tuple(data_shape)), **kwargs)
    return output.infer_shape_partial()[0]


class _Conv(HybridBlock):
    """What all convolutions have in common; the layout says how many axes a window has."""

    #: which ones there are, the usual one first; any if there are none here
    _layouts: tuple[str, ...] = ()

    def __init__(
        self,
        channels: int,
        kernel_size: Any,
        strides: Any,
        padding: Any,
        dilation: Any,
        groups: int,
        layout: str | None,
        in_channels: int = 0,
        activation: str | None = None,
        use_bias: bool = True,
        weight_initializer: Any = None,
        bias_initializer: Any = "zeros",
        op_name: str = "Convolution",
        adj: Any = None,
        prefix: str | None = None,
        params: ParameterDict | None = None,
    ) -> None:
        super().__init__(prefix=prefix, params=params)
        layout = _checked_layout(layout, self._layouts)
        count = len(layout) - 2
        with self.name_scope():
            self._channels = channels
            self._in_channels = in_channels
            self._op_name = op_name
            self._kwargs: dict[str, Any] = {
                "kernel": _extents(kernel_size, count, "kernel_size"),
                "stride": _extents(strides, count, "strides"),
                "dilate": _extents(dilation, count, "dilation"),
                "pad": _extents(padding, count, "padding"),
                "num_filter": channels,
                "num_group": groups,
                "no_bias": not use_bias,
                "layout": layout,
            }
            if adj is not None:
                self.outpad = self._kwargs["adj"] = _extents(adj, count, "output_padding")
            self.weight = self.params.get(
                "weight", shape=self._weight_shape(in_channels), init=weight_initializer, allow_deferred_init=True
            )
            self.bias: Parameter | None = None
            if use_bias:
                self.bias = self.params.get("bias", shape=(channels,), init=bias_initializer, allow_deferred_init=True)
            self.act = None if activation is None else Activation(activation, prefix=activation + "_")

    def _weight_shape(self, in_channels: int) -> tuple[int, ...]:
        """Return the shape of the weights for a number of input channels, 0 if that is not known."""
        outer, inner, window = self._channels, in_channels, self._kwargs["kernel"]
        if self._op_name == "Deconvolution":
            outer, inner = inner, outer
        inner //= self._kwargs["num_group"]
        return (outer, inner, *window) if self._kwargs["layout"][1] == "C" else (outer, *window, inner)

    def _infer_quickly(self, x: Any) -> bool:
        shape, layout = x.shape, self._kwargs["layout"]
        if len(shape) != len(layout) or shape[layout.find("C")] % self._kwargs["num_group"]:
            return False
        if self._op_name == "Convolution":
            sizes = [size for size, axis in zip(shape, layout) if axis not in "NC"]
            windows = zip(sizes, *[self._kwargs[name] for name in ("pad", "kernel", "dilate")])
            if any([size + 2 * pad <= dilate * (kernel - 1) for size, pad, kernel, dilate in windows]):
                return False
        self.weight.shape = self._weight_shape(shape[layout.find("C")])
        return True

    def hybrid_forward(self, F: Any, x: Any, weight: Any, bias: Any = None) -> Any:
        """Return the convolution of the input, after the activation."""
        given = (x, weight) if bias is None else (x, weight, bias)
        result = getattr(F, self._op_name)(*given, name="fwd", **self._kwargs)
        return result if self.act is None else self.act(result)

    def _alias(self) -> str:
        return "conv"

    def __repr__(self) -> str:
        kwargs, shape = self._kwargs, self.weight.shape or (0, 0)
        count = len(kwargs["kernel"])
        parts = [f"{shape[1] or None} -> {shape[0]}", f"kernel_size={kwargs['kernel']}", f"stride={kwargs['stride']}"]
        for label, key, usual in (
            ("padding", "pad", (0,) * count),
            ("dilation", "dilate", (1,) * count),
            ("groups", "num_group", 1),
        ):
            if kwargs[key] != usual:
                parts.append(f"{label}={kwargs[key]}")
        if self.bias is None:
            parts.append("bias=False")
        if self.act is not None:
            parts.append(repr(self.act))
        return f"{type(self).__name__}({', '.join(parts)})"


class _Convolution(_Conv):
    """A convolution.

    Parameters
    ----------
    channels
        The number of output channels.
    kernel_size, strides, padding, dilation
        The window, its steps, the zeros around the input, the distance of its elements: a number, or one per axis.
    groups
        In how many groups channels are divided; outputs of a group depend on its inputs only.
    layout
        The meaning of axes: N batch, C channels, D, H, W space.
    activation
        The name of an activation function; None for none.
    use_bias
        Whether there is a bias.
    weight_initializer, bias_initializer
        How weights and bias begin.
    in_channels
        The number of input channels; 0 to find it out in the first forward pass.
    """

    def __init__(
        self,
        channels: int,
        kernel_size: Any,
        strides: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        layout: str | None = None,
        activation: str | None = None,
        use_bias: bool = True,
        weight_initializer: Any = None,
        bias_initializer: Any = "zeros",
        in_channels: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            channels,
            kernel_size,
            strides,
            padding,
            dilation,
            groups,
            layout,
            in_channels,
            activation,
            use_bias,
            weight_initializer,
            bias_initializer,
            **kwargs,
        )


class Conv1D(_Convolution):
    """A convolution along one axis, of inputs (batch, channels, width)."""

    _layouts = ("NCW",)


class Conv2D(_Convolution):
    """A convolution along two axes, of inputs (batch, channels, height, width)."""

    _layouts = ("NCHW", "NHWC")


class Conv3D(_Convolution):
    """A convolution along three axes, of inputs (batch, channels, depth, height, width)."""

    _layouts = ("NCDHW", "NDHWC")


class _Transposed(_Conv):
    """The transpose of a convolution: what its gradient does to pictures.

    Arguments are those of convolutions, and `output_padding`: how much larger the output is at the end of each axis.
    """

    def __init__(
        self,
        channels: int,
        kernel_size: Any,
        strides: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        layout: str | None = None,
        activation: str | None = None,
        use_bias: bool = True,
        weight_initializer: Any = None,
        bias_initializer: Any = "zeros",
        in_channels: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            channels,
            kernel_size,
            strides,
            padding,
            dilation,
            groups,
            layout,
            in_channels,
            activation,
            use_bias,
            weight_initializer,
            bias_initializer,
            op_name="Deconvolution",
            adj=output_padding,
            **kwargs,
        )


class Conv1DTranspose(_Transposed):
    """The transpose of a convolution along one axis, of inputs (batch, channels, width)."""

    _layouts = ("NCW",)


class Conv2DTranspose(_Transposed):
    """The transpose of a convolution along two axes, of inputs (batch, channels, height, width)."""

    _layouts = ("NCHW", "NHWC")


class Conv3DTranspose(_Transposed):
    """The transpose of a convolution along three axes, of inputs (batch, channels, depth, height, width)."""

    _layouts = ("NCDHW", "NDHWC")


class ReflectionPad2D(HybridBlock):
    """Pictures with a border that mirrors what is inside.

    `padding` is the width of the border, or two numbers for each of the four axes.
    """

    def __init__(self, padding: Any = 0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if isinstance(padding, numeric_types):
            padding = (0, 0, 0, 0, padding, padding, padding, padding)
        assert len(padding) == 8, f"padding must be a number or a list of 8 ints, not {padding}"
        self._padding = tuple(padding)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """Return the input with its border."""
        return F.pad(x, mode="reflect", pad_width=self._padding)
