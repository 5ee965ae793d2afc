"""Pause the garbage collector while the library is imported, and during planning.

Modules and plans consist of very many small objects, none of which is garbage. Collections take a tenth of the time of
an import and up to a third of that of planning. A full one would follow in the first step of a program: 20 ms.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

__all__ = ["gc_paused"]

#: number of new objects above which they skip the young generation; importing tier 0 makes 9,700
MANY = 5_000
#: number of frozen objects above which the program has frozen them. CPython 3.12 counts its immortal objects as frozen,
#: which are 375; ``gc.freeze`` in a process that has imported nothing freezes 4,700 and more
FROZEN = 2_000


@contextlib.contextmanager
def gc_paused() -> Iterator[None]:
    """Pause the collector; if very many objects were made, move them to the oldest generation afterwards."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            # it imports NumPy, which is to be imported meanwhile
            from ..base.assumptions import HAS_GIL

            # the collector of interpreters without the GIL has no generations
            if HAS_GIL and gc.get_count()[0] > MANY and hasattr(gc, "freeze") and gc.get_freeze_count() < FROZEN:
                # objects that are frozen and released are in the oldest generation; the program has frozen no other
                gc.freeze()
                gc.unfreeze()
            gc.enable()
