"""``mx.progress``: the same items with and without tqdm, and lines that fit where they are shown."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import phonograd as mx
from phonograd import progress_bar
from phonograd.core.base import terminal


class Terminal(io.StringIO):
    """Something that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(params=["tqdm", "lines"])
def either(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Have bars drawn by tqdm, or without it."""
    if request.param == "lines":
        monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    else:
        pytest.importorskip("tqdm")
    return str(request.param)


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)


def test_one_bar_for_several_epochs(either: str) -> None:
    bar = mx.progress(range(3), file=io.StringIO())
    assert [list(bar), list(bar)] == [[0, 1, 2]] * 2


@pytest.mark.usefixtures("lines")
def test_nothing_is_begun_before_the_loop() -> None:
    begun = []

    class Loader:
        def __iter__(self) -> Iterator[int]:
            begun.append(1)
            return iter([1, 2])

    bar = mx.progress(Loader(), file=io.StringIO())
    assert not begun
    assert list(bar) == [1, 2]
    rows = mx.progress(mx.nd.ones((2, 3)), file=io.StringIO())
    assert [row.shape for row in rows] == [(3,), (3,)]


def test_values_behind_the_bar(either: str) -> None:
    output = io.StringIO()
    for _ in (bar := mx.progress(range(2), desc="epoch", file=output)):
        values = {"loss": mx.nd.array([0.123456]), "accuracy": np.float32(2 / 3), "rate": 1234.5}
        bar.set_postfix(values, step=100000, shape=(2, 3), many=mx.nd.ones((2,)))
    text = output.getvalue()
    assert "epoch" in text
    assert "loss=0.123, accuracy=0.667, rate=1234.5, step=100000, shape=(2, 3), many=[1. 1.] <NDArray 2" in text
    assert text.splitlines()[-1].count("loss") == 1 if either == "lines" else True


def test_bars_without_a_loop(either: str) -> None:
    output = io.StringIO()
    with mx.progress(None, "files", total=5, file=output) as bar:
        bar.update(2)
        bar.update()
        bar.set_description_str("more files")
        bar.refresh()
        assert (bar.n, bar.total) == (3, 5)
    assert "more files" in output.getvalue()
    assert "3/5" in output.getvalue()
    assert output.getvalue().endswith("\n")


@pytest.mark.usefixtures("lines")
def test_loops_that_are_left() -> None:
    output = io.StringIO()
    for item in mx.progress(range(5), "left", file=output):
        if item == 2:
            break
    assert output.getvalue().startswith("left: 2/5 (40%)")
    assert "left" not in output.getvalue()[5:], "how long it would have taken"
    assert next(iter(mx.progress(range(5), "failed", file=output))) == 0
    assert output.getvalue().endswith("failed: 0/5 (0%)\n")


@pytest.mark.usefixtures("lines")
def test_lines_fit_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress_bar, "columns", lambda stream: 30)
    monkeypatch.setattr(progress_bar, "_SECONDS", 0.0)
    output = Terminal()
    for _ in (bar := mx.progress(range(3), "a long description of an epoch", file=output)):
        bar.set_postfix(loss=1.0)
        bar.set_description("short")
    shown = output.getvalue().split("\r")
    assert all(len(line.rstrip("\n")) < 30 for line in shown)
    assert "\x1b" not in output.getvalue(), "not every terminal understands that"
    assert [line for line in shown if line.startswith("short: 0") and line.endswith(" ")], "the rest is overwritten"
    assert list(mx.progress(range(3), leave=False, file=(gone := Terminal()))) == [0, 1, 2]
    assert not gone.getvalue().rstrip("\r").split("\r")[-1].strip()


@pytest.mark.usefixtures("lines")
def test_there_may_be_no_output(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    assert list(mx.progress([1, 2])) == [1, 2]
    assert list(mx.progress([1, 2], file=(silent := io.StringIO()), disable=None)) == [1, 2]
    assert silent.getvalue() == ""
    with pytest.raises(TypeError, match="not iterable"):
        mx.progress(5, file=io.StringIO())


def test_what_streams_are(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = io.StringIO()
    closed.close()
    assert not any(map(terminal.is_terminal, (None, closed, io.StringIO(), object())))
    assert terminal.moves_cursor(Terminal())
    monkeypatch.setenv("TERM", "dumb")
    assert not terminal.moves_cursor(Terminal())
    assert terminal.columns(None) == 80

    class Narrow(Terminal):
        def fileno(self) -> int:
            return 1

    sizes: dict[int, Any] = {1: os.terminal_size((40, 20))}
    monkeypatch.setattr(os, "get_terminal_size", sizes.__getitem__)
    assert terminal.columns(Narrow()) == 40
    sizes[1] = os.terminal_size((0, 0))
    assert terminal.columns(Narrow()) == 80
