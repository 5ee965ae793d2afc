"""Symbolic recurrent networks and buckets of sentences (``mxnet.rnn``), MXNet's API before Gluon.

The cells compute the same as those of :mod:`phonograd.gluon.rnn`, but create symbols for :mod:`phonograd.module`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..core.base.errors import nearest
from .cells import BaseRNNCell, GRUCell, LSTMCell, RNNCell, RNNParams
from .checkpoints import do_rnn_checkpoint, load_rnn_checkpoint, rnn_unroll, save_rnn_checkpoint
from .compound import BidirectionalCell, DropoutCell, ModifierCell, ResidualCell, SequentialRNNCell, ZoneoutCell
from .convolutional import BaseConvRNNCell, ConvGRUCell, ConvLSTMCell, ConvRNNCell
from .fused import FusedRNNCell
from .sentences import BucketSentenceIter, encode_sentences

__all__ = [
    "BaseConvRNNCell",
    "BaseRNNCell",
    "BidirectionalCell",
    "BucketSentenceIter",
    "ConvGRUCell",
    "ConvLSTMCell",
    "ConvRNNCell",
    "DropoutCell",
    "FusedRNNCell",
    "GRUCell",
    "LSTMCell",
    "ModifierCell",
    "RNNCell",
    "RNNParams",
    "ResidualCell",
    "SequentialRNNCell",
    "ZoneoutCell",
    "do_rnn_checkpoint",
    "encode_sentences",
    "load_rnn_checkpoint",
    "rnn_unroll",
    "save_rnn_checkpoint",
]


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        raise AttributeError(f"module 'phonograd.rnn' has no attribute {name!r}{nearest(name, __all__)}")
