"""Spawn: start a process while the program goes on.

Used by :mod:`phonograd.core.plan.planner_process`. :func:`os.posix_spawn` keeps the interpreter until the new program
is loaded, which takes tens of milliseconds if the cores are busy: all threads of the program stop. The same function of
the C library, called by ctypes, does not. See docs/decisions/0046.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence

__all__ = ["spawn"]

#: enough for the list of files of a new process, whose size depends on the C library: 80 bytes in GNU's, a pointer in
#: that of macOS
_ACTIONS_BYTES = 512


def spawn(command: Sequence[str], files: Sequence[int]) -> int:
    """Start a process with some files as its standard files, and return its number.

    Parameters
    ----------
    command
        The path of a program, and all its arguments.
    files
        Descriptors for the places 0, 1 and 2. They must be other numbers.
    """
    library = ctypes.CDLL(None)
    actions, process = ctypes.create_string_buffer(_ACTIONS_BYTES), ctypes.c_int()
    arguments = [os.fsencode(each) for each in command]
    variables = [name + b"=" + value for name, value in os.environb.items()]
    lists = [(ctypes.c_char_p * (len(each) + 1))(*each, None) for each in (arguments, variables)]
    _check(library.posix_spawn_file_actions_init(actions))
    try:
        for place, file in enumerate(files):
            _check(library.posix_spawn_file_actions_adddup2(actions, file, place))
        _check(library.posix_spawn(ctypes.byref(process), arguments[0], actions, None, *lists))
    finally:
        library.posix_spawn_file_actions_destroy(actions)
    return process.value


def _check(code: int) -> None:
    """Raise the error that a function of the C library has returned."""
    if code:
        raise OSError(code, os.strerror(code))
