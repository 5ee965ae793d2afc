"""Programs: the interface of everything that computes nodes from the values of other nodes.

A program is made once for a graph and run for every set of values. Only
:func:`phonograd.core.plan.cache.choose_program` decides which kind of program, and thus which tier, a graph gets::

    nodes --> choose_program --+--> ReferenceProgram   no compiler, or executor="reference"
                               +--> EagerProgram       tier 0: a new graph
                               +--> DiskProgram        tier 1: an equal graph was planned by an earlier process
                               +--> NativeProgram      tier 1: planned now; its kernels tier up later (tier 2)

=====================  ========================================  ==================  ===========================
program                computes                                  made in             lives
=====================  ========================================  ==================  ===========================
``ReferenceProgram``   with NumPy, operator by operator          microseconds        as long as its plan
``EagerProgram``       with one function per operator            microseconds        until a plan is ready
``DiskProgram``        fused kernels, from a recipe on disk      a file is read      as long as its plan
``NativeProgram``      fused kernels, from a recipe made now     200 us an operator  as long as its plan
=====================  ========================================  ==================  ===========================

``DiskProgram`` and ``NativeProgram`` run their recipe in the same way
(:class:`phonograd.core.run.program.RecipeProgram`). A captured function (:class:`phonograd.core.capture.replay.Replay`)
is no program: it takes arrays, and runs the program of its template. All programs compute the same bits for the same
graph.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Any, NamedTuple, Protocol

from ..graph.node import Node
from ..graph.operator import Array
from .memory_pool import room_for

__all__ = ["STEP_BYTES", "Memory", "Note", "Part", "Program", "Progress"]


#: memory of a step of a program that is Python objects, an estimate
STEP_BYTES = 512


class Part(NamedTuple):
    """One part of a run, as observers see it."""

    nodes: tuple[Node, ...]
    """The nodes that are computed."""
    kernels: tuple[Any, ...]
    """The kernels that compute them; none if NumPy does, or where an array only gets another shape."""
    memory: tuple[Node, ...]
    """The nodes whose memory is read or written."""
    written: tuple[Node, ...]
    """Those of them whose memory is written, at least in part."""


#: called with a part of a program and the times at which it began and ended
Note = Callable[[Part, int, int], None]


class Progress:
    """A note that also receives results while the program still runs. Programs without parts of their own ignore it.

    ``seen_by`` is another note of the same run. ``groups`` are nodes that are needed together: a program may run on
    until the last of a group is final.
    """

    def __init__(self, groups: tuple[tuple[Node, ...], ...] = (), seen_by: Note | None = None) -> None:
        self.groups = groups
        self.seen_by = seen_by

    def __call__(self, part: Part, start_ns: int, end_ns: int) -> None:
        """Pass a part on to the other note."""
        if self.seen_by is not None:
            self.seen_by(part, start_ns, end_ns)

    def receive(self, node: Node, value: Array) -> None:
        """Receive the value of a kept node, which no later part of the program reads or writes."""
        raise NotImplementedError


class Memory(NamedTuple):
    """The bytes that a run of a program takes in addition to its inputs."""

    arena: int
    """Values that only kernels read."""
    kept: int
    """Values that the run returns."""
    other: int
    """Other arrays that NumPy reads or makes."""
    replaced: int = 0
    """Results that take the place of inputs to which nothing else refers."""

    @property
    def total(self) -> int:
        """All bytes, with the arena as large as the pool makes it, if results take the place of inputs."""
        return (room_for(self.arena) if self.arena else 0) + self.kept + self.other - self.replaced


class Program(Protocol):
    """Computes some nodes from the values of others. See the table of the module for the kinds of programs."""

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The nodes whose values a run takes: leaves, and nodes that are known already."""

    @property
    def kept(self) -> list[tuple[Node, int]]:
        """The nodes whose values a run returns, in order, each with its slot among the values of the run."""

    @property
    def donatable(self) -> tuple[int, ...]:
        """The numbers of the inputs whose arrays a run can write over, if nothing else refers to them."""

    @property
    def is_provisional(self) -> bool:
        """Return whether the graph gets another program when it comes back."""

    @property
    def size(self) -> int:
        """The number of nodes that a provisional program computes; 0 for others."""

    @property
    def nbytes(self) -> int:
        """The bytes of its tables and constants, as long as it exists."""

    @property
    def memory(self) -> Memory | None:
        """The bytes that a run takes, if they are known."""

    @property
    def parts(self) -> list[Part]:
        """The parts of a run, in order."""

    def run(self, inputs: list[Any], donated: Container[int] = (), note: Note | None = None) -> list[Array]:
        """Return the values of the kept nodes, given those of the inputs.

        Parameters
        ----------
        inputs
            Arrays of the shapes and dtypes of the input nodes, with any strides.
        donated
            Numbers of inputs that may be written over; a :class:`~phonograd.core.run.donation.Donation` also notes the
            progress.
        note
            Called after each part. The parts then run one by one, unless it is a :class:`Progress` alone.
        """
