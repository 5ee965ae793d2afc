"""The host: the features of this processor that the writers of kernels must know."""

from __future__ import annotations

import functools
import platform
import sys

from ..base import settings
from ..kernels.target import Machine
from . import kernel_cache
from .pointers import system_function

__all__ = ["host"]


#: arguments of the Linux system call that permits a process to use the registers of the matrix unit
_ASK_FOR_STATE, _TILE_STATE, _ARCH_PRCTL = 0x1023, 18, 158


def host() -> Machine:
    """Return the processor of this computer, without the features that the settings turn off."""
    return _machine(kernel_cache.description().features, settings.current().matrix_unit)


@functools.cache
def _machine(features: frozenset[str], matrix_unit: bool) -> Machine:
    has_tiles = matrix_unit and _has_matrix_unit(features)
    dots = _dots(features)
    if dots == "vnni" and has_tiles and "amx-int8" in features:
        dots = "amx"
    pairs = matrix_unit and features >= {"avx512f", "avx512vl", "avx512bw", "avx512bf16"}
    return _processor(features)._replace(
        matrix_unit=has_tiles and "amx-bf16" in features, bfloat16_pairs=pairs, dots=dots
    )


def _processor(features: frozenset[str]) -> Machine:
    if features >= {"avx512f", "avx512vl"}:
        return Machine(64, 32)
    if features >= {"avx2", "fma"}:
        return Machine(32, 16)
    if platform.machine().lower() in ("aarch64", "arm64"):
        return Machine(16, 32)
    return Machine(16, 16)


def _dots(features: frozenset[str]) -> str:
    """Return the name of the instructions for products of small integers."""
    if features >= {"avx512f", "avx512vl"}:
        # vectors of 64 bytes need the form for them
        return "vnni" if features >= {"avx512vnni", "avx512bw"} else "pmaddwd" if "avx512bw" in features else "plain"
    if features >= {"avx2", "fma", "avxvnni"}:
        return "vnni"
    return "pmaddwd" if "sse2" in features else "plain"


@functools.cache
def _has_matrix_unit(features: frozenset[str]) -> bool:
    """Ask the system for the registers of a matrix unit, and return whether this process may use them."""
    if not features >= {"amx-tile", "avx512f", "avx512bw", "avx512vl"}:
        return False
    if not sys.platform.startswith("linux") or platform.machine() != "x86_64":
        return False
    # older systems and some sandboxes refuse, and so does Linux if a thread has a small stack for signals
    return not system_function("syscall")(_ARCH_PRCTL, _ASK_FOR_STATE, _TILE_STATE)
