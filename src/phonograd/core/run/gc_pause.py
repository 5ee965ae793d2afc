"""Pause the garbage collector during planning.

A plan consists of very many small objects, none of which is garbage. Collections during planning take up to a third of
the time, and one collection afterwards some hundredths.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

__all__ = ["gc_paused"]

#: number of new objects above which they skip the young generation
MANY = 10_000


@contextlib.contextmanager
def gc_paused() -> Iterator[None]:
    """Pause the collector; if very many objects were made, move them to the oldest generation afterwards."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            if gc.get_count()[0] > MANY and hasattr(gc, "freeze") and not gc.get_freeze_count():
                # objects that are frozen and released are in the oldest generation; no other object is frozen
                gc.freeze()
                gc.unfreeze()
            gc.enable()
