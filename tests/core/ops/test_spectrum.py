"""Fourier transforms and count sketches, which MXNet computes on GPUs only: against their definitions."""

import numpy as np
import pytest

from phonograd import autograd, nd
from phonograd.core.base.errors import MXNetError

ROWS = np.random.RandomState(0).normal(size=(3, 5)).astype(np.float32)


def test_fft_is_pairs_of_real_and_imaginary_parts():
    found = nd.contrib.fft(nd.array(ROWS), compute_size=2).asnumpy()
    expected = np.fft.fft(ROWS)
    assert found.shape == (3, 10)
    np.testing.assert_allclose(found[:, ::2] + 1j * found[:, 1::2], expected, rtol=1e-5, atol=1e-6)


def test_ifft_is_not_divided_by_the_length():
    there = nd.contrib.fft(nd.array(ROWS))
    np.testing.assert_allclose(nd.contrib.ifft(there).asnumpy(), 5 * ROWS, rtol=1e-5, atol=1e-5)


def test_count_sketch():
    places, signs = nd.array([[0, 3, 3, 1, 0]]), nd.array([[1, -1, 1, 1, -1]])
    data = nd.array(ROWS)
    data.attach_grad()
    with autograd.record():
        sketch = nd.contrib.count_sketch(data, places, signs, out_dim=4)
    a, b, c, d, e = ROWS.T
    np.testing.assert_allclose(sketch.asnumpy(), np.stack([a - e, d, 0 * a, c - b], 1), rtol=1e-6)
    weights = nd.array(np.arange(12).reshape(3, 4))
    sketch.backward(weights)
    np.testing.assert_array_equal(data.grad.asnumpy(), weights.asnumpy()[:, [0, 3, 3, 1, 0]] * signs.asnumpy())


def test_compact_bilinear_pooling():
    """The transform of a convolution of sketches is the product of their transforms."""
    first, second = nd.array(ROWS), nd.array(ROWS[::-1].copy())
    one, other = nd.contrib.fft(first).reshape((3, 5, 2)), nd.contrib.fft(second).reshape((3, 5, 2))
    (a, b), (c, d) = [[part[:, :, k] for k in (0, 1)] for part in (one, other)]
    product = nd.stack(a * c - b * d, a * d + b * c, axis=2).reshape((3, 10))
    found = (nd.contrib.ifft(product) / 5).asnumpy()
    shifts = [np.roll(ROWS[::-1], k, axis=1)[:, :, None] * ROWS[:, k, None, None] for k in range(5)]
    np.testing.assert_allclose(found, sum(shifts)[:, :, 0], rtol=1e-4, atol=1e-5)


def test_arguments_are_checked():
    with pytest.raises(MXNetError, match="takes pairs along the last axis"):
        nd.contrib.ifft(nd.ones((2, 3)))
    with pytest.raises(MXNetError, match="one position and one sign per column"):
        nd.contrib.count_sketch(nd.ones((2, 3)), nd.ones((1, 2)), nd.ones((1, 3)), out_dim=2)
