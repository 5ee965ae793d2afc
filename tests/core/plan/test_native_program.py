"""NativeProgram: the interface of a reference program, mixed plans, memory, threads and what is counted."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from phonograd.core.base.errors import MXNetError
from phonograd.core.graph.node import Node
from phonograd.core.graph.operator import REGISTRY, Operator
from phonograd.core.lower.lowering import Elementwise
from phonograd.core.ops.math.primitives import matmul, permute, reshape_to, slice_step
from phonograd.core.ops.math.structural import full, leaf, variable
from phonograd.core.plan.group import Group
from phonograd.core.plan.grouping import group_nodes
from phonograd.core.plan.native_program import NativeProgram
from phonograd.core.run import driver, kernel_cache
from phonograd.core.run.reference import ReferenceProgram

from .programs import assert_same_bits, run, run_singly, same_bits

FLOAT32 = np.dtype("float32")
exp, tanh, sigmoid, sum_to = (REGISTRY[name] for name in ("exp", "tanh", "sigmoid", "_sum_to"))


def never(node: Node) -> bool:
    return False


def arrays(*shapes: tuple[int, ...]) -> tuple[list[Node], dict[Node, np.ndarray]]:
    generator = np.random.default_rng(0)
    nodes = [leaf(index, shape, FLOAT32) for index, shape in enumerate(shapes)]
    return nodes, {node: generator.normal(size=node.shape).astype(np.float32) for node in nodes}


def groups_of(program_targets: list[Node]) -> list[Group]:
    plan = ReferenceProgram(program_targets, never)
    computed = [step[-1] for step in plan.steps]
    return group_nodes(computed, plan.inputs, [node for node, _ in plan.kept]).groups


def test_interface_is_that_of_the_reference() -> None:
    (x, y), bindings = arrays((3, 4), (4,))
    targets = [tanh(x * y), sum_to(x + y, shape=(4,)), sigmoid(x)]
    native, reference = NativeProgram(targets, never), ReferenceProgram(targets, never)
    assert native.inputs == reference.inputs
    assert [node for node, _ in native.kept] == [node for node, _ in reference.kept]
    inputs = [bindings[node] for node in native.inputs]
    for found, expected in zip(native.run(list(inputs)), reference.run(list(inputs)), strict=True):
        assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_a_chain_is_one_kernel_and_one_call() -> None:
    (x, y), bindings = arrays((10,), (10,))
    value = x
    for _ in range(12):
        value = tanh(value * y) + x
    assert len(groups_of([value])) == 1
    program = NativeProgram([value], never)
    before = kernel_cache.statistics.native_calls
    program.run([bindings[x], bindings[y]])
    assert kernel_cache.statistics.native_calls == before + 1


def test_kernels_in_a_row_are_one_call() -> None:
    (x,), bindings = arrays((30, 20))
    total = sum_to(exp(x), shape=(30, 1))
    target = sum_to(tanh(total * x), shape=(20,))
    program = NativeProgram([target], never)
    before = kernel_cache.statistics.native_calls
    program.run([bindings[x]])
    assert kernel_cache.statistics.native_calls == before + 1
    assert_same_bits(run([target], bindings), run_singly([target], bindings))


def test_a_long_chain_is_divided() -> None:
    (x,), bindings = arrays((5,))
    value = x
    for _ in range(400):
        value = tanh(value) + x
    groups = groups_of([value])
    assert len(groups) > 10
    assert max(len(group.members) for group in groups) <= 160
    assert np.all(np.isfinite(run([value], bindings)[value]))


def test_mixed_plans() -> None:
    (x, w), bindings = arrays((6, 5), (5, 4))
    hidden = sigmoid(matmul(x * 2.0, w) + 1.0)
    target = tanh(sum_to(hidden * hidden, shape=(4,)))
    assert_same_bits(run([target, hidden], bindings), run_singly([target, hidden], bindings))
    expected = run([target], bindings, make=ReferenceProgram)[target]
    np.testing.assert_allclose(run([target], bindings)[target], expected, rtol=1e-5)


def test_locations_are_not_copied() -> None:
    (x, y), _ = arrays((4, 6), (6, 2))
    part = slice_step(permute(x, (1, 0)), (0, 1), (6, 3))
    groups = groups_of([part + y])
    assert [len(group.members) for group in groups] == [1]


def test_results_that_are_locations() -> None:
    (x,), bindings = arrays((4, 6))
    value = x + 1.0
    targets = [
        reshape_to(value, (24,)),
        permute(value, (1, 0)),
        slice_step(value, (1, 5), (3, -1), (1, -2)),
        REGISTRY["_broadcast"](sum_to(value, shape=(1, 6)), shape=(3, 6)),
        reshape_to(permute(value, (1, 0)), (3, 8)),
        permute(x, (1, 0)),
        reshape_to(x, (2, 12)),
        full((2, 3), 7.0, FLOAT32),
        REGISTRY["_broadcast"](full((1, 3), 7.0, FLOAT32), shape=(2, 3)),
    ]
    found = run(targets, bindings)
    expected = bindings[x] + np.float32(1)
    assert same_bits(found[targets[1]], np.ascontiguousarray(expected.T))
    assert same_bits(found[targets[4]], expected.T.reshape(3, 8))
    for node, value_ in found.items():
        assert value_.shape == node.shape
        assert value_.flags.c_contiguous
    assert_same_bits(found, run_singly(targets, bindings))


def test_values_that_pass_through() -> None:
    (x,), bindings = arrays((3,))
    marked = variable(x, 0)
    target = exp(marked) * marked
    assert NativeProgram([target], never).inputs == (x,)
    assert NativeProgram([marked], never).run([bindings[x]]) == []


def test_nothing_to_do() -> None:
    (x,), bindings = arrays((3,))
    program = NativeProgram([x], never)
    assert program.run([bindings[x]]) == []


def test_available_values_are_inputs() -> None:
    (x,), bindings = arrays((3, 3))
    middle = exp(x)
    target = middle + x
    program = NativeProgram([target], lambda node: node is middle)
    assert set(program.inputs) == {x, middle}
    found = program.run([{x: bindings[x], middle: np.ones((3, 3), np.float32)}[node] for node in program.inputs])
    assert np.array_equal(found[0], bindings[x] + 1)


def test_keeping_all_keeps_what_is_worth_it() -> None:
    (x,), bindings = arrays((4, 4))
    cheap = x * 2.0
    dear = exp(cheap)
    total = sum_to(dear + 1.0, shape=(4,))
    found = run([total], bindings, keep_all=True)
    assert set(found) == {dear, total}
    # what was not kept is computed again when it is asked for, with the same bits
    later = run([cheap + dear], {**bindings, **found})
    assert_same_bits(later, run([cheap + dear], bindings))


def test_integers_and_other_dtypes() -> None:
    for name in ("int32", "int64", "uint8", "int8", "float16", "bool"):
        dtype = np.dtype(name)
        x = leaf(0, (2, 20), dtype)
        data = (np.arange(40).reshape(2, 20) % 7).astype(dtype)
        targets = [permute(x, (1, 0))]
        if name != "bool":
            targets += [x * x + x, sum_to(x, shape=(2, 1)), exp(x)]
        found = run(targets, {x: data})
        expected = ReferenceProgram(targets, never).run([data])
        for target, value in zip(targets, expected, strict=True):
            assert found[target].dtype == value.dtype
            assert np.array_equal(found[target], value), (name, target)


def test_an_operator_with_several_outputs_and_optional_inputs() -> None:
    (x,), bindings = arrays((4, 6))
    parts = REGISTRY["SliceChannel"](x + 1.0, num_outputs=2, axis=1)
    target = tanh(parts[0] * parts[1])
    found = run([target], bindings)[target]
    expected = bindings[x] + 1
    np.testing.assert_allclose(found, np.tanh(expected[:, :3] * expected[:, 3:]), rtol=1e-6)


def test_errors_of_numpy_name_the_operator() -> None:
    def fail(data: np.ndarray) -> np.ndarray:
        """Return nothing."""
        raise IndexError("index 9 is out of range")

    x = leaf(0, (3,), FLOAT32)
    failing = Operator(fail, name="_test_fails")
    program = NativeProgram([failing(x + 1.0)], never)
    with pytest.raises(
        IndexError, match=r"out of range\n  in operator _test_fails, called at .*test_native_program.py"
    ):
        program.run([np.zeros(3, np.float32)])


def test_numbers_of_a_lowering_are_read_at_run_time(monkeypatch: pytest.MonkeyPatch) -> None:
    def scale(data: np.ndarray, *, factor: float) -> np.ndarray:
        """Return the array times a factor."""
        return data * data.dtype.type(factor)

    scaled = Operator(scale, name="_test_scale")
    scaled.lowering = Elementwise(
        lambda e, x, factor: e.multiply(x, factor), numbers=lambda dtype, *, factor: (factor,)
    )
    monkeypatch.setitem(REGISTRY, "_test_scale", scaled)
    (x,), bindings = arrays((50,))
    found = run([scaled(x, factor=0.1)], bindings)
    before = kernel_cache.statistics.kernels_compiled
    assert same_bits(next(iter(found.values())), bindings[x] * np.float32(0.1))
    other = run([scaled(x, factor=0.7)], bindings)
    assert same_bits(next(iter(other.values())), bindings[x] * np.float32(0.7))
    assert kernel_cache.statistics.kernels_compiled == before


def test_one_program_runs_in_several_threads() -> None:
    (x, w), _ = arrays((40, 50), (50, 30))
    product = matmul(tanh(x), w)
    target = tanh(product + sum_to(exp(product), shape=(40, 1)))
    program = NativeProgram([target], never)
    generator = np.random.default_rng(1)
    samples = [[generator.normal(size=n.shape).astype(np.float32) for n in program.inputs] for _ in range(8)]
    expected = [program.run(list(sample))[0] for sample in samples]
    barrier = threading.Barrier(4)

    def work(number: int) -> bool:
        barrier.wait()
        picks = [(number + turn) % len(samples) for turn in range(50)]
        return all(same_bits(program.run(list(samples[pick]))[0], expected[pick]) for pick in picks)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(4)))


def test_a_run_inside_a_run_has_its_own_memory() -> None:
    (x,), bindings = arrays((60, 60))
    inner_target = sum_to(exp(sum_to(tanh(x), shape=(60, 1)) * x), shape=(60,))
    inner = NativeProgram([inner_target], never)

    def nested(data: np.ndarray) -> np.ndarray:
        """Return the array, after another run."""
        inner.run([bindings[x]])
        return data.copy()

    total = sum_to(tanh(x), shape=(60, 1))
    target = Operator(nested, name="_test_nested")(total * x) * total
    expected = run([total * x * total], bindings)[total * x * total]
    assert same_bits(run([target], bindings)[target], expected)


def test_addresses_can_be_asked_for() -> None:
    # what happens where Python's objects do not lie as expected
    (x,), bindings = arrays((7, 7))
    target = tanh(x) + x
    program = NativeProgram([target], never)
    expected = program.run([bindings[x]])[0]
    started: Any = driver._get_driver()
    started.direct = False
    try:
        indirect = NativeProgram([target], never)
    finally:
        started.direct = True
    assert same_bits(indirect.run([bindings[x]])[0], expected)


def test_references_still_raise_mxnet_errors() -> None:
    def fail(data: np.ndarray) -> np.ndarray:
        """Return nothing."""
        raise KeyError("nothing there")

    x = leaf(0, (3,), FLOAT32)
    with pytest.raises(MXNetError, match="nothing there"):
        NativeProgram([Operator(fail, name="_test_key_error")(x)], never).run([np.zeros(3, np.float32)])
