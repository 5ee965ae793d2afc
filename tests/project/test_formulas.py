"""The formulas of docstrings are evaluated and compared with the operators and optimizers that they describe."""

import inspect
import re

import numpy as np
import pytest

import phonograd as mx
from phonograd.core.array.call import python_function_of
from phonograd.core.base.formulas import CLASSES, OPERATORS
from phonograd.core.graph.operator import REGISTRY

from .formula_values import NotEvaluable, evaluate

X = np.array([-1.7, -0.6, -0.3, 0.25, 0.8, 1.4, 2.5])
A, B = np.array([0.3, 1.5, 2.0, 0.7]), np.array([1.25, -0.5, 3.0, 0.4])

#: operators of matrices, indices, integrals and random numbers, whose formulas are no arithmetic on elements
OTHERS = {
    "BatchNorm", "BatchNorm_v1", "Convolution", "Dropout", "Embedding", "FullyConnected", "GroupNorm", "InstanceNorm",
    "LayerNorm", "_contrib_box_iou", "_contrib_div_sqrt_dim", "_image_normalize", "_linalg_det", "_linalg_gelqf",
    "_linalg_gemm", "_linalg_gemm2", "_linalg_inverse", "_linalg_potrf", "_linalg_potri", "_linalg_sumlogdiag",
    "_linalg_syrk", "_random_pdf_poisson", "batch_dot", "dot", "erf", "erfinv", "gamma", "gammaln", "matmul", "outer",
    "softmax_cross_entropy", "add_n",
}  # fmt: skip

#: arguments of calls, and the values of names, beside the defaults of parameters
ARGUMENTS = {
    "clip": {"a_min": -0.5, "a_max": 1.0},
    "_contrib_quadratic": {"a": 2.0, "b": -3.0, "c": 0.5},
    "average": {"weights": mx.np.array(X * X, dtype="float64")},
}
NAMES = {
    "clip": {"a_min": -0.5, "a_max": 1.0},
    "average": {"w": X * X},
    "softmax": {"t": 1.0},
    "log_softmax": {"t": 1.0},
    "softmin": {"t": 1.0},
    "L2Normalization": {"epsilon": 1e-10},
    "mean": {"n": len(X)},
    "std": {"n": len(X), "mu": X.mean(), "ddof": 0},
    "var": {"n": len(X), "mu": X.mean(), "ddof": 0},
}
#: inputs by their names in the formula, in the order of the arguments
INPUTS = {
    "_random_pdf_exponential": {"x": A, "lambda": np.array(1.5)},
    "_random_pdf_normal": {"x": B, "mu": np.array(0.5), "sigma": np.array(1.5)},
    "_random_pdf_uniform": {"x": A, "low": np.array(0.0), "high": np.array(4.0)},
    "sgd_update": {"w": A, "g": B},
    "sgd_mom_update": {"w": A, "g": B, "m": B * B},
    "adam_update": {"w": A, "g": B, "m": B * B, "v": A * A},
    "_contrib_quadratic": {"x": X},
    "L2Normalization": {"x": X[None]},
    "SoftmaxOutput": {"x": X[None], "label": np.array([3.0])},
}
UPDATES = {"lr": 0.1, "wd": 0.01}
SPELLINGS = {"beta1": "beta_1", "beta2": "beta_2", "lr": "eta", "momentum": "mu"}


def function_of(name):
    declared = REGISTRY.get(name)
    return getattr(mx.np, name) if declared is None else python_function_of(declared, name)


def inputs_of(name):
    if name in INPUTS:
        return INPUTS[name]
    has_two = re.search(r"\bb\b", OPERATORS[name])
    return {"a": A, "b": B} if has_two else {"x": X}


def is_optimizer(name):
    return name.endswith("_update")


@pytest.mark.parametrize("name", sorted(set(OPERATORS) - OTHERS))
def test_an_operator_computes_its_formula(name):
    inputs, function = inputs_of(name), function_of(name)
    given = ARGUMENTS.get(name, UPDATES if is_optimizer(name) else {})
    signature = inspect.signature(function).parameters.values()
    defaults = {one.name: one.default for one in signature if isinstance(one.default, float)}
    values = {SPELLINGS.get(key, key): value for key, value in {**defaults, **given, **NAMES.get(name, {})}.items()}
    with np.errstate(all="ignore"):
        expected = evaluate(OPERATORS[name], {**values, **inputs})["w" if is_optimizer(name) else "y"]
    array = mx.nd.array if name in REGISTRY else mx.np.array
    computed = function(*[array(one, dtype="float64") for one in inputs.values()], **given).asnumpy()
    expected = np.broadcast_to(expected, computed.shape)
    # outside of its domain a formula has no value
    known = np.isfinite(expected)
    assert known.sum() >= min(2, known.size)
    np.testing.assert_allclose(computed[known], expected[known], 1e-5, 1e-7)


def test_no_formula_is_forgotten():
    """A formula of an operator that is not evaluated cannot be: it is no arithmetic on elements."""
    assert set(OPERATORS) >= OTHERS
    names = {"x": X, "a": X, "b": X, "w": X, "alpha": 1.0, "beta": 1.0, "mu": 0.0, "sigma": 1.0, "epsilon": 0.0}
    # these have the form of a product of numbers, but their operands are matrices or lists
    products = {
        name for name in OTHERS if name.startswith("_linalg_") or name in ("FullyConnected", "add_n", "batch_dot")
    }
    for name in OTHERS - products:
        with pytest.raises(NotEvaluable):
            pytest.fail(f"{name}: {evaluate(OPERATORS[name], names)}")


# -- optimizers, layers and losses

OPTIMIZERS = {
    "SGD": {"momentum": 0.9},
    "NAG": {"momentum": 0.9},
    "Signum": {"momentum": 0.9, "wd_lh": 0.02},
    "Adam": {},
    "Adamax": {},
    "AdaGrad": {"eps": 1e-3},
    "AdaDelta": {"rho": 0.9, "epsilon": 1e-3},
    "RMSProp": {"gamma1": 0.9, "epsilon": 1e-3},
    "Ftrl": {"lamda1": 0.02, "beta": 1},
}
ATTRIBUTES = {
    "momentum": "mu", "gamma1": "gamma_1", "lamda1": "lambda_1", "float_stable_eps": "epsilon", "eps": "epsilon",
    "wd_lh": "wd_lh", "beta1": "beta_1", "beta2": "beta_2",
}  # fmt: skip


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_optimizer_follows_its_formula(name):
    optimizer = getattr(mx.optimizer, name)(learning_rate=0.1, wd=0.01, **OPTIMIZERS[name])
    weight = mx.nd.array(A, dtype="float64")
    state = optimizer.create_state(0, weight)
    facts = {key: value for key, value in vars(optimizer).items() if isinstance(value, (int, float))}
    values = dict.fromkeys("mvuhdnsz", np.zeros(4)) | {ATTRIBUTES.get(key, key): value for key, value in facts.items()}
    values |= {"w": A, "eta": 0.1}
    for step in range(1, 4):
        gradient = B * step - 1
        values = evaluate(CLASSES[name], {**values, "g": gradient, "t": step})
        optimizer.update(0, weight, mx.nd.array(gradient, dtype="float64"), state)
        np.testing.assert_allclose(weight.asnumpy(), values["w"], 1e-5, 1e-7)


LAYERS = {
    "ELU": {"alpha": 0.7},
    "LeakyReLU": {"alpha": 0.2},
    "PReLU": {"alpha": 0.25},
    "SELU": {"alpha": 1.6732632423543772, "lambda": 1.0507009873554805},
    "Swish": {"beta": 1.5},
}


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_computes_its_formula(name):
    given = {} if name in ("SELU", "PReLU") else LAYERS[name]
    layer = getattr(mx.gluon.nn, name)(**given)
    layer.initialize()
    x = X[None].astype("float32")
    expected = evaluate(CLASSES[name], {"x": x, **LAYERS[name]})["y"]
    np.testing.assert_allclose(layer(mx.nd.array(x)).asnumpy(), expected, 1e-5)


LOSSES = {
    "L1Loss": {},
    "L2Loss": {},
    "HingeLoss": {"margin": 1},
    "SquaredHingeLoss": {"margin": 1},
    "LogisticLoss": {},
    "PoissonNLLLoss": {},
}


@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_computes_its_formula(name):
    pred, label = X[:, None].astype("float32"), np.sign(X[::-1, None]).astype("float32")
    formula = CLASSES[name].partition(", the mean")[0].partition(", for labels")[0]
    expected = evaluate(formula, {"p": pred, "y": label, **LOSSES[name]})["L"]
    computed = getattr(mx.gluon.loss, name)()(mx.nd.array(pred), mx.nd.array(label)).asnumpy()
    # the mean over all axes but that of the batch; PoissonNLLLoss is one number
    np.testing.assert_allclose(computed, expected.mean() if computed.size == 1 else expected.ravel(), 1e-5)
