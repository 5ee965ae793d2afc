"""sym.random: symbols of random draws; the parameters of distributions are numbers or symbols."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.array.call import NULL as NOT_GIVEN
from ..core.base.dtypes import name_of
from ..core.base.errors import nearest
from ..core.graph.operator import REGISTRY
from .build import build, function_of
from .entry import text_of
from .graph import Symbol

__all__ = [
    "exponential",
    "gamma",
    "generalized_negative_binomial",
    "multinomial",
    "negative_binomial",
    "normal",
    "poisson",
    "rand_zipfian",
    "randint",
    "randn",
    "shuffle",
    "uniform",
]

_NUMBERS = (int, float, np.number)


def _draw(kind: str, parameters: dict[str, Any], shape: Any, dtype: Any, options: dict[str, Any]) -> Symbol:
    """Return draws by the operator for scalar parameters or the one for arrays, as the parameters require."""
    values = list(parameters.values())
    of_symbols = isinstance(values[0], Symbol)
    for value in values:
        if not isinstance(value, (Symbol, *_NUMBERS)):
            raise ValueError(f"Distribution parameters must be either Symbol or numbers, but got {type(value)}.")
        if isinstance(value, Symbol) is not of_symbols:
            raise AssertionError(
                f"Distribution parameters must all have the same type, but got both {type(values[0])} and "
                f"{type(value)}."
            )
    texts = {} if of_symbols else {key: text_of(value) for key, value in parameters.items()}
    if shape is not NOT_GIVEN and shape is not None:
        texts["shape"] = text_of(shape)
    if dtype is not NOT_GIVEN and dtype is not None:
        texts["dtype"] = name_of(dtype)
    operator = f"_sample_{kind}" if of_symbols else f"_random_{kind}"
    name, attr = options.pop("name", None), options.pop("attr", None)
    options.pop("ctx", None)
    texts.update({key: text_of(value) for key, value in options.items()})
    return build(operator, operator, values if of_symbols else [], texts, name, attr)


def uniform(low: Any = 0, high: Any = 1, shape: Any = NOT_GIVEN, dtype: Any = NOT_GIVEN, **kwargs: Any) -> Symbol:
    """Return draws from the uniform distribution on [low, high)."""
    return _draw("uniform", {"low": low, "high": high}, shape, dtype, kwargs)


def normal(loc: Any = 0, scale: Any = 1, shape: Any = NOT_GIVEN, dtype: Any = NOT_GIVEN, **kwargs: Any) -> Symbol:
    """Return draws from normal distributions with mean ``loc`` and standard deviation ``scale``."""
    return _draw("normal", {"loc": loc, "scale": scale}, shape, dtype, kwargs)


def randn(*shape: int, **kwargs: Any) -> Symbol:
    """Return draws from a normal distribution; the arguments give the shape."""
    loc, scale = kwargs.pop("loc", 0), kwargs.pop("scale", 1)
    return normal(loc, scale, shape or NOT_GIVEN, kwargs.pop("dtype", NOT_GIVEN), **kwargs)


def poisson(lam: Any = 1, shape: Any = NOT_GIVEN, dtype: Any = NOT_GIVEN, **kwargs: Any) -> Symbol:
    """Return draws from Poisson distributions with mean ``lam``."""
    return _draw("poisson", {"lam": lam}, shape, dtype, kwargs)


def exponential(scale: Any = 1, shape: Any = NOT_GIVEN, dtype: Any = NOT_GIVEN, **kwargs: Any) -> Symbol:
    """Return draws from exponential distributions with mean ``scale``."""
    return _draw("exponential", {"lam": 1.0 / scale}, shape, dtype, kwargs)


def gamma(alpha: Any = 1, beta: Any = 1, shape: Any = NOT_GIVEN, dtype: Any = NOT_GIVEN, **kwargs: Any) -> Symbol:
    """Return draws from gamma distributions with shape ``alpha`` and scale ``beta``."""
    return _draw("gamma", {"alpha": alpha, "beta": beta}, shape, dtype, kwargs)


def negative_binomial(k: Any = 1, p: Any = 1, shape: Any = NOT_GIVEN, dtype: Any = NOT_GIVEN, **kwargs: Any) -> Symbol:
    """Return numbers of failures before the ``k``-th success, with success probability ``p``."""
    return _draw("negative_binomial", {"k": k, "p": p}, shape, dtype, kwargs)


def generalized_negative_binomial(
    mu: Any = 1, alpha: Any = 1, shape: Any = NOT_GIVEN, dtype: Any = NOT_GIVEN, **kwargs: Any
) -> Symbol:
    """Return draws from negative binomial distributions with mean ``mu`` and dispersion ``alpha``."""
    return _draw("generalized_negative_binomial", {"mu": mu, "alpha": alpha}, shape, dtype, kwargs)


def randint(low: int, high: int, shape: Any = NOT_GIVEN, dtype: Any = NOT_GIVEN, **kwargs: Any) -> Symbol:
    """Return integers drawn uniformly from [low, high)."""
    return _draw("randint", {"low": low, "high": high}, shape, dtype, kwargs)


def multinomial(
    data: Symbol, shape: Any = NOT_GIVEN, get_prob: bool = True, dtype: Any = "int32", **kwargs: Any
) -> Symbol:
    """Return indices drawn with the probabilities in each row of ``data``.

    With ``get_prob``, return the logarithm of the probability of each draw too.
    """
    texts = {"get_prob": str(get_prob), "dtype": name_of(dtype)}
    if shape is not NOT_GIVEN and shape is not None:
        texts["shape"] = text_of(shape)
    name, attr = kwargs.pop("name", None), kwargs.pop("attr", None)
    return build("_sample_multinomial", "_sample_multinomial", [data], {**texts, **kwargs}, name, attr)


def shuffle(data: Symbol, **kwargs: Any) -> Symbol:
    """Return the array with its rows in random order."""
    shuffled: Symbol = function_of(REGISTRY["_shuffle"], "_shuffle")(data, **kwargs)
    return shuffled


def rand_zipfian(true_classes: Symbol, num_sampled: int, range_max: int) -> tuple[Symbol, Symbol, Symbol]:
    """Return classes from an approximately Zipfian distribution, and expected counts of true and drawn classes.

    Class k of ``range_max`` has probability ``log((k + 2) / (k + 1)) / log(range_max + 1)``; draws are with
    replacement. The expected counts refer to ``num_sampled`` draws.
    """
    whole = math.log(range_max + 1)
    drawn = uniform(0, whole, shape=(num_sampled,), dtype="float64")
    classes = (drawn.exp() - 1).astype("int64") % range_max

    def expected_count(of: Symbol) -> Symbol:
        numbers = of.astype("float64")
        return ((numbers + 2) / (numbers + 1)).log() * (num_sampled / whole)

    return classes, expected_count(true_classes), expected_count(classes)


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
        raise AttributeError(f"module 'phonograd.sym.random' has no attribute {name!r}{nearest(name, __all__)}")
