"""Inference: propagate shapes and dtypes through a graph, in both directions, until nothing changes.

Each call refines the specs of its inputs and outputs (:meth:`.calls.Call.infer`); this module combines them. Arguments
may declare a shape and a dtype (``sym.var("x", shape=(2, 3))``).
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from typing import Any

from ..core.base.dtypes import CODES, DType, as_dtype
from ..core.base.errors import MXNetError
from ..core.graph.interface import merge
from .calls import Spec
from .entry import Entry, Head, entries_of
from .extents import as_partial

__all__ = ["Inferred", "infer"]

_BY_CODE = {str(code): dtype for dtype, code in CODES.items()}


def declared_spec(entry: Entry) -> Spec:
    """Return the shape and dtype that an argument's attributes declare."""
    text = entry.attributes.get("__shape__")
    shape = None
    if text is not None:
        try:
            extents = ast.literal_eval(text)
            extents = (extents,) if isinstance(extents, int) else extents
            shape = as_partial([int(extent) for extent in extents])
        except (ValueError, SyntaxError, TypeError):
            raise MXNetError(f"variable {entry.name} has the invalid shape {text!r}") from None
    code = entry.attributes.get("__dtype__")
    if code in (None, "-1"):
        return shape, None
    try:
        return shape, _BY_CODE.get(str(code)) or as_dtype(code)
    except (TypeError, KeyError) as error:
        raise MXNetError(f"variable {entry.name} has the invalid type {code!r}: {error}") from None


class Inferred:
    """The known specs of every output of every entry."""

    def __init__(self, entries: list[Entry]) -> None:
        self.entries = entries
        self.specs: dict[Entry, list[Spec]] = {}
        for entry in entries:
            if entry.is_argument:
                self.specs[entry] = [declared_spec(entry)]
            else:
                self.specs[entry] = [(None, None)] * max(len(entry.call.output_names), entry.outputs or 0)

    def of(self, head: Head) -> Spec:
        """Return the spec of an output."""
        return self.specs[head[0]][head[1]]

    def note(self, head: Head, spec: Spec) -> bool:
        """Refine the spec of an output, and return whether that added information."""
        entry, index = head
        shape, dtype = self.specs[entry][index]
        together = merge(shape, spec[0]), dtype if dtype is not None else spec[1]
        self.specs[entry][index] = together
        # compared by identity: NumPy considers float64 and None equal
        return together[0] != shape or (dtype is None and together[1] is not None)


def infer(heads: Iterable[Head], given: Mapping[str, Spec], fill_dtype: DType | None = None) -> Inferred:
    """Return the specs that follow from the specs of some arguments.

    With ``fill_dtype``, arguments whose dtype stays unknown get that dtype at the end.
    """
    inferred = Inferred(entries_of(heads))
    for entry in inferred.entries:
        if entry.is_argument and entry.name in given:
            # what is given replaces what the argument declares
            (shape, dtype), (declared_shape, declared_dtype) = given[entry.name], inferred.specs[entry][0]
            inferred.specs[entry] = [(declared_shape if shape is None else shape, dtype or declared_dtype)]
    _repeat(inferred)
    if fill_dtype is not None:
        for entry in inferred.entries:
            if entry.is_argument and inferred.specs[entry][0][1] is None:
                # one at a time, because it may determine others
                inferred.note((entry, 0), (None, fill_dtype))
                _repeat(inferred)
    return inferred


def _repeat(inferred: Inferred) -> None:
    calls = [entry for entry in inferred.entries if not entry.is_argument]
    seen: dict[Entry, Any] = {}
    order = calls
    while True:
        news = [_visit(entry, inferred, seen) for entry in order]
        if not any(news):
            return
        order = calls if order is not calls else calls[::-1]


def _visit(entry: Entry, inferred: Inferred, seen: dict[Entry, Any]) -> bool:
    """Infer the specs of one call, and return whether that added information."""
    before = ([inferred.of(source) for source in entry.inputs], list(inferred.specs[entry]))
    known = [(shape, dtype is None) for part in before for shape, dtype in part]
    if seen.get(entry) == known:
        return False
    seen[entry] = known
    try:
        inputs, outputs = entry.call.infer(*before)
        news = [inferred.note(source, spec) for source, spec in zip(entry.inputs, inputs, strict=True)]
        news += [inferred.note((entry, index), spec) for index, spec in enumerate(outputs)]
    except MXNetError as error:
        if str(error).startswith("Error in operator"):
            raise
        raise MXNetError(f"Error in operator {entry.name}: {error}") from error
    return any(news)
