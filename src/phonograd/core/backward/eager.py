"""Backward passes that compute at once, tier 0: gradients of a new graph as arrays, without gradient nodes.

Takes the head of a record from :mod:`phonograd.core.backward.backward`, the first time that it is differentiated. The
forward pass runs operator by operator (:mod:`phonograd.core.plan.eager`), then every operator's gradient rule does, as
a function of arrays (:mod:`.eager_rules`). A record that comes back is differentiated as a graph
(:mod:`phonograd.core.derive.gradient`), which can be planned. The order of the pass and of all additions is the same,
so the bits are the same. See docs/decisions/0018.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from time import thread_time
from typing import Any

import numpy as np

from ..base import collector, float_errors, processor, settings
from ..base.dtypes import BFLOAT16, convert_scalar
from ..base.hot import hot, slotted
from ..base.outside import is_from_outside
from ..derive.gradient import call_of, order_users_first
from ..graph.node import Node, of_one_call, statistics
from ..graph.operator import Array, item_operator
from ..observe.anomaly import detection
from ..ops.math.arithmetic import add
from ..ops.math.structural import LEAF, REPEAT_CALL, VARIABLE, leaf
from ..ops.reduce.accumulation import FEW_PARTS, FEW_PRODUCTS, total
from ..plan.cache import EVALUATED, exceeds_limit, is_numbered_leaf, note_plans
from ..plan.eager import Function, function_of
from ..plan.eager_batches import MANY_NUMBERS, Batches, Policy
from ..plan.eager_graph import compute_in_order, compute_into, compute_sparingly
from ..plan.eager_results import memory_of, own
from ..plan.record_graph import COMPOSITE, RecordOutline
from ..plan.sized_records import RECORDS
from ..run import kernel_cache
from ..run.reference import locate_error, resolve
from ..trace.evaluation import PROGRESS
from ..trace.novelty import NOVELTY
from ..trace.owner import Pairs
from ..trace.trace import Trace
from . import repetition
from .deferred import EMBED, MATMUL, Deferred, are_deferred, join_products
from .eager_batches import BatchedPass, NotBatched
from .eager_rules import gradients_of, values_read
from .loop_bodies import Irregular, Turn, have_plain_rules
from .loops import find_turns

__all__ = ["EagerGradient", "differentiate_at_once"]

_ITEM = item_operator()

#: heads that were differentiated at once; when they come back, they are differentiated as graphs, once those exist
_seen = repetition.SEEN


@slotted
class EagerGradient:
    """The result of a backward pass: the gradient of each variable node as an array, and all nodes visited."""

    __slots__ = ("_results", "_trace", "targets", "visited")

    @hot
    def __init__(
        self,
        trace: Trace,
        targets: dict[Node, Array | None],
        visited: frozenset[Node],
        results: list[tuple[Node, Array]],
    ) -> None:
        self._trace, self._results = trace, results
        self.targets = targets
        self.visited = visited

    def finish(self) -> None:
        """Take the record off the tape, and give the live arrays of the trace their values."""
        trace = self._trace
        trace.tape.clear(self.visited)
        trace.learn(self._results)


def differentiate_at_once(trace: Trace, head: Node, is_fit: Callable[[list[Node]], bool]) -> EagerGradient | None:
    """Return the gradients of a head in the current trace; None if the record is to be differentiated as a graph.

    ``is_fit`` is given the variable nodes that the pass reaches, and says whether their gradients can be used.
    """
    if not _applies(head):
        return None
    visited = order_users_first((head,))
    variables, numbers = _survey(visited)
    if not variables or not is_fit(variables):
        return None
    # another thread may forget all nodes meanwhile
    record = _seen.get(head)
    if record is None:
        record = _seen[head] = repetition.Record(len(visited))
        if repetition.has_mark(visited):
            return None
    if numbers > processor.choices().numbers_per_node * len(visited) or exceeds_limit(visited):
        return None
    with trace.lock:
        wanted = _wanted(trace.live(), trace.values)
        # the source line of nodes that stand for arrays is looked up once
        with trace.computing(), of_one_call(), collector.paused():
            begin = thread_time()
            try:
                outline = _outline(trace, visited, wanted)
                found = None if outline is None else _run_sized(trace, visited, wanted, outline)
                is_sized = found is not None
                if is_sized:
                    outline = None
                elif numbers <= MANY_NUMBERS:
                    found = _run_batches(trace, head, visited, variables, wanted)
                if found is None:
                    found = _run(trace, head, visited, wanted, numbers > MANY_NUMBERS)
                seconds = thread_time() - begin
                record.note_run(seconds, is_sized)
                if outline is not None:
                    RECORDS.note(outline, int(seconds * 1e9), have_plain_rules)
                return found
            except (_Unknown, _Failed, kernel_cache.CompilerLost):
                # an error is raised where the value is needed
                return None


@hot
def _survey(visited: list[Node]) -> tuple[list[Node], int]:
    """Return the variables among the nodes of a pass, and the number of elements of all nodes."""
    variables, numbers = [], 0
    for node in visited:
        if node.operator is VARIABLE:
            variables.append(node)
        numbers += prod(node.shape)
    return variables, numbers


def _applies(head: Node) -> bool:
    """Return whether a record has no graph of gradients yet, without observers."""
    if settings.active.watched or detection.on or PROGRESS.get():
        return False
    record = _seen.get(head)
    return record is None or record.is_computed_again(head)


@hot
def _wanted(live: Pairs, values: dict[Node, Array]) -> list[Node]:
    """Return the nodes whose values the live arrays of a trace need."""
    found: Any = _no_values()
    for _, node in live:
        node = resolve(node)
        if node.operator is not LEAF and node not in values:
            found[node] = None
    return list(found)


_no_values: type[dict[Node, Any]] = dict


class _Unknown(Exception):
    """A value is neither known nor computed by the forward pass."""


class _Failed(Exception):
    """An operator of the forward pass has failed."""


@slotted
class _Known(dict[Node, Any]):
    """The values of nodes in a backward pass."""

    __slots__ = ("batches", "leaves")
    leaves: Sequence[Array]
    #: the values of nodes that were computed together
    batches: Batches | None

    def __init__(self, values: Mapping[Node, Any]) -> None:
        super().__init__(values)
        self.batches = None

    def __missing__(self, node: Node) -> Any:
        if is_numbered_leaf(node):
            value: Any = self.leaves[node.attributes[0]]
        elif self.batches is not None and node in self.batches.group_of:
            value = self.batches.value(node)
        elif node.operator is _ITEM:
            value = self[node.inputs[0]][node.attributes[0]]
        else:
            raise _Unknown
        self[node] = value
        return value


def _run(trace: Trace, head: Node, visited: list[Node], wanted: list[Node], is_large: bool) -> EagerGradient:
    turns = [] if is_large else find_turns(visited)
    _note_run(visited, "; turns of loops run as programs" if turns else "")
    if turns:
        try:
            return _compute(trace, head, visited, wanted, False, turns)
        except Irregular as error:
            for turn in turns:
                turn.body.refuse(error)
    return _compute(trace, head, visited, wanted, is_large, ())


def _compute(
    trace: Trace, head: Node, visited: list[Node], wanted: list[Node], is_large: bool, turns: Sequence[Turn]
) -> EagerGradient:
    """Return the gradients of a record, some of whose turns run as programs."""
    known = _Known(trace.values)
    known.leaves = trace.leaves
    last_reads: dict[Node, int] = {}
    try:
        heads = [resolve(head), *wanted]
        if is_large:
            for place, node in enumerate(visited):
                if node.operator is not VARIABLE and call_of(node).operator is not _ITEM:
                    last_reads.update(dict.fromkeys(values_read(call_of(node)), place))
            compute_sparingly(known, heads, trace.leaves, {*heads, *last_reads})
        else:
            for turn in reversed(turns):
                turn.compute(known, trace.leaves)
            if not turns and (not trace.values or trace.values.keys().isdisjoint(visited)):
                # otherwise, values that no rule reads may have been dropped on purpose
                compute_in_order(known, visited, trace.leaves)
            compute_into(known, heads, trace.leaves)
    except (kernel_cache.CompilerLost, Irregular):
        raise
    except Exception as error:
        if is_from_outside(error):
            raise
        raise _Failed from error
    dropped: dict[int, list[Node]] = {}
    for node, place in last_reads.items():
        if node not in wanted and node not in trace.values:
            dropped.setdefault(place, []).append(node)
    token = float_errors.ignore()
    try:
        targets = _Pass(known, dropped).run(head, visited, turns)
    finally:
        float_errors.restore(token)
    return _result(trace, targets, known, visited, wanted)


@hot
def _outline(trace: Trace, visited: list[Node], wanted: list[Node]) -> RecordOutline | None:
    """Return the outline of a record of which nothing is computed yet; None if it is not worth looking at."""
    if not trace.values.keys().isdisjoint(visited):
        return None
    return RECORDS.outline(visited, wanted)


def _run_sized(trace: Trace, visited: list[Node], wanted: list[Node], outline: RecordOutline) -> EagerGradient | None:
    """Return the gradients of a record by a plan for any extents; None if there is none for it."""
    program = RECORDS.find(outline)
    if program is None:
        return None
    known = _Known(trace.values)
    known.leaves = trace.leaves
    outside = [resolve(node) for node in outline.outside]
    missing = [node for node in outside if node.operator is not LEAF]
    try:
        if missing:
            compute_into(known, missing, trace.leaves)
        found = program.compute([known[node] for node in outside])
    except kernel_cache.CompilerLost:
        raise
    except Exception as error:
        if is_from_outside(error):
            raise
        # operator by operator, it fails with the name of the operator
        return None
    count = len(outline.wanted)
    known.update(zip([outline.nodes[place] for place in outline.wanted], found))
    targets = dict(zip([node for node in outline.outside if node.marked], found[count:], strict=True))
    others = [node for node in wanted if node not in known]
    if others:
        compute_into(known, others, trace.leaves)
    _note_run(visited, "; a plan for any extents is used")
    return _result(trace, targets, known, visited, wanted)


def _note_run(visited: list[Node], addition: str) -> None:
    """Notify observers, with an addition to the reason, and count."""
    record = _seen.get(visited[0])
    is_new = record is None or not record.runs
    if EVALUATED.listeners:
        reason = "the record is new" if is_new else "the record came back, and its gradients are not derived yet"
        EVALUATED.emit("eager gradient", [node for node in visited if not node.operator.is_view], reason + addition)
    statistics.gradients += 1
    statistics.evaluations += 1
    if record is None or not record.runs:
        statistics.plans += 1
        NOVELTY.note_new()
        note_plans()
    elif record.runs >= repetition.MOST_RUNS:
        NOVELTY.note_known()


@hot
def _result(
    trace: Trace,
    targets: Mapping[Node, Array | None],
    known: _Known,
    visited: list[Node],
    wanted: list[Node],
) -> EagerGradient:
    """Return gradients and values as arrays that share no memory; all other values are dropped."""
    before = memory_of([*trace.leaves, *trace.values.values()])
    taken = before | memory_of([known[node] for node in wanted])
    found: Any = _no_values()
    for node, grad in targets.items():
        found[node] = None if grad is None else own(grad, taken, True)
    taken = before | memory_of([grad for grad in found.values() if grad is not None])
    results = [(node, own(known[node], taken, True)) for node in wanted]
    return EagerGradient(trace, found, frozenset(visited), results)


#: which records run in batches
_policy = Policy()


def _run_batches(
    trace: Trace, head: Node, visited: list[Node], variables: list[Node], wanted: list[Node]
) -> EagerGradient | None:
    """Return the gradients of a record whose equal operators run together; None if that is not worth it."""
    if not trace.values.keys().isdisjoint(visited) or not _policy.tries(len(visited)):
        return None
    batches = Batches(reversed(visited))
    if not _policy.is_wide(batches):
        return None
    known = _Known(trace.values)
    known.leaves, known.batches = trace.leaves, batches
    try:
        with np.errstate(all="ignore"):
            compute_into(
                known, [node for node in map(resolve, batches.given) if node.operator is not LEAF], trace.leaves
            )
            batches.compute(known)
            targets = BatchedPass(batches, variables, _total, _sum_function).run(head)
            later = [node for node in wanted if node not in batches.group_of]
            if later:
                known.update({node: batches.value(node) for node in batches.group_of})
                compute_into(known, later, trace.leaves)
    except NotBatched:
        _policy.note(False)
        return None
    except (_Unknown, kernel_cache.CompilerLost):
        raise
    except Exception as error:
        if is_from_outside(error):
            raise
        # the same operator fails alone, with its own message
        return None
    _note_run(visited, "; equal operators run together")
    return _result(trace, targets, known, visited, wanted)


@slotted
class _Pass:
    """The gradients received so far, as :class:`phonograd.core.derive.gradient._Pass` has them, of arrays."""

    __slots__ = ("_dropped", "_grads", "_items", "_known", "_node")

    def __init__(self, known: _Known, dropped: Mapping[int, list[Node]]) -> None:
        self._known = known
        #: the node whose rule runs
        self._node: Node | None = None
        #: the nodes whose values no rule reads after that of a visited one, by its number
        self._dropped = dropped
        self._grads: dict[Node, list[Any]] = {}
        self._items: dict[Node, list[Any]] = {}

    def run(self, head: Node, visited: Sequence[Node], turns: Sequence[Turn]) -> dict[Node, Array | None]:
        """Return the gradient of each variable node; some turns of loops run as programs."""
        targets: dict[Node, Array | None] = {}
        self._grads[head] = [np.full(head.shape, convert_scalar(1, head.dtype), head.dtype)]
        place = 0
        try:
            for turn in turns:
                if turn.first > place:
                    self._visit_all(visited[place : turn.first], targets)
                turn.differentiate(self._known, self._grads, _total)
                place = turn.first + len(turn.nodes)
            self._visit_all(visited[place:] if place else visited, targets)
        except (_Unknown, Irregular, kernel_cache.CompilerLost):
            raise
        except Exception as error:
            if is_from_outside(error) or self._node is None:
                raise
            raise locate_error(error, self._node) from error
        return targets

    @hot
    def _visit_all(self, visited: Sequence[Node], targets: dict[Node, Array | None]) -> None:
        """Run the rules of all nodes."""
        known, grads, dropped = self._known, self._grads, self._dropped
        for place, node in enumerate(visited):
            if dropped and place:
                for done in dropped.get(place - 1, ()):
                    known.pop(done, None)
            arrived = grads.get(node)
            if arrived is not None:
                del grads[node]
            if node.operator is VARIABLE:
                targets[node] = None if arrived is None else _total(arrived, node)
                continue
            if node.operator is REPEAT_CALL:
                node = call_of(node)
            if node.outputs is not None:
                items = self._items.pop(node, None)
                if items is None:
                    continue
                out_grads: Sequence[Any] = items
            elif arrived is None:
                if not node.operator.is_loss:
                    continue
                out_grads = (np.zeros(node.shape, node.dtype),)
            else:
                grad = arrived[0]
                if len(arrived) > 1 or grad.__class__ is Deferred:
                    grad = _total(arrived, node)
                if node.operator is COMPOSITE:
                    # most views name calls; their gradients pass as they are
                    source = node.inputs[0]
                    before = grads.get(source)
                    if before is None:
                        grads[source] = arrived if arrived[0] is grad and len(arrived) == 1 else [grad]
                    else:
                        before.append(grad)
                    continue
                if node.operator is _ITEM:
                    self._add_item(node.inputs[0], node.attributes[0], grad, node)
                    continue
                out_grads = (grad,)
            self._node = node
            found = gradients_of(node, out_grads, known)
            self._node = None
            for source, grad in zip(node.inputs, found, strict=True):
                if grad is not None and source.marked:
                    before = grads.get(source)
                    if before is None:
                        grads[source] = [grad]
                    else:
                        before.append(grad)

    @hot
    def _add_item(self, whole: Node, index: int, grad: Array, node: Node) -> None:
        assert whole.outputs is not None
        by_index = self._items.get(whole)
        if by_index is None:
            by_index = self._items[whole] = [None] * len(whole.outputs)
        before = by_index[index]
        by_index[index] = grad if before is None else _sum_function(node)(before, grad)


#: the function that adds two arrays, by type
_sums: dict[Any, Function] = {}


@hot
def _sum_function(node: Node) -> Function:
    """Return the function that adds two gradients of a node."""
    found = _sums.get(node.kind)
    if found is None:
        one, two = [leaf(number, node.shape, node.dtype) for number in range(2)]
        both = add(one, two)
        found = _sums[node.kind] = function_of(both, (one, two))
    return found


@hot
def _total(grads: list[Any], node: Node) -> Any:
    """Return the sum of the gradients of a node, in order, as :func:`total` adds nodes."""
    first = grads[0]
    if len(grads) == 1:
        return first.value() if first.__class__ is Deferred else first
    for grad in grads:
        if grad.__class__ is Deferred:
            return _total_of_deferred(grads, node)
    plus = _sum_function(node)
    for grad in grads[1:]:
        first = plus(first, grad)
    return first


def _total_of_deferred(grads: list[Any], node: Node) -> Array:
    """Return the sum of gradients some of which are not computed yet."""
    if len(grads) > FEW_PRODUCTS and are_deferred(grads, MATMUL):
        return join_products(grads)
    # NumPy adds numbers of all types but bfloat16
    adds = len(grads) > FEW_PARTS and node.dtype != BFLOAT16
    if adds and are_deferred(grads, EMBED):
        return _total_of_parts(grads, node)
    nodes: list[Node] = []
    values: list[Any] = []
    for grad in grads:
        if grad.__class__ is Deferred:
            made, inputs = grad.node(len(values))
        else:
            made, inputs = leaf(len(values), node.shape, node.dtype), (grad,)
        nodes.append(made)
        values += inputs
    result = resolve(total(nodes))
    found: dict[Node, Any] = {}
    compute_into(found, [result], values)
    return found[result]  # type: ignore[no-any-return]


def _total_of_parts(grads: list[Deferred], node: Node) -> Array:
    """Return the sum of gradients that are zero outside of a region each: every one is added to its region."""
    found = np.zeros(node.shape, node.dtype)
    is_first = True
    for grad in grads:
        region, value = grad.part()
        if is_first:
            found[region] = value
            is_first = False
        else:
            found[region] += value
    return found
