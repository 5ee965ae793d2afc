"""The first autograd interface of MXNet (``mxnet.contrib.autograd``), on top of :mod:`phonograd.autograd`.

It switches recording and training together. It also has functions that return gradients of functions:

>>> from phonograd import nd
>>> from phonograd.contrib.autograd import grad_and_loss
>>> gradients, loss = grad_and_loss(lambda x: x * x)(nd.array([1.0, 3.0]))
>>> gradients[0].asnumpy()
array([2., 6.], dtype=float32)
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from .. import autograd
from ..core.base.docstrings import complete_classes
from ..ndarray import NDArray, zeros

__all__ = [
    "TrainingStateScope",
    "backward",
    "compute_gradient",
    "grad",
    "grad_and_loss",
    "mark_variables",
    "set_is_training",
    "test_section",
    "train_section",
]


def set_is_training(is_train: bool) -> bool:
    """Set both recording and training, and return whether operators were recorded before."""
    autograd.set_training(is_train)
    return autograd.set_recording(is_train)


class TrainingStateScope(autograd._RecordingStateScope):
    """A ``with`` block with both recording and training on, or both off."""

    def __init__(self, enter_state: bool) -> None:
        super().__init__(enter_state, enter_state)


def train_section() -> TrainingStateScope:
    """Return a scope that records operators and runs them in training mode."""
    return TrainingStateScope(True)


def test_section() -> TrainingStateScope:
    """Return a scope that runs operators in prediction mode, without recording."""
    return TrainingStateScope(False)


# Keeps pytest from collecting the function above.
test_section.__test__ = False  # type: ignore[attr-defined]


def mark_variables(
    variables: Sequence[NDArray], gradients: Sequence[NDArray], grad_reqs: str | Sequence[str] = "write"
) -> None:
    """Mark arrays as variables whose gradients are written to the arrays `gradients`."""
    autograd.mark_variables(variables, gradients, grad_reqs)


def backward(
    outputs: Sequence[NDArray], out_grads: Sequence[NDArray | None] | None = None, retain_graph: bool = False
) -> None:
    """Write the gradients of the sum of `outputs` to the marked variables.

    Parameters
    ----------
    outputs
        A list or tuple of recorded arrays.
    out_grads
        The gradient with respect to each output; None, or an entry None, means ones.
    retain_graph
        Keep the record, so that the same outputs can be differentiated again.
    """
    assert isinstance(outputs, list | tuple), "outputs must be a list or tuple of NDArrays"
    if out_grads is not None:
        same = isinstance(out_grads, list | tuple) and len(out_grads) == len(outputs)
        assert same, "outputs and out_grads must have the same length"
        out_grads = list(out_grads)
    autograd.backward(list(outputs), out_grads, retain_graph)


def compute_gradient(outputs: Sequence[NDArray]) -> None:
    """Write the gradients of the sum of `outputs`; the old name of :func:`backward`."""
    backward(outputs)


def grad_and_loss(
    func: Callable[..., Any], argnum: int | Sequence[int] | None = None
) -> Callable[..., tuple[list[NDArray], Any]]:
    """Return a function that computes (gradients, value) of `func`.

    Parameters
    ----------
    func
        Takes arrays and returns one array or a list or tuple of them, whose sum is differentiated.
    argnum
        The position of the argument, or of several, to differentiate with respect to; by default all of them.
    """

    @functools.wraps(func)
    def wrapped(*args: Any) -> tuple[list[NDArray], Any]:
        if argnum is None:
            variables = list(args)
        else:
            variables = [args[position] for position in ([argnum] if isinstance(argnum, int) else argnum)]
        for variable in variables:
            assert isinstance(variable, NDArray), "type of autograd input should NDArray."
        gradients = [zeros(variable.shape, ctx=variable.context, dtype=variable.dtype) for variable in variables]
        mark_variables(variables, gradients)
        with train_section():
            outputs = func(*args)
        compute_gradient([outputs] if isinstance(outputs, NDArray) else outputs)
        return gradients, outputs

    return wrapped


def grad(func: Callable[..., Any], argnum: int | Sequence[int] | None = None) -> Callable[..., list[NDArray]]:
    """Return a function that computes the list of gradients of `func`; see :func:`grad_and_loss`."""
    with_loss = grad_and_loss(func, argnum)

    @functools.wraps(func)
    def wrapped(*args: Any) -> list[NDArray]:
        return with_loss(*args)[0]

    return wrapped


complete_classes(globals())
