"""Provide networks by name (``mxnet.gluon.model_zoo``)."""

from __future__ import annotations

from . import model_store, vision

__all__ = ["model_store", "vision"]
