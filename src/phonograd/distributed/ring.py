"""Ring: reductions of large arrays between machines, in pieces that travel around all ranks.

Each of N ranks sends 2 (N - 1) / N times the bytes of an array. A piece is passed on as soon as it has arrived, so the
links of all ranks are busy at the same time. A rank sleeps while it waits; MPI's own reductions take a core meanwhile,
which the backward pass needs. The order of sums depends on the size alone, and all ranks receive the same bits. Takes
an MPI communicator and NumPy arrays (decision 0022).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from .communicator import Array

__all__ = ["Ring"]

#: bytes of a piece. Open MPI sends up to 64 KB (with its header) over TCP at once; more of them wait for an answer of
#: the receiver. 24 MB between two machines with 1 Gbit/s and 1 ms of delay take 190 to 280 ms in pieces of 60 KB, and
#: 380 to 560 in pieces of 256 KB; the link alone needs 192
PIECE_BYTES = 60 << 10
#: pieces that may arrive before they are added
_OUTSTANDING = 32
_TAG = 3


class Ring:
    """The ring of all ranks of a communicator.

    Parameters
    ----------
    communicator
        The MPI communicator.
    wait
        A function that returns when another one returns true, and leaves the core to other threads meanwhile.
    """

    def __init__(self, communicator: Any, wait: Callable[[Callable[[], bool]], None]) -> None:
        self._communicator = communicator
        self._wait = wait
        rank, size = communicator.rank, communicator.size
        self._rank, self._size = rank, size
        self._after, self._before = (rank + 1) % size, (rank - 1) % size

    def reduce(self, source: Array, target: Array, combine: Callable[..., Array]) -> None:
        """Reduce flat arrays of all ranks into a flat array of the same dtype and size.

        Step s sends part ``rank - s`` and receives part ``rank - s - 1``. The first N - 1 steps combine received with
        own values; then a rank has the result of one part, and the other steps pass results on.
        """
        size = self._size
        part = -(-source.size // size)
        pieces = max(1, -(-part * source.itemsize // PIECE_BYTES))
        bounds = [source.size * number // (size * pieces) for number in range(size * pieces + 1)]
        sums, total = (size - 1) * pieces, 2 * (size - 1) * pieces
        # sums that are passed on are sent from their rooms. There are more rooms than pieces: a rank then waits only
        # for ranks that are behind it, so that they cannot wait for each other in a circle
        rooms = min(sums, pieces + 2 * _OUTSTANDING if size > 2 else _OUTSTANDING)
        room = np.empty((rooms, -(-part // pieces) + 1), source.dtype)

        def place(number: int) -> slice:
            """Return the elements that message number `number` brings."""
            step, piece = divmod(number, pieces)
            first = (self._rank - step - 1) % size * pieces + piece
            return slice(bounds[first], bounds[first + 1])

        def memory(number: int) -> Array:
            """Return where a message is received: sums in rooms, results at their place."""
            where = place(number)
            return room[number % rooms][: where.stop - where.start] if number < sums else target[where]

        first = self._rank * pieces
        sent = [self._send(source[slice(*bounds[first + piece : first + piece + 2])]) for piece in range(pieces)]
        #: the messages that are sent from rooms, by the number of the one received there
        from_rooms: dict[int, Any] = {}
        expected: deque[Any] = deque()
        posted = 0
        for number in range(total):
            while posted < min(total, number + _OUTSTANDING):
                if posted - rooms in from_rooms and posted < sums:
                    self._wait(from_rooms.pop(posted - rooms).Test)
                expected.append(self._communicator.Irecv(memory(posted), self._before, _TAG))
                posted += 1
            self._wait(expected.popleft().Test)
            value, where = memory(number), place(number)
            if number < sums - pieces:
                combine(value, source[where], out=value)
                from_rooms[number] = self._send(value)
            elif number < sums:
                combine(value, source[where], out=target[where])
                sent.append(self._send(target[where]))
            elif number < total - pieces:
                sent.append(self._send(value))
        for request in (*sent, *from_rooms.values()):
            self._wait(request.Test)

    def _send(self, values: Array) -> Any:
        return self._communicator.Isend(values, self._after, _TAG)
