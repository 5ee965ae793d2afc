"""Progress of loops in a terminal: ``for batch in mx.progress(loader): ...``."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Generic, TextIO, TypeVar

__all__ = ["progress"]

Item = TypeVar("Item")

#: how often the line is written, at most
_SECONDS = 0.1


def progress(
    loader: Iterable[Item], description: str = "", total: int | None = None, file: TextIO | None = None, **options: Any
) -> Any:
    """Return an iterable over the same items, which shows how far it is and how fast.

    It has ``set_postfix(loss=...)`` and ``set_description``, whether tqdm draws it or not.

    Parameters
    ----------
    loader
        Anything that can be iterated over.
    description
        What stands in front.
    total
        How many items there are; ``len(loader)`` if it has a length.
    file
        Where to write; the standard error stream if this is None.
    **options
        Arguments of ``tqdm``, which draws the bar if it is installed (``pip install 'phonograd[progress]'``); a line of
        text does otherwise, or if the output is no terminal.

    >>> import io
    >>> sum(progress([1, 2, 3], file=io.StringIO()))
    6
    """
    output = sys.stderr if file is None else file
    if total is None:
        try:
            total = len(loader)  # type: ignore[arg-type]
        except TypeError:
            total = None
    try:
        from tqdm.auto import tqdm
    except ModuleNotFoundError:
        return _Lines(loader, description, total, output, options)
    if file is None and not output.isatty() and "tqdm.notebook" not in sys.modules:
        return _Lines(loader, description, total, output, options)
    return tqdm(loader, desc=description or None, total=total, file=output, **options)


class _Lines(Generic[Item]):
    """The items, and a line about them that is overwritten in a terminal, or written once at the end elsewhere."""

    def __init__(
        self, items: Iterable[Item], description: str, total: int | None, output: TextIO, options: Mapping[str, Any]
    ) -> None:
        self._items = iter(items)
        self._description, self._total, self._output = description, total, output
        self._postfix = ""
        self._disabled = bool(options.get("disable"))
        self._begin = time.perf_counter()
        self._last = self._begin
        #: how many items there were
        self.n = 0

    def __iter__(self) -> Iterator[Item]:
        self._begin = self._last = time.perf_counter()
        try:
            for item in self._items:
                yield item
                self.n += 1
                self.refresh(_SECONDS)
        finally:
            self._write("\n")

    def __len__(self) -> int:
        if self._total is None:
            raise TypeError("it is not known how many items there are")
        return self._total

    def set_description(self, desc: str | None = None, refresh: bool = True) -> None:
        """Have something else stand in front."""
        self._description = desc or ""

    def set_postfix(self, ordered_dict: Mapping[str, Any] | None = None, refresh: bool = True, **kwargs: Any) -> None:
        """Have named values stand behind."""
        values = {**(ordered_dict or {}), **kwargs}
        self._postfix = ", ".join(
            [f"{name}={value:.3g}" if isinstance(value, float) else f"{name}={value}" for name, value in values.items()]
        )

    def set_postfix_str(self, s: str = "", refresh: bool = True) -> None:
        """Have a text stand behind."""
        self._postfix = str(s)

    def refresh(self, least_seconds: float = 0.0) -> None:
        """Write the line again in a terminal, if the last one is old enough."""
        now = time.perf_counter()
        if self._output.isatty() and now - self._last >= least_seconds:
            self._last = now
            self._write("")

    def close(self) -> None:
        """Do nothing more: the line ends with the loop."""

    def _write(self, ending: str) -> None:
        if self._disabled:
            return
        text = _line(self._description, self.n, self._total, time.perf_counter() - self._begin)
        text += f", {self._postfix}" if self._postfix else ""
        is_terminal = self._output.isatty()
        self._output.write(f"\r{text}\x1b[K{ending}" if is_terminal else text + ending)
        self._output.flush()


def _line(description: str, count: int, total: int | None, seconds: float) -> str:
    """Return the text of a line.

    >>> _line("epoch 1", 5, 20, 2.0)
    'epoch 1: 5/20 (25%), 2.5 per second, 6 s left'
    """
    speed = count / seconds if seconds > 0 else 0.0
    text = f"{description}: " if description else ""
    if total:
        text += f"{count}/{total} ({100 * count // total}%), {speed:.3g} per second"
        if count < total and speed > 0:
            text += f", {(total - count) / speed:.0f} s left"
        return text
    return text + f"{count}, {speed:.3g} per second"
