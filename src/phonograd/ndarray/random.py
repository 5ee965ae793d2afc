"""nd.random: numbers drawn from distributions. Parameters are numbers, or arrays (then one draw per element or more).

All numbers come from one counter-based stream (:mod:`phonograd.streams`): the same seed gives the same numbers, whatever
else the program computes.
"""

from __future__ import annotations

from typing import Any

from ..context import Context
from ..operator import REGISTRY
from .array import NDArray
from .call import NULL, Numbers, function_of

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


def _draw(
    kind: str, parameters: dict[str, Any], shape: Any, dtype: Any, ctx: Context | None, out: Any, sample: dict[str, str]
) -> NDArray:
    """Return draws by the operator for numbers or the one for arrays, whichever the parameters are."""
    values = list(parameters.values())
    if all(isinstance(value, NDArray) for value in values):
        declared = REGISTRY[f"_sample_{kind}"]
        keywords: dict[str, Any] = {sample.get(name, name): value for name, value in parameters.items()}
        if shape is not NULL and shape is not None:
            keywords["shape"] = shape
        if dtype is not NULL and dtype is not None:
            keywords["dtype"] = dtype
        return function_of(declared, kind)(**keywords, out=out)  # type: ignore[no-any-return]
    if not all(isinstance(value, Numbers) for value in values):
        wrong = next(v for v in values if not isinstance(v, (NDArray, *Numbers)) or isinstance(v, NDArray))
        raise ValueError(f"Distribution parameters must be either all NDArrays or all numbers, but got {type(wrong)}.")
    if shape is NULL or shape is None:
        shape = out.shape if isinstance(out, NDArray) else 1
    keywords = {**parameters, "shape": shape}
    if dtype is not NULL and dtype is not None:
        keywords["dtype"] = dtype
    return function_of(REGISTRY[f"_random_{kind}"], kind)(**keywords, ctx=ctx, out=out)  # type: ignore[no-any-return]


def uniform(
    low: Any = 0, high: Any = 1, shape: Any = NULL, dtype: Any = NULL, ctx: Any = None, out: Any = None, **kwargs: Any
) -> NDArray:
    """Return numbers drawn evenly from [low, high)."""
    return _draw("uniform", {"low": low, "high": high}, shape, dtype, ctx, out, {})


def normal(
    loc: Any = 0, scale: Any = 1, shape: Any = NULL, dtype: Any = NULL, ctx: Any = None, out: Any = None, **kwargs: Any
) -> NDArray:
    """Return numbers drawn from normal distributions with mean ``loc`` and standard deviation ``scale``."""
    return _draw("normal", {"loc": loc, "scale": scale}, shape, dtype, ctx, out, {"loc": "mu", "scale": "sigma"})


def randn(*shape: int, **kwargs: Any) -> NDArray:
    """Return numbers drawn from a normal distribution; the shape is given by the arguments."""
    loc, scale = kwargs.pop("loc", 0), kwargs.pop("scale", 1)
    return normal(loc, scale, shape or 1, kwargs.pop("dtype", NULL), **kwargs)


def exponential(
    scale: Any = 1, shape: Any = NULL, dtype: Any = NULL, ctx: Any = None, out: Any = None, **kwargs: Any
) -> NDArray:
    """Return numbers drawn from exponential distributions with mean ``scale``."""
    if isinstance(scale, NDArray):
        return _draw("exponential", {"lam": 1.0 / scale}, shape, dtype, ctx, out, {})
    return _draw("exponential", {"lam": 1.0 / scale}, shape, dtype, ctx, out, {})


def poisson(
    lam: Any = 1, shape: Any = NULL, dtype: Any = NULL, ctx: Any = None, out: Any = None, **kwargs: Any
) -> NDArray:
    """Return counts drawn from Poisson distributions with mean ``lam``."""
    return _draw("poisson", {"lam": lam}, shape, dtype, ctx, out, {})


def gamma(
    alpha: Any = 1, beta: Any = 1, shape: Any = NULL, dtype: Any = NULL, ctx: Any = None, out: Any = None, **kwargs: Any
) -> NDArray:
    """Return numbers drawn from gamma distributions with shape ``alpha`` and scale ``beta``."""
    return _draw("gamma", {"alpha": alpha, "beta": beta}, shape, dtype, ctx, out, {})


def negative_binomial(
    k: Any = 1, p: Any = 1, shape: Any = NULL, dtype: Any = NULL, ctx: Any = None, out: Any = None, **kwargs: Any
) -> NDArray:
    """Return the numbers of failures before the ``k``-th success of trials that succeed with probability ``p``."""
    return _draw("negative_binomial", {"k": k, "p": p}, shape, dtype, ctx, out, {})


def generalized_negative_binomial(
    mu: Any = 1, alpha: Any = 1, shape: Any = NULL, dtype: Any = NULL, ctx: Any = None, out: Any = None, **kwargs: Any
) -> NDArray:
    """Return counts with mean ``mu`` and dispersion ``alpha``."""
    return _draw("generalized_negative_binomial", {"mu": mu, "alpha": alpha}, shape, dtype, ctx, out, {})


def randint(
    low: int, high: int, shape: Any = NULL, dtype: Any = NULL, ctx: Any = None, out: Any = None, **kwargs: Any
) -> NDArray:
    """Return whole numbers drawn evenly from low, ..., high - 1."""
    if shape is NULL or shape is None:
        shape = out.shape if isinstance(out, NDArray) else 1
    keywords: dict[str, Any] = {"low": low, "high": high, "shape": shape}
    if dtype is not NULL and dtype is not None:
        keywords["dtype"] = dtype
    return function_of(REGISTRY["_random_randint"], "randint")(**keywords, ctx=ctx, out=out)  # type: ignore[no-any-return]


def multinomial(
    data: NDArray, shape: Any = NULL, get_prob: bool = False, out: Any = None, dtype: Any = "int32", **kwargs: Any
) -> Any:
    """Return positions drawn with the probabilities that each row of ``data`` holds."""
    keywords: dict[str, Any] = {"get_prob": get_prob, "dtype": dtype}
    if shape is not NULL and shape is not None:
        keywords["shape"] = shape
    return function_of(REGISTRY["_sample_multinomial"], "multinomial")(data, **keywords, out=out)


def shuffle(data: NDArray, **kwargs: Any) -> NDArray:
    """Return the array with its rows in random order."""
    return function_of(REGISTRY["_shuffle"], "shuffle")(data, **kwargs)  # type: ignore[no-any-return]


def __getattr__(name: str) -> Any:
    if name.endswith("_like") and f"_random_{name}" in REGISTRY:
        return function_of(REGISTRY[f"_random_{name}"], name)
    if name.startswith("__"):
        raise AttributeError(name)
    raise AttributeError(f"nd.random has no distribution {name!r}; it has {', '.join(__all__)}")
