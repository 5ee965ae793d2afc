"""Graph layout: positions of boxes and routes of edges, in layers.

The rank of a box is the longest path that leads to it. An edge over several ranks has a *bend* in each rank between;
edges with the same source share their bends. Barycenters order the ranks until the number of crossings stops
decreasing. Then each box moves towards its neighbors, as far as the order and widths of its rank allow.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence

__all__ = ["BoxPosition", "Route", "arrange"]

#: distances between boxes of a rank, between bends, and between ranks
_BESIDE = 26.0
_BEND = 14.0
_BETWEEN = 46.0

#: passes over all ranks; more have hardly any effect
_ORDERINGS = 10
_ALIGNMENTS = 24
_STRAIGHTENINGS = 3

#: beyond this number of bends, the remaining long edges run straight, behind the boxes
_MOST_BENDS = 20_000

#: weight of an edge between two bends, or beside one, relative to an edge between two boxes
_STRAIGHT = (1.0, 2.0, 8.0)

#: the fraction of a box's side where edges arrive
_PORTS = 0.7

Point = tuple[float, float]


@dataclasses.dataclass
class BoxPosition:
    """The position of a box: its center and its size."""

    x: float
    y: float
    width: float
    height: float


@dataclasses.dataclass(frozen=True)
class Route:
    """The points of an edge, from the lower side of its first box to the upper side of its second."""

    points: tuple[Point, ...]


class _Layers:
    """A graph with bends, as ranks of numbers; boxes have the first numbers."""

    def __init__(self, sizes: Sequence[Point], edges: Sequence[tuple[int, int]], families: Sequence[int]) -> None:
        self.sizes = list(sizes)
        self.boxes = len(sizes)
        #: boxes of one family stay together within a rank; every other box is its own family
        self.families = list(families)
        self.rank = _ranks(len(sizes), edges)
        self.above: list[list[int]] = [[] for _ in sizes]
        self.below: list[list[int]] = [[] for _ in sizes]
        self.bends: dict[tuple[int, int], int] = {}
        #: for each edge, all numbers on its way
        self.chains = [self._chain(first, last) for first, last in edges]
        self.ranks: list[list[int]] = [[] for _ in range(max(self.rank, default=-1) + 1)]
        for number in self._depth_first():
            self.ranks[self.rank[number]].append(number)

    def _chain(self, first: int, last: int) -> list[int]:
        chain = [first]
        if len(self.bends) + self.rank[last] - self.rank[first] > _MOST_BENDS:
            return [first, last]
        for rank in range(self.rank[first] + 1, self.rank[last]):
            number = self.bends.get((first, rank))
            if number is None:
                number = self.bends[first, rank] = len(self.sizes)
                self.sizes.append((0.0, 0.0))
                self.families.append(-1)
                self.rank.append(rank)
                self.above.append([])
                self.below.append([])
                self._join(chain[-1], number)
            chain.append(number)
        self._join(chain[-1], last)
        return [*chain, last]

    def _join(self, upper: int, lower: int) -> None:
        if upper not in self.above[lower]:
            self.below[upper].append(lower)
            self.above[lower].append(upper)

    def _depth_first(self) -> list[int]:
        """Return all numbers in depth-first order, which keeps connected ones near each other."""
        order: dict[int, None] = {}
        for start in range(self.boxes - 1, -1, -1):
            if self.below[start]:
                continue
            stack = [start]
            while stack:
                number = stack.pop()
                if number not in order:
                    order[number] = None
                    stack.extend(reversed(self.above[number]))
        return list(order)

    def gap(self, left: int, right: int) -> float:
        """Return the minimum distance between the centers of two neighbors."""
        both_boxes = left < self.boxes and right < self.boxes
        return (self.sizes[left][0] + self.sizes[right][0]) / 2 + (_BESIDE if both_boxes else _BEND)

    # -- order

    def reorder(self) -> None:
        """Sort the numbers of each rank to reduce crossings."""
        best, crossings = [list(rank) for rank in self.ranks], self.crossings()
        for turn in range(_ORDERINGS):
            if crossings == 0:
                break
            downward = turn % 2 == 0
            for depth in range(1, len(self.ranks)) if downward else range(len(self.ranks) - 2, -1, -1):
                neighbors = self.above if downward else self.below
                self._sort(self.ranks[depth], neighbors, self.ranks[depth - 1 if downward else depth + 1])
            found = self.crossings()
            if found < crossings:
                best, crossings = [list(rank) for rank in self.ranks], found
        self.ranks = best

    def _sort(self, rank: list[int], neighbors: list[list[int]], beside: list[int]) -> None:
        position = {number: index for index, number in enumerate(beside)}
        center: dict[int, float] = {}
        for index, number in enumerate(rank):
            near = [position[other] for other in neighbors[number] if other in position]
            center[number] = sum(near) / len(near) if near else index * len(beside) / len(rank)
        together: dict[int, list[float]] = {}
        for number in rank:
            if self.families[number] >= 0:
                together.setdefault(self.families[number], []).append(center[number])

        def key(number: int) -> tuple[float, int, float]:
            family = self.families[number]
            if family < 0:
                return center[number], -1, 0.0
            members = together[family]
            return sum(members) / len(members), family, center[number]

        rank.sort(key=key)

    def crossings(self) -> int:
        """Return the number of edge crossings between adjacent ranks."""
        total = 0
        for upper, lower in itertools.pairwise(self.ranks):
            position = {number: index for index, number in enumerate(lower)}
            passed: list[int] = []
            for number in upper:
                ends = sorted([position[other] for other in self.below[number] if other in position])
                for end in ends:
                    total += len(passed) - bisect_left(passed, end + 1)
                for end in ends:
                    insort(passed, end)
        return total

    # -- coordinates

    def align(self) -> list[float]:
        """Return the horizontal position of every number."""
        places = [0.0] * len(self.sizes)
        for rank in self.ranks:
            for left, right in itertools.pairwise(rank):
                places[right] = places[left] + self.gap(left, right)
        for turn in range(_ALIGNMENTS):
            downward = turn % 2 == 0
            # the last passes use both sides, so that neither dominates
            both = turn >= _ALIGNMENTS - 12
            for rank in self.ranks if downward else reversed(self.ranks):
                self._align_rank(rank, places, (both or downward, both or not downward))
        self.straighten(places)
        return places

    def straighten(self, places: list[float]) -> None:
        """Straighten long edges as far as their neighbors in each rank allow."""
        chains: dict[int, list[int]] = {}
        for (first, _), number in sorted(self.bends.items()):
            chains.setdefault(first, []).append(number)
        order = {number: (rank, index) for rank in self.ranks for index, number in enumerate(rank)}
        for _ in range(_STRAIGHTENINGS):
            for chain in sorted(chains.values(), key=len, reverse=True):
                self._straighten_chain(chain, places, order)

    def _straighten_chain(self, chain: list[int], places: list[float], order: dict[int, tuple[list[int], int]]) -> None:
        piece: list[int] = []
        low, high = -math.inf, math.inf

        def settle() -> None:
            middle = sum([places[number] for number in piece]) / len(piece)
            for number in piece:
                places[number] = min(max(middle, low), high)

        for number in chain:
            rank, index = order[number]
            least, most = -math.inf, math.inf
            if index > 0:
                least = places[rank[index - 1]] + self.gap(rank[index - 1], number)
            if index + 1 < len(rank):
                most = places[rank[index + 1]] - self.gap(number, rank[index + 1])
            if piece and max(low, least) > min(high, most):
                settle()
                piece, low, high = [], -math.inf, math.inf
            piece.append(number)
            # rounding may have moved a neighbor slightly too close
            low, high = max(low, least), max(min(high, most), max(low, least))
        settle()

    def _align_rank(self, rank: list[int], places: list[float], sides: tuple[bool, bool]) -> None:
        wanted, weights = [], []
        for number in rank:
            near = (self.above[number] if sides[0] else []) + (self.below[number] if sides[1] else [])
            pulls = [_STRAIGHT[(number >= self.boxes) + (other >= self.boxes)] for other in near]
            weight = sum(pulls)
            if weight:
                wanted.append(sum([pull * places[other] for pull, other in zip(pulls, near)]) / weight)
            else:
                wanted.append(places[number])
            weights.append(weight or 0.1)
        gaps = [self.gap(left, right) for left, right in itertools.pairwise(rank)]
        for number, place in zip(rank, _separate(wanted, weights, gaps)):
            places[number] = place


def _ranks(count: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """Return the rank of each box: the longest path to it; a box without inputs is just before its first user."""
    below: list[list[int]] = [[] for _ in range(count)]
    waiting = [0] * count
    for first, last in edges:
        below[first].append(last)
        waiting[last] += 1
    sources = [number for number in range(count) if not waiting[number]]
    rank = [0] * count
    stack = list(sources)
    visited = 0
    while stack:
        number = stack.pop()
        visited += 1
        for other in below[number]:
            rank[other] = max(rank[other], rank[number] + 1)
            waiting[other] -= 1
            if not waiting[other]:
                stack.append(other)
    if visited != count:
        raise ValueError("cannot lay out a graph with a cycle")
    for number in sources:
        if below[number]:
            rank[number] = min([rank[other] for other in below[number]]) - 1
    return rank


def _separate(wanted: Sequence[float], weights: Sequence[float], gaps: Sequence[float]) -> list[float]:
    """Return ordered positions with minimum gaps and the least weighted squared distance to the wanted ones.

    >>> _separate([0.0, 0.0, 9.0], [1.0, 1.0, 1.0], [4.0, 4.0])
    [-2.0, 2.0, 9.0]
    """
    offsets = [0.0]
    for gap in gaps:
        offsets.append(offsets[-1] + gap)
    # after subtracting the gaps, positions must not decrease: neighbors that would are merged at their mean
    blocks: list[tuple[float, float, int]] = []
    for want, weight, offset in zip(wanted, weights, offsets):
        mean, total, members = want - offset, weight, 1
        while blocks and blocks[-1][0] > mean:
            before, heavy, others = blocks.pop()
            mean = (mean * total + before * heavy) / (total + heavy)
            total += heavy
            members += others
        blocks.append((mean, total, members))
    means = [mean for mean, _, members in blocks for _ in range(members)]
    return [mean + offset for mean, offset in zip(means, offsets)]


def arrange(
    sizes: Sequence[Point],
    edges: Sequence[tuple[int, int]],
    families: Mapping[int, int] | None = None,
    upward: bool = False,
) -> tuple[list[BoxPosition], list[Route], Point]:
    """Return the positions of boxes, the routes of edges, and the total size.

    Parameters
    ----------
    sizes
        Width and height of each box.
    edges
        Pairs of box numbers; an edge runs downward, from producer to consumer.
    families
        The family of each box; members are placed side by side.
    upward
        Place the first boxes at the bottom.

    >>> places, routes, size = arrange([(20, 10), (20, 10)], [(0, 1)])
    >>> [(place.x, place.y) for place in places], routes[0].points, size
    ([(10.0, 5.0), (10.0, 61.0)], ((10.0, 10.0), (10.0, 56.0)), (20.0, 66.0))
    """
    if not sizes:
        return [], [], (0.0, 0.0)
    known = families or {}
    layers = _Layers(sizes, edges, [known.get(number, -1) for number in range(len(sizes))])
    layers.reorder()
    across = layers.align()
    heights = [max([layers.sizes[number][1] for number in rank], default=0.0) for rank in layers.ranks]
    tops = [0.0]
    for height in heights:
        tops.append(tops[-1] + height + _BETWEEN)
    total = tops[-1] - _BETWEEN
    left = min([place - size[0] / 2 for place, size in zip(across, layers.sizes)])
    right = max([place + size[0] / 2 for place, size in zip(across, layers.sizes)])
    middles = [tops[rank] + heights[rank] / 2 for rank in layers.rank]
    places = [
        BoxPosition(across[number] - left, middles[number], width, height)
        for number, (width, height) in enumerate(sizes)
    ]
    ports = _ports(layers, across)
    routes = []
    for chain in layers.chains:
        first, last = places[chain[0]], places[chain[-1]]
        points: list[Point] = [(first.x, first.y + first.height / 2)]
        for number in chain[1:-1]:
            # straight through the rank, so that it touches no box of it
            half = heights[layers.rank[number]] / 2
            x = across[number] - left
            points += [(x, middles[number] - half), (x, middles[number] + half)]
        points.append((last.x + ports.get((chain[-2], chain[-1]), 0.0), last.y - last.height / 2))
        routes.append(points)
    if upward:
        for place in places:
            place.y = total - place.y
        routes = [[(x, total - y) for x, y in points] for points in routes]
    return places, [Route(tuple(points)) for points in routes], (right - left, total)


def _ports(layers: _Layers, across: list[float]) -> dict[tuple[int, int], float]:
    """Return the offset from the center of a box at which each edge arrives, by the last two numbers on its way."""
    ports = {}
    for number in range(layers.boxes):
        arriving = sorted(layers.above[number], key=lambda other: across[other])
        room = layers.sizes[number][0] * _PORTS
        for index, other in enumerate(arriving):
            ports[other, number] = room * ((index + 0.5) / len(arriving) - 0.5)
    return ports
