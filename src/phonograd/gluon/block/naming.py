"""Name blocks: combine prefixes that are given, or made from the class and a number, with those of outer blocks."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, TypedDict

from ...core.base.thread_state import ThreadState, thread_state
from ...name import NameManager, Prefix
from ..parameter import ParameterDict

if TYPE_CHECKING:
    from .plain import Block

__all__ = ["BlockArguments", "BlockScope"]


class BlockArguments(TypedDict, total=False):
    """The keywords that every layer passes on to :class:`~phonograd.gluon.Block`."""

    prefix: str | None
    params: ParameterDict | None


class BlockScope:
    """Prefix the names of blocks and parameters that are created in ``with block.name_scope():``.

    A block with the prefix ``''`` has no scope of its own: names in it are those of the scope around it.
    """

    _current: ThreadState[BlockScope | None] = thread_state("block_scope", None)

    def __init__(self, block: Block) -> None:
        self._block = block
        self._counter: Counter[str] = Counter()
        self._outside: list[tuple[BlockScope | None, Prefix]] = []

    @classmethod
    def create(cls, prefix: str | None, params: ParameterDict | None, hint: str) -> tuple[str, ParameterDict]:
        """Return the full prefix of a new block, and its dictionary of parameters.

        Parameters
        ----------
        prefix
            The user's part of the prefix. None makes one from `hint` and a number.
        params
            The parameters to share with another block.
        hint
            The name to use without a prefix.
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
