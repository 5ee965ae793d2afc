"""Recall: the disk cache of plans, shared by all processes of a user.

Takes nodes from :func:`phonograd.core.plan.cache.choose_program`; hands a program back, from disk or from the planner.
Planning takes more time than loading kernels does, and a script that is started again needs the same plans. Everything
that a plan depends on is described (:func:`describe`): the operators, their attributes, shapes and dtypes, the edges
and the order of the graph, the available values, the targets, and the settings that the planner reads. The sources, the
compiler and the processor are part of every key of the disk. The recipe of the plan is stored under a digest of the
description: numbers only, and the names of its kernels. See docs/decisions/0013.

The planner's other knowledge (which nodes a kernel computes, and why) is not stored. The plan is made when an observer
needs it.
"""

from __future__ import annotations

import marshal
import struct
from array import array
from collections.abc import Callable, Container, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..base import collector, processor, settings
from ..base.devices import Context
from ..base.dtypes import DType
from ..base.pace import is_paced, paced, rest
from ..graph.node import Node, Shape
from ..graph.operator import REGISTRY, Array, Operator
from ..kernels.launch import Written
from ..ops.math.structural import LEAF
from ..run import driver, kernel_cache, memory_pool
from ..run.background import run_apart
from ..run.disk_cache import DiskCache, is_ours
from ..run.host import host
from ..run.program import AliasStep, NumpyStep, Recipe, RecipeLaunch, RecipeProgram, RowStep
from ..run.programs import Memory, Note, Part
from ..run.reference import order, resolve
from .any_extents import DEPTH, STRUCTURES, Outline, outline_of
from .packing import pack_inputs
from .sized_plan import DTYPES, Refused

if TYPE_CHECKING:
    from .native_program import NativeProgram

__all__ = [
    "DEPTH",
    "DTYPES",
    "DiskProgram",
    "compile_elsewhere",
    "decode",
    "describe",
    "encode",
    "is_stored",
    "program_for",
    "recalled_program",
]

#: maximum number of plans that one process stores: programs whose graphs never repeat must not fill the disk
MOST_STORED = 256
#: the largest plan that is stored, and the share of the limit of the directory that it may take
LARGEST_BYTES, LEAST_SHARE = 8 << 20, 16

_HEAD = struct.Struct("<QQ")

_stored = 0


def program_for(
    targets: Iterable[Node], available: Callable[[Node], bool], keep_all: bool
) -> NativeProgram | DiskProgram:
    """Return the program that computes nodes: by a plan for any extents, from disk, or planned now and stored."""
    if not kernel_cache.available():
        return _plan(targets, available, keep_all)
    with collector.paused(stay=True):
        wanted = [resolve(node) for node in targets]
        inputs, computed = order(wanted, available)
        outline = _outline(wanted, inputs, computed, keep_all)
        found = None if outline is None else STRUCTURES.find(outline)
        if found is not None:
            return DiskProgram(*found, wanted, inputs, keep_all)
        recalled, plan = _recall(wanted, inputs, computed, available, keep_all)
        program = plan() if recalled is None else recalled
        if outline is not None:
            STRUCTURES.note(outline, program.planned)
        return program


def recalled_program(targets: Iterable[Node], available: Callable[[Node], bool], keep_all: bool) -> DiskProgram | None:
    """Return the program that computes nodes if it is on disk."""
    if not kernel_cache.available():
        return None
    with collector.paused(stay=True):
        wanted = [resolve(node) for node in targets]
        return _recall(wanted, *order(wanted, available), available, keep_all)[0]


def is_stored(targets: Iterable[Node], known: Container[Node], keep_all: bool) -> bool:
    """Return whether a plan of an evaluation is on disk or holds for any extents, given the nodes with known values."""
    if not kernel_cache.available():
        return False
    disk = kernel_cache.disk_cache()
    with collector.paused(stay=True):
        wanted = [resolve(node) for node in targets]
        wanted = [node for node in wanted if node.operator is not LEAF and node not in known]
        inputs, computed = order(wanted, known.__contains__)
        outline = _outline(wanted, inputs, computed, keep_all)
        if outline is not None and STRUCTURES.holds(outline):
            return True
        description = None if disk is None else describe(wanted, inputs, computed, keep_all)
    return disk is not None and description is not None and disk.load(disk.key(description, "p")) is not None


def _recall(
    wanted: list[Node],
    inputs: tuple[Node, ...],
    computed: Sequence[Node],
    available: Callable[[Node], bool],
    keep_all: bool,
) -> tuple[DiskProgram | None, Callable[[], NativeProgram]]:
    """Return the program on disk, if there is one, and the function that plans it and stores it."""
    disk = kernel_cache.disk_cache()
    description = None if disk is None else describe(wanted, inputs, computed, keep_all)
    if disk is None or description is None:
        return None, lambda: _plan(wanted, available, keep_all)
    kernel_cache.compile_elsewhere(compile_elsewhere)
    nodes = [*inputs, *computed]
    key = disk.key(description, "p")
    budget = memory_pool.budget_bytes(sum([node.size * node.dtype.itemsize for node in inputs]))
    rest()
    recalled = _load(disk, key, nodes, wanted, inputs, keep_all)
    limited = ""
    if budget is not None and (recalled is None or recalled.memory.total > budget):
        # a plan that computes values again to fit into the memory limit is stored apart from the other one
        limited = disk.key(description + f"\nat most {budget} bytes".encode(), "p")
        recalled = _load(disk, limited, nodes, wanted, inputs, keep_all)

    if recalled is not None and not keep_all and budget is None and settings.current().packed_bytes:
        from .packed_plans import recall_packed

        recalled.not_packed = recall_packed(disk, recalled)

    def plan(disk: DiskCache = disk) -> NativeProgram:
        planned = _plan(wanted, available, keep_all)
        _keep(disk, limited if planned.is_limited else key, planned, nodes)
        return planned

    return recalled, plan


def _outline(wanted: list[Node], inputs: tuple[Node, ...], computed: Sequence[Node], keep_all: bool) -> Outline | None:
    """Return the outline of a graph; None if it has none, or if plans depend on a memory limit."""
    if settings.current().memory_limit_bytes:
        return None
    try:
        return outline_of(wanted, inputs, computed, keep_all)
    except Refused:
        return None


def _plan(targets: Iterable[Node], available: Callable[[Node], bool], keep_all: bool) -> NativeProgram:
    driver.precompile()
    # the planner is a third of the import time
    from .native_program import NativeProgram

    # a helper that plans has more to do than one that looks a plan up
    with paced(is_paced()):
        return NativeProgram(targets, available, keep_all)


def compile_elsewhere(key: str) -> bool | None:
    """Have the planner process compile a kernel in full (see :func:`.kernel_cache.compile_elsewhere`)."""
    from .planner_process import improve

    return improve(key)


def _load(
    disk: DiskCache, key: str, nodes: Sequence[Node], wanted: list[Node], inputs: tuple[Node, ...], keep_all: bool
) -> DiskProgram | None:
    data = disk.load(key)
    found = None if data is None else decode(data, nodes)
    if found is None:
        return None
    recipe, names = found
    try:
        kernels = kernel_cache.load_kernels(names)
        if kernels is None:
            return None
        program = DiskProgram(recipe, kernels, wanted, inputs, keep_all)
    except kernel_cache.CompilerLost as error:
        kernel_cache.disable_compiler(error)
        return None
    kernel_cache.statistics.plans_loaded += 1
    return program


def _keep(disk: DiskCache, key: str, planned: NativeProgram, nodes: Sequence[Node]) -> None:
    global _stored
    if _stored < MOST_STORED:
        data = encode(planned.recipe, planned.kernels, planned.work, nodes)
        if data is not None and len(data) <= min(LARGEST_BYTES, disk.limit_bytes // LEAST_SHARE):
            _stored += 1
            kernel_cache.finish_keeping()
            disk.save(key, data)


class DiskProgram(RecipeProgram):
    """A program whose recipe was read from disk, or follows from a plan for any extents."""

    __slots__ = ("_keep_all", "_planned", "_wanted", "not_packed")

    def __init__(
        self,
        recipe: Recipe,
        kernels: Sequence[kernel_cache.Kernel],
        wanted: list[Node],
        inputs: tuple[Node, ...],
        keep_all: bool,
    ) -> None:
        self.inputs = inputs
        self._wanted = wanted
        self._keep_all = keep_all
        self._planned: NativeProgram | None = None
        #: numbers of inputs for which there is no plan that takes them packed
        self.not_packed: list[int] = []
        self._prepare(recipe, kernels)

    @property
    def parts(self) -> list[Part]:
        """The parts of a run, in order; the first access makes the plan."""
        return self.planned().parts

    @property
    def kernels(self) -> dict[Written, kernel_cache.Kernel]:
        """The kernels by structure; the first access makes the plan."""
        return self.planned().kernels

    def run(self, inputs: list[Any], donated: Any = (), note: Note | None = None) -> list[Array]:
        """Return the values of the kept nodes (see :class:`.programs.Program`); ``note`` sees the planner's parts."""
        if note is None:
            return super().run(inputs, donated)
        planned = self.planned()
        found = dict(zip([node for node, _ in planned.kept], planned.run(inputs, donated, note), strict=True))
        return [found[node] for node, _ in self.kept]

    def _pack(self, numbers: list[int]) -> None:
        if not self._keep_all and numbers != self.not_packed:
            pack_inputs(self, numbers)

    def planned(self) -> NativeProgram:
        """Return the program of the planner."""
        if self._planned is None:
            available = set(self.inputs).__contains__
            self._planned = run_apart(lambda: _plan(self._wanted, available, self._keep_all))
        return self._planned


# -- descriptions


def describe(wanted: Sequence[Node], inputs: Sequence[Node], computed: Sequence[Node], keep_all: bool) -> bytes | None:
    """Describe everything that the plan for some nodes depends on, as bytes that are equal in all processes.

    Return None if a node has an operator of another library, or an attribute that is an object.
    """
    numbers = {node: number for number, node in enumerate((*inputs, *computed))}
    forms: dict[Any, int] = {}
    now = settings.current()
    texts: list[str] = [f"{keep_all} {now.winograd} {now.num_threads} {tuple(host())} {now.attention_blocks}"]
    texts.append(repr(processor.choices()))
    words: list[int] = [len(inputs), len(computed), len(wanted), *[numbers[node] for node in wanted]]
    append = words.append
    try:
        for node in inputs:
            texts.append(_describe_available(node, numbers, DEPTH))
        for node in computed:
            rest()
            attributes, sources = node.attributes, node.inputs
            form = (node.operator, node.shape, node.kind, _exactly(attributes) if attributes else None)
            number = forms.get(form)
            if number is None:
                number = forms[form] = len(forms)
                texts.append(_form(node))
            append(number)
            append(len(sources))
            for source in sources:
                while source.operator.is_view:
                    source = source.inputs[0]
                append(numbers[source])
    except TypeError:
        return None
    return array("q", words).tobytes() + "\n".join(texts).encode()


def _exactly(attributes: tuple[Any, ...]) -> bytes | str:
    """Return attributes as a key under which 1, 1.0 and True differ, and so do 0.0 and -0.0."""
    try:
        # without references between objects, which depend on other holders of the object
        return marshal.dumps(attributes, 2)
    except ValueError:
        return _text(attributes)


def _form(node: Node) -> str:
    """Return the description of a node without its inputs."""
    operator = node.operator
    if not _is_known(operator):
        raise TypeError(f"{operator} is not part of the library")
    outputs = "" if node.outputs is None else _text(node.outputs)
    return f"{operator.name} {node.shape} {node.dtype.str} {_text(node.attributes)} {outputs}"


def _describe_available(node: Node, numbers: dict[Node, int], depth: int) -> str:
    """Describe an available value, with as much of its computation as rules see."""
    if node.operator is LEAF or not depth:
        return f"{node.shape} {node.dtype.str}"
    sources = [resolve(source) for source in node.inputs]
    below = [
        f"#{numbers[source]}" if source in numbers else _describe_available(source, numbers, depth - 1)
        for source in sources
    ]
    return f"{_form(node)} ({', '.join(below)})"


def _is_known(operator: Operator) -> bool:
    """Return whether the sources of the library define an operator."""
    return REGISTRY.get(operator.name) is operator and is_ours(operator)


def _text(value: Any) -> str:
    """Return a plain value as text; raise TypeError for objects."""
    kind = type(value)
    if kind is tuple:
        return f"({','.join([_text(part) for part in value])})"
    if value is None or kind in (int, float, bool, str, bytes):
        return repr(value)
    if isinstance(value, np.dtype):
        return value.str
    if kind is Context:
        return f"{value.device_type}({value.device_id})"
    raise TypeError(f"{kind} cannot be described")


# -- recipes as bytes


def encode(
    recipe: Recipe, kernels: dict[Written, kernel_cache.Kernel], work: dict[Written, int], nodes: Sequence[Node]
) -> bytes | None:
    """Encode a recipe as bytes, with nodes as numbers; return None if a node or kernel has no number."""
    names = [kernel.key for kernel in kernels.values()]
    numbers = {node: number for number, node in enumerate(nodes)}
    words = _Words([recipe.width, recipe.arena_bytes, *recipe.memory])
    try:
        words.extend([len(recipe.kept)])
        for node, slot in recipe.kept:
            words.extend([numbers[node], slot])
        words.extend([len(recipe.begun)])
        for number, slot, shape in recipe.begun:
            words.extend([number, slot])
            words.put(shape)
        words.extend([len(recipe.exchanges)])
        for made, given in recipe.exchanges:
            words.extend([len(made)])
            for slot, shape in made:
                words.extend([slot])
                words.put(shape)
            words.put(given)
        words.put([work[structure] for structure in kernels])
        words.extend([len(recipe.steps)])
        for step in recipe.steps:
            rest()
            _put_step(words, step, numbers)
        data = array("q", words).tobytes()
    except (KeyError, OverflowError):
        return None
    if None in names:
        return None
    return b"".join(
        [_HEAD.pack(len(words), len(recipe.numbers)), data, recipe.numbers, "\n".join(map(str, names)).encode()]
    )


class _Words(list[int]):
    """A list of words that is being written."""

    def put(self, values: Sequence[int]) -> None:
        """Add some words after their number."""
        self.append(len(values))
        self.extend(values)


def _put_step(words: _Words, step: RowStep | NumpyStep | AliasStep, numbers: dict[Node, int]) -> None:
    if isinstance(step, NumpyStep):
        words.extend([1, _number(step.node, numbers), step.target])
        words.put(step.sources)
    elif isinstance(step, AliasStep):
        words.extend([2, step.source, step.target])
        words.put(step.shape)
    else:
        words.extend([0, len(step.launches)])
        for kernel, table, extent, chunk in step.launches:
            words.extend([kernel, extent, chunk])
            words.put(table)
        words.put(step.slots)
        words.put(step.regions)
        words.extend([len(step.made)])
        for slot, shape, dtype in step.made:
            words.extend([slot, DTYPES[dtype.num].num])
            words.put(shape)
    words.put(step.done)


def _number(node: Node, numbers: dict[Node, int]) -> int:
    """Return the number of a node, or that of the node whose value it computes again."""
    original: Node | None = node
    while original is not None and original not in numbers:
        original = original.gradient_of
    if original is None or (original.operator, original.attributes) != (node.operator, node.attributes):
        raise KeyError(node)
    return numbers[original]


def decode(data: bytes, nodes: Sequence[Node]) -> tuple[Recipe, list[tuple[str, int]]] | None:
    """Decode a recipe, with keys and work of its kernels; return None if the bytes are not a recipe."""
    try:
        return _decode(data, nodes)
    except (IndexError, KeyError, ValueError, struct.error):
        return None


def _decode(data: bytes, nodes: Sequence[Node]) -> tuple[Recipe, list[tuple[str, int]]]:
    count, numbers_size = _HEAD.unpack_from(data)
    end = _HEAD.size + 8 * count
    read = _Reader(np.frombuffer(data, np.int64, count, _HEAD.size).tolist())
    numbers, names = data[end : end + numbers_size], data[end + numbers_size :].decode()
    width, arena_bytes, memory = read.word(), read.word(), Memory(*read.some(4))
    kept = [(nodes[read.word()], read.word()) for _ in range(read.word())]
    begun = [(read.word(), read.word(), tuple(read.list())) for _ in range(read.word())]
    exchanges = [
        ([(read.word(), tuple(read.list())) for _ in range(read.word())], read.list()) for _ in range(read.word())
    ]
    work = read.list()
    steps = [read.step(nodes) for _ in range(read.word())]
    recipe = Recipe(steps, width, numbers, arena_bytes, kept, begun, exchanges, memory)
    return recipe, list(zip(names.split("\n") if names else [], work, strict=True))


class _Reader:
    """A list of words that is being read."""

    def __init__(self, words: list[int]) -> None:
        self._words = words
        self._place = 0

    def word(self) -> int:
        """Return the next word."""
        found = self._words[self._place]
        self._place += 1
        return found

    def some(self, count: int) -> list[int]:
        """Return the next words."""
        place = self._place
        self._place = end = place + count
        if count < 0 or end > len(self._words):
            raise ValueError("words are missing")
        return self._words[place:end]

    def list(self) -> list[int]:
        """Return the words that follow their number."""
        return self.some(self.word())

    def step(self, nodes: Sequence[Node]) -> RowStep | NumpyStep | AliasStep:
        """Return a step of a recipe."""
        kind = self.word()
        if kind == 1:
            return NumpyStep(nodes[self.word()], self.word(), self.list(), self.list())
        if kind == 2:
            source, target = self.some(2)
            return AliasStep(tuple(self.list()), source, target, self.list())
        if kind:
            raise ValueError(f"unknown kind of step: {kind}")
        launches = [self._launch() for _ in range(self.word())]
        slots, regions = self.list(), self.list()
        made = [self._allocation() for _ in range(self.word())]
        return RowStep(slots, launches, regions, made, self.list())

    def _launch(self) -> RecipeLaunch:
        kernel, extent, chunk, count = self.some(4)
        return RecipeLaunch(kernel, self.some(count), extent, chunk)

    def _allocation(self) -> tuple[int, Shape, DType]:
        slot, number = self.some(2)
        return slot, tuple(self.list()), DTYPES[number]
