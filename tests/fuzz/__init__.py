"""Random searches for defects, and the interface by which their figures reach docs/reliability.md.

A search is a module of this package that is listed in :data:`SEARCHES` and has one function::

    def run(budget_seconds: float, seed: int = 0) -> Counts:

It searches for about that many seconds, at least one case however small the budget is, and returns what it tried and
what failed. It never raises for a defect that it finds: it shrinks the case and calls :meth:`Counts.fail`. The same
seed draws the same cases in the same order. A search that the machine cannot run returns ``Counts.unavailable(why)``.

Beside each search ``X.py`` a file ``test_X.py`` has the tests: one short test with a fixed seed and a fixed number of
cases for ``make test``, and one with ``@pytest.mark.slow`` for ``make fuzz`` that calls ``run`` for longer and asserts
``not counts.failures``. ``python -m tests.fuzz.figures`` calls ``run`` of every module in :data:`SEARCHES` that is there,
stores the counts in tests/fuzz/results.json and writes the table of docs/reliability.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field

#: modules with searches, in the order of the table, and a few words about each for its first column
SEARCHES = {
    "programs": "random programs, each run every way",
    "compiled": "compiled functions and hybridized blocks that change their arguments",
    "files": "damaged files, given to every loader",
    "guided": "parsers, guided by coverage",
    "cache": "cache directories: several processes, damaged and planted entries",
    "interrupts": "signals, exceptions from outside, forks, kills",
    "profiler": "profilers that start, stop and export beside working threads",
}


@dataclass
class Counts:
    """Count the cases that a search tried, and list those that failed.

    Examples
    --------
    >>> counts = Counts()
    >>> counts.add("programs")
    >>> counts.add("runs", 30)
    >>> counts.fail("seed 3: a * b differs")
    >>> counts.tried, counts.failures
    ({'programs': 1, 'runs': 30}, ['seed 3: a * b differs'])
    """

    #: cases by kind, in the words of the table: ``{"programs": 1000, "operators": 400, "forks": 20}``
    tried: dict[str, int] = field(default_factory=dict)
    #: one text for each defect: a runnable script, or the seed and the difference
    failures: list[str] = field(default_factory=list)
    #: why the search could not run on this machine
    skipped: str = ""

    @classmethod
    def unavailable(cls, why: str) -> Counts:
        """Return the counts of a search that cannot run here."""
        return cls(skipped=why)

    def add(self, kind: str, number: int = 1) -> None:
        """Count some cases of a kind."""
        self.tried[kind] = self.tried.get(kind, 0) + number

    def fail(self, text: str) -> None:
        """Add a defect."""
        self.failures.append(text)
