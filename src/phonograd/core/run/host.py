"""The processor that kernels are compiled for, as far as their writers must know it."""

from __future__ import annotations

import functools
import platform
import sys

from ..base import settings
from ..kernels.target import Machine
from . import kernel_cache
from .pointers import system_function

__all__ = ["converts_halves", "host"]


#: what Linux is asked to let a process do: use the registers of the matrix unit
_ASK_FOR_STATE, _TILE_STATE, _ARCH_PRCTL = 0x1023, 18, 158


def host() -> Machine:
    """Return the processor of this computer, without the features that settings leave out."""
    features = kernel_cache.description().features
    return _processor(features)._replace(matrix_unit=settings.current().matrix_unit and _has_matrix_unit(features))


@functools.cache
def _processor(features: frozenset[str]) -> Machine:
    if features >= {"avx512f", "avx512vl"}:
        return Machine(64, 32)
    if features >= {"avx2", "fma"}:
        return Machine(32, 16)
    if platform.machine().lower() in ("aarch64", "arm64"):
        return Machine(16, 32)
    return Machine(16, 16)


@functools.cache
def _has_matrix_unit(features: frozenset[str]) -> bool:
    """Return whether there is a matrix unit that this process may use: for that it has to ask."""
    if not features >= {"amx-tile", "amx-bf16", "avx512f", "avx512bw"}:
        return False
    if not sys.platform.startswith("linux") or platform.machine() != "x86_64":
        return False
    # refused by older systems, by some sandboxes, and where a thread has a small stack for signals
    return not system_function("syscall")(_ARCH_PRCTL, _ASK_FOR_STATE, _TILE_STATE)


def converts_halves() -> bool:
    """Return whether this processor converts between float16 and float32; else compilers call a function for it."""
    if platform.machine().lower() in ("aarch64", "arm64"):
        return True
    return "f16c" in kernel_cache.description().features
