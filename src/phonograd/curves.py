"""Curves of a training: values collected step by step, shown as a line of text or written as a picture.

>>> curves = Curves()
>>> for step in range(8):
...     curves.add(loss=2.0**-step)
>>> print(curves)
loss  █▄▃▂▁▁▁▁  1 → 0.00781
"""

from __future__ import annotations

import io
import itertools
import math
import os
import sys
from collections.abc import Sequence
from typing import Any, TextIO

from .files import write_atomically

__all__ = ["Curves", "shows_bars", "sparkline"]

_BARS = "▁▂▃▄▅▆▇█"
#: for streams that cannot have those
_PLAIN_BARS = "_.-:=+*#"


def shows_bars(output: TextIO) -> bool:
    """Return whether a stream can have small bars, or only the letters of ASCII."""
    try:
        f"{_BARS}→".encode(getattr(output, "encoding", None) or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def sparkline(values: Sequence[float], width: int = 60, bars: str = _BARS) -> str:
    """Return values as small bars, the means of neighbours where there are more than `width`.

    >>> sparkline([0, 1, 2, 3])
    '▁▃▆█'
    >>> sparkline([1, float("nan"), 1])
    '▁ ▁'
    """
    count = min(width, len(values))
    bounds = [len(values) * place // count for place in range(count + 1)] if count else [0]
    # a quarter of them, or the distance of large ones would be infinite
    quarters = [float(value) * 0.25 for value in values]
    groups = [quarters[begin:end] for begin, end in itertools.pairwise(bounds)]
    means = [sum(group) / len(group) for group in groups]
    finite = [mean for mean in means if math.isfinite(mean)]
    least, most = (min(finite), max(finite)) if finite else (0.0, 0.0)
    scale = (len(bars) - 1) / (most - least) if most > least else 0.0
    return "".join([bars[round((mean - least) * scale)] if math.isfinite(mean) else " " for mean in means])


def _number(name: str, value: Any) -> float:
    """Return a value as a number, or say whose value is none."""
    try:
        return float(value.asscalar() if hasattr(value, "asscalar") else value)
    except (TypeError, ValueError) as error:
        raise type(error)(f"the value of {name!r} must be a number, or an array with one element: {error}") from error


class Curves:
    """Named series of numbers.

    Parameters
    ----------
    file
        Where :meth:`show` writes; the standard error stream if this is None.
    """

    def __init__(self, file: TextIO | None = None) -> None:
        self._file = file
        self._shown = 0
        self.values: dict[str, tuple[list[int], list[float]]] = {}

    def add(self, step: int | None = None, **values: Any) -> None:
        """Append a value to each of some series: numbers, or arrays with one element.

        `step` is the place on the horizontal axis; one after the last if this is None.
        """
        # all of them before any is kept: one that is no number leaves nothing behind
        numbers = {name: _number(name, value) for name, value in values.items()}
        for name, number in numbers.items():
            steps, series = self.values.setdefault(name, ([], []))
            steps.append(step if step is not None else steps[-1] + 1 if steps else 0)
            series.append(number)

    def text(self, width: int = 60, plain: bool = False) -> str:
        """Return a line for each series: its name, its sparkline, its first and its last value.

        With `plain` there are only letters of ASCII in it.
        """
        longest = max(map(len, self.values), default=0)
        bars, arrow = (_PLAIN_BARS, "->") if plain else (_BARS, "→")
        return "\n".join(
            f"{name:<{longest}}  {sparkline(series, width, bars)}  {series[0]:.3g} {arrow} {series[-1]:.3g}"
            for name, (_, series) in self.values.items()
        )

    def __str__(self) -> str:
        return self.text()

    def show(self, width: int = 60) -> None:
        """Write the lines of :meth:`text`; in a terminal they replace those of the last call."""
        output = sys.stderr if self._file is None else self._file
        if self._shown and output.isatty():
            output.write(f"\x1b[{self._shown}A")
        ending = "\x1b[K\n" if output.isatty() else "\n"
        lines = self.text(width, plain=not shows_bars(output)).splitlines()
        output.write("".join([line + ending for line in lines]))
        output.flush()
        self._shown = len(lines)

    def save(self, path: str | os.PathLike[str], title: str = "", log: bool = False) -> None:
        """Write a picture; the ending of the path, such as ``.png`` or ``.svg``, says of which kind.

        Parameters
        ----------
        path
            The file.
        title
            What stands above.
        log
            Whether the vertical axis is logarithmic.
        """
        try:
            from matplotlib.backends.backend_agg import FigureCanvasAgg
            from matplotlib.figure import Figure
        except ModuleNotFoundError:
            raise ModuleNotFoundError(
                "pictures of curves are drawn by matplotlib, which is not installed: pip install 'phonograd[plot]'",
                name="matplotlib",
            ) from None
        kind = os.path.splitext(os.fspath(path))[1].lstrip(".").lower() or "png"
        # not pyplot, which keeps figures and may open windows
        figure = Figure(figsize=(7, 4), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.add_subplot()
        for name, (steps, series) in self.values.items():
            axes.plot(steps, series, label=name)
        axes.set_xlabel("step")
        axes.set_title(title)
        axes.grid(alpha=0.3)
        if log:
            axes.set_yscale("log")
        if self.values:
            axes.legend()
        picture = io.BytesIO()
        figure.savefig(picture, format=kind)
        write_atomically(path, [picture.getvalue()], durable=False)
