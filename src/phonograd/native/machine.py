"""The processor that kernels are compiled for, as far as their writers must know it."""

from __future__ import annotations

import functools
import platform

from ..kernels.machine import Machine
from . import jit

__all__ = ["converts_halves", "host"]


@functools.cache
def host() -> Machine:
    """Return the processor of this computer."""
    features = jit.description().features
    if features >= {"avx512f", "avx512vl"}:
        return Machine(64, 32)
    if features >= {"avx2", "fma"}:
        return Machine(32, 16)
    if platform.machine().lower() in ("aarch64", "arm64"):
        return Machine(16, 32)
    return Machine(16, 16)


@functools.cache
def converts_halves() -> bool:
    """Return whether this processor converts between float16 and float32; else compilers call a function for it."""
    if platform.machine().lower() in ("aarch64", "arm64"):
        return True
    return "f16c" in jit.description().features
