"""Products of matrices: right for every size and layout, and the same bits however the work is divided."""

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phonograd.core.base.dtypes import BFLOAT16, FLOAT16, FLOAT32, DType, convert
from phonograd.core.kernels.convert import Convert
from phonograd.core.kernels.launch import Reference
from phonograd.core.kernels.matmul import gemm
from phonograd.core.kernels.matmul.gemm import (
    LEAST_PACKED_BYTES,
    MOST_PACKED_BYTES,
    Gemm,
    Matrices,
    gemm_for,
    product,
)
from phonograd.core.kernels.matmul.packing import Packing
from phonograd.core.kernels.matmul.tasks import terms_of_block
from phonograd.core.kernels.matmul.tiles import DEPTH
from phonograd.core.kernels.target import Machine
from phonograd.core.lower.pattern import Pattern
from phonograd.core.plan.products import ENOUGH_ROWS, ENOUGH_USES, plan_product
from phonograd.core.run.host import host

from ..plan.plans import run, run_product

MACHINES = [Machine(64, 32), Machine(32, 16), Machine(16, 32)]
#: this processor, as if it had no matrix unit
PLAIN = host()._replace(matrix_unit=False)

sizes = st.one_of(st.integers(0, 20), st.sampled_from([31, 32, 47, 48, 49, 64, 97, 130]))
depths = st.one_of(st.integers(0, 20), st.sampled_from([64, 383, 384, 385, 800]))


def matrices(shape: tuple[int, int], transposed: bool, dtype: Any, seed: int = 0) -> tuple[np.ndarray, Matrices]:
    """Return the memory of a matrix, in the given shape or transposed, and its strides in the given shape."""
    data = np.random.default_rng(seed).standard_normal(shape).astype(dtype)
    return (data.T.copy(), Matrices(1, shape[0])) if transposed else (data, Matrices(shape[1], 1))


def multiply(
    lhs: tuple[np.ndarray, Matrices],
    rhs: tuple[np.ndarray, Matrices],
    shape: tuple[int, int, int],
    machine: Machine | None = None,
    **options: int,
) -> np.ndarray:
    """Return the product of matrices, computed by the kernel."""
    kernel = gemm_for(lhs[0].dtype, machine or host())
    plan = product(shape, (1, 1), lhs[1], rhs[1], Matrices(shape[2], 1), kernel)
    return run(plan, (shape[0], shape[2]), out_dtype=kernel.dtype, lhs=lhs[0], rhs=rhs[0], **options)


def same(first: np.ndarray, second: np.ndarray) -> bool:
    return first.tobytes() == second.tobytes()


@settings(deadline=None, max_examples=150)
@given(sizes, depths, sizes, st.booleans(), st.booleans(), st.sampled_from(["float32", "float64"]))
def test_products_are_right_and_do_not_depend_on_layout_or_division(
    rows: int, terms: int, columns: int, turn_lhs: bool, turn_rhs: bool, dtype: str
) -> None:
    shape = rows, terms, columns
    lhs, rhs = matrices((rows, terms), False, dtype), matrices((terms, columns), False, dtype, 1)
    found = multiply(lhs, rhs, shape)
    exact = lhs[0].astype(np.longdouble) @ rhs[0].astype(np.longdouble)
    scale = np.abs(lhs[0]).astype(np.longdouble) @ np.abs(rhs[0]).astype(np.longdouble)
    blocks = -(-terms // DEPTH)
    steps = -(-terms // blocks) + blocks if blocks else 0
    assert np.all(np.abs(found - exact) <= steps * np.finfo(dtype).eps / 2 * scale)
    turned = multiply(
        matrices((rows, terms), turn_lhs, dtype), matrices((terms, columns), turn_rhs, dtype, 1), shape, pieces=5
    )
    assert same(found, turned)


@settings(deadline=None, max_examples=60)
@given(sizes, depths, sizes, st.booleans(), st.booleans(), st.sampled_from([BFLOAT16, FLOAT16]))
def test_products_of_16_bits_have_the_bits_of_float32(
    rows: int, terms: int, columns: int, turn_lhs: bool, turn_rhs: bool, dtype: DType
) -> None:
    shape = rows, terms, columns
    operands = matrices((rows, terms), turn_lhs, FLOAT32), matrices((terms, columns), turn_rhs, FLOAT32, 1)
    narrow = [(convert(memory, dtype), place) for memory, place in operands]
    wide = [(convert(memory, FLOAT32), place) for memory, place in narrow]
    assert same(multiply(narrow[0], narrow[1], shape, pieces=3), multiply(wide[0], wide[1], shape))


@pytest.mark.parametrize("shape", [(300, 500, 200), (8, 1, 48), (1, 70, 31), (5000, 3, 20)])
def test_products_of_16_bits_make_panels_of_float32_and_no_copies(shape: tuple[int, int, int]) -> None:
    kernel = gemm_for(BFLOAT16, host())
    places = Matrices(shape[1], 1), Matrices(shape[2], 1), Matrices(shape[2], 1)
    plan = product(shape, (1, 1), *places, kernel)
    for launch in plan.launches:
        if isinstance(launch.structure, Packing):
            assert (launch.structure.source, launch.structure.dtype) == (BFLOAT16, FLOAT32)
        else:
            assert isinstance(launch.structure, Gemm)
            assert launch.structure.dtype == FLOAT32


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(13, 500, 70), (300, 20, 100), (8, 1, 48)])
def test_every_machine_gives_the_same_bits(dtype: str, shape: tuple[int, int, int]) -> None:
    rows, terms, columns = shape
    lhs, rhs = matrices((rows, terms), False, dtype), matrices((terms, columns), True, dtype, 1)
    first, *others = [multiply(lhs, rhs, shape, machine) for machine in MACHINES]
    for other in others:
        assert same(first, other)


def test_threads_give_the_same_bits() -> None:
    shape = 300, 400, 200
    lhs, rhs = matrices((300, 400), False, "float32"), matrices((400, 200), False, "float32", 1)
    assert same(multiply(lhs, rhs, shape), multiply(lhs, rhs, shape, pieces=100, threads=3))


def rounded_once(first: np.ndarray, second: np.ndarray, third: np.ndarray) -> np.ndarray:
    """Return first * second + third in float32, rounded once, by way of a sum in float64 that is rounded to odd."""
    product, third = first.astype(np.float64) * second.astype(np.float64), third.astype(np.float64)
    total = product + third
    part = total - product
    error = (product - (total - part)) + (third - part)
    even = total.view(np.int64) % 2 == 0
    return np.where((error != 0) & even, np.nextafter(total, np.copysign(np.inf, error)), total).astype(np.float32)


@pytest.mark.parametrize("terms", [1, 5, DEPTH, DEPTH + 1, 1000])
def test_sums_have_the_documented_order(terms: int) -> None:
    lhs, rhs = matrices((3, terms), False, FLOAT32), matrices((terms, 5), False, FLOAT32, 1)
    blocks = -(-terms // DEPTH)
    block = -(-terms // blocks)
    total = np.zeros((3, 5), np.float32)
    for start in range(0, terms, block):
        part = np.zeros((3, 5), np.float32)
        for term in range(start, min(start + block, terms)):
            column, row = np.broadcast_arrays(lhs[0][:, term : term + 1], rhs[0][term : term + 1])
            part = rounded_once(column, row, part)
        total = total + part
    assert same(multiply(lhs, rhs, (3, terms, 5)), total)


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_stays_in_its_row_and_column(number: float) -> None:
    lhs, rhs = np.ones((9, 5), np.float32), np.ones((5, 50), np.float32)
    lhs[4, 2] = number
    found = multiply((lhs, Matrices(5, 1)), (rhs, Matrices(50, 1)), (9, 5, 50))
    expected = np.full((9, 50), 5, np.float32)
    expected[4] = number
    np.testing.assert_array_equal(found, expected)


BATCHES: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((4, 3, 7, 5), (0, 1, 2, 3)),
    ((4, 7, 3, 5), (0, 2, 1, 3)),
    ((3, 2, 7, 4, 5), (1, 3, 0, 2, 4)),
]


@pytest.mark.parametrize(("stored", "axes"), BATCHES)
def test_many_products_at_once(stored: tuple[int, ...], axes: tuple[int, ...]) -> None:
    random = np.random.default_rng(0)
    memory = random.standard_normal(stored).astype(np.float32)
    lhs = memory.transpose(axes)
    rhs = np.swapaxes(random.standard_normal((*lhs.shape[:-2], 6, 5)).astype(np.float32), -1, -2)
    pattern = Pattern.contiguous(stored).permute(axes)
    turned = Pattern(rhs.shape, tuple([stride // 4 for stride in rhs.strides]))
    how = plan_product(pattern, turned, FLOAT32, PLAIN)
    if len(axes) == 5:
        assert how is None
        memory, pattern = lhs.copy(), Pattern.contiguous(lhs.shape)
        how = plan_product(pattern, turned, FLOAT32, PLAIN)
    assert how is not None
    found = run(how.plan, (*lhs.shape[:-1], 6), pieces=4, lhs=memory, rhs=np.swapaxes(rhs, -1, -2))
    np.testing.assert_allclose(found, lhs @ rhs, rtol=1e-5, atol=1e-5)
    single = lhs[(1,) * (lhs.ndim - 2)].copy(), rhs[(1,) * (lhs.ndim - 2)].copy()
    alone = multiply((single[0], Matrices(5, 1)), (single[1], Matrices(6, 1)), (7, 5, 6))
    assert same(found[(1,) * (lhs.ndim - 2)], alone)


def test_operands_may_be_repeated() -> None:
    lhs, rhs = np.float32([2, 3, 4]), np.float32([5, 6])
    found = multiply((lhs, Matrices(1, 0)), (rhs, Matrices(0, 1)), (3, 7, 2))
    np.testing.assert_array_equal(found, 7 * np.outer(lhs, rhs))


def strided(shape: tuple[int, ...], turned: bool, seed: int) -> np.ndarray:
    """Return matrices that lie in memory in order or transposed."""
    data = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    return np.swapaxes(np.swapaxes(data, -1, -2).copy(), -1, -2) if turned else data


def planned(
    lhs: np.ndarray, rhs: np.ndarray, old: np.ndarray | None = None, uses: int = 1, **options: Any
) -> np.ndarray:
    """Return the product of matrices wherever they lie, as a plan computes it."""
    return run_product(lhs, rhs, PLAIN, old, uses, **options)


@pytest.mark.parametrize("turns", [(False, False), (False, True), (True, False), (True, True)])
@pytest.mark.parametrize(
    "shape", [(37, 50, 1), (1, 50, 37), (1, 400, 64), (33, 384, 1), (1, 3, 5), (1, 1, 1), (2, 9, 1)]
)
def test_rows_and_columns_have_the_bits_of_matrices(shape: tuple[int, int, int], turns: tuple[bool, bool]) -> None:
    rows, terms, columns = shape
    lhs, rhs = strided((max(rows, 20), terms), False, 0), strided((terms, max(columns, 20)), False, 1)
    whole = planned(lhs, rhs)[:rows, :columns]
    first, second = [
        np.swapaxes(np.swapaxes(a, 0, 1).copy(), 0, 1) if turned else a.copy()
        for a, turned in zip((lhs[:rows], rhs[:, :columns]), turns, strict=True)
    ]
    assert same(planned(first, second, pieces=3), np.ascontiguousarray(whole))


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("shape", [(20, 30, 70), (100, DEPTH, 50), (1, 40, 33), (33, 40, 1), (64, 128, 10), (8, 1, 48)])
def test_a_product_is_added_with_the_bits_of_a_sum(shape: tuple[int, int, int], turned: bool) -> None:
    rows, terms, columns = shape
    lhs, rhs = strided((rows, terms), not turned, 0), strided((terms, columns), turned, 1)
    old = np.random.default_rng(2).standard_normal((rows, columns)).astype(np.float32)
    old.flat[::3] = -0.0
    lhs[0] = 0
    assert same(planned(lhs, rhs, old, pieces=3), old + planned(lhs, rhs))


def test_a_sum_of_no_terms_is_zero_and_so_is_one_of_negative_zeros() -> None:
    old = np.full((3, 5), -0.0, np.float32)
    tiny = np.float32(-1e-30)
    lhs, rhs = np.full((3, 1), tiny), np.full((1, 5), -tiny)
    alone = planned(lhs, rhs)
    assert not np.signbit(alone).any()
    assert same(planned(lhs, rhs, old), old + alone)


# -- operands that are packed


@pytest.mark.parametrize("turns", [(False, False), (False, True), (True, False), (True, True)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_packed_operands_give_the_bits_of_those_that_are_not(turns: tuple[bool, bool], dtype: str) -> None:
    rows, terms, columns = shape = 610, 500, 301
    lhs, rhs = matrices((rows, terms), turns[0], dtype), matrices((terms, columns), turns[1], dtype, 1)
    plan = product(shape, (1, 1), lhs[1], rhs[1], Matrices(columns, 1), Gemm(np.dtype(dtype), host()))
    packed = [launch for launch in plan.launches if isinstance(launch.structure, Packing)]
    assert len(packed) == 1 + turns[0]
    assert plan.scratch_bytes > 0
    found = run(plan, (rows, columns), pieces=3, threads=2, lhs=lhs[0], rhs=rhs[0])
    whole = np.ascontiguousarray(lhs[0].T if turns[0] else lhs[0])
    for start in range(0, rows, 61):
        part = whole[start : start + 61]
        alone = multiply((part, Matrices(terms, 1)), rhs, (61, terms, columns))
        assert same(found[start : start + 61], alone)


@pytest.mark.parametrize("turn", [False, True])
def test_every_machine_packs_the_same_bits(turn: bool) -> None:
    shape = 600, 400, 200
    lhs, rhs = matrices((600, 400), turn, FLOAT32), matrices((400, 200), True, FLOAT32, 1)
    first, *others = [multiply(lhs, rhs, shape, machine, pieces=7) for machine in MACHINES]
    for other in others:
        assert same(first, other)


def test_a_matrix_that_many_share_is_packed_once() -> None:
    random = np.random.default_rng(0)
    lhs = random.standard_normal((3, 280, 300)).astype(np.float32)
    rhs = random.standard_normal((500, 300)).astype(np.float32)
    pattern = Pattern((3, 300, 500), (0, 1, 300))
    all_three = plan_product(Pattern.contiguous(lhs.shape), pattern, FLOAT32, PLAIN)
    assert all_three is not None
    one = plan_product(Pattern.contiguous((280, 300)), Pattern((300, 500), (1, 300)), FLOAT32, PLAIN)
    assert one is not None
    plan = one.plan
    assert all_three.plan.scratch_bytes == plan.scratch_bytes > 0
    found = run(all_three.plan, (3, 280, 500), pieces=4, lhs=lhs, rhs=rhs)
    for number in range(3):
        assert same(found[number], run(plan, (280, 500), lhs=lhs[number], rhs=rhs))


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("shape", [(32, 128, 512), (5, 400, 70), (40, 3, 17), (1, 50, 33), (64, 800, 260)])
def test_panels_that_several_products_share_give_the_bits_of_the_matrix(
    shape: tuple[int, int, int], turned: bool
) -> None:
    rows, terms, columns = shape
    lhs, rhs = strided((rows, terms), False, 0), strided((terms, columns), turned, 1)
    uses = ENOUGH_ROWS
    assert same(planned(lhs, rhs, uses=uses, pieces=3, threads=2), planned(lhs, rhs))
    if terms <= DEPTH:
        old = np.random.default_rng(2).standard_normal((rows, columns)).astype(np.float32)
        assert same(planned(lhs, rhs, old, uses=uses), planned(lhs, rhs, old))


def test_panels_of_many_matrices() -> None:
    lhs, rhs = strided((3, 20, 30), False, 0), strided((3, 30, 50), True, 1)
    assert same(planned(lhs, rhs, uses=ENOUGH_USES), planned(lhs, rhs))


@pytest.mark.parametrize(
    ("turned", "uses", "is_shared"),
    [(True, ENOUGH_USES, True), (True, 2, False), (False, 4, False), (False, ENOUGH_ROWS // 32, True)],
)
def test_panels_are_made_where_enough_products_share_them(turned: bool, uses: int, is_shared: bool) -> None:
    rhs = Pattern((128, 512), (1, 128) if turned else (512, 1))
    how = plan_product(Pattern.contiguous((32, 128)), rhs, FLOAT32, PLAIN, uses=uses)
    assert how is not None
    assert bool(how.before) == is_shared


@pytest.mark.parametrize(
    ("shape", "passes", "most"),
    [
        ((400, 1000, 1000), 1, LEAST_PACKED_BYTES),
        ((400, 5000, 1000), 7, LEAST_PACKED_BYTES),
        ((2000, 5000, 1000), 3, 2000 * 1000 * 4),
        ((6000, 5000, 6000), 14, MOST_PACKED_BYTES),
        ((400, 384, 20_000), 0, 0),
    ],
)
def test_memory_for_copies_is_bounded(shape: tuple[int, int, int], passes: int, most: int) -> None:
    rows, terms, columns = shape
    how = plan_product(Pattern.contiguous((rows, terms)), Pattern.contiguous((terms, columns)), FLOAT32, PLAIN)
    assert how is not None
    plan = how.plan
    assert plan.scratch_bytes <= most
    packed = [launch for launch in plan.launches if isinstance(launch.structure, Packing)]
    assert len(packed) == passes
    assert len(plan.launches) == max(1, 2 * passes)


@pytest.mark.parametrize("turned", [False, True])
def test_what_is_packed_in_several_passes_has_the_same_bits(turned: bool) -> None:
    rows, terms, columns = shape = 520, 2900, 610
    lhs, rhs = matrices((rows, terms), turned, FLOAT32), matrices((terms, columns), False, FLOAT32, 1)
    plan = product(shape, (1, 1), lhs[1], rhs[1], Matrices(columns, 1), Gemm(FLOAT32, host()))
    assert len(plan.launches) == (6 if turned else 4)
    found = run(plan, (rows, columns), pieces=5, threads=2, lhs=lhs[0], rhs=rhs[0])
    part = np.ascontiguousarray((lhs[0].T if turned else lhs[0])[100:140])
    assert same(found[100:140], multiply((part, Matrices(terms, 1)), rhs, (40, terms, columns)))


def test_matrices_that_are_used_once_are_divided_by_columns() -> None:
    machine = Machine(32, 16)
    lhs, rhs = Pattern.contiguous((64, 256)), Pattern.contiguous((256, 256))

    def blocks(uses: int) -> tuple[int, int]:
        how = plan_product(lhs, rhs, FLOAT32, machine, uses=uses)
        assert how is not None
        rows, columns = how.plan.launches[-1].words[4:6]
        assert isinstance(rows, int)
        assert isinstance(columns, int)
        return rows, columns

    assert blocks(1)[0] == 1 < blocks(1)[1]
    assert blocks(9)[0] > 1


def test_narrow_blocks_of_columns_are_divided_by_rows_instead() -> None:
    kernel = Gemm(FLOAT32, PLAIN)
    lanes = kernel.lanes

    def blocks(rows: int, vectors: int, readable: bool = True) -> tuple[int, int]:
        return gemm._tasks((rows, 4096, vectors * lanes), readable, kernel, 1)

    # four blocks of three vectors; of four; and two blocks of four
    assert blocks(128, 12) == (1, 4)
    assert blocks(128, 16) == (2, 2)
    assert blocks(128, 8) == (2, 1)
    # few rows, and columns that have to be copied
    assert blocks(48, 16) == (1, 4)
    assert blocks(128, 16, readable=False) == (1, 4)


def test_products_that_pack_nothing_are_planned_as_others() -> None:
    draw, seen = random.Random(2), 0
    for _ in range(400):
        kernel = gemm.gemm_for(np.dtype(draw.choice(["float32", "float64", "float16"])), host())
        sizes = (draw.choice([0, 1, 5, 97]), draw.choice([0, 1, 30, 300]), draw.choice([0, 1, 2, 200]))
        count = draw.choice([1, 3]), draw.choice([1, 2])
        places = [(sizes[0], sizes[1]), (sizes[1], sizes[2])]
        lhs, rhs = [draw.choice([gemm.Matrices(n, 1, 7, 9), gemm.Matrices(1, m, 4, 5)]) for m, n in places]
        out = gemm.Matrices(sizes[2], 1, 3, 4)
        old = draw.choice([None, out, gemm.Matrices(sizes[2], 1, 8, 6)])
        blocks = gemm._tasks(sizes, rhs.column == 1, kernel, 1)
        sides = gemm._sides(sizes, lhs, rhs, ("lhs", "rhs"), blocks, kernel)
        if not any([side.packer for side in sides]):
            seen += 1
            found = gemm.product(sizes, count, lhs, rhs, out, kernel, old)
            block_terms = terms_of_block(sizes[1])
            assert found == gemm._in_passes(sizes, count, sides, out, kernel, old, blocks, block_terms)
    assert seen > 100


def test_matrix_units_multiply_numbers_of_16_bits_as_float32() -> None:
    unit = PLAIN._replace(matrix_unit=True)
    wide = plan_product(Pattern.contiguous((256, 256)), Pattern.contiguous((256, 256)), FLOAT32, unit)
    found = plan_product(Pattern.contiguous((256, 256)), Pattern.contiguous((256, 256)), BFLOAT16, unit)
    assert wide is not None
    assert found is not None
    kinds = [type(launch.structure) for launch in found.plan.launches]
    assert kinds[:2] == [Convert, Convert]
    assert kinds[-1] is type(wide.plan.launches[-1].structure)
    # the operands themselves are read by conversions alone
    rest = [word for launch in found.plan.launches[2:] for word in launch.words if isinstance(word, Reference)]
    assert {word.operand for word in rest} <= {"scratch", "out"}


@pytest.mark.parametrize("count", [(0, 1), (1, 0), (2, 0)])
@pytest.mark.parametrize("dtype", [FLOAT32, FLOAT16, BFLOAT16])
def test_an_empty_batch_packs_nothing(dtype: DType, count: tuple[int, int]) -> None:
    places = [Matrices(3, 1, 9, 9)] * 3
    plan = product((3, 3, 3), count, *places, gemm_for(dtype, PLAIN))
    words = [word for each in plan.launches for word in each.words]
    assert plan.scratch_bytes == 0
    assert Reference("scratch") not in words
    assert [each.extent for each in plan.launches] == [0]
