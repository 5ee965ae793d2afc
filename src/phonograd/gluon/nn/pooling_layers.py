"""Provide pooling layers: the maximum or the mean of each window, or of each channel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...base import numeric_types
from ...core.base.docstrings import complete_classes
from ..block import HybridBlock

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ..block.naming import BlockArguments

__all__ = [
    "AvgPool1D",
    "AvgPool2D",
    "AvgPool3D",
    "GlobalAvgPool1D",
    "GlobalAvgPool2D",
    "GlobalAvgPool3D",
    "GlobalMaxPool1D",
    "GlobalMaxPool2D",
    "GlobalMaxPool3D",
    "MaxPool1D",
    "MaxPool2D",
    "MaxPool3D",
]


class _Pooling(HybridBlock):
    """Implement all pooling layers; the layout determines the number of axes of a window."""

    #: the supported layouts, the default first; empty if all are supported
    _layouts: tuple[str, ...] = ()

    def __init__(
        self,
        pool_size: Any,
        strides: Any,
        padding: Any,
        ceil_mode: bool,
        global_pool: bool,
        pool_type: str,
        layout: str | None,
        count_include_pad: bool | None = None,
        **kwargs: Unpack[BlockArguments],
    ) -> None:
        super().__init__(**kwargs)
        layout = layout or self._layouts[0]
        count = len(layout) - 2
        assert not self._layouts or layout in self._layouts, (
            f"Only {' and '.join(self._layouts)} layouts are valid for {len(self._layouts[0]) - 2}D Pooling"
        )
        window = (pool_size,) * count if isinstance(pool_size, numeric_types) else tuple(pool_size)
        assert len(window) == count, f"pool_size must be a number or a list of {count} ints"
        steps = window if strides is None else strides
        self._kwargs: dict[str, Any] = {
            "kernel": window,
            "stride": (steps,) * count if isinstance(steps, numeric_types) else tuple(steps),
            "pad": (padding,) * count if isinstance(padding, numeric_types) else tuple(padding),
            "global_pool": global_pool,
            "pool_type": pool_type,
            "layout": layout,
            "pooling_convention": "full" if ceil_mode else "valid",
        }
        if count_include_pad is not None:
            self._kwargs["count_include_pad"] = count_include_pad

    def _alias(self) -> str:
        return "pool"

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """Return one value for each window of the input."""
        return F.Pooling(x, name="fwd", **self._kwargs)

    def __repr__(self) -> str:
        ceil_mode = self._kwargs["pooling_convention"] == "full"
        return (
            "{0}(size={kernel}, stride={stride}, padding={pad}, ceil_mode={1}, global_pool={global_pool}, "
            "pool_type={pool_type}, layout={layout})"
        ).format(type(self).__name__, ceil_mode, **self._kwargs)


class _Max(_Pooling):
    """Implement max pooling."""

    def __init__(
        self,
        pool_size: Any = 2,
        strides: Any = None,
        padding: Any = 0,
        layout: str | None = None,
        ceil_mode: bool = False,
        **kwargs: Unpack[BlockArguments],
    ) -> None:
        """Create the layer.

        Parameters
        ----------
        pool_size
            The size of the window: one number, or one number per axis.
        strides
            The stride of the window. None takes the size of the window.
        padding
            The width of the padding on both sides of each axis.
        layout
            The order of axes: N is the batch, C the channels, and D, H, W are spatial.
        ceil_mode
            Whether to keep a last window that is only partly inside the input.
        """
        super().__init__(pool_size, strides, padding, ceil_mode, False, "max", layout, **kwargs)


class MaxPool1D(_Max):
    """Apply 1-D max pooling."""

    _layouts = ("NCW", "NWC")


class MaxPool2D(_Max):
    """Apply 2-D max pooling."""

    _layouts = ("NCHW", "NHWC")


class MaxPool3D(_Max):
    """Apply 3-D max pooling."""

    _layouts = ("NCDHW", "NDHWC")

    def __init__(
        self,
        pool_size: Any = 2,
        strides: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        layout: str | None = None,
        **kwargs: Unpack[BlockArguments],
    ) -> None:
        """Create the layer; see :class:`MaxPool2D` for the parameters, which MXNet orders differently here."""
        super().__init__(pool_size, strides, padding, layout, ceil_mode, **kwargs)


class _Average(_Pooling):
    """Implement average pooling."""

    def __init__(
        self,
        pool_size: Any = 2,
        strides: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        layout: str | None = None,
        count_include_pad: bool = True,
        **kwargs: Unpack[BlockArguments],
    ) -> None:
        """Create the layer.

        Parameters
        ----------
        pool_size, strides, padding, ceil_mode, layout
            See :class:`MaxPool2D`.
        count_include_pad
            Whether the zeros of the padding count as elements of a window.
        """
        super().__init__(pool_size, strides, padding, ceil_mode, False, "avg", layout, count_include_pad, **kwargs)


class AvgPool1D(_Average):
    """Apply 1-D average pooling."""

    _layouts = ("NCW", "NWC")

    def __init__(
        self,
        pool_size: Any = 2,
        strides: Any = None,
        padding: Any = 0,
        layout: str | None = None,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        **kwargs: Unpack[BlockArguments],
    ) -> None:
        """Create the layer; see :class:`AvgPool2D` for the parameters, which MXNet orders differently here."""
        super().__init__(pool_size, strides, padding, ceil_mode, layout, count_include_pad, **kwargs)


class AvgPool2D(_Average):
    """Apply 2-D average pooling."""

    _layouts = ("NCHW", "NHWC")


class AvgPool3D(_Average):
    """Apply 3-D average pooling."""

    _layouts = ("NCDHW", "NDHWC")


class _Global(_Pooling):
    """Reduce each channel to one value."""

    _pool_type: str

    def __init__(self, layout: str | None = None, **kwargs: Unpack[BlockArguments]) -> None:
        super().__init__(1, None, 0, True, True, self._pool_type, layout, **kwargs)


class GlobalMaxPool1D(_Global):
    """Return the maximum of each channel of inputs of shape (batch, channels, width)."""

    _pool_type = "max"
    _layouts = ("NCW", "NWC")


class GlobalMaxPool2D(_Global):
    """Return the maximum of each channel of inputs of shape (batch, channels, height, width)."""

    _pool_type = "max"
    _layouts = ("NCHW", "NHWC")


class GlobalMaxPool3D(_Global):
    """Return the maximum of each channel of inputs of shape (batch, channels, depth, height, width)."""

    _pool_type = "max"
    _layouts = ("NCDHW", "NDHWC")


class GlobalAvgPool1D(_Global):
    """Return the mean of each channel of inputs of shape (batch, channels, width)."""

    _pool_type = "avg"
    _layouts = ("NCW", "NWC")


class GlobalAvgPool2D(_Global):
    """Return the mean of each channel of inputs of shape (batch, channels, height, width)."""

    _pool_type = "avg"
    _layouts = ("NCHW", "NHWC")


class GlobalAvgPool3D(_Global):
    """Return the mean of each channel of inputs of shape (batch, channels, depth, height, width)."""

    _pool_type = "avg"
    _layouts = ("NCDHW", "NDHWC")


complete_classes(globals())
