"""Quantized networks (``mxnet.contrib.quantization``): int8 inference with calibrated ranges.

``quantize_net`` returns a block of a trained network, ``quantize_model`` a symbol and its parameters. See
``docs/quantization.md``.
"""

from __future__ import annotations

from .api import (
    calib_graph,
    quantize_graph,
    quantize_model,
    quantize_model_mkldnn,
    quantize_net,
    quantize_net_v2,
)
from .calibration import (
    CalibrationCollector,
    _LayerHistogramCollector,
    _LayerOutputMinMaxCollector,
    combine_histogram,
)

__all__ = [
    "CalibrationCollector",
    "_LayerHistogramCollector",
    "_LayerOutputMinMaxCollector",
    "calib_graph",
    "combine_histogram",
    "quantize_graph",
    "quantize_model",
    "quantize_model_mkldnn",
    "quantize_net",
    "quantize_net_v2",
]
