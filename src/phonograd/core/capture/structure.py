"""Structure: everything about the arguments of a call but the values in their arrays.

Calls with equal structures do the same to their arrays, so :mod:`.compiled` captures a function once per structure.
The arrays of a call are numbered in the order in which they are found. The gradient buffers of arguments that are
variables follow them as arrays of their own: a function that differentiates writes into the buffers of its arguments.
Whether two of all these arrays are the same one is part of the structure, because each array has one number.
See docs/decisions/0007.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..array.handle import Handle
from ..base.devices import CPU
from ..ops.math.structural import VARIABLE

__all__ = ["ArgumentNumber", "ArrayNumber", "add_gradients", "kind_of", "outline", "owns_node", "replace_arrays"]


class ArrayNumber(NamedTuple):
    """An array among the arguments of a call, or among the arrays that it makes: its number."""

    number: int


class ArgumentNumber(NamedTuple):
    """An argument, or the gradient buffer of one, that is returned or changed: its number."""

    number: int


def outline(value: Any, arrays: dict[int, Any]) -> Any:
    """Return the structure of an argument without its arrays, which are numbered in ``arrays``."""
    if isinstance(value, Handle):
        count = len(arrays)
        arrays.setdefault(id(value), value)
        return ArrayNumber(count if len(arrays) > count else list(arrays).index(id(value)))
    if isinstance(value, (tuple, list)):
        return type(value), *[outline(part, arrays) for part in value]
    if isinstance(value, dict):
        return dict, *[(key, outline(part, arrays)) for key, part in value.items()]
    # 0.0 and -0.0, or 1 and True, are equal but not the same argument
    return type(value), repr(value) if isinstance(value, (float, complex, np.inexact)) else value


def add_gradients(arrays: dict[int, Any]) -> tuple[Any, ...] | None:
    """Add the gradient buffers of variables to the arrays of a call, and return which belongs to which.

    Each variable is described by the number of the first array that it belongs to, the number of its buffer, its
    request, and whether hooks see its gradient. None if no array is a variable.
    """
    found: list[Any] = []
    owners: dict[Any, int] = {}
    waiting = list(arrays.values())
    # the list grows: a gradient buffer can be a variable, too
    for number, array in enumerate(waiting):
        extras = array._extras
        if extras is None or extras.variable is None:
            continue
        owner = extras.variable
        grad = owner.grad
        if id(grad) in arrays:
            place = list(arrays).index(id(grad))
        else:
            place = len(waiting)
            arrays[id(grad)] = grad
            waiting.append(grad)
        found.append((number, owners.setdefault(owner, number), place, owner.request, bool(owner.hooks.functions)))
    return tuple(found) if found else None


def owns_node(array: Any, node: Any, trace: Any) -> bool:
    """Return whether a node of a trace is that of a variable: its own value, and no record that leads to it."""
    if node.operator is not VARIABLE or array._extras is None:
        return False
    owner = array._extras.variable
    return owner is not None and trace.targets[node.attributes[0]] is owner


#: how an array is marked: not at all, as a variable, or as a result that was recorded
_PLAIN, _VARIABLE, _RECORDED = range(3)


def kind_of(array: Any) -> tuple[Any, ...]:
    """Return the properties of an array that are part of the structure of a call."""
    node, extras = array._node, array._extras
    if extras is None:
        owned, is_readonly = False, False
    else:
        owned, is_readonly = extras.variable is not None, extras.readonly
    context = array.context
    place = None if context is CPU or context == CPU else context
    if node is None:
        return type(array), array.shape, array._dtype.num, _VARIABLE if owned else _PLAIN, owned, is_readonly, place
    if not node.marked:
        mark = _PLAIN
    else:
        mark = _VARIABLE if owned and owns_node(array, node, array._trace) else _RECORDED
    return type(array), node.shape, node.kind, mark, owned, is_readonly, place


def replace_arrays(value: Any, replace: Callable[[Any], Any]) -> Any:
    """Return a structure of tuples, lists and dictionaries with its arrays replaced."""
    if isinstance(value, (Handle, ArrayNumber, ArgumentNumber)):
        return replace(value)
    if isinstance(value, tuple):
        parts = [replace_arrays(part, replace) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    if isinstance(value, list):
        return [replace_arrays(part, replace) for part in value]
    if isinstance(value, dict):
        return {key: replace_arrays(part, replace) for key, part in value.items()}
    return value
