"""Kernels: the text of native functions, written in LLVM's assembly language with explicit vectors.

A kernel is described by a :class:`~phonograd.core.kernels.structure.Structure` (what it computes, without sizes) and
written by :func:`~phonograd.core.kernels.fused.writer.write`. What an operator contributes is its lowering, one object
of the small set of kinds in :mod:`~phonograd.core.lower.lowering`: it is the same whether the operator stands alone in
a kernel or among many, which is why fusing never changes a bit.

=====================  ===========================================================================================
``function``           writes one function: blocks, loops, addresses
``emitter``            writes functions on vectors: typed values, memory
``mathematics``        exp, tanh, ...: polynomials with measured error bounds
``philox``             random words, the same as :mod:`phonograd.core.lower.philox` gives
``pattern``            where the elements of a view lie in memory: offset and strides
``lowering``           the kinds of lowering an operator can declare
``structure``          the description of a kernel: the key under which compiled code is found again
``writer``             from structure to text
``join``               combines what a kernel computes in parts
``scatter``            slices added up at the places that an index names
``running``            running sums along an axis
``gemm``               products of matrices: how the work is divided
``tiles``              products of matrices: how it is done
``packing``            matrices copied to where products read them best
``sharing``            the thread pool: how a caller and its workers share the chunks of kernels
``thread_pool_words``  the words of the thread pool, and the builder of code on them
=====================  ===========================================================================================

Nothing here imports a compiler: that is left to :mod:`phonograd.core.plan`.
"""
