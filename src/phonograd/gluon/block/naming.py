"""The names of blocks: prefixes given by the user, or made from the class and a number, inside of each other."""

from __future__ import annotations

from collections import Counter
from contextvars import ContextVar
from typing import TYPE_CHECKING

from ...name import NameManager, Prefix
from ..parameter import ParameterDict

if TYPE_CHECKING:
    from .plain import Block

__all__ = ["BlockScope"]


class BlockScope:
    """The scope of a block's names: ``with block.name_scope():`` its children are made.

    A block with the prefix ``''`` has no scope of its own: what is made inside is named as if made outside.
    """

    _current: ContextVar[BlockScope | None] = ContextVar("block_scope", default=None)

    def __init__(self, block: Block) -> None:
        self._block = block
        self._counter: Counter[str] = Counter()
        self._outside: list[tuple[BlockScope | None, Prefix]] = []

    @classmethod
    def create(cls, prefix: str | None, params: ParameterDict | None, hint: str) -> tuple[str, ParameterDict]:
        """Return the whole prefix of a new block and the dictionary of its parameters.

        Parameters
        ----------
        prefix
            The part of the prefix that the user has given; None for one made from `hint` and a number.
        params
            The parameters to be shared with another block.
        hint
            What the block is called without a prefix.
        """
        current = cls._current.get()
        if prefix is None:
            if current is None:
                prefix = NameManager.current.get(None, hint) + "_"
            else:
                prefix = f"{hint}{current._counter[hint]}_"
                current._counter[hint] += 1
        whole = prefix if current is None else current._block.prefix + prefix
        if params is not None:
            return whole, ParameterDict(params.prefix, params)
        if current is None:
            return whole, ParameterDict(prefix)
        around = current._block.params
        return whole, ParameterDict(around.prefix + prefix, around._shared)

    def __enter__(self) -> BlockScope:
        if self._block._empty_prefix:
            return self
        names = Prefix(self._block.prefix)
        self._outside.append((BlockScope._current.get(), names))
        BlockScope._current.set(self)
        names.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._block._empty_prefix:
            return
        outer, names = self._outside.pop()
        names.__exit__(*exception)
        BlockScope._current.set(outer)
