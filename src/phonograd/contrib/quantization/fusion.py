"""The graph pass for calibrated networks: layers with one kernel for product, scale, bias, ReLU and rounding.

A *unit* is a product (Convolution or FullyConnected) with the batch normalization and the ReLU that follow it, if
no other operator reads the values between. Ranges are numbers, so the pass needs them all. It runs twice: first to find
the outputs whose ranges it needs, then with their ranges.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from ...core.base.dtypes import INT8, UINT8, DType
from ...core.graph.operator import REGISTRY
from ...core.ops.quantized.ranges import LEVELS
from ...symbol import Symbol
from ...symbol.entry import NULL, Entry, Head, text_of
from .checks import EXCLUDED
from .graph import output_name, quantized_form

__all__ = ["Ranges", "fuse"]

#: returns the calibrated range of an output
Ranges = Callable[[str], tuple[float, float]]

#: levels of weights: symmetric, and the same as MXNet's
_WEIGHT_LEVELS = 127.0
#: the largest bias, in units of the sums
_MOST_UNITS = 2.0**30


class _Quantized(NamedTuple):
    """A quantized output of the new graph; elements stand for ``q * scale``."""

    head: Head
    dtype: DType
    scale: float

    @property
    def limit(self) -> float:
        """The greatest number that it represents."""
        return float(self.scale * LEVELS[self.dtype])


class _Unit(NamedTuple):
    product: Entry
    norm: Entry | None
    relu: bool
    last: Entry


def _parameter(entry: Entry, name: str) -> Any:
    declared = REGISTRY[entry.operator]
    own = {key: value for key, value in entry.attributes.items() if key in declared.parameter_names}
    return dict(zip(declared.parameter_names, declared.attributes_of(own), strict=True))[name]


def _is_relu(entry: Entry) -> bool:
    if entry.operator == "relu":
        return True
    return entry.operator == "Activation" and _parameter(entry, "act_type") == "relu"


def _is_norm_of(entry: Entry, product: Entry) -> bool:
    """Return whether an entry normalizes the filters of a convolution."""
    if entry.operator != "BatchNorm" or product.operator != "Convolution":
        return False
    return entry.inputs[0] == (product, 0) and bool(_parameter(entry, "axis") == 1)


class Fusion:
    """One run of the pass.

    Parameters
    ----------
    symbol
        The network of real numbers.
    params
        Its arguments and auxiliary states as NumPy arrays, by name.
    excluded
        Whether an entry must stay real.
    dtype
        ``int8``, ``uint8`` or ``auto``.
    by_channel
        Whether every filter has a scale of its own.
    """

    def __init__(
        self,
        symbol: Symbol,
        params: dict[str, Any],
        excluded: Callable[[Entry], bool],
        dtype: str,
        by_channel: bool,
        ranges: Ranges,
    ) -> None:
        self.params, self.dtype, self.by_channel, self.ranges = params, dtype, by_channel, ranges
        self.excluded = excluded
        entries = symbol._entries()
        self.readers: Counter[Head] = Counter([source for entry in entries for source in entry.inputs])
        self.readers.update(symbol._heads)
        self.users: dict[Head, list[Entry]] = {}
        for entry in entries:
            for source in entry.inputs:
                self.users.setdefault(source, []).append(entry)
        self.real: dict[Head, Head] = {}
        self.quantized: dict[Head, _Quantized] = {}
        self.new_params: dict[str, Any] = {}
        #: ReLUs that are computed with the sums before them
        self.fused: set[Entry] = set()
        self.units = self._find_units(entries)
        #: names of the quantized layers, and reasons why the others are not
        self.done: list[str] = []
        self.left: dict[str, str] = {}
        inside = {entry for unit in self.units.values() for entry in (unit.product, unit.norm, unit.last)}
        for entry in entries:
            if entry in self.units:
                self._unit(self.units[entry])
            elif entry not in inside and entry not in self.fused:
                self._entry(entry)
        self.symbol = Symbol([self.as_real(head) for head in symbol._heads])

    # -- units

    def _find_units(self, entries: Iterable[Entry]) -> dict[Entry, _Unit]:
        """Return the units by their last entry."""
        found = {}
        for entry in entries:
            form = quantized_form(entry)
            if isinstance(form, str) or not form[1].is_product or self.excluded(entry):
                continue
            if not all([source.is_argument and source.name in self.params for source, _ in entry.inputs[1:]]):
                continue
            last, norm, relu = entry, None, False
            following = self._only_reader(last)
            if following is not None and _is_norm_of(following, entry):
                last = norm = following
                following = self._only_reader(last)
            if following is not None and _is_relu(following) and not self.excluded(following):
                last, relu = following, True
            found[last] = _Unit(entry, norm, relu, last)
        return found

    def _only_reader(self, entry: Entry) -> Entry | None:
        users = self.users.get((entry, 0), [])
        others = [head for head in self.readers if head[0] is entry and head[1] > 0]
        return users[0] if len(users) == 1 and self.readers[entry, 0] == 1 and not others else None

    def _unit(self, unit: _Unit) -> None:
        entry = unit.product
        data = self.quantize(entry.inputs[0])
        weight, bias = self._weights(unit)
        if not (np.all(np.isfinite(weight)) and np.all(np.isfinite(bias))):
            raise ValueError(
                f"the parameters of layer {entry.name} have infinite numbers or NaN: train it again, or exclude it"
            )
        self.done.append(entry.name)
        axes = tuple(range(1, weight.ndim))
        limit = np.abs(weight).max(axis=axes) if self.by_channel else np.full(len(weight), np.abs(weight).max())
        # the bias in units of the sums must fit into int32: tiny weights beside a large bias become zeros
        limit = np.maximum(limit, np.abs(bias) * _WEIGHT_LEVELS / (data.scale * _MOST_UNITS))
        step = np.where(limit > 0, limit, 1).astype(np.float32) / np.float32(_WEIGHT_LEVELS)
        numbers = np.rint(weight / step.reshape(-1, *(1,) * len(axes))).clip(-127, 127).astype(np.int8)
        needs_real = not self._feeds_quantized((unit.last, 0))
        out_type, scale = ("float32", 1.0) if needs_real else self._result((unit.last, 0))
        factor = (step * np.float32(data.scale) / np.float32(scale)).astype(np.float32)
        # the bias is a whole number of units of the sums, as in runtimes that add it to them
        units = np.rint(bias / scale / factor.astype(np.float64))
        arrays = {
            f"{entry.name}_weight_quantize": numbers,
            f"{entry.name}_scale": factor,
            f"{entry.name}_bias_quantize": units.astype(np.int32),
        }
        self.new_params.update(arrays)
        inputs: list[Head] = [data.head, *[(Entry(NULL, name, {}, []), 0) for name in arrays]]
        operator = "_quantized_dense" if entry.operator == "FullyConnected" else "_quantized_convolution"
        known = REGISTRY[operator].parameter_names
        attributes = {key: value for key, value in entry.attributes.items() if key in known}
        attributes.update(relu=text_of(unit.relu), out_type=out_type)
        made = Entry(operator, f"quantized_{unit.last.name}", attributes, inputs)
        if needs_real:
            self.real[unit.last, 0] = made, 0
        else:
            self.quantized[unit.last, 0] = _Quantized((made, 0), np.dtype(out_type), scale)

    def _weights(self, unit: _Unit) -> tuple[Any, Any]:
        """Return the weight and the bias of a unit, with its batch normalization."""
        entry = unit.product
        arrays = [self.params[source.name] for source, _ in entry.inputs[1:]]
        weight = arrays[0].astype(np.float64)
        bias = arrays[1].astype(np.float64) if len(arrays) > 1 else np.zeros(len(weight))
        if unit.norm is not None:
            gamma, beta, mean, variance = [self.params[source.name] for source, _ in unit.norm.inputs[1:]]
            if _parameter(unit.norm, "fix_gamma"):
                gamma = np.ones_like(gamma)
            factor = gamma / np.sqrt(variance.astype(np.float64) + _parameter(unit.norm, "eps"))
            weight = weight * factor.reshape(-1, *(1,) * (weight.ndim - 1))
            bias = (bias - mean) * factor + beta
        return weight.astype(np.float32), bias.astype(np.float32)

    # -- other entries

    def _entry(self, entry: Entry) -> None:
        if not entry.is_argument:
            form = quantized_form(entry)
            problem = EXCLUDED if self.excluded(entry) else form if isinstance(form, str) else ""
            if not problem and not isinstance(form, str) and not form[1].is_product:
                if self._quantized_entry(entry, form[0].name):
                    self.done.append(entry.name)
                    return
                problem = "no quantized layer is before it"
            self.left[entry.name] = problem or "its weights are no parameters"
        inputs = [self.as_real(source) for source in entry.inputs]
        copy = Entry(entry.operator, entry.name, dict(entry.attributes), inputs, entry.outputs, entry.subgraphs)
        count = 1 if entry.is_argument else max(1, len(entry.output_names()))
        self.real.update({(entry, index): (copy, index) for index in range(count)})

    def _quantized_entry(self, entry: Entry, quantized: str) -> bool:
        """Make the entry of an operator whose inputs are quantized already; return whether there is one."""
        sources = [self.quantized.get(source) for source in entry.inputs]
        if entry.operator == "elemwise_add" and any(sources):
            self._sum(entry)
            return True
        if not all(sources) or entry.operator in ("elemwise_mul", "BatchNorm", "Embedding"):
            return False
        known = [source for source in sources if source is not None]
        limits = [limit for source in known for limit in self._limits(source)]
        made = Entry(quantized, f"quantized_{entry.name}", dict(entry.attributes), [s.head for s in known] + limits)
        if entry.operator == "Concat":
            dtype = INT8 if INT8 in [source.dtype for source in known] else UINT8
            scale = max([source.limit for source in known]) / LEVELS[dtype]
            self.quantized[entry, 0] = _Quantized((made, 0), dtype, scale)
        else:
            self.quantized[entry, 0] = known[0]._replace(head=(made, 0))
        return True

    def _limits(self, source: _Quantized) -> list[Head]:
        """Return entries with the least and the greatest number of a quantized output."""
        low = 0.0 if source.dtype == UINT8 else -source.limit
        name = source.head[0].name
        attributes = {"shape": "(1,)", "dtype": "float32"}
        return [
            (Entry("_full", f"{name}_{word}", {**attributes, "value": repr(value)}, []), 0)
            for word, value in (("min", low), ("max", source.limit))
        ]

    def _sum(self, entry: Entry) -> None:
        terms = [self.quantize(source) for source in entry.inputs]
        last, following = entry, self._only_reader(entry)
        if following is not None and _is_relu(following) and not self.excluded(following):
            last = following
            self.fused.add(last)
            self.done.append(last.name)
        needs_real = not self._feeds_quantized((last, 0))
        out_type, scale = ("float32", 1.0) if needs_real else self._result((last, 0))
        attributes = {
            "lhs_scale": repr(terms[0].scale / scale),
            "rhs_scale": repr(terms[1].scale / scale),
            "relu": text_of(last is not entry),
            "out_type": out_type,
        }
        made = Entry("_quantized_sum", f"quantized_{last.name}", attributes, [term.head for term in terms])
        if needs_real:
            self.real[last, 0] = made, 0
        else:
            self.quantized[last, 0] = _Quantized((made, 0), np.dtype(out_type), scale)

    # -- conversions

    def _feeds_quantized(self, head: Head) -> bool:
        """Return whether an entry that reads an output takes it quantized."""
        for user in self.users.get(head, []):
            form = quantized_form(user)
            if not isinstance(form, str) and not self.excluded(user):
                return True
        return False

    def _result(self, head: Head) -> tuple[str, float]:
        """Return the dtype and the scale for the calibrated range of an output."""
        low, high = self.ranges(output_name(head) if not head[0].is_argument else head[0].name)
        if low < 0 and self.dtype == "uint8":
            raise ValueError(
                f"the output {output_name(head) if not head[0].is_argument else head[0].name} has negative numbers "
                f"(down to {low:.4g}), which uint8 cannot represent: use quantized_dtype 'auto' or 'int8', or exclude "
                "the layers that read it"
            )
        dtype = UINT8 if low >= 0 and self.dtype != "int8" else INT8
        limit = max(abs(low), abs(high)) or 1.0
        return str(dtype), float(np.float32(limit) / np.float32(LEVELS[dtype]))

    def quantize(self, head: Head) -> _Quantized:
        """Return a quantized output of the old graph."""
        if head not in self.quantized:
            source = self.as_real(head)
            out_type, scale = self._result(head)
            limit = scale * LEVELS[np.dtype(out_type)]
            attributes = {"out_type": out_type, "min_calib_range": repr(0.0 if out_type == "uint8" else -limit)}
            attributes["max_calib_range"] = repr(limit)
            name = head[0].name if head[0].is_argument else output_name(head)
            made = Entry("_contrib_quantize_v2", f"{name}_quantize", attributes, [source])
            self.quantized[head] = _Quantized((made, 0), np.dtype(out_type), scale)
        return self.quantized[head]

    def as_real(self, head: Head) -> Head:
        """Return a real output of the old graph."""
        if head not in self.real:
            source = self.quantized[head]
            name = f"{head[0].name}_dequantize"
            self.real[head] = Entry("_contrib_dequantize", name, {}, [source.head, *self._limits(source)]), 0
        return self.real[head]


def fuse(
    symbol: Symbol,
    params: dict[str, Any],
    excluded: Callable[[Entry], bool],
    dtype: str,
    by_channel: bool,
    calibrate: Callable[[list[str]], dict[str, tuple[float, float]]],
) -> Fusion:
    """Return the quantized network; ``calibrate(names)`` returns the ranges of outputs of the real network."""
    names: dict[str, None] = {}

    def unknown(name: str) -> tuple[float, float]:
        names[name] = None
        return (0.0, 1.0) if dtype == "uint8" else (-1.0, 1.0)

    Fusion(symbol, params, excluded, dtype, by_channel, unknown)
    known = calibrate(list(names))
    return Fusion(symbol, params, excluded, dtype, by_channel, known.__getitem__)
