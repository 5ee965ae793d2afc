"""Tables as text, Markdown and HTML, and the formatting of times, sizes and names in them."""

from __future__ import annotations

import html
import itertools
import os
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from ..core.base.files import write_atomically

__all__ = [
    "bytes_text",
    "count_text",
    "cut",
    "fit_width",
    "html_table",
    "markdown_table",
    "printable",
    "text_table",
    "time_text",
    "write_chunks",
    "write_text",
]


#: pieces that are joined before they are written: about 64 KB of a trace
_PIECES = 512


def write_chunks(path: str | os.PathLike[str], pieces: Iterator[str] | Iterator[bytes]) -> None:
    """Write a file atomically from small pieces, in little memory; ``.gz`` paths are compressed.

    Equal pieces produce equal files. Texts may hold any character that names may hold.
    """
    chunks = _chunks(pieces)
    write_atomically(path, _compress(chunks) if os.fspath(path).endswith(".gz") else chunks, durable=False)


def _chunks(pieces: Iterator[Any]) -> Iterator[bytes]:
    """Yield the pieces as bytes, many of them joined."""
    while batch := list(itertools.islice(pieces, _PIECES)):
        # lone surrogates have no encoding
        yield "".join(batch).encode("utf-8", "backslashreplace") if isinstance(batch[0], str) else b"".join(batch)


def _compress(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the contents of a gzip file; its header holds no time."""
    packer = zlib.compressobj(6, zlib.DEFLATED, wbits=31)
    for chunk in chunks:
        yield packer.compress(chunk)
    yield packer.flush()


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a text file atomically; the text may hold any character that names may hold."""
    # lone surrogates have no encoding
    write_atomically(path, [text.encode("utf-8", "backslashreplace")], durable=False)


def text_table(titles: Sequence[str], rows: Sequence[Sequence[str]], below: Sequence[Sequence[str]] = ()) -> list[str]:
    """Return the lines of a table in PyTorch's layout: rule, titles, rule, rows, rule.

    ``below`` holds lines to show under each row.
    """
    columns = list(zip(titles, *rows, strict=True))
    widths = [max(map(len, column)) for column in columns]
    rule = "  ".join(["-" * width for width in widths])
    lines = [rule, _line(titles, widths), rule]
    for index, row in enumerate(rows):
        lines.append(_line(row, widths))
        lines += [" " * 4 + text for text in (below[index] if below else ())]
    return [*lines, rule]


def fit_width(
    titles: Sequence[str], rows: Sequence[Sequence[str]], width: int, dispensable: Collection[str], least_name: int = 20
) -> tuple[list[str], list[list[str]]]:
    """Return titles and rows that fit into a width, if possible.

    It drops the dispensable columns in their order, and finally cuts names (the first column).

    >>> fit_width(["Name", "Calls", "Time"], [["convolution", "3", "1.000ms"]], 22, ["Calls"])
    (['Name', 'Time'], [['convolution', '1.000ms']])
    """
    kept = list(range(len(titles)))

    def excess(name_width: int | None = None) -> int:
        widths = [max(len(line[place]) for line in (titles, *rows)) for place in kept]
        widths[0] = widths[0] if name_width is None else min(widths[0], name_width)
        return sum(widths) + 2 * (len(widths) - 1) - width

    for title in dispensable:
        if excess(least_name) > 0 and title in titles:
            kept.remove(titles.index(title))
    longest = max([len(line[0]) for line in (titles, *rows)])
    name_width = max(longest - max(excess(), 0), least_name)
    shown = [[cut(row[0], name_width), *[row[place] for place in kept[1:]]] for row in rows]
    return [titles[place] for place in kept], shown


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join([cell.rjust(width) for cell, width in zip(cells, widths, strict=True)])


def markdown_table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table; the first column is left-aligned, the others right-aligned."""
    lines = [list(titles), ["---", *["---:"] * (len(titles) - 1)], *rows]
    return "\n".join(["| " + " | ".join([cell.replace("|", "\\|") for cell in line]) + " |" for line in lines]) + "\n"


def html_table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return an HTML table with all texts escaped."""
    # the first column holds names
    styles = [' style="text-align: left"', *[""] * (len(titles) - 1)]
    head = "".join([f"<th{style}>{html.escape(title)}</th>" for style, title in zip(styles, titles)])
    lines = ["".join([f"<td{style}>{html.escape(cell)}</td>" for style, cell in zip(styles, row)]) for row in rows]
    body = "".join([f"<tr>{line}</tr>\n" for line in lines])
    return f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody>\n</table>\n"


def printable(name: str) -> str:
    """Return a name as one line for any terminal; unprintable characters are escaped."""
    if name.isprintable():
        return name
    return "".join([char if char.isprintable() else ascii(char)[1:-1] for char in name])


def cut(text: str, width: int, left: bool = False) -> str:
    """Return a text cut to a width, at its end or (``left``) at its beginning."""
    if len(text) <= width:
        return text
    kept = max(width - 3, 0)
    return "..." + text[len(text) - kept :] if left else text[:kept] + "..."


def time_text(microseconds: float, unit: str | None = None) -> str:
    """Return a time in a unit, by default in the one that fits."""
    if unit is None:
        unit = "s" if microseconds >= 1e6 else "ms" if microseconds >= 1e3 else "us"
    return f"{microseconds / {'s': 1e6, 'ms': 1e3, 'us': 1.0}[unit]:.3f}{unit}"


def bytes_text(count: float) -> str:
    """Return a number of bytes in the unit that fits.

    >>> bytes_text(8 * 1024**2), bytes_text(-3), bytes_text(0)
    ('8.00 MB', '-3 B', '0 B')
    """
    for exponent, unit in ((3, "GB"), (2, "MB"), (1, "KB")):
        if abs(count) >= 1024**exponent:
            return f"{count / 1024**exponent:.2f} {unit}"
    return f"{count:.0f} B"


def count_text(count: float) -> str:
    """Return a large number with the prefix that fits.

    >>> count_text(2_500_000), count_text(12)
    ('2.500M', '12')
    """
    for size, prefix in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "K")):
        if abs(count) >= size:
            return f"{count / size:.3f}{prefix}"
    return f"{count:.0f}"
