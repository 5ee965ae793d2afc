"""Kernels: native functions as LLVM IR text with explicit vectors.

A :class:`~phonograd.core.kernels.structure.Structure` describes a fused kernel without its sizes, and
:func:`~phonograd.core.kernels.fused.writer.write` turns it into text. Each operator contributes its lowering, one of
the kinds in :mod:`~phonograd.core.lower.lowering`. An operator has the same lowering alone and in a fused kernel, so
fusion never changes a bit.

================  =============================================================================
``structure``     description of a fused kernel: the key of the compiled-code cache
``fused``         elementwise and reduction kernels: schedule, loops, partial results
``launch``        launch tables, operands and plans of the kernels that have loops of their own
``routine``       builder for such kernels: typed memory, lanes, several functions per module
``scratch``       scratch memory in slots, one for each running thread
``matmul``        blocked GEMM, packing, and float32 products on AMX
``conv``          convolutions: direct, im2col, Winograd; forward, adjoint and weight gradient
``pool``          pooling and its adjoint
``scatter``       slices added up at the positions in an index
``cumsum``        cumulative sums along an axis
``deinterleave``  strided elements sorted in registers
``target``        vector width, registers and matrix unit of the processor
================  =============================================================================

These modules import no compiler; :mod:`phonograd.core.plan` compiles the text.
"""
