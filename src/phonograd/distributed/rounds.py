"""Rounds: the beginning of each operation over MPI, in which all ranks compare what they are about to do.

A round begins when a rank announces its operation, and ends when all ranks have announced theirs; a rank may do other
work meanwhile. Ranks of one machine announce in shared memory, others by a reduction that does not block. The end is
awaited with pauses, so that a rank that waits leaves its core to others; MPI's own waiting takes it all. Takes
MPI communicators; raises the errors of :mod:`phonograd.distributed.agreement` (decision 0022).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np

from .agreement import Digests, Disagreement, MissingRanks, describe_difference, name_missing
from .communicator import Array

__all__ = ["BACKGROUND", "FOREGROUND", "MessageRounds", "Pace", "Rounds", "SharedRounds", "wait_for"]

_LONGEST_PAUSE = 1e-3
#: seconds in which ranks that wait for others announce themselves before the missing ones are named
_ANNOUNCING = 2.0
_TAG = 17
#: seconds in which ranks that disagree tell each other what they are about to do
_COMPARING = 60.0
#: the bits of a word in shared memory that count rounds; the others are those of a digest
_COUNT_BITS = 15
_COUNTS = (1 << _COUNT_BITS) - 1


class Pace(NamedTuple):
    """The pace at which a rank that waits looks whether others have arrived."""

    tests: int
    """Tests before the first pause."""
    pause: float
    """Seconds of the first pause."""
    growth: float
    """The share of the time waited so far of which later pauses consist."""


#: the program stands still, and ranks usually arrive together: 100 tests take about 30 us
FOREGROUND = Pace(100, 2e-5, 1 / 20)
#: the program computes on the same core, so that each test delays it
BACKGROUND = Pace(3, 1e-4, 1 / 8)


def wait_for(is_done: Callable[[], bool], timeout: float = 0.0, pace: Pace = FOREGROUND) -> float:
    """Wait until a function returns true; return 0, or the seconds that passed if they exceed a timeout other than 0.

    >>> answers = [True, False]
    >>> wait_for(answers.pop)
    0.0
    """
    for _ in range(pace.tests):
        if is_done():
            return 0.0
    begin, pause = time.monotonic(), pace.pause
    while not is_done():
        waited = time.monotonic() - begin
        if timeout and waited > timeout:
            return waited
        time.sleep(pause)
        # a long wait may take a little longer; a short one must not
        pause = min(max(pause, waited * pace.growth), _LONGEST_PAUSE)
    return 0.0


class Rounds(Protocol):
    """The rounds of one group. All ranks begin them in the same order, each after the end of the one before."""

    def begin(self, description: str) -> None:
        """Announce an operation."""

    def end(self, description: str, timeout: float, pace: Pace) -> None:
        """Wait until all ranks have announced an operation.

        Raises
        ------
        Disagreement
            If they have announced different ones.
        MissingRanks
            If some have announced none after a number of seconds; 0 waits for ever.
        """


class MessageRounds:
    """Rounds of ranks on several machines: the smallest and the largest digest are found in one reduction.

    Parameters
    ----------
    mpi, communicator
        The module ``mpi4py.MPI``, and a communicator that is used for rounds only.
    """

    def __init__(self, mpi: Any, communicator: Any) -> None:
        self._mpi = mpi
        self._communicator = communicator
        self._digests = Digests()
        self._mine, self._found = np.zeros(2, np.int64), np.zeros(2, np.int64)
        self._request: Any = None

    def begin(self, description: str) -> None:
        """Announce an operation."""
        digest = self._digests.of(description)
        self._mine[:] = digest, -digest
        self._request = self._communicator.Iallreduce(self._mine, self._found, self._mpi.MIN)

    def end(self, description: str, timeout: float, pace: Pace) -> None:
        """Wait until all ranks have announced an operation."""
        waited = wait_for(self._request.Test, timeout, pace)
        if waited:
            self._name_missing(self._request, description, waited)
        if self._found[0] != -self._found[1]:
            raise Disagreement(difference(self._communicator, description))

    def _name_missing(self, request: Any, description: str, waited: float) -> None:
        """Raise an error that names the ranks that do not wait; return if the round ends meanwhile."""
        own, size = self._communicator.rank, self._communicator.size
        others = [rank for rank in range(size) if rank != own]
        sent = [self._communicator.isend(description, rank, _TAG) for rank in others]
        arrived, until = {own}, time.monotonic() + _ANNOUNCING
        while time.monotonic() < until:
            if request.Test():
                return
            status = self._mpi.Status()
            while self._communicator.iprobe(self._mpi.ANY_SOURCE, _TAG, status):
                arrived.add(status.source)
                self._communicator.recv(source=status.source, tag=_TAG)
            time.sleep(0.01)
        del sent
        raise MissingRanks(name_missing(description, waited, arrived, size))


class SharedRounds:
    """Rounds of ranks on one machine: each rank writes a word into memory that all of them read.

    A word contains a digest and the number of the round, so that one store announces both. Rounds use two rows of words
    in turn. A rank writes the word of a round after it has read all words of the round before, so no rank still reads
    the row that it overwrites.

    Parameters
    ----------
    communicator
        An MPI communicator that is used for rounds only.
    words
        Two rows of zeros, with a word for each rank, in shared memory.
    """

    def __init__(self, communicator: Any, words: Array) -> None:
        self._communicator = communicator
        self._rank, self._size = communicator.rank, communicator.size
        self._rows = (words[0], words[1])
        self._digests = Digests()
        self._count = 0
        self._word = 0

    def begin(self, description: str) -> None:
        """Announce an operation."""
        self._count += 1
        # 0 is the count of a row that was never written
        self._word = (self._digests.of(description) >> _COUNT_BITS) << _COUNT_BITS | self._count % _COUNTS + 1
        self._rows[self._count & 1][self._rank] = self._word

    def end(self, description: str, timeout: float, pace: Pace) -> None:
        """Wait until all ranks have announced an operation."""
        row, own = self._rows[self._count & 1], self._word
        agreed = [own] * self._size
        for _ in range(pace.tests):
            if row.tolist() == agreed:
                return
        count = own & _COUNTS

        def is_complete() -> bool:
            return all([word & _COUNTS == count for word in row.tolist()])

        waited = wait_for(is_complete, timeout, pace._replace(tests=1))
        words = row.tolist()
        if waited:
            arrived = {rank for rank, word in enumerate(words) if word & _COUNTS == count}
            raise MissingRanks(name_missing(description, waited, arrived, self._size))
        if words != agreed:
            raise Disagreement(difference(self._communicator, description))


def difference(communicator: Any, description: str) -> str:
    """Return which ranks have announced which operations; all ranks call this after a round that differed."""
    own = np.frombuffer(description.encode(), np.uint8)
    lengths = np.zeros(communicator.size, np.int64)
    request = communicator.Iallgather(np.array([len(own)]), lengths)
    texts = np.zeros((communicator.size, 0), np.uint8)
    if not wait_for(request.Test, _COMPARING):
        texts = np.zeros((communicator.size, lengths.max()), np.uint8)
        padded = np.zeros(texts.shape[1], np.uint8)
        padded[: len(own)] = own
        request = communicator.Iallgather(padded, texts)
    if wait_for(request.Test, _COMPARING):
        return f"ranks disagree about the next operation, and some do not answer. This rank: {description}"
    return describe_difference([bytes(row[:length]).decode() for row, length in zip(texts, lengths, strict=True)])
