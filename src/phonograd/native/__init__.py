"""The native executor: plans that run fused kernels, with NumPy between them for operators without a lowering.

=============  =====================================================================================================
``grouping``   which nodes share a kernel, and in which order kernels and NumPy calls follow each other
``assembly``   from a group of nodes to the structure of its kernel and the table it runs with
``memory``     where intermediate values lie in one block that is used again and again
``jit``        from text to machine code, remembered by structure
``driver``     the one native call that runs a row of kernels
``team``       the threads that share the range of a kernel
``products``   from where matrices lie to the launch that multiplies them
``program``    :class:`~phonograd.native.program.NativeProgram`: all of this behind the interface of a reference program
=============  =====================================================================================================
"""
