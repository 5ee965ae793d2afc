"""Fusing never changes a bit: programs at once, one node at a time, with other vectors, and against NumPy."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from phonograd.core.graph.node import Node
from phonograd.core.plan import assembly, fusion, group
from phonograd.core.plan.eager import EagerProgram
from phonograd.core.run.reference import ReferenceProgram, resolve

from .programs import RandomProgram, assert_same_bits, programs, run, run_singly, same_bits

# the fixture that verifies kernels is the same for every example
_CHECKS = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
many = settings(suppress_health_check=_CHECKS, max_examples=50)
some = settings(suppress_health_check=_CHECKS, max_examples=30)


@many
@given(programs(), st.booleans())
def test_fused_equals_one_node_at_a_time(program: RandomProgram, keep_all: bool) -> None:
    fused = run(program.targets, program.bindings, keep_all)
    assert_same_bits(fused, {**program.bindings, **run_singly(program.targets, program.bindings)})


@many
@given(programs(), st.booleans())
def test_fused_equals_by_pieces(program: RandomProgram, keep_all: bool) -> None:
    recorded = [resolve(node) for node in program.targets] if keep_all else []
    pieces = run(program.targets, program.bindings, recorded, make=EagerProgram)
    assert_same_bits(pieces, {**program.bindings, **run_singly(program.targets, program.bindings)})
    assert {resolve(node) for node in program.targets} <= {*pieces}


@some
@given(programs(dtypes=("float16",)), st.booleans())
def test_halves_are_rounded_after_every_operator(program: RandomProgram, keep_all: bool) -> None:
    fused = run(program.targets, program.bindings, keep_all)
    assert_same_bits(fused, {**program.bindings, **run_singly(program.targets, program.bindings)})


@many
@given(programs(only_exact=True))
def test_sums_and_products_are_those_of_numpy(program: RandomProgram) -> None:
    # each is rounded by itself: a product contracted into a sum would differ
    found = run(program.targets, program.bindings)
    assert_same_bits(found, {**program.bindings, **run(program.targets, program.bindings, make=ReferenceProgram)})


@some
@given(programs(), st.sampled_from([4, 8, 16]))
def test_the_width_of_vectors_does_not_matter(program: RandomProgram, lanes: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(assembly, "lanes_for", lambda dtypes: lanes)
        narrow = run(program.targets, program.bindings)
    assert_same_bits(run(program.targets, program.bindings), narrow)


@some
@given(programs(), st.sampled_from([1, 3, 12, 40]), st.sampled_from([1, 2, 8]))
def test_where_kernels_end_does_not_matter(program: RandomProgram, limit: int, look_back: int) -> None:
    expected = run(program.targets, program.bindings)
    with pytest.MonkeyPatch.context() as patch:
        for module in (group, fusion):
            patch.setattr(module, "WEIGHT_LIMIT", 4 * limit)
        patch.setattr(group, "ENOUGH_WEIGHT", limit)
        patch.setattr(fusion, "LOOK_BACK", look_back)
        assert_same_bits(expected, run(program.targets, program.bindings))


@some
@given(programs())
def test_later_runs_and_strided_inputs_give_the_same_bits(program: RandomProgram) -> None:
    first = run(program.targets, program.bindings)
    strided = {node: _with_gaps(value) for node, value in program.bindings.items()}
    assert_same_bits(first, {**run(program.targets, strided), **program.bindings})


def _with_gaps(array: np.ndarray) -> np.ndarray:
    wide = np.full((*array.shape, 3), 7, array.dtype)
    wide[..., 1] = array
    return wide[..., 1]


@many
@given(programs(special=False))
def test_every_operator_agrees_with_its_reference(program: RandomProgram) -> None:
    values = run_singly(program.targets, program.bindings)
    for step in ReferenceProgram(program.targets, program.bindings.__contains__).steps:
        node = step[-1]
        if node.outputs is not None or node.operator.name == "_item":
            # several outputs, each of which is a part of the input
            continue
        inputs = [values[resolve(source)] for source in node.inputs]
        found = values[node]
        assert (found.shape, found.dtype) == (node.shape, node.dtype)
        if node.dtype.kind != "f" or node.dtype == np.float16:
            # conversions, which are exact
            with np.errstate(all="ignore"):
                assert same_bits(found, np.asarray(node.operator.reference(node.attributes)(*inputs))), node
            continue
        expected, scale = _exactly(node, inputs)
        # functions are off by at most 2.4 units of the last place, a sum by the rounding of each of its blocks
        allowed = 4 * np.finfo(node.dtype).eps * scale
        with np.errstate(all="ignore"):
            close = (np.abs(found - expected) <= allowed) | (found == expected.astype(found.dtype))
        assert np.all(close | (np.isnan(found) & np.isnan(expected))), node


#: operators that add up elements, whose rounding errors are those of the numbers added
_SUMS = (
    *("_sum_to", "_matmul", "_add_axis", "_sum_slices", "_add_along", "_scatter_add", "_running_sum"),
    *("_convolution", "_window_sum"),
)
#: operators that NumPy itself computes in double precision
_DOUBLE = ("_add_axis", "_sum_slices", "_add_along", "_scatter_add")
#: operators whose results are rounded once for each element of a line
_LINES = ("_softmax", "_log_softmax", "_log_sum_exp", "_product", "_variance")


def _exactly(node: Node, inputs: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return the reference's value in a wider format, and the size of the numbers that were rounded on the way."""
    name, reference = node.operator.name, node.operator.reference(node.attributes)
    wide = np.float64 if node.dtype == np.float32 or name in _DOUBLE else np.longdouble
    with np.errstate(all="ignore"):
        if name in ("_uniform01", "_constant", "_full", "_cast", "argmax", "argmin", "_window_max"):
            exact = np.asarray(reference(*inputs)).astype(wide)
            return exact, np.zeros(exact.shape)
        arrays = [array.astype(wide) if array.dtype.kind == "f" else array for array in inputs]
        exact = np.asarray(reference(*arrays), wide)
        scale = np.abs(exact)
        if name in _SUMS:
            terms = max(inputs[0].shape[-1] if name == "_matmul" else inputs[0].size // max(node.size, 1), 1)
            if name == "_running_sum":
                terms = inputs[0].shape[node.attributes[0]]
            elif name == "_convolution":
                terms = inputs[1].size // inputs[1].shape[0]
            elif name == "_window_sum":
                terms = 2**node.ndim
            scale = np.asarray(reference(*[np.abs(a) if a.dtype.kind == "f" else a for a in arrays])) * terms
        elif name in _LINES:
            largest = np.abs(arrays[0][np.isfinite(arrays[0])]).max(initial=1)
            scale = scale * max(arrays[0].size, 1) + (largest * largest if name == "_variance" else largest)
        tiny = np.finfo(node.dtype).smallest_subnormal / np.finfo(node.dtype).eps
        return exact, np.maximum(scale, tiny)
