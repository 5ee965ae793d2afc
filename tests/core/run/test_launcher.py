"""Rows that are functions of machine code do what rows do."""

import gc
import sys
import threading

import numpy as np
import pytest

from phonograd import nd, settings
from phonograd.core.graph.operator import REGISTRY
from phonograd.core.ops.math.primitives import matmul
from phonograd.core.ops.math.structural import leaf
from phonograd.core.plan.native_program import NativeProgram
from phonograd.core.run import (
    driver,
    kernel_cache,
    launcher,
)
from phonograd.core.run import (
    program as running,
)
from phonograd.core.run.driver import Row

pytest.importorskip("llvmlite")
pytestmark = pytest.mark.skipif(not kernel_cache.available(), reason="there is no compiler")
needs_launching = pytest.mark.skipif(not launcher.is_supported(), reason="rows are called as they are here")

FLOAT = np.dtype(np.float32)
#: adds the first array of three numbers to the second, by way of the arena
ADD = """
define void @add(ptr %table, ptr %bases, i64 %lo, i64 %hi) {
entry:
  %slots = getelementptr i64, ptr %bases, i64 3
  %arena.at = getelementptr i64, ptr %bases, i64 1
  %arena = load ptr, ptr %arena.at, align 8
  %a = load ptr, ptr %slots, align 8
  %b.at = getelementptr i64, ptr %bases, i64 4
  %b = load ptr, ptr %b.at, align 8
  %c.at = getelementptr i64, ptr %bases, i64 5
  %c = load ptr, ptr %c.at, align 8
  br label %loop
loop:
  %k = phi i64 [ %lo, %entry ], [ %next, %loop ]
  %x.at = getelementptr float, ptr %a, i64 %k
  %x = load float, ptr %x.at, align 4
  %m.at = getelementptr float, ptr %arena, i64 %k
  store float %x, ptr %m.at, align 4
  %y.at = getelementptr float, ptr %b, i64 %k
  %y = load float, ptr %y.at, align 4
  %m = load float, ptr %m.at, align 4
  %z = fadd float %m, %y
  %z.at = getelementptr float, ptr %c, i64 %k
  store float %z, ptr %z.at, align 4
  %next = add i64 %k, 1
  %more = icmp slt i64 %next, %hi
  br i1 %more, label %loop, label %over
over:
  ret void
}
"""


@pytest.fixture
def row():
    return Row([(kernel_cache.compile_text(ADD, "add"), [0], 3, 3)], 6)


def launch(row, values, made=((5, (3,), FLOAT),), room=64):
    function = row.launcher(range(6), made, room)
    return function, [np.zeros(1), np.zeros(1), np.zeros(1, np.int64), *values, None]


@needs_launching
@pytest.mark.parametrize("room", [0, 64, 4096, launcher.MOST_ON_STACK])
def test_a_row_is_a_function(row, room):
    function, values = launch(row, [np.arange(3, dtype=FLOAT), np.ones(3, FLOAT)], room=room)
    if not room:
        values[1] = np.zeros(3, FLOAT)
    assert function(values) is True
    assert values[5].tolist() == [1, 2, 3]
    assert values[5].dtype == FLOAT


@needs_launching
def test_arrays_that_are_there_are_used(row):
    function, values = launch(row, [np.arange(3, dtype=FLOAT), np.ones(3, FLOAT)])
    values[5] = kept = np.zeros(3, FLOAT)
    assert function(values) is True
    assert values[5] is kept
    assert kept.tolist() == [1, 2, 3]


class Other(np.ndarray):
    __slots__ = ()


@needs_launching
@pytest.mark.parametrize(
    "value",
    [np.zeros(6, FLOAT)[::2], np.zeros(3, FLOAT).view(Other), None, 3.0],
    ids=["steps", "class", "none", "float"],
)
def test_what_is_not_contiguous_is_refused(row, value):
    function, values = launch(row, [np.arange(3, dtype=FLOAT), value])
    assert function(values) is False
    assert function(values) is False


@needs_launching
def test_errors(row):
    function, values = launch(row, [np.ones(3, FLOAT), np.ones(3, FLOAT)], made=[(9, (3,), FLOAT)])
    with pytest.raises(IndexError):
        function(values)
    with pytest.raises(SystemError):
        function(tuple(values))
    huge, values = launch(row, [np.ones(3, FLOAT), np.ones(3, FLOAT)], made=[(5, (1 << 60,), FLOAT)])
    with pytest.raises((MemoryError, ValueError)):
        huge(values)


@needs_launching
def test_references(row):
    function, values = launch(row, [np.ones(3, FLOAT), np.ones(3, FLOAT)])
    refused = [*values[:4], 3.0, None]
    watched = [FLOAT, values[0], values[3], values[4], None, True, False, np.ndarray, function]

    def run():
        for _ in range(100):
            values[5] = None
            function(values)
            function(refused)

    run()
    gc.collect()
    before = [sys.getrefcount(value) for value in watched]
    run()
    after = [sys.getrefcount(value) for value in watched]
    assert np.abs(np.subtract(after, before)).max() < 20
    assert sys.getrefcount(values[5]) <= 3


SHAPES = [(), (1,), (3, 4), (0, 2), (2, 3, 4), (300, 300)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("order", ["C", "F", "steps"])
def test_programs_without_it_do_the_same(shape, order, monkeypatch):
    generator = np.random.default_rng(0)
    full = generator.random((*shape[:-1], 2 * shape[-1]) if shape else (), FLOAT)
    part = full[..., ::2] if shape else full
    x = part if order == "steps" else np.array(part, order=order)
    node = leaf(0, x.shape, FLOAT)
    tanh, total = REGISTRY["tanh"], REGISTRY["_sum_to"]
    targets = [tanh(node) * node, total(tanh(node), shape=()), tanh(total(node, shape=()) + node)]

    def results():
        program = NativeProgram(targets, (node,).__contains__)
        return [value.tobytes() for _ in range(2) for value in program.run([x])]

    with_it = results()
    monkeypatch.setattr(running, "can_launch", lambda: False)
    monkeypatch.setattr(driver._get_driver(), "launcher", None)
    assert results() == with_it


@needs_launching
def test_small_arenas_lie_on_the_stack(monkeypatch):
    x = leaf(0, (8, 8), FLOAT)
    program = NativeProgram([matmul(matmul(x, x), x)], (x,).__contains__)
    assert program.memory.arena > 0
    data, allocated = np.eye(8, dtype=FLOAT) + 1, []
    expected = program.run([data])[0].tobytes()
    original = running.memory_pool.allocate
    monkeypatch.setattr(running.memory_pool, "allocate", lambda *a: (allocated.append(a), original(*a))[1])
    assert program.run([data])[0].tobytes() == expected
    assert not allocated
    parts = []
    assert program.run([data], (), lambda *part: parts.append(part))[0].tobytes() == expected
    assert parts
    assert allocated


@needs_launching
def test_other_threads_run_meanwhile():
    with settings.override(executor="native", num_threads=1):
        x = nd.ones((2_000_000,))
        x.wait_to_read()
        turns, done = [0], threading.Event()

        def count():
            while not done.is_set():
                turns[0] += 1

        thread = threading.Thread(target=count)
        thread.start()
        seen = []
        try:
            for _ in range(5):
                before = turns[0]
                (nd.tanh(x) * nd.exp(x)).wait_to_read()
                seen.append(turns[0] - before)
        finally:
            done.set()
            thread.join()
        assert sum(seen) > 0


@pytest.mark.parametrize(("extent", "chunk"), [(0, 1), (1, 1), (7, 3), (100, 400), (1 << 20, 1), (5000, 1)])
def test_a_row_of_one_launch_is_a_row(extent, chunk):
    kernel = kernel_cache.compile_text(ADD, "add")
    table = [5, 0, 7]
    rows = [Row([(kernel, table, extent, chunk)], 4), Row.of_one(kernel, table, extent, chunk, 4)]
    one, two = [(row._keep[0], row.record) for row in rows]
    for first, second in zip(one[0].tolist(), two[0].tolist(), strict=True):
        # addresses within the row differ as the rows do
        assert first == second or first - one[1] == second - two[1]


def test_few_long_chunks_may_be_much_work():
    kernel = kernel_cache.compile_text(ADD, "add")
    #: the word of the record that has workers wake up
    much = [Row.of_one(kernel, [5], 4, 1, 4, is_much)._keep[0][4] for is_much in (False, True)]
    assert much == [0, 1]
