"""Provide layers that normalize over the batch, groups of channels, single channels, or an axis."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...core.base.docstrings import complete_classes
from ...core.base.dtypes import HALVES, as_array_dtype
from ..block import HybridBlock
from ..parameter import Parameter, ParameterDict

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ..block.naming import BlockArguments

__all__ = ["BatchNorm", "BatchNormReLU", "GroupNorm", "InstanceNorm", "LayerNorm"]


class _Normalization(HybridBlock):
    """Own a scale ``gamma`` and a shift ``beta`` for each channel."""

    _kwargs: dict[str, Any]
    gamma: Parameter
    beta: Parameter
    #: whether `grad_req` of a scale or shift that is not learned stays "null" forever
    _is_fixed = False

    def _add_scale_and_shift(
        self, center: bool, scale: bool, beta_initializer: Any, gamma_initializer: Any, extent: int
    ) -> None:
        for name, is_learned, init in (("gamma", scale, gamma_initializer), ("beta", center, beta_initializer)):
            parameter = self.params.get(
                name,
                grad_req="write" if is_learned else "null",
                shape=(extent,),
                init=init,
                allow_deferred_init=True,
                differentiable=is_learned or not self._is_fixed,
            )
            setattr(self, name, parameter)

    def _content(self) -> str:
        return ", ".join([f"{key}={value!r}" for key, value in self._kwargs.items()])

    def _channels(self) -> int:
        shape = self._reg_params["gamma"].shape
        return shape[0] if shape else 0

    def _set_channels(self, count: int) -> None:
        for parameter in self._reg_params.values():
            parameter.shape = (count,)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._content()}, in_channels={self._channels()})"


class BatchNorm(_Normalization):
    """Normalize each channel over the batch. In predict mode, use the moving mean and variance of the training.

    Parameters
    ----------
    axis
        The axis of the channels.
    momentum
        The fraction of the moving statistics that each step keeps.
    epsilon
        The number added to variances.
    center, scale
        Whether the layer learns a shift ``beta`` and a scale ``gamma``.
    use_global_stats
        Whether to use the moving statistics in training, too.
    beta_initializer, gamma_initializer, running_mean_initializer, running_variance_initializer
        The initializers of the parameters.
    in_channels
        The number of channels; 0 to infer it in the first forward pass.
    """

    _is_fixed = True

    def __init__(
        self,
        axis: int = 1,
        momentum: float = 0.9,
        epsilon: float = 1e-05,
        center: bool = True,
        scale: bool = True,
        use_global_stats: bool = False,
        beta_initializer: Any = "zeros",
        gamma_initializer: Any = "ones",
        running_mean_initializer: Any = "zeros",
        running_variance_initializer: Any = "ones",
        in_channels: int = 0,
        **kwargs: Unpack[BlockArguments],
    ) -> None:
        super().__init__(**kwargs)
        self.running_mean: Parameter
        self.running_var: Parameter
        self._axis = axis
        self._kwargs = {
            "axis": axis,
            "eps": epsilon,
            "momentum": momentum,
            "fix_gamma": not scale,
            "use_global_stats": use_global_stats,
        }
        if in_channels != 0:
            self.in_channels = in_channels
        self._add_scale_and_shift(center, scale, beta_initializer, gamma_initializer, in_channels)
        for name, init in (("running_mean", running_mean_initializer), ("running_var", running_variance_initializer)):
            statistic = self.params.get(
                name,
                grad_req="null",
                shape=(in_channels,),
                init=init,
                allow_deferred_init=True,
                differentiable=False,
            )
            setattr(self, name, statistic)

    def cast(self, dtype: Any) -> None:
        """Convert the parameters to another dtype; they stay float32 for inputs of 16 bits."""
        super().cast("float32" if as_array_dtype(dtype) in HALVES else dtype)

    def _infer_quickly(self, x: Any) -> bool:
        self._set_channels(x.shape[self._axis])
        return True

    def hybrid_forward(self, F: Any, x: Any, gamma: Any, beta: Any, running_mean: Any, running_var: Any) -> Any:
        """Return the normalized input."""
        return F.BatchNorm(x, gamma, beta, running_mean, running_var, name="fwd", **self._kwargs)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._content()}, in_channels={self._channels() or None})"


class BatchNormReLU(BatchNorm):
    """Apply :class:`BatchNorm`, then a rectifier."""

    def hybrid_forward(self, F: Any, x: Any, gamma: Any, beta: Any, running_mean: Any, running_var: Any) -> Any:
        """Return the normalized input where it is positive, and 0 elsewhere."""
        return F.relu(super().hybrid_forward(F, x, gamma, beta, running_mean, running_var))


class InstanceNorm(_Normalization):
    """Normalize each channel of each sample over all its other axes.

    See :class:`BatchNorm` for the parameters.
    """

    def __init__(
        self,
        axis: int = 1,
        epsilon: float = 1e-05,
        center: bool = True,
        scale: bool = False,
        beta_initializer: Any = "zeros",
        gamma_initializer: Any = "ones",
        in_channels: int = 0,
        **kwargs: Unpack[BlockArguments],
    ) -> None:
        super().__init__(**kwargs)
        self._kwargs = {"eps": epsilon, "axis": axis, "center": center, "scale": scale}
        self._axis = axis
        self._epsilon = epsilon
        self._add_scale_and_shift(center, scale, beta_initializer, gamma_initializer, in_channels)

    def _infer_quickly(self, x: Any) -> bool:
        self._set_channels(x.shape[self._axis])
        return True

    def hybrid_forward(self, F: Any, x: Any, gamma: Any, beta: Any) -> Any:
        """Return the normalized input."""
        if self._axis == 1:
            return F.InstanceNorm(x, gamma, beta, name="fwd", eps=self._epsilon)
        moved = F.swapaxes(x, 1, self._axis)
        return F.swapaxes(F.InstanceNorm(moved, gamma, beta, name="fwd", eps=self._epsilon), 1, self._axis)


class LayerNorm(_Normalization):
    """Normalize each vector along `axis`.

    See :class:`BatchNorm` for the parameters; `in_channels` is the length of `axis`.
    """

    def __init__(
        self,
        axis: int = -1,
        epsilon: float = 1e-05,
        center: bool = True,
        scale: bool = True,
        beta_initializer: Any = "zeros",
        gamma_initializer: Any = "ones",
        in_channels: int = 0,
        prefix: str | None = None,
        params: ParameterDict | None = None,
    ) -> None:
        super().__init__(prefix=prefix, params=params)
        self._kwargs = {"eps": epsilon, "axis": axis, "center": center, "scale": scale}
        self._axis = axis
        self._epsilon = epsilon
        self._center = center
        self._scale = scale
        self._add_scale_and_shift(center, scale, beta_initializer, gamma_initializer, in_channels)

    def _infer_quickly(self, x: Any) -> bool:
        self._set_channels(x.shape[self._axis])
        return True

    def hybrid_forward(self, F: Any, data: Any, gamma: Any, beta: Any) -> Any:
        """Return the normalized input."""
        return F.LayerNorm(data, gamma=gamma, beta=beta, axis=self._axis, eps=self._epsilon)


class GroupNorm(_Normalization):
    """Normalize `num_groups` groups of channels of each sample; each group has one scale and one shift.

    See :class:`BatchNorm` for the other parameters.
    """

    def __init__(
        self,
        num_groups: int = 1,
        epsilon: float = 1e-05,
        center: bool = True,
        scale: bool = True,
        beta_initializer: Any = "zeros",
        gamma_initializer: Any = "ones",
        prefix: str | None = None,
        params: ParameterDict | None = None,
    ) -> None:
        super().__init__(prefix=prefix, params=params)
        self._kwargs = {"eps": epsilon, "num_groups": num_groups, "center": center, "scale": scale}
        self._num_groups = num_groups
        self._epsilon = epsilon
        self._add_scale_and_shift(center, scale, beta_initializer, gamma_initializer, num_groups)

    def hybrid_forward(self, F: Any, data: Any, gamma: Any, beta: Any) -> Any:
        """Return the normalized input."""
        return F.GroupNorm(data, gamma=gamma, beta=beta, num_groups=self._num_groups, eps=self._epsilon)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._content()})"


complete_classes(globals())
