"""Plans that take steady inputs packed, on disk: :mod:`~phonograd.core.plan.packing` makes and finds them here.

A file contains the packings, as numbers and the names of their kernels, and the recipe of the plan
(:mod:`~phonograd.core.plan.disk`). Its key is a digest of the description of the plan and of the numbers of the inputs.
A file with a head alone says that a plan for these steady inputs would be the plan without them. Another file contains
the numbers of the latest steady inputs: a later process that finds the plan without them takes them packed at once.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..base import collector
from ..graph.node import Node
from ..run import kernel_cache
from ..run.disk_cache import DiskCache
from ..run.packed_operands import PackedOperands, Preparation, kind_of
from ..run.program import Recipe, RecipeProgram
from ..run.reference import order
from .disk import DTYPES, decode, describe, encode

if TYPE_CHECKING:
    from .native_program import NativeProgram

__all__ = ["NOTHING", "PackedGraph", "recall_packed"]

_HEAD = struct.Struct("<QQ")
#: stands for a plan that is not worth making
NOTHING = object()
#: follows the description of a plan in the key of the numbers of its steady inputs
STEADY = b"\nsteady"


class PackedGraph(NamedTuple):
    """A graph whose plan takes some inputs packed."""

    targets: list[Node]
    inputs: tuple[Node, ...]
    computed: Sequence[Node]
    numbers: list[int]
    """The numbers of the steady inputs."""

    @staticmethod
    def of(targets: list[Node], inputs: Sequence[Node], numbers: Sequence[int]) -> PackedGraph | None:
        """Return the graph of targets; None if it has other inputs than these."""
        found, computed = order(targets, frozenset(inputs).__contains__)
        return PackedGraph(targets, found, computed, list(numbers)) if found == tuple(inputs) else None

    def key(self, disk: DiskCache) -> str | None:
        """Return the key of the plan on disk, if it has one."""
        description = self.description()
        return None if description is None else self.key_of(disk, description)

    def key_of(self, disk: DiskCache, description: bytes) -> str:
        """Return the key of the plan on disk, given the description of the graph."""
        return disk.key(description + f"\nsteady {self.numbers}".encode(), "p")

    def description(self) -> bytes | None:
        """Return the description of the graph, without the numbers of the steady inputs, if it has one."""
        with collector.paused(stay=True):
            return describe(self.targets, self.inputs, self.computed, False)

    def plan(self) -> NativeProgram | None:
        """Return a new plan; None if it would be the plan without steady inputs."""
        # a process that finds its plans on disk need not import the planner
        from .native_program import NativeProgram

        steady = frozenset([self.inputs[number] for number in self.numbers])
        planned = NativeProgram(self.targets, frozenset(self.inputs).__contains__, steady=steady)
        if not (planned.preparations or planned.has_epilogues) or [node for node, _ in planned.kept] != self.targets:
            return None
        given = planned.inputs[: len(planned.inputs) - len(planned.preparations)]
        return planned if given == self.inputs else None

    def save(self, disk: DiskCache, key: str, planned: NativeProgram | None) -> None:
        """Store a plan, or that there is none."""
        data = _HEAD.pack(0, 0)
        if planned is not None:
            nodes = [*self.inputs, *self.computed]
            recipe = encode(planned.recipe, planned.kernels, planned.work, nodes)
            packings = _encode(planned.preparations)
            if recipe is None or packings is None:
                return
            data = packings + recipe
        kernel_cache.finish_keeping()
        disk.save(key, data)
        description = self.description()
        if description is not None:
            disk.save(disk.key(description + STEADY, "p"), array("q", self.numbers).tobytes())

    def load(self, disk: DiskCache, key: str) -> Any:
        """Return the stored plan as packed operands, or :data:`NOTHING`; None if it is not on disk."""
        data = disk.load(key)
        try:
            return None if data is None else self._load(data)
        except (IndexError, KeyError, ValueError, struct.error):
            return None

    def _load(self, data: bytes) -> Any:
        count, size = _HEAD.unpack_from(data)
        if len(data) == _HEAD.size:
            return NOTHING
        end = _HEAD.size + 8 * count
        words: list[int] = np.frombuffer(data, np.int64, count, _HEAD.size).tolist()
        names = data[end : end + size].decode().split("\n") if size else []
        found = decode(data[end + size :], [*self.inputs, *self.computed])
        rows = _decode(words)
        if found is None or len(rows) != len(names) or any([row.source >= len(self.inputs) for row in rows]):
            return None
        recipe, used = found
        kernels = kernel_cache.load_kernels([*used, *[(name, row.work) for name, row in zip(names, rows)]])
        if kernels is None:
            return None
        program = _LoadedProgram(recipe, kernels[: len(used)], self.inputs, [row.source for row in rows])
        made = [row.preparation(kernel) for row, kernel in zip(rows, kernels[len(used) :], strict=True)]
        kernel_cache.statistics.plans_loaded += 1
        return PackedOperands(program, made)


def recall_packed(disk: DiskCache, program: RecipeProgram) -> list[int]:
    """Let a program from disk take those inputs packed that an earlier process has, if that plan is on disk, too.

    Return the numbers of these inputs if there is no such plan, because it would be the plan without them. If other
    arrays come in every run this time, they are packed a few times, and then no more
    (:class:`~phonograd.core.run.packed_operands.PackedOperands`).
    """
    graph = PackedGraph.of([node for node, _ in program.kept], program.inputs, ())
    description = None if graph is None else graph.description()
    words = None if description is None else disk.load(disk.key(description + STEADY, "p"))
    if graph is None or description is None or not words or len(words) % 8:
        return []
    graph = graph._replace(numbers=np.frombuffer(words, np.int64).tolist())
    found = graph.load(disk, graph.key_of(disk, description))
    if isinstance(found, PackedOperands):
        program.use_packed(found)
    return graph.numbers if found is NOTHING else []


class _LoadedProgram(RecipeProgram):
    """A program from disk whose last inputs are packed forms of others."""

    __slots__ = ()

    def __init__(
        self,
        recipe: Recipe,
        kernels: Sequence[kernel_cache.Kernel],
        inputs: tuple[Node, ...],
        sources: Sequence[int],
    ) -> None:
        self.inputs = (*inputs, *[inputs[source] for source in sources])
        self._prepare(recipe, kernels)
        self.never_pack()


class _Row(NamedTuple):
    """A packing, as it is stored."""

    source: int
    extent: int
    chunk: int
    dtype: int
    shape: tuple[int, ...]
    table: list[int]

    @property
    def work(self) -> int:
        return self.extent // self.chunk

    def preparation(self, kernel: kernel_cache.Kernel) -> Preparation:
        """Return the packing by a kernel."""
        dtype = DTYPES[self.dtype]
        kind = kind_of((kernel.key, tuple(self.table), self.extent, self.chunk, self.shape, self.dtype))
        return Preparation(self.source, kind, kernel, self.table, self.extent, self.chunk, self.shape, dtype)


def _encode(preparations: Sequence[Preparation]) -> bytes | None:
    """Encode packings; return None if a kernel is not on disk."""
    words: list[int] = []
    names: list[str] = []
    for source, _, kernel, table, extent, chunk, shape, dtype in preparations:
        if kernel.key is None or DTYPES.get(dtype.num) != dtype:
            return None
        names.append(kernel.key)
        words += [source, extent, chunk, dtype.num, len(shape), *shape, len(table), *table]
    text = "\n".join(names).encode()
    return _HEAD.pack(len(words), len(text)) + array("q", words).tobytes() + text


def _decode(words: list[int]) -> list[_Row]:
    rows, place = [], 0
    while place < len(words):
        source, extent, chunk, dtype, count = words[place : place + 5]
        begin = place + 5 + count
        shape, length = tuple(words[place + 5 : begin]), words[begin]
        place = begin + 1 + length
        rows.append(_Row(source, extent, chunk, dtype, shape, words[begin + 1 : place]))
    return rows
