"""nd: MXNet's imperative array namespace. Its functions are the registered operators, created on first use."""

from __future__ import annotations

import contextlib
import importlib
import sys
import warnings
from typing import TYPE_CHECKING, Any

from ..core.base.devices import Context, cpu, cpu_pinned, current_context, gpu
from ..core.base.dtypes import CODES, public_type
from ..core.base.modules import make_complete
from ..core.plan.cache import PREPARING, REPEATED, STARTED, repeating
from ..core.trace.trace import waitall
from . import adamw, control, graphs, random, sparse
from .array import NDArray
from .creation import arange, array, concatenate, empty, eye, from_numpy, full, linspace, moveaxis, ones, zeros
from .functions import histogram, matmul, onehot_encode, reset_arrays, split_v2
from .namespaces import Namespace, hint, lookup, public_names
from .params import load, load_frombuffer, save
from .protocols import from_dlpack, to_dlpack

to_dlpack_for_read = to_dlpack_for_write = to_dlpack

if TYPE_CHECKING:
    from . import contrib, image, linalg, op

    _internal: Any
else:
    contrib = Namespace(
        "phonograd.ndarray.contrib",
        "_contrib_",
        "Operators of MXNet's nd.contrib, loops and branches.",
        adamw_update=adamw.adamw_update,
        boolean_mask=control.boolean_mask,
        cond=control.cond,
        dgl_adjacency=graphs.dgl_adjacency,
        dgl_subgraph=graphs.dgl_subgraph,
        edge_id=graphs.edge_id,
        foreach=control.foreach,
        mp_adamw_update=adamw.mp_adamw_update,
        multi_adamw_update=adamw.multi_adamw_update,
        multi_lamb_update=adamw.multi_lamb_update,
        multi_mp_adamw_update=adamw.multi_mp_adamw_update,
        multi_mp_lamb_update=adamw.multi_mp_lamb_update,
        rand_zipfian=random.rand_zipfian,
        while_loop=control.while_loop,
    )
    image = Namespace("phonograd.ndarray.image", "_image_", "Images (height, width, channel): size, colors, tensors.")
    linalg = Namespace("phonograd.ndarray.linalg", "_linalg_", "Linear algebra: factorizations, solves, triangles.")
    op = Namespace("phonograd.ndarray.op", "", "All operators by their plain names.", reset_arrays=reset_arrays)
    _internal = Namespace("phonograd.ndarray._internal", "_", "Operators whose names begin with an underscore.")
    for _module in (contrib, image, linalg, op, _internal):
        sys.modules[_module.__name__] = _module


def _numpy_namespaces() -> list[Any]:
    """Return the modules of mx.np and mx.npx that are loaded."""
    return [module for name, module in list(sys.modules.items()) if name.startswith("phonograd.numpy")]


#: the machine code of calls, if a helper has prepared it
_native_calls: list[Any] = []


def _native_code() -> Any:
    """Install the machine code of hot functions, and return that of calls, which refers to some of them."""
    from ..core.array.fastcall import native_install
    from ..core.backward import machine_code

    machine_code.install()
    return native_install.prepare(NDArray)


def _prepare_native_calls() -> None:
    with contextlib.suppress(Exception):
        # an error is told by the installation, which tries again
        _native_calls.append(_native_code())


#: this module, whose name may become MXNet's
_this = sys.modules[__name__]


def _install_native_calls() -> None:
    from ..core.array.fastcall.native_install import install

    try:
        calls = _native_calls.pop() if _native_calls else _native_code()
        if calls is not None:
            modules = (_this, contrib, image, linalg, op, _internal, *_numpy_namespaces())
            install(calls, NDArray, modules)
    except Exception as error:  # noqa: BLE001 - native calls are optional, and the current evaluation must not fail
        warnings.warn(
            f"native operator calls are unavailable, so calls are slower: {type(error).__name__}: {error}. "
            "Set PHONOGRAD_NATIVE_CALLS=0 to skip them.",
            RuntimeWarning,
            stacklevel=2,
        )


def _install_prebuilt() -> None:
    """Install the machine code of calls and hot functions if nothing has to be compiled, which takes long."""
    from ..core.backward import machine_code

    with contextlib.suppress(Exception):
        # an error is told by the installation, which tries again
        if machine_code.is_prebuilt():
            repeating(at_once=True)


STARTED.connect(_install_prebuilt)
PREPARING.connect(_prepare_native_calls)
REPEATED.connect(_install_native_calls)

# tables that scripts import from mxnet.ndarray.ndarray
_DTYPE_NP_TO_MX: dict[Any, int] = {None: -1, **{public_type(dtype): code for dtype, code in CODES.items()}}
_DTYPE_MX_TO_NP = {code: kind for kind, code in _DTYPE_NP_TO_MX.items()}
_GRAD_REQ_MAP = {"null": 0, "write": 1, "add": 3}

# F.np and F.npx, where F is this module, for blocks written for mx.np
_BESIDE = {"np": "phonograd.numpy", "npx": "phonograd.numpy_extension"}

__all__ = [
    "Context",
    "NDArray",
    "arange",
    "array",
    "concatenate",
    "contrib",
    "cpu",
    "cpu_pinned",
    "current_context",
    "empty",
    "eye",
    "from_dlpack",
    "from_numpy",
    "full",
    "gpu",
    "histogram",
    "image",
    "linalg",
    "linspace",
    "load",
    "load_frombuffer",
    "matmul",
    "moveaxis",
    "onehot_encode",
    "ones",
    "op",
    "random",
    "reset_arrays",
    "save",
    "sparse",
    "split_v2",
    "to_dlpack_for_read",
    "to_dlpack_for_write",
    "waitall",
    "zeros",
]


if TYPE_CHECKING:
    from .op import *  # noqa: F403

    __all__ += op.__all__
else:

    def __getattr__(name: str) -> Any:
        if name in ("ndarray", "utils"):
            # in MXNet, NDArray is in nd.ndarray and the file functions are in nd.utils
            return _this
        if name in _BESIDE:
            globals()[name] = importlib.import_module(_BESIDE[name])
            return globals()[name]
        function = None if name.startswith("__") else lookup("", name) or lookup("_", name)
        if function is None:
            raise AttributeError(f"module 'phonograd.nd' has no attribute {name!r}{hint(name, __dir__())}")
        globals()[name] = function
        return function


def __dir__() -> list[str]:
    return sorted({*__all__, *public_names()})


make_complete(__name__)
