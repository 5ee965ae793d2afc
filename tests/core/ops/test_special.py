"""Special functions against recorded values of high precision, and operators that steer gradients."""

from __future__ import annotations

import math
import pathlib

import numpy as np
import pytest

import phonograd.core.ops.math.special  # noqa: F401
from phonograd.core.base.errors import MXNetError
from phonograd.core.derive.gradient import differentiate
from phonograd.core.graph.operator import REGISTRY
from phonograd.core.ops.math import special_functions
from phonograd.core.ops.math.structural import leaf, variable
from phonograd.core.run.reference import evaluate

from .checks import Sample, check_gradients, check_inference, leaves_for
from .samples_special import SAMPLES

#: arguments and values from 40 digits, written by scripts/make_special_functions.py
RECORDED = dict(np.load(pathlib.Path(__file__).resolve().parents[2] / "data/special_functions.npz"))
NAN, INFINITY = math.nan, math.inf


@pytest.mark.parametrize("sample", SAMPLES, ids=repr)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_inference(sample, dtype):
    arrays = [array.astype(dtype) if array.dtype.kind == "f" else array for array in sample.inputs]
    check_inference(Sample(sample.name, arrays, sample.parameters))


@pytest.mark.parametrize("sample", SAMPLES, ids=repr)
def test_gradients(sample):
    check_gradients(sample)


def run(name, values, dtype="float64", **parameters):
    return check_inference(Sample(name, [np.asarray(values, dtype)], parameters))[0]


def gradient(name, values, dtype="float64", order=1, **parameters):
    """Return the derivative of some order for an output gradient of 1, 2, 3, ..."""
    (node,), bindings = leaves_for([np.asarray(values, dtype)])
    out = REGISTRY[name](variable(node, 0), **parameters)
    head = leaf(1, node.shape, node.dtype)
    bindings[head] = np.arange(1, node.size + 1, dtype=dtype).reshape(node.shape)
    for _ in range(order):
        ((_, out),) = differentiate((out,), (head,)).targets.items()
    return None if out is None else evaluate([out], bindings)[0]


def units(found, expected, least=0.0):
    """Return the largest error in units in the last place of the value, or of ``least`` where the value is smaller."""
    return np.max(np.abs(found - expected) / np.spacing(np.maximum(np.abs(expected), least)))


@pytest.mark.parametrize(("name", "bound"), [("erf", 2), ("erfinv", 4), ("gamma", 8)])
def test_recorded_values(name, bound):
    assert units(run(name, RECORDED[f"{name}_x"]), RECORDED[name]) <= bound


@pytest.mark.parametrize(
    ("name", "operator", "parameters"), [("gammaln", "gammaln", {}), ("digamma", "_polygamma", {"n": 0})]
)
def test_recorded_values_with_zeros(name, operator, parameters):
    arguments, expected = RECORDED[f"{name}_x"], RECORDED[name]
    found = run(operator, arguments, **parameters)
    positive = arguments > 0
    assert units(found[positive], expected[positive]) <= 4
    assert units(found[~positive], expected[~positive], least=1.0) <= 16


@pytest.mark.parametrize("order", [1, 2, 3, 6])
def test_recorded_polygamma(order):
    arguments, expected = RECORDED["polygamma_x"], RECORDED[f"polygamma_{order}"]
    usable = np.isfinite(expected)
    found = run("_polygamma", arguments, n=order)
    positive = usable & (arguments > 0)
    assert units(found[positive], expected[positive]) <= 6 + order
    negative = usable & (arguments < 0)
    # the terms that cancel between the poles are as large as pi**(order + 1) * order!
    assert units(found[negative], expected[negative], least=math.pi ** (order + 1) * math.factorial(order)) <= 16


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("name", ["erf", "erfinv", "gamma", "gammaln"])
def test_single_precision_is_rounded_once(name, dtype):
    with np.errstate(over="ignore", under="ignore"):
        arguments = RECORDED[f"{name}_x"].astype(dtype)
        exact = run(name, arguments.astype(np.float64)).astype(dtype)
    assert np.array_equal(run(name, arguments, dtype), exact, equal_nan=True)


def test_agreement_with_the_standard_library():
    arguments = np.linspace(-5.03, 20, 400)
    for name, function, bound in (("erf", math.erf, 2), ("gamma", math.gamma, 16)):
        assert units(run(name, arguments), np.array([function(x) for x in arguments])) <= bound
    assert units(run("gammaln", arguments), np.array([math.lgamma(x) for x in arguments]), least=1.0) <= 8


def test_whole_numbers_are_exact():
    factorials = [float(math.factorial(n)) for n in range(171)]
    assert run("gamma", np.arange(1.0, 172)).tolist() == factorials
    assert run("gammaln", [1.0, 2.0]).tolist() == [0, 0]
    assert run("gamma", [1, 2, 5, 7], "int32").tolist() == [1, 1, 24, 720]
    assert run("gammaln", [1, 2, 5, 7], "int32").tolist() == [0, 0, 3, 6]
    assert run("erf", [1, 2, 5, 7], "int32").tolist() == [0, 0, 0, 1]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize(
    ("name", "pairs"),
    [
        ("erf", [(0.0, 0.0), (-0.0, -0.0), (INFINITY, 1), (-INFINITY, -1), (NAN, NAN), (30, 1), (-30, -1)]),
        (
            "erfinv",
            [(0.0, 0.0), (-0.0, -0.0), (1, INFINITY), (-1, -INFINITY), (1.5, NAN), (-INFINITY, NAN), (NAN, NAN)],
        ),
        (
            "gamma",
            [
                (0.0, INFINITY),
                (-0.0, -INFINITY),
                (-1, NAN),
                (-200, NAN),
                (1000, INFINITY),
                (-1000.5, -0.0),
                (-1001.5, 0.0),
                (INFINITY, INFINITY),
                (-INFINITY, NAN),
                (NAN, NAN),
            ],
        ),
        (
            "gammaln",
            [
                (0.0, INFINITY),
                (-0.0, INFINITY),
                (-1, INFINITY),
                (INFINITY, INFINITY),
                (-INFINITY, INFINITY),
                (NAN, NAN),
            ],
        ),
    ],
)
def test_special_arguments(name, pairs, dtype):
    found = run(name, [argument for argument, _ in pairs], dtype)
    expected = np.array([value for _, value in pairs], dtype)
    assert np.array_equal(found, expected, equal_nan=True)
    assert np.array_equal(np.signbit(found[~np.isnan(expected)]), np.signbit(expected[~np.isnan(expected)]))


def test_limits_of_double_precision():
    assert np.isfinite(run("gamma", [171.6])).all()
    assert run("gamma", [171.7]).tolist() == [INFINITY]
    tiny = run("gamma", [-170.5, -177.5, -184.5])
    assert units(tiny[:1], np.array([-3.3127395215386074e-308])) <= 8
    assert (np.abs(tiny[1:]) > 0).tolist() == [True, False]
    found = run("gammaln", [1e300, 1e-310, -1e-310])
    assert units(found, np.array([6.897755278982137e302, 713.8013788281542, 713.8013788281542])) <= 2
    assert run("erf", [1e-310]).tolist() == [1.12837916709551e-310]
    assert units(run("erfinv", [1 - 2.0**-53]), np.array([5.863584748755167])) <= 4


def test_poles_of_polygamma():
    assert run("_polygamma", [0.0, -0.0, -1.0, INFINITY, -INFINITY], n=0).tolist()[:2] == [-INFINITY, INFINITY]
    assert np.isnan(run("_polygamma", [-1.0, -INFINITY, NAN], n=0)).all()
    assert run("_polygamma", [INFINITY], n=0).tolist() == [INFINITY]
    assert run("_polygamma", [0.0, -0.0, -3.0], n=1).tolist() == [INFINITY] * 3
    assert run("_polygamma", [INFINITY], n=1).tolist() == [0]
    assert np.isclose(run("_polygamma", [1.0], n=1)[0], math.pi**2 / 6, rtol=1e-15)
    assert run("_polygamma", [1e300], n=1).tolist() == [1e-300]
    with pytest.raises(MXNetError, match="must not be negative"):
        run("_polygamma", [1.0], n=-1)


def test_shapes_and_strides():
    data = np.linspace(0.1, 3, 24).reshape(2, 3, 4)
    assert np.array_equal(special_functions.gamma(data.T), special_functions.gamma(data).T)
    assert special_functions.gamma(np.zeros((0, 3))).shape == (0, 3)
    assert special_functions.erf(np.float64(0.5)).shape == ()


def test_recorded_gradients():
    # values of MXNet 1.9.1 for output gradients 1, 2, 3, ...
    arguments = [0.5, -0.5, 1.0, 1.5]
    assert np.allclose(gradient("erf", arguments), [0.8787825, 1.757565, 1.2453224, 0.4757211], rtol=1e-6)
    assert np.allclose(gradient("erfinv", [0.5, -0.5]), [1.112584852, 2.225169705], rtol=1e-6)
    assert np.allclose(gradient("gammaln", [1.0, 2.0, 30.0]), [-0.5772156649, 0.8455686702, 10.1533145], rtol=1e-8)
    assert np.allclose(gradient("gamma", [1.0, 2.0]), [-0.5772156649, 0.8455686702], rtol=1e-9)
    found = gradient("smooth_l1", [-3, -1, -0.2, 0, 0.25, 0.3], "float32", scalar=2.0)
    assert np.allclose(found, [-1, -2, -2.4, 0, 5, 6], rtol=1e-6)
    assert np.allclose(gradient("hard_sigmoid", [-2.5, 2.5, 0, -2.4, 9]), [0, 0, 0.6, 0.8, 0])


def test_smooth_l1():
    values = [-3, -1, -0.3, 0, 0.25, 0.3, 1, 4]
    assert np.allclose(run("smooth_l1", values), [2.5, 0.5, 0.045, 0, 0.03125, 0.045, 0.5, 3.5])
    assert np.allclose(run("smooth_l1", values, scalar=2.0), [2.875, 0.875, 0.175, 0, 0.125, 0.175, 0.875, 3.875])
    assert run("smooth_l1", values, scalar=0.0).tolist() == [0] * 8
    assert run("smooth_l1", [-3, 1, 4], "int32", scalar=1.0).tolist() == [2, 0, 3]


def test_hard_sigmoid_needs_floats():
    with pytest.raises(MXNetError, match="only support floating point types, not int32"):
        run("hard_sigmoid", [1, 2], "int32")


def test_operators_that_steer_gradients():
    values = [-2.5, -1.5, -0.5, 0.5, 0.2]
    assert gradient("BlockGrad", values) is None
    assert gradient("make_loss", values).tolist() == [1] * 5
    assert gradient("_contrib_round_ste", values).tolist() == [1, 2, 3, 4, 5]
    assert gradient("_contrib_sign_ste", values).tolist() == [1, 2, 3, 4, 5]
    assert gradient("_contrib_gradientmultiplier", values, scalar=-0.5).tolist() == [-0.5, -1, -1.5, -2, -2.5]
    assert run("_contrib_round_ste", values).tolist() == [-3, -2, -1, 1, 0]
    assert run("_contrib_round_ste", [np.nextafter(0.5, 0), -0.4, 2.0**52 + 1, NAN]).tolist()[:3] == [0, 0, 2.0**52 + 1]
    assert run("_contrib_sign_ste", values).tolist() == [-1, -1, -1, 1, 1]
    for name in ("BlockGrad", "make_loss", "_contrib_gradientmultiplier"):
        assert run(name, values).tolist() == values
        assert run(name, [True, False], "bool").tolist() == [True, False]
    assert run("_contrib_round_ste", [1, 2], "int32").tolist() == [1, 2]
