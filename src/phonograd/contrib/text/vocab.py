"""Vocabularies: tokens and their indices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Any

from ...core.base.docstrings import complete_classes

__all__ = ["UNKNOWN_IDX", "Vocabulary"]

#: the index of every token that is not in a vocabulary
UNKNOWN_IDX = 0


class Vocabulary:
    """An index of tokens: the unknown token, reserved tokens, then the others, most frequent first.

    Parameters
    ----------
    counter
        The frequency of each token; None for no tokens.
    most_freq_count
        The maximum number of tokens, not counting the unknown and reserved ones.
    min_freq
        The minimum frequency of a token.
    unknown_token
        The representation of all other tokens.
    reserved_tokens
        Tokens with a special meaning, such as ``'<pad>'``.

    >>> words = Vocabulary(Counter("b a c b c c".split()), min_freq=2, reserved_tokens=["<pad>"])
    >>> words.idx_to_token
    ['<unk>', '<pad>', 'c', 'b']
    >>> words.to_indices(["c", "a"]), words.to_tokens(3)
    ([2, 0], 'b')
    """

    def __init__(
        self,
        counter: Counter[Any] | None = None,
        most_freq_count: int | None = None,
        min_freq: int = 1,
        unknown_token: Hashable = "<unk>",
        reserved_tokens: Sequence[Hashable] | None = None,
    ) -> None:
        assert min_freq > 0, "`min_freq` must be set to a positive value."
        reserved = list(reserved_tokens or ())
        assert unknown_token not in reserved, "`reserved_token` cannot contain `unknown_token`."
        assert len(set(reserved)) == len(reserved), "`reserved_tokens` cannot contain duplicate reserved tokens."
        self._unknown_token = unknown_token
        self._reserved_tokens = None if reserved_tokens is None else reserved
        self._idx_to_token: list[Any] = [unknown_token, *reserved]
        if counter is not None:
            taken = {unknown_token, *reserved}
            # sorted by name first, so that equally frequent tokens stay in that order
            frequent = sorted(sorted(counter.items(), key=lambda pair: pair[0]), key=lambda pair: -pair[1])
            chosen = [word for word, count in frequent if count >= min_freq and word not in taken]
            self._idx_to_token += chosen[:most_freq_count]
        self._token_to_idx: dict[Any, int] = {word: number for number, word in enumerate(self._idx_to_token)}

    def __len__(self) -> int:
        return len(self.idx_to_token)

    @property
    def token_to_idx(self) -> dict[Any, int]:
        """The indices of tokens."""
        return self._token_to_idx

    @property
    def idx_to_token(self) -> list[Any]:
        """The tokens in index order."""
        return self._idx_to_token

    @property
    def unknown_token(self) -> Any:
        """The representation of tokens that are not in the vocabulary."""
        return self._unknown_token

    @property
    def reserved_tokens(self) -> list[Any] | None:
        """Tokens with a special meaning."""
        return self._reserved_tokens

    def to_indices(self, tokens: Any) -> Any:
        """Return the index of a token, or a list of indices for a list; 0 for unknown tokens."""
        if not isinstance(tokens, list):
            return self.token_to_idx.get(tokens, UNKNOWN_IDX)
        return [self.token_to_idx.get(token, UNKNOWN_IDX) for token in tokens]

    def to_tokens(self, indices: Any) -> Any:
        """Return the token of an index, or a list of tokens for a list."""
        numbers = indices if isinstance(indices, list) else [indices]
        words = []
        for number in numbers:
            if not isinstance(number, int):
                raise TypeError(f"indices of tokens are integers, not {number!r}")
            if number >= len(self.idx_to_token):
                raise ValueError(f"Token index {number} in the provided `indices` is invalid.")
            words.append(self.idx_to_token[number])
        return words if isinstance(indices, list) else words[0]


complete_classes(globals())
