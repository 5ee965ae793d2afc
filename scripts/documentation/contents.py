"""List the pages of the API reference: which names of which module each page describes.

Takes the public namespaces and the operator registry; hands :class:`~reference.Page` objects to :mod:`hooks`.
"""

from __future__ import annotations

import importlib
import inspect
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import phonograd as mx
from phonograd.core.graph.operator import REGISTRY, Operator
from phonograd.numpy.declaration import FUNCTIONS
from reference import Item, Page

__all__ = ["FOLDERS", "pages"]

#: operators by the folder of core/ops that declares them: the end of an address, and a title
_FAMILIES = {
    "math": "mathematics and elementwise functions",
    "shape": "shapes, indexing and creation",
    "reduce": "reductions and sorting",
    "linalg": "products and linear algebra",
    "nn": "layers of networks",
    "random": "random numbers",
    "vision": "images and detection",
    "update": "optimizer updates",
}

#: functions of mx.np by the file that declares them
_NUMPY = {
    "creation": ("creation",),
    "elementwise": ("elementwise", "arithmetic", "math", "promotion"),
    "shape": ("shaping", "joining", "indexing", "diagonals", "shape"),
    "reductions": ("reductions", "statistics", "selection", "ordering", "reduce"),
    "products": ("products", "einsum", "linalg"),
    "more": (),
}
_NUMPY_TITLES = {
    "creation": "creation",
    "elementwise": "elementwise functions",
    "shape": "shapes, joining and indexing",
    "reductions": "reductions, statistics and sorting",
    "products": "products of arrays",
    "more": "further functions",
}

#: modules with one page each: heading of the navigation, address, title, module
_MODULES = {
    "Arrays": [
        ("mx", "mx", ""),
        ("nd-random", "mx.nd.random", "ndarray.random"),
        ("nd-linalg", "mx.nd.linalg", "ndarray.linalg"),
        ("nd-contrib", "mx.nd.contrib", "ndarray.contrib"),
        ("nd-image", "mx.nd.image", "ndarray.image"),
        ("nd-sparse", "mx.nd.sparse", "ndarray.sparse"),
        ("np-linalg", "mx.np.linalg", "numpy.linalg"),
        ("np-random", "mx.np.random", "numpy.random"),
        ("npx", "mx.npx", "numpy_extension"),
        ("npx-image", "mx.npx.image", "numpy_extension.image"),
        ("random", "mx.random", "random"),
    ],
    "Gradients and execution": [
        ("autograd", "mx.autograd", "autograd"),
        ("symbol", "mx.sym", "symbol"),
        ("executor", "mx.executor", "executor"),
        ("operator", "mx.operator", "operator"),
        ("engine", "mx.engine", "engine"),
        ("settings", "mx.settings", "settings"),
    ],
    "Gluon": [
        ("gluon", "mx.gluon", "gluon"),
        ("gluon-nn", "mx.gluon.nn", "gluon.nn"),
        ("gluon-rnn", "mx.gluon.rnn", "gluon.rnn"),
        ("gluon-loss", "mx.gluon.loss", "gluon.loss"),
        ("gluon-data", "mx.gluon.data", "gluon.data"),
        ("gluon-vision", "mx.gluon.data.vision", "gluon.data.vision"),
        ("gluon-transforms", "mx.gluon.data.vision.transforms", "gluon.data.vision.transforms"),
        ("model-zoo", "mx.gluon.model_zoo.vision", "gluon.model_zoo.vision"),
        ("gluon-utils", "mx.gluon.utils", "gluon.utils"),
        ("estimator", "mx.gluon.contrib.estimator", "gluon.contrib.estimator"),
        ("gluon-contrib-nn", "mx.gluon.contrib.nn", "gluon.contrib.nn"),
        ("gluon-contrib-rnn", "mx.gluon.contrib.rnn", "gluon.contrib.rnn"),
    ],
    "Training": [
        ("optimizer", "mx.optimizer", "optimizer"),
        ("lr-scheduler", "mx.lr_scheduler", "lr_scheduler"),
        ("initializer", "mx.init", "initializer"),
        ("metric", "mx.metric", "metric"),
        ("callback", "mx.callback", "callback"),
        ("curves", "mx.curves", "curves"),
        ("module", "mx.mod", "module"),
        ("model", "mx.model", "model"),
        ("rnn", "mx.rnn", "rnn"),
        ("monitor", "mx.mon", "monitor"),
    ],
    "Data": [
        ("io", "mx.io", "io"),
        ("recordio", "mx.recordio", "recordio"),
        ("image", "mx.image", "image"),
        ("text-embedding", "mx.contrib.text.embedding", "contrib.text.embedding"),
        ("text-vocabulary", "mx.contrib.text.vocab", "contrib.text.vocab"),
        ("text-utils", "mx.contrib.text.utils", "contrib.text.utils"),
    ],
    "Several machines": [
        ("distributed", "mx.distributed", "distributed"),
        ("kvstore", "mx.kv", "kvstore"),
    ],
    "Seeing what happens": [
        ("profiler", "mx.profiler", "profiler"),
        ("explain", "mx.explain", "explain"),
        ("debug", "mx.debug", "debug"),
        ("visualization", "mx.viz", "visualization"),
    ],
    "Files": [
        ("onnx", "mx.onnx", "contrib.onnx"),
        ("safetensors", "mx.contrib.safetensors", "contrib.safetensors"),
    ],
    "Testing": [
        ("test-utils", "mx.test_utils", "test_utils"),
    ],
}

#: the headings of the navigation
FOLDERS = list(_MODULES)
_PRIVATE = ("from_record", "label_storage", "plain_name")


def pages() -> Iterator[tuple[str, Page]]:
    """Return each page with the heading under which the navigation lists it."""
    arrays = {address: _module_page(address, path, module) for address, path, module in _MODULES["Arrays"]}
    yield "Arrays", arrays.pop("mx")
    described = [Item("mx.nd.NDArray", mx.nd.NDArray)]
    yield "Arrays", Page("nd-array.md", "mx.nd.NDArray", "The array of `mx.nd`.", described)
    yield from [("Arrays", page) for page in _operators()]
    yield from [("Arrays", page) for address, page in arrays.items() if address.startswith("nd")]
    described = [Item("mx.np.ndarray", mx.np.ndarray)]
    yield "Arrays", Page("np-array.md", "mx.np.ndarray", "The array of `mx.np`, with NumPy's rules.", described)
    yield from [("Arrays", page) for page in _numpy()]
    yield from [("Arrays", page) for address, page in arrays.items() if not address.startswith("nd")]
    for folder, modules in _MODULES.items():
        if folder != "Arrays":
            yield from [(folder, _module_page(*module)) for module in modules]


def _operators() -> Iterator[Page]:
    """Return the pages of mx.nd: one for each family of operators, and one for the other functions."""
    families: dict[str, list[Item]] = {name: [] for name in (*_FAMILIES, "functions")}
    for name in dir(mx.nd):
        value = getattr(mx.nd, name)
        if name.startswith("_") or isinstance(value, (types.ModuleType, type)):
            continue
        declared = REGISTRY.get(name)
        family = declared.function.__module__.split(".")[3] if declared is not None else "functions"
        families[family if family in families else "functions"].append(Item(f"mx.nd.{name}", value))
    yield Page(
        "nd-functions.md",
        "mx.nd: making, saving and exchanging arrays",
        "Functions of `mx.nd` that are not operators.",
        families.pop("functions"),
    )
    for family, items in families.items():
        text = "Operators of `mx.nd`. They can be recorded, differentiated, and used in symbols under the same names."
        yield Page(f"nd-{family}-operators.md", f"mx.nd: {_FAMILIES[family]}", text, items)


def _numpy() -> Iterator[Page]:
    """Return the pages of mx.np, by kind of function."""
    kinds: dict[str, list[Item]] = {kind: [] for kind in _NUMPY}
    for name in dir(mx.np):
        value = getattr(mx.np, name)
        if name in FUNCTIONS and callable(value) and not isinstance(value, type):
            source = _source_of(FUNCTIONS[name])
            kind = next((kind for kind, sources in _NUMPY.items() if source in sources), "more")
            kinds[kind].append(Item(f"mx.np.{name}", value))
    for kind, items in kinds.items():
        if items:
            text = "Functions of `mx.np`. They follow NumPy's rules for shapes, dtypes and 0-d arrays."
            yield Page(f"np-{kind}.md", f"mx.np: {_NUMPY_TITLES[kind]}", text, items)


def _source_of(declared: Any) -> str:
    """Return the file of a function of mx.np, or the family of an operator."""
    function = inspect.unwrap(declared.function if isinstance(declared, Operator) else declared)
    parts = Path(function.__code__.co_filename).parts
    return parts[parts.index("ops") + 1] if "ops" in parts else Path(parts[-1]).stem


def _module_page(address: str, path: str, name: str) -> Page:
    module = importlib.import_module(f"phonograd.{name}" if name else "phonograd")
    page = Page(f"{address}.md", path, (module.__doc__ or "").partition("\n\n")[0].strip() if name else "")
    page.introduction = page.introduction.replace("\n", " ").replace(">>>", "")
    for public in _public_names(module):
        value = getattr(module, public)
        if name == "symbol" and callable(getattr(mx.nd, public, None)) and not isinstance(value, type):
            page.elsewhere.append((public, f"mx.nd.{public}"))
        elif name != "ndarray.sparse" or "sparse" in str(getattr(value, "__module__", "")):
            page.items.append(Item(f"{path}.{public}", value))
    if name == "symbol":
        page.introduction += (
            " Operators take symbols in place of arrays, and the same parameters as the functions of `mx.nd`; "
            "`name` names the result and `attr` adds attributes."
        )
    return page


def _public_names(module: types.ModuleType) -> Iterator[str]:
    """Return the names that a module offers: those of ``__all__``, or all that the library has made."""
    offered = getattr(module, "__all__", None)
    # their names load on first use
    is_lazy = module is mx or module.__name__.startswith(("phonograd.symbol", "phonograd.numpy_extension"))
    names = sorted(set(offered or ()) | set(dir(module) if is_lazy or not offered else ()))
    for name in names:
        if name.startswith("_") or name in _PRIVATE:
            continue
        value = getattr(module, name)
        origin = str(getattr(value, "__module__", ""))
        if isinstance(value, types.ModuleType) or not callable(value):
            continue
        if not origin.startswith("phonograd") or (offered is None and _is_imported(module, value, origin)):
            continue
        yield name


def _is_imported(module: types.ModuleType, value: Any, origin: str) -> bool:
    """Return whether a module without ``__all__`` only imports a value for its own use."""
    operators = ("phonograd.ndarray", "phonograd.symbol", "phonograd.numpy")
    if module.__name__.startswith(operators):
        return isinstance(value, type)
    return not origin.startswith(module.__name__)
