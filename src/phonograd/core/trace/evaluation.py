"""Evaluation: computes values of nodes of a trace with the program that the plan cache holds for them.

Takes the leaves and known values of a :class:`~phonograd.core.trace.trace.Trace`, and programs from
:mod:`phonograd.core.plan.cache`; hands values back and advances the position of the trace. The main types are
:class:`Options` and :class:`~phonograd.core.plan.cache.CachedPlan`. Observers and the detection of anomalies apply to
every evaluation while they are on.
"""

from __future__ import annotations

import contextlib
from collections import ChainMap
from collections.abc import Container, Mapping
from functools import partial
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..base import processor, settings
from ..base.dtypes import name_of
from ..base.errors import MXNetError, OutOfMemory, format_shape
from ..base.hot import hot
from ..base.outside import is_from_outside, is_interrupting
from ..base.settings import active
from ..base.thread_state import ThreadState, thread_state
from ..events import COMPILATION, EVALUATION, LISTENING, MEMORY, begin
from ..graph.node import Node, statistics
from ..graph.operator import Array
from ..observe.anomaly import check, detection
from ..ops.math.structural import FULL
from ..plan import promotion
from ..plan.cache import (
    EVALUATED,
    PLANNED,
    PLANS,
    REPEATED,
    CachedPlan,
    choose_program,
    is_numbered_leaf,
    new_cached_plan,
    repeating,
    waits,
)
from ..run import memory_pool, packed_operands
from ..run.donation import Donation, donate
from ..run.programs import Program, Progress
from ..run.reference import resolve
from .novelty import NOVELTY

if TYPE_CHECKING:
    from .trace import Trace

__all__ = [
    "KEEP",
    "LAST",
    "PROGRESS",
    "Options",
    "check_reentry",
    "compute",
    "compute_known",
    "evaluate",
    "fill",
    "is_calm",
]

_UNOBSERVED = contextlib.nullcontext()


#: receives the results of evaluations of this thread as soon as they are final
PROGRESS: ThreadState[Progress | None] = thread_state("phonograd.progress", None)


class Options(NamedTuple):
    """The options of an evaluation: the later uses of its values."""

    lent: Mapping[Node, Array] | None = None
    """Values of leaves that are valid for this evaluation only (:meth:`.tape.Tape.lend`). Nothing that is
    computed from them is kept: they stand for something else the next time. An empty mapping just keeps nothing."""
    is_last: bool = False
    """Whether nothing more will be asked of the trace. Its values are not kept then, and memory that only the trace
    refers to is donated to the program, which may write over it."""


#: keep every value that a recorded node may need again
KEEP = Options()
#: the last evaluation of a trace
LAST = Options(is_last=True)


def evaluate(trace: Trace, nodes: tuple[Node, ...], options: Options = KEEP) -> list[Array]:
    """Return the values of nodes of a trace, computing those that are not known yet."""
    with trace.lock:
        if trace.busy:
            check_reentry(trace)
            return compute(trace, nodes, trace.position.following.get(_key(nodes, options)), options)
        trace.busy = True
        try:
            return compute(trace, nodes, trace.position.following.get(_key(nodes, options)), options)
        finally:
            trace.busy = False


def check_reentry(trace: Trace) -> None:
    """Raise an error if a signal handler needs values of a trace whose evaluation it has interrupted."""
    if is_interrupting(trace):
        raise MXNetError(
            "a signal handler needs the value of an array while the evaluation that it has interrupted computes it. "
            "Use arrays whose values are known, or set a flag in the handler and use arrays after it has returned"
        )


def compute(trace: Trace, nodes: tuple[Node, ...], plan: CachedPlan | None, options: Options) -> list[Array]:
    """Return the values of nodes, given the plan that the plan cache holds for them, if it holds one.

    The caller holds the lock of the trace.
    """
    if plan is None:
        plan = _make_plan(trace, nodes, False, options)
        if plan.program is not None:
            # a plan from disk belongs to a program that came back, in another process
            NOVELTY.note_new(plan.program.size if plan.is_provisional else 1)
    else:
        NOVELTY.note_known()
        if plan.is_provisional:
            plan = _promote(trace, nodes, plan, options)
        elif REPEATED.listeners:
            repeating()
    plan.used = PLANS.tick
    if EVALUATED.listeners:
        _tell_tier(plan)
    lent, is_last = options
    values: Any = trace.values if lent is None else ChainMap(dict(lent), trace.values)
    leaves, program = trace.leaves, plan.program
    if program is not None:
        statistics.evaluations += 1
        inputs = [values[node] if index is None else leaves[index] for index, node in plan.inputs]
        try:
            if is_last and plan.donatable and not detection.on:
                donated = donate(leaves, plan.donatable, plan.inputs)
                if donated is not None:
                    # the results are kept, because their inputs are gone and nothing can compute them again
                    donated.run(program, partial(_run, trace, plan, inputs, donated), partial(_keep, trace, plan))
                    return [values[node] if index is None else leaves[index] for index, node in plan.places]
            if plan.is_provisional:
                start = perf_counter_ns()
                results = _run(trace, plan, inputs)
                plan.spent_ns += perf_counter_ns() - start
            else:
                results = _run(trace, plan, inputs) if active.watched or PROGRESS.get() else program.run(inputs)
        except MemoryError as error:
            raise _name_largest(error, plan) from error
        if detection.on:
            check(plan.kept, results, zip(program.inputs, inputs, strict=True), choose_program, trace.scope_of)
        if is_last and plan.results is not None:
            # a thread that looks for values here at this moment does not find them, and computes them again
            return [results[number] if index is None else leaves[index] for index, number in plan.results]
        values.update(zip(plan.kept, results))
        if lent is None:
            trace.position = plan.following
    return [values[node] if index is None else leaves[index] for index, node in plan.places]


@hot
def is_calm() -> bool:
    """Return whether nothing follows evaluations of this thread: no observer, and no detection of anomalies."""
    return not (
        active.watched
        or detection.on
        or EVALUATED.listeners
        or PLANNED.listeners
        or REPEATED.listeners
        or PROGRESS.get()
    )


@hot
def compute_known(trace: Trace, plan: CachedPlan, is_last: bool) -> list[Array] | None:
    """Return the values of the nodes of a plan as :func:`compute` does; None if that cannot do it.

    Evaluations must be calm. The result is None where :func:`compute` repeats the evaluation and raises its error, and
    for a plan that is to be promoted. The trace has not changed then, unless an array was lost that was written over.
    """
    program, leaves, values = plan.program, trace.leaves, trace.values
    if program is None:
        plan.used = PLANS.tick
        return [values[node] if index is None else leaves[index] for index, node in plan.places]
    if is_last and (plan.is_provisional if plan.donatable else plan.results is None):
        return None
    inputs = [values[node] if index is None else leaves[index] for index, node in plan.inputs]
    if is_last and plan.donatable:
        donated = donate(leaves, plan.donatable, plan.inputs)
        if donated is not None:
            return _run_donated(trace, plan, inputs, donated)
        if plan.results is None:
            return None
    results = _run_known(plan, program, inputs)
    if results is None:
        return None
    _note_evaluation(plan)
    if is_last:
        # there are results: see above
        places: Any = plan.results
        return [results[number] if index is None else leaves[index] for index, number in places]
    values.update(zip(plan.kept, results))
    trace.position = plan.following
    return [values[node] if index is None else leaves[index] for index, node in plan.places]


@hot
def _note_evaluation(plan: CachedPlan) -> None:
    statistics.evaluations += 1
    NOVELTY.note_known()
    plan.used = PLANS.tick


def _run_donated(trace: Trace, plan: CachedPlan, inputs: list[Any], donated: Donation) -> list[Array] | None:
    """Return the values of the nodes of a plan whose program writes over some of its inputs; None if it fails."""
    program: Any = plan.program
    try:
        donated.run(program, partial(program.run, inputs, donated), partial(_keep, trace, plan))
    except Exception as error:
        if is_from_outside(error):
            raise
        return None
    _note_evaluation(plan)
    values, leaves = trace.values, trace.leaves
    return [values[node] if index is None else leaves[index] for index, node in plan.places]


def _run_known(plan: CachedPlan, program: Program, inputs: list[Any]) -> list[Array] | None:
    """Return the results of a program; None if it fails, or if its plan is to be promoted."""
    try:
        if not plan.is_provisional:
            return program.run(inputs)
        if active.tiers != "background" or promotion.has_failed(plan) or promotion.is_due(plan):
            return None
        start = perf_counter_ns()
        results = program.run(inputs)
        plan.spent_ns += perf_counter_ns() - start
        return results
    except Exception as error:
        if is_from_outside(error):
            raise
        return None


def fill(trace: Trace, nodes: tuple[Node, ...]) -> list[Array] | None:
    """Return the values of nodes if each is known, a leaf, or an array of one number that is not large; else None.

    Such graphs are the data of a step, before it is recorded. A plan would fill the same memory, and with other sizes
    in each step it would be made each time. Evaluations must be calm.
    """
    if settings.current().tiers == "plan" or active.executor == "reference" or active.memory_limit_bytes:
        return None
    found: list[Array] = []
    made: dict[Node, Array] = {}
    for node in nodes:
        node = resolve(node)
        value = trace.leaves[node.attributes[0]] if is_numbered_leaf(node) else trace.values.get(node, made.get(node))
        if value is None:
            if node.operator is not FULL or node.size > processor.choices().numbers_per_node:
                return None
            shape, number, dtype, _ = node.attributes
            value = made[node] = memory_pool.filled(shape, np.frombuffer(number, dtype)[0], dtype)
        found.append(value)
    statistics.evaluations += 1
    return found


def _tell_tier(plan: CachedPlan) -> None:
    """Tell listeners which tier computes an evaluation, and why."""
    program = plan.program
    if program is None:
        return
    nodes = [node for part in program.parts for node in part.nodes]
    tiers = settings.current().tiers
    if plan.is_provisional:
        EVALUATED.emit("eager", nodes, promotion.describe(plan))
    elif settings.active.executor == "reference":
        EVALUATED.emit("reference", nodes, "the setting executor is 'reference'")
    elif plan.made == -1:
        EVALUATED.emit("plan", nodes, "the graph came back, and was planned")
    elif tiers == "plan":
        EVALUATED.emit("plan", nodes, "the setting tiers is 'plan'")
    else:
        EVALUATED.emit("plan", nodes, "its arrays are large, or it is observed, so it was planned at once")


def _name_largest(error: MemoryError, plan: CachedPlan) -> MemoryError:
    """Return an error about memory with the operator and the shape of the largest result."""
    if isinstance(error, OutOfMemory) or not plan.kept:
        return error
    largest = max(plan.kept, key=lambda node: node.size * node.dtype.itemsize)
    shape = f"whose result has shape {format_shape(largest.shape)} and type {name_of(largest.dtype)}"
    place = f", called at {largest.where()}" if largest.origin else ""
    return OutOfMemory(f"{error}\n  in operator {largest.operator.name}, {shape}{place}")


def _key(nodes: tuple[Node, ...], options: Options) -> tuple[Any, ...]:
    return (nodes, active.executor) if options.lent is None else (nodes, active.executor, "lent")


def _needs_plan() -> bool:
    """Return whether someone looks at what only plans have: memory of their own, and values of every operator."""
    return detection.on or bool(LISTENING[MEMORY])


def _make_plan(trace: Trace, nodes: tuple[Node, ...], again: bool, options: Options) -> CachedPlan:
    """Return a new plan; ``again`` says that the cache holds a provisional one."""
    observed = _needs_plan()
    keep_all = options.lent is None and waits(nodes)
    with begin(COMPILATION, "compilation") if LISTENING[COMPILATION] else _UNOBSERVED:
        plan = new_cached_plan(trace.position, nodes, trace.values, keep_all, again, observed)
    trace.position.following[_key(nodes, options)] = plan
    PLANS.count_plan(plan)
    return plan


def _promote(trace: Trace, nodes: tuple[Node, ...], plan: CachedPlan, options: Options) -> CachedPlan:
    """Return the plan for nodes whose plan is provisional: another one, or this one until a helper has made another."""
    observed = _needs_plan() or PLANNED.listeners
    if observed or settings.current().tiers != "background" or promotion.has_failed(plan):
        return _make_plan(trace, nodes, True, options)
    if REPEATED.listeners:
        repeating()
    if promotion.is_due(plan):
        position, known = trace.position, frozenset(trace.values)
        keep_all = options.lent is None and waits(nodes)
        steady = _steady_inputs(trace, plan) if options.lent is None else set()

        is_found = False

        def make() -> CachedPlan:
            from ..plan import planner_process

            # to describe the graph once more takes as long as the rest
            if not is_found:
                planner_process.prepare(nodes, known, keep_all, steady)
            return new_cached_plan(position, nodes, known, keep_all, again=True, observed=False, is_announced=False)

        def is_stored() -> bool:
            nonlocal is_found
            from ..plan import disk

            is_found = disk.is_stored(nodes, known, keep_all)
            return is_found

        promotion.promote(position, _key(nodes, options), plan, make, is_stored)
    return plan


def _steady_inputs(trace: Trace, plan: CachedPlan) -> set[Node]:
    """Return the inputs of a plan that are the arrays that they were when the plan was due before."""
    inputs = [trace.values[node] if index is None else trace.leaves[index] for index, node in plan.inputs]
    before, plan.noted = plan.noted, packed_operands.note(inputs)
    return set() if before is None else {plan.inputs[number][1] for number in packed_operands.unchanged(before, inputs)}


def _keep(trace: Trace, plan: CachedPlan, results: list[Array]) -> None:
    trace.values.update(zip(plan.kept, results))
    trace.position = plan.following


def _run(trace: Trace, plan: CachedPlan, inputs: list[Any], donated: Container[int] = ()) -> list[Array]:
    """Return the results of a program, while observers see each of its kernels."""
    program = plan.program
    assert program is not None
    progress = PROGRESS.get()
    if not active.watched:
        return program.run(inputs, donated, progress)
    attribution = trace.attributed()
    with begin(EVALUATION, "evaluation"):
        return attribution.run(program, inputs, donated, plan.kept, trace.handles, bool(trace.made), progress)
