"""Random numbers: operators with number parameters, with the shape of an array, and with array parameters.

Every operator has the hidden input ``counter``: four words (seed low, seed high, call number low, call number high)
that determine its numbers; see :mod:`phonograd.core.lower.philox` and :mod:`phonograd.core.lower.variates` for
the methods. Equal counters give equal numbers, so evaluating an expression twice does not change it. Random numbers
have a gradient of zero with respect to the parameters of their distribution.

==========================  ==================================================================================
``_random_x``               parameters are numbers; the result has ``shape``
``_random_x_like``          parameters are numbers; the result has the shape and dtype of an array
``_sample_x``               parameters are arrays; ``shape`` numbers are drawn for each of their elements
==========================  ==================================================================================
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...base.dtypes import HALVES, UINT32, DType, is_floating, name_of, precision_of
from ...base.errors import MXNetError, format_shape
from ...graph.interface import Interface, Partials, merge
from ...graph.node import Node, Shape
from ...graph.operator import (
    REGISTRY,
    Array,
    Operator,
    Spec,
    composite,
    declare,
    nothing,
    operator,
    single,
)
from ...graph.partial_shapes import merge_all
from ...lower.ir import philox_ir
from ...lower.lowering import Either, Expansion, Lowering, Random
from ...lower.philox import exponential, integers, normal, uniform
from ...lower.variates import categories, gamma, log_uniform_sample, permutation, poisson
from ..math.elementary import floor, log
from ..math.gradient_control import without_gradient
from ..math.primitives import cast, gather, reshape_to
from ..math.structural import full
from ..nn.softmax import demand_floating

__all__ = ["uniform_between"]

FLOAT32 = np.dtype("float32")
FLOAT64 = np.dtype("float64")
INT32 = np.dtype("int32")
INT64 = np.dtype("int64")


# -- standard distributions


def _standard(name: str, function: Callable[..., Array], sentence: str, lowering: Lowering) -> Operator:
    """Declare random numbers of a distribution without parameters."""

    def reference(counter: Array, *, shape: Shape, dtype: DType) -> Array:
        return function(counter[:2], counter[2:], math.prod(shape), dtype).reshape(shape)

    def infer(counter: Node, *, shape: Shape, dtype: DType) -> Spec:
        return shape, dtype

    reference.__doc__ = f"Return {sentence}."
    return declare(Operator(reference, name=name, infer=infer, gradient=nothing, cost=20, lowering=lowering))


def _halves(name: str, finish: Callable[[Node, DType], Node] = lambda numbers, dtype: numbers) -> Expansion:
    """Return the expansion that makes 16-bit numbers from float32 numbers of the same distribution."""

    def expand(counter: Node, *, shape: Shape, dtype: DType) -> Node:
        return cast(finish(single(REGISTRY[name](counter, shape=shape, dtype=FLOAT32)), dtype), dtype)

    return Expansion(expand, HALVES | {UINT32})


def _first_digits(numbers: Node, dtype: DType) -> Node:
    # truncate to the digits of the format: rounding could give 1
    steps = 2 / precision_of(dtype)
    return single(floor(numbers * steps)) * (1 / steps)


_uniform01 = _standard(
    "_uniform01",
    uniform,
    "uniform random numbers in [0, 1)",
    Either(Random(philox_ir.uniform), _halves("_uniform01", _first_digits)),
)
_normal01 = _standard(
    "_normal01",
    normal,
    "normal random numbers with mean 0 and variance 1",
    Either(Random(philox_ir.normal), _halves("_normal01")),
)
_exponential01 = _standard(
    "_exponential01",
    exponential,
    "exponential random numbers with mean 1",
    Either(Random(philox_ir.exponential), _halves("_exponential01")),
)


def uniform_between(counter: Node, low: float, high: float, shape: Shape, dtype: DType) -> Node:
    """Return the node of uniform random numbers in [low, high)."""
    numbers = single(_uniform01(counter, shape=shape, dtype=dtype))
    return numbers if (low, high) == (0, 1) else numbers * (high - low) + low


# -- array parameters


def _result_type(dtype: DType | None, name: str) -> DType:
    if dtype is None:
        return FLOAT32
    if not is_floating(dtype):
        raise MXNetError(
            f"Invalid Input: '{name_of(dtype)}', valid values are: "
            f"{{'None', 'bfloat16', 'float16', 'float32', 'float64'}}, "
            f'in operator {name}(name="", dtype="{name_of(dtype)}")'
        )
    return dtype


def _parameter(node: Node, shape: Shape, dtype: DType) -> Node:
    """Return a parameter in a shape that broadcasts against the numbers drawn for its elements."""
    return without_gradient(cast(reshape_to(node, node.shape + (1,) * len(shape)), dtype))


def _equal_shapes(name: str, first: Node, second: Node) -> None:
    if first.shape != second.shape:
        raise MXNetError(
            f"Operator {name} inferring shapes failed. Its parameters have different shapes: "
            f"{format_shape(first.shape)} and {format_shape(second.shape)}"
        )


@composite(name="_sample_uniform", aliases=("sample_uniform",))
def sample_uniform(low: Node, high: Node, counter: Node, *, shape: Shape = (), dtype: DType | None = None) -> Node:
    """Return uniform random numbers in [low, high), ``shape`` of them for each element of the bounds."""
    _equal_shapes("_sample_uniform", low, high)
    result = _result_type(dtype, "_sample_uniform")
    numbers = single(_uniform01(counter, shape=low.shape + shape, dtype=result))
    start = _parameter(low, shape, result)
    return numbers * (_parameter(high, shape, result) - start) + start


@composite(name="_sample_normal", aliases=("sample_normal",))
def sample_normal(mu: Node, sigma: Node, counter: Node, *, shape: Shape = (), dtype: DType | None = None) -> Node:
    """Return normal random numbers with mean mu and standard deviation sigma, ``shape`` of them per element."""
    _equal_shapes("_sample_normal", mu, sigma)
    result = _result_type(dtype, "_sample_normal")
    numbers = single(_normal01(counter, shape=mu.shape + shape, dtype=result))
    return numbers * _parameter(sigma, shape, result) + _parameter(mu, shape, result)


@composite(name="_sample_exponential", aliases=("sample_exponential",))
def sample_exponential(lam: Node, counter: Node, *, shape: Shape = (), dtype: DType | None = None) -> Node:
    """Return exponential random numbers with rate lam (mean 1 / lam), ``shape`` of them per element."""
    result = _result_type(dtype, "_sample_exponential")
    numbers = single(_exponential01(counter, shape=lam.shape + shape, dtype=result))
    return numbers / _parameter(lam, shape, result)


def _parameter_vector(parameter: Array, shape: Shape) -> Array:
    """Return the parameter of each number to draw, as a vector."""
    return np.repeat(parameter.astype(np.float64).reshape(-1), math.prod(shape))


def _infer_samples(name: str) -> Callable[..., Spec]:
    def infer(first: Node, *others: Node, shape: Shape, dtype: DType | None) -> Spec:
        if len(others) == 2:
            _equal_shapes(name, first, others[0])
        return first.shape + shape, _result_type(dtype, name)

    return infer


@operator(
    name="_sample_gamma", aliases=("sample_gamma",), infer=_infer_samples("_sample_gamma"), gradient=nothing, cost=60
)
def sample_gamma(alpha: Array, beta: Array, counter: Array, *, shape: Shape = (), dtype: DType | None = None) -> Array:
    """Return gamma random numbers with shape parameter alpha and scale beta, ``shape`` of them per element."""
    drawn = gamma(counter, _parameter_vector(alpha, shape)) * _parameter_vector(beta, shape)
    return drawn.reshape(alpha.shape + shape).astype(dtype or FLOAT32)


@operator(
    name="_sample_poisson",
    aliases=("sample_poisson",),
    infer=_infer_samples("_sample_poisson"),
    gradient=nothing,
    cost=60,
)
def sample_poisson(lam: Array, counter: Array, *, shape: Shape = (), dtype: DType | None = None) -> Array:
    """Return Poisson random numbers with mean lam, ``shape`` of them per element."""
    return poisson(counter, _parameter_vector(lam, shape)).reshape(lam.shape + shape).astype(dtype or FLOAT32)


@operator(
    name="_sample_negative_binomial",
    aliases=("sample_negative_binomial",),
    infer=_infer_samples("_sample_negative_binomial"),
    gradient=nothing,
    cost=120,
)
def sample_negative_binomial(
    k: Array, p: Array, counter: Array, *, shape: Shape = (), dtype: DType | None = None
) -> Array:
    """Return negative binomial random numbers, ``shape`` of them per element.

    They are the number of failures before the k-th success, with success probability p.
    """
    success = _parameter_vector(p, shape)
    means = gamma(counter, _parameter_vector(k, shape)) * ((1 - success) / success)
    return poisson(counter, means, after_gamma=True).reshape(k.shape + shape).astype(dtype or FLOAT32)


@operator(
    name="_sample_generalized_negative_binomial",
    aliases=("sample_generalized_negative_binomial",),
    infer=_infer_samples("_sample_generalized_negative_binomial"),
    gradient=nothing,
    cost=120,
)
def sample_generalized_negative_binomial(
    mu: Array, alpha: Array, counter: Array, *, shape: Shape = (), dtype: DType | None = None
) -> Array:
    """Return negative binomial random numbers, ``shape`` of them per element.

    They have mean mu and variance mu + alpha * mu**2. With alpha 0 they are Poisson random numbers.
    """
    mean, dispersion = _parameter_vector(mu, shape), _parameter_vector(alpha, shape)
    spread = np.where(dispersion == 0, 1.0, dispersion)
    means = np.where(dispersion == 0, mean, gamma(counter, 1 / spread) * spread * mean)
    return poisson(counter, means, after_gamma=True).reshape(mu.shape + shape).astype(dtype or FLOAT32)


# -- number parameters


def _number(value: float, counter: Node) -> Node:
    return full((), value, FLOAT64, counter.context)


def _demand(condition: bool, sentence: str, name: str, value: object) -> None:
    if not condition:
        raise MXNetError(f"{sentence}, got {value} in operator {name}")


def _uniform(counter: Node, shape: Shape, dtype: DType, name: str, *, low: float, high: float) -> Node:
    sentence = "low must be less or equal to high in uniform distribution"
    _demand(high >= low, sentence, name, f"low={low:g}, high={high:g}")
    return uniform_between(counter, low, high, shape, dtype)


def _normal(counter: Node, shape: Shape, dtype: DType, name: str, *, loc: float, scale: float) -> Node:
    _demand(scale > 0, "scale parameter in gaussian has to be positive", name, scale)
    numbers = single(_normal01(counter, shape=shape, dtype=dtype))
    return numbers if (loc, scale) == (0, 1) else numbers * scale + loc


def _gamma(counter: Node, shape: Shape, dtype: DType, name: str, *, alpha: float, beta: float) -> Node:
    _demand(alpha > 0, "alpha parameter in gamma distribution has to be positive", name, alpha)
    _demand(beta > 0, "beta parameter in gamma distribution has to be positive", name, beta)
    return single(sample_gamma(_number(alpha, counter), _number(beta, counter), counter, shape=shape, dtype=dtype))


def _exponential(counter: Node, shape: Shape, dtype: DType, name: str, *, lam: float) -> Node:
    _demand(lam > 0, "lambda parameter in exponential distribution has to be positive", name, lam)
    return single(_exponential01(counter, shape=shape, dtype=dtype)) / lam


def _poisson(counter: Node, shape: Shape, dtype: DType, name: str, *, lam: float) -> Node:
    _demand(lam >= 0, "lambda parameter in poisson distribution has to be non-negative", name, lam)
    return single(sample_poisson(_number(lam, counter), counter, shape=shape, dtype=dtype))


def _negative_binomial(counter: Node, shape: Shape, dtype: DType, name: str, *, k: int, p: float) -> Node:
    _demand(k >= 0, "k parameter in negative binomial distribution has to be non-negative", name, k)
    _demand(0 < p <= 1, "p parameter in negative binomial distribution has to be in (0, 1]", name, p)
    return single(sample_negative_binomial(_number(k, counter), _number(p, counter), counter, shape=shape, dtype=dtype))


def _generalized_negative_binomial(
    counter: Node, shape: Shape, dtype: DType, name: str, *, mu: float, alpha: float
) -> Node:
    kind = "in generalized negative binomial distribution has to be non-negative"
    _demand(mu >= 0, f"mu parameter {kind}", name, mu)
    _demand(alpha >= 0, f"alpha parameter {kind}", name, alpha)
    return single(
        sample_generalized_negative_binomial(
            _number(mu, counter), _number(alpha, counter), counter, shape=shape, dtype=dtype
        )
    )


def _target(shape: Shape | None, dtype: DType | None, name: str) -> tuple[Shape, DType, str]:
    return (1,) if shape is None else shape, _result_type(dtype, name), name


def _target_like(data: Node, name: str) -> tuple[Shape, DType, str]:
    demand_floating(data.dtype, name)
    return data.shape, data.dtype, name


@composite(name="_random_uniform", aliases=("random_uniform", "uniform"))
def random_uniform(
    counter: Node, *, low: float = 0.0, high: float = 1.0, shape: Shape | None = None, dtype: DType | None = None
) -> Node:
    """Return uniform random numbers in [low, high)."""
    return _uniform(counter, *_target(shape, dtype, "_random_uniform"), low=low, high=high)


@composite(name="_random_normal", aliases=("random_normal", "normal"))
def random_normal(
    counter: Node, *, loc: float = 0.0, scale: float = 1.0, shape: Shape | None = None, dtype: DType | None = None
) -> Node:
    """Return normal random numbers with mean loc and standard deviation scale."""
    return _normal(counter, *_target(shape, dtype, "_random_normal"), loc=loc, scale=scale)


@composite(name="_random_gamma", aliases=("random_gamma",))
def random_gamma(
    counter: Node, *, alpha: float = 1.0, beta: float = 1.0, shape: Shape | None = None, dtype: DType | None = None
) -> Node:
    """Return gamma random numbers with shape parameter alpha and scale beta."""
    return _gamma(counter, *_target(shape, dtype, "_random_gamma"), alpha=alpha, beta=beta)


@composite(name="_random_exponential", aliases=("random_exponential",))
def random_exponential(
    counter: Node, *, lam: float = 1.0, shape: Shape | None = None, dtype: DType | None = None
) -> Node:
    """Return exponential random numbers with rate lam (mean 1 / lam)."""
    return _exponential(counter, *_target(shape, dtype, "_random_exponential"), lam=lam)


@composite(name="_random_poisson", aliases=("random_poisson",))
def random_poisson(counter: Node, *, lam: float = 1.0, shape: Shape | None = None, dtype: DType | None = None) -> Node:
    """Return Poisson random numbers with mean lam."""
    return _poisson(counter, *_target(shape, dtype, "_random_poisson"), lam=lam)


@composite(name="_random_negative_binomial", aliases=("random_negative_binomial",))
def random_negative_binomial(
    counter: Node, *, k: int = 1, p: float = 1.0, shape: Shape | None = None, dtype: DType | None = None
) -> Node:
    """Return negative binomial random numbers: failures before the k-th success of probability p."""
    return _negative_binomial(counter, *_target(shape, dtype, "_random_negative_binomial"), k=k, p=p)


@composite(name="_random_generalized_negative_binomial", aliases=("random_generalized_negative_binomial",))
def random_generalized_negative_binomial(
    counter: Node, *, mu: float = 1.0, alpha: float = 1.0, shape: Shape | None = None, dtype: DType | None = None
) -> Node:
    """Return negative binomial random numbers with mean mu and variance mu + alpha * mu**2."""
    target = _target(shape, dtype, "_random_generalized_negative_binomial")
    return _generalized_negative_binomial(counter, *target, mu=mu, alpha=alpha)


@operator(name="_random_randint", aliases=("random_randint",), gradient=nothing, cost=12)
def random_randint(
    counter: Array, *, low: int, high: int, shape: Shape | None = None, dtype: DType | None = None
) -> Array:
    """Return uniform random integers in [low, high)."""
    size = (1,) if shape is None else shape
    return integers(counter[:2], counter[2:], math.prod(size), low, high).reshape(size).astype(dtype or INT32)


@random_randint.infer
def random_randint_shape(counter: Node, *, low: int, high: int, shape: Shape | None, dtype: DType | None) -> Spec:
    result = dtype or INT32
    if result not in (INT32, INT64):
        raise MXNetError(
            f"Invalid Input: '{result}', valid values are: {{'None', 'int32', 'int64'}}, "
            f'in operator _random_randint(name="", dtype="{result}")'
        )
    bounds = f"low={low}, high={high}"
    _demand(high > low, "low must be less than high in uniform distribution", "_random_randint", bounds)
    limits = np.iinfo(result)
    fits = limits.min <= low and high - 1 <= limits.max
    _demand(fits, f"the bounds have to fit {result}", "_random_randint", bounds)
    return (1,) if shape is None else shape, result


# -- the shape of an array


@composite(name="_random_uniform_like")
def random_uniform_like(data: Node, counter: Node, *, low: float = 0.0, high: float = 1.0) -> Node:
    """Return uniform random numbers in [low, high), in the shape and dtype of an array."""
    return _uniform(counter, *_target_like(data, "_random_uniform_like"), low=low, high=high)


@composite(name="_random_normal_like")
def random_normal_like(data: Node, counter: Node, *, loc: float = 0.0, scale: float = 1.0) -> Node:
    """Return normal random numbers with mean loc and standard deviation scale, shaped like an array."""
    return _normal(counter, *_target_like(data, "_random_normal_like"), loc=loc, scale=scale)


@composite(name="_random_gamma_like")
def random_gamma_like(data: Node, counter: Node, *, alpha: float = 1.0, beta: float = 1.0) -> Node:
    """Return gamma random numbers with shape parameter alpha and scale beta, shaped like an array."""
    return _gamma(counter, *_target_like(data, "_random_gamma_like"), alpha=alpha, beta=beta)


@composite(name="_random_exponential_like")
def random_exponential_like(data: Node, counter: Node, *, lam: float = 1.0) -> Node:
    """Return exponential random numbers with rate lam (mean 1 / lam), shaped like an array."""
    return _exponential(counter, *_target_like(data, "_random_exponential_like"), lam=lam)


@composite(name="_random_poisson_like")
def random_poisson_like(data: Node, counter: Node, *, lam: float = 1.0) -> Node:
    """Return Poisson random numbers with mean lam, shaped like an array."""
    return _poisson(counter, *_target_like(data, "_random_poisson_like"), lam=lam)


@composite(name="_random_negative_binomial_like")
def random_negative_binomial_like(data: Node, counter: Node, *, k: int = 1, p: float = 1.0) -> Node:
    """Return negative binomial random numbers shaped like an array.

    They are the number of failures before the k-th success, with success probability p.
    """
    return _negative_binomial(counter, *_target_like(data, "_random_negative_binomial_like"), k=k, p=p)


@composite(name="_random_generalized_negative_binomial_like")
def random_generalized_negative_binomial_like(
    data: Node, counter: Node, *, mu: float = 1.0, alpha: float = 1.0
) -> Node:
    """Return negative binomial random numbers shaped like an array.

    They have mean mu and variance mu + alpha * mu**2.
    """
    target = _target_like(data, "_random_generalized_negative_binomial_like")
    return _generalized_negative_binomial(counter, *target, mu=mu, alpha=alpha)


# -- categories and permutations


@operator(gradient=nothing, cost=40, interface=Interface(outputs=2))
def _categories(data: Array, counter: Array, *, shape: Shape, dtype: DType) -> tuple[Array, Array]:
    """Return random positions along the last axis, and the same as flat positions in the whole array."""
    weights = data.reshape(-1, data.shape[-1])
    drawn = categories(counter, weights, math.prod(shape))
    flat = drawn + np.arange(weights.shape[0])[:, None] * data.shape[-1]
    result = data.shape[:-1] + shape
    return drawn.reshape(result).astype(dtype), flat.reshape(result)


@_categories.infer
def categories_shape(data: Node, *others: Node, shape: Shape, dtype: DType) -> list[Spec]:
    result = data.shape[:-1] + shape
    return [(result, dtype), (result, INT64)]


@composite(
    name="_sample_multinomial",
    aliases=("sample_multinomial",),
    visible=lambda *, get_prob, **parameters: 2 if get_prob else 1,
)
def sample_multinomial(
    data: Node, counter: Node, *, shape: Shape = (), get_prob: bool = False, dtype: DType = INT32
) -> Any:
    """Return random category indices, drawn with the probabilities along the last axis; ``shape`` of them per row.

    With ``get_prob``, also return the log-probability of each drawn category, which has a gradient.
    """
    demand_floating(data.dtype, "_sample_multinomial")
    if data.ndim == 0 or data.shape[-1] == 0:
        raise MXNetError(
            f"Operator _sample_multinomial needs probabilities along the last axis, got {format_shape(data.shape)}"
        )
    if dtype.name not in ("float16", "float32", "float64", "int32", "uint8"):
        raise MXNetError(
            f"Invalid Input: '{name_of(dtype)}', valid values are: "
            f"{{'float16', 'float32', 'float64', 'int32', 'uint8'}}, "
            f'in operator _sample_multinomial(name="", dtype="{name_of(dtype)}")'
        )
    size = shape or (1,) if data.ndim == 1 else shape
    drawn, flat = _categories(data, counter, shape=size, dtype=dtype)
    return (drawn, log(gather(data, flat))) if get_prob else drawn


@operator(name="_shuffle", aliases=("shuffle",), cost=0)
def shuffle(data: Array, counter: Array) -> Array:
    """Return the array with its rows (along axis 0) in random order."""
    return data[permutation(counter, data.shape[0])] if data.ndim else data


@operator(name="_sample_unique_zipfian", gradient=nothing, interface=Interface(outputs=2))
def sample_unique_zipfian(counter: Array, *, range_max: int, shape: Shape | None = None) -> tuple[Array, Array]:
    """Return rows of distinct classes below range_max from a Zipf-like distribution, and the draws per row.

    Class c has probability log((c + 2) / (c + 1)) / log(range_max + 1).
    """
    assert shape is not None
    rows = [log_uniform_sample(counter, row, range_max, shape[1]) for row in range(shape[0])]
    drawn = np.array([classes for classes, _ in rows], INT64).reshape(shape)
    return drawn, np.array([trials for _, trials in rows], INT64)


@sample_unique_zipfian.infer
def sample_unique_zipfian_shape(counter: Node, *, range_max: int, shape: Shape | None) -> list[Spec]:
    if shape is None or len(shape) != 2:
        raise MXNetError(f"Operator _sample_unique_zipfian needs a shape of two numbers, got {shape}")
    if shape[1] > range_max:
        raise MXNetError(
            f"Number of samples cannot exceed the number of possible classes: {shape[1]} of {range_max} in operator "
            f"_sample_unique_zipfian"
        )
    return [(shape, INT64), (shape[:1], INT64)]


# -- symbol declarations


def _sample_shapes(inputs: Partials, outputs: Partials, *, shape: Shape) -> Partials:
    """Return the shapes of the parameters of a distribution: all equal, and the first axes of the output."""
    common, out = merge_all(inputs), outputs[0]
    if out is not None and len(out) > len(shape):
        common = merge(common, out[: len(out) - len(shape)])
    return [common] * len(inputs)


def _sample_results(inputs: Partials, *, shape: Shape) -> Partials:
    common = merge_all(inputs)
    return [None if common is None else common + shape]


for _sampler in (
    sample_uniform,
    sample_normal,
    sample_exponential,
    sample_gamma,
    sample_poisson,
    sample_negative_binomial,
    sample_generalized_negative_binomial,
):
    _sampler.interface = Interface(shapes=_sample_shapes, results=_sample_results)
