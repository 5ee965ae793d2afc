"""Update rules and the operators derived from each rule.

A :class:`Rule` is one row of the table in :mod:`.updates`: the arrays of one weight, the parameters in MXNet's order,
and a formula from :mod:`.update_rules`. This module declares these operators for a rule:

- plain: ``sgd_update(weight, grad, lr=...)``;
- ``mp_``, mixed precision: a float32 copy of the weight follows the states. The formula updates the copy, and the
  operator returns the copy in the dtype of the weight;
- ``multi_``: the arrays of several weights, one weight after another, with a tuple of learning rates;
- ``preloaded_multi_``: learning rates and weight decays are two arrays after all others.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

from ...base.dtypes import DType
from ...base.errors import MXNetError
from ...graph.interface import Interface
from ...graph.node import Node
from ...graph.operator import composite
from ..math.primitives import cast, reshape_to
from ..shape.slicing import slice_axis

__all__ = ["Rule", "declare", "declare_several", "mixed_precision", "update"]

#: parameters passed as data: a new value needs no new plan. The others have the type of their default
_DATA = {
    "eta": "Number",
    "etas": "Numbers",
    "learning_rates": "Numbers",
    "lr": "Number",
    "lrs": "Numbers",
    "rescale_grad": "Number",
    "step_count": "Counts",
    "t": "Count",
    "wd": "Number",
    "wd_lh": "Number",
    "wds": "Numbers",
}

#: added to the documentation of operators in mixed precision
_MIXED = "The update is computed on `weight32`, the float32 copy of the weight."

#: parameters with one value per weight, and the rule parameter that each value sets
_PER_WEIGHT = {"etas": "eta", "learning_rates": "lr", "lrs": "lr", "step_count": "t", "wds": "wd"}


@dataclass(frozen=True)
class Rule:
    """Describe the update of one weight."""

    name: str
    inputs: tuple[str, ...]
    """Weight, gradient, states, and inputs that several weights share."""
    parameters: str
    """As in a signature, separated by spaces: ``lr wd=0.0``."""
    formula: Callable[..., Any]
    """Maps the parameters (a namespace) and the inputs to the new weight and the new states."""
    states: tuple[str, ...]
    """The inputs that an update changes, in the order in which the formula returns them."""
    doc: str
    shared: int = 0
    """The number of inputs at the end that are the same for several weights."""

    def apply(self, inputs: Sequence[Node], parameters: dict[str, Any]) -> tuple[Node, ...]:
        """Return the new weight and the new states."""
        result = self.formula(SimpleNamespace(**parameters), *inputs)
        return result if isinstance(result, tuple) else (result,)

    def places(self) -> list[int]:
        """Return the positions of the states among the inputs."""
        return [self.inputs.index(state) for state in self.states]


def _parameters(text: str) -> list[inspect.Parameter]:
    """Return the parameters of a rule with their types and defaults."""
    found = []
    for word in text.split():
        name, _, value = word.partition("=")
        default = ast.literal_eval(value) if value else inspect.Parameter.empty
        kind = _DATA.get(name) or type(default).__name__
        found.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=kind, default=default))
    return found


def _register(
    name: str, update: Callable[..., Any], inputs: list[inspect.Parameter], text: str, result: str, **facts: Any
) -> None:
    update.__name__ = update.__qualname__ = name
    signature = inspect.Signature([*inputs, *_parameters(text)], return_annotation=result)
    update.__signature__ = signature  # type: ignore[attr-defined]
    composite(name=name, **facts)(update)


def declare(rule: Rule) -> Rule:
    """Declare the operator that updates one weight, and return the rule."""

    def update(*inputs: Node, **parameters: Any) -> Any:
        results = rule.apply(inputs, parameters)
        return results if rule.states else results[0]

    def new_states(inputs: tuple[Node, ...], outputs: tuple[Node, ...]) -> dict[int, Node]:
        return dict(zip(rule.places(), outputs[1:], strict=True))

    update.__doc__ = rule.doc
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    inputs = [inspect.Parameter(name, kind, annotation="Node") for name in rule.inputs]
    facts: dict[str, Any] = {"visible": 1, "effects": new_states} if rule.states else {}
    _register(rule.name, update, inputs, rule.parameters, "tuple[Node, ...]" if rule.states else "Node", **facts)
    return rule


def update(
    parameters: str, *, name: str | None = None, states: tuple[str, ...] | None = None, shared: int = 0
) -> Callable[[Callable[..., Any]], Rule]:
    """Return a decorator that declares the operator of a formula and returns its rule.

    The formula takes the parameters as a namespace, then weight, gradient, states and shared inputs. By default it
    changes all inputs between the gradient and the shared ones.
    """

    def decorate(formula: Callable[..., Any]) -> Rule:
        _, *inputs = inspect.signature(formula).parameters
        changed = tuple(inputs[2 : len(inputs) - shared]) if states is None else states
        doc = inspect.cleandoc(formula.__doc__ or "")
        return declare(Rule(name or formula.__name__, tuple(inputs), parameters, formula, changed, doc, shared))

    return decorate


def mixed_precision(name: str, rule: Rule, narrow: bool = True) -> Rule:
    """Return the mixed-precision form of a rule; `narrow` casts its result to the dtype of the weight."""
    place = len(rule.inputs) - rule.shared

    def formula(p: Any, *inputs: Node) -> tuple[Node, ...]:
        weight, slope, *others = inputs
        copy = others.pop(place - 2)
        if rule.inputs[1] == "grad":
            slope = cast(slope, copy.dtype)
        wide, *states = rule.apply((copy, slope, *others), vars(p))
        return (cast(wide, weight.dtype), *states, wide) if narrow else (wide, *states)

    first, _, rest = rule.doc.partition("\n")
    return replace(
        rule,
        name=name,
        inputs=(*rule.inputs[:place], "weight32", *rule.inputs[place:]),
        formula=formula,
        states=(*rule.states, "weight32") if narrow else rule.states,
        doc=f"{first.rstrip('.')}, in mixed precision.\n\n{_MIXED}\n{rest}".rstrip(),
    )


# -- several weights


def _groups(name: str, data: Sequence[Node], each: int, count: int) -> list[Sequence[Node]]:
    """Split `data` into the arrays of each weight."""
    if len(data) != each * count:
        raise MXNetError(
            f"operator {name} takes {each} arrays for each of {count} weights, {each * count} in total, "
            f"but got {len(data)}. Check the number of weights."
        )
    return [data[each * index : each * (index + 1)] for index in range(count)]


def _rates(name: str, parameters: dict[str, Any], count: int) -> list[dict[str, Any]]:
    """Return one parameter dictionary per weight: the common parameters and the weight's own."""
    common = {key: value for key, value in parameters.items() if key not in _PER_WEIGHT}
    for key, values in parameters.items():
        if key in _PER_WEIGHT and len(values) != count:
            raise MXNetError(f"operator {name} takes {count} {key}, one per weight, but got {len(values)}")
    several = {_PER_WEIGHT[key]: values for key, values in parameters.items() if key in _PER_WEIGHT}
    return [common | {key: values[index] for key, values in several.items()} for index in range(count)]


def _element(array: Node, index: int, dtype: DType) -> Node:
    return cast(reshape_to(slice_axis(array, axis=0, begin=index, end=index + 1), ()), dtype)


def declare_several(name: str, rule: Rule, parameters: str, *, preloaded: bool = False) -> None:
    """Declare the update of several weights; the last parameter is their number.

    Parameters with plural names have one value per weight. A preloaded update takes the arrays `lrs` and `wds`
    instead.
    """
    *_, number = [argument.name for argument in _parameters(parameters)]
    each = len(rule.inputs) - rule.shared

    def update(*data: Node, **given: Any) -> tuple[Node, ...]:
        count = given.pop(number)
        end = max(len(data) - rule.shared - 2 * preloaded, 0)
        groups, behind = _groups(name, data[:end], each, count), data[end:]
        rates = _rates(name, given, count)
        if preloaded:
            # the float32 copy, if any, is the last array of a weight; learning rate and weight decay take its dtype
            for index, (group, own) in enumerate(zip(groups, rates, strict=True)):
                own["lr"], own["wd"] = [_element(array, index, group[-1].dtype) for array in behind]
            behind = ()
        results = [rule.apply((*group, *behind), own) for group, own in zip(groups, rates, strict=True)]
        return (*[result[0] for result in results], *[state for result in results for state in result[1:]])

    def new_states(inputs: tuple[Node, ...], outputs: tuple[Node, ...], **given: Any) -> dict[int, Node]:
        count = given[number]
        places = [each * index + place for index in range(count) for place in rule.places()]
        return dict(zip(places, outputs[count:], strict=True))

    def visible(**given: Any) -> int:
        return int(given[number])

    behind = ", then all learning rates, then all weight decays" if preloaded else ""
    behind += f", then `{rule.inputs[-1]}`" if rule.shared else ""
    order = f"`data` holds the arrays of each weight in turn{behind}."
    update.__doc__ = f"Return several weights after one update each.\n\n{order}\n\nPer weight: {rule.doc}"
    facts = {
        "visible": visible,
        "interface": Interface(outputs=visible),
        "effects": new_states if rule.states else None,
    }
    data = inspect.Parameter("data", inspect.Parameter.VAR_POSITIONAL, annotation="Node")
    _register(name, update, [data], parameters, "tuple[Node, ...]", **facts)
