"""Make the pages of the API reference from the library itself: its registry, signatures and docstrings.

Operators are functions that the library makes at run time, so this module imports it and reads what ``help`` shows.
:mod:`contents` lists the pages. A name links to its first place: ``mx.sym.relu`` links to ``mx.nd.relu``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from docstrings import brief, inline, markdown_of

__all__ = ["Item", "Page", "Reference"]

#: signatures longer than this get a line for each argument
_WIDTH = 88
#: what users call through the block
_UNSHOWN = {"hybrid_forward"}


@dataclass
class Item:
    """One public name: the name that users write, the object, and its name in the module."""

    path: str
    value: Any

    @property
    def name(self) -> str:
        """Return the last part of the path."""
        return self.path.rpartition(".")[2]


@dataclass
class Page:
    """One page: where it is, its title, an introduction in Markdown, and its items."""

    address: str
    title: str
    introduction: str
    items: list[Item] = field(default_factory=list)
    #: names that are described on other pages, with those names
    elsewhere: list[tuple[str, str]] = field(default_factory=list)


class Reference:
    """All pages, and where each name is described."""

    def __init__(self, pages: Iterable[Page]) -> None:
        self.pages = list(pages)
        self._places: dict[str, str] = {}
        self._by_object: dict[int, str] = {}
        for page in self.pages:
            for item in page.items:
                place = f"{page.address}#{item.path}"
                self._places[item.path] = place
                self._places.setdefault(item.name, place)
                module = getattr(item.value, "__module__", None)
                if module:
                    self._places.setdefault(f"{module}.{item.name}", place)
                self._by_object.setdefault(id(item.value), item.path)

    def place(self, name: str) -> str | None:
        """Return the page and anchor of a name, or None."""
        for tried in (name, f"mx.{name.removeprefix('phonograd.')}", name.rpartition(".")[2]):
            if tried in self._places:
                return self._places[tried]
        return None

    def texts(self) -> Iterator[tuple[str, str]]:
        """Return the address and the Markdown of each page."""
        for page in self.pages:
            yield page.address, self._text(page)

    def _text(self, page: Page) -> str:
        def resolve(name: str) -> str | None:
            place = self.place(name)
            return _relative(page.address, place) if place else None

        parts = [f"# {page.title}", page.introduction, _index(page, resolve)]
        parts += [self._item(page, item, resolve) for item in page.items]
        return "\n\n".join([part for part in parts if part]) + "\n"

    def _item(self, page: Page, item: Item, resolve: Callable[[str], str | None]) -> str:
        first = self._by_object[id(item.value)]
        heading = f"## {item.name} {{#{item.path} .reference}}"
        if first != item.path and callable(item.value):
            return f"{heading}\n\nThe same as [`{first}`]({resolve(first)})."
        if isinstance(item.value, type):
            return f"{heading}\n\n{_class(item, resolve)}"
        if callable(item.value):
            return f"{heading}\n\n{_callable(item.path, item.value, resolve)}"
        return f"{heading}\n\n```python\n{item.path} = {item.value!r}\n```"


def _index(page: Page, resolve: Callable[[str], str | None]) -> str:
    """Return the table of all names of a page."""
    rows = [
        f"| [`{item.name}`](#{item.path}) | {_cell(inline(brief(_doc(item.value)), resolve))} |" for item in page.items
    ]
    rows += [f"| [`{name}`]({resolve(target)}) | the same as `{target}` |" for name, target in page.elsewhere]
    return "\n".join(["| name | |", "| --- | --- |", *rows]) if rows else ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _doc(value: Any) -> str | None:
    """Return the docstring of an object, without those of Python's own classes."""
    if not callable(value):
        return None
    found = inspect.getdoc(value)
    return None if isinstance(value, type) and found == inspect.getdoc(object) else found


def _callable(path: str, value: Any, resolve: Callable[[str], str | None]) -> str:
    return "\n\n".join([part for part in (_signature(path, value), markdown_of(_doc(value), resolve)) if part])


def _signature(path: str, value: Any, without_first: bool = False) -> str:
    """Return a code block with a call, one line for each argument if it is long."""
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return f"```python\n{path}(...)\n```"
    arguments = list(signature.parameters.values())[1 if without_first else 0 :]
    shown = signature.replace(parameters=[_plain(one) for one in arguments])
    if isinstance(value, type):
        shown = shown.replace(return_annotation=signature.empty)
    elif isinstance(shown.return_annotation, str):
        shown = shown.replace(return_annotation=_Text(shown.return_annotation))
    text = f"{path}{shown}"
    if len(text) > _WIDTH:
        text = f"{path}(\n{_lines(shown)})"
        if shown.return_annotation is not signature.empty:
            text += f" -> {inspect.formatannotation(shown.return_annotation)}"
    return f"```python\n{text}\n```"


def _lines(signature: inspect.Signature) -> str:
    """Return each argument of a signature on a line, with the ``/`` and ``*`` between them."""
    kinds = inspect.Parameter
    lines: list[str] = []
    before: Any = None
    for one in signature.parameters.values():
        if before is kinds.POSITIONAL_ONLY and one.kind is not kinds.POSITIONAL_ONLY:
            lines.append("    /,\n")
        if one.kind is kinds.KEYWORD_ONLY and before not in (kinds.KEYWORD_ONLY, kinds.VAR_POSITIONAL):
            lines.append("    *,\n")
        lines.append(f"    {one},\n")
        before = one.kind
    if before is kinds.POSITIONAL_ONLY:
        lines.append("    /,\n")
    return "".join(lines)


class _Text:
    """An annotation or a default that prints without quotes or addresses."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def _plain(argument: inspect.Parameter) -> inspect.Parameter:
    """Return an argument whose annotation and default print as in source code."""
    kept = argument
    if isinstance(argument.annotation, str):
        kept = kept.replace(annotation=_Text(argument.annotation))
    default = argument.default
    if default is argument.empty:
        return kept
    if " at 0x" in repr(default):
        kept = kept.replace(default=_Text(getattr(default, "__name__", type(default).__name__)))
    elif isinstance(default, type):
        kept = kept.replace(default=_Text(default.__name__))
    return kept


def _class(item: Item, resolve: Callable[[str], str | None]) -> str:
    value = item.value
    parts = [_signature(item.path, value)]
    bases = [base.__name__ for base in value.__bases__ if base is not object and not base.__name__.startswith("_")]
    links = [f"[`{base}`]({place})" if (place := resolve(base)) else f"`{base}`" for base in bases]
    if links:
        parts.append(f"Bases: {', '.join(links)}")
    parts.append(markdown_of(_doc(value), resolve))
    members = dict(_members(value, resolve))
    operators = {name: place for name in members if (place := _operator_place(value, name, resolve))}
    described = {name: member for name, member in members.items() if name not in operators}
    parts += [_member(item, name, member, resolve) for name, member in described.items()]
    if operators:
        listed = ", ".join([f"[`{name}`]({place})" for name, place in operators.items()])
        parts.append(f"**Operators as methods.** The array is the first argument: {listed}.")
    return "\n\n".join([part for part in parts if part])


def _operator_place(owner: type, name: str, resolve: Callable[[str], str | None]) -> str | None:
    """Return the place of the function that a method of an array is, or None."""
    namespaces: Mapping[str, str] = {"NDArray": "mx.nd", "ndarray": "mx.np", "Symbol": "mx.nd"}
    namespace = namespaces.get(owner.__name__)
    if namespace is None or name in ("copy", "reshape", "save"):
        return None
    return _exact(resolve, f"{namespace}.{name}")


def _exact(resolve: Callable[[str], str | None], path: str) -> str | None:
    """Return the place of a path, and not that of another name with the same last part."""
    place = resolve(path)
    return place if place and place.endswith(f"#{path}") else None


def _members(owner: type, resolve: Callable[[str], str | None]) -> Iterator[tuple[str, Any]]:
    """Return the public methods and properties of a class, and those of bases that have no place of their own."""
    if owner.__name__ in ("NDArray", "ndarray", "Symbol"):
        names = sorted(dir(owner))
    else:
        undescribed = [base for base in owner.__mro__[1:] if _is_ours(base) and not resolve(base.__name__)]
        names = list(dict.fromkeys([name for base in (owner, *undescribed) for name in vars(base)]))
    for name in names:
        member = inspect.getattr_static(owner, name)
        if name.startswith("_") or name in _UNSHOWN or isinstance(member, type):
            continue
        if isinstance(member, (property, classmethod, staticmethod)) or callable(member):
            yield name, member


def _is_ours(value: type) -> bool:
    return value.__module__.startswith("phonograd")


def _member(item: Item, name: str, member: Any, resolve: Callable[[str], str | None]) -> str:
    path = f"{item.path}.{name}"
    heading = f"### {item.name}.{name} {{#{path} .reference}}"
    if isinstance(member, property):
        doc = inspect.getdoc(member.fget) if member.fget else None
        return f"{heading}\n\nProperty. {markdown_of(doc, resolve)}"
    if isinstance(member, (classmethod, staticmethod)):
        value = member.__func__
        signature = _signature(path, value, without_first=isinstance(member, classmethod))
    else:
        value = getattr(item.value, name)
        signature = _signature(f"{item.name[0].lower()}{item.name[1:]}.{name}", value, without_first=True)
    return f"{heading}\n\n{signature}\n\n{markdown_of(_inherited_doc(item.value, name, value), resolve)}"


def _inherited_doc(owner: type, name: str, value: Any) -> str | None:
    """Return the docstring of a method, or of the method that it replaces."""
    for base in owner.__mro__:
        found = getattr(vars(base).get(name), "__doc__", None)
        if found:
            return inspect.cleandoc(found)
    return inspect.getdoc(value)


def _relative(page: str, place: str) -> str:
    """Return a place as seen from a page in the same folder."""
    address, _, anchor = place.partition("#")
    return f"#{anchor}" if address == page else f"{address}#{anchor}"
