"""Translations of operators to ONNX, a small function for each, by family.

Each is declared with :func:`~phonograd.contrib.onnx.graph.maps` and takes the graph and the call; it adds nodes and
returns the name of the result, or a list of names for several.
"""

from __future__ import annotations

from . import elementwise, layers, recurrent, reductions, shapes

__all__ = ["elementwise", "layers", "recurrent", "reductions", "shapes"]
