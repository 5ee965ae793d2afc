"""Progress of loops in a terminal: ``for batch in mx.progress(loader): ...``."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from typing import Any, TextIO, TypeVar

__all__ = ["progress"]

Item = TypeVar("Item")

#: how often the line is written, at most
_SECONDS = 0.1


def progress(
    loader: Iterable[Item], description: str = "", total: int | None = None, file: TextIO | None = None, **options: Any
) -> Iterable[Item]:
    """Return an iterable over the same items, which shows how far it is and how fast.

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
        return _lines(loader, description, total, output)
    if file is None and not output.isatty() and "tqdm.notebook" not in sys.modules:
        return _lines(loader, description, total, output)
    bar: Iterable[Item] = tqdm(loader, desc=description or None, total=total, file=output, **options)
    return bar


def _lines(items: Iterable[Item], description: str, total: int | None, output: TextIO) -> Iterator[Item]:
    """Yield the items, and write a line that is overwritten in a terminal, or one at the end elsewhere."""
    begin = last = time.perf_counter()
    count = 0
    is_terminal = output.isatty()
    for count, item in enumerate(items, 1):
        yield item
        now = time.perf_counter()
        if is_terminal and now - last >= _SECONDS:
            last = now
            output.write("\r" + _line(description, count, total, now - begin))
            output.flush()
    end = _line(description, count, total, time.perf_counter() - begin)
    output.write(("\r" if is_terminal else "") + end + "\n")
    output.flush()


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
