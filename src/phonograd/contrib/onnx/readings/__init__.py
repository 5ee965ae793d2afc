"""Readings of ONNX's operators, a small function for each, by family.

Each is declared with :func:`~phonograd.contrib.onnx.model.reads`, takes the node, and returns the symbol of its output,
or a list for several.
"""

from __future__ import annotations

from . import elementwise, layers, recurrent, reductions, shapes

__all__ = ["elementwise", "layers", "recurrent", "reductions", "shapes"]
