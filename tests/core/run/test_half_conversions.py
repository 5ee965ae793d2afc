"""Conversions of float16 without instructions for them have the bits of those with them."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from phonograd.core.base.dtypes import FLOAT16, FLOAT32, DType
from phonograd.core.kernels.convert import BLOCK, Convert, conversion
from phonograd.core.kernels.launch import Reference
from phonograd.core.kernels.target import Machine
from phonograd.core.run import kernel_cache
from phonograd.core.run.half_conversions import emulate_half_conversions

_PROTOTYPE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


def _converted(values: np.ndarray, dtype: DType, emulated: bool, lanes: int = 8) -> np.ndarray:
    """Return numbers that a kernel converted."""
    name = f"convert_{values.dtype}_{dtype}_{emulated}_{lanes}"
    text = Convert(values.dtype, dtype, lanes).write(name)
    if emulated:
        text = emulate_half_conversions(text)
        assert "fpext" not in text
        assert "fptrunc" not in text
    kernel = kernel_cache.compile_text(text, name)
    out = np.zeros(values.shape, dtype)
    launch = conversion(values.dtype, dtype, Machine(32, 16), Reference("a"), Reference("b"), values.size)
    table = np.array(launch.table({"a": (0, 0), "b": (1, 0)}), np.int64)
    bases = (ctypes.c_void_p * 2)(values.ctypes.data, out.ctypes.data)
    _PROTOTYPE(kernel.address)(table.ctypes.data, ctypes.addressof(bases), 0, -(-values.size // BLOCK))
    return out


def _floats() -> np.ndarray:
    """Return float32 numbers of all magnitudes, ties and those beside them, and ones that are not finite."""
    random = np.random.default_rng(0)
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32)
    with np.errstate(all="ignore"):
        ties = (halves[:-1].astype(np.float64) + halves[1:]).astype(np.float32) / 2
    near = [np.nextafter(ties, np.float32(end), dtype=np.float32) for end in (-np.inf, np.inf)]
    bits = random.integers(0, 1 << 32, 100_003, np.uint64).astype(np.uint32).view(np.float32)
    return np.concatenate([halves, ties, *near, bits])


@pytest.mark.parametrize("lanes", [4, 16])
def test_emulated_conversions_have_the_bits_of_instructions(lanes: int) -> None:
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    found = _converted(halves, FLOAT32, True, lanes)
    assert np.array_equal(found, halves.astype(np.float32), equal_nan=True)
    assert found.tobytes() == _converted(halves, FLOAT32, False, lanes).tobytes()
    floats = _floats()
    found = _converted(floats, FLOAT16, True, lanes)
    with np.errstate(all="ignore"):
        assert np.array_equal(found, floats.astype(np.float16), equal_nan=True)
    assert found.tobytes() == _converted(floats, FLOAT16, False, lanes).tobytes()


def test_single_numbers_are_converted_too() -> None:
    text = "  %v2 = fpext half %v1 to float\n  ret float %v2"
    lines = emulate_half_conversions(text).splitlines()
    assert lines[0] == "  %v2.word = bitcast half %v1 to i16"
    assert lines[2] == "  %v2.magnitude = and i32 %v2.wide, 32767"
    assert lines[-2:] == ["  %v2 = bitcast i32 %v2.all to float", "  ret float %v2"]
