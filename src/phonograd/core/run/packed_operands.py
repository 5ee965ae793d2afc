"""Packed operands: weights in the order in which kernels read them, kept while the weights do not change.

A prediction packs or transforms the same weights in every call. When a program has got the same arrays in several runs
(:func:`note`, :func:`unchanged`), the planner makes another program, which takes packed operands as further inputs.
:class:`PackedOperands` packs them once, and again when an array was replaced or written. Its values are those that the
first program would compute, bit for bit.

The memory of an array changes in one way only: a program writes over an input that nothing else refers to
(:mod:`~phonograd.core.run.donation`), and says so (:func:`note_write`). All other writes make new arrays, and memory
that other libraries can write is copied before each use. So a packed operand is known by its array, as an object.
Arrays are referred to weakly: packed operands are freed with them. See docs/decisions/0028.
"""

from __future__ import annotations

import itertools
import math
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from ..base import settings
from ..base.dtypes import DType
from ..graph.node import Shape
from ..graph.operator import Array
from . import kernel_cache, memory_pool
from .driver import Row

__all__ = [
    "PackedForm",
    "PackedOperands",
    "Preparation",
    "Runs",
    "note",
    "note_write",
    "packed_bytes",
    "reference_to",
    "unchanged",
]

#: elements of an array that may be worth packing
LEAST_ELEMENTS = 256
#: runs in a row in which an array was another one, or was written, after which it is not packed any more
MOST_MISSES = 3


class Runs(Protocol):
    """A program, or something that raises the error that kept one from being made."""

    def run(self, inputs: list[Any]) -> list[Array]:
        """Return the values of the kept nodes."""


class PackedForm:
    """A packed operand; its array is None after the array that was packed has been written or freed."""

    __slots__ = ("__weakref__", "array")

    def __init__(self, array: Array | None) -> None:
        self.array = array


class _Watched(weakref.ref[Array]):
    """A weak reference to an array, and its packed forms by kind."""

    __slots__ = ("identity", "packed", "writes")

    identity: int
    packed: weakref.WeakValueDictionary[int, PackedForm]
    writes: int

    def forget(self) -> None:
        """Drop all packed forms."""
        # a weight that is updated in place is told at each step, and most are not packed
        if self.packed:
            for packed in list(self.packed.values()):
                packed.array = None


#: all watched arrays by identity
_watched: dict[int, _Watched] = {}


def _on_free(watched: weakref.ref[Array]) -> None:
    assert isinstance(watched, _Watched)
    _watched.pop(watched.identity, None)
    watched.forget()


def _watch(array: Array) -> _Watched:
    found = _watched.get(id(array))
    if found is None or found() is not array:
        found = _Watched(array, _on_free)
        found.identity, found.packed, found.writes = id(array), weakref.WeakValueDictionary(), 0
        _watched[id(array)] = found
    return found


def reference_to(array: Array) -> weakref.ref[Array]:
    """Return a weak reference to an array, of the kind that packed operands have."""
    return _Watched(array)


def note_write(array: Any) -> None:
    """Drop the packed forms of an array, because a program is about to write to it."""
    found = _watched.get(id(array)) if _watched else None
    if found is not None:
        found.writes += 1
        found.forget()


def note(inputs: Sequence[Any]) -> list[tuple[int, _Watched, int]]:
    """Return what :func:`unchanged` needs to tell which of these arrays are the same in a later run."""
    found = []
    for number, array in enumerate(inputs):
        if _can_be_packed(array) and array.ndim > 1 and array.size >= LEAST_ELEMENTS:
            watched = _watch(array)
            found.append((number, watched, watched.writes))
    return found


def unchanged(noted: Iterable[tuple[int, _Watched, int]], inputs: Sequence[Any]) -> list[int]:
    """Return the numbers of the inputs that are the arrays noted before, and were not written since."""
    return [number for number, watched, writes in noted if watched() is inputs[number] and watched.writes == writes]


def packed_bytes() -> int:
    """Return the memory of all packed operands."""
    # frees may change the dictionaries meanwhile
    arrays = [packed.array for watched in list(_watched.values()) for packed in list(watched.packed.values())]
    return sum([array.nbytes for array in arrays if array is not None])


class Preparation(NamedTuple):
    """The packing of an input: its number, the kernel that packs it, and the packed form."""

    source: int
    kind: int
    """A number that equal packings of one array share, see :func:`kind_of`."""
    kernel: kernel_cache.Kernel
    table: list[int]
    """The words of the launch; array 0 is the input, and array 1 the packed form."""
    extent: int
    chunk: int
    shape: Shape
    dtype: DType

    @property
    def size(self) -> int:
        """The bytes of the packed form."""
        return math.prod(self.shape) * self.dtype.itemsize

    def run(self, array: Array) -> Array:
        """Return the packed form of an array."""
        packed = memory_pool.allocate(self.shape, self.dtype, memory_pool.room_for(self.size))
        Row.of_one(self.kernel, self.table, self.extent, self.chunk, 2).run((array, packed))
        return packed


_kinds: dict[Any, int] = {}
_next_kind = itertools.count()


def kind_of(packing: Any) -> int:
    """Return a number for the description of a packing; equal descriptions have equal numbers."""
    return _kinds.setdefault(packing, next(_next_kind))


class PackedOperands:
    """A program that takes packed operands, and the packed operands of the arrays that it was last run with.

    Parameters
    ----------
    program
        Runs on a list of inputs, of which the last are the packed operands.
    preparations
        How these are made from its first inputs.
    """

    __slots__ = ("__weakref__", "_misses", "_preparations", "entries", "given_up", "program", "used")

    def __init__(self, program: Runs, preparations: Sequence[Preparation]) -> None:
        self.program = program
        self._preparations = list(preparations)
        #: for each packed operand the number of its input, the array that was packed, and the packed form. Machine
        #: code reads them, too (:mod:`phonograd.core.capture.native_replay`)
        self.entries: list[tuple[int, Callable[[], Array | None], PackedForm]] = [
            (preparation.source, _no_array, PackedForm(None)) for preparation in self._preparations
        ]
        self._misses: dict[int, int] = {}
        #: numbers of inputs that change too often, or have no room
        self.given_up: set[int] = set()
        self.used = 0
        _holders.add(self)

    def run(self, inputs: list[Any]) -> list[Array] | None:
        """Return the results of the program; None if the inputs cannot be packed, or are not worth it any more."""
        values = inputs.copy()
        for source, packed_of, packed in self.entries:
            array = packed.array
            if array is None or packed_of() is not inputs[source]:
                renewed = self._renew(inputs)
                if renewed is None:
                    return None
                self.used = next(_ticks)
                return self.program.run([*inputs, *renewed])
            values.append(array)
        self.note_use()
        return self.program.run(values)

    def note_use(self) -> None:
        """Note a run whose inputs were packed before."""
        self.used = next(_ticks)
        if self._misses:
            self._misses = {}

    def _renew(self, inputs: list[Any]) -> list[Array] | None:
        """Return the packed operands of inputs, some of which are new; None if they cannot be packed."""
        entries, nothing = self.entries.copy(), PackedForm(None)
        missing = [
            number
            for number, (source, packed_of, packed) in enumerate(entries)
            if packed.array is None or packed_of() is not inputs[source]
        ]
        for source in {entries[number][0] for number in missing}:
            self._misses[source] = self._misses.get(source, 0) + 1
        self.given_up.update([source for source, count in self._misses.items() if count > MOST_MISSES])
        if self.given_up:
            self.drop()
            return None
        # other threads may use the same program, so the list is replaced, never changed
        for number in missing:
            entries[number] = entries[number][0], _no_array, nothing
        self.entries = entries.copy()
        for number in missing:
            preparation = self._preparations[number]
            array = inputs[preparation.source]
            if not _can_be_packed(array):
                return None
            watched = _watch(array)
            packed = watched.packed.get(preparation.kind)
            if packed is None or packed.array is None:
                if not _make_room(preparation.size, self):
                    self.given_up.update(self.sources)
                    self.drop()
                    return None
                packed = watched.packed[preparation.kind] = PackedForm(preparation.run(array))
            entries[number] = preparation.source, watched, packed
        self.entries = entries
        # an array that is an input of this run is not written meanwhile
        return [packed.array for _, _, packed in entries if packed.array is not None]

    @property
    def sources(self) -> list[int]:
        """The numbers of the inputs that are packed."""
        return sorted({preparation.source for preparation in self._preparations})

    @property
    def nbytes(self) -> int:
        """The bytes of the packed operands, some of which other programs may use, too."""
        return sum([packed.array.nbytes for _, _, packed in self.entries if packed.array is not None])

    def drop(self) -> None:
        """Drop the packed operands; those that no other program uses are freed."""
        self.entries = [(source, _no_array, PackedForm(None)) for source, _, _ in self.entries]


_ticks = itertools.count(1)
_holders: weakref.WeakSet[PackedOperands] = weakref.WeakSet()


def _make_room(size: int, wanted_by: PackedOperands) -> bool:
    """Return whether there is room for some bytes, after dropping those of programs that ran least recently."""
    limit = settings.current().packed_bytes
    if packed_bytes() + size <= limit:
        return True
    if size > limit:
        return False
    for holder in sorted([each for each in list(_holders) if each is not wanted_by], key=lambda each: each.used):
        if holder.nbytes:
            holder.drop()
            if packed_bytes() + size <= limit:
                return True
    return False


def _no_array() -> None:
    """Refer to no array."""


def _can_be_packed(array: Any) -> bool:
    return type(array) is np.ndarray and array.flags.c_contiguous
