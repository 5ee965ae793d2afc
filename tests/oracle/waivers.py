"""Where this library is known to differ from MXNet 1.9.1, and why.

Keys are case identifiers, ``family/name``; a pattern with ``*`` stands for several. Each waiver names
the part of the outcome it excuses. A waiver of kind ``differs`` fails its test once nothing differs any
more; one of kind ``undefined`` is for answers of MXNet nobody should rely on, and compares nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Waiver:
    """A difference that is meant."""

    reason: str
    part: str = "value"
    kind: str = "differs"


WAIVERS: dict[str, Waiver] = {}


def waiver_of(identifier: str) -> Waiver | None:
    """Return the waiver of a case, or None."""
    if identifier in WAIVERS:
        return WAIVERS[identifier]
    found = [waiver for pattern, waiver in PATTERNS if pattern.fullmatch(identifier)]
    return found[0] if found else None


PATTERNS = [(re.compile(".*".join(map(re.escape, key.split("*")))), w) for key, w in WAIVERS.items() if "*" in key]
