"""Token counts of texts."""

from __future__ import annotations

import re
from collections import Counter

__all__ = ["count_tokens_from_str"]


def count_tokens_from_str(
    source_str: str,
    token_delim: str = " ",
    seq_delim: str = "\n",
    to_lower: bool = False,
    counter_to_update: Counter[str] | None = None,
) -> Counter[str]:
    r"""Return the number of occurrences of each token in a text.

    Parameters
    ----------
    source_str
        The text.
    token_delim, seq_delim
        The delimiters of tokens and of sentences, as regular expressions.
    to_lower
        Convert the text to lower case.
    counter_to_update
        A counter to update in place.

    >>> sorted(count_tokens_from_str(" Life is great ! \n life is good . \n", to_lower=True).items())
    [('!', 1), ('.', 1), ('good', 1), ('great', 1), ('is', 2), ('life', 2)]
    """
    words = [word for word in re.split(f"{token_delim}|{seq_delim}", source_str) if word]
    if to_lower:
        words = [word.lower() for word in words]
    counts: Counter[str] = Counter() if counter_to_update is None else counter_to_update
    counts.update(words)
    return counts
