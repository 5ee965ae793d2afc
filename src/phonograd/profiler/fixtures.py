"""Performance tests with pytest: set ``pytest_plugins = ["phonograd.profiler.fixtures"]`` in ``conftest.py``.

A test runs the code to measure inside the fixture. The first run saves a profile. Later runs are compared with it, and
fail on a statistically significant slowdown::

    def test_training(profiled):
        with profiled(tolerance=0.2):
            for _ in range(20):
                with record_function("step"):
                    train()

``pytest --profile-update`` saves new profiles. ``--profile-directory`` sets their directory; the default is
``.profiles`` in pytest's root directory. Durations are not comparable between machines: keep one directory for each.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from .difference import Difference
from .session import load, profile

__all__ = ["Profiled", "profiled", "pytest_addoption"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the fixture to pytest."""
    group = parser.getgroup("phonograd profiles")
    group.addoption("--profile-update", action="store_true", help="replace the saved profiles of all tests")
    group.addoption("--profile-directory", default=None, help="directory of the saved profiles (default: .profiles)")


class Profiled:
    """The value of the fixture: call it to profile a block and compare it with an earlier run."""

    def __init__(self, directory: Path, test: str, update: bool) -> None:
        self.directory = directory
        self._test = test
        self._update = update
        self.differences: dict[str, Difference] = {}
        """The difference of each compared block from its saved profile, by name; newly saved blocks are missing."""

    def path(self, name: str = "") -> Path:
        """Return the file of a block's profile."""
        title = re.sub(r"[^\w.-]+", "_", f"{self._test}.{name}" if name else self._test)
        return self.directory / f"{title}.json.gz"

    @contextmanager
    def __call__(self, name: str = "", *, tolerance: float = 0.1, **options: Any) -> Iterator[profile]:
        """Profile a block, and fail if it has become slower. If a test has several blocks, give them names.

        Parameters
        ----------
        name : str
            Distinguishes the blocks of one test.
        tolerance : float
            Accepted slowdown: 0.1 is 10 %.
        options
            Options of :class:`.session.profile`.
        """
        with profile(**options) as prof:
            yield prof
        path = self.path(name)
        if self._update or not path.exists():
            self.directory.mkdir(parents=True, exist_ok=True)
            prof.save(path)
            return
        difference = self.differences[name] = load(path).diff(prof)
        difference.check(tolerance)


@pytest.fixture
def profiled(request: pytest.FixtureRequest) -> Profiled:
    """Return the profiler of blocks of a test; see :class:`Profiled`."""
    configuration = request.config
    directory = configuration.getoption("--profile-directory") or configuration.rootpath / ".profiles"
    return Profiled(Path(directory), request.node.nodeid, bool(configuration.getoption("--profile-update")))
