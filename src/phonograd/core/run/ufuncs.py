"""Ufuncs of machine code: elementwise operators on arrays of any shapes and strides, without a plan.

Takes :class:`~phonograd.core.kernels.elementwise_loop.ElementwiseLoop` structures, which the package
brings along or the kernel cache compiles;
hands NumPy ufuncs to :mod:`phonograd.core.plan.eager`. NumPy does everything else in C: broadcasting, the arrays of
results, the order of iteration. A call on small arrays takes less than a microsecond; the threads of the pool share the
elements of large ones (:mod:`~phonograd.core.run.shared_loop`).
"""

from __future__ import annotations

import ctypes
import functools
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from ..base.assumptions import assumption_holds
from ..base.dtypes import BFLOAT16, DType
from ..kernels.elementwise_loop import ElementwiseLoop
from . import kernel_cache, pointers, shared_loop
from .object_layout import numpy_table, object_address

__all__ = ["are_supported", "linked_ufunc", "loop_of", "ufunc_of"]

#: maximum number of ufuncs: they are never freed, because NumPy does not say when one is
MOST_UFUNCS = 4096
#: the table of NumPy's C interface for ufuncs, and entries of it
_TABLE = "_UFUNC_API"
_TYPE, _FROM_FUNCTION = 0, 1
_NO_IDENTITY = -1
_POINTERS = struct.Struct("@NN")

UINT16 = np.dtype("uint16")

_made: dict[ElementwiseLoop, Callable[..., Any]] = {}
#: the loops of ufuncs
_loops: dict[Callable[..., Any], ElementwiseLoop] = {}
#: memory that ufuncs refer to
_kept: list[Any] = []


def are_supported() -> bool:
    """Return whether NumPy can make ufuncs of machine code; warn once if not."""
    return assumption_holds(
        "the table of NumPy's interface for ufuncs begins with their type and PyUFunc_FromFuncAndData",
        "New graphs are planned before they run, which takes longer",
        _test,
    )


def _test() -> bool:
    if pointers.words_at(numpy_table(_TABLE), 1)[_TYPE] != object_address(np.ufunc):
        return False
    # it is never called
    made = _make(0, "test", (np.dtype("f"), np.dtype("d")), np.dtype("?"))
    return (type(made), made.nin, made.nout, made.types) == (np.ufunc, 2, 1, ["fd->?"])


@functools.cache
def _constructor() -> Callable[..., Any]:
    entry = pointers.words_at(numpy_table(_TABLE), 2)[_FROM_FUNCTION]
    tables, counts, texts = [ctypes.c_void_p] * 3, [ctypes.c_int] * 4, [ctypes.c_void_p] * 2
    return ctypes.PYFUNCTYPE(ctypes.py_object, *tables, *counts, *texts, ctypes.c_int)(entry)


def ufunc_of(loop: ElementwiseLoop) -> Callable[..., Any] | None:
    """Return the ufunc of an elementwise loop; None if there are too many of them."""
    found = _made.get(loop)
    if found is None and len(_made) < MOST_UFUNCS:
        place = kernel_cache.linked(loop)
        if place is None:
            # in full: quick code takes twice as long, and there is one loop for all graphs
            kernel = kernel_cache.kernels({loop: kernel_cache.MUCH_WORK + 1})[loop]
            _kept.append(kernel)
            place = kernel.address
        made = _shared(loop, place)
        found = _made.setdefault(loop, _of_words(made, loop) if BFLOAT16 in (*loop.sources, loop.dtype) else made)
        if not loop.steps:
            _loops[found] = loop
    return found


def linked_ufunc(loop: ElementwiseLoop) -> Callable[..., Any] | None:
    """Return the ufunc of a loop that the package brings along; None for others, which are not worth compiling."""
    found = _made.get(loop)
    if found is None and len(_made) < MOST_UFUNCS:
        place = kernel_cache.linked(loop, by_text=False)
        if place is not None:
            found = _made.setdefault(loop, _shared(loop, place))
    return found


def _shared(loop: ElementwiseLoop, place: int) -> Any:
    """Return the ufunc of the loop at an address, whose elements threads share if there are many."""
    operators = [step.operator for step in loop.steps] or [loop.operator]
    facts = shared_loop.facts_of(operators, place, len(loop.sources) + 1)
    _kept.append(facts)
    name, sources = "_and_".join(operators), tuple(map(_word, loop.sources))
    return _make(shared_loop.address(), name, sources, _word(loop.dtype), pointers.address(facts))


def loop_of(function: Callable[..., Any]) -> ElementwiseLoop | None:
    """Return the loop of a ufunc of one operator; None for other functions."""
    return _loops.get(function) if type(function) is np.ufunc else None


def _word(dtype: DType) -> DType:
    return UINT16 if dtype == BFLOAT16 else dtype


def _of_words(ufunc: Callable[..., Any], loop: ElementwiseLoop) -> Callable[..., Any]:
    """Return a ufunc whose bfloat16 operands are given to NumPy as words: ufuncs of records do not exist."""
    are_words = [dtype == BFLOAT16 for dtype in loop.sources]
    is_word = loop.dtype == BFLOAT16

    def call(*arrays: Any, out: Any = None) -> Any:
        operands = [array.view(UINT16) if is_one else array for array, is_one in zip(arrays, are_words)]
        result = ufunc(*operands, out=out.view(UINT16) if is_word and out is not None else out)
        return np.asarray(result).view(BFLOAT16) if is_word else result

    return call


def _make(
    place: int, name: str, sources: tuple[np.dtype[Any], ...], dtype: np.dtype[Any], facts: int | None = None
) -> Any:
    """Return the ufunc of the inner loop at an address, which is given the address of some facts."""
    types = bytes([kind.num for kind in (*sources, dtype)])
    # the function, its data, its types and its name, which is the documentation as well
    memory = ctypes.create_string_buffer(_POINTERS.pack(place, facts or 0) + types + name.encode())
    _kept.append(memory)
    begin = ctypes.addressof(memory)
    types_at = begin + _POINTERS.size
    name_at = types_at + len(types)
    counts = 1, len(sources), 1, _NO_IDENTITY
    return _constructor()(begin, begin + _POINTERS.size // 2, types_at, *counts, name_at, name_at, 0)
