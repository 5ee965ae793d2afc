"""Products of bfloat16 in pairs (AVX512-BF16): the bits of multiply-adds, whatever the numbers are.

On processors without the instruction, kernels run with what its description in Intel's manual says: two fused
multiply-adds, that of the upper halves first, which take operands below 2^-126 for zeros, and flush such sums to zero.
"""

from __future__ import annotations

import ctypes
import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import phonograd as mx
from phonograd.core.base.dtypes import BFLOAT16, FLOAT32
from phonograd.core.kernels.launch import Launch, Plan
from phonograd.core.kernels.matmul import pairs
from phonograd.core.kernels.matmul.packing import square_side
from phonograd.core.kernels.matmul.pairs import LEAST_EXPONENTS, PairGemm
from phonograd.core.kernels.routine import Routine, module
from phonograd.core.kernels.target import Machine
from phonograd.core.lower.ir.function_builder import Value
from phonograd.core.lower.pattern import Pattern
from phonograd.core.plan import products
from phonograd.core.plan.products import plan_product, plan_rounded_product
from phonograd.core.run import host as host_module
from phonograd.core.run import kernel_cache
from phonograd.core.run.host import host

from ..plan.plans import run
from .test_quantized import assembly

PAIRS = host()._replace(bfloat16_pairs=True, matrix_unit=False)
PLAIN = PAIRS._replace(bfloat16_pairs=False)


def emulated_dot(lanes: int) -> str:
    """Return a function that computes what the description of the instruction says."""
    real, words = f"<{lanes} x float>", f"<{lanes} x i32>"
    lines = [f"define internal {real} @emulated_dot_{lanes}({real} %sum, {real} %first, {real} %second) noinline {{"]
    for name in ("fma", "fabs", "copysign"):
        count = {"fma": 3, "fabs": 1, "copysign": 2}[name]
        lines.insert(0, f"declare {real} @llvm.{name}.v{lanes}f32({', '.join([real] * count)})")

    def call(name: str, result: str, *values: str) -> str:
        lines.append(f"  {result} = call {real} @llvm.{name}.v{lanes}f32({', '.join([f'{real} {v}' for v in values])})")
        return result

    def flush(value: str, result: str) -> str:
        size, zero = call("fabs", f"{result}_size", value), call("copysign", f"{result}_zero", "zeroinitializer", value)
        lines.append(f"  {result}_small = fcmp olt {real} {size}, splat (float 0x3810000000000000)")
        lines.append(f"  {result} = select <{lanes} x i1> {result}_small, {real} {zero}, {real} {value}")
        return result

    def half(value: str, upper: bool, result: str) -> str:
        lines.append(f"  {result}_word = bitcast {real} {value} to {words}")
        operation = "and" if upper else "shl"
        lines.append(f"  {result}_half = {operation} {words} {result}_word, splat (i32 {-0x10000 if upper else 16})")
        lines.append(f"  {result}_real = bitcast {words} {result}_half to {real}")
        return flush(f"{result}_real", result)

    total = flush("%sum", "%sum_in")
    for number, upper in enumerate((True, False)):
        first, second = half("%first", upper, f"%first{number}"), half("%second", upper, f"%second{number}")
        total = flush(call("fma", f"%rounded{number}", first, second, total), f"%total{number}")
    return "\n".join([*lines, f"  ret {real} {total}", "}", ""])


@dataclasses.dataclass(frozen=True)
class EmulatedPairGemm(PairGemm):
    """The kernel, with the instruction replaced by what its description says."""

    def _dot(self, e: Routine, first: Value, second: Value, total: Value) -> Value:
        kind = e.vector_type(FLOAT32)
        operands = ", ".join([f"{kind} {value.text}" for value in (total, first, second)])
        return Value(e.assign(f"call {kind} @emulated_dot_{e.lanes}({operands})"), FLOAT32)

    def write(self, name: str) -> str:
        text = super().write(name)
        for lanes in () if self.exact else {self.lanes, square_side(FLOAT32, self.lanes)}:
            declarations, definition = emulated_dot(lanes).split("define", 1)
            known = [line for line in declarations.splitlines() if line not in text]
            text = "\n".join([*known, text, f"define{definition}"])
        return text


@pytest.fixture(autouse=True)
def emulated(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Emulate the instruction where the processor lacks it, and use it for products of all sizes."""
    if not host().bfloat16_pairs:
        monkeypatch.setattr(pairs, "PairGemm", EmulatedPairGemm)
    monkeypatch.setattr(products, "are_pairs_worth", lambda sizes: True)
    products._known_plan.cache_clear()
    yield
    products._known_plan.cache_clear()


def numbers(*shape: int, seed: int = 0, turned: bool = False) -> np.ndarray:
    """Return bfloat16 numbers as words of 16 bits; their matrices are in memory in order or transposed."""
    data = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    found = (data.view(np.uint32) >> 16).astype(np.uint16)
    return np.swapaxes(np.swapaxes(found, -1, -2).copy(), -1, -2) if turned else found


def wide(words: np.ndarray) -> np.ndarray:
    return (words.astype(np.uint32) << 16).view(np.float32)


def plan_of(lhs: np.ndarray, rhs: np.ndarray, machine: Machine, adds: bool = False) -> Plan:
    patterns = [Pattern(a.shape, tuple([stride // 2 for stride in a.strides])) for a in (lhs, rhs)]
    how = plan_product(*patterns, BFLOAT16, machine, adds=adds)
    assert how is not None
    assert not how.before
    return how.plan


def multiplied(lhs: np.ndarray, rhs: np.ndarray, machine: Machine, old: Any = None, **options: Any) -> np.ndarray:
    plan = plan_of(lhs, rhs, machine, old is not None)
    memory = [np.swapaxes(a, -1, -2) if a.strides[-1] != 2 else a for a in (lhs, rhs)]
    memory = [a[(0,) * (a.ndim - 2)] if 0 in a.strides else a for a in memory]
    operands = {"lhs": memory[0], "rhs": memory[1], **({} if old is None else {"old": old})}
    return run(plan, (*lhs.shape[:-1], rhs.shape[-1]), out_dtype=np.float32, **operands, **options)


def kernels_of(plan: Plan) -> list[Any]:
    return [launch.structure for launch in plan.launches]


def only(plan: Plan, exact: bool) -> Plan:
    """Return a plan without the launches of the other kind, which then shows which one does the work."""

    def keeps(launch: Launch) -> bool:
        return not isinstance(launch.structure, PairGemm) or launch.structure.exact == exact

    return plan._replace(launches=tuple([launch for launch in plan.launches if keeps(launch)]))


def same_bits(first: np.ndarray, second: np.ndarray) -> bool:
    """Return whether numbers have the same bits; NaN has many."""
    words = [np.where(np.isnan(values), 0x7FC00000, values.view(np.uint32)) for values in (first, second)]
    return np.array_equal(*words)


# -- bits


@pytest.mark.parametrize(
    "sizes",
    # one block of an even and of an odd number of terms, several blocks of both, and a last block of one word
    [(1, 2, 1), (5, 7, 3), (33, 64, 40), (20, 383, 17), (9, 500, 50), (8, 1001, 24), (100, 770, 130)],
    ids=str,
)
@pytest.mark.parametrize("turned", [(False, False), (True, False), (False, True)], ids=str)
def test_products_have_the_bits_of_multiply_adds(sizes: tuple[int, int, int], turned: tuple[bool, bool]) -> None:
    rows, terms, columns = sizes
    lhs, rhs = numbers(rows, terms, turned=turned[0]), numbers(terms, columns, seed=1, turned=turned[1])
    found = multiplied(lhs, rhs, PAIRS, pieces=3, threads=2)
    assert same_bits(found, multiplied(lhs, rhs, PLAIN))
    np.testing.assert_allclose(found, wide(lhs).astype(np.float64) @ wide(rhs), rtol=1e-5, atol=1e-4)
    with_instruction = only(plan_of(lhs, rhs, PAIRS), exact=False)
    memory = [a.T if a.strides[-1] != 2 else a for a in (lhs, rhs)]
    again = run(with_instruction, (rows, columns), out_dtype=np.float32, lhs=memory[0], rhs=memory[1])
    assert same_bits(again, found)


def test_special_numbers_have_the_bits_of_multiply_adds() -> None:
    lhs, rhs = numbers(20, 90), numbers(90, 40, seed=1)
    old = np.random.default_rng(2).standard_normal((20, 40)).astype(np.float32)
    for word, place in ((0x7F80, (3, 5)), (0xFF80, (4, 6)), (0x7FC1, (5, 7)), (0x7F7F, (6, 8)), (0x8000, (7, 9))):
        lhs[place] = word
        rhs[place[1], place[0] + 20] = word
    lhs[9] = rhs[:, 9] = 0x7F00
    lhs[10], rhs[:, 10] = 0, 0x8000
    for added in (None, old):
        found = multiplied(lhs, rhs, PAIRS, added, pieces=2)
        assert np.isnan(found).any()
        assert np.isinf(found).any()
        assert same_bits(found, multiplied(lhs, rhs, PLAIN, added))


@pytest.mark.parametrize(
    ("smallest", "other", "is_safe"),
    # as exponents of two: the smallest sum of products is 2^-126, below that, and a denormal operand
    [(-56, -56, True), (-57, -56, False), (-100, -12, True), (-126, 14, True), (-127, 100, False), (-133, 20, False)],
)
def test_small_numbers_are_multiplied_without_the_instruction(smallest: int, other: int, is_safe: bool) -> None:
    assert (smallest + 127 + other + 127 >= LEAST_EXPONENTS and smallest > -127) == is_safe

    def words(shape: tuple[int, int], exponent: int, seed: int) -> np.ndarray:
        random = np.random.default_rng(seed)
        # many of them cancel each other
        values = random.choice([1.0, -1.0, 1.0078125, -1.9921875], shape) * 2.0**exponent
        return (np.float32(values).view(np.uint32) >> 16).astype(np.uint16)

    lhs, rhs = words((16, 40), smallest, 0), words((40, 32), other, 1)
    expected = multiplied(lhs, rhs, PLAIN)
    assert same_bits(multiplied(lhs, rhs, PAIRS, pieces=2), expected)
    plan = only(plan_of(lhs, rhs, PAIRS), exact=not is_safe)
    found = run(plan, (16, 32), out_dtype=np.float32, lhs=lhs, rhs=rhs)
    assert same_bits(found, expected)
    # the other kind does nothing
    plan = only(plan_of(lhs, rhs, PAIRS), exact=is_safe)
    untouched = run(plan, (16, 32), out_dtype=np.float32, lhs=lhs, rhs=rhs)
    assert np.all(untouched.view(np.uint32) == 0xFFFFFFFF)


def test_one_small_number_is_enough() -> None:
    for place in ((0, 0), (40, 130), (19, 385)):
        lhs, rhs = numbers(41, 386), numbers(386, 50, seed=1)
        lhs[place] = 1
        expected = multiplied(lhs, rhs, PLAIN)
        plan = only(plan_of(lhs, rhs, PAIRS), exact=True)
        assert same_bits(run(plan, expected.shape, out_dtype=np.float32, lhs=lhs, rhs=rhs, pieces=4), expected)


def test_many_matrices_and_shared_ones() -> None:
    lhs, rhs = numbers(3, 2, 20, 30), numbers(3, 2, 30, 24, seed=1, turned=True)
    assert same_bits(multiplied(lhs, rhs, PAIRS, pieces=3), multiplied(lhs, rhs, PLAIN))
    shared = np.broadcast_to(numbers(30, 24, seed=1), (3, 2, 30, 24))
    assert same_bits(multiplied(lhs, shared, PAIRS, pieces=3), multiplied(lhs, shared, PLAIN))


def test_rounded_products_are_computed_in_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, terms, columns = 400, 51, 48
    lhs, rhs = numbers(rows, terms), numbers(terms, columns, seed=1)
    found = []
    for machine in (PAIRS, PLAIN):
        monkeypatch.setattr(products, "host", lambda machine=machine: machine)
        plan = plan_rounded_product(Pattern.contiguous(lhs.shape), Pattern.contiguous(rhs.shape), BFLOAT16, BFLOAT16)
        assert any(isinstance(kernel, PairGemm) for kernel in kernels_of(plan)) == machine.bfloat16_pairs
        found.append(run(plan, (rows, columns), out_dtype=np.uint16, pieces=2, lhs=lhs, rhs=rhs))
    assert np.array_equal(*found)


# -- the instruction


def exact_step(total: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return first * second + total, rounded once to float32: a model in NumPy.

    The product is exact in double precision. The sum there is rounded to odd, so that there is one rounding.
    """
    with np.errstate(all="ignore"):
        product, total = first.astype(np.float64) * second.astype(np.float64), total.astype(np.float64)
        near = product + total
        # the part of both terms that was lost
        rest = near - product
        error = (product - (near - rest)) + (total - rest)
        lost = np.isfinite(near) & (error != 0) & (near.view(np.uint64) & np.uint64(1) == 0)
        outside = np.signbit(error) == np.signbit(near)
        odd = near.view(np.int64) + np.where(outside, 1, -1)
        return np.where(lost, odd.view(np.float64), near).astype(np.float32)


def model(words: list[np.ndarray], total: np.ndarray) -> np.ndarray:
    """Return what the manual says that the instruction computes."""

    def flushed(values: np.ndarray) -> np.ndarray:
        return np.where(np.abs(values) < np.float32(2.0**-126), np.copysign(np.float32(0), values), values)

    halves = [
        [(word & np.uint32(0xFFFF0000)).view(np.float32), (word << np.uint32(16)).view(np.float32)] for word in words
    ]
    total = flushed(total)
    for first, second in zip(*halves, strict=True):
        total = flushed(exact_step(total, flushed(first), flushed(second)))
    return total


def test_the_emulation_is_what_the_manual_says() -> None:
    lanes = 8
    e = Routine("step", lanes, FLOAT32, "ptr %first, ptr %second, ptr %total")
    found_sum = EmulatedPairGemm(FLOAT32, PAIRS)._dot(e, e.get("%first"), e.get("%second"), e.get("%total"))
    e.store("%total", "0", found_sum)
    kernel = kernel_cache.compile_text(emulated_dot(lanes) + module(e), "step")
    function = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3)(kernel.address)
    random = np.random.default_rng(0)
    special = np.uint32([0, 0x8000, 1, 0x8001, 0x7F, 0x80, 0x8080, 0x7F7F, 0xFF7F, 0x7F80, 0xFF80, 0x7FC0])
    for number in range(400):
        words = random.integers(0, 1 << 32, (2, lanes), np.uint32)
        total = random.standard_normal(lanes).astype(np.float32)
        if number % 2:
            halves = random.choice(special, (2, 2, lanes))
            words = halves[0] << np.uint32(16) | halves[1]
            total = np.float32(random.choice([0, -0.0, 1e-38, -1e-40, 3e38, np.inf, 1], lanes))
        else:
            # exponents near each other, so that all bits matter
            words = words & np.uint32(0x83FF83FF) | np.uint32(0x3C003C00)
        expected = model(list(words), total)
        first, second, found = words[0].copy(), words[1].copy(), total.copy()
        function(first.ctypes.data, second.ctypes.data, found.ctypes.data)
        assert same_bits(found, expected)


def test_the_instruction_is_compiled() -> None:
    machine = Machine(64, 32, bfloat16_pairs=True)
    lines = assembly(PairGemm(FLOAT32, machine).write("kernel"), "+avx512bf16")
    # 8 rows of 3 vectors at least
    assert len([line for line in lines if line.startswith("vdpbf16ps") and "%zmm" in line]) >= 24
    assert not any(line.startswith("vfmadd") for line in lines)
    exact = PairGemm(FLOAT32, machine, exact=True).write("kernel")
    assert "dpbf16ps" not in exact
    assert "@llvm.fma.v16f32" in exact


def test_processors_with_the_instruction_are_known() -> None:
    machine = host_module._machine.__wrapped__
    features = frozenset(["sse2", "avx2", "fma", "avx512f", "avx512bw", "avx512vl", "avx512bf16"])
    assert machine(features, True).bfloat16_pairs
    assert not machine(features, False).bfloat16_pairs
    assert not machine(features - {"avx512bf16"}, True).bfloat16_pairs


@pytest.mark.usefixtures("planned")
def test_programs_have_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    values = [np.random.default_rng(seed).standard_normal(shape) for seed, shape in enumerate(((70, 90), (90, 61)))]

    def gradients() -> list[np.ndarray]:
        x, w = [mx.nd.array(value).astype("bfloat16") for value in values]
        x.attach_grad()
        w.attach_grad()
        with mx.autograd.record():
            y = mx.nd.tanh(mx.nd.dot(x, w))
        y.backward()
        return [a.astype("float32").asnumpy() for a in (y, x.grad, w.grad)]

    monkeypatch.setattr(products, "host", lambda: PLAIN)
    expected = gradients()
    written: list[Any] = []
    write = PairGemm.write
    monkeypatch.setattr(PairGemm, "write", lambda self, name: written.append(self) or write(self, name))
    monkeypatch.setattr(products, "host", lambda: PAIRS)
    # on processors with the instruction, other tests have made this kernel
    monkeypatch.setattr(kernel_cache, "_kernels", kernel_cache._KernelCache())
    with mx.settings.override(cache_directory="", quick_kernels=False):
        values[0] = values[0][:69]
        found = gradients()
    assert written
    assert np.array_equal(found[0], expected[0][:69])
    assert np.array_equal(found[1], expected[1][:69])
