"""Order the results of the search: the entry of a name comes before entries whose names only begin with it.

The search completes words, and rare words count more than common ones. So ``Dense`` would find ``DenseNet`` first, and
``record`` the page of ``recordio``. Therefore each entry of the reference is divided by the weight of the rarest word
in its title. Short names count more than long ones, and the reference more than other pages.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

__all__ = ["rank"]

#: the factor of the score of an entry of the reference
_REFERENCE = 16.0
#: a name of this many letters counts as much as another page; a shorter one more, a longer one less
_LETTERS = 20
#: a power below 1 leaves room for the other words of a query: attach_grad is not grad
_POWER = 0.35
#: the search doubles the score of a page whose text has all words
_PAGE = 0.4
_MARKUP = re.compile(r"<[^>]*>")


def rank(documents: Sequence[dict[str, Any]], separator: str = r"[\s.]+") -> None:
    """Set the boost of the entries of the reference in an index of the search, whose words a pattern separates.

    >>> found = [{"location": f"reference/nn.html#{name}", "title": name, "text": ""} for name in ("DenseNet", "Dense")]
    >>> rank(found)
    >>> found[0]["boost"] < found[1]["boost"]
    True
    """
    words = re.compile(separator)

    def split(text: str) -> set[str]:
        return {word for word in words.split(_MARKUP.sub(" ", text).lower()) if word}

    fields = Counter([word for entry in documents for name in ("title", "text") for word in split(entry[name])])

    def weight(word: str) -> float:
        # as lunr weighs a word: by the number of fields that have it
        return math.log(1 + abs((len(documents) - fields[word] + 0.5) / (fields[word] + 0.5)))

    for entry in documents:
        if entry["location"].startswith("reference/"):
            rarest = max([weight(word) for word in split(entry["title"])], default=1.0)
            entry["boost"] = _REFERENCE / max(rarest, 1.0) * (_LETTERS / max(5, len(entry["title"]))) ** _POWER
            if "#" not in entry["location"]:
                entry["boost"] *= _PAGE
