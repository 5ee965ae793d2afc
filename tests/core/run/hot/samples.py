"""Functions of the subset that is translated into machine code, with arguments; each call makes new ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from phonograd.core.base.hot import uncounted, untracked


class Pair:
    """Two attributes in slots."""

    __slots__ = ("first", "second")

    def __init__(self, first: Any, second: Any) -> None:
        self.first, self.second = first, second

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Pair) and (self.first, self.second) == (other.first, other.second)

    __hash__ = None  # type: ignore[assignment]

    def total(self, more: Any) -> Any:
        """Return a sum; hot functions call it directly."""
        return self.first + self.second + more


class Loose:
    """The same attributes in a dictionary."""

    def __init__(self, first: Any, second: Any) -> None:
        self.first, self.second = first, second

    def total(self, more: Any) -> Any:
        """Return another sum."""
        return self.first + more


class Table(dict[Any, Any]):
    """A dictionary that knows missing items."""

    __slots__ = ()

    def __missing__(self, key: Any) -> Any:
        return ("missing", key)


def tuples(first: Any, second: Any) -> Any:
    """Return tuples, with and without stars."""
    return (first, second, first + second), (*first, second, *second), ()


def loop_over_pairs(rows: Any) -> Any:
    """Return a sum, and where the loop ended."""
    total, place = 0, -1
    for place, (first, second) in enumerate(rows):  # noqa: B007 - it is returned
        if first is None or second > 30:
            continue
        if first == 100:
            break
        total += first
    return total, place


def comprehension(values: Any, places: Any) -> Any:
    """Return chosen items; the variable of the comprehension is its own."""
    place = "kept"
    return [values[place] for place in places if place != 1], place


def call_with_row(function: Any, values: Any, places: Any) -> Any:
    """Call a function with chosen items."""
    return function(*map(values.__getitem__, places)), function(*values)


def call_with_items(function: Any, values: Any) -> Any:
    """Call a function with all items, which may drop them."""
    return function(*values), values


class Emptying:
    """A function that empties a list, and that list."""

    def __init__(self) -> None:
        self.values: list[Any] = [Pair(1, 2), "text", 2**70]

    def __call__(self, *given: Any) -> Any:
        self.values.clear()
        return [each for each in given if each.__class__ is not Pair]


def attributes(pair: Any) -> Any:
    """Exchange attributes, and add to one."""
    pair.first, pair.second = pair.second, pair.first
    pair.second += 5
    return pair.first, pair.second, pair.__class__ is Pair, type(pair) is not Pair


def tables(table: Any, keys: Any) -> Any:
    """Return what is found, and change the table."""
    found = []
    for number, key in enumerate(keys):
        value = table.get(key)
        if value is None:
            table[key] = number
        else:
            found.append(value)
            del table[key]
    return found, table, "a" in table, "b" not in table


def subscripts(values: Any, table: Any) -> Any:
    """Return items and slices."""
    return values[-1], values[0], values[1:], values[:2], values[::2], table["x"]


def stack(values: Any) -> Any:
    """Return what a stack gives."""
    left, found, seen = list(values), [], set()
    while left:
        top = left.pop()
        if isinstance(top, tuple):
            left += top
            continue
        if top in seen:
            continue
        seen.add(top)
        if not top:
            break
        found.append(top)
    return found, len(seen), not left


def zips(first: Any, second: Any) -> Any:
    """Return pairs, and a row backwards."""
    found = []
    for one, two in zip(first, second, strict=True):
        found.append(one if two else -one)
    for one in reversed(first):
        found.append(one)
    return found and tuple(found)


def conditions(first: Any, second: Any) -> Any:
    """Return truth values, and values chosen by truth."""
    return (
        first or second,
        first and second,
        not first,
        first is second,
        first is not None and second is not None,
        1 if first and not second else 2,
        first == second,
        first != second,
        (first and second) is None,
    )


def numbers(first: int, second: int) -> Any:
    """Return results of arithmetic."""
    total = first * second - first
    total += 3
    bits = first // second, second / first, second << first | 1, second >> first, second // first
    return total, -first, -1, first & second, first < second, first >= second, bits


def calls(pair: Any, values: Any) -> Any:
    """Call other hot functions, methods, built-in functions and Python functions."""
    made = Pair.__new__(Pair)
    made.first, made.second = tuples(values, values), max(values)
    return pair.total(3), numbers(2, 3), made, len(values), untracked((values, values)), {}


def unbound(value: Any) -> Any:
    """Return a variable that has a value on one way only."""
    if value:
        found = 1
    return found


def missing_attribute(value: Any) -> Any:
    """Read attributes that are not there."""
    held = [value, value]
    return held, value.first, value.absent


def lasting(numbers: Any) -> Any:
    """Make objects that are neither tracked nor counted."""
    return [uncounted(untracked((number, number)), 1) for number in numbers]


def failing(function: Any, values: Any) -> Any:
    """Fail in the middle of an expression."""
    return [values, (values, function(*map(values.__getitem__, values)), [function(each) for each in values])]


#: functions with arguments
CASES: list[tuple[Callable[..., Any], Callable[[], tuple[Any, ...]]]] = [
    (tuples, lambda: ((1, 2), (3,))),
    (tuples, lambda: ([1], [2])),
    (loop_over_pairs, lambda: ([(1, 2), (None, 1), (5, 90), (7, 1), (100, 1), (3, 3)],)),
    (loop_over_pairs, lambda: (iter([[1, 2], [1000, 1]]),)),
    (loop_over_pairs, lambda: ([],)),
    (comprehension, lambda: ([1, 2, 3], (2, 1, 0))),
    (comprehension, lambda: ({0: "a", 2: "b"}, [2, 0])),
    (call_with_row, lambda: (max, [3, 4, 5], (0, 2))),
    (call_with_row, lambda: (max, {0: 3, 1: 9}, [0, 1])),
    (call_with_row, lambda: (max, [*range(30)], [*range(30)])),
    (attributes, lambda: (Pair(1, 2),)),
    (attributes, lambda: (Loose(4, 2),)),
    (tables, lambda: ({1: 2, "a": 3}, [1, 5, "a", 1])),
    (tables, lambda: (Table({1: 2}), [1, 5])),
    (subscripts, lambda: ([1, 2, 3], {"x": 1})),
    (subscripts, lambda: ((1, 2, 3), Table())),
    (subscripts, lambda: ("abc", {"x": None})),
    (stack, lambda: ([1, (2, 3), 4, 4],)),
    (stack, lambda: ([1, 0, 4],)),
    (zips, lambda: ([1, 2], [0, 1])),
    (zips, lambda: ((), ())),
    (conditions, lambda: (0, [1])),
    (conditions, lambda: (None, None)),
    (conditions, lambda: ([1], 0)),
    (numbers, lambda: (3, 10**30)),
    (call_with_items, lambda: (lambda emptying: (emptying, emptying.values))(Emptying())),
    (call_with_items, lambda: (max, (3, 2**70, 5))),
    (call_with_items, lambda: (max, list(range(100)))),
    (call_with_items, lambda: (max, {3: 1, 2: 2})),
    (calls, lambda: (Pair(1, 2), [5, 6])),
    (calls, lambda: (Loose(1, 2), (5, 6))),
    (unbound, lambda: (1,)),
    (lasting, lambda: ([1, 2, 3],)),
    (lasting, lambda: ((),)),
]
#: calls that fail
FAILURES: list[tuple[Callable[..., Any], Callable[[], tuple[Any, ...]]]] = [
    (unbound, lambda: (0,)),
    (missing_attribute, lambda: (Pair(1, 2),)),
    (missing_attribute, lambda: (Loose(1, 2),)),
    (missing_attribute, lambda: (Pair.__new__(Pair),)),
    (zips, lambda: ([1], [1, 2])),
    (zips, lambda: (1, 2)),
    (subscripts, lambda: ([], {})),
    (subscripts, lambda: ([1, 2, 3], {})),
    (comprehension, lambda: ([1], (5,))),
    (loop_over_pairs, lambda: ([(1, 2, 3)],)),
    (loop_over_pairs, lambda: ([1],)),
    (tables, lambda: ({}, [[]])),
    (failing, lambda: (lambda *values: 1 // len(values[1:]), [0, 1, 2])),
    (call_with_row, lambda: (max, [1], (2**70,))),
    (call_with_items, lambda: (len, [1, 2])),
    (call_with_items, lambda: (max, 3)),
    (numbers, lambda: ("a", [])),
]
