"""explain: show the contents and cost of plans, reasons for new plans, and counts of expensive operations.

==========================  ========================================================================================
:func:`plan`                the plan for some arrays: kernels with their operators, NumPy calls, memory, and the values
                           that could not stay in registers, with the reason
:func:`plans`               the plans made by a block of code, each with the reason why it is new and its compilations
:func:`announce`            prints every new plan; ``PHONOGRAD_EXPLAIN=1`` does so from the beginning
:func:`tiers`               the evaluations of a block of code: which ran as plans, which operator by operator, and why
:func:`statistics`          counts of this process: nodes, plans, kernels, bytes
==========================  ========================================================================================

>>> import phonograd as mx
>>> x = mx.nd.array([[1, 2, 3], [4, 5, 6]])
>>> with mx.settings.override(executor="reference"):
...     print(mx.explain.plan(mx.nd.exp(x) * 2))
1 value from 2 arrays: 2 NumPy calls
  NumPy: exp
  NumPy: broadcast_mul
  memory: 24 bytes of results
"""

from __future__ import annotations

import dataclasses
import math
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Any

from .core.array.handle import place_of
from .core.base import settings
from .core.base.dtypes import name_of
from .core.base.errors import format_shape
from .core.graph.node import Node
from .core.graph.node import statistics as node_statistics
from .core.ops.math.structural import LEAF, VARIABLE
from .core.plan import promotion
from .core.plan.cache import EVALUATED, PLANNED, PLANS, CachedPlan, CacheNode, choose_program
from .core.run.reference import resolve
from .ndarray.array import NDArray

__all__ = [
    "Evaluation",
    "KernelReport",
    "PlanLog",
    "PlanReport",
    "TierLog",
    "ValueReport",
    "announce",
    "plan",
    "plans",
    "statistics",
    "tiers",
]

#: number of earlier plans, and nodes of each, to compare a new plan with
_MOST_PLANS = 50
_MOST_NODES = 20_000
#: maximum numbers of listed operators, differences and values
_MOST_NAMES = 12
_MOST_DIFFERENCES = 4
_MOST_VALUES = 8


@dataclasses.dataclass(frozen=True)
class KernelReport:
    """A kernel or NumPy call of a plan."""

    operators: tuple[str, ...]
    """The operators it computes, in order."""
    shape: tuple[int, ...]
    """The largest shape it computes."""
    times: int
    """The number of launches."""
    touched_bytes: int
    """Bytes read and written, over all launches."""
    is_native: bool
    """True for a compiled kernel, False for a NumPy call."""
    is_quick: bool = False
    """True if it was compiled quickly and has not been optimized yet."""
    name: str = ""
    """'attention' for a kernel that computes attention by blocks of rows; most kernels have no name."""

    def __str__(self) -> str:
        names = [f"{name} x{count}" if count > 1 else name for name, count in Counter(self.operators).items()]
        if len(names) > _MOST_NAMES:
            names = [*names[:_MOST_NAMES], f"and {len(names) - _MOST_NAMES} more"]
        what = ", ".join(names)
        times = f" ({self.times} times)" if self.times > 1 else ""
        if not self.is_native:
            return f"NumPy{times}: {what}"
        quick = ", compiled quickly" if self.is_quick else ""
        kernel = f"kernel of {self.name}" if self.name else "kernel"
        return f"{kernel}{times}: {what}; over {format_shape(self.shape)}, {_size(self.touched_bytes)} of memory{quick}"


@dataclasses.dataclass(frozen=True)
class ValueReport:
    """A value that one kernel writes to memory and another one reads."""

    operator: str
    shape: tuple[int, ...]
    reason: str
    """The reason why it does not stay in a register."""
    times: int = 1
    """The number of such values."""

    def __str__(self) -> str:
        times = f" ({self.times} times)" if self.times > 1 else ""
        return f"through memory{times}: {self.operator} {format_shape(self.shape)}; {self.reason}"


@dataclasses.dataclass(frozen=True)
class PlanReport:
    """The contents of a plan."""

    values: int
    """The number of values it computes."""
    inputs: int
    """The number of arrays it reads."""
    kernels: tuple[KernelReport, ...]
    """Its kernels and NumPy calls; repeated ones are listed once."""
    result_bytes: int
    arena_bytes: int
    """Memory of values that only kernels see."""
    other_bytes: int
    """Memory of arrays that NumPy reads or makes in between."""
    reason: str = ""
    """The difference from earlier plans."""
    compiled: int = 0
    """The number of kernels compiled for it."""
    loaded: int = 0
    """The number of kernels loaded from disk."""
    seconds: float = 0.0
    """The time to compile and load them."""
    stored: tuple[ValueReport, ...] = ()
    """Values that kernels pass on through memory, without the results."""

    @property
    def launches(self) -> int:
        """The number of kernel launches, repetitions included."""
        return sum([kernel.times for kernel in self.kernels if kernel.is_native])

    @property
    def numpy_calls(self) -> int:
        """The number of operators that NumPy evaluates."""
        return sum([kernel.times for kernel in self.kernels if not kernel.is_native])

    def __str__(self) -> str:
        parts = []
        distinct = len([kernel for kernel in self.kernels if kernel.is_native])
        if distinct:
            parts.append(f"{_count(self.launches, 'launch', 'launches')} of {_count(distinct, 'kernel')}")
        if self.numpy_calls:
            parts.append(f"{_count(self.numpy_calls, 'NumPy call')}")
        head = f"{_count(self.values, 'value')} from {_count(self.inputs, 'array')}: "
        lines = [head + (", ".join(parts) or "nothing to compute")]
        if self.reason:
            lines.append(f"  new: {self.reason}")
        if self.compiled or self.loaded:
            kernels = f"{_count(self.compiled, 'kernel')} compiled, {self.loaded} found on disk"
            lines.append(f"  {kernels}, in {self.seconds * 1e3:.0f} ms")
        lines += [f"  {kernel}" for kernel in self.kernels]
        lines += [f"  {value}" for value in self.stored[:_MOST_VALUES]]
        if len(self.stored) > _MOST_VALUES:
            lines.append(f"  through memory: {len(self.stored) - _MOST_VALUES} more kinds of values")
        sizes = [(self.result_bytes, "results"), (self.arena_bytes, "the arena"), (self.other_bytes, "other arrays")]
        memory = [f"{_size(size)} of {what}" for size, what in sizes if size]
        if memory:
            lines.append(f"  memory: {', '.join(memory)}")
        return "\n".join(lines)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Show the text in IPython and notebooks."""
        printer.text(str(self))


def _count(number: int, word: str, plural: str | None = None) -> str:
    return f"{number} {word if number == 1 else plural or word + 's'}"


def _size(size: int) -> str:
    """Return a number of bytes as readable text.

    >>> _size(100), _size(2048), _size(5 << 20)
    ('100 bytes', '2.0 KiB', '5.0 MiB')
    """
    if size < 1024:
        return f"{size} bytes"
    for unit in ("KiB", "MiB", "GiB"):
        size_in_units = size / 1024
        if size_in_units < 1024 or unit == "GiB":
            return f"{size_in_units:.1f} {unit}"
        size //= 1024
    raise AssertionError("unreachable")


# -- one plan


def plan(*arrays: NDArray) -> PlanReport:
    """Return the plan that would compute some arrays together now. It compiles kernels but computes nothing.

    Known values, of these arrays or of intermediate results, are not computed again.
    """
    nodes: list[Node] = []
    known: dict[Node, Any] = {}
    for array in arrays:
        if not isinstance(array, NDArray):
            raise TypeError(f"only arrays can be explained, not {array!r}")
        trace, node, value = place_of(array)
        if value is None and node is not None and trace is not None:
            nodes.append(node)
            known.update(trace.values)
    keep_all = any([node.marked and node.operator is not VARIABLE for node in nodes])
    wanted = [node for node in map(resolve, nodes) if node.operator is not LEAF and node not in known]
    return _report(choose_program(wanted, known, keep_all) if wanted else None)


def _report(program: Any, reason: str = "", compiled: int = 0, loaded: int = 0, seconds: float = 0.0) -> PlanReport:
    if program is None:
        return PlanReport(0, 0, (), 0, 0, 0, reason)
    from .core.kernels.row_blocks import RowBlocks

    values, inputs = len(program.kept), len(program.inputs)
    if program.memory is None:
        # operator by operator
        calls = [_call(part.nodes[0]) for part in program.parts]
        results = sum([_bytes(node) for node, _ in program.kept])
        return PlanReport(values, inputs, _merge(calls), results, 0, 0, reason)
    reports = []
    for part in program.parts:
        if part.kernels:
            quick = any([program.kernels[structure].improvable for structure in part.kernels])
            name = "attention" if any([isinstance(structure, RowBlocks) for structure in part.kernels]) else ""
            report = dataclasses.replace(_kernel(part.nodes, part.memory, quick), name=name)
            reports.append((part.kernels, report))
        elif part.memory:
            reports.append(((part.nodes[0].operator,), _call(part.nodes[0])))
    memory = program.memory
    merged = _merge_by([key for key, _ in reports], [report for _, report in reports])
    return PlanReport(
        values,
        inputs,
        merged,
        memory.kept,
        memory.arena,
        memory.other,
        reason,
        compiled,
        loaded,
        seconds,
        _values_in_memory(program),
    )


def _values_in_memory(program: Any) -> tuple[ValueReport, ...]:
    """Return the values that go through memory, merged by kind, largest first."""
    from .core.plan.report import boundaries

    passed_on = boundaries(program.parts, [node for node, _ in program.kept])
    found = Counter([(node.operator.name, node.shape, reason) for node, reason in passed_on])
    reports = [ValueReport(*what, times) for what, times in found.items()]
    return tuple(sorted(reports, key=lambda report: -report.times * math.prod(report.shape)))


def _kernel(nodes: Sequence[Node], touched: Iterable[Node], is_quick: bool) -> KernelReport:
    names = tuple([node.operator.name for node in nodes]) or ("copy",)
    largest = max([*nodes, *touched], key=lambda node: node.size)
    return KernelReport(names, largest.shape, 1, sum([_bytes(node) for node in touched]), True, is_quick)


def _call(node: Node) -> KernelReport:
    return KernelReport((node.operator.name,), node.shape, 1, 0, False)


def _bytes(node: Node) -> int:
    return node.size * node.dtype.itemsize


def _merge(reports: list[KernelReport]) -> tuple[KernelReport, ...]:
    return _merge_by([(report.operators, report.shape) for report in reports], reports)


def _merge_by(keys: list[Any], reports: list[KernelReport]) -> tuple[KernelReport, ...]:
    """Return the reports with equal ones merged, in the order of first appearance."""
    together: dict[Any, KernelReport] = {}
    for key, report in zip(keys, reports, strict=True):
        first = together.get((key, report.operators))
        if first is not None:
            touched = first.touched_bytes + report.touched_bytes
            report = dataclasses.replace(first, times=first.times + 1, touched_bytes=touched)
        together[key, report.operators] = report
    return tuple(together.values())


# -- evaluations


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """An evaluation of a graph."""

    tier: str
    """``plan``: fused kernels; ``eager``: operator by operator; ``eager gradient``: a new record and its gradients,
    operator by operator; ``immediate``: a single call of a program that is always new; ``reference``: NumPy."""
    operators: tuple[str, ...]
    """The operators it computes, in order."""
    reason: str
    """Why this tier was chosen."""

    def __str__(self) -> str:
        counts = Counter(self.operators)
        names = [name if times == 1 else f"{times} {name}" for name, times in counts.most_common(_MOST_NAMES)]
        more = len(counts) - len(names)
        text = ", ".join(names) + (f" and {more} more" if more > 0 else "")
        return f"{self.tier}: {text}; {self.reason}"


class TierLog:
    """The evaluations inside a ``with`` block. Printing it shows them all.

    Calls of compiled functions and hybridized blocks replay their plans, and are not listed.

    >>> import phonograd as mx
    >>> with mx.explain.tiers() as log:
    ...     _ = mx.nd.arctan(mx.nd.ones((17,))).asnumpy()
    >>> print(log)
    eager: _full, arctan; the graph is new
    """

    def __init__(self) -> None:
        self.evaluations: list[Evaluation] = []

    def __enter__(self) -> TierLog:
        EVALUATED.connect(self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        EVALUATED.disconnect(self._note)

    def __str__(self) -> str:
        return "\n".join([str(each) for each in self.evaluations]) or "nothing was evaluated"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Show the text in IPython and notebooks."""
        printer.text(str(self))

    def _note(self, tier: str, nodes: Sequence[Node], reason: str) -> None:
        self.evaluations.append(Evaluation(tier, tuple([node.operator.name for node in nodes]), reason))


def tiers() -> TierLog:
    """Return a scope that notes which tier computes each evaluation, and why. It changes nothing."""
    return TierLog()


# -- plans that are made


class PlanLog:
    """The plans made inside a ``with`` block. Printing it shows them all.

    >>> import phonograd as mx
    >>> def double(size):
    ...     return (mx.nd.ones((size,)) * 2).asnumpy()
    >>> _ = double(3)
    >>> with mx.explain.plans() as log:
    ...     _ = double(3)
    ...     _ = double(3)
    ...     _ = double(5)
    >>> log.reports[-1].reason
    '_full has shape=(5,) instead of (3,)'
    """

    def __init__(self) -> None:
        self.reports: list[PlanReport] = []
        self._counts = (0, 0, 0.0)

    def __enter__(self) -> PlanLog:
        # what is compiled inside the block is compiled for its plans
        promotion.finish()
        self._counts = _kernel_counts()
        PLANNED.connect(self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        PLANNED.disconnect(self._note)

    def __str__(self) -> str:
        return "\n".join([str(report) for report in self.reports]) or "no plan was made"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Show the text in IPython and notebooks."""
        printer.text(str(self))

    def _note(self, plan: CachedPlan, position: CacheNode, keep_all: bool) -> None:
        if plan.program is None:
            return
        before, now = self._counts, _kernel_counts()
        self._counts = now
        reason = _reason(plan, position, keep_all)
        self._add(_report(plan.program, reason, now[0] - before[0], now[1] - before[1], now[2] - before[2]))

    def _add(self, report: PlanReport) -> None:
        self.reports.append(report)


class _Announcer(PlanLog):
    """Prints plans instead of storing them."""

    def _add(self, report: PlanReport) -> None:
        sys.stderr.write(f"phonograd: {report}\n")
        sys.stderr.flush()


def plans() -> PlanLog:
    """Return a ``with`` block that logs every plan made inside, with its difference from earlier ones."""
    return PlanLog()


_announcer: _Announcer | None = None


def announce(on: bool = True) -> None:
    """Start or stop printing every new plan to standard error. The setting ``explain`` does the same."""
    global _announcer
    if on and _announcer is None:
        _announcer = _Announcer()
        _announcer.__enter__()
    elif not on and _announcer is not None:
        _announcer.__exit__(None, None, None)
        _announcer = None


def _kernel_counts() -> tuple[int, int, float]:
    jit = sys.modules.get("phonograd.core.run.kernel_cache")
    if jit is None:
        return 0, 0, 0.0
    return jit.statistics.kernels_compiled, jit.statistics.kernels_loaded, jit.statistics.seconds


def _reason(plan: CachedPlan, position: CacheNode, keep_all: bool) -> str:
    """Return the difference of a plan from the most similar remembered one."""
    nodes = _below(plan.sources)
    best: tuple[int, str] | None = None
    earlier = sorted(PLANS.all(), key=lambda entry: -entry[2].used)[:_MOST_PLANS]
    for where, key, other in earlier:
        if other is plan or other.program is None:
            continue
        distance, text = _difference(plan.sources, nodes, other.sources, _below(other.sources))
        if distance == 0 and not text:
            text = _circumstances(where is position, keep_all, key)
            if other.is_provisional and text == _OTHER_ORDER:
                text = "until now it was computed operator by operator"
        if best is None or distance < best[0]:
            best = distance, text
    return best[1] if best is not None else "it is the first plan"


_OTHER_ORDER = "it requests values in another order"


def _circumstances(same_position: bool, keep_all: bool, key: Any) -> str:
    nodes, executor, *lent = key
    kept = not lent and any([node.marked and node.operator is not VARIABLE for node in nodes])
    if executor != settings.current().executor:
        return f"the executor is {settings.current().executor!r} instead of {executor!r}"
    if kept != keep_all:
        return "values are kept because of recording" if keep_all else "values are no longer kept"
    return _OTHER_ORDER if same_position else "other values were known already"


def _below(sources: Iterable[Node]) -> list[Node]:
    found: set[Node] = set()
    stack = list(sources)
    while stack and len(found) < _MOST_NODES:
        node = stack.pop()
        if node not in found:
            found.add(node)
            stack.extend(node.inputs)
    return sorted(found, key=lambda node: node.serial)


def _difference(sources: list[Node], nodes: list[Node], others: list[Node], below: list[Node]) -> tuple[int, str]:
    """Return the number of operators that differ between two plans, and the difference in words."""
    names, other_names = Counter([n.operator.name for n in nodes]), Counter([n.operator.name for n in below])
    more, less = names - other_names, other_names - names
    distance = more.total() + less.total() if hasattr(more, "total") else sum(more.values()) + sum(less.values())
    if distance:
        parts = [f"{sign} {name} x{count}" for sign, c in (("+", more), ("-", less)) for name, count in c.items()]
        shown = ", ".join(parts[:_MOST_DIFFERENCES]) + (", ..." if len(parts) > _MOST_DIFFERENCES else "")
        return distance, f"its operators differ from the nearest plan's ({shown})"
    changes: list[str] = []
    for node, other in zip(_in_order(nodes), _in_order(below)):
        changes += _changes(node, other)
    if changes:
        distinct = list(dict.fromkeys(changes))
        more_text = f" and {len(distinct) - _MOST_DIFFERENCES} more" if len(distinct) > _MOST_DIFFERENCES else ""
        return 0, "; ".join(distinct[:_MOST_DIFFERENCES]) + more_text
    if len(sources) != len(others):
        return 0, f"{_count(len(sources), 'array')} alive instead of {len(others)}"
    if [node for node in nodes if node.operator is LEAF] != [node for node in below if node.operator is LEAF]:
        return 0, "inputs come in another order, because other arrays were used earlier"
    return 0, "" if set(sources) == set(others) else "it requests other values of the same expressions"


def _in_order(nodes: list[Node]) -> list[Node]:
    """Return nodes sorted by operator, then by age, so that equal expressions get equal positions.

    Leaves are shared by expressions, so they are sorted by number instead of age.
    """
    return sorted(nodes, key=lambda n: (n.operator.name, n.attributes[0] if n.operator is LEAF else n.serial))


def _changes(node: Node, other: Node) -> list[str]:
    if node is other:
        return []
    if node.operator is LEAF:
        if (node.shape, node.dtype) == (other.shape, other.dtype):
            return []
        here, there = [f"{name_of(n.dtype)}{format_shape(n.shape)}" for n in (node, other)]
        return [f"an input is {here} instead of {there}"]
    names = node.operator.parameter_names
    if node.operator.name == "_composite" or len(node.attributes) != len(other.attributes):
        return []
    return [
        f"{node.operator.name} has {name}={value!r} instead of {before!r}"
        for name, value, before in zip(names, node.attributes, other.attributes)
        if value != before
    ]


# -- counts


def statistics() -> dict[str, float]:
    """Return counts of this process.

    ====================  ==========================================================================================
    nodes, ...            expressions made, gradient rules run, gradients derived, plans made, evaluations
    plans_loaded          plans loaded from disk, where an earlier process stored them
    plans_sized           plans that followed from one for any extents, which was made for other shapes
    kernels_compiled      kernels compiled while the program waited; ``seconds`` is the waiting time, loading included
    kernels_loaded        kernels loaded from disk
    kernels_found         kernels found in memory
    kernels_improved      kernels recompiled with full optimization by a background thread
    native_calls          rows of kernels that were run
    used_bytes, ...       memory of larger arrays and arenas: in use, peak, cached for reuse
    blocks_made           requests for such memory to the operating system
    ====================  ==========================================================================================
    """
    counts: dict[str, float] = dict(node_statistics.snapshot())
    jit, memory = sys.modules.get("phonograd.core.run.kernel_cache"), sys.modules.get("phonograd.core.run.memory_pool")
    if jit is not None and memory is not None:
        counts.update(jit.statistics.snapshot())
        pool = memory.pool
        counts.update(used_bytes=pool.used_bytes, peak_bytes=pool.peak_bytes, spare_bytes=pool.spare_bytes)
        counts["blocks_made"] = pool.blocks_made
    return counts
