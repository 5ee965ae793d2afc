"""Novelty: whether a thread runs a program that never repeats itself, so that its calls are computed at once.

Takes the evaluations of a thread from :mod:`phonograd.core.trace.evaluation`: each computes a graph that is new, or one
that was evaluated before. After several new ones in a row the next trace is immediate
(:class:`phonograd.core.trace.trace.ImmediateTrace`): operators that are not recorded compute their results when they
are called (:mod:`phonograd.core.array.immediate`), and no graph is made. A graph is what a repetition is found by. So
immediate calls are counted in another way: those between two reads of values are a sequence, and sequences that come
back end the state. See docs/decisions/0018.
"""

from __future__ import annotations

import threading

from ..base import settings

__all__ = ["COST_OF_OTHERS", "NOVELTY"]

#: evaluations of new graphs, less twice those of known ones, from which on a program counts as new
MANY_NEW = 4
#: nodes from which on a graph is long
MANY_NODES = 64
#: nodes from which on a graph is so long that a single new one is enough: to make the next one takes as long as three
#: turns of a loop lose without a plan
MANY_MORE_NODES = 1024
#: sequences of calls in a row that came back, from which on a program repeats itself
MANY_AGAIN = 2
#: the cost of a sequence up to which its calls take less time than a graph of them, known or not: finding the live
#: arrays, the plan and its inputs takes as long as about ten calls of ufuncs on few numbers
LOW_COST = 8
#: the cost of a function that is no ufunc: it takes about as long as several of these
COST_OF_OTHERS = 3
#: the cost is in the lowest bits of the number of a sequence
COST_MASK = 255
#: sequences to remember
MOST_SEQUENCES = 1024


class _Novelty(threading.local):
    """Count the new graphs that one thread has evaluated of late."""

    def __init__(self) -> None:
        self._score = 0
        self._sequences: dict[int, None] = {}
        self._again = 0

    def note_new(self, nodes: int = 1) -> None:
        """Note the evaluation of a new graph, given the number of nodes that it has computed.

        A long one counts twice: the next one takes longer to make than finding out that it came back does.
        """
        if self._score < 2 * MANY_NEW:
            self._score += MANY_NEW if nodes >= MANY_MORE_NODES else 2 if nodes >= MANY_NODES else 1

    def note_known(self) -> None:
        """Note the evaluation of a graph that was evaluated before."""
        if self._score:
            self._score = max(0, self._score - 2)

    def note_read(self, sequence: int) -> None:
        """Note that the program reads a value, given the number of the sequence of calls that ends, 0 for none.

        A few calls on few numbers are quicker without a graph, so that it does not matter whether they come back. Many
        calls are the same by no chance: it is enough that they came back once.
        """
        if sequence & COST_MASK <= LOW_COST:
            return
        if sequence not in self._sequences:
            self._again = 0
            if len(self._sequences) >= MOST_SEQUENCES:
                self._sequences.clear()
            self._sequences[sequence] = None
            return
        self._again += MANY_AGAIN if sequence & COST_MASK == COST_MASK else 1
        if self._again >= MANY_AGAIN:
            self.forget()

    def forget(self) -> None:
        """Begin anew: the program is known, until new graphs show otherwise."""
        self._score = self._again = 0
        self._sequences.clear()

    @property
    def is_high(self) -> bool:
        """True if the next calls are probably new."""
        return self._score >= MANY_NEW and settings.active.immediate


NOVELTY = _Novelty()
