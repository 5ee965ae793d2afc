"""Operator calls that are machine code do what the Python functions do, and keep every reference count right."""

import copy
import gc
import inspect
import os
import pickle
import pydoc
import subprocess
import sys
import threading
import types
import weakref

import numpy as np
import pytest

from phonograd import autograd, nd, settings
from phonograd.core.array import call
from phonograd.core.base.errors import MXNetError
from phonograd.core.graph.operator import REGISTRY
from phonograd.core.run import kernel_cache
from phonograd.core.trace import liveness
from phonograd.core.trace.owner import MACHINE_CODE
from phonograd.core.trace.trace import LOCAL

from . import machine_code

pytestmark = pytest.mark.usefixtures("planned")

pytest.importorskip("llvmlite")
native_call = pytest.importorskip("phonograd.core.array.fastcall.native_call")
if not native_call.possible():
    pytest.skip("this interpreter runs calls in Python", allow_module_level=True)


@pytest.fixture(autouse=True)
def compiled():
    machine_code.install()
    with settings.override(executor="native", tiers="blocking"):
        yield


@pytest.fixture
def x():
    return nd.array([[1.0, -2.0, 3.0], [0.5, 0.25, -1.0]])


def test_calls_are_machine_code(x):
    assert type(nd.NDArray.__mul__) is types.MethodDescriptorType
    assert type(nd.NDArray.__rsub__) is types.MethodDescriptorType
    for function in (nd.tanh, nd.op.exp, x.tanh.__func__):
        assert type(function).__name__ == "OperatorFunction"


def test_calls_with_any_number_of_arrays_are_machine_code(x):
    assert type(nd.concat).__name__ == "OperatorFunction"
    for count in (1, 2, 5):
        for axis in (0, 1):
            arrays = [x * number for number in range(count)]
            joined = np.concatenate([array.asnumpy() for array in arrays], axis=axis)
            assert np.array_equal(nd.concat(*arrays, dim=axis).asnumpy(), joined)
            assert nd.stack(*arrays, axis=axis).shape == np.stack([x.asnumpy()] * count, axis=axis).shape
    assert np.array_equal(nd.add_n(x, x, x).asnumpy(), 3 * x.asnumpy())
    # keywords that Python knows, and the number of arrays as MXNet's own scripts give it
    assert nd.concat(x, x, num_args=2, dim=0, name="joined").shape == (4, 3)
    out = nd.zeros((4, 3))
    assert nd.concat(x, x, dim=0, out=out) is out


def test_calls_with_any_number_of_arrays_refuse_what_python_refuses(x):
    for arguments, named in (((), {}), ((), {"dim": 1}), ((x, 2), {}), (([x, x],), {}), ((x, x), {"dims": 1})):
        messages = []
        for function in (nd.concat, call.write_python_function(REGISTRY["Concat"], "concat")):
            with pytest.raises((MXNetError, AssertionError, ValueError, IndexError, TypeError)) as error:
                function(*arguments, **named).asnumpy()
            messages.append(str(error.value))
        assert messages[0] == messages[1]


def test_functions_of_any_number_of_arrays_that_were_kept(x):
    kept = call.python_function_of(REGISTRY["Concat"], "concat")
    assert np.array_equal(kept(x, x, dim=0).asnumpy(), np.concatenate([x.asnumpy()] * 2))
    assert np.array_equal(kept(x, x).asnumpy(), np.concatenate([x.asnumpy()] * 2, axis=1))


def test_calls_with_several_results(x):
    x.attach_grad()
    for _ in range(3):
        with autograd.record():
            y = x * np.random.default_rng().uniform()
            first, second, third = nd.split(nd.tanh(y), num_outputs=3, axis=1)
            loss = (first * second + third).sum()
        loss.backward()
        assert first.shape == (2, 1)
        assert x.grad.asnumpy().all()
    pieces = [piece.asnumpy() for piece in nd.split(x, num_outputs=3, axis=1)]
    assert np.array_equal(np.concatenate(pieces, axis=1), x.asnumpy())
    assert [piece.shape for piece in nd.split(x, num_outputs=3, axis=1, squeeze_axis=True)] == [(2,)] * 3
    only = nd.split(x, num_outputs=1, axis=1)
    assert type(only) is type(call.write_python_function(REGISTRY["SliceChannel"], "split")(x, num_outputs=1, axis=1))


def test_functions_can_still_be_inspected():
    python = call.python_function_of(REGISTRY["sum"], "sum")
    assert nd.sum is not python
    assert inspect.signature(nd.sum) == inspect.signature(python)
    assert [*inspect.signature(nd.ones(2).sum).parameters] == [*inspect.signature(python).parameters][1:]
    assert str(inspect.signature(nd.NDArray.__mul__)) == "(self, other, /)"
    shown = pydoc.plain(pydoc.render_doc(nd.sum))
    assert "sum(data: NDArray, axis: int | Sequence[int] | None = None" in shown
    assert "tuple" not in repr(nd.sum) + shown
    assert nd.sum.__name__ == "sum"
    assert nd.sum.__doc__ == python.__doc__
    assert nd.sum.__module__ == "phonograd.ndarray"
    assert nd.NDArray.__mul__.__name__ == "__mul__"


@pytest.mark.parametrize(
    ("name", "given", "keywords"),
    [("clip", (-0.25,), {"a_max": 1}), ("softmax", (), {"axis": 0}), ("softmax", (), {}), ("tanh", (), {})],
)
def test_functions_that_a_program_has_kept_call_machine_code(x, name, given, keywords, monkeypatch):
    kept, made = call.python_function_of(REGISTRY[name], name), getattr(nd, name)
    assert isinstance(kept, types.FunctionType)
    assert type(made).__name__ == "OperatorFunction"
    for _ in range(2):
        np.testing.assert_array_equal(kept(x, *given, **keywords).asnumpy(), made(x, *given, **keywords).asnumpy())
    with monkeypatch.context() as patch:
        # machine code finds the call, and needs no Python function
        patch.setitem(made.__wrapped__.__globals__, "invoke", None)
        kept(x, *given, **keywords).wait_to_read()


def test_functions_that_a_program_has_kept_raise_the_same_errors(x):
    kept, out = call.python_function_of(REGISTRY["clip"], "clip"), nd.zeros((2, 3))
    assert type(nd.clip).__name__ == "OperatorFunction"
    with pytest.raises(MXNetError, match="Cannot find argument 'b_min'"):
        kept(x, 0, 1, b_min=2)
    with pytest.raises(TypeError, match="multiple values"):
        kept(x, 0, a_min=2)
    with pytest.raises(MXNetError, match="expects 1 inputs, but got 0"):
        kept(a_min=0, a_max=1)
    assert kept(x, 0, 1, out=out) is out


def repeated(function):
    """Return what a call gives at first, and what it gives when it is remembered."""
    results = []
    for _ in range(3):
        LOCAL.trace.flush(end=True)
        first, second = function(), function()
        results += [first.asnumpy(), second.asnumpy()]
    return results


CALLS = {
    "arrays": lambda x: x * x,
    "number": lambda x: x + 2.5,
    "whole number": lambda x: x - 3,
    "reflected": lambda x: 2.0 / x,
    "zero": lambda x: x * 0.0,
    "negative zero": lambda x: x * -0.0,
    "not a number": lambda x: x + float("nan"),
    "bool": lambda x: x + True,
    "comparison": lambda x: x > 0.5,
    "function": lambda x: nd.tanh(x),
    "by keyword": lambda x: nd.tanh(data=x),
    "parameter": lambda x: nd.sum(x, axis=1),
    "list": lambda x: nd.sum(x, axis=[0, 1], keepdims=True),
    "positional parameter": lambda x: nd.sum(x, 0),
    "positional parameters": lambda x: nd.sum(x, 0, True),
    "positional and keyword": lambda x: nd.sum(x, 0, keepdims=True),
    "positional list": lambda x: nd.sum(x, [0, 1], True),
    "positional numbers": lambda x: nd.clip(x, -0.5, 0.5),
    "positional zeros": lambda x: nd.clip(x, 0.0, -0.0),
    "float parameter": lambda x: nd.clip(x, a_min=-0.5, a_max=0.5),
    "float parameter that is zero": lambda x: nd.clip(x, a_min=0.0, a_max=-0.0),
    "optional input": lambda x: nd.FullyConnected(x, nd.ones((4, 3)), None, num_hidden=4, no_bias=True),
    "all by keyword": lambda x: nd.FullyConnected(data=x, weight=nd.ones((4, 3)), bias=nd.ones((4,)), num_hidden=4),
    "method": lambda x: x.sum(axis=1),
    "method of a class": lambda x: nd.NDArray.__add__(x, x),
    "name": lambda x: nd.exp(x, name="e"),
}


@pytest.mark.parametrize("name", CALLS)
def test_results(x, name):
    function = CALLS[name]
    with settings.override(naive=True):
        expected = function(x).asnumpy()
    for result in repeated(lambda: function(x)):
        assert result.tobytes() == expected.tobytes()
    x.attach_grad()
    with autograd.record():
        results = [function(x) for _ in range(3)]
    for result in results:
        assert result.asnumpy().tobytes() == expected.tobytes()


def test_positional_parameters_are_remembered(x, monkeypatch):
    for _ in range(2):
        nd.clip(x, -0.25, 0.75).wait_to_read()
    monkeypatch.setitem(nd.clip.__wrapped__.__globals__, "invoke", None)
    assert nd.clip(x, -0.25, 0.75).asnumpy().max() <= 0.75
    with pytest.raises(TypeError):
        # another kind of argument is left to Python
        nd.clip(x, "-1", "1")


def test_a_parameter_by_position_and_by_keyword_is_an_error(x):
    for _ in range(3):
        nd.sum(x, 0).wait_to_read()
        with pytest.raises(TypeError, match="multiple values for argument 'axis'"):
            nd.sum(x, 0, axis=0)
        with pytest.raises(TypeError, match="multiple values for argument 'a_min'"):
            nd.clip(x, 1.0, 2.0, a_min=1.0)


def test_recorded_calls_are_separate_records(x):
    x.attach_grad()
    for _ in range(3):
        with autograd.record():
            first, second = nd.tanh(x * 2), nd.tanh(x * 2)
        first.backward()
        once = x.grad.asnumpy()
        second.backward()
        assert np.array_equal(x.grad.asnumpy(), once)
        with pytest.raises(MXNetError, match="retain_graph"):
            first.backward()


def test_flags_are_looked_at(x):
    x.attach_grad()
    for _ in range(3):
        with autograd.record():
            a = x * 2
            with autograd.pause():
                b = x * 2
        assert a._node.marked
        assert not b._node.marked
        assert not (x * 2)._node.marked


def test_errors(x):
    for _ in range(2):
        with pytest.raises(MXNetError, match="sum"):
            nd.sum(x, nothing=3)
        with pytest.raises(AssertionError, match="must have NDArray type"):
            nd.tanh([1, 2])
        with pytest.raises(TypeError):
            _ = x * "text"
        with pytest.raises(MXNetError):
            _ = x * nd.ones((7,))
        with pytest.raises(TypeError):
            nd.NDArray.__mul__(3, x)
        with pytest.raises(TypeError):
            nd.NDArray.__mul__(x)
        with pytest.raises(MXNetError):
            nd.tanh()


def test_subclasses_and_other_operands(x):
    class Other:
        def __rmul__(self, other):
            return "other"

    assert (x * np.float32(2)).asnumpy().tolist() == (x * 2).asnumpy().tolist()
    with pytest.raises(TypeError):
        _ = x * Other()


def counts(objects):
    gc.collect()
    return [sys.getrefcount(value) for value in objects]


@pytest.mark.parametrize("recording", [False, True])
def test_reference_counts(x, recording):
    x.attach_grad()
    names, two = {"axis": 1}, 2.5

    def calls():
        with autograd.record() if recording else autograd.pause():
            for _ in range(20):
                y = x * x + two
                y = nd.tanh(nd.sum(y, **names))
                y = two - y
                with pytest.raises(TypeError):
                    _ = y + "text"
                with pytest.raises(MXNetError):
                    nd.sum(y, nothing=two)
        y.wait_to_read()

    for _ in range(5):
        calls()
    kernel_cache.wait_for_tier_up()
    watched = [x, two, names["axis"], "axis", nd.tanh, FLAGS, type(x), REGISTRY["tanh"].calls, float, 1.0]
    before = counts(watched)
    for _ in range(20):
        calls()
    assert max(np.abs(np.subtract(counts(watched), before))) < 20
    del watched
    kernel_cache.wait_for_tier_up()
    gc.collect()
    objects = len(gc.get_objects())
    for _ in range(20):
        calls()
    gc.collect()
    assert abs(len(gc.get_objects()) - objects) < 50


FLAGS = autograd.FLAGS


def test_arrays_die(x):
    x.wait_to_read()
    y = x * 2
    LOCAL.trace.flush(end=True)
    y = x * 2
    y = nd.tanh(y)
    before = len(LOCAL.trace.handles)
    y = nd.tanh(x * 2)
    del y
    LOCAL.trace.live()
    assert len(LOCAL.trace.handles) < before + 1


def test_the_living_are_found(x):
    LOCAL.trace.flush(end=True)
    _, kept, _ = [x * factor for factor in (2, 3, 4)]
    del _
    trace = LOCAL.trace
    assert MACHINE_CODE.live_handles is not None
    for function in (MACHINE_CODE.live_handles, liveness.live_handles):
        found = function(trace, trace.handles)
        assert [id(handle) for handle, _ in found] == [id(x), id(kept)]
        assert found[1][1] is kept._node
        del found


def test_long_loops_are_pruned(x):
    for _ in range(3):
        for _ in range(10_000):
            _ = x * 2
        assert len(LOCAL.trace.handles) < 10_000


def test_threads_have_their_own_traces(x):
    x.attach_grad()
    results, errors = [], []

    def work():
        try:
            for _ in range(50):
                with autograd.record():
                    y = nd.tanh(x * 0.5)
                    z = (y * y).sum()
                (g,) = autograd.grad(z, [x])
                results.append(g.asnumpy())
                assert y._trace is not LOCAL.trace or y._trace.thread == native_call.thread_number()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert len({result.tobytes() for result in results}) == 1


def test_arrays_of_another_thread_are_not_added_to(x):
    pending = []

    def work():
        pending.append(x * 2)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    home = pending[0]._trace
    before = len(home.handles)
    result = pending[0] * pending[0]
    assert result._trace is LOCAL.trace
    assert len(home.handles) == before
    assert result.asnumpy().tolist() == (x * 2 * x * 2).asnumpy().tolist()


def test_functions_are_copied_by_reference_and_pickled_by_name():
    assert copy.deepcopy([nd.tanh])[0] is nd.tanh
    assert pickle.loads(pickle.dumps(nd.tanh)) is nd.tanh
    assert weakref.ref(nd.tanh)() is nd.tanh


def test_a_function_in_a_class_is_a_method_as_a_python_function_is(x):
    class Holder:
        squash = nd.tanh

    holder = Holder()
    assert Holder.squash is nd.tanh
    assert (holder.squash.__self__, holder.squash.__func__) == (holder, nd.tanh)
    assert nd.tanh.__get__(x)().asnumpy().tolist() == x.tanh().asnumpy().tolist() == nd.tanh(x).asnumpy().tolist()


@pytest.mark.parametrize("call_it", [lambda f, x: f(x), lambda f, x: f(data=x), lambda f, x: f(*[x], name="y")])
def test_functions_take_arguments_in_every_form(x, call_it):
    python = call.python_function_of(REGISTRY["tanh"], "tanh")
    for _ in range(3):
        assert call_it(nd.tanh, x).asnumpy().tolist() == call_it(python, x).asnumpy().tolist()
    with pytest.raises(MXNetError, match="expects 1 inputs"):
        nd.tanh()


def test_they_can_be_switched_off():
    script = (
        "import phonograd as mx, types\n"
        "for _ in range(3): y = mx.nd.tanh(mx.nd.ones((2,)) * 2); y.wait_to_read()\n"
        "assert type(mx.nd.tanh) is types.FunctionType\n"
        "assert type(mx.nd.NDArray.__mul__) is types.FunctionType\n"
    )
    environment = {**os.environ, "PHONOGRAD_EXECUTOR": "native", "PHONOGRAD_NATIVE_CALLS": "0"}
    subprocess.run([sys.executable, "-c", script], env=environment, check=True)


def test_everything_can_be_observed_at_once(x):
    # the naive engine follows every call, also those that are remembered
    for _ in range(2):
        y = nd.tanh(x * 2)
    with settings.override(naive=True):
        y = nd.tanh(x * 2)
        assert y._buffer is not None


@pytest.mark.parametrize(("is_prebuilt", "first"), [(False, "function"), (True, "OperatorFunction")])
def test_they_are_made_at_the_beginning_if_they_are_prebuilt_or_when_something_is_done_again(is_prebuilt, first):
    script = (
        "import phonograd as mx\n"
        "from phonograd.core.run.hot.installation import HotFunctions\n"
        f"HotFunctions.is_prebuilt = lambda self: {is_prebuilt}\n"
        f"for kind in ({first!r}, {first!r}, 'OperatorFunction'):\n"
        "    mx.nd.tanh(mx.nd.ones((2,)) * 2).wait_to_read()\n"
        "    assert type(mx.nd.tanh).__name__ == kind\n"
    )
    environment = {**os.environ, "PHONOGRAD_EXECUTOR": "native", "PHONOGRAD_TIERS": "blocking"}
    subprocess.run([sys.executable, "-c", script], env=environment, check=True)


def test_a_helper_prepares_them():
    script = (
        "import phonograd as mx, time, types\n"
        "from phonograd.core.run.hot.installation import HotFunctions\n"
        "HotFunctions.is_prebuilt = lambda self: False\n"
        "end = time.monotonic() + 60\n"
        "while type(mx.nd.tanh) is types.FunctionType and time.monotonic() < end:\n"
        "    assert mx.nd.tanh(mx.nd.zeros((2,)) * 2).asnumpy().tolist() == [0, 0]\n"
        "    time.sleep(0.01)\n"
        "assert type(mx.nd.tanh).__name__ == 'OperatorFunction'\n"
        "assert mx.nd.tanh(mx.nd.zeros((2,)) * 2).asnumpy().tolist() == [0, 0]\n"
    )
    environment = {**os.environ, "PHONOGRAD_EXECUTOR": "native", "PHONOGRAD_TIERS": "background"}
    subprocess.run([sys.executable, "-c", script], env=environment, check=True)


def test_a_failure_is_told_and_does_no_harm():
    script = (
        "import warnings\n"
        "import phonograd as mx, phonograd.core.array.fastcall.native_install as module\n"
        "def fail(*arguments): raise OSError('no')\n"
        "module.install = fail\n"
        "with warnings.catch_warnings(record=True) as told:\n"
        "    warnings.simplefilter('always')\n"
        "    for _ in range(3): assert (mx.nd.ones((2,)) * 2).asnumpy().tolist() == [2, 2]\n"
        "assert ['OSError: no' in str(entry.message) for entry in told] == [True]\n"
    )
    environment = {**os.environ, "PHONOGRAD_EXECUTOR": "native", "PHONOGRAD_TIERS": "blocking"}
    subprocess.run([sys.executable, "-c", script], env=environment, check=True)
