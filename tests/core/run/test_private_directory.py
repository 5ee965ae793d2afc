"""Planted machine code: directories and files that another user could have made, replaced or changed."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
import textwrap
import threading
import warnings
from pathlib import Path

import pytest

from phonograd.core.run import disk_cache, private_directory
from phonograd.core.run.disk_cache import DiskCache
from phonograd.core.run.private_directory import KEY_BYTES, PrivateDirectory, user_key

pytestmark = pytest.mark.skipif(not private_directory.IS_CHECKED, reason="owners and descriptors of POSIX")
root = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can act as another user")

UNLIMITED = 1 << 30
OTHER = 12345


@pytest.fixture
def no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave this user without a private directory for a key."""
    monkeypatch.setattr(private_directory, "_homes", list)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the private directory for keys."""
    monkeypatch.setattr(private_directory, "_homes", lambda: [str(tmp_path / "home")])
    return tmp_path / "home"


def cache(directory: Path) -> DiskCache:
    return DiskCache(directory, UNLIMITED, "")


def plant(folder: Path, name: str = "key", code: bytes = b"planted", mode: int = 0o600) -> Path:
    """Write the file that another user would write, who knows everything but the secrets of this one."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_bytes(disk_cache._MAGIC + disk_cache.digest(name.encode() + code) + code)
    path.chmod(mode)
    return path


# -- chains of directories


def test_a_private_chain(tmp_path: Path) -> None:
    made = PrivateDirectory(tmp_path / "a" / "b", make=True)
    assert made.is_private
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o700
    plant(tmp_path / "a" / "b")
    assert made.read("key") is not None
    assert [name for name, _ in made.entries()] == ["key"]


@pytest.mark.parametrize("mode", [0o777, 0o775, 0o772])
@pytest.mark.parametrize("which", ["a", "a/b", "a/b/c"])
def test_a_directory_on_the_way_that_others_can_write_to(tmp_path: Path, which: str, mode: int) -> None:
    PrivateDirectory(tmp_path / "a" / "b" / "c", make=True)
    (tmp_path / which).chmod(mode)
    found = PrivateDirectory(tmp_path / "a" / "b" / "c")
    assert "others can write" in found.weakness
    assert not found.is_private


def test_the_sticky_bit_protects_names_but_not_the_directory_itself(tmp_path: Path) -> None:
    PrivateDirectory(tmp_path / "a" / "b", make=True)
    (tmp_path / "a").chmod(0o1777)
    assert PrivateDirectory(tmp_path / "a" / "b").is_private
    (tmp_path / "a" / "b").chmod(0o1777)
    assert not PrivateDirectory(tmp_path / "a" / "b").is_private


@root
@pytest.mark.parametrize("which", ["a", "a/b"])
def test_a_directory_of_another_user(tmp_path: Path, which: str) -> None:
    PrivateDirectory(tmp_path / "a" / "b", make=True)
    # in a directory with the sticky bit, too
    (tmp_path / "a").chmod(0o1777)
    os.chown(tmp_path / which, OTHER, OTHER)
    assert "belongs to another user" in PrivateDirectory(tmp_path / "a" / "b").weakness


def test_links_are_followed_and_checked(tmp_path: Path) -> None:
    PrivateDirectory(tmp_path / "real" / "below", make=True)
    (tmp_path / "absolute").symlink_to(tmp_path / "real")
    (tmp_path / "relative").symlink_to("absolute")
    found = PrivateDirectory(tmp_path / "relative" / "below")
    assert found.is_private
    plant(tmp_path / "real" / "below")
    assert found.read("key") is not None
    (tmp_path / "real").chmod(0o777)
    assert not PrivateDirectory(tmp_path / "relative" / "below").is_private
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(OSError, match="loop"):
        PrivateDirectory(tmp_path / "loop")


@root
def test_a_link_of_another_user(tmp_path: Path) -> None:
    PrivateDirectory(tmp_path / "real", make=True)
    (tmp_path / "link").symlink_to("real")
    os.chown(tmp_path / "link", OTHER, OTHER, follow_symlinks=False)
    assert "belongs to another user" in PrivateDirectory(tmp_path / "link").weakness


# -- after the check


def test_a_directory_that_is_planted_after_the_check_is_not_read(tmp_path: Path, no_key: None) -> None:
    kept = cache(tmp_path / "cache")
    plant(tmp_path / "cache" / "kernels")
    assert kept.load("key") is None
    (tmp_path / "cache" / "kernels").chmod(0o777)
    with pytest.warns(RuntimeWarning, match=r"others can write to it, and there is no private directory for a key"):
        kept.save("other", b"code")
    assert kept.load("key") is None
    assert cache(tmp_path / "other").load("key") is None


def test_a_link_that_is_pointed_elsewhere_after_the_check(tmp_path: Path) -> None:
    cache(tmp_path / "mine").save("key", b"mine")
    plant(tmp_path / "theirs" / "kernels")
    (tmp_path / "link").symlink_to("mine")
    kept = cache(tmp_path / "link")
    (tmp_path / "link").unlink()
    (tmp_path / "link").symlink_to("theirs")
    assert kept.load("key") == b"mine"
    kept.save("new", b"new")
    assert (tmp_path / "mine" / "kernels" / "new").exists()
    assert not (tmp_path / "theirs" / "kernels" / "new").exists()


def test_a_directory_that_is_replaced_after_the_check(tmp_path: Path) -> None:
    cache(tmp_path).save("key", b"mine")
    kept = cache(tmp_path)
    (tmp_path / "kernels").rename(tmp_path / "before")
    plant(tmp_path / "kernels")
    assert kept.load("key") == b"mine"
    kept.trim()
    kept.remove("key")
    assert (tmp_path / "kernels" / "key").exists()
    assert not (tmp_path / "before" / "key").exists()


def test_a_program_that_closes_all_descriptors(tmp_path: Path) -> None:
    kept = cache(tmp_path)
    kept.save("key", b"mine")
    folder = kept._store.open(make=False)
    assert folder is not None
    os.close(folder._descriptor)
    other = os.open(tmp_path, os.O_RDONLY)
    try:
        plant(tmp_path, "key")
        assert kept.load("key") == b"mine"
    finally:
        os.close(other)


# -- files


@pytest.mark.parametrize("mode", [0o666, 0o660, 0o602])
def test_a_file_that_others_can_write_to(tmp_path: Path, mode: int) -> None:
    cache(tmp_path).save("key", b"mine")
    (tmp_path / "kernels" / "key").chmod(mode)
    assert cache(tmp_path).load("key") is None


@root
def test_a_file_of_another_user(tmp_path: Path) -> None:
    cache(tmp_path).save("key", b"mine")
    os.chown(tmp_path / "kernels" / "key", OTHER, OTHER)
    assert cache(tmp_path).load("key") is None


def test_a_link_under_the_name_of_a_file(tmp_path: Path) -> None:
    cache(tmp_path).save("key", b"mine")
    path = tmp_path / "kernels" / "key"
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    assert cache(tmp_path).load("key") is None


def test_a_hard_link_under_another_name(tmp_path: Path) -> None:
    kept = cache(tmp_path)
    kept.save("key", b"mine")
    os.link(tmp_path / "kernels" / "key", tmp_path / "kernels" / "other")
    assert kept.load("key") == b"mine"
    assert kept.load("other") is None


def test_fifos_devices_and_directories_do_not_hang(tmp_path: Path) -> None:
    kept = cache(tmp_path)
    kept.save("key", b"mine")
    place = tmp_path / "kernels"
    os.mkfifo(place / "fifo", 0o600)
    (place / "directory").mkdir()
    names = ["fifo", "directory"]
    if os.geteuid() == 0:
        for name, numbers in (("zero", (1, 5)), ("terminal", (5, 0))):
            try:
                os.mknod(place / name, 0o600 | stat.S_IFCHR, os.makedev(*numbers))
            except PermissionError:
                continue
            names.append(name)
    found: list[object] = []
    thread = threading.Thread(target=lambda: found.extend([kept.load(name) for name in names]), daemon=True)
    thread.start()
    thread.join(20)
    assert found == [None] * len(names)
    kept.save("fifo", b"code")
    assert kept.load("fifo") == b"code"


def test_a_fifo_under_the_name_of_the_account(tmp_path: Path) -> None:
    kept = cache(tmp_path)
    kept.save("key", b"mine")
    (account,) = (tmp_path / "kernels").glob("account*")
    account.unlink()
    os.mkfifo(account, 0o600)
    with pytest.warns(RuntimeWarning, match="cannot be kept"):
        kept.save("other", b"code")
    assert kept.load("key") == b"mine"


def test_files_are_secret(tmp_path: Path) -> None:
    cache(tmp_path).save("key", b"mine")
    for path in (tmp_path / "kernels").iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


# -- directories that are shared


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    (tmp_path / "shared" / "kernels").mkdir(parents=True)
    (tmp_path / "shared" / "kernels").chmod(0o777)
    return tmp_path / "shared"


def test_a_shared_directory_is_used_with_a_key(shared: Path, home: Path) -> None:
    plant(shared / "kernels")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kept = cache(shared)
        assert kept.load("key") is None, "it has the right digest, but not with the key"
        kept.save("key", b"mine")
        assert cache(shared).load("key") == b"mine"
    (path,) = home.iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.stat().st_size == KEY_BYTES
    # another user can replace the file, but does not know the key
    (mine,) = (shared / "kernels").glob("key-*")
    mine.write_bytes(plant(shared / "kernels").read_bytes())
    assert cache(shared).load("key") is None


def test_without_a_key_a_shared_directory_is_not_used(shared: Path, no_key: None) -> None:
    plant(shared / "kernels")
    with pytest.warns(RuntimeWarning, match="others can write to it"):
        kept = cache(shared)
    assert kept.load("key") is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kept.save("other", b"code")
    assert kept.load("other") is None


def test_a_private_directory_needs_no_key(tmp_path: Path, home: Path) -> None:
    cache(tmp_path / "cache").save("key", b"mine")
    assert not home.exists()


@pytest.mark.parametrize("content", [b"", bytes(KEY_BYTES - 1), bytes(KEY_BYTES + 1)])
def test_a_truncated_key_is_made_anew(shared: Path, home: Path, content: bytes) -> None:
    cache(shared).save("key", b"mine")
    before = (home / "key").read_bytes()
    (home / "key").write_bytes(content)
    kept = cache(shared)
    assert kept.load("key") is None
    kept.save("key", b"mine")
    assert cache(shared).load("key") == b"mine"
    assert len((home / "key").read_bytes()) == KEY_BYTES
    assert (home / "key").read_bytes() != before


@pytest.mark.parametrize("mode", [0o644, 0o660])
def test_a_key_that_others_can_read_is_made_anew(shared: Path, home: Path, mode: int) -> None:
    first = user_key()
    (home / "key").chmod(mode)
    assert user_key() not in (first, None)
    assert stat.S_IMODE((home / "key").stat().st_mode) == 0o600


@root
def test_a_key_of_another_user_is_made_anew(home: Path) -> None:
    first = user_key()
    os.chown(home / "key", OTHER, OTHER)
    assert user_key() not in (first, None)


def test_a_key_is_not_kept_where_others_can_write(tmp_path: Path) -> None:
    (tmp_path / "weak").mkdir(mode=0o700)
    (tmp_path / "weak").chmod(0o777)
    places = [str(tmp_path / "weak"), str(tmp_path / "private")]
    key = user_key(places)
    assert key is not None
    assert key == (tmp_path / "private" / "key").read_bytes()
    assert not list((tmp_path / "weak").iterdir())
    assert user_key(places[:1]) is None
    assert user_key(["/proc/nowhere"]) is None


def test_processes_that_start_at_once_have_one_key(tmp_path: Path) -> None:
    code = "import sys; from phonograd.core.run.private_directory import user_key; print(user_key([sys.argv[1]]).hex())"
    command = [sys.executable, "-c", code, str(tmp_path / "home")]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(4)]
    assert len({process.communicate()[0] for process in processes}) == 1
    assert [path.name for path in (tmp_path / "home").iterdir()] == ["key"]


@root
def test_another_user_cannot_plant_code() -> None:
    # the whole way: an unprivileged user runs the library in a directory that a third user can replace
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        public = Path(name)
        public.chmod(0o777)
        planted = plant(public / "kernels", mode=0o644)
        planted.parent.chmod(0o755)
        for path in (planted.parent, planted):
            os.chown(path, OTHER + 1, OTHER + 1)
        code = f"""
            import os, warnings
            from phonograd.core.run import private_directory
            from phonograd.core.run.disk_cache import DiskCache
            os.setgroups([]); os.setgid({OTHER}); os.setuid({OTHER})
            private_directory._homes = lambda: []
            with warnings.catch_warnings(record=True) as seen:
                warnings.simplefilter("always")
                cache = DiskCache({name!r}, 1 << 20, "")
            print(os.access({str(planted)!r}, os.R_OK), cache.load("key"), [str(one.message) for one in seen])
        """
        done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True)
    assert done.stdout.startswith("True None ["), done
    assert f"others can write to {public.name}" in done.stdout
