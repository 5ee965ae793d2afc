"""Reading and writing parts of arrays of mx.np: ``x[key]`` and ``x[key] = value``.

Keys are those of NDArray (:mod:`phonograd.core.array.keys`), with NumPy's meaning where it differs. A key that names
one element gives a 0-d array, a 0-d index array acts as a number, and masks select where they are true. A mask is
computed when it is used, since the number of selected elements depends on its values. Writing a number, or a value
that fits every selected row, needs no such computation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..core.array.binary import Numbers
from ..core.array.handle import Handle, assign, make_view, materialize_if_naive, node_in, read, record_or_detach
from ..core.array.indexing import get as get_part
from ..core.array.indexing import set_ as set_part
from ..core.array.observed import LISTENERS, NamedAction, observe_call
from ..core.base.dtypes import BOOL
from ..core.graph.node import Shape
from ..core.ops.math.primitives import cast, reshape_to, select
from ..core.trace.trace import ready_trace

__all__ = ["get", "set_"]

_MASKED = NamedAction("_boolean_mask_assign")


def get(self: Any, key: Any) -> Any:
    """Return the part that a key selects: a view if its elements are contiguous, else a copy."""
    if type(key) is int:
        shape = self.shape
        return make_view(self, _place((key,), shape), ()) if len(shape) == 1 else get_part(self, key)
    if isinstance(key, (bool, np.bool_)):
        return get_part(get_part(self, None), slice(0, int(key)))
    found = _parse_key(key, self.shape)
    part = get_part(self, found.key)
    return part if found.shape is None else part.reshape(found.shape)


def _place(numbers: Sequence[int], shape: Shape) -> int:
    """Return the flat index of an element."""
    place = 0
    for axis, (number, extent) in enumerate(zip(numbers, shape, strict=True)):
        if not -extent <= number < extent:
            raise IndexError(f"index {number} is out of bounds for axis {axis} with size {extent}")
        place = place * extent + number % extent
    return place


class _ParsedKey(NamedTuple):
    """A key in the form that :mod:`phonograd.core.array.keys` accepts."""

    key: Any
    shape: Shape | None
    """The shape of the selection, where NDArray's differs."""


def _parse_key(key: Any, shape: Shape) -> _ParsedKey:
    """Return a key without masks, and the shape of its selection where NDArray has no 0-d array."""
    if type(key) is slice:
        start, stop, step = key.start, key.stop, key.step
        if step is None and type(start) is int and (start < 0 or (type(stop) is int and stop < start)):
            # NDArray rejects a single slice that ends before it begins
            return _ParsedKey((key,), None)
        return _ParsedKey(key, None)
    if isinstance(key, Handle) and not key.shape and key._dtype != BOOL:
        # use a vector of one element, so that its value need not be computed
        return _ParsedKey(key, shape[1:])
    given = [(part, _as_mask(part)) for part in (key if isinstance(key, tuple) else (key,))]
    spans = [len(m.shape) if m is not None else int(p is not None and p is not Ellipsis) for p, m in given]
    parts: list[Any] = []
    axis = numbers = 0
    other = False
    for (part, mask), span in zip(given, spans, strict=True):
        axis += len(shape) - sum(spans) if part is Ellipsis else 0
        if mask is not None:
            parts += _places(mask, shape, axis)
            other = True
        elif isinstance(part, (int, np.integer)) or (isinstance(part, (Handle, np.ndarray)) and not part.shape):
            parts.append(int(part))  # type: ignore[arg-type]
            numbers += 1
        else:
            parts.append(part)
            other = other or part is not Ellipsis
        axis += span
    if numbers and numbers == len(shape) and not other:
        return _ParsedKey(tuple(parts), ())
    return _ParsedKey(tuple(parts), None)


def _as_mask(part: Any) -> Any:
    """Return a part of a key as a boolean array, or None if it is not one."""
    if isinstance(part, Handle):
        return part if part._dtype == BOOL else None
    if isinstance(part, list):
        part = np.asarray(part) if part and not any([isinstance(item, Handle) for item in part]) else None
    if isinstance(part, np.ndarray) and part.dtype == np.bool_:
        return part
    return None


def _places(mask: Any, shape: Shape, axis: int) -> list[Any]:
    """Return the index arrays that select where a mask is true, one per axis of the mask from the given axis on."""
    for place, (extent, own) in enumerate(zip(shape[axis:], mask.shape, strict=False), axis):
        if extent != own:
            raise IndexError(
                f"boolean index did not match indexed array along dimension {place}; dimension is {extent} but "
                f"corresponding boolean dimension is {own}"
            )
    if axis + len(mask.shape) > len(shape):
        raise IndexError(f"too many indices for an array with {len(shape)} axes: a mask has {len(mask.shape)}")
    return list(np.nonzero(read(mask) if isinstance(mask, Handle) else mask))


def set_(self: Any, key: Any, value: Any) -> None:
    """Write the part that a key selects; the value is broadcast and converted to the array's dtype."""
    if type(key) is int or type(key) is slice:
        set_part(self, key, value)
        return
    if isinstance(key, (bool, np.bool_)):
        if key:
            set_part(self, slice(None), value)
        return
    mask = _as_mask(key)
    if mask is not None and mask.shape == self.shape[: len(mask.shape)] and _fits_rows(self, mask, value):
        _set_where(self, mask, value)
        return
    set_part(self, _parse_key(key, self.shape).key, value)


def _fits_rows(array: Any, mask: Any, value: Any) -> bool:
    """Return whether every element (or row) that a mask selects gets the same value."""
    if isinstance(value, Numbers):
        return True
    return isinstance(value, Handle) and len(value.shape) <= len(array.shape) - len(mask.shape)


def _set_where(self: Any, mask: Any, value: Any, listeners: Sequence[int] = LISTENERS) -> None:
    """Write a value wherever a mask is true."""
    if listeners:
        before = self._node, getattr(value, "_node", None)
        observe_call(_MASKED, (self, value), None, (), _set_where, (self, mask, value, ()), before=before)
        return
    if self._readonly:
        raise ValueError("Cannot assign to readonly NDArray")
    trace = ready_trace()
    base = node_in(self, trace)
    where = node_in(mask, trace) if isinstance(mask, Handle) else trace.bind(np.array(mask), base.context)
    where = reshape_to(where, where.shape + (1,) * (len(base.shape) - len(where.shape)))
    if isinstance(value, Handle):
        written = cast(node_in(value, trace), base.dtype)
    else:
        written = trace.bind_scalar(value, base.dtype, base.kind, base.context)
    chosen = select(where, written, base)
    if chosen.shape != base.shape:
        raise ValueError(f"a value of shape {written.shape} cannot be assigned to rows of shape {base.shape}")
    assign(self, record_or_detach(chosen, trace), trace)
    materialize_if_naive(self)
