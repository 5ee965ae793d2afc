"""The statements of random programs: what is drawn, as text, with the model of what it means in NumPy.

A :class:`Writer` runs each statement as it draws it, operator by operator on the NumPy executor, so that it knows the
shapes of what there is and leaves out what raises. Operators are drawn from the samples of the registry: a new operator
takes part by itself.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as onp

import phonograd as mx
from phonograd import settings
from phonograd.core.graph.operator import REGISTRY

from ..core.ops.checks import Sample
from ..core.ops.test_registry import SAMPLES
from . import tables
from .ways import NAMES, Argument, Array

#: errors by which the library refuses a statement; any other kind is a defect
REFUSALS = (mx.MXNetError, ValueError, TypeError, IndexError, NotImplementedError, KeyError)
#: values beyond this size make rounding errors too large to compare derivatives
LARGEST = 1e4
MOST_ELEMENTS = 3000

BY_NAME: dict[str, list[Sample]] = {}
for _sample in SAMPLES:
    BY_NAME.setdefault(REGISTRY[_sample.name].name, []).append(_sample)
OPERATORS = sorted(BY_NAME)


class Statement(NamedTuple):
    """One line of a program."""

    text: str
    makes: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    #: arrays that it writes into
    changes: tuple[str, ...] = ()
    #: with blocks around it
    scope: tuple[str, ...] = ()
    #: the same on NumPy arrays, with the functions of :mod:`.model`; '' if there is no model
    model: str = ""
    #: the operator or function, for the count
    operator: str = ""
    #: whether symbols can do it, and whether its gradient is the derivative of its value
    symbolic: bool = False
    smooth: bool = False
    #: arrays that share memory with an array that was there before
    views: tuple[str, ...] = ()
    random: bool = False
    #: whether it may change its inputs while training
    has_effects: bool = False

    def lines(self) -> list[str]:
        """Return the text with its scopes."""
        return [
            *["    " * depth + f"with {scope}:" for depth, scope in enumerate(self.scope)],
            *["    " * len(self.scope) + line for line in self.text.split("\n")],
        ]


class Variable(NamedTuple):
    """An array of the program while it is written: its name and what is known of it."""

    name: str
    shape: tuple[int, ...]
    dtype: Any
    module: str

    @property
    def size(self) -> int:
        return int(onp.prod(self.shape, dtype=int))

    @property
    def is_floating(self) -> bool:
        return bool(self.dtype.kind == "f")


class RefusedError(Exception):
    """A statement that the library refuses, or that is of no use."""


class Writer:
    """Draws a program, statement by statement."""

    def __init__(self, seed: int, style: str, dtype: str, special: bool = False) -> None:
        self.choose = random.Random(seed)
        self.numbers = onp.random.default_rng(seed)
        #: "symbolic": only what symbols can do; "nd" or "np": what is preferred; "mixed"
        self.style = style
        self.dtype = onp.dtype(dtype)
        self.special = special
        self.arguments: list[Argument] = []
        self.layers: list[str] = []
        self.statements: list[Statement] = []
        self.env: dict[str, Any] = {**NAMES, "F": mx.nd, "layers": [], "detached": lambda x: x.detach()}
        self.variables: dict[str, Variable] = {}
        #: for each array the first one that it shares memory with
        self.roots: dict[str, str] = {}
        self.scope: tuple[str, ...] = ()
        self.is_inside = False
        #: whether statements may record and differentiate
        self.can_differentiate = True
        self._count = 0

    # -- names and values

    def new_name(self) -> str:
        """Return a name that is not used yet."""
        self._count += 1
        return f"v{self._count}"

    def one_of(self, choices: Any) -> Any:
        """Return one of some choices."""
        return self.choose.choice(list(choices))

    def chance(self, probability: float) -> bool:
        """Return whether something happens."""
        return self.choose.random() < probability

    def argument(self, value: Array, module: str | None = None, grad: bool | None = None) -> Variable:
        """Return a new argument of the program."""
        module = module or self.module()
        name = f"a{len(self.arguments)}"
        floating = value.dtype.kind == "f"
        if self.special and floating and value.size and grad is not False:
            value = value.copy()
            places = self.numbers.random(value.shape) < 0.15
            value[places] = self.numbers.choice(onp.array(tables.SPECIAL).astype(value.dtype), int(places.sum()))
        # the same kind of numbers in other calls: a factor keeps signs, ranges and definiteness
        values = tuple(
            [onp.asarray(value * value.dtype.type(f)) for f in (1, 0.875, 0.75)] if floating else [value] * 3
        )
        grad_req = "null"
        if floating and grad is not False and self.chance(0.8):
            grad_req = "add" if self.chance(0.2) else "write"
        self.arguments.append(Argument(values, module, grad_req))
        self.env[name] = Argument(values, module).array(0)
        return self._know(name)

    def drop_arguments(self, number: int) -> None:
        """Remove the arguments after so many of them."""
        for place in range(number, len(self.arguments)):
            self.variables.pop(f"a{place}")
        del self.arguments[number:]

    def module(self) -> str:
        """Return the class of a new array."""
        if self.style in ("symbolic", "nd"):
            return "nd"
        return self.one_of(["np", "np", "nd"] if self.style == "mixed" else ["np"])

    def _know(self, name: str) -> Variable:
        array = self.env[name]
        module = "np" if isinstance(array, mx.np.ndarray) else "nd"
        self.variables[name] = Variable(name, array.shape, onp.dtype(array.dtype), module)
        return self.variables[name]

    def pick(self, test: Callable[[Variable], bool] = lambda v: True, module: str | None = None) -> Variable:
        """Return one of the arrays, later ones rather than earlier ones."""
        found = [v for v in self.variables.values() if (module is None or v.module == module) and test(v)]
        if not found:
            raise RefusedError("there is no such array")
        return found[int(len(found) * self.choose.random() ** 0.6)]

    # -- statements

    def add(self, statement: Statement) -> None:
        """Run a statement, and append it to the program."""
        statement = statement._replace(scope=self.scope)
        if self.style == "symbolic" and not statement.symbolic:
            raise RefusedError("symbols cannot do it")
        before = {name: self.env[name].asnumpy().copy() for name in statement.changes}
        try:
            with settings.override(executor="reference", naive=True), onp.errstate(all="ignore"):
                exec("\n".join(statement.lines()), self.env)
                values = {name: self.env[name].asnumpy() for name in (*statement.makes, *statement.changes)}
        except REFUSALS as error:
            self._undo(statement, before)
            raise RefusedError(str(error)) from error
        if not all([self._is_useful(value) for value in values.values()]):
            self._undo(statement, before)
            raise RefusedError("values are too large")
        for name in statement.makes:
            self._know(name)
        for name in statement.views:
            (base,) = statement.reads[:1]
            self.roots[name] = self.roots.get(base, base)
        self.statements.append(statement)

    def _undo(self, statement: Statement, before: dict[str, Array]) -> None:
        for name in statement.makes:
            self.env.pop(name, None)
        with settings.override(executor="reference", naive=True):
            for name, value in before.items():
                self.env[name][:] = value

    def _is_useful(self, value: Array) -> bool:
        if value.size > MOST_ELEMENTS:
            return False
        if value.dtype.kind != "f" or self.special:
            return True
        with onp.errstate(all="ignore"):
            return bool(onp.all(onp.abs(value) < LARGEST))

    # -- operators of the registry

    def fitted(self, shape: tuple[int, ...], dtype: Any, module: str) -> Variable | None:
        """Return an array of a shape, made of elements of another one by views; None if there is none."""
        size = int(onp.prod(shape, dtype=int))
        try:
            source = self.pick(lambda v: v.dtype == dtype and v.size >= size > 0 and v.shape != shape, module)
        except RefusedError:
            return None
        name = self.new_name()
        steps = "" if source.size == size else f".reshape((-1,))[0:{size}]"
        text = f"{source.name}{steps}.reshape({shape})"
        model = f"{name} = {source.name}.reshape(-1)[0:{size}].reshape({shape})"
        try:
            self.add(
                Statement(
                    f"{name} = {text}",
                    (name,),
                    (source.name,),
                    model=model,
                    operator="reshape",
                    smooth=True,
                    views=(name,),
                )
            )
        except RefusedError:
            return None
        return self.variables[name]

    def operand(self, value: Array, module: str, free: bool) -> Variable:
        """Return an array for an input of a sample: one of its shape and dtype, or a new argument with its values."""
        if value.dtype.kind == "f":
            value = value.astype(self.dtype)
        if free and value.dtype.kind == "f":
            same = [
                v for v in self.variables.values() if (v.shape, v.dtype, v.module) == (value.shape, value.dtype, module)
            ]
            if same and self.chance(0.75):
                return self.one_of(same)
            if self.style != "symbolic" and self.chance(0.35):
                made = self.fitted(value.shape, value.dtype, module)
                if made is not None:
                    return made
        return self.argument(value, module, grad=None if free else False)

    def operator(self) -> None:
        """Call an operator as one of its samples does."""
        name = self.one_of(OPERATORS)
        sample = self.one_of(BY_NAME[name])
        declared = REGISTRY[sample.name]
        parameters = {k: v for k, v in sample.parameters.items() if k != "training"}
        module = self.module()
        npx = [word for word in declared.npx.split() if word]
        if module == "np" and not npx:
            if self.style == "np":
                raise RefusedError("it is no function of np arrays")
            module = "nd"
        inputs = [a for place, a in enumerate(sample.inputs) if not self._is_counter(declared, place)]
        wrt = range(len(inputs)) if sample.wrt is None else sample.wrt
        safe = not declared.effects or self.chance(0.5)
        words = []
        for place, value in enumerate(inputs):
            free = place in wrt and sample.order > 0 and safe
            words.append("None" if value is None else self.operand(onp.asarray(value), module, free).name)
        arrays = [word for word in words if word != "None"]
        while words and words[-1] == "None":
            words.pop()
        given = [*words, *[f"{key}={_text(value)}" for key, value in parameters.items()]]
        if module == "np":
            function = f"npx.{self.one_of(npx)}"
        else:
            function = f"F._internal.{sample.name}" if sample.name.startswith("_") else f"F.{sample.name}"
        self._call(function, given, arrays, sample, declared)

    def _is_counter(self, declared: Any, place: int) -> bool:
        return not declared.variadic and declared.input_names[place] == "counter"

    def _call(self, function: str, given: list[str], arrays: list[str], sample: Sample, declared: Any) -> None:
        name = self.new_name()
        text = f"{function}({', '.join(given)})"
        with settings.override(executor="reference", naive=True), onp.errstate(all="ignore"):
            keep = {word: self.env[word].asnumpy().copy() for word in arrays}
            try:
                result = eval(text, self.env)
            except REFUSALS as error:
                raise RefusedError(str(error)) from error
            changes = [word for word, value in keep.items() if self.env[word].asnumpy().tobytes() != value.tobytes()]
            for word in changes:
                self.env[word][:] = keep[word]
        count = len(result) if isinstance(result, (list, tuple)) else 0
        names = [f"{name}_{place}" for place in range(count)] if count else [name]
        left = ", ".join(names) if count != 1 else f"({names[0]},)"
        drawn = declared.random or bool(changes)
        words = ", ".join([word if word in arrays else "None" for word in given if "=" not in word])
        # an operator may have outputs that users do not see
        shown = f"[:{count}]" if count else "[0]"
        model = "" if drawn else f"{left} = outputs({sample.name!r}, [{words}], {_text(sample.parameters)}){shown}"
        if "training" in declared.parameter_names:
            model = ""
        made = Statement(
            f"{left} = {text}",
            tuple(names),
            tuple(arrays),
            tuple(changes),
            model=model,
            operator=declared.name,
            # an executor has auxiliary states of its own
            symbolic=not function.startswith("npx.") and not changes and not declared.interface.auxiliary,
            smooth=sample.order > 0 and not drawn,
            random=declared.random,
            has_effects=declared.effects is not None,
        )
        if not count and not changes and self.style != "symbolic" and self.chance(0.1):
            made = self._into(made, text, result) or made
        self.add(made)

    def _into(self, made: Statement, text: str, result: Any) -> Statement | None:
        """Return the call with ``out=`` an array that is there."""
        kind = (result.shape, onp.dtype(result.dtype), "np" if isinstance(result, mx.np.ndarray) else "nd")
        found = [v for v in self.variables.values() if (v.shape, v.dtype, v.module) == kind and self.may_change(v)]
        if not found:
            return None
        target = self.one_of(found).name
        model = made.model and f"{target}[...] = {made.model.partition(' = ')[2]}"
        return made._replace(
            text=f"{text[:-1]}, out={target})",
            makes=(),
            reads=(*made.reads, target),
            changes=(target,),
            model=model,
            symbolic=False,
        )

    def may_change(self, variable: Variable) -> bool:
        """Return whether a program may write to an array: few write to their arguments."""
        return not self.roots.get(variable.name, variable.name).startswith("a") or self.chance(0.15)


def _text(value: Any) -> str:
    """Return a parameter as Python text."""
    if isinstance(value, onp.dtype):
        return repr(value.name)
    if isinstance(value, dict):
        return "{" + ", ".join([f"{key!r}: {_text(part)}" for key, part in value.items()]) + "}"
    if isinstance(value, (tuple, list)):
        return repr(value).replace("inf", "float('inf')")
    if isinstance(value, (float, onp.generic)):
        return repr(float(value)) if onp.isfinite(value) else f"float('{value}')"
    return repr(value)
