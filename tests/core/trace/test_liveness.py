"""Which arrays count as alive: all that the program can still see, and no others. Only their values are computed."""

import collections
import gc
import threading
import weakref

import pytest

from phonograd import autograd, nd
from phonograd.core.base.assumptions import HAS_GIL
from phonograd.core.trace.trace import LOCAL

from ...autograd.arrays import values, variable

pytestmark = pytest.mark.skipif(not HAS_GIL, reason="without the GIL every array counts as alive")


def alive():
    """Return the ids of the arrays that the current trace thinks somebody can see."""
    return {id(handle) for handle, _ in LOCAL.trace.live()}


@pytest.fixture(autouse=True)
def new_trace():
    LOCAL.trace.flush(end=True)
    yield
    LOCAL.trace.flush(end=True)


def test_temporaries_are_dead_and_names_are_alive():
    x = variable([1.0])
    with autograd.record():
        h = nd.exp(x) * 2
        y = h + 1
        kept = alive()
        assert {id(x), id(h), id(y)} <= kept
        count = len(kept)
        del h
        assert len(alive()) == count - 1
    y.backward()


class Holder:
    """An object with an attribute and a slot-like closure."""


def hold_in_generator(array):
    yield
    yield array


async def hold_in_coroutine(array):
    return array


@pytest.mark.parametrize(
    "hold",
    [
        lambda array: [array],
        lambda array: (array,),
        lambda array: {"key": array},
        lambda array: {array: "value"},
        lambda array: collections.deque([[array]]),
        lambda array: lambda: array,
        lambda array, /: lambda value=array: value,
        lambda array: array.sum,
        lambda array: iter([array]),
        lambda array: setattr(holder := Holder(), "array", array) or holder,
    ],
)
def test_whatever_holds_an_array_keeps_it_alive(hold):
    x = nd.array([1.0]) * 2
    name = id(x)
    holder = hold(x)
    del x
    assert name in alive()
    del holder
    gc.collect()
    assert name not in alive()


def test_generators_and_coroutines_keep_arrays_alive():
    x = nd.array([1.0]) * 2
    name = id(x)
    generator = hold_in_generator(x)
    next(generator)
    del x
    assert name in alive()
    assert values(next(generator)) == [2]
    generator.close()
    x = nd.array([1.0]) * 3
    name = id(x)
    coroutine = hold_in_coroutine(x)
    del x
    assert name in alive()
    coroutine.close()
    del coroutine
    assert name not in alive()


def test_arguments_of_running_functions_are_alive():
    def inner(array):
        assert id(array) in alive()
        return array

    def outer(*arrays, **named):
        assert {id(array) for array in (*arrays, *named.values())} <= alive()
        return [inner(array) for array in arrays]

    assert values(inner(nd.array([1.0]) * 2)) == [2]
    assert [values(a) for a in outer(nd.array([1.0]) * 2, nd.array([1.0]) * 3, key=nd.array([1.0]) * 4)] == [[2], [3]]


def test_a_weak_reference_does_not_keep_an_array_alive():
    x = nd.array([1.0]) * 2
    reference, name = weakref.ref(x), id(x)
    assert name in alive()
    del x
    assert name not in alive()
    assert reference() is None


def test_a_garbage_cycle_is_alive_until_it_is_collected():
    gc.collect()
    gc.disable()
    try:
        x = nd.array([1.0]) * 2
        name = id(x)
        cycle = [x]
        cycle.append(cycle)
        del x, cycle
        assert name in alive()
        gc.collect()
        assert name not in alive()
    finally:
        gc.enable()


def test_an_array_that_only_another_thread_holds():
    x = nd.array([1.0]) * 2
    name, held, release, result = id(x), threading.Event(), threading.Event(), []

    def hold(box):
        array = box.pop()
        held.set()
        release.wait(30)
        result.append(values(array))

    box = [x]
    del x
    thread = threading.Thread(target=hold, args=(box,))
    thread.start()
    assert held.wait(30)
    assert name in alive()
    release.set()
    thread.join()
    assert result == [[2]]


def test_a_base_is_alive_as_long_as_a_view_is():
    base = nd.array([1.0, 2.0]) * 2
    view = base[0:1]
    name = id(base)
    del base
    assert name in alive()
    view += 1
    assert values(view) == [3]


def test_values_of_arrays_that_were_taken_for_dead_are_computed_all_the_same():
    x = nd.array([1.0]) * 2
    trace = LOCAL.trace
    trace.handles.clear()
    trace.flush(end=True)
    assert LOCAL.trace is not trace
    assert values(x + 1) == [3]
    assert values(x) == [2]
