"""Docstrings of public functions: the text of a declaration, completed by its signature and by shared descriptions.

Takes the docstring of an :class:`~phonograd.core.graph.operator.Operator`, whose sections are optional, and the
descriptions of :mod:`.shared_parameters`; hands the whole text to ``help``, to the type stubs and to the reference.
A declaration says only what is its own. Its examples are in its docstring, or in the file ``examples.txt`` beside the
declarations of its family, which is read when a function of that family is made for the first time::

    '''Divide each element by one plus its absolute value.

    .. math:: y = x / (1 + |x|)

    >>> mx.nd.softsign(mx.nd.array([-1, 0, 3])).asnumpy()
    array([-0.5 ,  0.  ,  0.75], dtype=float32)

    '''
"""

from __future__ import annotations

import functools
import inspect
import re
import sys
from collections import ChainMap
from collections.abc import Mapping
from pathlib import Path

from .operator import Operator
from .signature import signature_of

__all__ = ["brief_of", "describe_arguments", "document", "example_of", "text_of", "undescribed"]

_SECTION = re.compile(r"^([A-Z][a-z]+)\n-+\n", re.MULTILINE)
_NAME = re.compile(r"^(\*?\w+(?:, \*?\w+)*)(?: : .*)?$", re.MULTILINE)


def sections_of(doc: str) -> dict[str, str]:
    """Return the sections of a docstring by title: ``""`` for its beginning, ``Examples`` for its sessions.

    >>> sections_of("Add.\\n\\n>>> 1 + 1\\n2\\n\\nReturns\\n-------\\nThe sum.\\n")
    {'': 'Add.', 'Returns': 'The sum.', 'Examples': '>>> 1 + 1\\n2'}
    """
    parts = _SECTION.split(inspect.cleandoc(doc))
    lead: list[str] = []
    examples: list[str] = []
    for paragraph in re.split(r"\n\n+", parts[0].strip()):
        (examples if paragraph.startswith(">>>") else lead).append(paragraph)
    found = {"": "\n\n".join(lead)}
    found |= {title: text.strip("\n") for title, text in zip(parts[1::2], parts[2::2], strict=True)}
    if examples:
        found["Examples"] = "\n\n".join([*examples, *[found[key] for key in ("Examples",) if key in found]])
    return found


def own_descriptions(section: str) -> dict[str, str]:
    """Return the descriptions in a section "Parameters" by name; names that share a description are separated."""
    found: dict[str, str] = {}
    parts = _NAME.split(section)
    for names, text in zip(parts[1::2], parts[2::2], strict=True):
        for name in names.split(", "):
            found[name.lstrip("*")] = " ".join(text.split())
    return found


def _descriptions(declared: Operator, sections: Mapping[str, str]) -> Mapping[str, str]:
    from .shared_parameters import COMMON, SHARED

    keys = {name: f"{declared.name}.{name}" for name in (*declared.input_names, *declared.parameter_names)}
    own = {name: SHARED[key] for name, key in keys.items() if key in SHARED}
    return ChainMap(own_descriptions(sections.get("Parameters", "")), own, SHARED, COMMON)


@functools.cache
def _examples_beside(file: str) -> dict[str, str]:
    """Return the examples in ``examples.txt`` beside a file: blocks that begin with the name of an operator."""
    path = Path(file).parent / "examples.txt"
    blocks = path.read_text(encoding="utf-8").strip().split("\n\n") if path.exists() else []
    return {name: text for name, _, text in [block.partition("\n") for block in blocks]}


def undescribed(declared: Operator) -> list[str]:
    """Return the arguments of an operator's function that have no description."""
    known = _descriptions(declared, sections_of(declared.__doc__ or ""))
    return [name for name in signature_of(declared).parameters if name not in known]


def describe_arguments(signature: inspect.Signature, known: Mapping[str, str]) -> str:
    """Return the section "Parameters": each argument with its type, its default and its description."""
    lines = ["Parameters", "----------"]
    for argument in signature.parameters.values():
        star = "*" if argument.kind is argument.VAR_POSITIONAL else ""
        shown = "" if argument.annotation is argument.empty else f" : {argument.annotation}"
        if argument.default is not argument.empty:
            shown += f", default {argument.default!r}"
        lines.append(f"{star}{argument.name}{shown}")
        if argument.name in known:
            lines.append(f"    {known[argument.name]}")
    return "\n".join(lines)


def example_of(declared: Operator) -> str:
    """Return the examples of an operator, or an empty text."""
    return _example(declared, sections_of(declared.__doc__ or ""))


def _example(declared: Operator, sections: Mapping[str, str]) -> str:
    module = sys.modules.get(declared.function.__module__)
    file = getattr(module, "__file__", None) or ""
    return sections.get("Examples") or _examples_beside(file).get(declared.name, "")


def document(declared: Operator, examples: bool = True, signature: inspect.Signature | None = None) -> str:
    """Return the complete docstring of the public function of an operator."""
    sections = sections_of(declared.__doc__ or "")
    signature = signature or signature_of(declared)
    parts = [sections.pop(""), describe_arguments(signature, _descriptions(declared, sections))]
    sections.pop("Parameters", None)
    returns = sections.pop("Returns", "")
    parts.append(f"Returns\n-------\n{signature.return_annotation}" + (f"\n{_indent(returns)}" if returns else ""))
    shown = _example(declared, sections) if examples else ""
    sections.pop("Examples", None)
    parts += [f"{title}\n{'-' * len(title)}\n{text}" for title, text in sections.items()]
    if shown:
        parts.append(f"Examples\n--------\n{shown}")
    return "\n\n".join(parts)


def _indent(text: str) -> str:
    return "\n".join([f"    {line}".rstrip() for line in text.splitlines()])


def text_of(declared: Operator) -> str:
    """Return the complete docstring of an operator."""
    return document(declared)


def brief_of(declared: Operator) -> str:
    """Return the first paragraph of the docstring of an operator."""
    return sections_of(declared.__doc__ or "")[""].partition("\n\n")[0]
