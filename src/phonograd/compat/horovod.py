"""``import horovod.mxnet`` and ``import byteps.mxnet`` for scripts that run on this library.

:class:`HorovodFinder` finds :mod:`phonograd.distributed.horovod` and :mod:`phonograd.distributed.byteps` under these
names. Other parts of an installed Horovod (``horovod.torch``) stay as they are.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Sequence
from types import ModuleType

__all__ = ["HorovodFinder"]

_PACKAGES = ("horovod", "byteps")
_INTERFACES = {f"{name}.mxnet": f"phonograd.distributed.{name}" for name in _PACKAGES}


class HorovodFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Find the interfaces, and empty packages around them where none is installed."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return the spec of an interface or of the package around it; None for all other modules."""
        if fullname in _INTERFACES:
            return importlib.machinery.ModuleSpec(fullname, self)
        if fullname in _PACKAGES and importlib.machinery.PathFinder.find_spec(fullname) is None:
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        return None

    def exec_module(self, module: ModuleType) -> None:
        """Put the library's own module into :data:`sys.modules` under the name of the interface."""
        if module.__name__ in _INTERFACES:
            sys.modules[module.__name__] = importlib.import_module(_INTERFACES[module.__name__])

    @staticmethod
    def forget() -> None:
        """Forget the modules that were found."""
        ours = set(_INTERFACES.values())
        for name in [*_INTERFACES, *_PACKAGES]:
            found = sys.modules.get(name)
            if found is not None and (found.__name__ in ours or isinstance(found.__loader__, HorovodFinder)):
                del sys.modules[name]
