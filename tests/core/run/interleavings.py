"""An explorer that lets threads make steps in every order and checks invariants in every state.

Memory is sequentially consistent: a step is seen by all threads at once. The promises of memory orders are checked
separately, by happens-before (:meth:`Explorer._learn`): every access to a plain word must happen after the accesses
that it conflicts with, and the results of kernels before their caller returns.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple

from .llvm_threads import Step, Thread, Word

__all__ = ["Explorer", "Region", "State", "Violation"]


class Violation(AssertionError):
    """An invariant that does not hold, with the steps that led there."""


class Region(NamedTuple):
    """A region that a caller runs."""

    tables: dict[int, int]
    """By the address of each launch's table, the bit of its first item."""
    bases: int
    """The address of its arrays."""
    items: int
    """The bits of all its items."""
    thread: int
    """The number of its caller."""
    position: int
    """Which call of the caller's script runs it."""


#: a state: for each thread its own state, bits of the items that kernels have run, bits of the regions that have ended,
#: the shared words, and (if orders are checked) for each thread and word the facts that happen before its next use
State = tuple[int, ...]


class Explorer:
    """All states that threads can reach.

    Parameters
    ----------
    threads
        The threads.
    memory
        How many words they share; all are 0 at first.
    regions
        The regions that callers run.
    claim
        The shared word by which chunks are taken.
    plain
        The shared words that are read and written without atomics.
    synchronizing
        The words by which threads learn from each other, where orders are to be checked.
    """

    def __init__(
        self,
        threads: Sequence[Thread],
        memory: int,
        regions: Sequence[Region],
        claim: int,
        plain: Sequence[int] = (),
        synchronizing: Sequence[int] = (),
    ) -> None:
        self._threads, self._regions, self._claim = threads, regions, claim
        self._by_table = {table: number for number, region in enumerate(regions) for table in region.tables}
        self._ends = {(region.thread, region.position): number for number, region in enumerate(regions)}
        self._done, self._ended, self._memory = [len(threads) + place for place in range(3)]
        self._plain = plain
        # facts of threads and words, then those that are of interest still
        self._facts = self._memory + memory
        self._word_facts = {place: self._facts + len(threads) + k for k, place in enumerate(synchronizing)}
        facts = len(threads) + len(synchronizing) + 1 if synchronizing else 0
        self._items = max([region.items for region in regions], default=0).bit_length()
        self.states: dict[State, int] = {}
        #: for each state the one before it and the thread that made the step, on the way on which it was found
        self._before: list[tuple[int, int]] = []
        #: for each state the states that follow: the number of the state times that of threads, plus the thread
        self.edges: list[list[int]] = []
        firsts = itertools.product(*[thread.first for thread in threads])
        self._explore([(*first, 0, 0, *[0] * (memory + facts)) for first in firsts])

    def _explore(self, starts: Sequence[State]) -> None:
        numbers, edges, before = self.states, self.edges, self._before
        pending: list[tuple[State, int]] = []
        count = len(self._threads)

        def number_of(state: State, source: int, thread: int) -> int:
            place = numbers.get(state)
            if place is None:
                place = numbers[state] = len(edges)
                edges.append([])
                before.append((source, thread))
                pending.append((state, place))
            return place

        for start in starts:
            number_of(start, -1, -1)
        while pending:
            state, number = pending.pop()
            for thread in range(count):
                for other in self._after(state, number, thread):
                    edges[number].append(number_of(other, number, thread) * count + thread)

    def _fail(self, number: int, thread: int, message: str) -> None:
        states = list(self.states)
        lines = [f"thread {thread}: {self.step(states[number], thread).text}"]
        while self._before[number][0] >= 0:
            number, actor = self._before[number]
            lines.append(f"thread {actor}: {self.step(states[number], actor).text}")
        raise Violation("\n".join([message, *reversed(lines)]))

    def step(self, state: State, thread: int) -> Step:
        """Return the next step of a thread."""
        return self._threads[thread].steps[state[thread]]

    def word(self, state: State, place: int) -> int:
        """Return a word of the shared memory."""
        return state[self._memory + place]

    def _after(self, state: State, number: int, thread: int) -> list[State]:
        """Return the states after a step of a thread, none if it has ended or has to wait."""
        step = self._threads[thread].steps[state[thread]]
        kind, operands, is_busy = step.kind, step.values, step.is_busy
        place = self._memory + step.place
        result: Word = None
        if kind == "end" or (kind == "acquire" and not state[place]):
            return []
        new = list(state)
        for region in step.reads:
            if state[self._ended] >> region & 1:
                self._fail(number, thread, f"region {region} has ended, and its record is read")
        if kind == "load":
            result = state[place]
        elif kind == "store":
            new[place] = operands[0]
        elif kind == "cmpxchg":
            result = int(state[place] == operands[0])
            if result:
                new[place] = operands[1]
                is_busy = is_busy or step.place == self._claim
        elif kind == "sub":
            result, new[place] = state[place], state[place] - operands[0]
            if new[place] < 0:
                self._fail(number, thread, "more chunks are finished than there are")
        elif kind == "acquire":
            result, new[place] = 1, 0
        elif kind == "release":
            if state[place]:
                self._fail(number, thread, "a lock is released twice")
            new[place] = 1
        elif kind == "kernel":
            new[self._done] = self._ran(state, number, thread, operands)
        if self._word_facts:
            self._learn(new, state, number, thread, step, bool(result))
        found = []
        for following in self._threads[thread].following(state[thread], result, is_busy):
            new[thread] = following
            ended = self._threads[thread].steps[following].returned
            if ended >= 0 and (thread, ended) in self._ends:
                found.append(self._returned(tuple(new), number, thread, self._ends[thread, ended]))
            else:
                found.append(tuple(new))
        return found

    def _ran(self, state: State, number: int, thread: int, operands: tuple[Word, ...]) -> int:
        """Return the items that are done when a kernel has run on some."""
        table, bases, begin, end = operands
        region = self._by_table[table]
        if state[self._ended] >> region & 1 or bases != self._regions[region].bases:
            self._fail(number, thread, f"a kernel of region {region} runs with the words of another region")
        first = self._regions[region].tables[table]
        bits: int = (1 << first + end) - (1 << first + begin)
        if begin >= end or state[self._done] & bits:
            self._fail(number, thread, f"items {begin} to {end} of region {region} are run again")
        return state[self._done] | bits

    def _returned(self, state: State, number: int, thread: int, region: int) -> State:
        """Return a state in which a caller has returned from a region."""
        items = self._regions[region].items
        if ~state[self._done] & items:
            self._fail(number, thread, f"the caller returns before region {region} is finished")
        if self._word_facts and ~state[self._facts + thread] & items:
            self._fail(number, thread, f"the results of region {region} do not happen before the caller returns")
        new = list(state)
        new[self._ended] |= 1 << region
        return tuple(new)

    # -- happens-before

    def _learn(self, new: list[int], state: State, number: int, thread: int, step: Step, result: bool) -> None:
        """Note which facts happen before which actions, after a step.

        A fact is a bit: that an item was computed, that a plain word was written for the last time, that a thread has
        read it since. A release hands the facts of its thread to its word, and an acquire takes them from there. An
        atomic update keeps the facts of its word; a store replaces them.
        """
        own, word = self._facts + thread, self._word_facts.get(step.place)
        new[own] |= new[self._done] & ~state[self._done]
        if step.kind in ("load", "store") and step.place in self._plain:
            self._touch(new, number, thread, step)
        if word is None or step.kind not in ("load", "store", "cmpxchg", "sub"):
            return
        # an exchange that fails is a load, with an order that no thread relies on
        if step.kind == "cmpxchg" and not result:
            return
        if step.kind != "store" and step.order in ("acquire", "acq_rel", "seq_cst"):
            new[own] |= new[word]
        if step.kind == "store":
            new[word] = 0
        if step.kind != "load" and step.order in ("release", "acq_rel", "seq_cst"):
            new[word] |= new[own]

    def _touch(self, new: list[int], number: int, thread: int, step: Step) -> None:
        """Note a plain access, which must happen after all accesses that it conflicts with."""
        width = 1 + len(self._threads)
        base = self._items + width * self._plain.index(step.place)
        written, reads = 1 << base, ((1 << width) - 2) << base
        own = self._facts + thread
        missing = new[-1] & ~new[own]
        if missing & written:
            self._fail(number, thread, "a plain word is used, and its last write does not happen before")
        if step.kind == "load":
            new[own] |= written << 1 + thread
            new[-1] |= written << 1 + thread
            return
        if missing & reads:
            self._fail(number, thread, "a plain word is written, and a read of it does not happen before")
        for place in range(self._facts, len(new)):
            new[place] &= ~(written | reads)
        new[own] |= written
        new[-1] |= written

    # -- questions about all states

    def _reaching(self, goal: Callable[[State], bool], only: int | None = None) -> list[bool]:
        """Return for each state whether a goal can follow, by steps of one thread or of all."""
        sources: list[list[int]] = [[] for _ in self.edges]
        for number, following in enumerate(self.edges):
            for edge in following:
                place, thread = divmod(edge, len(self._threads))
                if only is None or thread == only:
                    sources[place].append(number)
        reached = [goal(state) for state in self.states]
        pending = [number for number, is_goal in enumerate(reached) if is_goal]
        while pending:
            for number in sources[pending.pop()]:
                if not reached[number]:
                    reached[number] = True
                    pending.append(number)
        return reached

    def check_threads_can_end(self, some: Sequence[int]) -> None:
        """Raise if there is a state from which some threads can never end."""
        reached = self._reaching(lambda state: all([self.step(state, thread).kind == "end" for thread in some]))
        for state, number in self.states.items():
            if not reached[number]:
                waiting = [thread for thread in some if self.step(state, thread).kind != "end"]
                self._fail(number, waiting[0], f"threads {waiting} can never end")

    def check_caller_needs_no_idle_worker(self, caller: int) -> None:
        """Raise if there is a state in which a caller cannot end alone, and no other thread is busy for it."""
        alone = self._reaching(lambda state: self.step(state, caller).kind == "end", caller)
        others = [thread for thread in range(len(self._threads)) if thread != caller]
        for state, number in self.states.items():
            if not alone[number] and not any([self.step(state, thread).is_busy for thread in others]):
                self._fail(number, caller, "the caller waits for a thread that has none of its chunks")
