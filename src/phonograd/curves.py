"""Collect values during training, and show them as sparklines or write them as an image.

>>> curves = Curves()
>>> for step in range(8):
...     curves.add(loss=2.0**-step)
>>> print(curves)
loss  █▄▃▂▁▁▁▁  1 → 0.00781
"""

from __future__ import annotations

import importlib.util
import io
import itertools
import math
import os
import sys
from collections.abc import Sequence
from typing import Any, TextIO

from .core.base.docstrings import complete_classes
from .core.base.files import write_atomically
from .core.base.interactive import notebook
from .core.base.terminal import (
    can_write,
    columns,
    end_line,
    is_terminal,
    lines_ended,
    moves_cursor,
)

__all__ = ["Curves", "shows_bars", "sparkline"]

_BARS = "▁▂▃▄▅▆▇█"
#: for streams that cannot encode the bars
_PLAIN_BARS = "_.-:=+*#"


def shows_bars(output: TextIO) -> bool:
    """Return whether a stream can encode bars; otherwise it gets only ASCII characters."""
    return can_write(output, f"{_BARS}→")


def sparkline(values: Sequence[float], width: int = 60, bars: str = _BARS) -> str:
    """Return values as small bars; each bar is the mean of neighbors if there are more values than `width`.

    >>> sparkline([0, 1, 2, 3])
    '▁▃▆█'
    >>> sparkline([1, float("nan"), 1])
    '▁ ▁'
    """
    count = min(width, len(values))
    bounds = [len(values) * place // count for place in range(count + 1)] if count else [0]
    # a quarter of each value, because the range of the largest floats would overflow
    quarters = [float(value) * 0.25 for value in values]
    groups = [quarters[begin:end] for begin, end in itertools.pairwise(bounds)]
    means = [sum(group) / len(group) for group in groups]
    finite = [mean for mean in means if math.isfinite(mean)]
    least, most = (min(finite), max(finite)) if finite else (0.0, 0.0)
    scale = (len(bars) - 1) / (most - least) if most > least else 0.0
    return "".join([bars[round((mean - least) * scale)] if math.isfinite(mean) else " " for mean in means])


def _number(name: str, value: Any) -> float:
    """Return a value as a number. Raise an error with its name if it is none."""
    try:
        if hasattr(value, "asscalar"):
            value = value.asscalar()
        return float(value.item() if getattr(value, "size", None) == 1 else value)
    except (TypeError, ValueError) as error:
        raise type(error)(f"the value of {name!r} must be a number, or an array with one element: {error}") from error


def _literal(text: str) -> str:
    """Return a text that matplotlib does not interpret as a formula."""
    return text.replace("$", r"\$")


class Curves:
    """Collect named series of numbers.

    Parameters
    ----------
    file
        The stream that :meth:`show` writes to. None means the standard error stream.
    """

    def __init__(self, file: TextIO | None = None) -> None:
        self._file = file
        self._shown = 0
        self._ended = 0
        #: the display of a notebook, and the number of the cell that made it
        self._display: tuple[Any, int] | None = None
        self.values: dict[str, tuple[list[float], list[float]]] = {}

    def add(self, step: float | None = None, **values: Any) -> None:
        """Append a value to each of some series: a number, or an array with one element.

        `step` is the position on the horizontal axis. None means the last position plus 1.
        """
        # convert all values before keeping any, so that an invalid one changes nothing
        numbers = {name: _number(name, value) for name, value in values.items()}
        if step is not None and not isinstance(step, int):
            step = _number("step", step)
        for name, number in numbers.items():
            steps, series = self.values.setdefault(name, ([], []))
            steps.append(step if step is not None else steps[-1] + 1 if steps else 0)
            series.append(number)

    def text(self, width: int = 60, plain: bool = False) -> str:
        """Return one line per series: its name, its sparkline, and its first and last value.

        `plain` restricts the text to ASCII.
        """
        bars, arrow = (_PLAIN_BARS, "->") if plain else (_BARS, "→")
        return "\n".join(
            f"{name}  {sparkline(series, width, bars)}  {ends}"
            for (name, ends), (_, series) in zip(self._sides(arrow), self.values.values())
        )

    def _sides(self, arrow: str) -> list[tuple[str, str]]:
        """Return the texts before and after each sparkline."""
        longest = max(map(len, self.values), default=0)
        return [
            (name.ljust(longest), f"{series[0]:.3g} {arrow} {series[-1]:.3g}")
            for name, (_, series) in self.values.items()
        ]

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return self.text() or "<Curves without values>"

    def show(self, width: int = 60) -> None:
        """Write the lines of :meth:`text`, shortened to the width of the terminal.

        In a terminal they replace the lines of the last call, unless a bar of ``mx.progress`` has ended in between.
        A notebook shows the picture, and replaces that of the last call in the same cell.
        """
        if self._file is None and (shell := notebook()) is not None:
            self._show_picture(shell.execution_count)
            return
        output = sys.stderr if self._file is None else self._file
        if output is None:
            return
        plain = not shows_bars(output)
        room, ending = 10**6, "\n"
        if is_terminal(output):
            # wrapped lines could not be replaced
            room = columns(output) - 1
            taken = max([len(name) + len(ends) + 4 for name, ends in self._sides("->")], default=0)
            width = max(min(width, room - taken), 1)
        if moves_cursor(output):
            ending = "\x1b[K\n"
            if self._shown and self._ended == lines_ended():
                output.write(f"\x1b[{self._shown}A")
        lines = self.text(width, plain).splitlines()
        output.write("".join([line[:room] + ending for line in lines]))
        output.flush()
        end_line()
        self._shown, self._ended = len(lines), lines_ended()

    def _show_picture(self, cell: int) -> None:
        """Show the picture in the running cell of a notebook, in place of the last one."""
        if self._display is not None and self._display[1] == cell:
            self._display[0].update(self)
        else:
            from IPython.display import display

            self._display = display(self, display_id=True), cell

    def save(self, path: str | os.PathLike[str], title: str = "", log: bool = False) -> None:
        """Write an image; the extension of the path, such as ``.png`` or ``.svg``, selects its format.

        Parameters
        ----------
        path
            The path of the file.
        title
            The title above the image.
        log
            Whether the vertical axis is logarithmic.
        """
        kind = os.path.splitext(os.fspath(path))[1].lstrip(".").lower() or "png"
        write_atomically(path, [self._picture(kind, title, log)], durable=False)

    def _repr_png_(self) -> bytes | None:
        """Return the image for notebooks, or None without matplotlib; they then show the text."""
        return self._picture("png", "", False) if importlib.util.find_spec("matplotlib") and self.values else None

    def _picture(self, kind: str, title: str, log: bool) -> bytes:
        try:
            from matplotlib.backends.backend_agg import FigureCanvasAgg
            from matplotlib.figure import Figure
            from matplotlib.ticker import MaxNLocator
        except ModuleNotFoundError:
            raise ModuleNotFoundError(
                "curves are drawn by matplotlib, which is not installed: pip install 'phonograd[plot]'",
                name="matplotlib",
            ) from None
        # no pyplot, because it keeps figures and may open windows
        figure = Figure(figsize=(7, 4), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.add_subplot()
        # markers, because a line through a single point is invisible
        lines = [
            axes.plot(steps, series, marker="." if len(series) < 50 else None)[0]
            for steps, series in self.values.values()
        ]
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_xlabel("step")
        axes.set_title(_literal(title))
        axes.grid(alpha=0.3)
        if log:
            axes.set_yscale("log")
        if lines:
            # explicit lines, because a legend omits names that begin with an underscore
            axes.legend(lines, [_literal(name) for name in self.values])
        picture = io.BytesIO()
        figure.savefig(picture, format=kind)
        return picture.getvalue()


complete_classes(globals())
