"""Agreement: the round at the beginning of each operation, in which all ranks compare what they are about to do.

Each rank gives a digest of the operation's description. The smallest and the largest digest are found in one reduction
that does not block; they are equal exactly if all are. Takes an MPI communicator of its own; raises errors that name
both sides. The round also serves as the wait for the slowest rank, during which the core is free for others.
"""

from __future__ import annotations

import hashlib
import threading
import time
from typing import Any

import numpy as np

from ..core.base.errors import MXNetError

__all__ = ["END", "Agreement", "Digests", "Disagreement", "MissingRanks", "describe_difference", "name_missing"]

#: the description of a program's end
END = "the end of the program"
#: tests before the first pause: ranks usually arrive together
_TESTS_AT_ONCE = 100
_SHORTEST_PAUSE, _LONGEST_PAUSE = 2e-5, 1e-3
#: seconds in which ranks that wait for others announce themselves before the missing ones are named
_ANNOUNCING = 2.0
_TAG = 17
_LONGEST_TEXT = 400


class Disagreement(MXNetError):
    """Ranks called different operations, or the same one with different keys, shapes or dtypes."""


class MissingRanks(MXNetError):
    """Some ranks did not arrive at an operation in time."""


class Digests:
    """Numbers that stand for descriptions of operations.

    >>> Digests().of("push of key a") == Digests().of("push of key a") != Digests().of("push of key b")
    True
    """

    def __init__(self) -> None:
        self._known: dict[str, int] = {}

    def of(self, description: str) -> int:
        """Return a number of 62 bits."""
        found = self._known.get(description)
        if found is None:
            if len(self._known) > 10_000:
                self._known.clear()
            found = int.from_bytes(hashlib.blake2b(description.encode(), digest_size=8).digest(), "little") >> 2
            self._known[description] = found
        return found


class Agreement:
    """The rounds of one group.

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
        self._lock = threading.Lock()

    def reach(self, description: str, timeout: float) -> None:
        """Wait until all ranks have reached an operation.

        Raises
        ------
        Disagreement
            If they have reached different ones.
        MissingRanks
            If some have reached none after a number of seconds; 0 waits for ever.
        """
        with self._lock:
            digest = self._digests.of(description)
            self._mine[:] = digest, -digest
            request = self._communicator.Iallreduce(self._mine, self._found, self._mpi.MIN)
            self._wait(request, description, timeout)
            if self._found[0] != -self._found[1]:
                raise Disagreement(self._difference(description))

    def _wait(self, request: Any, description: str, timeout: float) -> None:
        for _ in range(_TESTS_AT_ONCE):
            if request.Test():
                return
        begin, pause = time.monotonic(), _SHORTEST_PAUSE
        while not request.Test():
            waited = time.monotonic() - begin
            if timeout and waited > timeout:
                self._name_missing(request, description, waited)
                return
            time.sleep(pause)
            # a long wait may take a little longer; a short one must not
            pause = min(max(pause, waited / 20), _LONGEST_PAUSE)

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

    def _difference(self, description: str) -> str:
        """Return which ranks have reached which operations; all ranks call this after a round that differed."""
        text = np.zeros(_LONGEST_TEXT, np.uint8)
        encoded = description.encode()
        if len(encoded) > _LONGEST_TEXT:
            encoded = encoded[: _LONGEST_TEXT - 4] + b" ..."
        text[: len(encoded)] = np.frombuffer(encoded, np.uint8)
        texts = np.zeros((self._communicator.size, _LONGEST_TEXT), np.uint8)
        self._wait(self._communicator.Iallgather(text, texts), "the comparison of operations", 60.0)
        return describe_difference([bytes(row).rstrip(b"\0").decode(errors="replace") for row in texts])


def describe_difference(descriptions: list[str]) -> str:
    """Return the message of an error, given the operations that the ranks have reached, in order.

    >>> describe_difference(["push of key a", "push of key b", "push of key a"])[:79]
    'ranks disagree about the next operation. ranks 0, 2: push of key a; rank 1: pus'
    """
    by_text: dict[str, list[int]] = {}
    for rank, text in enumerate(descriptions):
        by_text.setdefault(text, []).append(rank)
    sides = "; ".join([f"{_ranks(ranks)}: {text}" for text, ranks in by_text.items()])
    advice = (
        "All ranks must make the same calls in the same order, with the same keys, shapes and dtypes"
        if END not in by_text
        else "A rank ended while others went on: all ranks need the same number of steps"
    )
    return f"ranks disagree about the next operation. {sides}. {advice}"


def name_missing(description: str, waited: float, arrived: set[int], size: int) -> str:
    """Return the message of an error, given the ranks that have arrived at an operation after a number of seconds."""
    missing = [rank for rank in range(size) if rank not in arrived]
    return (
        f"{_ranks(missing)} did not arrive at {description!r} within {waited:.0f} s, where "
        f"{_ranks(sorted(arrived))} waited. "
        "The setting rank_timeout (PHONOGRAD_RANK_TIMEOUT) is the time to wait, in seconds"
    )


def _ranks(numbers: list[int]) -> str:
    return f"rank{'s' * (len(numbers) > 1)} {', '.join(map(str, numbers))}" if numbers else "no rank"
