"""Both 16-bit types over the registry: every operator computes in float32 and rounds once."""

from __future__ import annotations

import numpy as np
import pytest

from phonograd.core.base.dtypes import BFLOAT16, FLOAT16, FLOAT32, DType, convert, is_floating, name_of, precision_of
from phonograd.core.base.errors import MXNetError
from phonograd.core.graph.operator import REGISTRY
from phonograd.core.plan.eager import EagerProgram
from phonograd.core.run.reference import evaluate, resolve

from ..plan.programs import run
from .checks import Sample, leaves_for
from .test_registry import SAMPLES

#: rounding errors of composites, which round several times, relative to their largest result
MOST_ERRORS = 40
#: operators whose coordinates are arithmetic on inputs: a rounded coordinate selects another element
BY_COORDINATES = {"_contrib_DeformablePSROIPooling", "BilinearSampler", "GridGenerator", "SpatialTransformer"}

FIRST = list({sample.name: sample for sample in reversed(SAMPLES)}.values())
CHOSEN = [sample for sample in FIRST if any(a is not None and a.dtype.kind == "f" for a in sample.inputs)]


def _slow_unless(is_quick: bool) -> tuple[pytest.MarkDecorator, ...]:
    return () if is_quick else (pytest.mark.slow,)


def in_precision(sample: Sample, dtype: DType) -> tuple[Sample, Sample]:
    """Return a sample with inputs of 16 bits, and one with the same numbers as float32."""
    narrow = [a if a is None or a.dtype.kind != "f" else convert(a, dtype) for a in sample.inputs]
    wide = [convert(a, FLOAT32) if a is not None and a.dtype == dtype else a for a in narrow]
    return Sample(sample.name, narrow, sample.parameters), Sample(sample.name, wide, sample.parameters)


@pytest.mark.parametrize(
    ("sample", "dtype"),
    [
        # every fourth operator in each run, and all with `make fuzz`
        pytest.param(sample, dtype, id=f"{sample.name}-{name_of(dtype)}", marks=_slow_unless(number % 4 == place))
        for number, sample in enumerate(CHOSEN)
        for place, dtype in enumerate((BFLOAT16, FLOAT16))
    ],
)
def test_operators_compute_in_float32_and_round_once(sample: Sample, dtype: DType) -> None:
    narrow, wide = in_precision(sample, dtype)
    nodes, bindings = leaves_for(narrow.inputs)
    try:
        outputs = [resolve(node) for node in narrow.call(nodes)]
    except MXNetError:
        pytest.skip(f"{sample.name} does not take {name_of(dtype)}")
    found = run(outputs, bindings, make=EagerProgram)
    reference = evaluate(outputs, bindings)
    if REGISTRY[sample.name].random:
        return
    others, other_bindings = leaves_for(wide.inputs)
    targets = [resolve(node) for node in wide.call(others)]
    expected = {**other_bindings, **run(targets, other_bindings, make=EagerProgram)}
    exactly = not REGISTRY[sample.name].composite
    for node, target, defined in zip(outputs, targets, reference, strict=True):
        got = bindings[node] if node in bindings else found[node]
        assert (got.shape, got.dtype) == (node.shape, node.dtype)
        compare(got, convert(expected[target], node.dtype), exactly, sample.name)
        compare(defined, convert(expected[target], node.dtype), False, sample.name)


def compare(found: np.ndarray, expected: np.ndarray, exactly: bool, name: str) -> None:
    """Assert that results are equal, or close for operators that round several times."""
    if not is_floating(found.dtype):
        return
    first, second = convert(found, np.dtype("float64")), convert(expected, np.dtype("float64"))
    same = (first == second) | (np.isnan(first) & np.isnan(second))
    if exactly:
        assert same.all(), name
    elif name not in BY_COORDINATES and found.dtype.itemsize == 2:
        scale = np.abs(second[np.isfinite(second)]).max(initial=0)
        tolerance = MOST_ERRORS * precision_of(found.dtype) * scale + 1e-6
        assert (same | (np.abs(first - second) <= tolerance)).all(), name
