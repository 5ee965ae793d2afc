"""JSON format: write graphs as MXNet's JSON text, and read it with precise errors.

Files of MXNet since 0.8 are read and upgraded as MXNet does it. Older files store attributes under ``param`` and
``attr`` instead of ``attrs``. Before 0.9 they do not list missing inputs and auxiliary states. Before 0.9.5 ``axis=-1``
was the default of ``argmax`` and meant all axes. A layer set its weight's learning rate by ``weight_lr_mult``, and some
operators had other names.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn

from ..core.base.errors import MXNetError
from ..util import is_np_shape
from .calls import Call, call_of, current_name, special
from .entry import HIDDEN, NULL, Entry, Head, copy_graph, entries_of, hidden_key

__all__ = ["read", "without_casts", "write"]

_VERSION = 10901

#: the version of files that do not state one
_OLDEST = 800
#: the first version that lists all inputs
_LISTS_INPUTS = 900
#: the first version in which -1 is the last axis for these operators
_COUNTS_FROM_BEHIND = 905
_OVER_ONE_AXIS = ("argmax", "argmin")

#: maximum nesting of loops, and maximum number of outputs of a node
_DEEPEST = 32
_MOST_OUTPUTS = 10_000


#: suffixes of the attributes that a call may have for one of its variables
_FACTORS = tuple([f"_{name}" for name in HIDDEN])

#: a longer list has one line for each element
_LONGEST_LINE = 10


# -- writing


def without_casts(heads: Iterable[Head]) -> list[Head]:
    """Return a copy of a graph without the casts that mixed precision inserted."""
    heads = list(heads)
    casts = ("amp_cast", "amp_multicast")
    if not any([entry.operator in casts for entry in entries_of(heads)]):
        return heads
    copy = copy_graph(heads)
    for entry in entries_of(copy):
        for position, (source, index) in enumerate(entry.inputs):
            while source.operator in casts:
                source, index = source.inputs[index]
            entry.inputs[position] = source, index
    return copy


def write(heads: Iterable[Head]) -> str:
    """Return a graph as JSON text."""
    graph = _graph(list(heads))
    graph["attrs"] = {"mxnet_version": ["int", _VERSION]}
    if is_np_shape():
        graph["attrs"] = {"is_np_shape": ["int", 1], **graph["attrs"]}
    return _text(graph, 0)


def _graph(heads: list[Head]) -> dict[str, Any]:
    entries = entries_of(heads)
    numbers = {entry: index for index, entry in enumerate(entries)}
    versions: dict[Entry, int] = {}
    nodes = []
    rows = [0]
    for entry in entries:
        node: dict[str, Any] = {"op": entry.operator, "name": entry.name}
        if entry.attributes:
            node["attrs"] = {key: entry.attributes[key] for key in sorted(entry.attributes)}
        if not entry.is_argument:
            for position in sorted(entry.call.auxiliary):
                source = entry.inputs[position][0]
                versions[source] = versions.get(source, 0) + 1
        node["inputs"] = [[numbers[source], index, versions.get(source, 0)] for source, index in entry.inputs]
        if entry.subgraphs:
            node["subgraphs"] = [_graph(list(graph)) for graph in entry.subgraphs]
        nodes.append(node)
        rows.append(rows[-1] + len(entry.output_names()))
    return {
        "nodes": nodes,
        "arg_nodes": [index for index, entry in enumerate(entries) if entry.is_argument],
        "node_row_ptr": rows,
        "heads": [[numbers[entry], index, 0] for entry, index in heads],
    }


def _text(value: Any, depth: int) -> str:
    """Return JSON in MXNet's layout: short lists, and objects with one member, are on one line."""
    inner, outer = "  " * (depth + 1), "  " * depth
    if isinstance(value, Mapping):
        members = [f"{json.dumps(key, ensure_ascii=False)}: {_text(item, depth + 1)}" for key, item in value.items()]
        if len(members) <= 1:
            return "{" + "".join(members) + "}"
        return "{\n" + inner + f", \n{inner}".join(members) + f"\n{outer}" + "}"
    if isinstance(value, list):
        items = [_text(item, depth + 1) for item in value]
        if len(items) <= _LONGEST_LINE and not any([isinstance(item, Mapping) for item in value]):
            return f"[{', '.join(items)}]"
        return "[\n" + inner + f", \n{inner}".join(items) + f"\n{outer}]"
    return json.dumps(value, ensure_ascii=False)


# -- reading


def read(text: str) -> list[Head]:
    """Return the heads of the graph described by a text."""
    if not isinstance(text, str):
        raise TypeError("json_str must be a string")
    try:
        graph = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise MXNetError(f"not a symbol file: {error}") from None
    return _read_graph(graph, "the graph", 0, _version_of(graph))


def _version_of(graph: Any) -> int:
    """Return the version of MXNet that wrote a file."""
    facts = graph.get("attrs", {}) if isinstance(graph, dict) else {}
    stated = facts.get("mxnet_version") if isinstance(facts, dict) else None
    if isinstance(stated, list) and len(stated) == 2 and type(stated[1]) is int:
        return stated[1]
    return _OLDEST


def _refuse(where: str, what: str) -> NoReturn:
    raise MXNetError(f"the symbol file is damaged: {where} {what}")


def _read_graph(graph: Any, where: str, depth: int, version: int) -> list[Head]:
    if depth > _DEEPEST:
        _refuse(where, f"is nested more than {_DEEPEST} graphs deep")
    if not isinstance(graph, dict):
        _refuse(where, f"is {type(graph).__name__}, not an object")
    for field in ("nodes", "heads"):
        if not isinstance(graph.get(field), list):
            _refuse(where, f'has no list "{field}"')
    entries: list[Entry] = []
    rows = graph.get("node_row_ptr")
    for number, node in enumerate(graph["nodes"]):
        entry = _read_node(node, entries, f"node {number} of {where}", depth, version)
        _count_outputs(entry, rows, number)
        entries.append(entry)
    if not graph["heads"]:
        _refuse(where, "has no outputs")
    return [_read_head(head, entries, f"an output of {where}") for head in graph["heads"]]


def _count_outputs(entry: Entry, rows: Any, number: int) -> None:
    """Set the number of outputs from the file, for gradient operators that do not define it."""
    if entry.is_argument or not isinstance(rows, list) or len(rows) < number + 2:
        return
    first, last = rows[number : number + 2]
    if type(first) is int and type(last) is int and len(entry.output_names()) < last - first <= _MOST_OUTPUTS:
        entry.outputs = last - first


def _read_node(node: Any, entries: list[Entry], where: str, depth: int, version: int) -> Entry:
    if not isinstance(node, dict):
        _refuse(where, f"is {type(node).__name__}, not an object")
    operator, name = node.get("op"), node.get("name")
    if not isinstance(operator, str) or not isinstance(name, str):
        _refuse(where, 'has no strings "op" and "name"')
    where = f"{where} ({name!r})"
    attributes = _read_attributes(node, where)
    sources = node.get("inputs", [])
    if not isinstance(sources, list):
        _refuse(where, 'has no list "inputs"')
    inputs = [_read_head(source, entries, where) for source in sources]
    graphs = node.get("subgraphs", [])
    if not isinstance(graphs, list):
        _refuse(where, "has subgraphs that are not a list")
    subgraphs = tuple([_read_graph(graph, f"a graph inside {where}", depth + 1, version) for graph in graphs])
    if operator == NULL:
        if inputs:
            _refuse(where, "is an argument but has inputs")
        return Entry(NULL, name, attributes, [])
    if version < _COUNTS_FROM_BEHIND and operator in _OVER_ONE_AXIS and attributes.get("axis") == "-1":
        del attributes["axis"]
    # a custom operator may have parameters of these names
    meant = [key for key in attributes if key.endswith(_FACTORS) and operator not in special]
    factors = {key: attributes.pop(key) for key in meant}
    entry = Entry(current_name(operator), name, attributes, inputs, None, subgraphs)
    try:
        call = call_of(operator, attributes, subgraphs, len(inputs))
    except MXNetError as error:
        raise MXNetError(f"Failed loading Op {name} of type {operator}: {error}") from error
    _complete(entry, call, version < _LISTS_INPUTS, where)
    _hand_on(factors, entry, call, where)
    return entry


def _complete(entry: Entry, call: Call, make_all: bool, where: str) -> None:
    """Check the inputs of a call, and create those that old files do not list."""
    names, count = call.argument_names, len(entry.inputs)
    absent = range(count, len(names))
    if make_all or set(absent) <= call.auxiliary:
        for position in absent:
            attributes = dict(entry.attributes) if make_all else {}
            if names[position] in call.initial:
                attributes["__init__"] = call.initial[names[position]]
            entry.inputs.append((Entry(NULL, f"{entry.name}_{names[position]}", attributes, []), 0))
    if len(entry.inputs) != len(names):
        _refuse(where, f"has {count} inputs, but {entry.operator} takes {len(names)}: {', '.join(names)}")


def _hand_on(factors: Mapping[str, str], entry: Entry, call: Call, where: str) -> None:
    """Move attributes of a call to its variables: ``weight_lr_mult`` becomes the ``lr_mult`` of the weight."""
    for key, value in factors.items():
        ending = next(ending for ending in _FACTORS if key.endswith(ending))
        argument = key[: -len(ending)]
        if argument not in call.argument_names:
            _refuse(where, f"has the attribute {key!r}, but {entry.operator} has no input {argument!r}")
        source = entry.inputs[call.argument_names.index(argument)][0]
        if source.is_argument:
            source.attributes[hidden_key(ending[1:])] = value


def _read_attributes(node: Mapping[str, Any], where: str) -> dict[str, str]:
    attributes: dict[str, str] = {}
    for field in ("param", "attr", "attrs"):
        found = node.get(field, {})
        if not isinstance(found, dict) or not all([isinstance(value, str) for value in found.values()]):
            _refuse(where, f'has "{field}" that is not an object of strings')
        attributes.update({hidden_key(key): value for key, value in found.items()})
    return attributes


def _read_head(head: Any, entries: Sequence[Entry], where: str) -> Head:
    if not isinstance(head, list) or len(head) < 2 or not all([type(number) is int for number in head]):
        _refuse(where, f"refers to {head!r}, which is not a pair of a node and an output")
    number, index = head[:2]
    if not 0 <= number < len(entries):
        _refuse(where, f"refers to node {number}, which does not come before it: a graph has no cycles")
    entry = entries[number]
    if not 0 <= index < len(entry.output_names()):
        _refuse(where, f"refers to output {index} of {entry.name!r}, which has {len(entry.output_names())}")
    return entry, index
