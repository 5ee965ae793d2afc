"""Single calls: an operator whose results are read at once runs its plan when it is called, without a graph.

Takes plans from :mod:`phonograd.core.trace.trace` that were used several times for traces of one call (:func:`learn`),
and hands machine code (:mod:`.fastcall.native_code`) a function of arrays for the operator of that call. Arguments of
the same shapes, dtypes and parameters then become leaves of no trace: the program of the plan gets their memory, so the
bits are the same. None is returned for all other calls and for those that fail. They become nodes as before, and an
error is raised where it would be otherwise. One of ``PROBE_EVERY`` calls becomes a node, too, to find out whether its
trace is still one of a single call. See docs/decisions/0044.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..base import processor, settings
from ..base.devices import CPU
from ..base.outside import is_from_outside
from ..base.settings import CHANGED, active
from ..graph.node import FORGOTTEN, Node, statistics
from ..graph.operator import Array, Operator, item_operator
from ..graph.signature import visible
from ..ops.math.structural import LEAF
from ..plan import promotion
from ..plan.cache import SINGLE_RUNS, CachedPlan, choose_program
from ..run.program import RecipeProgram, Segment
from ..run.programs import Program
from ..run.reference import resolve
from ..trace.evaluation import is_calm
from ..trace.flags import FLAGS, RECORDING
from ..trace.owner import Pairs
from .call import key_form
from .handle import DENSE

__all__ = ["MOST_KINDS", "MOST_PROBES", "MOST_UNPACKED", "PROBE_EVERY", "forget", "learn"]

#: one call among so many becomes a node
PROBE_EVERY = 64
#: calls in a row that become nodes and are not alone, after which a kind is dropped
MOST_PROBES = 8
#: elements of inputs that are not taken packed: for 64 x 64 matrices, finding the packed form takes 0.8 us, and packing
#: again at most as long
MOST_UNPACKED = 1 << 12
#: kinds of calls of one operator to keep
MOST_KINDS = 64

_new: Any = object.__new__
_NDARRAY = np.ndarray
_ITEM = item_operator()


class _Kind:
    """A kind of call: the program that computes it, and the numbers of arguments and results."""

    __slots__ = (
        "fixed",
        "is_in_order",
        "is_list",
        "is_small",
        "left",
        "places",
        "plan",
        "program",
        "results",
        "segment",
        "slots",
    )

    def __init__(self, program: Program, wanted: Sequence[Node], is_list: bool, plan: CachedPlan) -> None:
        self.program: Any = program
        #: all of a run of the program, if that is a single native call: see `RecipeProgram.only_segment`
        self.segment: Segment | None = None
        self.fixed: list[Any] = []
        #: whether finding packed operands would take longer than packing them again
        self.is_small = max([node.size for node in program.inputs], default=0) <= MOST_UNPACKED
        #: the argument of each input of the program
        self.places = [node.attributes[0] for node in program.inputs]
        self.is_in_order = self.places == list(range(len(self.places)))
        numbers = {node: number for number, (node, _) in enumerate(program.kept)}
        #: the number of each result among those of the program
        self.results = [numbers[node] for node in wanted]
        #: their slots in the argument of the segment
        self.slots = [program.kept[number][1] for number in self.results]
        self.is_list = is_list
        self.plan = plan
        #: calls until they become nodes; a trace of such a call alone sets it back
        self.left = PROBE_EVERY

    def run(self, arrays: list[Array]) -> list[Array]:
        """Return the results, by the program."""
        found = self.program.run(arrays)
        if isinstance(self.program, RecipeProgram):
            only = self.program.only_segment()
            if only is not None:
                self.segment, self.fixed = only
        return [found[number] for number in self.results]


#: by operator, the kinds of calls by shapes and dtypes of arrays, and parameters
_kinds: dict[Operator, dict[Any, _Kind]] = {}


def forget() -> None:
    """Forget all kinds: nodes were dropped, or settings that plans depend on have changed."""
    for declared, kinds in _kinds.copy().items():
        declared.at_once.clear()
        for kind in list(kinds.values()):
            kind.plan.single, kind.plan.single_runs = None, 0
    _kinds.clear()


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
    declared, key, outputs, is_list = found
    wanted = [resolve(node) for node in outputs]
    is_complete = len(nodes) == len(wanted)
    if not {*nodes} <= {*wanted} or len({*wanted}) < len(wanted) or any([node.operator is LEAF for node in wanted]):
        return
    planned, before = plan.program, settings.current()

    def work() -> None:
        program = planned if is_complete else choose_program(wanted, (), False)
        if program is not None and settings.current() is before:
            plan.single = kind = _Kind(program, wanted, is_list, plan)
            _add(declared, key, kind)

    if is_complete:
        work()
    else:
        promotion.submit(work)


def _find(live: Pairs) -> tuple[Operator, tuple[Any, ...], tuple[Node, ...], bool] | None:
    """Return the operator of a call among whose results are live ones, the key of its kind, its results, and whether
    they are a list; None if there is no such call.
    """
    node = next((node for _, node in live if node.operator is not LEAF), None)
    if node is None:
        return None
    declared = node.operator if node.call is None else node.call[0]
    if declared is _ITEM:
        declared = node.inputs[0].operator
    if declared.autocast is not None:
        return None
    for call, found in declared.calls.copy().items():
        if found is node:
            key = _key_of(declared, call)
            return None if key is None else (declared, key, (node,), False)
    for call, several in declared.several.copy().items():
        if node in several.nodes:
            key = _key_of(declared, call)
            is_list = several.shown != 1 or several.declared is None
            return None if key is None else (declared, key, several.nodes[: several.shown], is_list)
    return None


def _key_of(declared: Operator, call: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """Return the key of a kind of call, given that of a call; None if its arguments are not all leaves, in order."""
    count = len([name for name in declared.input_names if name != "counter"])
    nodes, parameters = call[:count], call[count:]
    while nodes and nodes[-1] is None:
        nodes = nodes[:-1]
    key: list[Any] = []
    for number, node in enumerate(nodes):
        if type(node) is not Node or node.operator is not LEAF or node.attributes[0] != number:
            return None
        if node.context is not CPU or node.size > processor.choices().numbers_per_node:
            return None
        key += (node.shape, node.dtype)
    return (*key, parameters)


def _add(declared: Operator, key: tuple[Any, ...], kind: _Kind) -> None:
    kinds = _kinds.get(declared)
    if kinds is None:
        kinds = _kinds[declared] = {}
    if len(kinds) >= MOST_KINDS:
        kinds.clear()
    kinds[key] = kind
    if not declared.at_once:
        declared.at_once.append(_function(declared, kinds))


class _Parameters(dict[Any, "tuple[Any, ...] | None"]):
    """The parameters of calls in the form of keys, by the keywords that were given; None if Python converts them."""

    def __init__(self, declared: Operator) -> None:
        self._parameters = {parameter.name: parameter for parameter in visible(declared)}

    def __missing__(self, given: tuple[tuple[str, Any], ...]) -> tuple[Any, ...] | None:
        if len(self) >= MOST_KINDS:
            self.clear()
        known, made = self._parameters, None
        # zeros of both signs are equal as keys, but they are different parameters
        if all([name in known and key_form(known[name], value) is value for name, value in given]):
            values = dict(given)
            made = tuple([key_form(each, values.get(name, each.default)) for name, each in known.items()])
        self[given] = made
        return made


def _function(declared: Operator, kinds: dict[Any, _Kind]) -> Callable[..., Any]:
    """Return the function of the arguments of a call that returns its results, or None if they are to become nodes."""
    parameters = _Parameters(declared)
    without = parameters[()]
    names = [parameter.name for parameter in visible(declared)]
    most = len([name for name in declared.input_names if name != "counter"])

    def call(*handles: Any, **given: Any) -> Any:
        if not active.immediate or FLAGS.get() & RECORDING or not is_calm():
            return None
        if len(handles) > most:
            # parameters that were given by position
            named = dict(zip(names, handles[most:]))
            if len(handles) - most > len(names) or not named.keys().isdisjoint(given):
                return None
            handles, given = handles[:most], {**named, **given}
        array_class = plain = DENSE[0]
        arrays: list[Array] = []
        key: list[Any] = []
        for handle in handles:
            if type(handle) is not plain:
                array_class = type(handle)
                if array_class not in DENSE:
                    return None
            array, extras = handle._buffer, handle._extras
            if type(array) is not _NDARRAY or (extras is not None and extras.context is not CPU):
                return None
            for other in arrays:
                if other is array:
                    return None
            arrays.append(array)
            key += (array.shape, array.dtype)
        try:
            key.append(parameters[tuple(given.items())] if given else without)
            kind = kinds.get(tuple(key))
        except TypeError:
            # a list among the parameters
            return None
        return None if kind is None else _run(kind, arrays, array_class)

    return call


def _drop(kind: _Kind) -> None:
    """Forget a kind of calls that are not alone any more."""
    kind.plan.single, kind.plan.single_runs = None, 0
    for declared, kinds in list(_kinds.items()):
        for key in [key for key, each in kinds.items() if each is kind]:
            del kinds[key]
            if not kinds:
                del _kinds[declared]
                declared.at_once.clear()


def _run(kind: _Kind, arrays: list[Array], array_class: type[Any]) -> Any:
    """Return the results of a call of a kind; None if it fails, or is to become a node."""
    kind.left -= 1
    if kind.left < 0:
        # the next use of the plan decides
        kind.plan.single_runs = SINGLE_RUNS - 1
        if kind.left < -MOST_PROBES:
            _drop(kind)
        return None
    if not kind.is_in_order:
        arrays = [arrays[place] for place in kind.places]
    segment = kind.segment
    try:
        if segment is None or not (kind.is_small or kind.program.packed is None):
            values = kind.run(arrays)
        else:
            slots = arrays + kind.fixed
            segment(slots)
            values = [slots[slot] for slot in kind.slots]
    except Exception as error:
        if is_from_outside(error):
            raise
        # as a node, it fails where its value is needed
        return None
    statistics.evaluations += 1
    if not kind.is_list:
        handle = _new(array_class)
        handle._trace = handle._node = handle._extras = None
        handle._buffer = values[0]
        return handle
    made = []
    for value in values:
        handle = _new(array_class)
        handle._trace = handle._node = handle._extras = None
        handle._buffer = value
        made.append(handle)
    return made
