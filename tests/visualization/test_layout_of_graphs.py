"""Layered layout: nothing overlaps, edges run one way, and few of them cross."""

import itertools
import random

import pytest

from phonograd.visualization.graph_layout import _Layers, arrange


def random_graph(count: int, seed: int) -> list[tuple[int, int]]:
    choice = random.Random(seed)
    return [(choice.randrange(max(0, last - 6), last), last) for last in range(1, count) for _ in range(2)]


@pytest.mark.parametrize("count", [1, 2, 10, 150])
@pytest.mark.parametrize("upward", [False, True])
def test_boxes_do_not_overlap_and_edges_run_one_way(count: int, upward: bool) -> None:
    edges = random_graph(count, count)
    sizes = [(40.0 + 10 * (number % 5), 30.0) for number in range(count)]
    places, routes, (width, height) = arrange(
        sizes, edges, {number: number % 3 for number in range(0, count, 2)}, upward
    )
    for one, other in itertools.combinations(places, 2):
        apart = abs(one.x - other.x) >= (one.width + other.width) / 2 or abs(one.y - other.y) >= 30
        assert apart
    for place in places:
        assert -1e-6 <= place.x - place.width / 2 <= place.x + place.width / 2 <= width + 1e-6
        assert -1e-6 <= place.y - place.height / 2 <= place.y + place.height / 2 <= height + 1e-6
    for route in routes:
        heights = [y for _, y in route.points]
        assert heights == sorted(heights, reverse=upward)


def test_ordering_removes_crossings() -> None:
    # two chains whose second boxes begin on the wrong sides
    edges = [(0, 3), (1, 2), (2, 4), (3, 5)]
    layers = _Layers([(10, 10)] * 6, edges, [-1] * 6)
    layers.reorder()
    assert layers.crossings() == 0
    layers = _Layers([(10, 10)] * 60, random_graph(60, 1), [-1] * 60)
    before = layers.crossings()
    layers.reorder()
    assert layers.crossings() <= before


def test_cycles_are_refused() -> None:
    with pytest.raises(ValueError, match="cycle"):
        arrange([(1, 1)] * 2, [(0, 1), (1, 0)])


def test_nothing_has_no_size() -> None:
    assert arrange([], []) == ([], [], (0.0, 0.0))
