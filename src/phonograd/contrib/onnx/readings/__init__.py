"""Readings of ONNX's operators, by family.

A node that is an operator here under another name is read as the declaration of that operator says (``onnx=``), by
one function for all of a form (:func:`~phonograd.contrib.onnx.model.reads_form`). Each of the others has a small
function of its own (:func:`~phonograd.contrib.onnx.model.reads`). A function takes the node, and returns the symbol of
its output, or a list for several.
"""

from __future__ import annotations

from . import elementwise, layers, recurrent, reductions, shapes

__all__ = ["elementwise", "layers", "recurrent", "reductions", "shapes"]
