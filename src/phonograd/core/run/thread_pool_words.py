"""The words of the thread pool: its memory, the records of regions and launches, and the builder of code on them.

The pool (:mod:`phonograd.core.run.thread_pool`) fills the words in, the driver (:mod:`phonograd.core.run.driver`)
writes regions and launches, and the pool's machine code (:mod:`phonograd.core.run.thread_pool_ir`) works on all of
them.
"""

from __future__ import annotations

from collections.abc import Callable

from ..lower.ir.function_builder import FunctionBuilder, Index

__all__ = [
    "ACQUIRE",
    "ALONE_UNTIL",
    "BASES",
    "CALLER_LOCK",
    "CALLER_SLEEPS",
    "CHUNK_BITS",
    "CHUNK_MASK",
    "CLAIM",
    "FIRST_WORKER",
    "GAP",
    "GENERATION_MASK",
    "LAST_BEGUN",
    "LAUNCHES",
    "LAUNCH_CHUNK",
    "LAUNCH_CHUNKS",
    "LAUNCH_EXTENT",
    "LAUNCH_TABLE",
    "LAUNCH_WORDS",
    "LEAST_PENALTY",
    "LOCK",
    "MOST_CHUNKS",
    "MOST_PENALTY",
    "MUCH_WORK",
    "OWNER",
    "PARALLEL",
    "PATIENCE",
    "PENALTY",
    "QUIT",
    "RECENT_CHUNKS",
    "REGION_BEST",
    "REGION_CHUNKS",
    "REGION_COUNT",
    "REGION_WORDS",
    "RELEASE",
    "REMAINING",
    "SLEEPS",
    "SLOW",
    "SOON",
    "SPINS",
    "STREAM",
    "SUMMON",
    "WORKERS",
    "WORKER_WORDS",
    "PoolFunction",
]

#: number of chunks (of 2 to 10 us) that justifies waking workers
MUCH_WORK = 12
#: number of chunks of regions that follow each other at once which justifies it, too: more of them are likely
STREAM = 48

#: words of a worker. Words that different threads write are two cache lines apart, because processors fetch pairs
WORKER_WORDS = 16
#: words of the pool that never change while it runs, then one group of words for each kind of change
PARALLEL, SUMMON, WORKERS, SPINS, PATIENCE, GAP, SLOW, LEAST_PENALTY, MOST_PENALTY, ACQUIRE, RELEASE, CALLER_LOCK = (
    range(12)
)
OWNER, CLAIM, LAUNCHES, REMAINING, CALLER_SLEEPS, QUIT, PENALTY, FIRST_WORKER = [
    WORKER_WORDS * line for line in range(1, 9)
]
BASES = LAUNCHES + 1
#: words of the owner: when the last region began, and the chunks of the regions that followed each other at once
LAST_BEGUN, RECENT_CHUNKS = OWNER + 1, OWNER + 2
ALONE_UNTIL = PENALTY + 1
#: words of a worker: whether it sleeps or is about to, and the lock that it sleeps on
SLEEPS, LOCK = 0, 1

#: words of a region: address of its launches, number of launches, number of chunks, and the shortest time that a caller
#: has worked on it so far
REGION_WORDS = 4
REGION_COUNT, REGION_CHUNKS, REGION_BEST = 1, 2, 3
#: words of a launch: address of the word with the kernel's address, table, extent, size of a chunk, number of chunks
LAUNCH_WORDS = 5
LAUNCH_TABLE, LAUNCH_EXTENT, LAUNCH_CHUNK, LAUNCH_CHUNKS = 1, 2, 3, 4

#: a back-off is soon after the last one if it begins within so many least penalties
SOON = 2

#: bits of CLAIM for either end of the chunks that are left; the remaining 16 are the generation
CHUNK_BITS = 24
#: chunks that a region may have
MOST_CHUNKS = 1 << CHUNK_BITS - 1

CHUNK_MASK = (1 << CHUNK_BITS) - 1
GENERATION_MASK = (1 << 64 - 2 * CHUNK_BITS) - 1


class PoolFunction(FunctionBuilder):
    """The text of one function of the pool, whose words are at ``%pool``."""

    def __init__(self, name: str, arguments: str, result: str = "void") -> None:
        super().__init__(name, arguments, result, internal=True)

    def at(self, word: int) -> str:
        """Return the address of a word of the pool: ``getelementptr i64, ptr %pool, i64 32``."""
        return self.address("%pool", str(word), "i64")

    def constant(self, word: int, kind: str = "i64") -> str:
        """Return a word of the pool that never changes: ``load i64, ptr %v1, align 8``."""
        return self.load_word("%pool", str(word), kind)

    def worker(self, index: Index) -> str:
        """Return the address of the words of a worker.

        ::

            %v1 = mul i64 %index, 16
            %v2 = add i64 %v1, 128
            %v3 = getelementptr i64, ptr %pool, i64 %v2
        """
        return self.address("%pool", self.plus(self.times(index, str(WORKER_WORDS)), str(FIRST_WORKER)), "i64")

    def now(self) -> Index:
        """Return the processor's clock: ``call i64 @llvm.readcyclecounter()``."""
        return self.assign("call i64 @llvm.readcyclecounter()")

    def pause(self, instruction: str) -> None:
        """Let the other thread of the core go first, on processors that can: ``call void @llvm.x86.sse2.pause()``."""
        if instruction:
            self.line(instruction)

    def turns(self) -> Index:
        """Return how many turns a worker looks for work: ``load atomic i64, ptr %spins monotonic``.

        Python changes it while workers run.
        """
        return self.load_atomic(self.at(SPINS), "monotonic")

    def claimed(self, claim: Index) -> tuple[Index, Index]:
        """Return the first and the end of the chunks that are left in a claim.

        ::

            %v1 = and i64 %claim, 16777215
            %v2 = lshr i64 %claim, 24
            %v3 = and i64 %v2, 16777215
        """
        first = self.assign(f"and i64 {claim}, {CHUNK_MASK}")
        return first, self.assign(f"and i64 {self.shift_down(claim, CHUNK_BITS)}, {CHUNK_MASK}")

    def sleep(self, sleeps: str, lock: str, has_no_work: Callable[[], str]) -> None:
        """Sleep on a lock, unless a last look shows that there is something to do.

        The thread that made work looks at ``sleeps`` afterwards. Both orders are sequentially consistent, so that one
        of the two threads sees the other. A waker that exchanged ``sleeps`` releases the lock, once, so the sleeper
        that comes too late for a withdrawal waits for this release::

              store atomic i64 1, ptr %sleeps seq_cst, align 8
              ...                                               ; has_no_work
              br i1 %v2, label %wait3, label %go5
            go5:
              %v6 = cmpxchg ptr %sleeps, i64 1, i64 0 seq_cst seq_cst
              %v7 = extractvalue { i64, i1 } %v6, 1
              br i1 %v7, label %awake4, label %wait3
            wait3:
              %v9 = call i32 %acquire(ptr %lock, i32 1)
              br label %awake4
            awake4:
        """
        wait, awake = self.new_name("wait"), self.new_name("awake")
        self.store_atomic(sleeps, "1", "seq_cst")
        self.leave_if(has_no_work(), wait)
        withdrawn = self.compare_exchange(sleeps, "1", "0", "seq_cst", "seq_cst")
        self.line(f"br i1 {withdrawn}, label %{awake}, label %{wait}")
        self.label(wait)
        self.assign(f"call i32 {self.constant(ACQUIRE, 'ptr')}(ptr {lock}, i32 1)")
        self.go(awake)
        self.label(awake)

    def launch(self, launch: str, begin: Index, end: Index) -> None:
        """Call the kernel of a launch for a range of it.

        Tier-up exchanges kernels while launches exist, so a launch refers to the cell with the address::

            %v1 = load ptr, ptr %launch, align 8
            %v2 = load ptr, ptr %v1, align 8
            %v3 = getelementptr i64, ptr %launch, i64 1
            %v4 = load ptr, ptr %v3, align 8
            call void %v2(ptr %v4, ptr %bases, i64 %begin, i64 %end)
        """
        kernel = self.load_word(self.load_word(launch, "0", "ptr"), "0", "ptr")
        table = self.load_word(launch, str(LAUNCH_TABLE), "ptr")
        self.line(f"call void {kernel}(ptr {table}, ptr %bases, i64 {begin}, i64 {end})")
