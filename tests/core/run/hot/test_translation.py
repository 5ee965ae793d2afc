"""Hot functions as machine code: the results, errors and references of the Python functions."""

from __future__ import annotations

import gc
import inspect
import random
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import FunctionType
from typing import Any

import pytest

from phonograd.core.backward import eager, machine_code
from phonograd.core.base import collector, hot, settings
from phonograd.core.run.hot import installation
from phonograd.core.run.hot.interface import Layout, ModuleText
from phonograd.core.run.hot.statements import Translation
from phonograd.core.run.hot.translation import Untranslatable

from . import samples

pytestmark = pytest.mark.skipif(
    settings.current().executor == "reference" or not installation.are_possible(),
    reason="this interpreter runs hot functions as Python",
)

Arguments = Callable[[], tuple[Any, ...]]


@pytest.fixture(scope="module")
def code() -> installation.HotFunctions:
    """The functions of the samples as machine code."""
    functions = [
        each
        for each in vars(samples).values()
        if isinstance(each, FunctionType) and each not in (hot.uncounted, hot.untracked)
    ]
    functions.append(samples.Pair.total)  # type: ignore[arg-type]
    return installation.HotFunctions(functions, [samples.Pair, samples.Table])


def outcome(function: Any, arguments: tuple[Any, ...]) -> Any:
    """Return the result of a call and its arguments afterwards, or the class of the error."""
    try:
        return function(*arguments), [each for each in arguments if isinstance(each, list | dict | samples.Pair)]
    except Exception as error:
        return type(error)


@pytest.mark.parametrize("number", range(len(samples.CASES)))
def test_results_are_those_of_python(code: installation.HotFunctions, number: int) -> None:
    function, arguments = samples.CASES[number]
    assert not isinstance(outcome(function, arguments()), type)
    assert outcome(code.function(function), arguments()) == outcome(function, arguments())  # type: ignore[arg-type]


@pytest.mark.parametrize("number", range(len(samples.FAILURES)))
def test_errors_are_those_of_python(code: installation.HotFunctions, number: int) -> None:
    function, arguments = samples.FAILURES[number]
    found = outcome(code.function(function), arguments())  # type: ignore[arg-type]
    assert isinstance(found, type)
    assert found is outcome(function, arguments())


@pytest.mark.parametrize("number", range(len(samples.CASES) + len(samples.FAILURES)))
def test_no_reference_is_lost_or_kept(code: installation.HotFunctions, number: int) -> None:
    function, arguments = [*samples.CASES, *samples.FAILURES][number]
    made = code.function(function)  # type: ignore[arg-type]
    given = arguments()
    # small numbers have one object each, to which other threads refer, too
    held = [value for value in given if not isinstance(value, int)]
    outcome(made, given)
    before = [sys.getrefcount(each) for each in held]
    growth = []
    for _ in range(20):
        blocks = sys.getallocatedblocks()
        for _ in range(200):
            outcome(made, given)
        growth.append(sys.getallocatedblocks() - blocks)
    assert [sys.getrefcount(each) for each in held] == before
    # a lost block for each call would be two hundred each time; caches of the interpreter grow at first
    assert min(growth) < 100


def test_keywords_and_other_counts_are_left_to_python(code: installation.HotFunctions) -> None:
    made = code.function(samples.numbers)  # type: ignore[arg-type]
    assert made(first=2, second=3) == samples.numbers(2, 3)
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        made(1)
    assert inspect.signature(made) == inspect.signature(samples.numbers)


def test_loops_see_signals(code: installation.HotFunctions) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        with pytest.raises(KeyboardInterrupt):
            code.function(samples.zips)(range(10**6), range(10**6))  # type: ignore[arg-type]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_threads_call_the_same_code(code: installation.HotFunctions) -> None:
    made, found = code.function(samples.stack), list[Any]()  # type: ignore[arg-type]

    def run() -> None:
        end = time.monotonic() + 0.2
        while time.monotonic() < end:
            result = made([1, (2, 3), 4, 4])
            if not found or found[-1] != result:
                found.append(result)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [samples.stack([1, (2, 3), 4, 4])]


def test_other_constructs_are_refused() -> None:
    def generator(values: Any) -> Any:
        return any(each for each in values)

    module = ModuleText(Layout(False, 24, (), ()))
    with pytest.raises(Untranslatable, match="generator"):
        Translation("hot0", generator, module, {}).text()  # type: ignore[arg-type]


def test_all_hot_functions_are_translated_and_replaced() -> None:
    assert eager
    code = machine_code.install()
    assert code is not None
    for function in hot.HOT:
        place = f"{function.__module__}:{function.__qualname__}"
        module, _, path = place.partition(":")
        found: Any = sys.modules[module]
        for part in path.split("."):
            found = found.__dict__[part]
        assert type(found).__name__.startswith("OperatorFunction"), place
        assert found.__wrapped__ is function
    code.uninstall()
    try:
        assert isinstance(eager.order_users_first, FunctionType)
    finally:
        code.install()
    assert not isinstance(eager.order_users_first, FunctionType)


def test_nodes_are_not_tracked() -> None:
    from phonograd import nd

    assert machine_code.install() is not None
    y = nd.ones((3, 7))
    for _ in range(8):
        # the first calls of a kind go through rules
        y = nd.tanh(y)
    node = y._node
    assert node is not None
    assert not gc.is_tracked(node)
    assert not gc.is_tracked(node.inputs)


def test_lasting_objects_are_not_counted_as_new(code: installation.HotFunctions) -> None:
    # Python keeps up to 2,000 pairs for new ones, which are not counted
    numbers, growth = list(range(10_000)), []
    with collector.paused():
        for function in (samples.lasting, code.function(samples.lasting)):  # type: ignore[arg-type]
            gc.collect(0)
            before = gc.get_count()[0]
            made = function(numbers)
            growth.append(gc.get_count()[0] - before)
            del made
            # objects that are dropped are taken off, too
            assert gc.get_count()[0] >= 0
    assert growth[0] > 5000
    assert growth[1] < 20


def _steps(count: int) -> tuple[int, int, float]:
    """Run programs that are always new and leave garbage; return nodes, collections, and the share that is left."""
    import weakref

    from phonograd import autograd, nd
    from phonograd.core.graph.node import statistics

    class Ring:
        def __init__(self) -> None:
            self.ring = self

    draw, x, rings = random.Random(5), nd.ones((3, 7)), []
    x.attach_grad()
    nodes, collections = statistics.nodes, gc.get_stats()[0]["collections"]
    for _ in range(count):
        with autograd.record():
            y = x
            for _ in range(40):
                y = draw.choice([nd.tanh, nd.sin, nd.cos, nd.sigmoid])(y)
        y.backward()
        rings += [weakref.ref(Ring()) for _ in range(20)]
    left = sum([ring() is not None for ring in rings]) / len(rings)
    return statistics.nodes - nodes, gc.get_stats()[0]["collections"] - collections, left


def test_new_nodes_are_no_reason_to_collect_garbage() -> None:
    assert machine_code.install() is not None
    _steps(20)
    nodes, collections, left = _steps(200)
    assert nodes > 5000
    assert left < 0.5
    # each node is an object, its inputs and its key are two more
    assert collections * gc.get_threshold()[0] < 2 * nodes
