"""Blocks that MXNet keeps apart from the others (``mxnet.gluon.contrib``)."""

from __future__ import annotations

from . import estimator, nn, rnn

__all__ = ["estimator", "nn", "rnn"]
