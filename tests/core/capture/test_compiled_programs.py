"""compile: random functions do the same whether they are compiled or not."""

from __future__ import annotations

from typing import Any

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

import phonograd as mx
from phonograd import autograd, nd

from .capturing import array, bits, each_executor  # noqa: F401 - pytest finds fixtures by name

pytestmark = pytest.mark.usefixtures("each_executor")


class World:
    """Arrays that a random function uses without getting them, and the function itself."""

    def __init__(self, statements: list[tuple[str, int, int]]) -> None:
        self.statements = statements
        self.w, self.c = array(2, 3, seed=11), array(3, seed=12)
        self.w.attach_grad("add")

    def __call__(self, a: Any, b: Any) -> Any:
        arrays = [a, b, self.w, self.c]
        for kind, first, second in self.statements:
            x, y = arrays[first % len(arrays)], arrays[second % len(arrays)]
            if kind == "binary":
                arrays.append(nd.tanh(x * y - 0.5))
            elif kind == "number":
                arrays.append(x * (second + 0.25) + 1)
            elif kind == "write":
                x[:] = nd.tanh(y).sum() * 0.1 + x
            elif kind == "piece":
                arrays.append(x[0:1])
            elif kind == "add":
                x += 0.5
            elif kind == "random":
                arrays.append(x + nd.random.uniform(shape=x.shape))
            elif kind == "backward":
                with autograd.record():
                    loss = (nd.tanh(x * self.w) * self.w).sum()
                loss.backward()
            elif kind == "recorded":
                with autograd.record():
                    arrays.append(nd.sigmoid(x * self.w))
            elif kind == "paused":
                with autograd.pause():
                    arrays.append(nd.exp(x * 0.1))
        return (
            arrays[-1],
            [arrays[min(3, len(self.statements) // 2)]],
            {"first": arrays[4] if len(arrays) > 4 else None},
        )

    def state(self) -> list[bytes]:
        return bits(self.w, self.c, self.w.grad)


_kinds = st.sampled_from(
    ["binary", "binary", "binary", "number", "write", "piece", "add", "random", "backward", "recorded", "paused"]
)


@pytest.mark.filterwarnings("ignore:.*called each time:RuntimeWarning")
@hypothesis.settings(max_examples=60, suppress_health_check=list(hypothesis.HealthCheck))
@hypothesis.given(
    st.lists(st.tuples(_kinds, st.integers(0, 7), st.integers(0, 7)), min_size=1, max_size=8),
    st.booleans(),
    st.booleans(),
)
def test_random_functions(statements: list[tuple[str, int, int]], recording: bool, reading: bool) -> None:
    outcomes = []
    for is_compiled in (False, True):
        world = World(statements)
        function = mx.compile(world.__call__) if is_compiled else world.__call__
        mx.random.seed(1)
        seen: list[Any] = []
        for turn in range(4):
            a, b = array(2, 3, seed=turn), array(1, 3, seed=turn + 50)
            if recording:
                try:
                    with autograd.record():
                        found = function(a, b)
                        loss = found[0].sum() + (world.w * 0).sum()
                    loss.backward()
                except mx.MXNetError as error:
                    seen.append(str(error).splitlines()[0])
                    break
            else:
                found = function(a, b)
            if reading or turn == 3:
                first = [] if found[2]["first"] is None else [found[2]["first"]]
                seen.append((bits(found[0], found[1][0], *first, a, b), world.state()))
        outcomes.append(seen)
    kinds = {kind for kind, _, _ in statements}
    if not {"recorded", "backward"} <= kinds or any([isinstance(entry, str) for seen in outcomes for entry in seen]):
        assert outcomes[0] == outcomes[1]
        return
    # what reaches a variable by way of an earlier record is added at another moment (docs/decisions/0007)
    for (values, state), (others, other_state) in zip(*outcomes, strict=True):
        assert values == others
        for one, other in zip(state, other_state, strict=True):
            np.testing.assert_allclose(np.frombuffer(one, "f4"), np.frombuffer(other, "f4"), rtol=1e-5, atol=1e-6)
