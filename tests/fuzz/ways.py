"""Every way to run a program, by name.

A :class:`Case` is a program as a Python function, with its arguments. A way is a *form* (called as it is, compiled,
hybridized, as a symbol, ...) under a *condition* (settings, observers, threads). A new execution tier is one more line
in :data:`CONDITIONS`, and a new way to call functions one more in :data:`FORMS`. All ways of one group of conditions
must give the same bits; :func:`run` returns what they are compared by.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import inspect
import pathlib
import tempfile
import textwrap
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple
from unittest import mock

import numpy as onp

import phonograd as mx
from phonograd import autograd, gluon, nd, np, npx, settings, sym
from phonograd.core.array.handle import node_in
from phonograd.core.backward import eager
from phonograd.core.derive import gradient
from phonograd.core.kernels.matmul import tasks
from phonograd.core.plan import cache, eager_batches, loops, partition, promotion
from phonograd.core.plan.any_extents import STRUCTURES
from phonograd.core.trace import novelty
from phonograd.core.trace.trace import LOCAL, Trace, ready_trace
from phonograd.profiler import profile

from ..core.plan.programs import same_bits

Array = onp.ndarray[Any, Any]
#: what a call leaves behind, by name: results, arguments, gradients, parameters
Outcome = dict[str, Array]

#: names that the text of a program may use
NAMES: dict[str, Any] = {"mx": mx, "autograd": autograd, "gluon": gluon, "nd": nd, "np": np, "npx": npx, "onp": onp}


class Argument(NamedTuple):
    """An argument of a program: its values in the three calls, the module of its class, and its gradient request."""

    values: tuple[Array, ...]
    module: str = "nd"
    grad_req: str = "null"

    def array(self, call: int) -> Any:
        """Return a new array for a call."""
        value = self.values[call]
        array = (np if self.module == "np" else nd).array(value, dtype=value.dtype)
        if self.grad_req != "null":
            array.attach_grad(grad_req=self.grad_req)
        return array


class Case(NamedTuple):
    """A program with its arguments, and what is done around a call of it."""

    #: ``program(F, layers, *arrays)`` returns a list of arrays; F is mx.nd, or mx.sym
    program: Callable[..., list[Any]]
    arguments: Sequence[Argument]
    make_layers: Callable[[], list[Any]] = list
    #: around the call: nothing, ``record`` and ``backward``, ``grad``, or ``grad`` twice
    mode: str = "plain"
    training: bool = False
    #: the text of the program, for forms that change it
    source: str = ""
    #: names of forms that the program cannot take
    without: frozenset[str] = frozenset()


# -- forms: functions of a case and its layers that return a function of arrays

Function = Callable[..., list[Any]]


def called(case: Case, layers: list[Any]) -> Function:
    """Return the function itself."""
    return functools.partial(case.program, nd, layers)


class _Looks(ast.NodeTransformer):
    """Puts a look at all variables after each statement."""

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        for name in ("body", "orelse", "finalbody"):
            if isinstance(node, (ast.FunctionDef, ast.With, ast.If, ast.For)) and getattr(node, name, None):
                look = ast.parse("_look(locals())").body[0]
                lines = [[line] if isinstance(line, ast.Return) else [line, look] for line in getattr(node, name)]
                setattr(node, name, [line for pair in lines for line in pair])
        return node


def _look(variables: dict[str, Any]) -> None:
    """Read every array."""
    for value in variables.values():
        if isinstance(value, nd.NDArray):
            value.asnumpy()


def stepwise(case: Case, layers: list[Any]) -> Function:
    """Return the function with an evaluation after each of its statements."""
    tree = _Looks().visit(ast.parse(textwrap.dedent(case.source or inspect.getsource(case.program))))
    names = {**NAMES, **case.program.__globals__, "_look": _look}
    exec(compile(ast.fix_missing_locations(tree), "<stepwise>", "exec"), names)
    return functools.partial(names[case.program.__name__], nd, layers)


def compiled(case: Case, layers: list[Any]) -> Function:
    """Return the compiled function."""
    return mx.compile(functools.wraps(case.program)(lambda *arrays: case.program(nd, layers, *arrays)))


class _Whole(gluon.HybridBlock):
    """A block that calls the program."""

    def __init__(self, case: Case, layers: list[Any]) -> None:
        super().__init__(prefix="whole_")
        self._program, self._layers = case.program, layers
        for layer in layers:
            self.register_child(layer)

    def hybrid_forward(self, F: Any, *arrays: Any) -> Any:
        return self._program(F, self._layers, *arrays)


def hybridized(case: Case, layers: list[Any]) -> Function:
    """Return the call of a hybridized block."""
    block = _Whole(case, layers)
    block.hybridize()
    return functools.partial(_listed, block)


def _listed(block: Any, *arrays: Any) -> list[Any]:
    found = block(*arrays)
    return list(found) if isinstance(found, (list, tuple)) else [found]


def exported(case: Case, layers: list[Any]) -> Function:
    """Return a block that was written to files and read again, with the parameters of the layers afterwards."""
    block = _Whole(case, layers)
    block.hybridize()
    # the first call tells export the number of inputs; it must not change what comes afterwards
    states = {name: parameter.data().copy() for name, parameter in block.collect_params().items()}
    block(*[argument.array(0) for argument in case.arguments])
    for name, parameter in block.collect_params().items():
        parameter.set_data(states[name])
    with tempfile.TemporaryDirectory() as directory:
        path = str(pathlib.Path(directory) / "case")
        block.export(path)
        number = len(case.arguments)
        names = ["data"] if number == 1 else [f"data{place}" for place in range(number)]
        again = gluon.SymbolBlock.imports(f"{path}-symbol.json", names, f"{path}-0000.params")
    for name, parameter in again.collect_params().items():
        parameter.grad_req = block.collect_params()[name].grad_req
    found = functools.partial(_listed, again)
    # a graph has no parameters of layers whose results are not used
    found.parameters = {**block.collect_params(), **again.collect_params()}  # type: ignore[attr-defined]
    return found


def symbolic(case: Case, layers: list[Any]) -> Function:
    """Return a function that evaluates a symbol, which was written as text and read again."""
    variables = [sym.var(f"a{number}") for number in range(len(case.arguments))]
    symbol = sym.load_json(sym.Group(case.program(sym, layers, *variables)).tojson())
    names = {*symbol.list_inputs()}

    def evaluated(*arrays: Any) -> list[Any]:
        feed = {f"a{number}": array for number, array in enumerate(arrays) if f"a{number}" in names}
        executor = symbol.bind(mx.cpu(), args=feed)
        return list(executor.forward(is_train=case.training))

    return evaluated


FORMS: dict[str, Callable[[Case, list[Any]], Function]] = {
    "called": called,
    "stepwise": stepwise,
    "compiled": compiled,
    "hybridized": hybridized,
    "exported": exported,
    "symbolic": symbolic,
}

# -- conditions: context managers


def forget_plans() -> None:
    """Drop all plans, so that graphs are planned again under the present settings."""
    LOCAL.trace.flush(end=True)
    cache.PLANS.root.following.clear()
    STRUCTURES.clear()


@contextlib.contextmanager
def divided(threads: int) -> Iterator[None]:
    """Divide the work of kernels into chunks of a few elements, and share them among threads."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(settings.override(num_threads=threads, cache_directory="", tiers="plan"))
        for module in (loops, partition):
            stack.enter_context(mock.patch.object(module, "CHUNK_ELEMENTS", 2))
            stack.enter_context(mock.patch.object(module, "ENOUGH_CHUNKS", 1))
        stack.enter_context(mock.patch.object(partition, "PART_ELEMENTS", 4))
        stack.enter_context(mock.patch.object(tasks, "TASK_WORK", 2))
        forget_plans()
        yield
        forget_plans()


@contextlib.contextmanager
def tiers(name: str) -> Iterator[None]:
    """Plan graphs at a certain time."""
    with mx.settings.override(tiers=name):
        forget_plans()
        yield
        forget_plans()


@contextlib.contextmanager
def promoted() -> Iterator[None]:
    """Plan every graph in the background as soon as it comes back."""
    with tiers("background"), mock.patch.object(cache, "planning_ns", return_value=0):
        yield
        promotion.finish()


@contextlib.contextmanager
def immediate() -> Iterator[None]:
    """Compute operators that are not recorded when they are called, as in programs that are always new."""
    with tiers("background"), mock.patch.object(novelty, "MANY_NEW", 0):
        # the trace that follows is an immediate one, and machine code, which makes nodes, is told so
        LOCAL.trace.flush(end=True)
        assert LOCAL.trace.is_immediate
        yield
    LOCAL.trace.flush(end=True)
    LOCAL.trace = Trace()
    ready_trace()


@contextlib.contextmanager
def batched() -> Iterator[None]:
    """Run equal operators of every new record or graph together, however few there are."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(tiers("blocking"))
        stack.enter_context(mock.patch.object(eager_batches, "LEAST_NODES", 1))
        stack.enter_context(mock.patch.object(eager_batches, "LEAST_WIDTH", 0.0))
        stack.enter_context(mock.patch.object(eager_batches, "MOST_SKIPPED", 0))
        # every record counts as new
        eager._seen.clear()
        gradient._memory.clear()
        yield


@contextlib.contextmanager
def planned_anew(**changes: Any) -> Iterator[None]:
    """Change settings, and make plans anew instead of reading them from the disk."""
    with settings.override(cache_directory="", **changes):
        forget_plans()
        yield
        forget_plans()


def observed() -> Any:
    """Record operators and kernels, with all that is known of them."""
    return profile(record_shapes=True, with_flops=True, with_modules=True)


#: conditions under which kernels compute: all of them give the same bits
CONDITIONS: dict[str, Callable[[], Any]] = {
    "native": contextlib.nullcontext,
    "naive": lambda: settings.override(naive=True),
    "python calls": lambda: settings.override(native_calls=False),
    "one thread": lambda: divided(1),
    "three threads": lambda: divided(3),
    "eager": lambda: tiers("blocking"),
    "batched": batched,
    "planned": lambda: tiers("plan"),
    "promoted": promoted,
    "immediate": immediate,
    "observed": observed,
    "memory observed": lambda: profile(profile_memory=True, with_stack=True),
}
#: conditions under which NumPy computes
REFERENCE: dict[str, Callable[[], Any]] = {
    "reference": lambda: settings.override(executor="reference"),
    "naive reference": lambda: settings.override(executor="reference", naive=True),
    "observed reference": lambda: _both(settings.override(executor="reference"), observed()),
}


@contextlib.contextmanager
def _both(first: Any, second: Any) -> Iterator[None]:
    with first, second:
        yield


class Way(NamedTuple):
    """A form under a condition."""

    form: str
    condition: str

    def __str__(self) -> str:
        return f"{self.form}, {self.condition}"


#: the ways by group: each form as it is, then each condition for functions that are called, and compiled
GROUPS: dict[str, list[Way]] = {
    "native": [
        *[Way(form, "planned") for form in FORMS],
        *[Way("called", condition) for condition in CONDITIONS if condition != "planned"],
        *[
            Way("compiled", condition)
            for condition in ("python calls", "three threads", "eager", "promoted", "observed")
        ],
        *[Way("hybridized", condition) for condition in ("python calls", "observed")],
        *[Way("stepwise", condition) for condition in ("python calls", "three threads")],
    ],
    "reference": [
        *[Way(form, "reference") for form in FORMS],
        Way("called", "naive reference"),
        Way("compiled", "observed reference"),
    ],
}


# -- running

#: the sets of arguments of the calls: others in the second and third, and the first again, as the calls have left them
CALLS = (0, 1, 2, 0)


def run(case: Case, way: Way | str) -> list[Outcome]:
    """Return what each call of a case leaves behind; a way is given by its text, too."""
    if isinstance(way, str):
        way = Way(*way.split(", "))
    with warnings.catch_warnings(), ({**CONDITIONS, **REFERENCE})[way.condition]():
        # functions that cannot be repeated say so
        warnings.simplefilter("ignore", RuntimeWarning)
        return _run_calls(case, FORMS[way.form])


def _run_calls(case: Case, form: Callable[[Case, list[Any]], Function]) -> list[Outcome]:
    mx.random.seed(5)
    layers = case.make_layers()
    function = form(case, layers)
    found = getattr(function, "parameters", None)
    if found is None:
        found = {k: v for layer in layers for k, v in layer.collect_params().items()}
    parameters: list[Any] = [found[name] for name in sorted(found)]
    sets = [[argument.array(call) for argument in case.arguments] for call in range(max(CALLS) + 1)]
    return [_run_call(case, function, sets[call], parameters, call) for call in CALLS]


def weights_of(array: Any) -> Any:
    """Return the head gradient of a result: numbers that are the same in every way."""
    values = onp.random.default_rng(array.size).uniform(0.5, 1.5, array.shape).astype(array.dtype)
    return (np if isinstance(array, np.ndarray) else nd).array(values, dtype=array.dtype)


def _run_call(case: Case, function: Function, arrays: list[Any], parameters: list[Any], seed: int) -> Outcome:
    mx.random.seed(100 + seed)
    outcome: dict[str, Any] = {}
    variables = [array for array, argument in zip(arrays, case.arguments) if argument.grad_req != "null"]
    if case.mode == "plain":
        with autograd.train_mode() if case.training else autograd.predict_mode():
            results = function(*arrays)
    else:
        with autograd.record(train_mode=case.training):
            results = function(*arrays)
        made = [result for result in results if not any([result is array for array in arrays])]
        heads = [result for result in made if result.dtype in _FLOATING and is_recorded(result)]
        if heads and case.mode == "backward":
            autograd.backward(heads, [weights_of(head) for head in heads])
        elif heads and variables:
            outcome.update(_gradients(heads, variables, case.mode == "grad twice"))
    for number, result in enumerate(results):
        outcome[f"result {number}"] = result
    for number, (array, argument) in enumerate(zip(arrays, case.arguments)):
        outcome[f"argument {number}"] = array
        if argument.grad_req != "null":
            outcome[f"gradient {number}"] = array.grad
    for number, parameter in enumerate(parameters):
        outcome[f"parameter {number}"] = parameter.data()
        if parameter.grad_req != "null":
            outcome[f"gradient of parameter {number}"] = parameter.grad()
    return {name: onp.array(value.asnumpy()) for name, value in outcome.items() if value is not None}


_FLOATING = (onp.float16, onp.float32, onp.float64)


def is_recorded(array: Any) -> bool:
    """Return whether an array can be differentiated."""
    return bool(node_in(array, ready_trace()).marked)


def _gradients(heads: list[Any], variables: list[Any], twice: bool) -> dict[str, Any]:
    """Return gradients, and those of a function of them."""
    reached = [variable for variable in variables if _is_reached(heads, variable)]
    if not reached:
        return {}
    weights = [weights_of(head) for head in heads]
    with autograd.record():
        first = autograd.grad(heads, reached, head_grads=weights, create_graph=twice, retain_graph=True)
        outcome = {f"slope {number}": slope for number, slope in enumerate(first)}
        # the slopes of linear functions do not depend on variables, but there is always one to find
        squares = [(part * part).sum() for part in [*first, *reached]] if twice else []
    if squares:
        autograd.backward(squares)
    return outcome


def _is_reached(heads: list[Any], variable: Any) -> bool:
    try:
        autograd.grad(heads, [variable], head_grads=[weights_of(head) for head in heads], retain_graph=True)
    except mx.MXNetError as error:
        if "unreachable" not in str(error) and "require gradients" not in str(error):
            raise
        return False
    return True


def run_in_threads(case: Case, number: int = 3) -> list[list[Outcome]]:
    """Return what each of several threads finds that run a case at the same time; random numbers are shared."""
    found: list[Any] = [None] * number

    def work(place: int) -> None:
        try:
            found[place] = run(case, Way("called", "native"))
        except BaseException as error:
            found[place] = error

    workers = [threading.Thread(target=work, args=(place,)) for place in range(number)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for outcome in found:
        if isinstance(outcome, BaseException):
            raise outcome
    return found


def difference(first: list[Outcome], second: list[Outcome]) -> str:
    """Return where two runs differ, or ''."""
    for call, (one, other) in enumerate(zip(first, second, strict=True)):
        if one.keys() != other.keys():
            return f"call {call + 1}: {sorted(one.keys() ^ other.keys())} in one of them only"
        for name, value in one.items():
            if not same_bits(value, other[name]):
                return f"call {call + 1}: {name}\n{value!r}\n{other[name]!r}"
    return ""
