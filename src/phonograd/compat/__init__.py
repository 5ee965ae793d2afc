"""``import mxnet`` without MXNet: :func:`install_as_mxnet` lets unmodified old scripts run on this library.

After the call, the module ``mxnet`` forwards every name of :mod:`phonograd` (only ``__version__`` is MXNet's), and
``mxnet.a.b`` is the same module object as ``phonograd.a.b``. Finders at the front of :data:`sys.meta_path`
(:mod:`.finder`) create these modules on first import, and :mod:`.places` knows where MXNet's names are. If a script
imports a part of MXNet that phonograd lacks, the finder raises an error with advice.
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
from types import ModuleType

from .finder import AliasFinder, CompletingFinder, MXNetModule, complete, restore
from .horovod import HorovodFinder
from .numpy_aliases import give_advice, remove_names, restore_names, stop_advice
from .places import ALIAS, LIBRARY

__all__ = ["install_as_mxnet", "the_module", "uninstall"]

_lock = threading.RLock()


def _ours(module: ModuleType | None) -> bool:
    """Return whether a module named mxnet is this library's, or the stub that is being imported."""
    if module is None or isinstance(module, MXNetModule):
        return True
    file = getattr(module, "__file__", None) or ""
    return file.startswith(os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep)


def install_as_mxnet(numpy_aliases: bool = False) -> ModuleType:
    """Make ``import mxnet`` and its submodules refer to this library, and return the module ``mxnet``.

    Further calls have no effect. Call it before any import of MXNet.

    Parameters
    ----------
    numpy_aliases
        Whether ``numpy`` offers names again that NumPy 1.24 and 2 removed: ``np.int``, ``np.float``, ``np.NaN``, ...
        ``np.array`` then also takes nested lists of different lengths. Uncaught errors that such code causes without it
        suggest this argument.

    Raises
    ------
    RuntimeError
        If a real MXNet is already imported.

    >>> install_as_mxnet().__version__
    '1.9.1'
    >>> import mxnet.autograd, phonograd
    >>> mxnet.autograd is phonograd.autograd
    True
    >>> uninstall()
    """
    with _lock:
        existing = sys.modules.get(ALIAS)
        if not _ours(existing):
            raise RuntimeError(
                f"A real MXNet is already imported (from {getattr(existing, '__file__', 'an unknown place')}). "
                f"Call {LIBRARY}.install_as_mxnet() before the first `import mxnet`."
            )
        if numpy_aliases:
            restore_names()
        give_advice()
        if not any(isinstance(finder, AliasFinder) for finder in sys.meta_path):
            sys.meta_path[:0] = [AliasFinder(), CompletingFinder(), HorovodFinder()]
            for module in [module for name, module in list(sys.modules.items()) if name.startswith(LIBRARY + ".")]:
                complete(module)
        if not isinstance(existing, MXNetModule):
            sys.modules.pop(ALIAS, None)
        return importlib.import_module(ALIAS)


def the_module() -> ModuleType:
    """Return the library under the program's name for it: ``mxnet`` if installed as such, else its own."""
    alias = sys.modules.get(ALIAS)
    return alias if isinstance(alias, MXNetModule) else sys.modules[LIBRARY]


def uninstall() -> None:
    """Undo :func:`install_as_mxnet`: ``import mxnet`` looks for a real MXNet again."""
    with _lock:
        sys.meta_path[:] = [
            finder for finder in sys.meta_path if not isinstance(finder, AliasFinder | CompletingFinder | HorovodFinder)
        ]
        HorovodFinder.forget()
        restore()
        remove_names()
        stop_advice()
        if isinstance(sys.modules.get(ALIAS), MXNetModule):
            for name in [name for name in sys.modules if name == ALIAS or name.startswith(ALIAS + ".")]:
                del sys.modules[name]
