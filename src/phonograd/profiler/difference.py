"""Difference: compare two profiles of one program by name, and test changes for significance.

>>> from phonograd.profiler import profile, record_function
>>> with profile() as before, record_function("work"):
...     pass
>>> with profile() as after, record_function("work"):
...     pass
>>> [row.key for row in before.diff(after)]
['work']
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterator, Sequence
from typing import Any, overload

from .averages import Average, AverageList
from .tables import cut, printable, text_table, time_text

__all__ = ["Change", "Difference", "compare"]

_LEVEL = 0.01
#: with fewer samples on either side the test says nothing
_FEWEST = 4


@dataclasses.dataclass(frozen=True)
class Change:
    """One name in both profiles. Times are microseconds."""

    key: str
    scope: int
    count_before: int
    count_after: int
    mean_before: float
    mean_after: float
    self_before: float
    self_after: float
    p_value: float
    """The probability of such a difference by chance; 1 if there are too few samples."""

    @property
    def ratio(self) -> float:
        """The mean duration afterwards relative to the one before; 1 if there is nothing to compare."""
        return self.mean_after / self.mean_before if self.mean_before and self.mean_after else 1.0

    @property
    def self_change(self) -> float:
        """The increase of the total self time."""
        return self.self_after - self.self_before

    @property
    def significant(self) -> bool:
        """Return whether the change is statistically significant."""
        return self.p_value < _LEVEL

    @property
    def status(self) -> str:
        """'new', 'gone', 'slower', 'faster' or 'same'."""
        if not self.count_before or not self.count_after:
            return "gone" if self.count_before else "new"
        if not self.significant or self.ratio == 1.0:
            return "same"
        return "slower" if self.ratio > 1.0 else "faster"


class Difference(Sequence[Change]):
    """The changes of all names, largest change of self time first."""

    def __init__(self, changes: list[Change]) -> None:
        self._changes = sorted(changes, key=lambda change: -abs(change.self_change))

    @overload
    def __getitem__(self, index: int) -> Change: ...

    @overload
    def __getitem__(self, index: slice) -> list[Change]: ...

    def __getitem__(self, index: int | slice) -> Change | list[Change]:
        return self._changes[index]

    def __len__(self) -> int:
        return len(self._changes)

    def __iter__(self) -> Iterator[Change]:
        return iter(self._changes)

    def slower(self, tolerance: float = 0.1) -> list[Change]:
        """Return the significant changes that are slower by more than a tolerance (0.1 is 10 %)."""
        return [change for change in self._changes if change.status == "slower" and change.ratio > 1 + tolerance]

    def check(self, tolerance: float = 0.1) -> None:
        """Raise an AssertionError that lists all significant slowdowns; for performance tests."""
        slower = self.slower(tolerance)
        if slower:
            lines = [
                f"{change.key!r}: {change.ratio:.2f} times as long (p = {change.p_value:.1g})" for change in slower
            ]
            raise AssertionError(f"slower by more than {tolerance:.0%}:\n" + "\n".join(lines))

    def as_dicts(self) -> list[dict[str, Any]]:
        """Return one dictionary for each name."""
        return [
            {**dataclasses.asdict(change), "ratio": change.ratio, "status": change.status} for change in self._changes
        ]

    def to_json(self) -> str:
        """Return the changes as JSON."""
        return json.dumps(self.as_dicts(), indent=1)

    def table(self, row_limit: int = 100, max_name_column_width: int = 55) -> str:
        """Return the changes as a table."""
        rows = [
            [
                cut(printable(change.key), max_name_column_width),
                str(change.count_before),
                str(change.count_after),
                time_text(change.mean_before),
                time_text(change.mean_after),
                f"{change.ratio:.3f}",
                f"{'+' if change.self_change >= 0 else '-'}{time_text(abs(change.self_change))}",
                f"{change.p_value:.2g}",
                change.status,
            ]
            for change in self._changes[: None if row_limit < 0 else row_limit]
        ]
        titles = ["Name", "Calls before", "after", "Mean before", "after", "Ratio", "Self change", "p", "Status"]
        return "\n".join(text_table(titles, rows)) + "\n" if rows else ""

    def __str__(self) -> str:
        return self.table()

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Show the table in IPython and notebooks."""
        printer.text(str(self))


def compare(before: AverageList, after: AverageList) -> Difference:
    """Return the differences between the averages of two profiles."""
    first = {(average.key, average.scope): average for average in before}
    second = {(average.key, average.scope): average for average in after}
    changes = []
    for key, scope in dict.fromkeys([*first, *second]):
        old = first.get((key, scope)) or Average(key, scope)
        new = second.get((key, scope)) or Average(key, scope)
        changes.append(
            Change(
                key,
                scope,
                old.count,
                new.count,
                old.cpu_time,
                new.cpu_time,
                old.self_cpu_time_total,
                new.self_cpu_time_total,
                rank_test(old.durations, new.durations),
            )
        )
    return Difference(changes)


def rank_test(first: Sequence[float], second: Sequence[float]) -> float:
    """Return the two-sided p-value of the Mann-Whitney rank test for two samples.

    It uses ranks because durations have outliers that dominate any mean.

    >>> rank_test(range(100), range(100)), rank_test(range(100), range(50, 150)) < 1e-9
    (1.0, True)
    """
    n, m = len(first), len(second)
    if min(n, m) < _FEWEST:
        return 1.0
    values = sorted([*[(value, 0) for value in first], *[(value, 1) for value in second]])
    ranks, ties, place = 0.0, 0, 0
    while place < len(values):
        last = place
        while last + 1 < len(values) and values[last + 1][0] == values[place][0]:
            last += 1
        equal = last - place + 1
        ties += equal**3 - equal
        ranks += (place + last + 2) / 2 * sum([1 - which for _, which in values[place : last + 1]])
        place = last + 1
    total = n + m
    variance = n * m / 12 * (total + 1 - ties / (total * (total - 1)))
    if variance <= 0:
        return 1.0
    distance = max(abs(ranks - n * (n + 1) / 2 - n * m / 2) - 0.5, 0.0)
    return math.erfc(distance / math.sqrt(2 * variance))
