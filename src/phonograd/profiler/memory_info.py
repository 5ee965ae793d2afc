"""The memory of this process by holder: arrays by purpose, values kept for gradients, the pool, machine code.

:func:`memory_info` looks at this moment only. A profile with ``profile_memory=True`` shows memory over time
(:class:`~phonograd.profiler.memory.MemoryTimeline`).
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, NamedTuple

from ..core.observe.allocations import owner_of
from ..core.plan.cache import PLANS
from ..core.run import kernel_cache, memory_pool, packed_operands
from ..core.trace.trace import Trace
from .memory import inventory, live_objects
from .tables import bytes_text, text_table

__all__ = ["MemoryInfo", "memory_info"]


class MemoryInfo(NamedTuple):
    """The memory of a process, in bytes, by what holds it."""

    parameters: int
    """Arrays with a gradient attached."""
    gradients: int
    """Their gradients."""
    optimizer: int
    """States of optimizers."""
    arrays: int
    """All other arrays."""
    recorded: int
    """Values that no array holds, kept because a backward pass may need them."""
    packed: int
    """Weights in the order in which kernels read them, kept between calls: at most ``settings.packed_bytes``."""
    waiting: int
    """Memory of arrays that are gone, kept for new ones: at most ``settings.spare_bytes``.
    :meth:`~phonograd.Context.empty_cache` returns it to the system."""
    code: int
    """Machine code of kernels: at most ``settings.kernel_bytes``, unless plans use more."""
    tables: int
    """Tables and constants of plans: at most ``settings.plan_bytes``, unless the last step of a loop needs more."""
    peak: int
    """The most that larger arrays and temporary values took at one time, so far."""
    process: int
    """All memory of the process, the interpreter and its modules included; 0 where the system does not tell."""
    plans: int
    """Number of plans; ``settings.plan_limit`` bounds it."""
    kernels: int
    """Number of kernels."""

    def __repr__(self) -> str:
        sizes = [(name, bytes_text(getattr(self, name))) for name in self._fields[:11]]
        counts = [(name, f"{getattr(self, name):,}") for name in self._fields[11:]]
        return "\n".join(text_table(("held by", "memory"), [*sizes, *counts]))


def memory_info() -> MemoryInfo:
    """Return what holds the memory of this process at this moment.

    It looks at every object of the interpreter, which takes some hundredths of a second. Pending arrays are not
    computed, and count nothing.

    Returns
    -------
    MemoryInfo
        Bytes by holder; printed, it is a table.

    Examples
    --------
    >>> import phonograd as mx
    >>> before = mx.memory_info().parameters
    >>> x = mx.nd.ones((256, 1024))
    >>> x.attach_grad()
    >>> x.wait_to_read()
    >>> mx.memory_info().parameters - before
    1048576
    """
    held = inventory()
    by_role: dict[str, int] = {}
    for each in held:
        by_role[each.category] = by_role.get(each.category, 0) + each.nbytes
    others = sum([size for role, size in by_role.items() if role not in ("parameter", "gradient", "optimizer")])
    code = kernel_cache.code_in_memory()
    return MemoryInfo(
        parameters=by_role.get("parameter", 0),
        gradients=by_role.get("gradient", 0),
        optimizer=by_role.get("optimizer", 0),
        arrays=others,
        recorded=_recorded({each.identity for each in held}),
        packed=packed_operands.packed_bytes(),
        waiting=memory_pool.pool.spare_bytes,
        code=sum(code),
        tables=PLANS.nbytes,
        peak=memory_pool.pool.peak_bytes,
        process=_process_bytes(),
        plans=PLANS.count,
        kernels=len(code),
    )


def _recorded(known: set[int]) -> int:
    """Return the bytes of values that only traces hold, given the identities of all others."""
    found: dict[int, int] = {}
    for trace in live_objects(Trace):
        values: list[Any] = list(trace.values.values())
        for value in values:
            for array in value if isinstance(value, tuple) else (value,):
                owner = owner_of(array)
                if id(owner) not in known:
                    found[id(owner)] = owner.nbytes
    return sum(found.values())


def _process_bytes() -> int:
    """Return the memory of the process that is in physical memory."""
    if sys.platform == "linux":
        for line in Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
    return 0
