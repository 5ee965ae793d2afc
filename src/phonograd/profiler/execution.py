"""Execution traces: the graph of operator calls and their arrays, for replay or analysis.

The format is PyTorch's: one node for each operator, scope, gradient and kernel, with its parent node and the numbers,
shapes and types of its input and output arrays. An array has the same number wherever it appears; arrays that share
memory have the same storage.

>>> import phonograd as mx
>>> x = mx.nd.ones((2, 3))
>>> with mx.profiler.ExecutionTraceObserver() as observer:
...     y = mx.nd.exp(x) + 1
>>> [node["name"] for node in observer.nodes() if node["name"] in ("exp", "broadcast_add")]
['exp', 'broadcast_add']
"""

from __future__ import annotations

import itertools
import os
import time
import weakref
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from ..core.array.handle import Handle
from ..core.base.docstrings import complete_classes
from ..core.base.dtypes import name_of
from ..core.events import (
    MEMORY,
    Range,
    RecordScope,
    add_global_callback,
    current_thread_id,
    remove_callback,
)
from .arguments import as_json
from .event import strides_of
from .tables import write_chunks

__all__ = ["ExecutionTraceObserver"]

_SCHEMA = "1.1.1-phonograd.1"
_SEEN = [scope for scope in RecordScope if scope != MEMORY]
_ROOT = 1


class _Numbers:
    """Unique numbers of objects while they live; a number is never reused."""

    def __init__(self) -> None:
        self._next = itertools.count(1)
        self._known: dict[int, tuple[Any, int]] = {}

    def of(self, thing: Any) -> int:
        """Return the number of an object."""
        identity = id(thing)
        found = self._known.get(identity)
        if found is None:
            known = self._known

            def forget(_: object, identity: int = identity) -> None:
                known.pop(identity, None)

            # another thread may number it at the same time: the first number stays
            found = known.setdefault(identity, (weakref.ref(thing, forget), next(self._next)))
        return found[1]


class ExecutionTraceObserver:
    """An observer that records the graph of calls between :meth:`start` and :meth:`stop`.

    Parameters
    ----------
    path : path, optional
        File that :meth:`stop` writes; compressed if it ends in ``.gz``. :meth:`register_callback` sets it too.

    Use it as a ``with`` block, or pass it to :class:`.session.profile` as ``execution_trace_observer``.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self._path = None if path is None else Path(path)
        self._handle = 0
        self._numbers = itertools.count(_ROOT + 1)
        self._arrays = _Numbers()
        self._nodes: list[dict[str, Any]] = []
        self._known: weakref.WeakKeyDictionary[Range, int] = weakref.WeakKeyDictionary()
        self._threads: dict[int, int] = {}
        self._start_ns = 0
        self._finish_ns = 0

    # -- PyTorch's names

    def register_callback(self, path: str | os.PathLike[str]) -> ExecutionTraceObserver:
        """Set the output file, and return the observer."""
        self._path = Path(path)
        return self

    def unregister_callback(self) -> None:
        """Stop the observer, and forget the output file."""
        self.stop()
        self._path = None

    @property
    def is_registered(self) -> bool:
        """Return whether an output file is set."""
        return self._path is not None

    def get_output_file_path(self) -> str | None:
        """Return the path of the output file; None if none is set."""
        return None if self._path is None else str(self._path)

    # -- life

    def start(self) -> None:
        """Start a new graph; does nothing if the observer is running."""
        if self._handle:
            return
        self._nodes, self._threads = [], {}
        self._known = weakref.WeakKeyDictionary()
        self._numbers = itertools.count(_ROOT + 1)
        self._start_ns, self._finish_ns = time.monotonic_ns(), 0
        self._nodes.append(_node(_ROOT, "[phonograd|profiler|execution_trace|process]", _ROOT, []))
        self._handle = add_global_callback(
            self._begin, self._end, scopes=_SEEN, needs_inputs=True, needs_outputs=True, needs_ids=True
        )

    def stop(self) -> None:
        """Finish the graph and write it to the output file, if set; does nothing if the observer is not running."""
        if not self._handle:
            return
        remove_callback(self._handle)
        self._handle = 0
        self._finish_ns = time.monotonic_ns()
        if self._path is not None:
            self.write(self._path)

    def __enter__(self) -> ExecutionTraceObserver:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    # -- results

    def nodes(self) -> list[dict[str, Any]]:
        """Return the nodes so far, ordered by start."""
        return list(self._nodes)

    def document(self) -> dict[str, Any]:
        """Return the trace as a dictionary."""
        return {
            "schema": _SCHEMA,
            "pid": os.getpid(),
            "time": time.strftime("%Y-%m-%d %H:%M:%S"),
            "start_ts": self._start_ns // 1_000_000,
            "nodes": self.nodes(),
            "finish_ts": (self._finish_ns or time.monotonic_ns()) // 1_000_000,
        }

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the trace as JSON; compressed if the path ends in ``.gz``."""
        write_chunks(path, self._pieces())

    def _pieces(self) -> Iterator[str]:
        """Yield the text of the document, node by node."""
        document = self.document()
        nodes = document["nodes"]
        before, after = as_json({**document, "nodes": []}).split('"nodes":[]')
        yield before + '"nodes":['
        for number, node in enumerate(nodes):
            yield ("," if number else "") + as_json(node)
        yield "]" + after

    # -- observing

    def _begin(self, source: Range) -> dict[str, Any]:
        number = next(self._numbers)
        attributes = [
            _attribute("rf_id", "uint64", source.handle),
            _attribute("fw_parent", "uint64", self._known.get(source.forward, 0) if source.forward else 0),
            _attribute("seq_id", "int64", source.sequence_nr),
            _attribute("scope", "uint64", int(source.scope)),
            _attribute("tid", "uint64", source.thread_id),
            _attribute("fw_tid", "uint64", source.forward_thread_id),
        ]
        if source.parameters:
            attributes.append(_attribute("parameters", "string", as_json(source.parameters)))
        if source.operators:
            served = dict.fromkeys([self._known.get(who, 0) for who in source.serves if isinstance(who, Range)])
            attributes.append(_attribute("operators", "string", as_json(source.operators)))
            attributes.append(_attribute("serves", "string", as_json([who for who in served if who])))
        made = _node(number, source.name, self._around(source), attributes)
        made["inputs"] = self._describe_arrays(source.inputs)
        self._known[source] = number
        self._nodes.append(made)
        return made

    def _end(self, source: Range, made: dict[str, Any] | None) -> None:
        if made is not None:
            made["outputs"] = self._describe_arrays(source.outputs)

    def _around(self, source: Range) -> int:
        """Return the node around a range, or the node of its thread."""
        around = source.parent
        while around is not None and around not in self._known:
            around = around.parent
        if around is not None:
            return self._known[around]
        thread = current_thread_id()
        found = self._threads.get(thread)
        if found is None:
            found = self._threads[thread] = next(self._numbers)
            attributes = [_attribute("tid", "uint64", thread), _attribute("thread_name", "string", source.thread_name)]
            self._nodes.append(_node(found, "[phonograd|profiler|execution_trace|thread]", _ROOT, attributes))
        return found

    def _describe_arrays(self, values: tuple[Any, ...]) -> dict[str, list[Any]]:
        found: dict[str, list[Any]] = {"values": [], "shapes": [], "types": [], "strides": []}
        for value in values:
            if isinstance(value, Handle):
                shape, dtype = value.shape, value._dtype
                found["values"].append(self._place(value))
                found["shapes"].append(list(shape))
                found["types"].append(f"Tensor({name_of(dtype)})")
                found["strides"].append(strides_of(shape))
            else:
                found["values"].append(value if isinstance(value, str | int | float | bool | None) else repr(value))
                found["shapes"].append([])
                found["types"].append(type(value).__name__)
                found["strides"].append([])
        return found

    def _place(self, array: Handle) -> list[Any]:
        """Return the number, storage, offset, element count, element size and device of an array."""
        top, offset = array, 0
        while top._root is not None:
            region = top._region
            offset += 0 if region is None else region[0]
            top = top._root
        elements = 1
        for extent in array.shape:
            elements *= extent
        device = f"{array.context.device_type}:{array.context.device_id}"
        return [self._arrays.of(array), self._arrays.of(top), offset, elements, array._dtype.itemsize, device]


def _node(number: int, name: str, around: int, attributes: list[dict[str, Any]]) -> dict[str, Any]:
    nothing: dict[str, list[Any]] = {"values": [], "shapes": [], "types": [], "strides": []}
    return {
        "id": number,
        "name": name,
        "ctrl_deps": around,
        "inputs": nothing,
        "outputs": {key: [] for key in nothing},
        "attrs": attributes,
    }


def _attribute(name: str, kind: str, value: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "value": value}


complete_classes(globals())
