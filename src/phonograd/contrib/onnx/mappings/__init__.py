"""Translations of operators to ONNX, by family.

An operator that ONNX has under another name says so in its declaration (``onnx=``), and one function
(:func:`~phonograd.contrib.onnx.graph.maps_form`) translates all operators of a form. Each of the others has a small
function of its own (:func:`~phonograd.contrib.onnx.graph.maps`). A function takes the graph and the call; it adds nodes
and returns the name of the result, or a list of names for several.
"""

from __future__ import annotations

from . import elementwise, layers, recurrent, reductions, shapes

__all__ = ["elementwise", "layers", "recurrent", "reductions", "shapes"]
