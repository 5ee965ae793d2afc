"""The planner process: plans graphs that came back, and compiles kernels, outside of the program's interpreter.

Planning is Python. A thread that plans takes the interpreter from the program: each time the program lets go of it, to
run a kernel, it has to wait until the thread is interrupted. A process at low priority does not. It leaves plans and
kernels in the disk cache, where :mod:`~phonograd.core.plan.disk` finds them.

Takes nodes from :mod:`phonograd.core.trace.evaluation`, and keys of kernels from
:mod:`~phonograd.core.run.kernel_cache`; hands both to :mod:`~phonograd.core.plan.planner_worker` as plain data, over a
socket. Where there can be no such process, or it fails, a thread does the same work. See docs/decisions/0046.
"""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import json
import marshal
import os
import sys
import threading
import time
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ..base import collector, fork, pace, settings
from ..base.launchers import find_place
from ..base.pace import rest
from ..graph.node import Node
from ..ops.math.structural import LEAF
from ..run import kernel_cache, thread_pool
from ..run.affinity import Other
from ..run.background import GATE
from ..run.reference import order, resolve
from ..run.spawn import spawn
from .disk import DEPTH, describe
from .plain_data import plain

if TYPE_CHECKING:
    import _socket

    from .packed_plans import PackedGraph

__all__ = ["LENGTH_BYTES", "end", "graph_message", "improve", "is_used", "learn_record", "pack", "prepare"]

#: bytes of the length before each request, and of the number of the process
LENGTH_BYTES = 8
#: how long a thread waits for an answer: after that, the process is given up
MOST_SECONDS = 120.0
#: how often it looks whether the program is about to end
LOOK_SECONDS = 0.05
#: the share of that time for which the program works on one thread if the process has waited longer than it ran
ALONE_SHARE = 0.5
#: send() raises an error if the process has ended, even if the program wants to be ended by such writes
_NO_SIGNAL = 0x4000 if sys.platform == "linux" else 0
#: a process that has waited so long for a core, and so many times as long as it ran, does not get on
STARVED_SECONDS, STARVED_TIMES = 2.0, 4.0
#: processes that failed, after which threads plan
MOST_FAILURES = 2
#: requests in a row that it could not fulfill, after which threads plan: it cannot write to the cache directory, say
MOST_REFUSALS = 4

#: the priority of the process where the system has none for idle cores: the program goes first
NICENESS = 19
#: the program of the process: it leaves its parent, which may wait for all its children, and its process group, to
#: which Ctrl-C is sent; and it imports what the program would import. It stays in the session of the program, because
#: Linux divides the processor among sessions, whatever the priorities are.
_PROGRAM = f"""
import json, os, sys
os.fork() and os._exit(0)
os.write(0, os.getpid().to_bytes({LENGTH_BYTES}, "little"))
os.setpgid(0, 0)
sys.path[:] = json.loads(sys.argv[1])
from phonograd.core.plan.planner_worker import main
main()
"""


class _Failed(Exception):
    """The process has ended, or does not answer."""


class _Starved(_Failed):
    """Other processes keep all cores busy, and this one does not get on."""


class PlannerProcess:
    """The process of this program; the first request starts it, and it ends by itself when it has nothing to do."""

    def __init__(self, is_usable: bool = True) -> None:
        self._lock = threading.Lock()
        self._socket: _socket.socket | None = None
        #: the number of the process, and what places it on processors
        self._number = 0
        self._process = Other(0)
        #: the number of the process that makes it, until that has ended
        self._parent = 0
        #: nanoseconds that it had run, and had waited for a core, before the request
        self._before = 0, 0
        #: whether the process has got all of the last request
        self._is_sent = True
        self._failures = 0 if is_usable else MOST_FAILURES
        self._refusals = 0
        self.is_closed = False

    @property
    def is_usable(self) -> bool:
        """Return whether requests may succeed."""
        return self._failures < MOST_FAILURES and self._refusals < MOST_REFUSALS and not self.is_closed

    def ask(self, request: bytes) -> bool:
        """Return whether the process has done what was requested; only helper threads call this.

        A process that has ended meanwhile, because it had nothing to do, is started again.
        """
        with self._lock:
            for _ in range(2):
                is_new = self._socket is None
                try:
                    with _cores_shared():
                        done = self.is_usable and self._exchange(request)
                    self._refusals = 0 if done else self._refusals + 1
                    return done
                except _Starved:
                    # nor would another one
                    self._give_up()
                    self._failures = MOST_FAILURES
                    break
                except (_Failed, OSError):
                    self._give_up()
                    if is_new:
                        self._failures += 1
                        break
            return False

    def _exchange(self, request: bytes) -> bool:
        deadline = time.monotonic() + MOST_SECONDS
        # a new process finds the request when it has been loaded, even if the program has ended meanwhile
        connection = self._socket or self._start()
        self._before = _processor_ns(self._number)
        self._process.keep_away(pace.watched())
        self._is_sent = False
        data = memoryview(len(request).to_bytes(LENGTH_BYTES, "little") + request)
        while data:
            try:
                data = data[connection.send(data, _NO_SIGNAL) :]
            except TimeoutError:
                self._look(deadline)
        self._is_sent = True
        if self._parent:
            self._number = int.from_bytes(self._receive(connection, LENGTH_BYTES, deadline), "little")
            self._process = Other(self._number)
            self._process.give_way(pace.watched(), NICENESS)
            self._reap()
        return self._receive(connection, 1, deadline) == b"\1"

    def _receive(self, connection: _socket.socket, count: int, deadline: float) -> bytes:
        """Return the next bytes of an answer, all in one part."""
        while True:
            try:
                answer = connection.recv(count)
                break
            except TimeoutError:
                self._look(deadline)
        if not answer:
            raise _Failed
        return answer

    def _look(self, deadline: float) -> None:
        """Raise an error if there is no point in waiting any longer."""
        if self.is_closed or time.monotonic() > deadline:
            raise _Failed
        now = _processor_ns(self._number)
        ran, waited = now[0] - self._before[0], now[1] - self._before[1]
        if waited > max(STARVED_SECONDS * 1e9, STARVED_TIMES * ran):
            raise _Starved
        if waited > ran:
            thread_pool.work_alone(ALONE_SHARE * LOOK_SECONDS)
        # the thread of the program may have moved
        self._process.keep_away(pace.watched())

    def _start(self) -> _socket.socket:
        """Start the process and return the socket that leads to it."""
        # the rest of the module `socket` is Python, and takes milliseconds of the interpreter from the program
        from _socket import socketpair

        ours, theirs = socketpair()
        with contextlib.closing(theirs), open(os.devnull, "r+b") as nothing:
            module_paths = json.dumps([str(path) for path in sys.path])
            command = [sys.executable, "-I", "-W", "ignore", "-c", _PROGRAM, module_paths]
            self._parent = spawn(command, (theirs.fileno(), nothing.fileno(), nothing.fileno()))
        # at once: loading the interpreter takes longer than many steps of a small program
        Other(self._parent).give_way(pace.watched(), NICENESS)
        ours.settimeout(LOOK_SECONDS)
        self._socket, self._number = ours, 0
        return ours

    def _reap(self) -> None:
        """Wait for the process that has made the one that stays: it ends at once."""
        process, self._parent = self._parent, 0
        # the program may have waited for it
        with contextlib.suppress(ChildProcessError):
            os.waitpid(process, 0)

    def _give_up(self) -> None:
        """Close the socket: the process ends when it has done what it is at."""
        if self._parent:
            self._reap()
        if self._socket is not None and not self.is_closed:
            self._socket.close()
            self._socket = None

    def close(self, last_request: Callable[[], bytes] | None = None) -> None:
        """End the process when it has done what it is at; a thread that waits for an answer gives up.

        Parameters
        ----------
        last_request
            Returns what it does before, without an answer; it does nothing if it would have to make room first.
        """
        self.is_closed = True
        with self._lock:
            connection, self._socket = self._socket, None
            if connection is None:
                return
            self._process.let_go()
            with contextlib.closing(connection), contextlib.suppress(OSError):
                connection.settimeout(0)
                if last_request is not None and self._is_sent:
                    request = last_request()
                    connection.send(len(request).to_bytes(LENGTH_BYTES, "little") + request, _NO_SIGNAL)

    def forget(self) -> None:
        """Close the socket of the parent, after a fork."""
        if self._socket is not None:
            self._socket.close()


@contextlib.contextmanager
def _cores_shared() -> Iterator[None]:
    """Let workers of the thread pool leave their cores to the process when they have nothing to do."""
    thread_pool.share_cores(True)
    try:
        yield
    finally:
        thread_pool.share_cores(False)


def _processor_ns(process: int) -> tuple[int, int]:
    """Return how long a process has run, and how long it has waited for a core; zeros where the system does not tell.

    The figures are those of its main thread, by the scheduler of Linux.
    """
    try:
        with open(f"/proc/{process}/schedstat", encoding="ascii") as file:
            ran, waited, _ = file.read().split()
    except (OSError, ValueError):
        return 0, 0
    return int(ran), int(waited)


_planner = PlannerProcess()


def end() -> None:
    """End the planner process; the next request starts another one."""
    global _planner
    before, _planner = _planner, PlannerProcess()
    before.close()


def is_used() -> bool:
    """Return whether plans are made by another process.

    Processes that a launcher started together have none, and neither have those that a program made to share its work:
    each of them has its part of the cores and of the memory.
    """
    now = settings.current()
    return (
        now.planner == "process"
        and now.tiers == "background"
        and not now.memory_limit_bytes
        and _planner.is_usable
        and hasattr(os, "posix_spawn")
        and _is_python()
        and find_place() is None
        and not _is_part_of_a_program()
    )


def _is_python() -> bool:
    """Return whether this process runs in an interpreter that can be started again, not in another application."""
    name = os.path.basename(sys.executable or "")
    return name.startswith(("python", "pypy")) and not getattr(sys, "frozen", False)


def _is_part_of_a_program() -> bool:
    """Return whether :mod:`multiprocessing` has started this process, for a part of the work of another one."""
    module = sys.modules.get("multiprocessing.process")
    return module is not None and module.parent_process() is not None


def prepare(targets: Iterable[Node], known: Container[Node], keep_all: bool, steady: Container[Node] = ()) -> None:
    """Have the planner process make the plan of an evaluation, unless it is on disk; return when it is there.

    Nothing happens if there can be no such process, or if the plan has no description. ``steady`` are inputs that were
    the same arrays in several runs: at the end of the program, the process makes the plan that takes them packed.
    """
    if not is_used() or not kernel_cache.available():
        return
    disk = kernel_cache.disk_cache()
    if disk is None:
        return
    rest()
    with collector.paused(stay=True):
        wanted = [resolve(node) for node in targets]
        wanted = [node for node in wanted if node.operator is not LEAF and node not in known]
        if not wanted:
            return
        inputs, computed = order(wanted, known.__contains__)
        description = describe(wanted, inputs, computed, keep_all)
        key = "" if description is None else disk.key(description, "p")
        rest()
        if not key or disk.load(key) is not None:
            return
        message = graph_message(wanted, inputs, computed)
    if message is not None:
        rest()
        numbers = [] if keep_all else [number for number, node in enumerate(inputs) if node in steady]
        _ask(_request("plan", key, keep_all, message, numbers))


def pack(graph: PackedGraph, key: str) -> bool:
    """Have the planner process make a plan that takes some inputs packed; return whether it is on disk."""
    message = graph_message(graph.targets, graph.inputs, graph.computed) if is_used() else None
    return message is not None and _ask(_request("pack", key, message, graph.numbers))


def learn_record(key: str, record: Any) -> bool:
    """Request a plan of a record for any extents from the planner process; return whether it is on disk."""
    return is_used() and _ask(_request("record", key, record))


def _ask(request: bytes) -> bool:
    """Return whether the planner process has done what was requested; a helper calls this."""
    # no lock is held meanwhile, so a program that forks need not wait for the plan
    with GATE.left():
        done = _planner.ask(request)
    if _planner.is_closed:
        raise RuntimeError("a plan is not made, because the program is about to end")
    return done


def improve(key: str) -> bool | None:
    """Have the planner process compile a kernel in full; return whether it is on disk, or None at the program's end."""
    planner = _planner
    done = is_used() and planner.ask(_request("improve", key))
    return None if planner.is_closed else done


def _request(*parts: Any) -> bytes:
    return marshal.dumps((dataclasses.asdict(settings.current()), *parts), 2)


def graph_message(wanted: Sequence[Node], inputs: Sequence[Node], computed: Sequence[Node]) -> Any:
    """Return a graph as plain data: its nodes, oldest first, and which of them are wanted, and available.

    Views are left out, as in plans, and so is everything below available values that no rule looks at. Return None if a
    node has an attribute that is an object.
    """
    nodes = set(computed)
    above = list(inputs)
    for _ in range(DEPTH + 1):
        nodes.update(above)
        above = [resolve(source) for node in above for source in node.inputs]
        above = [source for source in dict.fromkeys(above) if source not in nodes]
    ordered = sorted(nodes, key=lambda node: node.serial)
    numbers = {node: number for number, node in enumerate(ordered)}
    # below these nodes, a leaf stands for anything
    edge = {node for node in ordered if any([resolve(source) not in nodes for source in node.inputs])}
    try:
        rows = [_row(node, numbers, node in edge) for node in ordered]
    except TypeError:
        return None
    return rows, [numbers[node] for node in wanted], [numbers[node] for node in inputs]


def _row(node: Node, numbers: dict[Node, int], is_edge: bool) -> tuple[Any, ...]:
    outputs = None if node.outputs is None else tuple([(shape, plain(dtype)) for shape, dtype in node.outputs])
    kind = node.shape, plain(node.dtype), plain(node.context), outputs
    if is_edge:
        return None, (), (), *kind
    sources = tuple([numbers[resolve(source)] for source in node.inputs])
    return node.operator.name, sources, tuple([plain(value) for value in node.attributes]), *kind


def _after_fork_in_child() -> None:
    """Leave the process to the parent: forked processes, of which there may be many, plan in threads."""
    global _planner
    _planner.forget()
    _planner = PlannerProcess(is_usable=False)


fork.register("planner process", after_in_child=_after_fork_in_child)


def _last_request() -> bytes:
    records = sys.modules.get(f"{__package__}.sized_records")
    left = [] if records is None else records.RECORDS.left_to_learn()
    return _request("finish", left, kernel_cache.left_to_compile_in_full(at_end=True))


def _close_at_exit() -> None:
    """Leave what the program would have had learned and compiled: the next run of a short program finds it."""
    _planner.close(_last_request if is_used() else None)


atexit.register(_close_at_exit)
