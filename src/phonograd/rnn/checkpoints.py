"""Checkpoints of networks with recurrent cells: files store the weights of each gate separately."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from ..model import load_checkpoint, save_checkpoint
from .cells import Arrays, BaseRNNCell

__all__ = ["do_rnn_checkpoint", "load_rnn_checkpoint", "rnn_unroll", "save_rnn_checkpoint"]

Cells = BaseRNNCell | Sequence[BaseRNNCell]


def _as_list(cells: Cells) -> Sequence[BaseRNNCell]:
    return [cells] if isinstance(cells, BaseRNNCell) else cells


def rnn_unroll(
    cell: BaseRNNCell,
    length: int,
    inputs: Any = None,
    begin_state: Any = None,
    input_prefix: str = "",
    layout: str = "NTC",
) -> tuple[Any, list[Any]]:
    """Unroll a cell with ``cell.unroll`` (deprecated alias)."""
    warnings.warn("rnn_unroll is deprecated. Please call cell.unroll directly.", stacklevel=2)
    return cell.unroll(length, inputs, begin_state, layout)


def save_rnn_checkpoint(
    cells: Cells, prefix: str, epoch: int, symbol: Any, arg_params: Arrays, aux_params: Arrays
) -> None:
    """Write a symbol to ``<prefix>-symbol.json``, and arrays, split by gate, to ``<prefix>-<epoch>.params``."""
    for cell in _as_list(cells):
        arg_params = cell.unpack_weights(arg_params)
    save_checkpoint(prefix, epoch, symbol, arg_params, aux_params)


def load_rnn_checkpoint(cells: Cells, prefix: str, epoch: int) -> tuple[Any, Arrays, Arrays]:
    """Return the symbol, arguments and auxiliary states of :func:`save_rnn_checkpoint`'s files."""
    symbol, arguments, states = load_checkpoint(prefix, epoch)
    for cell in _as_list(cells):
        arguments = cell.pack_weights(arguments)
    return symbol, arguments, states


def do_rnn_checkpoint(cells: Cells, prefix: str, period: int = 1) -> Callable[..., None]:
    """Return an epoch-end callback (``Module.fit``) that writes a checkpoint every `period` epochs."""
    every = max(1, int(period))

    def write(iter_no: int, sym: Any = None, arg: Any = None, aux: Any = None) -> None:
        if (iter_no + 1) % every == 0:
            save_rnn_checkpoint(cells, prefix, iter_no + 1, sym, arg, aux)

    return write
