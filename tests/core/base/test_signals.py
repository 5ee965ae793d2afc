"""Signals: lower layers notify higher ones."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from phonograd.core.base import settings, signals
from phonograd.core.base.signals import Signal

SOURCE = Path(signals.__file__).parents[1]


def test_listeners_are_called_in_order_until_they_are_disconnected() -> None:
    signal: Signal[[int]] = Signal()
    seen: list[tuple[str, int]] = []

    def first(number: int) -> None:
        seen.append(("first", number))

    signal.connect(first)
    signal.connect(lambda number: seen.append(("second", number)))
    signal.emit(1)
    signal.disconnect(first)
    signal.emit(2)
    assert seen == [("first", 1), ("second", 1), ("second", 2)]


def test_a_listener_may_disconnect_itself() -> None:
    signal: Signal[[]] = Signal()
    seen: list[str] = []

    def once() -> None:
        seen.append("once")
        signal.disconnect(once)

    signal.connect(once)
    signal.connect(lambda: seen.append("always"))
    signal.emit()
    signal.emit()
    assert seen == ["once", "always", "always"]


def test_a_listener_that_is_called_once_is_not_called_by_what_it_does() -> None:
    signal: Signal[[]] = Signal()
    seen: list[int] = []

    def listener() -> None:
        seen.append(len(seen))
        signal.emit_once()

    signal.connect(listener)
    signal.emit_once()
    signal.emit_once()
    assert seen == [0]
    assert not signal.listeners


def test_changed_settings_are_announced() -> None:
    seen: list[str] = []

    def listener() -> None:
        seen.append(settings.current().executor)

    settings.CHANGED.connect(listener)
    try:
        before = settings.current().executor
        with settings.override(executor="reference"):
            assert seen == ["reference"]
        assert seen == ["reference", before]
    finally:
        settings.CHANGED.disconnect(listener)


def test_the_table_lists_all_signals() -> None:
    listed = set(re.findall(r"^``(\w+\.[A-Z]+)``", signals.__doc__ or "", re.MULTILINE))
    made = set()
    for path in SOURCE.rglob("*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.AnnAssign) and ast.unparse(node.annotation).startswith("Signal["):
                made.add(f"{path.stem}.{ast.unparse(node.target)}")
    assert made
    assert made == listed
