"""Calibration: collect the ranges of layer outputs, by extremes or by histograms, and choose thresholds."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ndarray import NDArray
from ...ndarray import array as nd_array
from ...ndarray import contrib as nd_contrib

__all__ = ["CalibrationCollector", "combine_histogram", "thresholds_of"]

Range = tuple[float, float]
Histogram = tuple[Any, Any, float, float, float]


class CalibrationCollector:
    """Base class of collectors. ``collect(name, arr)`` is called with the outputs of layers.

    After all data was seen, ``min_max_dict`` holds the least and the greatest value of each layer.

    Parameters
    ----------
    include_layer
        The names of the outputs to collect; None for all.
    """

    def __init__(self, include_layer: list[str] | None = None, logger: Any = None) -> None:
        self.include_layer = include_layer
        self.logger = logger
        self.min_max_dict: dict[str, Range] = {}

    def collect(self, name: str, arr: Any) -> None:
        """Collect the statistics of one output."""
        raise NotImplementedError("a collector must define collect(name, arr)")

    def _wants(self, name: str) -> bool:
        return self.include_layer is None or name in self.include_layer


class _LayerOutputMinMaxCollector(CalibrationCollector):
    """Collects extremes, for ``calib_mode="naive"``."""

    def __init__(self, quantized_dtype: str, include_layer: list[str] | None = None, logger: Any = None) -> None:
        super().__init__(include_layer, logger)
        self.quantized_dtype = quantized_dtype

    def collect(self, name: str, arr: Any) -> None:
        """Collect the extremes of one output."""
        if not self._wants(name):
            return
        values = _numbers(name, arr)
        low, high = float(values.min()), float(values.max())
        before = self.min_max_dict.get(name, (low, high))
        self.min_max_dict[name] = min(before[0], low), max(before[1], high)


class _LayerHistogramCollector(CalibrationCollector):
    """Collects histograms, for ``calib_mode="entropy"``."""

    def __init__(self, num_bins: int = 8001, include_layer: list[str] | None = None, logger: Any = None) -> None:
        super().__init__(include_layer, logger)
        self.num_bins = num_bins
        self.hist_dict: dict[str, Histogram] = {}

    def collect(self, name: str, arr: Any) -> None:
        """Add one output to the histogram of its name."""
        if not self._wants(name):
            return
        values = _numbers(name, arr)
        low, high = float(values.min()), float(values.max())
        limit = max(abs(low), abs(high))
        if name in self.hist_dict:
            self.hist_dict[name] = combine_histogram(self.hist_dict[name], values, low, high, limit)
        else:
            counts, edges = np.histogram(values, bins=self.num_bins, range=(-limit, limit))
            self.hist_dict[name] = counts, edges, low, high, limit


def _numbers(name: str, arr: Any) -> Any:
    values = arr.asnumpy() if isinstance(arr, NDArray) else np.asarray(arr)
    if not values.size:
        raise ValueError(f"the output {name!r} has no elements: the calibration data has an empty batch")
    if not np.all(np.isfinite(values)):
        raise ValueError(
            f"the output {name!r} has infinite numbers or NaN for the calibration data: check the data, or exclude "
            "the layer from quantization"
        )
    return values


def combine_histogram(old_hist: Histogram, arr: Any, new_min: float, new_max: float, new_th: float) -> Histogram:
    """Return a histogram with the elements of another array; its bins keep their width, and new ones are added."""
    counts, edges, low, high, limit = old_hist
    low, high = min(low, new_min), max(high, new_max)
    if new_th <= limit:
        more, _ = np.histogram(arr, bins=len(counts), range=(-limit, limit))
        return counts + more, edges, low, high, limit
    if limit == 0:
        # everything before was zero: it belongs into the bin in the middle
        more, edges = np.histogram(arr, bins=len(counts), range=(-new_th, new_th))
        more[len(counts) // 2] += counts.sum()
        return more, edges, low, high, new_th
    step = 2 * limit / len(counts)
    added = int((new_th - limit) // step + 1)
    wider = added * step + limit
    more, edges = np.histogram(arr, bins=len(counts) + 2 * added, range=(-wider, wider))
    more[added : added + len(counts)] += counts
    return more, edges, low, high, wider


def thresholds_of(
    collector: Any, calib_mode: str, quantized_dtype: str, num_quantized_bins: int = 255
) -> dict[str, Range]:
    """Return the range of each collected output.

    ``entropy`` chooses for each histogram the symmetric range that ``calibrate_entropy`` finds; if no element is
    negative and uint8 is allowed, the range begins at 0 and has twice as many levels.
    """
    if calib_mode != "entropy":
        return dict(collector.min_max_dict)
    found = {}
    for name, (counts, edges, low, _, limit) in collector.hist_dict.items():
        positive = low >= 0 and quantized_dtype in ("auto", "uint8")
        levels = num_quantized_bins * 2 + 1 if positive else num_quantized_bins
        if limit == 0:
            found[name] = (0.0, 0.0)
            continue
        threshold, _ = nd_contrib.calibrate_entropy(
            nd_array(counts, dtype="float32"), nd_array(edges, dtype="float32"), num_quantized_bins=levels
        )
        chosen = float(threshold.asscalar())
        found[name] = (0.0 if positive else -chosen, chosen)
    return found
