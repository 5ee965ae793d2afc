"""Inference: shapes and dtypes of a whole graph from those of some arguments, in both directions, until nothing is new.

Each call says what it knows of its inputs and outputs given what is known already (:meth:`.calls.Call.infer`); here the
pieces are put together. Arguments may carry a shape and a dtype of their own (``sym.var("x", shape=(2, 3))``).
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

__all__ = ["Inferred", "infer"]

_BY_CODE = {str(code): dtype for dtype, code in CODES.items()}


def declared_spec(entry: Entry) -> Spec:
    """Return what the attributes of an argument say of its shape and dtype."""
    text = entry.attributes.get("__shape__")
    shape = None
    if text is not None:
        try:
            extents = ast.literal_eval(text)
            extents = (extents,) if isinstance(extents, int) else extents
            shape = tuple([max(int(extent), 0) for extent in extents])
        except (ValueError, SyntaxError, TypeError):
            raise MXNetError(f"variable {entry.name} has the shape {text!r}, which is no shape") from None
    code = entry.attributes.get("__dtype__")
    if code in (None, "-1"):
        return shape or None, None
    try:
        return shape or None, _BY_CODE.get(str(code)) or as_dtype(code)
    except (TypeError, KeyError) as error:
        raise MXNetError(f"variable {entry.name} has the type {code!r}: {error}") from None


class Inferred:
    """What is known of every output of every entry."""

    def __init__(self, entries: list[Entry]) -> None:
        self.entries = entries
        self.specs: dict[Entry, list[Spec]] = {}
        for entry in entries:
            if entry.is_argument:
                self.specs[entry] = [declared_spec(entry)]
            else:
                self.specs[entry] = [(None, None)] * max(len(entry.call.output_names), entry.outputs or 0)

    def of(self, head: Head) -> Spec:
        """Return what is known of an output."""
        return self.specs[head[0]][head[1]]

    def note(self, head: Head, spec: Spec) -> bool:
        """Add to what is known of an output, and return whether it was new."""
        entry, index = head
        shape, dtype = self.specs[entry][index]
        together = merge(shape, spec[0]), dtype if dtype is not None else spec[1]
        self.specs[entry][index] = together
        # not by comparing dtypes: to NumPy, float64 and None are equal
        return together[0] != shape or (dtype is None and together[1] is not None)


def infer(heads: Iterable[Head], given: Mapping[str, Spec], fill_dtype: DType | None = None) -> Inferred:
    """Return what follows from the specs of some arguments.

    With ``fill_dtype``, arguments whose dtype nothing decides get that one in the end.
    """
    inferred = Inferred(entries_of(heads))
    for entry in inferred.entries:
        if entry.is_argument and entry.name in given:
            inferred.note((entry, 0), given[entry.name])
    _repeat(inferred)
    if fill_dtype is not None:
        for entry in inferred.entries:
            if entry.is_argument and inferred.specs[entry][0][1] is None:
                # one at a time, because others may follow from it
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
    """Let one call say what it knows; return whether that was new."""
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
