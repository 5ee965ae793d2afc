"""Checks of whole symbols: compare the structure of two graphs, and measure the speed of one."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..core.base.devices import Context
from ..ndarray import waitall
from ..symbol import Symbol
from .surroundings import default_context

__all__ = ["check_speed", "same_symbol_structure"]


def same_symbol_structure(sym1: Symbol, sym2: Symbol) -> bool:
    """Return whether two symbols have the same operators and connections, regardless of names.

    >>> import phonograd as mx
    >>> same_symbol_structure(mx.sym.relu(mx.sym.var("a")), mx.sym.relu(mx.sym.var("b")))
    True
    """
    first, second = sym1._entries(), sym2._entries()
    if len(first) != len(second) or len(sym1) != len(sym2):
        return False
    twin = dict(zip(first, second, strict=True))
    return (
        all(
            [
                one.operator == other.operator
                and [(twin[source], index) for source, index in one.inputs] == other.inputs
                for one, other in twin.items()
            ]
        )
        and [(twin[entry], index) for entry, index in sym1._heads] == sym2._heads
    )


def check_speed(
    sym: Symbol,
    location: Mapping[str, Any] | None = None,
    ctx: Context | None = None,
    N: int = 20,  # noqa: N803 - MXNet's name
    grad_req: Any = None,
    typ: str = "whole",
    **kwargs: Any,
) -> float:
    """Return the average time of a pass of a symbol, in seconds.

    Parameters
    ----------
    sym
        The symbol to compute.
    location
        Values of arguments by name; by default drawn from a normal distribution.
    ctx
        The context to compute on.
    N
        The number of measured passes.
    grad_req
        The gradient request: ``"write"`` by default.
    typ
        ``"whole"`` for forward and backward, ``"forward"`` for forward only.
    kwargs
        Shapes of arguments, if no values are given.
    """
    if typ not in ("whole", "forward"):
        raise ValueError("typ can only be 'whole' or 'forward'.")
    context = ctx or default_context()
    shapes = kwargs if location is None else {name: np.shape(value) for name, value in location.items()}
    executor = sym.simple_bind(context, grad_req=grad_req or "write", **shapes)
    for name, array in executor.arg_dict.items():
        array[:] = np.random.normal(size=array.shape) if location is None else location[name]

    def once() -> None:
        executor.forward(is_train=typ == "whole")
        if typ == "whole":
            executor.backward(executor.outputs)
        for output in executor.outputs:
            output.wait_to_read()
        waitall()

    once()
    start = time.time()
    for _ in range(N):
        once()
    return (time.time() - start) / N
