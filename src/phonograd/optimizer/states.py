"""Write and read the states of optimizers, as safetensors or in MXNet's format.

A safetensors file holds the arrays, and two texts of JSON in its metadata: the states with the names of their arrays,
and the optimizer with its attributes. MXNet's format is pickle (:mod:`.pickles` reads it). :func:`loads` recognizes
both. The setting ``states_format`` selects the format of new files. The classes of objects have MXNet's names in both
formats; :mod:`.records` makes the objects and checks them.
"""

from __future__ import annotations

import io
import json
import math
import pickle
from typing import Any, NamedTuple

import numpy as np

from .. import lr_scheduler
from ..core.array.handle import read
from ..core.base import settings
from ..core.base.dtypes import CODES
from ..core.base.errors import MXNetError
from ..ndarray import array as make_array
from ..ndarray.array import NDArray
from ..ndarray.safetensors import decode, encode
from ..numpy.multiarray import as_np
from ..numpy.multiarray import ndarray as np_ndarray
from .optimizer import Optimizer
from .pickles import Record, Reference, read_pickle
from .records import ARRAYS, Restorer, is_number

__all__ = ["Loaded", "dumps", "loads"]

#: the protocol that MXNet 1.9.1 writes on Python 3.8 and later
_PROTOCOL = 4
_FORMAT, _VERSION = "optimizer states", "1"


class Loaded(NamedTuple):
    """The contents of a file."""

    states: dict[Any, Any]
    """The states of weights, by index."""
    optimizer: Optimizer | None
    """The optimizer, if the file has one."""


def dumps(states: dict[Any, Any], optimizer: Optimizer | None = None) -> bytes:
    """Return states, and perhaps their optimizer, as the bytes of a file.

    Raises
    ------
    TypeError
        If a state or an attribute of the optimizer cannot be stored; the message names it.
    """
    describer = _Describer()
    texts = {"phonograd": _FORMAT, "version": _VERSION, "states": describer.text(states, "states")}
    if optimizer is not None:
        texts["optimizer"] = describer.text(optimizer, "optimizer")
    if settings.current().states_format == "safetensors":
        return b"".join(encode(describer.arrays, texts))
    file = io.BytesIO()
    _Writer(file, _PROTOCOL).dump(states if optimizer is None else (states, optimizer))
    return file.getvalue()


def loads(data: bytes, name: str = "the given data") -> Loaded:
    """Return the states in the bytes of a file; `name` is that of the file.

    Raises
    ------
    MXNetError
        If it is not a file of optimizer states, or if it is damaged; the message names the file and the place.
    """
    restorer = Restorer(len(data))
    try:
        # The header of a safetensors file is shorter than 2**48 bytes. No pickle has '{' there, and two zeros before.
        tree = _read_safetensors(data, name) if data[6:9] == b"\0\0{" else read_pickle(data)
        if isinstance(tree, tuple) and len(tree) == 2:
            return Loaded(restorer.states(tree[0]), restorer.optimizer(tree[1]))
        return Loaded(restorer.states(tree), None)
    except MXNetError as error:
        text = str(error)
        if not text.startswith(name):
            text = f"{name} is not a file of optimizer states, or it is damaged: {text}"
        raise MXNetError(text) from None


# -- safetensors


class _Describer:
    """Describe objects in JSON and collect their arrays."""

    def __init__(self) -> None:
        self.arrays: dict[str, np.ndarray[Any, Any]] = {}
        self._names: dict[int, str] = {}

    def text(self, value: Any, place: str) -> str:
        """Return the JSON of a value."""
        return json.dumps(self._describe(value, place, 0), separators=(",", ":"))

    def _describe(self, value: Any, place: str, depth: int) -> Any:
        if depth > 20:
            raise TypeError(f"{place} is nested too deeply, or contains itself, so that it cannot be stored")
        if value is None or (isinstance(value, (bool, str, int, float)) and not isinstance(value, np.generic)):
            return value
        if isinstance(value, np.generic) and value.dtype in CODES:
            return {"scalar": value.dtype.name, "value": value.item()}
        if isinstance(value, NDArray):
            return self._describe_array(value, place)
        if isinstance(value, (list, tuple)):
            kind = "list" if isinstance(value, list) else "tuple"
            return {kind: [self._describe(part, f"{place}.{n}", depth + 1) for n, part in enumerate(value)]}
        if isinstance(value, (set, frozenset)) and all([is_number(part) or isinstance(part, str) for part in value]):
            return {"set": sorted(value, key=repr)}
        if isinstance(value, dict) and all([type(key) in (int, str) for key in value]):
            return {"dict": [[key, self._describe(part, f"{place}.{key}", depth + 1)] for key, part in value.items()]}
        if isinstance(value, (Optimizer, lr_scheduler.LRScheduler)):
            module, name = _mxnet_name(type(value)) or (type(value).__module__, type(value).__qualname__)
            # param_dict belongs to the trainer; the current counts are one of all counts
            left_out = ("param_dict", "_index_update_count")
            attributes = {
                key: self._describe(part, f"{place}.{key}", depth + 1)
                for key, part in vars(value).items()
                if key not in left_out
            }
            return {"class": [module, name], "attributes": attributes}
        raise TypeError(
            f"{place} is of type {type(value).__name__}, which files of optimizer states cannot hold: use numbers, "
            "texts, arrays, lists, tuples, sets, dictionaries with integers or texts as keys, or schedulers"
        )

    def _describe_array(self, array: NDArray, place: str) -> dict[str, Any]:
        name = self._names.get(id(array))
        if name is None:
            name = self._names[id(array)] = place
            self.arrays[name] = read(array)
        return {"array": name, "numpy": True} if isinstance(array, np_ndarray) else {"array": name}


def _read_safetensors(data: bytes, name: str) -> Any:
    """Return the tree of a safetensors file: the states, or (states, optimizer)."""
    arrays, texts = decode(io.BytesIO(data), len(data), name)
    if texts.get("phonograd") != _FORMAT:
        raise MXNetError("it is a safetensors file of other arrays; contrib.safetensors.load reads it")
    if texts.get("version") != _VERSION:
        raise MXNetError(f"its version is {texts.get('version')!r}, but this version of phonograd reads {_VERSION}")
    made: dict[str, NDArray] = {}
    for key, values in arrays.items():
        made[key] = make_array(values, dtype=values.dtype)
    trees: list[Any] = []
    for part in ("states", "optimizer"):
        if part not in texts and part == "optimizer":
            return trees[0]
        try:
            description = json.loads(texts.get(part, ""))
        except (ValueError, RecursionError) as error:
            raise MXNetError(f"the text {part!r} is not JSON ({error})") from None
        trees.append(_tree(description, made, part, 0))
    return tuple(trees)


def _tree(text: Any, arrays: dict[str, NDArray], place: str, depth: int) -> Any:
    """Return the tree of a description."""
    if text is None or isinstance(text, (bool, str, float)) or (isinstance(text, int) and abs(text) < 2**64):
        return text
    if isinstance(text, dict) and depth < 20:
        kind, content = next(iter(text.items()), ("", None))

        def inner(part: Any, name: Any) -> Any:
            return _tree(part, arrays, f"{place}.{name}", depth + 1)

        if kind == "array" and isinstance(content, str) and content in arrays:
            return as_np(arrays[content]) if text.get("numpy") is True else arrays[content]
        if kind in ("list", "tuple", "set") and isinstance(content, list):
            parts = [inner(part, number) for number, part in enumerate(content)]
            if kind != "set":
                return parts if kind == "list" else tuple(parts)
            if all([isinstance(part, (int, float, str)) for part in parts]):
                return set(parts)
        if kind == "dict" and isinstance(content, list):
            pairs = [pair for pair in content if isinstance(pair, list) and len(pair) == 2]
            if len(pairs) == len(content) and all([type(key) in (int, str) for key, _ in pairs]):
                return {key: inner(part, key) for key, part in pairs}
        if kind == "scalar" and "value" in text:
            return _scalar(content, text["value"], place)
        attributes = text.get("attributes")
        named = isinstance(content, list) and len(content) == 2 and all([isinstance(n, str) for n in content])
        if kind == "class" and named and isinstance(attributes, dict):
            module, name = content or ("", "")
            record = Record(Reference(module, name), ())
            record.state = {key: inner(part, key) for key, part in attributes.items()}
            return record
    raise MXNetError(f"the description of {place} is invalid")


def _scalar(dtype: Any, value: Any, place: str) -> np.generic:
    known = next((known for known in CODES if known.name == dtype), None)
    if known is not None and isinstance(value, (int, float)):
        try:
            made: np.generic = known.type(value)
        except (OverflowError, ValueError):
            pass  # the error below names the place
        else:
            if made == value or math.isnan(value):
                return made
    raise MXNetError(f"{place} is not a number of type {dtype!r}")


# -- MXNet's format


def _mxnet_name(value: Any) -> tuple[str, str] | None:
    """Return MXNet's module and name of a class of this library."""
    module = getattr(value, "__module__", None)
    if not isinstance(value, type) or not isinstance(module, str) or not module.startswith("phonograd."):
        return None
    if issubclass(value, NDArray):
        return (ARRAYS[value.__name__][0], value.__name__) if value.__name__ in ARRAYS else None
    if issubclass(value, Optimizer):
        part = "contrib" if module.endswith(".contrib") else "optimizer"
        return f"mxnet.optimizer.{part}", value.__name__
    if issubclass(value, lr_scheduler.LRScheduler):
        return "mxnet.lr_scheduler", value.__name__
    return None


class _Writer(pickle._Pickler):
    """Write classes of this library under their names in MXNet."""

    def save_global(self, obj: Any, name: str | None = None) -> None:
        """Write a reference to a class or function."""
        known = _mxnet_name(obj)
        if known is None:
            super().save_global(obj, name)  # type: ignore[misc]
            return
        self.write(pickle.GLOBAL + "\n".join([*known, ""]).encode())  # type: ignore[attr-defined]
        self.memoize(obj)  # type: ignore[attr-defined]
