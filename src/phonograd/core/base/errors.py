"""The exceptions of the library and the finder of the user's source line.

::

    RuntimeError
      MXNetError              every failed check (the name old scripts catch)
        MissingFile           a file that is not there; a FileNotFoundError, too
        OutOfMemory           a value for which there is no memory; a MemoryError, too
        TooLarge              a value that no computer can store
    RuntimeWarning
      NoCompilerWarning       kernels cannot be compiled, so NumPy evaluates everything
      AssumptionWarning       CPython, NumPy or llvmlite is not as assumed, so a slower way is taken

Errors that Python has a better name for (``ValueError``, ``TypeError``, ``IndexError``,
``AssertionError``) are raised under that name, exactly where MXNet did so.
"""

from __future__ import annotations

import os
import sys
import threading
import types
from typing import Any

from .hot import hot

__all__ = [
    "USER_LINE",
    "AssumptionWarning",
    "MXNetError",
    "MemoryLimitWarning",
    "MissingFile",
    "NoCompilerWarning",
    "OutOfMemory",
    "TooLarge",
    "check_bounds",
    "format_shape",
    "nearest",
    "unsupported_operand",
    "user_line",
]

_PACKAGE_DIRECTORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep


#: source lines by the identity of code, whose hashes take long, and by instruction: Python counts the lines before an
#: instruction each time that it is asked
_lines: dict[int, dict[int, tuple[str, int]]] = {}
#: the lines of all code of this package
_NO_LINES: dict[int, tuple[str, int]] = {}
#: the code whose identities are known
_codes: list[types.CodeType] = []
_MOST_CODES = 10_000


class MXNetError(RuntimeError):
    """A check of the library failed; the text says which one and what to do."""

    # tracebacks and pickles show the public name
    __module__ = "phonograd.base"


class MissingFile(FileNotFoundError, MXNetError):
    """A file, or the directory that it shall be in, is not there."""


class OutOfMemory(MXNetError, MemoryError):
    """There is no memory for a value."""


class TooLarge(MXNetError):
    """A value has more bytes than an address can count."""

    def __init__(self, size: str, operator: str) -> None:
        super().__init__(f"{size}, in operator {operator}")
        self._size = size

    def inside(self, operator: str) -> TooLarge:
        """Return the error with the name of the operator that the user called, and which uses others."""
        return TooLarge(self._size, operator)

    def __reduce__(self) -> Any:
        return MXNetError, self.args


class NoCompilerWarning(RuntimeWarning):
    """Kernels cannot be compiled here, so NumPy evaluates everything. Warned once, when a value is first asked for."""


class MemoryLimitWarning(RuntimeWarning):
    """An evaluation takes more memory than ``settings.memory_limit_bytes``, whatever is computed again."""


class AssumptionWarning(RuntimeWarning):
    """CPython, NumPy or llvmlite is not as a fast path assumes, so a slower one is taken. Warned once of each."""


def format_shape(shape: tuple[int, ...] | None) -> str:
    """Return a shape as MXNet prints it in messages.

    >>> format_shape((2, 3))
    '[2,3]'
    """
    if shape is None:
        return "None"
    return "[" + ",".join(map(str, shape)) + "]"


class _UserLine(threading.local):
    """The user's source line for which a helper thread works (:mod:`phonograd.core.run.background`)."""

    line: tuple[str, int] | None = None


USER_LINE = _UserLine()


@hot
def user_line() -> tuple[str, int] | None:
    """Return (file, line) of the innermost caller outside this package, or None.

    In a helper thread, return those of the thread that waits for it.
    """
    # this frame itself is one of the package, and machine code has none
    frame: Any = sys._getframe()
    while frame is not None:
        code = frame.f_code
        lines = _lines.get(id(code))
        if lines is None:
            lines = _new_lines(code)
        if lines is not _NO_LINES:
            found = lines.get(frame.f_lasti)
            return _source_line(frame, lines) if found is None else found
        frame = frame.f_back
    return USER_LINE.line


def _source_line(frame: types.FrameType, lines: dict[int, tuple[str, int]]) -> tuple[str, int]:
    """Return the file and the number of the line that a frame executes, and remember it."""
    found = lines[frame.f_lasti] = frame.f_code.co_filename, frame.f_lineno
    return found


def _new_lines(code: types.CodeType) -> dict[int, tuple[str, int]]:
    """Return where the lines of code are remembered: nowhere if it is code of this package."""
    if len(_codes) > _MOST_CODES:
        _lines.clear()
        # other code may be at the same address
        _codes.clear()
    found = _NO_LINES if code.co_filename.startswith((_PACKAGE_DIRECTORY, "<phonograd")) else {}
    _codes.append(code)
    _lines[id(code)] = found
    return found


def nearest(name: str, candidates: list[str]) -> str:
    """Return a hint `` (did you mean 'x'?)`` for a misspelt name, or an empty string.

    >>> nearest("keepdim", ["axis", "keepdims"])
    " (did you mean 'keepdims'?)"
    >>> nearest("dim", ["axis", "keepdims"])
    " (did you mean 'axis'?)"
    """
    import difflib

    # lazy import: only errors need the table
    from .foreign_names import ARGUMENTS

    plain = name.lower().replace("_", "")
    same = [candidate for candidate in candidates if candidate.lower().replace("_", "") == plain]
    same = same or [candidate for candidate in ARGUMENTS.get(name, ()) if candidate in candidates]
    found = same or difflib.get_close_matches(name, candidates, n=1)
    return f" (did you mean {found[0]!r}?)" if found else ""


def unsupported_operand(value: object) -> TypeError:
    """Return the error about an operand that is neither an array nor a number, with the way to pass it.

    >>> unsupported_operand([1, 2])
    TypeError("type <class 'list'> not supported; convert it with mx.nd.array or mx.np.array first")
    """
    advice = ""
    if hasattr(value, "list_data"):
        advice = "; the array of a parameter is parameter.data()"
    elif hasattr(value, "list_arguments"):
        advice = "; a symbol has no values: combine it with symbols and numbers, or bind it to arrays first"
    elif hasattr(value, "asnumpy"):
        advice = "; name the array with mx.sym.var, and pass it when the symbol is bound"
    elif isinstance(value, (list, tuple)) or hasattr(value, "__array__"):
        advice = "; convert it with mx.nd.array or mx.np.array first"
    return TypeError(f"type {type(value)} not supported{advice}")


def check_bounds(operator: str, word: str, value: float, low: float = 0.0, high: float = 1.0) -> None:
    """Raise MXNet's error if a parameter of an operator is outside its range."""
    if not low <= value <= high:
        raise MXNetError(
            f"value {value:g} for Parameter {word} exceed bound [{low:g},{high:g}], in operator "
            f'{operator}(name="", {word}="{value:g}")'
        )
