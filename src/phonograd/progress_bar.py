"""Show the progress of loops in a terminal: ``for batch in mx.progress(loader): ...``."""

from __future__ import annotations

import functools
import numbers
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Generic, TextIO, TypeVar

from .core.base.terminal import columns, end_line, is_terminal
from .distributed.world import is_main

__all__ = ["progress"]

Item = TypeVar("Item")

#: the shortest interval between two updates of the line
_SECONDS = 0.1


def progress(
    loader: Iterable[Item] | None,
    description: str = "",
    total: int | None = None,
    file: TextIO | None = None,
    **options: Any,
) -> Any:
    """Return an iterable over the same items that shows its progress and speed.

    The result has the methods ``set_postfix(loss=...)`` for numbers and arrays with one element, ``set_description``,
    ``update`` and ``close``. It supports several passes, with and without tqdm.

    Parameters
    ----------
    loader
        Any iterable, or None for a bar that ``update(count)`` advances.
    description
        The text in front; tqdm's name ``desc`` works, too.
    total
        The number of items. The default is ``len(loader)``, if it has a length.
    file
        The stream to write to. None means the standard error stream, and no bar in ranks other than 0.
    **options
        Arguments of ``tqdm``, which draws the bar if it is installed (``pip install 'phonograd[progress]'``). Without
        tqdm, or if the standard error stream is no terminal, the function writes a line of text instead.

    >>> import io
    >>> sum(progress([1, 2, 3], file=io.StringIO()))
    6
    """
    output = sys.stderr if file is None else file
    if file is None and not is_main():
        # one bar for all processes that train together
        output = None
    description = options.pop("desc", None) or description
    if total is None:
        try:
            total = len(loader)  # type: ignore[arg-type]
        except TypeError:
            total = None
    try:
        from tqdm.auto import tqdm
    except ModuleNotFoundError:
        return _Lines(loader, description, total, output, options)
    if output is None or (file is None and not is_terminal(output) and "tqdm.notebook" not in sys.modules):
        return _Lines(loader, description, total, output, options)
    return _bar_class(tqdm)(loader, desc=description or None, total=total, file=output, **options)


@functools.cache
def _bar_class(base: Any) -> Any:
    """Return a subclass of tqdm's class whose postfix accepts arrays and keeps the order of values."""

    class Bar(base):  # type: ignore[misc]
        def set_postfix(
            self, ordered_dict: Mapping[str, Any] | None = None, refresh: bool | None = True, **kwargs: Any
        ) -> None:
            self.set_postfix_str(_postfix({**(ordered_dict or {}), **kwargs}), refresh)

        def close(self) -> None:
            if not self.disable:
                end_line()
            super().close()

    return Bar


class _Lines(Generic[Item]):
    """Iterate over items, and write a line that is updated in a terminal, or written once at the end elsewhere."""

    def __init__(
        self,
        items: Iterable[Item] | None,
        description: str,
        total: int | None,
        output: TextIO | None,
        options: Mapping[str, Any],
    ) -> None:
        if items is not None and not hasattr(items, "__iter__"):
            iter(items)  # raises the same error as a loop
        self._items = items
        self._output = output
        self._overwrites = is_terminal(output)
        disable = options.get("disable", False)
        self._disabled = output is None or (not self._overwrites if disable is None else bool(disable))
        self._leave = options.get("leave", True)
        self._description, self._postfix = description, ""
        #: the number of items, or None
        self.total = total
        self._start()

    def _start(self) -> None:
        #: the number of items so far
        self.n = 0
        self._open = True
        self._begin = self._last = time.perf_counter()
        self._width = 0

    def __iter__(self) -> Iterator[Item]:
        self._start()
        try:
            for item in () if self._items is None else self._items:
                yield item
                self.update()
        finally:
            self.close()

    def __enter__(self) -> _Lines[Item]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        if self.total is None:
            raise TypeError("the number of items is unknown")
        return self.total

    def update(self, n: int = 1) -> None:
        """Count `n` more items."""
        self.n += n
        self._refresh(_SECONDS)

    def set_description(self, desc: str | None = None, refresh: bool = True) -> None:
        """Set the text in front."""
        self._description = desc or ""
        self._refresh(_SECONDS)

    set_description_str = set_description

    def set_postfix(self, ordered_dict: Mapping[str, Any] | None = None, refresh: bool = True, **kwargs: Any) -> None:
        """Set named values at the end of the line."""
        self.set_postfix_str(_postfix({**(ordered_dict or {}), **kwargs}))

    def set_postfix_str(self, s: str = "", refresh: bool = True) -> None:
        """Set the text at the end of the line."""
        self._postfix = str(s)
        self._refresh(_SECONDS)

    def refresh(self) -> None:
        """Update the line in a terminal."""
        self._refresh(0.0)

    def write(self, s: str, file: TextIO | None = None, end: str = "\n") -> None:
        """Write a text above the line."""
        if self._overwrites and self._width:
            self._show("", "\r")
        output = sys.stdout if file is None else file
        output.write(s + end)
        self._refresh(0.0)

    def close(self) -> None:
        """End the line. Later counts are not shown."""
        if not self._open:
            return
        self._open = False
        if self._leave or not self._overwrites:
            self._show(self._text(), "\n")
            end_line()
        else:
            self._show("", "\r")

    def _refresh(self, least_seconds: float) -> None:
        """Update the line in a terminal, unless the last update is too recent."""
        now = time.perf_counter()
        if self._overwrites and self._open and now - self._last >= least_seconds:
            self._last = now
            self._show(self._text(), "")

    def _text(self) -> str:
        text = _line(self._description, self.n, self.total, time.perf_counter() - self._begin, ended=not self._open)
        return f"{text}, {self._postfix}" if self._postfix else text

    def _show(self, text: str, ending: str) -> None:
        if self._disabled or self._output is None:
            return
        if self._overwrites:
            # a wrapped line could not be overwritten; padded with spaces, because some terminals cannot clear a line
            text = text[: columns(self._output) - 1]
            padded = text.ljust(self._width)
            self._width = len(text)
            text = f"\r{padded}"
        self._output.write(text + ending)
        self._output.flush()


def _postfix(values: Mapping[str, Any]) -> str:
    """Format named values.

    >>> import numpy
    >>> _postfix({"loss": numpy.float32(0.123456), "step": 123456, "rate": 0.1})
    'loss=0.123, step=123456, rate=0.1'
    """
    return ", ".join([f"{name}={_value(value)}" for name, value in values.items()])


def _value(value: Any) -> str:
    if hasattr(value, "asscalar") and value.size == 1:
        value = value.asscalar()
    if isinstance(value, numbers.Real) and not isinstance(value, numbers.Integral):
        # prefer 1234.5 to 1.23e+03
        return min(f"{float(value):.3g}", str(float(value)), key=len)
    return " ".join(str(value).split())


def _line(description: str, count: int, total: int | None, seconds: float, ended: bool = False) -> str:
    """Return the text of the line.

    >>> _line("epoch 1", 5, 20, 2.0)
    'epoch 1: 5/20 (25%), 2.5 per second, 6 s left'
    >>> _line("", 3, None, 60.0)
    '3, 20 s each'
    """
    text = f"{description}: " if description else ""
    text += f"{count}/{total} ({100 * count // total}%)" if total else str(count)
    if not count or seconds <= 0:
        return text
    speed = count / seconds
    if speed >= 1:
        text += f", {speed:.0f} per second" if speed >= 100 else f", {speed:.3g} per second"
    else:
        text += f", {1 / speed:.3g} s each"
    return text if ended or not total or count >= total else f"{text}, {_duration((total - count) / speed)} left"


def _duration(seconds: float) -> str:
    """Format a duration.

    >>> _duration(59), _duration(600), _duration(9000)
    ('59 s', '10 min', '2 h 30 min')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"
