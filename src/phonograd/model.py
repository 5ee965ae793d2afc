"""Checkpoints: a symbol and its parameters in two files (``mxnet.model``), and MXNet's FeedForward."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, NamedTuple

from . import ndarray, symbol
from .core.base.errors import MXNetError

__all__ = ["BatchEndParam", "load_checkpoint", "load_params", "save_checkpoint"]


class BatchEndParam(NamedTuple):
    """The argument of callbacks after each batch."""

    epoch: int
    nbatch: int
    eval_metric: Any
    locals: Any


def save_checkpoint(
    prefix: str,
    epoch: int,
    symbol: Any,
    arg_params: dict[str, Any],
    aux_params: dict[str, Any],
    remove_amp_cast: bool = True,
) -> None:
    """Write ``prefix-symbol.json`` (if a symbol is given) and ``prefix-0001.params`` with the epoch number."""
    if symbol is not None:
        symbol.save(f"{prefix}-symbol.json", remove_amp_cast=remove_amp_cast)
    arrays = {f"arg:{name}": value for name, value in arg_params.items()}
    arrays |= {f"aux:{name}": value for name, value in aux_params.items()}
    path = f"{prefix}-{epoch:04d}.params"
    ndarray.save(path, arrays)
    logging.info('Saved checkpoint to "%s"', path)


def load_params(prefix: str, epoch: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the arguments and the auxiliary states in the checkpoint of an epoch, by name."""
    path = f"{prefix}-{epoch:04d}.params"
    loaded = ndarray.load(path)
    found: dict[str, dict[str, Any]] = {"arg": {}, "aux": {}}
    if not isinstance(loaded, dict):
        if loaded:
            raise MXNetError(f"{path} is not a checkpoint: its arrays have no names")
        logging.warning("Params file '%s' is empty", path)
        return found["arg"], found["aux"]
    for key, value in loaded.items():
        kind, _, name = key.partition(":")
        if kind not in found:
            raise MXNetError(f"{path} is not a checkpoint: its array {key!r} is neither 'arg:...' nor 'aux:...'")
        found[kind][name] = value
    return found["arg"], found["aux"]


def load_checkpoint(prefix: str, epoch: int) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """Return symbol, arguments and auxiliary states of a checkpoint."""
    return (symbol.load(f"{prefix}-symbol.json"), *load_params(prefix, epoch))


if TYPE_CHECKING:
    from .module.feed_forward import FeedForward as FeedForward
else:

    def __getattr__(name: str) -> Any:
        if name == "FeedForward":
            # imported late: it depends on modules, which depend on this module
            from .module.feed_forward import FeedForward

            return FeedForward
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
