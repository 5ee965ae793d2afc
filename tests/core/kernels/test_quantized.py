"""Products of small integers are exact, with every kind of instruction."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest

from phonograd import nd
from phonograd.core.base.dtypes import INT8, INT32, UINT8
from phonograd.core.graph.operator import REGISTRY
from phonograd.core.kernels.conv.geometry import geometry
from phonograd.core.kernels.quantized import plans, winograd
from phonograd.core.kernels.quantized.dots import Dot, dot_of
from phonograd.core.kernels.routine import Routine, module
from phonograd.core.kernels.target import Machine
from phonograd.core.lower.ir.function_builder import Value
from phonograd.core.run.host import _dots

RANDOM = np.random.default_rng(0)

#: batch, channels, extent, filters, kernel, stride, pad, dilate, groups
CONVOLUTIONS = [
    (2, 3, (8, 8), 5, 3, 1, 1, 1, 1),
    (2, 6, (11, 11), 8, 3, 2, 1, 1, 2),
    (3, 5, (4, 4), 7, 3, 1, 1, 2, 1),
    (20, 8, (3, 3), 9, 3, 1, 1, 1, 1),
    (1, 16, (9, 7), 16, 1, 1, 0, 1, 1),
    # Winograd's algorithm: whole and cut tiles, several bands, several images at once
    (1, 16, (8, 8), 16, 3, 1, 1, 1, 1),
    (3, 18, (9, 11), 21, 3, 1, 0, 1, 1),
    (2, 32, (40, 36), 17, 3, 1, 2, 1, 1),
    (7, 24, (7, 7), 40, 3, 1, 1, 1, 1),
]


def numbers(dtype, *shape):
    limits = np.iinfo(dtype)
    return RANDOM.integers(limits.min, limits.max + 1, shape).astype(dtype)


@dataclasses.dataclass(frozen=True)
class EmulatedVnni(Dot):
    """The steps of VNNI, with each instruction replaced by what its description says.

    ``vpdpbusd`` multiplies four unsigned bytes of its second operand by four signed bytes of the third, ``vpdpwssd``
    two signed 16-bit numbers of both. The products are added to the first operand, and the sum wraps around.
    """

    def _call(self, e, name, values):
        total, data, weights = values
        kind, count, width = e.vector_type(INT32), e.lanes * self.size, 32 // self.size
        assert name.startswith("@llvm.x86.avx512.vpdpbusd" if self.size == 4 else "@llvm.x86.avx512.vpdpwssd")
        wide = []
        for value, extend in ((data, "zext" if self.size == 4 else "sext"), (weights, "sext")):
            small = e.assign(f"bitcast {kind} {value.text} to <{count} x i{width}>")
            wide.append(e.assign(f"{extend} <{count} x i{width}> {small} to <{count} x i32>"))
        products = e.assign(f"mul <{count} x i32> {wide[0]}, {wide[1]}")
        for number in range(self.size):
            places = ", ".join([f"i32 {lane * self.size + number}" for lane in range(e.lanes)])
            chosen = f"<{count} x i32> {products}, <{count} x i32> poison, <{e.lanes} x i32> <{places}>"
            total = e.add(total, Value(e.assign(f"shufflevector {chosen}"), INT32))
        return total


INSTRUCTIONS = {
    "own": (None, dot_of),
    "plain": (None, lambda dtype, machine: Dot(2, "plain")),
    "bytes": (None, lambda dtype, machine: Dot(4 if dtype == UINT8 else 2, "plain")),
    # LLVM divides vectors that are too long for this processor
    "vnni of 32 bytes": (Machine(32, 16, dots="vnni"), lambda d, m: EmulatedVnni(*dataclasses.astuple(dot_of(d, m)))),
    "vnni of 64 bytes": (Machine(64, 32, dots="vnni"), lambda d, m: EmulatedVnni(*dataclasses.astuple(dot_of(d, m)))),
}


@pytest.fixture(
    params=[pytest.param(name, marks=[pytest.mark.slow] * ("64" in name), id=name) for name in INSTRUCTIONS]
)
def instructions(request, monkeypatch):
    """Use the processor's instructions, plain ones, plain ones on words of four bytes, or those of VNNI, emulated."""
    machine, choose = INSTRUCTIONS[request.param]
    monkeypatch.setattr(plans, "dot_of", choose)
    planners = {"_dense": plans._dense, "_convolution": plans._convolution}
    for planner in planners.values():
        planner.cache_clear()
    if machine is not None:
        monkeypatch.setattr(plans, "_dense", lambda *known: planners["_dense"](*known[:-1], machine))
        monkeypatch.setattr(
            plans, "_convolution", lambda *known: planners["_convolution"](*known[:-2], machine, known[-1])
        )
    yield
    for planner in planners.values():
        planner.cache_clear()


def run(name, machine_arrays, **parameters):
    """Return the result of the kernels of an operator, without plans from before."""
    operator = REGISTRY[name]
    operator.table.clear()
    operator.calls.clear()
    arrays = [nd.array(a, dtype=a.dtype) for a in machine_arrays]
    return getattr(nd._internal, name)(*arrays, **parameters).asnumpy()


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("sizes", [(1, 5, 3), (7, 33, 17), (130, 257, 50), (2, 2050, 9), (389, 12, 16)], ids=str)
def test_products_are_exact(sizes, dtype):
    rows, terms, columns = sizes
    data, weight = numbers(dtype, rows, terms), numbers("int8", columns, terms)
    expected = data.astype(np.int64) @ weight.astype(np.int64).T
    assert np.array_equal(run("_int8_product", [data, weight]), expected)
    vectors = [RANDOM.random(columns, np.float32) * 1e-3, RANDOM.integers(-9000, 9000, columns).astype(np.int32)]
    for out, relu in (("int8", False), ("uint8", True), ("float32", True)):
        expected = REGISTRY["_int8_product_scaled"].function(data, weight, *vectors, dtype=np.dtype(out), relu=relu)
        found = run("_int8_product_scaled", [data, weight, *vectors], dtype=out, relu=relu)
        assert found.dtype == out
        assert np.array_equal(found, expected)


@pytest.mark.parametrize(("dtype", "number"), [("uint8", 255), ("int8", -128)])
def test_the_largest_sums_of_products_are_exact(dtype, number):
    # sums of the numbers of both operands need 10 bits, and the products of each operand alone are the largest
    data, weight = np.full((5, 4096), number, dtype), np.full((9, 4096), -128, "int8")
    assert np.all(run("_int8_product", [data, weight]) == number * -128 * 4096)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("sizes", CONVOLUTIONS, ids=str)
def test_convolutions_equal_the_reference(sizes, dtype):
    batch, channels, extent, filters, kernel, stride, pad, dilate, groups = sizes
    arrays = [numbers(dtype, batch, channels, *extent), numbers("int8", filters, channels // groups, kernel, kernel)]
    window = {name: (value, value) for name, value in (("stride", stride), ("dilate", dilate), ("pad", pad))}
    expected = REGISTRY["_int8_convolution"].function(*arrays, **window, groups=groups)
    assert np.array_equal(run("_int8_convolution", arrays, **window, groups=groups), expected)
    vectors = [RANDOM.random(filters, np.float32) * 1e-3, RANDOM.integers(-9000, 9000, filters).astype(np.int32)]
    for out, relu in (("int8", False), ("uint8", True), ("float32", True)):
        options = {**window, "groups": groups, "relu": relu}
        expected = REGISTRY["_int8_convolution_scaled"].function(*arrays, *vectors, **options, dtype=np.dtype(out))
        found = run("_int8_convolution_scaled", [*arrays, *vectors], **options, dtype=out)
        assert found.dtype == out
        assert np.array_equal(found, expected)


@pytest.mark.usefixtures("instructions")
def test_instructions_do_not_change_results():
    # no other test has these sizes, so no plan is remembered; the fixture chooses the instructions
    sizes = RANDOM.integers(20, 40, 3)
    for dtype in ("int8", "uint8"):
        data, weight = numbers(dtype, sizes[0], sizes[1]), numbers("int8", sizes[2], sizes[1])
        assert np.array_equal(run("_int8_product", [data, weight]), data.astype(np.int64) @ weight.astype(np.int64).T)
        image, filters = numbers(dtype, 1, sizes[0], 6, sizes[2]), numbers("int8", 5, sizes[0], 3, 3)
        window = {"stride": (1, 1), "dilate": (1, 1), "pad": (1, 1), "groups": 1}
        expected = REGISTRY["_int8_convolution"].function(image, filters, **window)
        assert np.array_equal(run("_int8_convolution", [image, filters], **window), expected)


@pytest.mark.parametrize("dtype", [INT8, UINT8])
def test_the_largest_sums_of_tiles_are_exact(dtype):
    channels = min(winograd.MOST_CHANNELS[dtype], 600) // 2 * 2
    shape = geometry((1, channels, 6, 6), 16, (3, 3), (1, 1), (1, 1), (1, 1), 1)
    assert winograd.is_faster(shape, dtype, Dot(2, "plain"))
    data = np.full((1, channels, 6, 6), 255 if dtype == UINT8 else -128, dtype)
    weight = np.full((16, channels, 3, 3), -128, "int8")
    window = {"stride": (1, 1), "dilate": (1, 1), "pad": (1, 1), "groups": 1}
    expected = REGISTRY["_int8_convolution"].function(data, weight, **window)
    assert np.array_equal(run("_int8_convolution", [data, weight], **window), expected)


def test_tiles_are_used_only_if_their_sums_fit():
    for dtype, most in winograd.MOST_CHANNELS.items():
        largest = 4 * 9 * 128 * (255 if dtype == UINT8 else 128)
        assert most * largest <= 2**31 < (most + 1) * largest
        above = geometry((1, most // 2 * 2 + 2, 6, 6), 16, (3, 3), (1, 1), (1, 1), (1, 1), 1)
        assert not winograd.is_faster(above, dtype, Dot(2, "plain"))


# -- VNNI. Its instructions run on few processors; LLVM knows what they compute, and chooses them for plain code


def assembly(text, features):
    """Return the instructions of a module for a processor with some features."""
    binding = pytest.importorskip("llvmlite.binding")
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    target = binding.Target.from_triple("x86_64-unknown-linux-gnu")
    level = "x86-64-v4" if "avx512" in features else "x86-64-v3"
    machine = target.create_target_machine(cpu=level, features=features, opt=2)
    lines = machine.emit_assembly(binding.parse_assembly(text)).splitlines()
    return [" ".join(line.split()) for line in lines if line.startswith("\t") and not line.startswith("\t.")]


def step(dot, lanes):
    """Return a module with one step of a sum."""
    e = Routine("step", lanes, INT32, "ptr %data, ptr %weights, ptr %total")
    e.store("%total", "0", dot.write(e, e.get("%weights"), e.get("%data"), e.get("%total")))
    return module(e)


@pytest.mark.parametrize(("features", "lanes"), [("+avx512vnni", 16), ("+avx512vnni", 8), ("+avxvnni", 8)])
def test_vnni_multiplies_pairs_as_multiplication_and_addition_do(features, lanes):
    # LLVM replaces vpmaddwd and vpaddd, which other tests run, by one instruction: the one that is written
    vnni, plain = [assembly(step(Dot(2, way), lanes), features) for way in ("vnni", "pmaddwd")]
    assert any("vpdpwssd" in line for line in vnni)
    assert vnni == plain


@pytest.mark.parametrize("features", ["+avx512vnni", "+avxvnni"])
def test_vnni_multiplies_unsigned_data_by_signed_weights(features):
    # LLVM replaces the sum of products of extended bytes, so its operands show which one is unsigned
    extended = """
    declare i32 @llvm.vector.reduce.add.v16i32(<16 x i32>)
    define i32 @step(ptr %data, ptr %weights) {
      %bytes = load <16 x i8>, ptr %data, align 1
      %numbers = load <16 x i8>, ptr %weights, align 1
      %unsigned = zext <16 x i8> %bytes to <16 x i32>
      %signed = sext <16 x i8> %numbers to <16 x i32>
      %products = mul <16 x i32> %unsigned, %signed
      %sum = call i32 @llvm.vector.reduce.add.v16i32(<16 x i32> %products)
      ret i32 %sum
    }"""
    operands = []
    for text in (extended, step(Dot(4, "vnni"), 4)):
        lines = assembly(text, features)
        (signed, unsigned) = next(
            found.groups() for line in lines if (found := re.search(r"vpdpbusd (\S+), (%xmm\d+), %xmm", line))
        )
        loads = [line for line in lines if re.fullmatch(rf"vmov\w+ \S+, {unsigned}", line)]
        operands.append((signed, loads[-1].split()[1]))
    assert operands[0] == operands[1] == ("(%rsi)", "(%rdi),")


def test_processors_with_vnni_are_known():
    assert _dots(frozenset(["avx2", "fma", "sse2", "avxvnni"])) == "vnni"
    assert _dots(frozenset(["avx512f", "avx512vl", "avx512bw", "avx512vnni"])) == "vnni"
    assert _dots(frozenset(["avx512f", "avx512vl", "avx512bw"])) == "pmaddwd"
    assert _dots(frozenset(["sse2", "avx2", "fma"])) == "pmaddwd"


def test_vnni_multiplies_bytes_of_unsigned_data_only():
    machine = Machine(64, 32, dots="vnni")
    assert [dot_of(np.dtype(name), machine).size for name in ("uint8", "int8")] == [4, 2]
    text = plans.WordGemm(np.dtype("int32"), machine, dot_of(UINT8, machine)).write("kernel")
    assert "@llvm.x86.avx512.vpdpbusd.512" in text
