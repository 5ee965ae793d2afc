"""AdamW and LAMB in ``nd.contrib``: updates that take lists of arrays.

The operators of :mod:`phonograd.core.ops.update.updates` take the arrays of one weight after another, and
`rescale_grad` as an array. These functions take one list per kind of array, and a number or an array.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.array.call import function_of
from ..core.graph.operator import REGISTRY
from .array import NDArray
from .creation import full

__all__ = [
    "adamw_update",
    "mp_adamw_update",
    "multi_adamw_update",
    "multi_lamb_update",
    "multi_mp_adamw_update",
    "multi_mp_lamb_update",
]

Arrays = Sequence[NDArray]


def _call(name: str, *arrays: NDArray, **parameters: Any) -> Any:
    return function_of(REGISTRY[name], name)(*arrays, **parameters)


def _scale(rescale_grad: Any, like: NDArray) -> NDArray:
    """Return the gradient scale as an array of one element."""
    if isinstance(rescale_grad, NDArray):
        return rescale_grad.as_in_context(like.context)
    return full((1,), rescale_grad, ctx=like.context)


def _in_turn(*lists: Arrays) -> list[NDArray]:
    return [array for group in zip(*lists, strict=True) for array in group]


def adamw_update(
    weight: NDArray,
    grad: NDArray,
    mean: NDArray,
    var: NDArray,
    rescale_grad: Any,
    lr: float,
    eta: float,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
    wd: float = 0,
    clip_gradient: float = -1,
    out: NDArray | None = None,
    name: str | None = None,
    **kwargs: Any,
) -> Any:
    """Return the weight after a step of Adam with decoupled weight decay; both moments change in place.

    `rescale_grad` is a number or an array of one element. If it is 0 or not finite, the call changes nothing.
    """
    rates = {"lr": lr, "eta": eta, "beta1": beta1, "beta2": beta2, "epsilon": epsilon, "wd": wd}
    arrays = weight, grad, mean, var, _scale(rescale_grad, weight)
    return _call("_adamw_update", *arrays, **rates, clip_gradient=clip_gradient, out=out, **kwargs)


def mp_adamw_update(
    weight: NDArray,
    grad: NDArray,
    mean: NDArray,
    var: NDArray,
    weight32: NDArray,
    rescale_grad: Any,
    lr: float,
    eta: float,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
    wd: float = 0,
    clip_gradient: float = -1,
    out: NDArray | None = None,
    name: str | None = None,
    **kwargs: Any,
) -> Any:
    """Return the weight after :func:`adamw_update` on its float32 copy `weight32`, which changes in place."""
    rates = {"lr": lr, "eta": eta, "beta1": beta1, "beta2": beta2, "epsilon": epsilon, "wd": wd}
    arrays = weight, grad, mean, var, weight32, _scale(rescale_grad, weight)
    return _call("_mp_adamw_update", *arrays, **rates, clip_gradient=clip_gradient, out=out, **kwargs)


def multi_adamw_update(
    weights: Arrays,
    grads: Arrays,
    mean: Arrays,
    var: Arrays,
    rescale_grad: Any,
    lrs: Sequence[float],
    wds: Sequence[float],
    etas: Sequence[float],
    out: Any = None,
    name: str | None = None,
    size: int = 0,
    **kwargs: Any,
) -> Any:
    """Return the weights after :func:`adamw_update` on each."""
    arrays = _in_turn(weights, grads, mean, var)
    rates = {"lrs": lrs, "wds": wds, "etas": etas, "num_weights": size or len(weights)}
    return _call("_multi_adamw_update", *arrays, _scale(rescale_grad, weights[0]), **rates, out=out, **kwargs)


def multi_mp_adamw_update(
    weights: Arrays,
    grads: Arrays,
    mean: Arrays,
    var: Arrays,
    weights32: Arrays,
    rescale_grad: Any,
    lrs: Sequence[float],
    wds: Sequence[float],
    etas: Sequence[float],
    out: Any = None,
    name: str | None = None,
    size: int = 0,
    **kwargs: Any,
) -> Any:
    """Return the weights after :func:`mp_adamw_update` on each."""
    arrays = _in_turn(weights, grads, mean, var, weights32)
    rates = {"lrs": lrs, "wds": wds, "etas": etas, "num_weights": size or len(weights)}
    return _call("_multi_mp_adamw_update", *arrays, _scale(rescale_grad, weights[0]), **rates, out=out, **kwargs)


def multi_lamb_update(
    weights: Arrays,
    grads: Arrays,
    mean: Arrays,
    var: Arrays,
    step_count: Sequence[int],
    lrs: Sequence[float],
    wds: Sequence[float],
    out: Any = None,
    num_tensors: int = 0,
    **kwargs: Any,
) -> Any:
    """Return the weights after a LAMB step on each; all moments change in place."""
    arrays = _in_turn(weights, grads, mean, var)
    rates = {"learning_rates": lrs, "wds": wds, "step_count": step_count, "num_tensors": num_tensors or len(weights)}
    return _call("_multi_lamb_update", *arrays, **rates, out=out, **kwargs)


def multi_mp_lamb_update(
    weights: Arrays,
    grads: Arrays,
    mean: Arrays,
    var: Arrays,
    weights32: Arrays,
    step_count: Sequence[int],
    lrs: Sequence[float],
    wds: Sequence[float],
    out: Any = None,
    num_tensors: int = 0,
    **kwargs: Any,
) -> Any:
    """Return the weights after a LAMB step on their float32 copies `weights32`; the copies change in place."""
    arrays = _in_turn(weights, grads, mean, var, weights32)
    rates = {"learning_rates": lrs, "wds": wds, "step_count": step_count, "num_tensors": num_tensors or len(weights)}
    return _call("_multi_mp_lamb_update", *arrays, **rates, out=out, **kwargs)
