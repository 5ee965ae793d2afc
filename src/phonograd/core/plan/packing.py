"""Packing: plans programs that take steady inputs packed, in the background.

A program that got the same weights in several runs (:mod:`~phonograd.core.run.program`) asks for it. The new plan
computes the same values by the same kernels, without the launches that pack weights. See docs/decisions/0028.
"""

from __future__ import annotations

from typing import Any

from ..base import settings
from ..base.pace import is_paced, paced
from ..graph.operator import Array
from ..run import kernel_cache
from ..run.background import run_apart
from ..run.packed_operands import PackedOperands
from ..run.program import RecipeProgram

__all__ = ["pack_inputs", "packed_plan"]


def pack_inputs(program: RecipeProgram, numbers: list[int]) -> None:
    """Make the plan of a program again, with some inputs packed; the program uses it when it is ready.

    Under a memory limit nothing is packed: packed weights are kept in addition to the weights.
    """
    from . import promotion

    if settings.current().memory_limit_bytes:
        return

    def work() -> None:
        try:
            packed = packed_plan(program, numbers)
        except Exception as error:  # noqa: BLE001 - raised by the next run
            packed = PackedOperands(_Failed(error), ())
        if packed is not None:
            program.use_packed(packed)

    if settings.current().tiers == "background":
        promotion.submit(work)
    else:
        run_apart(work)


def packed_plan(program: RecipeProgram, numbers: list[int]) -> PackedOperands | None:
    """Return the plan of a program with some inputs packed, from disk if it is there; None if it is the same plan."""
    from .packed_plans import NOTHING, PackedGraph

    if not program.has_same_choices():
        # another algorithm would have other bits
        return None
    graph = PackedGraph.of([node for node, _ in program.kept], program.inputs, numbers)
    if graph is None:
        return None
    disk = kernel_cache.disk_cache() if kernel_cache.available() else None
    key = None if disk is None else graph.key(disk)
    if disk is not None and key is not None:
        found = graph.load(disk, key)
        if found is None:
            from . import planner_process

            if planner_process.pack(graph, key):
                found = graph.load(disk, key)
        if found is not None:
            return None if found is NOTHING else found
    # a helper that plans has more to do than one that looks a plan up
    with paced(is_paced()):
        planned = graph.plan()
    if disk is not None and key is not None:
        graph.save(disk, key, planned)
    if planned is None:
        return None
    planned.never_pack()
    return PackedOperands(planned, planned.preparations)


class _Failed:
    """Stands for a program that could not be planned: its run raises the error."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def run(self, inputs: list[Any]) -> list[Array]:
        raise self._error
