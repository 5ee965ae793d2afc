"""Collection: planning without looking for garbage.

A plan is made of very many small objects, none of which is garbage. Looking for some while they are made takes up to a
third of the time, and looking through all of them once afterwards some hundredths.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

__all__ = ["not_collecting"]

#: new objects that are not worth looking through
MANY = 10_000


@contextlib.contextmanager
def not_collecting() -> Iterator[None]:
    """Look for no garbage meanwhile, nor, if very many objects were made, at these soon afterwards."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            if gc.get_count()[0] > MANY and hasattr(gc, "freeze") and not gc.get_freeze_count():
                # what is frozen and let go is old; nobody else has frozen anything
                gc.freeze()
                gc.unfreeze()
            gc.enable()
