"""Provide convolutions, transposed convolutions and padding.

Re-exports the layers of :mod:`.pooling_layers`, as MXNet's module of this name does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...base import numeric_types
from ...core.base.docstrings import complete_classes
from ...core.base.foreign_names import advise_arguments
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
from .pooling_layers import _Pooling as _Pooling  # some user scripts subclass it

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ..block.naming import BlockArguments

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


def _check_layout(layout: str | None, choices: tuple[str, ...]) -> str:
    """Return `layout`, or the first choice for None. Raise if `choices` are not empty and lack it."""
    if layout is None:
        return choices[0]
    listed = " and ".join([repr(name) for name in choices])
    assert not choices or layout in choices, f"Only supports {listed} layout for now"
    return layout


def _extents(value: Any, count: int, name: str) -> tuple[int, ...]:
    """Return one number per axis of a window; a single number applies to all axes."""
    extents: tuple[Any, ...] = (value,) * count if isinstance(value, numeric_types) else tuple(value)
    assert len(extents) == count, f"{name} must be a number or a list of {count} ints"
    return extents


def _infer_weight_shape(op_name: str, data_shape: Any, kwargs: dict[str, Any]) -> Any:
    """Return the shapes of data, weight and bias of an operator. Other libraries import this function."""
    output = getattr(symbols(), op_name)(symbols().var("data", shape=tuple(data_shape)), **kwargs)
    return output.infer_shape_partial()[0]


class _Conv(HybridBlock):
    """Implement all convolutions; the layout determines the number of axes of a window."""

    #: the supported layouts, the default first; empty if all are supported
    _layouts: tuple[str, ...] = ()

    @advise_arguments
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
        layout = _check_layout(layout, self._layouts)
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
        """Return the shape of the weight for a number of input channels; 0 stands for an unknown number."""
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
        """Return the activation of the convolution of the input."""
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
    """Implement :class:`Conv1D`, :class:`Conv2D` and :class:`Conv3D`."""

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
        **kwargs: Unpack[BlockArguments],
    ) -> None:
        """Create the layer.

        Parameters
        ----------
        channels
            The number of output channels.
        kernel_size, strides, padding, dilation
            The size of the window, its stride, the zeros on both sides of the input, and the distance between elements
            of the window: one number, or one number per axis.
        groups
            The number of groups of channels. The outputs of a group depend only on the inputs of this group.
        layout
            The order of axes: N is the batch, C the channels, and D, H, W are spatial.
        activation
            The name of an activation function. None applies no activation.
        use_bias
            Whether to add a bias.
        weight_initializer, bias_initializer
            The initializers of weight and bias.
        in_channels
            The number of input channels; 0 to infer it in the first forward pass.
        """
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
    """Apply a 1-D convolution to inputs of shape (batch, channels, width)."""

    _layouts = ("NCW",)


class Conv2D(_Convolution):
    """Apply a 2-D convolution to inputs of shape (batch, channels, height, width)."""

    _layouts = ("NCHW", "NHWC")


class Conv3D(_Convolution):
    """Apply a 3-D convolution to inputs of shape (batch, channels, depth, height, width)."""

    _layouts = ("NCDHW", "NDHWC")


class _Transposed(_Conv):
    """Implement :class:`Conv1DTranspose`, :class:`Conv2DTranspose` and :class:`Conv3DTranspose`."""

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
        **kwargs: Unpack[BlockArguments],
    ) -> None:
        """Create the layer.

        Parameters
        ----------
        output_padding
            The number of elements to add at the end of each axis of the output: one number, or one number per axis.
        channels, kernel_size, strides, padding, dilation, groups, layout, activation, use_bias, in_channels
            See :class:`Conv2D`.
        weight_initializer, bias_initializer
            The initializers of weight and bias.
        """
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
    """Apply a 1-D transposed convolution to inputs of shape (batch, channels, width)."""

    _layouts = ("NCW",)


class Conv2DTranspose(_Transposed):
    """Apply a 2-D transposed convolution to inputs of shape (batch, channels, height, width)."""

    _layouts = ("NCHW", "NHWC")


class Conv3DTranspose(_Transposed):
    """Apply a 3-D transposed convolution to inputs of shape (batch, channels, depth, height, width)."""

    _layouts = ("NCDHW", "NDHWC")


class ReflectionPad2D(HybridBlock):
    """Pad images with a reflection of their own border.

    `padding` is the width of the border, or two numbers for each of the four axes.
    """

    def __init__(self, padding: Any = 0, **kwargs: Unpack[BlockArguments]) -> None:
        super().__init__(**kwargs)
        if isinstance(padding, numeric_types):
            padding = (0, 0, 0, 0, padding, padding, padding, padding)
        assert len(padding) == 8, f"padding must be a number or a list of 8 ints, not {padding}"
        self._padding = tuple(padding)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """Return the padded input."""
        return F.pad(x, mode="reflect", pad_width=self._padding)


complete_classes(globals())
