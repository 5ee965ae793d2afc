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
from typing import Any, Generic, NamedTuple, ParamSpec, TypeVar

from ..array.handle import Handle, assign, make, make_concrete, node_in, views_of
from ..base.devices import CPU, Context
from ..base.errors import user_line
from ..base.settings import active
from ..events import FUNCTION, begin
from ..graph.node import FORGOTTEN, Node
from ..graph.operator import Array
from ..trace.flags import FLAGS, RECORDING
from ..trace.trace import LOCAL, Trace, ready_trace
from .capture import Capture, Filled, Input, Refusal, Template
from .replay import Replay, Shortcut

__all__ = ["Compiled", "compile"]

P = ParamSpec("P")
R = TypeVar("R")

#: structures that a function caches, and sets of nodes for each of them
_MOST_STRUCTURES = 64
_MOST_FILLED = 64


class Compiled(Generic[P, R]):
    """A function whose calls are repeated from templates. Made by :func:`compile`.

    Attributes
    ----------
    captured
        How often the function was run and captured.
    repeated
        How often a capture was repeated without running the function.
    """

    def __init__(self, function: Callable[P, R]) -> None:
        if not callable(function):
            raise TypeError(f"only functions can be compiled, not {function!r}")
        functools.update_wrapper(self, function)
        self._function: Callable[..., Any] = function
        self._structures: OrderedDict[Any, _Repeatable | str] = OrderedDict()
        #: the last repetition, if a similar call can be recognized by its arguments
        self._latest: _Repeatable | None = None
        self._has_explained = False
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
        _outline(arguments, arrays)
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
        structure = (
            FLAGS.get(),
            Context._default.get(),
            _outline(arguments, arrays),
            _outline(keywords, arrays) if keywords else None,
            tuple([_kind_of(array) for array in arrays.values()]),
        )
        try:
            known = self._structures.get(structure)
        except TypeError:
            # an argument that cannot be compared with those of other calls
            known = "an argument is neither an array nor hashable"
            self._explain(known)
        if known is None:
            return self._first(structure, list(arrays.values()), arguments, keywords)
        self._structures.move_to_end(structure) if not isinstance(known, str) else None
        if isinstance(known, str) or not known.fits(arrays):
            return self._function(*arguments, **keywords)
        done = known.repeat(list(arrays.values()))
        if done is _CHANGED:
            del self._structures[structure]
            return self._first(structure, list(arrays.values()), arguments, keywords)
        self.repeated += 1
        self._latest = None if keywords or not known.is_recognised(arguments) else known
        return done

    def _first(self, structure: Any, arrays: list[Any], arguments: Any, keywords: Any) -> Any:
        """Return the result of a call whose structure is new."""
        self.captured += 1
        try:
            result, repeatable = _run(self._function, arrays, arguments, keywords)
        except Refusal as refusal:
            repeatable = str(refusal)
            result = self._function(*arguments, **keywords)
        self._latest = None
        self._structures[structure] = repeatable
        if isinstance(repeatable, str):
            self._explain(repeatable)
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
    or changes an array that is a view of another one. Its Python code may then run twice in the first call.

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


# -- arguments and results


class _Array(NamedTuple):
    """An array among the arguments or results of a call: its number."""

    number: int


class _Argument(NamedTuple):
    """An argument that is returned or changed: its number."""

    number: int


def _outline(value: Any, arrays: dict[int, Any]) -> Any:
    """Return the structure of an argument without its arrays, which are numbered in ``arrays``."""
    if isinstance(value, Handle):
        count = len(arrays)
        arrays.setdefault(id(value), value)
        return _Array(count if len(arrays) > count else list(arrays).index(id(value)))
    if isinstance(value, (tuple, list)):
        return type(value), *[_outline(part, arrays) for part in value]
    if isinstance(value, dict):
        return dict, *[(key, _outline(part, arrays)) for key, part in value.items()]
    # 0.0 and -0.0, or 1 and True, are equal but not the same argument
    return type(value), repr(value) if isinstance(value, float) else value


def _kind_of(array: Any) -> tuple[Any, ...]:
    """Return the properties of an array that are part of the structure of a call."""
    node, context, owned = array._node, array.context, array._variable is not None
    place = None if context is CPU or context == CPU else context
    if node is None:
        return type(array), array.shape, array._dtype.num, owned, owned, place
    return type(array), node.shape, node.kind, node.marked, owned, place


def _replace_arrays(value: Any, replace: Callable[[Any], Any]) -> Any:
    """Return a structure of tuples, lists and dictionaries with its arrays replaced."""
    if isinstance(value, (Handle, _Array, _Argument)):
        return replace(value)
    if isinstance(value, tuple):
        parts = [_replace_arrays(part, replace) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    if isinstance(value, list):
        return [_replace_arrays(part, replace) for part in value]
    if isinstance(value, dict):
        return {key: _replace_arrays(part, replace) for key, part in value.items()}
    return value


# -- the first call


def _run(function: Callable[..., Any], arrays: list[Any], arguments: Any, keywords: Any) -> tuple[Any, Any]:
    """Return the result of a function, and a _Repeatable, or the reason for which there is none."""
    outer = ready_trace()
    capture = Capture(outer)
    proxies = {id(array): capture.argument(number, array) for number, array in enumerate(arrays)}
    passed = _replace_arrays((arguments, keywords), functools.partial(_look_up, proxies))
    result, error = None, None
    outer.thread, number = None, outer.thread
    LOCAL.trace = capture
    try:
        result = function(*passed[0], **passed[1])
    except Refusal:
        raise
    except BaseException as caught:  # noqa: BLE001 - raised again after the effects so far have been applied
        error = caught
    finally:
        LOCAL.trace = outer
        outer.thread = number
    ending = _CaptureEnd(capture, arrays, list(proxies.values()))
    # from now on only objects that the function has made can refer to its arguments
    del passed, proxies
    result, repeatable = ending.take_place(result)
    if error is not None:
        raise error
    return result, repeatable


def _look_up(known: dict[int, Any], array: Any) -> Any:
    return known[id(array)]


class _CaptureEnd:
    """Applies the effects of a captured function after it has returned."""

    def __init__(self, capture: Capture, arrays: list[Any], proxies: list[Any]) -> None:
        self._capture = capture
        self._arrays = arrays
        self._numbers = {id(proxy): number for number, proxy in enumerate(proxies)}
        self._writes: list[tuple[Any, Node]] = list(capture.writes.values())
        self._changed_proxies: set[int] = set()
        for array, proxy, place in zip(arrays, proxies, capture.places):
            if proxy._node is not place.node:
                capture.check_write(array)
                self._writes.append((array, proxy._node))
                self._changed_proxies.add(id(proxy))
        if self._writes and any([id(array) in capture.outside or id(array) in capture.writes for array in arrays]):
            capture.refuse_capture("it changes arrays, and refers to an argument by another name too")

    def take_place(self, result: Any) -> tuple[Any, Any]:
        """Return the result in the outer trace, and a _Repeatable or a reason; apply the effects on arrays there."""
        capture, outer, writes = self._capture, self._capture.outer, self._writes
        left = self._live_arrays()
        template = Template(capture, [*[node for _, node in writes], *[array._node for array in left]])
        filled = template.fill(capture.actual(), outer)
        for array, node in zip(left, filled.nodes[len(writes) :], strict=True):
            array._trace, array._node = outer, node
            outer.adopt(array)
        for (array, _), node in zip(writes, filled.nodes):
            assign(array, node, outer)
        for action in capture.actions:
            action()
        returned: set[int] = set()
        outline = _replace_arrays(result, lambda array: self._stand_in(array, left, returned))
        if capture.reason is None and len(returned) < len(left):
            capture.reason = "it keeps arrays that it has made, or arguments"
        result = _replace_arrays(outline, lambda part: self._find(part, left))
        if capture.reason is not None:
            return result, capture.reason
        numbers = {id(array): number for number, array in enumerate(self._arrays)}
        changed = [_Argument(numbers[id(array)]) if id(array) in numbers else array for array, _ in writes]
        return result, _Repeatable(capture, template, outline, changed, [type(array) for array in left])

    def _live_arrays(self) -> list[Any]:
        """Return the live arrays of the capture."""
        capture = self._capture
        references = [weakref.ref(handle) for handle in capture.handles]
        capture.handles = []
        for reference in references:
            self._part(reference)
        alive = {id(handle): handle for handle in (reference() for reference in references) if handle is not None}
        if any([id(handle._root) in self._changed_proxies for handle in alive.values() if handle._root is not None]):
            capture.refuse_capture("it changes an argument and keeps a view of it")
        return [handle for handle in alive.values() if handle._trace is capture and handle._node is not None]

    def _part(self, reference: weakref.ref[Any]) -> None:
        """Make a view an array of its own if nothing else refers to its base: no program can tell the difference."""
        view, capture = reference(), self._capture
        extras = None if view is None else view._extras
        if view is None or extras is None or extras.root is None or extras.variable is not None:
            return
        base = extras.root
        if base._trace is not capture or id(base) in self._numbers or len(views_of(base)) != 1:
            return
        node_in(view, capture)
        region, watched = extras.region, weakref.ref(base)
        base = extras.root = extras.region = None
        if watched() is not None:
            extras.root, extras.region = watched(), region

    def _stand_in(self, array: Any, left: list[Any], returned: set[int]) -> Any:
        """Return the stand-in for an array of the result in later calls."""
        for number, other in enumerate(left):
            if other is array:
                returned.add(number)
                if id(array) in self._numbers:
                    return _Argument(self._numbers[id(array)])
                return _Array(number)
        return array

    def _find(self, part: Any, left: list[Any]) -> Any:
        if isinstance(part, _Argument):
            return self._arrays[part.number]
        return left[part.number] if isinstance(part, _Array) else part


# -- later calls


_CHANGED = object()


class _Repeatable:
    """The effects of a function on arrays, for one structure of its arguments."""

    __slots__ = (
        "_actions",
        "_begins_record",
        "_changed",
        "_classes",
        "_direct",
        "_draws",
        "_filled",
        "_outside",
        "_result",
        "_shortcut",
        "_template",
    )

    def __init__(
        self, capture: Capture, template: Template, result: Any, changed: list[Any], classes: list[type[Any]]
    ) -> None:
        self._template = template
        #: the classes of the arrays that it returns
        self._classes = classes
        self._result = result
        #: the changed arrays; their new nodes come first in the template
        self._changed = changed
        self._actions = capture.actions
        self._begins_record = capture.begins_record
        self._outside = frozenset(capture.outside)
        self._filled: OrderedDict[tuple[Node, ...], Filled] = OrderedDict()
        self._draws = any([place.is_random for place in template.places])
        numbers = [array.number if isinstance(array, _Argument) else array for array in changed]
        self._direct = Replay(template, numbers) if Replay.is_possible(template) else None
        self._shortcut: Shortcut | None = None

    def fits(self, arrays: dict[int, Any]) -> bool:
        """Return whether no argument is an array that the function also refers to by another name."""
        return not self._changed or self._outside.isdisjoint(arrays)

    def repeat(self, arrays: list[Any]) -> Any:
        """Repeat the effects on other arrays and return the result; _CHANGED if an array that it uses is different."""
        if self._direct is not None and not FLAGS.get() & RECORDING and LOCAL.trace.allows_shortcuts:
            values = self._direct.run(arrays)
            if values is not None:
                return self._finish_directly(arrays, values)
        trace = ready_trace()
        if self._begins_record and not FLAGS.get() & RECORDING and (trace.handles or trace.leaves):
            trace.flush(end=True)
            trace = LOCAL.trace
        template = self._template
        actual = self._actual(arrays, trace)
        if actual is None:
            return _CHANGED
        filled = self._filled.get(actual)
        if filled is None or not trace.made.keys().isdisjoint(filled.made):
            if not all([_is_alike(place.node, node) for place, node in zip(template.places, actual)]):
                return _CHANGED
            filled = template.fill(actual, trace)
            if not filled.repeats:
                self._filled[actual] = filled
                while len(self._filled) > _MOST_FILLED:
                    self._filled.popitem(last=False)
        else:
            trace.made.update(filled.made)
            trace.tape.siblings.update(filled.siblings)
        trace.created += len(template.steps)
        nodes, count = filled.nodes, len(self._changed)
        made = [make(node, trace, kind) for node, kind in zip(nodes[count:], self._classes)]
        for array, node in zip(self._changed, nodes):
            assign(arrays[array.number] if isinstance(array, _Argument) else array, node, trace)
        return self._return_arrays(arrays, made)

    def is_recognised(self, arguments: tuple[Any, ...]) -> bool:
        """Return whether a call that is like one with these arguments can be recognized by its arguments alone."""
        if self._shortcut is None:
            if self._direct is None or FLAGS.get() & RECORDING or not Shortcut.is_possible(arguments):
                return False
            self._shortcut = Shortcut(arguments)
        return True

    def repeat_quickly(self, arguments: tuple[Any, ...]) -> Any:
        """Repeat the effects on the arguments of a call and return the result; _CHANGED if the call is not alike."""
        shortcut, direct = self._shortcut, self._direct
        assert shortcut is not None
        assert direct is not None
        if not shortcut.fits(arguments) or not LOCAL.trace.allows_shortcuts:
            return _CHANGED
        if self._changed and self._outside and not self._outside.isdisjoint(map(id, arguments)):
            return _CHANGED
        values = direct.run(arguments)
        return _CHANGED if values is None else self._finish_directly(arguments, values)

    def _actual(self, arrays: list[Any], trace: Trace) -> tuple[Node, ...] | None:
        """Return the actual nodes of the places in this call. Random numbers are drawn only if everything else fits."""
        places = self._template.places
        if self._draws:
            for place in places:
                if not place.is_random and not _is_alike(place.node, _find_in(place, arrays, trace)):
                    return None
        return tuple([_find_in(place, arrays, trace) for place in places])

    def _finish_directly(self, arrays: Sequence[Any], values: list[Array]) -> Any:
        nodes, count = self._template.nodes, len(self._changed)
        made = [
            make_concrete(values[number], nodes[number].context, kind)
            for number, kind in enumerate(self._classes, count)
        ]
        return self._return_arrays(arrays, made)

    def _return_arrays(self, arrays: Sequence[Any], made: list[Any]) -> Any:
        for action in self._actions:
            action()
        result = self._result
        if result is None:
            return None
        if type(result) is _Array:
            return made[result.number]

        def actual(part: Any) -> Any:
            if isinstance(part, _Argument):
                return arrays[part.number]
            return made[part.number] if isinstance(part, _Array) else part

        return _replace_arrays(result, actual)


def _find_in(place: Input, arrays: list[Any], trace: Trace) -> Node:
    return place.find(trace) if place.argument is None else node_in(arrays[place.argument], trace)


def _is_alike(place: Node, node: Node) -> bool:
    """Return whether a node can take a place."""
    return (
        place.shape == node.shape
        and place.kind == node.kind
        and place.marked == node.marked
        and place.context == node.context
    )
