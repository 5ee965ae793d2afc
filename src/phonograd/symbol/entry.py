"""Entry: one node of a symbol's graph (an argument or an operator call), and graph traversal.

An entry has the fields of symbol files: the operator's name ("null" for an argument), its own name, attributes as text,
and the outputs of other entries that are its inputs. :mod:`.calls` defines the meaning of operators.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from ..core.base.errors import MXNetError

if TYPE_CHECKING:
    from .calls import Call

__all__ = ["HIDDEN", "NULL", "Entry", "Head", "copy_graph", "entries_of", "hidden_key", "substitute", "text_of"]

#: the operator name of an argument
NULL = "null"

#: attributes that MXNet itself interprets; their names are stored between double underscores
HIDDEN = ("ctx_group", "lr_mult", "wd_mult", "force_mirroring", "mirror_stage")


def hidden_key(key: str) -> str:
    """Return the stored name of an attribute.

    >>> hidden_key("lr_mult"), hidden_key("scalar")
    ('__lr_mult__', 'scalar')
    """
    return f"__{key}__" if key in HIDDEN else key


class Entry:
    """One node of a graph: operator name, name, attributes, inputs, and inner graphs of loops and branches."""

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
        #: the number of outputs, where it is known better than from the operator
        self.outputs = outputs
        self._call: Call | None = None

    @property
    def is_argument(self) -> bool:
        """Return whether this is an input of the graph."""
        return self.operator == NULL

    @property
    def call(self) -> Call:
        """The operator with its parameters."""
        if self._call is None:
            from .calls import call_of

            try:
                self._call = call_of(self.operator, self.attributes, self.subgraphs, len(self.inputs))
            except MXNetError as error:
                raise MXNetError(f"Error in operator {self.name}: {error}") from error
        return self._call

    def forget_call(self) -> None:
        """Discard the cached call after a change of attributes."""
        self._call = None

    def output_names(self) -> list[str]:
        """Return the names of all outputs, including hidden ones."""
        if self.is_argument:
            return [self.name]
        names = self.call.output_names
        if self.outputs is not None and self.outputs > len(names):
            names = tuple([f"output{index}" for index in range(self.outputs)])
        return [f"{self.name}_{name}" for name in names]

    def visible(self) -> int:
        """Return the number of outputs that users see."""
        if self.is_argument:
            return 1
        more = self.outputs is not None and self.outputs > len(self.call.output_names)
        return self.outputs or 1 if more else self.call.visible

    def shown_attributes(self) -> dict[str, str]:
        """Return the attributes that users see; hidden ones appear under their plain names too."""
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
    """Return all entries below some heads in depth-first order, inputs before their users."""
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


def copy_graph(heads: Iterable[Head], replace: Callable[[Entry], Head | None] = lambda entry: None) -> list[Head]:
    """Return the heads of a copied graph; ``replace`` returns replacements for some entries."""
    heads = list(heads)
    made: dict[Entry, Head] = {}

    def move(head: Head) -> Head:
        entry, index = made[head[0]]
        return (entry, index) if head[0] in replaced else (entry, head[1])

    replaced: set[Entry] = set()
    for entry in entries_of(heads):
        other = replace(entry)
        if other is not None:
            replaced.add(entry)
            made[entry] = other
            continue
        inputs = [move(source) for source in entry.inputs]
        copy = Entry(entry.operator, entry.name, dict(entry.attributes), inputs, entry.outputs, entry.subgraphs)
        made[entry] = copy, 0
    return [move(head) for head in heads]


def substitute(heads: Iterable[Head], arguments: dict[str, Head]) -> list[Head]:
    """Return the heads of a copied graph, with arguments replaced by name."""
    return copy_graph(heads, lambda entry: arguments.get(entry.name) if entry.is_argument else None)


def text_of(value: Any) -> str:
    """Return a parameter's value as attribute text."""
    if isinstance(value, (list, tuple)):
        items = [text_of(item) for item in value]
        if isinstance(value, list):
            return f"[{', '.join(items)}]"
        return f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"
    return str(value)
