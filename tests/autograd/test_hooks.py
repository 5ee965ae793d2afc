"""Hooks: functions that see gradients on their way."""

import pytest

from phonograd import autograd, nd
from phonograd.core.base.errors import MXNetError

from .arrays import flags, values, variable


def test_a_hook_on_a_variable_sees_each_gradient():
    x = variable([1.0, 2.0])
    seen = []
    handle = autograd.register_hook(x, seen.append)
    for step in (1, 2):
        with autograd.record():
            y = x * step + x
        y.backward()
    assert [values(g) for g in seen] == [[2, 2], [3, 3]], "the whole gradient, once per call"
    handle.remove()
    handle.remove()
    with autograd.record():
        y = x * 5
    y.backward()
    assert len(seen) == 2
    assert values(x.grad) == [5, 5]


def test_a_hook_changes_the_gradient():
    x = variable([1.0, 2.0])
    autograd.register_hook(x, lambda g: g * 10)
    autograd.register_hook(x, lambda g: g + 1)
    with autograd.record():
        y = x * x
    assert values(autograd.grad(y, x, retain_graph=True)[0]) == [21, 41]
    y.backward()
    assert values(x.grad) == [21, 41], "in the order of registration"


def test_a_hook_may_change_the_gradient_in_place():
    x, w = variable([3.0, -4.0]), variable([3.0, -4.0])

    def clip(gradient):
        gradient[:] = nd.clip(gradient, -5, 5)

    autograd.register_hook(x, clip)
    with autograd.record():
        y = x * x + w * w
    y.backward()
    assert values(x.grad) == [5, -5]
    assert values(w.grad) == [6, -8]


def test_hooks_and_add():
    x = variable([1.0], "add")
    seen = []
    autograd.register_hook(x, lambda g: seen.append(values(g)) or g * 2)
    for _ in range(3):
        with autograd.record():
            y = x * 3
        y.backward()
    assert seen == [[3]] * 3, "the contribution of the call, not the buffer"
    assert values(x.grad) == [18]


def test_a_hook_on_a_gradient_of_zero_and_on_an_unreached_variable():
    x, w = variable([1.0]), variable([1.0])
    seen = []
    autograd.register_hook(x, lambda g: seen.append(("x", values(g))))
    autograd.register_hook(w, lambda g: seen.append(("w", values(g))))
    with autograd.record():
        y = nd.BlockGrad(x) * 2
    y.backward()
    assert seen == [("x", [0])]


def test_a_with_block_removes_the_hook():
    x = variable([1.0])
    with autograd.record():
        y = x * 2
    with autograd.register_hook(x, lambda g: g * 100):
        y.backward(retain_graph=True)
        assert values(x.grad) == [200]
    y.backward()
    assert values(x.grad) == [2]


def test_a_new_buffer_starts_without_hooks():
    x = variable([1.0])
    autograd.register_hook(x, lambda g: g * 100)
    x.attach_grad()
    with autograd.record():
        y = x * 2
    y.backward()
    assert values(x.grad) == [2]


def test_a_hook_on_an_intermediate():
    x = variable([1.0, 2.0])
    kept = []
    with autograd.record():
        h = x * 3
        before = h * 100
        autograd.register_hook(h, kept.append)
        y = h * h + h
        y = y + before
    y.backward()
    assert [values(g) for g in kept] == [[7, 13]], "from what is computed after the hook was registered"
    assert values(x.grad) == [3 * 107, 3 * 113]
    assert values(h) == [3, 6]


def test_a_hook_on_an_intermediate_changes_what_goes_on():
    x = variable([1.0, 2.0])
    with autograd.record():
        h = x * 3
        first = autograd.register_hook(h, lambda g: g * 10)
        second = autograd.register_hook(h, lambda g: g + 1)
        y = h * 2
    y.backward(retain_graph=True)
    assert values(x.grad) == [3 * 30, 3 * 30], "the hook registered last is the first that a gradient meets"
    first.remove()
    y.backward(retain_graph=True)
    assert values(x.grad) == [9, 9]
    second.remove()
    y.backward()
    assert values(x.grad) == [6, 6]


def test_hooks_in_a_row_are_called_with_whole_gradients():
    x = variable([2.0])
    seen = []
    with autograd.record():
        a = x * 1
        autograd.register_hook(a, lambda g: seen.append(("a", values(g))))
        b = a * a
        autograd.register_hook(b, lambda g: seen.append(("b", values(g))))
        c = b * a + b
        y = c * b
    y.backward()
    point = 2.0
    by_b = 2 * point**3 + 2 * point**2
    assert seen == [("b", [by_b]), ("a", [by_b * 2 * point + point**4])]


def test_a_hook_on_an_array_of_an_earlier_record():
    x = variable([2.0])
    with autograd.record():
        h = x * x
    h.wait_to_read()
    seen = []
    with autograd.record():
        autograd.register_hook(h, seen.append)
        y = h * 5
    y.backward()
    assert [values(g) for g in seen] == [[5]]
    assert values(x.grad) == [20]


def test_hooks_can_be_differentiated():
    x = variable([2.0])
    autograd.register_hook(x, lambda g: g * x)
    with autograd.record():
        (first,) = autograd.grad(x * x, x, create_graph=True)
    assert values(first) == [8]
    first.backward()
    assert values(x.grad) == [16], "the derivative 4 x of 2 x**2, and the hook once more"


def test_flags_inside_a_hook():
    x = variable([2.0])
    seen = []
    autograd.register_hook(x, lambda g: seen.append(flags()))
    with autograd.record():
        y = x * x
        y.backward(retain_graph=True, train_mode=False)
        autograd.grad(y, x, create_graph=True)
    assert seen == [(False, False), (True, True)]


def test_an_exception_in_a_hook_leaves_everything_as_it_was():
    x, w = variable([2.0]), variable([3.0])

    def fail(gradient):
        raise ZeroDivisionError

    handle = autograd.register_hook(w, fail)
    with autograd.record():
        y = x * w
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            y.backward()
    assert (values(x.grad), values(w.grad)) == ([0], [0])
    handle.remove()
    y.backward()
    assert (values(x.grad), values(w.grad)) == ([3], [2])


@pytest.mark.parametrize(
    "wrong, kind",
    [
        (lambda g: 3, TypeError),
        (lambda g: g.asnumpy(), TypeError),
        (lambda g: nd.ones((3,)), MXNetError),
        (lambda g: g.astype("float64"), MXNetError),
    ],
)
def test_wrong_results(wrong, kind):
    x = variable([1.0, 2.0])
    autograd.register_hook(x, wrong)
    with autograd.record():
        h = x * 1
        autograd.register_hook(h, wrong)
        y = h * 2
    with pytest.raises(kind, match="gradient hook"):
        y.backward()
    with pytest.raises(kind, match="gradient hook"):
        x.backward()


def test_wrong_arrays_and_hooks():
    with pytest.raises(TypeError, match="hooks are for NDArrays"):
        autograd.register_hook(3, print)
    with pytest.raises(MXNetError, match="hooks are for variables and recorded arrays"):
        autograd.register_hook(nd.ones((1,)), print)
    with pytest.raises(TypeError, match="a hook must be a function"):
        autograd.register_hook(variable([1.0]), 3)
    x = variable([1.0])
    with autograd.record():
        y = x * 2
    y.backward()
    with pytest.raises(MXNetError, match="hooks are for variables and recorded arrays"):
        autograd.register_hook(y, print)


def test_a_hook_removed_by_itself():
    x = variable([1.0])
    calls = []

    def once(gradient):
        calls.append(1)
        handle.remove()

    handle = autograd.register_hook(x, once)
    other = autograd.register_hook(x, lambda g: calls.append(2))
    for _ in range(2):
        x.backward()
    assert calls == [1, 2, 2]
    other.remove()


def test_a_hook_on_a_view():
    x = variable([1.0, 2.0, 3.0])
    seen = []
    with autograd.record():
        y = x * 2
        view = y[1:3]
        autograd.register_hook(view, seen.append)
        z = (view * view).sum() + y.sum()
    z.backward()
    assert [values(g) for g in seen] == [[8, 12]]
    assert values(x.grad) == [2, 18, 26]
