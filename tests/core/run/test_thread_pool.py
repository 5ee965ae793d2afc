"""The thread pool with real threads: every item is run once, and no thread hangs when pools end, begin or fork."""

import os
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest

from phonograd import settings
from phonograd.core.run import kernel_cache, thread_pool
from phonograd.core.run.driver import Row
from phonograd.core.run.thread_pool_ir import thread_pool_text
from phonograd.core.run.thread_pool_words import (
    ALONE_UNTIL,
    FIRST_WORKER,
    LEAST_PENALTY,
    MOST_PENALTY,
    MUCH_WORK,
    PENALTY,
    SLEEPS,
    SPINS,
    STREAM,
    WORKER_WORDS,
)

#: adds 1 to the elements of its range
COUNT = """
define void @{name}(ptr %table, ptr %bases, i64 %lo, i64 %hi) nounwind {{
entry:
  %counts = load ptr, ptr %bases, align 8
  br label %loop
loop:
  %index = phi i64 [ %lo, %entry ], [ %next, %body ]
  %more = icmp slt i64 %index, %hi
  br i1 %more, label %body, label %done
body:
  %place = getelementptr i64, ptr %counts, i64 %index
  %old = load i64, ptr %place, align 8
  %new = add i64 %old, 1
  store i64 %new, ptr %place, align 8
  %next = add i64 %index, 1
  br label %loop
done:
  ret void
}}
"""


@pytest.fixture(scope="module")
def count() -> kernel_cache.Kernel:
    """Return a kernel that counts how often each item of its range is run."""
    if not kernel_cache.available():
        pytest.skip("kernels cannot be compiled here")
    return kernel_cache.compile_text(COUNT.format(name="count_items"), "count_items")


@pytest.fixture
def four() -> Iterator[thread_pool.ThreadPool]:
    """Yield a pool of four threads, on any machine."""
    with settings.override(num_threads=4):
        found = thread_pool.renew()
        assert found is not None
        assert found.size == 4
        yield found


def run(kernel: kernel_cache.Kernel, counts: np.ndarray, chunk: int, launches: int = 1) -> None:
    Row([(kernel, [0], len(counts), chunk)] * launches, 1).run((counts,))


@pytest.mark.parametrize("machine", ["x86_64", "AMD64", "aarch64", "arm64", "riscv64"])
def test_the_text_is_right_for_every_machine(machine: str) -> None:
    binding = pytest.importorskip("llvmlite.binding")
    with binding.parse_assembly(thread_pool_text(machine)) as module:
        module.verify()


@pytest.mark.usefixtures("four")
@pytest.mark.parametrize("extent", [0, 1, 2, 3, 10, 1000, 4097])
@pytest.mark.parametrize("chunk", [1, 2, 7, 1000])
def test_every_item_is_run_once(count: kernel_cache.Kernel, extent: int, chunk: int) -> None:
    counts = np.zeros(extent, np.int64)
    run(count, counts, chunk, launches=20)
    assert np.all(counts == 20)


@pytest.mark.usefixtures("four")
@pytest.mark.parametrize("regions", [[6], [1, 2, 3], [3, 3], [2, 1, 1, 2]])
def test_every_item_of_a_region_is_run_once(count: kernel_cache.Kernel, regions: list[int]) -> None:
    # every launch of the row has an array of its own
    sizes = [0, 1, 5, 700, 64, 3001]
    arrays = tuple([np.zeros(size, np.int64) for size in sizes])
    launches = [(jit_kernel(number), [0], size, 1 + number) for number, size in enumerate(sizes)]
    for _ in range(20):
        Row(launches, len(sizes), regions).run(arrays)
    assert all([np.all(array == 20) for array in arrays])


def jit_kernel(number: int) -> kernel_cache.Kernel:
    """Return a kernel that counts the items of the array with a number."""
    name = f"count_items_of{number}"
    text = COUNT.format(name=name)
    return kernel_cache.compile_text(
        text.replace("ptr %bases, align", f"ptr %base{number}, align").replace(
            "entry:\n", f"entry:\n  %base{number} = getelementptr ptr, ptr %bases, i64 {number}\n"
        ),
        name,
    )


#: waits for as many turns as the table says, for the last item of its range only
WAIT = """
define void @wait_for_last(ptr %table, ptr %bases, i64 %lo, i64 %hi) nounwind {
entry:
  %counter = alloca i64, align 8
  %turns = load i64, ptr %table, align 8
  %waits = icmp sgt i64 %lo, 0
  br i1 %waits, label %turn, label %over
turn:
  %done = phi i64 [ 0, %entry ], [ %next, %turn ]
  %next = add i64 %done, 1
  store volatile i64 %next, ptr %counter, align 8
  %more = icmp slt i64 %next, %turns
  br i1 %more, label %turn, label %over
over:
  ret void
}
"""


def test_threads_that_are_held_up_work_alone_for_a_while() -> None:
    if not kernel_cache.available():
        pytest.skip("kernels cannot be compiled here")
    kernel = kernel_cache.compile_text(WAIT, "wait_for_last")
    data = (np.zeros(1),)
    with settings.override(num_threads=2):
        found = thread_pool.renew()
        assert found is not None
        least, most = int(found.memory[LEAST_PENALTY]), int(found.memory[MOST_PENALTY])
        assert 0 < least < most
        # the first of two chunks takes no time, the second, which a worker begins with, some milliseconds
        row, much = Row([(kernel, [4_000_000], 2, 1)], 1), Row([(kernel, [1], 2 * MUCH_WORK, 1)], 1)
        deadline = time.monotonic() + 60
        while not found.memory[ALONE_UNTIL]:
            assert time.monotonic() < deadline, "the worker never took a chunk, or nobody noticed"
            much.run(data)
            row.run(data)
        assert least <= int(found.memory[PENALTY]) <= most


def asleep(found: thread_pool.ThreadPool) -> bool:
    """Return whether all workers sleep."""
    return all([found.memory[FIRST_WORKER + WORKER_WORDS * index + SLEEPS] for index in range(found.size - 1)])


def wait_for_sleep(found: thread_pool.ThreadPool) -> None:
    deadline = time.monotonic() + 30
    while not asleep(found):
        assert time.monotonic() < deadline, "workers do not fall asleep"
        time.sleep(0.001)


def test_workers_sleep_and_wake_up(count: kernel_cache.Kernel, four: thread_pool.ThreadPool) -> None:
    for _ in range(3):
        counts = np.zeros(100_000, np.int64)
        run(count, counts, 100, launches=10)
        assert np.all(counts == 10)
        wait_for_sleep(four)


def test_workers_sleep_through_a_little_work(count: kernel_cache.Kernel, four: thread_pool.ThreadPool) -> None:
    wait_for_sleep(four)
    counts = np.zeros(MUCH_WORK - 1, np.int64)
    run(count, counts, 1)
    assert np.all(counts == 1)
    assert asleep(four)


def test_workers_wake_up_for_many_small_regions(count: kernel_cache.Kernel, four: thread_pool.ThreadPool) -> None:
    row, counts = Row([(count, [0], 2, 1)], 1), np.zeros(2, np.int64)
    wait_for_sleep(four)
    # apart from each other, they are none of their business
    for _ in range(STREAM):
        row.run((counts,))
        time.sleep(0.0005)
    assert asleep(four)
    deadline = time.monotonic() + 30
    while asleep(four):
        assert time.monotonic() < deadline, "workers do not wake up"
        for _ in range(STREAM):
            row.run((counts,))


@pytest.mark.usefixtures("four")
def test_the_launching_thread_sleeps_until_the_last_chunk_is_done(count: kernel_cache.Kernel) -> None:
    # a chunk takes longer than a thread waits without sleeping
    counts = np.zeros(10 * 400_000, np.int64)
    run(count, counts, 400_000, launches=20)
    assert np.all(counts == 20)


@pytest.mark.usefixtures("four")
def test_several_threads_launch_at_once(count: kernel_cache.Kernel) -> None:
    wrong: list[int] = []

    def work(number: int) -> None:
        random = np.random.default_rng(number)
        for _ in range(300):
            counts = np.zeros(random.integers(1, 5000), np.int64)
            run(count, counts, int(random.integers(1, 200)), launches=3)
            if not np.all(counts == 3):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive()
    assert not wrong


def test_the_team_follows_the_setting(count: kernel_cache.Kernel) -> None:
    for wanted in (3, 1, 0, 2, 5):
        with settings.override(num_threads=wanted):
            counts = np.zeros(1000, np.int64)
            run(count, counts, 10)
            assert np.all(counts == 1)
            found = thread_pool.renew()
            assert (1 if found is None else found.size) == max(1, wanted)
            assert bool(thread_pool.CELL[0]) == (wanted > 1)


def test_the_setting_may_change_while_threads_launch(count: kernel_cache.Kernel) -> None:
    stop = threading.Event()
    wrong: list[int] = []

    def work() -> None:
        while not stop.is_set():
            counts = np.zeros(3000, np.int64)
            run(count, counts, 10)
            wrong.extend([1] if not np.all(counts == 1) else [])

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for number in range(40):
        with settings.override(num_threads=1 + number % 4):
            time.sleep(0.002)
    stop.set()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert not wrong


def test_workers_end_when_they_are_dismissed() -> None:
    made = thread_pool.ThreadPool(3)
    made.dismiss(timeout=30)
    assert not any([thread.is_alive() for thread in made._threads])


def test_without_more_threads_the_launching_one_does_everything(
    count: kernel_cache.Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch, settings.override(num_threads=7):
        patch.setattr(threading.Thread, "start", refuse)
        counts = np.zeros(1000, np.int64)
        run(count, counts, 10)
        assert np.all(counts == 1)
        found = thread_pool.renew()
        assert found is not None
        assert found.size == 1


PROLOGUE = """
import os, signal, sys, threading, time, warnings
import numpy as np
warnings.simplefilter("ignore", DeprecationWarning)
import phonograd as mx
from phonograd import settings
from phonograd.core.run import kernel_cache, thread_pool
from phonograd.core.run.driver import Row
settings.update(num_threads=3)
kernel = kernel_cache.compile_text(TEXT, "count_items")

def run(size=20000, chunk=50):
    counts = np.zeros(size, np.int64)
    Row([(kernel, [0], size, chunk)] * 5, 1).run((counts,))
    assert np.all(counts == 5), counts

def forever():
    while True:
        run()
"""


def script(text: str) -> subprocess.CompletedProcess[str]:
    """Run a program of its own, which must end within a minute."""
    source = f"TEXT = {COUNT.format(name='count_items')!r}\n{PROLOGUE}\n{textwrap.dedent(text)}"
    # an emulator (tests/project/arm.py) needs a minute for the imports alone
    patience = 60 * int(os.environ.get("PHONOGRAD_TEST_SLOWNESS", "1"))
    return subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=patience, check=False)


def succeeds(text: str) -> None:
    done = script(text)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


def test_small_stacks_of_other_threads_are_not_those_of_workers_and_compilers() -> None:
    succeeds("""
        threading.stack_size(1 << 17)
        # compiled here, by threads that begin now
        settings.update(num_threads=4, cache_directory="")
        lhs, rhs = mx.nd.ones((256, 512)), mx.nd.ones((512, 512))
        for number in range(30):
            assert (mx.nd.dot(lhs, rhs + number).asnumpy() == 512 * (number + 1)).all()
        # helpers that start threads change the size for a moment
        from phonograd.core.plan import promotion
        promotion.finish()
        kernel_cache.wait_for_tier_up()
        assert threading.stack_size() == 1 << 17
        print("done")
    """)


def test_workers_start_before_the_first_graph_is_computed() -> None:
    succeeds("""
        assert thread_pool.stale
        assert mx.nd.ones((3,)).asnumpy().tolist() == [1, 1, 1]
        assert not thread_pool.stale and thread_pool.CELL[0]
        print("done")
    """)


def test_a_program_ends_with_workers_asleep() -> None:
    succeeds("run(); time.sleep(0.05); print('done')")


def test_a_program_ends_with_workers_awake() -> None:
    succeeds("run(); print('done')")


def test_a_program_ends_while_another_thread_launches() -> None:
    succeeds("threading.Thread(target=forever, daemon=True).start(); time.sleep(0.2); run(); print('done')")


def test_kernels_run_on_one_thread_after_the_workers_have_ended() -> None:
    succeeds("""
        import atexit
        run()
        thread_pool._end()
        run()
        assert thread_pool.renew() is None
        print('done')
    """)


def test_an_exception_ends_a_program_as_usual() -> None:
    done = script("run(); raise KeyError('mine')")
    assert done.returncode == 1
    assert done.stderr.endswith("KeyError: 'mine'\n")


needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes cannot be forked here")

CHILDREN = """
def child(number):
    signal.alarm(20)
    assert thread_pool.CELL[0] == 0
    for _ in range(20):
        run()
    assert thread_pool.renew().size == 3

for number in range(10):
    found = os.fork()
    if not found:
        try:
            child(number)
            os._exit(0)
        except BaseException:
            import traceback
            traceback.print_exc()
            os._exit(1)
    _, status = os.waitpid(found, 0)
    assert status == 0, status
run()
print('done')
"""


@needs_fork
def test_a_forked_process_makes_its_own_team() -> None:
    succeeds("run()\n" + CHILDREN)


@needs_fork
def test_a_process_may_be_forked_while_other_threads_launch() -> None:
    succeeds("for _ in range(2): threading.Thread(target=forever, daemon=True).start()\ntime.sleep(0.1)\n" + CHILDREN)


@needs_fork
@pytest.mark.skipif(
    "PHONOGRAD_TEST_SLOWNESS" in os.environ,
    reason="a child that QEMU forks beside a busy thread waits for a lock of QEMU itself",
)
def test_a_process_may_be_forked_while_another_thread_compiles() -> None:
    succeeds("""
        def compile_forever():
            number = 0
            while True:
                number += 1
                kernel_cache.compile_text(TEXT.replace("count_items", f"count{number}"), f"count{number}")

        threading.Thread(target=compile_forever, daemon=True).start()
        for _ in range(20):
            found = os.fork()
            if not found:
                signal.alarm(20)
                kernel_cache.compile_text(TEXT.replace("count_items", "mine"), "mine")
                run()
                os._exit(0)
            assert os.waitpid(found, 0)[1] == 0
        print('done')
    """)


def test_python_runs_while_the_team_works(count: kernel_cache.Kernel) -> None:
    # a launch holds no lock of the interpreter: this thread sees the other one inside of it
    counts = np.zeros(1_000_000, np.int64)
    other = threading.Thread(target=run, args=(count, counts, 1000, 300))
    other.start()
    seen = 0
    while other.is_alive():
        seen += 1
    assert seen > 10
    assert np.all(counts == 300)


def test_workers_leave_cores_to_another_process() -> None:
    with settings.override(num_threads=2):
        pool = thread_pool.renew()
        if pool is None:
            pytest.skip("there is no pool here")
        usual = pool.memory[SPINS]
        thread_pool.share_cores(True)
        try:
            assert 0 < pool.memory[SPINS] < usual / 10
            # a pool that is made meanwhile does so, too
            other = thread_pool.ThreadPool(1)
            assert other.memory[SPINS] == pool.memory[SPINS]
            other.dismiss(timeout=10)
            before = pool._code.clock()
            thread_pool.work_alone(1.0)
            assert pool.memory[ALONE_UNTIL] > before
        finally:
            thread_pool.share_cores(False)
            pool.memory[ALONE_UNTIL] = 0
        assert pool.memory[SPINS] == usual
