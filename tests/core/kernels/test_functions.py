"""Elementary functions and random numbers of kernels, against NumPy in a wider format and the reference generator."""

import itertools
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.ulp import FUNCTIONS, errors, some_numbers

from phonograd.core.graph.operator import REGISTRY
from phonograd.core.lower import philox
from phonograd.core.lower.lowering import Elementwise
from phonograd.core.ops.math.primitives import cast
from phonograd.core.ops.math.structural import leaf
from phonograd.core.plan.native_program import NativeProgram
from phonograd.core.plan.partition import CHUNK_ELEMENTS

from ..plan.programs import run, same_bits

SPECIAL = [np.nan, np.inf, 0.0, 1e-45, 1e-40, 1e-38, 5e-324, 1e-310, 0.25, 0.41421356, 0.5, 0.55, 0.7071067, 0.75, 1.0]
SPECIAL += [0.9999999, 1.0001, 1.4142135, 2.0, 2.4142136, 3.0, 4.0, 9.0, 9.2, 11.0, 19.0, 19.2, 22.0, 88.73, 89.0, 90.0]
SPECIAL += [87.5, 100.0, 103.98, 104.0, 355.0, 709.79, 710.0, 711.0, 720.0, 745.14, 746.0, 32768.0, 32769.0, 103993.0]
SPECIAL += [1048577.0, 16777217.0, 1e15, 1.6367173e19, 1e30, 3.4e38, 6381956970095103.0 * 2.0**797, 1.7e308, 2.0**-25]
SPECIAL += [-value for value in SPECIAL]

UNARY = [name for name, entry in FUNCTIONS.items() if entry.arguments == 1]
BINARY = [name for name, entry in FUNCTIONS.items() if entry.arguments == 2]
FLOATS = [np.float32, np.float64]
INTEGERS = ["int8", "uint8", "int32", "int64"]

#: no error may be larger, in units of the last place
LARGEST_ERROR = 2.4


def evaluate(name: str, *data: np.ndarray, **parameters: Any) -> np.ndarray:
    sources = [leaf(index, array.shape, array.dtype) for index, array in enumerate(data)]
    target = REGISTRY[name](*sources, **parameters)
    return run([target], dict(zip(sources, data)))[target]


def reference(name: str, *data: np.ndarray, **parameters: Any) -> np.ndarray:
    operator = REGISTRY[name]
    with np.errstate(all="ignore"):
        return np.asarray(operator.reference(operator.attributes_of(parameters))(*data))


def special(dtype: Any) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.unique(np.array(SPECIAL).astype(dtype).view(f"u{np.dtype(dtype).itemsize}")).view(dtype)


def exactly(name: str, *data: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return FUNCTIONS[name].exact(*[array.astype(np.longdouble) for array in data])


def assert_close(found: np.ndarray, exact: np.ndarray, bound: float = LARGEST_ERROR) -> None:
    with np.errstate(all="ignore"):
        expected = exact.astype(found.dtype)
    assert np.array_equal(np.isnan(found), np.isnan(expected))
    assert errors(found, exact).max(initial=0) <= bound
    zero = expected == 0
    assert np.array_equal(np.signbit(found[zero]), np.signbit(expected[zero]))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", UNARY)
def test_special_arguments(name: str, dtype: type) -> None:
    data = special(dtype)
    if name == "erfinv":
        # what it is compared with is not exact beyond; the values at 1 and outside of it are tested below
        data = data[np.abs(data) < 0.999]
    assert_close(evaluate(name, data), exactly(name, data))


@pytest.mark.parametrize("dtype", FLOATS)
def test_the_inverse_error_function_at_its_ends(dtype: type) -> None:
    data = np.array([1, -1, 1.5, -np.inf, np.nan, np.nextafter(dtype(1), dtype(0))], dtype)
    found = evaluate("erfinv", data)
    assert np.array_equal(found[:5], [np.inf, -np.inf, np.nan, np.nan, np.nan], equal_nan=True)
    assert found[5] == pytest.approx(reference("erfinv", data)[5], rel=4 * float(np.finfo(dtype).eps))


@pytest.mark.parametrize("name", ["erf", "erfinv"])
def test_error_functions_in_thirty_digits(name: str) -> None:
    with np.load(Path(__file__).resolve().parents[2] / "data" / "special_functions.npz") as recorded:
        data, expected = recorded[f"{name}_x"], recorded[name]
    assert errors(evaluate(name, data), expected).max() <= 3
    # and the float32 values of the same numbers
    single = data.astype(np.float32)
    bound = documented()[name, "float32"] + 0.1
    assert errors(evaluate(name, single), reference(name, single.astype(np.float64))).max() <= bound


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", BINARY)
def test_pairs_of_special_arguments(name: str, dtype: type) -> None:
    values = special(dtype)
    extra = np.array([2, 3, -2, -3, 0.5, -0.5, 1.5, -1.5, 7, 1e9, -1e9, 2.0**53, 3e9 + 1], dtype)
    values = np.concatenate([values, extra])
    first, second = [np.array(column) for column in zip(*itertools.product(values, values))]
    found = evaluate(name, first, second)
    if name == "broadcast_mod":
        assert same_bits(found, reference(name, first, second))
    else:
        assert_close(found, exactly(name, first, second))


def documented() -> dict[tuple[str, str], float]:
    """Return the errors in the table of docs/numerics.md."""
    text = (Path(__file__).resolve().parents[3] / "docs" / "numerics.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\w+) \| (float\d\d) \| ([\d.]+) \|", text, re.MULTILINE)
    return {(name, dtype): float(error) for name, dtype, error in rows}


def test_every_function_is_documented() -> None:
    assert set(documented()) == {(name, dtype) for name in FUNCTIONS for dtype in ("float32", "float64")}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_errors_are_as_documented(name: str, dtype: type) -> None:
    entry = FUNCTIONS[name]._replace(block=1 << 12)
    # the largest error among millions may be exceeded a little by others
    bound = documented()[name, np.dtype(dtype).name] + 0.1
    assert bound <= LARGEST_ERROR
    for block in some_numbers(entry, np.dtype(dtype), 1):
        exact = exactly(name, *block)
        known = ~np.isnan(exact) if name == "erfinv" else np.full(exact.shape, True)
        assert errors(evaluate(name, *block), exact)[known].max(initial=0) <= bound


@pytest.mark.parametrize("name", ["exp", "tanh", "sigmoid", "erf"])
def test_two_vectors_at_once_have_the_bits_of_one(name: str) -> None:
    # two of them are computed together in large arrays, and the elements at the end one by one
    data = np.random.default_rng(3).standard_normal(2 * CHUNK_ELEMENTS + 40).astype(np.float32)
    sources = [leaf(0, (size,), np.dtype(np.float32)) for size in (data.size, data.size // 3)]
    large, small = [NativeProgram([REGISTRY[name](source)], lambda node: False) for source in sources]
    assert [[kernel.width for kernel in program.work] for program in (large, small)] == [[2], [1]]
    parts = [small.run([part])[0] for part in np.split(data, 3)]
    assert same_bits(large.run([data])[0], np.concatenate(parts))


#: the results of _saturate have another dtype
ELEMENTWISE = sorted({o.name for o in REGISTRY.values() if isinstance(o.lowering, Elementwise)} - {"_saturate"})
#: numbers that float16 has too
PARAMETERS: dict[str, dict[str, Any]] = {
    "clip": {"a_min": -0.5, "a_max": 1.5},
    "_integer_power": {"exponent": 3},
    "hard_sigmoid": {"alpha": 0.25, "beta": 0.5},
}


@pytest.mark.parametrize("name", [name for name in ELEMENTWISE if len(REGISTRY[name].input_names) == 1])
def test_every_float16_number(name: str) -> None:
    # computed in float32 and rounded
    if name in ("_copyto", "_cast"):
        pytest.skip("not called like the others")
    if name == "_npi_bitwise_not":
        pytest.skip("only integers have bits")
    data = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    parameters = PARAMETERS.get(name, {})
    found = evaluate(name, data, **parameters)
    with np.errstate(all="ignore"):
        wide = evaluate(name, data.astype(np.float32), **parameters).astype(np.float16)
    assert found.dtype == np.float16
    assert same_bits(found, wide)
    with np.errstate(all="ignore"):
        expected = reference(name, data.astype(np.float32), **parameters).astype(np.float16)
        near = np.abs(found - expected) <= np.spacing(np.abs(expected))
    assert np.all(near | (found == expected) | (np.isnan(found) & np.isnan(expected)))


def _integers(dtype: str) -> np.ndarray:
    information = np.iinfo(dtype)
    values = [information.min, information.min + 1, -7, -3, -2, -1, 0, 1, 2, 3, 7, information.max - 1, information.max]
    return np.array([value for value in values if value >= information.min], dtype)


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("name", [name for name in ELEMENTWISE if name.startswith(("broadcast_", "_npi_bitwise"))])
def test_integers(name: str, dtype: str) -> None:
    # none of them traps, and none differs from the reference
    lowering = REGISTRY[name].lowering
    assert lowering is not None
    if np.dtype(dtype) not in lowering.dtypes:
        pytest.skip("evaluated by NumPy")
    first, second = [np.array(column) for column in zip(*itertools.product(_integers(dtype), _integers(dtype)))]
    operands = (first, second)[: len(REGISTRY[name].input_names)]
    assert same_bits(evaluate(name, *operands), reference(name, *operands))


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("name", [name for name in ELEMENTWISE if len(REGISTRY[name].input_names) == 1])
def test_functions_of_integers(name: str, dtype: str) -> None:
    lowering = REGISTRY[name].lowering
    assert lowering is not None
    if np.dtype(dtype) not in lowering.dtypes or name in ("_copyto", "_cast"):
        pytest.skip("evaluated by NumPy")
    parameters, data = PARAMETERS.get(name, {}), _integers(dtype)
    assert same_bits(evaluate(name, data, **parameters), reference(name, data, **parameters))


@pytest.mark.parametrize("target", [*INTEGERS, "bool", "float16", "float32", "float64"])
@pytest.mark.parametrize("source", [*INTEGERS, "bool", "float16", "float32", "float64"])
def test_conversions(source: str, target: str) -> None:
    with np.errstate(all="ignore"):
        if source == "bool":
            data = np.array([True, False, True])
        elif source.startswith("float"):
            values = [
                *SPECIAL,
                1.7,
                -1.7,
                127.9,
                128.2,
                255.9,
                300.7,
                -300.7,
                40000,
                70000,
                2.2e9,
                5e9,
                1e19,
                65519.999,
            ]
            values += [
                65520,
                65504.1,
                2049,
                2051,
                1.00048828125,
                1.00048828126,
                2.0**-24,
                2.0**-25,
                2.0**-25 * 1.0000001,
            ]
            data = np.array([*values, *[-value for value in values]]).astype(source)
        else:
            data = np.concatenate([_integers(source), np.array([2049, 2051, 65520]).astype(source)])
        node = leaf(0, data.shape, data.dtype)
        converted = cast(node, target)
        if converted is node:
            return
        found, expected = run([converted], {node: data})[converted], reference("_cast", data, dtype=target)
    assert same_bits(found, expected), (data[found != expected], found[found != expected], expected[found != expected])


@pytest.mark.parametrize("dtype", [*INTEGERS, "bool", "float16", "float32", "float64"])
def test_choices_and_logic(dtype: str) -> None:
    generator = np.random.default_rng(0)
    condition, x, y = [generator.integers(0, 3, 100).astype(dtype) for _ in range(3)]
    assert same_bits(evaluate("_select", condition, x, y), reference("_select", condition, x, y))
    for name in ("broadcast_logical_and", "broadcast_logical_or", "broadcast_logical_xor", "broadcast_equal"):
        assert same_bits(evaluate(name, x, y), reference(name, x, y))
    assert same_bits(evaluate("logical_not", x), reference("logical_not", x))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("exponent", range(-6, 8))
def test_whole_powers(exponent: int, dtype: type) -> None:
    data = np.concatenate([special(dtype), np.random.default_rng(0).normal(size=1000).astype(dtype)])
    found = evaluate("_integer_power", data, exponent=exponent)
    with np.errstate(all="ignore"):
        assert_close(found, np.power(data.astype(np.longdouble), exponent))


@pytest.mark.parametrize("scalar", [0.0, 0.5, 3.0])
def test_smooth_l1(scalar: float) -> None:
    data = np.concatenate([special(np.float32), np.linspace(-3, 3, 100).astype(np.float32)])
    assert same_bits(evaluate("smooth_l1", data, scalar=scalar), reference("smooth_l1", data, scalar=scalar))


def test_limits_beyond_the_range_of_integers() -> None:
    data = _integers("int8")
    parameters = {"a_min": -1e9, "a_max": float("inf")}
    assert same_bits(evaluate("clip", data, **parameters), reference("clip", data, **parameters))


# -- random numbers

SIZES = [0, 1, 15, 16, 17, 31, 33, 64, 65, 127, 1000, 4099]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("size", SIZES)
def test_random_numbers_are_those_of_the_reference(size: int, dtype: str) -> None:
    counter = leaf(0, (4,), np.dtype("uint32"))
    words = np.array([0xDEADBEEF, 0xFFFFFFFF, 12345, 0x80000001], np.uint32)
    target = REGISTRY["_uniform01"](counter, shape=(size,), dtype=np.dtype(dtype))
    expected = philox.uniform(words[:2], words[2:], size, np.dtype(dtype))
    assert run([target], {counter: words})[target].tobytes() == expected.tobytes()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", ["normal", "exponential"])
def test_other_distributions_agree_with_the_reference(name: str, size: int, dtype: str) -> None:
    counter = leaf(0, (4,), np.dtype("uint32"))
    words = np.array([0xDEADBEEF, 7, 99, 1], np.uint32)
    target = REGISTRY[f"_{name}01"](counter, shape=(size,), dtype=np.dtype(dtype))
    expected = getattr(philox, name)(words[:2], words[2:], size, np.dtype(dtype))
    # absolutely, because the reference's cosine and sine lose digits where they are small
    np.testing.assert_allclose(
        run([target], {counter: words})[target], expected, rtol=2 * np.finfo(dtype).eps, atol=8 * np.finfo(dtype).eps
    )


def test_random_numbers_fuse_with_what_uses_them() -> None:
    counter, data = leaf(0, (4,), np.dtype("uint32")), leaf(1, (30, 7), np.dtype("float32"))
    other = leaf(2, (4,), np.dtype("uint32"))
    noise = REGISTRY["_uniform01"](counter, shape=(30, 7), dtype=np.dtype("float32"))
    more = REGISTRY["_uniform01"](other, shape=(30, 7), dtype=np.dtype("float32"))
    target = REGISTRY["exp"](data * noise + more)
    first, second = np.array([1, 2, 3, 4], np.uint32), np.array([5, 6, 7, 8], np.uint32)
    values = np.random.default_rng(0).normal(size=(30, 7)).astype(np.float32)
    found = run([target], {counter: first, other: second, data: values})[target]
    drawn = [philox.uniform(w[:2], w[2:], 210, np.dtype("float32")).reshape(30, 7) for w in (first, second)]
    np.testing.assert_allclose(found, np.exp(values * drawn[0] + drawn[1]), rtol=3e-7)
