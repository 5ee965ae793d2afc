"""Plan trees: all sized plans of a structure, found by one walk through their conditions.

Takes sized plans (:mod:`~phonograd.core.plan.sized_plan`). The planner does the same for all graphs of a structure,
until something that it asks about their extents has another answer. So the lines of two plans are the same up to a
condition, and many plans are a tree: a Python function that computes and compares each thing once, and branches where
plans do.
"""

from __future__ import annotations

import marshal
from collections.abc import Sequence
from typing import Any, NamedTuple

from ..run.program import Recipe
from .sized_plan import SPACE, Frame, SizedPlan, function_of, getter
from .sizes import LARGEST, SMALLEST, Line

__all__ = ["PlanTree"]


class _Chooser(NamedTuple):
    """The plans that read the integers of a graph in one way, as plain data."""

    numbers: list[int]
    code: bytes


class PlanTree:
    """Sized plans of one structure; fewer than a hundred, because Python indents no deeper.

    Parameters
    ----------
    choosers
        How to choose, if that is stored (:attr:`choosers`).
    """

    def __init__(self, plans: Sequence[SizedPlan], choosers: Sequence[tuple[Any, ...]] | None = None) -> None:
        self.plans = tuple(plans)
        found = _choosers_of(self.plans) if choosers is None else [_Chooser(*each) for each in choosers]
        #: the functions of the tree, as plain data
        self.choosers = [tuple(each) for each in found]
        self._ways = []
        for numbers, code in found:
            frame = self.plans[numbers[0]].frame
            getters = [getter(places) for places in (frame.same, frame.extents, frame.data, frame.differ)]
            self._ways.append((*getters, frame.values, function_of(code, SPACE)))

    def find(self, sizes: Sequence[Any], nodes: Sequence[Any]) -> tuple[int, Recipe] | None:
        """Return the number of the plan that holds for the integers of a graph, and its recipe; None if none does.

        Parameters
        ----------
        nodes
            The nodes that recipes refer to, by number.
        """
        for same, extents_of, data_of, differ, values, choose in self._ways:
            if same(sizes) != values:
                continue
            extents = extents_of(sizes)
            if extents and (min(extents) < SMALLEST or max(extents) > LARGEST):
                continue
            data = data_of(sizes)
            try:
                chosen = choose(extents, data, differ(sizes))
                if chosen is not None:
                    number, atoms = chosen
                    recipe = self.plans[number].recipe(atoms, data, nodes)
                    if recipe is not None:
                        return number, recipe
            except ArithmeticError:
                # a division by zero, which the planner would not get to
                continue
        return None


def _choosers_of(plans: Sequence[SizedPlan]) -> list[_Chooser]:
    """Return functions that choose one of some plans; one, if all of them read integers alike."""
    groups: list[list[int]] = []
    for number, plan in enumerate(plans):
        for group in groups:
            others = [plans[other] for other in group]
            if plan.frame == others[0].frame and all([_is_branch(plan.lines, other.lines) for other in others]):
                group.append(number)
                break
        else:
            groups.append([number])
    return [_Chooser(group, marshal.dumps(compile(_text(plans, group), "<a plan tree>", "exec"))) for group in groups]


def _is_branch(one: list[Line], two: list[Line]) -> bool:
    """Return whether two plans are the same up to a condition that has different answers, or to their ends."""
    for first, second in zip(one, two):
        if first != second:
            return type(first) is tuple and type(second) is tuple and first[0] == second[0]
    return len(one) == len(two)


def _text(plans: Sequence[SizedPlan], numbers: list[int]) -> str:
    """Return a function of extents, constants and the integers that follow from them.

    It returns the number of a plan and the atoms of its recipe, or None.
    """
    frame: Frame = plans[numbers[0]].frame
    names = [f"a{number}" for number in range(len(frame.extents))], [f"d{number}" for number in range(len(frame.data))]
    head = [f"({' '.join([f'{name},' for name in each])}) = {of}" for each, of in zip(names, ("extents", "data"))]
    head.append(f"if differ != ({' '.join([f'{each},' for each in frame.expected])}): return None")
    lines = [*head, *_branches(plans, numbers, 0)]
    return "def choose(extents, data, differ):\n" + "".join([f" {line}\n" for line in lines])


def _branches(plans: Sequence[SizedPlan], numbers: Sequence[int], place: int) -> list[str]:
    """Return the statements of some plans, whose lines before a place are the same."""
    found: list[str] = []
    while True:
        ahead: dict[Any, list[int]] = {}
        for number in numbers:
            lines = plans[number].lines
            ahead.setdefault(lines[place] if place < len(lines) else None, []).append(number)
        if len(ahead) > 1:
            break
        (line,) = ahead
        if line is None:
            # several plans that have the same lines are the same plan
            atoms = "".join([f"{name}, " for name in plans[numbers[0]].atoms])
            return [*found, f"return {numbers[0]}, ({atoms})"]
        place += 1
        if type(line) is str:
            found.append(line)
        else:
            text, answer = line
            found.append(f"if {f'not ({text})' if answer else text}: return None")
    groups = {line[1]: group for line, group in ahead.items()}
    inside, after = [_branches(plans, groups[answer], place + 1) for answer in (True, False)]
    ((text, _), *_) = ahead
    return [*found, f"if {text}:", *[f" {line}" for line in inside], *after]
