"""Inference with unknown extents: every operator, forwards and backwards.

A trial takes a call that works, hides some of its shapes, extents or dtypes, and asks what a symbol infers of the rest.
In half of the trials the first output is added to a variable whose shape (or dtype) is partly known, so that knowledge
flows backwards. Nothing here imports a library under test.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..oracle.case import Case, seeded
from .calls import bases, find

#: trials for each call
TRIALS = 10


@dataclass(frozen=True)
class Trial:
    """What is known of each input and of the first output: a shape with zeros, a dtype, or None."""

    kind: str
    inputs: tuple[Any, ...]
    output: Any

    @property
    def key(self) -> str:
        """Return the trial as one line."""
        return f"{self.kind} {self.inputs} {self.output}".replace(" ", "")


def _hide(shape: Any, generator: np.random.RandomState) -> Any:
    """Return a shape with some extents unknown, or None."""
    draw = generator.random_sample()
    if draw < 0.25:
        return None
    if draw < 0.5:
        return tuple(shape)
    return tuple([0 if generator.random_sample() < 0.5 else int(extent) for extent in shape])


def trials(case: Case, output: tuple[Any, str]) -> Iterator[Trial]:
    """Return the trials of a call whose first output has a shape and a dtype."""
    generator = seeded(case.name)
    shapes, dtypes = [spec.shape for spec in case.inputs], [spec.dtype for spec in case.inputs]
    for number in range(TRIALS):
        backwards = number % 2
        hidden = tuple([_hide(shape, generator) for shape in shapes])
        shape = output[0] if generator.random_sample() < 0.7 else _hide(output[0], generator)
        yield Trial("shapes", hidden, tuple(shape) if backwards and shape else None)
    for number in range(4):
        known = tuple([dtype if generator.random_sample() < 0.5 else None for dtype in dtypes])
        yield Trial("types", known, output[1] if number % 2 else None)


def cases_with_inputs() -> dict[str, list[Case]]:
    """Return the calls that are tried: those with arrays of at least one axis and no empty ones."""
    found = {}
    for path, cases in bases().items():
        usable = [
            c for c in cases if c.inputs and not c.arguments and all(s.shape and 0 not in s.shape for s in c.inputs)
        ]
        if usable:
            found[path] = usable
    return found


def symbol_of(mx: Any, path: str, case: Case, trial: Trial) -> Any:
    """Return the symbol of a call, with the variable ``like`` added if something is known of the output."""
    made = find(mx.sym, path)(
        *[mx.sym.var(f"input{i}") for i in range(len(case.inputs))], name="made", **case.parameters
    )
    if trial.output is None:
        return made
    return mx.sym.elemwise_add(made[0] if len(made) > 1 else made, mx.sym.var("like"), name="sum")


def _names(part: Any) -> Any:
    return [None if kind is None else np.dtype(kind).name for kind in part]


def outcome(mx: Any, path: str, case: Case, trial: Trial) -> str:
    """Return what is inferred, or the type of the error."""
    known = {f"input{index}": value for index, value in enumerate(trial.inputs) if value is not None}
    if trial.output is not None:
        known["like"] = trial.output
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            symbol = symbol_of(mx, path, case, trial)
            if trial.kind == "types":
                found = symbol.infer_type_partial(**known)
                return str([_names(part) for part in found])
            partial = symbol.infer_shape_partial(**known)
            whole = symbol.infer_shape(**known)
            return f"{[[tuple(s) for s in part] for part in partial]} {'whole' if whole[0] is not None else 'partial'}"
    except Exception as error:
        return "!" + type(error).__name__
