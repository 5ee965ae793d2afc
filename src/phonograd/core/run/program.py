"""Running: executes the recipe of a plan, in terms of slots, words and kernels.

Takes a :class:`Recipe` from the planner (:mod:`~phonograd.core.plan.native_program`) or from disk
(:mod:`~phonograd.core.plan.disk`) and hands values back. While a plan runs, its arrays are in a list of slots
(:mod:`~phonograd.core.plan.layout`). The steps of a recipe are rows of launches, each of which is one native call,
calls of NumPy, and arrays seen in another shape. A recipe contains nothing about the planner, so it can be kept on
disk.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Container, Sequence
from time import perf_counter_ns
from typing import Any, NamedTuple

import numpy as np

from ..base.dtypes import DType
from ..base.errors import MXNetError
from ..graph.node import Node, Shape
from ..graph.operator import Array
from . import kernel_cache, memory_pool
from .donation import Donation
from .driver import Row, can_launch, prepare
from .launcher import MOST_ON_STACK
from .programs import Memory, Note, Part
from .reference import located

__all__ = ["Aliased", "Called", "Launched", "Recipe", "RecipeProgram", "Rows", "Segment", "segment_of"]

#: a part of a run, as a function of the list of all values
Segment = Callable[[list[Any]], None]

_ARRAY = np.ndarray
_BYTE = np.dtype(np.uint8)
#: the place of the flag among the arrays of a row, after the numbers and the arena
_FLAG = 2


class Launched(NamedTuple):
    """One launch: the number of the kernel, its table, and its range."""

    kernel: int
    words: list[int]
    extent: int
    chunk: int


class Rows(NamedTuple):
    """Launches that follow each other in one native call."""

    slots: list[int]
    """The slots of the arrays, in the order in which tables number them: numbers, arena and flag are the first."""
    launches: list[Launched]
    regions: list[int]
    made: list[tuple[int, Shape, DType]]
    """Slot, shape and dtype of every array that is made first."""
    done: list[int]
    """Slots that are emptied afterwards."""


class Called(NamedTuple):
    """A call of NumPy: the node that it computes, the slot of its value, and the slots of the operands."""

    node: Node
    target: int
    sources: list[int]
    done: list[int]


class Aliased(NamedTuple):
    """An array that shares the memory of another one in another shape."""

    shape: Shape
    source: int
    target: int
    done: list[int]


class Recipe(NamedTuple):
    """All that is needed to run a plan."""

    steps: list[Rows | Called | Aliased]
    width: int
    """The number of slots."""
    numbers: bytes
    """The numbers that kernels read."""
    arena_bytes: int
    kept: list[tuple[Node, int]]
    """The nodes whose values a run returns, and their slots."""
    begun: list[tuple[int, int, Shape]]
    """Numbers of inputs, and slots and shapes of arrays that begin as them or as copies of them."""
    exchanges: list[tuple[list[tuple[int, Shape]], list[int]]]
    """Slots and shapes of results, and the numbers of inputs whose memory they can take."""
    memory: Memory

    @property
    def uses_numpy(self) -> bool:
        """Whether NumPy computes some of the values."""
        return any([isinstance(step, Called) for step in self.steps])

    @property
    def tells(self) -> bool:
        """Whether the native call sets a word when it is done: where one call computes all and may write over inputs.

        Inputs that are lost in the middle of several calls cannot be restored.
        """
        kernels = [isinstance(step, Rows) for step in self.steps]
        is_one_row = sum(kernels) == 1 and kernels[0] and not self.uses_numpy
        return is_one_row and bool(self.begun or self.exchanges)


class RecipeProgram:
    """A :class:`~phonograd.core.run.programs.Program` that runs a recipe.

    It can run in several threads at once: only the number of runs changes in it.
    """

    __slots__ = (
        "_aliases",
        "_arena_room",
        "_begun",
        "_exchanges",
        "_fixed",
        "_kept_slots",
        "_looks",
        "_on_stack",
        "_segments",
        "_tells",
        "_used",
        "_uses_numpy",
        "donatable",
        "inputs",
        "kept",
        "memory",
        "runs",
    )

    is_provisional = False

    inputs: tuple[Node, ...]

    def _follow(self, recipe: Recipe, kernels: Sequence[kernel_cache.Kernel]) -> None:
        """Prepare to run a recipe, given the kernels that it numbers."""
        self._used = kernels
        self._uses_numpy = recipe.uses_numpy
        self._tells = recipe.tells
        room = memory_pool.room_for(recipe.arena_bytes) if recipe.arena_bytes else 0
        self._arena_room = room
        #: whether rows check themselves that their inputs are contiguous, and whether the only row has its own arena
        self._looks = not self._uses_numpy and can_launch()
        is_only = len([step for step in recipe.steps if isinstance(step, Rows)]) == 1
        self._on_stack = self._looks and is_only and 0 < room <= MOST_ON_STACK
        own = room if self._on_stack else 0
        self._segments = [segment_of(step, kernels, self._tells, own) for step in recipe.steps]
        self._aliases = [step for step in recipe.steps if isinstance(step, Aliased)]
        numbers = np.frombuffer(recipe.numbers, np.uint8)
        # the slot of an arena that is not needed must still be something with a data address
        fixed = [numbers, numbers, np.zeros(1, np.int64)]
        self._fixed = [*fixed, *[None] * (recipe.width - len(self.inputs) - len(fixed))]
        self.kept = recipe.kept
        self._kept_slots = [slot for _, slot in recipe.kept]
        self._begun = recipe.begun
        self._exchanges = recipe.exchanges
        donatable = [] if self._uses_numpy else [number for number, _, _ in recipe.begun]
        donatable += [number for _, numbers in recipe.exchanges for number in numbers if self._tells]
        # an input may also be a result, if its value is the same
        self.donatable = tuple(dict.fromkeys([number for number in donatable if number not in self._kept_slots]))
        self.memory = recipe.memory
        self.runs = 0

    def run(self, inputs: list[Any], donated: Container[int] = (), note: Note | None = None) -> list[Array]:
        """Return the values of the kept nodes, given those of the inputs (see :class:`.programs.Program`).

        The second run lets the kernels be compiled in full, because more runs are likely to follow.
        """
        if self._looks and note is None and not donated and not self._begun:
            values = inputs + self._fixed
        else:
            values = [value if _is_contiguous(value) else _contiguous(value) for value in inputs]
            values += self._fixed
        for number in self.donatable:
            if values[number] is None:
                raise MXNetError("an array was lost: the computation that changed it in place has been interrupted")
        if donated:
            self._exchange(values, donated, note is None)
        for number, slot, shape in self._begun:
            given = values[number].reshape(shape)
            values[slot] = given if number in donated else _copied(given)
        if self._arena_room and not (self._on_stack and note is None):
            values[len(inputs) + 1] = memory_pool.allocate((self._arena_room,), _BYTE, self._arena_room)
        if note is not None:
            self._run_noted(values, note)
        elif self._uses_numpy:
            with np.errstate(all="ignore"):
                for segment in self._segments:
                    segment(values)
        else:
            for segment in self._segments:
                segment(values)
        if self.runs < 2:
            self.runs += 1
            if self.runs == 2:
                kernel_cache.improve(self._used)
        return [values[slot] for slot in self._kept_slots]

    def _exchange(self, values: list[Any], donated: Container[int], is_one_call: bool) -> None:
        """Let results take the memory of inputs that may be written over."""
        for made, numbers in self._exchanges:
            free = [values[number] for number in numbers if number in donated and number in self.donatable]
            for (slot, shape), array in zip(made, free):
                values[slot] = array if array.shape == shape else array.reshape(shape)
        if isinstance(donated, Donation):
            values[len(self.inputs) + _FLAG] = donated.begin(values, is_one_call and self._tells)

    def results(self, values: list[Any]) -> list[Array]:
        """Return the values of the kept nodes after a run that was interrupted when its kernels were done."""
        for shape, source, target, _ in self._aliases:
            if values[target] is None:
                values[target] = values[source].reshape(shape)
        return [values[slot] for slot in self._kept_slots]

    def _run_noted(self, values: list[Any], note: Note) -> None:
        with np.errstate(all="ignore"):
            for part, segment in self._noted():
                start = perf_counter_ns()
                segment(values)
                note(part, start, perf_counter_ns())

    def _noted(self) -> list[tuple[Part, Segment]]:
        """Return the parts of the program, each with the segment that runs it alone."""
        raise NotImplementedError


def segment_of(
    step: Rows | Called | Aliased, kernels: Sequence[kernel_cache.Kernel], tells: bool = False, room: int = 0
) -> Segment:
    """Return the function of the list of all values that runs a step; a row may have room for an arena of its own."""
    if isinstance(step, Rows):
        return _row(step, kernels, tells, room)
    return _call(step) if isinstance(step, Called) else _alias(step)


def _row(step: Rows, kernels: Sequence[kernel_cache.Kernel], tells: bool, own: int) -> Segment:
    """Return the segment of consecutive launches: one native call."""
    slots, launches, regions, made, done = step
    filled = [(kernels[kernel], words, extent, chunk) for kernel, words, extent, chunk in launches]
    row = Row(filled, len(slots), regions, _FLAG if tells else -1)
    arrays, allocate, empty = operator.itemgetter(*slots), memory_pool.allocate, np.empty
    small, large = [], []
    for slot, shape, dtype in made:
        size = dtype.itemsize
        for extent in shape:
            size *= extent
        room = memory_pool.room_for(size)
        if room < memory_pool.SMALLEST_BLOCK:
            small.append((slot, shape, dtype))
        else:
            large.append((slot, shape, dtype, room))

    launch = row.launcher(slots, small, own)

    def native(values: list[Any]) -> None:
        for slot, shape, dtype, room in large:
            if values[slot] is None:
                values[slot] = allocate(shape, dtype, room)
        if launch is None:
            for slot, shape, dtype in small:
                if values[slot] is None:
                    values[slot] = empty(shape, dtype)
            row.run(arrays(values))
        else:
            prepare()
            if not launch(values):
                for slot in slots:
                    values[slot] = _contiguous(values[slot])
                launch(values)
        for slot in done:
            values[slot] = None

    return native


def _call(step: Called) -> Segment:
    """Return the segment in which NumPy evaluates a node."""
    node, target, sources, done = step
    function = node.operator.reference(node.attributes)
    single = node.outputs is None

    def call(values: list[Any]) -> None:
        try:
            result = function(*[values[source] for source in sources])
        except Exception as error:
            raise located(error, node) from error
        values[target] = _contiguous(result) if single else result
        for slot in done:
            values[slot] = None

    return call


def _alias(step: Aliased) -> Segment:
    """Return the segment that makes an array of another shape from the memory of another one."""
    shape, source, target, done = step

    def alias(values: list[Any]) -> None:
        values[target] = values[source].reshape(shape)
        for slot in done:
            values[slot] = None

    return alias


def _copied(array: Array) -> Array:
    """Return a copy of an array in memory of the pool."""
    copy = memory_pool.allocate(array.shape, array.dtype, memory_pool.room_for(array.nbytes))
    np.copyto(copy, array)
    return copy


def _is_contiguous(value: Any) -> bool:
    return type(value) is _ARRAY and value.flags.c_contiguous


def _contiguous(value: Any) -> Any:
    """Return a value as a contiguous array; None (of an optional input that was left out) stays None.

    The last bits of NumPy's results may depend on the layout of its operands, so there is only one layout.
    """
    return None if value is None else np.asarray(value, order="C")
