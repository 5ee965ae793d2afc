"""IPython and Jupyter: which shell runs the program, and tracebacks without the frames of this library.

IPython is never imported here: a program runs in it only if it has been imported. ``phonograd/__init__.py`` calls
:func:`shorten_tracebacks`; displays that replace themselves ask :func:`notebook`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import TracebackType
from typing import Any

__all__ = ["notebook", "shorten_tracebacks", "without_library"]

_PACKAGE = str(Path(__file__).parents[2])
#: files of functions that are generated at run time
_GENERATED = "<phonograd "


def _shell() -> Any:
    """Return the running shell of IPython, or None."""
    found = sys.modules.get("IPython")
    return found.get_ipython() if found is not None and hasattr(found, "get_ipython") else None


def notebook() -> Any:
    """Return the shell of a Jupyter kernel, which can show pictures and replace them, or None."""
    shell = _shell()
    return shell if shell is not None and getattr(shell, "kernel", None) is not None else None


def without_library(trace: TracebackType | None) -> TracebackType | None:
    """Return a traceback without the frames of this library; the frames of the program stay."""
    frames = []
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not file.startswith((_PACKAGE, _GENERATED)):
            frames.append(trace)
        trace = trace.tb_next
    kept = None
    for one in reversed(frames):
        kept = TracebackType(kept, one.tb_frame, one.tb_lasti, one.tb_lineno)
    return kept


def _show(
    shell: Any, kind: type[BaseException], error: BaseException, trace: Any, tb_offset: int | None = None
) -> None:
    """Show an error as IPython does, but without frames of this library unless ``%xmode Verbose`` asks for all."""
    if getattr(shell.InteractiveTB, "mode", "") != "Verbose":
        trace = without_library(trace)
        earlier, seen = error.__cause__ or error.__context__, {id(error)}
        while earlier is not None and id(earlier) not in seen:
            seen.add(id(earlier))
            earlier.__traceback__ = without_library(earlier.__traceback__)
            earlier = earlier.__cause__ or earlier.__context__
    shell.showtraceback((kind, error, trace), tb_offset=tb_offset)


def shorten_tracebacks() -> None:
    """Make a shell of IPython hide the frames of this library, unless the program has a handler of its own."""
    shell = _shell()
    if shell is not None and not shell.custom_exceptions:
        shell.set_custom_exc((Exception,), _show)
