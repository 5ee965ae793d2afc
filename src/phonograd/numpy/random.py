"""np.random: arrays of random numbers, with NumPy's names and arguments.

All numbers come from the stream of :mod:`phonograd.core.trace.rng`, seeded by ``npx.random.seed``. Parameters are
numbers or arrays that broadcast. Gradients pass through the samples to array parameters, except to the shape
parameter of gamma distributions.
"""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.array.binary import Numbers
from ..core.array.call import function_of
from ..core.array.handle import as_class
from ..core.array.values import naming_itself
from ..core.base.devices import Context, as_context
from ..core.base.dtypes import FLOAT32, kind_of, promote
from ..core.base.errors import nearest
from ..core.graph.operator import REGISTRY
from ..core.trace.rng import seed
from ..ndarray.array import NDArray
from .creation import array
from .documentation import complete_all
from .multiarray import ndarray

__all__ = [
    "beta",
    "chisquare",
    "choice",
    "exponential",
    "gamma",
    "gumbel",
    "laplace",
    "logistic",
    "lognormal",
    "multinomial",
    "multivariate_normal",
    "normal",
    "pareto",
    "permutation",
    "poisson",
    "power",
    "rand",
    "randint",
    "randn",
    "rayleigh",
    "seed",
    "shuffle",
    "uniform",
    "weibull",
]


def _call(name: str, *arrays: Any, **parameters: Any) -> Any:
    return function_of(REGISTRY[name], name)(*arrays, **parameters)


def _reshape(a: Any, shape: tuple[int, ...]) -> Any:
    return a if a.shape == shape else _call("_reshape", a, shape=shape)


def _shape_of(size: Any) -> tuple[int, ...]:
    """Convert a size to a shape; None means one number."""
    if size is None:
        return ()
    return (int(size),) if isinstance(size, (int, np.integer)) else tuple([operator.index(extent) for extent in size])


def _as_parameter(value: Any, ctx: Any) -> Any:
    """Convert a parameter to a number or an mx.np array."""
    if isinstance(value, (NDArray, *Numbers)):
        return value
    return array(value, dtype="float32", ctx=ctx)


def draw(kind: str, size: Any, parameters: tuple[Any, ...] = (), ctx: Any = None, dtype: Any = None) -> ndarray:
    """Draw from a standard distribution, in the given size or in the shape that the parameters broadcast to."""
    arrays = [value for value in parameters if isinstance(value, NDArray)]
    own = np.broadcast_shapes(*[value.shape for value in arrays])
    shape = own if size is None else _shape_of(size)
    if arrays:
        if np.broadcast_shapes(own, shape) != shape:
            raise ValueError(f"parameters of shape {own} do not broadcast to size {shape}")
        ctx = arrays[0].context
        if dtype is None:
            dtype = promote(*[value._dtype for value in arrays if kind_of(value._dtype) == "f"] or [FLOAT32])
    made = _call(f"_random_{kind}", shape=shape, dtype=dtype, ctx=as_context(ctx))
    return as_class(made, ndarray)


def _return_or_write(result: Any, out: Any) -> Any:
    """Return the result, or ``out`` after writing the result to it."""
    if out is None:
        return result
    out[...] = result
    return out


def _are_numbers(*parameters: Any) -> bool:
    return all([isinstance(value, Numbers) for value in parameters])


def uniform(
    low: Any = 0.0,
    high: Any = 1.0,
    size: Any = None,
    dtype: Any = None,
    ctx: Context | None = None,
    out: Any = None,
) -> ndarray:
    """Draw numbers uniformly from [low, high).

    >>> uniform(size=(2, 3)).shape, uniform().shape
    ((2, 3), ())
    """
    low, high = _as_parameter(low, ctx), _as_parameter(high, ctx)
    if _are_numbers(low, high):
        made = _call("_random_uniform", low=low, high=high, shape=_shape_of(size), dtype=dtype, ctx=as_context(ctx))
        return _return_or_write(as_class(made, ndarray), out)
    return _return_or_write(low + (high - low) * draw("uniform", size, (low, high), ctx, dtype), out)


def normal(
    loc: Any = 0.0,
    scale: Any = 1.0,
    size: Any = None,
    dtype: Any = None,
    ctx: Context | None = None,
    out: Any = None,
) -> ndarray:
    """Draw from the normal distribution with mean loc and standard deviation scale."""
    loc, scale = _as_parameter(loc, ctx), _as_parameter(scale, ctx)
    if _are_numbers(loc, scale) and scale > 0:
        made = _call("_random_normal", loc=loc, scale=scale, shape=_shape_of(size), dtype=dtype, ctx=as_context(ctx))
        return _return_or_write(as_class(made, ndarray), out)
    return _return_or_write(loc + scale * draw("normal", size, (loc, scale), ctx, dtype), out)


def rand(*size: int, **kwargs: Any) -> ndarray:
    """Draw numbers uniformly from [0, 1), in the given shape."""
    return uniform(size=size, **kwargs)


def randn(*size: int, **kwargs: Any) -> ndarray:
    """Draw from the standard normal distribution, in the given shape."""
    return normal(size=size, **kwargs)


def lognormal(
    mean: Any = 0.0,
    sigma: Any = 1.0,
    size: Any = None,
    dtype: Any = None,
    ctx: Context | None = None,
    out: Any = None,
) -> ndarray:
    """Draw from the log-normal distribution."""
    return _return_or_write(_call("exp", normal(mean, sigma, size, dtype, ctx)), out)


def exponential(scale: Any = 1.0, size: Any = None, ctx: Context | None = None, out: Any = None) -> ndarray:
    """Draw from the exponential distribution with mean scale."""
    scale = _as_parameter(scale, ctx)
    return _return_or_write(scale * draw("exponential", size, (scale,), ctx), out)


def rayleigh(scale: Any = 1.0, size: Any = None, ctx: Context | None = None, out: Any = None) -> ndarray:
    """Draw from the Rayleigh distribution with the given scale."""
    scale = _as_parameter(scale, ctx)
    return _return_or_write(scale * _call("sqrt", 2 * draw("exponential", size, (scale,), ctx)), out)


def weibull(a: Any, size: Any = None, ctx: Context | None = None, out: Any = None) -> ndarray:
    """Draw from the Weibull distribution with shape a and scale 1."""
    a = _as_parameter(a, ctx)
    return _return_or_write(draw("exponential", size, (a,), ctx) ** (1 / a), out)


def pareto(a: Any, size: Any = None, ctx: Context | None = None, out: Any = None) -> ndarray:
    """Draw from the Pareto distribution of the second kind (Lomax) with shape a."""
    a = _as_parameter(a, ctx)
    return _return_or_write(_call("expm1", draw("exponential", size, (a,), ctx) / a), out)


def power(a: Any, size: Any = None, ctx: Context | None = None, out: Any = None) -> ndarray:
    """Draw numbers in [0, 1] with density a * x**(a - 1)."""
    a = _as_parameter(a, ctx)
    return _return_or_write(_call("exp", draw("exponential", size, (a,), ctx) / -a), out)


def gumbel(loc: Any = 0.0, scale: Any = 1.0, size: Any = None, ctx: Context | None = None, out: Any = None) -> ndarray:
    """Draw from the Gumbel distribution."""
    loc, scale = _as_parameter(loc, ctx), _as_parameter(scale, ctx)
    return _return_or_write(loc - scale * _call("log", draw("exponential", size, (loc, scale), ctx)), out)


def logistic(
    loc: Any = 0.0, scale: Any = 1.0, size: Any = None, ctx: Context | None = None, out: Any = None
) -> ndarray:
    """Draw from the logistic distribution."""
    loc, scale = _as_parameter(loc, ctx), _as_parameter(scale, ctx)
    # the log odds of a uniform number, computed from an exponential one
    return _return_or_write(
        loc + scale * _call("log", _call("expm1", draw("exponential", size, (loc, scale), ctx))), out
    )


def laplace(
    loc: Any = 0.0,
    scale: Any = 1.0,
    size: Any = None,
    dtype: Any = None,
    ctx: Context | None = None,
    out: Any = None,
) -> ndarray:
    """Draw from the Laplace (double exponential) distribution."""
    loc, scale = _as_parameter(loc, ctx), _as_parameter(scale, ctx)
    first, second = (draw("exponential", size, (loc, scale), ctx, dtype) for _ in range(2))
    return _return_or_write(loc + scale * (first - second), out)


def gamma(
    shape: Any,
    scale: Any = 1.0,
    size: Any = None,
    dtype: Any = None,
    ctx: Context | None = None,
    out: Any = None,
) -> ndarray:
    """Draw from the gamma distribution with the given shape parameter and scale."""
    shape, scale = _as_parameter(shape, ctx), _as_parameter(scale, ctx)
    if not isinstance(shape, NDArray):
        extents = scale.shape if size is None and isinstance(scale, NDArray) else _shape_of(size)
        made = _call("_random_gamma", alpha=shape, beta=1.0, shape=extents, dtype=dtype, ctx=as_context(ctx))
        return _return_or_write(as_class(made, ndarray) * scale, out)
    other = scale.shape if isinstance(scale, NDArray) else ()
    extents = np.broadcast_shapes(shape.shape, other) if size is None else _shape_of(size)
    alpha = shape.astype(dtype or "float32", copy=False).broadcast_to(extents)
    return _return_or_write(_call("_sample_gamma", alpha, alpha * 0 + 1, dtype=dtype or "float32") * scale, out)


def chisquare(df: Any, size: Any = None, dtype: Any = None, ctx: Context | None = None) -> ndarray:
    """Draw from the chi-squared distribution with df degrees of freedom."""
    return gamma(_as_parameter(df, ctx) / 2, 2.0, size, dtype, ctx)


def beta(a: Any, b: Any, size: Any = None, dtype: Any = None, ctx: Context | None = None) -> ndarray:
    """Draw from the beta distribution."""
    a, b = _as_parameter(a, ctx), _as_parameter(b, ctx)
    if size is None:
        size = np.broadcast_shapes(*[value.shape for value in (a, b) if isinstance(value, NDArray)])
    first, second = gamma(a, 1.0, size, dtype, ctx), gamma(b, 1.0, size, dtype, ctx)
    return first / (first + second)


def poisson(lam: Any = 1.0, size: Any = None, ctx: Context | None = None, out: Any = None) -> ndarray:
    """Draw integers from the Poisson distribution with mean lam."""
    lam = _as_parameter(lam, ctx)
    if _are_numbers(lam):
        made = _call("_random_poisson", lam=lam, shape=_shape_of(size), ctx=as_context(ctx))
    else:
        made = _call("_sample_poisson", lam.broadcast_to(lam.shape if size is None else _shape_of(size)))
    return _return_or_write(as_class(made, ndarray), out)


def randint(
    low: int,
    high: int | None = None,
    size: Any = None,
    dtype: Any = None,
    ctx: Context | None = None,
    out: Any = None,
) -> ndarray:
    """Draw integers from [low, high), or from [0, low) if only one bound is given; int64 unless a dtype is given."""
    if high is None:
        low, high = 0, low
    made = _call(
        "_random_randint", low=low, high=high, shape=_shape_of(size), dtype=dtype or "int64", ctx=as_context(ctx)
    )
    return _return_or_write(as_class(made, ndarray), out)


def shuffle(x: ndarray) -> None:
    """Shuffle the rows of an array (along its first axis) in place."""
    x[...] = _call("_shuffle", x)


@naming_itself
def permutation(x: Any, ctx: Context | None = None) -> ndarray:
    """Return the integers below x in random order, or a copy of an array with its rows in random order."""
    if isinstance(x, (int, np.integer)):
        return _call("_shuffle", array(np.arange(int(x)), ctx=ctx))
    return _call("_shuffle", x if isinstance(x, NDArray) else array(x, ctx=ctx))


def choice(
    a: Any,
    size: Any = None,
    replace: bool = True,
    p: Any = None,
    ctx: Context | None = None,
    out: Any = None,
) -> ndarray:
    """Draw elements of an array, or integers below a.

    Parameters
    ----------
    a
        A number, or an array to draw rows from.
    size
        The shape of the result.
    replace
        True if an element may be drawn more than once.
    p
        The probability of each element; None means equal probabilities.
    """
    values = None if isinstance(a, (int, np.integer)) else a if isinstance(a, NDArray) else array(a, ctx=ctx)
    count = int(a) if values is None else values.shape[0]
    extents = _shape_of(size)
    weights = None if p is None else _as_parameter(p, ctx)
    if weights is not None and weights.shape != (count,):
        raise ValueError(f"'a' and 'p' must have same size: there are {count} choices and p has shape {weights.shape}")
    if not replace:
        index = _reshape(_draw_without_replacement(count, math.prod(extents), weights, ctx), extents)
    elif weights is None:
        index = randint(0, count, extents, ctx=ctx)
    else:
        index = _reshape(_call("_sample_multinomial", weights, shape=extents or 1), extents).astype("int64")
    return _return_or_write(index if values is None else values[index], out)


def _draw_without_replacement(count: int, number: int, weights: Any, ctx: Any) -> ndarray:
    if number > count:
        raise ValueError(f"Cannot take a larger sample than population when 'replace=False': {number} of {count}")
    if weights is None:
        return _call("slice_axis", permutation(count, ctx), axis=0, begin=0, end=number)
    # exponential race: the elements with the smallest arrival times win
    times = draw("exponential", count, ctx=weights.context) / weights
    return _call("slice_axis", _call("argsort", times, dtype="int64"), axis=0, begin=0, end=number)


def multinomial(n: int, pvals: Any, size: Any = None, **kwargs: Any) -> ndarray:
    """Return the count of each outcome in n experiments with probabilities pvals."""
    weights = _as_parameter(pvals, kwargs.pop("ctx", None))
    if kwargs:
        raise TypeError(f"multinomial got an unexpected keyword argument {next(iter(kwargs))!r}")
    extents = _shape_of(size)
    total = math.prod(extents)
    outcomes = _call("_sample_multinomial", weights.astype("float64"), shape=(total, int(n)))
    counts = _call("sum", _call("one_hot", outcomes, depth=weights.shape[0], dtype="int64"), axis=1)
    return _reshape(counts, (*extents, weights.shape[0]))


def multivariate_normal(
    mean: Any, cov: Any, size: Any = None, check_valid: str | None = None, tol: float | None = None
) -> ndarray:
    """Draw from the multivariate normal distribution; the covariance matrix is not checked."""
    from . import linalg

    middle, matrix = _as_parameter(mean, None), _as_parameter(cov, None)
    values, vectors = linalg.eigh(matrix)
    scaled = vectors * _call("sqrt", _call("relu", values))
    numbers = draw("normal", (*_shape_of(size), *middle.shape), ctx=middle.context)
    return _call("dot", numbers, scaled, transpose_b=True) + middle


complete_all(globals(), __all__)

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise AttributeError(f"module 'phonograd.np.random' has no attribute {name!r}{nearest(name, __all__)}")
