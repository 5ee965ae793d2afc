"""Gradient compression: values in one or two bits, with the error added to the next value of the same key.

Takes arrays by key from stores (:mod:`phonograd.kvstore.kvstore`); all ranks exchange their codes, and each decodes
and adds up all of them in the order of ranks, so that all have the same bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.array.handle import make_concrete, read
from ..core.base.dtypes import name_of
from ..core.base.errors import MXNetError
from ..ndarray.array import NDArray
from .communicator import Array, Communicator

__all__ = ["Compression", "OneBit", "TwoBit", "make_compression"]


class Compression:
    """Base class of codes. A subclass defines ``_encode`` and ``_decode``."""

    bits: int

    def __init__(self, threshold: float) -> None:
        self.threshold = np.float32(threshold)
        #: by key, what has not been sent yet
        self._residuals: dict[Any, Array] = {}

    def add_up(self, group: Communicator, values: dict[Any, NDArray], label: str) -> dict[Any, NDArray]:
        """Return the sums over all ranks of the values as they are sent."""
        for key, value in values.items():
            if value.dtype != np.float32:
                raise MXNetError(f"gradient compression needs float32, but key {key} is {name_of(value.dtype)}")
        coded = [self.compress(key, read(value)) for key, value in values.items()]
        received = group.all_gather(np.concatenate(coded), f"{label}, {self.bits}bit")
        sums: dict[Any, NDArray] = {}
        start = 0
        for (key, value), codes in zip(values.items(), coded):
            parts = [self.decompress(each[start : start + codes.size], value.size) for each in received]
            total = parts[0]
            for part in parts[1:]:
                total = total + part
            sums[key] = make_concrete(total.reshape(value.shape), value.context)
            start += codes.size
        return sums

    def as_sent(self, key: Any, value: NDArray) -> NDArray:
        """Return a value as another device receives it."""
        found = self.decompress(self.compress(key, read(value)), value.size)
        sent: NDArray = make_concrete(found.reshape(value.shape), value.context)
        return sent

    def compress(self, key: Any, value: Array) -> Array:
        """Return the bytes to send for a value, and keep the error for the next one of its key."""
        wanted = value.reshape(-1) + self._residuals.get(key, np.float32(0))
        codes = self._encode(wanted)
        each = 8 // self.bits
        padded = np.zeros(-(-codes.size // each) * each, np.uint8)
        padded[: codes.size] = codes
        shifts = np.arange(each, dtype=np.uint8) * np.uint8(self.bits)
        packed: Array = np.bitwise_or.reduce(padded.reshape(-1, each) << shifts, axis=1)
        self._residuals[key] = wanted - self._decode(codes)
        return packed

    def decompress(self, packed: Array, size: int) -> Array:
        """Return the values behind bytes."""
        each = 8 // self.bits
        shifts = np.arange(each, dtype=np.uint8) * np.uint8(self.bits)
        codes = (packed[:, None] >> shifts) & np.uint8((1 << self.bits) - 1)
        return self._decode(codes.reshape(-1)[:size])

    def _encode(self, wanted: Array) -> Array:
        raise NotImplementedError

    def _decode(self, codes: Array) -> Array:
        raise NotImplementedError


class TwoBit(Compression):
    """Send ``-threshold``, 0 or ``threshold`` for each element.

    >>> code = TwoBit(0.5)
    >>> code.decompress(code.compress("weight", np.array([0.7, -0.1, -2.0], "f")), 3).tolist()
    [0.5, 0.0, -0.5]
    >>> code.decompress(code.compress("weight", np.array([0.4, -0.1, 0.0], "f")), 3).tolist()
    [0.5, 0.0, -0.5]
    """

    bits = 2

    def _encode(self, wanted: Array) -> Array:
        return (wanted >= self.threshold).astype(np.uint8) + 2 * (wanted <= -self.threshold).astype(np.uint8)

    def _decode(self, codes: Array) -> Array:
        return np.array([0.0, self.threshold, -self.threshold, 0.0], np.float32)[codes]


class OneBit(Compression):
    """Send 1 for each element above the threshold, and -1 for the others."""

    bits = 1

    def _encode(self, wanted: Array) -> Array:
        return (wanted > self.threshold).astype(np.uint8)

    def _decode(self, codes: Array) -> Array:
        return np.array([-1.0, 1.0], np.float32)[codes]


def make_compression(parameters: dict[str, Any]) -> Compression | None:
    """Return the code that MXNet's parameters describe; None for the type 'none'."""
    if not isinstance(parameters, dict) or "type" not in parameters:
        raise ValueError("compression_params requires `type` to be specified")
    unknown = set(parameters) - {"type", "threshold"}
    if unknown:
        raise ValueError(f"compression_params has {sorted(unknown)}; known are 'type' and 'threshold'")
    kind = parameters["type"]
    threshold = float(parameters.get("threshold", 0.0 if kind == "1bit" else 0.5))
    if kind == "none":
        return None
    if kind == "2bit":
        if threshold <= 0:
            raise ValueError(f"the threshold of 2bit compression must be positive, not {threshold}")
        return TwoBit(threshold)
    if kind == "1bit":
        return OneBit(threshold)
    raise ValueError(f"Unsupported type for gradient compression: {kind!r}; use '2bit', '1bit' or 'none'")
