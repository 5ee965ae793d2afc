"""Relocations of object files: where code and data refer to addresses, and how these are written.

Takes addresses from :mod:`~phonograd.core.run.elf_loader`. A relocation has a *kind*, a number of the machine's ABI.
The kinds here are those that kernels need on x86-64 and on aarch64, whose instructions have room for parts of an
address.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

__all__ = ["AARCH64", "STUB", "X86_64", "Memory", "UnsupportedError", "is_absolute", "is_branch", "relocate", "width"]

#: numbers of machines in object files
X86_64, AARCH64 = 62, 183

#: code of aarch64 that goes on at the address behind it::
#:
#:     ldr x16, 8
#:     br x16
STUB = bytes.fromhex("50000058 00021fd6")

#: memory that code is written to: a mapping, or bytes
Memory = Any

_PAGE_BITS = 12
_LOW_BITS = (1 << _PAGE_BITS) - 1


class UnsupportedError(Exception):
    """An object file that only LLVM can load."""


#: writes a value at a place of the memory, given the address of that place
_Writer = Callable[[Memory, int, int, int], None]


def _number(form: str, is_relative: bool) -> _Writer:
    """Return the writer of a number: an address, or its distance from where it is written."""

    def write(memory: Memory, where: int, value: int, here: int) -> None:
        # struct raises an error if the distance does not fit
        struct.pack_into(form, memory, where, value - here if is_relative else value)

    return write


def _set_bits(memory: Memory, where: int, mask: int, bits: int) -> None:
    (word,) = struct.unpack_from("<I", memory, where)
    struct.pack_into("<I", memory, where, word & ~mask | bits)


def _write_page(memory: Memory, where: int, value: int, here: int) -> None:
    """Write the distance between two pages into ``adrp``, whose lowest two bits come last."""
    pages = (value >> _PAGE_BITS) - (here >> _PAGE_BITS)
    if not -(1 << 20) <= pages < 1 << 20:
        raise OverflowError
    _set_bits(memory, where, 0x60FFFFE0, (pages & 3) << 29 | (pages >> 2 & 0x7FFFF) << 5)


def _offset(scale: int) -> _Writer:
    """Return the writer of a place in a page into ``add`` or ``ldr``, in units of ``1 << scale`` bytes."""

    def write(memory: Memory, where: int, value: int, here: int) -> None:
        if value & ((1 << scale) - 1):
            raise UnsupportedError
        _set_bits(memory, where, 0xFFF << 10, ((value & _LOW_BITS) >> scale) << 10)

    return write


def _half(number: int) -> _Writer:
    """Return the writer of 16 bits of an address into ``movz`` or ``movk``."""

    def write(memory: Memory, where: int, value: int, here: int) -> None:
        _set_bits(memory, where, 0xFFFF << 5, (value >> 16 * number & 0xFFFF) << 5)

    return write


def _write_branch(memory: Memory, where: int, value: int, here: int) -> None:
    """Write a distance into ``b`` or ``bl``."""
    distance = value - here
    if distance & 3 or not -(1 << 27) <= distance < 1 << 27:
        raise OverflowError
    _set_bits(memory, where, 0x3FFFFFF, distance >> 2 & 0x3FFFFFF)


#: by machine and kind
_WRITERS: dict[int, dict[int, _Writer]] = {
    X86_64: {1: _number("<Q", False), 2: _number("<i", True), 4: _number("<i", True), 24: _number("<q", True)},
    AARCH64: {
        257: _number("<Q", False),
        260: _number("<q", True),
        261: _number("<i", True),
        275: _write_page,
        277: _offset(0),
        278: _offset(0),
        284: _offset(1),
        285: _offset(2),
        286: _offset(3),
        299: _offset(4),
        282: _write_branch,
        283: _write_branch,
        **{kind: _half((kind - 263) // 2) for kind in range(263, 270)},
    },
}
#: kinds that depend on the address itself
_ABSOLUTE = {X86_64: {1}, AARCH64: {257, *range(263, 270)}}
_BRANCHES: dict[int, set[int]] = {X86_64: set(), AARCH64: {282, 283}}
#: kinds whose numbers have 8 bytes
_LONG = {X86_64: {1, 24}, AARCH64: {257, 260}}


def is_absolute(machine: int, kind: int) -> bool:
    """Return whether a relocation depends on where the code is."""
    return kind in _ABSOLUTE[machine]


def is_branch(machine: int, kind: int) -> bool:
    """Return whether a relocation is the target of a branch that does not reach all addresses."""
    return kind in _BRANCHES[machine]


def width(machine: int, kind: int) -> int:
    """Return the number of bytes that a relocation changes."""
    return 8 if kind in _LONG[machine] else 4


def relocate(machine: int, kind: int, memory: Memory, where: int, value: int, here: int) -> None:
    """Write an address into code or data, given its place in the memory and the address of this place.

    Raises
    ------
    UnsupportedError
        If the kind is not known.
    OverflowError, struct.error
        If the distance does not fit.

    Examples
    --------
    >>> code = bytearray.fromhex("00000094")
    >>> relocate(AARCH64, 283, code, 0, 0x1010, 0x1000)
    >>> code.hex()
    '04000094'
    """
    writer = _WRITERS[machine].get(kind)
    if writer is None:
        raise UnsupportedError
    writer(memory, where, value, here)
