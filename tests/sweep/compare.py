"""Compare the calls of the sweep with the recording, and list the differences.

``python -m tests.sweep.compare`` prints all differences that have no reason in :mod:`.reasons`; arguments choose
operators.
"""

from __future__ import annotations

import fnmatch
import functools
import re
import sys
import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

from . import inference, store
from .calls import OUTCOMES, bases, changes
from .reasons import REASONS

#: outcomes that say nothing
NOTHING = ("died", "unstable")

_NUMBER = re.compile(r"(?<= )-?(?:\d[\d.]*(?:e[+-]?\d+)?)(?=[ ;\]]|$)")


class Difference(NamedTuple):
    """A call with another outcome here than in MXNet."""

    place: str
    """Path, kind of call, and change: ``Convolution nd parameter:pad=(1, 1)``."""
    theirs: str
    ours: str


@functools.cache
def recording() -> dict[str, Any]:
    """Return MXNet's outcomes."""
    return store.load(store.CALLS)


def agree(theirs: str, ours: str) -> bool:
    """Return whether two outcomes are the same: both refuse, or texts and numbers agree.

    A symbol may be refused when it is made, or when its shapes are inferred.
    """
    if theirs == ours or theirs in NOTHING:
        return True
    refused = [bool(re.search(r"(^|[\])] )!\w+$", text)) for text in (theirs, ours)]
    if any(refused):
        return all(refused)
    if _NUMBER.sub("", theirs) != _NUMBER.sub("", ours):
        return False
    pairs = zip(map(float, _NUMBER.findall(theirs)), map(float, _NUMBER.findall(ours)))
    return all(abs(a - b) <= 0.02 + 0.005 * max(abs(a), abs(b)) for a, b in pairs)


def differences(mx: Any, part: int = 0, parts: int = 1, only: Any = ()) -> Iterator[Difference]:
    """Return the calls that differ, among one part of several of all calls."""
    by_path = bases()
    for path, recorded in recording().items():
        if only and path not in only:
            continue
        cases = {case.identifier: case for case in by_path[path]}
        for identifier, kinds in recorded["cases"].items():
            case = cases[identifier]
            for change in changes(recorded["parameters"], dict(case.parameters)):
                for kind, table in kinds.items():
                    theirs = table.get(change.key)
                    place = f"{path} {kind} {change.key}"
                    if theirs is None or theirs in NOTHING or zlib.crc32(place.encode()) % parts != part:
                        continue
                    ours = OUTCOMES[kind](mx, path, case, change, recorded["arrays"])
                    if not agree(theirs, ours):
                        yield Difference(place, theirs, ours)


@functools.cache
def recorded_inference() -> dict[str, Any]:
    """Return what MXNet infers."""
    return store.load(store.INFERENCE)


def inference_differences(mx: Any, only: Any = ()) -> Iterator[Difference]:
    """Return the trials of :mod:`.inference` that differ."""
    by_path = inference.cases_with_inputs()
    for path, cases in recorded_inference().items():
        if only and path not in only:
            continue
        known = {case.identifier: case for case in by_path[path]}
        for identifier, recorded in cases.items():
            case = known[identifier]
            for trial in inference.trials(case, recorded["output"]):
                theirs = recorded["trials"][trial.key]
                ours = inference.outcome(mx, path, case, trial)
                if theirs != ours and not (theirs[0] == ours[0] == "!"):
                    yield Difference(f"{path} {trial.key}", theirs, ours)


def reason_for(place: str) -> str | None:
    """Return why a call differs, or None."""
    for patterns, reason in REASONS.items():
        for pattern in patterns.split("|"):
            if fnmatch.fnmatchcase(place, pattern.strip()):
                return reason
    return None


def count() -> int:
    """Return the number of recorded calls that say something."""
    return sum(
        outcome not in NOTHING
        for recorded in recording().values()
        for kinds in recorded["cases"].values()
        for table in kinds.values()
        for outcome in table.values()
    )


def main() -> None:
    """Print the differences."""
    import phonograd as mx

    found = list(differences(mx, only=sys.argv[1:]))
    plain = [difference for difference in found if reason_for(difference.place) is None]
    for place, theirs, ours in plain:
        print(f"{place}\n    {theirs[:300]}\n    {ours[:300]}")
    print(f"{count()} calls, {len(found)} differ, {len(plain)} of them without a reason")


if __name__ == "__main__":
    main()
