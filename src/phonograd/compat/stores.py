"""Connect the arrays of several devices with a store, as modules that derive from MXNet's do (``mxnet.model``).

The library's own modules need none of it. Code in the wild imports the functions to write a module of its own.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .. import kvstore as stores
from ..ndarray.array import NDArray

__all__ = ["create_store", "initialize_store", "update_on_store", "update_with_updater"]

#: weights with more elements than this are updated by each device, as in MXNet
_LARGE = 1024 * 1024 * 16

Arrays = Sequence[Sequence[Any]]


def create_store(kvstore: Any, num_device: int, arg_params: Mapping[str, NDArray]) -> tuple[Any, bool]:
    """Return a store, or None if one device needs none, and whether the store updates weights."""
    on_store = os.environ.get("MXNET_UPDATE_ON_KVSTORE", "1") != "0"
    if isinstance(kvstore, str):
        if num_device == 1 and "dist" not in kvstore:
            return None, False
        if kvstore == "local" and max([param.size for param in arg_params.values()]) > _LARGE:
            on_store = False
        kvstore = stores.create(kvstore)
    elif kvstore is None:
        return None, False
    elif not isinstance(kvstore, stores.KVStoreBase):
        raise TypeError("kvstore must be KVStore, str or None")
    return kvstore, on_store and kvstore.is_capable(stores.KVStoreBase.OPTIMIZER)


def initialize_store(
    kvstore: Any,
    param_arrays: Arrays,
    arg_params: Mapping[str, NDArray],
    param_names: Sequence[str],
    update_on_kvstore: bool,
) -> None:
    """Give a store the weights by name and, if it updates them, copy them to all devices."""
    for name, copies in zip(param_names, param_arrays, strict=False):
        if update_on_kvstore and arg_params[name].stype == "default":
            kvstore.broadcast(name, arg_params[name], out=copies)
        else:
            kvstore.init(name, arg_params[name])


def update_on_store(param_arrays: Arrays, grad_arrays: Arrays, kvstore: Any, param_names: Sequence[str]) -> None:
    """Send gradients to a store that updates the weights, and read the weights back."""
    for index, (weights, gradients) in enumerate(zip(param_arrays, grad_arrays, strict=False)):
        if gradients[0] is not None:
            _exchange(kvstore, param_names[index], gradients, weights, index)


def update_with_updater(
    param_arrays: Arrays,
    grad_arrays: Arrays,
    updater: Callable[[Any, Any, Any], None],
    num_device: int,
    kvstore: Any = None,
    param_names: Sequence[str] | None = None,
) -> None:
    """Add up gradients in a store, if there is one, and update the weights of each device with a function."""
    for index, (weights, gradients) in enumerate(zip(param_arrays, grad_arrays, strict=False)):
        if gradients[0] is None:
            continue
        if kvstore and param_names is not None:
            _exchange(kvstore, param_names[index], gradients, gradients, index)
        for device, (weight, gradient) in enumerate(zip(weights, gradients, strict=True)):
            # each device has states of its own
            updater(index * num_device + device, gradient, weight)


def _exchange(kvstore: Any, name: str, gradients: Sequence[Any], targets: Sequence[Any], index: int) -> None:
    """Send gradients, and read the value of the store; earlier parameters are more urgent."""
    if gradients[0].stype == targets[0].stype == "default":
        kvstore.pushpull(name, list(gradients), out=list(targets), priority=-index)
    else:
        kvstore.push(name, list(gradients), priority=-index)
        kvstore.pull(name, out=list(targets), priority=-index)
