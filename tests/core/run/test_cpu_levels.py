"""The setting cpu_level: it only takes features away, and whatever depends on them follows."""

from __future__ import annotations

import itertools
import platform
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phonograd.core.base import settings
from phonograd.core.base.settings import CPU_LEVELS
from phonograd.core.kernels.target import Machine
from phonograd.core.run import host, kernel_cache
from phonograd.core.run.background import Gate
from phonograd.core.run.compiler import Compiler
from phonograd.core.run.cpu_levels import FEATURES, limit
from phonograd.core.run.objects import ObjectCache

LEVELS = CPU_LEVELS[1:]
NAMES = sorted({*FEATURES["x86-64-v4"], "amx-bf16", "amx-tile", "avx512bf16", "sse4a"})

x86 = pytest.mark.skipif(platform.machine().lower() not in ("x86_64", "amd64"), reason="levels are those of x86-64")


def _enabled(features: str) -> frozenset[str]:
    return frozenset([name[1:] for name in features.split(",") if name.startswith("+")])


@pytest.fixture
def free(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the level change, as before the first kernel of a process."""
    monkeypatch.setattr(settings, "_fixed", {})


def test_every_level_has_its_features() -> None:
    assert set(FEATURES) == set(LEVELS)
    # the setting lists the largest first
    for larger, smaller in itertools.pairwise(LEVELS):
        assert FEATURES[larger] > FEATURES[smaller]


@given(st.sets(st.sampled_from(NAMES)), st.sampled_from(LEVELS))
def test_features_are_only_removed(present: set[str], level: str) -> None:
    features = ",".join([f"{'+' if name in present else '-'}{name}" for name in NAMES])
    processor, limited = limit("some", features, level)
    assert processor == level
    assert [name[1:] for name in limited.split(",")] == NAMES
    assert _enabled(limited) == present & FEATURES[level]


@x86
@pytest.mark.parametrize(
    ("level", "expected"),
    [
        ("native", Machine(64, 32)),
        ("x86-64-v4", Machine(64, 32)),
        ("x86-64-v3", Machine(32, 16)),
        ("x86-64-v2", Machine(16, 16)),
        ("x86-64", Machine(16, 16)),
    ],
)
def test_writers_of_kernels_see_the_level(level: str, expected: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    features = _enabled(limit("sapphirerapids", ",".join([f"+{name}" for name in NAMES]), level)[1])
    assert host._processor(features) == expected
    asked: list[Any] = []
    monkeypatch.setattr(host, "system_function", lambda name: asked.append(name))
    if level != "native":
        # without the features the system is not even asked for the matrix unit
        assert not host._has_matrix_unit(features)
    assert not asked


def test_unknown_levels_are_refused() -> None:
    with pytest.raises(ValueError, match=r"cpu_level must be one of 'native', 'x86-64-v4', .*, not 'avx2'"):
        settings.update(cpu_level="avx2")


def test_levels_of_other_processors_are_refused(free: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    with pytest.raises(ValueError, match=r"must be 'native' on this processor \(aarch64\), not 'x86-64-v3'"):
        settings.update(cpu_level="x86-64-v3")
    with settings.override(cpu_level="native"):
        pass


@x86
def test_the_level_cannot_change_after_the_first_kernel() -> None:
    assert kernel_cache.available()
    now = settings.current().cpu_level
    other = next(level for level in LEVELS if level != now)
    with pytest.raises(ValueError, match=f"cpu_level stays '{now}' in this process: the compiler has started"):
        settings.update(cpu_level=other)
    # others can change, and setting what it is changes nothing
    with settings.override(cpu_level=now, winograd=0):
        pass
    assert settings.current().cpu_level == now


@x86
def test_a_level_that_is_fixed_inside_of_a_block_stays(free: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "_current", settings.current())
    with settings.override(cpu_level="x86-64"):
        settings.fix("cpu_level", "of a test")
    assert settings.current().cpu_level == "x86-64"
    with pytest.raises(ValueError, match="of a test"):
        settings.update(cpu_level="native")


@x86
def test_levels_have_code_of_their_own_on_disk(free: None, tmp_path: Any) -> None:
    keys = set()
    for level in CPU_LEVELS:
        with settings.override(cpu_level=level, cache_directory=str(tmp_path)):
            store = ObjectCache(Gate()).disk_cache()
            assert store is not None
            keys.add(store.key("the same kernel"))
    assert len(keys) == len(CPU_LEVELS)


@x86
@pytest.mark.parametrize("level", LEVELS)
def test_the_description_is_that_of_the_level(free: None, level: str) -> None:
    with settings.override(cpu_level="native", cache_directory=""):
        here = ObjectCache(Gate()).description()
    with settings.override(cpu_level=level, cache_directory=""):
        there = ObjectCache(Gate()).description()
    assert there.features == here.features & FEATURES[level]
    compiled, limited = Compiler("native").description(), Compiler(level).description()
    assert limited.features == compiled.features & FEATURES[level]
    assert limited.versions != compiled.versions
