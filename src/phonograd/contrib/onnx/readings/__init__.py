"""Reading functions of ONNX's operators, by family.

If an operator of the library declares an ONNX counterpart (``onnx=``), one function per form reads its nodes
(:func:`~phonograd.contrib.onnx.model.reads_form`). Every other ONNX operator has a small function of its own
(:func:`~phonograd.contrib.onnx.model.reads`). A reading function takes the node and returns the symbol of its output,
or a list of symbols for several outputs.
"""

from __future__ import annotations

from . import elementwise, layers, recurrent, reductions, shapes

__all__ = ["elementwise", "layers", "recurrent", "reductions", "shapes"]
