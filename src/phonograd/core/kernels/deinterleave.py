"""Deinterleaving: vectors of elements at a constant stride, extracted from a line and written back.

With stride s, the phases of a line are its elements 0, s, 2s, ..., its elements 1, s + 1, 2s + 1, ..., and so on. For
strides without large prime factors, kernels sort them in registers, factor by factor. Gathering takes longer: a gather
of 16 numbers takes as long as 16 loads (6.1 ns on an AMD EPYC, Zen 4, where a shuffle of two vectors takes 0.4 ns).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..base.dtypes import BOOL, INT32
from ..lower.ir.function_builder import Index, Value
from .routine import Routine

__all__ = [
    "MOST_SORTED",
    "all_lanes",
    "inside_mask",
    "put_line",
    "select",
    "sort",
    "specialized_stride",
    "take",
    "unsort",
]

#: the largest stride that kernels are specialized for, and the largest prime factor of one
MOST_SORTED, MOST_FACTOR = 16, 5


def specialized_stride(stride: int) -> int:
    """Return a stride if kernels are specialized for it, else 0.

    >>> [specialized_stride(stride) for stride in (2, 7, 10, 16, 20)]
    [2, 0, 10, 16, 0]
    """
    return stride if stride <= MOST_SORTED and max(_factors(stride), default=1) <= MOST_FACTOR else 0


def _factors(number: int) -> list[int]:
    """Return the prime factors of a number.

    >>> _factors(12), _factors(7), _factors(1)
    ([2, 2, 3], [7], [])
    """
    found, factor = [], 2
    while number > 1:
        while number % factor == 0:
            found.append(factor)
            number //= factor
        factor += 1
    return found


def inside_mask(e: Routine, first: Index, width: Index, step: Index = "1") -> Value:
    """Return a mask of the lanes at ``first``, ``first + step``, ... that are inside a line of some width."""
    narrow = [e.splat(e.assign(f"trunc i64 {word} to i32"), INT32) for word in (first, width, step)]
    places = e.add(narrow[0], e.multiply(e.steps(INT32), narrow[2]))
    return e.compare("ult", places, narrow[1])


def take(e: Routine, known: int, load: Callable[[int], Value], gather: Callable[[], Value]) -> Value:
    """Return the elements 0, s, 2s, ... of a line; ``load(n)`` loads its n-th vector of consecutive elements.

    If the kernel is not specialized for the stride (``known`` is 0), ``gather()`` loads them.
    """
    if known == 0:
        return gather()
    vectors = [load(number) for number in range(known)]
    return select(e, vectors, [lane * known for lane in range(e.lanes)])


def sort(e: Routine, vectors: Sequence[Value]) -> list[Value]:
    """Return the phases of consecutive elements, given as many vectors as there are phases."""
    known, factors = len(vectors), _factors(len(vectors))
    if len(factors) < 2:
        return [select(e, vectors, [lane * known + phase for lane in range(e.lanes)]) for phase in range(known)]
    # with stride p * q, phase p * t + j is phase t, with stride q, of phase j with stride p
    factor = factors[0]
    groups = [sort(e, vectors[start : start + factor]) for start in range(0, known, factor)]
    columns = [sort(e, [group[j] for group in groups]) for j in range(factor)]
    return [columns[phase % factor][phase // factor] for phase in range(known)]


def unsort(e: Routine, phases: Sequence[Value]) -> list[Value]:
    """Return consecutive elements, given one vector of each phase: the inverse of :func:`sort`."""
    known, factors, found = len(phases), _factors(len(phases)), []
    if len(factors) > 1:
        factor = factors[0]
        columns = [unsort(e, phases[j::factor]) for j in range(factor)]
        for group in zip(*columns, strict=True):
            found += unsort(e, group)
        return found
    for number in range(known):
        # element a of the line is element a // s of phase a % s
        elements = range(number * e.lanes, (number + 1) * e.lanes)
        found.append(select(e, phases, [a % known * e.lanes + a // known for a in elements]))
    return found


def select(e: Routine, vectors: Sequence[Value], wanted: Sequence[int]) -> Value:
    """Return elements numbered across all vectors, with one shuffle for each vector after the first."""
    lanes, found = e.lanes, vectors[0]
    if list(wanted) == list(range(lanes)):
        return found
    for number in range(1, len(vectors)):
        order = []
        for lane, element in enumerate(wanted):
            owner, place = divmod(element, lanes)
            if owner == number:
                order.append(lanes + place)
            elif number == 1:
                # lanes for later vectors have no meaning yet
                order.append(place if owner == 0 else 0)
            else:
                order.append(lane)
        found = e.shuffle(found, vectors[number], order)
    return found


def put_line(
    e: Routine,
    known: int,
    stride: Index,
    phases: tuple[str, Index],
    line: tuple[Index, Index],
    put: Callable[[Index, Value, Value], None],
    put_one: Callable[[Index, str], None],
) -> None:
    """Write a line, given its phases in separate buffers.

    ``phases`` is the address of the first phase and the distance between phases. ``line`` is the offset of the line's
    first element from the first element of the first phase, and its width. ``put(place, vector, mask)`` or
    ``put_one(place, element)`` store the elements.
    """
    buffer, pitch = phases
    pad, width = line
    if known:
        step = str(known)

        def some(index: Index) -> None:
            vectors = [e.get(e.at(buffer, e.times(str(phase), pitch)), index) for phase in range(known)]
            start = e.times(index, step)
            for number, value in enumerate(unsort(e, vectors)):
                place = e.minus(e.plus(start, str(number * e.lanes)), pad)
                put(place, value, inside_mask(e, place, width))

        first = e.quotient(pad, step)
        stop = e.plus(e.quotient(e.total(pad, width, "-1"), step), "1")
        e.for_each(first, stop, some, str(e.lanes))
        return

    def phase(at: Index) -> None:
        # the range of this phase's elements that belong to the line
        first = e.quotient(e.minus(e.total(pad, stride, "-1"), at), stride)
        stop = e.quotient(e.minus(e.total(width, pad, stride, "-1"), at), stride)

        def element(index: Index) -> None:
            value = e.get_one(buffer, e.plus(e.times(at, pitch), index))
            put_one(e.minus(e.plus(e.times(index, stride), at), pad), value)

        e.for_each(first, stop, element)

    e.for_each("0", stride, phase)


def all_lanes() -> Value:
    """Return a mask that is true in every lane."""
    return Value("splat (i1 true)", BOOL)
