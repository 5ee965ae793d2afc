"""Order the results of the search: the entry of a name comes before entries whose names only begin with it.

The search completes words, and rare words count more than common ones. So ``Dense`` would find ``densenet121`` first.
Therefore short names count more than long ones, and the reference more than other pages.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

__all__ = ["rank"]

#: the factor of the score of a page of the reference
_REFERENCE = 4.0
#: a name of this many letters counts as much as the page; a shorter one more, a longer one less
_LETTERS = 20


def rank(documents: Sequence[dict[str, Any]]) -> None:
    """Set the boost of the entries of the reference in an index of the search.

    >>> found = [{"location": f"reference/nn.html#{name}", "title": name} for name in ("densenet121", "Dense")]
    >>> rank(found)
    >>> found[0]["boost"] < found[1]["boost"]
    True
    """
    for entry in documents:
        if entry["location"].startswith("reference/"):
            entry["boost"] = _REFERENCE
            if "#" in entry["location"]:
                # the root leaves room for the other words of a query: attach_grad is not grad
                entry["boost"] *= math.sqrt(_LETTERS / max(5, len(entry["title"])))
