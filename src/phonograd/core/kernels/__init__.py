"""Kernels: the text of native functions, written in LLVM's assembly language with explicit vectors.

A kernel is described by a :class:`~phonograd.core.kernels.structure.Structure` (what it computes, without sizes) and
written by :func:`~phonograd.core.kernels.fused.writer.write`. An operator contributes its lowering, an object of one of
the kinds in :mod:`~phonograd.core.lower.lowering`. It is the same whether the operator is alone in a kernel or among
many, which is why fusing never changes a bit.

=================  ===============================================================================================
``structure``      the description of a kernel: the key under which compiled code is found again
``fused``          elementwise kernels and reductions, from structure to text
``matmul``         products of matrices: blocked, packed, on AMX in three parts of bfloat16
``conv``           convolution: im2col, direct, Winograd, channels-last
``pool``           pooling, forward and adjoint
``window_plans``   convolution and pooling: from a node to its launches
``scatter``        slices added up at the places that an index names
``cumsum``         cumulative sums along an axis
``routine``        functions on elements of one dtype, and modules of several functions
``scratch``        scratch memory for the threads that run a kernel
``target``         the facts about a processor that kernels depend on
=================  ===============================================================================================

Nothing here imports a compiler: that is left to :mod:`phonograd.core.plan`.
"""
