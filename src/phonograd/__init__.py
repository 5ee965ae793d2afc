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
import os
import sys
from typing import Any

from .core.base import collector as _collector

with _collector.paused(stay=True):
    from . import autograd, context, ndarray, settings
    from . import ndarray as nd
    from ._version import __version__
    from .core import ops as _operators
    from .core.base.devices import Context, cpu, cpu_pinned, current_context, gpu, num_gpus
    from .core.base.errors import MXNetError
    from .ndarray import NDArray, waitall
    from .operator import Custom as _Custom

# Optional modules load on first use.
_MODULES = {
    name: name
    for name in (
        "attribute",
        "base",
        "callback",
        "compat",
        "contrib",
        "curves",
        "debug",
        "distributed",
        "engine",
        "executor",
        "executor_manager",
        "explain",
        "futures",
        "gluon",
        "image",
        "initializer",
        "io",
        "kvstore",
        "libinfo",
        "log",
        "lr_scheduler",
        "metric",
        "model",
        "module",
        "monitor",
        "name",
        "notebook",
        "numpy",
        "numpy_extension",
        "operator",
        "ops",
        "optimizer",
        "profiler",
        "random",
        "recordio",
        "registry",
        "rnn",
        "runtime",
        "symbol",
        "test_utils",
        "testing",
        "util",
        "visualization",
    )
} | {
    "demo": "cli.demo",
    "img": "image",
    "init": "initializer",
    "kv": "kvstore",
    "mod": "module",
    "mon": "monitor",
    "np": "numpy",
    "npx": "numpy_extension",
    "onnx": "contrib.onnx",
    "rnd": "random",
    "sym": "symbol",
    "viz": "visualization",
}
_NAMES = {
    "AttrScope": "attribute",
    "compile": "core.capture.compiled",
    "install_as_mxnet": "compat",
    "is_np_array": "util",
    "is_np_shape": "util",
    "memory_info": "profiler.memory_info",
    "np_array": "util",
    "np_shape": "util",
    "progress": "progress_bar",
    "set_np": "util",
    "set_np_shape": "util",
    "use_np": "util",
    "use_np_array": "util",
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
        from .core.base.foreign_names import unknown_name
        from .core.base.modules import stored_names

        if name in stored_names(nd) and not name.startswith("_"):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}: write mx.nd.{name}")
        raise unknown_name(__name__, name, __dir__())
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, *_MODULES, *_NAMES})


def _announce_plans() -> None:
    """Print plans as they are created if the settings request it."""
    if settings.current().explain or f"{__name__}.explain" in sys.modules:
        __getattr__("explain").announce(settings.current().explain)


settings.CHANGED.connect(_announce_plans)
_announce_plans()

if os.environ.get("MXNET_PROFILER_AUTOSTART") == "1":
    __getattr__("profiler")  # importing it starts the profiler

if "IPython" in sys.modules:
    from .core.base.interactive import shorten_tracebacks as _shorten_tracebacks

    _shorten_tracebacks()

# MXNet calls custom operators through the array namespaces; those modules must not import differentiation code.
for _space in (ndarray, ndarray.op):
    setattr(_space, "Custom", _Custom)  # noqa: B010
del _operators, _Custom, _space
