"""Group: the protocol of :mod:`phonograd.distributed.communicator` for several processes, over any transport.

Takes NumPy arrays and hands NumPy arrays back. Each operation begins with an agreement of all ranks, then a subclass
transfers memory: :mod:`phonograd.distributed.mpi`, or :mod:`phonograd.distributed.sockets` for elastic training.
Reductions that were begun in the background run in one thread, in the order in which they were begun; other operations
wait for them first. One thread may use a group, and no process that was forked (decision 0022).
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from time import perf_counter_ns
from typing import Any

import numpy as np

from ..core.base.errors import MXNetError
from ..core.run import memory_pool
from .agreement import END, Disagreement
from .communicator import Array, Work, check_operation, check_parts, check_rank
from .observation import observe, observe_background_wait

__all__ = ["LEAST_DIRECT_BYTES", "Described", "Group", "kind_of_reduction"]

#: arrays from this size on are sent from their own memory; smaller ones are packed, because a message costs more than
#: the copies. Not decided by measurement yet (decision 0022)
LEAST_DIRECT_BYTES = 256 << 10
#: answers from which the quickest is taken
_QUESTIONS = 20
Transfer = Callable[[], list[Array]]


class _BackgroundWork:
    """A transfer in the queue of a communicator."""

    def __init__(self, group: Group, description: str, label: str, size: int, transfer: Transfer) -> None:
        self._group = group
        self.description, self.label, self.bytes, self.transfer = description, label, size, transfer
        self.is_announced = False
        self.done = threading.Event()
        self.results: list[Array] = []
        self.error: BaseException | None = None

    def wait(self) -> list[Array]:
        """Return the results; an error of the reduction is raised here."""
        begin = perf_counter_ns()
        while not self.done.wait(1.0):
            pass  # a wait without end would keep signal handlers from running on some systems
        observe_background_wait(self.label, begin, perf_counter_ns())
        if self.error is not None:
            self._group.drop_queue()
            raise self.error
        return self.results


class Group:
    """A group of processes. A subclass defines the methods that transfer memory.

    Parameters
    ----------
    rank, size
        The number of this process, and the number of processes.
    local_rank, local_size
        The same among the processes on this machine.
    shares_clock
        Whether rank 0 is on this machine, so that the clocks are the same.
    """

    def __init__(self, rank: int, size: int, local_rank: int, local_size: int, shares_clock: bool) -> None:
        self.rank, self.size = rank, size
        self.local_rank, self.local_size = local_rank, local_size
        self.hides_transfers = True
        self._shares_clock = shares_clock
        self._process, self._thread_number = os.getpid(), threading.get_ident()
        #: None ends the thread
        self._queue: deque[_BackgroundWork | None] = deque()
        self._news = threading.Condition()
        self._thread: threading.Thread | None = None
        self._outstanding = 0
        self._failure: BaseException | None = None
        self._ended = False
        self._described = _DescribedOperations()

    # -- transfers, which subclasses define

    def _begin_round(self, description: str) -> None:
        """Announce an operation to the other ranks."""
        raise NotImplementedError

    def _end_round(self, description: str) -> None:
        """Wait until all ranks have announced an operation; raise if they have announced different ones."""
        raise NotImplementedError

    def _reduce_into(self, array: Array, result: Array, operation: str) -> None:
        """Reduce a contiguous array over all ranks into another one of its shape and dtype."""
        raise NotImplementedError

    def _broadcast_into(self, data: Array, root: int) -> None:
        """Send flat bytes of one rank to all others, which receive them into theirs."""
        raise NotImplementedError

    def _exchange(self, sent: Sequence[Array], received: Sequence[Array]) -> None:
        """Send flat bytes to each rank, and receive those of each rank."""
        raise NotImplementedError

    def _send(self, data: Array, rank: int) -> None:
        """Send an array to one rank."""
        raise NotImplementedError

    def _receive(self, data: Array, rank: int) -> None:
        """Receive an array from one rank."""
        raise NotImplementedError

    def _split(self, color: int, key: int) -> Group:
        """Return the group of the ranks that give the same color."""
        raise NotImplementedError

    # -- operations

    def all_reduce(self, arrays: Sequence[Array], operation: str = "sum", label: str = "all_reduce") -> list[Array]:
        """Return new arrays with the element-wise reductions over all ranks: the same bits on all of them."""
        check_operation(operation)
        given = [array if array.flags.c_contiguous else np.ascontiguousarray(array) for array in arrays]
        described = self._described.find(label, operation, given)
        prepare, transfer = self._plan_reduction(described, given, operation)
        return self._run(described.text, label, described.bytes, transfer, prepare)

    def begin_all_reduce(self, arrays: Sequence[Array], label: str) -> Work:
        """Start to add up arrays in the background. The caller leaves them unchanged until the work is done."""
        self._check_caller()
        given = [_contiguous(array) for array in arrays]
        described = self._described.find(label, "sum in the background", given)
        work = _BackgroundWork(
            self, described.text, label, described.bytes, lambda: self._reduce(described, given, "sum")
        )
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name="phonograd communication", daemon=True)
            self._thread.start()
        with self._news:
            self._outstanding += 1
            self._queue.append(work)
            self._news.notify_all()
        return work

    def broadcast(self, arrays: Sequence[Array], root: int = 0, label: str = "broadcast") -> list[Array]:
        """Return the arrays of one rank; those of the other ranks only give shapes and dtypes."""
        check_rank(root, self.size)
        given = [_contiguous(array) for array in arrays]

        def transfer() -> list[Array]:
            results = [_empty(array.shape, array.dtype) for array in given]
            for array, result in zip(given, results):
                if self.rank == root:
                    np.copyto(result, array)
                self._broadcast_into(_as_bytes(result), root)
            return results

        described = self._described.find(label, f"from rank {root}", given)
        return self._run(described.text, label, described.bytes, transfer)

    def all_gather(self, array: Array, label: str = "all_gather") -> list[Array]:
        """Return the arrays of all ranks in order; their first axes may differ."""
        given = _contiguous(array)
        if given.ndim == 0:
            return [each.reshape(()) for each in self.all_gather(given.reshape(1), label)]

        def transfer() -> list[Array]:
            lengths = self._exchange_numbers([len(given)] * self.size)
            results = [_empty((int(length), *given.shape[1:]), given.dtype) for length in lengths]
            for rank, result in enumerate(results):
                if rank == self.rank:
                    np.copyto(result, given)
                self._broadcast_into(_as_bytes(result), rank)
            return results

        row = f"{label} of {given.dtype} rows {given.shape[1:]}"
        return self._run(row, label, given.nbytes, transfer)

    def all_to_all(self, parts: Sequence[Array], label: str = "all_to_all") -> list[Array]:
        """Send one array to each rank, and return those received; their first axes may differ."""
        check_parts(parts, self.size)
        given = [_contiguous(part) for part in parts]
        if len({(part.shape[1:], part.dtype) for part in given}) != 1:
            raise ValueError(
                "the parts of all_to_all must have the same dtype, and the same shape but for the first axis"
            )

        def transfer() -> list[Array]:
            lengths = self._exchange_numbers([len(part) for part in given])
            results = [_empty((int(length), *given[0].shape[1:]), given[0].dtype) for length in lengths]
            self._exchange([_as_bytes(part) for part in given], [_as_bytes(result) for result in results])
            return results

        row = f"{label} of {given[0].dtype} rows {given[0].shape[1:]}"
        return self._run(row, label, _bytes(given), transfer)

    def gather_texts(self, text: str, label: str = "gather_texts") -> list[str]:
        """Return the texts of all ranks in order."""
        data = np.frombuffer(text.encode(), np.uint8)
        return [bytes(part).decode() for part in self.all_gather(data, label)]

    def barrier(self, label: str = "barrier") -> None:
        """Wait until all ranks have called it."""
        self._run(label, label, 0, list)

    def clock_offset_ns(self) -> int:
        """Return by how many nanoseconds ``perf_counter_ns`` of this rank is ahead of that of rank 0.

        The processes of one machine have one clock.
        """
        offset, _ = self._measure_clock()
        return 0 if self._shares_clock else offset

    def _measure_clock(self) -> tuple[int, int]:
        """Return by how much the clock of this rank is ahead of that of rank 0, and the largest error.

        Rank 0 asks each rank for its time; the quickest of some answers has the smallest error.
        """
        found = np.zeros(2, np.int64)

        def transfer() -> list[Array]:
            for rank in range(1, self.size):
                if self.rank == 0:
                    self._ask_for_time(rank)
                elif self.rank == rank:
                    self._tell_time(found)
            return []

        self._run("clock offsets", "clock offsets", 0, transfer)
        return int(found[0]), int(found[1])

    def _ask_for_time(self, rank: int) -> None:
        #: the offset, and the time of the answer that gave it
        best = np.zeros(2, np.int64)
        for _ in range(_QUESTIONS):
            theirs, begin = np.zeros(2, np.int64), perf_counter_ns()
            self._send(best, rank)
            self._receive(theirs, rank)
            end = perf_counter_ns()
            if not best[1] or end - begin < best[1]:
                best[:] = theirs[0] - (begin + end) // 2, end - begin
        self._send(best, rank)

    def _tell_time(self, found: Array) -> None:
        for _ in range(_QUESTIONS):
            self._receive(found, 0)
            self._send(np.array([perf_counter_ns(), 0], np.int64), 0)
        self._receive(found, 0)

    def split(self, color: int, key: int = 0) -> Group:
        """Return the group of the ranks that give the same color, ordered by key."""
        found: list[Group] = []

        def transfer() -> list[Array]:
            found.append(self._split(color, key))
            return []

        self._run("split", "split", 0, transfer)
        return found[0]

    # -- the end

    def end(self) -> None:
        """Wait until all ranks end. A rank that goes on instead gets an error that says so."""
        if self._ended or os.getpid() != self._process:
            return
        try:
            self.drain()
            self._begin_round(END)
            self._end_round(END)
        except Disagreement:
            # the ranks that go on raise it, and end the group
            self._ended = True
            return
        self._ended = True

    def drain(self) -> None:
        """Wait until no reduction is under way in the background."""
        with self._news:
            while self._outstanding:
                self._news.wait(1.0)

    def drop_queue(self) -> None:
        """Let everything in the queue fail like the work before it, and begin anew; the caller raises the error."""
        with self._news:
            while self._queue:
                work = self._queue.popleft()
                if work is None:
                    continue
                work.error = self._failure
                work.done.set()
                self._outstanding -= 1
        self.drain()
        with self._news:
            self._failure = None

    def close(self) -> None:
        """End the thread for reductions in the background; the group cannot be used any more."""
        with self._news:
            self._ended = True
            self._queue.append(None)
            self._news.notify_all()

    # -- internals

    def _is_caller(self) -> bool:
        """Return whether this is the thread of the program, not that for reductions in the background."""
        return threading.get_ident() == self._thread_number

    def _check_caller(self) -> None:
        if os.getpid() != self._process:
            raise MXNetError(
                "a forked process is no rank and cannot communicate: workers of a DataLoader must leave that to "
                "the process that started them"
            )
        if not self._is_caller():
            raise MXNetError(
                "only the thread that created the group may communicate: operations of several threads have no order "
                "that all ranks share"
            )
        if self._ended:
            raise MXNetError("the group has ended")

    def _run(
        self, description: str, label: str, size: int, transfer: Transfer, prepare: Callable[[], None] | None = None
    ) -> list[Array]:
        """Return the results of a transfer, after all ranks have agreed to it; each has prepared it before."""
        self._check_caller()
        if self._outstanding:
            self.drain()
        begin = perf_counter_ns()
        if prepare is not None:
            prepare()
        self._begin_round(description)
        self._end_round(description)
        agreed = perf_counter_ns()
        results = transfer()
        observe(label, size, begin, agreed, perf_counter_ns(), True)
        return results

    def _serve(self) -> None:
        """Perform the reductions of the queue, in order."""
        while True:
            with self._news:
                while not self._queue:
                    self._news.wait()
                work = self._queue.popleft()
                failure = self._failure
            if work is None:
                return
            try:
                if failure is not None:
                    raise failure
                work.results = self._perform(work)
            except BaseException as error:  # noqa: BLE001 - raised by wait()
                work.error = error
                with self._news:
                    # ranks that failed together have not begun what follows in the queue
                    self._failure = error
            work.done.set()
            with self._news:
                self._outstanding -= 1
                self._news.notify_all()
            del work

    def _perform(self, work: _BackgroundWork) -> list[Array]:
        """Return the results of a reduction. The round of the next one in the queue takes place during its transfer."""
        begin = perf_counter_ns()
        if not work.is_announced:
            self._begin_round(work.description)
        self._end_round(work.description)
        agreed = perf_counter_ns()
        with self._news:
            following = self._queue[0] if self._queue else None
        if following is not None:
            following.is_announced = True
            self._begin_round(following.description)
        results = work.transfer()
        observe(work.label, work.bytes, begin, agreed, perf_counter_ns(), False)
        return results

    def _plan_reduction(
        self, described: Described, arrays: list[Array], operation: str
    ) -> tuple[Callable[[], None] | None, Transfer]:
        """Return what each rank does before all agree to a reduction, and the transfer."""
        return None, lambda: self._reduce(described, arrays, operation)

    def _reduce(self, described: Described, arrays: list[Array], operation: str) -> list[Array]:
        """Return reductions of arrays: large ones straight from their memory, the small ones of a dtype packed."""
        if len(arrays) == 1 and kind_of_reduction(arrays[0].dtype) == arrays[0].dtype:
            return [self._reduce_one(arrays[0], operation)]
        results: list[Any] = [None] * len(arrays)
        packs: dict[Any, list[int]] = {}
        for number, array in enumerate(arrays):
            kind = kind_of_reduction(array.dtype)
            if array.nbytes < LEAST_DIRECT_BYTES or kind != array.dtype:
                packs.setdefault((kind, array.dtype), []).append(number)
            else:
                results[number] = self._reduce_one(array, operation)
        for (kind, _), numbers in packs.items():
            if len(numbers) == 1 and arrays[numbers[0]].dtype == kind:
                results[numbers[0]] = self._reduce_one(arrays[numbers[0]], operation)
                continue
            packed = np.concatenate([arrays[number].reshape(-1) for number in numbers]).astype(kind, copy=False)
            reduced = _empty(packed.shape, kind)
            self._reduce_into(packed, reduced, operation)
            start = 0
            for number in numbers:
                array = arrays[number]
                part = reduced[start : start + array.size].reshape(array.shape)
                results[number] = _empty(array.shape, array.dtype)
                np.copyto(results[number], part, casting="unsafe")
                start += array.size
        return results

    def _reduce_one(self, array: Array, operation: str) -> Array:
        result = _empty(array.shape, array.dtype)
        self._reduce_into(array, result, operation)
        return result

    def _exchange_numbers(self, numbers: Sequence[int]) -> Array:
        """Send one number to each rank, and return those received."""
        sent, received = np.array(numbers, np.int64), np.zeros(self.size, np.int64)
        self._exchange(_rows(sent), _rows(received))
        return received


def kind_of_reduction(dtype: Any) -> Any:
    """Return the dtype in which MPI reduces a dtype: it knows neither half precision nor sums of booleans."""
    if dtype.kind in "iu" or (dtype.kind == "f" and dtype.itemsize in (4, 8)):
        return dtype
    return np.dtype(np.int32) if dtype.kind == "b" else np.dtype(np.float32)


class Described:
    """An operation on arrays of certain shapes and dtypes."""

    __slots__ = ("bytes", "layout", "text")

    def __init__(self, text: str, size: int) -> None:
        #: the text that all ranks must agree on, and the bytes of this rank
        self.text, self.bytes = text, size
        #: what a transport keeps for the next time
        self.layout: Any = None


class _DescribedOperations:
    """Operations that are kept for the next time: describing one takes longer than a round."""

    def __init__(self) -> None:
        self._known: dict[Any, Described] = {}

    def find(self, label: str, manner: str, arrays: Sequence[Array]) -> Described:
        """Return an operation on arrays."""
        key = (label, manner, *[(array.dtype, array.shape) for array in arrays])
        found = self._known.get(key)
        if found is None:
            if len(self._known) > 1_000:
                self._known.clear()
            kinds = ", ".join([f"{array.dtype}{list(array.shape)}" for array in arrays])
            found = self._known[key] = Described(f"{label} ({manner}): {kinds}", _bytes(arrays))
        return found


def _contiguous(array: Array) -> Array:
    return array if array.flags.c_contiguous else np.ascontiguousarray(array)


def _bytes(arrays: Sequence[Array]) -> int:
    return sum([array.nbytes for array in arrays])


def _empty(shape: tuple[int, ...], dtype: Any) -> Array:
    """Return memory for a result: from the pool if it is large."""
    size = dtype.itemsize
    for extent in shape:
        size *= extent
    room = memory_pool.room_for(size)
    return np.empty(shape, dtype) if room < memory_pool.SMALLEST_BLOCK else memory_pool.allocate(shape, dtype, room)


def _as_bytes(array: Array) -> Array:
    return array.reshape(-1).view(np.uint8)


def _rows(numbers: Array) -> list[Array]:
    return list(numbers.view(np.uint8).reshape(len(numbers), -1))
