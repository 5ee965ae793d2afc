"""The protocol of the thread pool, in every interleaving of a small pool.

The model is the emitted text itself: :mod:`.llvm_threads` interprets the functions that :mod:`phonograd.core.run.thread_pool_ir`
writes, one step for each instruction on shared memory and each call of a lock or kernel, so the model cannot differ
from the code. Time is unknown: a thread may sleep, spin or back off wherever a clock decides, and stall anywhere.

Mutants are texts with one line changed; the explorer must reject each of them.
"""

import re
from pathlib import Path

import pytest

from phonograd.core.run import thread_pool_words
from phonograd.core.run.thread_pool_ir import thread_pool_text
from phonograd.core.run.thread_pool_words import (
    ACQUIRE,
    ALONE_UNTIL,
    BASES,
    CALLER_LOCK,
    CALLER_SLEEPS,
    CHUNK_BITS,
    CHUNK_MASK,
    CLAIM,
    FIRST_WORKER,
    GAP,
    LAST_BEGUN,
    LAUNCH_WORDS,
    LAUNCHES,
    LEAST_PENALTY,
    LOCK,
    MOST_PENALTY,
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
    SLEEPS,
    SLOW,
    SPINS,
    WORKER_WORDS,
    WORKERS,
)

from .interleavings import Explorer, Region, Violation
from .llvm_threads import Layout, Program, Thread, atomics

TEXT = thread_pool_text("x86_64")
PAGE = Path(__file__).resolve().parents[3] / "docs" / "thread-pool.md"

#: the extents of the launches of a region, whose chunks are one item each
Extents = list[int]

_POOL, _CELL, _LOCKS, _RECORDS = 1_000, 9_000, 9_100, 10_000
_ACQUIRE, _RELEASE, _KERNEL = 1, 2, 3


class Pool:
    """A pool in every state that it can reach.

    Parameters
    ----------
    workers
        How many there are.
    callers
        For each caller the regions that it runs one after the other.
    text
        The text of the pool's functions.
    dismisses
        Whether the first caller dismisses the workers at last; else ``QUIT`` is 0, and workers never end.
    checks_order
        Whether happens-before is checked.
    """

    def __init__(
        self,
        workers: int,
        callers: list[list[Extents]],
        text: str = TEXT,
        *,
        dismisses: bool = False,
        checks_order: bool = False,
    ) -> None:
        constants: dict[int, int | None] = {_POOL + WORKERS: workers, _CELL: _KERNEL}
        constants |= {_POOL + ACQUIRE: _ACQUIRE, _POOL + RELEASE: _RELEASE, _POOL + CALLER_LOCK: _LOCKS}
        constants |= {_POOL + word: None for word in (SPINS, PATIENCE, GAP, SLOW, LEAST_PENALTY, MOST_PENALTY)}
        sleeps = [_POOL + FIRST_WORKER + WORKER_WORDS * index for index in range(workers)]
        constants |= {own + LOCK: _LOCKS + 1 + index for index, own in enumerate(sleeps)}
        words = [_POOL + word for word in (OWNER, CLAIM, LAUNCHES, BASES, REMAINING, CALLER_SLEEPS)]
        words += [_LOCKS + index for index in range(workers + 1)] + [own + SLEEPS for own in sleeps]
        if dismisses:
            words.append(_POOL + QUIT)
        else:
            constants[_POOL + QUIT] = 0
        self._shared = {place: number for number, place in enumerate(words)}
        functions = {_ACQUIRE: "acquire", _RELEASE: "release", _KERNEL: "kernel"}
        # only the owner uses the last two, between the steps that make it the owner and those that end it
        times = {_POOL + word for word in (PENALTY, ALONE_UNTIL, LAST_BEGUN, RECENT_CHUNKS)}
        self._layout = Layout(constants, times, {}, self._shared, functions)
        self._regions: list[Region] = []
        scripts: list[list[tuple[str, tuple[int, ...]]]] = []
        for number, regions in enumerate(callers):
            records = [self._record(extents, number, position) for position, extents in enumerate(regions)]
            scripts.append([("parallel", (_POOL, *addresses)) for addresses in records])
        if dismisses:
            scripts[0].append(("dismiss", (_POOL,)))
        scripts += [[("worker", (_POOL, index))] for index in range(workers)]
        program = Program(text)
        self._ending = range(len(scripts)) if dismisses else range(len(callers))
        self._callers = len(callers)
        self.explorer = Explorer(
            [Thread(program, self._layout, script) for script in scripts],
            len(words),
            self._regions,
            self._shared[_POOL + CLAIM],
            [self._shared[_POOL + word] for word in (LAUNCHES, BASES)],
            [self._shared[_POOL + word] for word in (OWNER, CLAIM, REMAINING)] if checks_order else (),
        )

    def _record(self, extents: Extents, thread: int, position: int) -> tuple[int, int]:
        """Lay out a region and its launches; return the addresses of its record and of its arrays."""
        number = len(self._regions)
        first = sum([region.items.bit_count() for region in self._regions])
        place = _RECORDS + 1_000 * number
        launches, bases = place + 100, place + 500
        words = {place: launches, place + REGION_COUNT: len(extents), place + REGION_CHUNKS: sum(extents)}
        tables: dict[int, int] = {}
        for index, extent in enumerate(extents):
            table, launch = place + 600 + index, launches + LAUNCH_WORDS * index
            words |= {launch + word: value for word, value in enumerate((_CELL, table, extent, 1, extent))}
            tables[table] = first + sum(extents[:index])
        items = (1 << first + sum(extents)) - (1 << first)
        self._regions.append(Region(tables, bases, items, thread, position))
        self._layout.records.update({address: (number, value) for address, value in words.items()})
        self._layout.times.add(place + REGION_BEST)
        return place, bases

    def check(self) -> None:
        """Raise if an invariant that is about all states does not hold."""
        self.explorer.check_threads_can_end(self._ending)
        if self._callers == 1:
            self.explorer.check_caller_needs_no_idle_worker(0)

    def check_awake(self) -> None:
        """Raise if a worker sleeps on although the caller has woken it and chunks are left."""
        explorer = self.explorer
        claim, lock = self._shared[_POOL + CLAIM], self._shared[_LOCKS + 1]
        for state in explorer.states:
            left = explorer.word(state, claim)
            has_chunks = left & CHUNK_MASK < left >> CHUNK_BITS & CHUNK_MASK
            is_running = explorer.step(state, 0).text.startswith(("take_chunks", "run_chunk"))
            sleeps = explorer.step(state, 1).kind == "acquire" and not explorer.word(state, lock)
            if has_chunks and is_running and sleeps:
                raise Violation("a worker that was woken sleeps")


@pytest.mark.parametrize(
    ("workers", "callers"),
    [
        (1, [[[1], [2]]]),
        (1, [[[3], [1, 1]]]),
        (1, [[[2], [1], [2]]]),
        (2, [[[3]]]),
        (2, [[[1], [2]]]),
        (3, [[[1]]]),
        (1, [[[2]], [[2]]]),
        (1, [[[1], [2]], [[1, 1]]]),
    ],
)
def test_regions_are_run_in_every_interleaving(workers: int, callers: list[list[Extents]]) -> None:
    Pool(workers, callers).check()


@pytest.mark.parametrize(("workers", "regions"), [(1, [[2], [2]]), (2, []), (2, [[1]]), (3, [])])
def test_workers_end_in_every_interleaving(workers: int, regions: list[Extents]) -> None:
    Pool(workers, [regions], dismisses=True).check()


@pytest.mark.parametrize(("workers", "callers"), [(1, [[[3], [1, 1]]]), (2, [[[2]]]), (1, [[[2]], [[2]]])])
def test_plain_words_and_results_are_ordered(workers: int, callers: list[list[Extents]]) -> None:
    Pool(workers, callers, checks_order=True).check()


def changed(function: str, pattern: str, replacement: str, text: str = TEXT) -> str:
    """Return the text of the pool with one place of a function changed."""
    found = re.search(rf"define [^@]*@{function}\(.*?\n}}\n", text, re.DOTALL)
    assert found is not None
    new, count = re.subn(pattern, replacement, found[0], count=1, flags=re.DOTALL)
    assert count == 1, (function, pattern)
    return text.replace(found[0], new)


_EXCHANGE = r"%\w+ = cmpxchg ptr (\S+), i64 (\S+), i64 (\S+) {orders}\n  (%\w+) = extractvalue [^\n]*"
_STORE = r"store atomic i64 \3, ptr \1 seq_cst, align 8\n  \4 = icmp eq i64 0, 0"
_NEVER_LOOKS = r"br i1 \S+, label %(wait\d+), label %go\d+", r"br label %\1"
#: reads the words of the region before it takes a chunk
_WORDS_FIRST = changed(
    "take_chunks",
    r"( *%\w+ = cmpxchg .*?then\d+:\n)(.*?)( *call void @run_chunk)",
    r"\2\1\3",
)
#: generations are 1, 0, 1, ...
_FEW_GENERATIONS = changed("parallel", r"and i64 (%\w+), 65535", r"and i64 \1, 1")

MUTANTS = {
    "a chunk is taken without an exchange": (
        changed("take_chunks", _EXCHANGE.format(orders="acq_rel monotonic"), _STORE),
        (1, [[[2]]]),
        "are run again",
    ),
    "chunks are subtracted in two steps": (
        changed(
            "take_chunks",
            r"(%\w+) = atomicrmw sub ptr (\S+), i64 (\S+) seq_cst",
            r"\1 = load atomic i64, ptr \2 seq_cst, align 8\n  %less = sub i64 \1, \3\n"
            r"  store atomic i64 %less, ptr \2 seq_cst, align 8",
        ),
        (1, [[[2]]]),
        "can never end",
    ),
    "chunks are offered before they are counted": (
        changed(
            "parallel",
            r"( *store atomic i64 \S+, ptr \S+ monotonic, align 8\n)(.*?store atomic i64 \S+, ptr \S+ seq_cst, align 8\n)",
            r"\2\1",
        ),
        (1, [[[2]]]),
        "more chunks are finished",
    ),
    "a caller is the owner in any case": (
        changed("parallel", r"br i1 \S+, label %(go\d+), label %alone", r"br label %\1"),
        (1, [[[2]], [[2]]]),
        "a lock is released twice",
    ),
    "a caller sleeps without a last look": (changed("parallel", *_NEVER_LOOKS), (1, [[[2]]]), "can never end"),
    "a caller that is woken does not look": (
        changed("parallel", r"(awake\d+:.*?)br i1 \S+, label %rest, label %(go\d+)", r"\1br label %\2"),
        (2, [[[1], [2]]]),
        "returns before region 1 is finished",
    ),
    "a caller withdraws without an exchange": (
        changed("parallel", _EXCHANGE.format(orders="seq_cst seq_cst"), _STORE),
        (1, [[[2], [2]]]),
        "released twice",
    ),
    "a waker does not exchange": (
        changed("wake", _EXCHANGE.format(orders="seq_cst seq_cst"), _STORE),
        (1, [[[2], [2]]]),
        "released twice",
    ),
    "words are read before a chunk is taken, and a generation returns": (
        changed("parallel", r"and i64 (%\w+), 65535", r"and i64 \1, 1", _WORDS_FIRST),
        (1, [[[1], [1], [1]]]),
        "region 0",
    ),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_rejected(name: str) -> None:
    text, (workers, callers), message = MUTANTS[name]
    with pytest.raises(Violation, match=message):
        Pool(workers, callers, text).check()


@pytest.mark.parametrize(
    "text",
    [
        changed("worker", *_NEVER_LOOKS),
        changed("dismiss", r"( *store atomic[^\n]*\n)(.*?)( *ret void)", r"\2\1\3"),
    ],
    ids=["a worker sleeps without a last look", "workers are woken before they are told to end"],
)
def test_a_mutant_whose_workers_never_end_is_rejected(text: str) -> None:
    with pytest.raises(Violation, match="can never end"):
        Pool(1, [[]], text, dismisses=True).check()


#: a caller that wakes workers in any case
_WAKES = r"br i1 \S+, label %(then\d+), label %else\d+", r"br label %\1"


def test_no_wake_up_is_lost() -> None:
    text = changed("parallel", *_WAKES)
    Pool(1, [[[2], [2]]], text).check_awake()
    with pytest.raises(Violation, match="a worker that was woken sleeps"):
        Pool(1, [[[2], [2]]], changed("worker", *_NEVER_LOOKS, text)).check_awake()


ORDER_MUTANTS = {
    "taking a chunk acquires nothing": (
        changed("take_chunks", "acq_rel monotonic", "monotonic monotonic"),
        [[[2]]],
        "its last write does not happen before",
    ),
    "offering chunks releases nothing": (
        changed("parallel", r"(store atomic i64 \S+, ptr \S+) seq_cst", r"\1 monotonic"),
        [[[2]]],
        "its last write does not happen before",
    ),
    "finishing chunks releases nothing": (
        changed("take_chunks", r"(atomicrmw [^\n]*) seq_cst", r"\1 monotonic"),
        [[[2]]],
        "do not happen before the caller returns",
    ),
    "the caller acquires nothing at the end": (
        changed("parallel", r"(look:.*?) acquire,", r"\1 monotonic,"),
        [[[2]]],
        "do not happen before the caller returns",
    ),
    "an owner releases nothing": (
        changed("parallel", " release,", " monotonic,"),
        [[[2]], [[2]]],
        "its last write does not happen before",
    ),
    "an owner acquires nothing": (
        changed("parallel", "acq_rel monotonic", "monotonic monotonic"),
        [[[2]], [[2]]],
        "its last write does not happen before",
    ),
    "words are read before a chunk is taken": (_WORDS_FIRST, [[[1], [1]]], "happen before"),
}


@pytest.mark.parametrize("name", ORDER_MUTANTS)
def test_a_mutant_with_weaker_orders_is_rejected(name: str) -> None:
    text, callers, message = ORDER_MUTANTS[name]
    with pytest.raises(Violation, match=message):
        Pool(1, callers, text, checks_order=True).check()


def test_a_generation_may_return() -> None:
    # a worker that stalls for 65536 regions takes a chunk of the present one, or sleeps through it
    Pool(1, [[[1], [2], [2]]], _FEW_GENERATIONS).check()


def test_safety_does_not_rest_on_the_generation() -> None:
    # the exchange of the claim is enough: the generation only tells a worker which regions it has seen
    text = changed("take_chunks", r"(%\w+) = and i1 %\w+, (%\w+)", r"\1 = and i1 true, \2")
    Pool(1, [[[1], [2], [2]]], text).check()
    Pool(1, [[[3], [2]]], text, checks_order=True).check()


def test_the_page_lists_the_atomic_instructions() -> None:
    names = ("OWNER", "CLAIM", "REMAINING", "CALLER_SLEEPS", "QUIT", "PENALTY", "ALONE_UNTIL", "SPINS")
    words = {("%pool", getattr(thread_pool_words, name)): name for name in names} | {("%region", REGION_BEST): "BEST"}
    emitted = atomics(Program(TEXT), words, "SLEEPS")
    block = re.search(r"```text\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert block is not None
    listed = [re.sub(" +", " ", line.partition(";")[0]).strip() for line in block[1].splitlines()]
    assert listed == [f"{function} {line}" for function, lines in emitted.items() for line in lines]
