"""Random programs: each runs every way there is, and agrees with NumPy. See the package for :func:`run`.

:func:`generate` draws a program from a seed, :func:`check` runs it every way (:mod:`.ways`) and against the model
(:mod:`.model`), and :func:`shrink` removes the statements of a failing program that do not matter. A failure is a
script that can be run from the root of the repository.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from . import Counts
from .kinds import write
from .model import compare_gradients, compare_values
from .statements import Statement, Writer
from .tables import make_layer
from .ways import GROUPS, NAMES, Argument, Case, Way, difference, run_in_threads
from .ways import run as run_way

__all__ = ["Failure", "Program", "check", "generate", "run", "shrink"]

STYLES = ("symbolic", "symbolic", "nd", "nd", "np", "mixed")
DTYPES = ("float32", "float32", "float32", "float64", "float64", "float16")
_CASTS_OF_AMP = ("amp_cast", "amp_multicast")
MODES = ("plain", "backward", "backward", "grad", "grad twice")


class Program(NamedTuple):
    """A program as data."""

    seed: int
    arguments: tuple[Argument, ...]
    layers: tuple[str, ...]
    statements: tuple[Statement, ...]
    #: names of the arrays that it returns
    returns: tuple[str, ...]
    mode: str
    training: bool
    dtype: str
    is_special: bool = False

    @property
    def source(self) -> str:
        """The text of the function."""
        names = ", ".join(["F", "layers", *[f"a{number}" for number in range(len(self.arguments))]])
        lines, scope = [], ()
        for statement in self.statements:
            text = statement.lines()
            if statement.scope and statement.scope == scope:
                text = text[len(scope) :]
            scope = statement.scope
            lines += text
        body = "\n".join([f"    {line}" for line in [*lines, f"return [{', '.join(self.returns)}]"]])
        return f"def program({names}):\n{body}\n"

    def case(self) -> Case:
        """Return the program as a function."""
        names: dict[str, Any] = {**NAMES, "detached": lambda x: x.detach()}
        exec(compile(self.source, f"<program {self.seed}>", "exec"), names)
        layers, dtype = self.layers, self.dtype
        return Case(
            names["program"],
            self.arguments,
            lambda: [make_layer(text, number, dtype) for number, text in enumerate(layers)],
            self.mode,
            self.training,
            self.source,
            self.without(),
        )

    def without(self) -> frozenset[str]:
        """Return the forms that the program cannot take."""
        found = set()
        if not self.arguments or not all([s.symbolic for s in self.statements]) or self.has_dead_effects():
            found |= {"exported", "symbolic"}
        if sum([statement.random for statement in self.statements]) > 1:
            # a graph draws in an order of its own
            found |= {"exported", "symbolic"}
        if any([name.startswith("a") for name in self.returns]):
            # the graph of an argument is a copy
            found |= {"exported", "symbolic"}
        if self.layers or self.mode != "plain":
            # an executor keeps parameters and gradients of its own
            found |= {"symbolic"}
        if not self.arguments:
            found |= {"hybridized"}
        if self.mode != "plain" and any(["autograd.pause()" in statement.scope for statement in self.statements]):
            # a graph does not say where recording was paused
            found |= {"exported"}
        if any([statement.operator in _CASTS_OF_AMP for statement in self.statements]):
            # as in MXNet, files of graphs are without them
            found |= {"exported", "symbolic"}
        return frozenset(found)

    def has_dead_effects(self) -> bool:
        """Return whether effects or random draws belong to results that are not returned: no graph has them."""
        live = {*self.returns}
        for statement in reversed(self.statements):
            if live & {*statement.makes}:
                live |= {*statement.reads}
            elif statement.random or statement.has_effects:
                return True
        return False

    def roots(self) -> dict[str, str]:
        """Return, for each view, the array that it is a view of."""
        roots: dict[str, str] = {}
        for statement in self.statements:
            for name in statement.views:
                roots[name] = roots.get(statement.reads[0], statement.reads[0])
        return roots

    def changes_arguments(self) -> bool:
        """Return whether a statement writes to an argument, or to a view of one."""
        roots = self.roots()
        return any([roots.get(name, name).startswith("a") for s in self.statements for name in s.changes])

    def smooth_results(self) -> list[int]:
        """Return the numbers of the results whose gradients differences can tell."""
        if self.dtype != "float64" or self.mode != "backward" or self.is_special or self.changes_arguments():
            return []
        roots, rough = self.roots(), set()
        for statement in self.statements:
            is_rough = not statement.smooth or statement.random or "autograd.pause()" in statement.scope
            if is_rough or any([roots.get(name, name) in rough for name in statement.reads]):
                rough |= {roots.get(name, name) for name in (*statement.makes, *statement.changes)}
        return [number for number, name in enumerate(self.returns) if roots.get(name, name) not in rough]

    def script(self, first: Way | None, second: Way | None, wrong: str) -> str:
        """Return a script that shows a failure."""
        comment = "\n".join([f"# {line}" for line in wrong.splitlines()])
        arguments = "\n".join([f"    {_argument_text(argument)}," for argument in self.arguments])
        layers = "\n".join([f"    {text!r}," for text in self.layers])
        if first is None or second is None:
            last = f"from tests.fuzz.model import compare_gradients\n\nprint(compare_gradients(case, {self.smooth_results()}))\n"
        else:
            last = f'print(difference(run(case, "{first}"), run(case, "{second}")) or "no difference")\n'
        return (
            f"# seed {self.seed}; run from the root of the repository with PYTHONPATH=src:.\n{comment}\n"
            "import numpy as onp\nfrom numpy import array, dtype, inf, nan\n\nimport phonograd as mx\n"
            "from phonograd import autograd, gluon, nd, np, npx\n"
            "from tests.fuzz.tables import make_layer\n"
            "from tests.fuzz.ways import Argument, Case, difference, run\n\n\n"
            f"def detached(x):\n    return x.detach()\n\n\n{self.source}\n\n"
            f"arguments = [\n{arguments}\n]\nlayers = [\n{layers}\n]\n"
            "case = Case(\n    program,\n    arguments,\n"
            f"    lambda: [make_layer(text, number, {self.dtype!r}) for number, text in enumerate(layers)],\n"
            f"    mode={self.mode!r},\n    training={self.training},\n)\n{last}"
        )


def _argument_text(argument: Argument) -> str:
    values = ", ".join([f"onp.array({v.tolist()!r}, {v.dtype.name!r}).reshape({v.shape})" for v in argument.values])
    return f"Argument(({values}), {argument.module!r}, {argument.grad_req!r})"


def generate(seed: int, length: int = 12) -> Program:
    """Return the program of a seed."""
    choose = random.Random(seed)
    style, dtype = choose.choice(STYLES), choose.choice(DTYPES)
    special = choose.random() < 0.15
    writer = Writer(choose.randrange(1 << 30), style, dtype, special)
    for shape in choose.sample([(2, 3), (3,), (4, 3), (2, 4), (1, 3), (3, 1), (2, 2, 3), (6,)], 2):
        writer.argument(writer.numbers.normal(size=shape).astype(dtype))
    if style in ("np", "mixed") and choose.random() < 0.3:
        writer.argument(writer.numbers.normal(size=choose.choice([(), (0,), (2, 0, 3)])).astype(dtype), "np")
    if choose.random() < 0.2:
        writer.argument(
            writer.numbers.integers(0, 5, (2, 3)).astype(choose.choice(["int32", "int64", "uint8", "bool"]))
        )
    mode = choose.choice(MODES)
    if mode != "plain":
        # differentiating inside of a record is for programs that are not recorded themselves
        writer.can_differentiate = False
    write(writer, choose.randint(3, length))
    made = [name for name in writer.variables if name.startswith("v")]
    some = [name for name in made if choose.random() < 0.7] or made[-1:]
    returns = tuple(some or list(writer.variables)[:1])
    training = choose.random() < 0.4
    arguments, layers = tuple(writer.arguments), tuple(writer.layers)
    return Program(seed, arguments, layers, tuple(writer.statements), returns, mode, training, dtype, special)


# -- checks


class Failure(NamedTuple):
    """A difference: the program, the two ways (None: the model), and the description."""

    program: Program
    first: Way | None
    second: Way | None
    wrong: str

    def __str__(self) -> str:
        return self.program.script(self.first, self.second, self.wrong)


def _try(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return a result, or the error as text: an error in one way only is a difference."""
    try:
        return function(*arguments)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def _difference(first: Any, second: Any) -> str:
    if isinstance(first, str) or isinstance(second, str):
        if isinstance(first, str) and isinstance(second, str):
            # both refuse; the words may name another place
            return "" if first.partition(":")[0] == second.partition(":")[0] else f"{first}\n{second}"
        return first if isinstance(first, str) else str(second)
    return difference(first, second)


def checks_of(program: Program, every: bool = True) -> Iterator[tuple[Way | None, Way | None]]:
    """Return the pairs of ways to compare; (None, None) stands for the model of gradients, (way, None) of values.

    Unless ``every`` way is asked for, each program takes all forms as they are, and a third of the other ways.
    """
    for group, ways in GROUPS.items():
        possible = [way for way in ways if way.form not in program.without()]
        for number, way in enumerate(possible[1:]):
            if every or way.condition == "planned" or (number + program.seed) % 3 == 0:
                yield Way("called", group), way
    yield Way("stepwise", "planned"), None
    if program.smooth_results():
        yield None, None


def check(program: Program, counts: Counts | None = None, only: Any = None, every: bool = True) -> Failure | None:
    """Return the first difference between ways, or between the library and the model; ``only`` names one pair."""
    counts = Counts() if counts is None else counts
    case = program.case()
    runs: dict[Way, Any] = {}

    def outcome(way: Way) -> Any:
        if way not in runs:
            runs[way] = _try(run_way, case, way)
            counts.add("runs")
        return runs[way]

    for first, second in [only] if only else checks_of(program, every):
        if second is not None:
            wrong = _difference(outcome(first), outcome(second))
        elif first is not None:
            wrong = _try(compare_values, case, program.statements, counts) if not program.is_special else ""
        else:
            wrong = _try(compare_gradients, case, program.smooth_results())
            if wrong is not None:
                counts.add("gradients compared with differences")
        if wrong:
            return Failure(program, first, second, wrong)
    baseline = outcome(Way("called", "planned"))
    if only is None and not isinstance(baseline, str) and not any([s.random for s in program.statements]):
        for found in run_in_threads(case) if program.seed % 4 == 0 else ():
            wrong = difference(baseline, found)
            if wrong:
                return Failure(program, Way("called", "planned"), Way("called", "planned"), f"in threads: {wrong}")
    return None


# -- shrinking


def shrink(failure: Failure, seconds: float = 60) -> Failure:
    """Return the same failure of a smaller program: fewer statements, results, arguments, and a simpler mode."""
    deadline = time.monotonic() + seconds
    is_shorter = True
    while is_shorter and time.monotonic() < deadline:
        is_shorter = False
        for program in _smaller(failure.program):
            if time.monotonic() > deadline:
                break
            found = _fails(program, failure)
            if found is not None:
                failure, is_shorter = found, True
                break
    return failure


def _fails(program: Program, failure: Failure) -> Failure | None:
    second = failure.second
    if second is not None and second.form in program.without():
        return None
    try:
        return check(program, only=(failure.first, second))
    except (NameError, SyntaxError):
        return None


def _smaller(program: Program) -> Iterator[Program]:
    count = len(program.statements)
    for size in (count // 2, count // 4, 2, 1):
        for end in range(count, size - 1, -size) if size else ():
            yield without_statements(program, {*range(end - size, end)})
    for number in range(len(program.returns)):
        if len(program.returns) > 1:
            yield program._replace(returns=program.returns[:number] + program.returns[number + 1 :])
    if program.mode != "plain":
        yield program._replace(mode="plain")
    if program.mode.startswith("grad"):
        yield program._replace(mode="backward")
    if program.training:
        yield program._replace(training=False)
    for number, statement in enumerate(program.statements):
        if statement.scope:
            changed = list(program.statements)
            changed[number] = statement._replace(scope=())
            yield program._replace(statements=tuple(changed))


def without_statements(program: Program, numbers: set[int]) -> Program:
    """Return a program without some statements and those that depend on them."""
    missing: set[str] = set()
    kept = []
    for number, statement in enumerate(program.statements):
        if number in numbers or missing & {*statement.reads}:
            missing |= {*statement.makes}
        else:
            kept.append(statement)
    returns = tuple([name for name in program.returns if name not in missing])
    made = [name for statement in kept for name in statement.makes]
    dropped = {name for statement in kept if statement.text.startswith("del ") for name in statement.reads}
    last = [name for name in made if name not in dropped][-1:] or ["a0"]
    return program._replace(statements=tuple(kept), returns=returns or tuple(last))


# -- the search


def run(budget_seconds: float, seed: int = 0) -> Counts:
    """Check programs until the time is over, one in ten in every way; see the package."""
    counts, operators = Counts({"programs": 0, "statements": 0}), set()
    end = time.monotonic() + budget_seconds
    number = 0
    while number == 0 or time.monotonic() < end:
        program = generate(seed * 1_000_000 + number)
        failure = check(program, counts, every=number % 10 == 0)
        number += 1
        counts.add("programs")
        counts.add("statements", len(program.statements))
        operators |= {statement.operator for statement in program.statements}
        if failure is not None:
            counts.fail(str(shrink(failure)))
    counts.add("operators and functions", len(operators))
    return counts
