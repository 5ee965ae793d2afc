"""Numbers of 16 bits: new graphs, which run operator by operator, have the bits of plans."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from phonograd import autograd, nd, settings

Program = Callable[[Any, Any], Any]


def _many_slices(x: Any, w: Any) -> Any:
    total = x[0]
    for number in range(12):
        total = total + x[number] * (number + 1)
    return total


def _normalized(x: Any, w: Any) -> Any:
    return nd.LayerNorm(x, nd.ones((x.shape[1],), dtype=x.dtype), nd.zeros((x.shape[1],), dtype=x.dtype))


def _convolved(x: Any, w: Any) -> Any:
    image, weight = x.reshape((1, 1, *x.shape)), w[:3, :3].reshape((1, 1, 3, 3))
    return nd.Convolution(image, weight, no_bias=True, kernel=(3, 3), num_filter=1)


def _pooled(x: Any, w: Any) -> Any:
    image = x.reshape((1, 1, *x.shape))
    options = {"kernel": (3, 3), "stride": (2, 2)}
    return nd.Pooling(image, pool_type="max", **options) + nd.Pooling(image, pool_type="avg", **options)


PROGRAMS: dict[str, Program] = {
    "elementwise": lambda x, w: nd.tanh(x * 2) + nd.sigmoid(x) * x - nd.exp(-nd.abs(x)),
    "softmax": lambda x, w: nd.softmax(x) * nd.log_softmax(x),
    "products": lambda x, w: nd.relu(nd.dot(x, w)),
    "sums": lambda x, w: nd.mean(x, axis=0) * nd.sum(x, axis=0),
    "largest": lambda x, w: nd.max(x, axis=1) + nd.norm(x, axis=1),
    "roots": lambda x, w: nd.erf(x) * nd.sqrt(nd.abs(x) + 1) / nd.rsqrt(nd.square(x) + 1),
    "moved": lambda x, w: nd.concat(x[1:], x[:1], dim=0) * nd.reshape(x, (-1,)).reshape(x.shape),
    "running sums": lambda x, w: nd.cumsum(x, axis=1),
    "many slices": _many_slices,
    "normalization": _normalized,
    "convolution": _convolved,
    "pooling": _pooled,
}


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_bits_are_those_of_a_plan(name: str, dtype: str) -> None:
    draw = np.random.RandomState(5)
    for number in range(3):
        arrays = [draw.randn(13 + number, 20 + number), draw.randn(20 + number, 9)]
        results = []
        for tiers in ("background", "plan"):
            with settings.override(tiers=tiers):
                x, w = [nd.array(array, dtype=dtype) for array in arrays]
                x.attach_grad()
                w.attach_grad()
                with autograd.record():
                    y = PROGRAMS[name](x, w)
                    loss = nd.square(y).sum()
                loss.backward()
                results.append([array.asnumpy().tobytes() for array in (y, x.grad, w.grad)])
        assert results[0] == results[1]
