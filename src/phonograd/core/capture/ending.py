"""Ending: the effects of a captured function take place after it has returned.

Takes the :class:`~phonograd.core.capture.capture.Capture` of a function and its result. Actual nodes are put into the
template, arrays get their new values, and stand-ins in the result become the arguments for which they stand. What is
left decides whether later calls can repeat the template: arrays that the function has kept, and views that share memory
with other arrays, cannot be made again from outside, so such a function is called each time. See docs/decisions/0007.
"""

from __future__ import annotations

import weakref
from typing import Any

from ..array.extras import ArrayExtras, note_view, views_of
from ..array.handle import assign, node_in, variable_of
from ..graph.node import Node, Shape
from ..ops.math.structural import VARIABLE
from .capture import Capture, Template
from .structure import ArgumentNumber, ArrayNumber, replace_arrays

__all__ = ["CaptureEnd", "Ended"]


class Ended:
    """The effects of a function, as its later calls repeat them."""

    __slots__ = ("changed", "classes", "outline", "template")

    def __init__(self, template: Template, outline: Any, changed: list[Any], classes: list[type[Any]]) -> None:
        self.template = template
        #: the result, with numbers in the place of arrays
        self.outline = outline
        #: the changed arrays, or the numbers of arguments; their new nodes come first in the template
        self.changed = changed
        #: the classes of the arrays that it returns
        self.classes = classes


class CaptureEnd:
    """Applies the effects of a captured function after it has returned.

    Parameters
    ----------
    capture
        The trace of the function.
    proxies
        The arrays that stood for its arguments and their gradient buffers.
    """

    def __init__(self, capture: Capture, proxies: list[Any]) -> None:
        self._capture = capture
        self._arrays = arrays = capture.arrays
        self._numbers = {id(proxy): number for number, proxy in enumerate(proxies)}
        self._proxies = [weakref.ref(proxy) for proxy in proxies]
        self._writes: list[tuple[Any, Node]] = list(capture.writes.values())
        for array, proxy, place in zip(arrays, proxies, capture.places):
            if proxy._node is not place.node:
                capture.check_write(array)
                self._writes.append((array, self._plain(proxy)))
        if not self._writes and not capture.differentiates:
            return
        if any([id(array) in capture.outside or id(array) in capture.writes for array in arrays]):
            capture.refuse_capture("it changes arrays, and refers to an argument by another name too")
        outside = [*capture.outside.values(), *capture.writes.values()]
        if capture.owners and not {variable_of(array) for array in arrays}.isdisjoint(
            [variable_of(array) for array, _ in outside if variable_of(array) is not None]
        ):
            capture.refuse_capture("it differentiates, and refers to the variable of an argument by another name too")

    def _plain(self, proxy: Any) -> Node:
        """Return the new value of an argument. A variable stays one when it is assigned to, whatever trace it is in."""
        node: Node = proxy._node
        if node.operator is VARIABLE and self._capture.targets[node.attributes[0]] is variable_of(proxy):
            return node.inputs[0]
        return node

    def take_place(self, returned: list[Any]) -> tuple[Any, Ended | str]:
        """Return the result in the outer trace, and how to repeat it or why not; apply the effects on arrays there.

        ``returned`` holds the result of the function, and loses it: stand-ins that live on were kept elsewhere.
        """
        capture, outer, writes = self._capture, self._capture.outer, self._writes
        for other, number in capture.owners.items():
            # the capture itself must not keep the stand-ins of gradient buffers
            other.grad = variable_of(self._arrays[number]).grad  # type: ignore[attr-defined]
        left, views = self._live_arrays()
        template = Template(capture, [*[node for _, node in writes], *[array._node for array in left]])
        filled = template.fill(capture.actual(template.places), outer, self._arrays)
        for (array, _), node in zip(writes, filled.nodes):
            assign(array, node, outer)
        for array, node in zip(left, filled.nodes[len(writes) :], strict=True):
            array._trace, array._node = outer, node
            outer.adopt(array)
        for target, fresh in capture.fresh.items():
            owner = variable_of(self._arrays[capture.owners[target]]) if target in capture.owners else target
            owner.mark_fresh(fresh)  # type: ignore[union-attr]
        for view in views:
            self._root_outside(view)
        numbers = {id(array): number for number, array in enumerate(left)}
        seen: set[int] = set()
        outline = replace_arrays(returned.pop(), lambda array: self._stand_in(array, numbers, seen))
        kept = self._release_stand_ins()
        result = replace_arrays(outline, lambda part: self._find(part, left))
        if capture.reason is None and views:
            capture.reason = "it returns or keeps a view, which shares memory with another array"
        if capture.reason is None and (kept or len(seen) < len(left)):
            capture.reason = "it keeps arrays that it has made, or arguments"
        if capture.reason is not None:
            return result, capture.reason
        places = {id(array): number for number, array in enumerate(self._arrays)}
        changed = [ArgumentNumber(places[id(array)]) if id(array) in places else array for array, _ in writes]
        return result, Ended(template, outline, changed, [type(array) for array in left])

    def _live_arrays(self) -> tuple[list[Any], list[Any]]:
        """Return the live arrays that the function has made, and the views among them that share memory."""
        capture = self._capture
        references = [weakref.ref(handle) for handle in capture.handles]
        capture.handles = []
        for reference in references:
            self._part(reference)
        alive = [handle for reference in references if (handle := reference()) is not None]
        # a view that has to read its base again may have left the list of the trace
        alive += [view for handle in alive if handle._root is None for view in views_of(handle)]
        alive = list({id(handle): handle for handle in alive if id(handle) not in self._numbers}.values())
        views = [handle for handle in alive if handle._root is not None]
        return [handle for handle in alive if handle._trace is capture and handle._node is not None], views

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

    def _root_outside(self, view: Any) -> None:
        """Make the view of a stand-in a view of the argument for which that stands; its root then knows it.

        A write that takes place after the function made a view has told the view to read again, which it need not.
        """
        number = self._numbers.get(id(view._root))
        if number is not None:
            view._root, view._region = _root_in(self._arrays[number], *view._region)
        note_view(view._root, view)

    def _release_stand_ins(self) -> bool:
        """Return whether the function has kept a stand-in; that becomes a view of its whole argument."""
        kept = False
        for reference, array in zip(self._proxies, self._arrays, strict=True):
            proxy = reference()
            if proxy is not None:
                kept = True
                extras = ArrayExtras(*_root_in(array, 0, array.shape, True))
                extras.variable, extras.context, extras.readonly = variable_of(array), array.context, array._readonly
                proxy._trace = proxy._node = proxy._buffer = None
                proxy._extras = extras
                note_view(extras.root, proxy)
        return kept

    def _stand_in(self, array: Any, left: dict[int, int], seen: set[int]) -> Any:
        """Return the stand-in for an array of the result in later calls; an outside array is itself."""
        number = self._numbers.get(id(array))
        if number is not None:
            return ArgumentNumber(number)
        number = left.get(id(array))
        if number is None:
            return array
        seen.add(number)
        return ArrayNumber(number)

    def _find(self, part: Any, left: list[Any]) -> Any:
        if isinstance(part, ArgumentNumber):
            return self._arrays[part.number]
        return left[part.number] if isinstance(part, ArrayNumber) else part


def _root_in(base: Any, start: int, shape: Shape, linked: bool) -> tuple[Any, tuple[int, Shape, bool]]:
    """Return the array that a view of an array is a piece of, and which piece, as ``make_view`` chooses them."""
    if base._root is None or base._variable is not None:
        return base, (start, shape, linked)
    first, _, base_linked = base._region
    return base._root, (start + first, shape, linked and base_linked)
