"""Calls that read values during evaluation: ``histogram`` and ``contrib.boolean_mask``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..core.array.handle import make, node_in
from ..core.base.errors import MXNetError
from ..core.graph.node import Node
from ..ndarray import control, functions
from .build import build
from .calls import Call, Environment, Outcome, Spec, special
from .entry import Head, text_of
from .graph import Symbol

__all__ = ["boolean_mask", "histogram"]

_INT64 = np.dtype("int64")


def _read(kind: type, operator: str, name: str, text: str) -> Any:
    try:
        return kind(text)
    except ValueError:
        raise MXNetError(f"Invalid Parameter format for {name} expect {kind.__name__} but value='{text}', in operator "
                         f"{operator}") from None  # fmt: skip


class HistogramCall(Call):
    """The number of elements in each bin, and the edges of the bins."""

    def __init__(self, attributes: Mapping[str, str], graphs: tuple[list[Head], ...], inputs: int) -> None:
        self.bins: int | None = None
        self.range = (0.0, 0.0)
        if attributes.get("bin_cnt", "None") != "None":
            self.bins = _read(int, "_histogram", "bin_cnt", attributes["bin_cnt"])
            ends = attributes.get("range", "").strip("()[] ").split(",")
            if self.bins < 1 or len(ends) != 2:
                raise MXNetError(f"_histogram: {self.bins} bins need two ends, but range={attributes.get('range')!r}")
            self.range = (
                _read(float, "_histogram", "range", ends[0]),
                _read(float, "_histogram", "range", ends[1]),
            )
        self.argument_names = ("data",) if self.bins is not None else ("data", "bins")
        self.output_names = ("output0", "output1")
        self.visible = 2
        self.looks_at_values = True

    def evaluate(self, inputs: list[Node], environment: Environment) -> Outcome:
        """Compute counts and edges now, and return their nodes."""
        data, *bins = [make(node, environment.trace) for node in inputs]
        found = functions.histogram(data, self.bins or bins[0], self.range if self.bins else None)
        return tuple([node_in(array, environment.trace) for array in found]), {}

    def infer(self, inputs: list[Spec], outputs: list[Spec]) -> tuple[list[Spec], list[Spec]]:
        """Return shapes and dtypes: there is one more edge than bins."""
        dtype = inputs[0][1]
        if self.bins is not None:
            return inputs, [((self.bins,), _INT64), ((self.bins + 1,), dtype)]
        shape, kind = inputs[1]
        inputs = [inputs[0], (shape, kind or dtype)]
        return inputs, [((max(shape[0] - 1, 0),) if shape else None, _INT64), (shape, kind or dtype)]


class MaskCall(Call):
    """The slices along an axis at which a mask is nonzero."""

    def __init__(self, attributes: Mapping[str, str], graphs: tuple[list[Head], ...], inputs: int) -> None:
        self.axis = _read(int, "_contrib_boolean_mask", "axis", attributes.get("axis", "0"))
        self.argument_names = ("data", "index")
        self.output_names = ("output",)
        self.visible = 1
        self.looks_at_values = True

    def evaluate(self, inputs: list[Node], environment: Environment) -> Outcome:
        """Compute the mask now, and return the node of the selected slices."""
        data, index = [make(node, environment.trace) for node in inputs]
        chosen = control.boolean_mask(data, index, self.axis)
        return (node_in(chosen, environment.trace),), {}

    def infer(self, inputs: list[Spec], outputs: list[Spec]) -> tuple[list[Spec], list[Spec]]:
        """Return the dtype; the number of slices is unknown."""
        shape, dtype = inputs[0]
        mask = (shape[self.axis],) if shape and -len(shape) <= self.axis < len(shape) else None
        return [inputs[0], (mask, inputs[1][1])], [(None, dtype)]


special.update(_histogram=HistogramCall, _contrib_boolean_mask=MaskCall)


def histogram(
    a: Symbol,
    bins: Any = 10,
    range: tuple[float, float] | None = None,  # noqa: A002 - MXNet's name
    name: str | None = None,
    **kwargs: Any,
) -> Symbol:
    """Return the number of elements in each bin, and the edges of the bins.

    Parameters
    ----------
    bins
        The number of equal-width bins, or a symbol of their edges.
    range
        The outer edges, if ``bins`` is a number.
    """
    if isinstance(bins, Symbol):
        return build("_histogram", "_histogram", [a, bins], {}, name, kwargs.get("attr"))
    if not isinstance(bins, (int, np.integer)):
        raise ValueError("bins argument should be either an integer or an NDArray")
    if range is None:
        raise ValueError("null range is not supported in symbol mode")
    texts = {"bin_cnt": str(bins), "range": text_of(tuple(range))}
    return build("_histogram", "_histogram", [a], texts, name, kwargs.get("attr"))


def boolean_mask(
    data: Symbol, index: Symbol, axis: int | None = None, name: str | None = None, attr: Any = None
) -> Symbol:
    """Return the slices of data along an axis (default: the first) where the mask is nonzero."""
    texts = {} if axis is None else {"axis": str(axis)}
    return build("_contrib_boolean_mask", "boolean_mask", [data, index], texts, name, attr)
