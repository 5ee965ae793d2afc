"""plot_record and record_text: show a recorded computation, forward and backward."""

from __future__ import annotations

import os
from typing import Any

from ..ndarray.array import NDArray
from .computation import Computation, ComputedValue, computation_of
from .drawing import Box, Edge, Group
from .families import ARGUMENT, color_of_family
from .picture import Picture
from .text import shorten

__all__ = ["plot_record", "record_text"]

_BACKWARD = "#dfe3ee"
_END = "#ffffff"

#: background colors of kernels, used in turn
_GROUNDS = ("#fff3c4", "#d9f2d9", "#d6eaf8", "#fadbd8", "#e8daef", "#fdebd0", "#d1f2eb", "#eaeded")

_LONGEST_LABEL = 36
_LONGEST_TEXT = 60


def plot_record(
    *heads: NDArray, backward: bool = True, kernels: bool = True, title: str = "record", save_format: str = "svg"
) -> Picture:
    """Return a picture of the recorded computation of some arrays.

    Parameters
    ----------
    heads
        Recorded arrays, such as a loss, before ``backward`` has cleared the record.
    backward
        Show the gradients of all variables too. They are derived, not computed.
    kernels
        Show the operators of each kernel on a colored background. This compiles the kernels.
    title, save_format
        As in :func:`plot_network`.

    >>> import phonograd as mx
    >>> x = mx.nd.ones((2,))
    >>> x.attach_grad()
    >>> with mx.autograd.record():
    ...     y = mx.nd.exp(x) * x
    >>> picture = mx.viz.plot_record(y, kernels=False)
    >>> [box.label for box in picture.boxes if "gradient" in box.label]
    ['gradient of variable ...']
    """
    computation = computation_of(heads, backward, kernels)
    names = {id(step): f"step{index}" for index, step in enumerate(computation.steps)}
    boxes = [_box(step, names[id(step)]) for step in computation.steps]
    edges = [
        Edge(names[id(source)], names[id(step)], _extents(source), step.is_backward and not source.is_backward)
        for step in computation.steps
        for source in step.arguments
        if isinstance(source, ComputedValue)
    ]
    return Picture(title, boxes, edges, _groups(computation, names), format=save_format)


def record_text(*heads: NDArray, backward: bool = True, kernels: bool = True) -> str:
    """Return the recorded computation of some arrays as text, one line for each value; see :func:`plot_record`.

    >>> import phonograd as mx
    >>> x = mx.nd.ones((2,))
    >>> x.attach_grad()
    >>> with mx.autograd.record():
    ...     y = mx.nd.exp(x)
    >>> print(mx.viz.record_text(y, kernels=False))
    forward
      %0 = variable ...: float32[2]
      %1 = exp(%0): float32[2]...
      output(%1): float32[2]
    backward
    ...
    """
    computation = computation_of(heads, backward, kernels)
    numbers = {id(step): f"%{index}" for index, step in enumerate([s for s in computation.steps if not _is_result(s)])}
    lines = []
    for word, steps in (
        ("forward", [step for step in computation.steps if not step.is_backward]),
        ("backward", [step for step in computation.steps if step.is_backward]),
    ):
        if steps:
            lines += [word, *[f"  {_line(step, numbers)}" for step in steps]]
    for number, operators in computation.kernels.items():
        lines.append(f"kernel {number}: {', '.join(operators)}")
    return "\n".join(lines)


def _is_result(step: ComputedValue) -> bool:
    return step.is_end and step.name.startswith(("output", "gradient of"))


def _line(step: ComputedValue, numbers: dict[int, str]) -> str:
    arguments = [numbers[id(s)] if isinstance(s, ComputedValue) else _number(s) for s in step.arguments]
    arguments += [f"{name}={shorten(repr(value), 40)}" for name, value in step.attributes.items()]
    call = f"{step.name}({', '.join(arguments)})" if arguments else step.name
    text = call if _is_result(step) else f"{numbers[id(step)]} = {call}"
    text += f": {step.kind}" if step.kind else ""
    notes = []
    if step.kernel is not None:
        notes.append(f"kernel {step.kernel}")
    if step.gradient_of:
        notes.append(f"gradient of {step.gradient_of}")
    if step.where:
        notes.append(_near(step.where))
    return f"{text.ljust(_LONGEST_TEXT)}  # {', '.join(notes)}" if notes else text


def _near(where: str) -> str:
    """Return ``file:line`` relative to the current directory."""
    here = os.getcwd() + os.sep
    return where.removeprefix(here)


def _number(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _extents(step: ComputedValue) -> str:
    return "x".join([str(extent) for extent in step.shape or ()])


def _box(step: ComputedValue, name: str) -> Box:
    if step.is_end:
        label = step.name if step.arguments else f"{step.name}\n{step.kind}"
        return Box(name, label, ARGUMENT if not step.arguments else _END, "oval", step.kind)
    label = step.name
    if any([not isinstance(source, ComputedValue) for source in step.arguments]):
        label += f"({', '.join(['·' if isinstance(s, ComputedValue) else _number(s) for s in step.arguments])})"
    title = [f"{step.name}: {step.kind}" if step.kind else step.name]
    title += [f"{key} = {shorten(repr(value), 200)}" for key, value in step.attributes.items()]
    title += [f"gradient of {step.gradient_of}"] if step.gradient_of else []
    title += [f"kernel {step.kernel}"] if step.kernel is not None else []
    title += [_near(step.where)] if step.where else []
    fill = _BACKWARD if step.is_backward else color_of_family(step.family)
    return Box(name, shorten(label, _LONGEST_LABEL), fill, "box", "\n".join(title))


def _groups(computation: Computation, names: dict[int, str]) -> list[Group]:
    members: dict[int, list[str]] = {}
    for step in computation.steps:
        if step.kernel is not None:
            members.setdefault(step.kernel, []).append(names[id(step)])
    return [
        Group(
            f"kernel {number}",
            tuple(inside),
            _GROUNDS[number % len(_GROUNDS)],
            f"kernel {number}: {', '.join(computation.kernels[number])}",
        )
        for number, inside in sorted(members.items())
    ]
