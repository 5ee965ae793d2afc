"""Threads: the thread whose trace operator calls of machine code add to, and the lock that hands arrays over.

Takes functions of machine code from :mod:`phonograd.core.array.fastcall.native_install`, once they are compiled; hands
them to :mod:`phonograd.core.trace.trace`, :mod:`phonograd.core.array.handle` and :mod:`phonograd.core.array.call`.
Machine code knows the trace of one thread at a time: the last one that was made current. Calls of other threads are
Python functions, which make their own trace current. See docs/decisions/0012.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from ..base import fork

if TYPE_CHECKING:
    from ..graph.node import Node
    from ..graph.operator import Operator
    from .trace import Trace

__all__ = ["HANDOVER", "MACHINE_CODE", "Leaving", "Pairs"]

#: held for the few assignments that make a handle name another node, where another thread may do the same. A reader
#: without the lock reads the node first, then the trace; a writer writes the trace first, then the node
HANDOVER = threading.RLock()
fork.register_lock("handover of arrays", HANDOVER)

#: handles with the nodes that they name
Pairs = list[tuple[Any, "Node"]]


class OperatorFunctions(Protocol):
    """The public functions of operators as machine code."""

    def function(self, declared: Operator, name: str) -> Any:
        """Return the function of an operator, as :func:`phonograd.core.array.call.function_of` does."""

    def accept(self, array_class: type[Any]) -> None:
        """Let the code take arrays of one more dense class, and replace the methods of that class."""


class _MachineCode:
    """The machine-code counterparts of Python functions, which are their definitions; None until they are compiled."""

    __slots__ = (
        "current",
        "entered",
        "functions",
        "learn",
        "live_handles",
        "make_current",
        "settle",
        "thread_number",
        "write",
    )

    def __init__(self) -> None:
        #: the trace that machine code adds to
        self.current: Trace | None = None
        #: returns the number of this thread, which no other thread ever has
        self.thread_number: Callable[[], int] | None = None
        #: makes a trace, or none, the one that calls of this thread add to
        self.make_current: Callable[[Trace | None], None] | None = None
        #: gives handles their values, and lets those go whose trace ends; returns the handles left to Python code
        self.settle: Callable[[Trace, Pairs, list[Any], bool], Pairs] | None = None
        #: finds the live handles of a trace, as :func:`phonograd.core.trace.liveness.live_handles` does
        self.live_handles: Callable[[Trace, list[Any]], Pairs] | None = None
        #: assigns a node to an array, as :func:`phonograd.core.array.handle.rebind` does; False leaves that to Python
        #: code
        self.write: Callable[[Any, Node, Trace], bool] | None = None
        #: returns the node of an array in a trace, as :func:`phonograd.core.array.handle.node_in` does; None leaves
        #: that to Python code
        self.entered: Callable[[Any, Trace], Node | None] | None = None
        #: the public functions of operators
        self.functions: OperatorFunctions | None = None
        #: learns the only call of a trace, given its plan and the live arrays
        self.learn: Callable[[Any, Pairs], None] | None = None

    def install(
        self,
        thread_number: Callable[[], int],
        make_current: Callable[[Trace | None], None],
        settle: Callable[[Trace, Pairs, list[Any], bool], Pairs],
        live_handles: Callable[[Trace, list[Any]], Pairs] | None,
        write: Callable[[Any, Node, Trace], bool],
        entered: Callable[[Any, Trace], Node | None],
        functions: OperatorFunctions,
        learn: Callable[[Any, Pairs], None],
    ) -> None:
        """Use compiled functions from now on; ``live_handles`` is None if its self-test fails."""
        self.thread_number, self.make_current = thread_number, make_current
        self.settle, self.live_handles, self.write, self.functions = settle, live_handles, write, functions
        self.learn, self.entered = learn, entered

    def note(self, trace: Trace | None) -> None:
        """Let calls of machine code add to a trace, or to none."""
        assert self.make_current is not None
        self.current = trace
        self.make_current(trace)


MACHINE_CODE = _MachineCode()


class Leaving:
    """An object that dies with its thread, so that machine code does not keep the trace of a thread that is gone."""

    __slots__ = ("_thread",)

    def __init__(self, thread: int) -> None:
        self._thread = thread

    def __del__(self, code: _MachineCode = MACHINE_CODE, is_late: Callable[[], bool] = sys.is_finalizing) -> None:
        if code.current is not None and code.current.thread == self._thread and not is_late():
            code.note(None)
