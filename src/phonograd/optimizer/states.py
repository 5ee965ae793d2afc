"""The states of optimisers as bytes: pickles, as MXNet writes and reads them.

A pickle can call anything, so only what belongs into such a file is read: arrays, numbers, text, containers of these,
registered optimisers and schedulers of learning rates.
"""

from __future__ import annotations

import io
import pickle
import sys
from typing import Any

import numpy as np

from .. import lr_scheduler
from ..core.base.devices import Context
from ..ndarray.array import NDArray
from .optimizer import Optimizer

__all__ = ["dumps", "loads"]

_PROTOCOL = 4
_PLAIN = {
    ("builtins", "bytearray"),
    ("builtins", "complex"),
    ("builtins", "dict"),
    ("builtins", "frozenset"),
    ("builtins", "list"),
    ("builtins", "object"),
    ("builtins", "set"),
    ("builtins", "tuple"),
    ("_codecs", "encode"),
    ("collections", "OrderedDict"),
    ("collections", "defaultdict"),
    ("copyreg", "_reconstructor"),
    ("copy_reg", "_reconstructor"),
    ("numpy", "dtype"),
    ("numpy", "float32"),
    ("numpy", "float64"),
    ("numpy", "int32"),
    ("numpy", "int64"),
    ("numpy.core.multiarray", "scalar"),
    ("numpy._core.multiarray", "scalar"),
}


def _mxnet_name(value: Any) -> tuple[str, str] | None:
    """Return the module and name that a class of this library has in MXNet."""
    module = getattr(value, "__module__", None)
    if not isinstance(value, type) or not isinstance(module, str) or not module.startswith("phonograd."):
        return None
    if value is NDArray:
        return "mxnet.ndarray.ndarray", "NDArray"
    if value is Context:
        return "mxnet.context", "Context"
    if issubclass(value, Optimizer):
        part = "contrib" if module.endswith(".contrib") else "optimizer"
        return f"mxnet.optimizer.{part}", value.__name__
    if issubclass(value, lr_scheduler.LRScheduler):
        return "mxnet.lr_scheduler", value.__name__
    return None


class _Writer(pickle._Pickler):
    """Writes classes of this library under the names they have in MXNet."""

    def save_global(self, obj: Any, name: str | None = None) -> None:
        """Write a reference to a class or function."""
        known = _mxnet_name(obj)
        if known is None:
            super().save_global(obj, name)  # type: ignore[misc]
            return
        self.write(pickle.GLOBAL + "\n".join([*known, ""]).encode())  # type: ignore[attr-defined]
        self.memoize(obj)  # type: ignore[attr-defined]


class _Reader(pickle.Unpickler):
    """Reads references to what may stand in a file of states, and to nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        """Return what a reference stands for."""
        if name == "NDArray" and module.startswith(("mxnet.ndarray", "phonograd.ndarray")):
            return NDArray
        if (module, name) in (("mxnet.context", "Context"), ("phonograd.context", "Context")):
            return Context
        found: Any = None
        if module.startswith(("mxnet.optimizer", "phonograd.optimizer")):
            found = Optimizer.opt_registry.get(name.lower())
        elif module in ("mxnet.lr_scheduler", "phonograd.lr_scheduler") and name in lr_scheduler.__all__:
            found = getattr(lr_scheduler, name)
        elif (module, name) in _PLAIN:
            found = np.dtype(name).type if module == "numpy" and name != "dtype" else super().find_class(module, name)
        elif module in sys.modules:
            # a class of the program that reads the file, already imported by it
            own = getattr(sys.modules[module], name, None)
            if isinstance(own, type) and issubclass(own, (Optimizer, lr_scheduler.LRScheduler)):
                found = own
        if found is None:
            raise pickle.UnpicklingError(
                f"the states refer to {module}.{name}, which is neither an array nor a registered optimizer or "
                "learning rate scheduler; if it is one of yours, import its module first"
            )
        return found


def dumps(states: Any) -> bytes:
    """Return states as bytes."""
    file = io.BytesIO()
    _Writer(file, _PROTOCOL).dump(states)
    return file.getvalue()


def loads(data: bytes) -> Any:
    """Return the states that some bytes stand for."""
    return _Reader(io.BytesIO(data)).load()
