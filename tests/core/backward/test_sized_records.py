"""Sized records: the bits of records operator by operator, for extents that a plan was not made from."""

from __future__ import annotations

import itertools
import marshal
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import phonograd as mx
from phonograd import autograd, gluon, nd
from phonograd.core.base.errors import MXNetError
from phonograd.core.derive.gradient import order_users_first
from phonograd.core.ops.math.structural import leaf, variable
from phonograd.core.plan import sized_records
from phonograd.core.plan.cache import EVALUATED, forget_nodes
from phonograd.core.plan.plan_tree import PlanTree
from phonograd.core.plan.record_graph import RecordGraph, RecordOutline, outline_of_record
from phonograd.core.plan.sized_plan import Refused, SizedPlan
from phonograd.core.plan.sized_records import RECORDS, plan_for_any_extents
from phonograd.core.run import disk_cache, kernel_cache
from phonograd.core.run.program import Recipe
from phonograd.gluon import nn

from ..ops.checks import Sample
from ..plan.test_any_extents import CHANGES
from ..plan.test_samples import SAMPLES

pytest.importorskip("llvmlite")
pytestmark = pytest.mark.skipif(not kernel_cache.available(), reason="there are no plans without a compiler")

_leaves = itertools.count(700_000)

#: a function of a batch and of parameters that returns a loss
Network = Callable[[Any, list[Any]], Any]


def _mlp(data: Any, weights: list[Any]) -> Any:
    hidden = nd.relu(nd.dot(data, weights[0]) + weights[1])
    return -nd.pick(nd.log_softmax(nd.dot(hidden, weights[2])), nd.argmax(data, axis=1) % 3)


def _norm(data: Any, weights: list[Any]) -> Any:
    hidden = nd.LayerNorm(nd.dot(data, weights[0]), weights[1], weights[1])
    return nd.mean(nd.square(nd.softmax(hidden) - 0.2))


def _parts(data: Any, weights: list[Any]) -> Any:
    one, two = nd.split(nd.dot(data, weights[0]), num_outputs=2, axis=1)
    joined = nd.concat(nd.sigmoid(one) * nd.tanh(two), one[:, 1:3], dim=1)
    return (joined * joined).sum() + nd.slice_axis(joined, axis=0, begin=-1, end=None).sum()


def _images(data: Any, weights: list[Any]) -> Any:
    pictures = nd.reshape(nd.dot(data, weights[0]), (0, 1, 4, 4))
    found = nd.Convolution(pictures, nd.reshape(weights[1], (4, 1, 2, 2)), no_bias=True, kernel=(2, 2), num_filter=4)
    return nd.Pooling(found, kernel=(3, 3), pool_type="max").sum()


def _rows(data: Any, weights: list[Any]) -> Any:
    hidden = nd.dot(data, weights[0])
    return nd.broadcast_div(hidden, nd.norm(hidden, axis=1, keepdims=True)).sum(axis=0)[0] + weights[2].sum()


def _repeated(data: Any, weights: list[Any]) -> Any:
    state = nd.zeros((data.shape[0], 16))
    for _ in range(3):
        state = nd.tanh(nd.dot(data, weights[0]) + state * weights[1])
    return state.sum()


NETWORKS: list[Network] = [_mlp, _norm, _parts, _images, _rows, _repeated]
SHAPES = (5, 16), (16,), (16, 3)


def _weights() -> list[Any]:
    draw = np.random.RandomState(3)
    made = [nd.array(draw.uniform(-1, 1, shape)) for shape in SHAPES]
    for weight in made:
        weight.attach_grad()
    return made


def _step(network: Network, weights: list[Any], batch: int) -> list[bytes]:
    data = nd.array(np.random.RandomState(batch).uniform(-1, 1, (batch, 5)))
    with autograd.record():
        loss = network(data, weights)
    loss.backward()
    reached = [weight for weight in weights if weight.grad is not None]
    return [each.asnumpy().tobytes() for each in (loss, *[weight.grad for weight in reached])]


@pytest.fixture
def learning(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Learn records when their extents change, at once."""
    monkeypatch.setattr(sized_records, "planning_ns", lambda size: 0)
    _forget()
    with mx.settings.override(tiers="blocking", planner="thread", cache_directory=""):
        yield
    _forget()


def _forget() -> None:
    """Let records be new again."""
    nd.waitall()
    forget_nodes()
    RECORDS.clear()


def _used() -> int:
    return sum([structure.used for structure in RECORDS._known.values()])


BATCHES = 7, 9, 12, 6, 21, 33, 14, 65, 130, 1, 40


@pytest.mark.parametrize("network", NETWORKS)
def test_bits_are_those_of_operators(network: Network, learning: None, monkeypatch: pytest.MonkeyPatch) -> None:
    weights = _weights()
    sized = [_step(network, weights, batch) for batch in BATCHES]
    assert _used() > 1, [structure.refusal for structure in RECORDS._known.values()]
    monkeypatch.setattr(RECORDS, "outline", lambda visited, wanted: None)
    _forget()
    assert [_step(network, weights, batch) for batch in BATCHES] == sized


def test_plans_are_kept_on_disk(learning: None, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    weights = _weights()
    # sources count as unchanged, and kernels are compiled anew
    monkeypatch.setattr(disk_cache, "_STARTED", time.time() + 1e6)
    kernel_cache.wait_for_tier_up()
    monkeypatch.setattr(kernel_cache, "_kernels", kernel_cache._KernelCache())
    with mx.settings.override(cache_directory=str(tmp_path)):
        first = [_step(_mlp, weights, batch) for batch in BATCHES[:4]]
        (structure,) = [each for each in RECORDS._known.values() if each.attempts]
        assert structure.ways.ways
        _forget()
        assert [_step(_mlp, weights, batch) for batch in BATCHES[:4]] == first
        assert not any([each.attempts for each in RECORDS._known.values()])
        assert _used()


def test_a_message_makes_the_same_plan(learning: None) -> None:
    outlines = _outlines_of(_mlp)
    graph = RecordGraph.of(outlines[0])
    sent = RecordGraph.of_message(marshal.loads(marshal.dumps(graph.message())))
    assert sent.structure() == graph.structure()
    for outline in outlines:
        one, two = graph.draft(outline.sizes), sent.draft(outline.sizes)
        assert one.recipe.steps == two.recipe.steps
        assert (one.inputs, one.results, one.structures) == (two.inputs, two.results, two.structures)


def _outlines_of(network: Network, batches: tuple[int, ...] = (7, 9, 12)) -> list[RecordOutline]:
    """Return the outlines of the records of a network."""
    found: list[RecordOutline] = []
    outline_of = RECORDS.outline
    with pytest.MonkeyPatch.context() as patch:

        def outline(visited: Any, wanted: Any) -> Any:
            found.append(outline_of_record(visited, wanted))
            return outline_of(visited, wanted)

        patch.setattr(RECORDS, "outline", outline)
        forget_nodes()
        weights = _weights()
        for batch in batches:
            _step(network, weights, batch)
    return found


def test_structures_have_everything_but_extents(learning: None) -> None:
    one, two, three = _outlines_of(_mlp)
    assert one.key == two.key == three.key
    assert one.sizes != two.sizes
    others = [_outlines_of(network, (7,))[0].key for network in NETWORKS]
    assert len(set(others)) == len(NETWORKS)

    def activated(name: str) -> Network:
        return lambda data, weights: nd.Activation(nd.dot(data, weights[0]), act_type=name).sum()

    assert len({_outlines_of(activated(name), (7,))[0].key for name in ("relu", "tanh")}) == 2


def test_observers_are_told(learning: None) -> None:
    reasons: list[str] = []

    def note(tier: str, nodes: Any, reason: str) -> None:
        reasons.append(reason)

    weights = _weights()
    EVALUATED.connect(note)
    try:
        for batch in BATCHES:
            _step(_mlp, weights, batch)
    finally:
        EVALUATED.disconnect(note)
    assert any(["a plan for any extents" in reason for reason in reasons])


def test_values_that_are_wanted_are_computed(learning: None) -> None:
    weights = _weights()
    for batch in BATCHES:
        data = nd.ones((batch, 5))
        with autograd.record():
            hidden = nd.dot(data, weights[0])
            apart = data * 2
            loss = (hidden * hidden).sum()
        loss.backward()
        np.testing.assert_array_equal(hidden.asnumpy(), nd.dot(data, weights[0]).asnumpy())
        np.testing.assert_array_equal(apart.asnumpy(), 2)
        assert loss.asscalar() == (hidden * hidden).sum().asscalar()
    assert _used()


def test_gradients_are_arrays_of_their_own(learning: None) -> None:
    """A gradient may be the value of an input, or the same for two variables."""
    one, two = nd.ones((4,)), nd.ones((4,))
    for array in (one, two):
        array.attach_grad()
    for batch in BATCHES:
        scale = nd.ones((batch, 4)) * batch
        with autograd.record():
            loss = ((one + two) * scale).sum(axis=0)
        loss.backward()
        one.grad[:] = 7
        np.testing.assert_array_equal(two.grad.asnumpy(), batch * batch)
        np.testing.assert_array_equal(scale.asnumpy(), batch)
    assert _used()


def test_an_error_is_that_of_the_operator(learning: None) -> None:
    table = nd.ones((6, 3))
    table.attach_grad()

    def look_up(count: int, place: float) -> Any:
        places = nd.full((count,), place)
        with autograd.record():
            loss = nd.take(table, places, mode="raise").sum()
        loss.backward()
        return table.grad.asnumpy()

    for count in BATCHES:
        look_up(count, 2)
    with pytest.raises((MXNetError, IndexError)):
        look_up(77, 9)


def test_random_numbers_are_drawn_once(learning: None) -> None:
    net = nn.HybridSequential()
    net.add(nn.Dense(8, in_units=5), nn.BatchNorm(in_channels=8), nn.Dropout(0.5), nn.Dense(2, in_units=8))
    net.initialize(mx.init.Constant(0.25))
    loss_of = gluon.loss.L2Loss()

    def steps() -> list[bytes]:
        mx.random.seed(5)
        found = []
        for batch in BATCHES:
            data = nd.array(np.random.RandomState(batch).uniform(-1, 1, (batch + 1, 5)))
            with autograd.record():
                loss = loss_of(net(data), nd.ones((batch + 1, 2)))
            loss.backward()
            found += [loss.asnumpy().tobytes(), net[0].weight.grad().asnumpy().tobytes()]
        return found

    sized = steps()
    assert _used()
    net[1].running_mean.set_data(nd.zeros((8,)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RECORDS, "outline", lambda visited, wanted: None)
        _forget()
        assert steps() == sized


def test_structures_that_are_always_new_are_left_alone(learning: None) -> None:
    looked = 0
    weight = nd.ones((3,))
    weight.attach_grad()
    for length in range(1, 60):
        with autograd.record():
            value = weight
            for _ in range(length):
                value = value * 1.5
            loss = value.sum()
        left = RECORDS._left
        loss.backward()
        looked += left == 0
    assert looked < 12


def test_a_refused_structure_keeps_its_reason(learning: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*given: Any) -> Any:
        raise Refused("for a test")

    monkeypatch.setattr(sized_records, "plan_for_any_extents", refuse)
    weights = _weights()
    for batch in BATCHES:
        _step(_mlp, weights, batch)
    assert not _used()
    (refusal,) = [each.refusal for each in RECORDS._known.values() if each.attempts]
    assert str(refusal) == "for a test"


def test_rows_of_products_are_no_conditions(learning: None) -> None:
    """Each record decides which operands a product packs; one product of few rows is like one of many."""
    weights = _weights()
    for batch in (9, 12, 40, 95, 97, 130, 190):
        _step(_mlp, weights, batch)
    (structure,) = [each for each in RECORDS._known.values() if each.ways.ways]
    assert len(structure.ways.ways) == 1
    (way,) = structure.ways.ways
    conditions = [line[0] for line in way.plan.lines if isinstance(line, tuple)]
    assert not [text for text in conditions if text in ("(-96 + a0) < 0", "(-8 + a0) <= 0")]


def test_extents_that_equal_others_get_plans_of_their_own(
    learning: None, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch of 16 is not told from the 16 units of a layer."""
    outlines = _outlines_of(_mlp, (9, 12, 16, 20, 40))
    graph = RecordGraph.of(outlines[0])
    monkeypatch.setattr(disk_cache, "_STARTED", time.time() + 1e6)
    kernel_cache.wait_for_tier_up()
    monkeypatch.setattr(kernel_cache, "_kernels", kernel_cache._KernelCache())
    with mx.settings.override(cache_directory=str(tmp_path)):
        disk = kernel_cache.disk_cache()
        assert disk is not None
        assert sized_records.store_ways("key", (graph.message(), [outline.sizes for outline in outlines]))
        choosers, ways = sized_records._stored(disk, "key") or ((), [])
        assert [sized_records._is_alone(way) for way in ways] == [False, True]
        tree = sized_records._tree_of(choosers, ways)
        found = [tree.find(outline.sizes, sized_records._NODES) for outline in outlines]
        assert [None if each is None else each[0] for each in found] == [0, 0, 1, 0, 0]
        assert found[2] is not None
        assert found[2][1].steps == graph.draft(outlines[2].sizes).recipe.steps


def test_the_ways_of_a_structure_are_one_tree(learning: None) -> None:
    """Each way is found by one walk, whichever was learned first, and so it is after they were on disk."""
    weights = _weights()
    batches = (*BATCHES, 700, 2500, 9000, 30_000)
    for batch in batches:
        _step(_mlp, weights, batch)
    (structure,) = [each for each in RECORDS._known.values() if each.ways.ways]
    tree, ways = structure.ways
    assert len(ways) > 2
    assert len(tree.choosers) == 1, "no plan read the extents in another way"
    records = [tuple(outline.sizes) for outline in _outlines_of(_mlp, batches)]
    stored = marshal.loads(marshal.dumps((tree.choosers, [way.plan.stored() for way in ways])))
    restored = PlanTree([SizedPlan.restored(plan) for plan in stored[1]], stored[0])
    reversed_tree = PlanTree([way.plan for way in reversed(ways)])
    alone = [PlanTree([way.plan]) for way in ways]
    numbers = set()
    for sizes in records:
        expected = [(number, *found[1:]) for number, each in enumerate(alone) if (found := _found(each, sizes))]
        assert len(expected) <= 1, "the conditions of two ways never hold at once"
        found = _found(tree, sizes)
        assert found == (expected[0] if expected else None)
        assert _found(restored, sizes) == found
        if found is not None:
            numbers.add(found[0])
            assert _found(reversed_tree, sizes) == (len(ways) - 1 - found[0], found[1])
    assert len(numbers) == len(ways)


def _found(tree: PlanTree, sizes: Sequence[Any]) -> tuple[int, Recipe] | None:
    return tree.find(sizes, sized_records._NODES)


# -- the registry


def _outline(sample: Sample, change: Callable[[int], int]) -> RecordOutline | None:
    """Return the outline of a record that sums up a sample with other extents; None if there is no such call."""
    nodes: list[Any] = []
    for data in sample.inputs:
        node = None
        if data is not None:
            shape = tuple([change(extent) if extent > 1 else extent for extent in data.shape])
            node = leaf(next(_leaves), shape, data.dtype)
            if sample.order and data.dtype.kind == "f":
                node = variable(node, next(_leaves))
        nodes.append(node)
    try:
        heads = [head for head in sample.call(nodes) if head.marked and head.dtype.kind == "f"]
        return outline_of_record(order_users_first((heads[0],)), [heads[0]]) if len(heads) == 1 else None
    except (MXNetError, AssertionError, ValueError, IndexError, Refused):
        return None


def _differs_in_constants(one: Recipe, two: Recipe) -> bool:
    """Return whether two recipes have the same constants in another order: it follows from their age."""
    constants = [{each.numbers[place : place + 8] for place in range(0, len(each.numbers), 8)} for each in (one, two)]
    return one.numbers != two.numbers and constants[0] == constants[1]


def check_samples(samples: list[Sample]) -> tuple[int, int]:
    """Compare plans of samples with those of the planner; return how many were learned, and how many plans held."""
    held = learned = 0
    for sample in samples:
        outlines = [_outline(sample, change) for change in CHANGES]
        alike = [each for each in outlines if each is not None and outlines[0] and each.key == outlines[0].key]
        if len(alike) < 2 or alike[0].sizes == alike[1].sizes:
            continue
        graph = RecordGraph.of(alike[1])
        try:
            plan, _ = plan_for_any_extents(graph, alike[1].sizes, alike[0].sizes)
        except Refused:
            continue
        learned += 1
        for outline in alike:
            try:
                planned = graph.draft(outline.sizes)
            except AssertionError:
                # attributes of the sample do not fit to these extents
                continue
            chosen = PlanTree([plan]).find(outline.sizes, planned.nodes)
            recipe = None if chosen is None else chosen[1]
            if recipe is not None:
                same = recipe == planned.recipe or recipe == graph.draft(outline.sizes).recipe
                assert same or _differs_in_constants(recipe, planned.recipe), sample
                held += 1
    return learned, held


def test_plans_of_samples_are_those_of_the_planner() -> None:
    learned, held = check_samples(SAMPLES[::37])
    assert learned > 4
    assert held > 2 * learned


@pytest.mark.slow
@pytest.mark.parametrize("first", range(20))
def test_plans_of_all_samples_are_those_of_the_planner(first: int) -> None:
    check_samples(SAMPLES[first::20])
