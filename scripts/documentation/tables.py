"""Make tables for the site: all operators, and the names of MXNet that are here.

The first comes from the registry, the second from the surface of MXNet 1.9.1 that ``tests/surface`` recorded.
"""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from pathlib import Path

import phonograd as mx
from phonograd import compat
from phonograd.core.graph.operator import REGISTRY, Operator
from reference import Reference

__all__ = ["operators_table", "surface_table"]

_PREFIXES = {"_contrib_": "mx.nd.contrib", "_linalg_": "mx.nd.linalg", "_image_": "mx.nd.image"}


def operators_table(reference: Reference) -> str:
    """Return a page with one row for each public operator, and what it supports."""
    exported = set(mx.onnx.get_operator_support())
    rows: list[tuple[str, str]] = []
    for declared in set(REGISTRY.values()):
        path = _path(declared)
        place = reference.place(path) if path else None
        if not path or not place or not place.endswith(f"#{path}"):
            continue
        aliases = sorted({name for name in (declared.name, *declared.aliases) if not name.startswith("_")})
        others = ", ".join([f"`{name}`" for name in aliases if name != path.rpartition(".")[2]])
        yes = [declared.method, declared.differentiable, bool(exported & {declared.name, *declared.aliases})]
        marks = " | ".join(["yes" if one else "" for one in yes])
        rows.append((path.casefold(), f"| [`{path}`]({place}) | {others} | {marks} |"))
    heading = ["| operator | other names | method | gradient | ONNX |", "| --- | --- | --- | --- | --- |"]
    text = (
        "# Operators\n\nEvery operator works on arrays and symbols. *Method*: arrays and symbols have it as a method. "
        "*Gradient*: it has derivatives, of every order. *ONNX*: `mx.onnx.export_model` writes it.\n\n"
    )
    return text + "\n".join(heading + [row for _, row in sorted(rows)]) + "\n"


def _path(declared: Operator) -> str | None:
    """Return the public name of an operator, or None."""
    for name in (declared.name, *declared.aliases):
        if not name.startswith("_") and hasattr(mx.nd, name):
            return f"mx.nd.{name}"
    for name in (declared.name, *declared.aliases):
        for prefix, namespace in _PREFIXES.items():
            if name.startswith(prefix):
                return f"{namespace}.{name.removeprefix(prefix)}"
    return None


def surface_table() -> str:
    """Return a page that compares the public names of MXNet's modules with those here."""
    root = str(Path(__file__).resolve().parents[2])
    if root not in sys.path:
        sys.path.insert(0, root)
    from tests.surface import compare, exceptions
    from tests.surface.surface import MODULES, names_of

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compat.install_as_mxnet()
        try:
            absent = set(compare.missing_modules())
            missing = [place for place in compare.missing_names() if not place.partition(":")[2].startswith("_")]
        finally:
            compare.import_or_none.cache_clear()
            compat.uninstall()
    lacking = Counter(place.partition(":")[0] for place in missing)
    text = [
        "# Names of MXNet",
        "",
        "This table compares the public names of every public module of MXNet 1.9.1 with this library. The names were",
        "recorded from real MXNet. [Compatibility](compatibility.md) describes what differs in behavior.",
        "",
        "| module | names | here |",
        "| --- | ---: | ---: |",
    ]
    for module in MODULES:
        if any(part.startswith("_") for part in module.split(".")):
            continue
        names = [name for name in names_of(module) if not name.startswith("_")]
        here = 0 if module in absent else len(names) - lacking[module]
        text.append(f"| `{module}` | {len(names)} | {here if here != len(names) else 'all'} |")
    text += ["", "## What is missing, and why", "", "| module or name | reason |", "| --- | --- |"]
    for table, found in ((exceptions.MODULES_ABSENT, sorted(absent)), (exceptions.NAMES, missing)):
        reasons: dict[str, list[str]] = {}
        for place in found:
            if not any(part.startswith("_") for part in place.replace(":", ".").split(".")):
                reasons.setdefault(compare.reason_for(table, place) or "", []).append(place)
        for reason, places in reasons.items():
            shown = sorted({place.partition(":")[2] or place for place in places}, key=str.casefold)
            text.append(f"| {', '.join([f'`{name}`' for name in shown])} | {reason.replace('|', chr(92) + '|')} |")
    return "\n".join(text) + "\n"
