"""Memory of plans: arenas, the pool, and that loops allocate nothing new."""

from __future__ import annotations

import gc
import itertools
import os
import platform
import subprocess
import sys
import threading
import unittest.mock
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import phonograd as mx
from phonograd import settings
from phonograd.core.graph.operator import REGISTRY
from phonograd.core.ops.math.primitives import permute
from phonograd.core.ops.math.structural import leaf
from phonograd.core.plan.eager_results import own_all
from phonograd.core.plan.grouping import group_nodes
from phonograd.core.plan.layout import Job, jobs_of
from phonograd.core.plan.native_program import NativeProgram
from phonograd.core.run import memory_pool
from phonograd.core.run.reference import order

from ..plan.programs import assert_same_bits, run, run_singly

pytestmark = pytest.mark.usefixtures("planned")

FLOAT32 = np.dtype("float32")
LARGE = memory_pool.SMALLEST_BLOCK
tanh, exp, sum_to = (REGISTRY[name] for name in ("tanh", "exp", "_sum_to"))


@pytest.fixture
def pool() -> memory_pool.Pool:
    gc.collect()
    memory_pool.pool.clear()
    return memory_pool.pool


# -- arenas


def test_places_are_used_again() -> None:
    chain = [memory_pool.Lifetime(1000, step, step + 1) for step in range(100)]
    offsets, total = memory_pool.arrange(chain)
    assert total == 2 * 1024
    assert all(first != second for first, second in itertools.pairwise(offsets))
    assert all(offset % memory_pool.ALIGNMENT == 0 for offset in offsets)


@given(
    st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 20), st.integers(0, 8)), max_size=30),
    st.sampled_from([(1 << 24, 512), (0, 512), (0, 5)]),
    st.data(),
)
def test_values_in_use_never_share_a_place(
    drawn: list[tuple[int, int, int]], by_size: tuple[int, int], data: st.DataObject
) -> None:
    lifetimes: list[memory_pool.Lifetime] = []
    for size, first, length in drawn:
        ending = [number for number, other in enumerate(lifetimes) if other.last == first]
        over = data.draw(st.sampled_from([None, *ending]))
        lifetimes.append(memory_pool.Lifetime(size, first, first + length, over))
    limits = {"LEAST_ARENA_WITH_GAPS": by_size[0], "MOST_ARRANGED_BY_SIZE": by_size[1]}
    with unittest.mock.patch.multiple(memory_pool, **limits):
        offsets, total = memory_pool.arrange(lifetimes)
    places = list(zip(lifetimes, offsets, range(len(lifetimes))))
    for (one, here, index), (two, there, other) in itertools.combinations(places, 2):
        together = one.first <= two.last and two.first <= one.last
        if together and one.over != other and two.over != index:
            assert here + one.size <= there or there + two.size <= here
    assert all(offset + lifetime.size <= total for lifetime, offset, _ in places)
    # a place is passed on to one value only
    heirs = [(lifetime.over, offset) for lifetime, offset, _ in places if lifetime.over is not None]
    taken = [over for over, offset in heirs if offset == offsets[over]]
    assert len(taken) == len(set(taken))


def test_large_values_are_laid_out_first_if_there_are_gaps() -> None:
    # the place of the first value is too small for the third, which would be behind the second
    lifetimes = [memory_pool.Lifetime(size << 20, first, 3) for size, first in ((6, 0), (6, 0), (10, 1))]
    lifetimes[0] = lifetimes[0]._replace(last=0)
    assert memory_pool.arrange(lifetimes) == ([0, 10 << 20, 0], 16 << 20)
    # a value in the place of another one moves with it
    heir = memory_pool.Lifetime(6 << 20, 3, 5, over=1)
    assert memory_pool.arrange([*lifetimes, heir]) == ([0, 10 << 20, 0, 10 << 20], 16 << 20)


def test_a_chain_works_in_place() -> None:
    x, y = leaf(0, (300, 40), FLOAT32), leaf(1, (40, 1), FLOAT32)
    value = x
    for _ in range(6):
        # a sum that everything depends on ends each kernel, so that values have to be written
        value = tanh(value) + sum_to(value, shape=(1, 40)) * 1e-3
        value = value * value
    program = NativeProgram([sum_to(value, shape=())], lambda node: False)
    assert program.memory.arena < 2.5 * x.size * 4
    bindings = {node: np.random.default_rng(0).normal(size=node.shape).astype(np.float32) for node in (x, y)}
    targets = [sum_to(value, shape=())]
    assert_same_bits(run(targets, bindings), run_singly(targets, bindings))


def test_what_is_read_elsewhere_too_is_not_written_over() -> None:
    x = leaf(0, (64, 64), FLOAT32)
    total = sum_to(exp(x), shape=(64, 1)) * x
    turned = REGISTRY["_permute"](total, axes=(1, 0))
    target = total * turned + total
    bindings = {x: np.random.default_rng(0).normal(size=x.shape).astype(np.float32)}
    inputs, computed = order([target], lambda node: False)
    for job in jobs_of(group_nodes(computed, inputs, [target])):
        if isinstance(job, Job):
            assert (target, total) not in job.over
    assert_same_bits(run([target], bindings), run_singly([target], bindings))


# -- the pool


def test_memory_comes_back(pool: memory_pool.Pool) -> None:
    room = memory_pool.room_for(LARGE)
    first = memory_pool.allocate((LARGE,), np.dtype("uint8"), room)
    place, made = first.ctypes.data, pool.blocks_made
    assert place % memory_pool.ALIGNMENT == 0
    part = first[5:10].reshape(5, 1)
    del first
    second = memory_pool.allocate((LARGE,), np.dtype("uint8"), room)
    assert second.ctypes.data != place, "a view of the first is alive"
    del part
    third = memory_pool.allocate((LARGE // 4,), FLOAT32, room)
    assert third.ctypes.data == place
    assert pool.blocks_made == made + 1


def test_a_result_takes_the_memory_of_the_one_before(pool: memory_pool.Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    sorted_in = []
    sort_in = pool._sort_in
    monkeypatch.setattr(pool, "_sort_in", lambda: sorted_in.append(1) or sort_in())
    monkeypatch.setattr(pool, "_window_end", float("inf"))
    block = memory_pool.take(LARGE)
    state, address, sorted_before = (pool.used_bytes, pool.spare_bytes), block.ctypes.data, len(sorted_in)
    for _ in range(3):
        del block
        block = memory_pool.take(LARGE)
        assert block.ctypes.data == address
    assert ((pool.used_bytes, pool.spare_bytes), len(sorted_in)) == (state, sorted_before)
    del block
    block = memory_pool.take(2 * LARGE)
    assert len(sorted_in) == sorted_before + 1
    assert pool.spare_bytes == state[1] + LARGE
    monkeypatch.setattr(pool, "_window_end", 0.0)
    del block
    assert memory_pool.take(2 * LARGE).nbytes == 2 * LARGE
    assert len(sorted_in) >= sorted_before + 2, "windows begin as before"


def test_new_zeros_take_no_pages(pool: memory_pool.Pool) -> None:
    if not STATUS.exists():
        pytest.skip("the system does not tell the memory of a process")
    size = 1 << 26
    before = _resident_bytes()
    zeros = memory_pool.allocate((size,), np.dtype("uint8"), memory_pool.room_for(size), is_zero=True)
    (owned,) = own_all([], [np.broadcast_to(np.float32(0), (size // 4,))], (0,), (True,))
    assert _resident_bytes() - before < size // 4
    assert zeros.ctypes.data % memory_pool.ALIGNMENT == 0
    zeros[-1] = 1
    assert zeros[:: size // 16].sum() == 0
    owned[3] = 2
    assert owned[:5].tolist() == [0, 0, 0, 2, 0]


PAGES = """
import resource
import numpy as np
from phonograd.core.run import memory_pool

def pages():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

def step():
    kept = [np.zeros(size, np.uint8) + np.uint8(1) for size in (200_000, 800_000, 800_000)]
    return kept[0][0]

memory_pool.take(memory_pool.room_for(1 << 20))
step()
before = pages()
for _ in range(20):
    step()
print(pages() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have rules of their own")
def test_numpy_takes_no_new_pages_in_a_loop() -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
    found = subprocess.run([sys.executable, "-c", PAGES], env=environment, check=True, capture_output=True, text=True)
    assert int(found.stdout) < 200, "20 steps of 600 pages each"


STATUS = Path("/proc/self/status")


def _resident_bytes() -> int:
    line = next(line for line in STATUS.read_text("ascii", "replace").splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1]) * 1024


def test_zeros_in_used_memory(pool: memory_pool.Pool) -> None:
    room = memory_pool.room_for(LARGE)
    used = memory_pool.allocate((LARGE,), np.dtype("uint8"), room)
    used[:] = 7
    place = used.ctypes.data
    del used
    zeros = memory_pool.allocate((LARGE,), np.dtype("uint8"), room, is_zero=True)
    assert zeros.ctypes.data == place
    assert not zeros.any()
    assert memory_pool.allocate((3,), FLOAT32, memory_pool.room_for(12), is_zero=True).tolist() == [0, 0, 0]


def test_large_zeros_take_new_pages_for_used_ones(pool: memory_pool.Pool) -> None:
    if not STATUS.exists():
        pytest.skip("the system does not tell the memory of a process")
    size = 1 << 26
    used = memory_pool.allocate((size,), np.dtype("uint8"), size)
    used[:] = 7
    del used
    before, used_bytes = _resident_bytes(), pool.used_bytes
    zeros = memory_pool.allocate((size,), np.dtype("uint8"), size, is_zero=True)
    assert _resident_bytes() < before - size // 2
    assert not zeros[:: size // 16].any()
    assert pool.used_bytes == used_bytes + size
    del zeros
    pool.clear()
    assert not pool.spare_bytes


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot copy processes")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_zeros_are_not_shared_with_copies_of_the_process() -> None:
    room = memory_pool.room_for(1 << 20)
    zeros = memory_pool.allocate((1 << 20,), np.dtype("uint8"), room, is_zero=True)
    child = os.fork()
    if not child:
        zeros[0] = 1
        os._exit(0)
    os.waitpid(child, 0)
    assert zeros[0] == 0


def test_small_arrays_are_not_pooled(pool: memory_pool.Pool) -> None:
    made = pool.blocks_made
    assert memory_pool.allocate((3, 0), FLOAT32, memory_pool.room_for(0)).shape == (3, 0)
    assert memory_pool.allocate((), FLOAT32, memory_pool.room_for(4)).shape == ()
    assert pool.blocks_made == made


def test_spare_memory_is_bounded(pool: memory_pool.Pool) -> None:
    room = memory_pool.room_for(1 << 20)
    with settings.override(spare_bytes=3 * room):
        small = memory_pool.take(memory_pool.room_for(LARGE))
        del small
        blocks = [memory_pool.take(room) for _ in range(10)]
        assert pool.used_bytes == 10 * room
        del blocks
        assert pool.spare_bytes <= 3 * room
        assert pool.used_bytes == 0
        # the size that was not asked for the longest went first
        assert list(pool._free) == [room]
    with settings.override(spare_bytes=0):
        memory_pool.take(room)
        assert pool.spare_bytes == 0


def test_the_peak_is_known(pool: memory_pool.Pool) -> None:
    room = memory_pool.room_for(1 << 22)
    before = pool.used_bytes
    blocks = [memory_pool.take(room) for _ in range(3)]
    assert pool.peak_bytes >= before + 3 * room
    del blocks


def test_threads_share_the_pool(pool: memory_pool.Pool) -> None:
    room = memory_pool.room_for(LARGE)
    wrong: list[int] = []

    def work(number: int) -> None:
        for turn in range(300):
            array = memory_pool.allocate((LARGE // 8,), np.dtype("int64"), room)
            array[:] = number
            if turn % 3 == 0 and not np.all(array == number):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    gc.collect()
    pool.clear()
    assert not wrong
    assert pool.used_bytes == 0


def test_a_training_loop_allocates_nothing_new(pool: memory_pool.Pool) -> None:
    with settings.override(executor="native"):
        data = mx.nd.array(np.random.default_rng(0).normal(size=(200, 300)))
        weight = mx.nd.array(np.random.default_rng(1).normal(size=(300, 400)) * 0.01)
        weight.attach_grad()

        def step() -> None:
            nonlocal weight
            with mx.autograd.record():
                loss = (mx.nd.tanh(mx.nd.dot(data, weight)) * 0.5).sum()
            loss.backward()
            weight -= 0.01 * weight.grad
            weight.wait_to_read()

        for _ in range(4):
            step()
        made = pool.blocks_made
        for _ in range(10):
            step()
        assert pool.blocks_made == made


def test_a_program_says_how_much_memory_it_takes() -> None:
    x = leaf(0, (100, 100), FLOAT32)
    total = sum_to(tanh(x), shape=(100, 1))
    program = NativeProgram([exp(permute(total, (1, 0)) * x)], lambda node: False)
    assert program.memory.kept == 40_000
    assert 0 < program.memory.arena <= 40_960
    assert program.memory.other == 0
    assert all(part.kernels for part in program.parts)


# -- memory returns to the system


class Clock:
    """A clock that tests move."""

    now = 1e6

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(pool: memory_pool.Pool, monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(memory_pool, "time", found)
    monkeypatch.setattr(pool, "_window", memory_pool.WINDOW_SECONDS)
    monkeypatch.setattr(pool, "_window_end", 0.0)
    monkeypatch.setattr(pool, "_calm_windows", 0)
    pass_windows(found, 3)
    return found


def pass_windows(clock: Clock, count: int) -> None:
    """Let some windows of the pool end, with nothing but a small array made in each."""
    for _ in range(count):
        clock.now += memory_pool.pool._window + 0.01
        for _ in range(2):
            step([LARGE])


def step(blocks: list[int]) -> None:
    """Take blocks and free them, as a step of a loop does."""
    taken = [memory_pool.take(room) for room in blocks]
    del taken


def test_the_memory_of_a_dropped_model_returns_at_once(pool: memory_pool.Pool, clock: Clock) -> None:
    pool.sort_in()
    used = pool.used_bytes
    model: list[object] = [memory_pool.take(1 << 23) for _ in range(8 + 4 * used // (1 << 23))]
    for _ in range(3):
        step([1 << 24] * 4)
        pass_windows(clock, 1)
    step([1 << 24] * 4)
    assert pool.spare_bytes >= 4 << 24
    model.clear()
    assert pool.used_bytes == used
    assert pool.spare_bytes == 0


def test_a_loop_keeps_its_memory_and_no_more(pool: memory_pool.Pool, clock: Clock) -> None:
    step([1 << 22] * 10)
    made = pool.blocks_made
    for _ in range(12):
        step([1 << 22] * 3)
        clock.now += 0.03
    assert pool.blocks_made == made
    step([1 << 22] * 3)
    assert len(pool._free[1 << 22]) == 3


def test_blocks_freed_too_early_are_kept_longer(pool: memory_pool.Pool, clock: Clock) -> None:
    # a step takes ten times as long as a window
    for _ in range(6):
        step([1 << 24] * 2)
        pass_windows(clock, 1)
        clock.now += 10 * memory_pool.WINDOW_SECONDS
    made = pool.blocks_made
    assert pool._window > memory_pool.WINDOW_SECONDS
    for _ in range(5):
        step([1 << 24] * 2)
        clock.now += 10 * memory_pool.WINDOW_SECONDS
    assert pool.blocks_made - made <= 2


def test_users_return_memory(pool: memory_pool.Pool) -> None:
    step([1 << 22] * 3)
    assert pool.spare_bytes >= 3 << 22
    mx.cpu().empty_cache()
    assert pool.spare_bytes == 0


def test_blocks_of_other_sizes_do_not_add_up(pool: memory_pool.Pool, clock: Clock) -> None:
    pool.clear()
    pool._most_used, pool._slack = pool.used_bytes, memory_pool.LEAST_SLACK_BYTES
    pool._evicted, pool._repetitions = {}, {}
    used, sizes = pool.used_bytes, [1 << 25, 3 << 24, 1 << 26]
    for size in sizes:
        step([size])
    # without a limit, all three would wait
    assert used + sizes[-1] <= pool.used_bytes + pool.spare_bytes <= used + sizes[-1] + memory_pool.LEAST_SLACK_BYTES
    # one more turn is no loop yet: the layers of a network request a size several times in one step
    for size in sizes[:2]:
        step([size])
    assert pool._slack == memory_pool.LEAST_SLACK_BYTES
    # a loop over them keeps all of them soon
    for _ in range(5):
        for size in sizes:
            step([size])
    made = pool.blocks_made
    for size in sizes:
        step([size])
    assert pool.blocks_made == made


def test_large_blocks_leave_no_gaps() -> None:
    if not STATUS.exists():
        pytest.skip("the system does not tell the memory of a process")
    memory_pool.pool.clear()
    before = _resident_bytes()
    blocks = [memory_pool.take(memory_pool.LEAST_MAPPED_BYTES) for _ in range(256)]
    for block in blocks:
        block.fill(1)
    # every second one stays
    del blocks[::2], block
    memory_pool.pool.sort_in()
    memory_pool.pool._free_waiting({memory_pool.LEAST_MAPPED_BYTES: 256})
    assert _resident_bytes() - before < 192 * memory_pool.LEAST_MAPPED_BYTES


def test_blocks_beyond_the_number_of_mappings(pool: memory_pool.Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    def mapped(room: int) -> None:
        raise OSError("too many")

    monkeypatch.setattr(memory_pool, "new_pages", mapped)
    room = memory_pool.room_for(1 << 20)
    assert memory_pool.allocate((1 << 20,), np.dtype("uint8"), room).ctypes.data % memory_pool.ALIGNMENT == 0
    assert not memory_pool._new_block(room, is_zero=True).any()


def test_the_c_library_returns_memory_after_promotions(
    pool: memory_pool.Pool, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    trims: list[int] = []
    monkeypatch.setattr(memory_pool, "_trim", lambda: trims.append(1))
    pool.trim_soon()
    step([LARGE])
    assert not trims
    step([memory_pool.LEAST_HUGE_BYTES])
    assert len(trims) == 1, "the arena of the plan that takes over"
    clock.now += memory_pool.TRIM_SECONDS
    pass_windows(clock, 3)
    assert len(trims) == 2


DROPPED = """
import gc, sys
from pathlib import Path
import phonograd as mx
from phonograd import autograd, gluon
from phonograd.core.plan import planner_process

# beside other tests, threads of this process would plan: the compiler's memory is not a model's
planner_process.STARVED_SECONDS = 1e6

def resident():
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("RssAnon:"))
    return int(line.split()[1]) / 1024

def train(width):
    net = gluon.nn.HybridSequential()
    net.add(*[gluon.nn.Dense(width, activation="relu") for _ in range(6)])
    net.initialize()
    trainer = gluon.Trainer(net.collect_params(), "adam")
    data = mx.nd.ones((512, width))
    for _ in range(6):
        with autograd.record():
            loss = net(data).sum()
        loss.backward()
        trainer.step(512)
        mx.nd.waitall()
    return resident()

train(16)
gc.collect()
before = resident()
during = train(1200)
gc.collect()
print(during - before, resident() - before)
"""


def test_a_dropped_model_returns_its_memory_to_the_system() -> None:
    if not STATUS.exists():
        pytest.skip("the system does not tell the memory of a process")
    environment = os.environ | {"PHONOGRAD_PLANNER": "process"}
    found = subprocess.run([sys.executable, "-c", DROPPED], env=environment, check=True, capture_output=True, text=True)
    during, after = map(float, found.stdout.split())
    assert during > 100, "parameters, gradients and states of Adam are 140 MiB"
    assert after < 0.25 * during
