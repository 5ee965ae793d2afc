"""Mappings of operators to ONNX, by family.

If an operator declares an ONNX counterpart (``onnx=``), one function per form maps it
(:func:`~phonograd.contrib.onnx.graph.maps_form`). Every other operator has a small function of its own
(:func:`~phonograd.contrib.onnx.graph.maps`). A mapping function takes the graph and the call; it adds nodes and
returns the name of the result, or a list of names for several results.
"""

from __future__ import annotations

from . import elementwise, layers, quantized, recurrent, reductions, shapes

__all__ = ["elementwise", "layers", "quantized", "recurrent", "reductions", "shapes"]
