"""Calls of gradient rules: the gradients of the inputs of one node, given those of its outputs.

Takes declarations from :mod:`phonograd.core.graph.operator`; :mod:`phonograd.core.derive.gradient` and
:mod:`phonograd.core.backward.eager_rules` walk through graphs with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..base.dtypes import name_of
from ..base.errors import MXNetError, format_shape
from ..base.hot import hot
from .node import Node, statistics
from .operator import ABSENT, Operator, items_of, single

__all__ = ["adjoint", "differentiate", "gradient_attributes", "gradient_call"]

Gradients = tuple[Node | None, ...]


def differentiate(node: Node, out_grad: Any) -> Gradients:
    """Return the gradient with respect to each input of a node.

    ``out_grad`` is the gradient of the output, or for several outputs a tuple with None where there is none.
    """
    statistics.gradient_rules += 1
    declared = node.operator
    others, rule = gradient_call(node)
    arguments = (*(out_grad if node.outputs is not None else (out_grad,)), *others)
    if not declared.is_view:
        template = declared.gradient_templates.find(arguments, gradient_attributes(node), rule)
        if template is not None:
            known: Gradients = template.apply(arguments)
            return known
    return rule(arguments)


def adjoint(declared: Operator) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that declares the gradient of an operator of one input as a call of another operator.

    The rule is ``(shape of the input, parameters...) -> (operator, attributes)``; the call gets the gradient of the
    output. Passes that compute at once need not record such a rule for new parameters.
    """

    def decorate(rule: Callable[..., Any]) -> Callable[..., Any]:
        def gradient(out_grad: Node, out: Node, data: Node, **parameters: Any) -> Node:
            called, attributes = rule(data.shape, **parameters)
            return single(called.apply((out_grad,), attributes))

        declared.adjoint_rule, declared.gradient_rule = rule, gradient
        return rule

    return decorate


@hot
def gradient_attributes(node: Node) -> tuple[Any, ...]:
    """Return those attributes of a node on which its gradient rule depends."""
    rule = node.operator.gradient_rule
    if rule is None or not node.attributes:
        return ()
    if node.operator not in _all_or_none:
        _all_or_none[node.operator] = _uses_all_or_none(node.operator, rule)
    uses = _all_or_none[node.operator]
    if uses is None:
        return tuple(node.operator.accepted(rule, node.attributes).values())
    return node.attributes if uses else ()


#: whether the rule of an operator depends on all attributes, or on none; None for others
_all_or_none: dict[Operator, bool | None] = {}


def _uses_all_or_none(declared: Operator, rule: Callable[..., Any]) -> bool | None:
    names = declared.accepted(rule, declared.parameter_names)
    if not names:
        return False
    return True if len(names) == len(declared.parameter_names) else None


def gradient_call(node: Node) -> tuple[Gradients, Callable[[Sequence[Node | None]], Gradients]]:
    """Return how the gradient rule is called for a node.

    Returns
    -------
    others
        The arguments after the gradients of the outputs: the outputs, and the inputs, None if left out.
    rule
        A function of all arguments in one sequence, which returns one gradient for each input.
    """
    declared = node.operator
    rule = declared.gradient_rule
    if rule is None:
        raise MXNetError(
            f"Operator {declared.name} is non-differentiable because it didn't register FGradient attribute."
        )
    inputs: Gradients = node.inputs
    if len(inputs) > declared.required_inputs:
        inputs = tuple([None if source.operator is ABSENT.operator else source for source in node.inputs])
    named = declared.accepted(rule, node.attributes) if node.attributes else {}
    if node.outputs is None:
        return (node, *inputs), lambda given: _checked(declared, rule(*given, **named), given[2:])
    count = len(node.outputs)
    outputs = items_of(node)

    def of_several(given: Sequence[Node | None]) -> Gradients:
        grads, outs, sources = tuple(given[:count]), tuple(given[count : 2 * count]), given[2 * count :]
        return _checked(declared, rule(grads, outs, *sources, **named), sources)

    return (*outputs, *inputs), of_several


def _checked(declared: Operator, found: Any, inputs: Sequence[Node | None]) -> Gradients:
    """Return what a gradient rule has found, one gradient for each input, after a check."""
    grads: Gradients = found if isinstance(found, tuple) else (found,)
    if len(grads) != len(inputs):
        if found is not None:
            raise AssertionError(f"gradient of {declared.name}: {len(grads)} gradients for {len(inputs)} inputs")
        grads = (None,) * len(inputs)
    for source, grad in zip(inputs, grads, strict=True):
        if grad is None or source is None:
            continue
        if grad.shape != source.shape or grad.kind != source.kind:
            raise AssertionError(
                f"gradient of {declared.name}: {name_of(grad.dtype)}{format_shape(grad.shape)} for an input "
                f"{name_of(source.dtype)}{format_shape(source.shape)}"
            )
    return grads
