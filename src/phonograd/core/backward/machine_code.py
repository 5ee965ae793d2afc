"""The hot functions of all layers up to this one, as machine code.

Takes functions from :mod:`phonograd.core.base.hot`, which the modules of nodes, arrays, tier 0 and gradient rules have
marked; :mod:`phonograd.core.run.hot` translates them. :mod:`phonograd.ndarray` installs them with the machine code of
operator calls: before the first graph is computed if the package brings that machine code along, else when a program
is known to go on. See docs/decisions/0053.
"""

from __future__ import annotations

import threading
from types import FunctionType
from typing import TYPE_CHECKING, Any

from ..base import fork
from ..base.hot import HOT, SLOTTED

if TYPE_CHECKING:
    from ..run.hot.installation import HotFunctions

__all__ = ["functions_and_classes", "install", "is_prebuilt"]

#: how the names of modules begin that are imported with the package, or with tier 0
_ALWAYS = ("phonograd.core.", "phonograd.ndarray.")

#: the machine code, once it is described, and once it is installed
_found: list[HotFunctions] = []
_installed: list[HotFunctions] = []
#: a helper and the program may come here at once
_lock = threading.RLock()
fork.register_lock("hot functions", _lock)


def is_prebuilt() -> bool:
    """Return whether hot functions can be machine code, and the package brings it along."""
    found = _functions()
    return found is not None and found.is_prebuilt()


def install() -> HotFunctions | None:
    """Replace hot functions by machine code, and return it; None if this interpreter does not allow it.

    A helper may do this at any time: both forms of a function do the same.
    """
    with _lock:
        found = _functions()
        if found is not None and not _installed:
            found.install()
            _installed.append(found)
        return found


def _functions() -> HotFunctions | None:
    from ..run.hot.installation import HotFunctions, are_possible

    with _lock:
        if not _found and are_possible():
            _found.append(HotFunctions(*functions_and_classes()))
        return _found[0] if _found else None


def functions_and_classes() -> tuple[list[FunctionType], list[type[Any]]]:
    """Return all hot functions and the classes whose slots they read."""
    # they mark functions of tier 0, and are imported late
    from ..plan import eager_call
    from . import eager

    assert eager
    assert eager_call
    # the arrays of mx.np are imported late or never: their attributes are read by Python's rules
    return [*HOT], [each for each in SLOTTED if each.__module__.startswith(_ALWAYS)]
