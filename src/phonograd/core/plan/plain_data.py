"""Plain data: attributes of nodes in a form that ``marshal`` knows, for the planner process and for files."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base.devices import CPU, Context
from .sized_plan import DTYPES

__all__ = ["plain", "value_of"]


def plain(value: Any) -> Any:
    """Return an attribute as plain data: lists stand for dtypes and contexts; raise TypeError for objects."""
    kind = type(value)
    if kind is tuple:
        return tuple([plain(part) for part in value])
    if value is None or kind in (int, float, bool, str, bytes):
        return value
    if kind is Context:
        return [value.device_type, value.device_id]
    if isinstance(value, np.dtype) and DTYPES.get(value.num) == value:
        return [value.num]
    raise TypeError(f"{kind} is not plain data")


def value_of(data: Any) -> Any:
    """Return the attribute that plain data stand for."""
    if type(data) is tuple:
        return tuple([value_of(part) for part in data])
    if type(data) is list:
        if len(data) == 1:
            return DTYPES[data[0]]
        context = Context(*data)
        return CPU if context == CPU else context
    return data
