"""Long random programs: their plans are followed byte by byte, and every way to run them gives the same bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given
from hypothesis import settings as examples
from hypothesis import strategies as st

from phonograd import settings
from phonograd.core.graph.node import Node
from phonograd.core.graph.operator import REGISTRY, single
from phonograd.core.ops.math.primitives import cast, embed, gather, matmul, reshape_to, slice_step
from phonograd.core.ops.math.structural import constant, full, leaf
from phonograd.core.ops.shape.creation import position_along
from phonograd.core.ops.shape.shape import concatenate
from phonograd.core.ops.vision.points import take_along
from phonograd.core.ops.vision.regions import assign_step
from phonograd.core.plan import inplace, layout
from phonograd.core.plan.expansion import Order
from phonograd.core.plan.native_program import NativeProgram
from phonograd.core.run import memory_pool
from phonograd.core.run.reference import ReferenceProgram, resolve

from .long_programs import limited, limits, long_programs
from .programs import Array, RandomProgram, assert_same_bits, run, run_singly, values_of
from .tracing import WrongPlanError, follow

_CHECKS = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large]
_PHASES = [Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink]


def number_of(count: int) -> Any:
    """Return the decorator of a test with a number of examples."""
    return examples(suppress_health_check=_CHECKS, max_examples=count, phases=_PHASES)


def _leaf(number: int, *shape: int) -> Node:
    return leaf(number, shape, np.dtype("float32"))


def _sum_to(node: Node, *shape: int) -> Node:
    return single(REGISTRY["_sum_to"](node, shape=shape))


def check(*targets: Node) -> NativeProgram:
    """Return the program of some nodes after following it and comparing every way to run it."""
    found = [resolve(node) for node in targets]
    leaves = ReferenceProgram(found, lambda node: False).inputs
    bindings = {node: values_of(node.shape, node.dtype, node.serial, special=False) for node in leaves}
    follow(found, bindings.__contains__)
    check_every_way(RandomProgram(bindings, found, found), {})
    return NativeProgram(found, bindings.__contains__)


# -- programs that went wrong once


def test_a_value_of_rows_is_written_to_all_elements_of_a_block() -> None:
    total = REGISTRY["softsign"](_sum_to(_leaf(0, 4, 1), 1, 1))
    repeated = REGISTRY["_broadcast"](total, shape=(1, 4))
    check(concatenate([repeated] * 3, 0))


def test_an_input_that_is_handed_back_is_not_written_over() -> None:
    x = _leaf(0, 64, 100)
    changed = assign_step(x, constant(2.5, x.dtype), (3, 0), (4, 100))
    assert check(changed).donatable
    # a sum over nothing is the array itself
    assert not check(_sum_to(x, 64, 100), changed).donatable


def test_an_array_is_not_changed_while_others_read_it() -> None:
    x = _leaf(0, 64, 1000)
    changed = assign_step(x, constant(2.5, x.dtype), (3, 0), (4, 1000))
    check(REGISTRY["tanh"](x), changed)


def test_what_lies_in_no_memory_is_added_to_a_sum_over_everything() -> None:
    beside = slice_step(embed(_leaf(1, 1), (3,), (1,), (2,)), (0,), (1,))
    check(_sum_to(_leaf(0, 6), 1) + beside)


def test_what_lies_in_no_memory_is_not_added_to_sums_of_rows() -> None:
    beside = embed(_leaf(1, 1, 1), (4, 1), (1, 0), (2, 1))
    check(_sum_to(_leaf(0, 4, 6), 4, 1) + beside)
    # numbers are not read, and there is still nothing beside them
    check(_sum_to(embed(full((1, 6), 1, np.dtype("float32")), (4, 6), (1, 0), (2, 6)), 4, 1) + _leaf(1, 4, 1))


def test_a_number_in_memory_has_a_place_of_its_own() -> None:
    number, index = full((1,), 1, np.dtype("float32")), leaf(1, (3,), np.dtype("int64"))
    other = matmul(_leaf(0, 4, 4), _leaf(0, 4, 4))
    node = gather(number, index)
    found = [resolve(node), resolve(matmul(other, other) + other)]
    bindings = {_leaf(0, 4, 4): values_of((4, 4), "float32", 1, False), index: np.zeros(3, np.int64)}
    follow(found, bindings.__contains__)
    check_every_way(RandomProgram(bindings, found, found), {})


def test_positions_are_the_same_in_memory_and_beside_others() -> None:
    places = position_along((4, 6), 0)
    check(reshape_to(places, (6, 4)), places + 1, _sum_to(cast(places, np.dtype("float32")), 1, 6))
    check(embed(position_along((5,), 0), (9,), (2,), (7,)) + leaf(0, (9,), np.dtype("int32")))


def test_elements_of_elements_are_computed_once() -> None:
    x, others = _leaf(0, 32, 1), [_leaf(number, 32, 1) for number in range(1, 6)]
    shifted = x + _leaf(9)
    deep = shifted
    for other in others:
        deep = deep * other
    few = take_along(deep + shifted, leaf(20, (1, 1), np.dtype("int64")), 0)
    program = ReferenceProgram([few], lambda node: False)
    order = Order([step[-1] for step in program.steps], program.inputs)
    assert len(order.nodes) == len(set(order.nodes))


# -- what is wrong with a plan is found


def _without_regions(jobs: Any, begun: Any = None) -> list[int]:
    """Return one region for everything."""
    return [0] * len(jobs)


def test_launches_that_depend_on_each_other_in_one_region_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "regions_of", _without_regions)
    x = _leaf(0, 4, 4)
    with pytest.raises(WrongPlanError, match="at the same time"):
        follow([REGISTRY["exp"](matmul(x, x))], lambda node: False)


def test_memory_that_is_given_away_too_early_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    arrange = memory_pool.arrange

    def early(lifetimes: list[memory_pool.Lifetime]) -> tuple[list[int], int]:
        return arrange([lifetime._replace(last=lifetime.first) for lifetime in lifetimes])

    a, b = _leaf(0, 4, 4), _leaf(1, 4, 4)
    node = matmul(matmul(matmul(a, b), a), b)
    follow([node + matmul(a, b)], lambda node: False)
    monkeypatch.setattr(memory_pool, "arrange", early)
    with pytest.raises(WrongPlanError):
        follow([node + matmul(a, b)], lambda node: False)


def test_assignments_before_the_last_reader_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = _leaf(0, 64, 100), _leaf(1, 100, 100)
    late = matmul(matmul(y, y), y)
    targets = [assign_step(x, constant(2.5, x.dtype), (3, 0), (4, 100)), x + _sum_to(late, 1, 100)]
    follow(targets, lambda node: False)
    monkeypatch.setattr(inplace.InPlaceAssignments, "late", lambda self, steps: set())
    monkeypatch.setattr(inplace.InPlaceAssignments, "_is_last", lambda self, base, node, place: True)
    monkeypatch.setattr(inplace.InPlaceAssignments, "readers", lambda self, base: [])
    with pytest.raises(WrongPlanError):
        follow(targets, lambda node: False)


# -- programs at random


@number_of(150)
@given(long_programs(), limits, st.booleans())
def test_plans_are_consistent(program: RandomProgram, chosen: dict[str, int], keep_all: bool) -> None:
    with limited(chosen):
        follow(program.targets, program.bindings.__contains__, keep_all)


@pytest.mark.slow
@number_of(20_000)
@given(long_programs(120), limits, st.booleans())
def test_plans_of_very_long_programs_are_consistent(
    program: RandomProgram, chosen: dict[str, int], keep_all: bool
) -> None:
    with limited(chosen):
        follow(program.targets, program.bindings.__contains__, keep_all)


def check_every_way(program: RandomProgram, chosen: dict[str, int]) -> None:
    """Compare runs that may not differ: all at once, each node alone, on two threads, with everything kept."""
    bindings = program.bindings
    alone = {**bindings, **run_singly(program.targets, bindings)}
    for threads, keep_all, chosen_here in ((1, False, {}), (2, False, chosen), (2, True, chosen)):
        with limited(chosen_here), settings.override(num_threads=threads):
            assert_same_bits(run(program.targets, bindings, keep_all), alone)
            if not keep_all:
                assert_same_bits(run_spent(program.targets, bindings), alone)
    assert_close(program.targets, bindings, alone)


def run_spent(targets: list[Node], bindings: dict[Node, Array]) -> dict[Node, Array]:
    """Return the values of the targets, computed by a program that writes over its inputs where it can."""
    program = NativeProgram(targets, bindings.__contains__)
    inputs = [bindings[node].copy() for node in program.inputs]
    results = program.run(inputs, program.donatable)
    return dict(zip([node for node, _ in program.kept], results, strict=True))


def assert_close(targets: list[Node], bindings: dict[Node, Array], found: dict[Node, Array]) -> None:
    """Assert that values are about what NumPy computes, one node at a time from the same inputs."""
    for step in ReferenceProgram(targets, bindings.__contains__).steps:
        node = step[-1]
        sources = [resolve(source) for source in node.inputs]
        if node not in found or not all([source in found for source in sources]):
            continue
        with np.errstate(all="ignore"):
            expected = np.asarray(node.operator.reference(node.attributes)(*[found[source] for source in sources]))
        if node.dtype.kind != "f":
            np.testing.assert_array_equal(found[node], expected, err_msg=str(node))
            continue
        # sums of terms of different signs lose digits: what counts are the numbers added up
        tolerance = 64 * float(np.finfo(node.dtype).eps)
        sizes = [np.abs(found[s][np.isfinite(found[s])]).max(initial=1) for s in sources if found[s].dtype.kind == "f"]
        terms = max([found[source].size for source in sources], default=1) / max(node.size, 1)
        scale = float(np.prod([min(float(size), 1e8) for size in sizes])) * max(terms, 1)
        np.testing.assert_allclose(found[node], expected, tolerance, tolerance * scale, err_msg=str(node))


@number_of(25)
@given(long_programs(30), limits)
def test_every_way_to_run_gives_the_same_bits(program: RandomProgram, chosen: dict[str, int]) -> None:
    check_every_way(program, chosen)


@pytest.mark.slow
@number_of(3000)
@given(long_programs(80), limits)
def test_every_way_to_run_long_programs_gives_the_same_bits(program: RandomProgram, chosen: dict[str, int]) -> None:
    check_every_way(program, chosen)
