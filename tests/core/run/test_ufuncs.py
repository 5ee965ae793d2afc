"""Ufuncs of machine code: the bits of kernels, for any shapes and strides."""

from __future__ import annotations

import ctypes
import gc
import threading
import weakref
from collections.abc import Iterator

import numpy as np
import pytest

from phonograd import settings
from phonograd.core.base.dtypes import BOOL, FLOAT16, FLOAT32, FLOAT64, INT32, DType
from phonograd.core.graph.operator import REGISTRY
from phonograd.core.kernels.elementwise_loop import CHUNK, ElementwiseLoop
from phonograd.core.ops.math.structural import leaf
from phonograd.core.plan.native_program import NativeProgram
from phonograd.core.run import kernel_cache, pointers, shared_loop, thread_pool, ufuncs
from phonograd.core.run.thread_pool_words import FIRST_WORKER, LAUNCH_WORDS, PARALLEL, REGION_WORDS

pytest.importorskip("llvmlite")
pytestmark = pytest.mark.skipif(not kernel_cache.available(), reason="kernels need llvmlite")

LENGTHS = (0, 1, 7, 8, 9, 31, 64, 100, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK + 5)


def ufunc_for(name: str, sources: tuple[DType, ...], dtype: DType, lanes: int = 8) -> np.ufunc:
    found = ufuncs.ufunc_of(ElementwiseLoop(name, (), sources, dtype, lanes))
    assert isinstance(found, np.ufunc)
    return found


def planned(name: str, *arrays: np.ndarray) -> np.ndarray:
    nodes = [leaf(number, array.shape, array.dtype) for number, array in enumerate(arrays)]
    program = NativeProgram([REGISTRY[name](*nodes)], lambda node: False)
    return program.run([np.ascontiguousarray(array) for array in arrays])[0]


def numbers(shape: tuple[int, ...], dtype: DType, seed: int = 0) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal(shape) * 3).astype(dtype)


def test_they_are_supported() -> None:
    assert ufuncs.are_supported()


@pytest.mark.parametrize("dtype", [FLOAT16, FLOAT32, FLOAT64], ids=str)
@pytest.mark.parametrize("length", LENGTHS)
def test_lengths(length: int, dtype: DType) -> None:
    x = numbers((length,), dtype)
    assert ufunc_for("tanh", (dtype,), dtype)(x).tobytes() == planned("tanh", x).tobytes()


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (np.s_[:, :], np.s_[:, :]),
        (np.s_[:, ::2], np.s_[:, ::2]),
        (np.s_[::-1, 1:], np.s_[:, :-1]),
        (np.s_[:, :1], np.s_[:1, :]),
        (np.s_[:3, :0], np.s_[:3, :0]),
        (np.s_[0], np.s_[:, :]),
    ],
    ids=str,
)
def test_strides_and_broadcasting(first: tuple[slice, ...], second: tuple[slice, ...]) -> None:
    hypot = ufunc_for("broadcast_hypot", (FLOAT32, FLOAT32), FLOAT32)
    x, y = numbers((9, 300), FLOAT32)[first], numbers((9, 300), FLOAT32, 1)[second]
    for a, b in ((x, y), (y, x), (x.T, y.T)):
        try:
            shape = np.broadcast_shapes(a.shape, b.shape)
        except ValueError:
            continue
        whole = [np.ascontiguousarray(np.broadcast_to(array, shape)) for array in (a, b)]
        assert hypot(a, b).tobytes() == planned("broadcast_hypot", *whole).tobytes()


def test_results_may_have_any_strides() -> None:
    out = np.zeros((40, 50), np.float32)[::2, ::-1]
    x = numbers((20, 50), FLOAT32)
    ufunc_for("tanh", (FLOAT32,), FLOAT32)(x, out=out)
    assert np.array_equal(out, planned("tanh", x))


def test_truth_values_and_integers() -> None:
    x, y = np.arange(-20, 20, dtype=np.int32), np.full(40, 3, np.int32)
    quotient = ufunc_for("broadcast_div", (INT32, INT32), INT32)
    assert np.array_equal(quotient(x, y), planned("broadcast_div", x, y))
    assert np.array_equal(quotient(x[::3], y[:1]), planned("broadcast_div", x[::3], y[: len(x[::3])]))
    truth = np.arange(40) % 3 == 0
    negated = ufunc_for("logical_not", (BOOL,), BOOL)
    assert np.array_equal(negated(truth), ~truth)


@pytest.fixture
def shares() -> Iterator[list[tuple[int, int]]]:
    """Run the chunks of long loops here, the last ones first; return the list of their bounds."""
    found: list[tuple[int, int]] = []
    run = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 2, *[ctypes.c_int64] * 2)

    def parallel(pool: int, region: int, bases: int | None) -> None:
        launches, count, _, _ = pointers.words_at(region, REGION_WORDS)
        assert count == 1
        cell, table, extent, chunk, chunks = pointers.words_at(launches, LAUNCH_WORDS)
        kernel = run(pointers.words_at(cell, 1)[0])
        assert chunks == -(-extent // chunk)
        for number in reversed(range(chunks)):
            bounds = number * chunk, min(number * chunk + chunk, extent)
            kernel(table, bases, *bounds)
            found.append(bounds)

    function = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3)(parallel)
    words = np.zeros(FIRST_WORKER, np.int64)
    words[PARALLEL] = ctypes.cast(function, ctypes.c_void_p).value
    before = thread_pool.CELL[0]
    thread_pool.CELL[0] = pointers.address(words)
    yield found
    thread_pool.CELL[0] = before


@pytest.mark.parametrize("name", ["broadcast_hypot", "broadcast_sub"])
def test_threads_share_long_loops(name: str, shares: list[tuple[int, int]]) -> None:
    function = ufunc_for(name, (FLOAT32, FLOAT32), FLOAT32)
    least, chunk = shared_loop.facts_of([name], 0, 3).tolist()[2:4]
    for length in (least - 1, least, 3 * chunk + 77):
        x, y = numbers((2 * length,), FLOAT32), numbers((length,), FLOAT32, 1)
        for one, two in ((x[:length], y), (x[::2], y[::-1]), (y[:1], x[:length])):
            shares.clear()
            found = function(one, two)
            whole = [np.ascontiguousarray(np.broadcast_to(array, length)) for array in (one, two)]
            assert bool(shares) == (length >= least)
            assert sorted(shares) == [(at, min(at + chunk, length)) for at in range(0, length, chunk)][: len(shares)]
            shares.clear()
            parts = [function(*[array[at : at + 1000] for array in whole]) for at in range(0, length, 1000)]
            assert not shares
            assert found.tobytes() == np.concatenate(parts).tobytes()


def test_results_of_shared_loops_may_be_arguments(shares: list[tuple[int, int]]) -> None:
    function = ufunc_for("broadcast_sub", (FLOAT32, FLOAT32), FLOAT32)
    x, y = numbers((100_003,), FLOAT32), numbers((100_003,), FLOAT32, 1)
    expected = x - y
    function(x, y, out=x)
    assert shares
    assert np.array_equal(x, expected)


def test_programs_with_several_threads_share_loops() -> None:
    function = ufunc_for("broadcast_hypot", (FLOAT32, FLOAT32), FLOAT32)
    arrays = [[numbers((150_001,), FLOAT32, 2 * seed + part) for part in range(2)] for seed in range(4)]
    with settings.override(num_threads=1):
        thread_pool.renew()
        expected = [function(*pair) for pair in arrays]
    different: list[int] = []

    def compare(number: int) -> None:
        for _ in range(20):
            if function(*arrays[number]).tobytes() != expected[number].tobytes():
                different.append(number)

    with settings.override(num_threads=3):
        pool = thread_pool.renew()
        assert pool is None or thread_pool.CELL[0] == pool.address
        threads = [threading.Thread(target=compare, args=(number,)) for number in range(len(arrays))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not different


def test_there_is_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ufuncs, "MOST_UFUNCS", 0)
    monkeypatch.setattr(ufuncs, "_made", {})
    assert ufuncs.ufunc_of(ElementwiseLoop("tanh", (), (FLOAT32,), FLOAT32, 8)) is None


def test_the_shared_function_stays_whichever_thread_makes_it() -> None:
    # threads that need it first at the same time make one each, and ufuncs keep its address
    made = weakref.ref(shared_loop._kernel.__wrapped__())
    gc.collect()
    assert made() is not None
