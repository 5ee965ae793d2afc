"""docs/reliability.md shows the counts of the last run, and a search is what the package says."""

from __future__ import annotations

import importlib
import inspect

import pytest

from . import SEARCHES, Counts
from .figures import PAGE, available, filled, stored, table


def test_the_page_shows_the_last_run() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert filled(text, stored()) == text, "run `python -m tests.fuzz.figures --write`"
    assert {*stored()} <= {*SEARCHES}


def test_nothing_failed_in_the_last_run() -> None:
    assert {name: found["failures"] for name, found in stored().items() if found["failures"]} == {}


@pytest.mark.parametrize("name", available())
def test_searches_can_be_run_for_a_time_from_a_seed(name: str) -> None:
    signature = inspect.signature(importlib.import_module(f"tests.fuzz.{name}").run)
    assert list(signature.parameters)[:2] == ["budget_seconds", "seed"]


def test_the_table_shows_counts_failures_and_what_could_not_run() -> None:
    found = {"seconds": 90, "seed": 0, "machine": "m"}
    results = {
        "programs": {"tried": {"programs": 1200, "runs": 3}, "failures": ["x"], "skipped": "", **found},
        "cache": {"tried": {}, "failures": [], "skipped": "there is no fork", **found},
    }
    assert table(results)[3:5] == [
        f"| `programs`: {SEARCHES['programs']} | 1,200 programs, 3 runs | 2 | 1 |",
        f"| `cache`: {SEARCHES['cache']} | there is no fork | 2 | - |",
    ]


def test_counts_add_up() -> None:
    counts = Counts()
    counts.add("programs")
    counts.add("programs", 2)
    counts.fail("seed 3")
    assert (counts.tried, counts.failures, counts.skipped) == ({"programs": 3}, ["seed 3"], "")
    assert Counts.unavailable("no fork").skipped == "no fork"
