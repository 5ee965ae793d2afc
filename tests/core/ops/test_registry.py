"""Tests derived from the registry: whatever operator there is, it keeps these promises."""

import importlib
import pkgutil

import numpy as np
import pytest

import phonograd as mx
from phonograd.core.base.errors import MXNetError
from phonograd.core.graph.operator import REGISTRY

from . import checks
from .checks import Sample, check_gradients, check_inference, evaluate, leaves_for

SAMPLES: list[Sample] = []
for _module in pkgutil.iter_modules([str(checks.__file__).rpartition("/")[0]]):
    if _module.name.startswith("samples_"):
        SAMPLES += importlib.import_module(f"tests.core.ops.{_module.name}").SAMPLES

OPERATORS = sorted({declared.name for declared in REGISTRY.values()})

# Operators that hold graphs together: they are made by the library only and have tests of their own.
STRUCTURAL = {
    "_absent",
    "_repeat_call",
    "_composite",
    "_constant",
    "_copyto",
    "_detach",
    "_full",
    "_graph",
    "_item",
    "_leaf",
    "_overwritten",
    "_variable",
}

#: first words of docstrings that do not say what the operator does
NO_VERBS = {"A", "An", "The", "It", "This", "What", "How", "Have", "Has", "Whether", "Is"}

by_sample = pytest.mark.parametrize("sample", SAMPLES, ids=[f"{s.name}-{i}" for i, s in enumerate(SAMPLES)])
by_name = pytest.mark.parametrize("name", OPERATORS)


def values(sample: Sample, arrays: list) -> list:
    """Return the outputs of a sample's operator for other input arrays."""
    nodes, bindings = leaves_for(arrays)
    return evaluate(sample.call(nodes), bindings)


@by_name
def test_operator_has_a_sample(name: str) -> None:
    assert name in STRUCTURAL or any(REGISTRY[sample.name].name == name for sample in SAMPLES)


@by_name
def test_docstring_begins_with_an_imperative_sentence(name: str) -> None:
    first = (REGISTRY[name].__doc__ or "").strip().splitlines()[0]
    verb = first.split()[0]
    assert verb.isalpha(), first
    assert verb.istitle(), first
    assert verb not in NO_VERBS, first
    assert not verb.endswith("ing"), first
    assert first.endswith((".", ":")), first


@pytest.mark.parametrize("name", [name for name in REGISTRY if name not in STRUCTURAL])
def test_every_name_is_in_a_namespace(name: str) -> None:
    assert callable(getattr(mx.nd._internal, name) if name.startswith("_") else getattr(mx.nd, name))


@by_sample
def test_shape_and_dtype_are_as_inferred(sample: Sample) -> None:
    check_inference(sample)


@by_sample
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_shape_and_dtype_in_every_precision(sample: Sample, dtype: str) -> None:
    arrays = [a.astype(dtype) if a is not None and a.dtype.kind == "f" else a for a in sample.inputs]
    converted = Sample(sample.name, arrays, sample.parameters)
    is_quantized = ".ops.quantized." in REGISTRY[sample.name].function.__module__
    try:
        check_inference(converted)
    except MXNetError:
        assert dtype == "float16" or is_quantized, "only half precision may be refused"


@by_sample
def test_memory_layout_does_not_matter(sample: Sample) -> None:
    """Strided inputs give the same bits as contiguous ones."""
    spread = []
    for array in sample.inputs:
        if array is None or array.ndim == 0:
            spread.append(array)
            continue
        wide = np.zeros((*array.shape[:-1], array.shape[-1] * 2), array.dtype)
        wide[..., ::2] = array
        spread.append(wide[..., ::2])
    for expected, got in zip(values(sample, list(sample.inputs)), values(sample, spread), strict=True):
        # a sum over strided memory may be taken in another order by NumPy
        np.testing.assert_allclose(np.asarray(got, float), np.asarray(expected, float), rtol=1e-5, atol=1e-6)


@by_sample
def test_inputs_are_not_written_to(sample: Sample) -> None:
    frozen = []
    for array in sample.inputs:
        copy = None if array is None else np.array(array)
        if copy is not None:
            copy.flags.writeable = False
        frozen.append(copy)
    values(sample, frozen)


@by_sample
def test_result_depends_on_inputs_only(sample: Sample) -> None:
    """Two evaluations give the same bits, random operators included."""
    for first, second in zip(values(sample, list(sample.inputs)), values(sample, list(sample.inputs)), strict=True):
        assert np.asarray(first).tobytes() == np.asarray(second).tobytes()


@by_sample
def test_gradients_of_every_order(sample: Sample) -> None:
    if sample.order == 0:
        pytest.skip("piecewise constant or not differentiable")
    check_gradients(sample)


ELEMENTWISE = [
    name
    for name in OPERATORS
    if name not in STRUCTURAL
    and REGISTRY[name].infer_rule is None
    and not REGISTRY[name].composite
    and not REGISTRY[name].parameters
    and REGISTRY[name].input_names == ("data",)
]


@pytest.mark.parametrize("name", ELEMENTWISE)
@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (1, 1)])
def test_elementwise_operators_take_any_shape(name: str, shape: tuple) -> None:
    check_inference(Sample(name, [np.full(shape, 0.5, np.float32)]))


@pytest.mark.parametrize("name", ELEMENTWISE)
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64"])
def test_elementwise_operators_keep_integers_or_refuse_them(name: str, dtype: str) -> None:
    # a kernel would read the bytes of another dtype
    refused = "type"
    try:
        with np.errstate(all="ignore"):
            check_inference(Sample(name, [np.ones((2, 3), dtype)]))
    except MXNetError as error:
        refused = str(error)
    assert "type" in refused
