"""Single calls: an operator whose results are read at once runs its plan when it is called, without a graph.

Takes plans from :mod:`phonograd.core.trace.trace` that were used several times for traces of one call (:func:`learn`),
and hands machine code (:mod:`.fastcall.native_immediate`) a function of arrays for each such kind of call
(:data:`SINGLES`). Arguments of the same shapes, dtypes and parameters then become leaves of no trace: the program of
the plan gets their memory, so the bits are the same. A program of one native call is a function of machine code
(:mod:`phonograd.core.run.row_call`). All other calls become nodes as before, and so do those that fail:
an error is raised where it would be otherwise. One of ``PROBE_EVERY`` calls becomes a node, too, to find out whether
its trace is still one of a single call. See docs/decisions/0044.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Sequence
from typing import Any, NamedTuple

from ..base import fork, processor, settings
from ..base.devices import CPU
from ..base.outside import is_from_outside
from ..base.settings import CHANGED, active
from ..graph.node import FORGOTTEN, Node, statistics
from ..graph.operator import Array, Operator, item_operator
from ..ops.math.structural import LEAF
from ..plan import promotion
from ..plan.cache import SINGLE_RUNS, CachedPlan, choose_program
from ..run import driver
from ..run.program import RecipeProgram
from ..run.programs import Program
from ..run.reference import resolve
from ..run.row_call import RowCalls
from ..trace.evaluation import PROGRESS
from ..trace.owner import Pairs
from .kinds import Call, admit

__all__ = ["MOST_KINDS", "MOST_PROBES", "MOST_UNPACKED", "PROBE_EVERY", "SINGLES", "forget", "learn"]

#: one call among so many becomes a node
PROBE_EVERY = 64
#: calls in a row that become nodes and are not alone, after which a kind is dropped
MOST_PROBES = 8
#: elements of inputs that are not taken packed: for 64 x 64 matrices, finding the packed form takes 0.8 us, and packing
#: again at most as long
MOST_UNPACKED = 1 << 12
#: kinds of calls of one operator to keep
MOST_KINDS = 64

_ITEM = item_operator()


class _Found(NamedTuple):
    """A call whose results are the only pending ones of a trace."""

    declared: Operator
    key: tuple[Any, ...]
    """The key of its kind."""
    leaves: list[int]
    """The number of the leaf of each argument."""
    outputs: tuple[Node, ...]
    is_list: bool
    """Whether users get a list of the outputs."""


class _Kind:
    """A kind of call: the program that computes it, and the numbers of arguments and results."""

    __slots__ = ("call", "is_in_order", "is_list", "is_small", "left", "places", "plan", "program", "results")

    def __init__(self, program: Program, call: _Found, wanted: Sequence[Node], plan: CachedPlan) -> None:
        self.program: Any = program
        #: whether finding packed operands would take longer than packing them again
        self.is_small = max([node.size for node in program.inputs], default=0) <= MOST_UNPACKED
        #: the argument of each input of the program
        self.places = [call.leaves.index(node.attributes[0]) for node in program.inputs]
        self.is_in_order = self.places == list(range(len(self.places)))
        numbers = {node: number for number, (node, _) in enumerate(program.kept)}
        #: the number of each result among those of the program
        self.results = [numbers[node] for node in wanted]
        self.is_list = call.is_list
        self.plan = plan
        #: calls until they become nodes; a trace of such a call alone sets it back
        self.left = PROBE_EVERY
        #: the entry of machine code, which gets a faster function when there is one
        self.call = Call.of_direct(functools.partial(_run, self))

    def run(self, arrays: list[Array]) -> list[Array]:
        """Return the results, by the program."""
        found = self.program.run(arrays)
        if isinstance(self.program, RecipeProgram) and (self.is_small or self.program.packed is None):
            self._hasten(self.program)
        return [found[number] for number in self.results]

    def _hasten(self, program: RecipeProgram) -> None:
        """Let machine code run the program, if that is one native call; it may be too early to say."""
        code = _code()
        whole = None if code is None else program.whole_row()
        # a call need not read all of its arguments
        if code is None or whole is None or sorted(self.places) != [*range(len(self.places))]:
            return
        slots = [program.kept[number][1] for number in self.results]
        otherwise = self.call.direct
        self.call.hasten(*code.function(whole, self.places, slots, self.is_list, (admit, (self,)), otherwise))


_calls: RowCalls | None = None


@functools.cache
def _request_code() -> None:
    """Start to compile the code of row calls, once; nobody waits for it."""

    def work() -> None:
        global _calls
        _calls = RowCalls(driver.address())

    if settings.current().tiers == "background":
        promotion.submit(work)
    else:
        work()


def _code() -> RowCalls | None:
    """Return the compiled code; None if it is not ready yet, or not supported."""
    if _calls is None and driver.can_launch():
        _request_code()
    return _calls


#: by operator, the kinds of calls by their keys in ``SINGLES``
_kinds: dict[Operator, dict[Any, _Kind]] = {}
#: the kinds that machine code finds: by operator, parameters, shapes and dtypes of arrays; those of methods of binary
#: operators once more, without parameters
SINGLES: dict[Any, Call] = {}
#: held while kinds are added and removed: threads call, and helpers learn
_lock = threading.RLock()
fork.register_lock("single calls", _lock)


def forget() -> None:
    """Forget all kinds: nodes were dropped, or settings that plans depend on have changed."""
    with _lock:
        for declared, kinds in _kinds.items():
            declared.at_once.clear()
            for kind in kinds.values():
                kind.plan.single, kind.plan.single_runs = None, 0
        _kinds.clear()
        SINGLES.clear()


FORGOTTEN.connect(forget)
CHANGED.connect(forget)


def learn(plan: CachedPlan, live: Pairs) -> None:
    """Learn the call whose results are the only pending ones of a trace, given a plan of it; nothing if there is none.

    The results of a call that are not alive have no values in the plan, so a helper makes another program then.
    """
    if not active.immediate:
        return
    if plan.single is not None:
        # a call of a known kind has become a node, and it was alone
        plan.single.left = PROBE_EVERY
        return
    nodes = [resolve(node) for _, node in live if node.operator is not LEAF]
    found = _find(live) if plan.program is not None and not plan.is_provisional else None
    if found is None:
        return
    wanted = [resolve(node) for node in found.outputs]
    is_complete = len(nodes) == len(wanted)
    if not {*nodes} <= {*wanted} or len({*wanted}) < len(wanted) or any([node.operator is LEAF for node in wanted]):
        return
    planned, before = plan.program, settings.current()

    def work() -> None:
        program = planned if is_complete else choose_program(wanted, (), False)
        if program is not None and settings.current() is before:
            plan.single = kind = _Kind(program, found, wanted, plan)
            _add(found.declared, found.key, kind)

    if is_complete:
        work()
    else:
        promotion.submit(work)


def _find(live: Pairs) -> _Found | None:
    """Return the call among whose results are live ones; None if there is none whose arguments are all leaves."""
    node = next((node for _, node in live if node.operator is not LEAF), None)
    if node is None:
        return None
    declared = node.operator if node.call is None else node.call[0]
    if declared is _ITEM:
        declared = node.inputs[0].operator
    if declared.autocast is not None or declared.variadic:
        return None
    for call, found in declared.calls.copy().items():
        if found is node:
            return _kind_of(declared, call, (node,), False)
    for call, several in declared.several.copy().items():
        if node in several.nodes:
            is_list = several.shown != 1 or several.declared is None
            return _kind_of(declared, call, several.nodes[: several.shown], is_list)
    return None


def _kind_of(declared: Operator, call: tuple[Any, ...], outputs: tuple[Node, ...], is_list: bool) -> _Found | None:
    """Return what is needed to learn a call, given its key; None if it is large or an argument is not another leaf."""
    count = len([name for name in declared.input_names if name != "counter"])
    nodes, parameters = call[:count], call[count:]
    while nodes and nodes[-1] is None:
        nodes = nodes[:-1]
    key: list[Any] = [declared, parameters]
    leaves: list[int] = []
    for node in nodes:
        if type(node) is not Node or node.operator is not LEAF or node.attributes[0] in leaves:
            return None
        if node.context is not CPU:
            return None
        leaves.append(node.attributes[0])
        key += (node.shape, node.dtype)
    # the way to a plan takes no time beside a large result of large arrays; a lookup reads few rows of a large table
    largest = min([max([node.size for node in each], default=0) for each in (nodes, outputs)])
    if largest > processor.choices().numbers_per_node:
        return None
    return _Found(declared, tuple(key), leaves, outputs, is_list)


def _add(declared: Operator, key: tuple[Any, ...], kind: _Kind) -> None:
    with _lock:
        if len(_kinds.get(declared, ())) >= MOST_KINDS:
            _remove(declared, list(_kinds[declared]))
        _kinds.setdefault(declared, {})[key] = kind
        SINGLES[key] = SINGLES[_without_parameters(key)] = kind.call
        if not declared.at_once:
            declared.at_once.append(True)


def _without_parameters(key: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the key that a kind has as a method of a binary operator, which has no parameters."""
    return key if key[1] else (key[0], *key[2:])


def _remove(declared: Operator, keys: list[Any]) -> None:
    """Forget kinds of an operator; the caller holds the lock."""
    kinds = _kinds[declared]
    for key in keys:
        del kinds[key]
        for each in {key, _without_parameters(key)}:
            SINGLES.pop(each, None)
    if not kinds:
        del _kinds[declared]
        declared.at_once.clear()


def _drop(kind: _Kind) -> None:
    """Forget a kind of calls that are not alone any more."""
    with _lock:
        kind.plan.single, kind.plan.single_runs = None, 0
        for declared, kinds in list(_kinds.items()):
            keys = [key for key, each in kinds.items() if each is kind]
            if keys:
                _remove(declared, keys)


def _run(kind: _Kind, *arrays: Array) -> Any:
    """Return the result of a call of a kind, or the list of results; None if it fails, or is to become a node."""
    if PROGRESS.get() or (len(arrays) > 1 and len({*map(id, arrays)}) < len(arrays)):
        return None
    kind.left -= 1
    if kind.left < 0:
        # the next use of the plan decides
        kind.plan.single_runs = SINGLE_RUNS - 1
        if kind.left < -MOST_PROBES:
            _drop(kind)
        return None
    inputs = [*arrays] if kind.is_in_order else [arrays[place] for place in kind.places]
    try:
        values = kind.run(inputs)
    except Exception as error:
        if is_from_outside(error):
            raise
        # as a node, it fails where its value is needed
        return None
    statistics.evaluations += 1
    return values if kind.is_list else values[0]
