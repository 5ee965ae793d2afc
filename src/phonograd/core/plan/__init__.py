"""The planner: turns nodes into the launches of fused and library kernels, with NumPy for operators without a lowering.

Takes nodes from :mod:`phonograd.core.trace` and hands programs back; :mod:`phonograd.core.run` runs them. In the order
of the data:

===================  ================================================================================================
``cache``            plans in memory, and the choice of the program for a graph
``disk``             plans on disk, shared by all processes of a user
``rewrite``          replaces nodes by others that have the same value to the last bit
``expansion``        the order of nodes, the lowering of each, and expanded operators
``conversions``      where values are converted between float32 and 16 bits
``grouping``         decides which nodes share a kernel, and the order of kernels and NumPy calls
``group``            the nodes of one fused kernel, and the conditions for joining them
``fusion``           the group in which a node is computed
``views``            the memory that reshapes, slices, transposes and broadcasts read
``rematerialize``    computes cheap values again instead of writing and reading them
``memory_limit``     computes large values again if a plan would take more memory than the settings allow
``inplace``          assignments that write only a part of an array
``library_kernels``  kernels of one operator: matrix products, convolutions, pooling
``products``         the launches that multiply matrices with given patterns
``partition``        chunks of work for the workers, and sums in parts
``assembly``         the structure of a group's kernel, and the table of its launch
``steps``            the kinds of steps of a plan
``layout``           the place of every value: inputs, arrays, and the arena
``native_program``   :class:`~phonograd.core.plan.native_program.NativeProgram`, from nodes to a recipe
``eager``            programs that run operator by operator, for graphs that never repeat
``eager_launch``     the kernels of one operator as a function of arrays
``eager_folds``      sums and the like as functions of arrays of any shapes
``report``           the values that go through memory, and the reasons, for users
===================  ================================================================================================
"""
