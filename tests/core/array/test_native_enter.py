"""Arrays enter traces, and are changed in place, by machine code as by the Python functions."""

import gc
import sys
import threading
import weakref

import numpy as np
import pytest

import phonograd as mx
from phonograd import autograd, nd, settings
from phonograd.core.array import binary
from phonograd.core.array import handle as handle_module
from phonograd.core.base.errors import MXNetError
from phonograd.core.graph.node import statistics
from phonograd.core.run import kernel_cache
from phonograd.core.trace.trace import LOCAL, Trace

from . import machine_code

pytestmark = pytest.mark.usefixtures("planned")

pytest.importorskip("llvmlite")
native_call = pytest.importorskip("phonograd.core.array.fastcall.native_call")
if not native_call.possible():
    pytest.skip("this interpreter runs calls in Python", allow_module_level=True)


@pytest.fixture(autouse=True)
def compiled():
    machine_code.install()
    with settings.override(executor="native"):
        yield


def variable(values):
    array = nd.array(values)
    array.attach_grad()
    return array


STEPS = {
    "arrays": lambda x, w: x * w,
    "twice the same": lambda x, w: x * x,
    "number": lambda x, w: w * 2.0,
    "reflected": lambda x, w: 1.0 - w,
    "function": lambda x, w: nd.tanh(w),
    "functions of two": lambda x, w: nd.dot(x, w),
    "by keyword": lambda x, w: nd.dot(lhs=x, rhs=w),
    "by keyword in another order": lambda x, w: nd.dot(rhs=w, lhs=x),
    "mixed": lambda x, w: nd.dot(x, rhs=w),
}


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("recording", [False, True])
def test_the_same_expressions_every_time(name, recording):
    x, w = nd.array(np.eye(3) + 1), variable(np.arange(9.0).reshape(3, 3))
    with settings.override(naive=True):
        expected = STEPS[name](x, w).asnumpy()

    def step():
        LOCAL.trace.flush(end=True)
        with autograd.record() if recording else autograd.pause():
            y = STEPS[name](x, w)
        leaves = [next((k for k, a in enumerate((x, w)) if a._buffer is leaf), -1) for leaf in LOCAL.trace.leaves]
        node = y._node
        if recording and node.marked:
            y.backward()
        return node, leaves, y.asnumpy()

    first, order, result = step()
    made = statistics.nodes
    for _ in range(3):
        node, leaves, result = step()
        assert node is first
        assert leaves == order
        assert result.tobytes() == expected.tobytes()
    assert statistics.nodes == made


@pytest.mark.usefixtures("planned")
def test_nothing_is_left_to_python(monkeypatch):
    x, w, b = nd.ones((4, 3)), variable(np.ones((3, 2))), variable(np.ones(2))

    def step():
        with autograd.record():
            loss = nd.dot(x, w) + b
        loss.backward()
        for parameter in (w, b):
            parameter -= 0.5 * parameter.grad
        w.wait_to_read()

    for _ in range(3):
        step()
    before = w.asnumpy(), b.asnumpy()
    calls = []
    for name in ("node_in", "assign"):
        original = getattr(handle_module, name)
        monkeypatch.setattr(binary, name, lambda *a, f=original, n=name: (calls.append(n), f(*a))[1])
    step()
    assert calls == []
    assert np.array_equal(w.asnumpy(), before[0] - 2)
    assert np.array_equal(b.asnumpy(), before[1] - 2)


def test_other_shapes_and_dtypes_are_other_leaves():
    for shape in ((2, 3), (3, 2), (6,), (2, 3, 1), ()):
        for dtype in ("float32", "float64", "int32"):
            x = nd.array(np.ones(shape), dtype=dtype)
            for _ in range(2):
                y = x + x
                assert y.shape == shape
                assert y.dtype == np.dtype(dtype).type
                assert np.array_equal(y.asnumpy(), np.full(shape, 2))


def test_arrays_that_python_has_to_look_at():
    base = nd.array(np.arange(6.0).reshape(2, 3))
    there = nd.array([1.0, 2.0, 3.0], ctx=mx.cpu(1))
    shared = nd.array([1.0, 2.0, 3.0])
    memory = np.from_dlpack(shared)
    for turn in range(3):
        view = base[1]
        assert (view * 2).asnumpy().tolist() == [6 + 2 * turn, 8, 10]
        view *= 1
        base[1, 0] += 1
        assert (there * there).context == mx.cpu(1)
        assert (shared * 2).asnumpy().tolist() == [2, 4, 6]
        assert type(shared._buffer) is handle_module.SharedMemory
    assert memory.tolist() == [1, 2, 3]


CHANGES = {
    "array": lambda x, y: x.__iadd__(y),
    "number": lambda x, y: x.__isub__(0.5),
    "itself": lambda x, y: x.__imul__(x),
    "broadcast": lambda x, y: x.__itruediv__(nd.array([2.0])),
    "modulo": lambda x, y: x.__imod__(y),
}


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("marked", [False, True])
def test_changes_in_place(name, marked):
    y = nd.array([3.0, -4.0, 5.0])
    results = []
    for naive in (True, False, False, False):
        with settings.override(naive=naive):
            x = nd.array([1.0, 2.0, 7.0])
            if marked:
                x.attach_grad()
            for _ in range(3):
                assert CHANGES[name](x, y) is x
            results.append(x.asnumpy().tobytes())
            assert (x._variable is not None) == marked
    assert len(set(results)) == 1


def test_changes_that_are_seen_elsewhere():
    x = nd.array([1.0, 2.0])
    for turn in range(1, 4):
        view = x[0:1]
        x += 1
        assert view.asscalar() == 1 + turn
        view -= 0
        assert x.asnumpy().tolist() == [1 + turn, 2 + turn]
    with autograd.record():
        w = variable([2.0])
        y = w * 3
        for _ in range(2):
            y *= w
    y.backward()
    assert w.grad.asscalar() == 3 * 3 * 4


def test_what_was_recorded_stays_recorded():
    for _ in range(3):
        w = variable([1.0, 2.0])
        with autograd.record():
            y = w * w
        w += 1
        y += 1
        y.backward()
        assert w.grad.asnumpy().tolist() == [2, 4]
        assert y.asnumpy().tolist() == [2, 5]


def test_changes_that_are_refused():
    x, y = nd.ones((2,)), nd.ones((3, 2))
    locked = nd.NDArray.__new__(nd.NDArray, None, writable=False)
    locked._buffer = np.ones(2, np.float32)
    for _ in range(3):
        with pytest.raises(MXNetError, match="Shape inconsistent"):
            x += y
        with pytest.raises(ValueError, match="readonly"):
            locked += x
        with pytest.raises(TypeError):
            x += "text"
        assert x.asnumpy().tolist() == [1, 1]


def test_the_attribute_grad():
    x = nd.ones((2,))
    assert x.grad is None
    x[0:1].wait_to_read()
    assert x.grad is None
    x.attach_grad()
    assert x.grad is x._variable.grad
    assert "gradient of a variable" in nd.NDArray.grad.__doc__
    with pytest.raises(AttributeError):
        x.grad = None


@pytest.mark.usefixtures("planned")
def test_references():
    x, w = nd.ones((3,)), variable(np.ones(3))
    rate = 0.125

    def step():
        with autograd.record():
            y = x * w
        y.backward()
        w.__isub__(rate * w.grad)
        w.wait_to_read()

    for _ in range(5):
        step()
    kernel_cache.wait_for_tier_up()
    watched = [x, w, w.grad, w._variable, rate, x._buffer, None, handle_module.CPU]
    gc.collect()
    before = [sys.getrefcount(value) for value in watched]
    objects = len(gc.get_objects())
    for _ in range(50):
        step()
    gc.collect()
    after = [sys.getrefcount(value) for value in watched]
    assert np.abs(np.subtract(after, before)).max() < 20
    assert len(gc.get_objects()) - objects < 50


def test_arrays_that_are_written_to_are_as_python_writes_them():
    base, other, there = nd.array([1.0, 2.0]), nd.ones((2,)), nd.array([1.0, 2.0], ctx=mx.cpu(1))
    w, looked_at = variable([3.0, 4.0]), nd.array([5.0, 6.0])
    view = looked_at[0:1]
    for turn in range(3):
        base[:] = other * turn
        w[:] = other + turn
        looked_at[:] = other * 2 - turn
        there[:] = other
        assert base.asnumpy().tolist() == [turn, turn]
        assert w._variable is not None
        assert view.asscalar() == 2 - turn
        assert there.context == mx.cpu(1)
        with autograd.record():
            y = w * 2
            base[:] = y
        base.backward()
        assert w.grad.asnumpy().tolist() == [2, 2]
        assert w.asnumpy().tolist() == [1 + turn] * 2


def test_a_trace_lets_arrays_go_or_keeps_them():
    w, x = variable([1.0, 2.0]), nd.array([3.0, 4.0])
    there = nd.array([1.0, 2.0], ctx=mx.cpu(1))
    for _ in range(3):
        with autograd.record():
            y = w * x
            z = there * 2
        plain = x + 1
        trace = LOCAL.trace
        LOCAL.trace.flush(end=True)
        # what is recorded stays with its trace, everything else is plain memory
        assert y._trace is trace
        for array in (w, x, plain, z, there):
            assert array._trace is None
            assert array._node is None
            assert array._buffer is not None
        assert z.context == there.context == mx.cpu(1)
        y.backward()
        assert w.grad.asnumpy().tolist() == [3, 4]


def test_a_thread_that_is_gone_leaves_nothing_behind():
    found = []

    def work():
        x = nd.ones((3,))
        for _ in range(3):
            y = x * 2
        found.append(weakref.ref(LOCAL.trace))
        del y

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    gc.collect()
    assert found[0]() is None


def test_threads_change_one_array():
    x, w = nd.zeros((4,)), nd.ones((4,))
    turns, errors = 200, []
    lock = threading.Lock()

    def change():
        try:
            for _ in range(turns):
                with lock:
                    x.__iadd__(w)
        except BaseException as error:
            errors.append(error)

    def look():
        try:
            for _ in range(turns):
                value = (x * 1).asnumpy()
                assert (value == value[0]).all()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for work in (change, look, change, look)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert x.asnumpy().tolist() == [2.0 * turns] * 4


def test_equal_contexts_of_arrays_are_one_object():
    for context in (mx.cpu(), mx.Context("cpu", 0), None):
        assert nd.ones((2,), ctx=context).context is handle_module.CPU
        assert nd.array([1.0], ctx=context).context is handle_module.CPU
    assert nd.ones((2,), ctx=mx.cpu(1)).context is nd.zeros((3,), ctx=mx.cpu(1)).context


@pytest.mark.usefixtures("planned")
def test_known_numbers_are_bound_by_machine_code(monkeypatch):
    x = nd.array([1.0, -1.0])

    def step(number):
        return (x * number).asnumpy()

    numbers = (2, 2.0, 0, 0.0, -0.0, float("inf"), -3.5)
    expected = [np.array([1, -1], np.float32) * np.float32(number) for number in numbers]
    for _ in range(3):
        for number in numbers:
            step(number)
    calls = []
    bind = Trace.bind_scalar
    monkeypatch.setattr(Trace, "bind_scalar", lambda *a: (calls.append(a[1]), bind(*a))[1])
    for number, values in zip(numbers, expected, strict=True):
        assert step(number).tobytes() == values.tobytes()
    assert calls == []
    # integers are left to Python: some operators convert an array of integers beside a number
    (nd.array([1, 2], dtype="int32") * 2).asnumpy()
    assert calls == [2]


def test_machine_code_tells_the_node_of_an_array(monkeypatch):
    """Slices and assignments ask for the node of an array, and so does Python code of operators."""
    entered = handle_module.MACHINE_CODE.entered
    assert entered is not None
    x, w = nd.array([[1.0, 2.0], [3.0, 4.0]]), variable([[5.0, 6.0], [7.0, 8.0]])
    nd.waitall()
    with autograd.record():
        pending = w * 2
        arrays = x, w, pending, w[1], x[:, 1]
        found = [entered(array, LOCAL.trace) for array in arrays]
        assert [array._node for array in arrays[:3]] == found[:3]
        assert found[1].operator.name == "_variable"
        with monkeypatch.context() as patched:
            patched.setattr(handle_module.MACHINE_CODE, "entered", None)
            for array, node in zip(arrays, found, strict=True):
                assert node is None or handle_module.node_in(array, LOCAL.trace) is node
        assert entered(x, Trace()) is None, "the trace of nobody"
        loss = (w[1] * x[:, 1]).sum()
    loss.backward()
    np.testing.assert_array_equal(w.grad.asnumpy(), [[0, 0], [2, 4]])
