"""Profiles that start and stop while other threads work: every event is whole, and none is lost."""

import random
import sys
import threading
import time
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import phonograd as mx
from phonograd.core import events as observers
from phonograd.core.events import FUNCTION, KERNEL, MEMORY, USER_SCOPE, Observer, Range
from phonograd.core.events.range import start_range
from phonograd.profiler import profile, record_function, validate_trace
from phonograd.profiler.collecting import Recording


@pytest.fixture
def restless() -> Iterator[None]:
    """Switch threads as often as the interpreter can, so that they meet between any two instructions."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


class Crew:
    """Threads that open scopes, call operators and note moments until they are dismissed."""

    def __init__(self, count: int = 2, seed: int = 0) -> None:
        self.over = False
        self.errors: list[BaseException] = []
        self.threads = [threading.Thread(target=self._work, args=(seed + number,)) for number in range(count)]

    def _work(self, seed: int) -> None:
        choice = random.Random(seed)
        try:
            x = mx.nd.ones((4,))
            shared = record_function("reused")
            while not self.over:
                with record_function("outer", *(["text", {"n": 1}] if choice.random() < 0.3 else [])) as scope:
                    y = x + 1
                    if choice.random() < 0.3:
                        scope.event("moment", a=1)
                    with shared:
                        for _ in self._steps():
                            pass
                    if choice.random() < 0.2:
                        y.asnumpy()
        except BaseException as error:
            self.errors.append(error)
            raise

    @staticmethod
    @record_function("steps")
    def _steps() -> Any:
        yield 1
        yield 2

    def __enter__(self) -> "Crew":
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.over = True
        for thread in self.threads:
            thread.join()
        assert not self.errors


def check(prof: profile) -> None:
    """Assert that every event of a finished profile is whole and inside of it."""
    events = prof.events()
    elapsed = events.elapsed_ns
    for event in events:
        assert event.name
        assert 0 <= event.start_ns <= event.end_ns <= elapsed, event
        assert 0 <= event.self_ns <= event.total_ns, event
        assert event.thread in events.threads
        if event.name == "moment":
            assert event.instant
            assert event.attributes == {"a": 1}
        if event.scope == KERNEL:
            assert not event.unfinished, "a kernel is recorded when it is over"
        if not event.unfinished:
            assert event.range.end_ns
    assert all([moment.end_ns for moment in events.moments])
    averages = prof.key_averages()
    assert sum([average.count for average in averages]) == len([event for event in events if not event.instant])


OPTIONS: list[dict[str, Any]] = [
    {},
    {"record_shapes": True},
    {"with_stack": True, "record_shapes": True},
    {"profile_memory": True},
    {"max_events": 20, "keep_last": True},
    {"max_events": 1, "keep_last": True},
    {"minimum_duration_us": 5.0},
    {"sampling_probability": 0.5},
]


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "-".join(options) or "plain")
@pytest.mark.usefixtures("restless")
def test_profiles_that_stop_while_threads_work(options: dict[str, Any], tmp_path: Path) -> None:
    complete = options in OPTIONS[:4]
    with Crew():
        for number in range(3 if "profile_memory" in options else 60):  # the search for arrays takes time
            prof = profile(**options)
            with prof:
                for _ in range(3):
                    with record_function("mine"):
                        (mx.nd.ones((4,)) * 2).asnumpy()
            check(prof)
            own = [event for event in prof.events() if event.name == "mine"]
            if complete:  # ended before stop(): none is missing, none is open
                assert len(own) == 3
                assert not any([event.unfinished for event in own])
                assert all([any([child.scope == FUNCTION for child in event.children]) for event in own])
            if number % 20 == 0:
                path = tmp_path / "trace.json"
                prof.export_chrome_trace(path)
                assert validate_trace(path) == []


@pytest.mark.usefixtures("restless")
def test_results_of_a_running_profile_while_threads_work() -> None:
    with Crew():
        for _ in range(20):  # short profiles: while the events are made, the threads add more
            with profile(max_events=50, keep_last=True) as bounded, profile(max_events=500) as prof:
                for running in (prof, bounded, bounded):
                    events = running.events()
                    assert all([0 <= event.start_ns <= event.end_ns for event in events])
                    running.key_averages()
                assert len(bounded.events()) <= 50
        with profile() as prof:
            for _ in range(3):
                assert all([0 <= event.start_ns <= event.end_ns for event in prof.events()])


@pytest.mark.usefixtures("restless")
def test_nothing_is_lost_that_ended_before_the_profile_stopped() -> None:
    """Each thread counts its own scopes; profiles of all threads come and go around the one that is examined."""
    done: Counter[str] = Counter()
    ready, go = threading.Barrier(4), threading.Event()

    def work(name: str) -> None:
        ready.wait()
        go.wait()
        for _ in range(300):
            with record_function(name):
                done[name] += 1

    threads = [threading.Thread(target=work, args=(f"worker {number}",)) for number in range(3)]
    for thread in threads:
        thread.start()
    ready.wait()
    with profile() as prof:
        go.set()
        while any([thread.is_alive() for thread in threads]):
            with profile(scopes=[USER_SCOPE]):
                time.sleep(0)
        for thread in threads:
            thread.join()
    events = prof.events()
    assert Counter([event.name for event in events]) == done
    assert not any([event.unfinished for event in events])


@pytest.mark.usefixtures("restless")
def test_operators_are_observed_whoever_starts_and_stops_profiles() -> None:
    """Profiles of several threads overlap: a profile that stops must not switch off the others."""
    missing: list[int] = []

    def work() -> None:
        x = mx.nd.ones((4,))
        for _ in range(60):
            with profile(all_threads=False) as prof:
                x + 1
                x + 2
            calls = [event for event in prof.events() if event.scope == FUNCTION]
            if len(calls) != 2:
                missing.append(len(calls))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not missing


@pytest.mark.parametrize("needs_inputs", [False, True])
def test_collectors_receive_ranges_that_can_be_read(needs_inputs: bool) -> None:
    """A range is read by another thread as soon as the collector has it."""
    seen: list[tuple[str, int, int]] = []

    def collector(number: int, name: str) -> Any:
        return lambda entry: seen.append((entry.name, entry.start_ns, entry.end_ns))

    observer = Observer(collector=collector, needs_inputs=needs_inputs)
    observers.add_collector(observer)
    try:
        start_range(USER_SCOPE, "scope").end()
        x = mx.nd.ones((4,)) + 1
        observers.record("kernel", KERNEL, 5, 7)
        observers.note_allocation(8, "input", 1)
    finally:
        observers.remove_collector(observer)
    del x
    begun = dict.fromkeys([name for name, start, _ in seen if not start])
    whole = {name: (start, end) for name, start, end in seen if start}
    assert {"scope", "broadcast_add"} <= set(begun), "a range that has not begun is left out"
    assert whole["kernel"] == (5, 7)
    start, end = whole["[memory]"]
    assert start == end > 0


def test_ranges_that_begin_before_or_after_the_recording_are_left_out() -> None:
    recording = Recording()
    recording.start()
    collect = recording._collect(1, "another thread")
    recording.stop()
    late = Range.restore("late", USER_SCOPE, 1, "another thread", recording.stop_ns + 1, 0)
    pending = Range.restore("pending", USER_SCOPE, 1, "another thread", 0, 0)
    early = Range.restore("kernel", KERNEL, 1, "another thread", recording.origin_ns - 1, recording.stop_ns)
    for entry in (late, pending, early):
        collect(entry)
    assert len(recording.events()) == 0


def test_a_generator_that_is_suspended_can_be_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The list of stretches is never empty, whenever another thread looks."""
    lengths: list[int] = []
    from phonograd.core.events import facts

    class Watched(facts.Facts):
        def __setattr__(self, name: str, value: Any) -> None:
            if name == "segments":
                lengths.append(len(value))
            super().__setattr__(name, value)

    with profile():
        entry = start_range(USER_SCOPE, "generator")
        entry.facts = Watched()
        entry.suspend()
        entry.resume()
        entry.leave()
    assert lengths == [1]


def test_shared_memory_is_counted_once() -> None:
    """Threads that meet the same array at the same time notify observers once."""
    from phonograd.core.observe import allocations

    value = mx.nd.ones((64,)).asnumpy()
    met: list[int] = []

    def collector(number: int, name: str) -> Any:
        def collect(entry: Range) -> None:
            met.append(int(entry.value))
            if len(met) == 1:  # the other thread, which looked before this one had noted the value
                allocations.hold(value, "input")

        return collect

    observer = Observer(collector=collector, scopes=[MEMORY])
    observers.add_collector(observer)
    try:
        allocations.hold(value, "input")
    finally:
        observers.remove_collector(observer)
    assert met == [value.nbytes]


# -- memory of exports


def exporters() -> dict[str, Any]:
    return {
        "trace.json": profile.export_chrome_trace,
        "trace.json.gz": profile.export_chrome_trace,
        "trace.pftrace": profile.export_perfetto_trace,
        "speedscope.json": profile.export_speedscope,
    }


@pytest.mark.parametrize("name", exporters())
def test_exports_are_written_piece_by_piece(name: str, tmp_path: Path) -> None:
    with profile() as prof:
        for number in range(10_000):
            with record_function(f"scope {number % 10}"):
                pass
    prof.events()
    export = exporters()[name]
    export(prof, tmp_path / name)  # what is imported and remembered at first
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        export(prof, tmp_path / name)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # a gzip stream takes 256 KB, the places of a track 8 bytes per event; the file is 220 to 960 KB
    assert peak - before < 600_000 if name.endswith(".gz") else peak - before < 300_000


def test_an_export_that_fails_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with profile() as prof:
        for _ in range(2000):
            with record_function("scope"):
                pass
    path = tmp_path / "trace.json"
    path.write_text("old")
    prof.events()[1500].range.name = 5  # type: ignore[assignment]
    monkeypatch.setattr("phonograd.profiler.chrome.json.dumps", _refuse_numbers)
    with pytest.raises(TypeError, match="names are text"):
        prof.export_chrome_trace(path)
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["trace.json"]


def _refuse_numbers(value: Any) -> str:
    if isinstance(value, int):
        raise TypeError("names are text")
    return "{}"
