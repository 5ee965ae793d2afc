"""What the end of a profile had to wait for."""

import threading
import time

from phonograd.profiler import profile, record_function
from phonograd.profiler.critical import critical_path
from phonograd.profiler.events import build

from .programs import spin


def work(name: str, milliseconds: float, begun: threading.Event) -> None:
    with record_function(name):
        begun.set()
        time.sleep(milliseconds / 1000)


def test_one_thread_is_all_on_the_path() -> None:
    with profile() as prof, record_function("outer"):
        spin(200)
        with record_function("inner"):
            spin(500)
    rows = prof.critical_path()
    assert {row["name"] for row in rows} == {"outer", "outer > inner"}
    whole = prof.events()[0].total_ns / 1000
    assert abs(sum(row["total_us"] for row in rows) - whole) < 1e-6 * whole
    assert abs(sum(row["share"] for row in rows) - 100) < 1e-6
    assert "Share" in str(rows)


def test_only_the_thread_that_was_waited_for_is_on_the_path() -> None:
    with profile() as prof:
        with record_function("first"):
            spin(500)
        threads = []
        for name, milliseconds in (("long", 60), ("short", 5)):
            begun = threading.Event()
            threads.append(threading.Thread(target=work, args=(name, milliseconds, begun)))
            threads[-1].start()
            begun.wait()
        for thread in threads:
            thread.join()
        with record_function("last"):
            spin(500)
    rows = prof.critical_path()
    names = [row["name"] for row in rows]
    assert {"first", "long", "last"} <= set(names)
    assert "short" not in names
    assert rows["long"]["total_us"] > 30_000


def test_nothing_recorded() -> None:
    assert len(critical_path(build({}, 1, 2, 0))) == 0
