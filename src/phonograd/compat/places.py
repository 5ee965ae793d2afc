"""Tell where the contents of MXNet's modules are in this library.

``names.json`` lists the modules of MXNet 1.9.1 and, for each of them, the names that the module of the same path lacks
here, with the place of each: ``"collections:OrderedDict"``, ``"mxnet.base:string_types"``, ``"json"``. MXNet's modules
offer these names because they import them. ``tests/surface/write.py`` makes the file from the recorded surface.
"""

from __future__ import annotations

import functools
import importlib
import json
import pathlib
from types import ModuleType
from typing import Any

from ..core.base.modules import CompleteModule, stored_names
from .locations import ALIAS, LIBRARY
from .renamed import RENAMED

__all__ = [
    "ABSENT",
    "ALIAS",
    "LIBRARY",
    "MOVED",
    "SHORT_NAMES",
    "VirtualModule",
    "advice",
    "is_module_of_mxnet",
    "resolve",
    "shared",
]

#: MXNet modules whose contents are in another module of the library
MOVED = {
    "contrib.ndarray": "ndarray.contrib",
    "contrib.onnx.onnx2mx": "contrib.onnx",
    "contrib.onnx.onnx2mx.import_model": "contrib.onnx",
    "contrib.onnx.onnx2mx.import_to_gluon": "contrib.onnx",
    "contrib.symbol": "symbol.contrib",
    "error": "base",
    "image.image": "image",
    "img": "image",
    "init": "initializer",
    "io.io": "io",
    "io.utils": "io.arrays",
    "kv": "kvstore",
    "misc": "lr_scheduler",
    "mod": "module",
    "mon": "monitor",
    "nd": "ndarray",
    "ndarray._internal": "ndarray._internal",
    "ndarray.gen__internal": "ndarray._internal",
    "ndarray.gen_contrib": "ndarray.contrib",
    "ndarray.gen_image": "ndarray.image",
    "ndarray.gen_linalg": "ndarray.linalg",
    "ndarray.gen_op": "ndarray.op",
    "ndarray.gen_random": "ndarray.random",
    "ndarray.gen_sparse": "ndarray.sparse",
    "ndarray.ndarray": "ndarray",
    "ndarray.numpy": "numpy",
    "ndarray.numpy._internal": "numpy",
    "ndarray.numpy._op": "numpy",
    "ndarray.numpy.linalg": "numpy.linalg",
    "ndarray.numpy.random": "numpy.random",
    "ndarray.numpy_extension": "numpy_extension",
    "ndarray.numpy_extension._op": "numpy_extension",
    "ndarray.numpy_extension.image": "numpy_extension.image",
    "ndarray.numpy_extension.random": "numpy_extension.random",
    "ndarray.op": "ndarray.op",
    "ndarray.register": "ndarray",
    "ndarray.utils": "ndarray",
    "np": "numpy",
    "npx": "numpy_extension",
    "numpy._op": "numpy",
    "numpy.arrayprint": "numpy",
    "numpy.fallback_linalg": "numpy.linalg",
    "numpy.function_base": "numpy",
    "numpy.io": "numpy",
    "numpy.stride_tricks": "numpy",
    "numpy.utils": "numpy",
    "numpy_extension._op": "numpy_extension",
    "numpy_extension.utils": "numpy_extension",
    "onnx": "contrib.onnx",
    "onnx.mx2onnx": "contrib.onnx",
    "onnx.mx2onnx._export_model": "contrib.onnx",
    "rnd": "random",
    "rnn.io": "rnn",
    "rnn.rnn": "rnn",
    "rnn.rnn_cell": "rnn",
    "sym": "symbol",
    "symbol.gen__internal": "symbol._internal",
    "symbol.gen_contrib": "symbol.contrib",
    "symbol.gen_image": "symbol.image",
    "symbol.gen_linalg": "symbol.linalg",
    "symbol.gen_op": "symbol.op",
    "symbol.gen_random": "symbol.random",
    "symbol.gen_sparse": "symbol.sparse",
    "symbol.numpy": "symbol.np",
    "symbol.numpy._internal": "symbol.np",
    "symbol.numpy._op": "symbol.np",
    "symbol.numpy._symbol": "symbol.np",
    "symbol.numpy.linalg": "symbol.np.linalg",
    "symbol.numpy.random": "symbol.np.random",
    "symbol.numpy_extension": "symbol.npx",
    "symbol.numpy_extension._op": "symbol.npx",
    "symbol.numpy_extension.image": "symbol.npx.image",
    "symbol.numpy_extension.random": "symbol.npx.random",
    "symbol.register": "symbol",
    "symbol.symbol": "symbol",
    "viz": "visualization",
}

#: modules that MXNet itself offers under a second name
SHORT_NAMES = frozenset(["img", "init", "kv", "mod", "mon", "nd", "np", "npx", "onnx", "rnd", "sym", "viz"])

#: modules of MXNet 1.9.1 that this library lacks, with advice; each stands for the modules below it
ABSENT = {
    "rtc": "phonograd has no GPU support",
    "tvmop": "phonograd has no TVM operators",
    "space": "phonograd has no TVM operators",
    "library": "operators are written in Python; see CONTRIBUTING.md",
    "torch": "use DLPack: nd.from_dlpack and torch.from_dlpack share memory",
    "th": "use DLPack: nd.from_dlpack and torch.from_dlpack share memory",
    "_ctypes": "phonograd has no C library",
    "_ffi": "phonograd has no C library",
    "_api_internal": "phonograd has no C library",
    "ndarray.numpy._api_internal": "phonograd has no C library",
}


def advice(part: str) -> str | None:
    """Return the reason why a module of MXNet is absent, and what to use instead, or None."""
    while part:
        if part in ABSENT:
            return ABSENT[part]
        part = part.rpartition(".")[0]
    return None


@functools.cache
def _table() -> dict[str, dict[str, str]]:
    """Return {module of MXNet: {name: place}}."""
    text = pathlib.Path(__file__).with_name("names.json").read_text(encoding="utf-8")
    return {
        module: {name: place for place, names in places.items() for name in names.split()} | RENAMED.get(module, {})
        for module, places in json.loads(text).items()
    }


def is_module_of_mxnet(part: str) -> bool:
    """Return whether MXNet has a module of this path below ``mxnet``."""
    return f"{ALIAS}.{part}" in _table()


def shared(module: str) -> dict[str, str]:
    """Return the names that a module of MXNet imports from elsewhere and that the library's module lacks."""
    return _table().get(module, {})


def resolve(place: str) -> Any:
    """Return the object at a place, a module or ``module:name``."""
    module, _, name = place.partition(":")
    found: Any = importlib.import_module(module)
    for part in name.split(".") if name else ():
        found = getattr(found, part)
    return found


class VirtualModule(CompleteModule):
    """A module of MXNet whose contents are in other modules of the library.

    It looks up each name when it is used, first among the names that MXNet's module imports, then in the module of the
    library that holds its contents.
    """

    def __init__(self, name: str, contents: ModuleType | None) -> None:
        super().__init__(name, f"The names of MXNet's {name}, provided by {LIBRARY}.")
        stored_names(self)["_contents"] = contents
        self.__path__: list[str] = []  # the import system asks for it before it imports modules below

    def __getattr__(self, name: str) -> Any:
        place = shared(self.__name__).get(name)
        if place is not None:
            return resolve(place)
        contents = stored_names(self)["_contents"]
        if contents is None or (name.startswith("__") and name != "__all__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        return getattr(contents, name)

    def __dir__(self) -> list[str]:
        contents = stored_names(self)["_contents"]
        return sorted({*shared(self.__name__), *(dir(contents) if contents is not None else ())})
