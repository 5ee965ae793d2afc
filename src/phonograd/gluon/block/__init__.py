"""Blocks: what networks are made of (``mxnet.gluon.block``)."""

from __future__ import annotations

from .hybrid import HybridBlock
from .naming import BlockScope as _BlockScope
from .nesting import flattened_with_format as _flatten
from .nesting import regrouped as _regroup
from .plain import Block
from .symbolic import SymbolBlock

__all__ = ["Block", "HybridBlock", "SymbolBlock"]

# the names under which other libraries take them from here
globals().update(_BlockScope=_BlockScope, _flatten=_flatten, _regroup=_regroup)
