"""The cost of every operator of the registry, compared with what its samples show: bytes exactly, arithmetic or none."""

from typing import Any

import numpy as np
import pytest

from phonograd.core.derive.costs import Cost, of_call
from phonograd.core.graph.operator import REGISTRY
from phonograd.core.run.reference import evaluate

from ..ops.checks import Sample, leaves_for
from ..ops.test_registry import SAMPLES

#: what computes although every value that comes out went in, or is 0 or 1: comparing, counting, rounding
COMPARING = frozenset(
    [
        "LinearRegressionOutput",
        "MAERegressionOutput",
        "MakeLoss",
        "ROIPooling",
        "SVMOutput",
        "_contrib_allclose",
        "_contrib_isfinite",
        "_contrib_isinf",
        "_contrib_isnan",
        "_contrib_sign_ste",
        "_equal",
        "_equal_scalar",
        "_greater",
        "_greater_equal",
        "_greater_equal_scalar",
        "_greater_scalar",
        "_is_kept",
        "_largest",
        "_lesser",
        "_lesser_equal",
        "_lesser_equal_scalar",
        "_lesser_scalar",
        "_logical_and",
        "_logical_and_scalar",
        "_logical_or",
        "_logical_or_scalar",
        "_logical_xor",
        "_logical_xor_scalar",
        "_maximum",
        "_maximum_scalar",
        "_minimum",
        "_minimum_scalar",
        "_mod_scalar",
        "_not_equal",
        "_not_equal_scalar",
        "_npi_bitwise_and",
        "_npi_bitwise_not",
        "_npi_bitwise_or",
        "_npi_bitwise_xor",
        "_npi_copysign",
        "_smallest",
        "_sparse_retain",
        "_window_max",
        "_window_max_grad",
        "abs",
        "all_finite",
        "broadcast_equal",
        "broadcast_greater",
        "broadcast_greater_equal",
        "broadcast_lesser",
        "broadcast_lesser_equal",
        "broadcast_logical_and",
        "broadcast_logical_or",
        "broadcast_logical_xor",
        "broadcast_maximum",
        "broadcast_minimum",
        "broadcast_not_equal",
        "ceil",
        "clip",
        "fix",
        "floor",
        "logical_not",
        "max",
        "min",
        "multi_all_finite",
        "negative",
        "relu",
        "rint",
        "round",
        "sign",
        "sort",
        "trunc",
    ]
)
#: what writes numbers that were nowhere before, but knows them from shapes and positions
POSITIONS = frozenset(
    [
        "Cast",
        "_arange",
        "_cast",
        "_contrib_arange_like",
        "_coordinates",
        "_point_positions",
        "_ctc_paths",
        "_linspace",
        "_mask_positions",
        "_position_along",
        "shape_array",
        "size_array",
        "amp_cast",
        "_unravel_index",
        "_ravel_multi_index",
    ]
)


def given_in(sample: Sample) -> list[Any]:
    """Return the inputs that a user gives: not the place in the random stream."""
    declared = REGISTRY[sample.name]
    draws = declared.random and len(sample.inputs) == len(declared.input_names)
    return list(sample.inputs[:-1] if draws else sample.inputs)


def cost_of(sample: Sample) -> Cost | None:
    specs = [None if array is None else (array.shape, array.dtype.name) for array in given_in(sample)]
    return of_call(sample.name, specs, sample.parameters)


def numbers_in(arrays: Any) -> set[float]:
    """Return the absolute values of all numbers."""
    found: set[float] = set()
    for array in arrays:
        if array is not None and np.asarray(array).dtype.kind in "biuf":
            found.update(np.abs(np.asarray(array).astype(np.float64)).ravel().tolist())
    return {number for number in found if np.isfinite(number)}


class Outcome:
    """What the samples of one operator show."""

    def __init__(self) -> None:
        self.computes: list[bool] = []
        self.flops: list[float] = []


@pytest.fixture(scope="module")
def outcomes() -> dict[str, Outcome]:
    found: dict[str, Outcome] = {}
    for sample in SAMPLES:
        cost = cost_of(sample)
        assert cost is not None, f"{sample} has no cost"
        nodes, bindings = leaves_for(sample.inputs)
        values = evaluate(sample.call(nodes), bindings)
        nbytes = sum([np.asarray(array).nbytes for array in (*given_in(sample), *values) if array is not None])
        assert cost.moved_bytes == nbytes, f"{sample} moves other bytes"
        chosen = [p for p in sample.parameters.values() if isinstance(p, (int, float))]
        new = numbers_in(values) - numbers_in(sample.inputs) - numbers_in([np.array(chosen)]) - {0.0, 1.0}
        outcome = found.setdefault(REGISTRY[sample.name].name, Outcome())
        outcome.computes.append(bool(new))
        outcome.flops.append(cost.flops)
    return found


def test_costs_are_numbers(outcomes: dict[str, Outcome]) -> None:
    assert len(outcomes) > 300, "there are samples of every operator (test_registry.py)"
    assert all(np.isfinite(outcome.flops).all() and min(outcome.flops) >= 0 for outcome in outcomes.values())


def test_new_numbers_take_operations(outcomes: dict[str, Outcome]) -> None:
    for name, outcome in outcomes.items():
        if name not in POSITIONS:
            free = [
                flops for flops, computes in zip(outcome.flops, outcome.computes, strict=True) if computes and not flops
            ]
            assert not free, f"{name} computes something, but its cost says that it does not"


def test_moving_numbers_takes_none(outcomes: dict[str, Outcome]) -> None:
    for name, outcome in outcomes.items():
        # what draws random numbers computes those
        if not (any(outcome.computes) or REGISTRY[name].random or name in COMPARING):
            assert not any(outcome.flops), (
                f"{name} computes nothing (or belongs to COMPARING), but its cost says that it does"
            )
    assert all(any(outcomes[name].flops) for name in COMPARING)


@pytest.mark.parametrize(
    ("name", "specs", "parameters"),
    [
        ("Cast", [((4, 5), "float32")], {"dtype": "float16"}),
        ("where", [((4, 5), "float32")] * 3, {}),
        ("pick", [((4, 5), "float32"), ((4,), "float32")], {}),
        ("gather_nd", [((4, 5), "float32"), ((2, 3), "int64")], {}),
        ("scatter_nd", [((3,), "float32"), ((2, 3), "int64")], {"shape": (4, 5)}),
        ("one_hot", [((4,), "int64")], {"depth": 5}),
        ("take", [((4, 5), "float32"), ((2,), "int64")], {}),
        ("Embedding", [((4,), "float32"), ((7, 3), "float32")], {"input_dim": 7, "output_dim": 3}),
    ],
)
def test_choosing_and_placing_are_no_arithmetic(name: str, specs: Any, parameters: dict[str, Any]) -> None:
    cost = of_call(name, specs, parameters)
    assert cost is not None
    assert (cost.flops, cost.moved_bytes > 0) == (0, True)


def test_an_input_that_was_left_out() -> None:
    specs = [((2, 3, 4), "float32"), ((66,), "float32"), ((1, 3, 2), "float32"), None, None]
    parameters = {"mode": "gru", "state_size": 2, "num_layers": 1}
    assert of_call("RNN", specs, parameters) == of_call("RNN", specs[:3], parameters)
