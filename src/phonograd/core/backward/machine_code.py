"""The hot functions of all layers up to this one, as machine code.

Takes functions from :mod:`phonograd.core.base.hot`, which the modules of nodes, tier 0 and gradient rules have marked;
:mod:`phonograd.core.run.hot` translates them. :mod:`phonograd.ndarray` installs them with the machine code of operator
calls. See docs/decisions/0053.
"""

from __future__ import annotations

from ..run.hot.installation import HotFunctions, are_possible

__all__ = ["prepare"]


def prepare() -> HotFunctions | None:
    """Return the machine code of all hot functions, if this interpreter allows it. A helper may do this."""
    # the text of the code is always that of the same functions, in the same order
    from . import eager

    del eager
    return HotFunctions() if are_possible() else None
