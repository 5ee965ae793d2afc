"""nd.random: draw numbers from distributions. Each element of an array parameter gets its own draws.

All numbers come from one counter-based stream (:mod:`phonograd.core.trace.rng`): the same seed gives the same numbers,
regardless of the program's other computations.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.array.binary import Numbers
from ..core.array.call import NULL, function_of
from ..core.base.devices import Context, as_context
from ..core.base.errors import MXNetError, nearest
from ..core.graph.operator import REGISTRY
from .array import NDArray

__all__ = [
    "exponential",
    "gamma",
    "generalized_negative_binomial",
    "multinomial",
    "negative_binomial",
    "normal",
    "poisson",
    "randint",
    "randn",
    "shuffle",
    "uniform",
]


_TWO_KINDS = "Distribution parameters must all have the same type, but got both {} and {}."
_NO_KIND = "Distribution parameters must be either NDArray or numbers, but got {}."


def _draw(
    kind: str,
    parameters: dict[str, Any],
    shape: Any,
    dtype: Any,
    ctx: Context | None,
    out: Any,
    options: dict[str, Any],
    names: dict[str, str] | None = None,
) -> NDArray:
    """Draw with the operator for numbers or the one for arrays, depending on the parameters.

    ``names`` maps parameters to their names in the operator for arrays, where they differ.
    """
    first = next(iter(parameters.values()))
    if not isinstance(first, (NDArray, *Numbers)):
        advice = f" Write shape={tuple(first)}." if isinstance(first, (list, tuple)) else ""
        raise ValueError(_NO_KIND.format(type(first)) + advice)
    of_arrays = isinstance(first, NDArray)
    for value in parameters.values():
        if not isinstance(value, NDArray if of_arrays else Numbers):
            raise AssertionError(_TWO_KINDS.format(type(first), type(value)))
    keywords = dict(parameters)
    if of_arrays:
        keywords = {(names or {}).get(name, name): value for name, value in parameters.items()}
    elif ctx is not None or out is None:
        keywords["ctx"] = as_context(ctx)
    if dtype is not NULL and dtype is not None:
        keywords["dtype"] = dtype
    if shape is not NULL and shape is not None:
        keywords["shape"] = _check_shape(shape, kind)
    elif not of_arrays:
        keywords["shape"] = out.shape if isinstance(out, NDArray) else 1
    declared = REGISTRY[f"_sample_{kind}" if of_arrays else f"_random_{kind}"]
    return function_of(declared, kind)(**keywords, out=out, **options)  # type: ignore[no-any-return]


def _check_shape(shape: Any, kind: str) -> Any:
    extents = shape if isinstance(shape, (tuple, list)) else (shape,)
    if any([isinstance(extent, (int, np.integer)) and extent < 0 for extent in extents]):
        raise MXNetError(f"Shape cannot contain negative values: {shape}, in nd.random.{kind}")
    return shape


def uniform(
    low: Any = 0, high: Any = 1, shape: Any = NULL, dtype: Any = NULL, ctx: Any = None, out: Any = None, **kwargs: Any
) -> NDArray:
    """Return numbers drawn uniformly from [low, high)."""
    return _draw("uniform", {"low": low, "high": high}, shape, dtype, ctx, out, kwargs)


def normal(
    loc: Any = 0, scale: Any = 1, shape: Any = NULL, dtype: Any = NULL, ctx: Any = None, out: Any = None, **kwargs: Any
) -> NDArray:
    """Return numbers drawn from normal distributions with mean ``loc`` and standard deviation ``scale``."""
    names = {"loc": "mu", "scale": "sigma"}
    return _draw("normal", {"loc": loc, "scale": scale}, shape, dtype, ctx, out, kwargs, names)


def randn(*shape: int, **kwargs: Any) -> NDArray:
    """Return numbers drawn from a normal distribution in the given shape."""
    loc, scale = kwargs.pop("loc", 0), kwargs.pop("scale", 1)
    return normal(loc, scale, shape or 1, kwargs.pop("dtype", NULL), **kwargs)


def exponential(
    scale: Any = 1, shape: Any = NULL, dtype: Any = NULL, ctx: Any = None, out: Any = None, **kwargs: Any
) -> NDArray:
    """Return numbers drawn from exponential distributions with mean ``scale``."""
    return _draw("exponential", {"lam": 1.0 / scale}, shape, dtype, ctx, out, kwargs)


def poisson(
    lam: Any = 1, shape: Any = NULL, dtype: Any = NULL, ctx: Any = None, out: Any = None, **kwargs: Any
) -> NDArray:
    """Return counts drawn from Poisson distributions with mean ``lam``."""
    return _draw("poisson", {"lam": lam}, shape, dtype, ctx, out, kwargs)


def gamma(
    alpha: Any = 1, beta: Any = 1, shape: Any = NULL, dtype: Any = NULL, ctx: Any = None, out: Any = None, **kwargs: Any
) -> NDArray:
    """Return numbers drawn from gamma distributions with shape ``alpha`` and scale ``beta``."""
    return _draw("gamma", {"alpha": alpha, "beta": beta}, shape, dtype, ctx, out, kwargs)


def negative_binomial(
    k: Any = 1, p: Any = 1, shape: Any = NULL, dtype: Any = NULL, ctx: Any = None, out: Any = None, **kwargs: Any
) -> NDArray:
    """Return the number of failures before the ``k``-th success in trials with success probability ``p``."""
    return _draw("negative_binomial", {"k": k, "p": p}, shape, dtype, ctx, out, kwargs)


def generalized_negative_binomial(
    mu: Any = 1, alpha: Any = 1, shape: Any = NULL, dtype: Any = NULL, ctx: Any = None, out: Any = None, **kwargs: Any
) -> NDArray:
    """Return counts drawn from negative binomial distributions with mean ``mu`` and dispersion ``alpha``."""
    return _draw("generalized_negative_binomial", {"mu": mu, "alpha": alpha}, shape, dtype, ctx, out, kwargs)


def randint(
    low: int, high: int, shape: Any = NULL, dtype: Any = NULL, ctx: Any = None, out: Any = None, **kwargs: Any
) -> NDArray:
    """Return integers drawn uniformly from low, ..., high - 1."""
    for bound in (low, high):
        if not isinstance(bound, Numbers):
            raise TypeError(f"the bounds of randint must be integers, not {type(bound)}")
    return _draw("randint", {"low": low, "high": high}, shape, dtype, ctx, out, kwargs)


def multinomial(
    data: NDArray, shape: Any = NULL, get_prob: bool = False, out: Any = None, dtype: Any = "int32", **kwargs: Any
) -> Any:
    """Return indices drawn with the probabilities in each row of ``data``.

    With ``get_prob``, also return the log-probability of each draw.
    """
    if shape is not NULL and shape is not None:
        kwargs["shape"] = _check_shape(shape, "multinomial")
    function = function_of(REGISTRY["_sample_multinomial"], "multinomial")
    return function(data, get_prob=get_prob, dtype=dtype, out=out, **kwargs)


def shuffle(data: NDArray, **kwargs: Any) -> NDArray:
    """Return the array with its rows in random order."""
    return function_of(REGISTRY["_shuffle"], "shuffle")(data, **kwargs)  # type: ignore[no-any-return]


def rand_zipfian(
    true_classes: NDArray, num_sampled: int, range_max: int, ctx: Context | None = None
) -> tuple[NDArray, NDArray, NDArray]:
    """Return classes from an approximately Zipfian distribution, and expected counts of true and drawn classes.

    Class k of ``range_max`` is drawn with probability ``log((k + 2) / (k + 1)) / log(range_max + 1)``; draws are with
    replacement. The expected counts are those among ``num_sampled`` draws.
    """
    context = as_context(ctx)
    whole = math.log(range_max + 1)
    drawn = uniform(0, whole, shape=(num_sampled,), dtype="float64", ctx=context)
    classes = (drawn.exp() - 1).astype("int64") % range_max

    def expected_counts(of: NDArray) -> NDArray:
        numbers = of.as_in_context(context).astype("float64")
        return ((numbers + 2) / (numbers + 1)).log() * (num_sampled / whole)

    return classes, expected_counts(true_classes), expected_counts(classes)


if TYPE_CHECKING:
    from .random_like import *  # noqa: F403
else:

    def __getattr__(name: str) -> Any:
        if name.endswith("_like") and f"_random_{name}" in REGISTRY:
            return function_of(REGISTRY[f"_random_{name}"], name)
        if name.startswith("__"):
            raise AttributeError(name)
        raise AttributeError(f"module 'phonograd.nd.random' has no attribute {name!r}{nearest(name, __all__)}")
