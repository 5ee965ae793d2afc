"""Compare the calls of the sweep with the recording, and list the differences.

``python -m tests.sweep.compare`` prints all differences that have no reason in :mod:`.reasons`.
"""

from __future__ import annotations

import argparse
import functools
import re
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
    refused = [_is_refused(text) for text in (theirs, ours)]
    if any(refused):
        return all(refused)
    if _NUMBER.sub("", theirs) != _NUMBER.sub("", ours):
        return False
    pairs = zip(map(float, _NUMBER.findall(theirs)), map(float, _NUMBER.findall(ours)))
    return all(abs(a - b) <= 0.02 + 0.005 * max(abs(a), abs(b)) for a, b in pairs)


def _is_refused(text: str) -> bool:
    return re.search(r"(^|[\])] )!\w+$", text) is not None


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
                    if not agree(theirs, ours) and not _fails_later(kinds, change.key, ours):
                        yield Difference(place, theirs, ours)


def _fails_later(kinds: dict[str, dict[str, str]], key: str, ours: str) -> bool:
    """Return whether we refuse a call that MXNet accepts with symbols, but not with arrays, or not without dying."""
    with_arrays = kinds.get("nd", {}).get(key, "")
    return _is_refused(ours) and (with_arrays == "died" or _is_refused(with_arrays))


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


def direction(theirs: str, ours: str) -> str:
    """Return how two outcomes differ: "accepts" what MXNet refuses, "refuses" what it accepts, or "differs"."""
    refused = [_is_refused(text) for text in (theirs, ours)]
    return "differs" if refused[0] == refused[1] else "accepts" if refused[0] else "refuses"


def reason_for(difference: Difference) -> str | None:
    """Return why a call differs, or None."""
    way = direction(difference.theirs, difference.ours)
    for reason in REASONS:
        if way in reason.ways and any(re.fullmatch(pattern, difference.place) for pattern in reason.places):
            return reason.text
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
    """Print the differences among one part of all calls; arguments choose operators."""
    import phonograd as mx

    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("operators", nargs="*", help="paths of operators; all by default")
    parser.add_argument("--parts", type=int, default=1, help="compare one call of so many")
    options = parser.parse_args()
    total = explained = 0
    for difference in differences(mx, 0, options.parts, options.operators):
        total += 1
        if reason_for(difference) is not None:
            explained += 1
            continue
        print(f"{difference.place}\n    {difference.theirs[:300]}\n    {difference.ours[:300]}", flush=True)
    print(f"{count()} calls; of one in {options.parts}, {total} differ, {total - explained} without a reason")


if __name__ == "__main__":
    main()
