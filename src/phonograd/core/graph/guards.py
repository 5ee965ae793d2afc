"""Guards: compiled tests of whether the shapes of a call have a certain pattern.

Used where :mod:`phonograd.core.graph.generic` has learned something for all extents of a pattern. The key of a pattern
takes as long to make as several nodes. A program whose extents are new in each step has the same few patterns all the
time, so the shapes are tested first for the patterns that were met before.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ..base.hot import hot, slotted
from .extents import Condition, numbers_of
from .generic import Pattern
from .node import Node, Shape, type_of

if TYPE_CHECKING:
    from .operator import Operator

__all__ = ["Guards", "guards_for", "with_sizes", "without_sizes"]

#: patterns that are tested for each kind of call; those of others are looked up by their keys
MOST_PATTERNS = 4
#: kinds of calls that are remembered, of each rule
MOST_KINDS = 4096

#: stands for a parameter that counts elements
_MARK: Any = ...

Test = Callable[[Sequence[Shape]], bool]
_T = TypeVar("_T")


@slotted
class Guards(Generic[_T]):
    """What was learned for some patterns of calls that differ in nothing but their extents, each with its test."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: tuple[tuple[Test, Condition, _T], ...] = ()

    @hot
    def find(self, shapes: Sequence[Shape]) -> _T | None:
        """Return what was learned for calls with arguments of these shapes; None if their pattern is not known."""
        for test, condition, found in self._known:
            if test(shapes) and condition(shapes):
                return found
        return None

    def learn(
        self,
        shapes: Sequence[Shape],
        attributes: tuple[Any, ...],
        pattern: Pattern,
        condition: Condition,
        found: _T,
    ) -> None:
        """Remember what holds for calls with the pattern of some shapes, if they meet a condition."""
        if len(self._known) < MOST_PATTERNS:
            self._known = (*self._known, (_compiled(_text(shapes, attributes, pattern)), condition, found))


@hot
def guards_for(known: dict[Any, Guards[_T]], attributes: Any, arguments: Sequence[Node | None]) -> Guards[_T] | None:
    """Return the guards of calls like one, new ones if there are none; None if its pattern is not told by shapes alone.

    That is the case if arguments are missing, have several outputs, or are the same.
    """
    key = [attributes]
    for node in arguments:
        if node is None or node.outputs is not None:
            return None
        key.append((node.type or type_of(node)).family)
    count = len(arguments)
    if count > 1 and (arguments[0] is arguments[1] if count == 2 else len(set(arguments)) != count):
        return None
    kind = tuple(key)
    found = known.get(kind)
    if found is None:
        if len(known) >= MOST_KINDS:
            known.clear()
        found = known[kind] = Guards()
    return found


@functools.lru_cache(4096)
def _compiled(text: str) -> Test:
    # the text consists of numbers, extents and operators
    return eval(f"lambda s: {text}", {"len": len})  # type: ignore[no-any-return]


def _text(shapes: Sequence[Shape], attributes: tuple[Any, ...], pattern: Pattern) -> str:
    """Return an expression of the shapes ``s`` that is true for those of a pattern, given shapes of this pattern.

    >>> _text([(5, 1, 5)], (), Pattern((), (5,), 100))
    'len(s[0]) == 3 and s[0][1] == 1 and s[0][2] == s[0][0] and 1 < s[0][0] <= 100'
    """
    bounds, numbers = numbers_of(attributes)
    parts = [f"len(s[{place}]) == {len(shape)}" for place, shape in enumerate(shapes)]
    names: dict[int, str] = {}
    for place, shape in enumerate(shapes):
        for axis, extent in enumerate(shape):
            name = f"s[{place}][{axis}]"
            if extent < 2 or extent in numbers:
                parts.append(f"{name} == {extent}")
            elif extent in names:
                parts.append(f"{name} == {names[extent]}")
            else:
                names[extent] = name
    for extent, name in names.items():
        least = max([bound for bound in bounds if bound <= extent], default=2)
        most = min([bound - 1 for bound in bounds if bound > extent], default=pattern.limit)
        parts.append(f"{least - 1} < {name} <= {min(most, pattern.limit)}")
        parts += [f"{name} != {number}" for number in numbers if number > 1]
    parts += [f"{one} != {two}" for one, two in itertools.combinations(names.values(), 2)]
    return " and ".join(parts) or "True"


@hot
def without_sizes(declared: Operator, attributes: tuple[Any, ...]) -> tuple[tuple[Any, ...], tuple[int, ...]]:
    """Return the attributes with marks in the place of parameters that count elements, and these numbers."""
    if not declared.sizes:
        return attributes, ()
    # a negative number counts nothing, and would stand for an extent in the key of a pattern
    places = [place for place in declared.sizes if attributes[place].__class__ is int and attributes[place] >= 0]
    others = [_MARK if place in places else value for place, value in enumerate(attributes)]
    return tuple(others), tuple([attributes[place] for place in places])


def with_sizes(others: tuple[Any, ...], sizes: Sequence[int]) -> tuple[Any, ...]:
    """Return the attributes of a call, given those with marks and the numbers to put there."""
    left = iter(sizes)
    return tuple([next(left) if each is _MARK else each for each in others])
