"""Slots: scratch memory for the threads that run a kernel, without knowing which thread that is.

A kernel that needs working memory takes the first slot that is free and gives it back when it ends. With one thread
that is always the same slot, which therefore stays in the cache. Which slot it is has no influence on results. The
words that say which slots are taken stand at the beginning of scratch memory; a launch that runs before all others
clears them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from ..base.dtypes import FLOAT32
from .launch import ALIGNMENT, Launch, Reference, Words, aligned
from .routine import Routine, module

__all__ = ["SLOT_WORDS", "Clear", "Scratch", "in_slot"]

#: words of a table that describe slots; every kernel that uses them has these among its own
SLOT_WORDS = ("slots", "locks*", "slot_memory*", "slot_bytes")

_CLEAR = Words("slots", "locks*")


@dataclasses.dataclass(frozen=True)
class Clear:
    """The kernel that marks all slots as free."""

    def write(self, name: str) -> str:
        """Return the text of the module."""
        e = Routine(name, 1, FLOAT32)
        locks = _CLEAR.pointer(e, "locks")
        words = str(ALIGNMENT // 8)
        e.each("0", _CLEAR.index(e, "slots"), lambda slot: e.store_word(locks, e.times(slot, words), "0"))
        return module(e)


class Scratch:
    """Scratch memory while it is divided: the words of slots, areas that all threads share, and slots last.

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
        """Return where an area of some bytes begins."""
        start = self.size
        self.size += aligned(size)
        return Reference("scratch", start)

    def slots(self, size: int) -> dict[str, int | Reference]:
        """Return the words that describe slots of some bytes."""
        start = self.reserve(aligned(size) * self._slots)
        return {
            "slots": self._slots,
            "locks": Reference("scratch"),
            "slot_memory": start,
            "slot_bytes": aligned(size),
        }


def in_slot(e: Routine, words: Words, body: Callable[[str], None]) -> None:
    """Write a body between taking a slot and giving it back; it is called with the address of the slot's memory.

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
