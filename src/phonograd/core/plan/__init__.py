"""The native executor: plans that run fused kernels, with NumPy between them for operators without a lowering.

In the order of the way from nodes to results:

==============  =====================================================================================================
``rewrite``     nodes that need not be computed, because others have their values to the last bit
``expansion``   the lowering of every node, and operators expanded
``group``       nodes that share a fused kernel, and the conditions for joining them
``views``       where values are read: locations compute nothing
``grouping``    which nodes share a kernel, and in which order kernels and NumPy calls follow each other
``steps``       the kinds of things that a plan does
``settling``    fused kernels: the group in which a node is computed
``again``       values that cost less to compute again than to write and read
``overlay``     assignments to a part of an array, in place where no later step reads the old value
``works``       kernels of their own: library kernels and matrix products
``products``    from the patterns of matrices to the launch that multiplies them
``parting``     sums that are divided among threads
``assembly``    from a group of nodes to the structure of its kernel and the table it runs with
``layout``      where every value lies: inputs, arrays, and the arena
``memory``      how arenas are arranged, and the pool that they and results come from
``store``       machine code and plans on disk, shared by all processes of a user
``bundle``      kernels in several object files, whose inner loops are compiled in full
``pointers``    addresses of our own memory, and of functions
``objects``     what machine code reads in Python objects and NumPy arrays
``compiler``    LLVM, loaded when something is not there
``tasks``       what several threads compile at once
``codes``       object files of kernels, from the disk or from the compiler
``image``       machine code in memory, put there without LLVM
``jit``         from the description of a kernel to its machine code, remembered
``improver``    the thread that compiles kernels in full
``driver``      the one native call that runs a row of kernels
``team``        the thread pool: workers that share the chunks of kernels
``boundaries``  which values go through memory, and why, for those who want to know
``program``     :class:`~phonograd.core.plan.native_program.NativeProgram`: from nodes to the recipe that computes them
``running``     recipes, and how they are run, behind the interface of the reference
``recall``      recipes on disk: plans that another process made
``collection``  planning without looking for garbage
==============  =====================================================================================================
"""
