"""Curves: lines that fit a terminal and replace themselves, and pictures of any names and numbers."""

from __future__ import annotations

import io
import math
import warnings
from pathlib import Path

import numpy as np
import pytest

import phonograd as mx
from phonograd import curves as module
from phonograd.curves import Curves

from .test_progress_bar import Terminal


def test_curves_replace_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    output = Terminal()
    curves = Curves(output)
    for value in (1.0, 0.5):
        curves.add(loss=value, accuracy=value)
        curves.show()
    assert output.getvalue().count("\x1b[2A") == 1
    list(mx.progress([1], file=io.StringIO()))
    curves.show()
    assert output.getvalue().count("\x1b[2A") == 1, "a bar has ended below the curves: it is not written over"
    monkeypatch.setenv("TERM", "dumb")
    before = len(output.getvalue())
    curves.show()
    assert "\x1b" not in output.getvalue()[before:]


def test_curves_fit_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "columns", lambda stream: 30)
    monkeypatch.setenv("TERM", "dumb")
    output = Terminal()
    curves = Curves(output)
    for step in range(100):
        curves.add(loss=1 / (step + 1))
    curves.show()
    (line,) = output.getvalue().splitlines()
    assert 28 <= len(line) <= 29
    assert line.endswith("  1 → 0.01")
    curves.add(**{"x" * 40: 1})
    curves.show()
    assert all(len(line) < 30 for line in output.getvalue().splitlines())


def test_numbers_of_any_kind() -> None:
    curves = Curves()
    curves.add(step=np.int64(3), loss=np.ones((1, 1)))
    curves.add(step=mx.nd.array([4]), loss=mx.nd.array([2]))
    curves.add(loss=np.float16(3))
    assert curves.values == {"loss": ([3, 4, 5], [1, 2, 3])}
    with pytest.raises(TypeError, match="value of 'loss' must be a number"):
        curves.add(loss=None)


@pytest.mark.parametrize("values", [{}, {"_hidden": [1, 2]}, {"a$b_$": [1, 2], "$x^": [2, 3]}, {"loss": [1, math.nan]}])
def test_pictures(tmp_path: Path, values: dict[str, list[float]]) -> None:
    pytest.importorskip("matplotlib")
    curves = Curves()
    for name, series in values.items():
        for number in series:
            curves.add(**{name: number})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        curves.save(tmp_path / "curves.svg", title="5 $ and _")
    picture = (tmp_path / "curves.svg").read_text(encoding="utf-8")
    shown = curves._repr_png_()
    assert shown is None if not values else shown[:4] == b"\x89PNG", "in notebooks"
    assert repr(curves)
    for name in values:
        assert f"<!-- {name} -->" in picture
    assert [entry.name for entry in tmp_path.iterdir()] == ["curves.svg"]


def test_one_point_can_be_seen(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    image = pytest.importorskip("PIL.Image")
    curves = Curves()
    curves.add(loss=1.0)
    curves.save(tmp_path / "one.png")
    with image.open(tmp_path / "one.png") as picture:
        pixels = np.asarray(picture.convert("RGB")).astype(int)
    blue = (pixels[..., 2] - pixels[..., 0] > 100)[150:250, 200:500]
    assert blue.any()
