"""The hot functions of all layers up to this one, as machine code.

Takes functions from :mod:`phonograd.core.base.hot`, which the modules of nodes, tier 0 and gradient rules have marked;
:mod:`phonograd.core.run.hot` translates them. :mod:`phonograd.ndarray` installs them with the machine code of operator
calls. See docs/decisions/0053.
"""

from __future__ import annotations

from ..run.hot.installation import HotFunctions, are_possible

__all__ = ["install"]

#: the machine code, once it is installed
_installed: list[HotFunctions] = []


def install() -> HotFunctions | None:
    """Replace all hot functions by machine code, once, and return it; None if this interpreter does not allow it.

    A helper may do this at any time: both forms of a function do the same.
    """
    # the text of the code is always that of the same functions, in the same order
    from . import eager

    del eager
    if not _installed and are_possible():
        functions = HotFunctions()
        functions.install()
        _installed.append(functions)
    return _installed[0] if _installed else None
