"""Results do not depend on the processor more than docs/numerics.md says; see :mod:`tests.project.processors`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from phonograd.core.base import settings

from .processors import FEW, PROCESSORS, ROOT, Processor, environment, reason_to_skip, run

#: computes arrays whose bits are the same everywhere, and some of which only the digits are
PROGRAM = """
import sys
import numpy as np
import phonograd as mx
from phonograd import autograd, nd

generator = np.random.RandomState(7)
same, close = {}, {}
for dtype in ("float32", "float64"):
    x, y = [nd.array(generator.normal(size=(37, 53)), dtype=dtype) for _ in range(2)]
    weight = nd.array(generator.normal(size=(41, 53)), dtype=dtype)
    weight.attach_grad()
    same["functions", dtype] = nd.tanh(x) * nd.exp(y) + nd.sin(x * y) - nd.erf(y) + nd.log(nd.abs(x) + 1)
    same["rows", dtype] = nd.softmax(x * y, axis=1) + nd.sum(x, axis=0) / nd.norm(y, axis=1, keepdims=True)
    with autograd.record():
        loss = nd.log_softmax(nd.FullyConnected(nd.sigmoid(x), weight, num_hidden=41, no_bias=True)).mean()
    loss.backward()
    same["layer", dtype] = weight.grad
    mx.random.seed(5)
    same["uniform", dtype] = nd.random.uniform(shape=(99,), dtype=dtype)
    same["normal", dtype] = nd.random.normal(shape=(99,), dtype=dtype)
    pictures = nd.array(generator.normal(size=(2, 16, 13, 11)), dtype=dtype)
    for size, stride in ((3, 1), (5, 1), (3, 2), (1, 1)):
        filters = nd.array(generator.normal(size=(24, 16, size, size)), dtype=dtype)
        window = {"kernel": (size, size), "stride": (stride, stride), "num_filter": 24, "no_bias": True}
        close[f"convolution {size} {stride}", dtype] = nd.Convolution(pictures, filters, **window)
    square = nd.array(generator.normal(size=(160, 160)), dtype=dtype)
    close["large product", dtype] = nd.dot(square, square)
arrays = {"same " + " ".join(key): array for key, array in same.items()}
arrays |= {"close " + " ".join(key): array for key, array in close.items()}
level = np.array(mx.settings.current().cpu_level)
np.savez(sys.argv[1], level=level, **{name: array.asnumpy() for name, array in arrays.items()})
"""

every_processor = pytest.mark.parametrize("processor", [pytest.param(each, id=each.core) for each in PROCESSORS])


def _require(processor: Processor) -> None:
    reason = reason_to_skip(processor)
    if reason is not None:
        pytest.skip(reason)


def _computed(variables: dict[str, str], path: Path) -> dict[str, np.ndarray]:
    subprocess.run([sys.executable, "-c", PROGRAM, str(path)], cwd=ROOT, env=os.environ | variables, check=True)
    with np.load(path) as stored:
        return dict(stored)


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> dict[str, np.ndarray]:
    """Return what this processor computes."""
    return _computed({}, tmp_path_factory.mktemp("here") / "arrays.npz")


@every_processor
def test_bits_are_those_of_this_processor(processor: Processor, here: dict[str, np.ndarray], tmp_path: Path) -> None:
    _require(processor)
    there = _computed(environment(processor), tmp_path / "arrays.npz")
    assert str(there.pop("level")) == processor.level
    assert there.keys() == here.keys() - {"level"}
    for name, found in there.items():
        array = here[name]
        if name.startswith("same") and settings.current().executor != "reference":
            assert found.tobytes() == array.tobytes(), name
        scale = np.abs(array).max()
        # Winograd's algorithm has the largest errors (docs/numerics.md)
        allowed = 1e-5 if array.dtype == np.float32 else 1e-13
        np.testing.assert_allclose(found, array, rtol=0, atol=allowed * scale, err_msg=name)


@pytest.mark.slow
@every_processor
def test_a_few_tests_pass(processor: Processor) -> None:
    _require(processor)
    finished = run(processor, ["-q", "-m", "not slow", "-p", "no:cacheprovider", *FEW], capture=True)
    assert finished.returncode == 0, finished.stdout[-4000:] + finished.stderr[-2000:]
