"""Loops in records: turns that run as programs have the bits of operators one by one, in records of any length."""

from __future__ import annotations

import importlib.util
import random
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import phonograd as mx
from phonograd import autograd, nd
from phonograd.core.backward import eager, loop_bodies, loops
from phonograd.core.plan import cache, promotion
from phonograd.core.trace.novelty import NOVELTY

pytestmark = pytest.mark.skipif(
    mx.settings.current().executor == "reference" or importlib.util.find_spec("llvmlite") is None,
    reason="NumPy computes everything",
)

Arrays = list[nd.NDArray]
Program = Callable[[nd.NDArray, Arrays], nd.NDArray]
BATCH, UNITS = 6, 5


def lstm(data: nd.NDArray, weights: Arrays) -> nd.NDArray:
    weight, bias, _ = weights
    state, cell = nd.zeros((BATCH, UNITS), dtype=data.dtype), nd.zeros((BATCH, UNITS), dtype=data.dtype)
    for place in range(data.shape[0]):
        gates = nd.dot(nd.concat(data[place], state, dim=1), weight) + bias
        entrance, keep, outlet, candidate = nd.split(gates, num_outputs=4, axis=1)
        cell = nd.sigmoid(keep) * cell + nd.sigmoid(entrance) * nd.tanh(candidate)
        state = nd.sigmoid(outlet) * nd.tanh(cell)
    return state * state


def losses_of_all_steps(data: nd.NDArray, weights: Arrays) -> nd.NDArray:
    _, _, square = weights
    state, loss = nd.zeros((BATCH, UNITS), dtype=data.dtype), nd.zeros((BATCH,), dtype=data.dtype)
    for place in range(data.shape[0]):
        state = nd.tanh(nd.dot(state, square) + data[place] * 0.5) ** 2 + state / 3
        loss = loss + nd.pick(nd.log_softmax(state), nd.arange(BATCH) % UNITS)
    return loss


def all_states_together(data: nd.NDArray, weights: Arrays) -> nd.NDArray:
    _, _, square = weights
    state, states = nd.ones((BATCH, UNITS), dtype=data.dtype), []
    for place in range(data.shape[0]):
        state = nd.softsign(nd.dot(nd.relu(data[place] + state), square)) + nd.exp(-state)
        states.append(state)
    return nd.stack(*states).mean(axis=0) * states[3]


def parts_of_a_variable(data: nd.NDArray, weights: Arrays) -> nd.NDArray:
    weight, _, square = weights
    state = data[0]
    for place in range(data.shape[0]):
        part = weight[place % 4 : place % 4 + BATCH, 0:UNITS]
        state = nd.sin(state * part) + nd.dot(state, square) + nd.cos(state)
    return state


def several_layers(data: nd.NDArray, weights: Arrays) -> nd.NDArray:
    _, _, square = weights
    one = two = nd.zeros((BATCH, UNITS), dtype=data.dtype)
    for place in range(data.shape[0]):
        one = nd.tanh(nd.dot(data[place], square) + nd.dot(one, square, transpose_b=True))
        two = nd.sigmoid(one * two + nd.dot(two, square)) - one
    return nd.LayerNorm(two, square[0], square[1])


def normalized_and_dropped(data: nd.NDArray, weights: Arrays) -> nd.NDArray:
    _, bias, square = weights
    state = nd.zeros((BATCH, UNITS), dtype=data.dtype)
    for place in range(data.shape[0]):
        state = nd.Dropout(nd.LayerNorm(nd.dot(state, square) + data[place], bias[:UNITS], bias[UNITS : 2 * UNITS]))
    return state


def with_blocked_gradients(data: nd.NDArray, weights: Arrays) -> nd.NDArray:
    _, _, square = weights
    state = nd.zeros((BATCH, UNITS), dtype=data.dtype)
    for place in range(data.shape[0]):
        state = nd.tanh(nd.dot(state, square)) * nd.BlockGrad(state + 1) + data[place] + nd.maximum(state, 0.1)
    return state


def two_loops(data: nd.NDArray, weights: Arrays) -> nd.NDArray:
    return lstm(data, weights) + several_layers(data, weights)


PROGRAMS: list[Program] = [
    lstm,
    losses_of_all_steps,
    all_states_together,
    parts_of_a_variable,
    several_layers,
    normalized_and_dropped,
    with_blocked_gradients,
    two_loops,
]


def gradients(program: Program, length: int, dtype: str = "float32") -> list[np.ndarray[Any, Any]]:
    """Return the value of a program and its gradients."""
    mx.random.seed(length)
    draw = np.random.RandomState(length)
    data = nd.array(draw.randn(length, BATCH, UNITS), dtype=dtype)
    shapes = (2 * UNITS, 4 * UNITS), (4 * UNITS,), (UNITS, UNITS)
    weights = [nd.array(draw.randn(*shape) / 3, dtype=dtype) for shape in shapes]
    for array in weights:
        array.attach_grad()
    with autograd.record():
        y = program(data, weights)
    y.backward()
    return [y.asnumpy(), *[array.grad.asnumpy() for array in weights]]


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The numbers of turns that run as programs in each record; programs are made at once."""
    cache.forget_nodes()
    loops._bodies.clear()
    NOVELTY.forget()
    monkeypatch.setattr(loop_bodies, "NODE_NS", 1 << 40)
    monkeypatch.setattr(loops, "_policy", loops.Policy())
    found: list[int] = []

    def find(visited: Any) -> Any:
        result = loops.find_turns(visited)
        found.append(len(result))
        return result

    monkeypatch.setattr(eager, "find_turns", find)
    with mx.settings.override(tiers="blocking"):
        yield found
    refusals = [body.refusal for body in loops._bodies.values() if body.refusal is not None]
    assert all([isinstance(refusal, loop_bodies.Irregular) for refusal in refusals]), refusals


def _alone(monkeypatch: pytest.MonkeyPatch, program: Program, lengths: list[int], dtype: str) -> list[Any]:
    eager._seen.clear()
    monkeypatch.setattr(eager, "find_turns", lambda visited: [])
    return [gradients(program, length, dtype) for length in lengths]


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_the_bits_are_those_of_operators_one_by_one(
    program: Program, dtype: str, turns: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    lengths = [40, 41, 37, 52]
    found = [gradients(program, length, dtype) for length in lengths]
    assert len(turns) == len(lengths)
    assert turns[0] == 0
    for length, count in zip(lengths[1:], turns[1:], strict=True):
        assert length - 6 <= count <= 3 * length
    alone = _alone(monkeypatch, program, lengths, dtype)
    for one, two in zip(found, alone, strict=True):
        for first, second in zip(one, two, strict=True):
            assert first.tobytes() == second.tobytes()


UNARY = [nd.tanh, nd.sin, nd.sigmoid, nd.relu, nd.softsign, nd.square, nd.BlockGrad, nd.log_softmax, lambda x: x * 0.5]
BINARY: list[Callable[[nd.NDArray, nd.NDArray], nd.NDArray]] = [
    nd.broadcast_add,
    nd.broadcast_sub,
    nd.broadcast_mul,
    nd.broadcast_maximum,
    lambda x, y: nd.dot(x, y, transpose_b=True)[:, :UNITS] if x.shape[0] == UNITS else x * y,
    lambda x, y: sum(nd.split(nd.concat(x, y, dim=1), num_outputs=2, axis=1)),
    lambda x, y: nd.stack(x, y).sum(axis=0),
    lambda x, y: nd.concat(x[:, 1:], y[:, :1], dim=1),
]


def random_loop(seed: int) -> Program:
    """Return a loop with a random body: some states, and expressions of these, of data and of weights."""
    draw = random.Random(seed)
    states = draw.randint(1, 3)
    statements = [(draw.random(), draw.random(), draw.random(), draw.random()) for _ in range(draw.randint(4, 12))]
    nexts, adds = [draw.random() for _ in range(states)], draw.random() < 0.5

    def program(data: nd.NDArray, weights: Arrays) -> nd.NDArray:
        weight, bias, square = weights
        current = [data[number] for number in range(states)]
        loss = nd.zeros((BATCH, UNITS))
        for place in range(data.shape[0]):
            values = [*current, data[place], weight[:BATCH, :UNITS], bias[:UNITS].reshape((1, UNITS)) + current[0]]
            for kind, which, first, second in statements:
                one, two = values[int(first * len(values))], values[int(second * len(values))]
                if kind < 0.4:
                    values.append(UNARY[int(which * len(UNARY))](one))
                elif kind < 0.6:
                    values.append(nd.dot(one, square))
                else:
                    values.append(BINARY[int(which * len(BINARY))](one, two))
            current = [nd.tanh(values[int(each * len(values))]) for each in nexts]
            if adds:
                loss = loss + values[-1]
        return loss + sum(current) + sum([each.sum() for each in weights])

    return program


SEEDS = 40


def test_the_bits_of_random_loops(turns: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    programs = [random_loop(seed) for seed in range(SEEDS)]
    monkeypatch.setattr(loops, "_policy", _Always())
    monkeypatch.setattr(loops, "LEAST_NODES", 2)
    found = [[gradients(program, length) for length in (30, 33)] for program in programs]
    assert len([count for count in turns if count]) > SEEDS // 2
    for program, both in zip(programs, found, strict=True):
        for one, two in zip(both, _alone(monkeypatch, program, [30, 33], "float32"), strict=True):
            for first, second in zip(one, two, strict=True):
                assert first.tobytes() == second.tobytes()


class _Always(loops.Policy):
    """Searches every record."""

    def tries(self, count: int) -> bool:
        return True


def test_the_bits_are_those_of_a_plan(turns: list[int]) -> None:
    gradients(lstm, 30)
    found = gradients(lstm, 31)
    assert turns == [0, 29]
    with mx.settings.override(tiers="plan"):
        planned = gradients(lstm, 31)
    for one, two in zip(found, planned, strict=True):
        assert one.tobytes() == two.tobytes()


def test_values_inside_of_turns_can_be_read(turns: list[int]) -> None:
    def reading(data: nd.NDArray, weights: Arrays) -> nd.NDArray:
        _, _, square = weights
        state = nd.zeros((BATCH, UNITS), dtype=data.dtype)
        for place in range(data.shape[0]):
            inner = nd.tanh(nd.dot(state, square) + data[place])
            kept.append(inner)
            state = nd.sin(inner * inner) + state
        return state

    kept: Arrays = []
    gradients(reading, 50)
    kept.clear()
    gradients(reading, 51)
    assert turns == [0, 50]
    values = [inner.asnumpy() for inner in kept]
    kept.clear()
    with mx.settings.override(tiers="plan"):
        gradients(reading, 51)
    for one, two in zip(values, kept, strict=True):
        assert one.tobytes() == two.asnumpy().tobytes()


def test_other_settings_have_other_programs(turns: list[int]) -> None:
    gradients(lstm, 30)
    with mx.settings.override(num_threads=1):
        gradients(lstm, 31)
    gradients(lstm, 32)
    assert turns[:2] == [0, 0]
    assert turns[2] > 0


def test_programs_outlive_nodes_that_are_dropped(turns: list[int]) -> None:
    gradients(lstm, 30)
    found = gradients(lstm, 31)
    cache.forget_nodes()
    again = gradients(lstm, 31)
    assert turns[1:] == [29, 29]
    for one, two in zip(found, again, strict=True):
        assert one.tobytes() == two.tobytes()
    assert all([not body._nodes for body in loops._bodies.values()])


def test_short_loops_and_other_records_are_left_alone(turns: list[int]) -> None:
    gradients(lstm, 3)
    gradients(lstm, 4)

    def chain(data: nd.NDArray, weights: Arrays) -> nd.NDArray:
        state = data[0]
        for place in range(data.shape[0]):
            function = [nd.tanh, nd.sin, nd.cos, nd.sigmoid, nd.relu][place * place % 5]
            state = function(nd.dot(state, weights[2])) + state
        return state

    gradients(chain, 100)
    gradients(chain, 101)
    assert not any(turns)


def test_an_error_in_a_turn_is_that_of_its_operator(turns: list[int]) -> None:
    def looking_up(data: nd.NDArray, weights: Arrays) -> nd.NDArray:
        _, _, square = weights
        state = nd.zeros((BATCH, UNITS), dtype=data.dtype)
        for place in range(data.shape[0]):
            rows = nd.array([place % limit] * BATCH)
            found = nd.take(square, rows, mode="raise")
            state = nd.tanh(nd.cos(found * state) + nd.sin(state) + data[place])
        return state

    limit = UNITS
    gradients(looking_up, 40)
    gradients(looking_up, 41)
    assert turns[1] > 0
    limit = 100
    with pytest.raises(mx.MXNetError, match="take"):
        gradients(looking_up, 42)


def test_a_body_whose_program_fails_is_given_up(turns: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    gradients(lstm, 30)
    expected = gradients(lstm, 31)
    assert turns[-1] > 0

    def fail(program: Any, inputs: Any) -> Any:
        raise loop_bodies.Irregular

    monkeypatch.setattr(loop_bodies, "_run", fail)
    eager._seen.clear()
    found = gradients(lstm, 31)
    for one, two in zip(found, expected, strict=True):
        assert one.tobytes() == two.tobytes()
    gradients(lstm, 32)
    assert turns[-1] == 0


def test_programs_are_made_by_a_helper(turns: list[int]) -> None:
    with mx.settings.override(tiers="background"):
        gradients(lstm, 30)
        promotion.finish()
        found = gradients(lstm, 31)
        assert turns == [0, 29]
        results: list[Any] = []
        threads = [threading.Thread(target=lambda: results.append(gradients(lstm, 31))) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for result in results:
        for one, two in zip(found, result, strict=True):
            assert one.tobytes() == two.tobytes()


def test_explain_tells_which_records_have_programs_for_turns(turns: list[int]) -> None:
    gradients(lstm, 30)
    reasons: list[str] = []

    def listen(tier: str, nodes: Any, reason: str) -> None:
        reasons.append(reason)

    cache.EVALUATED.connect(listen)
    try:
        gradients(lstm, 31)
    finally:
        cache.EVALUATED.disconnect(listen)
    assert turns[1] > 0
    assert any("turns of loops run as programs" in reason for reason in reasons)
