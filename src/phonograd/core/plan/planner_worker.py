"""The program of the planner process: answers the requests of :mod:`~phonograd.core.plan.planner_process`.

A request has a length, and then the settings, a word and its arguments, by ``marshal``; the answer is one byte, 1 if it
was done. ``plan`` plans a graph and compiles its kernels, ``pack`` does so for a graph that takes some inputs packed,
``record`` for a record of any extents, ``improve`` compiles a kernel in full, and ``finish`` does what a program leaves
at its end. Results are left in the disk cache, under the keys that the other process knows.
"""

from __future__ import annotations

import contextlib
import gc
import marshal
import os
import socket
import time
from collections.abc import Callable
from typing import Any

from ..base import settings
from ..graph.node import Node, new_node, tensor_type
from ..graph.operator import ABSENT, REGISTRY, items_of
from ..ops.math.structural import leaf
from ..run import kernel_cache
from ..run.reference import order
from .cache import forget_nodes
from .disk import describe, program_for
from .packed_plans import PackedGraph
from .packing import packed_plan
from .plain_data import value_of
from .planner_process import LENGTH_BYTES
from .sized_records import store_ways

__all__ = ["answer", "main", "new_graph"]

#: the process ends after this time without a request
IDLE_SECONDS = 30.0
#: how long it goes on after the end of the program
FINISH_SECONDS = 20.0
#: numbers of the leaves that stand for nodes that were not sent
_FIRST_LEAF = -(1 << 40)


def main() -> None:
    """Answer requests from the socket at standard input until it is closed, or nothing is requested for a while."""
    # everything that is made here lives until the graph is planned
    gc.disable()
    settings.update(planner="thread")
    connection = socket.socket(fileno=0)
    connection.settimeout(IDLE_SECONDS)
    with contextlib.suppress(OSError), connection:
        while request := _receive(connection):
            done = answer(request)
            # a program that has ended waits for no answer, but it may have left requests
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                connection.sendall(b"\1" if done else b"\0")
    # without the handlers that wait for threads: no thread is compiling
    os._exit(0)


def _receive(connection: socket.socket) -> bytes:
    """Return the next request; nothing if the other process has closed the socket."""
    length = int.from_bytes(_read(connection, LENGTH_BYTES), "little")
    return _read(connection, length)


def _read(connection: socket.socket, size: int) -> bytes:
    parts, was_reset = [], False
    while size:
        try:
            part = connection.recv(min(size, 1 << 20))
        except ConnectionResetError:
            if was_reset:
                raise
            # the program has ended without reading an answer; what it has sent is still there
            was_reset = True
            continue
        if not part:
            return b""
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def answer(request: bytes) -> bool:
    """Do what is requested; return whether that was possible. The other process does it itself if not."""
    try:
        wanted, word, *arguments = marshal.loads(request)
        _use(wanted)
        return _ANSWERS[word](*arguments)
    except Exception:  # noqa: BLE001 - the other process meets the same error, and reports it
        return False


def _use(wanted: dict[str, Any]) -> None:
    """Use the settings of the other process."""
    now = settings.current()
    wanted["planner"] = now.planner
    changed = {name: value for name, value in wanted.items() if getattr(now, name) != value}
    if changed:
        settings.update(**changed)


def _plan(key: str, keep_all: bool, message: Any, steady: list[int]) -> bool:
    """Plan a graph and leave the plan and its kernels on disk; return whether it has the expected key.

    ``steady`` are the numbers of inputs that it will probably take packed, see :func:`_finish`.
    """
    disk = kernel_cache.disk_cache() if kernel_cache.available() else None
    if disk is None:
        return False
    # meanwhile this thread imports the planner
    kernel_cache.preload()
    # nodes of an earlier graph would be older than those below them
    forget_nodes()
    wanted, available = new_graph(message)
    inputs, computed = order(wanted, available.__contains__)
    description = describe(wanted, inputs, computed, keep_all)
    if description is None or disk.key(description, "p") != key:
        return False
    program_for(wanted, available.__contains__, keep_all)
    if steady:
        _left_to_pack.append((message, steady))
    gc.collect(0)
    return disk.load(key) is not None


#: the graphs of plans that were made, and the numbers of their steady inputs
_left_to_pack: list[tuple[Any, list[int]]] = []


def _pack_ahead(message: Any, steady: list[int]) -> None:
    """Leave the plan of a graph that takes steady inputs packed on disk, unless it is there."""
    forget_nodes()
    wanted, available = new_graph(message)
    packed_plan(program_for(wanted, available.__contains__, False), steady)


def _pack(key: str, message: Any, numbers: list[int]) -> bool:
    """Plan a graph with some inputs packed, and leave the plan and its kernels on disk."""
    disk = kernel_cache.disk_cache() if kernel_cache.available() else None
    if disk is None:
        return False
    forget_nodes()
    wanted, available = new_graph(message)
    graph = PackedGraph.of(wanted, order(wanted, available.__contains__)[0], numbers)
    if graph is None or graph.key(disk) != key:
        return False
    graph.save(disk, key, graph.plan())
    return disk.load(key) is not None


def _improve(key: str) -> bool:
    return kernel_cache.available() and kernel_cache.compile_in_full(key)


def _record(key: str, record: Any) -> bool:
    """Make plans of a record for any extents, and leave them on disk with their kernels."""
    forget_nodes()
    done = store_ways(key, record)
    gc.collect(0)
    return done


def _finish(records: list[tuple[str, Any]], keys: list[str]) -> bool:
    """Learn what a program would have learned next, and compile its kernels and those of this process in full.

    A program that ends has not had its plans for long enough to ask for those that take steady inputs packed.
    """
    end = time.monotonic() + FINISH_SECONDS
    for key, record in records:
        # there may be no plans for any extents: the next program finds out
        with contextlib.suppress(Exception):
            forget_nodes()
            store_ways(key, record, end)
    for message, steady in _left_to_pack:
        with contextlib.suppress(Exception):
            if time.monotonic() < end:
                _pack_ahead(message, steady)
    for key in [*keys, *kernel_cache.left_to_compile_in_full()]:
        if time.monotonic() > end:
            return False
        kernel_cache.compile_in_full(key)
    return True


_ANSWERS: dict[str, Callable[..., bool]] = {
    "plan": _plan,
    "pack": _pack,
    "record": _record,
    "improve": _improve,
    "finish": _finish,
}


def new_graph(message: Any) -> tuple[list[Node], set[Node]]:
    """Return the wanted and the available nodes of a graph that was sent."""
    rows, wanted, available = message
    nodes: list[Node] = []
    for name, sources, attributes, shape, dtype, context, outputs in rows:
        place, kind = value_of(context), value_of(dtype)
        if name is None:
            nodes.append(leaf(_FIRST_LEAF - len(nodes), shape, kind, place))
            continue
        made = None if outputs is None else tuple([(shape, value_of(dtype)) for shape, dtype in outputs])
        inputs = tuple([nodes[number] for number in sources])
        nodes.append(_new_node(name, inputs, value_of(attributes), tensor_type(shape, kind, place, False, made)))
    return [nodes[number] for number in wanted], {nodes[number] for number in available}


def _new_node(name: str, inputs: tuple[Node, ...], attributes: tuple[Any, ...], type_: Any) -> Node:
    """Return a node, which is interned as a call of the operator would intern it."""
    operator = REGISTRY[name]
    given = tuple([None if node.operator is ABSENT.operator else node for node in inputs])
    found = operator.table.get((given, attributes))
    if isinstance(found, Node):
        # an output of an operator with several is interned with it
        return found
    made = new_node(operator, inputs, attributes, type_, None, None)
    operator.table[given, attributes] = made if type_.outputs is None else items_of(made)
    return made
