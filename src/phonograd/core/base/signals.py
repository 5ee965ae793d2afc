"""Signals: how a lower layer notifies higher layers, which it must not import.

A module imports only from the layers below it. A lower layer that has to notify a higher one owns a :class:`Signal`;
the higher layer connects a function to it when it is imported. These are all of them:

======================  ====================================  ======================================================
signal                  emitted                               connected by
======================  ====================================  ======================================================
``settings.CHANGED``    after every change of settings        the thread pool (its size), the front door
                                                              (``explain``), single calls
``operator.DECLARED``   after every declaration               ``NDArray``, which gets a method
``node.FORGOTTEN``      after interned nodes were dropped     every table that is keyed by nodes
``node.UNLEARNED``      when kinds of calls are to be         tables of what was learned about kinds of calls
                        learned again
``cache.PLANNED``       after a plan was made                 ``explain``
``cache.EVALUATED``     before an evaluation runs             ``explain``
``any_extents.SIZED``   after a plan for any extents is used  tests, which compare it with a plan for these extents
``cache.STARTED``       once, before tier 0 computes a graph  ``ndarray``, which loads machine code that is at hand
``cache.PREPARING``     once, by a helper, before REPEATED    ``ndarray``, which loads that machine code
``cache.REPEATED``      once, when a plan is used again       ``ndarray``, whose calls become machine code
======================  ====================================  ======================================================

Intervals of time (operators, kernels, scopes) are not signals: observers see them (:mod:`phonograd.core.events`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, ParamSpec

__all__ = ["Signal"]

P = ParamSpec("P")


class Signal(Generic[P]):
    """An event that functions can be connected to.

    >>> changed = Signal()
    >>> changed.connect(lambda name: print(name, "has changed"))
    >>> changed.emit("executor")
    executor has changed
    """

    __slots__ = ("listeners",)

    def __init__(self) -> None:
        #: the connected functions, in order; a hot path asks whether there are any before it emits
        self.listeners: list[Callable[P, object]] = []

    def connect(self, listener: Callable[P, object]) -> None:
        """Call a function whenever the signal is emitted."""
        self.listeners.append(listener)

    def disconnect(self, listener: Callable[P, object]) -> None:
        """Stop calling a function."""
        self.listeners.remove(listener)

    def emit(self, *arguments: P.args, **keywords: P.kwargs) -> None:
        """Call the connected functions, the first one first."""
        for listener in tuple(self.listeners):
            listener(*arguments, **keywords)

    def emit_once(self, *arguments: P.args, **keywords: P.kwargs) -> None:
        """Call the connected functions and disconnect them, each before it is called."""
        while self.listeners:
            self.listeners.pop(0)(*arguments, **keywords)
