"""DOT: graphs as text for Graphviz."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from .drawing import Box, Edge, Group

__all__ = ["dot_of"]

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|-?(\.[0-9]+|[0-9]+(\.[0-9]*)?)")
_KEYWORDS = frozenset(("node", "edge", "graph", "digraph", "subgraph", "strict"))


def quote(text: str) -> str:
    r"""Return a text as a DOT identifier.

    >>> quote("data"), quote('say "x"')
    ('data', '"say \\"x\\""')
    """
    if _PLAIN.fullmatch(text) and text.lower() not in _KEYWORDS:
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _attributes(label: str, others: Mapping[str, str]) -> str:
    pairs = [("label", label), *sorted(others.items())]
    return " ".join([f"{quote(key)}={quote(value)}" for key, value in pairs])


def dot_of(
    name: str,
    boxes: Iterable[Box],
    edges: Iterable[Edge],
    groups: Sequence[Group] = (),
    node_attributes: Mapping[str, Mapping[str, str]] | None = None,
    upward: bool = False,
) -> str:
    """Return a graph as DOT text.

    If the first boxes are at the bottom, edges are written from consumer to producer and drawn backwards, as in
    MXNet.
    """
    lines = [f"digraph {quote(name)} {{"]
    for box in boxes:
        others = {"fillcolor": box.fill, "shape": box.shape, "style": "filled"}
        others.update((node_attributes or {}).get(box.name, {}))
        lines.append(f"\t{quote(box.name)} [{_attributes(box.label, others)}]")
    for number, group in enumerate(groups):
        lines.append(f"\tsubgraph cluster_{number} {{")
        lines.append(f"\t\tgraph [{_attributes(group.label, {'bgcolor': group.fill})}]")
        lines += [f"\t\t{quote(member)}" for member in group.members]
        lines.append("\t}")
    for edge in edges:
        style = {"style": "dashed"} if edge.dashed else {}
        if upward:
            others = {"arrowtail": "open", "dir": "back", **style}
            lines.append(f"\t{quote(edge.target)} -> {quote(edge.source)} [{_attributes(edge.label, others)}]")
        else:
            lines.append(f"\t{quote(edge.source)} -> {quote(edge.target)} [{_attributes(edge.label, style)}]")
    lines.append("}")
    return "\n".join(lines) + "\n"
