"""Provide worker pools: threads or processes that make batches ahead of their use.

A pool takes tasks, lists of indices of examples under a key, and hands out batches under the same keys. Threads share
one queue. Each process has its own pipe, from which it reads its tasks. A process that dies therefore takes neither a
lock nor another task with it. A thread of the program receives batches and detects dead processes.

Large arrays are passed in shared memory, one piece per batch, from which the program copies them. The memory has no
name, only descriptors, which go through the pipe. The system frees it with the last descriptor, however the processes
end, and ``/dev/shm`` can be small. :mod:`pickle` transfers all other values.
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
from ...core.trace.trace import waitall
from ...ndarray.array import NDArray
from ...ndarray.creation import zeros
from ...util import is_np_array, is_np_shape, np_array, np_shape
from .batchify import from_transferable, to_transferable
from .columns import batch_of

__all__ = ["ProcessWorkerPool", "ThreadWorkerPool", "WorkerPool", "WorkerTimeout", "WorkerTraceback"]

#: smaller buffers stay in the message
_LEAST_SHARED_BYTES = 1 << 16
#: a task for a busy worker must fit into the pipe: otherwise both ends could wait for each other
_MOST_WAITING_BYTES = 4096
_SECONDS_TO_END = 0.5
#: the interval at which a worker checks that the program is alive
_SECONDS_TO_LOOK = 2.0

#: whether NumPy shapes and NumPy arrays are active in the thread that requests a batch
Semantics = tuple[bool, bool]
#: the key and content of a batch and None, or the key and content of an exception and its traceback
Message = tuple[Hashable, bytes, "str | None"]


class WorkerTimeout(multiprocessing.TimeoutError, TimeoutError):
    """Report that a batch was not ready in time."""


class WorkerTraceback(Exception):
    """Carry the traceback of a worker process, as the cause of the same exception in the program."""

    def __str__(self) -> str:
        return f"\n\nin a worker process:\n{self.args[0]}"


class WorkerPool:
    """Base class of worker pools: hold batches by key, and wait for them."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self._condition = threading.Condition()
        self._wanted: set[Hashable] = set()
        self._batches: dict[Hashable, tuple[bool, Any]] = {}
        #: the reason why there will be no more batches
        self._failure: BaseException | None = None

    def submit(self, key: Hashable, samples: Sequence[Any], seed: Sequence[int]) -> None:
        """Queue a batch."""
        raise NotImplementedError

    def close(self) -> None:
        """Stop all workers."""
        raise NotImplementedError

    @property
    def is_usable(self) -> bool:
        """Return whether the pool can make batches: it has not failed, and belongs to this process."""
        return self._failure is None and self.pid == os.getpid()

    def _deliver(self, key: Hashable, succeeded: bool, value: Any) -> None:
        """Store a batch, or an exception in its place."""
        with self._condition:
            if key in self._wanted:
                self._batches[key] = succeeded, value
                self._condition.notify_all()

    def _fail(self, error: BaseException) -> None:
        """Raise an error in all current and later calls of :meth:`take`."""
        with self._condition:
            self._failure = self._failure or error
            self._condition.notify_all()

    def take(self, key: Hashable, timeout: float | None) -> Any:
        """Return a batch as soon as it is ready.

        Raises
        ------
        WorkerTimeout
            If the batch is not ready in time.
        MXNetError
            If a process of the pool died.
        """
        with self._condition:
            found = self._condition.wait_for(lambda: key in self._batches or self._failure is not None, timeout)
            if key not in self._batches:
                if self._failure is not None:
                    raise self._failure
                assert not found
                raise WorkerTimeout(
                    f"a worker of the DataLoader did not return a batch within {timeout} seconds. If examples take "
                    "that long, raise the timeout (DataLoader(timeout=...)) or use smaller batches; to find an "
                    "example that hangs, use num_workers=0."
                )
            self._wanted.discard(key)
            succeeded, value = self._batches.pop(key)
        if not succeeded:
            raise value
        return value

    def forget(self, keys: Sequence[Hashable]) -> None:
        """Discard the batches of some keys, made or not."""
        with self._condition:
            for key in keys:
                self._wanted.discard(key)
                self._batches.pop(key, None)


class ThreadWorkerPool(WorkerPool):
    """Make batches in threads."""

    def __init__(self, count: int, dataset: Any, batchify_fn: Callable[[Sequence[Any]], Any]) -> None:
        super().__init__()
        self._dataset, self._batchify_fn = dataset, batchify_fn
        self._count = count
        self._tasks: queue.SimpleQueue[tuple[Hashable, Sequence[Any], Semantics] | None] = queue.SimpleQueue()
        for number in range(count):
            # no pool of concurrent.futures: the interpreter would wait at exit for an example that hangs
            threading.Thread(target=self._run, name=f"DataLoader-{number}", daemon=True).start()

    def submit(self, key: Hashable, samples: Sequence[Any], seed: Sequence[int]) -> None:
        """Queue a batch. Threads draw from the generators of the program and ignore `seed`."""
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
            except BaseException as error:  # noqa: BLE001 - sys.exit() in a worker must not end the program
                made = MXNetError(f"{type(error).__name__}: {error}")
                made.__cause__ = error
                self._deliver(key, False, made)

    def close(self) -> None:
        """Stop the threads after their current batches."""
        self._fail(MXNetError("the DataLoader is closed"))
        for _ in range(self._count):
            self._tasks.put(None)


def _compute(batch: Any) -> None:
    """Compute the arrays of a batch in this thread rather than at their first use."""
    if isinstance(batch, NDArray):
        batch.wait_to_read()
    elif isinstance(batch, (list, tuple, Mapping)):
        for part in batch.values() if isinstance(batch, Mapping) else batch:
            _compute(part)


class _Worker:
    """Hold a worker process, its pipe, and its tasks."""

    def __init__(self, process: Any, pipe: Any) -> None:
        self.process = process
        self.pipe = pipe
        self.tasks: set[Hashable] = set()


class ProcessWorkerPool(WorkerPool):
    """Make batches in processes.

    Linux forks them: a dataset may then contain functions without names, and a script needs no
    ``if __name__ == "__main__"``. Other systems spawn them; ``multiprocessing.set_start_method`` selects another way.
    """

    def __init__(self, count: int, dataset: Any, batchify_fn: Callable[[Sequence[Any]], Any]) -> None:
        super().__init__()
        context: Any = multiprocessing.get_context(_start_method())
        if _is_forking(context):
            _load_engine()
            # otherwise every worker would compute what is pending here, such as a forward pass that a transform needs
            waitall()
        self._closing = False
        self._waiting: list[tuple[Hashable, bytes]] = []
        self._workers: list[_Worker] = []
        self._wake_sender, self._wake_receiver = multiprocessing.connection.Pipe()
        for _ in range(count):
            ours, theirs = context.Pipe()
            # a forked worker inherits the pipes of the others: an open copy would outlive the program
            others = [ours, *[worker.pipe for worker in self._workers]] if _is_forking(context) else []
            process = context.Process(target=work, args=(theirs, others, dataset, batchify_fn), daemon=True)
            _start(process)
            theirs.close()
            self._workers.append(_Worker(process, ours))
        self._collector = threading.Thread(target=self._collect, name="DataLoader-collector", daemon=True)
        self._collector.start()

    def submit(self, key: Hashable, samples: Sequence[Any], seed: Sequence[int]) -> None:
        """Queue a batch, which a worker makes after seeding its random generators."""
        with self._condition:
            if self._failure is not None:
                raise self._failure
            self._wanted.add(key)
            task = key, list(samples), list(seed), (is_np_shape(), is_np_array())
            self._waiting.append((key, pickle.dumps(task, 5)))
            self._hand_out()

    def _hand_out(self) -> None:
        """Send waiting tasks to workers with at most one task. The caller holds the lock."""
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
            with contextlib.suppress(OSError):  # the collector will detect the dead worker
                worker.pipe.send_bytes(message)

    def _collect(self) -> None:
        """Receive messages of workers until the pool is closed."""
        by_handle: dict[Any, _Worker] = {worker.pipe: worker for worker in self._workers}
        by_handle |= {worker.process.sentinel: worker for worker in self._workers}
        try:
            while not self._closing:
                for handle in multiprocessing.connection.wait([self._wake_receiver, *by_handle]):
                    if handle is self._wake_receiver or self._closing:
                        return
                    self._receive(by_handle[handle])
        except BaseException as error:  # noqa: BLE001
            self._fail(error)

    def _receive(self, worker: _Worker) -> None:
        """Receive one message of a worker that has sent one or died."""
        try:
            found = _receive_message(worker.pipe) if worker.pipe.poll() else None
        except (EOFError, OSError):
            found = None
        if found is None:
            if not worker.process.is_alive() or not self._closing:
                worker.process.join(_SECONDS_TO_END)
                raise MXNetError(_death_message(worker.process))
            return
        (key, content, error_text), buffers = found
        try:
            value = pickle.loads(content, buffers=buffers)
        except Exception as error:  # noqa: BLE001
            self._deliver_result(worker, key, False, _unpickling_error(error_text or repr(error), error))
            return
        if error_text is None:
            self._deliver_result(worker, key, True, from_transferable(value))
            return
        value.__cause__ = WorkerTraceback(error_text)
        self._deliver_result(worker, key, False, value)

    def _deliver_result(self, worker: _Worker, key: Hashable, succeeded: bool, value: Any) -> None:
        self._deliver(key, succeeded, value)
        with self._condition:
            worker.tasks.discard(key)
            self._hand_out()

    def close(self) -> None:
        """Stop the processes immediately."""
        if self.pid != os.getpid() or self._closing:
            return
        self._closing = True
        self._fail(MXNetError("the DataLoader is closed"))
        with contextlib.suppress(OSError):
            self._wake_sender.send_bytes(b"end")
        if self._collector is not threading.current_thread():
            self._collector.join(_SECONDS_TO_END)
        for worker in self._workers:
            if worker.tasks:
                worker.process.terminate()
            else:
                # an idle worker ends at an empty message; closing the pipe may not suffice: others may hold it
                with contextlib.suppress(OSError):
                    worker.pipe.send_bytes(b"")
            worker.pipe.close()
        deadline = time.monotonic() + _SECONDS_TO_END
        for worker in self._workers:
            worker.process.join(max(0.0, deadline - time.monotonic()))
            if worker.process.exitcode is None:
                worker.process.kill()
                worker.process.join(_SECONDS_TO_END)
            with contextlib.suppress(ValueError):  # a process that survives even kill()
                worker.process.close()
        self._wake_sender.close()
        self._wake_receiver.close()


def _start_method() -> str:
    """Return the start method of processes: the program's choice, else 'fork' on Linux and 'spawn' elsewhere."""
    chosen = multiprocessing.get_start_method(allow_none=True)
    if chosen is not None:
        return chosen
    return "fork" if sys.platform.startswith("linux") else "spawn"


def _is_forking(context: Any) -> bool:
    return bool(context.get_start_method() == "fork")


@functools.cache
def _load_engine() -> None:
    """Import all modules that an evaluation imports, including the planner and compiler, which load late.

    A process that is forked during an import in another thread would wait forever for that import.
    """
    if settings.current().executor != "reference":
        for name in ("phonograd.core.plan.native_program", "llvmlite.binding"):
            with contextlib.suppress(ImportError):
                importlib.import_module(name)
    # a separate thread, because the trace of this one must not be evaluated as a side effect
    thread = threading.Thread(target=lambda: (zeros((1,)) + 1).wait_to_read(), name="DataLoader-start")
    thread.start()
    thread.join()


def _start(process: Any) -> None:
    """Start a process, without Python's warning about forks: the threads of this library support them."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*fork.*", DeprecationWarning)
        try:
            process.start()
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise MXNetError(
                f"the dataset or batchify_fn cannot be sent to worker processes: {error}. Define its functions and "
                "classes at the top of a module, or use thread_pool=True."
            ) from error


def _death_message(process: Any) -> str:
    """Return a message that says how a worker ended."""
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


def _unpickling_error(text: str, error: BaseException) -> MXNetError:
    """Return a substitute for an exception or a batch that cannot be unpickled."""
    made = MXNetError(f"a worker process of the DataLoader failed, and its message cannot be unpickled ({error})")
    made.__cause__ = WorkerTraceback(text)
    return made


# -- messages of workers, and shared memory


def _send(pipe: Any, message: Message, sizes: list[int], memory: int | None) -> None:
    """Send a message, and the descriptor of its shared memory if there is any."""
    pipe.send_bytes(pickle.dumps((message, sizes), 5))
    if memory is not None:
        reduction.send_handle(pipe, memory, None)
        os.close(memory)


def _receive_message(pipe: Any) -> tuple[Message, list[Any]]:
    """Return a message of a worker, and the buffers that came with it."""
    message, sizes = pickle.loads(pipe.recv_bytes())
    if not sizes:
        return message, []
    memory = reduction.recv_handle(pipe)
    try:
        return message, _read_shared_memory(memory, sizes)
    finally:
        os.close(memory)


def _write_shared_memory(buffers: Sequence[memoryview]) -> int | None:
    """Write buffers to new shared memory, and return its descriptor; None if the system has none."""
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


def _read_shared_memory(memory: int, sizes: Sequence[int]) -> list[Any]:
    """Return copies of the buffers in shared memory."""
    buffers, place = [], 0
    for size in sizes:
        buffer: Any = np.empty(size, np.uint8)
        rest = memoryview(buffer)
        while len(rest):
            count = os.preadv(memory, [rest], place)
            if not count:
                raise EOFError("the shared memory of a batch is too short")
            place, rest = place + count, rest[count:]
        buffers.append(buffer)
    return buffers


# -- in worker processes


def work(pipe: Any, others: Sequence[Any], dataset: Any, batchify_fn: Callable[[Sequence[Any]], Any]) -> None:
    """Make batches in a worker process until the program closes its end of the pipe."""
    # the program handles Ctrl-C, and then closes the pipe
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for other in others:
        other.close()
    threading.Thread(target=_end_with, args=(os.getppid(),), name="DataLoader-parent", daemon=True).start()
    # the number of workers is the parallelism
    with settings.override(num_threads=1), contextlib.suppress(EOFError, OSError):
        while task := pipe.recv_bytes():
            key, samples, seed, (shapes, arrays) = pickle.loads(task)
            memory: int | None = None
            sizes: list[int] = []
            try:
                _seed(seed)
                with np_shape(shapes), np_array(arrays):
                    content, sizes, memory = _pack(batch_of(dataset, batchify_fn, samples))
                message: Message = key, content, None
            except BaseException as error:  # noqa: BLE001
                message = _error_message(key, error)
            _send(pipe, message, sizes, memory)


def _end_with(parent: int) -> None:
    """End this process soon after its parent, even if an example hangs or another process holds its pipe."""
    while os.getppid() == parent:
        time.sleep(_SECONDS_TO_LOOK)
    os._exit(1)


def _seed(seed: Sequence[int]) -> None:
    """Seed all generators, so that a batch does not depend on the worker that makes it."""
    words = np.random.SeedSequence(seed).generate_state(4)
    random.seed(words.tobytes())
    np.random.seed(words)
    seed_stream(int(words[0]) << 32 | int(words[1]))


def _pack(batch: Any) -> tuple[bytes, list[int], int | None]:
    """Return a batch as bytes, the sizes of its large buffers, and the shared memory that holds them."""
    buffers: list[memoryview] = []

    def stays(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes < _LEAST_SHARED_BYTES:
            return True
        buffers.append(raw)
        return False

    plain = to_transferable(batch)
    content = pickle.dumps(plain, 5, buffer_callback=stays)
    memory = _write_shared_memory(buffers) if buffers else None
    if buffers and memory is None:
        return pickle.dumps(plain, 5), [], None
    return content, [buffer.nbytes for buffer in buffers], memory


def _error_message(key: Hashable, error: BaseException) -> Message:
    """Return a message with an exception."""
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    try:
        if not isinstance(error, Exception):
            raise TypeError("an exception that ends a worker, such as SystemExit, must not end the program")
        content = pickle.dumps(error, 5)
        if not isinstance(pickle.loads(content), BaseException):
            raise TypeError("the exception does not survive pickling")
    except Exception:  # noqa: BLE001
        content = pickle.dumps(MXNetError(f"{type(error).__name__}: {error}"), 5)
    return key, content, text
