"""An emulation of the matrix unit (AMX): kernels that use it run on any processor, with the same bits, and slowly.

The instructions in a kernel's text are replaced by calls to functions of this module. They follow the descriptions in
Intel's manual. ``TDPBF16PS``: operands and results below 2^-126 are zero, products of pairs of terms are added up in
two chains of 16, and the sum of both is added to the tile. ``TDPBSSD``, ``TDPBSUD``, ``TDPBUSD`` and ``TDPBUUD``: the
bytes of both operands are signed (S) or unsigned (U), and sums wrap around.
"""

from __future__ import annotations

import ctypes
import re
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["emulate", "uses_matrix_unit"]

_local = threading.local()


def uses_matrix_unit(text: str) -> bool:
    """Return whether a kernel has instructions of the unit."""
    return "@llvm.x86.ldtilecfg" in text


def _tiles() -> np.ndarray:
    """Return the eight registers of this thread: 16 rows of 64 bytes each."""
    if not hasattr(_local, "tiles"):
        _local.tiles = np.zeros((8, 16, 16), np.uint32)
    found: np.ndarray = _local.tiles
    return found


def _rows(address: int, stride: int) -> list[np.ndarray]:
    return [np.ctypeslib.as_array((ctypes.c_uint32 * 16).from_address(address + row * stride)) for row in range(16)]


def _flush(values: np.ndarray) -> np.ndarray:
    return np.where(np.abs(values) < np.float32(2.0**-126), np.copysign(np.float32(0), values), values)


def _ldtilecfg(address: int) -> None:
    table = (ctypes.c_uint8 * 64).from_address(address)
    # palette 1, 64 bytes in each row, 16 rows
    assert table[0] == 1
    assert bytes(table[16:32]) == bytes([64, 0]) * 8
    assert bytes(table[48:56]) == bytes([16]) * 8


def _tilerelease() -> None:
    _tiles()[:] = 0x7FC00000


def _tilezero(tile: int) -> None:
    _tiles()[tile] = 0


def _tileloadd64(tile: int, address: int, stride: int) -> None:
    _tiles()[tile] = _rows(address, stride)


def _tilestored64(tile: int, address: int, stride: int) -> None:
    for row, values in zip(_rows(address, stride), _tiles()[tile], strict=True):
        row[:] = values


def _chain(products: np.ndarray) -> np.ndarray:
    """Return the sums along the second axis, one term after the other."""
    partial = np.add.accumulate(products, axis=1)
    if not np.any((partial != 0) & (np.abs(partial) < np.float32(2.0**-126))):
        found: np.ndarray = partial[:, -1]
        return found
    total = np.zeros(products[:, 0].shape, np.float32)
    for term in np.moveaxis(products, 1, 0):
        total = _flush(total + term)
    return total


def _tdpbf16ps(total: int, first: int, second: int) -> None:
    tiles = _tiles()
    with np.errstate(all="ignore"):
        # the lower and the upper half of each word are bfloat16 numbers
        lhs, rhs = [
            [
                _flush((words << np.uint32(16)).view(np.float32)),
                _flush((words & np.uint32(0xFFFF0000)).view(np.float32)),
            ]
            for words in (tiles[first], tiles[second])
        ]
        chains = [_chain(lhs[half][:, :, None] * rhs[half][None]) for half in range(2)]
        sums = tiles[total].view(np.float32)
        sums[:] = _flush(sums + _flush(chains[0] + chains[1]))


def _multiply_bytes(first_kind: Any, second_kind: Any) -> Callable[[int, int, int], None]:
    """Return the function of an instruction for bytes of two dtypes."""

    def multiply(total: int, first: int, second: int) -> None:
        tiles = _tiles()
        # row, word, byte of the first operand; word, column, byte of the second
        lhs, rhs = [
            tiles[number].view(kind).reshape(16, 16, 4).astype(np.int64)
            for number, kind in ((first, first_kind), (second, second_kind))
        ]
        products = np.einsum("rwb,wcb->rc", lhs, rhs)
        tiles[total] = (tiles[total].astype(np.int64) + products).astype(np.uint32)

    return multiply


def _function(body: Callable[..., None], *types: Any) -> Any:
    return ctypes.CFUNCTYPE(None, *types)(body)


_I8, _POINTER, _I64 = ctypes.c_uint8, ctypes.c_size_t, ctypes.c_int64
_FUNCTIONS = {
    "ldtilecfg": _function(_ldtilecfg, _POINTER),
    "tilerelease": _function(_tilerelease),
    "tilezero": _function(_tilezero, _I8),
    "tileloadd64": _function(_tileloadd64, _I8, _POINTER, _I64),
    "tilestored64": _function(_tilestored64, _I8, _POINTER, _I64),
    "tdpbf16ps": _function(_tdpbf16ps, _I8, _I8, _I8),
    "tdpbssd": _function(_multiply_bytes(np.int8, np.int8), _I8, _I8, _I8),
    "tdpbsud": _function(_multiply_bytes(np.int8, np.uint8), _I8, _I8, _I8),
    "tdpbusd": _function(_multiply_bytes(np.uint8, np.int8), _I8, _I8, _I8),
    "tdpbuud": _function(_multiply_bytes(np.uint8, np.uint8), _I8, _I8, _I8),
}


def emulate(text: str) -> str:
    """Return a kernel that calls functions of this module in place of the unit's instructions."""
    text = re.sub(r"declare void @llvm\.x86\.(ldtilecfg|tile\w+|tdp\w+)\(.*\)\n", "", text)

    def call(found: re.Match[str]) -> str:
        address = ctypes.cast(_FUNCTIONS[found[1]], ctypes.c_void_p).value
        return f"call void inttoptr (i64 {address} to ptr)("

    return re.sub(r"call void @llvm\.x86\.(ldtilecfg|tile\w+|tdp\w+)\(", call, text)
