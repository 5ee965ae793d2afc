"""Direct: a captured function as a program on memory, for calls whose arrays are all known.

Nothing is gained then by waiting to see what else will be computed, and what is not expressed costs nothing. A call
that is like the one before is found by looking at its arguments alone (:class:`Shortcut`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from numpy import ndarray

from ...ndarray.array import NDArray
from ..array.handle import Handle, SharedMemory, replace
from ..backward.variable import Variable
from ..base.devices import CPU, Context
from ..base.settings import active
from ..graph.operator import Array
from ..observe.anomaly import detection
from ..plan.cache import build
from ..run.donation import COUNTS, Donation, is_unshared
from ..run.reference import resolve
from ..trace.flags import FLAGS
from ..trace.rng import next_counter
from .capture import Template

__all__ = ["Replay", "Shortcut"]


class _Entering(NamedTuple):
    """An array whose value goes in: its place, whether it is a variable, and which array it is."""

    place: int
    marked: bool
    argument: int | None
    handle: Any


class _Made(NamedTuple):
    """A program and how its values are found."""

    program: Any
    order: list[int]
    """The places of its inputs."""
    results: list[int]
    """Where the value of each node of the template is found: among its own results, or before them in a place."""
    donatable: list[tuple[int, int]]
    """Inputs that it can write over, if nobody else needs them, and the numbers of the changed arrays they are from."""


class Replay:
    """A template as a program on memory.

    Parameters
    ----------
    template
        What is computed; the first nodes are the values of arrays that are changed.
    changed
        These arrays: the number of an argument, or an array.
    """

    __slots__ = ("_changed", "_constants", "_draws", "_entering", "_programs", "_template")

    def __init__(self, template: Template, changed: Sequence[int | Handle]) -> None:
        self._template = template
        self._changed = list(changed)
        self._programs: dict[str, _Made] = {}
        #: constants and numbers; the other places are filled by each call
        self._constants = [place.data for place in template.places]
        self._entering = [
            _Entering(number, place.node.marked, place.argument, place.handle)
            for number, place in enumerate(template.places)
            if place.argument is not None or place.handle is not None
        ]
        self._draws = [number for number, place in enumerate(template.places) if place.is_random]

    @staticmethod
    def is_possible(template: Template) -> bool:
        """Return whether neither what goes in nor what comes out is part of a record, unless it is a variable."""
        entering = [place.node for place in template.places]
        return not any([node.marked for node in template.nodes]) and all(
            [not node.marked or isinstance(template.target_of(node), Variable) for node in entering]
        )

    def run(self, arrays: Sequence[Any]) -> list[Array] | None:
        """Return the values of the template's nodes, or None if an array is not as it has to be.

        The first values are those of the arrays that are changed, which have them then.
        """
        if active.watched or detection.on:
            # what happens in a trace can be looked at
            return None
        changed = [arrays[array] if type(array) is int else array for array in self._changed]
        for array in changed:
            if not _is_replaceable(array):
                return None
        inputs = self._constants.copy()
        for place, marked, argument, handle in self._entering:
            array = handle if argument is None else arrays[argument]
            data, rare = array._buffer, array._extras
            if array._node is not None or type(data) is not ndarray:
                return None
            if marked != (rare is not None and rare.variable is not None):
                return None
            inputs[place] = data
        # references are counted below
        data = None
        for place in self._draws:
            # only now is it certain that the next random numbers are drawn here
            inputs[place] = next_counter()
        made = self._programs.get(active.executor)
        if made is None:
            made = self._programs[active.executor] = self._made()
        program, order, results, donatable = made
        given = [inputs[number] for number in order]
        donated = self._taken(donatable, given, changed) if donatable else None
        if donated is None:
            return self._kept(inputs, [] if program is None else program.run(given), results, changed)
        found: list[Array] = []

        def keep(values: list[Array]) -> None:
            found[:] = self._kept(inputs, values, results, changed)

        donated.run(program, lambda: program.run(given, donated), keep)
        return found

    @staticmethod
    def _kept(inputs: list[Any], values: list[Array], results: list[int], changed: list[Any]) -> list[Array]:
        """Return the values of the template's nodes, the first of which become those of arrays."""
        found = [values[number] if number >= 0 else inputs[~number] for number in results]
        for array, value in zip(changed, found):
            replace(array, value)
        return found

    @staticmethod
    def _taken(donatable: list[tuple[int, int]], given: list[Any], changed: list[Any]) -> Donation | None:
        """Return the inputs that the program can write over, taken away from the arrays that are changed."""
        numbers, taken = [], []
        for number, which in donatable:
            # besides the list of what is given: the list of all inputs, and the array itself
            if is_unshared(given, number, 2):
                numbers.append(number)
                handle = changed[which]
                taken.append((handle, handle._buffer))
                handle._buffer = None

        def give_back() -> None:
            for handle, value in taken:
                handle._buffer = value

        return Donation(numbers, give_back) if numbers else None

    def _made(self) -> _Made:
        places = self._template.places
        numbers = {resolve(place.node): ~number for number, place in enumerate(places)}
        targets = [resolve(node) for node in self._template.nodes]
        wanted = [node for node in dict.fromkeys(targets) if node not in numbers]
        program = build(wanted, (), False) if wanted else None
        order = [] if program is None else [~numbers[node] for node in program.inputs]
        for number, (node, _) in enumerate([] if program is None else program.kept):
            numbers[node] = number
        results = [numbers[node] for node in targets]
        donatable = []
        for number in getattr(program, "donatable", ()) if COUNTS else ():
            _, _, argument, handle, _ = places[order[number]]
            for which, array in enumerate(self._changed):
                is_changed = array is handle if argument is None else type(array) is int and array == argument
                if is_changed and ~order[number] not in results:
                    donatable.append((number, which))
        return _Made(program, order, results, donatable)


def _is_replaceable(array: Any) -> bool:
    """Return whether an array can be given another value without anybody else being told."""
    node, rare = array._node, array._extras
    if type(array._buffer) is SharedMemory:
        return False
    if rare is None:
        return node is None or not node.marked
    return rare.root is None and not rare.views and (node is None or not node.marked or rare.variable is not None)


class _Kind(NamedTuple):
    """What is known of an array that was an argument."""

    array_class: type[Any]
    shape: tuple[int, ...]
    dtype: Any
    is_variable: bool


class Shortcut:
    """How a call is told to be like another one, by its arguments alone: arrays whose values are known.

    Parameters
    ----------
    arguments
        The arguments of the other call.
    """

    __slots__ = ("_context", "_flags", "_kinds")

    def __init__(self, arguments: Sequence[Any]) -> None:
        self._flags = FLAGS.get()
        self._context = Context._default.get()
        self._kinds = [
            _Kind(type(array), array.shape, array._dtype, array._variable is not None) for array in arguments
        ]

    @staticmethod
    def is_possible(arguments: Sequence[Any]) -> bool:
        """Return whether all arguments are arrays, each another one."""
        return len(set(map(id, arguments))) == len(arguments) and all([_is_known(value) for value in arguments])

    def fits(self, arguments: Sequence[Any]) -> bool:
        """Return whether a call with these arguments is like the other one; no array may be there twice."""
        kinds, count = self._kinds, len(arguments)
        if count != len(kinds) or FLAGS.get() != self._flags or Context._default.get() is not self._context:
            return False
        if count > 1 and (arguments[0] is arguments[1] if count == 2 else len(set(map(id, arguments))) != count):
            return False
        for array, (array_class, shape, dtype, is_variable) in zip(arguments, kinds):
            if type(array) is not array_class or array._node is not None:
                return False
            data, rare = array._buffer, array._extras
            if type(data) is not ndarray or data.shape != shape or data.dtype is not dtype:
                return False
            if rare is None:
                if is_variable:
                    return False
            elif is_variable != (rare.variable is not None) or rare.root is not None or rare.context is not CPU:
                return False
        return True


def _is_known(value: Any) -> bool:
    """Return whether a value is an array on the CPU that is no view, with a value."""
    if not isinstance(value, NDArray) or type(value) is not value._result_class:
        return False
    if value._node is not None or type(value._buffer) is not ndarray:
        return False
    return value._root is None and value._context is CPU
