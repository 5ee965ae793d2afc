"""Hooks: what operators, kernels, gradients and memory tell observers."""

import gc
import time
import weakref
from typing import Any

import numpy as np
import pytest

from phonograd.core import events
from phonograd.core.events import (
    BACKWARD_FUNCTION,
    EVALUATION,
    FUNCTION,
    KERNEL,
    LISTENING,
    MEMORY,
    MODULE,
    Range,
    begin,
    note_allocation,
    note_release,
    record,
)
from phonograd.profiler import RecordScope, profile, record_function

from .programs import training_step


def test_nobody_listens_to_what_was_not_asked_for() -> None:
    with profile():
        assert LISTENING[FUNCTION]
        assert LISTENING[KERNEL]
        assert not LISTENING[MEMORY]
        assert not LISTENING[MODULE]
    with profile(profile_memory=True, with_modules=True):
        assert LISTENING[MEMORY]
        assert LISTENING[MODULE]
    with profile(scopes={RecordScope.KERNEL}, profile_memory=True):
        assert [scope for scope in RecordScope if LISTENING[scope]] == [RecordScope.KERNEL, RecordScope.MEMORY]
    assert not any(LISTENING)


def test_hooks_do_nothing_while_nobody_listens() -> None:
    training_step()
    with begin(FUNCTION, "add") as entry:
        assert not entry.active
        assert events.current_range() is None
    record("kernel", KERNEL, 5, 1)  # not even checked
    note_allocation(5)


def test_operator_has_inputs_and_parameters_on_demand() -> None:
    seen: list[Any] = []
    handle = events.add_global_callback(lambda fn: seen.append((fn.name, fn.inputs, fn.parameters)))
    array = np.zeros((2, 3))
    with begin(FUNCTION, "sum", (array,), parameters={"axis": 1}):
        pass
    events.remove_callback(handle)
    assert seen == [("sum", (), None)]
    handle = events.add_global_callback(lambda fn: seen.append((fn.name, fn.inputs, fn.parameters)), needs_inputs=True)
    with begin(FUNCTION, "sum", (array,), parameters={"axis": 1}):
        pass
    events.remove_callback(handle)
    assert seen[1:] == [("sum", (array,), {"axis": 1})]


def test_profile_keeps_no_input_alive() -> None:
    class Value:
        shape = (2,)
        dtype = "float32"

    value = Value()
    gone = weakref.ref(value)
    with profile(with_flops=True) as prof:
        with begin(FUNCTION, "exp", (value,)):
            pass
        del value
        gc.collect()
        assert gone() is None
    (event,) = prof.events()
    assert (event.input_shapes, event.input_dtypes) == ([[2]], ["float32"])
    assert event.flops == 20


def test_exception_is_noted() -> None:
    with profile() as prof, pytest.raises(KeyError), begin(FUNCTION, "take"):
        raise KeyError("k")
    assert prof.events()[0].error == "KeyError: 'k'"


def test_recorded_interval_is_inside_the_current_range() -> None:
    with profile() as prof, record_function("outer"), begin(EVALUATION, "evaluation"):
        start = time.perf_counter_ns()
        end = start + 1000
        while time.perf_counter_ns() < end:
            pass
        record("k", KERNEL, start, end, operators=("exp", "mul"), flops=3.0, moved_bytes=4.0, launches=2)
        assert events.current_range().name == "evaluation"  # type: ignore[union-attr]
    outer, evaluation, kernel = prof.events()
    assert kernel.parent is evaluation
    assert evaluation.parent is outer
    assert kernel.total_ns == kernel.self_ns == 1000
    assert evaluation.self_ns == evaluation.total_ns - 1000
    assert kernel.operators == ("exp", "mul")
    assert kernel.attributes == {"launches": 2}
    assert kernel.cost is not None
    assert tuple(kernel.cost) == (3.0, 4)


def test_intervals_may_be_reported_late() -> None:
    with profile() as prof:
        start = time.perf_counter_ns()
        with record_function("between"):
            pass
        record("early", KERNEL, start, start + 1)
    assert [event.name for event in prof.events()] == ["early", "between"]


def test_recorded_interval_reaches_observers_with_both_callbacks() -> None:
    seen: list[Any] = []
    handle = events.add_global_callback(
        lambda fn: fn.name, lambda fn, context: seen.append((context, fn.start_ns, fn.closing_ns)), scopes={KERNEL}
    )
    record("k", KERNEL, 3, 7)
    record("not seen", EVALUATION, 3, 7)
    events.remove_callback(handle)
    assert seen == [("k", 3, 7)]


@pytest.mark.parametrize(("start", "end"), [(0, 5), (5, 4), (-1, 1)])
def test_impossible_intervals(start: int, end: int) -> None:
    with profile() as prof, pytest.raises(ValueError, match="cannot begin"):
        record("k", KERNEL, start, end)
    assert len(prof.events()) == 0


def test_memory_is_a_moment_with_a_category() -> None:
    with profile(profile_memory=True) as prof, record_function("scope"):
        note_allocation(100, "gradient", 1)
        note_release(40, "gradient", 1)
    assert [event.name for event in prof.events()] == ["scope"], "memory is no event"
    assert [(m.value, m.category, m.identity) for m in prof.events().moments] == [
        (100, "gradient", 1),
        (-40, "gradient", 1),
    ]


def test_memory_can_serve_a_range_that_is_over() -> None:
    with profile(profile_memory=True) as prof:
        with record_function("layer") as scope:
            layer = scope.record
        with record_function("evaluation"):
            note_allocation(64, serves=layer)
    first, second = prof.events()
    assert (first.cpu_memory_usage, second.cpu_memory_usage) == (64, 0)


def test_backward_range_knows_its_forward_thread() -> None:
    with profile() as prof:
        with begin(FUNCTION, "mul", sequence_nr=4) as forward:
            pass
        with begin(BACKWARD_FUNCTION, "_backward_mul", forward=forward):
            pass
        with begin(BACKWARD_FUNCTION, "_backward_mul", sequence_nr=4, forward_thread_id=forward.thread_id):
            pass
    first, second, third = prof.events()
    assert first.fwd_thread == 0
    assert second.fwd_thread == third.fwd_thread == first.thread
    assert prof.events().links == [(first, second), (first, third)]


def test_modules_are_recorded_on_demand() -> None:
    for asked in (False, True):
        with profile(with_modules=asked) as prof, begin(MODULE, "dense0"):
            pass
        assert len(prof.events()) == asked


def test_restored_range_is_like_another() -> None:
    entry = Range.restore("name", FUNCTION, 7, "worker", 5, 9)
    assert (entry.thread_id, entry.thread_name, entry.active, entry.name) == (7, "worker", False, "name")
    entry.end()
    assert entry.end_ns == 9


def test_a_range_that_is_kept_keeps_nothing_but_what_is_around_it() -> None:
    with profile() as prof:
        with begin(FUNCTION, "other") as other:
            pass
        with record_function("outer"), begin(FUNCTION, "kept") as kept:
            pass
        record("kernel", KERNEL, kept.end_ns, kept.end_ns + 1, serves=(kept,))
    gone = weakref.ref(other)
    assert len(prof.events()) == 4
    del prof, other
    gc.collect()
    assert gone() is None
    assert kept.parent is not None
    assert kept.parent.name == "outer"
