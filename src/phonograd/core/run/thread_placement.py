"""Thread placement: a thread that wakes on the processor of the thread that woke it moves to another one.

Linux may wake a worker on the processor of its waker although another one is idle, or runs only a process of idle
priority. Then both take turns until the load is balanced, some milliseconds later. The functions here are put in the
places of those that acquire and release the locks of :mod:`~phonograd.core.run.thread_pool`. The waker notes its
processor, and the thread that finds itself there leaves it out of its affinity for a moment. See docs/decisions/0005.
"""

from __future__ import annotations

from ..lower.ir.function_builder import FunctionBuilder

__all__ = ["ACQUIRE", "AFFINITY", "FUNCTIONS", "LOCK", "PROCESSOR", "RELEASE", "SET_AFFINITY", "WAKER", "WORDS"]
__all__ += ["thread_placement_text"]

#: words of a place on which a thread sleeps: Python's lock, the processor of the last waker, and the functions that
#: acquire and release the lock, find the processor of a thread, and return and change its affinity
WORDS = 7
LOCK, WAKER, ACQUIRE, RELEASE, PROCESSOR, AFFINITY, SET_AFFINITY = range(WORDS)

#: words of a set of processors
MASK_WORDS = 128

#: the functions whose addresses are handed out, in this order
FUNCTIONS = ("acquire", "release")


def thread_placement_text() -> str:
    """Return the text of ``acquire`` and ``release``; ``thread_placement_functions`` writes their addresses."""
    f = FunctionBuilder("thread_placement_functions", "ptr %addresses")
    for index, name in enumerate(FUNCTIONS):
        f.store_word("%addresses", str(index), f"@{name}", "ptr")
    return "\n".join([_move_away(), _acquire(), _release(), f.text()])


def _acquire() -> str:
    """Write ``acquire``: wait for the lock of a place, and leave the processor of the thread that released it.

    ::

          %v2 = call i32 %acquire(ptr %lock, i32 %waits)
          %v4 = call i32 %processor()
          %v5 = sext i32 %v4 to i64
          %v7 = icmp eq i64 %v5, %waker
          br i1 %v7, label %go8, label %over
        go8:
          call void @move_away(ptr %place, i64 %v5)
          br label %over
    """
    f = FunctionBuilder("acquire", "ptr %place, i32 %waits", "i32", internal=True)
    lock, acquire = f.load_word("%place", str(LOCK), "ptr"), f.load_word("%place", str(ACQUIRE), "ptr")
    found = f.assign(f"call i32 {acquire}(ptr {lock}, i32 %waits)")
    processor = _own_processor(f)
    f.leave_unless(f.test("eq", processor, f.load_word("%place", str(WAKER))), "over")
    f.line(f"call void @move_away(ptr %place, i64 {processor})")
    f.go("over")
    f.label("over")
    f.line(f"ret i32 {found}")
    return f.text()


def _release() -> str:
    """Write ``release``: note the processor of this thread, and release the lock of a place.

    ::

          %v2 = call i32 %processor()
          %v3 = sext i32 %v2 to i64
          store i64 %v3, ptr %waker, align 8
          call void %release(ptr %lock)
    """
    f = FunctionBuilder("release", "ptr %place", internal=True)
    f.store_word("%place", str(WAKER), _own_processor(f))
    lock, release = f.load_word("%place", str(LOCK), "ptr"), f.load_word("%place", str(RELEASE), "ptr")
    f.line(f"call void {release}(ptr {lock})")
    return f.text()


def _own_processor(f: FunctionBuilder) -> str:
    """Return the number of the processor on which a thread runs; it is negative if the system does not tell."""
    processor = f.load_word("%place", str(PROCESSOR), "ptr")
    return f.assign(f"sext i32 {f.assign(f'call i32 {processor}()')} to i64")


def _move_away() -> str:
    """Write ``move_away``: leave a processor by an affinity without it, which lasts for a moment.

    The second call restores the affinity. Both fail, and change nothing, if there is no other processor::

        if affinity(0, 1024, mask) == 0:
            before = mask[number / 64]
            mask[number / 64] = before & ~(1 << number % 64)
            set_affinity(0, 1024, mask)
            mask[number / 64] = before
            set_affinity(0, 1024, mask)
    """
    f = FunctionBuilder("move_away", "ptr %place, i64 %number", internal=True)
    mask = f.assign(f"alloca [{MASK_WORDS} x i64], align 8")
    given = f"i32 0, i64 {8 * MASK_WORDS}, ptr {mask}"
    f.leave_if(f.test("uge", "%number", str(64 * MASK_WORDS)), "over")
    failed = f.assign(f"call i32 {f.load_word('%place', str(AFFINITY), 'ptr')}({given})")
    f.leave_if(f.assign(f"icmp ne i32 {failed}, 0"), "over")
    word = f.shift_down("%number", 6)
    before = f.load_word(mask, word)
    bit = f.assign(f"shl i64 1, {f.assign('and i64 %number, 63')}")
    f.store_word(mask, word, f.assign(f"and i64 {before}, {f.assign(f'xor i64 {bit}, -1')}"))
    change = f.load_word("%place", str(SET_AFFINITY), "ptr")
    f.assign(f"call i32 {change}({given})")
    f.store_word(mask, word, before)
    f.assign(f"call i32 {change}({given})")
    f.go("over")
    f.label("over")
    return f.text()
