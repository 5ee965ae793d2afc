"""The store of machine code: what is found again, what is not, and what can go wrong with a disk."""

from __future__ import annotations

import ctypes
import dataclasses
import enum
import importlib
import os
import pkgutil
import subprocess
import sys
import threading
import time
import types
import typing
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from phonograd import settings
from phonograd.core import kernels
from phonograd.core.graph.operator import REGISTRY, Operator
from phonograd.core.kernels.structure import Compute, Load, Structure
from phonograd.core.lower.lowering import Elementwise
from phonograd.core.ops.math.structural import leaf
from phonograd.core.plan.native_program import NativeProgram
from phonograd.core.run import disk_account, disk_cache, kernel_cache, private_directory
from phonograd.core.run.disk_cache import DiskCache, describe
from phonograd.core.run.objects import ObjectCache

FLOAT32 = np.dtype("float32")
UNLIMITED = 1 << 30
posix = pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
not_root = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere")


def files(directory: Path) -> list[Path]:
    folder = directory / "kernels"
    return sorted(path for path in folder.iterdir() if path.name[0] not in "acs") if folder.exists() else []


def structure(operator: str = "exp", dtype: str = "float32") -> Structure:
    kind = np.dtype(dtype)
    return Structure("K", 16, (Load(kind, "unit"),), (), (Compute(operator, (), (0,), kind),), (1,), ())


def test_what_is_saved_is_found_by_its_key(tmp_path: Path) -> None:
    kept = DiskCache(tmp_path, UNLIMITED, "versions")
    key = kept.key("a kernel")
    assert kept.load(key) is None
    kept.save(key, b"machine code")
    assert kept.load(key) == b"machine code"
    assert DiskCache(tmp_path, UNLIMITED, "versions").load(key) == b"machine code"
    kept.remove(key)
    assert kept.load(key) is None


def test_other_versions_have_other_keys(tmp_path: Path) -> None:
    keys = {DiskCache(tmp_path, UNLIMITED, version).key(text) for version in ("1", "2") for text in ("a", "b")}
    assert len(keys) == 4
    assert all(key.isalnum() and key[0].isalpha() for key in keys)


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[:10],
        lambda data: data[:-1],
        lambda data: data + b"x",
        lambda data: data[:-3] + bytes([data[-3] ^ 1]) + data[-2:],
        lambda data: b"\x7fELF" + data,
    ],
    ids=["empty", "cut short", "one byte less", "one byte more", "one bit", "no head"],
)
def test_damaged_files_are_ignored(tmp_path: Path, damage) -> None:  # type: ignore[no-untyped-def]
    kept = DiskCache(tmp_path, UNLIMITED, "")
    kept.save("key", b"machine code")
    (path,) = files(tmp_path)
    path.write_bytes(damage(path.read_bytes()))
    assert kept.load("key") is None
    kept.save("key", b"machine code")
    assert kept.load("key") == b"machine code"


def test_files_under_another_name_are_ignored(tmp_path: Path) -> None:
    kept = DiskCache(tmp_path, UNLIMITED, "")
    kept.save("first", b"machine code")
    (path,) = files(tmp_path)
    path.rename(path.with_name("second"))
    assert kept.load("second") is None


def total(directory: Path) -> int:
    return sum(path.stat().st_size for path in files(directory))


def test_the_least_recently_used_files_are_dropped(tmp_path: Path) -> None:
    limit = 8 * 1100
    kept = DiskCache(tmp_path, limit, "")
    now = time.time()
    keys = [kept.key(str(number)) + (".quick" if number % 2 else "") for number in range(9)]
    for number, key in enumerate(keys[:8]):
        kept.save(key, bytes(1000))
        os.utime(tmp_path / "kernels" / key, (now, now - 1e6 + number))
    # using a file makes it a recent one
    assert kept.load(keys[0]) is not None
    kept.save(keys[8], bytes(1000))
    left = [path.name for path in files(tmp_path)]
    assert keys[0] in left
    assert keys[8] in left
    assert keys[1] not in left
    assert total(tmp_path) <= limit


def test_the_limit_is_never_exceeded(tmp_path: Path) -> None:
    limit = 10 * 1100
    caches = [DiskCache(tmp_path, limit, str(number)) for number in range(3)]
    for number in range(300):
        cache = caches[number % 3]
        cache.save(cache.key(str(number)), bytes(number * 37 % 2000))
        assert total(tmp_path) <= limit
    assert total(tmp_path) > limit // 2
    caches[0].save(caches[0].key("large"), bytes(limit))
    assert total(tmp_path) > limit // 2, "what is larger than the limit is not stored, and drops nothing"


@pytest.mark.parametrize("content", [None, b"", b"short", bytes(20), b"\xff" * 20])
def test_the_limit_holds_without_an_account(tmp_path: Path, content: bytes | None) -> None:
    limit = 10 * 1100
    cache = DiskCache(tmp_path, limit, "")
    for number in range(50):
        cache.save(cache.key(str(number)), bytes(1000))
        for path in (tmp_path / "kernels").glob("account*"):
            path.unlink() if content is None else path.write_bytes(content)
        assert total(tmp_path) <= limit


def test_an_account_that_another_process_holds_for_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_account, "_PATIENCE_SECONDS", 0.01)
    cache = DiskCache(tmp_path, UNLIMITED, "")
    cache.save("first", b"code")
    folder = private_directory.PrivateDirectory(tmp_path / "kernels")
    with disk_account.Account(folder) as account:
        assert account.is_held
        cache.save("second", b"code")
    assert cache.load("second") is None
    cache.save("second", b"code")
    assert cache.load("second") == b"code"


def test_what_others_put_there_is_left_alone(tmp_path: Path) -> None:
    kept = DiskCache(tmp_path, UNLIMITED, "")
    kept.save(kept.key("mine"), bytes(1000))
    place = tmp_path / "kernels"
    (place / "notes.txt").write_text("not a kernel")
    (place / "folder").mkdir()
    (place / "folder.tmp").mkdir()
    os.utime(place / "folder.tmp", (0, 0))
    DiskCache(tmp_path, 0, "").trim()
    left = {path.name for path in place.iterdir() if not path.name.startswith("account")}
    assert left == {"notes.txt", "folder", "folder.tmp"}


def test_what_a_crash_left_behind_is_removed(tmp_path: Path) -> None:
    kept = DiskCache(tmp_path, UNLIMITED, "")
    kept.save("key", b"code")
    for name, age in (("old.tmp", 1e5), ("new.tmp", 0)):
        path = tmp_path / "kernels" / name
        path.write_bytes(b"")
        os.utime(path, (time.time() - age,) * 2)
    kept.trim()
    assert {path.name for path in files(tmp_path)} == {"key", "new.tmp"}


@posix
@not_root
def test_a_disk_that_is_read_only(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    kept = DiskCache(tmp_path / "below", UNLIMITED, "")
    with pytest.warns(RuntimeWarning, match="cannot be kept"):
        kept.save("key", b"code")
    assert kept.load("key") is None
    tmp_path.chmod(0o700)


def test_a_disk_that_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    kept = DiskCache(tmp_path, UNLIMITED, "")
    kept.save("before", b"code")
    monkeypatch.setattr(private_directory.PrivateDirectory, "write", full)
    with pytest.warns(RuntimeWarning, match=r"No space left.*PHONOGRAD_CACHE_DIRECTORY"):
        kept.save("key", b"code")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kept.save("other", b"code")
    assert kept.load("before") == b"code"


def test_kernels_on_a_disk_that_became_read_only_are_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read_only(*_: object, **__: object) -> None:
        raise OSError(30, "Read-only file system")

    DiskCache(tmp_path, UNLIMITED, "").save("key", b"code")
    kept = DiskCache(tmp_path, UNLIMITED, "")
    os.utime(tmp_path / "kernels" / "key", (0, 0))
    monkeypatch.setattr(private_directory.PrivateDirectory, "write", read_only)
    monkeypatch.setattr(os, "utime", read_only)
    monkeypatch.setattr(os, "unlink", read_only)
    assert kept.load("key") == b"code"
    kept.remove("key")
    with pytest.warns(RuntimeWarning, match="Read-only file system"):
        kept.save("other", b"code")
    assert kept.load("key") == b"code"


def test_a_file_where_the_directory_should_be(tmp_path: Path) -> None:
    (tmp_path / "kernels").write_text("")
    kept = DiskCache(tmp_path, UNLIMITED, "")
    assert kept.load("key") is None
    with pytest.warns(RuntimeWarning, match="cannot be kept"):
        kept.save("key", b"code")


@posix
def test_the_directory_is_private(tmp_path: Path) -> None:
    DiskCache(tmp_path / "new", UNLIMITED, "").save("key", b"code")
    assert (tmp_path / "new" / "kernels").stat().st_mode & 0o77 == 0


def test_many_writers_at_once(tmp_path: Path) -> None:
    wrong: list[object] = []

    def work() -> None:
        kept = DiskCache(tmp_path, 4000, "")
        for number in range(40):
            kept.save(f"key{number % 5}", bytes([number % 5]) * 500)
            found = kept.load(f"key{number % 5}")
            if found is not None and found != bytes([number % 5]) * 500:
                wrong.append(found)
            if number % 7 == 0:
                kept.trim()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


# -- descriptions


def test_descriptions_tell_kernels_apart() -> None:
    texts = [describe(structure(operator, dtype)) for operator in ("exp", "tanh") for dtype in ("float32", "float64")]
    assert len({text for text in texts if text is not None}) == 4
    assert describe(structure()) == describe(structure())
    assert describe((1,)) != describe((1.0,))
    assert describe((0.0,)) != describe((-0.0,))
    assert describe(("a", "b")) != describe(("a,b",))


def kernel_classes() -> list[type]:
    for module in pkgutil.walk_packages(kernels.__path__, f"{kernels.__name__}."):
        importlib.import_module(module.name)
    found = [
        kind
        for name, module in sys.modules.items()
        if name.startswith(kernels.__name__)
        for kind in vars(module).values()
    ]
    return sorted(
        {
            kind
            for kind in found
            if dataclasses.is_dataclass(kind) and isinstance(kind, type) and hasattr(kind, "write")
        },
        key=str,
    )


def example(hint: Any) -> Any:
    """Return some value of a type."""
    options = [option for option in typing.get_args(hint) if option is not type(None)]
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return example(options[0])
    if typing.get_origin(hint) is tuple:
        return tuple([example(option) for option in options if option is not ...])
    if typing.get_origin(hint) is np.dtype:
        return FLOAT32
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return next(iter(hint))
    if hasattr(hint, "_fields") or dataclasses.is_dataclass(hint):
        hints = typing.get_type_hints(hint)
        names = getattr(hint, "_fields", None) or [field.name for field in dataclasses.fields(hint)]
        return hint(**{name: "exp" if name == "operator" else example(hints[name]) for name in names})
    return hint() if hint in (int, str, float, bool, bytes) else None


def test_all_kernels_are_found_again() -> None:
    classes = kernel_classes()
    assert len(classes) > 20
    without = []
    for kind in classes:
        hints = typing.get_type_hints(kind)
        values = {field.name: example(hints[field.name]) for field in dataclasses.fields(kind)}
        values.pop("operator", None)
        if describe(tuple(values.values())) is None:
            without.append(f"{kind.__name__}: {[name for name, value in values.items() if describe(value) is None]}")
    assert not without


def test_what_others_declare_is_not_described(monkeypatch: pytest.MonkeyPatch) -> None:
    def twice(data: np.ndarray) -> np.ndarray:
        """Return the array twice."""
        return data + data

    mine = Operator(twice, name="_test_twice")
    mine.lowering = Elementwise(lambda e, x: e.add(x, x))
    monkeypatch.setitem(REGISTRY, "_test_twice", mine)
    assert describe(structure("_test_twice")) is None

    @dataclasses.dataclass(frozen=True)
    class Foreign:
        size: int

    assert describe(Foreign(3)) is None


def test_edited_sources_have_no_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_cache, "_STARTED", 0.0)
    assert disk_cache.source_digests() is None


# -- with the compiler


def _program() -> NativeProgram:
    x = leaf(0, (7, 9), FLOAT32)
    return NativeProgram([REGISTRY["tanh"](x * x + x), REGISTRY["_sum_to"](x, shape=(9,))], lambda node: False)


def _fresh_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_cache, "_kernels", kernel_cache._KernelCache())


def test_another_process_would_compile_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_cache, "_STARTED", time.time())
    data = np.random.default_rng(0).normal(size=(7, 9)).astype(np.float32)
    with settings.override(cache_directory=str(tmp_path)):
        _fresh_compiler(monkeypatch)
        before = kernel_cache.statistics.snapshot()
        first = [array.tobytes() for array in _program().run([data])]
        compiled = kernel_cache.statistics.kernels_compiled - before["kernels_compiled"]
        assert compiled > 0
        # the driver, the functions that launch rows, the thread pool and its places may be there too
        assert 0 <= len([path for path in files(tmp_path) if path.suffix == ".quick"]) - compiled <= 5
        _fresh_compiler(monkeypatch)
        before = kernel_cache.statistics.snapshot()
        second = [array.tobytes() for array in _program().run([data])]
        assert kernel_cache.statistics.kernels_compiled == before["kernels_compiled"]
        assert kernel_cache.statistics.kernels_loaded == before["kernels_loaded"] + compiled
    assert first == second


def test_damaged_kernels_are_compiled_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_cache, "_STARTED", time.time())
    data = np.ones((7, 9), np.float32)
    with settings.override(cache_directory=str(tmp_path)):
        _fresh_compiler(monkeypatch)
        expected = [array.tobytes() for array in _program().run([data])]
        for path in files(tmp_path):
            path.write_bytes(path.read_bytes()[:-100])
        _fresh_compiler(monkeypatch)
        before = kernel_cache.statistics.kernels_compiled
        assert [array.tobytes() for array in _program().run([data])] == expected
        assert kernel_cache.statistics.kernels_compiled > before


def test_improved_kernels_take_the_place_of_quick_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_cache, "_STARTED", time.time())
    with settings.override(cache_directory=str(tmp_path)):
        _fresh_compiler(monkeypatch)
        program = _program()
        quick = {path.name for path in files(tmp_path)}
        assert all(name.endswith(".quick") for name in quick)
        compiler = kernel_cache._cache()
        for kernel in program.kernels.values():
            compiler.improve(kernel)
        assert {path.name for path in files(tmp_path)} == {name.removesuffix(".quick") for name in quick}


def test_modules_written_by_hand_are_kept_in_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_cache, "_STARTED", time.time())
    text = "define i64 @by_hand() {\n  ret i64 42\n}\n"
    with settings.override(cache_directory=str(tmp_path)):
        _fresh_compiler(monkeypatch)
        kernel_cache.compile_text(text, "by_hand", quick=True)
        (quick,) = files(tmp_path)
        assert quick.suffix == ".quick"
        _fresh_compiler(monkeypatch)
        kernel_cache.compile_text(text, "by_hand", quick=True)
        assert files(tmp_path) == [quick]
        # when others are improved, it is too, for the next process
        for kernel in _program().kernels.values():
            kernel_cache._cache().improve(kernel)
        assert quick.with_suffix("") in files(tmp_path)
        assert quick not in files(tmp_path)
        _fresh_compiler(monkeypatch)
        monkeypatch.setattr(ObjectCache, "_emit", lambda *arguments: pytest.fail("it is on disk"))
        assert ctypes.CFUNCTYPE(ctypes.c_int64)(kernel_cache.compile_text(text, "by_hand", quick=True).address)() == 42


@pytest.mark.parametrize("limit", [UNLIMITED, 20_000, 0], ids=["much", "little", "no"])
def test_processes_that_start_at_once(tmp_path: Path, limit: int) -> None:
    # with little space they drop each other's kernels while they run
    code = (
        "import phonograd as mx\n"
        "x = mx.nd.array([1.0, 2.0, 3.0])\n"
        "print((mx.nd.tanh(x) * x + mx.nd.exp(x)).sum().asscalar())\n"
    )
    environment = {
        **os.environ,
        "PHONOGRAD_EXECUTOR": "native",
        "PHONOGRAD_CACHE_DIRECTORY": str(tmp_path),
        "PHONOGRAD_CACHE_BYTES": str(limit),
    }
    processes = [
        subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE) for _ in range(3)
    ]
    outputs = {process.communicate()[0] for process in processes}
    assert len(outputs) == 1
    assert all(process.returncode == 0 for process in processes)
