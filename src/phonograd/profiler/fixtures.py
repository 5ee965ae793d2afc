"""Fixtures: tests of speed with pytest. Put ``pytest_plugins = ["phonograd.profiler.fixtures"]`` into ``conftest.py``.

A test runs what it measures inside the fixture. The first run saves a profile, later runs are compared with it and fail
if something has become slower by more than chance explains::

    def test_training(profiled):
        with profiled(tolerance=0.2):
            for _ in range(20):
                with record_function("step"):
                    train()

``pytest --profile-update`` saves new profiles; ``--profile-directory`` says where they are, ``.profiles`` beside the
configuration of pytest otherwise. Durations of one machine mean nothing on another: each should have its own.
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
    group.addoption("--profile-update", action="store_true", help="save the profiles of all tests anew")
    group.addoption("--profile-directory", default=None, help="where profiles are saved (.profiles)")


class Profiled:
    """What the fixture gives to a test: blocks that are profiled and compared with an earlier run."""

    def __init__(self, directory: Path, test: str, update: bool) -> None:
        self.directory = directory
        self._test = test
        self._update = update
        self.differences: dict[str, Difference] = {}
        """How each block differs from its saved profile, by name; nothing for those just saved."""

    def path(self, name: str = "") -> Path:
        """Return the file of a block's profile."""
        title = re.sub(r"[^\w.-]+", "_", f"{self._test}.{name}" if name else self._test)
        return self.directory / f"{title}.json.gz"

    @contextmanager
    def __call__(self, name: str = "", *, tolerance: float = 0.1, **options: Any) -> Iterator[profile]:
        """Profile a block; afterwards fail if it has become slower. Several blocks of a test need names.

        Parameters
        ----------
        name : str
            Tells the blocks of one test apart.
        tolerance : float
            By how much something may become slower: 0.1 is 10 %.
        options
            Those of :class:`.session.profile`.
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
    """Return what profiles blocks of a test and compares them with earlier runs; see :class:`Profiled`."""
    configuration = request.config
    directory = configuration.getoption("--profile-directory") or configuration.rootpath / ".profiles"
    return Profiled(Path(directory), request.node.nodeid, bool(configuration.getoption("--profile-update")))
