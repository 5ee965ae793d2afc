"""phonograd: MXNet's imperative arrays and autograd, recorded lazily, differentiable to every order.

>>> import phonograd as mx
>>> x = mx.nd.array([1.0, 2.0, 3.0])
>>> x.attach_grad()
>>> with mx.autograd.record():
...     y = (x**2).sum()
>>> y.backward()
>>> x.grad
<BLANKLINE>
[2. 4. 6.]
<NDArray 3 @cpu(0)>
"""

from __future__ import annotations

import importlib
from typing import Any

from . import autograd, context, ndarray, settings
from . import ndarray as nd
from . import operators as _operators
from ._version import __version__
from .context import Context, cpu, cpu_pinned, current_context, gpu, num_gpus
from .custom import Custom as _Custom
from .errors import MXNetError
from .ndarray import NDArray, waitall

# Modules that a program may never need are loaded when they are first used.
_MODULES = {
    name: name
    for name in (
        "attribute",
        "base",
        "compat",
        "contrib",
        "demo",
        "engine",
        "explain",
        "futures",
        "libinfo",
        "name",
        "operator",
        "ops",
        "profiler",
        "random",
        "runtime",
        "symbol",
        "test_utils",
        "testing",
        "util",
    )
} | {"rnd": "random", "sym": "symbol"}
_NAMES = {
    "AttrScope": "attribute",
    "compile": "compilation",
    "install_as_mxnet": "compat",
    "is_np_array": "util",
    "is_np_shape": "util",
    "np_shape": "util",
    "set_np": "util",
    "set_np_shape": "util",
    "use_np": "util",
    "use_np_shape": "util",
}

__all__ = [
    "Context",
    "MXNetError",
    "NDArray",
    "__version__",
    "autograd",
    "context",
    "cpu",
    "cpu_pinned",
    "current_context",
    "gpu",
    "nd",
    "ndarray",
    "num_gpus",
    "settings",
    "waitall",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        value: Any = importlib.import_module(f"{__name__}.{_MODULES[name]}")
    elif name in _NAMES:
        value = getattr(importlib.import_module(f"{__name__}.{_NAMES[name]}"), name)
    else:
        from .errors import nearest

        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{nearest(name, __dir__())}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, *_MODULES, *_NAMES})


# MXNet calls custom operators through the namespace of arrays, which knows nothing of differentiation.
setattr(ndarray, "Custom", _Custom)  # noqa: B010
del _operators, _Custom
