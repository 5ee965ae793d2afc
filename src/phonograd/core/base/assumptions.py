"""Test what the library assumes about the memory of CPython, NumPy and LLVM, and warn where it does not hold.

A few modules know more about these than their documents promise: where an object keeps an attribute, how many
references an expression takes. ``tests/project/test_fences.py`` names them. Each tests what it assumes before it relies
on it::

    if assumption_holds("objects keep their type in their second word", "operator calls stay Python functions", _test):
        ...

Where a test fails, one :class:`~phonograd.core.base.errors.AssumptionWarning` names the assumption, the versions and
the consequence, and the module takes a slower way to the same results. docs/assumptions.md lists all of them.
"""

from __future__ import annotations

import platform
import sys
import warnings
from collections.abc import Callable

import numpy as np

from .errors import AssumptionWarning, user_line
from .outside import is_from_outside

__all__ = ["HAS_GIL", "assumption_holds", "tested", "versions"]

#: whether this interpreter was built for one lock that protects all objects. Others split the count of references
#: between threads, leave references out of it, and have another head before each object, also if they run with the lock
#: (PYTHON_GIL=1, or an extension that asks for it). That is known, so nothing warns of it
HAS_GIL = "free-threading" not in sys.version

_known: dict[str, bool] = {}


def assumption_holds(assumption: str, consequence: str, test: Callable[[], object]) -> bool:
    """Return whether an assumption holds, which is tested once; warn if it does not.

    Parameters
    ----------
    assumption
        A sentence that names the assumption; docs/assumptions.md has the same one.
    consequence
        A sentence that says how the library goes on without it.
    test
        Returns something true if the assumption holds. An exception means that it does not.
    """
    found = _known.get(assumption)
    if found is None:
        reason = ""
        try:
            found = bool(test())
        except Exception as error:
            if is_from_outside(error):
                raise
            # the warning names it
            found, reason = False, f" ({type(error).__name__}: {error})"
        if _known.setdefault(assumption, found) is found and not found:
            _warn(f"{assumption}: this does not hold with {versions()}{reason}. {consequence}.")
    return found


def tested() -> dict[str, bool]:
    """Return the assumptions that were tested in this process, and whether each of them holds."""
    return dict(_known)


def versions() -> str:
    """Return the names and versions that assumptions are about, as text.

    >>> versions()  # doctest: +SKIP
    'CPython 3.11.7, NumPy 2.4.6, llvmlite 0.50.0'
    """
    names = [f"{platform.python_implementation()} {platform.python_version()}", f"NumPy {np.__version__}"]
    llvmlite = sys.modules.get("llvmlite")
    return ", ".join([*names, *([] if llvmlite is None else [f"llvmlite {llvmlite.__version__}"])])


def _warn(text: str) -> None:
    file, line = user_line() or (__file__, 0)
    warnings.warn_explicit(text, AssumptionWarning, file, line)
