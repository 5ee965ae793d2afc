"""Docstrings: complete the text of a declaration with its signature, shared descriptions and stored examples.

Every layer uses it: operators (:mod:`phonograd.core.graph.documentation`), functions of mx.np
(:mod:`phonograd.numpy.documentation`) and public classes (:func:`complete_classes`). A docstring in the source says
only what is its own. :func:`compose` adds the types and defaults of the arguments, descriptions that several
declarations share, and an example from the file ``examples.txt`` beside the module.
"""

from __future__ import annotations

import functools
import inspect
import re
import sys
from collections import ChainMap
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

__all__ = [
    "ClassDocstring",
    "complete_classes",
    "compose",
    "describe_arguments",
    "examples_beside",
    "own_descriptions",
    "sections_of",
]

_SECTION = re.compile(r"^([A-Z][a-z]+)\n-+\n", re.MULTILINE)
_NAME = re.compile(r"^(\*{0,2}\w+(?:, \*{0,2}\w+)*)(?: : .*)?$", re.MULTILINE)


def sections_of(doc: str) -> dict[str, str]:
    """Return the sections of a docstring by title: ``""`` for its beginning, ``Examples`` for its sessions.

    >>> sections_of("Add.\\n\\n>>> 1 + 1\\n2\\n\\nReturns\\n-------\\nThe sum.\\n")
    {'': 'Add.', 'Returns': 'The sum.', 'Examples': '>>> 1 + 1\\n2'}
    """
    parts = _SECTION.split(inspect.cleandoc(doc))
    found: dict[str, list[str]] = {"": []}
    examples: list[str] = []
    for title, text in zip(["", *parts[1::2]], [parts[0], *parts[2::2]], strict=True):
        kept = found.setdefault(title, [])
        for paragraph in re.split(r"\n\n+", text.strip("\n")):
            if title == "Examples" or paragraph.startswith(">>>"):
                examples.append(paragraph)
            elif title == "Parameters" and not _NAME.match(paragraph) and not paragraph.startswith(" "):
                # a remark behind the arguments
                found[""].append(paragraph)
            else:
                kept.append(paragraph)
    found.pop("Examples", None)
    if examples:
        found["Examples"] = examples
    return {title: "\n\n".join(texts) for title, texts in found.items()}


def own_descriptions(section: str) -> dict[str, str]:
    """Return the descriptions in a section "Parameters" by name; names that share a description are separated."""
    found: dict[str, str] = {}
    parts = _NAME.split(section)
    for names, text in zip(parts[1::2], parts[2::2], strict=True):
        for name in names.split(", "):
            found[name.lstrip("*")] = " ".join(text.split())
    return found


@functools.cache
def examples_beside(file: str) -> dict[str, str]:
    """Return the examples in ``examples.txt`` beside a file: blocks that begin with the name of a declaration."""
    path = Path(file).parent / "examples.txt"
    blocks = path.read_text(encoding="utf-8").strip().split("\n\n") if path.exists() else []
    return {name: text for name, _, text in [block.partition("\n") for block in blocks]}


def describe_arguments(signature: inspect.Signature, known: Mapping[str, str]) -> str:
    """Return the section "Parameters": each argument with its type, its default and its description."""
    lines = ["Parameters", "----------"]
    stars: dict[Any, str] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    for argument in signature.parameters.values():
        # the description lists the keywords of a typed dictionary
        is_shown = argument.annotation is not argument.empty and not str(argument.annotation).startswith("Unpack[")
        shown = f" : {argument.annotation}" if is_shown else ""
        if argument.default is not argument.empty:
            shown += f", default {argument.default!r}"
        lines.append(f"{stars.get(argument.kind, '')}{argument.name}{shown}")
        if argument.name in known:
            lines.append(f"    {known[argument.name]}")
    return "\n".join(lines)


def compose(
    sections: Mapping[str, str], signature: inspect.Signature, known: Mapping[str, str], example: str, returns: str = ""
) -> str:
    """Return a complete docstring from the sections of a declaration.

    ``returns`` is the type of the result; without one there is no section "Returns". Without arguments there is no
    section "Parameters".
    """
    rest = dict(sections)
    parts = [rest.pop("")]
    rest.pop("Parameters", None)
    if signature.parameters:
        parts.append(describe_arguments(signature, known))
    result = rest.pop("Returns", "")
    if returns:
        parts.append(f"Returns\n-------\n{returns}" + (f"\n{_indent(result)}" if result else ""))
    rest.pop("Examples", None)
    parts += [f"{title}\n{'-' * len(title)}\n{text}" for title, text in rest.items()]
    if example:
        parts.append(f"Examples\n--------\n{example}")
    return "\n\n".join(parts)


def _indent(text: str) -> str:
    return "\n".join([f"    {line}".rstrip() for line in text.splitlines()])


class ClassDocstring:
    """The complete docstring of a class, made when it is asked for: an import pays nothing for it."""

    def __init__(self, own: str) -> None:
        self.own = own

    def __get__(self, instance: object, owner: Any) -> str:
        return _complete(self.own, owner)


@functools.cache
def _complete(own: str, owner: Any) -> str:
    sections = sections_of(own)
    signature = signature_of_class(owner)
    file = getattr(sys.modules.get(owner.__module__), "__file__", None) or ""
    example = sections.get("Examples") or examples_beside(file).get(owner.__name__, "")
    # lazy import: programs that ask for no documentation do not need the table
    from .formulas import with_formula

    shown = with_formula(sections, owner.__name__, is_class=True)
    return compose(shown, signature, class_descriptions(owner, signature), example)


def signature_of_class(owner: type[Any]) -> inspect.Signature:
    """Return the signature of the calls that make an instance; empty if users do not make any."""
    if not any(["__init__" in vars(each) or "__new__" in vars(each) for each in owner.__mro__[:-1]]):
        return inspect.Signature()
    return inspect.signature(owner)


def class_descriptions(owner: type[Any], signature: inspect.Signature) -> Mapping[str, str]:
    """Return the descriptions of the arguments of a class: its own, those of its bases, then the shared ones."""
    # lazy import: programs that ask for no documentation do not need the table
    from .class_parameters import SHARED

    found: list[Mapping[str, str]] = []
    for each in owner.__mro__:
        written = vars(each).get("__doc__")
        text = written.own if isinstance(written, ClassDocstring) else written
        found.append(own_descriptions(sections_of(text or "").get("Parameters", "")) if isinstance(text, str) else {})
        keys = {name: f"{each.__name__}.{name}" for name in signature.parameters}
        found.append({name: SHARED[key] for name, key in keys.items() if key in SHARED})
    return ChainMap(*[dict(each) for each in found], dict(SHARED))


def complete_classes(namespace: Mapping[str, Any], names: Iterable[str] | None = None) -> None:
    """Complete the docstrings of the public classes that a module defines; a module calls it at its end.

    ``names`` are those of classes that name another module as theirs.
    """
    for name in namespace["__all__"] if names is None else names:
        value = namespace.get(name)
        if isinstance(value, type) and (names is not None or value.__module__ == namespace["__name__"]):
            own = vars(value).get("__doc__")
            if isinstance(own, str) and not issubclass(value, BaseException):
                # a type answers __doc__ with the descriptor's result
                value.__doc__ = ClassDocstring(own)  # type: ignore[assignment]
