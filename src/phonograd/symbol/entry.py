"""Entry: one node of a symbol's graph, an argument or a call of an operator, by name; and how graphs are walked.

An entry holds what stands in symbol files: the operator's name ("null" for an argument), a name of its own, attributes
as text, and which outputs of which entries it takes. What the operator does with them is in :mod:`.calls`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from ..core.base.errors import MXNetError

if TYPE_CHECKING:
    from .calls import Call

__all__ = ["HIDDEN", "NULL", "Entry", "Head", "copied", "entries_of", "hidden_key", "substituted", "text_of"]

#: the operator of an argument
NULL = "null"

#: attributes that mean something to MXNet itself, and are kept between two pairs of underscores
HIDDEN = ("ctx_group", "lr_mult", "wd_mult", "force_mirroring", "mirror_stage")


def hidden_key(key: str) -> str:
    """Return an attribute's name as it is kept.

    >>> hidden_key("lr_mult"), hidden_key("scalar")
    ('__lr_mult__', 'scalar')
    """
    return f"__{key}__" if key in HIDDEN else key


class Entry:
    """One node of a graph: operator name, name, attributes, inputs, and for loops and branches whole graphs."""

    __slots__ = ("_call", "attributes", "inputs", "name", "operator", "outputs", "subgraphs")

    def __init__(
        self,
        operator: str,
        name: str,
        attributes: dict[str, str],
        inputs: list[Head],
        outputs: int | None = None,
        subgraphs: tuple[list[Head], ...] = (),
    ) -> None:
        self.operator = operator
        self.name = name
        self.attributes = attributes
        self.inputs = inputs
        self.subgraphs = subgraphs
        #: how many outputs there are, where more is known than the operator says
        self.outputs = outputs
        self._call: Call | None = None

    @property
    def is_argument(self) -> bool:
        """Whether this is an input of the graph."""
        return self.operator == NULL

    @property
    def call(self) -> Call:
        """What the operator does, with its parameters."""
        if self._call is None:
            from .calls import call_of

            try:
                self._call = call_of(self.operator, self.attributes, self.subgraphs, len(self.inputs))
            except MXNetError as error:
                raise MXNetError(f"Error in operator {self.name}: {error}") from error
        return self._call

    def forget_call(self) -> None:
        """Read the attributes again when they are needed: they have changed."""
        self._call = None

    def output_names(self) -> list[str]:
        """Return the names of all outputs, also of those that users do not see."""
        if self.is_argument:
            return [self.name]
        names = self.call.output_names
        if self.outputs is not None and self.outputs > len(names):
            names = tuple([f"output{index}" for index in range(self.outputs)])
        return [f"{self.name}_{name}" for name in names]

    def visible(self) -> int:
        """Return how many outputs users see."""
        if self.is_argument:
            return 1
        more = self.outputs is not None and self.outputs > len(self.call.output_names)
        return self.outputs or 1 if more else self.call.visible

    def shown_attributes(self) -> dict[str, str]:
        """Return the attributes as users see them: the hidden ones by their plain names too."""
        shown = {}
        for key, value in self.attributes.items():
            shown[key] = value
            plain = key[2:-2]
            if plain in HIDDEN and key == hidden_key(plain):
                shown[plain] = value
        return shown


#: one output of an entry
Head = tuple[Entry, int]


def entries_of(heads: Iterable[Head]) -> list[Entry]:
    """Return all entries below some heads, inputs before what uses them, in depth-first order."""
    order: dict[Entry, None] = {}
    stack = [(head, False) for head, _ in reversed(list(heads))]
    while stack:
        entry, ready = stack.pop()
        if entry in order:
            continue
        if ready:
            order[entry] = None
            continue
        stack.append((entry, True))
        stack.extend([(source, False) for source, _ in reversed(entry.inputs) if source not in order])
    return list(order)


def copied(heads: Iterable[Head], replace: Callable[[Entry], Head | None] = lambda entry: None) -> list[Head]:
    """Return the heads of a copy of a graph, with outputs of other graphs in the place of some of its entries."""
    heads = list(heads)
    made: dict[Entry, Head] = {}

    def moved(head: Head) -> Head:
        entry, index = made[head[0]]
        return (entry, index) if head[0] in replaced else (entry, head[1])

    replaced: set[Entry] = set()
    for entry in entries_of(heads):
        other = replace(entry)
        if other is not None:
            replaced.add(entry)
            made[entry] = other
            continue
        inputs = [moved(source) for source in entry.inputs]
        copy = Entry(entry.operator, entry.name, dict(entry.attributes), inputs, entry.outputs, entry.subgraphs)
        made[entry] = copy, 0
    return [moved(head) for head in heads]


def substituted(heads: Iterable[Head], arguments: dict[str, Head]) -> list[Head]:
    """Return the heads of a copy of a graph, with other outputs in the place of arguments of some names."""
    return copied(heads, lambda entry: arguments.get(entry.name) if entry.is_argument else None)


def text_of(value: Any) -> str:
    """Return a parameter's value as it stands in attributes."""
    if isinstance(value, (list, tuple)):
        items = [text_of(item) for item in value]
        if isinstance(value, list):
            return f"[{', '.join(items)}]"
        return f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"
    return str(value)
