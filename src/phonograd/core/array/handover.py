"""Hand the memory of arrays that the program drops to NumPy: ``net(data).asnumpy()`` needs no copy of the result.

Takes handles of large arrays whose values are known, and gives their memory to the methods that turn them into arrays
of NumPy. Reference counts tell that nothing else can see the memory (:mod:`phonograd.core.trace.liveness`). See
docs/decisions/0031.
"""

from __future__ import annotations

import numpy as np

from ..graph.operator import Array
from ..run.memory_pool import LEAST_MAPPED_BYTES, is_block
from ..run.pointers import address
from ..trace.liveness import is_held_once
from .handle import Handle

__all__ = ["LEAST_BYTES", "given_memory"]

#: smaller arrays are copied in less time than it takes to find out who refers to them
LEAST_BYTES = LEAST_MAPPED_BYTES


def given_memory(handle: Handle) -> Array | None:
    """Return the memory of an array that nothing refers to any more, as another array; None if others may see it."""
    if handle._node is not None or handle._extras is not None or not is_held_once(handle, "_buffer"):
        return None
    memory = handle._buffer
    block = None if memory is None else memory.base
    if memory is None or block is None or not is_block(block):
        return None
    del block
    if not is_held_once(memory, "base"):
        return None
    block = memory.base
    assert block is not None
    # a small part of a block would keep all of it
    if not memory.flags.c_contiguous or address(memory) != address(block) or 2 * memory.nbytes < block.nbytes:
        return None
    return np.ndarray(memory.shape, memory.dtype, block)
