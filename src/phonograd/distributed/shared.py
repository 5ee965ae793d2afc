"""Shared memory of the ranks of one machine: words for rounds, and rooms through which arrays are reduced.

Each rank copies its values into a room of its own, announces this by a count, and combines the rooms of all ranks, in
their order, into results. MPI's own reductions need both ranks at the same time, and keep a core busy until the other
one has a core, too; here a rank sleeps while it waits, and the backward pass uses the core. Takes an MPI communicator
for the beginning; hands results to :mod:`phonograd.distributed.mpi` (decision 0022).
"""

from __future__ import annotations

import os
import platform
import tempfile
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core.run import memory_pool
from .communicator import Array

__all__ = ["Layout", "SharedMemory", "SharedReduction", "share_memory"]

#: bytes of a room, and of the rooms of all ranks together at most; one machine may have many ranks and little memory
_ROOM_BYTES, _MOST_BYTES = 1 << 20, 64 << 20
#: rooms are used in turn, so that a rank can fill one while others still read the one before
_ROOMS = 2
_LINE = 64
#: chunks with fewer bytes are combined as a whole by each rank; of larger ones each rank combines a part
_LEAST_BYTES_OF_PARTS = 32 << 10
Combine = Callable[..., Array]
#: waits until all ranks have reached a count; takes the counts of all ranks, and the count
Wait = Callable[[Array, int], None]


class SharedMemory:
    """Memory that all ranks of one machine share.

    Parameters
    ----------
    memory
        Zeros.
    size
        The number of ranks.
    """

    def __init__(self, memory: Array, size: int) -> None:
        row = _row_bytes(size)
        #: two rows of words for rounds
        self.words = memory[: 2 * row].view(np.int64).reshape(2, -1)[:, :size]
        #: the number of chunks that each rank has announced
        self.counts = memory[2 * row : 3 * row].view(np.int64)[:size]
        self.rooms = memory[_head_bytes(size) :].reshape(_ROOMS, size, -1)


def _row_bytes(size: int) -> int:
    return -(-8 * size // _LINE) * _LINE


def _head_bytes(size: int) -> int:
    return -(-3 * _row_bytes(size) // 4096) * 4096


def room_bytes(size: int) -> int:
    """Return the bytes of a room for a number of ranks.

    >>> room_bytes(2) >> 10, room_bytes(256) >> 10
    (1024, 128)
    """
    return max(_LINE, min(_ROOM_BYTES, _MOST_BYTES // (_ROOMS * size)) // _LINE * _LINE)


def share_memory(communicator: Any) -> SharedMemory | None:
    """Return memory that all ranks of one machine share; None if they see different files, or memory is short.

    The file of the memory has no name any more when this returns, so nothing is left behind by ranks that are killed.
    """
    size = communicator.size
    length = _head_bytes(size) + _ROOMS * size * room_bytes(size)
    path = None
    if communicator.rank == 0:
        number, path = tempfile.mkstemp(prefix="phonograd-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
        try:
            # a file with holes would end ranks by SIGBUS where memory is short
            os.posix_fallocate(number, 0, length)
        except OSError:
            os.ftruncate(number, 0)
        os.close(number)
    path = communicator.bcast(path)
    memory = None
    if os.path.exists(path) and os.path.getsize(path) == length:
        memory = np.asarray(np.memmap(path, np.uint8, "r+"))
    is_shared = communicator.allreduce(int(memory is not None)) == size
    if communicator.rank == 0:
        os.unlink(path)
    return SharedMemory(memory, size) if memory is not None and is_shared else None


class _Piece:
    """Elements of one array that are in a chunk, and their places in the rooms of all ranks."""

    __slots__ = ("bounds", "dtype", "elements", "number", "places")

    def __init__(self, number: int, elements: slice | None, dtype: Any, places: list[list[Array]]) -> None:
        #: the number of the array, and the elements; None if they are all
        self.number, self.elements, self.dtype = number, elements, dtype
        #: for each turn, the places in the rooms of all ranks
        self.places = places
        count, ranks = places[0][0].size, len(places[0])
        self.bounds = [count * rank // ranks for rank in range(ranks + 1)]

    def of(self, arrays: Sequence[Array]) -> Array:
        """Return the elements of an array."""
        array = arrays[self.number]
        return array if self.elements is None else array.reshape(-1)[self.elements]


class _Chunk:
    """Pieces that fit into a room; of a large chunk each rank combines a part."""

    __slots__ = ("has_parts", "pieces")

    def __init__(self, pieces: list[_Piece], has_parts: bool) -> None:
        self.pieces, self.has_parts = pieces, has_parts


class Layout:
    """The chunks in which arrays of certain shapes and dtypes are reduced."""

    __slots__ = ("_kinds", "chunks")

    def __init__(self, arrays: Sequence[Array], chunks: list[_Chunk]) -> None:
        self.chunks = chunks
        #: shapes and dtypes of results, and their bytes in the memory pool; 0 for small ones, which are not from there
        self._kinds = []
        for array in arrays:
            room = memory_pool.room_for(array.nbytes)
            self._kinds.append((array.shape, array.dtype, room if room >= memory_pool.SMALLEST_BLOCK else 0))

    def make_results(self) -> list[Array]:
        """Return memory for the results."""
        return [
            memory_pool.allocate(shape, dtype, room) if room else np.empty(shape, dtype)
            for shape, dtype, room in self._kinds
        ]


class SharedReduction:
    """Reductions of one group through shared memory. All ranks make the same ones in the same order.

    Chunk k is in room ``k % 2``. A rank announces chunk k + 1 after it has read chunk k of all ranks; so a rank that
    has seen the announcements of chunk k + 1 may write chunk k + 2 over chunk k.

    Parameters
    ----------
    rank
        The number of this process.
    memory
        What :func:`share_memory` returned.
    wait
        A function that returns when all counts have reached a number.
    """

    def __init__(self, rank: int, memory: SharedMemory, wait: Wait) -> None:
        self._rank, self._rooms, self._counts, self._wait = rank, memory.rooms, memory.counts, wait
        self._size = len(memory.counts)
        self._turn = 0
        self._count = 0

    def lay_out(self, arrays: Sequence[Array], dtypes: Sequence[Any]) -> Layout:
        """Return the chunks of arrays that are reduced in dtypes."""
        room = self._rooms.shape[-1]
        chunks: list[list[_Piece]] = [[]]
        used = 0
        for number, (array, dtype) in enumerate(zip(arrays, dtypes, strict=True)):
            begin = 0
            while begin < array.size:
                if used >= room:
                    chunks.append([])
                    used = 0
                end = min(array.size, begin + (room - used) // dtype.itemsize)
                size = (end - begin) * dtype.itemsize
                places = [[each[used : used + size].view(dtype) for each in turn] for turn in self._rooms]
                whole = end - begin == array.size
                if whole:
                    places = [[place.reshape(array.shape) for place in turn] for turn in places]
                chunks[-1].append(_Piece(number, None if whole else slice(begin, end), dtype, places))
                used += -(-size // _LINE) * _LINE
                begin = end
        return Layout(arrays, [_Chunk(pieces, self._has_parts(pieces)) for pieces in chunks if pieces])

    def _has_parts(self, pieces: Sequence[_Piece]) -> bool:
        """Return whether each rank combines a part of a chunk: if that saves more than another meeting costs."""
        return self._size > 2 and sum([each.places[0][0].nbytes for each in pieces]) >= _LEAST_BYTES_OF_PARTS

    def put(self, chunk: _Chunk, sources: Sequence[Array]) -> None:
        """Copy the pieces of a chunk from contiguous arrays into the room of this rank."""
        turn, rank = self._turn, self._rank
        for piece in chunk.pieces:
            np.copyto(piece.places[turn][rank], piece.of(sources), casting="unsafe")
        fence()

    def combine(self, chunk: _Chunk, results: Sequence[Array], function: Combine) -> None:
        """Combine a chunk of all ranks, whose rooms are filled, into contiguous arrays."""
        fence()
        turn = self._turn
        self._turn = 1 - turn
        if chunk.has_parts:
            self._combine_parts(chunk, turn, results, function)
            return
        for piece in chunk.pieces:
            result = piece.of(results)
            if piece.dtype == result.dtype:
                _combine_all(piece.places[turn], result, function)
                continue
            target = np.empty(result.shape, piece.dtype)
            _combine_all(piece.places[turn], target, function)
            np.copyto(result, target, casting="unsafe")

    def _combine_parts(self, chunk: _Chunk, turn: int, results: Sequence[Array], function: Combine) -> None:
        """Combine one part of each piece, put it into the room of this rank, and take the other parts from others."""
        rank = self._rank
        for piece in chunk.pieces:
            own = slice(*piece.bounds[rank : rank + 2])
            parts = [place.reshape(-1)[own] for place in piece.places[turn]]
            part = np.empty(parts[0].shape, piece.dtype)
            _combine_all(parts, part, function)
            np.copyto(parts[rank], part)
        self._meet()
        for piece in chunk.pieces:
            result = piece.of(results).reshape(-1)
            for other, place in enumerate(piece.places[turn]):
                part_of_other = slice(*piece.bounds[other : other + 2])
                np.copyto(result[part_of_other], place.reshape(-1)[part_of_other], casting="unsafe")

    def reduce(self, layout: Layout, sources: Sequence[Array], results: Sequence[Array], function: Combine) -> None:
        """Reduce contiguous arrays of all ranks into others, chunk by chunk."""
        for chunk in layout.chunks:
            self.put(chunk, sources)
            self._meet()
            self.combine(chunk, results, function)

    def _meet(self) -> None:
        """Wait until all ranks are here."""
        fence()
        self._count += 1
        self._counts[self._rank] = self._count
        self._wait(self._counts, self._count)
        fence()


def _combine_all(values: Sequence[Array], target: Array, function: Combine) -> None:
    """Combine values in their order; a group of one has one value."""
    if len(values) == 1:
        np.copyto(target, values[0])
        return
    function(values[0], values[1], out=target)
    for value in values[2:]:
        function(target, value, out=target)


_lock = threading.Lock()


def fence() -> None:
    """Let other ranks see all that this one wrote before, and this one all that others wrote before they announced it.

    x86 keeps the order of stores, and that of loads. Elsewhere a lock that is released and acquired again keeps both.
    """
    if not _KEEPS_ORDER:
        with _lock:
            pass
        with _lock:
            pass


_KEEPS_ORDER = platform.machine().lower() in ("x86_64", "amd64")
