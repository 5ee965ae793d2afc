"""Bundles: machine code of one kernel in several object files, because its parts are compiled in different ways.

Most of a kernel with loops of its own says where things lie, and some *inner* functions do the work
(:func:`~phonograd.core.kernels.routine.module` marks them). Compiled quickly, the latter take many times as long to
run, and compiled in full, the former take most of the compiler's time. So where a kernel is compiled quickly its inner
functions are compiled in full, as a module of their own, which another thread may do.

A bundle of one object file is that file.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence

from ..kernels.launch import INNER

__all__ = ["bundled", "divided", "files"]

_MAGIC = b"phonograd bundle\n"
_SIZE = struct.Struct("<Q")
_HIDDEN = "define internal "


def divided(text: str) -> tuple[str, str] | None:
    """Return a module without its inner functions and one with nothing else; None if there are none.

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
    >>> outer, inner = divided(text)
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


def bundled(codes: Sequence[bytes]) -> bytes:
    """Return object files as one piece of code.

    >>> files(bundled([b"one", b"two"])), files(bundled([b"one"]))
    ([b'one', b'two'], [b'one'])
    """
    return codes[0] if len(codes) == 1 else b"".join([_MAGIC, *[_SIZE.pack(len(code)) + code for code in codes]])


def files(code: bytes) -> list[bytes]:
    """Return the object files of a piece of code; raises struct.error where it is cut off."""
    if not code.startswith(_MAGIC):
        return [code]
    found, place = [], len(_MAGIC)
    while place < len(code):
        (size,) = _SIZE.unpack_from(code, place)
        place += _SIZE.size
        found.append(code[place : place + size])
        place += size
    return found
