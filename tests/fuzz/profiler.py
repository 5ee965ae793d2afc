"""Profilers that start, stop and export beside working threads. See the package for :func:`run`.

A round draws workers (threads that open scopes, call operators, read values and raise errors inside scopes), watchers
(threads that run short profiles and export them) and observers that come and go. One profiler runs from the first
worker's start to the last one's end. It must have every scope of every worker exactly once, inside the right scope;
every event of every profile must be whole, and every export readable.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import phonograd as mx
from phonograd import profiler
from phonograd.core.events import KERNEL
from phonograd.profiler import profile, record_function, validate_trace

from . import Counts

__all__ = ["Round", "run"]

#: options of short profiles
OPTIONS: list[dict[str, Any]] = [
    {},
    {"record_shapes": True, "with_flops": True},
    {"with_stack": True},
    {"with_modules": True, "with_gc": True},
    {"profile_memory": True},
    {"all_threads": False},
    {"max_events": 20, "keep_last": True},
    {"max_events": 3},
    {"minimum_duration_us": 5.0},
    {"sampling_probability": 0.5},
    {"subtract_overhead": True},
    {"aggregate": True},
]


class DroppedError(Exception):
    """An error that workers raise inside scopes, and catch."""


@record_function("steps")
def _steps() -> Any:
    yield 1
    yield 2


class Round:
    """One round, drawn from a seed."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._choose = random.Random(seed)
        self._errors: list[str] = []
        self._over = threading.Event()
        self._lock = threading.Lock()
        #: scopes that workers have left, with the scope around each
        self._scopes: Counter[tuple[str, str]] = Counter()
        self.counts: Counter[str] = Counter()

    def __str__(self) -> str:
        return f"seed {self._seed}"

    def run(self) -> list[str]:
        """Return what is wrong."""
        choose, interval = self._choose, sys.getswitchinterval()
        workers = [self._thread(self._work, number) for number in range(choose.randint(1, 4))]
        watchers = [self._thread(self._watch, number) for number in range(choose.randint(1, 2))]
        others = [self._thread(self._observe, number) for number in range(choose.randint(0, 2))]
        sys.setswitchinterval(choose.choice([1e-6, 1e-5, 1e-4, interval]))
        try:
            whole = profile(record_shapes=choose.random() < 0.3, with_stack=choose.random() < 0.2)
            whole.start()
            for thread in (*others, *watchers, *workers):
                thread.start()
            for thread in workers:
                thread.join()
            self._over.set()
            for thread in (*watchers, *others):
                thread.join()
            whole.stop()
        finally:
            sys.setswitchinterval(interval)
        self._attempt(lambda: self._check_whole(whole))
        self.counts["threads"] += len(workers) + len(watchers) + len(others)
        return [f"{self}: {error}" for error in self._errors]

    def _attempt(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException:
            self._errors.append(traceback.format_exc())

    def _thread(self, work: Callable[[int, random.Random], None], number: int) -> threading.Thread:
        choose = random.Random(self._choose.randrange(1 << 30))
        return threading.Thread(target=lambda: self._attempt(lambda: work(number, choose)))

    # -- workers

    def _work(self, number: int, choose: random.Random) -> None:
        x = mx.nd.ones((4,))
        seen: Counter[tuple[str, str]] = Counter()
        shared = record_function(f"shared {number}")
        for turn in range(choose.randint(5, 40)):
            outer = f"outer {number} {turn}"
            try:
                with record_function(outer) as scope:
                    y = x + 1
                    if choose.random() < 0.3:
                        scope.event("moment", a=1)
                    with shared:
                        seen[f"shared {number}", outer] += 1
                        for _ in _steps():
                            y = mx.nd.tanh(y) * 2
                    if choose.random() < 0.3:
                        y.asnumpy()
                    if choose.random() < 0.2:
                        self._record(x)
                    if choose.random() < 0.2:
                        raise DroppedError
            except DroppedError:
                pass
            seen[outer, ""] += 1
        with self._lock:
            self._scopes += seen

    @staticmethod
    def _record(x: Any) -> None:
        z = x.copy()
        z.attach_grad()
        with mx.autograd.record():
            loss = (z * z).sum()
        loss.backward()
        z.grad.asnumpy()

    # -- watchers

    def _watch(self, number: int, choose: random.Random) -> None:
        is_first = True
        while is_first or not self._over.is_set():
            is_first = False
            options = choose.choice(OPTIONS)
            prof = profile(**options)
            with prof:
                for _ in range(choose.randint(1, 3)):
                    with record_function(f"mine {number}"):
                        (mx.nd.ones((4,)) * 2).asnumpy()
                    time.sleep(choose.choice([0.0, 0.0, 1e-3]))
            if options.get("aggregate"):
                prof.key_averages()
            else:
                self._check_events(prof)
                self._export(prof, choose)
            self.counts["profiles"] += 1

    @staticmethod
    def _check_events(prof: profile) -> None:
        """Assert that every event of a finished profile is whole, and inside of its parent."""
        events = prof.events()
        for event in events:
            assert event.name, event
            assert 0 <= event.start_ns <= event.end_ns <= events.elapsed_ns, event
            assert 0 <= event.self_ns <= event.total_ns, event
            assert event.thread in events.threads, event
            assert event.scope != KERNEL or not event.unfinished, event
            parent = event.parent
            if parent is not None:
                assert parent.start_ns <= event.start_ns, (parent, event)
                assert event.end_ns <= parent.end_ns or event.is_async, (parent, event)
                assert any([child is event for child in parent.children]), (parent, event)
        averages = prof.key_averages()
        assert sum([average.count for average in averages]) == len([event for event in events if not event.instant])

    def _export(self, prof: profile, choose: random.Random) -> None:
        kind = choose.choice(["chrome", "saved", "speedscope", "json", "folded", "table"])
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "file.json"
            if kind == "chrome":
                prof.export_chrome_trace(path)
                validate_trace(path)
            elif kind == "saved":
                prof.save(path)
                found = profiler.load(path).events()
                assert [event.name for event in found] == [event.name for event in prof.events()]
            elif kind in ("speedscope", "json"):
                getattr(prof, f"export_{kind}")(path)
                json.loads(path.read_text(encoding="utf-8"))
            elif kind == "folded":
                prof.export_folded(path)
            else:
                prof.key_averages().table()
        self.counts["exports"] += 1

    # -- observers

    def _observe(self, number: int, choose: random.Random) -> None:
        while not self._over.is_set():
            open_ranges: dict[int, list[str]] = {}
            wrong: list[str] = []

            def start(found: Any, open_ranges: dict[int, list[str]] = open_ranges) -> str:
                open_ranges.setdefault(threading.get_ident(), []).append(found.name)
                return str(found.name)

            def end(
                found: Any,
                context: str,
                open_ranges: dict[int, list[str]] = open_ranges,
                wrong: list[str] = wrong,
            ) -> None:
                stack = open_ranges.get(threading.get_ident(), [])
                if context != found.name or not stack or stack.pop() != context:
                    wrong.append(f"{found.name} ends, {context} began, {stack} are open")

            handle = profiler.add_global_callback(start, end, scopes=[profiler.RecordScope.USER_SCOPE])
            time.sleep(choose.choice([0.0, 1e-3, 5e-3]))
            profiler.remove_callback(handle)
            # a range that began before goes on to its end
            assert not wrong, wrong[:3]
            self.counts["observers"] += 1

    # -- the profiler that sees everything

    def _check_whole(self, whole: profile) -> None:
        self._check_events(whole)
        events = whole.events()
        assert not [event for event in events if event.unfinished], "an event is open after all threads have ended"
        found: Counter[tuple[str, str]] = Counter()
        for event in events:
            word = event.name.partition(" ")[0]
            parent = event.parent.name if event.parent is not None else ""
            if word == "outer":
                assert not parent.startswith(("outer", "shared", "mine")), (event, parent)
                found[event.name, ""] += 1
            elif word == "shared":
                found[event.name, parent] += 1
        expected = Counter({key: number for key, number in self._scopes.items() if number})
        assert found == expected, f"missing {expected - found}, too many {found - expected}"
        self.counts["scopes"] += sum(found.values())
        self.counts["events"] += len(events)


def run(budget_seconds: float, seed: int = 0, rounds: int | None = None) -> Counts:
    """Run rounds for some time, or a number of them; see the package."""
    counts, number, end = Counts(), 0, time.monotonic() + budget_seconds
    while number < rounds if rounds else number == 0 or time.monotonic() < end:
        one = Round(seed * 1_000_000 + number)
        number += 1
        for failure in one.run():
            counts.fail(failure)
        counts.add("rounds")
        for kind, amount in one.counts.items():
            counts.add(kind, amount)
    return counts
