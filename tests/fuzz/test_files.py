"""Damaged files and failing saves: a short search in ``make test``, a long one in ``make fuzz``."""

import sys

import pytest

from . import Counts, files, kills
from .loaders import LOADERS

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="limits of memory and of files are those of Linux"
)


def test_damaged_files() -> None:
    counts = Counts()
    files.damage(list(LOADERS), 40, 10.0, 0, counts)
    assert not counts.failures, "\n".join(counts.failures)
    assert counts.tried == {"formats": len(LOADERS), "damaged files": 40 * len(LOADERS)}


def test_saves_that_fail() -> None:
    counts = Counts()
    files.disturb(0.5, 0, counts)
    kills.search(0, 0, counts, 1)
    assert not counts.failures, "\n".join(counts.failures)
    assert counts.tried["saves that fail"] >= 10
    assert counts.tried["kills during saves"] == 1


def test_the_search_notices_defects(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:  # type: ignore[no-untyped-def]
    """A reader with defects is reported: an undocumented error, much memory, a missing name."""

    def read(path):  # type: ignore[no-untyped-def]
        data = path.read_bytes()
        if len(data) < 4:
            raise KeyError("short")
        if data[0] != b"v"[0]:
            return bytearray(2 * files.MEMORY)
        if data[1] != b"a"[0]:
            raise ValueError("no name")
        return data

    loader = next(iter(LOADERS.values()))._replace(write=lambda path: path.write_bytes(b"valid"), read=read)
    monkeypatch.setitem(LOADERS, "bad", loader)
    done, problems = files.read_copies("bad", tmp_path, 60, 10.0, 0)
    assert done > 20
    for text in ("KeyError", "takes more than", "does not name the file"):
        assert any(text in problem for problem in problems), problems


@pytest.mark.slow
def test_many_damaged_files() -> None:
    counts = files.run(600.0, seed=1)
    assert not counts.failures, "\n".join(counts.failures)


@pytest.mark.slow
def test_a_hundred_kills() -> None:
    counts = Counts()
    kills.search(float("inf"), 0, counts, 100)
    assert not counts.failures, "\n".join(counts.failures)
