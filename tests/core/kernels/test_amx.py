"""Products by parts: as exact as they should be, whatever the numbers are, and the same bits however work is divided.

On processors without a matrix unit, kernels run in an emulation (:mod:`..matrix_unit`); what takes long is left out.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as budget
from hypothesis import strategies as st

import phonograd as mx
from phonograd import settings
from phonograd.core.base.dtypes import as_array_dtype
from phonograd.core.kernels.launch import Plan, Reference
from phonograd.core.kernels.matmul import bf16x3
from phonograd.core.kernels.matmul.amx import MatrixUnit
from phonograd.core.kernels.matmul.bf16_split import (
    BLOCK_TERMS,
    PARTS,
    SCALE,
    TILE_LINES,
    splitting,
    tiles_of,
)
from phonograd.core.kernels.matmul.bf16x3 import (
    PASS_TERMS,
    is_worth,
    product_by_parts,
    split_before,
)
from phonograd.core.kernels.matmul.gemm import Matrices
from phonograd.core.lower.pattern import Pattern
from phonograd.core.plan.products import plan_product
from phonograd.core.run.host import host

from ..plan.plans import run, run_product

needs_unit = pytest.mark.skipif(not host().matrix_unit, reason="this processor has no matrix unit, or none we may use")

FLOAT32 = np.dtype("float32")
PLAIN = host()._replace(matrix_unit=False)

sizes = st.one_of(st.integers(1, 70), st.sampled_from([96, 97, 128, 130, 300]))
depths = st.one_of(st.integers(1, 70), st.sampled_from([PASS_TERMS, PASS_TERMS + 1, 768, 1152, 1153, 2500]))


def numbers(shape: tuple[int, ...], turned: bool = False, seed: int = 0) -> np.ndarray:
    """Return matrices that lie in memory in order or transposed."""
    data = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    return np.swapaxes(np.swapaxes(data, -1, -2).copy(), -1, -2) if turned else data


def place(matrix: np.ndarray) -> Matrices:
    return Matrices(*[stride // 4 for stride in matrix.strides])


def by_parts_of(
    lhs: np.ndarray,
    rhs: np.ndarray,
    old: np.ndarray | None = None,
    uses: int = 1,
    ready: bool = True,
    parts: int = 3,
    **options: Any,
) -> np.ndarray:
    """Return the product of two matrices of any sizes by parts."""
    shape = lhs.shape[0], lhs.shape[1], rhs.shape[1]
    out = Matrices(shape[2], 1)
    before = split_before(shape, (1, 1), place(lhs), place(rhs), uses) if ready and parts == 3 else None
    added = None if old is None else out
    plan = product_by_parts(shape, (1, 1), place(lhs), place(rhs), out, added, uses, before, parts)
    operands = {"lhs": lhs, "rhs": rhs}
    operands = {name: a.T if a.strides[-1] != 4 else a for name, a in operands.items()}
    made = dict(operands)
    if before is not None:
        for name, of, split in (("left", "lhs", before.left), ("right", "rhs", before.right)):
            if split is not None:
                made[name] = run(Plan((split.launch,)), (split.size // 4,), pieces=3, rhs=operands[of])
    if old is not None:
        made["old"] = old
    return run(plan, (shape[0], shape[2]), **made, **options)


def error(found: np.ndarray, lhs: np.ndarray, rhs: np.ndarray) -> np.ndarray:
    """Return errors in units of half a last place of the sum of all products without their signs."""
    exact = lhs.astype(np.longdouble) @ rhs.astype(np.longdouble)
    scale = np.abs(lhs).astype(np.longdouble) @ np.abs(rhs).astype(np.longdouble)
    return np.abs(found - exact) / np.where(scale == 0, 1, scale) * 2.0**24


# -- parts


def parts(values: np.ndarray, by_lines: bool) -> np.ndarray:
    """Return the three parts of a matrix of lines and terms, as float32 numbers."""
    lines, terms = values.shape
    source = (Reference("data"), terms, 1, 0, 0)
    split = splitting((lines, terms), (1, 1), by_lines, source, Reference("out"))
    raw = run(Plan((split.launch,)), (split.size // 2,), out_dtype=np.uint16, pieces=3, data=values)
    tiles, blocks = tiles_of(lines, by_lines), -(-terms // BLOCK_TERMS)
    raw = raw.reshape(tiles, blocks, 3, 16, 16, 2)
    # tile, block, part, row, lane, half: term = 16 * half + (lane or row), line = (row or lane)
    order = (2, 0, 3, 1, 5, 4) if by_lines else (2, 0, 4, 1, 5, 3)
    wide = raw.transpose(order).reshape(3, tiles * TILE_LINES, blocks * BLOCK_TERMS)
    assert not wide[:, lines:].any()
    assert not wide[:, :, terms:].any()
    return (wide[:, :lines, :terms].astype(np.uint32) << 16).view(np.float32)


@pytest.mark.parametrize("by_lines", [False, True])
@pytest.mark.parametrize("shape", [(16, 32), (40, 100), (1, 1), (130, 300)])
def test_the_sum_of_three_parts_is_the_number(shape: tuple[int, int], by_lines: bool) -> None:
    random = np.random.default_rng(0)
    values = random.integers(0, 2**32, shape, np.uint64).astype(np.uint32).view(np.float32)
    # numbers that do not become infinite; many denormal ones, the smallest of all among them
    values = np.where(np.abs(values) < 2.0**103, values, random.standard_normal(shape)).astype(np.float32)
    tiny = random.integers(0, 2**23, shape).astype(np.uint32).view(np.float32)
    values = np.where(random.integers(0, 2, shape) > 0, values, tiny)
    values.flat[0] = np.uint32(1).view(np.float32)
    first, second, third = parts(values, by_lines)
    assert np.array_equal(first.astype(np.float64) + second + third, values.astype(np.float64) * SCALE)
    assert np.all(np.abs(second) <= np.abs(first) * 2.0**-8)
    assert np.all(np.abs(third) <= np.abs(first) * 2.0**-15)
    # the unit takes smaller ones for zeros
    magnitudes = np.abs([first, second, third])
    assert np.all((magnitudes == 0) | (magnitudes >= 2.0**-126))


@pytest.mark.parametrize("by_lines", [False, True])
def test_special_numbers_have_parts_that_are_not_finite(by_lines: bool) -> None:
    special = np.float32([np.inf, -np.inf, np.nan, np.finfo(np.float32).max])
    bits = np.uint32([0x7FFFFFFF, 0xFFFFFFFF, 0x7F800001, 0xFF800001]).view(np.float32)
    values = np.concatenate([special, bits])[None]
    with np.errstate(all="ignore"):
        assert not np.isfinite(parts(values, by_lines).sum(0)).any()


# -- products


@needs_unit
@budget(deadline=None, max_examples=120)
@given(sizes, depths, sizes, st.booleans(), st.booleans(), st.integers(1, 3))
def test_products_are_right_and_do_not_depend_on_layout_or_division(
    rows: int, terms: int, columns: int, turn_lhs: bool, turn_rhs: bool, uses: int
) -> None:
    lhs, rhs = numbers((rows, terms)), numbers((terms, columns), seed=1)
    found = by_parts_of(lhs, rhs)
    # six roundings for 32 terms, two chains of 16 in each, and what is left out
    blocks = -(-terms // BLOCK_TERMS)
    assert np.all(error(found, lhs, rhs) <= 6 * blocks + 24)
    other = numbers((rows, terms), turn_lhs), numbers((terms, columns), turn_rhs, 1)
    assert np.array_equal(found, by_parts_of(*other, uses=uses, pieces=5, threads=2))
    assert np.array_equal(found, by_parts_of(*other, uses=uses, ready=False, pieces=2))


@needs_unit
@pytest.mark.parametrize("shape", [(256, 256, 256), (64, 1120, 96), (128, 96, 128), (300, 2500, 130)])
def test_errors_are_smaller_than_those_of_single_additions(shape: tuple[int, int, int]) -> None:
    rows, terms, columns = shape
    assert is_worth(shape)
    lhs, rhs = numbers((rows, terms)), numbers((terms, columns), seed=1)
    found, plain = [error(run_product(lhs, rhs, machine), lhs, rhs) for machine in (host(), PLAIN)]
    assert np.sqrt(np.mean(found**2)) < 0.75 * np.sqrt(np.mean(plain**2))
    assert found.max() < 1.2 * plain.max()
    # and the same for numbers of one sign, whose sums grow
    found, plain = [
        error(run_product(np.abs(lhs), np.abs(rhs), machine), np.abs(lhs), np.abs(rhs)) for machine in (host(), PLAIN)
    ]
    assert np.sqrt(np.mean(found**2)) < 0.75 * np.sqrt(np.mean(plain**2))


@needs_unit
@pytest.mark.parametrize("scale", [2.0**60, 2.0**-60])
def test_large_and_small_numbers(scale: float) -> None:
    lhs, rhs = numbers((64, 256)), numbers((256, 64), seed=1)
    found = by_parts_of(lhs * np.float32(scale), rhs)
    assert np.array_equal(found, by_parts_of(lhs, rhs) * np.float32(scale))


@pytest.mark.parametrize("scales", [(-126, 0), (-63, -63), (-140, 3), (-149, 100), (-75, -70), (100, -160)])
def test_very_small_numbers_and_results_are_those_of_float32(scales: tuple[int, int]) -> None:
    shapes = ((64, 500), (500, 96)) if host().matrix_unit else ((17, 70), (70, 33))
    lhs, rhs = [
        np.ldexp(numbers(shape, seed=seed).astype(np.float64), scale).astype(np.float32)
        for seed, (shape, scale) in enumerate(zip(shapes, scales, strict=True))
    ]
    exact = lhs.astype(np.float64) @ rhs.astype(np.float64)
    magnitudes = np.abs(lhs).astype(np.float64) @ np.abs(rhs).astype(np.float64)
    # where results are denormal, half of the last place that there is
    bound = magnitudes * 2.0**-22 + 2.0**-150
    for found in (by_parts_of(lhs, rhs), by_parts_of(lhs, rhs, uses=2)):
        assert np.all(np.abs(found - exact) <= bound)


@needs_unit
@pytest.mark.parametrize("large", [1e24, 1e31, 3e38])
def test_large_numbers_do_not_disturb_small_ones_beside_them(large: float) -> None:
    lhs, rhs = numbers((64, 128)), numbers((128, 96), seed=1)
    lhs[5] *= np.float32(1e-38)
    clean = by_parts_of(lhs, rhs)
    lhs[4, 7] = lhs[40, 3] = large
    rhs[:, 50] = rhs[:, 60] * np.float32(1e-30)
    found = by_parts_of(lhs, rhs)
    exact = lhs.astype(np.float64) @ rhs.astype(np.float64)
    magnitudes = np.abs(lhs).astype(np.float64) @ np.abs(rhs).astype(np.float64)
    finite = np.isfinite(found)
    assert np.all(np.abs(found - exact)[finite] <= (magnitudes * 128 * 2.0**-24 + 2.0**-150)[finite])
    assert np.all(np.abs(exact)[~finite] > 1e38)
    rows, columns = np.delete(np.arange(64), [4, 40]), np.delete(np.arange(96), 50)
    assert np.array_equal(found[np.ix_(rows, columns)], clean[np.ix_(rows, columns)])


@needs_unit
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("uses", [1, 2])
def test_sums_that_are_not_finite_are_those_of_single_additions(turned: bool, uses: int) -> None:
    lhs, rhs = numbers((70, 100)), numbers((100, 90), turned, 1)
    lhs[3, 5], lhs[40, 99], lhs[69, 0] = np.inf, np.nan, np.finfo(np.float32).max
    rhs[7, 2], rhs[50, 89], rhs[51, 89] = -np.inf, np.inf, np.finfo(np.float32).max
    rhs[5, 4] = 0
    lhs[20], rhs[:, 30] = np.float32(3e38), np.float32(2e38)
    # with one term that is not finite the rest decides about its sign, and opposite ones are no number
    with np.errstate(all="ignore"):
        expected = (lhs.astype(np.float64) @ rhs.astype(np.float64)).astype(np.float32)
    found = by_parts_of(lhs, rhs, uses=uses, pieces=3)
    single = run_product(lhs, rhs, PLAIN)
    finite = np.isfinite(expected) & np.isfinite(single)
    assert np.array_equal(np.isnan(found), np.isnan(single))
    assert np.array_equal(np.isinf(found), np.isinf(single))
    assert np.array_equal(found[~finite], single[~finite], equal_nan=True)
    np.testing.assert_allclose(found[finite], expected[finite], rtol=1e-4, atol=1e-3)
    # what has nothing to do with them has the bits that it has anyway
    clean = by_parts_of(np.where(np.abs(lhs) < 1e30, lhs, 0), np.where(np.abs(rhs) < 1e30, rhs, 0))
    rows, columns = np.abs(lhs).max(1) < 1e30, np.abs(rhs).max(0) < 1e30
    assert rows.any()
    assert columns.any()
    assert np.array_equal(found[rows][:, columns], clean[rows][:, columns])


@pytest.mark.parametrize("in_place", [False, True])
def test_a_product_is_added_with_the_bits_of_a_sum(in_place: bool) -> None:
    lhs, rhs, old = numbers((70, 64)), numbers((64, 100), seed=1), numbers((70, 100), seed=2)
    lhs[0] = 0
    old.flat[::3] = -0.0
    lhs[10, 10], rhs[10, 40] = np.inf, np.inf
    with np.errstate(all="ignore"):
        expected = old + by_parts_of(lhs, rhs)
    if not in_place:
        assert np.array_equal(by_parts_of(lhs, rhs, old, pieces=3), expected, equal_nan=True)
        return
    # memory of the result is that of what is added
    shape, out = (70, 64, 100), Matrices(100, 1)
    plan = product_by_parts(shape, (1, 1), place(lhs), place(rhs), out, out)
    launches = [
        launch._replace(
            words=tuple([word._replace(operand="both") if _is_result(word) else word for word in launch.words])
        )
        for launch in plan.launches
    ]
    both = old.copy()
    run(Plan(tuple(launches), plan.scratch_bytes), (1,), lhs=lhs, rhs=rhs, both=both)
    assert np.array_equal(both, expected, equal_nan=True)


def _is_result(word: object) -> bool:
    return isinstance(word, Reference) and word.operand in ("old", "out")


@needs_unit
@pytest.mark.parametrize("count", [(3, 1), (2, 3)])
def test_many_matrices(count: tuple[int, int]) -> None:
    rows, terms, columns = shape = 130, 100, 128
    assert is_worth(shape)
    lhs = numbers((*count, rows, terms))
    for rhs in (
        numbers((*count, terms, columns), True, 1),
        np.broadcast_to(numbers((terms, columns), False, 1), (*count, terms, columns)),
    ):
        memory = rhs if rhs.strides[0] else rhs[(0,) * len(count)]
        patterns = [Pattern(a.shape, tuple([stride // 4 for stride in a.strides])) for a in (lhs, rhs)]
        how = plan_product(patterns[0], patterns[1], FLOAT32)
        assert how is not None
        operands = {"lhs": lhs, "rhs": np.swapaxes(memory, -1, -2) if memory.strides[-1] != 4 else memory}
        for operand, name, packed in how.before:
            operands[name] = run(Plan((packed.launch,)), (packed.size // 4,), rhs=operands[operand])
        found = run(how.plan, (*count, rows, columns), pieces=4, **operands)
        for index in np.ndindex(*count):
            one = by_parts_of(lhs[index].copy(), np.ascontiguousarray(rhs[index]))
            assert np.array_equal(found[index], one)


@needs_unit
def test_memory_for_parts_is_bounded_and_changes_no_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    lhs, rhs = numbers((450, 1300), True), numbers((1300, 200), seed=1)
    found = by_parts_of(lhs, rhs)
    monkeypatch.setattr(bf16x3, "MOST_SPLIT_BYTES", 1 << 18)
    shape = 450, 1300, 200
    assert split_before(shape, (1, 1), place(lhs), place(rhs), 1) == (None, None)
    plan = product_by_parts(shape, (1, 1), place(lhs), place(rhs), Matrices(200, 1))
    assert len(plan.launches) > 10
    assert plan.scratch_bytes <= 2 << 18
    assert np.array_equal(found, by_parts_of(lhs, rhs, ready=False, pieces=2))
    many, more = numbers((5, 130, 100)), numbers((5, 100, 128), seed=1)
    monkeypatch.setattr(bf16x3, "MOST_SPLIT_BYTES", 1 << 17)
    how = plan_product(Pattern.contiguous(many.shape), Pattern.contiguous(more.shape), FLOAT32, host(), uses=7)
    assert how is not None
    assert not how.before
    found = run(how.plan, (5, 130, 128), lhs=many, rhs=more)
    for number in range(5):
        assert np.array_equal(found[number], by_parts_of(many[number], more[number], ready=False))


# -- 16 bits


def rounded(values: np.ndarray, dtype: str) -> np.ndarray:
    """Return float32 numbers as 16 bits have them."""
    with np.errstate(all="ignore"):
        if dtype == "float16":
            return values.astype(np.float16).astype(np.float32)
        return mx.nd.array(values).astype(dtype).astype("float32").asnumpy()


def all_numbers(dtype: str) -> np.ndarray:
    """Return all numbers of 16 bits as float32, in lines."""
    bits = np.arange(1 << 16, dtype=np.uint16)
    wide = bits.view(np.float16).astype(np.float32) if dtype == "float16" else bits.astype(np.uint32) << 16
    return wide.view(np.float32).reshape(256, 256)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_numbers_of_16_bits_have_fewer_parts(dtype: str) -> None:
    values = all_numbers(dtype)
    values = np.where(np.abs(values) < 2.0**103, values, 0)
    found = parts(values, True)
    count = PARTS[as_array_dtype(dtype)]
    assert found[:count].any((1, 2)).all()
    assert not found[count:].any()


@pytest.mark.parametrize("uses", [1, 2])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_products_of_16_bits_have_the_bits_of_all_parts(dtype: str, uses: int) -> None:
    lhs, rhs = numbers((40, 100)), numbers((100, 48), True, 1)
    # denormal numbers and sums, large numbers, and those that are not finite
    lhs[3] *= np.float32(1e-39 if dtype == "bfloat16" else 1e-7)
    lhs[4] *= np.float32(1e-20)
    rhs[:, 5] *= np.float32(1e-20)
    lhs[7, 3], rhs[9, 6], lhs[8, 2], lhs[9, 9] = np.inf, np.nan, 6e4, -3e38 if dtype == "bfloat16" else -6e4
    rhs[9, 7] = 3e38 if dtype == "bfloat16" else 6e4
    lhs, rhs = rounded(lhs, dtype), rounded(rhs, dtype)
    rhs = np.ascontiguousarray(rhs.T).T
    old = numbers((40, 48), seed=2)
    count = PARTS[as_array_dtype(dtype)]
    with np.errstate(all="ignore"):
        found = by_parts_of(lhs, rhs, uses=uses, parts=count)
        expected = by_parts_of(lhs, rhs, uses=uses, ready=False)
        sums = old + expected
    assert np.isfinite(expected).mean() > 0.9
    assert np.array_equal(found.view(np.uint32), expected.view(np.uint32))
    added = by_parts_of(lhs, rhs, old, uses=uses, parts=count, pieces=3)
    assert np.array_equal(added, sums, equal_nan=True)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_plans_of_16_bits_multiply_as_many_parts_as_there_are(dtype: str) -> None:
    machine = host()._replace(matrix_unit=True)
    shape = 64, 128, 160
    assert is_worth(shape)
    lhs, rhs = [mx.nd.array(numbers(size)).astype(dtype) for size in (shape[:2], shape[1:])]
    wide = [each.astype("float32").asnumpy() for each in (lhs, rhs)]
    how = plan_product(Pattern.contiguous(lhs.shape), Pattern.contiguous(rhs.shape), as_array_dtype(dtype), machine)
    assert how is not None
    kernels = [one.structure for one in how.plan.launches]
    assert MatrixUnit(PARTS[as_array_dtype(dtype)]) in kernels
    assert MatrixUnit() not in kernels
    operands = {"lhs": lhs.asnumpy().view(np.uint16), "rhs": rhs.asnumpy().view(np.uint16)}
    found = run(how.plan, (shape[0], shape[2]), out_dtype=np.float32, pieces=2, **operands)
    assert np.array_equal(found, by_parts_of(*wide, ready=False))


# -- plans


@needs_unit
def test_a_plan_computes_by_parts_unless_settings_forbid_it() -> None:
    lhs, rhs = mx.nd.array(numbers((256, 256))), mx.nd.array(numbers((256, 256), seed=1))
    expected = [run_product(lhs.asnumpy(), rhs.asnumpy(), machine) for machine in (host(), PLAIN)]
    assert not np.array_equal(*expected)
    assert np.array_equal(mx.nd.dot(lhs, rhs).asnumpy(), expected[0])
    with settings.override(matrix_unit=False):
        assert not host().matrix_unit
        # another expression, because existing plans stay as they are
        assert np.array_equal(mx.nd.dot(lhs, rhs * 1).asnumpy(), expected[1])


@needs_unit
def test_gradients_are_those_of_float64() -> None:
    data, weight = numbers((64, 200)), numbers((200, 120), seed=1)
    results = []
    for dtype in ("float32", "float64"):
        x, w = mx.nd.array(data, dtype=dtype), mx.nd.array(weight, dtype=dtype)
        x.attach_grad()
        w.attach_grad()
        with mx.autograd.record():
            y = mx.nd.tanh(mx.nd.dot(x, w) / 20)
        y.backward()
        results.append([y.asnumpy(), x.grad.asnumpy(), w.grad.asnumpy()])
    for found, expected in zip(*results, strict=True):
        np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5)


@needs_unit
def test_a_shared_weight_is_split_once() -> None:
    weight = mx.nd.array(numbers((128, 512)))
    states = [mx.nd.array(numbers((32, 128), seed=number)) for number in range(5)]
    found = [mx.nd.dot(state, weight) for state in states]
    mx.nd.waitall()
    for state, value in zip(states, found, strict=True):
        assert np.array_equal(value.asnumpy(), run_product(state.asnumpy(), weight.asnumpy(), host()))


def test_what_is_worth_it_depends_on_sizes_alone() -> None:
    assert is_worth((1024, 1024, 1024))
    assert is_worth((32, 256, 1024))
    assert not is_worth((1, 4096, 4096))
    assert not is_worth((64, 64, 64))
    assert not is_worth((1000, 1000, 1))
    how = plan_product(Pattern.contiguous((64, 300)), Pattern.contiguous((300, 300)), np.dtype("float64"), host())
    assert how is not None
    assert not any([isinstance(one.structure, MatrixUnit) for one in how.plan.launches])


PROGRAM = """
import ctypes, hashlib, sys
import numpy as np

class Stack(ctypes.Structure):
    _fields_ = [("start", ctypes.c_void_p), ("flags", ctypes.c_int), ("size", ctypes.c_size_t)]

memory = ctypes.create_string_buffer(4096)
if sys.argv[1] == "refused":
    # where signals have a small stack, the system lets nobody use tiles
    assert ctypes.CDLL(None).sigaltstack(ctypes.byref(Stack(ctypes.addressof(memory), 0, 4096)), None) == 0
import phonograd as mx
from phonograd.core.run.host import host
random = np.random.default_rng(0)
lhs, rhs = [mx.nd.array(random.standard_normal((256, 256)).astype(np.float32)) for _ in range(2)]
print(host().matrix_unit, hashlib.sha256(mx.nd.dot(lhs, rhs).asnumpy().tobytes()).hexdigest())
"""


@needs_unit
def test_plans_on_disk_are_not_used_where_the_unit_must_not_be(tmp_path: Path) -> None:
    def found(how: str) -> list[str]:
        environment = {**os.environ, "PHONOGRAD_CACHE_DIRECTORY": str(tmp_path)}
        environment["PHONOGRAD_MATRIX_UNIT"] = str(int(how != "forbidden"))
        command = [sys.executable, "-c", PROGRAM, how]
        return subprocess.run(command, capture_output=True, text=True, env=environment, check=True).stdout.split()

    # what one writes the next one finds
    results = [found(how) for how in ("allowed", "refused", "forbidden", "allowed")]
    assert [result[0] for result in results] == ["True", "False", "False", "True"]
    assert results[1] == results[2]
    assert results[0] == results[3]
    assert results[0][1] != results[1][1]


@needs_unit
def test_the_unit_can_be_used_by_older_threads_and_after_a_fork() -> None:
    lhs, rhs = mx.nd.array(numbers((256, 300))), mx.nd.array(numbers((300, 256), seed=1))
    expected = mx.nd.dot(lhs, rhs).asnumpy()
    program = f"""
import os, threading, warnings
ready, results = threading.Event(), []
def later():
    ready.wait()
    results.append(product())
# there before anybody asks whether tiles may be used
thread = threading.Thread(target=later)
thread.start()
import numpy as np
import phonograd as mx
warnings.simplefilter("ignore", DeprecationWarning)
def product():
    lhs, rhs = [np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
                for seed, shape in enumerate(((256, 300), (300, 256)))]
    return mx.nd.dot(mx.nd.array(lhs), mx.nd.array(rhs)).asnumpy().tobytes()
results.append(product())
ready.set()
thread.join()
if (child := os.fork()) == 0:
    os._exit(int(product() != results[0]))
assert os.waitpid(child, 0)[1] == 0
assert results[0] == results[1] == bytes.fromhex({expected.tobytes()[:4096].hex()!r}) + results[0][4096:]
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
