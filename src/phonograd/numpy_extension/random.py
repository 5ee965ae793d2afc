"""npx.random: the seed, and distributions that NumPy lacks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.array.call import function_of
from ..core.base.devices import Context
from ..core.base.errors import nearest
from ..core.graph.operator import REGISTRY
from ..core.trace.rng import seed
from ..ndarray.array import NDArray
from ..numpy.documentation import complete_all
from ..numpy.random import draw, normal, uniform

__all__ = ["bernoulli", "normal_n", "seed", "uniform_n"]


def bernoulli(
    prob: Any = None,
    logit: Any = None,
    size: Any = None,
    dtype: Any = None,
    ctx: Context | None = None,
    out: Any = None,
) -> Any:
    """Return ones with a given probability, else zeros.

    Parameters
    ----------
    prob, logit
        The probability of ones, or its logit: a number or an array. Give exactly one of the two.
    size
        The shape of the result; that of the probabilities if it is None.
    dtype
        The dtype of the result; None means float32.
    """
    if (prob is None) == (logit is None):
        raise ValueError(
            f"Either `prob` or `logit` must be specified, but not both. Received prob={prob}, logit={logit}"
        )
    given = prob if logit is None else logit
    numbers = draw("uniform", size, (given,), ctx)
    if logit is not None:
        # a logistic number is below the logit with probability sigmoid(logit)
        log = function_of(REGISTRY["log"], "log")
        numbers = log(numbers) - log(1 - numbers)
    made = (numbers < given).astype(dtype or "float32")
    if out is None:
        return made
    out[...] = made
    return out


def _batch_size(batch_shape: Any, *parameters: Any) -> Any:
    """Return the size of draws with leading batch axes; None keeps the shape of the parameters."""
    if batch_shape is None:
        return None
    lead = (batch_shape,) if isinstance(batch_shape, int) else tuple(batch_shape)
    return lead + np.broadcast_shapes(*[value.shape for value in parameters if isinstance(value, NDArray)])


def uniform_n(
    low: Any = 0.0, high: Any = 1.0, batch_shape: Any = None, dtype: Any = None, ctx: Context | None = None
) -> Any:
    """Draw numbers uniformly from [low, high): a batch of shape ``batch_shape`` per parameter element."""
    return uniform(low, high, _batch_size(batch_shape, low, high), dtype, ctx)


def normal_n(
    loc: Any = 0.0, scale: Any = 1.0, batch_shape: Any = None, dtype: Any = None, ctx: Context | None = None
) -> Any:
    """Draw from the normal distribution: a batch of shape ``batch_shape`` per parameter element."""
    return normal(loc, scale, _batch_size(batch_shape, loc, scale), dtype, ctx)


complete_all(globals(), __all__)

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise AttributeError(f"module 'phonograd.npx.random' has no attribute {name!r}{nearest(name, __all__)}")
