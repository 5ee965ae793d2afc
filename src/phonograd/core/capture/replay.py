"""Replay: runs a captured function on memory, for calls whose arrays all have known values.

Takes a :class:`~phonograd.core.capture.capture.Template` and runs its program
(:func:`phonograd.core.plan.cache.choose_program`) at once, past the trace: waiting for other work gains nothing then,
and no nodes have to be made. :class:`Shortcut` recognizes a call that is like the one before by its arguments alone.
See docs/decisions/0010.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from numpy import ndarray

from ..array.handle import Handle, SharedMemory, replace, variable_of
from ..backward.variable import Variable
from ..base.devices import CPU, Context
from ..base.settings import active
from ..graph.operator import Array
from ..observe.anomaly import detection
from ..plan.cache import choose_program
from ..run.donation import COUNTS, Donation, is_unshared
from ..run.program import RecipeProgram
from ..run.programs import Program
from ..run.reference import resolve
from ..trace.flags import FLAGS
from ..trace.rng import next_counter
from . import native_replay
from .capture import Template
from .native_replay import ArgumentKind, NativeReplay, Source

__all__ = ["Replay", "Shortcut", "is_replaceable"]


class _Entering(NamedTuple):
    """An array whose value is an input: its place, whether it is a variable, and which array it is."""

    place: int
    marked: bool
    argument: int | None
    handle: Any
    owner: Variable | None
    """The variable that an outside array is."""


class _Made(NamedTuple):
    """The program of a template, and where its inputs and results are."""

    program: Program | None
    order: list[int]
    """The places of its inputs."""
    results: list[int]
    """For each node of the template, its number among the results, or ~number of the place that holds its value."""
    donatable: list[tuple[int, int]]
    """Inputs that the program can write over if they are unshared, and the numbers of their changed arrays."""


class Replay:
    """A template that is run on memory.

    Parameters
    ----------
    template
        The nodes to compute; the first ones are the new values of changed arrays.
    changed
        The changed arrays, each as the number of an argument or as an array.
    """

    __slots__ = ("_changed", "_constants", "_draws", "_entering", "_programs", "_template")

    def __init__(self, template: Template, changed: Sequence[int | Handle]) -> None:
        self._template = template
        self._changed = list(changed)
        self._programs: dict[str, _Made] = {}
        #: constants and numbers; each call fills the other places
        self._constants = [place.data for place in template.places]
        self._entering = [
            _Entering(number, place.node.marked, place.argument, place.handle, place.owner)
            for number, place in enumerate(template.places)
            if place.argument is not None or place.handle is not None
        ]
        self._draws = [number for number, place in enumerate(template.places) if place.is_random]

    @staticmethod
    def is_possible(template: Template) -> bool:
        """Return whether no input or output is recorded; variables may be inputs."""
        entering = [place.node for place in template.places]
        return not any([node.marked for node in template.nodes]) and all(
            [not node.marked or isinstance(template.target_of(node), Variable) for node in entering]
        )

    def run(self, arrays: Sequence[Any], are_alike: bool = False) -> list[Array] | None:
        """Return the values of the template's nodes, or None if an array does not fit.

        The first values are those of the changed arrays, which then hold them. ``are_alike`` says that a shortcut has
        checked the arguments.
        """
        if active.watched or detection.on:
            # observers see what happens in a trace
            return None
        changed = [arrays[array] if type(array) is int else array for array in self._changed]
        for array in changed:
            if not is_replaceable(array):
                return None
        inputs = self._constants.copy()
        for place, marked, argument, handle, owner in self._entering:
            if are_alike and argument is not None:
                inputs[place] = arrays[argument]._buffer
                continue
            array = handle if argument is None else arrays[argument]
            data, rare = array._buffer, array._extras
            if array._node is not None or type(data) is not ndarray:
                return None
            present = None if rare is None else rare.variable
            if (present is not owner) if argument is None else (marked != (present is not None)):
                return None
            inputs[place] = data
        # references are counted below, and this name would be one
        data = array = None
        for place in self._draws:
            # random numbers are drawn only when nothing can make this call return None any more
            inputs[place] = next_counter()
        made = self._programs.get(active.executor)
        if made is None:
            made = self._programs[active.executor] = self._make_program()
        program, order, results, donatable = made
        given = [inputs[number] for number in order]
        if program is None:
            return self._keep_values(inputs, [], results, changed)
        donated = self._donate_inputs(donatable, given, changed) if donatable else None
        if donated is None:
            return self._keep_values(inputs, program.run(given), results, changed)
        found: list[Array] = []

        def keep(values: list[Array]) -> None:
            found[:] = self._keep_values(inputs, values, results, changed)

        donated.run(program, lambda: program.run(given, donated), keep)
        return found

    def native(self, kinds: Sequence[ArgumentKind], array_class: type[Any], before: NativeReplay | None) -> Any:
        """Return the call as machine code, the one from before if it is still right; None if that is not possible.

        ``kinds`` describes the arguments.
        """
        code, made = native_replay.code(), self._programs.get(active.executor)
        if code is None or made is None or made.donatable or made.results != [0] or self._draws or self._changed:
            return None
        program, order, _, _ = made
        if not isinstance(program, RecipeProgram):
            return None
        packed = program.packed
        running = program if packed is None else packed.program
        if before is not None and before.program is program and before.packed_program is (packed and running):
            return before
        row = running.only_row() if isinstance(running, RecipeProgram) else None
        if row is None:
            return None
        entering = {each.place: each for each in self._entering}
        # blocks pass their device first
        shift = len([kind for kind in kinds if not kind.is_array])
        sources = []
        for place in order:
            each, constant = entering.get(place), self._constants[place]
            if each is None:
                if type(constant) is not ndarray or not constant.flags.c_contiguous:
                    return None
                sources.append(Source(constant=constant))
            elif each.argument is None:
                sources.append(Source(handle=each.handle, owner=each.owner))
            elif each.argument + shift < len(kinds):
                sources.append(Source(argument=each.argument + shift))
            else:
                return None
        return NativeReplay(code, program, kinds, sources, array_class, row, packed)

    @staticmethod
    def _keep_values(inputs: list[Any], values: list[Array], results: list[int], changed: list[Any]) -> list[Array]:
        """Return the values of the template's nodes; the first ones become those of the changed arrays."""
        found = [values[number] if number >= 0 else inputs[~number] for number in results]
        for array, value in zip(changed, found):
            replace(array, value)
        return found

    @staticmethod
    def _donate_inputs(donatable: list[tuple[int, int]], given: list[Any], changed: list[Any]) -> Donation | None:
        """Return the inputs that the program can write over, taken from the changed arrays."""
        numbers, taken = [], []
        for number, which in donatable:
            # beside the list `given`: the list of all inputs, and the array
            if is_unshared(given, number, 2):
                numbers.append(number)
                handle = changed[which]
                taken.append((handle, handle._buffer))
                handle._buffer = None

        def give_back() -> None:
            for handle, value in taken:
                handle._buffer = value

        return Donation(numbers, give_back) if numbers else None

    def _make_program(self) -> _Made:
        places = self._template.places
        numbers = {resolve(place.node): ~number for number, place in enumerate(places)}
        targets = [resolve(node) for node in self._template.nodes]
        wanted = [node for node in dict.fromkeys(targets) if node not in numbers]
        program = choose_program(wanted, (), False) if wanted else None
        order = [] if program is None else [~numbers[node] for node in program.inputs]
        for number, (node, _) in enumerate([] if program is None else program.kept):
            numbers[node] = number
        results = [numbers[node] for node in targets]
        donatable = []
        for number in program.donatable if program is not None and COUNTS else ():
            argument, handle = places[order[number]].argument, places[order[number]].handle
            for which, array in enumerate(self._changed):
                is_changed = array is handle if argument is None else type(array) is int and array == argument
                if is_changed and ~order[number] not in results:
                    donatable.append((number, which))
        return _Made(program, order, results, donatable)


def is_replaceable(array: Any) -> bool:
    """Return whether an array can get another value without any other array or record changing with it."""
    node, rare = array._node, array._extras
    if type(array._buffer) is SharedMemory:
        return False
    if rare is None:
        return node is None or not node.marked
    return rare.root is None and not rare.views and (node is None or not node.marked or rare.variable is not None)


class _Kind(NamedTuple):
    """The properties of an argument that a similar call shares."""

    array_class: type[Any]
    shape: tuple[int, ...]
    dtype: Any
    request: str | None
    """How a variable takes its gradient; None for other arrays."""


class Shortcut:
    """Recognizes a call that is like another one, by its arguments alone: arrays whose values are known.

    Parameters
    ----------
    device
        The first argument of the other call if that is a device, as in calls of blocks; None otherwise.
    arguments
        The other arguments.
    arrays
        These, and the gradient buffers that follow them if they are used.
    """

    __slots__ = ("_context", "_flags", "_gradients", "_kinds", "device")

    def __init__(self, device: Context | None, arguments: Sequence[Any], arrays: Sequence[Any]) -> None:
        self.device = device
        self._flags = FLAGS.get()
        self._context = Context._default.get()
        self._kinds = [_Kind(type(array), array.shape, array._dtype, _request_of(array)) for array in arguments]
        #: the numbers of the arguments that are variables, and the kinds of their gradients, if these are used
        variables = [number for number, kind in enumerate(self._kinds) if kind.request is not None]
        self._gradients = [
            (number, _Kind(type(array), array.shape, array._dtype, None))
            for number, array in zip(variables, arrays[len(arguments) :])
        ]

    @staticmethod
    def is_possible(arguments: Sequence[Any]) -> bool:
        """Return whether all arguments are arrays, and all are different."""
        return len(set(map(id, arguments))) == len(arguments) and all([_is_known(value) for value in arguments])

    @staticmethod
    def has_gradients(arguments: Sequence[Any], arrays: Sequence[Any]) -> bool:
        """Return whether arrays are the arguments and then their gradient buffers, each a plain array of its own."""
        expected = [*arguments, *_gradients_of(arguments)]
        return [id(array) for array in expected] == [id(array) for array in arrays] and all(
            [variable_of(array) is None and array.context is CPU for array in arrays[len(arguments) :]]
        )

    def fits(self, arguments: Sequence[Any]) -> bool:
        """Return whether a call with these arguments is like the other one; all arrays must be different."""
        kinds, count = self._kinds, len(arguments)
        if count != len(kinds) or not self.has_same_state():
            return False
        if count > 1 and (arguments[0] is arguments[1] if count == 2 else len(set(map(id, arguments))) != count):
            return False
        for array, (array_class, shape, dtype, request) in zip(arguments, kinds):
            if type(array) is not array_class or array._node is not None:
                return False
            data, rare = array._buffer, array._extras
            if type(data) is not ndarray or data.shape != shape or data.dtype is not dtype:
                return False
            if rare is None:
                if request is not None:
                    return False
            elif rare.root is not None or rare.context is not CPU or rare.readonly:
                return False
            elif rare.variable is None:
                if request is not None:
                    return False
            elif rare.variable.request != request or rare.variable.hooks.functions:
                return False
        return True

    def argument_kinds(self) -> list[ArgumentKind] | None:
        """Return what the arguments of a similar call are; None if one of them is a variable."""
        if any([kind.request is not None for kind in self._kinds]):
            return None
        device = [] if self.device is None else [ArgumentKind(False, self.device)]
        return device + [ArgumentKind(True, kind.array_class, kind.shape, kind.dtype) for kind in self._kinds]

    def has_same_state(self) -> bool:
        """Return whether recording, training and the default device are as in the other call."""
        return FLAGS.get() == self._flags and Context._default.get() is self._context

    def with_gradients(self, arguments: Sequence[Any]) -> list[Any] | None:
        """Return the arguments and their gradient buffers, or None if these are not like those of the other call."""
        arrays = list(arguments)
        for place, (array_class, shape, dtype, _) in self._gradients:
            # `fits` has found the variable
            array = arguments[place]._extras.variable.grad
            data, rare = array._buffer, array._extras
            if type(array) is not array_class or array._node is not None or type(data) is not ndarray:
                return None
            if data.shape != shape or data.dtype is not dtype:
                return None
            if rare is not None and (rare.variable is not None or rare.context is not CPU or rare.readonly):
                return None
            arrays.append(array)
        # the arguments are different arrays
        return arrays if len(set(map(id, arrays))) == len(arrays) else None


def _request_of(array: Any) -> str | None:
    """Return how a variable takes its gradient; None for other arrays."""
    owner = variable_of(array)
    return None if owner is None else owner.request


def _gradients_of(arguments: Sequence[Any]) -> list[Any]:
    """Return the gradient buffers of those arguments that are variables."""
    return [owner.grad for array in arguments if (owner := variable_of(array)) is not None]


def _is_known(value: Any) -> bool:
    """Return whether a value is an array on the CPU with a known value that is no view."""
    if not isinstance(value, Handle) or type(value) is not value._result_class or value._readonly:
        return False
    if value._node is not None or type(value._buffer) is not ndarray:
        return False
    return value._root is None and value._context is CPU
