"""Credit: kernels, gradients and memory belong to whoever caused them."""

import threading
from time import perf_counter_ns
from typing import Any

import pytest

from phonograd.core.events import (
    BACKWARD_FUNCTION,
    EVALUATION,
    FUNCTION,
    KERNEL,
    Range,
    begin,
    note_allocation,
    note_release,
    record,
)
from phonograd.profiler import profile, record_function

from .programs import kernel, spin, training_step


def called(name: str = "op") -> Range:
    with begin(FUNCTION, name) as entry:
        pass
    return entry


def test_kernels_are_credited_to_the_scopes_that_called_the_operators() -> None:
    with profile() as prof:
        with record_function("outer"):
            with record_function("a"):
                first = called("exp")
            with record_function("b"):
                second, third = called("mul"), called("add")
        with begin(EVALUATION, "evaluation"):
            now = perf_counter_ns()
            record("fused", KERNEL, now, now + 900, operators=("exp", "mul", "add"), serves=(first, second, third))
            record("nobody", KERNEL, now + 900, now + 1000)
    found = {event.name: event for event in prof.events()}
    caused = {name: event.credit.kernel_ns for name, event in found.items()}
    assert caused == {
        "outer": 900,
        "a": 300,
        "exp": 300,
        "b": 600,
        "mul": 300,
        "add": 300,
        "evaluation": 0,
        "fused": 0,
        "nobody": 0,
    }
    assert found["b"].credit.self_kernel_ns == 0
    assert found["mul"].credit.self_kernel_ns == 300
    assert prof.events().uncredited_ns == 100
    row = prof.by_scope()["outer > b"]
    assert (row["kernel_us"], row["backward_kernel_us"]) == (0.6, 0)


def test_shares_add_up_to_the_kernel() -> None:
    with profile() as prof:
        training_step()
    events = prof.events()
    kernels = sum(event.total_ns for event in events if event.range.scope == KERNEL)
    shares = sum(event.credit.self_kernel_ns for event in events)
    assert shares + events.uncredited_ns == pytest.approx(kernels)
    assert events.uncredited_ns == 0


def test_backward_kernels_are_credited_to_the_forward_scope() -> None:
    with profile() as prof:
        with record_function("forward"):
            origin = called()
        with record_function("backward"), begin(EVALUATION, "evaluation"):
            kernel(5, ("_backward_op",), (origin,), "backward")
    forward, backward = prof.by_scope()
    assert forward["backward_kernel_us"] >= 5
    assert forward["kernel_us"] == 0
    assert backward["backward_kernel_us"] == backward["kernel_us"] == 0
    assert backward["evaluation_us"] >= 5, "the time is spent here, but not caused here"
    assert backward["tracing_us"] == pytest.approx(backward["total_us"] - backward["evaluation_us"])


def test_a_name_stands_for_the_scope_that_began_last() -> None:
    with profile() as prof:
        for _ in range(2):
            with record_function("layer"):
                spin(1)
            kernel(3, ("op",), ("layer",))
        kernel(3, ("op",), ("unknown",))
    layers = [event for event in prof.events() if event.name == "layer"]
    assert all(event.credit.kernel_ns >= 3000 for event in layers)
    assert prof.events().uncredited_ns >= 3000


def test_every_backward_pass_is_linked() -> None:
    with profile() as prof:
        origins = [called(f"op{number}") for number in range(3)]
        for _ in range(2):  # as with retain_graph
            for origin in reversed(origins):
                with begin(BACKWARD_FUNCTION, f"_backward_{origin.name}", forward=origin):
                    pass
    links = prof.events().links
    assert [(forward.name, backward.name) for forward, backward in links] == [
        (f"op{number}", f"_backward_op{number}") for number in (2, 1, 0)
    ] * 2


def test_second_derivatives_are_linked_to_first_ones() -> None:
    with profile() as prof:
        origin = called("mul")
        with begin(BACKWARD_FUNCTION, "_backward_mul", forward=origin) as entry:
            inner = called("mul")
        with begin(BACKWARD_FUNCTION, "_backward_backward_mul", forward=inner):
            pass
    assert entry.forward is origin
    assert [(f.name, b.name) for f, b in prof.events().links] == [
        ("mul", "_backward_mul"),
        ("mul", "_backward_backward_mul"),
    ]
    first, second = prof.events().links
    assert second[0].parent is first[1]


def test_backward_in_another_thread() -> None:
    with profile() as prof:
        with begin(FUNCTION, "op", sequence_nr=9) as origin:
            pass

        def work() -> None:
            with begin(BACKWARD_FUNCTION, "by identity", forward=origin):
                pass
            with begin(BACKWARD_FUNCTION, "by number", sequence_nr=9, forward_thread_id=origin.thread_id):
                pass
            with begin(BACKWARD_FUNCTION, "by nothing", sequence_nr=9):
                pass

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert [backward.name for _, backward in prof.events().links] == ["by identity", "by number"]


def test_forward_outside_of_the_profile_has_no_link() -> None:
    with profile():
        origin = called()
    with profile() as prof, begin(BACKWARD_FUNCTION, "_backward_op", forward=origin):
        pass
    assert prof.events().links == []


def test_backward_time_goes_to_the_scope_of_the_forward_operator() -> None:
    with profile() as prof:
        with record_function("small"):
            small = called()
        with record_function("large"):
            large = called()
        for origin, count in ((small, 1), (large, 3)):
            with begin(BACKWARD_FUNCTION, "backward", forward=origin):
                for _ in range(count):
                    with begin(BACKWARD_FUNCTION, "inner", forward=origin):
                        spin(3)
    events = prof.events()
    outer = [event for event in events if event.name == "backward"]
    rows = prof.by_scope()
    assert rows["small"]["backward_us"] == outer[0].total_ns / 1000, "what is inside is not counted again"
    assert rows["large"]["backward_us"] == outer[1].total_ns / 1000


def test_memory_of_a_scope_that_takes_and_gives_back() -> None:
    size = 8 * 1024**2
    with profile(profile_memory=True) as prof, record_function("outer"):
        with record_function("inner"):
            note_allocation(size, "temporary", 1)
            note_release(size, "temporary", 1)
        note_allocation(100)
    outer, inner = prof.events()
    assert (inner.credit.net, inner.credit.peak, inner.credit.allocated, inner.credit.freed) == (0, size, size, size)
    assert (inner.self_cpu_memory_usage, outer.self_cpu_memory_usage, outer.cpu_memory_usage) == (0, 100, 100)
    assert outer.credit.peak == size
    table = prof.table()
    assert "CPU Mem" in table
    assert "8.00 MB" in table


def test_memory_in_all_threads() -> None:
    def work(size: int) -> None:
        with record_function(f"thread {size}"):
            note_allocation(size)

    with profile(profile_memory=True) as prof:
        threads = [threading.Thread(target=work, args=(size,)) for size in (10, 20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    found: dict[str, Any] = {event.name: event.cpu_memory_usage for event in prof.events()}
    assert found == {"thread 10": 10, "thread 20": 20}


def test_recursion_is_credited_once() -> None:
    with profile(profile_memory=True) as prof, record_function("f"), record_function("f"):
        origin = called()
        note_allocation(10)
        now = perf_counter_ns()
        record("k", KERNEL, now, now + 5, serves=(origin,))
    (f,) = [average for average in prof.key_averages() if average.key == "f"]
    assert (f.count, f.cpu_memory_usage, f.kernel_time_total) == (2, 10, 0.005)
