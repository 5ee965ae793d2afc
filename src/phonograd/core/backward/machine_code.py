"""The hot functions of all layers up to this one, as machine code.

Takes functions from :mod:`phonograd.core.base.hot`, which the modules of nodes, arrays, tier 0 and gradient rules have
marked; :mod:`phonograd.core.run.hot` translates them. :mod:`phonograd.ndarray` installs them with the machine code of
operator calls. Programs whose plans are on disk never import tier 0. So there are two modules of machine code: one
without the functions of tier 0, and one with all functions, which takes its place. See docs/decisions/0053.
"""

from __future__ import annotations

import sys
import threading
from types import FunctionType
from typing import TYPE_CHECKING, Any

from ..base import fork
from ..base.hot import HOT, SLOTTED

if TYPE_CHECKING:
    from ..run.hot.installation import HotFunctions

__all__ = ["complete", "install", "parts_of"]

#: the module that imports all of tier 0, and how the names of its modules begin
_LAST = "phonograd.core.backward.eager"
_TIER_0 = (_LAST, "phonograd.core.plan.eager")
#: how the names of modules begin that are imported with the package, or with tier 0
_ALWAYS = ("phonograd.core.", "phonograd.ndarray.")

#: the machine code that is installed, and whether it has all functions
_installed: list[tuple[HotFunctions, bool]] = []
#: a helper and the program may come here at once
_lock = threading.RLock()
fork.register(
    "hot functions",
    before=lambda: fork.hold(_lock),
    after_in_parent=lambda: fork.let_go(_lock),
    after_in_child=lambda: fork.let_go(_lock),
)


def install() -> HotFunctions | None:
    """Replace hot functions by machine code, and return it; None if this interpreter does not allow it.

    A helper may do this at any time: both forms of a function do the same.
    """
    from ..run.hot.installation import HotFunctions, are_possible

    with _lock:
        is_whole = _LAST in sys.modules
        if is_whole:
            # another thread may be importing it; calls without a graph import the second module at first use. The text
            # is always that of the same functions
            from ..plan import eager_call
            from . import eager

            assert eager
            assert eager_call
        if not (_installed and _installed[0][1] >= is_whole) and are_possible():
            functions = HotFunctions(*parts_of(is_whole))
            if _installed:
                _installed[0][0].uninstall()
            functions.install()
            _installed[:] = [(functions, is_whole)]
        return _installed[0][0] if _installed else None


def parts_of(is_whole: bool) -> tuple[list[FunctionType], list[type[Any]]]:
    """Return all hot functions and classes with slots, or those outside of tier 0."""
    functions = [each for each in HOT if is_whole or not each.__module__.startswith(_TIER_0)]
    # the arrays of mx.np are imported late or never: their attributes are read by Python's rules
    classes = [each for each in SLOTTED if each.__module__.startswith(_ALWAYS)]
    return functions, [each for each in classes if is_whole or not each.__module__.startswith(_TIER_0)]


def complete() -> None:
    """Install the functions of tier 0, which has been imported, if other hot functions are installed."""
    if _installed:
        install()
