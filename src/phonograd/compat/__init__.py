"""``import mxnet`` without MXNet: :func:`install_as_mxnet` lets unmodified old scripts run on this library.

After the call, the module ``mxnet`` forwards every name of :mod:`phonograd` (only ``__version__`` is MXNet's), and
``mxnet.a.b`` is the same module object as ``phonograd.a.b``. A finder at the front of :data:`sys.meta_path` creates
these modules on first import. If a script imports a part of MXNet that phonograd lacks, the finder raises an error
with advice.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import os
import sys
import threading
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from .. import libinfo
from .horovod import HorovodFinder

__all__ = ["install_as_mxnet", "the_module", "uninstall"]

_LIBRARY = "phonograd"
_ALIAS = "mxnet"
_lock = threading.RLock()

#: MXNet modules whose contents are in another module of the library
_MOVED = {
    "nd": "ndarray",
    "np": "numpy",
    "npx": "numpy_extension",
    "sym": "symbol",
    "rnd": "random",
    "viz": "visualization",
    "init": "initializer",
    "mon": "monitor",
    "mod": "module",
    "kv": "kvstore",
    "img": "image",
    "error": "base",
    "ndarray.ndarray": "ndarray",
    "ndarray.op": "ndarray",
    "ndarray._internal": "ndarray",
    "ndarray.utils": "ndarray",
    "io.io": "io",
    "io.utils": "io",
    "image.image": "image",
    "rnn.io": "rnn",
    "rnn.rnn": "rnn",
    "rnn.rnn_cell": "rnn",
    "symbol.symbol": "symbol",
    "contrib.ndarray": "ndarray.contrib",
    "contrib.symbol": "symbol.contrib",
}

#: modules of MXNet 1.9.1 that this library lacks, with advice
_ADVICE = {
    "rtc": "phonograd has no GPU support",
    "tvmop": "phonograd has no TVM operators",
    "library": "operators are written in Python; see CONTRIBUTING.md",
    "torch": "use DLPack: nd.from_dlpack and torch.from_dlpack share memory",
    "th": "use DLPack: nd.from_dlpack and torch.from_dlpack share memory",
}


class _MXNetModule(ModuleType):
    """The module ``mxnet``; it takes missing names from the library."""

    def __getattr__(self, name: str) -> Any:
        if name == "__all__":
            return [public for public in dir(self) if not public.startswith("_")]
        library = importlib.import_module(_LIBRARY)
        try:
            return getattr(library, name)
        except AttributeError:
            hint = f": {_ADVICE[name]}" if name in _ADVICE else ""
            raise AttributeError(f"module {_ALIAS!r} (here {_LIBRARY}) has no attribute {name!r}{hint}") from None

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *dir(importlib.import_module(_LIBRARY))})


class _AliasFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Find ``mxnet`` and its submodules in the library."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return the spec of ``mxnet`` or one of its submodules; None for all other modules.

        Raises
        ------
        ModuleNotFoundError
            If the library lacks this part; the message gives advice.
        """
        if fullname != _ALIAS and not fullname.startswith(_ALIAS + "."):
            return None
        part = fullname[len(_ALIAS) + 1 :]
        module = _import_part(part)
        return importlib.machinery.ModuleSpec(
            fullname, self, origin=getattr(module, "__file__", None), is_package=hasattr(module, "__path__")
        )

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        """Return the module ``mxnet`` itself; None for its submodules, which exist already."""
        return _MXNetModule(_ALIAS, f"MXNet's interface, provided by {_LIBRARY}.") if spec.name == _ALIAS else None

    def exec_module(self, module: ModuleType) -> None:
        """Put the library's own module into :data:`sys.modules` under the alias."""
        if module.__name__ != _ALIAS:
            # The import system returns the entry of sys.modules at the end, not the module it created.
            sys.modules[module.__name__] = _import_part(module.__name__[len(_ALIAS) + 1 :])
            return
        module.__file__ = sys.modules[_LIBRARY].__file__
        vars(module)["__version__"] = libinfo.__version__


def _import_part(part: str) -> ModuleType:
    """Return the module of the library behind ``mxnet.<part>``."""
    if not part:
        return importlib.import_module(_LIBRARY)
    for candidate in (part, _MOVED.get(part)):
        if candidate is None:
            continue
        name = f"{_LIBRARY}.{candidate}"
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name is None or not (name + ".").startswith(error.name + "."):
                raise  # another module is missing, inside a module that exists
    # The part may not be a module, but its parent may have a module under that name.
    parent, _, last = part.rpartition(".")
    found = getattr(_import_part(parent), last, None)
    if isinstance(found, ModuleType):
        return found
    top = part.split(".")[0]
    advice = _ADVICE.get(top, f"see the list in docs/compatibility.md, or dir({_LIBRARY})")
    # Use the library's name, not the alias: `from mxnet import x` hides errors about "mxnet.x" itself.
    raise ModuleNotFoundError(
        f"No module named '{_ALIAS}.{part}': {_LIBRARY} does not provide this part of MXNet ({advice})",
        name=f"{_LIBRARY}.{part}",
    )


def _ours(module: ModuleType | None) -> bool:
    """Return whether a module named mxnet is this library's, or the stub that is being imported."""
    if module is None or isinstance(module, _MXNetModule):
        return True
    file = getattr(module, "__file__", None) or ""
    return file.startswith(os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep)


def install_as_mxnet() -> ModuleType:
    """Make ``import mxnet`` and its submodules refer to this library, and return the module ``mxnet``.

    Further calls have no effect. Call it before any import of MXNet.

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
        existing = sys.modules.get(_ALIAS)
        if not _ours(existing):
            raise RuntimeError(
                f"A real MXNet is already imported (from {getattr(existing, '__file__', 'an unknown place')}). "
                f"Call {_LIBRARY}.install_as_mxnet() before the first `import mxnet`."
            )
        if not any(isinstance(finder, _AliasFinder) for finder in sys.meta_path):
            sys.meta_path[:0] = [_AliasFinder(), HorovodFinder()]
        if not isinstance(existing, _MXNetModule):
            sys.modules.pop(_ALIAS, None)
        return importlib.import_module(_ALIAS)


def the_module() -> ModuleType:
    """Return the library under the program's name for it: ``mxnet`` if installed as such, else its own."""
    alias = sys.modules.get(_ALIAS)
    return alias if isinstance(alias, _MXNetModule) else sys.modules[_LIBRARY]


def uninstall() -> None:
    """Undo :func:`install_as_mxnet`: ``import mxnet`` looks for a real MXNet again."""
    with _lock:
        sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, (_AliasFinder, HorovodFinder))]
        HorovodFinder.forget()
        if isinstance(sys.modules.get(_ALIAS), _MXNetModule):
            for name in [name for name in sys.modules if name == _ALIAS or name.startswith(_ALIAS + ".")]:
                del sys.modules[name]
