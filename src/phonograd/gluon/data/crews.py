"""Crews: threads or processes that make batches ahead of those who want them.

A crew gets tasks, lists of numbers of examples under a key, and has the batches ready under the same keys. Threads have
one queue. Each process has a pipe of its own, at whose end it waits for its tasks, so that one that dies takes neither
a lock nor another's task with it; a thread of the program collects what they send and notices who is gone.

Arrays travel in shared memory, one piece of it for each batch; the program copies them out and removes it. Everything
else is pickled, as between all processes of :mod:`multiprocessing`.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import itertools
import multiprocessing
import multiprocessing.connection
import multiprocessing.util
import os
import pickle
import queue
import random
import shutil
import signal
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from multiprocessing import resource_tracker, shared_memory
from typing import Any

import numpy as np

from ... import settings
from ...errors import MXNetError
from ...ndarray.array import NDArray
from ...ndarray.creation import zeros
from ...streams import seed as seed_stream
from ...util import is_np_array, is_np_shape, np_array, np_shape
from .batchify import finished, unfinished

__all__ = ["Crew", "ProcessCrew", "ThreadCrew", "WorkerTimeout", "WorkerTraceback"]

#: buffers below this size stay in the message: to share memory takes 0.1 ms
_LEAST_SHARED_BYTES = 1 << 16
_ALIGNMENT = 64
#: a task that a worker gets while it is busy must fit into the pipe, or both ends might wait for each other
_MOST_WAITING_BYTES = 4096
_SECONDS_TO_END = 0.5

#: whether NumPy shapes and NumPy arrays are on where a batch is wanted
Semantics = tuple[bool, bool]


class WorkerTimeout(multiprocessing.TimeoutError, TimeoutError):
    """A batch was not there in time."""


class WorkerTraceback(Exception):
    """Where an exception was raised in a worker process; the cause of the same exception here."""

    def __str__(self) -> str:
        return f"\n\nin a worker process:\n{self.args[0]}"


class Crew:
    """What crews have in common: batches by key, and waiting for them."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self._there = threading.Condition()
        self._wanted: set[Hashable] = set()
        self._batches: dict[Hashable, tuple[bool, Any]] = {}
        #: why there will be no more batches
        self._failure: BaseException | None = None

    def submit(self, key: Hashable, samples: Sequence[Any], seed: Sequence[int]) -> None:
        """Have a batch made."""
        raise NotImplementedError

    def close(self) -> None:
        """End the crew."""
        raise NotImplementedError

    @property
    def is_usable(self) -> bool:
        """Whether it can make batches: it has not failed, and is not that of a parent process."""
        return self._failure is None and self.pid == os.getpid()

    def _deliver(self, key: Hashable, succeeded: bool, value: Any) -> None:
        """Have a batch, or the exception in place of it."""
        with self._there:
            if key in self._wanted:
                self._batches[key] = succeeded, value
                self._there.notify_all()

    def _fail(self, error: BaseException) -> None:
        """Raise for everybody who waits, or will."""
        with self._there:
            self._failure = self._failure or error
            self._there.notify_all()

    def take(self, key: Hashable, timeout: float | None) -> Any:
        """Return a batch as soon as it is there.

        Raises
        ------
        WorkerTimeout
            If it is not there in time.
        MXNetError
            If a process of the crew died.
        """
        with self._there:
            found = self._there.wait_for(lambda: key in self._batches or self._failure is not None, timeout)
            if key not in self._batches:
                if self._failure is not None:
                    raise self._failure
                assert not found
                raise WorkerTimeout(
                    f"a worker of the DataLoader did not return a batch within {timeout} seconds. If examples take "
                    "that long, raise the timeout (DataLoader(timeout=...)) or take smaller batches; a dataset that "
                    "hangs is found with num_workers=0."
                )
            self._wanted.discard(key)
            succeeded, value = self._batches.pop(key)
        if not succeeded:
            raise value
        return value

    def forget(self, keys: Sequence[Hashable]) -> None:
        """Make no batches under some keys, or throw them away."""
        with self._there:
            for key in keys:
                self._wanted.discard(key)
                self._batches.pop(key, None)


class ThreadCrew(Crew):
    """Threads that make batches."""

    def __init__(self, count: int, dataset: Any, batchify_fn: Callable[[Sequence[Any]], Any]) -> None:
        super().__init__()
        self._dataset, self._batchify_fn = dataset, batchify_fn
        self._count = count
        self._tasks: queue.SimpleQueue[tuple[Hashable, Sequence[Any], Semantics] | None] = queue.SimpleQueue()
        for number in range(count):
            # not a pool of concurrent.futures: at the end, the interpreter would wait for an example that hangs
            threading.Thread(target=self._run, name=f"DataLoader-{number}", daemon=True).start()

    def submit(self, key: Hashable, samples: Sequence[Any], seed: Sequence[int]) -> None:
        """Have a batch made. Threads draw from the generators of the program, so `seed` is not used."""
        self._wanted.add(key)
        self._tasks.put((key, samples, (is_np_shape(), is_np_array())))

    def _run(self) -> None:
        while (task := self._tasks.get()) is not None:
            key, samples, (shapes, arrays) = task
            if key not in self._wanted:
                continue
            try:
                with np_shape(shapes), np_array(arrays):
                    batch = self._batchify_fn([self._dataset[number] for number in samples])
                    _compute(batch)
                self._deliver(key, True, batch)
            except Exception as error:  # noqa: BLE001
                self._deliver(key, False, error)
            except BaseException as error:  # noqa: BLE001 - sys.exit() in a worker is not to end the program
                made = MXNetError(f"{type(error).__name__}: {error}")
                made.__cause__ = error
                self._deliver(key, False, made)

    def close(self) -> None:
        """End the threads after what they are doing."""
        self._fail(MXNetError("the DataLoader is closed"))
        for _ in range(self._count):
            self._tasks.put(None)


def _compute(batch: Any) -> None:
    """Have the arrays of a batch computed here, not where they are used first."""
    if isinstance(batch, NDArray):
        batch.wait_to_read()
    elif isinstance(batch, (list, tuple, Mapping)):
        for part in batch.values() if isinstance(batch, Mapping) else batch:
            _compute(part)


class _Worker:
    """A process of a crew, and the tasks that it has."""

    def __init__(self, process: Any, pipe: Any) -> None:
        self.process = process
        self.pipe = pipe
        #: keys of its tasks, with the names of the memory that their batches may be in
        self.tasks: dict[Hashable, str] = {}


class ProcessCrew(Crew):
    """Processes that make batches.

    They are forked on Linux, so that a dataset can have functions without names and a script needs no
    ``if __name__ == "__main__"``, and spawned elsewhere; ``multiprocessing.set_start_method`` chooses another way.
    """

    def __init__(self, count: int, dataset: Any, batchify_fn: Callable[[Sequence[Any]], Any]) -> None:
        super().__init__()
        context: Any = multiprocessing.get_context(_start_method())
        if _forks(context):
            _load_engine()
        # one for all processes: a worker's own would remove its memory when it ends
        resource_tracker.ensure_running()
        self._prefix = f"phonograd-{os.getpid()}-{os.urandom(4).hex()}"
        self._numbers = itertools.count()
        self._closing = False
        self._waiting: list[tuple[Hashable, bytes, str]] = []
        self._workers: list[_Worker] = []
        self._wake, self._woken = multiprocessing.connection.Pipe()
        for _ in range(count):
            ours, theirs = context.Pipe()
            # a fork has the other workers' pipes too, which would stay open when the program is gone
            others = [ours, *[worker.pipe for worker in self._workers]] if _forks(context) else []
            process = context.Process(target=work, args=(theirs, others, dataset, batchify_fn), daemon=True)
            _start(process)
            theirs.close()
            self._workers.append(_Worker(process, ours))
        self._collector = threading.Thread(target=self._collect, name="DataLoader-collector", daemon=True)
        self._collector.start()

    def submit(self, key: Hashable, samples: Sequence[Any], seed: Sequence[int]) -> None:
        """Have a batch made, with the random generators seeded before."""
        with self._there:
            if self._failure is not None:
                raise self._failure
            segment = f"{self._prefix}-{next(self._numbers)}"
            self._wanted.add(key)
            task = key, list(samples), list(seed), segment, (is_np_shape(), is_np_array())
            self._waiting.append((key, pickle.dumps(task, 5), segment))
            self._hand_out()

    def _hand_out(self) -> None:
        """Give waiting tasks to workers that have none, or only one; the lock is held."""
        while self._waiting:
            key, message, segment = self._waiting[0]
            if key not in self._wanted:
                self._waiting.pop(0)
                continue
            worker = min(self._workers, key=lambda each: len(each.tasks))
            if len(worker.tasks) > (1 if len(message) <= _MOST_WAITING_BYTES else 0):
                return
            self._waiting.pop(0)
            worker.tasks[key] = segment
            with contextlib.suppress(OSError):  # the collector finds out that it is gone
                worker.pipe.send_bytes(message)

    def _collect(self) -> None:
        """Take in what workers send, until the crew ends."""
        by_handle: dict[Any, _Worker] = {worker.pipe: worker for worker in self._workers}
        by_handle |= {worker.process.sentinel: worker for worker in self._workers}
        try:
            while not self._closing:
                for handle in multiprocessing.connection.wait([self._woken, *by_handle]):
                    if handle is self._woken or self._closing:
                        return
                    self._receive(by_handle[handle])
        except BaseException as error:  # noqa: BLE001
            self._fail(error)

    def _receive(self, worker: _Worker) -> None:
        """Take in one message of a worker that sent one or died."""
        try:
            message = worker.pipe.recv_bytes() if worker.pipe.poll() else None
        except (EOFError, OSError):
            message = None
        if message is None:
            if not worker.process.is_alive() or not self._closing:
                worker.process.join(_SECONDS_TO_END)
                raise MXNetError(_epitaph(worker.process))
            return
        key, content, error_text, places, segment = pickle.loads(message)
        buffers = _taken_out(segment, places)
        try:
            value = pickle.loads(content, buffers=buffers)
        except Exception as error:  # noqa: BLE001
            self._delivered(worker, key, False, _readable(error_text or repr(error), error))
            return
        if error_text is None:
            self._delivered(worker, key, True, finished(value))
            return
        value.__cause__ = WorkerTraceback(error_text)
        self._delivered(worker, key, False, value)

    def _delivered(self, worker: _Worker, key: Hashable, succeeded: bool, value: Any) -> None:
        self._deliver(key, succeeded, value)
        with self._there:
            worker.tasks.pop(key, None)
            self._hand_out()

    def close(self) -> None:
        """End the processes, whatever they are doing, and remove their memory."""
        if self.pid != os.getpid() or self._closing:
            return
        self._closing = True
        self._fail(MXNetError("the DataLoader is closed"))
        with contextlib.suppress(OSError):
            self._wake.send_bytes(b"end")
        if self._collector is not threading.current_thread():
            self._collector.join(_SECONDS_TO_END)
        for worker in self._workers:
            worker.pipe.close()  # who waits for a task ends now
        deadline = time.monotonic() + _SECONDS_TO_END
        for worker in self._workers:
            if worker.tasks:
                worker.process.terminate()
            worker.process.join(max(0.0, deadline - time.monotonic()))
            if worker.process.exitcode is None:
                worker.process.kill()
                worker.process.join(_SECONDS_TO_END)
        for worker in self._workers:
            for segment in worker.tasks.values():
                _taken_out(segment, [])
        self._wake.close()
        self._woken.close()


def _start_method() -> str:
    """Return how processes are started: as the program chose, else by forking where that is usual."""
    chosen = multiprocessing.get_start_method(allow_none=True)
    if chosen is not None:
        return chosen
    return "fork" if sys.platform.startswith("linux") else "spawn"


def _forks(context: Any) -> bool:
    return bool(context.get_start_method() == "fork")


@functools.cache
def _load_engine() -> None:
    """Have everything imported that evaluations import: the planner and the compiler, too, which wait for their use.

    A process that is forked while another thread imports a module would wait for that import for ever.
    """
    if settings.current().executor != "reference":
        for name in ("phonograd.native.program", "llvmlite.binding"):
            with contextlib.suppress(ImportError):
                importlib.import_module(name)
    # a thread of its own: what this one has recorded is not to be evaluated for it
    thread = threading.Thread(target=lambda: (zeros((1,)) + 1).wait_to_read(), name="DataLoader-start")
    thread.start()
    thread.join()


def _start(process: Any) -> None:
    """Start a process; the threads of this library expect forks."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*fork.*", DeprecationWarning)
        try:
            process.start()
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise MXNetError(
                f"the dataset or batchify_fn cannot be sent to worker processes: {error}. Define its functions and "
                "classes at the top of a module, or use thread_pool=True."
            ) from error


def _epitaph(process: Any) -> str:
    """Return why a worker is gone."""
    code = process.exitcode
    if code is None:
        how = "closed its pipe"
    elif code < 0:
        how = f"was killed by signal {-code} ({signal.Signals(-code).name})"
    else:
        how = f"ended with exit code {code}"
    advice = " SIGKILL often means that memory is short: use fewer workers, a smaller prefetch, or smaller batches."
    return f"worker process {process.pid} of the DataLoader {how} before it returned its batch." + (
        advice if code == -getattr(signal, "SIGKILL", 9) else ""
    )


def _readable(text: str, error: BaseException) -> MXNetError:
    """Return an exception for one that cannot be brought over, or a batch that cannot."""
    made = MXNetError(f"a worker process of the DataLoader failed, and what it sent cannot be read here ({error})")
    made.__cause__ = WorkerTraceback(text)
    return made


# -- shared memory


def _put_in(buffers: list[memoryview], name: str) -> list[tuple[int, int]] | None:
    """Return (offset, length) of buffers in new shared memory; None if there is not enough of it."""
    places, end = [], 0
    for buffer in buffers:
        places.append((end, buffer.nbytes))
        end += -(-buffer.nbytes // _ALIGNMENT) * _ALIGNMENT
    # writing to memory that the system promised but does not have would kill the process
    if os.path.isdir("/dev/shm") and shutil.disk_usage("/dev/shm").free < 2 * end:
        return None
    try:
        memory = shared_memory.SharedMemory(name, create=True, size=end)
    except OSError:
        return None
    view: Any = memory.buf
    try:
        for (offset, length), buffer in zip(places, buffers):
            view[offset : offset + length] = buffer.cast("B")
    finally:
        memory.close()
    return places


def _taken_out(name: str | None, places: list[tuple[int, int]]) -> list[Any]:
    """Return copies of the buffers in shared memory, which is removed."""
    if name is None:
        return []
    try:
        memory = shared_memory.SharedMemory(name)
    except FileNotFoundError:
        return []
    try:
        content: Any = memory.buf
        view = np.frombuffer(content, np.uint8)
        buffers = [view[offset : offset + length].copy() for offset, length in places]
        del view, content
        return buffers
    finally:
        memory.close()
        memory.unlink()


# -- in worker processes


def work(pipe: Any, others: Sequence[Any], dataset: Any, batchify_fn: Callable[[Sequence[Any]], Any]) -> None:
    """Make batches, in a worker process, until the program closes its end of the pipe."""
    # Ctrl-C is for the program, which then closes the pipe
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for other in others:
        other.close()
    # there are as many workers as shall work at once
    with settings.override(num_threads=1), contextlib.suppress(EOFError, OSError):
        while True:
            key, samples, seed, segment, (shapes, arrays) = pickle.loads(pipe.recv_bytes())
            try:
                _seed(seed)
                with np_shape(shapes), np_array(arrays):
                    message = _message(key, batchify_fn([dataset[number] for number in samples]), segment)
            except BaseException as error:  # noqa: BLE001
                message = _complaint(key, error)
            pipe.send_bytes(message)


def _seed(seed: Sequence[int]) -> None:
    """Seed all generators, so that a batch is the same whichever worker makes it."""
    words = np.random.SeedSequence(seed).generate_state(4)
    random.seed(words.tobytes())
    np.random.seed(words)
    seed_stream(int(words[0]) << 32 | int(words[1]))


def _message(key: Hashable, batch: Any, segment: str) -> bytes:
    """Return a batch as a message, its large buffers in shared memory."""
    buffers: list[pickle.PickleBuffer] = []

    def stays(buffer: pickle.PickleBuffer) -> bool:
        if buffer.raw().nbytes < _LEAST_SHARED_BYTES:
            return True
        buffers.append(buffer)
        return False

    plain = unfinished(batch)
    if os.name == "posix":
        content = pickle.dumps(plain, 5, buffer_callback=stays)
        if buffers:
            places = _put_in([buffer.raw() for buffer in buffers], segment)
            if places is not None:
                return pickle.dumps((key, content, None, places, segment), 5)
    return pickle.dumps((key, pickle.dumps(plain, 5), None, [], None), 5)


def _complaint(key: Hashable, error: BaseException) -> bytes:
    """Return an exception as a message."""
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    try:
        if not isinstance(error, Exception):
            raise TypeError("what ends a worker, sys.exit() for one, is not to end the program")
        content = pickle.dumps(error, 5)
        if not isinstance(pickle.loads(content), BaseException):
            raise TypeError("it is no exception any more")
    except Exception:  # noqa: BLE001
        content = pickle.dumps(MXNetError(f"{type(error).__name__}: {error}"), 5)
    return pickle.dumps((key, content, text, [], None), 5)
