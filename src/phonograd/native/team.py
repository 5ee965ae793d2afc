"""The thread team: workers that share the chunks of a kernel's range with the thread that launches it.

A launch's range is divided into chunks whose size the launch brings along: it follows from the shape of the work, never
from the number of threads. Whoever is free takes the next chunk, so a thread that the system holds up delays no other.
The launching thread works too, and depends on workers only for chunks that they have begun: with workers asleep, gone
or few, the result is the same, later.

Everything that happens per launch is native code on one block of memory:

=============  =====================================================================================================
word           meaning
=============  =====================================================================================================
``OWNER``      1 while a thread has the team. Others that come meanwhile do not wait: they work alone
``CLAIM``      number of the job, shifted up, plus the chunks that nobody has begun. A chunk is taken by lowering this
               word by one, with a compare-exchange that fails if the job is over, so a worker may look at any time
               and is never waited for unless it has a chunk; from then on the words of the job stay as they are
``REMAINING``  chunks that are not finished; whoever finishes the last one wakes the launching thread if it sleeps
``QUIT``       1 when workers should end
=============  =====================================================================================================

A worker without work looks at ``CLAIM`` for some microseconds and then sleeps on a lock of its own. Waking it takes
longer than many kernels run, so sleepers are woken for much work only: by a row of launches that has much to do when it
begins, or by a single launch. They are woken along a tree: the launching thread wakes two, each of these two more. Who
waits without sleeping offers the processor to other threads again and again: the one it waits for may need it.

Locks are Python's own (``PyThread_*``): they exist on every platform and need no interpreter state. Workers are daemon
threads that sit inside one foreign call.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import platform
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import settings
from . import jit

__all__ = ["CELL", "MUCH_WORK", "PARALLEL", "SUMMON", "Team", "renew", "team_text"]

#: how long a worker looks for work before it sleeps, and a launching thread for the end before it does. Waking a
#: sleeper takes 20 to 60 us, and the Python between two plans of a small training loop about as long
SPIN_SECONDS = 100e-6

#: chunks (of 5 to 40 us) that are worth waking up workers
MUCH_WORK = 8
#: turns of waiting between two offers to let another thread have the processor
_YIELD_TURNS = 32

#: words of a team's memory. Words that different threads write lie two cache lines apart: processors fetch pairs
_APART = 16
PARALLEL, SUMMON, WORKERS, SPINS, ACQUIRE, RELEASE, OWNER_LOCK, YIELD = range(8)
OWNER, CLAIM, JOB, REMAINING, OWNER_SLEEPS, QUIT, FIRST_WORKER = [_APART * line for line in range(1, 8)]
KERNEL, TABLE, BASES, EXTENT, CHUNK, CHUNKS = range(JOB, JOB + 6)
SLEEPS, LOCK = 0, 1

#: bits of CLAIM that count chunks
CHUNK_BITS = 24

_PAUSES = {
    "x86_64": ("declare void @llvm.x86.sse2.pause()", "call void @llvm.x86.sse2.pause()"),
    "aarch64": ("declare void @llvm.aarch64.isb(i32)", "call void @llvm.aarch64.isb(i32 15)"),
}


def team_text(machine: str) -> str:
    """Return the text of the team's functions for a machine (as ``platform.machine()`` names it).

    ``parallel`` runs a kernel over a range, ``summon`` wakes workers up, ``worker`` is the life of one, ``dismiss``
    ends it, and ``spin`` waits for some turns.
    """
    declaration, pause = _PAUSES.get({"amd64": "x86_64", "arm64": "aarch64"}.get(machine.lower(), machine), ("", ""))

    def word(name: str, offset: int, pointer: str = "%team") -> str:
        return f"%{name} = getelementptr i64, ptr {pointer}, i64 {offset}"

    return f"""
{declaration}

define internal void @spin(i64 %turns) nounwind {{
entry:
  %counter = alloca i64, align 8
  br label %turn
turn:
  %done = phi i64 [ 0, %entry ], [ %next, %turn ]
  {pause}
  %next = add i64 %done, 1
  ; the loop must not be dropped where a pause is nothing
  store volatile i64 %next, ptr %counter, align 8
  %more = icmp slt i64 %next, %turns
  br i1 %more, label %turn, label %over
over:
  ret void
}}

; passes a moment; every now and then lets another thread have the processor, if it waits for this one
define internal void @rest(ptr %team, i64 %turn) nounwind {{
entry:
  {pause}
  %rank = and i64 %turn, {_YIELD_TURNS - 1}
  %due = icmp eq i64 %rank, 0
  br i1 %due, label %look, label %over
look:
  {word("yield.at", YIELD)}
  %yield = load ptr, ptr %yield.at, align 8
  %known = icmp ne ptr %yield, null
  br i1 %known, label %give, label %over
give:
  %given = call i32 %yield()
  br label %over
over:
  ret void
}}

; lets a thread go on that sleeps or is about to: exactly one release for each time that %sleeps was set
define internal void @wake(ptr %team, ptr %sleeps, ptr %lock) nounwind {{
entry:
  %asleep = load atomic i64, ptr %sleeps seq_cst, align 8
  %may = icmp ne i64 %asleep, 0
  br i1 %may, label %try, label %over
try:
  %exchanged = cmpxchg ptr %sleeps, i64 1, i64 0 seq_cst seq_cst
  %mine = extractvalue {{ i64, i1 }} %exchanged, 1
  br i1 %mine, label %release, label %over
release:
  {word("release.at", RELEASE)}
  %release.function = load ptr, ptr %release.at, align 8
  call void %release.function(ptr %lock)
  br label %over
over:
  ret void
}}

; wakes workers %first and %first + 1 where they exist, and only one of them if only one chunk is to be expected
define internal void @wake_two(ptr %team, i64 %first, i64 %expected) nounwind {{
entry:
  {word("workers.at", WORKERS)}
  %workers = load i64, ptr %workers.at, align 8
  %few = icmp slt i64 %expected, 2
  %number = select i1 %few, i64 %expected, i64 2
  %after = add i64 %first, %number
  %less = icmp slt i64 %after, %workers
  %limit = select i1 %less, i64 %after, i64 %workers
  br label %one
one:
  %index = phi i64 [ %first, %entry ], [ %next, %call ]
  %next = add i64 %index, 1
  %exists = icmp slt i64 %index, %limit
  br i1 %exists, label %call, label %over
call:
  %offset = mul i64 %index, {_APART}
  %place = add i64 %offset, {FIRST_WORKER}
  %sleeps = getelementptr i64, ptr %team, i64 %place
  {word("lock.at", LOCK, "%sleeps")}
  %lock = load ptr, ptr %lock.at, align 8
  call void @wake(ptr %team, ptr %sleeps, ptr %lock)
  br label %one
over:
  ret void
}}

; takes chunks of a job and runs them until there is none left, or another job has begun
define internal void @share(ptr %team, i64 %job) nounwind {{
entry:
  {word("claim.at", CLAIM)}
  {word("kernel.at", KERNEL)}
  {word("table.at", TABLE)}
  {word("bases.at", BASES)}
  {word("extent.at", EXTENT)}
  {word("chunk.at", CHUNK)}
  {word("chunks.at", CHUNKS)}
  br label %look
look:
  %finished = phi i64 [ 0, %entry ], [ %finished, %take ], [ %more, %run ]
  %claim = load atomic i64, ptr %claim.at monotonic, align 8
  %number = lshr i64 %claim, {CHUNK_BITS}
  %same = icmp eq i64 %number, %job
  %left = and i64 %claim, {(1 << CHUNK_BITS) - 1}
  %some = icmp ne i64 %left, 0
  %both = and i1 %same, %some
  br i1 %both, label %take, label %count
take:
  %lower = sub i64 %claim, 1
  %exchanged = cmpxchg ptr %claim.at, i64 %claim, i64 %lower acq_rel monotonic
  %mine = extractvalue {{ i64, i1 }} %exchanged, 1
  br i1 %mine, label %run, label %look
run:
  %kernel = load ptr, ptr %kernel.at, align 8
  %table = load ptr, ptr %table.at, align 8
  %bases = load ptr, ptr %bases.at, align 8
  %extent = load i64, ptr %extent.at, align 8
  %chunk = load i64, ptr %chunk.at, align 8
  %chunks = load i64, ptr %chunks.at, align 8
  %index = sub i64 %chunks, %left
  %begin = mul i64 %index, %chunk
  %after = add i64 %begin, %chunk
  %inside = icmp slt i64 %after, %extent
  %end = select i1 %inside, i64 %after, i64 %extent
  call void %kernel(ptr %table, ptr %bases, i64 %begin, i64 %end)
  %more = add i64 %finished, 1
  br label %look
count:
  %any = icmp sgt i64 %finished, 0
  br i1 %any, label %subtract, label %over
subtract:
  {word("remaining.at", REMAINING)}
  %before = atomicrmw sub ptr %remaining.at, i64 %finished seq_cst
  %last = icmp eq i64 %before, %finished
  br i1 %last, label %end_job, label %over
end_job:
  ; by now another thread may have the team: waking it for nothing is allowed for
  {word("sleeps", OWNER_SLEEPS)}
  {word("lock.at", OWNER_LOCK)}
  %lock = load ptr, ptr %lock.at, align 8
  call void @wake(ptr %team, ptr %sleeps, ptr %lock)
  br label %over
over:
  ret void
}}

define internal void @worker(ptr %team, i64 %index) nounwind {{
entry:
  {word("claim.at", CLAIM)}
  {word("quit.at", QUIT)}
  {word("spins.at", SPINS)}
  {word("acquire.at", ACQUIRE)}
  %spins = load i64, ptr %spins.at, align 8
  %acquire = load ptr, ptr %acquire.at, align 8
  %offset = mul i64 %index, {_APART}
  %place = add i64 %offset, {FIRST_WORKER}
  %sleeps = getelementptr i64, ptr %team, i64 %place
  {word("lock.at", LOCK, "%sleeps")}
  %lock = load ptr, ptr %lock.at, align 8
  %twice = mul i64 %index, 2
  %child = add i64 %twice, 2
  br label %look
look:
  %seen = phi i64 [ 0, %entry ], [ %job, %work ], [ %seen, %pause ], [ %seen, %stay ], [ %seen, %wait ]
  %turns = phi i64 [ 0, %entry ], [ 0, %work ], [ %turn, %pause ], [ 0, %stay ], [ 0, %wait ]
  %quit = load atomic i64, ptr %quit.at monotonic, align 8
  %stop = icmp ne i64 %quit, 0
  br i1 %stop, label %over, label %compare
compare:
  %claim = load atomic i64, ptr %claim.at monotonic, align 8
  %job = lshr i64 %claim, {CHUNK_BITS}
  %new = icmp ne i64 %job, %seen
  br i1 %new, label %found, label %idle
found:
  %left = and i64 %claim, {(1 << CHUNK_BITS) - 1}
  ; one chunk is for this thread, others are worth waking two more
  %others = sub i64 %left, 1
  %any = icmp sgt i64 %others, 0
  br i1 %any, label %spread, label %work
spread:
  call void @wake_two(ptr %team, i64 %child, i64 %others)
  br label %work
work:
  call void @share(ptr %team, i64 %job)
  br label %look
idle:
  %turn = add i64 %turns, 1
  %tired = icmp sgt i64 %turn, %spins
  br i1 %tired, label %lie_down, label %pause
pause:
  call void @rest(ptr %team, i64 %turn)
  br label %look
lie_down:
  ; either this thread sees the new job here, or who began it sees that this thread sleeps
  store atomic i64 1, ptr %sleeps seq_cst, align 8
  %claim.again = load atomic i64, ptr %claim.at seq_cst, align 8
  %quit.again = load atomic i64, ptr %quit.at seq_cst, align 8
  %job.again = lshr i64 %claim.again, {CHUNK_BITS}
  %nothing = icmp eq i64 %job.again, %seen
  %go_on = icmp eq i64 %quit.again, 0
  %sleep = and i1 %nothing, %go_on
  br i1 %sleep, label %wait, label %get_up
get_up:
  %exchanged = cmpxchg ptr %sleeps, i64 1, i64 0 seq_cst seq_cst
  %mine = extractvalue {{ i64, i1 }} %exchanged, 1
  br i1 %mine, label %stay, label %wait
stay:
  br label %look
wait:
  %acquired = call i32 %acquire(ptr %lock, i32 1)
  br label %look
over:
  ret void
}}

define internal void @parallel(ptr %team, ptr %kernel, ptr %table, ptr %bases, i64 %extent, i64 %chunk) nounwind {{
entry:
  {word("owner.at", OWNER)}
  %exchanged = cmpxchg ptr %owner.at, i64 0, i64 1 acq_rel monotonic
  %mine = extractvalue {{ i64, i1 }} %exchanged, 1
  br i1 %mine, label %divide, label %alone
divide:
  %less = sub i64 %chunk, 1
  %sum = add i64 %extent, %less
  %chunks = sdiv i64 %sum, %chunk
  %few = icmp slt i64 %chunks, {1 << CHUNK_BITS}
  br i1 %few, label %begin, label %return
return:
  store atomic i64 0, ptr %owner.at release, align 8
  br label %alone
alone:
  call void %kernel(ptr %table, ptr %bases, i64 0, i64 %extent)
  br label %over
begin:
  {word("kernel.at", KERNEL)}
  {word("table.at", TABLE)}
  {word("bases.at", BASES)}
  {word("extent.at", EXTENT)}
  {word("chunk.at", CHUNK)}
  {word("chunks.at", CHUNKS)}
  {word("remaining.at", REMAINING)}
  {word("claim.at", CLAIM)}
  {word("spins.at", SPINS)}
  {word("acquire.at", ACQUIRE)}
  {word("lock.at", OWNER_LOCK)}
  {word("sleeps", OWNER_SLEEPS)}
  store ptr %kernel, ptr %kernel.at, align 8
  store ptr %table, ptr %table.at, align 8
  store ptr %bases, ptr %bases.at, align 8
  store i64 %extent, ptr %extent.at, align 8
  store i64 %chunk, ptr %chunk.at, align 8
  store i64 %chunks, ptr %chunks.at, align 8
  store atomic i64 %chunks, ptr %remaining.at monotonic, align 8
  %last = load atomic i64, ptr %claim.at monotonic, align 8
  %last.job = lshr i64 %last, {CHUNK_BITS}
  %raised = add i64 %last.job, 1
  %job = and i64 %raised, {(1 << 64 - CHUNK_BITS) - 1}
  %shifted = shl i64 %job, {CHUNK_BITS}
  %claim = or i64 %shifted, %chunks
  store atomic i64 %claim, ptr %claim.at seq_cst, align 8
  %much = icmp sge i64 %chunks, {MUCH_WORK}
  br i1 %much, label %wake, label %work
wake:
  call void @wake_two(ptr %team, i64 0, i64 2)
  br label %work
work:
  call void @share(ptr %team, i64 %job)
  %spins = load i64, ptr %spins.at, align 8
  br label %look
look:
  %turns = phi i64 [ 0, %work ], [ %turn, %pause ], [ 0, %wait ]
  %remaining = load atomic i64, ptr %remaining.at acquire, align 8
  %finished = icmp eq i64 %remaining, 0
  br i1 %finished, label %leave, label %idle
idle:
  %turn = add i64 %turns, 1
  %tired = icmp sgt i64 %turn, %spins
  br i1 %tired, label %lie_down, label %pause
pause:
  call void @rest(ptr %team, i64 %turn)
  br label %look
lie_down:
  store atomic i64 1, ptr %sleeps seq_cst, align 8
  %again = load atomic i64, ptr %remaining.at seq_cst, align 8
  %late = icmp eq i64 %again, 0
  br i1 %late, label %get_up, label %wait
get_up:
  %cleared = cmpxchg ptr %sleeps, i64 1, i64 0 seq_cst seq_cst
  %up = extractvalue {{ i64, i1 }} %cleared, 1
  br i1 %up, label %leave, label %wait
wait:
  %acquire = load ptr, ptr %acquire.at, align 8
  %lock = load ptr, ptr %lock.at, align 8
  %acquired = call i32 %acquire(ptr %lock, i32 1)
  br label %look
leave:
  store atomic i64 0, ptr %owner.at release, align 8
  br label %over
over:
  ret void
}}

define internal void @summon(ptr %team) nounwind {{
entry:
  call void @wake_two(ptr %team, i64 0, i64 2)
  ret void
}}

define internal void @dismiss(ptr %team) nounwind {{
entry:
  {word("quit.at", QUIT)}
  {word("workers.at", WORKERS)}
  store atomic i64 1, ptr %quit.at seq_cst, align 8
  %workers = load i64, ptr %workers.at, align 8
  br label %pair
pair:
  %first = phi i64 [ 0, %entry ], [ %next, %call ]
  %more = icmp slt i64 %first, %workers
  br i1 %more, label %call, label %over
call:
  call void @wake_two(ptr %team, i64 %first, i64 2)
  %next = add i64 %first, 2
  br label %pair
over:
  ret void
}}

define void @team_functions(ptr %addresses) nounwind {{
entry:
  %summon.at = getelementptr i64, ptr %addresses, i64 1
  %dismiss.at = getelementptr i64, ptr %addresses, i64 2
  %worker.at = getelementptr i64, ptr %addresses, i64 3
  %spin.at = getelementptr i64, ptr %addresses, i64 4
  store ptr @parallel, ptr %addresses, align 8
  store ptr @summon, ptr %summon.at, align 8
  store ptr @dismiss, ptr %dismiss.at, align 8
  store ptr @worker, ptr %worker.at, align 8
  store ptr @spin, ptr %spin.at, align 8
  ret void
}}
"""


class _Code:
    """The compiled functions of a team, and how long a pause is on this machine."""

    def __init__(self) -> None:
        kernel = jit.compile_text(team_text(platform.machine()), "team_functions")
        # a worker may still run this code when the interpreter takes everything down
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(kernel))
        addresses = (ctypes.c_int64 * 5)()
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(kernel.address)(ctypes.addressof(addresses))
        self.parallel, self.summon, dismiss, worker, spin = addresses
        self.dismiss = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(dismiss)
        self.worker = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(worker)
        self.spins = _turns(ctypes.CFUNCTYPE(None, ctypes.c_int64)(spin))


def _turns(spin: Callable[[int], None]) -> int:
    """Return how many turns of waiting take as long as SPIN_SECONDS."""
    turns, times = 1000, []
    for _ in range(5):
        start = time.perf_counter()
        spin(turns)
        times.append(time.perf_counter() - start)
    return max(1, int(turns * SPIN_SECONDS / min(times)))


class Team:
    """Some workers and the memory they share with the threads that launch kernels.

    Parameters
    ----------
    workers
        How many threads to start; the launching thread is not counted.
    """

    def __init__(self, workers: int) -> None:
        self._code = code = _compiled()
        words = np.zeros(FIRST_WORKER + _APART * workers + _APART, np.int64)
        aligned = words[-(words.ctypes.data // 8) % _APART :]
        #: where the team's memory begins; it is never returned, because a launch may still be looking at it
        self.address: int = aligned.ctypes.data
        self.memory = aligned
        _memories.append(words)
        aligned[PARALLEL], aligned[SUMMON] = code.parallel, code.summon
        aligned[SPINS] = code.spins
        aligned[ACQUIRE], aligned[RELEASE] = _function("PyThread_acquire_lock"), _function("PyThread_release_lock")
        aligned[OWNER_LOCK] = _held_lock()
        aligned[YIELD] = _yield_function()
        self._threads: list[threading.Thread] = []
        for index in range(workers):
            aligned[FIRST_WORKER + _APART * index + LOCK] = _held_lock()
            name = f"phonograd worker {index + 1}"
            thread = threading.Thread(target=code.worker, args=(self.address, index), name=name, daemon=True)
            try:
                thread.start()
            except RuntimeError:
                # the system allows no more threads, or the interpreter is about to end
                break
            self._threads.append(thread)
            aligned[WORKERS] = index + 1

    @property
    def size(self) -> int:
        """How many threads work on a launch, the launching one included."""
        return 1 + len(self._threads)

    def dismiss(self, timeout: float = 0.0) -> None:
        """Have the workers end after the chunks that they are at, and wait for that for some seconds at most."""
        self._code.dismiss(self.address)
        deadline = time.monotonic() + timeout
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))


def _function(name: str) -> int:
    """Return the address of a function of Python's."""
    address = ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value
    assert address is not None
    return address


def _yield_function() -> int:
    """Return the address of the system's function that lets another thread run, or 0 where it is not known."""
    library, name = ("kernel32", "SwitchToThread") if sys.platform == "win32" else (None, "sched_yield")
    function = getattr(ctypes.CDLL(library), name, None)
    return 0 if function is None else ctypes.cast(function, ctypes.c_void_p).value or 0


def _held_lock() -> int:
    """Return a lock that waits for a release by another thread; like the memory of a team, it is never returned."""
    allocate = ctypes.PYFUNCTYPE(ctypes.c_void_p)(_function("PyThread_allocate_lock"))
    acquire = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int)(_function("PyThread_acquire_lock"))
    lock: int | None = allocate()
    if lock is None or acquire(lock, 1) != 1:
        raise MemoryError("a lock for a worker thread could not be made")
    return lock


# -- the team of this process

#: the address of the team's memory for native code; 0 while there is none, and every thread works alone
CELL = np.zeros(1, np.int64)

#: whether :func:`renew` has something to do: nothing has been started yet, this process was forked, or the setting
#: has changed
stale = True

_team: Team | None = None
_code: _Code | None = None
_memories: list[Any] = []
_lock = threading.Lock()


def _compiled() -> _Code:
    global _code
    if _code is None:
        _code = _Code()
    return _code


def renew() -> Team | None:
    """Return the team that the settings ask for, starting it if need be; None where one thread is to do everything."""
    global _team, stale
    with _lock:
        if stale:
            stale = False
            workers = settings.current().num_threads - 1
            if _team is not None:
                CELL[0] = 0
                _team.dismiss()
                _team = None
            if workers > 0:
                _team = Team(workers)
                CELL[0] = _team.address
        return _team


def _mark_stale() -> None:
    global stale
    wanted = max(1, settings.current().num_threads)
    if (1 if _team is None else _team.size) != wanted:
        stale = True


def _after_fork() -> None:
    """Forget the team of the parent process: a child has none of its threads."""
    global _team, _lock, stale
    _lock = threading.Lock()
    _team = None
    CELL[0] = 0
    stale = True


def _end() -> None:
    """Let the workers end when the program does; what runs later runs on one thread."""
    global _team, stale
    with _lock:
        stale = False
        CELL[0] = 0
        team, _team = _team, None
    if team is not None:
        team.dismiss(timeout=5.0)


settings.watch(_mark_stale)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
atexit.register(_end)
