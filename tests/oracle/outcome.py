"""Runs one case on a module with MXNet's API and returns all that can be seen of it."""

from __future__ import annotations

import os
import re
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from .case import FLOATS, Array, Case

INPUT_NAMES = "xyzw"


@dataclass(frozen=True)
class Failure:
    """An exception, reduced to what a compatible library has to share."""

    types: tuple[str, ...]
    message: str

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        """Return the class names of an exception, nearest first, and its telling line."""
        types = tuple(kind.__name__ for kind in type(error).__mro__ if kind is not object)
        skipped = ("Traceback", "File ", "Stack trace")
        lines = [line.strip() for line in str(error).splitlines()]
        telling = [line for line in lines if line and not line.startswith(skipped)]
        message = telling[0][:160] if telling else ""
        return cls(types, re.sub(r'"/[^"]*"', '"(file)"', message))


@dataclass
class Outcome:
    """What a case does: outputs, gradients, inputs it changed, or the errors it raises.

    ``structure`` is ``array`` (one array), ``sequence`` (several arrays), ``numpy`` (a NumPy array),
    ``value`` (anything else, described in ``value``), ``failure`` or, where the oracle's answer is
    an accident of its memory, ``undefined`` (the reason is in ``value``).
    """

    structure: str
    outputs: list[Array] = field(default_factory=list)
    value: Any = None
    gradients: dict[int, Array] = field(default_factory=dict)
    changed: dict[int, Array] = field(default_factory=dict)
    failure: Failure | None = None
    gradient_failure: Failure | None = None


def describe(value: Any) -> Any:
    """Return a value as JSON can hold it, with its type where that matters."""
    if isinstance(value, np.generic):
        return {"dtype": value.dtype.name, "value": describe(value.item())}
    if isinstance(value, type):
        # NumPy's own class of booleans has changed its name.
        return {"type": np.dtype(value).name if issubclass(value, np.generic) else value.__name__}
    if isinstance(value, (bytes, bytearray)):
        return {"bytes": value.hex()}
    if isinstance(value, (tuple, list)):
        return [describe(item) for item in value]
    if isinstance(value, dict):
        return {str(key): describe(item) for key, item in value.items()}
    if isinstance(value, float):
        return {"float": repr(value)}
    if value is None or isinstance(value, (bool, int, str)):
        return value
    return {"repr": repr(value)}


def flatten(value: Any, kind: type) -> list[Any] | None:
    """Return the arrays of a nested sequence, or None if it holds anything else."""
    if isinstance(value, kind):
        return [value]
    if not isinstance(value, (list, tuple)) or not value:
        return None
    parts = [flatten(item, kind) for item in value]
    if any(part is None for part in parts):
        return None
    return [array for part in parts if part is not None for array in part]


def evaluate(case: Case, mx: Any, inputs: list[Any]) -> Any:
    """Return what the case's call or code gives for these arrays."""
    if case.call.startswith("method:"):
        method = getattr(inputs[0], case.call.removeprefix("method:"))
        return method(*inputs[1:], *case.arguments, **case.parameters)
    if case.call:
        function = mx
        for part in case.call.split("."):
            function = getattr(function, part)
        return function(*inputs, *case.arguments, **case.parameters)
    scope: dict[str, Any] = {"mx": mx, "nd": mx.nd, "np": np, "Path": Path, "inputs": inputs}
    scope.update(zip(INPUT_NAMES, inputs))
    with tempfile.TemporaryDirectory() as folder:
        scope["path"] = os.path.join(folder, "file")
        if case.expression:
            return eval(case.expression, scope)
        exec(case.statement, scope)
    return scope.get("result")


def run(case: Case, mx: Any) -> Outcome:
    """Return the outcome of a case on a module with MXNet's API."""
    originals = case.make_inputs()
    inputs = [mx.nd.array(array, dtype=array.dtype.name) for array in originals]
    outcome, arrays = _forward(case, mx, inputs)
    if outcome.failure is not None:
        return outcome
    heads = [i for i, array in enumerate(outcome.outputs) if array.dtype.name in FLOATS]
    if case.head_outputs is not None:
        heads = [i for i in heads if i in case.head_outputs]
    if case.differentiated and heads:
        _backward(case, mx, inputs, outcome, {i: arrays[i] for i in heads})
    for i, (array, original) in enumerate(zip(inputs, originals)):
        now = array.asnumpy()
        if now.shape != original.shape or now.tobytes() != original.tobytes():
            outcome.changed[i] = now
    return outcome


def _forward(case: Case, mx: Any, inputs: list[Any]) -> tuple[Outcome, list[Any]]:
    for i in case.differentiated:
        inputs[i].attach_grad()
    recording = mx.autograd.record(train_mode=case.train)
    passive = mx.autograd.pause(train_mode=case.train)
    try:
        with recording if case.differentiated else passive:
            result = evaluate(case, mx, inputs)
        arrays = flatten(result, mx.nd.NDArray)
        if arrays is not None:
            structure = "array" if isinstance(result, mx.nd.NDArray) else "sequence"
            return Outcome(structure, [array.asnumpy() for array in arrays]), arrays
        if isinstance(result, np.ndarray):
            return Outcome("numpy", [result]), []
        return Outcome("value", value=describe(result)), []
    except Exception as error:
        return Outcome("failure", failure=Failure.of(error)), []


def _backward(case: Case, mx: Any, inputs: list[Any], outcome: Outcome, heads: dict[int, Any]) -> None:
    weights = [case.make_head_gradient(i, outcome.outputs[i].shape, outcome.outputs[i].dtype) for i in heads]
    try:
        mx.autograd.backward(
            list(heads.values()),
            [mx.nd.array(weight, dtype=weight.dtype.name) for weight in weights],
            train_mode=case.train,
        )
        outcome.gradients = {i: inputs[i].grad.asnumpy() for i in case.differentiated}
    except Exception as error:
        outcome.gradients = {}
        outcome.gradient_failure = Failure.of(error)
