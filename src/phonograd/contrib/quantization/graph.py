"""The graph pass of MXNet: replace operators by quantized ones, and insert conversions between them.

Ranges are values of the graph. Parameters are quantized before, if their names are given. With ``channel-wise``
granularity, the limits of weights are vectors: their variables state the shape.
"""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterable, Iterator

from ...core.graph.interface import Quantizes
from ...core.graph.operator import NAMES, REGISTRY, Operator
from ...symbol import Symbol
from ...symbol.entry import NULL, Entry, Head, entries_of
from .checks import EXCLUDED

__all__ = ["calibrate_symbol", "observed_names", "output_name", "quantize_symbol", "quantized_form"]

_QUANTIZE, _DEQUANTIZE, _REQUANTIZE = "_contrib_quantize_v2", "_contrib_dequantize", "_contrib_requantize"


def output_name(head: Head) -> str:
    """Return the name of an output, as monitors show it."""
    entry, index = head
    return entry.output_names()[index]


def quantized_form(entry: Entry) -> tuple[Operator, Quantizes] | str:
    """Return the quantized operator of an entry, or the reason why it has none."""
    if entry.is_argument:
        return "it is an argument"
    declared = REGISTRY.get(entry.operator)
    found = None if declared is None else NAMES["quantizes"].get(declared.name)
    if found is None or declared is None or found.quantizes is None:
        return f"operator {entry.operator} has no quantized form"
    known = dict(zip(declared.parameter_names, declared.attributes_of(_own(entry, declared)), strict=True))
    rule = found.quantizes.obstacle
    problem: str = rule(**{name: known[name] for name in inspect.signature(rule).parameters})
    return problem or (found, found.quantizes)


def _own(entry: Entry, declared: Operator) -> dict[str, str]:
    return {key: value for key, value in entry.attributes.items() if key in declared.parameter_names}


def _marked(
    entries: list[Entry], excluded_symbols: Iterable[str], excluded_operators: Iterable[str], mode: str
) -> dict[Entry, tuple[Operator, Quantizes]]:
    """Return the entries to quantize; in the mode ``smart``, only products and what is between them."""
    names, operators = set(excluded_symbols), set(excluded_operators)
    forms: dict[Entry, tuple[Operator, Quantizes]] = {}
    for entry in entries:
        form = quantized_form(entry)
        if not isinstance(form, str) and entry.name not in names and entry.operator not in operators:
            forms[entry] = form
    if mode == "full":
        return forms
    before: set[Entry] = set()
    after: set[Entry] = set()
    for entry in entries:
        if entry in forms and any([s in after or _is_product(forms, s) for s, _ in entry.inputs]):
            after.add(entry)
    for entry in reversed(entries):
        if _is_product(forms, entry) or (entry in forms and entry in before):
            before.update([source for source, _ in entry.inputs])
    return {e: form for e, form in forms.items() if form[1].is_product or (e in before and e in after)}


def _is_product(forms: dict[Entry, tuple[Operator, Quantizes]], entry: Entry) -> bool:
    return entry in forms and forms[entry][1].is_product


def _filters(marked: dict[Entry, tuple[Operator, Quantizes]]) -> dict[Head, str]:
    """Return the number of filters of each weight that only products read."""
    found, others = {}, set()
    for entry, (_, form) in marked.items():
        for position, source in enumerate(entry.inputs):
            if form.is_product and position == 1:
                name = "num_hidden" if "num_hidden" in entry.attributes else "num_filter"
                found[source] = entry.attributes[name]
            else:
                others.add(source)
    return {source: count for source, count in found.items() if source not in others}


class _Pass:
    """One run of the pass."""

    def __init__(
        self, marked: dict[Entry, tuple[Operator, Quantizes]], offline: set[str], dtype: str, filters: dict[Head, str]
    ) -> None:
        self.marked, self.offline, self.dtype, self.filters = marked, offline, dtype, filters
        self.real: dict[Head, Head] = {}
        self.quantized: dict[Head, tuple[Head, Head, Head]] = {}
        #: entries of the new graph whose ranges are calibrated, with the output of the old graph that is observed
        self.observed: dict[Entry, str] = {}

    def quantize(self, head: Head) -> tuple[Head, Head, Head]:
        """Return a quantized output of the old graph, with its limits."""
        if head not in self.quantized:
            source = self.as_real(head)
            name = head[0].name if head[0].is_argument else output_name(head)
            if head[0].is_argument and head[0].name in self.offline:
                shape = {"__shape__": f"({self.filters[head]},)"} if head in self.filters else {}
                array, low, high = [
                    Entry(NULL, f"{name}_quantize{suffix}", dict(shape) if suffix else {}, [])
                    for suffix in ("", "_min", "_max")
                ]
                self.quantized[head] = (array, 0), (low, 0), (high, 0)
            else:
                made = Entry(_QUANTIZE, f"{name}_quantize", {"out_type": self.dtype}, [source])
                self.observed[made] = name
                self.quantized[head] = (made, 0), (made, 1), (made, 2)
        return self.quantized[head]

    def as_real(self, head: Head) -> Head:
        """Return a real output of the old graph."""
        if head not in self.real:
            made = Entry(_DEQUANTIZE, f"{head[0].name}_dequantize", {}, list(self.quantized[head]))
            self.real[head] = made, 0
        return self.real[head]

    def visit(self, entry: Entry) -> None:
        """Make the entry of the new graph."""
        if entry not in self.marked:
            inputs = [self.as_real(source) for source in entry.inputs]
            copy = Entry(entry.operator, entry.name, dict(entry.attributes), inputs, entry.outputs, entry.subgraphs)
            count = 1 if entry.is_argument else max(1, len(entry.output_names()))
            self.real.update({(entry, index): (copy, index) for index in range(count)})
            return
        found, form = self.marked[entry]
        arrays: list[Head] = []
        limits: list[Head] = []
        for position, source in enumerate(entry.inputs):
            if form.real(position):
                arrays.append(self.as_real(source))
            else:
                array, low, high = self.quantize(source)
                arrays.append(array)
                limits += [low, high]
        made = Entry(found.name, f"quantized_{entry.name}", dict(entry.attributes), [*arrays, *limits])
        if form.is_requantized:
            product = made
            made = Entry(
                _REQUANTIZE, f"requantize_{entry.name}", {"out_type": self.dtype}, [(product, at) for at in range(3)]
            )
        if form.is_requantized or form.is_calibrated:
            self.observed[made] = output_name((entry, 0))
        self.quantized[entry, 0] = (made, 0), (made, 1), (made, 2)


def quantize_symbol(
    symbol: Symbol,
    excluded_symbols: Collection[str] = (),
    excluded_operators: Collection[str] = (),
    offline_params: Iterable[str] = (),
    quantized_dtype: str = "int8",
    quantize_mode: str = "smart",
    quantize_granularity: str = "tensor-wise",
) -> tuple[Symbol, list[str], dict[str, str]]:
    """Return the quantized symbol, the outputs whose ranges calibration must find, and the layers that stay real.

    The latter are given with the reason.
    """
    entries = symbol._entries()
    marked = _marked(entries, excluded_symbols, excluded_operators, quantize_mode)
    filters = _filters(marked) if quantize_granularity == "channel-wise" else {}
    work = _Pass(marked, set(offline_params), quantized_dtype, filters)
    for entry in entries:
        work.visit(entry)
    heads = [work.as_real(head) for head in symbol._heads]
    used = set(entries_of(heads))
    names = list(dict.fromkeys([name for made, name in work.observed.items() if made in used]))
    left = {}
    for entry in entries:
        form = quantized_form(entry)
        if entry.name in excluded_symbols or entry.operator in excluded_operators:
            left[entry.name] = EXCLUDED
        elif isinstance(form, str) and not entry.is_argument:
            left[entry.name] = form
    return Symbol(heads), names, left


def calibrate_symbol(symbol: Symbol, ranges: dict[str, tuple[float, float]]) -> Symbol:
    """Return a copy of a quantized symbol, with ranges as parameters of conversions."""
    copied = Symbol(symbol.__copy__()._heads)
    for entry, name in _observed(copied):
        if name in ranges:
            low, high = ranges[name]
            entry.attributes.update(min_calib_range=repr(float(low)), max_calib_range=repr(float(high)))
            entry.forget_call()
    return copied


def observed_names(symbol: Symbol) -> list[str]:
    """Return the outputs of the real graph whose ranges a quantized symbol needs."""
    return list(dict.fromkeys([name for _, name in _observed(symbol)]))


def _observed(symbol: Symbol) -> Iterator[tuple[Entry, str]]:
    """Yield the conversions of a quantized symbol, with the output of the real graph whose range each of them needs."""
    for entry in symbol._entries():
        declared = REGISTRY.get(entry.operator)
        form = None if declared is None else declared.quantizes
        if entry.operator == _QUANTIZE:
            source = entry.inputs[0]
            yield entry, source[0].name if source[0].is_argument else output_name(source)
        elif entry.operator == _REQUANTIZE or (form is not None and form.is_calibrated):
            yield entry, f"{entry.name.removeprefix('requantize_').removeprefix('quantized_')}_output"
