"""Single calls: calls whose results are read at once run their plan without a graph."""

import sys
import threading

import numpy as np
import pytest

import phonograd as mx
from phonograd import autograd, nd, settings
from phonograd.core.array import single
from phonograd.core.base import processor
from phonograd.core.base.errors import MXNetError
from phonograd.core.graph.node import FORGOTTEN
from phonograd.core.graph.node import statistics as graph_statistics
from phonograd.core.graph.operator import REGISTRY
from phonograd.core.plan import promotion
from phonograd.core.plan.cache import SINGLE_RUNS
from phonograd.core.run.kernel_cache import statistics as kernel_statistics
from phonograd.core.trace.trace import LOCAL

from . import machine_code

pytest.importorskip("llvmlite")
native_call = pytest.importorskip("phonograd.core.array.fastcall.native_call")
if not native_call.possible():
    pytest.skip("this interpreter runs calls in Python", allow_module_level=True)

GEMM, TANH, POTRF, GELQF = (REGISTRY[name] for name in ("_linalg_gemm2", "tanh", "_linalg_potrf", "_linalg_gelqf"))


@pytest.fixture(autouse=True)
def compiled():
    machine_code.install()
    yield
    single.forget()


def matrices(count=2, size=6):
    generator = np.random.default_rng(3)
    return [nd.array(generator.standard_normal((size, size))) for _ in range(count)]


def definite(size=6):
    return nd.array(np.diag(np.arange(1.0, size + 1)) + 0.1)


def learned(call, declared):
    """Read a call until its operator computes it at once, and return the last values."""
    with settings.override(tiers="plan"):
        first(call()).wait_to_read()
    for _ in range(SINGLE_RUNS):
        values = first(call()).asnumpy()
        promotion.finish()
    assert declared.at_once
    return values


def first(result):
    return result[0] if isinstance(result, (list, tuple)) else result


def is_pending(array):
    return array._buffer is None


def test_a_call_that_is_read_at_once_needs_no_trace():
    a, b = matrices()
    expected = learned(lambda: nd.linalg.gemm2(a, b), GEMM)
    before = LOCAL.trace
    result = nd.linalg.gemm2(a, b)
    assert not is_pending(result)
    np.testing.assert_array_equal(result.asnumpy(), expected)
    assert LOCAL.trace is before
    assert not before.leaves
    c, d = nd.array(b.asnumpy()), nd.array(a.asnumpy())
    result = nd.linalg.gemm2(c, d)
    assert not is_pending(result)
    np.testing.assert_allclose(result.asnumpy(), b.asnumpy() @ a.asnumpy(), rtol=1e-5, atol=1e-5)


def test_parameters_can_be_given_by_position():
    index = nd.array([2, 0, 1], dtype="int32")
    expected = learned(lambda: nd.one_hot(index, 4), REGISTRY["one_hot"])
    for result in (nd.one_hot(index, 4), nd.one_hot(index, 4, 1.0), nd.one_hot(index, depth=4)):
        assert not is_pending(result)
        np.testing.assert_array_equal(result.asnumpy(), expected)
    assert is_pending(nd.one_hot(index, 5))
    with pytest.raises(TypeError, match="multiple values for argument 'depth'"):
        nd.one_hot(index, 4, depth=4)


@pytest.mark.parametrize(
    ("name", "make", "is_learned"),
    [
        ("take", lambda table, index: lambda: nd.take(table, index), True),
        ("one_hot", lambda table, index: lambda: nd.one_hot(index, 300_000), True),
        ("tanh", lambda table, index: lambda: nd.tanh(table), False),
    ],
)
def test_large_inputs_or_large_results_but_not_both(name, make, is_learned):
    table, index = nd.arange(512 * 600).reshape((512, 600)), nd.array([2, 0], dtype="int32")
    table.wait_to_read()
    assert table.size > processor.choices().numbers_per_node
    call = make(table, index)
    if not is_learned:
        with pytest.raises(AssertionError):
            learned(call, REGISTRY[name])
        return
    expected = learned(call, REGISTRY[name])
    result = call()
    assert not is_pending(result)
    np.testing.assert_array_equal(result.asnumpy(), expected)


@pytest.mark.parametrize("size", [16, 80])
def test_small_operands_are_read_in_place_and_large_ones_packed(size, monkeypatch):
    a, b = matrices(size=size)
    call = lambda: nd.linalg.gemm2(a, b)  # noqa: E731
    expected = learned(call, GEMM)
    for _ in range(8):
        call()
        promotion.finish()
    (kind,) = single._kinds[GEMM].values()
    assert kind.program.packed is not None
    runs = []
    run = kind.program.packed.__class__.run
    monkeypatch.setattr(kind.program.packed.__class__, "run", lambda self, given: runs.append(1) or run(self, given))
    np.testing.assert_array_equal(call().asnumpy(), expected)
    assert len(runs) == (size == 80)
    # a program from disk is packed from its first run on, and never counts its runs
    kind.program.runs = 0
    assert kind.program.whole_row() is not None
    np.testing.assert_array_equal(call().asnumpy(), expected)
    turned = nd.array(b.asnumpy().T).T
    np.testing.assert_array_equal(nd.linalg.gemm2(a, turned).asnumpy(), expected)


def python_functions(call):
    """Return the names of the Python functions of the package that a call runs, and its result."""
    names = []

    def note(frame, event, _):
        if event == "call" and "phonograd/core" in frame.f_code.co_filename:
            names.append(frame.f_code.co_name)

    sys.setprofile(note)
    try:
        result = call()
    finally:
        sys.setprofile(None)
    return names, result


@pytest.mark.parametrize("size", [6, 16, 300])
def test_a_program_of_one_native_call_runs_no_python_function(size):
    (a,) = matrices(1, size)
    expected = learned(lambda: nd.tanh(a), TANH)
    for _ in range(8):
        nd.tanh(a)
        promotion.finish()
    (kind,) = single._kinds[TANH].values()
    before = graph_statistics.evaluations, kernel_statistics.native_calls, kind.left
    names, result = python_functions(lambda: nd.tanh(a))
    # memory of the pool is made by Python functions
    assert [name for name in names if name != "admit"] == (["allocate", "take"] if size == 300 else [])
    np.testing.assert_array_equal(result.asnumpy(), expected)
    after = graph_statistics.evaluations, kernel_statistics.native_calls, kind.left
    assert after == (before[0] + 1, before[1] + 1, before[2] - 1)


@pytest.mark.parametrize(("name", "count"), [("tanh", 1), ("slogdet", 2)])
def test_native_calls_give_references_back(name, count):
    function = getattr(nd.linalg, name, None) or getattr(nd, name)
    declared = REGISTRY["_linalg_slogdet" if count == 2 else name]
    (a,) = [definite(8)]
    learned(lambda: function(a), declared)
    for _ in range(8):
        function(a)
        promotion.finish()
    (kind,) = single._kinds[declared].values()
    watched = [a._buffer, a._buffer.dtype, None, kind]
    before = [sys.getrefcount(each) for each in watched]
    for _ in range(500):
        kind.left = single.PROBE_EVERY
        found = function(a)
    after = [sys.getrefcount(each) for each in watched]
    assert max([abs(first - second) for first, second in zip(before, after)]) < 50
    results = found if count > 1 else [found]
    assert len(results) == count
    assert [sys.getrefcount(each._buffer) for each in results] == [2] * count


def test_memory_in_several_pieces_is_left_to_python():
    (a,) = matrices(1, 8)
    learned(lambda: nd.tanh(a), TANH)
    for _ in range(8):
        nd.tanh(a)
        promotion.finish()
    b = nd.array(np.ones((8, 8)))
    b._buffer = np.asfortranarray(a.asnumpy())
    np.testing.assert_array_equal(nd.tanh(b).asnumpy(), nd.tanh(a).asnumpy())


def test_other_shapes_parameters_and_arrays_make_nodes():
    a, b = matrices()
    learned(lambda: nd.linalg.gemm2(a, b), GEMM)
    wide = nd.ones((6, 7))
    assert is_pending(nd.linalg.gemm2(a, wide))
    assert is_pending(nd.linalg.gemm2(a, b, transpose_a=True))
    assert is_pending(nd.linalg.gemm2(a, b, alpha=0.0))
    assert is_pending(nd.linalg.gemm2(a, a))
    assert is_pending(nd.linalg.gemm2(a + 1, b))
    assert is_pending(nd.linalg.gemm2(a.as_in_context(mx.cpu(1)), b.as_in_context(mx.cpu(1))))
    np.testing.assert_allclose(nd.linalg.gemm2(a, a).asnumpy(), a.asnumpy() @ a.asnumpy(), rtol=1e-5, atol=1e-5)


def test_keywords_are_part_of_the_kind():
    a, b = matrices()

    def call():
        return nd.linalg.gemm2(a, b, transpose_b=True, alpha=0.5)

    expected = learned(call, GEMM)
    result = nd.linalg.gemm2(a, b, alpha=0.5, transpose_b=True)
    assert not is_pending(result)
    np.testing.assert_array_equal(result.asnumpy(), expected)
    assert is_pending(nd.linalg.gemm2(a, b))
    with pytest.raises(MXNetError, match="transpose_c"):
        nd.linalg.gemm2(a, b, transpose_c=True)
    with pytest.raises(MXNetError, match=r"expects 2 inputs|transpose_b"):
        nd.linalg.gemm2(a)


def test_binary_operators_with_numbers_and_arrays():
    a, b = matrices()
    calls = [
        (lambda number: a * number, "broadcast_mul", lambda x, number: x * np.float32(number)),
        (lambda number: number - a, "broadcast_sub", lambda x, number: np.float32(number) - x),
        (lambda number: a < number, "broadcast_lesser", lambda x, number: (x < np.float32(number)).astype("float32")),
    ]
    for call, name, expected in calls:
        learned(lambda call=call: call(0.5), REGISTRY[name])
        # numbers that are new, and zeros of both signs
        for number in (0.25, 3, 0.0, -0.0, float("inf"), 7, 7):
            result = call(number)
            assert not is_pending(result)
            found, wanted = result.asnumpy(), expected(a.asnumpy(), number)
            np.testing.assert_array_equal(found, wanted)
            np.testing.assert_array_equal(np.signbit(found), np.signbit(wanted))
    single.forget()
    expected = learned(lambda: a + b, REGISTRY["broadcast_add"])
    result = a + b
    assert not is_pending(result)
    np.testing.assert_array_equal(result.asnumpy(), expected)
    assert is_pending(a + a)
    assert is_pending(a + (b + 1))
    with autograd.record():
        assert is_pending(a + b)
    with pytest.raises(MXNetError):
        a + nd.ones((5, 4))


def test_the_function_of_a_binary_operator_is_the_same_kind():
    a, b = matrices()
    learned(lambda: a * b, REGISTRY["broadcast_mul"])
    assert not is_pending(nd.broadcast_mul(a, b))
    assert not is_pending(nd.broadcast_mul(a, b))
    assert is_pending(nd.broadcast_mul(lhs=a, rhs=b))


def test_zeros_of_both_signs_are_different_parameters():
    (a,) = matrices(1)
    learned(lambda: nd.clip(a, a_min=-1.0, a_max=0.5), REGISTRY["clip"])
    below = nd.clip(nd.array([[-3.0]]), a_min=-1.0, a_max=-0.0).asnumpy()
    assert below[0, 0] == -1
    assert is_pending(nd.clip(a, a_min=-1.0, a_max=0.0))


def test_recorded_calls_and_variables():
    a, b = matrices()
    learned(lambda: nd.tanh(a), TANH)
    b.attach_grad()
    assert not is_pending(nd.tanh(b))
    with autograd.record():
        y = nd.tanh(b)
        assert is_pending(y)
    y.backward()
    np.testing.assert_allclose(b.grad.asnumpy(), 1 - np.tanh(b.asnumpy()) ** 2, rtol=1e-5, atol=1e-6)


def test_an_array_that_has_changed_is_read_anew():
    (a,) = matrices(1)
    learned(lambda: nd.tanh(a), TANH)
    a[:] = 0.25
    np.testing.assert_allclose(nd.tanh(a).asnumpy(), np.full((6, 6), np.tanh(0.25)), rtol=1e-6)
    view = a[1:3]
    a += 0.5
    np.testing.assert_allclose(nd.tanh(view).asnumpy(), np.full((2, 6), np.tanh(0.75)), rtol=1e-6)


def test_errors_are_raised_where_the_value_is_read():
    a = definite()
    learned(lambda: nd.linalg.potrf(a), POTRF)
    assert not is_pending(nd.linalg.potrf(a))
    result = nd.linalg.potrf(-a)
    with pytest.raises(MXNetError):
        result.wait_to_read()
    negative = nd.array(-a.asnumpy())
    result = nd.linalg.potrf(negative)
    assert is_pending(result)
    with pytest.raises(MXNetError):
        result.wait_to_read()


def test_all_outputs_are_computed_although_one_was_read():
    a = definite()
    expected = learned(lambda: nd.linalg.gelqf(a), GELQF)
    rows, lower = nd.linalg.gelqf(a)
    assert not is_pending(rows)
    assert not is_pending(lower)
    np.testing.assert_array_equal(rows.asnumpy(), expected)
    np.testing.assert_allclose(lower.asnumpy() @ rows.asnumpy(), a.asnumpy(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["multi_all_finite", "concat", "stack", "add_n"])
def test_calls_with_any_number_of_arrays_make_nodes(name):
    arrays = matrices(3)
    parameters = {"num_arrays": 3} if name == "multi_all_finite" else {}
    with settings.override(tiers="plan"):
        expected = getattr(nd, name)(*arrays, **parameters).asnumpy()
    for _ in range(2 * SINGLE_RUNS):
        assert (getattr(nd, name)(*arrays, **parameters).asnumpy() == expected).all()
        promotion.finish()


def test_arrays_of_the_other_class():
    a = mx.np.array(definite().asnumpy())
    learned(lambda: mx.np.tanh(a), TANH)
    assert type(mx.np.tanh(a)) is mx.np.ndarray
    assert type(nd.tanh(a.as_nd_ndarray())) is nd.NDArray


def test_a_call_that_is_not_alone_any_more_makes_nodes_again():
    (a,) = matrices(1)
    expected = learned(lambda: nd.tanh(a), TANH)
    for repeat in range(2):
        while not is_pending(result := nd.tanh(a)):
            assert TANH.at_once
        # it is not alone
        np.testing.assert_array_equal((result + 1).asnumpy(), expected + 1)
        assert is_pending(nd.tanh(a))
        if not repeat:
            # alone again
            np.testing.assert_array_equal(nd.tanh(a).asnumpy(), expected)
            assert not is_pending(nd.tanh(a))
    for _ in range(single.MOST_PROBES):
        (nd.tanh(a) + 1).wait_to_read()
    assert not TANH.at_once


def test_settings_and_dropped_nodes_end_them():
    (a,) = matrices(1)
    for end in (FORGOTTEN.emit, lambda: settings.update(spare_bytes=settings.current().spare_bytes)):
        learned(lambda: nd.tanh(a), TANH)
        end()
        assert is_pending(nd.tanh(a))
        single.forget()


def test_observers_see_nodes():
    (a,) = matrices(1)
    learned(lambda: nd.tanh(a), TANH)
    with mx.explain.plans() as seen:
        nd.tanh(a).wait_to_read()
    assert seen is not None
    with settings.override(naive=True):
        assert not is_pending(nd.tanh(a))
    with autograd.detect_anomaly() if hasattr(autograd, "detect_anomaly") else mx.debug.detect_anomaly():
        assert is_pending(nd.tanh(a))


def test_threads_add_and_drop_kinds():
    one, two = matrices()
    learned(lambda: nd.linalg_gemm2(one, two), GEMM)
    ((key, kind),) = single._kinds[GEMM].items()
    errors = []

    def work(number):
        own = (*key, number)
        try:
            for _ in range(2000):
                single._add(GEMM, own, kind)
                single._drop(kind)
        except Exception as error:
            errors.append(error)
            raise

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not errors
    assert GEMM not in single._kinds
    assert not GEMM.at_once
