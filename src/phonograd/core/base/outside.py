"""Tell errors from outside apart from those of the code that was running.

Python runs signal handlers between any two instructions of the main thread, and ``PyThreadState_SetAsyncExc`` raises
exceptions in any thread. Both may raise any exception: ``TimeoutError`` is an ``OSError``. Such an error belongs to the
user, so no ``except`` clause of the library may take it for a failure of the operation inside its ``try``. Two rules
ensure that:

* Work that can fail, of which a failure means something else than an error (import the compiler, read and write files,
  start threads), runs in helper threads, which handlers never interrupt (:mod:`phonograd.core.run.background`).
* Code that has to run in the thread of the user asks :func:`is_from_outside` before it keeps or replaces an error.
"""

from __future__ import annotations

import sys
from opcode import opmap
from types import FrameType, TracebackType
from typing import Any

__all__ = ["is_from_outside", "is_interrupting"]

_RAISE = opmap["RAISE_VARARGS"]


def is_from_outside(error: BaseException) -> bool:
    """Return whether an error that was caught comes from a signal handler, or was raised in this thread by another one.

    The traceback shows it. A signal handler gets the interrupted frame as an argument, and that frame precedes its own.
    An exception that another thread raises here is made from its class alone, by no ``raise`` statement. (So is
    ``MemoryError``; it is no failure of one operation, either.)

    >>> import signal
    >>> def handler(number, frame):
    ...     raise TimeoutError("too late")
    >>> before = signal.signal(signal.SIGTERM, handler)
    >>> for function in (lambda: signal.raise_signal(signal.SIGTERM), lambda: open("/nowhere")):
    ...     try:
    ...         function()
    ...     except OSError as error:
    ...         is_from_outside(error)
    True
    False
    >>> _ = signal.signal(signal.SIGTERM, before)
    """
    trace, before = error.__traceback__, None
    last: TracebackType | None = None
    while trace is not None:
        frame = trace.tb_frame
        if before is not None and _takes(frame, before):
            return True
        before, last, trace = frame, trace, trace.tb_next
    return not error.args and last is not None and last.tb_frame.f_code.co_code[last.tb_lasti] != _RAISE


def is_interrupting(subject: object) -> bool:
    """Return whether a signal handler runs in this thread that has interrupted a method of an object.

    Functions whose first argument is the object count as its methods.
    """
    frame: FrameType | None = sys._getframe(1)
    is_below = False
    while frame is not None:
        caller = frame.f_back
        if is_below:
            code = frame.f_code
            if code.co_argcount and frame.f_locals.get(code.co_varnames[0]) is subject:
                return True
        elif caller is not None and _takes(frame, caller):
            is_below = True
        frame = caller
    return False


def _takes(frame: FrameType, caller: FrameType) -> bool:
    """Return whether the function of a frame got the frame of its caller as an argument."""
    code = frame.f_code
    values: dict[str, Any] = frame.f_locals
    # the names of all parameters come first, `*args` included
    count = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4)
    given = [values.get(name) for name in code.co_varnames[:count]]
    return any([value is caller or (type(value) is tuple and any([v is caller for v in value])) for value in given])
