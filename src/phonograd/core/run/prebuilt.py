"""Prebuilt kernels: machine code that comes with the package, so that a new computer need not compile it.

Takes the LLVM text of a kernel from :mod:`~phonograd.core.run.objects` and returns its object file, if the package has
one. ``python -m scripts.prebuild`` compiles the kernels that eager programs need most for two levels of x86-64
(:mod:`~phonograd.core.run.cpu_levels`), and for aarch64. An entry is found by the digest of its text, so it can never
be stale: where the sources have changed, the text has no entry and is compiled. Writing a text takes milliseconds. So
kernels also have entries under their descriptions and the digest of all sources that texts depend on. If one of these
sources has changed, no description is found, and texts are written as before.

A file is an index of digests, places and sizes, followed by object files, each compressed, and by *linked* code: the
loops of elementwise operators, which new programs need one after the other. They depend on no address, so this part of
the file is mapped as it is, and a loop is ready when its place is known.
"""

from __future__ import annotations

import functools
import hashlib
import struct
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from . import elf_loader
from .cpu_levels import FEATURES

__all__ = [
    "NEEDED",
    "PLACEHOLDER",
    "Index",
    "find",
    "find_described",
    "find_linked",
    "has_kernels",
    "pack",
    "path_of",
    "read_index",
    "structure_digest",
    "text_digest",
]

#: the features that code of each file needs, the highest levels first; those that only name a mode, or that all
#: processors of the level have, are not always reported
NEEDED = {
    **{
        level: FEATURES[level] - {"64bit", "crc32", "cx8", "fxsr", "mmx", "sahf", "xsave"}
        for level in ("x86-64-v4", "x86-64-v3")
    },
    "aarch64": frozenset({"neon"}),
}
#: stands for the name of the function in texts and object files; names of the same length replace it
PLACEHOLDER = "prebuilt" * 8 + "k"

_MAGIC = b"phonograd kernels 2\n"
#: the number of entries of object files and of linked code, and the place of the latter
_COUNTS = struct.Struct("<III")
_ENTRY = struct.Struct("<16sII")


class Index(NamedTuple):
    """Where the code of kernels is in a file, by digests."""

    objects: Mapping[bytes, tuple[int, int]]
    """Places and sizes of compressed object files."""
    linked: Mapping[bytes, int]
    """Places of functions in linked code."""
    linked_at: int
    """Where linked code begins."""


class _File(NamedTuple):
    """A file that is open as long as the process lives."""

    contents: bytes | elf_loader.MappedFile
    """Its index and the compressed object files. Mapped where code is: pages that are never read take no memory."""
    places: Index
    linked: elf_loader.MappedCode | None
    """Its linked code, if it is in memory."""


def path_of(level: str) -> Path:
    """Return the path of the file of a level."""
    return Path(__file__).with_name(f"prebuilt-{level}.bin")


def text_digest(text: str) -> bytes:
    """Return the digest of a module's text, in which the placeholder stands for the name of the function."""
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def structure_digest(description: str, writers: str) -> bytes:
    """Return the digest of a kernel's description, given that of the sources which write its text."""
    return hashlib.blake2b(f"{writers}\n{description}".encode(), digest_size=16).digest()


def pack(
    codes: Mapping[bytes, bytes],
    texts: Mapping[bytes, bytes] | None = None,
    loops: Mapping[bytes, bytes] | None = None,
) -> bytes:
    """Return the contents of a file, given object files by the digests of their texts.

    ``texts`` has the digests of texts by those of the descriptions of kernels. ``loops`` are object files to be linked:
    they define the function :data:`PLACEHOLDER` and depend on no address.

    >>> contents = pack({b"0123456789abcdef": b"code"})
    >>> read_index(contents).objects[b"0123456789abcdef"]
    (56, 12)
    """
    packed = {key: zlib.compress(codes[key], 9) for key in sorted(codes)}
    code, linked = elf_loader.link(dict(sorted((loops or {}).items())), PLACEHOLDER)
    others = sorted((texts or {}).items())
    named = [(key, text) for key, text in others if text in packed]
    linked = {**linked, **{key: linked[text] for key, text in others if text in linked}}
    place = len(_MAGIC) + _COUNTS.size + _ENTRY.size * (len(packed) + len(named) + len(linked))
    places: dict[bytes, int] = {}
    for key, each in packed.items():
        places[key] = place
        place += len(each)
    linked_at = -(-place // elf_loader.MAPPED_IN) * elf_loader.MAPPED_IN
    index = [_ENTRY.pack(key, places[key], len(each)) for key, each in packed.items()]
    index += [_ENTRY.pack(key, places[text], len(packed[text])) for key, text in named]
    counts = _COUNTS.pack(len(index), len(linked), linked_at)
    index += [_ENTRY.pack(key, at, 0) for key, at in linked.items()]
    head = b"".join([_MAGIC, counts, *index, *packed.values()])
    return head.ljust(linked_at, b"\0") + code if code else head


def has_kernels(features: frozenset[str]) -> bool:
    """Return whether there are prebuilt kernels for processors with these features."""
    return bool(_file(features).places.objects)


def find(text: str, features: frozenset[str], name: str = PLACEHOLDER) -> bytes | None:
    """Return the object file of a module; None if there is none for processors with these features.

    ``name`` is that of the function, if it differs from process to process.
    """
    if len(name) != len(PLACEHOLDER) or not has_kernels(features):
        return None
    return _code(text_digest(text.replace(name, PLACEHOLDER)), features, name)


def find_described(description: str, writers: str, features: frozenset[str], name: str) -> bytes | None:
    """Return the object file of a kernel by its description, given the digest of the sources that write texts."""
    return _code(structure_digest(description, writers), features, name) if len(name) == len(PLACEHOLDER) else None


def find_linked(key: bytes, features: frozenset[str]) -> int | None:
    """Return the address of a loop by the digest of its text or description; None if it is not in linked code."""
    file = _file(features)
    place = file.places.linked.get(key)
    return None if place is None or file.linked is None else file.linked.address + place


def _code(key: bytes, features: frozenset[str], name: str) -> bytes | None:
    """Return the object file under a digest, with the name of its function."""
    file = _file(features)
    entry = file.places.objects.get(key)
    if entry is None:
        return None
    place, size = entry
    return zlib.decompress(file.contents[place : place + size]).replace(PLACEHOLDER.encode(), name.encode())


@functools.cache
def _file(features: frozenset[str]) -> _File:
    """Return the file for the highest level that has all its features here."""
    for level, needed in NEEDED.items():
        if needed <= features:
            try:
                return _open(path_of(level))
            except OSError:
                break
    return _File(b"", Index({}, {}, 0), None)


def _open(path: Path) -> _File:
    with path.open("rb") as file:
        if not elf_loader.is_supported():
            contents = file.read()
            return _File(contents, read_index(contents), None)
        mapped, code = elf_loader.map_file(file.fileno()), None
        index = read_index(mapped)
        if index.linked:
            code = elf_loader.map_code(file.fileno(), index.linked_at, len(mapped) - index.linked_at)
        return _File(mapped, index, code)


def read_index(contents: bytes | elf_loader.MappedFile) -> Index:
    """Return the index of a file; an empty one if it is of another version."""
    if contents[: len(_MAGIC)] != _MAGIC:
        return Index({}, {}, 0)
    count, linked, linked_at = _COUNTS.unpack_from(contents, len(_MAGIC))
    start = len(_MAGIC) + _COUNTS.size
    entries = [_ENTRY.unpack_from(contents, start + number * _ENTRY.size) for number in range(count + linked)]
    objects = {key: (place, size) for key, place, size in entries[:count]}
    return Index(objects, {key: place for key, place, _ in entries[count:]}, linked_at)
