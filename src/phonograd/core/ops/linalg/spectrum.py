"""Fourier transforms along the last axis and count sketches: the parts of compact bilinear pooling.

Complex numbers are pairs: the real part at 2k and the imaginary part at 2k + 1.
"""

from __future__ import annotations

import numpy as np

from ...base.dtypes import INT64
from ...base.errors import MXNetError, format_shape
from ...graph.node import Node
from ...graph.operator import Array, Spec, composite, operator, single
from ..math.primitives import cast, reshape_to
from ..math.special import BlockGrad
from ..nn.windows import check_floating
from ..vision.points import add_axis

__all__ = ["count_sketch", "fft", "ifft"]


def _check(name: str, data: Node) -> None:
    check_floating(name, data.dtype)
    if not data.ndim:
        raise MXNetError(f"operator {name} transforms the last axis of an array, but this array has no axes")


@operator(name="_contrib_fft", cost=20.0)
def fft(data: Array, *, compute_size: int = 128) -> Array:
    """Return the Fourier transform along the last axis, as interleaved real and imaginary parts.

    The last axis becomes twice as long. `compute_size` is MXNet's number of rows per batch; it is accepted and
    ignored.
    """
    found = np.fft.fft(data.astype(np.float64), axis=-1)
    pairs = np.stack([found.real, found.imag], -1)
    return pairs.reshape(*data.shape[:-1], 2 * data.shape[-1]).astype(data.dtype)


@fft.infer
def fft_shape(data: Node) -> Spec:
    _check("_contrib_fft", data)
    return (*data.shape[:-1], 2 * data.shape[-1]), data.dtype


@fft.gradient
def fft_grad(out_grad: Node, out: Node, data: Node) -> Node:
    # the transpose of the transform matrix is the inverse transform without division by the length
    return single(ifft(out_grad))


@operator(name="_contrib_ifft", cost=20.0)
def ifft(data: Array, *, compute_size: int = 128) -> Array:
    """Return the real part of the inverse Fourier transform along the last axis, times its length.

    The last axis holds interleaved real and imaginary parts and becomes half as long. As in MXNet, the result is not
    divided by the length d: ``ifft(fft(x)) == d * x``.
    """
    length = data.shape[-1] // 2
    pairs = data.astype(np.float64).reshape(*data.shape[:-1], length, 2)
    found = np.fft.ifft(pairs[..., 0] + 1j * pairs[..., 1], axis=-1).real * length
    return np.asarray(found).astype(data.dtype)


@ifft.infer
def ifft_shape(data: Node) -> Spec:
    _check("_contrib_ifft", data)
    if data.shape[-1] % 2:
        raise MXNetError(f"operator _contrib_ifft takes pairs along the last axis, not {format_shape(data.shape)}")
    return (*data.shape[:-1], data.shape[-1] // 2), data.dtype


@ifft.gradient
def ifft_grad(out_grad: Node, out: Node, data: Node) -> Node:
    return single(fft(out_grad))


@composite(name="_contrib_count_sketch")
def count_sketch(data: Node, h: Node, s: Node, *, out_dim: int, processing_batch_size: int = 32) -> Node:
    """Return the count sketch of rows: element i of a row is added, times ``s[i]``, to element ``h[i]`` of the result.

    The result has rows of `out_dim` elements. `processing_batch_size` is MXNet's number of rows per batch; it is
    accepted and ignored.
    """
    count = data.shape[-1] if data.ndim else 0
    if data.ndim < 2 or h.size != count or s.size != count:
        raise MXNetError(
            "operator _contrib_count_sketch takes rows of elements, and one position and one sign per column: "
            f"got {', '.join([format_shape(node.shape) for node in (data, h, s)])}"
        )
    signs = single(BlockGrad(reshape_to(s, (1,) * (data.ndim - 1) + (count,))))
    places = cast(reshape_to(h, (count,)), INT64)
    return add_axis(data * signs, places, data.ndim - 1, out_dim)


# -- precision in mixed-precision training

for _declared in (
    count_sketch,
    fft,
):
    _declared.precision = "float32"
