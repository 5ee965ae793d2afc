"""Ranges to observe, and an observer that writes down what it sees."""

import threading
from collections.abc import Callable
from typing import Any

from phonograd.core.events import Range, RecordScope


def run(name: str = "range", scope: int = RecordScope.USER_SCOPE, inputs: tuple[Any, ...] = ()) -> Range:
    """Return a range that has begun and ended."""
    made = Range(scope)
    made.before(name, inputs)
    made.end()
    return made


def in_thread(function: Callable[[], Any]) -> Any:
    """Return what a function returns in another thread."""
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(function()))
    thread.start()
    thread.join()
    return results[0]


class Diary:
    """An observer that writes down what it sees."""

    def __init__(self, label: str = "") -> None:
        self.label = label
        self.lines: list[str] = []

    def start(self, fn: Range) -> str:
        self.lines.append(f"{self.label}start {fn.name}")
        return fn.name

    def end(self, fn: Range, context: Any) -> None:
        self.lines.append(f"{self.label}end {context}")
