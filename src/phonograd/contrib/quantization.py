"""Quantization (``mxnet.contrib.quantization``) is not available: importing this module raises an error."""

from __future__ import annotations

raise ImportError(
    "mxnet.contrib.quantization (int8 networks) is not available. Run the network in float32, or export it with "
    "mx.contrib.onnx.export_model and quantize the ONNX file with onnxruntime.",
    name=__name__,
)
