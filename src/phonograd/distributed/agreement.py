"""Agreement: what ranks compare before each operation, and the errors if they differ.

Each rank gives a digest of the operation's description; digests are equal exactly if all ranks are about to do the
same. :mod:`phonograd.distributed.rounds` compares them over MPI, :mod:`phonograd.distributed.sockets` over TCP.
"""

from __future__ import annotations

import hashlib

from ..core.base.errors import MXNetError

__all__ = ["END", "Digests", "Disagreement", "MissingRanks", "describe_difference", "name_missing"]

#: the description of a program's end
END = "the end of the program"
#: characters of an operation in errors
_LONGEST_TEXT = 400


class Disagreement(MXNetError):
    """Ranks called different operations, or the same one with different keys, shapes or dtypes."""


class MissingRanks(MXNetError):
    """Some ranks did not arrive at an operation in time."""


class Digests:
    """Numbers that stand for descriptions of operations.

    >>> Digests().of("push of key a") == Digests().of("push of key a") != Digests().of("push of key b")
    True
    """

    def __init__(self) -> None:
        self._known: dict[str, int] = {}

    def of(self, description: str) -> int:
        """Return a number of 62 bits."""
        found = self._known.get(description)
        if found is None:
            if len(self._known) > 10_000:
                self._known.clear()
            found = int.from_bytes(hashlib.blake2b(description.encode(), digest_size=8).digest(), "little") >> 2
            self._known[description] = found
        return found


def describe_difference(descriptions: list[str]) -> str:
    """Return the message of an error, given the operations that the ranks have reached, in order.

    >>> describe_difference(["push of key a", "push of key b", "push of key a"])[:79]
    'ranks disagree about the next operation. ranks 0, 2: push of key a; rank 1: pus'
    """
    by_text: dict[str, list[int]] = {}
    for rank, text in enumerate(descriptions):
        by_text.setdefault(text, []).append(rank)
    shown = _shorten(list(by_text))
    sides = "; ".join([f"{_ranks(ranks)}: {text}" for text, ranks in zip(shown, by_text.values(), strict=True)])
    advice = (
        "All ranks must make the same calls in the same order, with the same keys, shapes and dtypes"
        if END not in by_text
        else "A rank ended while others went on: all ranks need the same number of steps"
    )
    return f"ranks disagree about the next operation. {sides}. {advice}"


def _shorten(texts: list[str]) -> list[str]:
    """Return texts that differ, with parts left out of long ones: their names and the first difference stay.

    >>> _shorten(["push of " + "a, " * 200 + "b", "push of " + "a, " * 200 + "c"])[1][-20:]
    ' a, a, a, a, a, a, c'
    """
    if max(map(len, texts)) <= _LONGEST_TEXT:
        return texts
    first, last = min(texts), max(texts)
    same = next((place for place, pair in enumerate(zip(first, last)) if pair[0] != pair[1]), len(first))
    begin = max(_LONGEST_TEXT // 4, same - _LONGEST_TEXT // 4)
    end = begin + _LONGEST_TEXT // 2
    return [
        text[: _LONGEST_TEXT // 4]
        + (" ... " if begin > _LONGEST_TEXT // 4 else "")
        + text[begin:end]
        + (" ..." if len(text) > end else "")
        for text in texts
    ]


def name_missing(description: str, waited: float, arrived: set[int], size: int) -> str:
    """Return the message of an error, given the ranks that have arrived at an operation after a number of seconds."""
    missing = [rank for rank in range(size) if rank not in arrived]
    return (
        f"{_ranks(missing)} did not arrive at {description!r} within {waited:.0f} s, where "
        f"{_ranks(sorted(arrived))} waited. "
        "The setting rank_timeout (PHONOGRAD_RANK_TIMEOUT) is the time to wait, in seconds"
    )


def _ranks(numbers: list[int]) -> str:
    return f"rank{'s' * (len(numbers) > 1)} {', '.join(map(str, numbers))}" if numbers else "no rank"
