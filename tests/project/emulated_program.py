"""Compute arrays with kernels of all kinds, and print a digest and the error of each; see :mod:`tests.project.emulated`.

It runs as a script, on this machine and on an emulated one, and imports nothing but NumPy and the library. The first
word of a name says what is promised: *same* bits on every processor with fused multiply-add, the same bits for a
*product* unless a matrix unit computes it, and only *close* values for convolutions. Errors are shares of a tolerance.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import numpy as np

import phonograd as mx
from phonograd import autograd, nd
from phonograd.core.run import kernel_cache
from phonograd.core.run.host import host

#: the tolerance, in units of the largest number of an array and of the dtype's precision
TOLERANCE = {"float16": 4, "float32": 60, "float64": 60, "int8": 0, "int32": 0}

Array = Any
Result = tuple[str, Array, np.ndarray | None]


def functions(dtype: str, random: np.random.RandomState) -> Iterator[Result]:
    """Yield elementwise functions, reductions and random numbers."""
    a, b = random.normal(size=(37, 53)).astype(dtype), random.normal(size=(37, 53)).astype(dtype)
    x, y = nd.array(a, dtype=dtype), nd.array(b, dtype=dtype)
    yield "same exp", nd.exp(x), np.exp(a)
    yield "same tanh", nd.tanh(x * y), np.tanh(a * b)
    yield "same sin", nd.sin(x) + nd.cos(y), np.sin(a) + np.cos(b)
    yield "same log", nd.log(nd.abs(x) + 1), np.log(np.abs(a) + 1)
    yield "same erf", nd.erf(x) - nd.sigmoid(y), None
    yield "same power", nd.abs(x) ** y, np.abs(a) ** b
    yield "same sum", nd.sum(x * y, axis=0) + nd.mean(x), np.sum(a * b, axis=0) + np.mean(a)
    yield "same softmax", nd.softmax(x, axis=1), None
    yield "same argmax", nd.argmax(x, axis=1), np.argmax(a, axis=1)
    yield "same cumsum", nd.cumsum(x, axis=1), np.cumsum(a, axis=1)
    mx.random.seed(5)
    yield "same uniform", nd.random.uniform(shape=(99,), dtype=dtype), None
    yield "same normal", nd.random.normal(shape=(99,), dtype=dtype), None


def products(dtype: str, random: np.random.RandomState) -> Iterator[Result]:
    """Yield matrix products of several sizes, factorizations, and the gradient of a layer."""
    for rows, terms, columns in ((5, 7, 3), (64, 128, 96), (130, 400, 131)):
        a, b = random.normal(size=(rows, terms)).astype(dtype), random.normal(size=(terms, columns)).astype(dtype)
        yield f"product {rows}x{terms}x{columns}", nd.dot(nd.array(a, dtype=dtype), nd.array(b, dtype=dtype)), a @ b
    a = random.normal(size=(100, 100)).astype(dtype)
    # not a product: the bits of NumPy's products depend on the processor
    b = (a + a.T + 60 * np.eye(100)).astype(dtype)
    yield "product transposed", nd.dot(nd.array(a, dtype=dtype), nd.array(b, dtype=dtype), transpose_a=True), a.T @ b
    yield "same potrf", nd.linalg.potrf(nd.array(b, dtype=dtype)), np.linalg.cholesky(b)
    yield "same inverse", nd.linalg.inverse(nd.array(b, dtype=dtype)), np.linalg.inv(b)
    weight = nd.array(random.normal(size=(41, 53)), dtype=dtype)
    weight.attach_grad()
    x = nd.array(random.normal(size=(37, 53)), dtype=dtype)
    with autograd.record():
        loss = nd.log_softmax(nd.FullyConnected(nd.sigmoid(x), weight, num_hidden=41, no_bias=True)).mean()
    loss.backward()
    yield "same layer gradient", weight.grad, None


def convolve(a: np.ndarray, w: np.ndarray, stride: int, pad: int, groups: int) -> np.ndarray:
    """Return a convolution by its definition, in double precision."""
    padded = np.pad(a.astype("float64"), ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, w.shape[2:], axis=(2, 3))[:, :, ::stride, ::stride]
    parts = zip(np.split(windows, groups, axis=1), np.split(w.astype("float64"), groups), strict=True)
    return np.concatenate([np.einsum("nchwij,fcij->nfhw", part, filters) for part, filters in parts], axis=1)


def convolutions(dtype: str, random: np.random.RandomState) -> Iterator[Result]:
    """Yield convolutions of all algorithms with their gradients, and pooling."""
    a = random.normal(size=(2, 16, 13, 11)).astype(dtype)
    data = nd.array(a, dtype=dtype)
    data.attach_grad()
    cases = (3, 1, 1, 1, 24), (5, 1, 2, 1, 24), (3, 2, 1, 1, 24), (1, 1, 0, 1, 24), (3, 1, 1, 16, 16)
    for size, stride, pad, groups, count in cases:
        w = random.normal(size=(count, 16 // groups, size, size)).astype(dtype)
        weight = nd.array(w, dtype=dtype)
        weight.attach_grad()
        with autograd.record():
            y = nd.Convolution(
                data,
                weight,
                kernel=(size, size),
                stride=(stride, stride),
                pad=(pad, pad),
                num_filter=count,
                num_group=groups,
                no_bias=True,
            )
        seed = random.normal(size=y.shape).astype(dtype)
        y.backward(nd.array(seed, dtype=dtype))
        name = f"convolution {size} {stride} {groups}"
        yield f"close {name}", y, convolve(a, w, stride, pad, groups)
        # gradients in a random direction, by the linearity of convolutions; the second number sets the scale
        for part, grad in (("data", data.grad), ("weight", weight.grad)):
            turn = random.normal(size=grad.shape)
            exact = convolve(turn, w, stride, pad, groups) if part == "data" else convolve(a, turn, stride, pad, groups)
            scale = float(np.linalg.norm(grad.asnumpy()) * np.linalg.norm(turn)) / np.sqrt(turn.size)
            found = np.sum(grad.asnumpy().astype("float64") * turn)
            wanted = np.array([np.sum(exact * seed), scale]) / scale
            yield f"close {name} {part} gradient", np.array([found / scale, 1.0], dtype), wanted
    yield "same max pooling", nd.Pooling(data, kernel=(2, 2), stride=(2, 2), pool_type="max"), None
    yield "same average pooling", nd.Pooling(data, kernel=(3, 3), stride=(1, 1), pool_type="avg"), None


def integers(random: np.random.RandomState) -> Iterator[Result]:
    """Yield products and convolutions of int8, whose sums are exact."""
    for first in ("int8", "uint8"):
        low, high = (-127, 128) if first == "int8" else (0, 256)
        limits = [nd.array([value]) for value in (-1.0, 1.0)]
        # the second one is large enough for a matrix unit
        for rows, terms, columns in ((33, 130, 47), (130, 300, 140)):
            a = random.randint(low, high, size=(rows, terms)).astype(first)
            w = random.randint(-127, 128, size=(columns, terms)).astype("int8")
            arrays = nd.array(a, dtype=first), nd.array(w, dtype="int8")
            out, _, _ = nd.contrib.quantized_fully_connected(
                *arrays, *limits, *limits, num_hidden=columns, no_bias=True
            )
            yield f"same {first} product {rows}x{terms}x{columns}", out, a.astype("int64") @ w.T.astype("int64")
        pictures = random.randint(low, high, size=(2, 16, 9, 10)).astype(first)
        filters = random.randint(-127, 128, size=(24, 16, 3, 3)).astype("int8")
        out, _, _ = nd.contrib.quantized_conv(
            nd.array(pictures, dtype=first),
            nd.array(filters, dtype="int8"),
            *limits,
            *limits,
            kernel=(3, 3),
            pad=(1, 1),
            num_filter=24,
            no_bias=True,
        )
        yield f"same {first} convolution", out, convolve(pictures, filters, 1, 1, 1)


def halves(random: np.random.RandomState) -> Iterator[Result]:
    """Yield results in float16 and bfloat16."""
    a, b = random.normal(size=(20, 70)).astype("float16"), random.normal(size=(70, 30)).astype("float16")
    x, y = nd.array(a, dtype="float16"), nd.array(b, dtype="float16")
    yield "product float16", nd.dot(x, y), a.astype("float32") @ b.astype("float32")
    yield "same float16 functions", nd.tanh(x) + nd.exp(x), None
    # AVX512-BF16: pairs of terms, unless a number is small. A matrix unit does not suit these sizes, and no tile has a
    # single row: Bochs reads operands of the instruction in memory from another address (it scales offsets by 4, not 64)
    for terms, smallest in ((70, 1.0), (387, 1.0), (70, 1e-39)):
        a, b = random.normal(size=(66, terms)), random.normal(size=(terms, 65))
        a[5, 6] *= smallest
        x, y = [nd.array(value).astype("bfloat16") for value in (a, b)]
        name = f"same bfloat16 product of {terms} terms" + (" with a small one" if smallest < 1 else "")
        exact = [value.astype("float32").asnumpy().astype("float64") for value in (x, y)]
        yield name, nd._internal._wide_matmul(x, y), exact[0] @ exact[1]
    for rows, terms, columns in ((20, 70, 30), (100, 150, 110)):
        x, y = [nd.array(random.normal(size=shape)).astype("bfloat16") for shape in ((rows, terms), (terms, columns))]
        exact = x.astype("float32").asnumpy() @ y.astype("float32").asnumpy()
        # NumPy knows float16, which has more digits
        yield f"product bfloat16 {rows}x{terms}x{columns}", nd.dot(x, y).astype("float16"), exact
    yield "same bfloat16 functions", (nd.tanh(x) + nd.exp(x)).astype("float32"), None


def show(kind: str, results: Iterator[Result]) -> None:
    """Print the digest and the error of each result."""
    for name, result, wanted in results:
        found = result.asnumpy() if hasattr(result, "asnumpy") else result
        error = 0.0
        if wanted is not None:
            tolerance = TOLERANCE[found.dtype.name] * (np.finfo(found.dtype).eps if found.dtype.kind == "f" else 0)
            largest = float(np.max(np.abs(wanted))) * tolerance if tolerance else 0.5
            error = float(np.max(np.abs(found.astype("float64") - wanted))) / largest
        digest = hashlib.sha256(np.ascontiguousarray(found).tobytes()).hexdigest()[:16]
        print(f"result {name} {kind} {digest} {error:.3g}", flush=True)


#: operator by operator, with kernels that come with the package, and planned
TIERS = ("background", "plan")


def parts() -> Iterator[tuple[str, Iterator[Result]]]:
    """Yield all results, by kind."""
    random = np.random.RandomState
    yield "integers", integers(random(7))
    yield "halves", halves(random(7))
    for dtype in ("float32", "float64"):
        for make in (functions, products, convolutions):
            yield dtype, make(dtype, random(7))


def main() -> None:
    """Compute everything in each tier."""
    mx.settings.update(executor="native")
    print("machine", host(), *sorted(kernel_cache.description().features), flush=True)
    for tiers in TIERS:
        with mx.settings.override(tiers=tiers):
            for kind, results in parts():
                show(f"{kind} {tiers}", results)
    print("kernels compiled here:", kernel_cache.statistics.kernels_compiled, flush=True)


if __name__ == "__main__":
    main()
