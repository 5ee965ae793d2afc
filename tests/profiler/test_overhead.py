"""What profiling itself takes, garbage collection, and hints."""

import gc
import time

from phonograd import autograd, nd
from phonograd.core.events import (
    COMPILATION,
    EVALUATION,
    FUNCTION,
    KERNEL,
    begin,
    note_allocation,
    record,
)
from phonograd.profiler import profile, record_function, schedule
from phonograd.profiler.overhead import Overhead, without_overhead

from .programs import Shaped, spin
from .test_averages import events


def test_times_without_overhead() -> None:
    listed = events(("outer", 0, 100, None), ("a", 10, 30, 0), ("b", 40, 50, 0))
    found = without_overhead(listed, Overhead(3, 2))
    assert [(event.name, event.self_ns, event.total_ns) for event in found] == [
        ("outer", 70 - 3 - 2 * 2, 70 - 3 - 4 + 17 + 7),
        ("a", 17, 17),
        ("b", 7, 7),
    ]
    assert [event.parent and event.parent.name for event in found] == [None, "outer", "outer"]
    assert [event.self_ns for event in listed] == [70, 20, 10], "the events are as they were"
    tiny = without_overhead(listed, Overhead(1000, 1000))
    assert all(event.self_ns == event.total_ns == 0 for event in tiny)


def test_empty_scopes_take_almost_nothing_after_correction() -> None:
    with profile(subtract_overhead=True) as prof, profile() as raw, record_function("outer"):
        for _ in range(2000):
            with record_function("empty"):
                pass
    overhead = prof.overhead
    assert 0 <= overhead.inside_ns < 10**5
    assert 0 < overhead.outside_ns < 10**5
    assert prof.overhead is overhead, "measured once"
    corrected, plain = prof.key_averages(), raw.key_averages()
    for name in ("outer", "empty"):
        (first,) = [average for average in corrected if average.key == name]
        (second,) = [average for average in plain if average.key == name]
        assert first.self_ns < second.self_ns


def test_measuring_is_seen_by_nobody_else() -> None:
    with profile() as other:
        with profile(subtract_overhead=True) as prof, record_function("x"):
            pass
        prof.events()
    assert [event.name for event in other.events()] == ["x"]


def test_garbage_collection_is_recorded() -> None:
    before = list(gc.callbacks)
    with profile(with_gc=True) as prof:
        with profile(with_gc=True):
            pass
        with record_function("a"):
            pass
        gc.collect()
        with record_function("b"):
            pass
    names = [event.name for event in prof.events()]
    assert names.index("a") < names.index("Python GC") < len(names) - 1
    collection = next(event for event in prof.events() if event.name == "Python GC")
    assert collection.attributes["generation"] == 2
    assert collection.total_ns > 0
    assert gc.callbacks == before


def test_hints() -> None:
    with profile(schedule=schedule(wait=0, warmup=0, active=4), record_shapes=True, profile_memory=True) as prof:
        for _ in range(3):
            with record_function("loop"):
                for _ in range(120):
                    with begin(EVALUATION, "evaluation"):
                        record("tiny", KERNEL, time.perf_counter_ns(), time.perf_counter_ns())
                    with begin(FUNCTION, "exp", (Shaped(3),)):
                        pass
            note_allocation(100, "gradient")
            with begin(COMPILATION, "compilation"):
                spin(1)
            prof.step()
        spin(100)
        for _ in range(10):
            with begin(COMPILATION, "compilation"):
                spin(1)
        note_allocation(100, "gradient")
    kinds = [hint.kind for hint in prof.hints()]
    assert sorted(set(kinds)) == [
        *("growing memory", "many evaluations", "recompilation", "repeated operator", "tiny kernels"),
    ]
    assert kinds.count("repeated operator") == 3
    costs = [hint.cost_ns for hint in prof.hints()]
    assert costs == sorted(costs, reverse=True)
    assert any("reads values 120 times" in str(hint) for hint in prof.hints())


def test_ordinary_program_has_no_hints() -> None:
    with profile() as prof, record_function("work"):
        pass
    assert prof.hints() == []


def test_records_that_are_differentiated_again_and_again() -> None:
    x = nd.ones((3,))
    x.attach_grad()
    with profile() as prof:
        with autograd.record():
            y = nd.tanh(x)
        for _ in range(4):
            y.backward(retain_graph=True)
    (hint,) = [hint for hint in prof.hints() if hint.kind == "retained graph"]
    assert "up to 4 times" in hint.text
    with profile() as prof:
        for _ in range(4):
            with autograd.record():
                y = nd.tanh(x)
            y.backward()
    assert not [hint for hint in prof.hints() if hint.kind == "retained graph"]


def test_kernels_that_only_copy() -> None:
    x = nd.ones((64, 64))
    with profile() as prof:
        for _ in range(12):
            x = x.T.copy()
            x.wait_to_read()
    (hint,) = [hint for hint in prof.hints() if hint.kind == "copies"]
    assert "permute" in hint.text
    with profile() as prof:
        for _ in range(12):
            nd.exp(x).wait_to_read()
    assert not [hint for hint in prof.hints() if hint.kind == "copies"]


def test_gradients_that_nothing_is_computed_from() -> None:
    w, x = nd.ones((8, 8)), nd.ones((8, 8))
    w.attach_grad()

    def steps(count: int, update: bool, at_once: bool) -> list[str]:
        with profile(profile_memory=True) as prof:
            for _ in range(count):
                with autograd.record():
                    loss = nd.dot(x, w).sum()
                loss.backward()
                if not at_once:
                    w.grad.wait_to_read()
                if update:
                    w[:] = w - 0.1 * w.grad
                    w.wait_to_read()
                w.grad.wait_to_read()
        return [hint.text for hint in prof.hints() if hint.kind == "unused gradients"]

    (text,) = steps(15, update=False, at_once=True)
    assert text.startswith("14 gradients")
    assert steps(15, update=True, at_once=True) == []
    assert steps(15, update=True, at_once=False) == []
