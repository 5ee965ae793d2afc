"""Affinity: keeps the threads of a helping process off the processor on which a thread of the program runs.

Used by :mod:`phonograd.core.plan.planner_process`. A process of idle priority gives way to threads that wake up. But
the scheduler of Linux lets it run for a tick of some milliseconds when it has just come to the processor of a thread
that does not sleep. Elsewhere, nothing happens. See docs/decisions/0046.
"""

from __future__ import annotations

import contextlib
import os

__all__ = ["Other"]

#: places in the list of what the system tells about a thread, without its number and its name: the time at which it was
#: started, and the processor on which it ran last
_STARTED, _PROCESSOR = 19, 36


class Other:
    """Another process, whose threads are kept off a processor.

    Parameters
    ----------
    number
        The number of the process. The system may give it to another one later, which is left alone.
    """

    def __init__(self, number: int) -> None:
        self._number = number
        self._started = _facts(f"/proc/{number}/stat")[_STARTED:][:1]

    def keep_away(self, thread: int) -> bool:
        """Let the process use all processors of the calling thread, except the one on which another thread runs.

        Parameters
        ----------
        thread
            The system's number of a thread of this process.

        Returns
        -------
        bool
            Whether there is another processor, and the system allowed it.
        """
        occupied = {int(text) for text in _facts(f"/proc/self/task/{thread}/stat")[_PROCESSOR:][:1]}
        return bool(occupied) and self._place(os.sched_getaffinity(0) - occupied)

    def give_way(self, thread: int, niceness: int) -> None:
        """Let the process run only where no other process needs a core, and away from the processor of a thread.

        Parameters
        ----------
        thread
            The system's number of a thread of this process.
        niceness
            The priority of the process where the system has none for idle cores; 19 is the lowest.
        """
        if self._number <= 0:
            # the system takes 0 for the calling process
            return
        with contextlib.suppress(AttributeError, OSError):
            os.setpriority(os.PRIO_PROCESS, self._number, niceness)
            # a thread that wakes up interrupts it at once, and one of low priority only after its time slice
            os.sched_setscheduler(self._number, os.SCHED_IDLE, os.sched_param(0))
        self.keep_away(thread)

    def let_go(self) -> None:
        """Let the process use all processors of the calling thread."""
        if hasattr(os, "sched_getaffinity"):
            self._place(os.sched_getaffinity(0))

    def _place(self, processors: set[int]) -> bool:
        """Let all threads of the process use some processors; return whether its first thread does."""
        directory = f"/proc/{self._number}"
        if not processors or not self._started or _facts(f"{directory}/stat")[_STARTED:][:1] != self._started:
            return False
        try:
            os.sched_setaffinity(self._number, processors)
            threads = os.listdir(f"{directory}/task")
        except OSError:
            # it has ended, or belongs to another user
            return False
        for thread in threads:
            # others have ended meanwhile
            with contextlib.suppress(OSError):
                os.sched_setaffinity(int(thread), processors)
        return True


def _facts(path: str) -> list[str]:
    """Return what Linux tells about a thread; nothing if there is none, or on another system."""
    if not hasattr(os, "sched_setaffinity"):
        return []
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            # the name, in parentheses, may contain anything
            return file.read().rpartition(")")[2].split()
    except OSError:
        return []
