"""Shared loops: the inner loop of a ufunc, divided among the threads of the pool where it is long.

Takes the address of a loop (:class:`~phonograd.core.kernels.elementwise_loop.ElementwiseLoop`) from
:mod:`~phonograd.core.run.ufuncs`, and hands on the function that NumPy calls in its place, with the facts of the loop
as its data. NumPy gives the elements of contiguous arrays to one call. A long one is a region of the
:mod:`~phonograd.core.run.thread_pool` with one launch, all of whose words are on the stack of the caller. Each element
is computed by the same instructions, whichever thread does it. See docs/decisions/0018.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import numpy as np

from ..graph.operator import REGISTRY
from ..kernels.elementwise_loop import CHUNK
from ..lower.ir.function_builder import FunctionBuilder, Index
from . import kernel_cache, pointers, thread_pool
from .thread_pool_words import MOST_CHUNKS, PARALLEL, REGION_WORDS

__all__ = ["address", "facts_of", "precompile"]

#: elements of a chunk of an operator whose cost is ``CHEAP`` or less: some microseconds
CHUNK_ELEMENTS = 16 * 1024
CHEAP = 4.0
#: words of the facts of a loop: its address, its operands with the result, the least number of elements that is shared,
#: the elements of a chunk, and the address of the word with the address of the pool
_LOOP, _OPERANDS, _LEAST, _CHUNK, _CELL = range(5)
#: words of the table of a launch: the facts, the operands and their strides
_TABLE_FACTS, _TABLE_OPERANDS, _TABLE_STRIDES = range(3)


def shared_loop_text() -> str:
    """Return the text of the function that NumPy calls::

    define void @shared_loop(ptr %operands, ptr %counts, ptr %strides, ptr %facts)
        count = counts[0]
        if count < least or there is no pool:
            call void %loop(ptr %operands, ptr %counts, ptr %strides, ptr null)
        else:
            region = {launch, 1, chunks, 0}
            launch = {address of @shared_chunk, {facts, operands, strides}, count, chunk, chunks}
            call void %parallel(ptr %pool, ptr %region, ptr null)
    """
    f = FunctionBuilder("shared_loop", "ptr %operands, ptr %counts, ptr %strides, ptr %facts")
    count, chunk = f.load_word("%counts", "0"), f.load_word("%facts", str(_CHUNK))
    f.leave_if(f.test("slt", count, f.load_word("%facts", str(_LEAST))), "alone")
    pool = f.load_word(f.load_word("%facts", str(_CELL), "ptr"), "0", "ptr")
    f.leave_if(f.assign(f"icmp eq ptr {pool}, null"), "alone")
    chunks = f.quotient(f.plus(count, f.minus(chunk, "1")), chunk)
    f.leave_if(f.test("sgt", chunks, str(MOST_CHUNKS)), "alone")
    cell, table, launch, region = [f.assign(f"alloca [{n} x i64], align 8") for n in (1, 3, 5, REGION_WORDS)]
    f.store_word(cell, "0", "@shared_chunk", "ptr")
    for place, word in enumerate(("%facts", "%operands", "%strides")):
        f.store_word(table, str(place), word, "ptr")
    for place, word in enumerate((cell, table)):
        f.store_word(launch, str(place), word, "ptr")
    for place, word in enumerate((count, chunk, chunks), 2):
        f.store_word(launch, str(place), word)
    f.store_word(region, "0", launch, "ptr")
    for place, word in enumerate(("1", chunks, "0"), 1):
        f.store_word(region, str(place), word)
    f.line(f"call void {f.load_word(pool, str(PARALLEL), 'ptr')}(ptr {pool}, ptr {region}, ptr null)")
    f.line("ret void")
    f.label("alone")
    f.line(f"call void {f.load_word('%facts', str(_LOOP), 'ptr')}(ptr %operands, ptr %counts, ptr %strides, ptr null)")
    return _chunk_text() + f.text()


def _chunk_text() -> str:
    """Return the text of the kernel of a chunk: it calls the loop for a part of the elements."""
    f = FunctionBuilder("shared_chunk", "ptr %table, ptr %bases, i64 %begin, i64 %end", internal=True)
    facts = f.load_word("%table", str(_TABLE_FACTS), "ptr")
    operands = f.load_word("%table", str(_TABLE_OPERANDS), "ptr")
    strides = f.load_word("%table", str(_TABLE_STRIDES), "ptr")
    number = f.load_word(facts, str(_OPERANDS))
    places, counts = f.assign(f"alloca ptr, i64 {number}, align 8"), f.assign("alloca i64, align 8")

    def place(operand: Index) -> None:
        distance = f.times("%begin", f.load_word(strides, operand))
        here = f.address(f.load_word(operands, operand, "ptr"), distance, "i8")
        f.store_word(places, operand, here, "ptr")

    f.for_each("0", number, place)
    f.store_word(counts, "0", f.minus("%end", "%begin"))
    f.line(f"call void {f.load_word(facts, str(_LOOP), 'ptr')}(ptr {places}, ptr {counts}, ptr {strides}, ptr null)")
    return f.text()


def precompile() -> None:
    """Start to compile the function in another thread."""
    kernel_cache.precompile_module(shared_loop_text, ())


@functools.cache
def address() -> int:
    """Return the address of the function that NumPy calls."""
    # quickly: it hardly does anything itself
    return _kernel().address


#: all that were made: threads that need the function first at the same time make one each, and ufuncs keep its address
_kernels: list[kernel_cache.Kernel] = []


@functools.cache
def _kernel() -> kernel_cache.Kernel:
    found = kernel_cache.compile_module(shared_loop_text, (), "shared_loop", quick=True)
    _kernels.append(found)
    return found


def facts_of(operators: Sequence[str], loop: int, operands: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return the words that the function gets as its data, for the loop of some operators."""
    costs = [REGISTRY[operator].cost for operator in operators]
    scale = max(1.0, sum([1.0 if callable(cost) else float(cost) for cost in costs]) / CHEAP)
    # whole blocks of the loop, so that only the last chunk has elements that do not fill a vector
    chunk = CHUNK * max(1, math.floor(CHUNK_ELEMENTS / scale) // CHUNK)
    return np.array([loop, operands, 2 * chunk, chunk, pointers.address(thread_pool.CELL)], np.int64)
