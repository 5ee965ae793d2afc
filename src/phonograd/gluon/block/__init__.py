"""Blocks: what networks are made of (``mxnet.gluon.block``)."""

from __future__ import annotations

from .hybrid import HybridBlock
from .naming import BlockScope as _BlockScope
from .plain import Block
from .symbolic import SymbolBlock

__all__ = ["Block", "HybridBlock", "SymbolBlock"]

# the name under which some scripts take it from here
globals()["_BlockScope"] = _BlockScope
