"""The ELF loader: loads object files into executable memory without LLVM.

Takes object files from :mod:`~phonograd.core.run.objects` and hands addresses to
:mod:`~phonograd.core.run.kernel_cache`. An object file has sections of code and constants, and *relocations*: places to
fill in once the addresses of the sections are known. LLVM can load files too, but importing it would dominate the start
of a process whose kernels are on disk. This loader supports the relocations that kernels need on Linux, on x86-64 and
aarch64 (:mod:`~phonograd.core.run.elf_relocations`). For anything else :func:`load` returns None, and the caller uses
LLVM.

The memory begins with the code, which is read-only after loading; the data follow. It is freed with its
:class:`LoadedCode`.

Code that depends on no address can be linked in advance (:func:`link`), and mapped from a file (:func:`map_code`).
"""

from __future__ import annotations

import ctypes
import mmap
import platform
import struct
import sys
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np

from ..base.assumptions import assumption_holds
from . import pointers
from .elf_relocations import AARCH64, STUB, X86_64, Memory, UnsupportedError, is_absolute, is_branch, relocate, width
from .object_bundle import object_files as files_of

__all__ = [
    "MAPPED_IN",
    "LoadedCode",
    "MappedCode",
    "MappedFile",
    "is_supported",
    "link",
    "load",
    "map_code",
    "map_file",
]

_RELOCATABLE = 1
#: kinds of sections
_PROGRAM, _SYMBOLS, _RELOCATIONS, _ZEROS = 1, 2, 4, 8
#: kinds that can be ignored: none, string tables, and stack unwinding (kernels raise no exceptions)
_HARMLESS = {0, 3, 0x70000001}
#: flags of sections: in memory at run time, executable, thread-local
_WRITABLE, _LOADED, _CODE, _THREAD = 0x1, 0x2, 0x4, 0x400
_UNDEFINED = 0
_STUB_ALIGNMENT = 8
#: linked functions begin at lines of the cache
_LINE = 64
_PAGE = mmap.PAGESIZE
#: parts of files that are mapped begin at multiples of it: systems on aarch64 may have pages of 64 KB
MAPPED_IN = 1 << 16
#: numbers of machines in object files, by their names in Python
_MACHINES = {"x86_64": X86_64, "aarch64": AARCH64}


Key = TypeVar("Key", bound=Hashable)


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
        """Return whether the section is in memory at run time."""
        return bool(self.flags & _LOADED) and self.kind not in _HARMLESS


_HEAD = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")


class LoadedCode:
    """Functions in executable memory, which lives as long as this object."""

    __slots__ = ("__weakref__", "_memory", "addresses")

    def __init__(self, memory: mmap.mmap, addresses: dict[str, int]) -> None:
        self._memory = memory
        self.addresses = addresses


def is_supported() -> bool:
    """Return whether this system is supported; warn once if it should be but a test load fails."""
    return (
        sys.platform == "linux"
        and platform.machine() in _MACHINES
        and assumption_holds(
            "code that is written to memory, with its addresses filled in, can be made executable",
            "LLVM loads all code: a process whose kernels are on disk starts slower by tens of milliseconds",
            _runs_example,
        )
    )


def load(code_by_name: Mapping[str, bytes]) -> LoadedCode | None:
    """Load the code of functions, by name; return None if only LLVM can load some of it."""
    return _load(code_by_name) if is_supported() else None


def _load(code_by_name: Mapping[str, bytes]) -> LoadedCode | None:
    try:
        kernels = {name: [_File(name, part) for part in files_of(code)] for name, code in code_by_name.items()}
        files = [file for parts in kernels.values() for file in parts]
        code_size = _arrange(files, 0, is_code=True)
        stubs, code_size = _arrange_stubs(kernels.values(), code_size)
        size = _arrange(files, -(-code_size // _PAGE) * _PAGE, is_code=False)
        memory = mmap.mmap(-1, max(size, 1), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        for name, place in stubs.items():
            memory[place : place + len(STUB) + 8] = STUB + struct.pack("<Q", _function(name))
        for parts in kernels.values():
            for file in parts:
                file.place(memory, start, parts, stubs)
        addresses = {name: _address(name, parts, start) for name, parts in kernels.items()}
    except (UnsupportedError, struct.error, IndexError, OverflowError, ValueError, OSError):
        # no code has run yet, and nothing was written outside of the new memory
        return None
    if any([file.machine != _MACHINES.get(platform.machine()) for file in files]):
        return None
    protect = ctypes.CDLL(None).mprotect
    protect.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    if not _clear_cache(start, code_size) or protect(start, code_size, mmap.PROT_READ | mmap.PROT_EXEC):
        return None
    return LoadedCode(memory, addresses)


def _clear_cache(start: int, size: int) -> bool:
    """Let the processor see new instructions where it does not by itself; return whether it does."""
    if platform.machine() == "x86_64":
        return True
    try:
        clear = ctypes.CDLL("libgcc_s.so.1").__clear_cache
    except (OSError, AttributeError):
        return False
    clear.argtypes, clear.restype = (ctypes.c_void_p, ctypes.c_void_p), None
    clear(start, start + size)
    return True


def link(codes: Mapping[Key, bytes], name: str) -> tuple[bytes, dict[Key, int]]:
    """Return the code of functions that depend on no address, one after the other, and their places in it.

    Each object file defines a function of the same name. Those that need the address of their code or of another
    library's function, or memory of their own, are left out.
    """
    memory = bytearray()
    places: dict[Key, int] = {}
    for key, code in codes.items():
        try:
            file = _File(name, code)
            if not file.is_movable():
                continue
            size = _arrange([file], _arrange([file], 0, is_code=True), is_code=False)
            part, start = bytearray(-(-size // _LINE) * _LINE), len(memory)
            file.place(part, start, [file], {})
            found = file.find_function(name, start)
        except (UnsupportedError, struct.error, IndexError, OverflowError, ValueError):
            continue
        if found is not None:
            places[key] = found
            memory += part
    return bytes(memory), places


class MappedCode:
    """Linked code in executable memory, as long as this object lives."""

    __slots__ = ("_memory", "address")

    def __init__(self, memory: mmap.mmap) -> None:
        self._memory = memory
        self.address = pointers.address(np.frombuffer(memory, np.uint8))


#: the contents of a file, whose pages take memory once they are read
MappedFile: TypeAlias = mmap.mmap


def map_file(descriptor: int) -> MappedFile:
    """Return the contents of an open file, to be read only."""
    return mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)


def map_code(descriptor: int, place: int, size: int) -> MappedCode | None:
    """Return the linked code in an open file; None if the system does not run code from there."""
    if size <= 0:
        return None
    try:
        memory = mmap.mmap(descriptor, size, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC, offset=place)
    except (OSError, ValueError):
        return None
    return MappedCode(memory)


def _arrange_stubs(kernels: Iterable[Sequence[_File]], end: int) -> tuple[dict[str, int], int]:
    """Assign offsets to stubs for functions of the C library; return these by name, and the end of the last one.

    A branch of aarch64 reaches 128 MB, and the library may be farther away.
    """
    names = dict.fromkeys([name for parts in kernels for file in parts for name in file.functions_outside(parts)])
    stubs = {}
    for name in names:
        stubs[name] = -(-end // _STUB_ALIGNMENT) * _STUB_ALIGNMENT
        end = stubs[name] + len(STUB) + 8
    return stubs, end


def _address(name: str, files: Sequence[_File], start: int) -> int:
    """Return the address of a function in one of some files."""
    for file in files:
        found = file.find_function(name, start)
        if found is not None:
            return found
    raise UnsupportedError


def _arrange(files: list[_File], end: int, is_code: bool) -> int:
    """Assign an offset to each section of code or of data; return the end of the last one."""
    for file in files:
        for number, section in enumerate(file.sections):
            if section.is_loaded and bool(section.flags & _CODE) is is_code:
                alignment = max(section.alignment, 1)
                end = -(-end // alignment) * alignment
                file.places[number] = end
                end += section.size
    return end


class _File:
    """An object file that is being loaded."""

    def __init__(self, name: str, code: bytes) -> None:
        self.name = name
        self._code = code
        ident, kind, machine, _, _, _, offset, _, _, _, _, size, count, _ = _HEAD.unpack_from(code)
        if ident[:6] != b"\x7fELF\x02\x01" or (kind, size) != (_RELOCATABLE, _SECTION.size):
            raise UnsupportedError
        if machine not in _MACHINES.values():
            raise UnsupportedError
        self.machine: int = machine
        self.sections = [_Section(*_SECTION.unpack_from(code, offset + size * number)) for number in range(count)]
        #: offsets of sections in memory, by their numbers
        self.places: dict[int, int] = {}
        for section in self.sections:
            if section.is_loaded:
                fits = section.kind == _ZEROS or section.offset + section.size <= len(code)
                known = section.kind in (_PROGRAM, _ZEROS) and not section.flags & _THREAD
                if not fits or not known or section.alignment > _PAGE:
                    raise UnsupportedError
            elif section.kind not in _HARMLESS | {_PROGRAM, _SYMBOLS, _RELOCATIONS}:
                raise UnsupportedError

    def place(self, memory: Memory, start: int, files: Sequence[_File], stubs: Mapping[str, int]) -> None:
        """Copy the sections to memory at an address and relocate them; symbols may be defined in other files.

        ``stubs`` has the offsets of code that calls functions of the C library.
        """
        for number, place in self.places.items():
            section = self.sections[number]
            if section.kind == _PROGRAM:
                memory[place : place + section.size] = self._code[section.offset : section.offset + section.size]
        for section in self.sections:
            if section.kind == _RELOCATIONS and section.info in self.places:
                self._relocate(section, memory, start, files, stubs)

    def is_movable(self) -> bool:
        """Return whether the code is the same at any address, and all its memory is constant."""
        for section in self.sections:
            if section.is_loaded and (section.flags & _WRITABLE or section.kind == _ZEROS or section.alignment > _LINE):
                return False
            if section.kind == _RELOCATIONS and self.sections[section.info].is_loaded:
                symbols = self.sections[section.link]
                for offset in range(section.offset, section.offset + section.size, _RELOCATION.size):
                    _, kind_and_symbol, _ = _RELOCATION.unpack_from(self._code, offset)
                    place = symbols.offset + _SYMBOL.size * (kind_and_symbol >> 32)
                    target = _SYMBOL.unpack_from(self._code, place)[3]
                    is_inside = target < len(self.sections) and self.sections[target].is_loaded
                    if is_absolute(self.machine, kind_and_symbol & 0xFFFFFFFF) or not is_inside:
                        return False
        return True

    def find_function(self, wanted: str, start: int) -> int | None:
        """Return the address of a function; None if this file does not define it."""
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

    def _relocate(
        self, table: _Section, memory: Memory, start: int, files: Sequence[_File], stubs: Mapping[str, int]
    ) -> None:
        symbols, place, code = self.sections[table.link], self.places[table.info], self._code
        room = self.sections[table.info].size
        for offset in range(table.offset, table.offset + table.size, _RELOCATION.size):
            where, kind_and_symbol, addend = _RELOCATION.unpack_from(code, offset)
            kind = kind_and_symbol & 0xFFFFFFFF
            value = self._value(symbols, kind_and_symbol >> 32, start, files, stubs) + addend
            if where + width(self.machine, kind) > room:
                raise UnsupportedError
            where += place
            relocate(self.machine, kind, memory, where, value, start + where)

    def _value(self, table: _Section, number: int, start: int, files: Sequence[_File], stubs: Mapping[str, int]) -> int:
        name, _, _, section, value, _ = _SYMBOL.unpack_from(self._code, table.offset + _SYMBOL.size * number)
        if section in self.places:
            return start + self.places[section] + int(value)
        if section != _UNDEFINED:
            raise UnsupportedError
        wanted = self._name(table, name)
        for file in files:
            found = None if file is self else file.find_function(wanted, start)
            if found is not None:
                return found
        return start + stubs[wanted] if wanted in stubs else _function(wanted)

    def functions_outside(self, files: Sequence[_File]) -> list[str]:
        """Return the names of functions to which the code branches and that none of some files defines."""
        found = []
        for section in self.sections:
            if self.machine != AARCH64 or section.kind != _RELOCATIONS or section.info not in self.places:
                continue
            symbols = self.sections[section.link]
            for offset in range(section.offset, section.offset + section.size, _RELOCATION.size):
                _, kind_and_symbol, _ = _RELOCATION.unpack_from(self._code, offset)
                place = symbols.offset + _SYMBOL.size * (kind_and_symbol >> 32)
                name, _, _, target, _, _ = _SYMBOL.unpack_from(self._code, place)
                if is_branch(self.machine, kind_and_symbol & 0xFFFFFFFF) and target == _UNDEFINED:
                    wanted = self._name(symbols, name)
                    if all([file is self or file.find_function(wanted, 0) is None for file in files]):
                        found.append(wanted)
        return found


def _function(name: str) -> int:
    """Return the address of a function of the C library, which compilers call to copy memory, for example."""
    found = getattr(ctypes.CDLL(None), name, None)
    address = ctypes.cast(found, ctypes.c_void_p).value if found is not None else None
    if address is None:
        raise UnsupportedError
    return address


# -- the self-test


def _runs_example() -> bool:
    """Return whether an example loads, and its function finds its data."""
    found = _load({"answer": _example()})
    return found is not None and ctypes.CFUNCTYPE(ctypes.c_int64)(found.addresses["answer"])() == 42


#: for each machine: the code of the example, its relocations (place, kind, addend), and the kind of an address
_EXAMPLES = {
    X86_64: ("488b05 00000000 488b00 c3", [(3, 2, 8 - 4)], 1),
    AARCH64: ("00000090 000040f9 000040f9 c0035fd6", [(0, 275, 8), (4, 286, 8)], 257),
}


def _example() -> bytes:
    """Return an object file whose function reads the address of a number and returns the number::

    answer:  mov rax, [rip + second]      answer:  adrp x0, second         first:   .quad 42
             mov rax, [rax]                        ldr x0, [x0, second]    second:  .quad first
             ret                                   ldr x0, [x0]
                                                   ret
    """
    machine = _MACHINES[platform.machine()]
    text, places, kind = _EXAMPLES[machine]
    code = bytes.fromhex(text)
    data = struct.pack("<qq", 42, 0)
    names = b"\0answer\0"
    # the second symbol is the beginning of the data, the third the function
    symbols = bytes(_SYMBOL.size) + _SYMBOL.pack(0, 3, 0, 2, 0, 0) + _SYMBOL.pack(1, 0x12, 0, 1, 0, len(code))
    in_code = b"".join([_RELOCATION.pack(place, 1 << 32 | kind, addend) for place, kind, addend in places])
    in_data = _RELOCATION.pack(8, 1 << 32 | kind, 0)
    parts = code, data, in_code, in_data, symbols, names
    offsets = [_HEAD.size + sum([len(part) for part in parts[:number]]) for number in range(len(parts) + 1)]

    def section(number: int, kind: int, flags: int = 0, link: int = 0, info: int = 0) -> bytes:
        return _SECTION.pack(0, kind, flags, 0, offsets[number], len(parts[number]), link, info, 8, 0)

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
    head = _HEAD.pack(ident, _RELOCATABLE, machine, 1, 0, 0, offsets[-1], 0, *layout)
    return b"".join([head, *parts, *sections])
