"""Kernels: native functions as LLVM IR text with explicit vectors.

A kernel is described by a :class:`~phonograd.core.kernels.structure.Structure` (what it computes, without sizes) and
written by :func:`~phonograd.core.kernels.fused.writer.write`. An operator contributes its lowering, an object of one of
the kinds in :mod:`~phonograd.core.lower.lowering`. It is the same whether the operator is alone in a kernel or among
many, which is why fusing never changes a bit.

=================  ========================================================================================
These modules import no compiler; :mod:`phonograd.core.plan` compiles the text.
"""
