"""Updates of weights by gradients, as operators: ``sgd_update``, ``adam_update`` and so on.

This is a table. Each row has the arrays of one weight (the arguments of the formula), the parameters in MXNet's order
with their defaults, and a formula from :mod:`.update_rules`, which the optimizer classes use too. The forms in mixed
precision and of several weights follow at the end; :mod:`.update_forms` makes the operators.

Every operator returns the weight after the update (``out=weight`` writes it in place) and changes its states in place.
Learning rate, weight decay and `rescale_grad` are data: another value needs no other plan. A `clip_gradient` below 0
is no limit. For a row_sparse gradient, `lazy_update` updates only the rows that the gradient has.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...graph.node import Node
from ...graph.operator import REGISTRY, composite, single
from ...graph.parameters import Number
from ..math.arithmetic import power
from ..math.broadcasting import broadcast
from ..math.comparison import not_equal
from ..math.examination import isfinite
from ..math.primitives import cast, reshape_to
from ..math.structural import constant
from . import update_rules as rules
from .update_forms import Rule, declare, declare_several, mixed, update


class _Functions:
    """The operators of the registry as attributes: the ``F`` of the formulas."""

    def __getattr__(self, name: str) -> Any:
        if name not in REGISTRY:
            raise AttributeError(f"there is no operator {name!r}")
        return REGISTRY[name]


F: Any = _Functions()


def _limit(number: float) -> float | None:
    """Return a limit; a number below 0 is none."""
    return None if number < 0 else number


def _clipped(p: Any, grad: Node) -> Any:
    """Return a gradient rescaled, then clipped."""
    return rules.prepared(F, grad, p.rescale_grad, _limit(p.clip_gradient))


def _clipped_then_decayed(p: Any, weight: Node, grad: Node) -> Any:
    """Return a gradient rescaled, clipped, then with weight decay."""
    return rules.decayed(_clipped(p, grad), p.wd, weight)


def _decayed_then_clipped(p: Any, weight: Node, grad: Node, clip_gradient: float) -> Any:
    """Return a gradient rescaled, with weight decay, then clipped."""
    return rules.limited(F, rules.decayed(rules.rescaled(grad, p.rescale_grad), p.wd, weight), _limit(clip_gradient))


def _bias_corrections(p: Any, like: Node) -> tuple[Any, Any]:
    """Return the divisors of Adam's bias correction: ``1 - beta ** t`` for both means."""
    if not isinstance(p.t, Node):
        return 1.0 - p.beta1**p.t, 1.0 - p.beta2**p.t
    wide = np.dtype(np.float64)
    first, second = [power(constant(beta, wide), p.t) for beta in (p.beta1, p.beta2)]
    return cast(1.0 - first, like.dtype), cast(1.0 - second, like.dtype)


# -- along the gradient


@update("lr wd=0.0 rescale_grad=1.0 clip_gradient=-1.0 lazy_update=True")
def sgd_update(p: Any, weight: Node, grad: Node) -> Any:
    """Return the weight after a step of gradient descent: ``weight - lr * (rescale_grad * grad + wd * weight)``."""
    return rules.plain(weight, _clipped_then_decayed(p, weight, grad), p.lr)


@update("lr momentum=0.0 wd=0.0 rescale_grad=1.0 clip_gradient=-1.0 lazy_update=True")
def sgd_mom_update(p: Any, weight: Node, grad: Node, mom: Node) -> Any:
    """Return ``weight + mom`` after ``mom = momentum * mom - lr * (rescale_grad * grad + wd * weight)``."""
    return rules.momentum(weight, _clipped_then_decayed(p, weight, grad), mom, p.lr, p.momentum)


@update("lr momentum=0.0 wd=0.0 rescale_grad=1.0 clip_gradient=-1.0")
def nag_mom_update(p: Any, weight: Node, grad: Node, mom: Node) -> Any:
    """Return the weight after a step with Nesterov's momentum."""
    return rules.nesterov(weight, _clipped(p, grad), mom, p.lr, p.wd, p.momentum)


@update("lr wd=0.0 rescale_grad=1.0 clip_gradient=-1.0")
def signsgd_update(p: Any, weight: Node, grad: Node) -> Any:
    """Return the weight after a step of one size in every element: ``(1 - lr * wd) * weight - lr * sign(grad)``.

    As in MXNet, `rescale_grad` and `clip_gradient` have no effect: they do not change signs.
    """
    return rules.sign_step(F, weight, grad, p.lr, 1.0 - p.lr * p.wd)


@update("lr momentum=0.0 wd=0.0 rescale_grad=1.0 clip_gradient=-1.0 wd_lh=0.0")
def signum_update(p: Any, weight: Node, grad: Node, mom: Node) -> Any:
    """Return the weight after a step of one size along the signs of the momentum; `wd_lh` is decoupled weight decay."""
    direction = _clipped_then_decayed(p, weight, grad)
    return rules.sign_momentum(F, weight, direction, mom, p.lr, 1.0 - p.lr * p.wd_lh, p.momentum)


# -- by the size of earlier gradients


@update(
    "lr beta1=0.9 beta2=0.999 epsilon=1e-8 wd=0.0 rescale_grad=1.0 clip_gradient=-1.0 lazy_update=True",
)
def adam_update(p: Any, weight: Node, grad: Node, mean: Node, var: Node) -> Any:
    """Return the weight after a step of Adam; `lr` must already include the bias correction."""
    grad = _decayed_then_clipped(p, weight, grad, p.clip_gradient)
    return rules.adam(F, weight, grad, mean, var, p.lr, p.beta1, p.beta2, p.epsilon)


@update("lr beta1=0.9 beta2=0.999 epsilon=1e-8 wd=0.0 eta clip_gradient=-1.0", name="_adamw_update", shared=1)
def adamw_update(p: Any, weight: Node, grad: Node, mean: Node, var: Node, rescale_grad: Node) -> Any:
    """Return the weight after a step of Adam with decoupled weight decay: ``eta * (lr * step + wd * weight)``.

    `rescale_grad` is an array of one element. If it is 0 or not finite, nothing changes.
    """
    scale = reshape_to(cast(rescale_grad, weight.dtype), ())
    valid = isfinite(scale) * not_equal(scale, scale * 0.0)
    grad = rules.prepared(F, grad, scale, _limit(p.clip_gradient))
    direction, *means = rules.adam(F, weight * 0.0, grad, mean, var, -p.lr, p.beta1, p.beta2, p.epsilon)
    after = (weight - p.eta * rules.decayed(direction, p.wd, weight), *means)
    condition = broadcast(valid, weight.shape)
    return tuple([single(F.where(condition, new, old)) for new, old in zip(after, (weight, mean, var), strict=True)])


@update("lr gamma1=0.95 epsilon=1e-8 wd=0.0 rescale_grad=1.0 clip_gradient=-1.0 clip_weights=-1.0")
def rmsprop_update(p: Any, weight: Node, grad: Node, n: Node) -> Any:
    """Return the weight after a step over the root of the running mean of squared gradients."""
    grad = _decayed_then_clipped(p, weight, grad, p.clip_gradient)
    return rules.rmsprop(F, weight, grad, n, p.lr, p.gamma1, p.epsilon, _limit(p.clip_weights))


@update("lr gamma1=0.95 gamma2=0.9 epsilon=1e-8 wd=0.0 rescale_grad=1.0 clip_gradient=-1.0 clip_weights=-1.0")
def rmspropalex_update(p: Any, weight: Node, grad: Node, n: Node, g: Node, delta: Node) -> Any:
    """Return the weight after a step with momentum over the running standard deviation of gradients."""
    grad, limit = _decayed_then_clipped(p, weight, grad, p.clip_gradient), _limit(p.clip_weights)
    return rules.rmsprop_centered(F, weight, grad, n, g, delta, p.lr, (p.gamma1, p.gamma2), p.epsilon, limit)


@update("lr lamda1=0.01 beta=1.0 wd=0.0 rescale_grad=1.0 clip_gradient=-1.0")
def ftrl_update(p: Any, weight: Node, grad: Node, z: Node, n: Node) -> Any:
    """Return the weight after a step of FTRL (follow the regularized leader), which makes most weights 0."""
    return rules.ftrl(F, weight, _clipped(p, grad), z, n, p.lr, p.wd, p.lamda1, p.beta)


@update("lr beta1=0.6 beta2=0.999 epsilon=1e-8 t wd=0.0 rescale_grad=1.0 clip_grad=-1.0")
def ftml_update(p: Any, weight: Node, grad: Node, d: Node, v: Node, z: Node) -> Any:
    """Return the weight after a step of FTML (follow the moving leader), in update number `t`."""
    grad = _decayed_then_clipped(p, weight, grad, p.clip_grad)
    first, second = _bias_corrections(p, weight)
    return rules.ftml(F, weight, grad, d, v, z, first / p.lr, second, p.beta1, p.beta2, p.epsilon)


@update("lr epsilon=1e-7 wd=0.0 rescale_grad=1.0 clip_gradient=-1.0", name="_sparse_adagrad_update")
def adagrad_update(p: Any, weight: Node, grad: Node, history: Node) -> Any:
    """Return the weight after a step over the root of the sum of all squared gradients."""
    return rules.adagrad(F, weight, _clipped(p, grad), history, p.lr, p.wd, p.epsilon)


@update("lr rescale_grad=1.0 clip_gradient=-1.0 epsilon=1e-5", name="_contrib_group_adagrad_update")
def group_adagrad_update(p: Any, weight: Node, grad: Node, history: Node) -> Any:
    """Return the weight after a step of AdaGrad with one sum of squares for each row."""
    return rules.group_adagrad(F, weight, _clipped(p, grad), history, p.lr, p.epsilon)


# -- by the size of weights


@update(
    "beta1=0.9 beta2=0.999 epsilon=1e-6 t bias_correction=True wd rescale_grad=1.0 clip_gradient=-1.0",
)
def lamb_update_phase1(p: Any, weight: Node, grad: Node, mean: Node, var: Node) -> Any:
    """Return the direction of a step of LAMB, in update number `t`."""
    missing = _bias_corrections(p, weight) if p.bias_correction else None
    grad = _clipped(p, grad)
    return rules.lamb_direction(F, weight, grad, mean, var, p.wd, missing, p.beta1, p.beta2, p.epsilon)


@update("lr lower_bound=-1.0 upper_bound=-1.0", states=())
def lamb_update_phase2(p: Any, weight: Node, g: Node, r1: Node, r2: Node) -> Any:
    """Return the weight after a step of LAMB in direction `g`; `r1` and `r2` are the norms of the weight and of `g`."""
    return rules.lamb_step(F, weight, g, r1, r2, p.lr, _limit(p.lower_bound), _limit(p.upper_bound))


@composite()
def multi_lars(
    lrs: Node,
    weights_sum_sq: Node,
    grads_sum_sq: Node,
    wds: Node,
    *,
    eta: float,
    eps: float,
    rescale_grad: Number = 1.0,
) -> Node:
    """Return the learning rates of weights by LARS, from the sums of squares of weights and gradients."""
    size, slope = F.sqrt(weights_sum_sq), F.sqrt(grads_sum_sq)
    return single(lrs * rules.lars_rate(F, size, slope, wds, rescale_grad, eta, eps))


def _lamb_formula(p: Any, weight: Node, grad: Node, mean: Node, var: Node) -> Any:
    direction, *means = lamb_update_phase1.formula(p, weight, grad, mean, var)
    return lamb_update_phase2.formula(p, weight, direction, F.norm(weight), F.norm(direction)), *means


# -- other forms

declare(mixed("mp_nag_mom_update", nag_mom_update))
declare(mixed("mp_lamb_update_phase1", lamb_update_phase1, narrow=False))
declare(mixed("mp_lamb_update_phase2", lamb_update_phase2))

for _rule, _momentum in ((sgd_update, ""), (sgd_mom_update, "momentum=0.0")):
    for _form in (_rule, declare(mixed(f"mp_{_rule.name}", _rule))):
        _common = f"{_momentum} rescale_grad=1.0 clip_gradient=-1.0 num_weights=1"
        declare_several(f"multi_{_form.name}", _form, f"lrs wds {_common}")
        declare_several(f"preloaded_multi_{_form.name}", _form, _common, preloaded=True)

_several_adamw = "lrs beta1=0.9 beta2=0.999 epsilon=1e-8 wds etas clip_gradient=-1.0 num_weights=1"
declare_several("_multi_adamw_update", adamw_update, _several_adamw)
declare_several("_multi_mp_adamw_update", declare(mixed("_mp_adamw_update", adamw_update)), _several_adamw)

# MXNet has no operator for both phases of one weight
_lamb = Rule(
    name="lamb_update",
    inputs=("weight", "grad", "mean", "var"),
    parameters="",
    formula=_lamb_formula,
    states=("mean", "var"),
    doc="Return the weight after a step of LAMB, in update number `step_count`.",
)
_several_lamb = (
    "learning_rates beta1=0.9 beta2=0.999 epsilon=1e-6 wds rescale_grad=1.0 lower_bound=-1.0 upper_bound=-1.0 "
    "clip_gradient=-1.0 bias_correction=True step_count num_tensors=1"
)
declare_several("_multi_lamb_update", _lamb, _several_lamb)
declare_several("_multi_mp_lamb_update", mixed("mp_lamb_update", _lamb), _several_lamb)
