"""Turn NumPy-style docstrings into Markdown.

Takes the text that ``help`` shows; hands Markdown to :mod:`reference`. Sections become headings of the site, parameters
become definition lists, and sessions become code blocks.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable

from formulas import mathml

__all__ = ["Resolve", "brief", "markdown_of"]

#: returns the address of a name in the reference, or None
Resolve = Callable[[str], "str | None"]

_SECTION = re.compile(r"^([A-Z][A-Za-z ]+)\n-{3,}\n", re.MULTILINE)
_ENTRY = re.compile(r"^(\*{0,2}\w+(?:, \*{0,2}\w+)*)(?: : (.*))?$")
_ROLE = re.compile(r":[a-z]+:`~?\.?([^`]+)`")
_CODE = re.compile(r"(``.+?``|`[^`\n]+`)", re.DOTALL)
_ENTRIES = {"Parameters", "Attributes", "Other Parameters"}


def brief(doc: str | None) -> str:
    """Return the first paragraph of a docstring on one line."""
    return " ".join(inspect.cleandoc(doc or "").partition("\n\n")[0].split())


def markdown_of(doc: str | None, resolve: Resolve) -> str:
    """Return a docstring as Markdown."""
    parts = _SECTION.split(inspect.cleandoc(doc or ""))
    shown = [_prose(parts[0], resolve)]
    for title, text in zip(parts[1::2], parts[2::2], strict=True):
        shown.append(f'<p class="section">{title}</p>')
        shown.append(_entries(text, resolve) if title in _ENTRIES else _section(title, text, resolve))
    return "\n\n".join([part for part in shown if part.strip()])


def inline(text: str, resolve: Resolve) -> str:
    """Return one paragraph with its roles as links or code, and its other signs escaped.

    >>> inline("Return x * y * z of :class:`~phonograd.nd.Two`, or ``*kernel``.", lambda name: None)
    'Return x \\\\* y \\\\* z of `Two`, or ``*kernel``.'
    """

    def role(match: re.Match[str]) -> str:
        target = match[1]
        shown, address = target.rpartition(".")[2], resolve(target)
        return f"[`{shown}`]({address})" if address else f"`{shown}`"

    pieces: list[str] = []
    for index, piece in enumerate(_CODE.split(_ROLE.sub(role, text))):
        pieces.append(piece if index % 2 else re.sub(r"(?<!\\)([*<]|\b_|_\b)", r"\\\1", piece))
    return "".join(pieces)


def _section(title: str, text: str, resolve: Resolve) -> str:
    if title not in ("Returns", "Yields", "Raises"):
        return _prose(text, resolve)
    lines: list[str] = []
    for line in inspect.cleandoc(text).splitlines():
        is_type = bool(line) and not line.startswith(" ") and not line.rstrip().endswith(".")
        lines.append(f"`{line}`\n" if is_type and "`" not in line else f"{inline(line.strip(), resolve)}")
    return "\n".join(lines)


def _entries(text: str, resolve: Resolve) -> str:
    """Return a definition list: names with their types, and what they mean."""
    shown: list[str] = []
    described: list[str] = []

    def end() -> None:
        if described:
            paragraphs = _prose("\n".join(described), resolve).split("\n")
            shown.append(":   " + "\n    ".join(paragraphs).rstrip() + "\n")
            described.clear()

    for line in inspect.cleandoc(text).splitlines():
        found = _ENTRY.match(line) if line and not line.startswith(" ") else None
        if found:
            end()
            names = ", ".join([f"`{name}`" for name in found[1].split(", ")])
            shown.append(f"{names}{_type(found[2])}")
        elif line.strip() and not line.startswith(" "):
            end()
            shown.append(f"{inline(line, resolve)}\n")
        else:
            described.append(line.removeprefix("    "))
    end()
    return re.sub(r"\n{3,}", "\n\n", "\n".join(_separated(shown)))


def _separated(lines: list[str]) -> list[str]:
    """Return lines of a definition list with a meaning for each term, as Markdown requires."""
    found: list[str] = []
    for index, line in enumerate(lines):
        found.append(line)
        is_term = line.startswith("`")
        if is_term and (index + 1 == len(lines) or not lines[index + 1].startswith(":")):
            found.append(":   \n")
    return found


def _type(text: str | None) -> str:
    if not text:
        return ""
    kind, _, default = text.partition(", default ")
    shown = f' : <span class="type">`{kind}`</span>'
    return f"{shown}, default `{default}`" if default else shown


def _prose(text: str, resolve: Resolve) -> str:
    """Return paragraphs, sessions and indented blocks."""
    shown: list[str] = []
    paragraphs = re.split(r"\n\s*\n", text.strip("\n"))
    literal = False
    for paragraph in paragraphs:
        plain = inspect.cleandoc(paragraph)
        if plain.startswith(">>>"):
            shown.append(_fenced(plain, "pycon"))
        elif plain.startswith(".. math::"):
            shown.append(mathml(inspect.cleandoc(plain.removeprefix(".. math::"))))
        elif literal and paragraph.startswith(" "):
            shown.append(_fenced(plain, "python"))
            continue
        elif _is_list(plain):
            shown.append(_list(plain, resolve))
        elif plain:
            shown.append(inline(re.sub(r"::$", ":", plain), resolve))
        literal = plain.endswith("::")
    return "\n\n".join(shown)


def _is_list(text: str) -> bool:
    return text.startswith(("* ", "- "))


def _list(text: str, resolve: Resolve) -> str:
    items = [" ".join(item.split()) for item in re.split(r"^[*-] ", text, flags=re.MULTILINE) if item.strip()]
    return "\n".join([f"- {inline(item, resolve)}" for item in items])


def _fenced(code: str, language: str) -> str:
    return f"```{language}\n{code}\n```"
