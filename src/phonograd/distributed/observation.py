"""Observation of communication: ranges for profiles, and totals for benchmarks.

Each operation is two ranges: the wait until all ranks have arrived, and the transfer with its bytes. Takes times from
:mod:`phonograd.distributed.mpi`; hands ranges to observers and totals to :func:`statistics`.
"""

from __future__ import annotations

import dataclasses
import threading

from ..core.events import LISTENING, USER_SCOPE, record

__all__ = ["Statistics", "observe", "observe_background_wait", "statistics"]


@dataclasses.dataclass
class Statistics:
    """Totals of the communication of this process."""

    operations: int = 0
    transferred_bytes: int = 0
    """Bytes that this rank gave to operations."""
    waiting_seconds: float = 0.0
    """Time in which operations waited for other ranks, also in the background."""
    transfer_seconds: float = 0.0
    """Time in which bytes were transferred, also in the background."""
    exposed_seconds: float = 0.0
    """Time in which the program itself stood still because of communication."""


_totals = Statistics()
_lock = threading.Lock()


def statistics() -> Statistics:
    """Return the totals of the communication of this process so far.

    >>> statistics().operations >= 0
    True
    """
    with _lock:
        return dataclasses.replace(_totals)


def observe(label: str, size: int, begin_ns: int, agreed_ns: int, end_ns: int, exposed: bool) -> None:
    """Note one operation: its bytes, its begin, the moment at which all ranks had arrived, and its end."""
    with _lock:
        _totals.operations += 1
        _totals.transferred_bytes += size
        _totals.waiting_seconds += (agreed_ns - begin_ns) / 1e9
        _totals.transfer_seconds += (end_ns - agreed_ns) / 1e9
        if exposed:
            _totals.exposed_seconds += (end_ns - begin_ns) / 1e9
    if LISTENING[USER_SCOPE]:
        record(f"{label} waiting", USER_SCOPE, begin_ns, agreed_ns)
        if size:
            record(f"{label} transfer", USER_SCOPE, agreed_ns, end_ns, moved_bytes=size, bytes=size)


def observe_background_wait(label: str, begin_ns: int, end_ns: int) -> None:
    """Note that the program stood still until an operation in the background was done."""
    with _lock:
        _totals.exposed_seconds += (end_ns - begin_ns) / 1e9
    if LISTENING[USER_SCOPE]:
        record(f"{label} exposed", USER_SCOPE, begin_ns, end_ns)
