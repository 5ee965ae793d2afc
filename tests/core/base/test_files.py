"""Atomic files: no names before the contents are complete, and nothing left behind."""

import os
import stat
import time
from pathlib import Path

import pytest

from phonograd.core.base import files
from phonograd.core.base.files import AtomicFile, write_atomically

UNNAMED = hasattr(os, "O_TMPFILE")


@pytest.fixture(params=["unnamed", "named", "copied"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Write with unnamed files, with temporary names, or on a file system whose unnamed files get no names."""
    if request.param == "named":
        monkeypatch.setattr(files, "_open_unnamed", lambda directory: None)
    elif request.param == "copied":
        monkeypatch.setattr(files, "_give_name", lambda descriptor, path: False)
    return str(request.param)


def test_new_and_old_targets(tmp_path: Path, way: str) -> None:
    path = tmp_path / "file"
    write_atomically(path, [b"one"])
    assert path.read_bytes() == b"one"
    path.chmod(0o640)
    write_atomically(path, [b"t", memoryview(b"wo")])
    assert path.read_bytes() == b"two"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert os.listdir(tmp_path) == ["file"]


def test_a_target_that_appears_meanwhile_is_replaced(tmp_path: Path, way: str) -> None:
    path = tmp_path / "file"
    with AtomicFile(path) as file:
        file.write(b"ours")
        path.write_bytes(b"theirs")
    assert path.read_bytes() == b"ours"
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.skipif(not UNNAMED, reason="this system has no unnamed files")
def test_contents_have_no_name_until_they_are_complete(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with AtomicFile(path) as file:
        file.write(b"new")
        assert os.listdir(tmp_path) == ["file"]
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"


def test_a_full_disk_leaves_the_old_file(tmp_path: Path, way: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    file = AtomicFile(path)
    file.write(b"x" * 100)
    os.dup2(os.open("/dev/full", os.O_WRONLY), file.stream.fileno())
    with pytest.raises(OSError, match="No space"):
        file.close()
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


def test_a_directory_that_is_not_there_is_named(tmp_path: Path, way: str) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere/file"):
        write_atomically(tmp_path / "nowhere" / "file", [b"x"])


def test_abandoned_files_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_tidied", set())
    hour = 3600
    ages = {
        ".phonograd-0123456789abcdef.tmp": 2 * hour,
        ".phonograd-1123456789abcdef.tmp": 10,
        ".phonograd-2123456789abcdef.tmp": 2 * hour,
        ".phonograd-xyz.tmp": 2 * hour,
        "model.tmp": 2 * hour,
    }
    for name, age in ages.items():
        (tmp_path / name).write_bytes(b"")
        os.utime(tmp_path / name, (time.time() - age,) * 2)
    (tmp_path / ".phonograd-3123456789abcdef.tmp").symlink_to(tmp_path / "model.tmp")
    with (tmp_path / ".phonograd-2123456789abcdef.tmp").open("rb") as used:
        assert files._is_locked_by_us(used.fileno())
        write_atomically(tmp_path / "file", [b""])
    assert not (tmp_path / ".phonograd-0123456789abcdef.tmp").exists()
    assert {name for name in ages if (tmp_path / name).exists()} == set(list(ages)[1:])
    assert (tmp_path / ".phonograd-3123456789abcdef.tmp").is_symlink()
