"""Operators with many inputs or outputs: kernels do not grow with their number, values are those of NumPy."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import phonograd as mx
from phonograd.core.kernels.structure import Structure
from phonograd.core.plan import assembly
from phonograd.core.plan.group import COPY_LIMIT, MEMORY_LIMIT, TARGET_LIMIT, WEIGHT_LIMIT
from phonograd.core.run import kernel_cache

pytest.importorskip("llvmlite")
pytestmark = pytest.mark.skipif(not kernel_cache.available(), reason="kernels need llvmlite")


@pytest.fixture
def structures(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Structure]]:
    """The structures of all fused kernels that are planned in a test, one for each plan."""
    found: list[Structure] = []
    plan = assembly._Planner.plan

    def noting(planner: Any) -> Any:
        made = plan(planner)
        found.extend([launch.structure for launch in made.launches if isinstance(launch.structure, Structure)])
        return made

    monkeypatch.setattr(assembly._Planner, "plan", noting)
    with mx.settings.override(cache_directory="", tiers="plan"):
        yield found


def parts(count: int, views: bool) -> tuple[list[mx.nd.NDArray], np.ndarray, mx.nd.NDArray | None]:
    values = np.random.default_rng(count).normal(size=(count, 3)).astype("float32")
    base = mx.nd.array(values)
    if views:
        base.attach_grad()
        return [], values, base
    arrays = [mx.nd.array(row) for row in values]
    for array in arrays:
        array.attach_grad()
    return arrays, values, None


def ordered_sum(rows: np.ndarray) -> np.ndarray:
    total = rows[0]
    for row in rows[1:]:
        total = total + row
    return total


OPERATORS: dict[str, tuple[Callable[..., Any], Callable[[np.ndarray], np.ndarray]]] = {
    "stack": (lambda *arrays: mx.nd.stack(*arrays), lambda rows: rows),
    "stack-1": (lambda *arrays: mx.nd.stack(*arrays, axis=1), lambda rows: rows.T),
    "concat": (lambda *arrays: mx.nd.concat(*arrays, dim=0), lambda rows: rows.reshape(-1)),
    "add_n": (lambda *arrays: mx.nd.add_n(*arrays), ordered_sum),
}


@pytest.mark.parametrize("views", [False, True], ids=["whole", "views"])
@pytest.mark.parametrize("name", OPERATORS)
def test_kernels_do_not_grow(name: str, views: bool, structures: list[Structure]) -> None:
    operator, reference = OPERATORS[name]
    for count in (5, 40, 400):
        arrays, values, base = parts(count, views)
        with mx.autograd.record():
            result = operator(*(arrays if base is None else [base[number] for number in range(count)]))
        result.backward(mx.nd.ones(result.shape) * 3)
        assert np.array_equal(result.asnumpy(), reference(values)), count
        grads = base.grad.asnumpy() if base is not None else np.stack([array.grad.asnumpy() for array in arrays])
        assert np.array_equal(grads, np.full((count, 3), 3, "float32")), count
    for structure in structures:
        assert len(structure.loads) <= MEMORY_LIMIT + COPY_LIMIT + 2
        assert len(structure.stores) <= TARGET_LIMIT + WEIGHT_LIMIT


@pytest.mark.parametrize("name", OPERATORS)
def test_another_number_of_inputs_needs_the_same_kernels(name: str, structures: list[Structure]) -> None:
    operator, reference = OPERATORS[name]
    period = np.lcm(COPY_LIMIT, MEMORY_LIMIT - 1)  # the rest of a sum after full kernels, and that of a join
    for count in (3 * period + 5, 4 * period + 5):
        before = set(structures)
        arrays, values, _ = parts(int(count), False)
        assert np.array_equal(operator(*arrays).asnumpy(), reference(values))
    assert set(structures) == before


def test_one_value_in_many_places(structures: list[Structure]) -> None:
    """A value that a kernel computes is written to a bounded number of blocks."""
    x = mx.nd.array([1.0, 2.0])
    result = mx.nd.stack(*[x * 2 + 1] * 500)
    assert np.array_equal(result.asnumpy(), np.tile(np.array([3.0, 5.0], "float32"), (500, 1)))
    assert max([len(structure.stores) for structure in structures]) <= TARGET_LIMIT + 1


def test_many_outputs(structures: list[Structure]) -> None:
    x = mx.nd.array(np.arange(1200.0).reshape(600, 2))
    x.attach_grad()
    with mx.autograd.record():
        pieces = mx.nd.split(x, num_outputs=600, axis=0, squeeze_axis=True)
        total = mx.nd.add_n(*[piece * piece for piece in pieces])
    total.backward()
    assert np.array_equal(x.grad.asnumpy(), 2 * x.asnumpy())
    rows = x.asnumpy()
    assert np.array_equal(total.asnumpy(), ordered_sum(rows * rows))
    for structure in structures:
        assert len(structure.loads) <= MEMORY_LIMIT + COPY_LIMIT + 2
        assert len(structure.stores) <= TARGET_LIMIT + WEIGHT_LIMIT
