"""The thread pool's machine code: how a caller and its workers share the chunks of a region.

A *region* is a group of launches that do not depend on each other. Each launch is divided into chunks, and all chunks
of a region are numbered in one row. The *caller* is the thread that runs a region; *workers* help it. Everything that
happens per region is native code on one block of memory:

=============  =====================================================================================================
word           meaning
=============  =====================================================================================================
``OWNER``      1 while a caller owns the pool. Other callers do not wait meanwhile: they run their regions alone
``CLAIM``      generation of the region, and the first and the end of the chunks that no thread has taken. A thread
               takes a chunk from either end with a compare-exchange, so a worker may look at any time
``REMAINING``  chunks that are not finished. The thread that finishes the last one wakes the caller if it sleeps
``QUIT``       1 when workers should end
``PENALTY``    length of the last back-off, during which every thread worked alone
=============  =====================================================================================================

``docs/thread-pool.md`` states the protocol: who writes which word with which memory order, and why each chunk runs
exactly once and no thread sleeps forever. ``tests/core/run/test_thread_pool_model.py`` runs the text below on a small
pool in every interleaving. The functions are written with
:class:`~phonograd.core.lower.ir.function_builder.FunctionBuilder`; :mod:`phonograd.core.run.thread_pool` compiles them
and starts the workers. Decision 0005 has the measurements.
"""

from __future__ import annotations

from collections.abc import Callable

from ..base.dtypes import INT64
from ..lower.ir.function_builder import FunctionBuilder, Index, Value
from .thread_pool_words import (
    ALONE_UNTIL,
    BASES,
    CALLER_LOCK,
    CALLER_SLEEPS,
    CHUNK_BITS,
    CLAIM,
    GAP,
    GENERATION_MASK,
    LAST_BEGUN,
    LAUNCH_CHUNK,
    LAUNCH_CHUNKS,
    LAUNCH_EXTENT,
    LAUNCH_WORDS,
    LAUNCHES,
    LEAST_PENALTY,
    LOCK,
    MOST_PENALTY,
    MUCH_WORK,
    OWNER,
    PATIENCE,
    PENALTY,
    QUIT,
    RECENT_CHUNKS,
    REGION_BEST,
    REGION_CHUNKS,
    REGION_COUNT,
    RELEASE,
    REMAINING,
    SLOW,
    SOON,
    STREAM,
    WORKERS,
    PoolFunction,
)

__all__ = ["FUNCTIONS", "thread_pool_text"]

#: by processor the declaration and the call of the instruction for waiting loops
_PAUSES = {
    "x86_64": ("declare void @llvm.x86.sse2.pause()", "call void @llvm.x86.sse2.pause()"),
    "aarch64": ("declare void @llvm.aarch64.isb(i32)", "call void @llvm.aarch64.isb(i32 15)"),
}

#: the functions that Python and other native code call, in the order in which their addresses are handed out
FUNCTIONS = ("parallel", "summon", "dismiss", "worker", "spin", "clock")


def thread_pool_text(machine: str) -> str:
    """Return the text of the pool's functions for a machine (as ``platform.machine()`` names it).

    ``parallel`` runs a region, ``summon`` wakes workers, ``worker`` is the loop of a worker, ``dismiss`` ends all of
    them, ``spin`` waits for some turns, and ``clock`` returns the time. ``thread_pool_functions`` writes the addresses
    of these::

        define void @thread_pool_functions(ptr %addresses) nounwind {
        entry:
          store ptr @parallel, ptr %addresses, align 8
          %v1 = getelementptr i64, ptr %addresses, i64 1
          store ptr @summon, ptr %v1, align 8
          ...
    """
    declaration, pause = _PAUSES.get({"amd64": "x86_64", "arm64": "aarch64"}.get(machine.lower(), machine), ("", ""))
    f = FunctionBuilder("thread_pool_functions", "ptr %addresses")
    for index, name in enumerate(FUNCTIONS):
        f.store_word("%addresses", str(index), f"@{name}", "ptr")
    writers: tuple[Callable[[], str], ...] = (_wake, _wake_two, _summon, _dismiss, _run_alone, _run_chunk)
    writers += (_take_chunks, _is_backing_off, _back_off, _clock)
    texts = [write() for write in writers] + [_spin(pause), _worker(pause), _parallel(pause), f.text()]
    return "\n".join([declaration, "declare i64 @llvm.readcyclecounter()", *texts])


def _numbers(*texts: Index) -> list[Value]:
    """Return numbers as the values that loops carry."""
    return [Value(text, INT64) for text in texts]


# -- waking


def _wake() -> str:
    """Write ``wake``: let a thread go on that sleeps or is about to.

    The lock is released exactly once for each time that ``%sleeps`` was set::

          %v1 = load atomic i64, ptr %sleeps seq_cst, align 8
          ...
          %v4 = cmpxchg ptr %sleeps, i64 1, i64 0 seq_cst seq_cst
          ...
          call void %release(ptr %lock)
    """
    f = PoolFunction("wake", "ptr %pool, ptr %sleeps, ptr %lock")
    # a look costs less than an exchange, which would take the cache line away from the thread
    f.leave_if(f.test("eq", f.load_atomic("%sleeps", "seq_cst"), "0"), "over")
    f.leave_unless(f.compare_exchange("%sleeps", "1", "0", "seq_cst", "seq_cst"), "over")
    f.line(f"call void {f.constant(RELEASE, 'ptr')}(ptr %lock)")
    f.go("over")
    f.label("over")
    return f.text()


def _wake_two() -> str:
    """Write ``wake_two``: wake workers ``%first`` and ``%first + 1``, as far as they exist and chunks are expected.

    ::

        for index in range(first, min(first + min(expected, 2), workers)):
            call void @wake(ptr %pool, ptr %sleeps, ptr %lock)
    """
    f = PoolFunction("wake_two", "ptr %pool, i64 %first, i64 %expected")

    def wake(index: Index) -> None:
        sleeps = f.worker(index)
        f.line(f"call void @wake(ptr %pool, ptr {sleeps}, ptr {f.load_word(sleeps, str(LOCK), 'ptr')})")

    f.for_each("%first", f.least(f.plus("%first", f.least("%expected", "2")), f.constant(WORKERS)), wake)
    return f.text()


def _summon() -> str:
    """Write ``summon``: wake the first two workers, unless every thread works alone at present.

    ::

          %v1 = call i64 @llvm.readcyclecounter()
          %v2 = call i1 @is_backing_off(ptr %pool, i64 %v1)
          br i1 %v2, label %over, label %go3
        go3:
          call void @wake_two(ptr %pool, i64 0, i64 2)
    """
    f = PoolFunction("summon", "ptr %pool")
    f.leave_if(f.assign(f"call i1 @is_backing_off(ptr %pool, i64 {f.now()})"), "over")
    f.line("call void @wake_two(ptr %pool, i64 0, i64 2)")
    f.go("over")
    f.label("over")
    return f.text()


def _dismiss() -> str:
    """Write ``dismiss``: tell all workers to end.

    ::

        store atomic i64 1, ptr %quit seq_cst, align 8
        for first in range(0, workers, 2):
            call void @wake_two(ptr %pool, i64 %first, i64 2)
    """
    f = PoolFunction("dismiss", "ptr %pool")
    f.store_atomic(f.at(QUIT), "1", "seq_cst")
    f.for_each(
        "0",
        f.constant(WORKERS),
        lambda first: f.line(f"call void @wake_two(ptr %pool, i64 {first}, i64 2)"),
        step="2",
    )
    return f.text()


# -- chunks


def _run_alone() -> str:
    """Write ``run_alone``: run the launches of a region one after the other.

    ::

        for index in range(count):
            call void %kernel(ptr %table, ptr %bases, i64 0, i64 %extent)
    """
    f = PoolFunction("run_alone", "ptr %launches, i64 %count, ptr %bases")

    def run(index: Index) -> None:
        launch = f.address("%launches", f.times(index, str(LAUNCH_WORDS)), "i64")
        f.launch(launch, "0", f.load_word(launch, str(LAUNCH_EXTENT)))

    f.for_each("0", "%count", run)
    return f.text()


def _run_chunk() -> str:
    """Write ``run_chunk``: run a chunk of a region, given its number among the chunks of all launches.

    ::

        offset, index = 0, number
        while index >= launches[offset + 4]:
            offset, index = offset + 5, index - launches[offset + 4]
        begin = index * chunk
        call void %kernel(ptr %table, ptr %bases, i64 %begin, i64 min(begin + chunk, extent))
    """
    f = PoolFunction("run_chunk", "ptr %launches, ptr %bases, i64 %number")

    def chunks(offset: Value) -> Index:
        return f.load_word(f.address("%launches", offset.text, "i64"), str(LAUNCH_CHUNKS))

    def is_later(carried: list[Value]) -> str:
        offset, index = carried
        return f.test("sge", index.text, chunks(offset))

    def skip(carried: list[Value]) -> list[Value]:
        offset, index = carried
        return _numbers(f.plus(offset.text, str(LAUNCH_WORDS)), f.minus(index.text, chunks(offset)))

    offset, index = f.repeat(_numbers("0", "%number"), is_later, skip)
    launch = f.address("%launches", offset.text, "i64")
    chunk = f.load_word(launch, str(LAUNCH_CHUNK))
    begin = f.times(index.text, chunk)
    f.launch(launch, begin, f.least(f.plus(begin, chunk), f.load_word(launch, str(LAUNCH_EXTENT))))
    return f.text()


def _take_chunks() -> str:
    """Write ``take_chunks``: take chunks of a generation from one end and run them until none is left.

    It returns how many it has run. The thread that finishes the last chunk of the region wakes the caller::

        finished = 0
        loop:
          %claim = load atomic i64, ptr %v1 monotonic, align 8
          if generation or chunks of %claim are over: leave
          %v9 = cmpxchg ptr %v1, i64 %claim, i64 %left acq_rel monotonic
          if exchanged:
              call void @run_chunk(ptr %launches, ptr %bases, i64 %number)
              finished += 1
        if finished:
            %before = atomicrmw sub ptr %remaining, i64 %finished seq_cst
            if before == finished:
                call void @wake(ptr %pool, ptr %caller_sleeps, ptr %caller_lock)
    """
    f = PoolFunction("take_chunks", "ptr %pool, i64 %generation, i1 %from_end", "i64")
    claim = first = end = ""

    def has_chunks(_: list[Value]) -> str:
        nonlocal claim, first, end
        claim = f.load_atomic(f.at(CLAIM), "monotonic")
        first, end = f.claimed(claim)
        current = f.test("eq", f.shift_down(claim, 2 * CHUNK_BITS), "%generation")
        return f.logical_and(current, f.test("ult", first, end))

    def take(carried: list[Value]) -> list[Value]:
        finished = carried[0].text
        number = f.select_index("%from_end", f.minus(end, "1"), first)
        left = f.select_index("%from_end", f.minus(claim, str(1 << CHUNK_BITS)), f.plus(claim, "1"))

        def run() -> list[Value]:
            # after the exchange only: the words belong to the region until this chunk is finished
            launches, bases = f.load_word("%pool", str(LAUNCHES), "ptr"), f.load_word("%pool", str(BASES), "ptr")
            f.line(f"call void @run_chunk(ptr {launches}, ptr {bases}, i64 {number})")
            return _numbers(f.plus(finished, "1"))

        taken = f.compare_exchange(f.at(CLAIM), claim, left, "acq_rel", "monotonic")
        return f.choose(taken, run, lambda: carried)

    finished = f.repeat(_numbers("0"), has_chunks, take)[0].text
    f.leave_if(f.test("eq", finished, "0"), "over")
    before = f.subtract_atomic(f.at(REMAINING), finished, "seq_cst")
    f.leave_unless(f.test("eq", before, finished), "over")
    # by now another caller may own the pool: it expects to be woken for nothing
    f.line(f"call void @wake(ptr %pool, ptr {f.at(CALLER_SLEEPS)}, ptr {f.constant(CALLER_LOCK, 'ptr')})")
    f.go("over")
    f.label("over")
    f.line(f"ret i64 {finished}")
    return f.text()


# -- backing off


def _is_backing_off() -> str:
    """Write ``is_backing_off``: return whether every thread is to work alone at a time.

    ::

        %v1 = getelementptr i64, ptr %pool, i64 113
        %v2 = load atomic i64, ptr %v1 monotonic, align 8
        %v3 = icmp ult i64 %now, %v2
        ret i1 %v3
    """
    f = PoolFunction("is_backing_off", "ptr %pool, i64 %now", "i1")
    f.line(f"ret i1 {f.test('ult', '%now', f.load_atomic(f.at(ALONE_UNTIL), 'monotonic'))}")
    return f.text()


def _back_off() -> str:
    """Write ``back_off``: make every thread work alone for a while.

    The penalty doubles if the last back-off ended a short time ago, else it shrinks to a quarter::

        changed = 2 * penalty if now - until < SOON * least else penalty / 4
        penalty = min(max(changed, least), most)
        until = now + penalty
    """
    f = PoolFunction("back_off", "ptr %pool")
    least, most = f.constant(LEAST_PENALTY), f.constant(MOST_PENALTY)
    penalty = f.load_atomic(f.at(PENALTY), "monotonic")
    until = f.load_atomic(f.at(ALONE_UNTIL), "monotonic")
    now = f.now()
    soon = f.test("slt", f.minus(now, until), f.times(least, str(SOON)))
    changed = f.select_index(soon, f.times(penalty, "2"), f.shift_down(penalty, 2))
    raised = f.select_index(f.test("slt", changed, least), least, changed)
    limited = f.least(raised, most)
    f.store_atomic(f.at(PENALTY), limited, "monotonic")
    f.store_atomic(f.at(ALONE_UNTIL), f.plus(now, limited), "monotonic")
    return f.text()


def _clock() -> str:
    """Write ``clock``: return the processor's clock.

    ::

        %v1 = call i64 @llvm.readcyclecounter()
        ret i64 %v1
    """
    f = PoolFunction("clock", "", "i64")
    f.line(f"ret i64 {f.now()}")
    return f.text()


def _spin(pause: str) -> str:
    """Write ``spin``: wait for some turns.

    ::

        for turn in range(turns):
            call void @llvm.x86.sse2.pause()
            store volatile i64 %turn, ptr %v1, align 8
    """
    f = PoolFunction("spin", "i64 %turns")
    counter = f.assign("alloca i64, align 8")

    def turn(index: Index) -> None:
        f.pause(pause)
        # the loop must not be dropped where a pause is no instruction
        f.line(f"store volatile i64 {index}, ptr {counter}, align 8")

    f.for_each("0", "%turns", turn)
    return f.text()


# -- the worker


def _worker(pause: str) -> str:
    """Write ``worker``: look for regions and help with them until ``QUIT`` is set.

    A worker carries the generation that it saw last, how many turns it will go on looking, and when it looked last
    (-1 where it does not know)::

        seen, turns, last = 0, spins, -1
        while (load atomic i64, ptr %quit monotonic) == 0:
            claim = load atomic i64, ptr %claim monotonic
            if generation of claim != seen:
                wake two more workers, for the chunks beside the one for this thread
                call i64 @take_chunks(ptr %pool, i64 %generation, i1 %from_end)
                seen, turns, last = generation, spins, -1
            else:
                turns, last = idle(...)
    """
    f = PoolFunction("worker", "ptr %pool, i64 %index")
    own = f.worker("%index")
    # children of a worker in the tree along which workers wake each other
    child = f.plus(f.times("%index", "2"), "2")
    # workers take chunks from the end and from the first on in turns; the caller from the first on
    from_end = f.test("eq", f.assign("and i64 %index, 1"), "0")

    def goes_on(_: list[Value]) -> str:
        return f.test("eq", f.load_atomic(f.at(QUIT), "monotonic"), "0")

    def look(carried: list[Value]) -> list[Value]:
        seen, turns, last = [value.text for value in carried]
        claim = f.load_atomic(f.at(CLAIM), "monotonic")
        generation = f.shift_down(claim, 2 * CHUNK_BITS)

        def work() -> list[Value]:
            first, end = f.claimed(claim)
            others = f.minus(f.minus(end, first), "1")
            f.when(
                f.test("sgt", others, "0"),
                lambda: f.line(f"call void @wake_two(ptr %pool, i64 {child}, i64 {others})"),
            )
            f.assign(f"call i64 @take_chunks(ptr %pool, i64 {generation}, i1 {from_end})")
            return _numbers(generation, f.turns(), "-1")

        def idle() -> list[Value]:
            return _numbers(seen) + _idle(f, own, seen, turns, last, pause)

        return f.choose(f.test("ne", generation, seen), work, idle)

    f.repeat(_numbers("0", f.turns(), "-1"), goes_on, look)
    return f.text()


def _idle(f: PoolFunction, own: str, seen: Index, turns: Index, last: Index, pause: str) -> list[Value]:
    """Write a turn of a worker without work; return the turns that are left and the time of this one.

    A clock that jumps shows that other programs need the processors::

        now = call i64 @llvm.readcyclecounter()
        if last != -1 and now > last + gap:
            call void @back_off(ptr %pool)
        if turns - 1 < 0 or call i1 @is_backing_off(ptr %pool, i64 %now):
            sleep on %lock, unless there is a new generation or QUIT
            turns, last = spins, -1
        else:
            call void @llvm.x86.sse2.pause()
            turns, last = turns - 1, now
    """
    left, now = f.minus(turns, "1"), f.now()
    jumped = f.test("ugt", now, f.plus(last, f.constant(GAP)))
    held_up = f.logical_and(f.test("ne", last, "-1"), jumped)
    f.when(held_up, lambda: f.line("call void @back_off(ptr %pool)"))
    apart = f.assign(f"call i1 @is_backing_off(ptr %pool, i64 {now})")
    tired = f.assign(f"or i1 {f.test('slt', left, '0')}, {apart}")

    def has_no_work() -> str:
        claim = f.load_atomic(f.at(CLAIM), "seq_cst")
        quits = f.load_atomic(f.at(QUIT), "seq_cst")
        return f.logical_and(f.test("eq", f.shift_down(claim, 2 * CHUNK_BITS), seen), f.test("eq", quits, "0"))

    def rest() -> list[Value]:
        f.sleep(own, f.load_word(own, str(LOCK), "ptr"), has_no_work)
        return _numbers(f.turns(), "-1")

    def stay() -> list[Value]:
        f.pause(pause)
        return _numbers(left, now)

    return f.choose(tired, rest, stay)


# -- the caller


def _parallel(pause: str) -> str:
    """Write ``parallel``: run a region, shared with workers if this thread gets the pool.

    ::

        if call i1 @is_backing_off(...) or not (cmpxchg ptr %owner, i64 0, i64 1 acq_rel monotonic):
            call void @run_alone(ptr %launches, i64 %count, ptr %bases)
            return
        publish the region, and wake workers if it has much work, or is one of many
        own = call i64 @take_chunks(ptr %pool, i64 %generation, i1 false)
        wait until REMAINING is 0
        store atomic i64 0, ptr %owner release, align 8
    """
    f = PoolFunction("parallel", "ptr %pool, ptr %region, ptr %bases")
    launches, chunks = f.load_word("%region", "0", "ptr"), f.load_word("%region", str(REGION_CHUNKS))
    best = f.address("%region", str(REGION_BEST), "i64")
    begun = f.now()
    f.leave_if(f.assign(f"call i1 @is_backing_off(ptr %pool, i64 {begun})"), "alone")
    f.leave_unless(f.compare_exchange(f.at(OWNER), "0", "1", "acq_rel", "monotonic"), "alone")
    generation = _publish(f, launches, chunks)
    much = _is_much(f, begun, chunks, best)
    f.when(much, lambda: f.line("call void @wake_two(ptr %pool, i64 0, i64 2)"))
    own = f.assign(f"call i64 @take_chunks(ptr %pool, i64 {generation}, i1 false)")
    _wait(f, begun, own, best, pause)
    f.store_atomic(f.at(OWNER), "0", "release")
    f.line("ret void")
    f.label("alone")
    count = f.load_word("%region", str(REGION_COUNT))
    f.line(f"call void @run_alone(ptr {launches}, i64 {count}, ptr %bases)")
    return f.text()


def _is_much(f: PoolFunction, begun: Index, chunks: Index, best: str) -> str:
    """Write whether the owner should wake workers for a region: it is long, or one of many that follow each other.

    ::

        recent = chunks + (recent if begun - last < slow else 0)
        last = begun
        much = chunks >= 12 or best > slow or recent >= 48
        recent = 0 if much else recent
    """
    slow = f.constant(SLOW)
    was_slow = f.test("ugt", f.load_atomic(best, "monotonic"), slow)
    is_long = f.assign(f"or i1 {f.test('sge', chunks, str(MUCH_WORK))}, {was_slow}")
    follows = f.test("ult", f.minus(begun, f.load_word("%pool", str(LAST_BEGUN))), slow)
    recent = f.plus(chunks, f.select_index(follows, f.load_word("%pool", str(RECENT_CHUNKS)), "0"))
    much = f.assign(f"or i1 {is_long}, {f.test('sge', recent, str(STREAM))}")
    f.store_word("%pool", str(LAST_BEGUN), begun)
    f.store_word("%pool", str(RECENT_CHUNKS), f.select_index(much, "0", recent))
    return much


def _publish(f: PoolFunction, launches: str, chunks: Index) -> Index:
    """Write how the owner of the pool offers the chunks of a region; return the generation.

    The claim is stored last: a thread that takes a chunk sees the other words::

        store ptr %launches, ptr %v1, align 8
        store ptr %bases, ptr %v2, align 8
        store atomic i64 %chunks, ptr %v3 monotonic, align 8
        %v5 = load atomic i64, ptr %v4 monotonic, align 8
        ...                                                 ; next generation, chunks 0 to %chunks
        store atomic i64 %v11, ptr %v10 seq_cst, align 8
    """
    f.store_word("%pool", str(LAUNCHES), launches, "ptr")
    f.store_word("%pool", str(BASES), "%bases", "ptr")
    f.store_atomic(f.at(REMAINING), chunks, "monotonic")
    last = f.shift_down(f.load_atomic(f.at(CLAIM), "monotonic"), 2 * CHUNK_BITS)
    generation = f.assign(f"and i64 {f.plus(last, '1')}, {GENERATION_MASK}")
    high = f.assign(f"shl i64 {generation}, {2 * CHUNK_BITS}")
    end = f.assign(f"shl i64 {chunks}, {CHUNK_BITS}")
    f.store_atomic(f.at(CLAIM), f.assign(f"or i64 {high}, {end}"), "seq_cst")
    return generation


def _wait(f: PoolFunction, begun: Index, own: Index, best: str, pause: str) -> None:
    """Write how a caller waits for the chunks that workers have taken.

    A worker should need no longer for a chunk than this thread did, so the caller sleeps after twice its own time for
    a chunk, and some more. A worker that finished the region before may wake it by mistake: it looks again::

        look:
          if (load atomic i64, ptr %remaining acquire) == 0: go to calm
          if waited <= allowed: pause, go to look
        rest:
          sleep on %lock, unless (load atomic i64, ptr %remaining seq_cst) == 0
          if (load atomic i64, ptr %remaining acquire) != 0: go to rest
          if slept > gap: call void @back_off(ptr %pool)
    """
    gap, free = f.constant(GAP), f.now()
    spent = f.minus(free, begun)
    each = f.quotient(spent, f.select_index(f.test("eq", own, "0"), "1", own))
    allowed = f.plus(f.times(each, "2"), f.constant(PATIENCE))
    f.go("look")
    f.label("look")
    f.leave_if(f.test("eq", f.load_atomic(f.at(REMAINING), "acquire"), "0"), "calm")
    f.leave_if(f.test("ugt", f.minus(f.now(), free), allowed), "rest")
    f.pause(pause)
    f.go("look")
    f.label("rest")

    def has_no_work() -> str:
        return f.test("ne", f.load_atomic(f.at(REMAINING), "seq_cst"), "0")

    f.sleep(f.at(CALLER_SLEEPS), f.constant(CALLER_LOCK, "ptr"), has_no_work)
    f.leave_if(f.test("ne", f.load_atomic(f.at(REMAINING), "acquire"), "0"), "rest")
    f.leave_if(f.test("ugt", f.minus(f.now(), free), gap), "held_up")
    f.go("leave")
    f.label("calm")
    _note_time(f, spent, gap, best)
    f.label("held_up")
    f.line("call void @back_off(ptr %pool)")
    f.go("leave")
    f.label("leave")


def _note_time(f: PoolFunction, spent: Index, gap: Index, best: str) -> None:
    """Write how a caller compares its time for a region with the shortest one: it may have been held up itself.

    ::

        best = load atomic i64, ptr %best monotonic, align 8
        if best and spent > 2 * best + gap: go to held_up
        if not best or spent < best:
            store atomic i64 %spent, ptr %best monotonic, align 8
        go to leave
    """
    shortest = f.load_atomic(best, "monotonic")
    limit = f.plus(f.times(shortest, "2"), gap)
    f.leave_if(f.logical_and(f.test("ugt", spent, limit), f.test("ne", shortest, "0")), "held_up")
    better = f.assign(f"or i1 {f.test('ult', spent, shortest)}, {f.test('eq', shortest, '0')}")
    f.leave_unless(better, "leave")
    f.store_atomic(best, spent, "monotonic")
    f.go("leave")
