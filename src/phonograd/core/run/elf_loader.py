"""Images: machine code in memory, put there without LLVM.

A compiled kernel is an object file: sections of code and of constants, and *relocations*, places in them where
addresses must be filled in once it is known where the sections lie. LLVM can do that too, but importing it takes longer
than everything else that a process does whose kernels are on disk. Here is what kernels need: on Linux and x86-64, the
absolute and relative addresses that the compiler writes there. Whatever else is found makes :func:`load` return None,
and LLVM is asked.

An image is memory of its own: first the code, which nobody can write to any more, then the data. It is returned when
the image is dropped.
"""

from __future__ import annotations

import ctypes
import mmap
import platform
import struct
import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ..base.assumptions import assumption_holds
from .object_bundle import files as files_of

__all__ = ["Image", "load", "possible"]

_X86_64, _RELOCATABLE = 62, 1
#: kinds of sections
_PROGRAM, _SYMBOLS, _RELOCATIONS, _ZEROS = 1, 2, 4, 8
#: kinds that mean nothing here: nothing at all, tables of names, and how to unwind the stack: kernels raise nothing
_HARMLESS = {0, 3, 0x70000001}
#: what sections are: in memory at run time, executable, one for each thread
_LOADED, _CODE, _THREAD = 0x2, 0x4, 0x400
#: kinds of relocations: the address itself, and its distance from where it is written
_ABSOLUTE, _RELATIVE, _RELATIVE_CALL, _RELATIVE_LONG = 1, 2, 4, 24
_UNDEFINED = 0
_PAGE = mmap.PAGESIZE


class _Section(NamedTuple):
    """One section header of an object file."""

    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    entry_size: int

    @property
    def is_loaded(self) -> bool:
        """Whether it is in memory at run time."""
        return bool(self.flags & _LOADED) and self.kind not in _HARMLESS


class _Unknown(Exception):
    """Something in an object file that only LLVM can deal with."""


_HEAD = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")


class Image:
    """Some functions in executable memory, which is there as long as this object is."""

    __slots__ = ("__weakref__", "_memory", "addresses")

    def __init__(self, memory: mmap.mmap, addresses: dict[str, int]) -> None:
        self._memory = memory
        self.addresses = addresses


def possible() -> bool:
    """Return whether images can be made on this system; warn once if it should be one of those, and is not."""
    return (
        sys.platform == "linux"
        and platform.machine() == "x86_64"
        and assumption_holds(
            "code that is written to memory, with its addresses filled in, can be made executable",
            "LLVM loads all code: a process whose kernels are on disk starts slower by tens of milliseconds",
            _answers,
        )
    )


def load(codes: Mapping[str, bytes]) -> Image | None:
    """Return an image of the code of functions, by name; None where only LLVM can load some of it."""
    return _loaded(codes) if possible() else None


def _loaded(codes: Mapping[str, bytes]) -> Image | None:
    try:
        kernels = {name: [_File(name, part) for part in files_of(code)] for name, code in codes.items()}
        files = [file for parts in kernels.values() for file in parts]
        code_size = _arrange(files, 0, is_code=True)
        size = _arrange(files, -(-code_size // _PAGE) * _PAGE, is_code=False)
        memory = mmap.mmap(-1, max(size, 1), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        for parts in kernels.values():
            for file in parts:
                file.place(memory, start, parts)
        addresses = {name: _address(name, parts, start) for name, parts in kernels.items()}
    except (_Unknown, struct.error, IndexError, OverflowError, ValueError, OSError):
        # none of it has been run, and nothing was written outside of the new memory
        return None
    protect = ctypes.CDLL(None).mprotect
    protect.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    if protect(start, code_size, mmap.PROT_READ | mmap.PROT_EXEC):
        return None
    return Image(memory, addresses)


def _address(name: str, files: Sequence[_File], start: int) -> int:
    """Return where a function is that one of some files has."""
    for file in files:
        found = file.named(name, start)
        if found is not None:
            return found
    raise _Unknown


def _arrange(files: list[_File], end: int, is_code: bool) -> int:
    """Return where the sections of one kind end, after giving each of them a place."""
    for file in files:
        for number, section in enumerate(file.sections):
            if section.is_loaded and bool(section.flags & _CODE) is is_code:
                alignment = max(section.alignment, 1)
                end = -(-end // alignment) * alignment
                file.places[number] = end
                end += section.size
    return end


class _File:
    """An object file that is being read."""

    def __init__(self, name: str, code: bytes) -> None:
        self.name = name
        self._code = code
        ident, kind, machine, _, _, _, offset, _, _, _, _, size, count, _ = _HEAD.unpack_from(code)
        if ident[:6] != b"\x7fELF\x02\x01" or (kind, machine, size) != (_RELOCATABLE, _X86_64, _SECTION.size):
            raise _Unknown
        self.sections = [_Section(*_SECTION.unpack_from(code, offset + size * number)) for number in range(count)]
        #: by number of a section, where it begins in the image
        self.places: dict[int, int] = {}
        for section in self.sections:
            if section.is_loaded:
                fits = section.kind == _ZEROS or section.offset + section.size <= len(code)
                known = section.kind in (_PROGRAM, _ZEROS) and not section.flags & _THREAD
                if not fits or not known or section.alignment > _PAGE:
                    raise _Unknown
            elif section.kind not in _HARMLESS | {_PROGRAM, _SYMBOLS, _RELOCATIONS}:
                raise _Unknown

    def place(self, memory: mmap.mmap, start: int, files: Sequence[_File]) -> None:
        """Put everything into memory that begins at an address; what is called may be in other files that lie there."""
        for number, place in self.places.items():
            section = self.sections[number]
            if section.kind == _PROGRAM:
                memory[place : place + section.size] = self._code[section.offset : section.offset + section.size]
        for section in self.sections:
            if section.kind == _RELOCATIONS and section.info in self.places:
                self._relocate(section, memory, start, files)

    def named(self, wanted: str, start: int) -> int | None:
        """Return the address of a function, if it is here."""
        for table in self.sections:
            if table.kind == _SYMBOLS:
                for offset in range(table.offset, table.offset + table.size, _SYMBOL.size):
                    name, _, _, section, value, _ = _SYMBOL.unpack_from(self._code, offset)
                    if section in self.places and self._name(table, name) == wanted:
                        return start + self.places[section] + int(value)
        return None

    def _name(self, table: _Section, place: int) -> str:
        begin = self.sections[table.link].offset + place
        return self._code[begin : self._code.index(b"\0", begin)].decode()

    def _relocate(self, table: _Section, memory: mmap.mmap, start: int, files: Sequence[_File]) -> None:
        symbols, place, code = self.sections[table.link], self.places[table.info], self._code
        room = self.sections[table.info].size
        for offset in range(table.offset, table.offset + table.size, _RELOCATION.size):
            where, kind_and_symbol, addend = _RELOCATION.unpack_from(code, offset)
            kind = kind_and_symbol & 0xFFFFFFFF
            value = self._value(symbols, kind_and_symbol >> 32, start, files) + addend
            is_long = kind in (_ABSOLUTE, _RELATIVE_LONG)
            if where + (8 if is_long else 4) > room:
                raise _Unknown
            where += place
            if kind == _ABSOLUTE:
                struct.pack_into("<Q", memory, where, value)
            elif kind in (_RELATIVE, _RELATIVE_CALL, _RELATIVE_LONG):
                # what does not fit is an error of struct
                struct.pack_into("<q" if is_long else "<i", memory, where, value - start - where)
            else:
                raise _Unknown

    def _value(self, table: _Section, number: int, start: int, files: Sequence[_File]) -> int:
        name, _, _, section, value, _ = _SYMBOL.unpack_from(self._code, table.offset + _SYMBOL.size * number)
        if section in self.places:
            return start + self.places[section] + int(value)
        if section != _UNDEFINED:
            raise _Unknown
        wanted = self._name(table, name)
        for file in files:
            found = None if file is self else file.named(wanted, start)
            if found is not None:
                return found
        return _function(wanted)


def _function(name: str) -> int:
    """Return the address of a function of C's library, which compilers call to copy memory and the like."""
    found = getattr(ctypes.CDLL(None), name, None)
    address = ctypes.cast(found, ctypes.c_void_p).value if found is not None else None
    if address is None:
        raise _Unknown
    return address


# -- the test of all this


def _answers() -> bool:
    """Return whether a function that was put into memory finds its data there."""
    found = _loaded({"answer": _example()})
    return found is not None and ctypes.CFUNCTYPE(ctypes.c_int64)(found.addresses["answer"])() == 42


def _example() -> bytes:
    """Return an object file whose function reads the address of a number, and returns the number::

    answer:  mov rax, [rip + second]      first:   .quad 42
             mov rax, [rax]               second:  .quad first
             ret
    """
    code = bytes.fromhex("488b05 00000000 488b00 c3")
    data = struct.pack("<qq", 42, 0)
    names = b"\0answer\0"
    # the second symbol is the beginning of the data, the third the function
    symbols = bytes(_SYMBOL.size) + _SYMBOL.pack(0, 3, 0, 2, 0, 0) + _SYMBOL.pack(1, 0x12, 0, 1, 0, len(code))
    # R_X86_64_PC32 and R_X86_64_64
    in_code, in_data = _RELOCATION.pack(3, 1 << 32 | 2, 8 - 4), _RELOCATION.pack(8, 1 << 32 | 1, 0)
    parts = code, data, in_code, in_data, symbols, names
    offsets = [_HEAD.size + sum([len(part) for part in parts[:number]]) for number in range(len(parts) + 1)]

    def section(number: int, kind: int, flags: int = 0, link: int = 0, info: int = 0) -> bytes:
        return _SECTION.pack(0, kind, flags, 0, offsets[number], len(parts[number]), link, info, 1, 0)

    sections = [
        bytes(_SECTION.size),
        section(0, _PROGRAM, _LOADED | _CODE),
        section(1, _PROGRAM, _LOADED),
        section(2, _RELOCATIONS, link=5, info=1),
        section(3, _RELOCATIONS, link=5, info=2),
        section(4, _SYMBOLS, link=6),
        section(5, 3),
    ]
    ident = b"\x7fELF\x02\x01\x01".ljust(16, b"\0")
    layout = _HEAD.size, 0, 0, _SECTION.size, len(sections), len(sections) - 1
    head = _HEAD.pack(ident, _RELOCATABLE, _X86_64, 1, 0, 0, offsets[-1], 0, *layout)
    return b"".join([head, *parts, *sections])
