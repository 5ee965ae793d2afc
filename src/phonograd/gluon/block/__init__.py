"""Provide the blocks that networks consist of (``mxnet.gluon.block``)."""

from __future__ import annotations

from .hybrid import HybridBlock
from .naming import BlockScope as _BlockScope
from .nesting import flatten_with_format as _flatten
from .nesting import regroup as _regroup
from .plain import Block
from .symbolic import SymbolBlock

__all__ = ["Block", "HybridBlock", "SymbolBlock"]

# other libraries import these under MXNet's names
globals().update(_BlockScope=_BlockScope, _flatten=_flatten, _regroup=_regroup)
