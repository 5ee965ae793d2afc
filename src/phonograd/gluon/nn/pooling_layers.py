"""Pooling: the largest or the mean value of each window, or of each channel."""

from __future__ import annotations

from typing import Any

from ...base import numeric_types
from ..block import HybridBlock

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
    """What all pooling layers have in common; the layout says how many axes a window has."""

    #: which ones there are, the usual one first; any if there are none here
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
        **kwargs: Any,
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
    """The largest value of each window.

    Parameters
    ----------
    pool_size
        The window: a number, or one per axis.
    strides
        Its steps; as large as the window if this is None.
    padding
        The border around the input.
    layout
        The meaning of axes.
    ceil_mode
        Whether windows that do not fit at the end are counted.
    """

    def __init__(
        self,
        pool_size: Any = 2,
        strides: Any = None,
        padding: Any = 0,
        layout: str | None = None,
        ceil_mode: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(pool_size, strides, padding, ceil_mode, False, "max", layout, **kwargs)


class MaxPool1D(_Max):
    """The largest value of each window along one axis."""

    _layouts = ("NCW", "NWC")


class MaxPool2D(_Max):
    """The largest value of each window along two axes."""

    _layouts = ("NCHW", "NHWC")


class MaxPool3D(_Max):
    """The largest value of each window along three axes."""

    _layouts = ("NCDHW", "NDHWC")

    def __init__(
        self,
        pool_size: Any = 2,
        strides: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        layout: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(pool_size, strides, padding, layout, ceil_mode, **kwargs)


class _Average(_Pooling):
    """The mean value of each window; arguments as for the largest.

    `count_include_pad` says whether the border counts as values, which are 0.
    """

    def __init__(
        self,
        pool_size: Any = 2,
        strides: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        layout: str | None = None,
        count_include_pad: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(pool_size, strides, padding, ceil_mode, False, "avg", layout, count_include_pad, **kwargs)


class AvgPool1D(_Average):
    """The mean value of each window along one axis."""

    _layouts = ("NCW", "NWC")

    def __init__(
        self,
        pool_size: Any = 2,
        strides: Any = None,
        padding: Any = 0,
        layout: str | None = None,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(pool_size, strides, padding, ceil_mode, layout, count_include_pad, **kwargs)


class AvgPool2D(_Average):
    """The mean value of each window along two axes."""

    _layouts = ("NCHW", "NHWC")


class AvgPool3D(_Average):
    """The mean value of each window along three axes."""

    _layouts = ("NCDHW", "NDHWC")


class _Global(_Pooling):
    """One value for each channel."""

    _of_all: str

    def __init__(self, layout: str | None = None, **kwargs: Any) -> None:
        super().__init__(1, None, 0, True, True, self._of_all, layout, **kwargs)


class GlobalMaxPool1D(_Global):
    """The largest value of each channel, of inputs (batch, channels, width)."""

    _of_all = "max"
    _layouts = ("NCW", "NWC")


class GlobalMaxPool2D(_Global):
    """The largest value of each channel, of inputs (batch, channels, height, width)."""

    _of_all = "max"
    _layouts = ("NCHW", "NHWC")


class GlobalMaxPool3D(_Global):
    """The largest value of each channel, of inputs (batch, channels, depth, height, width)."""

    _of_all = "max"
    _layouts = ("NCDHW", "NDHWC")


class GlobalAvgPool1D(_Global):
    """The mean value of each channel, of inputs (batch, channels, width)."""

    _of_all = "avg"
    _layouts = ("NCW", "NWC")


class GlobalAvgPool2D(_Global):
    """The mean value of each channel, of inputs (batch, channels, height, width)."""

    _of_all = "avg"
    _layouts = ("NCHW", "NHWC")


class GlobalAvgPool3D(_Global):
    """The mean value of each channel, of inputs (batch, channels, depth, height, width)."""

    _of_all = "avg"
    _layouts = ("NCDHW", "NDHWC")
