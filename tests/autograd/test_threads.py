"""Flags per thread; arrays and records shared between threads."""

import queue
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from phonograd import autograd, nd
from phonograd.core.base.errors import MXNetError

from .arrays import NOT_RECORDED, close, flags, values, variable


@pytest.fixture(autouse=True)
def switch_often():
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(interval)


def in_thread(function):
    """Return what a function returns in a new thread; its exception is raised here."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function).result()


def together(*functions):
    """Run functions at the same time, each in a thread of its own, and return their results."""
    barrier = threading.Barrier(len(functions))

    def run(function):
        barrier.wait()
        return function()

    with ThreadPoolExecutor(len(functions)) as pool:
        return [future.result() for future in [pool.submit(run, function) for function in functions]]


def test_a_thread_starts_with_both_flags_off():
    with autograd.record():
        assert in_thread(flags) == (False, False)
        thread_flags = []
        thread = threading.Thread(target=lambda: thread_flags.append(flags()))
        thread.start()
        thread.join()
        assert thread_flags == [(False, False)]
        assert flags() == (True, True)


def test_a_thread_changes_only_its_own_flags():
    def change():
        autograd.set_recording(True)
        with autograd.train_mode():
            return flags()

    with autograd.pause(train_mode=False):
        assert in_thread(change) == (True, True)
        assert flags() == (False, False)


def test_one_scope_object_in_many_threads():
    scope = autograd.record()

    def work():
        for _ in range(100):
            with autograd.predict_mode():
                with scope:
                    assert flags() == (True, True)
                assert flags() == (False, False)

    together(*[work] * 4)
    with pytest.raises(TypeError):
        scope.__exit__(None, None, None)


def test_a_record_is_differentiated_by_another_thread():
    x = variable([1.0, 2.0])
    with autograd.record():
        y = x * x
    in_thread(y.backward)
    assert values(x.grad) == [2, 4]
    with pytest.raises(MXNetError) as error:
        y.backward()
    assert str(error.value).startswith(NOT_RECORDED)


def test_another_thread_continues_a_record():
    x = variable([2.0])
    with autograd.record():
        y = x * x

        def go_on():
            assert flags() == (False, False)
            with autograd.record():
                return y * x

        z = in_thread(go_on)
        w = z * y
    w.backward()
    assert values(x.grad) == [5 * 16]
    assert in_thread(lambda: values(x.grad)) == [80]


def test_another_thread_takes_second_derivatives():
    x = variable([2.0])
    with autograd.record():
        y = x * x * x

    def first():
        return autograd.grad(y, x, create_graph=True)[0]

    slope = in_thread(first)
    (second,) = autograd.grad(slope, x)
    assert values(second) == [12]


def test_the_owner_goes_on_while_another_thread_differentiates():
    x = variable([2.0])
    started, finish = threading.Event(), threading.Event()

    class Slow(autograd.Function):
        def forward(self, x):
            return x * 1

        def backward(self, dy):
            started.set()
            assert finish.wait(30)
            return dy * 1

    with autograd.record():
        y = Slow()(x * x) * x
        thread = threading.Thread(target=y.backward)
        thread.start()
        assert started.wait(30)
        for step in range(100):
            z = x * float(step)
            if step % 10 == 0:
                assert values(z) == [2 * step]
        finish.set()
        thread.join()
        assert values(x.grad) == [12]
        z.backward()
    assert values(x.grad) == [99]


def test_parameters_shared_by_threads_that_compute():
    w, b = nd.array([2.0]), nd.array([3.0])

    def work(number):
        own = nd.array([float(number)])
        noise = [nd.array([100.0 * number + index]) for index in range(number)]
        for _ in range(150):
            for array in noise:
                _ = array * 1
            assert (own * w + b * w).asscalar() == 2 * number + 6
        return number

    assert together(*[lambda number=number: work(number) for number in range(1, 5)]) == [1, 2, 3, 4]


def test_variables_shared_by_threads_that_take_gradients():
    w = variable([2.0, 3.0])

    def work(number):
        data = nd.array([float(number), 1.0])
        for _ in range(80):
            with autograd.record():
                loss = (w * w * data).sum()
            (slope,) = autograd.grad(loss, w)
            np.testing.assert_array_equal(slope.asnumpy(), [4 * number, 6])
        return number

    assert together(*[lambda number=number: work(number) for number in range(1, 5)]) == [1, 2, 3, 4]


def test_pending_arrays_handed_from_thread_to_thread():
    made, done = queue.Queue(), []

    def produce():
        for step in range(200):
            x = nd.array([float(step)])
            made.put((step, x * 2 + 1, x))
            if step % 7 == 0:
                (x * 3).wait_to_read()
        made.put(None)

    def consume():
        while (item := made.get()) is not None:
            step, array, x = item
            assert (array * x).asscalar() == (2 * step + 1) * step
            done.append(step)

    together(produce, consume)
    assert done == list(range(200))


def test_recorded_arrays_handed_from_thread_to_thread():
    made = queue.Queue()
    w = variable([3.0])

    def produce():
        for step in range(200):
            with autograd.record():
                made.put((step, w * float(step)))
        made.put(None)

    def consume():
        while (item := made.get()) is not None:
            step, array = item
            with autograd.record():
                y = array * array
            (slope,) = autograd.grad(y, w)
            assert slope.asscalar() == 2 * 3 * step * step

    together(produce, consume)


def test_one_thread_reads_what_another_one_changes():
    w = nd.array([0.0])
    stop = threading.Event()

    def change():
        for _ in range(100):
            w.__iadd__(1)
            (w * 1).wait_to_read()
        stop.set()

    def look():
        last = 0.0
        while not stop.is_set():
            now = float((w * 1).asscalar())
            assert now >= last
            last = now
            time.sleep(1e-4)

    together(change, look, look)
    assert values(w) == [100]


def test_values_computed_by_the_owner_while_others_wait_for_them():
    for _ in range(30):
        x = nd.array([2.0])
        y = nd.exp(x)
        z = y * x
        results = together(z.asnumpy, y.asnumpy, lambda x=x: (x * 2).asnumpy(), z.asnumpy)
        close(nd.array(results[0]), 2 * np.exp([2.0]))
        np.testing.assert_array_equal(results[0], results[3])


def test_threads_with_records_of_their_own():
    def train(seed):
        generator = np.random.default_rng(seed)
        w = variable(generator.normal(size=(5,)))
        for _ in range(50):
            x = nd.array(generator.normal(size=(3, 5)))
            with autograd.record():
                loss = (nd.tanh(nd.dot(x, w)) ** 2).sum()
            loss.backward()
            w[:] = w - 0.1 * w.grad
        return w.asnumpy()

    alone = [train(seed) for seed in range(4)]
    at_once = together(*[lambda seed=seed: train(seed) for seed in range(4)])
    for expected, found in zip(alone, at_once):
        np.testing.assert_array_equal(found, expected)


def test_nodes_are_forgotten_while_other_threads_work():
    from phonograd import settings

    def work(number):
        x = variable([float(number)])
        for step in range(1, 120):
            with autograd.record():
                y = nd.tile(x * x, reps=step)
            y.backward()
            assert values(x.grad) == [2 * number * step]

    with settings.override(node_limit=500, plan_limit=20):
        together(*[lambda number=number: work(number) for number in range(1, 4)])
