"""Bundles: one kernel in several object files, because its parts are compiled at different levels.

In a library kernel, outer functions compute addresses and *inner* functions do the work (the text marks them with
:data:`phonograd.core.kernels.launch.INNER`). Inner functions run many times slower if they are compiled quickly. Outer
functions take most of the compiler's time if they are compiled in full. So a quickly compiled kernel has its inner
functions in a second module, which is compiled in full, possibly by another thread.

A bundle of one object file is that file.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence

from ..kernels.launch import INNER

__all__ = ["bundle", "object_files", "split_module"]

_MAGIC = b"phonograd bundle\n"
_SIZE = struct.Struct("<Q")
_HIDDEN = "define internal "


def split_module(text: str) -> tuple[str, str] | None:
    """Split a module into its outer and its inner functions; return None if there are no inner ones.

    >>> text = '''declare float @llvm.fma.f32(float, float, float)
    ... ; inner
    ... define internal void @tile(ptr %out) nounwind {
    ...   ret void
    ... }
    ... define void @kernel(ptr %out) nounwind {
    ...   call void @tile(ptr %out)
    ...   ret void
    ... }
    ... '''
    >>> outer, inner = split_module(text)
    >>> print(outer)
    declare float @llvm.fma.f32(float, float, float)
    declare void @tile(ptr) nounwind
    define void @kernel(ptr %out) nounwind {
      call void @tile(ptr %out)
      ret void
    }
    <BLANKLINE>
    >>> print(inner)
    declare float @llvm.fma.f32(float, float, float)
    define void @tile(ptr %out) nounwind {
      ret void
    }
    <BLANKLINE>
    """
    head, *pieces = text.split(INNER)
    if not pieces:
        return None
    outer, inner = [head], [line for line in head.splitlines(keepends=True) if line.startswith("declare ")]
    for piece in pieces:
        end = piece.index("\n}\n") + len("\n}\n")
        first = piece.partition(" {\n")[0]
        assert first.startswith(_HIDDEN), first
        outer += ["declare ", re.sub(r" %\w+", "", first[len(_HIDDEN) :]), "\n", piece[end:]]
        inner += ["define ", piece[len(_HIDDEN) : end]]
    return "".join(outer), "".join(inner)


def bundle(codes: Sequence[bytes]) -> bytes:
    """Join object files into one piece of code.

    >>> object_files(bundle([b"one", b"two"])), object_files(bundle([b"one"]))
    ([b'one', b'two'], [b'one'])
    """
    return codes[0] if len(codes) == 1 else b"".join([_MAGIC, *[_SIZE.pack(len(code)) + code for code in codes]])


def object_files(code: bytes) -> list[bytes]:
    """Return the object files of a piece of code; raise struct.error if it is truncated."""
    if not code.startswith(_MAGIC):
        return [code]
    found, place = [], len(_MAGIC)
    while place < len(code):
        (size,) = _SIZE.unpack_from(code, place)
        place += _SIZE.size
        found.append(code[place : place + size])
        place += size
    return found
