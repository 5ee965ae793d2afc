"""The arrays of mx.np: of which class results are, views, changes in place, gradients, masks, other libraries."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
import threading
from typing import Any

import numpy as onp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import phonograd as mx
from phonograd import autograd, nd, np

#: as often as it takes until calls are machine code
TURNS = 5


def is_np(value: Any) -> bool:
    """Return whether something is an array of mx.np."""
    return type(value) is np.ndarray


def is_nd(value: Any) -> bool:
    """Return whether something is an array of mx.nd."""
    return type(value) is nd.NDArray


def computed(value: Any) -> Any:
    """Return an array after its value was asked for."""
    value.wait_to_read()
    return value


OPERATIONS = {
    "a + b": lambda a, b: a + b,
    "a * 2": lambda a, b: a * 2,
    "2 - a": lambda a, b: 2 - a,
    "a / b": lambda a, b: a / b,
    "a ** 2": lambda a, b: a**2,
    "a ** b": lambda a, b: a**b,
    "a % 2": lambda a, b: a % 2,
    "-a": lambda a, b: -a,
    "abs(a)": lambda a, b: abs(a),
    "a > b": lambda a, b: a > b,
    "a == 1": lambda a, b: a == 1,
    "a[1:]": lambda a, b: a[1:],
    "a[0]": lambda a, b: a[0],
    "a[[0, 1]]": lambda a, b: a[[0, 1]],
    "a.T": lambda a, b: (a * 1).T,
    "a.sum()": lambda a, b: a.sum(),
    "a.reshape": lambda a, b: a.reshape((1, 3)),
    "a.copy()": lambda a, b: a.copy(),
    "a.detach()": lambda a, b: a.detach(),
    "a.astype": lambda a, b: a.astype("float64"),
    "copy.copy": lambda a, b: copy.copy(a),
    "copy.deepcopy": lambda a, b: copy.deepcopy(a),
    "pickle": lambda a, b: pickle.loads(pickle.dumps(a)),
    "a.as_in_context": lambda a, b: a.as_in_context(mx.cpu(1)),
    "nd.relu": lambda a, b: nd.relu(a),
    "nd.broadcast_add": lambda a, b: nd.broadcast_add(a, b),
    "nd.clip": lambda a, b: nd.clip(a, a_min=0, a_max=1),
    "nd.concat": lambda a, b: nd.concat(a, b, dim=0),
    "nd.split": lambda a, b: nd.split(a, num_outputs=3, axis=0)[0],
    "np.exp": lambda a, b: np.exp(a),
    "np.sum": lambda a, b: np.sum(a, axis=0),
}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_results_are_of_the_class_of_the_arrays(operation: str) -> None:
    function = OPERATIONS[operation]
    for _ in range(TURNS):
        assert is_np(computed(function(np.array([1, 2, 3]), np.array([3, 2, 1]))))
        assert is_nd(computed(function(nd.array([1, 2, 3]), nd.array([3, 2, 1]))))


def test_of_both_classes_results_are_of_mx_np() -> None:
    for _ in range(TURNS):
        a, b = np.array([1, 2, 3]), nd.array([3, 2, 1])
        for result in (a + b, b + a, a - b, b - a, b / a, nd.broadcast_mul(a, b), nd.broadcast_mul(b, a), b > a):
            assert is_np(computed(result))
        b += a
        assert is_nd(b)
        assert b.asnumpy().tolist() == [4, 4, 4]


def test_without_machine_code() -> None:
    program = (
        "from phonograd import np, nd\n"
        "for _ in range(5):\n"
        "    a, b = np.array([1, 2, 3]), nd.array([3, 2, 1])\n"
        "    for r in (a + b, b + a, a * 2, a > b, np.exp(a), a.sum(), nd.relu(a), nd.broadcast_add(b, a), a[1:]):\n"
        "        r.wait_to_read()\n"
        "        assert type(r) is np.ndarray, r\n"
        "    assert type(nd.relu(b)) is nd.NDArray\n"
        "print('done')\n"
    )
    environment = {**os.environ, "PHONOGRAD_NATIVE_CALLS": "0"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout == "done\n"


# -- views and changes in place


def test_both_kinds_of_one_array_share_memory() -> None:
    x = np.zeros((2, 2))
    y = x.as_nd_ndarray()
    y[0] = 5
    x[1, 1] = 7
    assert x.asnumpy().tolist() == y.asnumpy().tolist() == [[5, 5], [0, 7]]
    z = y.as_np_ndarray()
    z += 1
    assert is_np(z)
    assert x.asnumpy().tolist() == [[6, 6], [1, 8]]
    assert x.as_np_ndarray() is x


def test_both_kinds_of_one_variable_have_its_gradient() -> None:
    x = np.array([1.0, 2.0])
    x.attach_grad()
    y = x.as_nd_ndarray()
    with autograd.record():
        loss = (y * y).sum()
    loss.backward()
    assert x.grad.asnumpy().tolist() == y.grad.asnumpy().tolist() == [2, 4]
    with autograd.record():
        inside = x.as_nd_ndarray()
        loss = (inside * 3).sum()
    loss.backward()
    assert x.grad.asnumpy().tolist() == [3, 3]
    assert is_np(x.grad)


def test_sparse_arrays_are_no_arrays_of_mx_np() -> None:
    with pytest.raises(ValueError, match=r"csr.*tostype"):
        nd.ones((2, 2)).tostype("csr").as_np_ndarray()


def test_an_element_is_a_view_without_axes() -> None:
    x = np.zeros((2, 3))
    one = x[1, 2]
    assert one.shape == ()
    one[()] = 4
    one += 1
    assert x[1, 2].item() == 5
    row = x[0]
    x[:] = 9
    assert row.tolist() == [9, 9, 9]


def test_changes_in_place_are_recorded() -> None:
    x, v = np.array([1.0, 2.0, 3.0]), np.array([5.0])
    x.attach_grad()
    v.attach_grad()
    with autograd.record():
        y = x * x
        y[1] = v[0] * 3
        y[y > 8] = 0
        y += x
        loss = y.sum()
    loss.backward()
    assert x.grad.tolist() == [3, 1, 1]
    assert v.grad.tolist() == [0]


def test_no_axis_and_no_elements() -> None:
    assert np.zeros((0, 3)).sum(axis=0).tolist() == [0, 0, 0]
    assert np.concatenate([np.zeros((0, 2)), np.ones((1, 2))]).shape == (1, 2)
    assert (np.zeros((0,)) + 1).shape == (0,)
    scalar = np.array(3.0)
    scalar.attach_grad()
    with autograd.record():
        y = scalar * scalar
    y.backward()
    assert repr(scalar.grad) == "array(6.)"
    assert [float(item) for item in np.arange(3)] == [0, 1, 2]


# -- masks


def test_masks_that_are_written_through_are_not_computed() -> None:
    before = mx.explain.statistics()
    x = np.arange(6).reshape(2, 3)
    x[x > 2] = -1
    x[x[:, 0] < 0] *= 2
    after = mx.explain.statistics()
    assert after["evaluations"] - before["evaluations"] <= 1
    assert x.tolist() == [[0, 1, 2], [-2, -2, -2]]


def test_gradients_pass_through_masks() -> None:
    x, v = np.array([[1.0, -2.0], [3.0, -4.0]]), np.array(2.0)
    x.attach_grad()
    v.attach_grad()
    with autograd.record():
        y = x * 1
        y[x < 0] = v
        loss = (y * y).sum() + x[x > 2].sum()
    loss.backward()
    assert x.grad.tolist() == [[2, 0], [7, 0]]
    assert v.grad.item() == 8


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_keys_select_what_they_select_in_numpy(data: Any) -> None:
    values = onp.arange(24.0, dtype="float32").reshape(2, 3, 4)
    parts = st.one_of(
        st.integers(-2, 1),
        st.just(slice(None)),
        st.slices(2),
        st.just(None),
        st.lists(st.integers(0, 1), min_size=2, max_size=2),
    )
    key = tuple(data.draw(st.lists(parts, max_size=3).filter(lambda k: sum(p is not None for p in k) <= 3)))
    if data.draw(st.booleans()):
        key = (*key, Ellipsis)
    expected = values[key]
    with mx.settings.override(executor="reference"):
        found = np.array(values)[key]
        assert found.shape == expected.shape
        assert onp.array_equal(found.asnumpy(), expected)
        mine, theirs = np.array(values), values.copy()
        mine[key] = -1
        theirs[key] = -1
        assert onp.array_equal(mine.asnumpy(), theirs)


@given(
    st.lists(st.booleans(), min_size=3, max_size=3),
    st.lists(st.lists(st.booleans(), min_size=4, max_size=4), min_size=3, max_size=3),
)
@settings(max_examples=30, deadline=None)
def test_masks_select_what_they_select_in_numpy(rows: list[bool], elements: list[list[bool]]) -> None:
    values = onp.arange(12.0, dtype="float32").reshape(3, 4)
    with mx.settings.override(executor="reference"):
        for mask in (onp.array(rows), onp.array(elements)):
            own = np.array(mask, dtype="bool")
            assert onp.array_equal(np.array(values)[own].asnumpy(), values[mask])
            written, expected = np.array(values), values.copy()
            written[own] = -1
            expected[mask] = -1
            assert onp.array_equal(written.asnumpy(), expected)
            written[own] = np.array(values[mask] * 2)
            expected[mask] = values[mask] * 2
            assert onp.array_equal(written.asnumpy(), expected)


# -- gradients


def test_gradients_are_of_the_class_of_the_variables() -> None:
    x, y = np.array([1.0, 2.0]), nd.array([3.0, 4.0])
    x.attach_grad()
    y.attach_grad()
    with autograd.record():
        loss = (x * x * y).sum()
        first = autograd.grad(loss, [x, y], create_graph=True)
        second = autograd.grad(first[0].sum(), x)[0]
    assert is_np(x.grad)
    assert is_nd(y.grad)
    assert [is_np(grad) for grad in first] == [True, False]
    assert is_np(second)
    assert second.tolist() == [6, 8]


def test_functions_of_the_user_get_arrays_of_mx_np() -> None:
    seen = []

    class Square(autograd.Function):
        def forward(self, x: Any) -> Any:
            self.save_for_backward(x)
            return x * x

        def backward(self, grad: Any) -> Any:
            seen.extend([grad, self.saved_tensors[0]])
            return 2 * self.saved_tensors[0] * grad

    x = np.array([1.0, 3.0])
    x.attach_grad()
    with autograd.record():
        y = Square()(x)
        autograd.register_hook(y, seen.append)
        loss = y.sum()
    loss.backward()
    assert x.grad.tolist() == [2, 6]
    assert all([is_np(array) for array in (y, loss, *seen)])
    assert len(seen) == 3


def test_another_thread_computes_what_was_recorded_here() -> None:
    x = np.array([1.0, 2.0])
    x.attach_grad()
    with autograd.record():
        y = (x**3).sum()
    worker = threading.Thread(target=y.backward)
    worker.start()
    worker.join()
    assert x.grad.tolist() == [3, 12]


@pytest.mark.usefixtures("planned")
def test_a_loop_makes_nothing_twice() -> None:
    from phonograd.core.graph.node import statistics

    w, x = np.array([0.5, -0.5, 0.25]), np.array([1.0, 2.0, 3.0])
    w.attach_grad()

    def step(rate: float) -> float:
        with autograd.record():
            loss = ((np.dot(w, x) - 1) ** 2).sum() + np.where(w > 0, w, 0.1 * w).mean()
        loss.backward()
        w[:] = w - rate * w.grad
        return float(loss)

    for turn in range(TURNS):
        step(0.01 * turn)
    before = statistics.snapshot()
    step(0.2)
    after = statistics.snapshot()
    assert {name: after[name] - before[name] for name in ("nodes", "gradient_rules", "plans")} == {
        "nodes": 0,
        "gradient_rules": 0,
        "plans": 0,
    }


# -- other libraries


def test_numpy_functions_are_answered() -> None:
    x = np.array([[1.0, 2.0], [3.0, 4.0]])
    x.attach_grad()
    with autograd.record():
        y = onp.sum(onp.exp(x) * onp.float32(2)) + onp.mean(onp.concatenate([x, x]))
    y.backward()
    assert is_np(y)
    onp.testing.assert_allclose(x.grad.asnumpy(), 2 * onp.exp(x.asnumpy()) + 0.25, rtol=1e-6)
    assert is_np(onp.linalg.norm(x))
    # NumPy computes what mx.np does not have
    assert is_np(onp.block([[x, x]]))
    assert onp.asarray(x).tolist() == [[1, 2], [3, 4]]
    with pytest.raises(TypeError, match="not supported"):
        onp.ones(2) + x


def test_printing_options_are_those_of_numpy() -> None:
    with np.printoptions(precision=2):
        assert repr(np.array([1.23456])) == "array([1.23])"
    assert repr(np.ones((1,), ctx=mx.cpu(1))) == "array([1.], ctx=cpu(1))"


def test_html_in_notebooks() -> None:
    assert "ndarray" in np.ones((2, 2))._repr_html_()


def test_unknown_names() -> None:
    with pytest.raises(AttributeError, match="did you mean 'concatenate'"):
        np.concatenat  # noqa: B018
    assert "concatenate" in dir(np)
    assert not [name for name in dir(np) if name.startswith("_") and not name.startswith("__")]


# -- how calls are made


def test_calls_become_machine_code() -> None:
    pytest.importorskip("llvmlite")
    native_call = pytest.importorskip("phonograd.core.array.fastcall.native_call")
    if not native_call.possible():
        pytest.skip("calls are Python functions here")
    a, b = np.array([1, 2, 3]), np.array([3, 2, 1])
    with mx.settings.override(tiers="blocking"):
        for _ in range(TURNS):
            computed(a + b)
    assert type(vars(np.ndarray)["__add__"]).__name__ == "method_descriptor"
    assert type(np.exp).__name__ == "OperatorFunction"


def test_observers_are_told() -> None:
    with mx.profiler.profile() as observed:
        x = np.array([1.0, 2.0])
        results = [computed(r) for r in (x + x, np.exp(x), x.sum(), x[1:], x.reshape(2, 1), np.add(x, 1))]
        x[x > 1] = 0
        x += 1
    assert all([is_np(result) for result in results])
    names = {event.name for event in observed.events()}
    assert {"_np_add", "_np_exp", "_np_sum", "_boolean_mask_assign"} <= names


def test_at_once() -> None:
    with mx.settings.override(naive=True):
        x = np.array([1.0, 4.0])
        results = [x * 2, np.sqrt(x), x.mean(), x[0], nd.relu(x), np.concatenate([x, x]), x > 2]
        assert all([is_np(result) and result._buffer is not None for result in results])
        x[x > 2] = 0
    assert x.tolist() == [1, 0]


def test_calls_are_machine_code_also_when_mx_np_comes_later() -> None:
    program = (
        "from phonograd import nd\n"
        "x = nd.ones((3,))\n"
        "for _ in range(5):\n"
        "    (x * x + 1).asnumpy()\n"
        "before = type(vars(nd.NDArray)['__add__'])\n"
        "from phonograd import np\n"
        "a = np.ones((3,))\n"
        "for _ in range(3):\n"
        "    for r in (a * a, a + 1, np.exp(a), a.sum(), a > 0, nd.relu(a), x + a, nd.broadcast_add(x, a)):\n"
        "        assert type(r) is np.ndarray, r\n"
        "        r.wait_to_read()\n"
        "    assert type(nd.relu(x)) is type(x * x) is nd.NDArray\n"
        "assert type(vars(np.ndarray)['__add__']) is before\n"
        "print('done')\n"
    )
    # no helper prepares the code while the program goes on
    environment = {**os.environ, "PHONOGRAD_TIERS": "blocking"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "done\n"
