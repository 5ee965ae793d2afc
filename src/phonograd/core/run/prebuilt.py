"""Prebuilt kernels: machine code that comes with the package, so that a new computer need not compile it.

Takes the LLVM text of a kernel from :mod:`~phonograd.core.run.objects` and returns its object file, if the package has
one. ``python -m scripts.prebuild`` compiles the kernels that eager programs need most for each level of processors
(:mod:`~phonograd.core.run.cpu_levels`). An entry is found by the digest of its text, so it can never be stale: where
the sources have changed, the text has no entry and is compiled. Writing a text takes milliseconds. So kernels also have
entries under their descriptions and the digest of all sources that texts depend on. If one of these sources has
changed, no description is found, and texts are written as before.

A file is an index of digests, places and sizes, followed by object files, each compressed.
"""

from __future__ import annotations

import functools
import hashlib
import struct
import zlib
from collections.abc import Mapping
from pathlib import Path

from .cpu_levels import FEATURES

__all__ = ["PLACEHOLDER", "find", "find_described", "has_kernels", "pack", "path_of", "structure_digest", "text_digest"]

#: levels that have a file, the highest first
LEVELS = ("x86-64-v4", "x86-64-v3")
#: stands for the name of the function in texts and object files; names of the same length replace it
PLACEHOLDER = "prebuilt" * 8 + "k"

_MAGIC = b"phonograd kernels 1\n"
_COUNT = struct.Struct("<I")
_ENTRY = struct.Struct("<16sII")


def path_of(level: str) -> Path:
    """Return the path of the file of a level."""
    return Path(__file__).with_name(f"prebuilt-{level}.bin")


def text_digest(text: str) -> bytes:
    """Return the digest of a module's text, in which the placeholder stands for the name of the function."""
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def structure_digest(description: str, writers: str) -> bytes:
    """Return the digest of a kernel's description, given that of the sources which write its text."""
    return hashlib.blake2b(f"{writers}\n{description}".encode(), digest_size=16).digest()


def pack(codes: Mapping[bytes, bytes], texts: Mapping[bytes, bytes] | None = None) -> bytes:
    """Return the contents of a file, given object files by the digests of their texts.

    ``texts`` has the digests of texts by those of the descriptions of kernels.

    >>> contents = pack({b"0123456789abcdef": b"code"})
    >>> _read(contents)[b"0123456789abcdef"]
    (48, 12)
    """
    packed = {key: zlib.compress(codes[key], 9) for key in sorted(codes)}
    texts = texts or {}
    place = len(_MAGIC) + _COUNT.size + _ENTRY.size * (len(packed) + len(texts))
    places: dict[bytes, int] = {}
    for key, code in packed.items():
        places[key] = place
        place += len(code)
    index = [_ENTRY.pack(key, places[key], len(code)) for key, code in packed.items()]
    index += [_ENTRY.pack(key, places[texts[key]], len(packed[texts[key]])) for key in sorted(texts)]
    return b"".join([_MAGIC, _COUNT.pack(len(index)), *index, *packed.values()])


def has_kernels(features: frozenset[str]) -> bool:
    """Return whether there are prebuilt kernels for processors with these features."""
    return bool(_file(features)[1])


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


def _code(key: bytes, features: frozenset[str], name: str) -> bytes | None:
    """Return the object file under a digest, with the name of its function."""
    contents, index = _file(features)
    entry = index.get(key)
    if entry is None:
        return None
    place, size = entry
    return zlib.decompress(contents[place : place + size]).replace(PLACEHOLDER.encode(), name.encode())


@functools.cache
def _file(features: frozenset[str]) -> tuple[bytes, dict[bytes, tuple[int, int]]]:
    """Return the contents and the index of the file for the highest level that has all its features here."""
    for level in LEVELS:
        # the features that only name a mode, or that no processor of the level lacks, are not always reported
        if FEATURES[level] - {"64bit", "crc32", "cx8", "fxsr", "mmx", "sahf", "xsave"} <= features:
            try:
                contents = path_of(level).read_bytes()
            except OSError:
                break
            return contents, _read(contents)
    return b"", {}


def _read(contents: bytes) -> dict[bytes, tuple[int, int]]:
    if not contents.startswith(_MAGIC):
        return {}
    (count,) = _COUNT.unpack_from(contents, len(_MAGIC))
    start = len(_MAGIC) + _COUNT.size
    entries = [_ENTRY.unpack_from(contents, start + number * _ENTRY.size) for number in range(count)]
    return {key: (place, size) for key, place, size in entries}
