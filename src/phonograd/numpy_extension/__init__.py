"""mx.npx: neural network operators and others that NumPy lacks, for mx.np arrays.

They are operators of ``mx.nd`` under MXNet's names, which their declarations state (``npx=``); results computed from
``mx.np`` arrays are ``mx.np`` arrays. Names are looked up on first use.

>>> from phonograd import np, npx
>>> npx.relu(np.array([-1.0, 2.0]))
array([0., 2.])
"""

from __future__ import annotations

import importlib
from typing import Any

from ..core.array.call import function_of
from ..core.base.devices import Context, cpu, cpu_pinned, current_context, gpu, num_gpus
from ..core.base.errors import nearest
from ..core.base.modules import make_complete
from ..core.graph.operator import NAMES
from ..core.trace.rng import seed
from ..core.trace.trace import waitall
from ..util import get_cuda_compute_capability, is_np_array, is_np_shape, reset_np, set_np

__all__ = [
    "Context",
    "cpu",
    "cpu_pinned",
    "current_context",
    "get_cuda_compute_capability",
    "gpu",
    "is_np_array",
    "is_np_shape",
    "num_gpus",
    "reset_np",
    "seed",
    "set_np",
    "waitall",
]

#: names that are not single operators, by their module
_ELSEWHERE = {
    "cond": "..ndarray.control",
    "constraint_check": ".functions",
    "foreach": "..ndarray.control",
    "gpu_memory_info": "..context",
    "index_add": ".functions",
    "index_update": ".functions",
    "load": ".files",
    "masked_log_softmax": ".functions",
    "masked_softmax": ".functions",
    "nonzero": ".functions",
    "reshape": ".functions",
    "save": ".files",
    "savez": ".files",
    "while_loop": "..ndarray.control",
}
_MODULES = ("image", "random")


def __getattr__(name: str) -> Any:
    if name in NAMES["npx"]:
        value: Any = function_of(NAMES["npx"][name], name)
    elif name in _MODULES:
        value = importlib.import_module(f"{__name__}.{name}")
    elif name in _ELSEWHERE:
        value = getattr(importlib.import_module(_ELSEWHERE[name], __name__), name)
    else:
        raise AttributeError(f"module 'phonograd.npx' has no attribute {name!r}{nearest(name, __dir__())}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, *NAMES["npx"], *_ELSEWHERE, *_MODULES})


make_complete(__name__)
