"""SocketCommunicator: a group over TCP, which ends as soon as one of its processes does.

Elastic training uses it, because MPI cannot replace processes reliably (decision 0022). Takes connected sockets from
:mod:`phonograd.distributed.membership`. A process that ends, or leaves the group, closes its sockets; all others then
get :class:`RankLost` from their present or next operation. Reductions go around a ring, so that all ranks get the same
bits, and no rank sends more than twice the bytes of an array.
"""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ..core.base.errors import MXNetError
from ..core.base.settings import current
from .agreement import Digests, Disagreement, MissingRanks, describe_difference, name_missing
from .communicator import Array
from .group import Group

__all__ = ["RankLost", "SocketCommunicator"]

#: bytes that are received before they are added: they stay in the cache
_PIECE = 256 << 10
#: bytes that a broadcast passes on at once
_PIECE_OF_BROADCAST = 1 << 20
#: seconds that other ranks wait longer than rank 0, so that it can name the missing ones
_PATIENCE = 5.0
_ROUND = struct.Struct("<q")
_LENGTH = struct.Struct("<I")
_FUNCTIONS: dict[str, Callable[..., Array]] = {
    "sum": np.add,
    "min": np.minimum,
    "max": np.maximum,
    "product": np.multiply,
}


class RankLost(MXNetError):
    """A process of the group ended, or the group is formed anew; the operation did not complete."""


class SocketCommunicator(Group):
    """A group of processes that sockets connect.

    Parameters
    ----------
    rank
        The number of this process.
    hosts
        The address of the machine of each rank.
    links
        A connected socket for each other rank.
    """

    def __init__(self, rank: int, hosts: Sequence[str], links: Mapping[int, socket.socket]) -> None:
        beside = [other for other, host in enumerate(hosts) if host == hosts[rank]]
        super().__init__(rank, len(hosts), beside.index(rank), len(beside), beside[0] == 0)
        self._links = dict(links)
        self._digests = Digests()
        for link in self._links.values():
            link.setblocking(False)
            link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def close(self) -> None:
        """End the group, also for all other ranks."""
        self.interrupt()
        self.drain()
        super().close()
        for link in self._links.values():
            link.close()

    def interrupt(self) -> None:
        """Let operations fail, in any thread of this process and in all other ranks."""
        for link in self._links.values():
            with contextlib.suppress(OSError):
                link.shutdown(socket.SHUT_RDWR)

    def end(self) -> None:
        """Wait until all ranks end, as far as they still exist."""
        with contextlib.suppress(RankLost):
            super().end()

    # -- agreement

    def _begin_round(self, description: str) -> None:
        """Do nothing: rounds use the same sockets as transfers, and must not begin during one."""

    def _end_round(self, description: str) -> None:
        """Let rank 0 compare what all ranks are about to do."""
        own = self._digests.of(description)
        timeout = current().rank_timeout
        if self.rank == 0:
            found = self._collect(_ROUND.size, description, timeout)
            equal = all([_ROUND.unpack(each)[0] == own for each in found.values()])
            self._tell_all(_LENGTH.pack(0 if equal else 1))
        else:
            self._write(0, _ROUND.pack(own))
            wait = timeout + _PATIENCE if timeout else 0.0
            equal = self._read(0, _LENGTH.size, description, wait) == _LENGTH.pack(0)
        if not equal:
            raise Disagreement(self._difference(description))

    def _difference(self, description: str) -> str:
        """Return which ranks have reached which operations; all ranks call this after a round that differed."""
        own = description.encode()
        if self.rank:
            self._write(0, _LENGTH.pack(len(own)) + own)
            (length,) = _LENGTH.unpack(self._read(0, _LENGTH.size, description, 60.0))
            return self._read(0, length, description, 60.0).decode()
        texts = [description]
        for rank in range(1, self.size):
            (length,) = _LENGTH.unpack(self._read(rank, _LENGTH.size, description, 60.0))
            texts.append(self._read(rank, length, description, 60.0).decode())
        message = describe_difference(texts)
        self._tell_all(_LENGTH.pack(len(message.encode())) + message.encode())
        return message

    def _collect(self, size: int, description: str, timeout: float) -> dict[int, bytes]:
        """Return a message of each other rank, in any order."""
        begin = time.monotonic()
        found: dict[int, bytes] = {}
        ranks = {link.fileno(): rank for rank, link in self._links.items()}
        poll = select.poll()
        for number in ranks:
            poll.register(number, select.POLLIN)
        while len(found) < len(self._links):
            ready = poll.poll(1000)
            for number, _ in ready:
                rank = ranks.get(number)
                if rank is None:
                    raise RankLost("the group was left")
                found[rank] = self._read(rank, size, description, timeout)
                poll.unregister(number)
            if timeout and not ready and time.monotonic() - begin > timeout:
                raise MissingRanks(name_missing(description, timeout, {0, *found}, self.size))
        return found

    def _tell_all(self, message: bytes) -> None:
        for rank in self._links:
            self._write(rank, message)

    # -- transfers

    def _reduce_into(self, array: Array, result: Array, operation: str) -> None:
        combine = _FUNCTIONS[operation]
        source, target = array.reshape(-1), result.reshape(-1)
        if self.size == 1:
            np.copyto(target, source)
            return
        bounds = [source.size * number // self.size for number in range(self.size + 1)]
        parts = [slice(*bounds[number : number + 2]) for number in range(self.size)]
        after, before = (self.rank + 1) % self.size, (self.rank - 1) % self.size
        room = np.empty(max(1, _PIECE // source.itemsize), source.dtype)
        for step in range(self.size - 1):
            sent, own = parts[(self.rank - step) % self.size], parts[(self.rank - step - 1) % self.size]
            self._swap(after, (target if step else source)[sent], before, target[own], (source[own], room, combine))
        for step in range(self.size - 1):
            sent, own = parts[(self.rank - step + 1) % self.size], parts[(self.rank - step) % self.size]
            self._swap(after, target[sent], before, target[own])

    def _broadcast_into(self, data: Array, root: int) -> None:
        after, before = (self.rank + 1) % self.size, (self.rank - 1) % self.size
        for start in range(0, data.size, _PIECE_OF_BROADCAST):
            piece = data[start : start + _PIECE_OF_BROADCAST]
            if self.rank != root:
                self._receive(piece, before)
            if after != root:
                self._send(piece, after)

    def _exchange(self, sent: Sequence[Array], received: Sequence[Array]) -> None:
        np.copyto(received[self.rank], sent[self.rank])
        for distance in range(1, self.size):
            after, before = (self.rank + distance) % self.size, (self.rank - distance) % self.size
            self._swap(after, sent[after], before, received[before])

    def _send(self, data: Array, rank: int) -> None:
        self._write(rank, _bytes_of(data))

    def _receive(self, data: Array, rank: int) -> None:
        self._swap(rank, data[:0], rank, data)

    def _split(self, color: int, key: int) -> Group:
        raise MXNetError("the group of elastic training cannot be split: its ranks may end at any time")

    def _swap(
        self,
        after: int,
        sent: Array,
        before: int,
        target: Array,
        combination: tuple[Array, Array, Callable[..., Array]] | None = None,
    ) -> None:
        """Send an array to one rank while receiving one from another.

        A combination is another array, memory for a piece, and a function: the result of the function of the other
        array and the received one is the target.
        """
        outgoing = _bytes_of(sent)
        count, size = 0, target.size
        piece = _piece(target, combination, 0)
        incoming, filled = _bytes_of(piece), 0
        out, into = self._links[after], self._links[before]
        try:
            while outgoing or count < size:
                moved = False
                if outgoing:
                    with contextlib.suppress(BlockingIOError):
                        outgoing = outgoing[out.send(outgoing) :]
                        moved = True
                if count < size:
                    with contextlib.suppress(BlockingIOError):
                        number = into.recv_into(incoming[filled:])
                        if not number:
                            raise RankLost(f"rank {before} left the group")
                        filled += number
                        moved = True
                    if filled == len(incoming):
                        if combination is not None:
                            other, _, combine = combination
                            place = slice(count, count + piece.size)
                            combine(piece, other[place], out=target[place])
                        count += piece.size
                        piece = _piece(target, combination, count)
                        incoming, filled = _bytes_of(piece), 0
                if not moved:
                    self._wait(out if outgoing else None, into if count < size else None)
        except (OSError, ValueError) as error:
            raise RankLost(f"the connection to rank {before} or {after} was closed: {error}") from error

    def _wait(self, out: socket.socket | None, into: socket.socket | None, seconds: float | None = None) -> bool:
        """Wait until one of two sockets can be used; return whether it can."""
        poll = select.poll()
        for link, event in ((into, select.POLLIN), (out, select.POLLOUT)):
            if link is not None:
                both = out is into and out is not None
                poll.register(link, select.POLLIN | select.POLLOUT if both else event)
        return bool(poll.poll(None if seconds is None else 1000 * seconds))

    def _write(self, rank: int, data: bytes | memoryview) -> None:
        link, rest = self._links[rank], memoryview(data)
        try:
            while rest:
                try:
                    rest = rest[link.send(rest) :]
                except BlockingIOError:
                    self._wait(link, None)
        except (OSError, ValueError) as error:
            raise RankLost(f"the connection to rank {rank} was closed: {error}") from error

    def _read(self, rank: int, size: int, description: str, timeout: float) -> bytes:
        """Return a number of bytes from a rank, which must arrive within a number of seconds; 0 waits for ever."""
        link, found = self._links[rank], b""
        until = time.monotonic() + timeout
        try:
            while len(found) < size:
                try:
                    part = link.recv(size - len(found))
                except BlockingIOError:
                    self._wait(None, link, 1.0)
                    if timeout and time.monotonic() > until:
                        raise MissingRanks(
                            f"rank {rank} did not answer rank {self.rank} at {description!r} within {timeout:.0f} s"
                        ) from None
                    continue
                if not part:
                    raise RankLost(f"rank {rank} left the group")
                found += part
        except (OSError, ValueError) as error:
            raise RankLost(f"the connection to rank {rank} was closed: {error}") from error
        return found


def _bytes_of(array: Array) -> memoryview:
    return array.reshape(-1).view(np.uint8).data


def _piece(target: Array, combination: tuple[Array, Array, Callable[..., Array]] | None, start: int) -> Array:
    """Return memory for the next elements: that of the target, or a part of the room if they are to be combined."""
    if combination is None:
        return target[start:]
    return combination[1][: target.size - start]
