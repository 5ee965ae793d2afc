"""Crews: threads or processes that make batches ahead of those who want them.

A crew gets tasks, lists of numbers of examples under a key, and has the batches ready under the same keys. Threads have
one queue. Each process has a pipe of its own, at whose end it waits for its tasks, so that one that dies takes neither
a lock nor another's task with it; a thread of the program collects what they send and notices who is gone.

Large arrays travel in shared memory, one piece of it for each batch, which the program copies them out of. It has no
name, only descriptors, which go through the pipe: so it is gone as soon as nobody has one, however the processes end,
and ``/dev/shm`` need not be large. Everything else is pickled, as between all processes of :mod:`multiprocessing`.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import multiprocessing
import multiprocessing.connection
import multiprocessing.util
import os
import pickle
import queue
import random
import signal
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from multiprocessing import reduction
from typing import Any

import numpy as np

from ...core.base import settings
from ...core.base.errors import MXNetError
from ...core.trace.rng import seed as seed_stream
from ...ndarray.array import NDArray
from ...ndarray.creation import zeros
from ...util import is_np_array, is_np_shape, np_array, np_shape
from .batchify import finished, unfinished
from .columns import batch_of

__all__ = ["ProcessWorkerPool", "ThreadWorkerPool", "WorkerPool", "WorkerTimeout", "WorkerTraceback"]

#: buffers below this size stay in the message
_LEAST_SHARED_BYTES = 1 << 16
#: a task that a worker gets while it is busy must fit into the pipe, or both ends might wait for each other
_MOST_WAITING_BYTES = 4096
_SECONDS_TO_END = 0.5
#: how often a worker looks whether the program is still there
_SECONDS_TO_LOOK = 2.0

#: whether NumPy shapes and NumPy arrays are on where a batch is wanted
Semantics = tuple[bool, bool]
#: key and content of a batch; or of an exception, and the text of its traceback
Message = tuple[Hashable, bytes, "str | None"]


class WorkerTimeout(multiprocessing.TimeoutError, TimeoutError):
    """A batch was not there in time."""


class WorkerTraceback(Exception):
    """Where an exception was raised in a worker process; the cause of the same exception here."""

    def __str__(self) -> str:
        return f"\n\nin a worker process:\n{self.args[0]}"


class WorkerPool:
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


class ThreadWorkerPool(WorkerPool):
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
                    batch = batch_of(self._dataset, self._batchify_fn, samples)
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
        self.tasks: set[Hashable] = set()


class ProcessWorkerPool(WorkerPool):
    """Processes that make batches.

    They are forked on Linux, so that a dataset can have functions without names and a script needs no
    ``if __name__ == "__main__"``, and spawned elsewhere; ``multiprocessing.set_start_method`` chooses another way.
    """

    def __init__(self, count: int, dataset: Any, batchify_fn: Callable[[Sequence[Any]], Any]) -> None:
        super().__init__()
        context: Any = multiprocessing.get_context(_start_method())
        if _forks(context):
            _load_engine()
        self._closing = False
        self._waiting: list[tuple[Hashable, bytes]] = []
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
            self._wanted.add(key)
            task = key, list(samples), list(seed), (is_np_shape(), is_np_array())
            self._waiting.append((key, pickle.dumps(task, 5)))
            self._hand_out()

    def _hand_out(self) -> None:
        """Give waiting tasks to workers that have none, or only one; the lock is held."""
        while self._waiting:
            key, message = self._waiting[0]
            if key not in self._wanted:
                self._waiting.pop(0)
                continue
            worker = min(self._workers, key=lambda each: len(each.tasks))
            if len(worker.tasks) > (1 if len(message) <= _MOST_WAITING_BYTES else 0):
                return
            self._waiting.pop(0)
            worker.tasks.add(key)
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
            found = _received(worker.pipe) if worker.pipe.poll() else None
        except (EOFError, OSError):
            found = None
        if found is None:
            if not worker.process.is_alive() or not self._closing:
                worker.process.join(_SECONDS_TO_END)
                raise MXNetError(_epitaph(worker.process))
            return
        (key, content, error_text), buffers = found
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
            worker.tasks.discard(key)
            self._hand_out()

    def close(self) -> None:
        """End the processes, whatever they are doing."""
        if self.pid != os.getpid() or self._closing:
            return
        self._closing = True
        self._fail(MXNetError("the DataLoader is closed"))
        with contextlib.suppress(OSError):
            self._wake.send_bytes(b"end")
        if self._collector is not threading.current_thread():
            self._collector.join(_SECONDS_TO_END)
        for worker in self._workers:
            if worker.tasks:
                worker.process.terminate()
            else:
                # who waits for a task ends now; other processes may have the pipe, so that closing it is not enough
                with contextlib.suppress(OSError):
                    worker.pipe.send_bytes(b"")
            worker.pipe.close()
        deadline = time.monotonic() + _SECONDS_TO_END
        for worker in self._workers:
            worker.process.join(max(0.0, deadline - time.monotonic()))
            if worker.process.exitcode is None:
                worker.process.kill()
                worker.process.join(_SECONDS_TO_END)
            with contextlib.suppress(ValueError):  # what even that does not end
                worker.process.close()
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
        for name in ("phonograd.core.plan.native_program", "llvmlite.binding"):
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


# -- messages of workers, and shared memory


def _send(pipe: Any, message: Message, sizes: list[int], memory: int | None) -> None:
    """Send a message with what is in shared memory."""
    pipe.send_bytes(pickle.dumps((message, sizes), 5))
    if memory is not None:
        reduction.send_handle(pipe, memory, None)
        os.close(memory)


def _received(pipe: Any) -> tuple[Message, list[Any]]:
    """Return a message of a worker, and the buffers that came with it."""
    message, sizes = pickle.loads(pipe.recv_bytes())
    if not sizes:
        return message, []
    memory = reduction.recv_handle(pipe)
    try:
        return message, _taken_out(memory, sizes)
    finally:
        os.close(memory)


def _shared(buffers: Sequence[memoryview]) -> int | None:
    """Return a descriptor of new shared memory with buffers one after the other; None if the system has none."""
    try:
        memory = os.memfd_create("phonograd")
    except (AttributeError, OSError):
        return None
    try:
        for buffer in buffers:
            rest = buffer.cast("B")
            while len(rest):
                rest = rest[os.write(memory, rest) :]
    except OSError:
        os.close(memory)
        return None
    return memory


def _taken_out(memory: int, sizes: Sequence[int]) -> list[Any]:
    """Return copies of the buffers in shared memory."""
    buffers, place = [], 0
    for size in sizes:
        buffer: Any = np.empty(size, np.uint8)
        rest = memoryview(buffer)
        while len(rest):
            count = os.preadv(memory, [rest], place)
            if not count:
                raise EOFError("shared memory is shorter than it should be")
            place, rest = place + count, rest[count:]
        buffers.append(buffer)
    return buffers


# -- in worker processes


def work(pipe: Any, others: Sequence[Any], dataset: Any, batchify_fn: Callable[[Sequence[Any]], Any]) -> None:
    """Make batches, in a worker process, until the program closes its end of the pipe."""
    # Ctrl-C is for the program, which then closes the pipe
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for other in others:
        other.close()
    threading.Thread(target=_end_with, args=(os.getppid(),), name="DataLoader-parent", daemon=True).start()
    # there are as many workers as shall work at once
    with settings.override(num_threads=1), contextlib.suppress(EOFError, OSError):
        while task := pipe.recv_bytes():
            key, samples, seed, (shapes, arrays) = pickle.loads(task)
            memory: int | None = None
            sizes: list[int] = []
            try:
                _seed(seed)
                with np_shape(shapes), np_array(arrays):
                    content, sizes, memory = _packed(batch_of(dataset, batchify_fn, samples))
                message: Message = key, content, None
            except BaseException as error:  # noqa: BLE001
                message = _complaint(key, error)
            _send(pipe, message, sizes, memory)


def _end_with(parent: int) -> None:
    """End the process soon after its parent, also if an example hangs or another process has the ends of its pipe."""
    while os.getppid() == parent:
        time.sleep(_SECONDS_TO_LOOK)
    os._exit(1)


def _seed(seed: Sequence[int]) -> None:
    """Seed all generators, so that a batch is the same whichever worker makes it."""
    words = np.random.SeedSequence(seed).generate_state(4)
    random.seed(words.tobytes())
    np.random.seed(words)
    seed_stream(int(words[0]) << 32 | int(words[1]))


def _packed(batch: Any) -> tuple[bytes, list[int], int | None]:
    """Return a batch as bytes, the sizes of its large buffers, and the shared memory that they are in."""
    buffers: list[memoryview] = []

    def stays(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes < _LEAST_SHARED_BYTES:
            return True
        buffers.append(raw)
        return False

    plain = unfinished(batch)
    content = pickle.dumps(plain, 5, buffer_callback=stays)
    memory = _shared(buffers) if buffers else None
    if buffers and memory is None:
        return pickle.dumps(plain, 5), [], None
    return content, [buffer.nbytes for buffer in buffers], memory


def _complaint(key: Hashable, error: BaseException) -> Message:
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
    return key, content, text
