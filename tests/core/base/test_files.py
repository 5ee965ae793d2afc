"""Atomic files: no names before the contents are complete, and nothing left behind."""

import contextlib
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


@pytest.mark.skipif(not UNNAMED, reason="this system has no unnamed files")
def test_unnamed_files_get_names(tmp_path: Path) -> None:
    descriptor = files._open_unnamed(str(tmp_path))
    if descriptor is None:
        pytest.skip("this file system has no unnamed files")
    os.write(descriptor, b"contents")
    assert files._give_name(descriptor, str(tmp_path / "file")), "the contents are copied for each save"
    os.close(descriptor)
    assert (tmp_path / "file").read_bytes() == b"contents"


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
        ".phonograd-0123456789abcdef.part": 2 * hour,
        ".phonograd-1123456789abcdef.tmp": 10,
        ".phonograd-2123456789abcdef.part": 10,
        ".phonograd-3123456789abcdef.part": 2 * hour,
        ".phonograd-4123456789abcdef.tmp": 2 * hour,
        ".phonograd-xyz.tmp": 2 * hour,
        "model.tmp": 2 * hour,
    }
    for name, age in ages.items():
        (tmp_path / name).write_bytes(b"")
        os.utime(tmp_path / name, (time.time() - age,) * 2)
    (tmp_path / ".phonograd-5123456789abcdef.tmp").symlink_to(tmp_path / "model.tmp")
    with contextlib.ExitStack() as stack:
        for name in list(ages)[3:5]:
            assert files._lock(stack.enter_context((tmp_path / name).open("rb")).fileno())
        write_atomically(tmp_path / "file", [b""])
    assert {name for name in ages if (tmp_path / name).exists()} == set(list(ages)[2:])
    assert (tmp_path / ".phonograd-5123456789abcdef.tmp").is_symlink()


def test_files_without_locks_are_abandoned_after_an_hour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_tidied", set())
    monkeypatch.setattr(files, "_lock", lambda descriptor: None)
    old, new = [tmp_path / f".phonograd-{number}123456789abcdef.tmp" for number in (0, 1)]
    for path, age in ((old, 7200), (new, 10)):
        path.write_bytes(b"")
        os.utime(path, (time.time() - age,) * 2)
    write_atomically(tmp_path / "file", [b""])
    assert not old.exists()
    assert new.exists()


@pytest.mark.skipif(not UNNAMED, reason="this system has no unnamed files")
def test_a_file_is_locked_while_it_has_a_temporary_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, replace, seen = tmp_path / "file", os.replace, []

    def look(source: str, target: str) -> None:
        # another program tidies at this moment
        monkeypatch.setattr(os, "replace", replace)
        monkeypatch.setattr(files, "_tidied", set())
        write_atomically(tmp_path / "other", [b""])
        seen.append(Path(source).exists())
        replace(source, target)

    path.write_bytes(b"old")
    monkeypatch.setattr(os, "replace", look)
    write_atomically(path, [b"new"])
    assert seen == [True]
    assert path.read_bytes() == b"new"
