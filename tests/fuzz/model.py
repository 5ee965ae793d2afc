"""The NumPy model of programs: each statement by NumPy, from the values that the library had before it.

Comparing one statement at a time keeps rounding errors those of one operator. Views are views of NumPy arrays, so a
write shows wherever it must, and nowhere else. Operators are their reference functions. Derivatives are compared with
differences along a random direction, in float64.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as onp

import phonograd as mx
from phonograd import autograd, settings
from phonograd.core.graph.node import Node
from phonograd.core.graph.operator import REGISTRY
from phonograd.core.run.reference import evaluate

from ..core.ops.checks import leaves_for
from ..core.plan.programs import same_bits
from . import Counts
from .statements import Statement
from .ways import NAMES, Array, Case, is_recorded, weights_of

#: rounding errors of one statement, in units of the last place of the largest number
UNITS = 100


def outputs(name: str, arrays: Sequence[Any], parameters: dict[str, Any]) -> list[Array]:
    """Return the values of an operator."""
    nodes, bindings = leaves_for([None if array is None else onp.asarray(array) for array in arrays])
    result = REGISTRY[name](*nodes, **parameters)
    return [
        onp.array(value, order="C")
        for value in evaluate([result] if isinstance(result, Node) else list(result), bindings)
    ]


def call(name: str, arrays: Sequence[Any], parameters: dict[str, Any]) -> Array:
    """Return the first value of an operator."""
    return outputs(name, arrays, parameters)[0]


def part(array: Array, key: Any) -> Array:
    """Return the part of an array: a view where its elements are contiguous, else a copy."""
    found = array[key]
    if not isinstance(found, onp.ndarray):
        # a number, which is an array without axes
        found = array[(*(key if isinstance(key, tuple) else (key,)), ...)]
    return found if found.flags.c_contiguous and onp.shares_memory(found, array) else onp.array(found)


def put(array: Array, key: Any, value: Any) -> None:
    """Write into a part of an array."""
    with onp.errstate(all="ignore"):
        # numbers, too: NumPy refuses negative ones for unsigned integers, here they wrap
        array[key] = onp.asarray(value).astype(array.dtype)


class Model:
    """The memory of a program: arrays of NumPy by name."""

    def __init__(self, case: Case) -> None:
        #: statements that NumPy has run, too
        self.compared = 0
        self.memory: dict[str, Any] = {f"a{k}": onp.array(a.values[0]) for k, a in enumerate(case.arguments)}

    def step(self, statement: Statement, found: dict[str, Array]) -> str:
        """Run a statement; return where the library's values differ, or ''. Go on from the library's values."""
        wrong = self._compare(statement, found) if statement.model else self._adopt(statement, found)
        for name, value in found.items():
            self.memory[name][...] = value
        for name, value in found.items():
            if not wrong and not same_bits(self.memory[name], value):
                wrong = f"{name} shares memory with another array, but has other values:\n{value!r}"
        return wrong

    def _adopt(self, statement: Statement, found: dict[str, Array]) -> str:
        """Take the results of a statement that has no model."""
        for name in statement.makes:
            self.memory[name] = onp.array(found[name])
        return ""

    def _compare(self, statement: Statement, found: dict[str, Array]) -> str:
        moved = {name: _moved(value) for name, value in self.memory.items() if name in statement.reads}
        helpers = {"call": call, "outputs": outputs, "part": part, "put": put, "onp": onp}
        rounded: list[float] = []
        helpers["like"] = lambda name, value: _like(found[name], onp.array(value), rounded)
        try:
            with onp.errstate(all="ignore"):
                exec(statement.model, helpers, self.memory)
                exec(statement.model, helpers, moved)
        except (TypeError, ValueError, IndexError):
            # NumPy's functions take fewer dtypes and axes than those of mx.np
            if "like(" not in statement.model:
                raise
            return self._adopt(statement, found)
        self.compared += 1
        for name, value in found.items():
            expected = onp.asarray(self.memory[name])
            if expected.shape == () and value.shape == (1,):
                # a number is an array of one axis in nd
                expected = expected.reshape(1)
            self.memory[name] = expected
            if expected.shape != value.shape or expected.dtype != value.dtype:
                return f"{name}: {value.dtype}{value.shape} instead of {expected.dtype}{expected.shape}"
            written = name in statement.makes or any(
                [onp.shares_memory(expected, self.memory[c]) for c in statement.changes]
            )
            if not written and not same_bits(expected, value):
                return f"{name} has changed:\n{value!r}\ninstead of\n{expected!r}"
            other = (
                onp.asarray(moved[name]) if name in moved and name in (*statement.makes, *statement.changes) else None
            )
            reads = [self.memory[read] for read in statement.reads if read in self.memory]
            if written and not _is_close(value, expected, other, reads, rounded):
                return f"{name} is\n{value!r}\ninstead of\n{expected!r}"
        return ""


def _like(found: Array, value: Array, rounded: list[float]) -> Array:
    """Return NumPy's result in the dtype of the library's, and note its precision, which may be less.

    One number is an array of one axis in nd.
    """
    if (value.dtype.kind == "b") != (found.dtype.kind == "b"):
        raise TypeError("the library adds and multiplies truth values as numbers")
    if value.dtype.kind == "f":
        rounded.append(float(onp.finfo(value.dtype).eps))
    return value.astype(found.dtype, order="C").reshape(found.shape if value.size == found.size == 1 else value.shape)


def _moved(value: Array) -> Array:
    """Return numbers in the neighborhood of others, which tell how rounding errors grow."""
    if value.dtype.kind != "f":
        return value.copy()
    signs = onp.random.default_rng(value.size).choice([-4, 4], value.shape)
    return onp.asarray(value + value * (signs * onp.finfo(value.dtype).eps).astype(value.dtype))


def _is_close(value: Array, expected: Array, moved: Array | None, reads: list[Array], rounded: list[float]) -> bool:
    """Return whether numbers are equal up to rounding; numbers that rounding of the inputs changes may differ as much."""
    if value.dtype.kind != "f":
        same = value == expected
        return bool(onp.all(same if moved is None or moved.shape != value.shape else same | (moved != expected)))
    eps = float(onp.finfo(value.dtype).eps)
    floats = [read for read in reads if read.dtype.kind == "f" and read.size]
    # numbers that an input of less precision was rounded to
    eps = max([eps, *rounded, *[float(onp.finfo(read.dtype).eps) for read in floats]])
    with onp.errstate(all="ignore"):
        sizes = [onp.abs(array[onp.isfinite(array)]).max(initial=0) for array in [*floats, expected]]
        allowed = onp.full(value.shape, UNITS * eps * max([float(size) for size in sizes] + [1.0]))
        if moved is not None and moved.shape == value.shape:
            grown = onp.abs(moved.astype(float) - expected.astype(float))
            allowed = allowed + onp.where(onp.isfinite(grown), 20 * grown, onp.inf)
        apart = onp.abs(value.astype(float) - expected.astype(float))
        equal = (value == expected) | (onp.isnan(value) & onp.isnan(expected))
    return bool(onp.all(equal | (apart <= allowed)))


def compare_values(case: Case, statements: Sequence[Statement], counts: Counts) -> str:
    """Return where the library, evaluated after each statement, and the model differ; or ''."""
    env: dict[str, Any] = {**NAMES, "F": mx.nd, "layers": case.make_layers(), "detached": lambda x: x.detach()}
    env.update({f"a{k}": argument.array(0) for k, argument in enumerate(case.arguments)})
    names = [f"a{k}" for k in range(len(case.arguments))]
    model = Model(case)
    mx.random.seed(1)
    with autograd.train_mode() if case.training else autograd.predict_mode():
        for statement in statements:
            exec("\n".join(statement.lines()), env)
            names = [name for name in [*names, *statement.makes] if name in env]
            found = {name: onp.array(env[name].asnumpy()) for name in dict.fromkeys(names)}
            wrong = model.step(statement, found)
            if wrong:
                return f"{statement.text}\n{wrong}"
    counts.add("statements compared with NumPy", model.compared)
    return ""


# -- derivatives


class _Constants:
    """The values that ``detached`` returned at the middle, which do not depend on the arguments."""

    def __init__(self) -> None:
        self.kept: list[Any] = []
        self.place = -1

    def __call__(self, array: Any) -> Any:
        if self.place < 0:
            self.kept.append(array.detach().copy())
            return array.detach()
        self.place += 1
        return self.kept[self.place - 1].copy()


def compare_gradients(case: Case, smooth: Sequence[int]) -> str | None:
    """Return how the gradient differs from differences, '' if it does not, None where the program has no derivative.

    ``smooth`` are the numbers of the results to differentiate.
    """
    places = [k for k, argument in enumerate(case.arguments) if argument.grad_req != "null"]
    numbers = onp.random.default_rng(3)
    directions = {k: numbers.normal(size=case.arguments[k].values[0].shape) for k in places}
    constants = _Constants()
    kept = case.program.__globals__.get("detached")
    case.program.__globals__["detached"] = constants
    layers = case.make_layers()
    try:
        arrays = [argument.array(0) for argument in case.arguments]
        with autograd.record(train_mode=case.training):
            results = case.program(mx.nd, layers, *arrays)
        made = [number for number in smooth if not any([results[number] is array for array in arrays])]
        heads = [number for number in made if is_recorded(results[number]) and results[number].dtype == onp.float64]
        if not heads or not places:
            return None
        weights = [weights_of(results[head]) for head in heads]
        autograd.backward([results[head] for head in heads], weights)
        slope = sum([float((arrays[k].grad.asnumpy() * directions[k]).sum()) for k in places])
        sizes = sum([float(onp.abs(arrays[k].grad.asnumpy() * directions[k]).sum()) for k in places])

        def at(step: float) -> float:
            constants.place = 0
            moved = [argument.array(0) for argument in case.arguments]
            for k in places:
                moved[k][...] = case.arguments[k].values[0] + step * directions[k]
            with autograd.train_mode() if case.training else autograd.predict_mode():
                found = case.program(mx.nd, layers, *moved)
            return sum([float((found[h].asnumpy() * w.asnumpy()).sum()) for h, w in zip(heads, weights)])

        def difference(step: float) -> float:
            return (8 * (at(step) - at(-step)) - (at(2 * step) - at(-2 * step))) / (12 * step)

        with settings.override(executor="reference"), onp.errstate(all="ignore"):
            near, far = difference(1e-4), difference(4e-4)
    finally:
        case.program.__globals__["detached"] = kept
    scale = max(abs(near), sizes, 1.0)
    if not onp.isfinite([near, far, slope]).all() or abs(near - far) > 1e-6 * scale:
        # a kink or a pole is near
        return None
    return "" if abs(near - slope) <= 2e-6 * scale else f"the gradient is {slope}, but differences give {near}"
