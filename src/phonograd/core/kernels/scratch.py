"""Scratch slots: working memory for kernels, independent of the thread that runs them.

A kernel that needs working memory takes the first free slot and releases it at its end. With one thread, that is always
the same slot, which therefore stays in the cache. Results do not depend on the choice of slot. The lock words of the
slots are at the beginning of scratch memory; a launch before all others clears them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from ..base.dtypes import FLOAT32
from .launch import ALIGNMENT, Launch, Reference, Words, align_up
from .routine import Routine, module

__all__ = ["SLOT_WORDS", "Clear", "Scratch", "in_slot"]

#: table words that describe slots; every kernel that uses slots has these among its own words
SLOT_WORDS = ("slots", "locks*", "slot_memory*", "slot_bytes")

_CLEAR = Words("slots", "locks*")


@dataclasses.dataclass(frozen=True)
class Clear:
    """The kernel that marks all slots as free."""

    def write(self, name: str) -> str:
        """Return the module's LLVM IR."""
        e = Routine(name, 1, FLOAT32)
        locks = _CLEAR.pointer(e, "locks")
        words = str(ALIGNMENT // 8)
        e.for_each("0", _CLEAR.index(e, "slots"), lambda slot: e.store_word(locks, e.times(slot, words), "0"))
        return module(e)


class Scratch:
    """Layout of scratch memory: the lock words of slots, then areas that all threads share, then the slots.

    >>> scratch = Scratch(slots=2)
    >>> scratch.reserve(100)
    Reference(operand='scratch', offset=128)
    >>> scratch.slots(1000)["slot_memory"], scratch.size
    (Reference(operand='scratch', offset=256), 2304)
    """

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self.size = slots * ALIGNMENT

    def clear(self) -> Launch:
        """Return the launch that marks all slots as free."""
        return Launch(Clear(), _CLEAR.fill({"slots": self._slots, "locks": Reference("scratch")}), 1)

    def reserve(self, size: int) -> Reference:
        """Reserve an area of some bytes and return its beginning."""
        start = self.size
        self.size += align_up(size)
        return Reference("scratch", start)

    def slots(self, size: int) -> dict[str, int | Reference]:
        """Reserve slots of some bytes and return the table words that describe them."""
        start = self.reserve(align_up(size) * self._slots)
        return {
            "slots": self._slots,
            "locks": Reference("scratch"),
            "slot_memory": start,
            "slot_bytes": align_up(size),
        }


def in_slot(e: Routine, words: Words, body: Callable[[str], None]) -> None:
    """Write a body that runs with a slot; ``body`` is called with the address of the slot's memory.

    ::

        search1:
          %slot2 = phi i64 [ 0, %entry ], [ %next, %search1 ]
          %pair = cmpxchg ptr %lock, i64 0, i64 1 acquire monotonic
          br i1 %taken, label %found3, label %search1
        found3:
          ...
          store atomic i64 0, ptr %lock release
    """
    slots, locks = words.index(e, "slots"), words.pointer(e, "locks")
    memory, size = words.pointer(e, "slot_memory"), words.index(e, "slot_bytes")
    search, found = e.new_name("search"), e.new_name("found")
    slot, following = f"%{e.new_name('slot')}", f"%{e.new_name('next')}"
    before = e.block
    e.line(f"br label %{search}")
    e.label(search)
    e.line(f"{slot} = phi i64 [ 0, %{before} ], [ {following}, %{search} ]")
    lock = e.address(locks, e.times(slot, str(ALIGNMENT // 8)), "i64")
    pair = e.assign(f"cmpxchg ptr {lock}, i64 0, i64 1 acquire monotonic")
    taken = e.assign(f"extractvalue {{ i64, i1 }} {pair}, 1")
    after = e.plus(slot, "1")
    wrapped = e.test("slt", after, slots)
    e.line(f"{following} = select i1 {wrapped}, i64 {after}, i64 0")
    e.line(f"br i1 {taken}, label %{found}, label %{search}")
    e.label(found)
    body(e.address(memory, e.times(slot, size), "i8"))
    e.line(f"store atomic i64 0, ptr {lock} release, align 8")
