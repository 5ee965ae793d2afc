"""Provide deformable convolutions: an ordinary convolution computes offsets of the taps of another one."""

from __future__ import annotations

from typing import Any

from ....base import numeric_types
from ....core.base.docstrings import complete_classes
from ...block import HybridBlock
from ...nn import Activation
from ...parameter import Parameter, ParameterDict

__all__ = ["DeformableConvolution", "ModulatedDeformableConvolution"]


def _pair(value: Any) -> tuple[int, ...]:
    pair: tuple[Any, ...] = (value,) * 2 if isinstance(value, numeric_types) else tuple(value)
    return pair


class _Deformable(HybridBlock):
    """Implement both layers; the first convolution computes `_planes` numbers for each tap."""

    _planes: int
    #: the order in which parameters are created, as in MXNet
    _order = ("offset", "deformable_conv")

    deformable_conv_weight: Parameter
    deformable_conv_bias: Parameter | None

    def __init__(
        self,
        channels: int,
        kernel_size: Any = (1, 1),
        strides: Any = (1, 1),
        padding: Any = (0, 0),
        dilation: Any = (1, 1),
        groups: int = 1,
        num_deformable_group: int = 1,
        layout: str = "NCHW",
        use_bias: bool = True,
        in_channels: int = 0,
        activation: str | None = None,
        weight_initializer: Any = None,
        bias_initializer: Any = "zeros",
        offset_weight_initializer: Any = "zeros",
        offset_bias_initializer: Any = "zeros",
        offset_use_bias: bool = True,
        op_name: str | None = None,
        adj: Any = None,
        prefix: str | None = None,
        params: ParameterDict | None = None,
    ) -> None:
        super().__init__(prefix=prefix, params=params)
        assert layout == "NCHW", f"Only supports 'NCHW' layout for now, not {layout!r}"
        if adj is not None:
            raise NotImplementedError(f"{type(self).__name__} does not support adj: it is no transposed convolution")
        window: dict[str, Any] = {
            "kernel": _pair(kernel_size),
            "stride": _pair(strides),
            "dilate": _pair(dilation),
            "pad": _pair(padding),
        }
        kernel = window["kernel"]
        self._channels, self._in_channels = channels, in_channels
        self._op_name = op_name or type(self).__name__
        self._groups = num_deformable_group
        planes = self._planes * kernel[0] * kernel[1] * num_deformable_group
        self._kwargs_offset: dict[str, Any] = {
            **window,
            "num_filter": planes,
            "num_group": groups,
            "no_bias": not offset_use_bias,
            "layout": layout,
        }
        self._kwargs_deformable_conv: dict[str, Any] = {
            **window,
            "num_filter": channels,
            "num_group": groups,
            "num_deformable_group": num_deformable_group,
            "no_bias": not use_bias,
            "layout": layout,
        }
        weights = {
            "offset": (planes, offset_weight_initializer, offset_bias_initializer, offset_use_bias),
            "deformable_conv": (channels, weight_initializer, bias_initializer, use_bias),
        }
        with self.name_scope():
            for word in self._order:
                count, weight, bias, has_bias = weights[word]
                shape = (count, in_channels // groups, *kernel)
                found = self.params.get(f"{word}_weight", shape=shape, init=weight, allow_deferred_init=True)
                setattr(self, f"{word}_weight", found)
                offset: Parameter | None = None
                if has_bias:
                    offset = self.params.get(f"{word}_bias", shape=(count,), init=bias, allow_deferred_init=True)
                setattr(self, f"{word}_bias", offset)
            self.act = None if activation is None else Activation(activation, prefix=activation + "_")

    def _infer_quickly(self, *args: Any) -> bool:
        channels = args[0].shape[1]
        for word, kwargs in (("offset", self._kwargs_offset), ("deformable_conv", self._kwargs_deformable_conv)):
            weight = getattr(self, f"{word}_weight")
            weight.shape = (weight.shape[0], channels // kwargs["num_group"], *kwargs["kernel"])
        return True

    def _offsets(self, F: Any, x: Any, weight: Any, bias: Any) -> Any:
        inputs = (x, weight) if bias is None else (x, weight, bias)
        return F.Convolution(*inputs, cudnn_off=True, **self._kwargs_offset)

    def _convolve(self, F: Any, inputs: tuple[Any, ...], bias: Any) -> Any:
        inputs = inputs if bias is None else (*inputs, bias)
        out = getattr(F.contrib, self._op_name)(*inputs, name="fwd", **self._kwargs_deformable_conv)
        return out if self.act is None else self.act(out)

    def __repr__(self) -> str:
        kwargs = self._kwargs_deformable_conv
        shape = self.deformable_conv_weight.shape or (0, 0)
        text = f"{shape[1] or None} -> {shape[0]}, kernel_size={kwargs['kernel']}, stride={kwargs['stride']}"
        if any(kwargs["pad"]):
            text += f", padding={kwargs['pad']}"
        if any([gap != 1 for gap in kwargs["dilate"]]):
            text += f", dilation={kwargs['dilate']}"
        if kwargs["num_group"] != 1:
            text += f", groups={kwargs['num_group']}"
        if self.deformable_conv_bias is None:
            text += ", bias=False"
        return f"{type(self).__name__}({text}{f', {self.act}' if self.act is not None else ''})"


class DeformableConvolution(_Deformable):
    """Apply a convolution with learned offsets of its taps to images of shape (batch, channel, height, width).

    Parameters
    ----------
    channels
        The number of output channels.
    kernel_size, strides, padding, dilation, groups
        See :class:`~phonograd.gluon.nn.Conv2D`. The convolution that computes the offsets has the same values.
    num_deformable_group
        The number of groups of channels, each with its own offsets.
    layout
        The order of axes: only ``'NCHW'``.
    use_bias, offset_use_bias
        Whether the convolution, and the one that computes the offsets, add a bias.
    in_channels
        The number of input channels; 0 to infer it in the first forward pass.
    activation
        The name of an activation function. None applies no activation.
    weight_initializer, bias_initializer, offset_weight_initializer, offset_bias_initializer
        The initializers. By default, offsets are zero at first, as in an ordinary convolution.
    op_name
        The name of the operator in ``F.contrib``.
    adj
        Must be None.
    prefix, params
        See :class:`~phonograd.gluon.Block`.
    """

    _planes = 2

    def _alias(self) -> str:
        return "deformable_conv"

    def hybrid_forward(
        self,
        F: Any,
        x: Any,
        offset_weight: Any,
        deformable_conv_weight: Any,
        offset_bias: Any = None,
        deformable_conv_bias: Any = None,
    ) -> Any:
        """Return the activation of the convolution of the input."""
        shifts = self._offsets(F, x, offset_weight, offset_bias)
        return self._convolve(F, (x, shifts, deformable_conv_weight), deformable_conv_bias)


class ModulatedDeformableConvolution(_Deformable):
    """Apply a convolution with learned offsets and weights of its taps; see :class:`DeformableConvolution`."""

    _planes = 3
    _order = ("deformable_conv", "offset")

    def _alias(self) -> str:
        return "modulated_deformable_conv"

    def hybrid_forward(
        self,
        F: Any,
        x: Any,
        offset_weight: Any,
        deformable_conv_weight: Any,
        offset_bias: Any = None,
        deformable_conv_bias: Any = None,
    ) -> Any:
        """Return the activation of the convolution of the input."""
        both = self._offsets(F, x, offset_weight, offset_bias)
        taps = self._kwargs_offset["num_filter"] // 3
        shifts = F.slice_axis(both, axis=1, begin=0, end=2 * taps)
        mask = F.sigmoid(F.slice_axis(both, axis=1, begin=2 * taps, end=None)) * 2
        return self._convolve(F, (x, shifts, mask, deformable_conv_weight), deformable_conv_bias)


complete_classes(globals())
