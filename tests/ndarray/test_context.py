"""Contexts: labels of host memory, a default for each thread, and no GPU."""

import copy
import pickle
import threading

import pytest

import phonograd as mx
from phonograd import nd
from phonograd.core.base.devices import Context


def test_facts():
    context = mx.cpu(2)
    assert (context.device_type, context.device_typeid, context.device_id) == ("cpu", 1, 2)
    assert repr(context) == str(context) == "cpu(2)"
    assert [c.device_typeid for c in (mx.gpu(), mx.cpu_pinned(), Context("cpu_shared"))] == [2, 3, 5]
    assert Context(context) == context == mx.cpu(2) != mx.cpu(1)
    assert context != "cpu(2)"
    assert len({mx.cpu(0), mx.cpu(), mx.cpu(1), mx.gpu()}) == 3
    assert context.empty_cache() is None
    with pytest.raises(KeyError):
        Context("tpu")


def test_scopes_nest_and_are_restored():
    inner = mx.cpu(2)
    with mx.cpu(1) as outer:
        assert mx.current_context() == outer == nd.ones((1,)).context
        with inner, pytest.raises(RuntimeError), inner:
            raise RuntimeError(mx.current_context())
        assert mx.current_context() == mx.cpu(1)
    assert mx.current_context() == mx.cpu(0)


def test_arrays_made_inside_a_scope():
    with mx.cpu(3):
        for x in (
            nd.zeros(2),
            nd.array([1]),
            nd.arange(3),
            nd.eye(2),
            nd.random.uniform(shape=(2,)),
            nd.full(2, 1),
            nd.empty(2),
        ):
            assert x.context == mx.cpu(3)
        assert nd.ones(2, ctx=mx.cpu(1)).context == mx.cpu(1)
    assert nd.ones(2).context == mx.cpu(0)


def test_default_is_per_thread():
    seen = []
    with mx.cpu(1):
        thread = threading.Thread(target=lambda: seen.append(mx.current_context()))
        thread.start()
        thread.join()
    assert seen == [mx.cpu(0)]


def test_deprecated_default():
    try:
        with pytest.warns(DeprecationWarning, match="Context.default_ctx has been deprecated"):
            Context.default_ctx = mx.cpu(2)
        with pytest.warns(DeprecationWarning, match="default_ctx"):
            assert Context.default_ctx == mx.cpu(2) == mx.current_context()
        assert Context._default_ctx.value == mx.cpu(2)
        Context._default_ctx.value = mx.cpu(4)
        assert nd.ones(1).context == mx.cpu(4)
        with pytest.raises(TypeError, match="must be a Context"):
            Context._default_ctx.value = "cpu"
    finally:
        Context._default_ctx.value = mx.cpu(0)


def test_copies():
    for context in (mx.cpu(1), mx.gpu(3), mx.cpu_pinned()):
        assert pickle.loads(pickle.dumps(context)) == copy.deepcopy(context) == copy.copy(context) == context


@pytest.mark.parametrize(
    "make", [lambda c: nd.ones(2, ctx=c), lambda c: nd.array([1], ctx=c), lambda c: nd.ones(2).copyto(c)]
)
def test_gpu_is_refused_with_advice(make):
    with pytest.raises(mx.MXNetError, match=r"GPU is not enabled.*mx\.cpu\(\)"):
        make(mx.gpu(0))
    assert mx.context.num_gpus() == mx.num_gpus() == 0
    with pytest.raises(mx.MXNetError, match="GPU"):
        mx.context.gpu_memory_info()


@pytest.mark.parametrize("wrong", ["cpu", 0, object()])
def test_what_is_no_context(wrong):
    with pytest.raises(TypeError, match="must be a Context"):
        nd.ones(2, ctx=wrong)


def test_context_follows_the_first_operand():
    x, y = nd.ones((2,), ctx=mx.cpu(1)), nd.ones((2,))
    assert (x * y).context == x.exp().context == x[0:1].context == x.reshape((2, 1)).context == mx.cpu(1)
    assert (y * x).context == mx.cpu(0)
    x.attach_grad()
    assert x.grad.context == mx.cpu(1)
