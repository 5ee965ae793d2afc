"""compile: functions that are captured once per structure and then repeated without running their Python code.

>>> import phonograd as mx
>>> @mx.compile
... def step(x, w):
...     return mx.nd.tanh(mx.nd.dot(x, w))
>>> x, w = mx.nd.ones((2, 3)), mx.nd.ones((3, 4))
>>> step(x, w).shape
(2, 4)

The *structure* of a call is everything about its arguments but the values in arrays: their shapes and dtypes, whether
they are recorded, all other arguments, the recording and training flags, and the default context. The first call with a
structure is captured (:mod:`phonograd.core.capture.capture`); later ones put their arrays into the template. The
effects of the function on arrays are repeated each time: results, in-place changes, moving statistics, new random
numbers, gradients (``record()`` and ``backward()`` may be called inside the function, or around it). Its other effects
happen once.
"""

from __future__ import annotations

import functools
import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, Generic, ParamSpec, TypeVar

from ..array.handle import DENSE, SharedMemory, assign, make, make_concrete, node_in, variable_of
from ..base.devices import CPU, Context
from ..base.errors import user_line
from ..base.settings import active
from ..events import FUNCTION, begin
from ..graph.node import FORGOTTEN, Node
from ..graph.operator import Array
from ..observe.anomaly import detection
from ..ops.math.structural import VARIABLE
from ..trace import rng
from ..trace.flags import FLAGS, RECORDING
from ..trace.recorder import CAPTURES
from ..trace.trace import LOCAL, Trace, ready_trace
from .capture import Capture, Filled, Refusal, next_counter
from .ending import CaptureEnd, Ended
from .native_replay import NativeReplay
from .replay import Replay, Shortcut
from .structure import ArgumentNumber, ArrayNumber, add_gradients, kind_of, outline, replace_arrays

__all__ = ["Compiled", "compile"]

P = ParamSpec("P")
R = TypeVar("R")

#: structures that a function caches, and sets of nodes for each of them
_MOST_STRUCTURES = 64
_MOST_FILLED = 64
#: calls that Python has repeated, after which it is tried to repeat them by machine code
_NATIVE_EVERY = 8


class Compiled(Generic[P, R]):
    """A function whose calls are repeated from templates. Made by :func:`compile`.

    Parameters
    ----------
    function
        The function.
    quietly
        Whether a function that must be called each time causes no warning, because no user asked to compile it.

    Attributes
    ----------
    captured
        How often the function was run and captured.
    repeated
        How often a capture was repeated without running the function.
    """

    def __init__(self, function: Callable[P, R], quietly: bool = False) -> None:
        if not callable(function):
            raise TypeError(f"only functions can be compiled, not {function!r}")
        functools.update_wrapper(self, function)
        self._function: Callable[..., Any] = function
        self._structures: OrderedDict[Any, _Repeatable | str] = OrderedDict()
        #: the last repetition, if a similar call can be recognized by its arguments
        self._latest: _Repeatable | None = None
        self._has_explained = quietly
        self.captured = 0
        self.repeated = 0
        _all.add(self)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __repr__(self) -> str:
        return f"<compiled {getattr(self, '__qualname__', self._function)!s}>"

    def clear(self) -> None:
        """Forget all captures."""
        self._latest = None
        self._structures.clear()

    def __call__(self, *arguments: P.args, **keywords: P.kwargs) -> R:
        result: R
        latest = self._latest
        if latest is not None and not keywords and not active.attentive:
            result = latest.repeat_quickly(arguments)
            if result is not _CHANGED:
                self.repeated += 1
                return result
        if active.naive:
            result = self._function(*arguments, **keywords)
            return result
        if not active.watched:
            result = self._call(*arguments, **keywords)
            return result
        arrays: dict[int, Any] = {}
        outline(arguments, arrays)
        before = {id(array): array._node for array in LOCAL.trace.handles}
        name = getattr(self, "__qualname__", "compiled").rpartition("<locals>.")[2]
        with begin(FUNCTION, name, tuple(arrays.values())) as entry:
            result = self._call(*arguments, **keywords)
            if entry.active:
                # the arrays that it returns, and those that it changes
                trace = LOCAL.trace
                nodes = [a._node for a in trace.handles if a._node is not None and before.get(id(a)) is not a._node]
                trace.attributed().note_call(entry, (), nodes)
        return result

    def _call(self, *arguments: Any, **keywords: Any) -> Any:
        arrays: dict[int, Any] = {}
        outlined = outline(arguments, arrays), outline(keywords, arrays) if keywords else None
        explicit = len(arrays)
        variables = add_gradients(arrays)
        found = list(arrays.values())
        structure = FLAGS.get(), Context._default.get(), outlined, variables, tuple([kind_of(array) for array in found])
        try:
            known = self._structures.get(structure)
        except TypeError:
            # an argument that cannot be compared with those of other calls
            known = "an argument is neither an array nor hashable"
            self._explain(known)
        if known is None:
            return self._first(structure, found, explicit, arguments, keywords)
        self._structures.move_to_end(structure) if not isinstance(known, str) else None
        if isinstance(known, str) or not known.fits(arrays):
            return self._function(*arguments, **keywords)
        done = known.repeat(found)
        if done is _CHANGED:
            del self._structures[structure]
            return self._first(structure, found, explicit, arguments, keywords)
        if done is _SHARED:
            return self._function(*arguments, **keywords)
        self.repeated += 1
        self._latest = None if keywords or not known.is_recognised(arguments, found) else known
        return done

    def _first(self, structure: Any, arrays: list[Any], explicit: int, arguments: Any, keywords: Any) -> Any:
        """Return the result of a call whose structure is new."""
        self.captured += 1
        known: _Repeatable | str
        try:
            result, known = _run(self._function, arrays, explicit, arguments, keywords)
        except Refusal as refusal:
            known = str(refusal)
            result = self._function(*arguments, **keywords)
        self._latest = None
        self._structures[structure] = known
        if isinstance(known, str):
            self._explain(known)
        while len(self._structures) > _MOST_STRUCTURES:
            self._structures.popitem(last=False)
        return result

    def _explain(self, reason: str) -> None:
        if not self._has_explained:
            self._has_explained = True
            file, line = user_line() or (__file__, 0)
            warnings.warn_explicit(
                f"{self!r} is called each time, because {reason}; it works as if it were not compiled",
                RuntimeWarning,
                file,
                line,
            )


def compile(function: Callable[P, R]) -> Compiled[P, R]:  # noqa: A001 - named after what it does, as elsewhere
    """Return a function that does the same as another one, but runs its Python code once per structure of arguments.

    Arrays among the arguments (also inside of tuples, lists and dictionaries) may have other values in every call;
    everything else about the arguments is part of the structure. Other arrays that the function refers to are used
    with the values that they have when it is called; the first call determines which arrays these are. Numbers that
    change from call to call should be passed as arrays.

    A function that reads values (``asnumpy``, ``float``, ``if array:``) is called each time, and a warning says so
    once. The same holds for effects that cannot be repeated from outside: the function calls an ``autograd.Function``,
    changes an array that is a view of another one, or returns a view. Its Python code may then run twice in the first
    call. Arguments that share memory with each other, or with outside arrays, may do so in some calls only.

    >>> import phonograd as mx
    >>> w = mx.nd.array([1.0, 2.0])
    >>> w.attach_grad()
    >>> @mx.compile
    ... def descend(rate):
    ...     with mx.autograd.record():
    ...         loss = (w * w).sum()
    ...     loss.backward()
    ...     w[:] = w - rate * w.grad
    >>> for _ in range(3):
    ...     descend(mx.nd.array([0.25]))
    >>> w.asnumpy().tolist(), descend.captured, descend.repeated
    ([0.125, 0.25], 1, 2)
    """
    return Compiled(function)


_all: weakref.WeakSet[Compiled[Any, Any]] = weakref.WeakSet()


def _forget_all() -> None:
    for compiled in list(_all):
        compiled.clear()


FORGOTTEN.connect(_forget_all)


# -- the first call


def _run(
    function: Callable[..., Any], arrays: list[Any], explicit: int, arguments: Any, keywords: Any
) -> tuple[Any, _Repeatable | str]:
    """Return the result of a function, and how to repeat it or the reason for which that is not possible."""
    outer = ready_trace()
    capture = Capture(outer, arrays, explicit)
    position = rng.position()
    try:
        returned, error, ending = _capture(function, capture, arguments, keywords)
        result, ended = ending.take_place(returned)
    except Refusal:
        # the function is called again, and draws the same numbers
        rng.give_back(position, capture.drawn)
        raise
    if error is not None:
        raise error
    return result, ended if isinstance(ended, str) else _Repeatable(capture, ended)


def _capture(
    function: Callable[..., Any], capture: Capture, arguments: Any, keywords: Any
) -> tuple[list[Any], BaseException | None, CaptureEnd]:
    """Return the result of a function in a list, or the error that it raises, and the end of its capture."""
    outer, error = capture.outer, None
    proxies = capture.stand_ins()
    numbers = {id(array): number for number, array in enumerate(capture.arrays)}
    passed = replace_arrays((arguments, keywords), lambda array: proxies[numbers[id(array)]])
    returned: list[Any] = []
    outer.thread, number = None, outer.thread
    LOCAL.trace = capture
    CAPTURES.append(capture)
    try:
        returned.append(function(*passed[0], **passed[1]))
    except Refusal:
        raise
    except BaseException as caught:  # noqa: BLE001 - raised again after the effects so far have been applied
        error = caught
        returned.append(None)
    finally:
        CAPTURES.remove(capture)
        LOCAL.trace = outer
        outer.thread = number
    # the frame ends here: from now on only objects that the function has made can refer to its stand-ins
    return returned, error, CaptureEnd(capture, proxies)


# -- later calls


_CHANGED = object()
_SHARED = object()


class _Repeatable:
    """The effects of a function on arrays, for one structure of its arguments."""

    __slots__ = (
        "_begins_record",
        "_changed",
        "_classes",
        "_differentiates",
        "_direct",
        "_draws",
        "_expected",
        "_filled",
        "_finders",
        "_fresh",
        "_involved",
        "_is_exclusive",
        "_native",
        "_outside",
        "_owners",
        "_result",
        "_runs",
        "_shortcut",
        "_template",
        "_uses_gradients",
    )

    def __init__(self, capture: Capture, ended: Ended) -> None:
        self._template = template = ended.template
        self._classes = ended.classes
        self._result = ended.outline
        #: the changed arrays, or the numbers of arguments; their new nodes come first in the template
        self._changed: list[Any] = [
            array.number if isinstance(array, ArgumentNumber) else array for array in ended.changed
        ]
        #: variables whose gradients become fresh or used ones, or the numbers of arguments that are these variables
        self._fresh: list[tuple[Any, int]] = [
            (capture.owners.get(owner, owner), fresh) for owner, fresh in capture.fresh.items()
        ]
        self._begins_record = capture.begins_record
        self._differentiates = capture.differentiates
        #: whether it matters which arrays are the same ones: the same memory, or the same variable
        self._is_exclusive = bool(self._changed) or capture.differentiates
        #: outside arrays that are used
        self._involved = [handle for handle, _ in (*capture.outside.values(), *capture.writes.values())]
        self._outside = frozenset([id(handle) for handle in self._involved])
        self._owners = frozenset([owner for handle in self._involved if (owner := variable_of(handle)) is not None])
        self._expected = list(capture.expected.values())
        self._filled: OrderedDict[Any, Filled] = OrderedDict()
        #: for each place: the number of an argument, an outside array, the function that finds another node, a variable
        self._finders = [(place.argument, place.handle, place.find, place.owner) for place in template.places]
        self._draws = any([place.is_random for place in template.places])
        self._direct = Replay(template, self._changed) if Replay.is_possible(template) else None
        self._shortcut: Shortcut | None = None
        #: the call as machine code, and the calls that Python has repeated
        self._native: NativeReplay | None = None
        self._runs = 0
        self._uses_gradients = self._highest_number() >= capture.explicit

    def _highest_number(self) -> int:
        """Return the highest number of an argument, or of the gradient buffer of one, that is used."""
        numbers = [place.argument for place in self._template.places if place.argument is not None]
        numbers += [array for array in self._changed if isinstance(array, int)]

        def note(part: Any) -> Any:
            if isinstance(part, ArgumentNumber):
                numbers.append(part.number)
            return part

        replace_arrays(self._result, note)
        return max(numbers, default=-1)

    def fits(self, arrays: dict[int, Any]) -> bool:
        """Return whether no argument is an array, or a variable, that the function also refers to by another name."""
        if not self._is_exclusive:
            return True
        if not self._outside.isdisjoint(arrays):
            return False
        owners = self._owners
        return not (self._differentiates and owners) or all([variable_of(a) not in owners for a in arrays.values()])

    def repeat(self, arrays: list[Any]) -> Any:
        """Repeat the effects on other arrays and return the result.

        _CHANGED if an outside array is another variable than before; _SHARED if arrays share memory that is changed.
        """
        if not self._are_outside_variables_unchanged():
            return _CHANGED
        if self._direct is not None and not FLAGS.get() & RECORDING and LOCAL.trace.allows_shortcuts:
            values = self._direct.run(arrays)
            if values is not None:
                return self._finish_directly(arrays, values)
        changed = [arrays[array] if type(array) is int else array for array in self._changed]
        if changed and self._is_memory_shared(changed, arrays):
            return _SHARED
        trace = ready_trace()
        if self._begins_record and not FLAGS.get() & RECORDING and (trace.handles or trace.leaves):
            trace.flush(end=True)
            trace = LOCAL.trace
        template = self._template
        actual = self._actual(arrays, trace)
        if actual is None:
            return _CHANGED
        key = actual, template.slots(trace, arrays)
        filled = self._filled.get(key)
        if filled is None or not trace.made.keys().isdisjoint(filled.made):
            if not all([_is_alike(place.node, node) for place, node in zip(template.places, actual)]):
                return _CHANGED
            filled = template.fill(actual, trace, arrays)
            if not filled.repeats:
                self._filled[key] = filled
                while len(self._filled) > _MOST_FILLED:
                    self._filled.popitem(last=False)
        else:
            trace.made.update(filled.made)
            trace.tape.siblings.update(filled.siblings)
        trace.created += len(template.steps)
        nodes = filled.nodes
        made = [make(node, trace, kind) for node, kind in zip(nodes[len(changed) :], self._classes)]
        for array, node in zip(changed, nodes):
            assign(array, node, trace)
        return self._return_arrays(arrays, made)

    def _are_outside_variables_unchanged(self) -> bool:
        """Return whether outside arrays are the variables that they were, and no hooks see the gradients computed."""
        for handle, owner in self._expected:
            if variable_of(handle) is not owner:
                return False
        return not self._differentiates or not any([owner.hooks.functions for owner in self._owners])

    def _is_memory_shared(self, changed: list[Any], arrays: list[Any]) -> bool:
        """Return whether a changed array is a view, shares memory with another library, or with an array in use."""
        for array in changed:
            extras = array._extras
            if type(array._buffer) is SharedMemory:
                return True
            if extras is None:
                continue
            if extras.root is not None:
                return True
            if (extras.views or extras.told) and any([_root_of(a) is array for a in (*arrays, *self._involved)]):
                return True
        return False

    def is_recognised(self, arguments: tuple[Any, ...], arrays: list[Any]) -> bool:
        """Return whether a call that is like one with these arguments can be recognized by its arguments alone."""
        if self._shortcut is None:
            device = arguments[0] if arguments and isinstance(arguments[0], Context) else None
            if device is not None:
                arguments = arguments[1:]
            if self._direct is None or FLAGS.get() & RECORDING or not Shortcut.is_possible(arguments):
                return False
            found = arrays if self._uses_gradients else arguments
            if self._uses_gradients and not Shortcut.has_gradients(arguments, found):
                return False
            self._shortcut = Shortcut(device, arguments, found)
        return True

    def repeat_quickly(self, arguments: tuple[Any, ...]) -> Any:
        """Repeat the effects on the arguments of a call and return the result; _CHANGED if the call is not alike."""
        shortcut, direct, native = self._shortcut, self._direct, self._native
        assert shortcut is not None
        assert direct is not None
        if native is not None and shortcut.has_same_state() and LOCAL.trace.allows_shortcuts and not detection.on:
            result = native.repeat(arguments)
            if result is not None:
                return result
        if shortcut.device is not None:
            if arguments[0] is not shortcut.device:
                return _CHANGED
            arguments = arguments[1:]
        if not shortcut.fits(arguments) or not LOCAL.trace.allows_shortcuts:
            return _CHANGED
        arrays: Sequence[Any] = arguments
        if self._uses_gradients:
            found = shortcut.with_gradients(arguments)
            if found is None:
                return _CHANGED
            arrays = found
        if self._is_exclusive:
            if self._outside and not self._outside.isdisjoint(map(id, arrays)):
                return _CHANGED
            if self._differentiates and self._owners and any([variable_of(a) in self._owners for a in arguments]):
                return _CHANGED
        if (self._expected or self._differentiates) and not self._are_outside_variables_unchanged():
            return _CHANGED
        values = direct.run(arrays, are_alike=True)
        if values is None:
            return _CHANGED
        self._runs += 1
        if self._runs % _NATIVE_EVERY == 0:
            self._prepare_native()
        return self._finish_directly(arrays, values)

    def _prepare_native(self) -> None:
        """Make the call machine code, if it is one small program and nothing else; made again when the program was."""
        shortcut, direct = self._shortcut, self._direct
        assert shortcut is not None
        assert direct is not None
        is_plain = type(self._result) is ArrayNumber and len(self._classes) == 1 and not self._changed
        if not is_plain or self._is_exclusive or self._expected or self._uses_gradients or self._fresh:
            return
        kinds = shortcut.argument_kinds()
        if kinds is not None and self._template.nodes[0].context is CPU:
            self._native = direct.native(kinds, self._classes[0] or DENSE[0], self._native)

    def _actual(self, arrays: list[Any], trace: Trace) -> tuple[Node, ...] | None:
        """Return the actual nodes of the places in this call; None if an outside array is not the variable it was.

        Random numbers are drawn only if everything else fits.
        """
        found: list[Any] = []
        for number, handle, find, owner in self._finders:
            if number is not None:
                found.append(node_in(arrays[number], trace))
            elif handle is None:
                found.append(None if find is next_counter else find(trace))
            else:
                node = node_in(handle, trace)
                if owner is not None and (
                    node.operator is not VARIABLE or trace.targets[node.attributes[0]] is not owner
                ):
                    return None
                found.append(node)
        if self._draws:
            places = self._template.places
            if not all([node is None or _is_alike(place.node, node) for place, node in zip(places, found)]):
                return None
            found = [trace.counter() if node is None else node for node in found]
        return tuple(found)

    def _finish_directly(self, arrays: Sequence[Any], values: list[Array]) -> Any:
        nodes, count = self._template.nodes, len(self._changed)
        made = [
            make_concrete(values[number], nodes[number].context, kind)
            for number, kind in enumerate(self._classes, count)
        ]
        return self._return_arrays(arrays, made)

    def _return_arrays(self, arrays: Sequence[Any], made: list[Any]) -> Any:
        for owner, fresh in self._fresh:
            (variable_of(arrays[owner]) if type(owner) is int else owner).mark_fresh(fresh)
        result = self._result
        if result is None:
            return None
        if type(result) is ArrayNumber:
            return made[result.number]

        def actual(part: Any) -> Any:
            if isinstance(part, ArgumentNumber):
                return arrays[part.number]
            return made[part.number] if isinstance(part, ArrayNumber) else part

        return replace_arrays(result, actual)


def _root_of(array: Any) -> Any:
    """Return the array of which an array is a piece, and which is no view itself."""
    while array._root is not None:
        array = array._root
    return array


def _is_alike(place: Node, node: Node) -> bool:
    """Return whether a node can take a place."""
    return (
        place.shape == node.shape
        and place.kind == node.kind
        and place.marked == node.marked
        and place.context == node.context
    )
