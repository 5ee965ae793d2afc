"""Updates in mixed precision, and of several weights at once: all made from the updates of one weight.

``mp_`` updates take a float32 copy of the weight behind its states: the copy is updated, and the result is that in the
dtype of the weight. ``multi_`` updates take (weight, gradient, states) of one weight after another, and return all
weights; ``preloaded_`` ones have learning rates and weight decays in two arrays behind them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from ...base.dtypes import DType
from ...base.errors import MXNetError
from ...graph.interface import Interface
from ...graph.node import Node
from ...graph.operator import Operator, composite
from ...graph.parameters import Count, Counts, Number, Numbers
from ..math.primitives import cast, reshape_to
from ..shape.slicing import slice_axis
from .updates import (
    F,
    adamw_update,
    lamb_update_phase1,
    lamb_update_phase2,
    nag_mom_update,
    sgd_mom_update,
    sgd_update,
    states_change,
)

Rule = Callable[..., Any]


# -- mixed precision


def _several(result: Any) -> tuple[Node, ...]:
    return result if isinstance(result, tuple) else (result,)


def _mixed(rule: Rule, behind: int) -> Rule:
    """Return the rule in mixed precision; the float32 copy stands before the last `behind` inputs of the rule."""

    def update(weight: Node, grad: Node, *others: Node, **parameters: Any) -> tuple[Node, ...]:
        place = len(others) - 1 - behind
        states, copy, rest = others[:place], others[place], others[place + 1 :]
        wide, *changed = _several(rule(copy, cast(grad, copy.dtype), *states, *rest, **parameters))
        return cast(wide, weight.dtype), *changed, wide

    return update


def _declare_mixed(name: str, plain: Operator, behind: int = 0) -> Operator:
    update = _mixed(plain.function, behind)
    arguments = list(inspect.signature(plain.function).parameters.values())
    inputs = [argument for argument in arguments if argument.kind is not argument.KEYWORD_ONLY]
    copy = inputs[0].replace(name="weight32")
    inputs.insert(len(inputs) - behind, copy)
    update.__signature__ = inspect.Signature([*inputs, *arguments[len(inputs) - 1 :]])  # type: ignore[attr-defined]
    first, _, rest = (plain.__doc__ or "").partition("\n")
    update.__doc__ = f"{first.rstrip('.')}: in mixed precision, by way of the float32 copy `weight32`.\n{rest}".rstrip()
    return composite(name=name, visible=1, effects=states_change)(update)


_mixed_sgd = _declare_mixed("mp_sgd_update", sgd_update)
_mixed_momentum = _declare_mixed("mp_sgd_mom_update", sgd_mom_update)
_mixed_adamw = _declare_mixed("_mp_adamw_update", adamw_update, behind=1)
_declare_mixed("mp_nag_mom_update", nag_mom_update)


@composite(visible=1, effects=states_change)
def mp_lamb_update_phase1(
    weight: Node,
    grad: Node,
    mean: Node,
    var: Node,
    weight32: Node,
    *,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-6,
    t: Count,
    bias_correction: bool = True,
    wd: Number,
    rescale_grad: Number = 1.0,
    clip_gradient: float = -1.0,
) -> tuple[Node, ...]:
    """Return the direction of a step of LAMB in float32, for a weight with a float32 copy `weight32`."""
    return lamb_update_phase1.function(  # type: ignore[no-any-return]
        weight32,
        cast(grad, weight32.dtype),
        mean,
        var,
        beta1=beta1,
        beta2=beta2,
        epsilon=epsilon,
        t=t,
        bias_correction=bias_correction,
        wd=wd,
        rescale_grad=rescale_grad,
        clip_gradient=clip_gradient,
    )


@composite(visible=1, effects=lambda inputs, outputs: {4: outputs[1]})
def mp_lamb_update_phase2(
    weight: Node,
    g: Node,
    r1: Node,
    r2: Node,
    weight32: Node,
    *,
    lr: Number,
    lower_bound: float = -1.0,
    upper_bound: float = -1.0,
) -> tuple[Node, ...]:
    """Return the weight after a step of LAMB in direction `g`, by way of its float32 copy `weight32`."""
    wide = lamb_update_phase2.function(weight32, g, r1, r2, lr=lr, lower_bound=lower_bound, upper_bound=upper_bound)
    return cast(wide, weight.dtype), wide


# -- several weights


def _groups(name: str, data: Sequence[Node], each: int, count: int) -> list[Sequence[Node]]:
    """Return the arrays of each weight."""
    if len(data) != each * count:
        raise MXNetError(
            f"operator {name} takes {each} arrays for each of {count} weights, which makes {each * count}, "
            f"but got {len(data)}: is the number of weights right?"
        )
    return [data[each * index : each * (index + 1)] for index in range(count)]


def _together(results: Sequence[tuple[Node, ...]]) -> tuple[Node, ...]:
    """Return all weights, and behind them the states of each."""
    return (*[result[0] for result in results], *[state for result in results for state in result[1:]])


def _all_states(each: int, count: str) -> Rule:
    """Return the rule of what an update of several weights changes."""

    def changed(inputs: tuple[Node, ...], outputs: tuple[Node, ...], **parameters: Any) -> dict[int, Node]:
        weights = parameters[count]
        states = outputs[weights:]
        many = len(states) // weights
        return {index // many * each + 2 + index % many: state for index, state in enumerate(states)}

    return changed


def _visible(count: str) -> Rule:
    return lambda **parameters: parameters[count]


def _element(array: Node, index: int, dtype: DType) -> Node:
    return cast(reshape_to(slice_axis(array, axis=0, begin=index, end=index + 1), ()), dtype)


def _parameter(name: str, annotation: str, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


_DATA = inspect.Parameter("data", inspect.Parameter.VAR_POSITIONAL)
_RATES = [_parameter("lrs", "Numbers"), _parameter("wds", "Numbers")]
_MOMENTUM = [_parameter("momentum", "float", 0.0)]
_GRADIENTS = [_parameter("rescale_grad", "Number", 1.0), _parameter("clip_gradient", "float", -1.0)]
_ADAM = [_parameter("beta1", "float", 0.9), _parameter("beta2", "float", 0.999), _parameter("epsilon", "float", 1e-8)]
_COUNT = [_parameter("num_weights", "int", 1)]


def _declare_several(name: str, update: Rule, each: int, parameters: list[inspect.Parameter], doc: str) -> None:
    update.__signature__ = inspect.Signature([_DATA, *parameters, *_COUNT])  # type: ignore[attr-defined]
    update.__doc__ = doc
    count = "num_weights"
    effects = None if each == 2 else _all_states(each, count)
    interface = Interface(outputs=_visible(count))
    composite(name=name, visible=_visible(count), effects=effects, interface=interface)(update)


def _declare_multi(name: str, plain: Operator, has_momentum: bool) -> None:
    """Declare the updates of several weights, with learning rates as numbers and as arrays."""
    each = len(plain.input_names)

    def multi(*data: Node, lrs: Sequence[Any], wds: Sequence[Any], num_weights: int, **parameters: Any) -> Any:
        groups = enumerate(_groups(f"multi_{name}", data, each, num_weights))
        return _together([_several(plain.function(*g, lr=lrs[i], wd=wds[i], **parameters)) for i, g in groups])

    def preloaded(*data: Node, num_weights: int, **parameters: Any) -> Any:
        *arrays, lrs, wds = data
        groups = _groups(f"preloaded_multi_{name}", arrays, each, num_weights)
        # of the dtype of the last array of each weight, which is that of the copy if there is one
        rates = [[_element(array, i, g[-1].dtype) for i, g in enumerate(groups)] for array in (lrs, wds)]
        results = zip(groups, *rates, strict=True)
        return _together([_several(plain.function(*g, lr=lr, wd=wd, **parameters)) for g, lr, wd in results])

    momentum = _MOMENTUM if has_momentum else []
    doc = f"Return several weights after ``{name}`` of each; `data` holds the arrays of one weight after another"
    _declare_several(f"multi_{name}", multi, each, [*_RATES, *momentum, *_GRADIENTS], f"{doc}.")
    _declare_several(
        f"preloaded_multi_{name}", preloaded, each, [*momentum, *_GRADIENTS], f"{doc}, then all rates and decays."
    )


for _plain, _with_momentum in ((sgd_update, False), (sgd_mom_update, True)):
    _declare_multi(_plain.name, _plain, _with_momentum)
for _plain, _with_momentum in ((_mixed_sgd, False), (_mixed_momentum, True)):
    _declare_multi(_plain.name, _plain, _with_momentum)


def _declare_multi_adamw(name: str, plain: Operator) -> None:
    each = len(plain.input_names) - 1

    def multi(*data: Node, lrs: Any, wds: Any, etas: Any, num_weights: int, **parameters: Any) -> Any:
        groups = _groups(name, data[:-1], each, num_weights)
        rates = zip(groups, lrs, wds, etas, strict=True)
        return _together(
            [plain.function(*g, data[-1], lr=lr, wd=wd, eta=eta, **parameters) for g, lr, wd, eta in rates]
        )

    parameters = [_RATES[0], *_ADAM, _RATES[1], _parameter("etas", "Numbers"), _GRADIENTS[1]]
    doc = f"Return several weights after ``{plain.name}`` of each; behind their arrays stands `rescale_grad`."
    _declare_several(name, multi, each, parameters, doc)


_declare_multi_adamw("_multi_adamw_update", adamw_update)
_declare_multi_adamw("_multi_mp_adamw_update", _mixed_adamw)


def _lamb(weight: Node, grad: Node, states: Sequence[Node], lr: Any, t: Any, wd: Any, p: dict[str, Any]) -> Any:
    """Return a weight after both phases of LAMB, and its means."""
    bounds = {name: p[name] for name in ("lower_bound", "upper_bound")}
    others = {name: value for name, value in p.items() if name not in bounds}
    direction, *means = lamb_update_phase1.function(weight, grad, *states, t=t, wd=wd, **others)
    size, slope = F.norm(weight), F.norm(direction)
    return lamb_update_phase2.function(weight, direction, size, slope, lr=lr, **bounds), *means


def _declare_multi_lamb(name: str, each: int) -> None:
    @composite(
        name=name,
        visible=_visible("num_tensors"),
        effects=_all_states(each, "num_tensors"),
        interface=Interface(outputs=_visible("num_tensors")),
    )
    def update(
        *data: Node,
        learning_rates: Numbers,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-6,
        wds: Numbers,
        rescale_grad: Number = 1.0,
        lower_bound: float = -1.0,
        upper_bound: float = -1.0,
        clip_gradient: float = -1.0,
        bias_correction: bool = True,
        step_count: Counts,
        num_tensors: int = 1,
    ) -> tuple[Node, ...]:
        """Return several weights after a step of LAMB each; `data` holds the arrays of one weight after another."""
        given = {
            "beta1": beta1,
            "beta2": beta2,
            "epsilon": epsilon,
            "rescale_grad": rescale_grad,
            "lower_bound": lower_bound,
            "upper_bound": upper_bound,
            "clip_gradient": clip_gradient,
            "bias_correction": bias_correction,
        }
        results = []
        rates = zip(_groups(name, data, each, num_tensors), learning_rates, step_count, wds, strict=True)
        for (weight, grad, mean, var, *copy), lr, t, wd in rates:
            if not copy:
                results.append(_lamb(weight, grad, (mean, var), lr, t, wd, given))
                continue
            wide, *means = _lamb(copy[0], cast(grad, copy[0].dtype), (mean, var), lr, t, wd, given)
            results.append((cast(wide, weight.dtype), *means, wide))
        return _together(results)


_declare_multi_lamb("_multi_lamb_update", 4)
_declare_multi_lamb("_multi_mp_lamb_update", 5)
