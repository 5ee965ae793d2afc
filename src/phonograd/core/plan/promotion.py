"""Promotion: graphs that come back get a plan, in the background.

Takes provisional plans, whose programs compute operator by operator (:mod:`~phonograd.core.plan.eager`), from
:mod:`phonograd.core.trace.evaluation`. A graph is worth planning when its runs have taken as long as planning takes: a
program that repeats it saves at least as much, and one that does not has lost little. One whose plan is on disk is
worth it sooner. A helper thread makes the plan, or has another process make it
(:mod:`~phonograd.core.plan.planner_process`), and puts it into the plan cache, where the next evaluation finds it. No
caller waits.
"""

from __future__ import annotations

from collections.abc import Callable

from ..base import fork, settings
from ..run import memory_pool, thread_pool
from ..run.background import Queue
from . import cache
from .cache import PLANS, CachedPlan, CacheNode

__all__ = ["describe", "finish", "has_failed", "is_current", "is_due", "promote", "queue", "submit", "submit_along"]

#: the state of a promotion that has failed: the next evaluation plans while its caller waits, and raises the error
_FAILED = object()

_queue = Queue(is_gentle=True)


def is_due(plan: CachedPlan) -> bool:
    """Return whether a provisional plan has run long enough to be worth a plan, and none is being made."""
    return plan.promotion is not _queue and plan.spent_ns >= plan.due_ns


def has_failed(plan: CachedPlan) -> bool:
    """Return whether the helper could not make a plan."""
    return plan.promotion is _FAILED


def describe(plan: CachedPlan) -> str:
    """Return why a provisional plan is still used."""
    if not plan.spent_ns:
        return "the graph is new"
    if plan.promotion is _queue:
        return "a plan is being made in the background"
    size = 0 if plan.program is None else plan.program.size
    spent, needed = plan.spent_ns / 1e6, cache.planning_ns(size) / 1e6
    return f"a plan is not worth its time yet: runs took {spent:.2f} ms, planning takes about {needed:.2f} ms"


def promote(
    position: CacheNode,
    key: object,
    plan: CachedPlan,
    make: Callable[[], CachedPlan],
    is_stored: Callable[[], bool],
) -> None:
    """Make a plan in the background that replaces a provisional one in the plan cache, unless that was dropped.

    Unless it is found on disk (``is_stored``), it is made when it is worth its time.
    A plan depends on the settings. If these change meanwhile, it is not used, and a later evaluation tries again.
    """
    wanted = settings.current()

    def work() -> None:
        if settings.current() is wanted and position.following.get(key) is plan:
            try:
                if not plan.is_sought and not is_stored():
                    assert plan.program is not None
                    plan.is_sought, plan.due_ns = True, cache.planning_ns(plan.program.size)
                    if plan.spent_ns < plan.due_ns:
                        plan.promotion = None
                        return
                if thread_pool.stale:
                    # the program would wait for it when the plan takes over
                    thread_pool.renew()
                made = make()
            except Exception:  # noqa: BLE001 - raised by the next evaluation, which plans itself
                plan.promotion = _FAILED
                return
            if settings.current() is wanted:
                if position.following.get(key) is plan:
                    position.following[key] = made
                    PLANS.count_plan(made, replaced=plan)
                    # values of single operators are made by NumPy, those of the plan are not
                    memory_pool.pool.trim_soon()
                return
        plan.promotion = None

    plan.promotion = _queue
    _queue.submit(work)


def submit(work: Callable[[], object]) -> None:
    """Let the helper do other work on plans."""
    _queue.submit(work)


def queue() -> object:
    """Return the queue of the helper. Work notes it before it is submitted (see :func:`is_current`)."""
    return _queue


def is_current(noted: object) -> bool:
    """Return whether a queue is that of this process: after a fork, the work of the parent's helper is not done."""
    return noted is _queue


def submit_along(work: Callable[[], object]) -> None:
    """Let the helper do other work before the next plan; it is not started for that alone."""
    _queue.add(work)


def finish() -> None:
    """Wait until all plans that are being made in the background are ready."""
    _queue.finish()


def _after_fork_in_child() -> None:
    """Begin anew: the helper of the parent does not exist in this process."""
    global _queue
    _queue = Queue(is_gentle=True)


fork.register("promotion of plans", after_in_child=_after_fork_in_child)
