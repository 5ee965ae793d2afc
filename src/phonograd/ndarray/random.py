"""nd.random: draw numbers from distributions. Each element of an array parameter gets its own draws.

All numbers come from one counter-based stream (:mod:`phonograd.core.trace.rng`): the same seed gives the same numbers,
regardless of the program's other computations.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.array.binary import Numbers
from ..core.array.call import NULL, function_of
from ..core.base.devices import Context, as_context
from ..core.base.errors import MXNetError, nearest
from ..core.graph.operator import REGISTRY
from .array import NDArray

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

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
    low: float | NDArray = 0,
    high: float | NDArray = 1,
    shape: int | Sequence[int] | None = NULL,
    dtype: DTypeLike | None = NULL,
    ctx: Context | None = None,
    out: NDArray | None = None,
    **kwargs: Any,
) -> NDArray:
    """Return numbers drawn uniformly from [low, high).

    Parameters
    ----------
    low
        The lower limit: a number, or an array with one limit for each distribution.
    high
        The upper limit, which is excluded.
    shape
        The extents of the result; with arrays as parameters, the extents of the draws for each element.
    dtype
        The dtype of the result; float32 by default.
    ctx
        The device of the result; by default the current one.
    out
        An array that receives the result.
    **kwargs
        ``name``, which arrays ignore.

    Examples
    --------
    >>> x = mx.nd.random.uniform(-1, 1, shape=(2, 3))
    >>> x.shape, bool((x.abs() <= 1).min())
    ((2, 3), True)
    """
    return _draw("uniform", {"low": low, "high": high}, shape, dtype, ctx, out, kwargs)


def normal(
    loc: float | NDArray = 0,
    scale: float | NDArray = 1,
    shape: int | Sequence[int] | None = NULL,
    dtype: DTypeLike | None = NULL,
    ctx: Context | None = None,
    out: NDArray | None = None,
    **kwargs: Any,
) -> NDArray:
    """Return numbers drawn from normal distributions with mean ``loc`` and standard deviation ``scale``.

    Parameters
    ----------
    loc
        The mean: a number, or an array with one mean for each distribution.
    scale
        The standard deviation, a number or an array like `loc`.
    shape
        The extents of the result; with arrays as parameters, the extents of the draws for each element.
    dtype
        The dtype of the result; float32 by default.
    ctx
        The device of the result; by default the current one.
    out
        An array that receives the result.
    **kwargs
        ``name``, which arrays ignore.

    Examples
    --------
    >>> mx.nd.random.normal(0, 1, shape=(2, 3)).shape
    (2, 3)
    >>> mx.nd.random.normal(mx.nd.array([0, 100]), mx.nd.array([1, 1]), shape=4).shape
    (2, 4)
    """
    names = {"loc": "mu", "scale": "sigma"}
    return _draw("normal", {"loc": loc, "scale": scale}, shape, dtype, ctx, out, kwargs, names)


def randn(*shape: int, **kwargs: Any) -> NDArray:
    """Return numbers drawn from a normal distribution in the given shape.

    Parameters
    ----------
    *shape
        The extents of the result, one argument for each axis.
    **kwargs
        ``loc``, ``scale``, ``dtype``, ``ctx`` and ``out``; see :func:`normal`.

    Examples
    --------
    >>> mx.nd.random.randn(2, 3).shape
    (2, 3)
    """
    loc, scale = kwargs.pop("loc", 0), kwargs.pop("scale", 1)
    return normal(loc, scale, shape or 1, kwargs.pop("dtype", NULL), **kwargs)


def exponential(
    scale: float | NDArray = 1,
    shape: int | Sequence[int] | None = NULL,
    dtype: DTypeLike | None = NULL,
    ctx: Context | None = None,
    out: NDArray | None = None,
    **kwargs: Any,
) -> NDArray:
    """Return numbers drawn from exponential distributions with mean ``scale``.

    Parameters
    ----------
    scale
        The mean: a number, or an array with one mean for each distribution.
    shape
        The extents of the result; with arrays as parameters, the extents of the draws for each element.
    dtype
        The dtype of the result; float32 by default.
    ctx
        The device of the result; by default the current one.
    out
        An array that receives the result.
    **kwargs
        ``name``, which arrays ignore.

    Examples
    --------
    >>> mx.nd.random.exponential(2, shape=3).shape
    (3,)
    """
    return _draw("exponential", {"lam": 1.0 / scale}, shape, dtype, ctx, out, kwargs)


def poisson(
    lam: float | NDArray = 1,
    shape: int | Sequence[int] | None = NULL,
    dtype: DTypeLike | None = NULL,
    ctx: Context | None = None,
    out: NDArray | None = None,
    **kwargs: Any,
) -> NDArray:
    """Return counts drawn from Poisson distributions with mean ``lam``.

    Parameters
    ----------
    lam
        The mean: a number, or an array with one mean for each distribution.
    shape
        The extents of the result; with arrays as parameters, the extents of the draws for each element.
    dtype
        The dtype of the result; float32 by default.
    ctx
        The device of the result; by default the current one.
    out
        An array that receives the result.
    **kwargs
        ``name``, which arrays ignore.

    Examples
    --------
    >>> mx.nd.random.poisson(4, shape=(2, 2)).shape
    (2, 2)
    """
    return _draw("poisson", {"lam": lam}, shape, dtype, ctx, out, kwargs)


def gamma(
    alpha: float | NDArray = 1,
    beta: float | NDArray = 1,
    shape: int | Sequence[int] | None = NULL,
    dtype: DTypeLike | None = NULL,
    ctx: Context | None = None,
    out: NDArray | None = None,
    **kwargs: Any,
) -> NDArray:
    """Return numbers drawn from gamma distributions with shape ``alpha`` and scale ``beta``.

    Parameters
    ----------
    alpha
        The shape of the distribution: a number, or an array with one for each distribution.
    beta
        The scale, a number or an array like `alpha`.
    shape
        The extents of the result; with arrays as parameters, the extents of the draws for each element.
    dtype
        The dtype of the result; float32 by default.
    ctx
        The device of the result; by default the current one.
    out
        An array that receives the result.
    **kwargs
        ``name``, which arrays ignore.

    Examples
    --------
    >>> mx.nd.random.gamma(9, 0.5, shape=3).shape
    (3,)
    """
    return _draw("gamma", {"alpha": alpha, "beta": beta}, shape, dtype, ctx, out, kwargs)


def negative_binomial(
    k: float | NDArray = 1,
    p: float | NDArray = 1,
    shape: int | Sequence[int] | None = NULL,
    dtype: DTypeLike | None = NULL,
    ctx: Context | None = None,
    out: NDArray | None = None,
    **kwargs: Any,
) -> NDArray:
    """Return the number of failures before the ``k``-th success in trials with success probability ``p``.

    Parameters
    ----------
    k
        The number of successes: a number, or an array with one for each distribution.
    p
        The probability of a success, a number or an array like `k`.
    shape
        The extents of the result; with arrays as parameters, the extents of the draws for each element.
    dtype
        The dtype of the result; float32 by default.
    ctx
        The device of the result; by default the current one.
    out
        An array that receives the result.
    **kwargs
        ``name``, which arrays ignore.

    Examples
    --------
    >>> mx.nd.random.negative_binomial(3, 0.4, shape=3).shape
    (3,)
    """
    return _draw("negative_binomial", {"k": k, "p": p}, shape, dtype, ctx, out, kwargs)


def generalized_negative_binomial(
    mu: float | NDArray = 1,
    alpha: float | NDArray = 1,
    shape: int | Sequence[int] | None = NULL,
    dtype: DTypeLike | None = NULL,
    ctx: Context | None = None,
    out: NDArray | None = None,
    **kwargs: Any,
) -> NDArray:
    """Return counts drawn from negative binomial distributions with mean ``mu`` and dispersion ``alpha``.

    Parameters
    ----------
    mu
        The mean: a number, or an array with one mean for each distribution.
    alpha
        The dispersion, a number or an array like `mu`.
    shape
        The extents of the result; with arrays as parameters, the extents of the draws for each element.
    dtype
        The dtype of the result; float32 by default.
    ctx
        The device of the result; by default the current one.
    out
        An array that receives the result.
    **kwargs
        ``name``, which arrays ignore.

    Examples
    --------
    >>> mx.nd.random.generalized_negative_binomial(2, 0.3, shape=3).shape
    (3,)
    """
    return _draw("generalized_negative_binomial", {"mu": mu, "alpha": alpha}, shape, dtype, ctx, out, kwargs)


def randint(
    low: int,
    high: int,
    shape: int | Sequence[int] | None = NULL,
    dtype: DTypeLike | None = NULL,
    ctx: Context | None = None,
    out: NDArray | None = None,
    **kwargs: Any,
) -> NDArray:
    """Return integers drawn uniformly from low, ..., high - 1.

    Parameters
    ----------
    low
        The smallest integer.
    high
        The end, which is excluded.
    shape
        The extents of the result, or one extent.
    dtype
        The dtype of the result: 'int32' by default, or 'int64'.
    ctx
        The device of the result; by default the current one.
    out
        An array that receives the result.
    **kwargs
        ``name``, which arrays ignore.

    Examples
    --------
    >>> x = mx.nd.random.randint(0, 10, shape=(2, 3))
    >>> x.dtype, bool((x < 10).min())
    (<class 'numpy.int32'>, True)
    """
    for bound in (low, high):
        if not isinstance(bound, Numbers):
            raise TypeError(f"the bounds of randint must be integers, not {type(bound)}")
    return _draw("randint", {"low": low, "high": high}, shape, dtype, ctx, out, kwargs)


def multinomial(
    data: NDArray,
    shape: int | Sequence[int] | None = NULL,
    get_prob: bool = False,
    out: NDArray | None = None,
    dtype: DTypeLike = "int32",
    **kwargs: Any,
) -> Any:
    """Return indices drawn with the probabilities in each row of ``data``.

    With ``get_prob``, also return the log-probability of each draw.

    Parameters
    ----------
    data
        Probabilities; each row (the last axis) sums to 1.
    shape
        The extents of the draws from each row; one draw by default.
    get_prob
        Whether to return log-probabilities, too.
    out
        An array that receives the result.
    dtype
        The dtype of the indices.
    **kwargs
        ``name``, which arrays ignore.

    Examples
    --------
    >>> mx.nd.random.multinomial(mx.nd.array([[0, 1, 0], [1, 0, 0]]), shape=2).asnumpy()
    array([[1, 1],
           [0, 0]], dtype=int32)
    """
    if shape is not NULL and shape is not None:
        kwargs["shape"] = _check_shape(shape, "multinomial")
    function = function_of(REGISTRY["_sample_multinomial"], "multinomial")
    return function(data, get_prob=get_prob, dtype=dtype, out=out, **kwargs)


def shuffle(data: NDArray, **kwargs: Any) -> NDArray:
    """Return the array with its rows in random order.

    Parameters
    ----------
    data
        The array; its first axis is shuffled.
    **kwargs
        ``out``, an array that receives the result, and ``name``, which arrays ignore.

    Examples
    --------
    >>> sorted(mx.nd.random.shuffle(mx.nd.arange(4)).asnumpy().tolist())
    [0.0, 1.0, 2.0, 3.0]
    """
    return function_of(REGISTRY["_shuffle"], "shuffle")(data, **kwargs)  # type: ignore[no-any-return]


def rand_zipfian(
    true_classes: NDArray, num_sampled: int, range_max: int, ctx: Context | None = None
) -> tuple[NDArray, NDArray, NDArray]:
    """Return classes from an approximately Zipfian distribution, and expected counts of true and drawn classes.

    Class k of ``range_max`` is drawn with probability ``log((k + 2) / (k + 1)) / log(range_max + 1)``; draws are with
    replacement. The expected counts are those among ``num_sampled`` draws.

    Parameters
    ----------
    true_classes
        The classes whose counts are expected.
    num_sampled
        The number of draws.
    range_max
        The number of classes.
    ctx
        The device of the result; by default the current one.

    Examples
    --------
    >>> drawn, true, expected = mx.nd.contrib.rand_zipfian(mx.nd.array([3]), 4, 5)
    >>> drawn.shape, true.round().asnumpy(), expected.shape
    ((4,), array([0.]), (4,))
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
    from . import random_like
    from .random_like import *  # noqa: F403

    __all__ += random_like.__all__
else:

    def __getattr__(name: str) -> Any:
        if name.endswith("_like") and f"_random_{name}" in REGISTRY:
            return function_of(REGISTRY[f"_random_{name}"], name)
        if name.startswith("__"):
            raise AttributeError(name)
        raise AttributeError(f"module 'phonograd.nd.random' has no attribute {name!r}{nearest(name, __all__)}")
