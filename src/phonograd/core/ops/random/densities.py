"""Densities of distributions at samples: ``random_pdf_normal(sample, mu, sigma)`` and so on.

The first axes of the samples are the axes of the parameters: each element of a parameter applies to all samples at its
index. Densities are computed as logarithms; `is_log` returns the logarithms. Samples of continuous distributions and
all parameters have gradients.
"""

from __future__ import annotations

import math

from ...base.errors import MXNetError, format_shape
from ...graph.interface import Interface, Partial, Partials, merge
from ...graph.node import Node
from ...graph.operator import Operator, composite, single
from ...graph.partial_shapes import first_results, merge_all
from ..math.elementary import exp, log, log1p, square
from ..math.primitives import reshape_to
from ..math.special import BlockGrad, gammaln
from ..reduce.reduction import sum_axes

__all__ = [
    "pdf_dirichlet",
    "pdf_exponential",
    "pdf_gamma",
    "pdf_generalized_negative_binomial",
    "pdf_negative_binomial",
    "pdf_normal",
    "pdf_poisson",
    "pdf_uniform",
]


def _over(sample: Node, *parameters: Node) -> tuple[Node, ...]:
    """Return parameters with one more axis for each further axis of the samples."""
    for parameter in parameters:
        if sample.shape[: parameter.ndim] != parameter.shape:
            raise MXNetError(
                f"the first axes of samples must be those of the parameters, which have shape "
                f"{format_shape(parameter.shape)}, but the samples have shape {format_shape(sample.shape)}"
            )
    return tuple([reshape_to(p, p.shape + (1,) * (sample.ndim - p.ndim)) for p in parameters])


def _density(logarithm: Node, is_log: bool) -> Node:
    return logarithm if is_log else single(exp(logarithm))


def _detach_samples(sample: Node) -> Node:
    """Return samples of a discrete distribution, without a gradient."""
    return single(BlockGrad(sample))


@composite(name="_random_pdf_uniform", aliases=("random_pdf_uniform",))
def pdf_uniform(sample: Node, low: Node, high: Node, *, is_log: bool = False) -> Node:
    """Return the density of uniform distributions at samples, which must be between `low` and `high`."""
    low, high = _over(sample, low, high)
    # include the samples in the expression, with a gradient of zero
    return _density(_detach_samples(sample) * 0.0 - log(high - low), is_log)


@composite(name="_random_pdf_normal", aliases=("random_pdf_normal",))
def pdf_normal(sample: Node, mu: Node, sigma: Node, *, is_log: bool = False) -> Node:
    """Return the density of normal distributions with means `mu` and standard deviations `sigma` at samples."""
    mu, sigma = _over(sample, mu, sigma)
    distance = single(square((sample - mu) / sigma))
    return _density(distance * -0.5 - (log(sigma) + 0.5 * math.log(2 * math.pi)), is_log)


@composite(name="_random_pdf_gamma", aliases=("random_pdf_gamma",))
def pdf_gamma(sample: Node, alpha: Node, beta: Node, *, is_log: bool = False) -> Node:
    """Return the density of gamma distributions with shapes `alpha` and rates `beta` at samples."""
    alpha, beta = _over(sample, alpha, beta)
    constant = alpha * log(beta) - gammaln(alpha)
    return _density(constant + (alpha - 1.0) * log(sample) - beta * sample, is_log)


@composite(name="_random_pdf_exponential", aliases=("random_pdf_exponential",))
def pdf_exponential(sample: Node, lam: Node, *, is_log: bool = False) -> Node:
    """Return the density of exponential distributions with rates `lam` at samples."""
    (lam,) = _over(sample, lam)
    return _density(log(lam) - lam * sample, is_log)


@composite(name="_random_pdf_poisson", aliases=("random_pdf_poisson",))
def pdf_poisson(sample: Node, lam: Node, *, is_log: bool = False) -> Node:
    """Return the probability of samples of Poisson distributions with rates `lam`."""
    (lam,) = _over(sample, lam)
    sample = _detach_samples(sample)
    return _density(sample * log(lam) - gammaln(sample + 1.0) - lam, is_log)


def _failures(sample: Node, limit: Node, success: Node, failure: Node) -> Node:
    """Return the log-probability of a number of failures, given the logarithms for success and failure."""
    ways = gammaln(sample + limit) - gammaln(sample + 1.0) - gammaln(limit)
    return single(ways + limit * success + sample * failure)


@composite(name="_random_pdf_negative_binomial", aliases=("random_pdf_negative_binomial",))
def pdf_negative_binomial(sample: Node, k: Node, p: Node, *, is_log: bool = False) -> Node:
    """Return the probability of samples: the number of failures before `k` successes of probability `p`."""
    k, p = _over(sample, k, p)
    return _density(_failures(_detach_samples(sample), k, log(p), log(1.0 - p)), is_log)


@composite(name="_random_pdf_generalized_negative_binomial", aliases=("random_pdf_generalized_negative_binomial",))
def pdf_generalized_negative_binomial(sample: Node, mu: Node, alpha: Node, *, is_log: bool = False) -> Node:
    """Return the probability of samples of negative binomial distributions with mean `mu` and dispersion `alpha`."""
    mu, alpha = _over(sample, mu, alpha)
    success = -log1p(mu * alpha)
    return _density(_failures(_detach_samples(sample), 1.0 / alpha, success, success + log(mu * alpha)), is_log)


@composite(name="_random_pdf_dirichlet", aliases=("random_pdf_dirichlet",))
def pdf_dirichlet(sample: Node, alpha: Node, *, is_log: bool = False) -> Node:
    """Return the density of Dirichlet distributions at samples; the categories are along the last axis."""
    lead, count = alpha.shape[:-1], alpha.shape[-1:]
    if not count or sample.shape[: len(lead)] != lead or sample.shape[-1:] != count or sample.ndim < alpha.ndim:
        raise MXNetError(
            f"samples must have the first and the last axes of alpha, whose shape is {format_shape(alpha.shape)}, but "
            f"they have shape {format_shape(sample.shape)}"
        )
    alpha = reshape_to(alpha, (*lead, *(1,) * (sample.ndim - alpha.ndim), *count))
    constant = gammaln(sum_axes(alpha, (alpha.ndim - 1,))) - sum_axes(gammaln(alpha), (alpha.ndim - 1,))
    result = sum_axes((alpha - 1.0) * log(sample), (alpha.ndim - 1,)) + constant
    return _density(reshape_to(result, sample.shape[:-1] or (1,)), is_log)


def _leading(inputs: Partials, outputs: Partials) -> Partials:
    """Return the shapes of samples and parameters; all begin with the axes of the first parameter."""
    sample: Partial = merge(inputs[0], outputs[0])
    common = merge_all(inputs[1:])
    if sample is not None and common is not None:
        common = merge(common, sample[: len(common)])
    return [sample, *[common] * (len(inputs) - 1)]


_SCALAR: tuple[Operator, ...] = (
    pdf_uniform,
    pdf_normal,
    pdf_gamma,
    pdf_exponential,
    pdf_poisson,
    pdf_negative_binomial,
    pdf_generalized_negative_binomial,
)
for _operator in _SCALAR:
    _operator.interface = Interface(shapes=_leading, results=first_results)


def _dirichlet_shapes(inputs: Partials, outputs: Partials) -> Partials:
    sample, alpha = inputs
    if sample is not None and alpha is not None and 1 <= len(alpha) <= len(sample):
        alpha = merge(alpha, (*sample[: len(alpha) - 1], sample[-1]))
    return [sample, alpha]


pdf_dirichlet.interface = Interface(
    shapes=_dirichlet_shapes, results=lambda inputs: [None if inputs[0] is None else inputs[0][:-1] or (1,)]
)


# -- precision in mixed-precision training

for _declared in (
    pdf_dirichlet,
    pdf_exponential,
    pdf_gamma,
    pdf_generalized_negative_binomial,
    pdf_negative_binomial,
    pdf_normal,
    pdf_poisson,
    pdf_uniform,
):
    _declared.precision = "widest"
