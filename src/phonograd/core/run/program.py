"""Recipe programs: run the recipe of a plan.

Takes a :class:`Recipe` from the planner (:mod:`~phonograd.core.plan.native_program`) or from disk
(:mod:`~phonograd.core.plan.disk`) and hands values back. During a run the arrays are in a list of slots
(:mod:`~phonograd.core.plan.layout`). A step of a recipe is a row of launches (one native call), a call of NumPy, or a
reshaped array. A recipe is independent of the planner, so it can be stored on disk.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Container, Sequence
from time import perf_counter_ns
from typing import Any, NamedTuple

import numpy as np

from ..base import settings
from ..base.dtypes import DType
from ..base.errors import MXNetError
from ..base.outside import is_from_outside
from ..graph.node import Node, Shape
from ..graph.operator import Array, item_operator
from . import kernel_cache, memory_pool, packed_operands
from .called import function_of_node, needs_numpy
from .donation import Donation
from .driver import Row, can_launch, prepare
from .launcher import MOST_ON_STACK
from .programs import STEP_BYTES, Memory, Note, Part, Progress
from .reference import locate_error
from .row_call import WholeRow
from .thread_pool_words import LAUNCH_WORDS

__all__ = [
    "AliasStep",
    "NumpyStep",
    "OnlyRow",
    "Recipe",
    "RecipeLaunch",
    "RecipeProgram",
    "RowStep",
    "Segment",
    "as_contiguous",
    "last_touches",
    "segment_of",
]

#: runs one step, given the list of all values
Segment = Callable[[list[Any]], None]

_ARRAY = np.ndarray
_ITEM = item_operator()
_BYTE = np.dtype(np.uint8)
#: number of the flag among the arrays of a row, after the numbers and the arena
_FLAG = 2
#: the run whose inputs are noted, and the one whose inputs are compared with them
_NOTED, _COMPARED = 3, 6


class RecipeLaunch(NamedTuple):
    """One launch: the number of the kernel, its table, and its range."""

    kernel: int
    words: list[int]
    extent: int
    chunk: int


class RowStep(NamedTuple):
    """Launches that run one after the other in one native call."""

    slots: list[int]
    """The slots of the arrays, in the order in which tables number them: numbers, arena and flag are the first."""
    launches: list[RecipeLaunch]
    regions: list[int]
    made: list[tuple[int, Shape, DType]]
    """Slot, shape and dtype of every array to make first."""
    done: list[int]
    """Slots to empty afterwards."""


class NumpyStep(NamedTuple):
    """A call of NumPy: its node, the slot of its value, and the slots of its operands."""

    node: Node
    target: int
    sources: list[int]
    done: list[int]


class AliasStep(NamedTuple):
    """An array that shares the memory of another one in another shape."""

    shape: Shape
    source: int
    target: int
    done: list[int]


class Recipe(NamedTuple):
    """A plan as plain data: everything that a run needs except the kernels."""

    steps: list[RowStep | NumpyStep | AliasStep]
    width: int
    """The number of slots."""
    numbers: bytes
    """The numbers that kernels read."""
    arena_bytes: int
    kept: list[tuple[Node, int]]
    """The nodes whose values a run returns, and their slots."""
    begun: list[tuple[int, int, Shape]]
    """Numbers of inputs, and slots and shapes of arrays that start as these inputs or as copies of them."""
    exchanges: list[tuple[list[tuple[int, Shape]], list[int]]]
    """Slots and shapes of results, and the numbers of inputs whose memory they can take."""
    memory: Memory

    @property
    def nbytes(self) -> int:
        """The bytes of its tables and numbers."""
        launches = [each for step in self.steps if isinstance(step, RowStep) for each in step.launches]
        words = sum([len(each.words) + LAUNCH_WORDS for each in launches])
        return 8 * words + len(self.numbers) + STEP_BYTES * len(self.steps)

    @property
    def uses_numpy(self) -> bool:
        """Return whether NumPy computes some of the values."""
        return any([isinstance(step, NumpyStep) for step in self.steps])

    @property
    def sets_flag(self) -> bool:
        """Return whether the native call sets a flag at its end.

        It does if a single call computes everything and may write over inputs. Inputs that are lost between several
        calls cannot be restored, so no flag is needed.
        """
        kernels = [isinstance(step, RowStep) for step in self.steps]
        is_one_row = sum(kernels) == 1 and kernels[0] and not self.uses_numpy
        return is_one_row and bool(self.begun or self.exchanges)


class OnlyRow(NamedTuple):
    """The only step of a program, for callers that run it without the program."""

    row: Row
    slots: list[int]
    """The slots of the arrays, in the order in which the row numbers them."""
    made: tuple[int, Shape, DType]
    """Slot, shape and dtype of the result."""
    made_room: int
    """The bytes of its memory from the pool; 0 if it is small."""
    room: int
    """The bytes of an arena on the stack; 0 if there is none."""
    pooled_room: int
    """The bytes of an arena from the pool; 0 if there is none."""
    fixed: list[Any]
    """The values of the slots that follow the inputs."""


class RecipeProgram:
    """A :class:`~phonograd.core.run.programs.Program` that runs a recipe.

    It can run in several threads at once: only the number of runs changes in it.
    """

    __slots__ = (
        "_aliases",
        "_arena_room",
        "_begun",
        "_checks_layout",
        "_choices",
        "_exchanges",
        "_fixed",
        "_kept_slots",
        "_needs_numpy",
        "_noted",
        "_on_stack",
        "_only",
        "_packs",
        "_segments",
        "_sets_flag",
        "_used",
        "_uses_numpy",
        "donatable",
        "inputs",
        "kept",
        "memory",
        "nbytes",
        "packed",
        "runs",
    )

    is_provisional = False
    size = 0

    inputs: tuple[Node, ...]

    def _prepare(self, recipe: Recipe, kernels: Sequence[kernel_cache.Kernel]) -> None:
        """Prepare to run a recipe, given the kernels that it refers to by number."""
        self._used = kernels
        self._uses_numpy = recipe.uses_numpy
        self._needs_numpy = any([isinstance(step, NumpyStep) and needs_numpy(step.node) for step in recipe.steps])
        self._sets_flag = recipe.sets_flag
        room = memory_pool.room_for(recipe.arena_bytes) if recipe.arena_bytes else 0
        self._arena_room = room
        #: whether steps check that their inputs are contiguous, and whether the only row has its arena on the stack
        self._checks_layout = not self._needs_numpy and can_launch()
        is_only = len([step for step in recipe.steps if isinstance(step, RowStep)]) == 1
        self._on_stack = self._checks_layout and not self._uses_numpy and is_only and 0 < room <= MOST_ON_STACK
        own = room if self._on_stack else 0
        self._segments = [segment_of(step, kernels, self._sets_flag, own) for step in recipe.steps]
        self._only = _only_step(recipe) if self._checks_layout else None
        self._aliases = [step for step in recipe.steps if isinstance(step, AliasStep)]
        numbers = np.frombuffer(recipe.numbers, np.uint8)
        # the slot of an unused arena still needs an object with a data address
        fixed = [numbers, numbers, np.zeros(1, np.int64)]
        self._fixed = [*fixed, *[None] * (recipe.width - len(self.inputs) - len(fixed))]
        self.kept = recipe.kept
        self._kept_slots = [slot for _, slot in recipe.kept]
        self._begun = recipe.begun
        self._exchanges = recipe.exchanges
        donatable = [] if self._uses_numpy else [number for number, _, _ in recipe.begun]
        donatable += [number for _, numbers in recipe.exchanges for number in numbers if self._sets_flag]
        # an input may also be a result, if nothing changes its value
        self.donatable = tuple(dict.fromkeys([number for number in donatable if number not in self._kept_slots]))
        self.memory = recipe.memory
        self.nbytes = recipe.nbytes
        self.runs = 0
        #: inputs noted in one run to be compared in another
        self._noted: Any = None
        #: the program that takes some inputs packed
        self.packed: packed_operands.PackedOperands | None = None
        self._packs = True
        self._choices = _choices()

    def run(self, inputs: list[Any], donated: Container[int] = (), note: Note | None = None) -> list[Array]:
        """Return the values of the kept nodes, given those of the inputs (see :class:`.programs.Program`).

        The second run queues the kernels for tier-up, because more runs are likely to follow. If some inputs are the
        same in several runs, later ones take them packed.
        """
        if self.packed is not None and note is None and not donated:
            found = self.packed.run(inputs)
            if found is not None:
                return found
            self._repack()
        if self._checks_layout and note is None and not donated and not self._begun:
            values = inputs + self._fixed
        else:
            values = [value if _is_contiguous(value) else as_contiguous(value) for value in inputs]
            values += self._fixed
        for number in self.donatable:
            if values[number] is None:
                raise MXNetError("an array was lost: the computation that changed it in place has been interrupted")
        if donated:
            for number in self.donatable:
                if number in donated:
                    packed_operands.note_write(inputs[number])
            self._exchange(values, donated, note is None)
        for number, slot, shape in self._begun:
            given = values[number].reshape(shape)
            values[slot] = given if number in donated else _copy(given)
        if self._arena_room and not (self._on_stack and note is None):
            values[len(inputs) + 1] = memory_pool.allocate((self._arena_room,), _BYTE, self._arena_room)
        if note is not None:
            self._run_parts(values, note)
        elif self._needs_numpy:
            with np.errstate(all="ignore"):
                for segment in self._segments:
                    segment(values)
        else:
            for segment in self._segments:
                segment(values)
        if self.runs < _COMPARED:
            self._count_run(inputs, bool(donated))
        return [values[slot] for slot in self._kept_slots]

    def whole_row(self) -> WholeRow | None:
        """Return the row that is all of a run; None if a run does more, as the first ones do.

        It takes the inputs as they are, even if some are packed for :meth:`run`, and writes over none of them.
        """
        if self._only is None or (self._arena_room and not self._on_stack):
            return None
        if self.runs < _COMPARED and self.packed is None:
            return None
        if self.runs < 2:
            kernel_cache.tier_up(self._used)
        row = _row_of(self._only, self._used)
        return WholeRow(row, self._only.slots, self._only.made, self._fixed, self._arena_room)

    def _count_run(self, inputs: list[Any], is_donated: bool) -> None:
        """Count a run: later ones are likely to follow, and to have the same weights.

        Runs that write over some of their inputs take none of them packed.
        """
        self.runs += 1
        if self.runs == 2:
            kernel_cache.tier_up(self._used)
        elif self.runs == _NOTED:
            self._noted = packed_operands.note(inputs)
        elif self.runs == _COMPARED and self._noted is not None:
            same = packed_operands.unchanged(self._noted, inputs)
            self._noted = None
            if same and self._packs and not is_donated and settings.current().packed_bytes:
                self._pack(same)

    def _repack(self) -> None:
        """Stop packing inputs that change too often."""
        packed = self.packed
        if packed is not None and packed.given_up:
            self.packed = None
            same = [number for number in packed.sources if number not in packed.given_up]
            if same:
                self._pack(same)

    def _pack(self, numbers: list[int]) -> None:
        """Plan a program that takes some inputs packed, and use it when it is ready."""
        raise NotImplementedError

    def never_pack(self) -> None:
        """Do not look for inputs that are the same in many runs."""
        self._packs = False

    def has_same_choices(self) -> bool:
        """Return whether the settings that decide bits are still those with which the plan was made."""
        return self._choices == _choices()

    def use_packed(self, packed: packed_operands.PackedOperands) -> None:
        """Take some inputs packed from now on."""
        self.packed = packed

    def only_row(self) -> OnlyRow | None:
        """Return the row that is all of the program and makes one array; None if there is more to it.

        The first runs of a program, which decide about packing, are not done in this way.
        """
        if self._only is None or len(self._only.made) != 1 or self.runs < (_COMPARED if self._packs else 2):
            return None
        own, pooled = (self._arena_room, 0) if self._on_stack else (0, self._arena_room)
        (_, shape, dtype) = made = self._only.made[0]
        room = memory_pool.room_for(math.prod(shape) * dtype.itemsize)
        made_room = room if room >= memory_pool.SMALLEST_BLOCK else 0
        slots = self._only.slots
        return OnlyRow(_row_of(self._only, self._used), slots, made, made_room, own, pooled, self._fixed)

    def _exchange(self, values: list[Any], donated: Container[int], is_one_call: bool) -> None:
        """Give results the memory of donated inputs."""
        for made, numbers in self._exchanges:
            free = [values[number] for number in numbers if number in donated and number in self.donatable]
            for (slot, shape), array in zip(made, free):
                values[slot] = array if array.shape == shape else array.reshape(shape)
        if isinstance(donated, Donation):
            values[len(self.inputs) + _FLAG] = donated.begin(values, is_one_call and self._sets_flag)

    def results(self, values: list[Any]) -> list[Array]:
        """Return the values of the kept nodes after a run that was interrupted after its kernels ended."""
        for shape, source, target, _ in self._aliases:
            if values[target] is None:
                values[target] = values[source].reshape(shape)
        return [values[slot] for slot in self._kept_slots]

    def _run_parts(self, values: list[Any], note: Note) -> None:
        if isinstance(note, Progress) and note.seen_by is None:
            with np.errstate(all="ignore"):
                for segments, results in self._stretches(note.groups):
                    for segment in segments:
                        segment(values)
                    for node, slot in results:
                        note.receive(node, values[slot])
            return
        final = self._final_results() if isinstance(note, Progress) else None
        with np.errstate(all="ignore"):
            for number, (part, segment) in enumerate(self._part_segments()):
                start = perf_counter_ns()
                segment(values)
                note(part, start, perf_counter_ns())
                if final is not None and isinstance(note, Progress):
                    for node, slot in final.get(number, ()):
                        note.receive(node, values[slot])

    def _part_segments(self) -> list[tuple[Part, Segment]]:
        """Return the parts of the program, each with the segment that runs only this part."""
        raise NotImplementedError

    def _stretches(self, groups: tuple[tuple[Node, ...], ...]) -> list[tuple[list[Segment], list[tuple[Node, int]]]]:
        """Return segments, and the kept nodes with their slots that are final after them.

        A stretch ends where the last node of a group is final.
        """
        raise NotImplementedError

    def _final_results(self) -> dict[int, list[tuple[Node, int]]]:
        """Return by number of a part the kept nodes, with their slots, whose memory no later part touches."""
        raise NotImplementedError


def _choices() -> tuple[Any, ...]:
    """Return the settings on which the algorithms of a plan depend, and with them its bits."""
    now = settings.current()
    return now.winograd, now.matrix_unit


def _only_step(recipe: Recipe) -> RowStep | None:
    """Return the only step of a recipe, if it is a row that makes the results and no other arrays."""
    if len(recipe.steps) != 1 or recipe.begun:
        return None
    (step,) = recipe.steps
    if not isinstance(step, RowStep):
        return None
    return step if sorted([slot for slot, _, _ in step.made]) == sorted([slot for _, slot in recipe.kept]) else None


def _row_of(step: RowStep, kernels: Sequence[kernel_cache.Kernel], flag: int = -1) -> Row:
    """Return the launches of a step, given the kernels that it refers to by number."""
    filled = [(kernels[kernel], words, extent, chunk) for kernel, words, extent, chunk in step.launches]
    return Row(filled, len(step.slots), step.regions, flag)


def last_touches(steps: Sequence[RowStep | NumpyStep | AliasStep], kept: Sequence[int]) -> dict[int, list[int]]:
    """Return by number of a step the slots among ``kept`` whose memory no later step reads or writes.

    >>> steps = [NumpyStep(None, 3, [0], []), AliasStep((2,), 3, 4, []), NumpyStep(None, 5, [4], [])]
    >>> last_touches(steps, [3, 5])
    {2: [3, 5]}
    """
    last: dict[int, int] = {}
    for number, step in enumerate(steps):
        touched = step.slots if isinstance(step, RowStep) else [step.target]
        touched = [*touched, *(step.sources if isinstance(step, NumpyStep) else [])]
        last.update(dict.fromkeys([*touched, *([step.source] if isinstance(step, AliasStep) else [])], number))
    # slots that share memory are final together
    shared = {step.target: step.source for step in steps if isinstance(step, AliasStep)}
    owners: dict[int, int] = {}
    for slot in last:
        owner = slot
        while owner in shared:
            owner = shared[owner]
        owners[slot] = owner
    final: dict[int, int] = {}
    for slot, number in last.items():
        final[owners[slot]] = max(number, final.get(owners[slot], -1))
    found: dict[int, list[int]] = {}
    for slot in dict.fromkeys(kept):
        if slot in owners:
            found.setdefault(final[owners[slot]], []).append(slot)
    return found


def segment_of(
    step: RowStep | NumpyStep | AliasStep,
    kernels: Sequence[kernel_cache.Kernel],
    sets_flag: bool = False,
    room: int = 0,
) -> Segment:
    """Return the function that runs a step; a row may have an arena of ``room`` bytes on the stack."""
    if isinstance(step, RowStep):
        return _row(step, kernels, sets_flag, room)
    return _call(step) if isinstance(step, NumpyStep) else _alias(step)


def _row(step: RowStep, kernels: Sequence[kernel_cache.Kernel], sets_flag: bool, own: int) -> Segment:
    """Return the segment of a row of launches."""
    slots, _, _, made, done = step
    row = _row_of(step, kernels, _FLAG if sets_flag else -1)
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
                    values[slot] = as_contiguous(values[slot])
                launch(values)
        for slot in done:
            values[slot] = None

    return native


def _call(step: NumpyStep) -> Segment:
    """Return the segment of a call of NumPy."""
    node, target, sources, done = step
    if node.operator is _ITEM:
        return _take_item(step)
    function = function_of_node(node)
    single = node.outputs is None

    def call(values: list[Any]) -> None:
        try:
            result = function(*[values[source] for source in sources])
        except Exception as error:
            if is_from_outside(error):
                raise
            raise locate_error(error, node) from error
        values[target] = as_contiguous(result) if single else result
        for slot in done:
            values[slot] = None

    return call


def _take_item(step: NumpyStep) -> Segment:
    """Return the segment that takes one of several results."""
    node, target, (source,), done = step
    index = node.attributes[0]

    def take(values: list[Any]) -> None:
        values[target] = as_contiguous(values[source][index])
        for slot in done:
            values[slot] = None

    return take


def _alias(step: AliasStep) -> Segment:
    """Return the segment that reshapes an array."""
    shape, source, target, done = step

    def alias(values: list[Any]) -> None:
        values[target] = values[source].reshape(shape)
        for slot in done:
            values[slot] = None

    return alias


def _copy(array: Array) -> Array:
    """Return a copy of an array in memory of the pool."""
    copy = memory_pool.allocate(array.shape, array.dtype, memory_pool.room_for(array.nbytes))
    np.copyto(copy, array)
    return copy


def _is_contiguous(value: Any) -> bool:
    return type(value) is _ARRAY and value.flags.c_contiguous


def as_contiguous(value: Any) -> Any:
    """Return a value as a contiguous array; None (an optional input that was left out) stays None.

    The last bits of NumPy's results may depend on the layout of its operands, so there is only one layout.
    """
    return None if value is None else np.asarray(value, order="C")
