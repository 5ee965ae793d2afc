"""Watch: each rank of a group over MPI watches the one before it, so that a rank that has stopped ends all.

``phonograd launch`` watches its ranks itself (:mod:`phonograd.distributed.channel`); this is for other launchers. A
thread of each rank sends a message to the next rank each second, also while the program computes or waits. Takes an MPI
communicator; ends the group by MPI, with one message that names the silent rank (decision 0022).
"""

from __future__ import annotations

import sys
import threading
from typing import Any

import numpy as np

from ..core.base.settings import current

__all__ = ["Watch"]

_SECONDS_BETWEEN_SIGNS = 1.0
_TAG = 29


class Watch:
    """Signs of life between neighbors.

    Time is counted in own pauses, not by a clock: ranks that are all stopped for a while, as by a debugger of the whole
    group or a machine that sleeps, have not been silent.

    Parameters
    ----------
    communicator
        An MPI communicator that is used for nothing else.
    """

    def __init__(self, communicator: Any) -> None:
        self._communicator = communicator
        rank, size = communicator.rank, communicator.size
        self._after, self._before = (rank + 1) % size, (rank - 1) % size
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="phonograd signs of life", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Stop watching: all ranks have reached the end of the program."""
        self._is_over.set()
        self._thread.join()

    def _run(self) -> None:
        sign, received = np.zeros(1, np.int8), np.zeros(1, np.int8)
        sent: Any = None
        silent = 0.0
        while not self._is_over.wait(_SECONDS_BETWEEN_SIGNS):
            # one message at a time: a rank that has stopped takes none
            if sent is None or sent.Test():
                sent = self._communicator.Isend(sign, self._after, _TAG)
            silent += _SECONDS_BETWEEN_SIGNS
            while self._communicator.Iprobe(self._before, _TAG):
                self._communicator.Recv(received, self._before, _TAG)
                silent = 0.0
            most = current().rank_silence
            if most and silent > most:
                self._end_all(silent)
                return

    def _end_all(self, silent: float) -> None:
        print(  # noqa: T201
            f"phonograd: rank {self._before} of {self._communicator.size} has given no sign of life for {silent:.0f} s "
            "(is it stopped?); all ranks end. The setting rank_silence (PHONOGRAD_RANK_SILENCE) is the time to wait",
            file=sys.stderr,
            flush=True,
        )
        self._communicator.Abort(1)
