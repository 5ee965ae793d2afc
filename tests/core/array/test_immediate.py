"""Immediate calls: programs that are always new compute operators that are not recorded when they are called."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import numpy as np
import pytest

import phonograd as mx
from phonograd import autograd, nd
from phonograd.core.array import immediate, kinds
from phonograd.core.graph.operator import REGISTRY
from phonograd.core.plan import eager, eager_results
from phonograd.core.trace import novelty
from phonograd.core.trace.owner import MACHINE_CODE
from phonograd.core.trace.trace import LOCAL, ImmediateTrace, Trace, ready_trace

from ...fuzz import ways
from . import machine_code

pytest.importorskip("llvmlite")


@pytest.fixture(params=["machine code", "python"])
def at_once(request: pytest.FixtureRequest) -> Iterator[None]:
    """Compute calls at once, in machine code or in Python, which is its definition."""
    machine_code.install()
    has_code = mock.patch.object(MACHINE_CODE, "thread_number", MACHINE_CODE.thread_number)
    if request.param == "python":
        # no trace becomes the one of machine code
        has_code = mock.patch.object(MACHINE_CODE, "thread_number", None)
        MACHINE_CODE.note(None)
        LOCAL.trace.thread = None
    with has_code, ways.immediate():
        yield
    ready_trace()


@pytest.mark.usefixtures("at_once")
def test_views_of_views_and_zeros_of_both_signs() -> None:
    table = nd.array(np.arange(6.0)).reshape((3, 2))
    table.attach_grad()
    row = table[1:2]
    for zero in (0, 0.0, -0.0, 0, -0.0):
        found = row * zero
        assert is_computed(found)
        assert np.array_equal(np.signbit(found.asnumpy()), np.signbit(row.asnumpy() * np.float32(zero)))


@pytest.mark.usefixtures("at_once")
def test_any_number_of_arrays() -> None:
    x = nd.array(np.arange(6.0).reshape((3, 2)))
    for count in (1, 2, 4):
        joined = nd.concat(*[x[0:1]] * count, dim=1)
        assert is_computed(joined)
        assert np.array_equal(joined.asnumpy(), np.concatenate([[[0.0, 1.0]]] * count, axis=1))


def counted(module: Any, name: str) -> Any:
    """Count the calls of a function of a module while a scope is open."""
    return mock.patch.object(module, name, wraps=getattr(module, name))


def is_computed(array: Any) -> bool:
    return array._node is None and array._buffer is not None


def pending(function: Any, *arrays: Any) -> Any:
    """Return the value of a function of arrays whose calls become nodes."""
    LOCAL.trace.flush(end=True)
    before, LOCAL.trace = LOCAL.trace, Trace()
    # machine code is told of the trace
    ready_trace()
    try:
        found = function(*arrays)
        assert not is_computed(found if isinstance(found, nd.NDArray) else found[0])
        return found.asnumpy()
    finally:
        LOCAL.trace = before
        ready_trace()


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize(
    "function",
    [
        nd.tanh,
        lambda x: x + x,
        lambda x: 2 - x,
        lambda x: x * 0.3,
        nd.log_softmax,
        nd.mean,
        lambda x: nd.sum(x, axis=1),
        lambda x: nd.dot(x, x, transpose_b=True),
        lambda x: nd.reshape(x, (-1,)),
        lambda x: nd.take(x, nd.argsort(x[:, 0])),
        lambda x: nd.concat(x, x * 2, dim=1),
        lambda x: nd.split(x, num_outputs=1, axis=0),
        lambda x: nd.topk(x, k=1, ret_typ="indices"),
    ],
)
def test_values_for_new_shapes_have_the_bits_of_graphs(function: Any) -> None:
    chance = np.random.default_rng(0)
    for _ in range(4):
        for shape in [(3, 4), (5, 6), (7, 2), (2, 7), (1, 5), (6, 6), (3, 4)]:
            x = nd.array(chance.normal(size=shape).astype("float32"))
            function(x)
            found = function(x)
            assert is_computed(found)
            np.testing.assert_array_equal(found.asnumpy().view(np.int32), pending(function, x).view(np.int32))


@pytest.mark.usefixtures("at_once")
def test_several_results_are_a_list() -> None:
    x = nd.array([[1.0, 2.0, 3.0, 4.0]])
    for _ in range(2):
        first, second = nd.split(x, num_outputs=2, axis=1)
    assert is_computed(first)
    assert is_computed(second)
    np.testing.assert_array_equal(second.asnumpy(), [[3, 4]])


@pytest.mark.usefixtures("at_once")
def test_no_result_shares_memory_with_an_argument() -> None:
    x = nd.array([[1.0, 2.0], [3.0, 4.0]])
    for _ in range(3):
        same, flat = nd.identity(x), nd.reshape(x, (-1,))
        assert not np.shares_memory(same._buffer, x._buffer)
        assert not np.shares_memory(flat._buffer, x._buffer)
    x += 1
    x[0] = 7
    np.testing.assert_array_equal(flat.asnumpy(), [1, 2, 3, 4])
    np.testing.assert_array_equal(same.asnumpy(), [[1, 2], [3, 4]])


@pytest.mark.usefixtures("at_once")
def test_large_results_are_computed_where_they_stay() -> None:
    x = nd.array(np.arange(1 << 16).reshape(256, 256))
    rows = nd.array(np.arange(256))
    with mock.patch.object(eager_results, "_copy", side_effect=AssertionError("a result was copied")):
        found = [0.3 * x, x * 0.3, rows - x, x + x, x >= 7]
    expected = [np.float32(0.3) * x.asnumpy(), x.asnumpy() * np.float32(0.3), rows.asnumpy() - x.asnumpy()]
    expected += [2 * x.asnumpy(), (x.asnumpy() >= 7).astype(np.float32)]
    for array, value in zip(found, expected, strict=True):
        assert is_computed(array)
        assert array.asnumpy().tobytes() == value.tobytes()


@pytest.mark.usefixtures("at_once")
def test_changes_in_place_reach_views_and_bases() -> None:
    x = nd.array([[1.0, 2.0], [3.0, 4.0]])
    row = x[1]
    x *= 2
    row += 1
    np.testing.assert_array_equal(x.asnumpy(), [[2, 4], [7, 9]])
    np.testing.assert_array_equal(row.asnumpy(), [7, 9])
    plain = nd.array([1.0])
    plain += 1
    assert is_computed(plain)
    assert plain.asscalar() == 2


@pytest.mark.usefixtures("at_once")
def test_a_change_of_shape_or_dtype_in_place_is_refused_as_ever() -> None:
    x = nd.array([1.0, 2.0])
    with pytest.raises(mx.MXNetError, match="Shape inconsistent"):
        x += nd.array([[1.0, 2.0], [3.0, 4.0]])
    np.testing.assert_array_equal(x.asnumpy(), [1, 2])


@pytest.mark.usefixtures("at_once")
def test_errors_are_raised_where_they_would_be_otherwise() -> None:
    x = nd.array([[1.0, 2.0]])
    for _ in range(2):
        with pytest.raises(mx.MXNetError, match="dot"):
            nd.dot(x, x)
    with pytest.raises(AssertionError, match="NDArray"):
        nd.dot(x, "no array")
    index = nd.array([5.0])
    failing = nd.take(x, index, mode="raise")
    with pytest.raises(mx.MXNetError):
        failing.asnumpy()


@pytest.mark.usefixtures("at_once")
def test_recorded_calls_are_differentiated() -> None:
    x = nd.array([1.0, 2.0, 3.0])
    x.attach_grad()
    for number in range(3):
        before = x * 2
        assert is_computed(before)
        with autograd.record():
            y = (x * x * number).sum()
        y.backward()
        np.testing.assert_array_equal(x.grad.asnumpy(), 2 * number * np.array([1, 2, 3], "float32"))
        with autograd.record():
            z = (x * before).sum()
            with autograd.pause():
                outside = z * 2
        z.backward()
        np.testing.assert_array_equal(x.grad.asnumpy(), before.asnumpy())
        assert outside.asscalar() == 2 * z.asscalar()


@pytest.mark.usefixtures("at_once")
def test_values_that_are_pending_are_used_as_nodes() -> None:
    x = nd.random.normal(shape=(3,))
    y = x + 1
    assert not is_computed(y)
    np.testing.assert_array_equal(y.asnumpy(), x.asnumpy() + np.float32(1))


@pytest.mark.usefixtures("at_once")
def test_arrays_of_other_classes_keep_their_class() -> None:
    x = mx.np.array([1.0, 2.0])
    for _ in range(2):
        assert type(x + 1) is mx.np.ndarray
        assert type(x * x) is mx.np.ndarray


@pytest.mark.usefixtures("at_once")
def test_explanations_name_the_tier() -> None:
    x = nd.array([1.0, 2.0])
    nd.arccosh(x)
    with mx.explain.tiers() as log:
        nd.arccosh(x)
    assert str(log) == "immediate: arccosh; the last graphs were all new"


def test_calls_of_known_kinds_are_machine_code() -> None:
    machine_code.install()
    x, y = nd.array([[1.0, -2.0, 3.0]]), nd.array([[2.0, 2.0, 2.0]])
    calls = [
        lambda: nd.tanh(x),
        lambda: x + y,
        lambda: 2 - x,
        lambda: nd.sum(x, axis=1, keepdims=True),
        lambda: nd.split(x, num_outputs=3, axis=1)[2],
        lambda: nd.topk(x, k=2, ret_typ="value"),
        lambda: nd.clip(x, a_min=-1, a_max=1.5),
    ]
    with ways.immediate():
        expected = [[call() for _ in range(2)][-1].asnumpy() for call in calls]
        with counted(immediate, "call") as by_name, counted(immediate, "call_binary") as by_sign:
            found = [call() for call in calls]
        assert not by_name.called
        assert not by_sign.called
        assert all([is_computed(each) for each in found])
    for each, value in zip(found, expected, strict=True):
        np.testing.assert_array_equal(each.asnumpy(), value)


@pytest.mark.usefixtures("at_once")
def test_known_kinds_that_fail_become_nodes() -> None:
    x, index = nd.array([[1.0, 2.0]]), nd.array([0.0])
    for _ in range(3):
        found = nd.take(x, index, mode="raise")
    assert is_computed(found)
    failing = nd.take(x, nd.array([5.0]), mode="raise")
    assert not is_computed(failing)
    with pytest.raises(mx.MXNetError):
        failing.asnumpy()


@pytest.mark.usefixtures("at_once")
def test_an_error_of_a_signal_handler_ends_the_call() -> None:
    def handler(number: int, frame: Any) -> None:
        raise TimeoutError("too late")

    def interrupted(*arrays: Any) -> Any:
        signal.raise_signal(signal.SIGUSR1)
        return arrays[0].copy()

    x = nd.array([[1.0, 2.0, 3.0]])
    for table in (immediate.CALLS, immediate.ANY_SHAPES):
        table.clear()
    nd.tanh(x)
    (kind,) = immediate.ANY_SHAPES.values()
    kind.function = interrupted
    kind.allow_direct(x._buffer.nbytes)
    before, counts = signal.signal(signal.SIGUSR1, handler), []
    try:
        for _ in range(3):
            with pytest.raises(TimeoutError, match="too late"):
                nd.tanh(x)
            # the last traceback refers to the arguments
            counts.append(sys.getrefcount(x._buffer))
    finally:
        signal.signal(signal.SIGUSR1, before)
        immediate.ANY_SHAPES.clear()
        kinds._elementwise.clear()
    assert len(set(counts)) == 1
    assert np.geterr()["divide"] == "warn"


@pytest.mark.usefixtures("at_once")
def test_errors_of_numbers_are_as_before_after_a_call() -> None:
    x = nd.array([1.0, 0.0])
    with np.errstate(divide="raise"):
        for _ in range(3):
            np.testing.assert_array_equal((x / nd.array([0.0, 1.0])).asnumpy(), [np.inf, 0])
        assert np.geterr()["divide"] == "raise"


@pytest.mark.usefixtures("at_once")
def test_calls_keep_no_references() -> None:
    x, y = nd.array([[1.0, 2.0, 3.0]]), nd.array([[2.0, 2.0, 2.0]])
    calls = [
        lambda: nd.tanh(x),
        lambda: x * y,
        lambda: x * 0.5,
        lambda: nd.identity(x),
        lambda: nd.reshape(x, shape=(3,)),
        lambda: nd.split(x, num_outputs=3, axis=1),
        lambda: nd.dot(x, y, transpose_b=True),
    ]
    for call in calls:
        for _ in range(3):
            call()
        watched = [x, y, x._buffer, y._buffer]
        before = [sys.getrefcount(each) for each in watched]
        for _ in range(50):
            call()
        assert [sys.getrefcount(each) for each in watched] == before


def test_new_graphs_begin_the_state_and_repeated_calls_end_it() -> None:
    def work() -> list[type[Any]]:
        seen = []
        x = nd.array(np.ones((3, 4), "float32"))
        for number in range(40):
            # a graph that is new each time
            y = x
            for bit in range(6):
                y = nd.tanh(y) if number >> bit & 1 else nd.sigmoid(y)
            y.asnumpy()
            seen.append(type(LOCAL.trace))
        assert ImmediateTrace in seen
        for _ in range(6):
            # a few calls on few numbers take less time than a graph, known or not
            nd.sin(nd.cos(x)).asnumpy()
        assert type(LOCAL.trace) is ImmediateTrace
        for _ in range(6):
            y = x
            for _ in range(12):
                y = nd.sin(nd.cos(y))
            y.asnumpy()
        seen.append(type(LOCAL.trace))
        return seen

    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.extend(work()))
    thread.start()
    thread.join()
    assert found[-1:] == [Trace]


@pytest.mark.usefixtures("at_once")
def test_the_cost_of_calls_is_part_of_their_sequence() -> None:
    def cost_of(call: Callable[[], Any]) -> int:
        trace: Any = LOCAL.trace
        trace.sequence = 0
        call()
        return int(trace.sequence & novelty.COST_MASK)

    x = nd.array(np.ones((3, 4), "float32"))
    large = nd.array(np.ones((64, 256), "float32"))
    for _ in range(3):
        assert cost_of(lambda: nd.sin(nd.cos(x))) == 2
        assert cost_of(lambda: nd.dot(x, x.T)) > 2
        assert cost_of(lambda: nd.sin(large)) == 5
        assert cost_of(lambda: [nd.sin(large) for _ in range(100)]) == novelty.COST_MASK


@pytest.mark.usefixtures("at_once")
def test_new_extents_of_known_calls() -> None:
    draw = np.random.default_rng(0)
    table = draw.normal(size=(40, 6)).astype("float32")
    held = nd.array(table)
    for count in [*range(3, 40), 3, 17]:
        # fractions are cut off, and numbers out of range are clipped
        index = draw.uniform(-9, 60, count).astype("float32")
        whole = np.clip(index.astype(np.int64), 0, 39)
        rows, wide = nd.take(held, nd.array(index)), draw.normal(size=(count, 50)).astype("float32")
        np.testing.assert_array_equal(rows.asnumpy(), table[whole])
        np.testing.assert_array_equal((rows * 2).asnumpy(), table[whole] * np.float32(2))
        np.testing.assert_array_equal(rows.reshape((-1,)).asnumpy(), table[whole].reshape(-1))
        np.testing.assert_array_equal(
            nd.take(held, nd.array(index), mode="wrap").asnumpy(), table[index.astype(np.int64) % 40]
        )
        total = wide.reshape(-1)
        best = nd.topk(nd.array(total), k=count)
        np.testing.assert_array_equal(best.asnumpy(), np.argsort(-total, kind="stable")[:count])
        shifted = wide - wide.max(1, keepdims=True)
        expected = shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
        np.testing.assert_allclose(nd.log_softmax(nd.array(wide)).asnumpy(), expected, rtol=1e-5, atol=1e-5)
    with pytest.raises(mx.MXNetError):
        nd.take(held, nd.array(np.full(50, 99, "float32")), mode="raise").asnumpy()
    with pytest.raises(mx.MXNetError):
        (rows * nd.ones((5, 5))).asnumpy()


@pytest.mark.usefixtures("at_once")
def test_new_extents_of_known_kinds_make_and_keep_no_kinds() -> None:
    table = nd.array(np.arange(12.0).reshape(4, 3))

    def calls(count: int) -> None:
        x = nd.array(np.ones((count, 3), "float32"))
        for _ in range(2):
            y = nd.take(table, nd.reshape(nd.tanh(x) + x * 0.5, (-1,)))
            assert is_computed(y)

    for count in range(5, 12):
        calls(count)
    before = [*immediate.CALLS], [*immediate.ANY_SHAPES]
    with counted(kinds, "make") as made, counted(immediate, "make") as asked:
        for count in range(12, 40):
            calls(count)
    assert not made.called
    assert not asked.called
    assert ([*immediate.CALLS], [*immediate.ANY_SHAPES]) == before


@pytest.mark.usefixtures("at_once", "python_functions")
def test_a_pattern_is_learned_once_and_for_all_extents() -> None:
    kinds.CALLS.clear()
    kinds.ANY_SHAPES.clear()
    kinds._patterns.clear()
    kinds._guards.clear()
    with counted(kinds, "_call_of") as made:
        for rows in (5, 6):
            nd.log_softmax(nd.array(np.ones((rows, 43), "float32")))
        # the second call is the first one for any extents
        assert made.call_count == 1
    nd.log_softmax(nd.array(np.ones((7, 43), "float32")))
    with mock.patch.object(eager, "pattern_of_shapes", side_effect=AssertionError("a pattern was looked up")):
        for rows in range(8, 30):
            found = nd.log_softmax(nd.array(np.ones((rows, 43), "float32")))
            assert is_computed(found)
            np.testing.assert_allclose(found.asnumpy(), np.full((rows, 43), -np.log(43)), rtol=1e-5)


@pytest.mark.usefixtures("at_once")
def test_sequences_tell_the_shapes_of_calls_apart() -> None:
    def sequence(*shapes: tuple[int, ...]) -> int:
        arrays = [nd.array(np.ones(shape, "float32")) for shape in shapes]
        trace: Any = LOCAL.trace
        trace.sequence = 0
        for array in arrays:
            nd.tanh(array) * 2
        return int(trace.sequence)

    immediate.CALLS.clear()
    sequence((2, 3))
    different = [((2, 3),), ((3, 2),), ((6,),), ((2, 3), (3, 2)), ((3, 2), (2, 3)), ((64, 256),)]
    found = [sequence(*shapes) for shapes in different]
    assert len({*found}) == len(found)
    assert [sequence(*shapes) for shapes in different] == found


def test_sequences_are_the_same_in_machine_code_and_in_python() -> None:
    machine_code.install()
    arrays = [nd.array(np.ones(shape, "float32")) for shape in ((), (1, 5), (4, 1), (3, 40, 70), (0, 2))]
    found = []
    for is_native in (True, False):
        with ways.immediate():
            trace: Any = LOCAL.trace
            calls = [nd.tanh, lambda x: x * 3, lambda x: nd.reshape(x, (-1,)), lambda x: x + arrays[0]]
            sequences = []
            for _ in range(3):
                sequences = []
                for call in calls:
                    for array in arrays:
                        trace.sequence = 0
                        if is_native:
                            call(array)
                        else:
                            with mock.patch.object(MACHINE_CODE, "thread_number", None):
                                MACHINE_CODE.note(None)
                                trace.thread = None
                                call(array)
                        sequences.append(trace.sequence)
            found.append(sequences)
        ready_trace()
    assert found[0] == found[1]


@pytest.mark.usefixtures("python_functions")
def test_memory_of_kinds_is_bounded() -> None:
    with ways.immediate(), mock.patch.object(kinds, "MOST_CALLS", 16):
        for table in (immediate.CALLS, immediate.ANY_SHAPES, kinds._elementwise):
            table.clear()
        x = nd.array(np.ones((300,), "float32"))
        for extent in range(2, 200):
            for _ in range(2):
                nd.clip(x[:extent], a_min=0, a_max=extent)
                nd.topk(x, k=1 + extent // 40, ret_typ="value")
                nd.reshape(x[:extent], (-1, 1))
        assert 0 < len(immediate.CALLS) <= 16
        assert 0 < len(immediate.ANY_SHAPES) <= 16
        patterns = [kind.function for kind in immediate.ANY_SHAPES.values() if type(kind.function) is kinds._Patterns]
        assert 0 < max([len(each._known) for each in patterns]) <= 16


@pytest.mark.usefixtures("at_once")
def test_functions_for_shapes_that_come_once_are_not_kept() -> None:
    parts = [nd.array(np.arange(extent, dtype="float32")) for extent in range(20, 60)]
    immediate.ANY_SHAPES.clear()
    for part in parts[:5]:
        nd.reshape(part, (-1, 1))
    (kind,) = [kind for key, kind in immediate.ANY_SHAPES.items() if key[0].name == "Reshape"]
    known = kind.function._known
    known.clear()
    for is_kept in (False, True):
        for part in parts[5:25]:
            assert nd.reshape(part, (-1, 1)).asnumpy()[-1, 0] == part.size - 1
        assert len(known) == 20
        assert {len(calls) > 0 for calls in known.values()} == {is_kept}


@pytest.mark.usefixtures("at_once")
def test_elementwise_operators_hold_for_all_shapes() -> None:
    chance = np.random.default_rng(0)
    shapes = [((3,), (3,)), ((4, 5), (4, 1)), ((2, 3, 4), (4,)), ((), (7,)), ((0, 3), (3,)), ((1,), (6, 1))]
    with mock.patch.object(kinds, "_learn", wraps=kinds._learn) as learned:
        for one, two in shapes:
            x, y = [chance.normal(size=shape).astype("float32") for shape in (one, two)]
            found = nd.array(x).reshape(one) * nd.array(y).reshape(two)
            assert found.asnumpy().tobytes() == (x * y).tobytes()
            assert found.shape == (x * y).shape
        assert [call.args[1].name for call in learned.call_args_list].count("broadcast_mul") <= 1
    with pytest.raises(mx.MXNetError, match="could not be broadcast"):
        nd.ones((2, 3)) * nd.ones((2,))
    with pytest.raises(mx.MXNetError):
        nd.elemwise_add(nd.ones((2, 3)), nd.ones((1, 3)))


def test_large_broadcast_results_become_nodes() -> None:
    with ways.immediate():
        for extent in (3, 4, 5):
            nd.ones((extent, 1)) + nd.ones((1, extent))
        found = nd.ones((5000, 1)) + nd.ones((1, 5000))
        assert type(found._buffer) is not np.ndarray


def test_the_state_is_that_of_a_thread() -> None:
    with ways.immediate():
        found: list[Any] = []
        thread = threading.Thread(target=lambda: found.append(type(LOCAL.trace)))
        thread.start()
        thread.join()
        assert found == [Trace]
        assert novelty.NOVELTY.is_high


def test_long_new_graphs_count_twice() -> None:
    for nodes, is_high in ((novelty.MANY_NODES - 1, False), (novelty.MANY_NODES, True)):
        counted = type(novelty.NOVELTY)()
        for _ in range(novelty.MANY_NEW // 2):
            counted.note_new(nodes)
        assert counted.is_high is is_high
    counted.note_known()
    assert not counted.is_high
    counted.forget()
    counted.note_new(novelty.MANY_MORE_NODES)
    assert counted.is_high


def test_a_long_sequence_is_known_when_it_comes_back_once() -> None:
    for cost, expected in ((novelty.COST_MASK - 1, [True, True, False]), (novelty.COST_MASK, [True, False])):
        counted = type(novelty.NOVELTY)()
        counted.note_new(novelty.MANY_MORE_NODES)
        found = []
        for _ in expected:
            counted.note_read(1 << 8 | cost)
            found.append(counted.is_high)
        assert found == expected


@pytest.mark.usefixtures("at_once")
def test_parameters_of_immediate_calls_are_remembered() -> None:
    declared = REGISTRY["topk"]
    for table in (declared.accepted_parameters, immediate.CALLS, immediate.ANY_SHAPES):
        table.clear()
    x = nd.array(np.arange(30, dtype="float32"))
    for count in (2, 3, 4):
        nd.topk(x, k=count)
    assert len(declared.accepted_parameters) == 3
    with mock.patch.object(immediate, "MOST_PARAMETERS", 3):
        nd.topk(x, k=5)
    assert len(declared.accepted_parameters) == 3
