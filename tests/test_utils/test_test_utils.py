"""Tools for tests: what they accept, what they refuse, and what they say."""

import contextlib
import gzip
import http.server
import os
import struct
import subprocess
import sys
import threading
import urllib.error
import urllib.request

import numpy as np
import pytest

import phonograd as mx
from phonograd import autograd, nd, test_utils
from phonograd.core.base.errors import MXNetError
from phonograd.test_utils import statistics

# Tolerances


def test_default_tolerances():
    single, double = np.dtype("float32"), np.dtype("float64")
    assert test_utils.default_rtols()[single] == 1e-4
    assert test_utils.default_atols()[double] == 1e-20
    assert test_utils.default_numeric_eps()[single] == 2.0**-9
    assert test_utils.default_rtols()[np.dtype("int8")] == 0
    assert test_utils.get_rtol() == 1e-5
    assert test_utils.get_rtol(dtype=np.float16) == 1e-2
    assert (test_utils.get_rtol(3), test_utils.get_atol(4), test_utils.get_etol(0.5)) == (3, 4, 0.5)
    assert (test_utils.get_atol(), test_utils.get_etol()) == (1e-20, 0)


def test_the_less_exact_type_decides():
    half, single, double = nd.ones((1,), dtype="float16"), nd.ones((1,)), np.ones(1)
    assert test_utils.get_tols(single, double, None, None) == (1e-4, 1e-3)
    assert test_utils.get_tols(half, np.ones(1, np.int32), None, None) == (1e-2, 1e-1)
    assert test_utils.get_tols(np.ones(1, np.int8), np.ones(1, np.int32), None, None) == (0, 0)
    assert test_utils.get_tols(single, double, 5, {np.dtype("float32"): 7.0}) == (5, 7.0)
    assert test_utils.effective_dtype(single) == np.float32
    assert test_utils.effective_dtype(2.5) == np.float64


# Comparing


def test_almost_equal():
    assert test_utils.almost_equal(nd.array([1, 2]), np.array([1, 2.0001]))
    assert not test_utils.almost_equal(np.array([1.0, 2]), np.array([1.0, 2.0001]))
    assert test_utils.almost_equal(1, 1)
    assert test_utils.almost_equal(np.ones((2, 2)), np.ones(2))
    with pytest.raises(AssertionError, match=r"a.shape = \(2, 2\) and b.shape = \(2,\) are not equal"):
        test_utils.almost_equal(np.ones((2, 2)), np.ones(2), use_broadcast=False)
    nan = np.array([np.nan])
    assert not test_utils.almost_equal(nan, nan)
    assert test_utils.almost_equal(nan, nan, equal_nan=True)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (nd.array([1, 2, 3]), nd.array([1, 2, 3])),
        (nd.array([1, 2, 3]), np.array([1, 2, 3])),
        ([1, 2, 3], (1.0, 2.0, 3.0)),
        ([nd.array([1]), nd.array([2])], [[1], [2]]),
        (1, 1.0),
        (nd.array([5]), 5),
        (np.array([np.inf, -np.inf]), np.array([np.inf, -np.inf])),
        (np.zeros(0), np.ones(0)),
        (np.array([True, False]), np.array([1, 0])),
        (np.array([2**63 - 1]), np.array([2**63 - 1])),
    ],
)
def test_equal_things_of_any_kind(a, b):
    test_utils.assert_almost_equal(a, b)


def test_large_integers_are_compared_exactly():
    with pytest.raises(AssertionError):
        test_utils.assert_almost_equal(np.array([2**62]), np.array([2**62 + 1]))


def test_the_message_has_the_place_of_the_worst_error():
    actual, wanted = np.arange(6.0).reshape(2, 3), np.arange(6.0).reshape(2, 3)
    wanted[0, 2] += 0.5
    wanted[1, 2] += 0.25
    with pytest.raises(AssertionError) as caught:
        test_utils.assert_almost_equal(actual, wanted, rtol=0.1, atol=0, names=("left", "right"))
    message = str(caught.value)
    assert "Error 2.000000 exceeds tolerance rtol=1.000000e-01, atol=0.000000e+00 (mismatch 16.666667%)" in message
    assert "Location of maximum error: (0, 2), left=2.0, right=2.5" in message
    assert " left: array(" in message
    assert " right: array(" in message


def test_the_message_lists_as_many_errors_as_wanted():
    def message(**options):
        with pytest.raises(AssertionError) as caught:
            test_utils.assert_almost_equal(np.zeros((20, 20)), np.ones((20, 20)), **options)
        return str(caught.value)

    assert "  10: error" in message()
    assert "  11: error" not in message()
    assert "  3: error" not in message(mismatches=(2, 10))
    assert "  400: error" in message(mismatches=(-1, -1))


@pytest.mark.parametrize(
    ("a", "b", "place"),
    [
        (np.array([np.nan, 1.0]), np.array([1.0, 1.0]), r"\(0,\), a=nan, b=1.0"),
        (np.array([1.0, np.inf]), np.array([1.0, -np.inf]), r"\(1,\), a=inf, b=-inf"),
        (np.array([1, 2]), np.array([1, 3]), r"\(1,\), a=2, b=3"),
        (np.array([True, True]), np.array([True, False]), r"\(1,\), a=True, b=False"),
        (nd.array([[1], [2]]), np.array([1, 2]), r"\(1, 0\), a=2.0, b=1"),
        (3, 4, r"\(\), a=3, b=4"),
    ],
)
def test_special_values_are_found(a, b, place):
    with pytest.raises(AssertionError, match="Location of maximum error: " + place):
        test_utils.assert_almost_equal(a, b)


def test_shapes_must_fit():
    with pytest.raises(AssertionError, match=r"x.shape = \(2,\) and y.shape = \(3,\) do not broadcast"):
        test_utils.assert_almost_equal(nd.ones((2,)), np.ones(3), names=("x", "y"))
    with pytest.raises(AssertionError, match="are not equal"):
        test_utils.assert_almost_equal(nd.ones((2, 2)), nd.ones((2,)), use_broadcast=False)


def test_a_share_of_elements_may_differ():
    a, b = np.zeros(10), np.zeros(10)
    b[3] = 1
    test_utils.assert_almost_equal_with_err(a, b, etol=0.1)
    for etol in (0.05, None):
        with pytest.raises(AssertionError, match=r"mismatch 10.0+%"):
            test_utils.assert_almost_equal_with_err(a, b, etol=etol)


def test_nan_can_be_ignored():
    a, b = nd.array([np.nan, 1, 2]), np.array([5, 1, np.nan])
    test_utils.assert_almost_equal_ignore_nan(a, b)
    assert test_utils.almost_equal_ignore_nan(a, b)
    assert not test_utils.almost_equal_ignore_nan(a, [5, 2, 2])
    with pytest.raises(AssertionError, match=r"\(1,\), a=1.0, b=2.0"):
        test_utils.assert_almost_equal_ignore_nan(a, np.array([5.0, 2.0, 2.0]))


def test_assert_allclose_is_strict():
    test_utils.assert_allclose(nd.array([np.nan]), nd.array([np.nan]))
    with pytest.raises(AssertionError):
        test_utils.assert_allclose(nd.array([1]), nd.array([1.0001]))


def test_find_max_violation():
    assert test_utils.find_max_violation(nd.array([1, 2]), [1.0, 3.0], 0.1, 0.1) == ((1,), pytest.approx(2.5))
    assert test_utils._find_max_violation is test_utils.find_max_violation


def test_same():
    assert test_utils.same(nd.array([1]), np.array([1]))
    assert not test_utils.same(np.array([1]), np.array([1, 1]))
    assert not test_utils.same(np.array([np.nan]), np.array([np.nan]))


@pytest.mark.parametrize("dtype", ["float32", "int8", "uint8", "bool"])
def test_same_array(dtype):
    x = nd.array([0, 1, 127], dtype=dtype)
    before = x.asnumpy()
    assert test_utils.same_array(x, x)
    assert test_utils.same_array(x[0:2], x[0:2])
    assert not test_utils.same_array(x, x.copy())
    assert not test_utils.same_array(x, x[0:2])
    assert test_utils.same(x, before)


def test_tuples_of_arrays():
    ones = nd.ones((1,))
    test_utils.compare_ndarray_tuple((ones, (ones,)), (ones, (ones,)))
    test_utils.compare_ndarray_tuple(None, ones)
    with pytest.raises(AssertionError):
        test_utils.compare_ndarray_tuple((ones, (ones,)), (ones, (ones * 2,)))


def test_assert_exception():
    test_utils.assert_exception(lambda a, b: a / b, ZeroDivisionError, 1, b=0)
    with pytest.raises(AssertionError, match="int did not raise ValueError"):
        test_utils.assert_exception(int, ValueError, "1")
    with pytest.raises(ZeroDivisionError):
        test_utils.assert_exception(lambda: 1 / 0, ValueError)


# Samples


def test_random_arrays_follow_the_seed_of_numpy():
    np.random.seed(0)
    one = test_utils.random_arrays((2,))
    assert one.dtype == np.float32
    assert one.tolist() == pytest.approx([1.7640524, 0.4001572])  # as MXNet draws them
    first, second = test_utils.random_arrays((2,), (3, 1))
    assert (first.shape, second.shape) == ((2,), (3, 1))
    assert test_utils.random_arrays(()).shape == ()
    assert test_utils.random_arrays() == []
    low, half = test_utils.random_uniform_arrays((50,), (2, 2), low=5, high=6, dtype=np.float16)
    assert ((low >= 5) & (low <= 6)).all()
    assert half.dtype == np.float16
    with pytest.raises(TypeError, match="hi"):
        test_utils.random_uniform_arrays((2,), hi=3)


def test_random_choices():
    np.random.seed(3)
    assert sorted(test_utils.random_sample([1, 2, 3, 4], 4)) == [1, 2, 3, 4]
    with pytest.raises(AssertionError, match="cannot choose 3 of 2"):
        test_utils.random_sample([1, 2], 3)
    for _ in range(20):
        assert all(1 <= length <= 4 for length in test_utils.rand_shape_2d(4, 4))
        assert len(test_utils.rand_shape_3d(2, 3, 4)) == 3
        assert max(test_utils.rand_shape_nd(5, 2, allow_zero_size=True)) <= 2
        x, y = test_utils.rand_coord_2d(0, 4, 10, 12)
        assert 0 <= x < 4
        assert 10 <= y < 12
    assert {test_utils.rand_shape_2d(1, 1, True) for _ in range(50)} == {(0, 0), (0, 1), (1, 0), (1, 1)}


def test_rand_ndarray():
    array = test_utils.rand_ndarray((2, 3), dtype="float16", ctx=mx.cpu(1))
    assert (array.shape, array.dtype, array.context) == ((2, 3), np.float16, mx.cpu(1))
    assert test_utils.rand_ndarray((2, 3)).dtype == np.float32
    assert test_utils.rand_ndarray((2,), modifier_func=lambda value: 7).asnumpy().tolist() == [7, 7]
    with pytest.raises(AssertionError, match="unknown storage type"):
        test_utils.rand_ndarray((2,), "dense")
    assert test_utils.rand_ndarray((2, 2), "csr").stype == "csr"


def test_small_arrays():
    assert test_utils.create_vector(3).asnumpy().tolist() == [0, 1, 2]
    assert test_utils.create_vector(3).dtype == np.int64
    assert test_utils.create_2d_tensor(2, 3, np.float32).asnumpy().tolist() == [[0, 0, 0], [1, 1, 1]]
    ones = np.ones((2, 3, 4))
    assert test_utils.collapse_sum_like(nd.array(ones), (3, 1)).asnumpy().tolist() == [[8], [8], [8]]
    assert test_utils.collapse_sum_like(ones, (2, 1, 4)).shape == (2, 1, 4)
    assert test_utils.collapse_sum_like(ones, (2, 3, 4)).shape == (2, 3, 4)
    for wrong in ((5, 3, 4), (1, 2, 3, 4)):
        with pytest.raises(AssertionError):
            test_utils.collapse_sum_like(ones, wrong)
    assert test_utils.np_reduce(ones, (0, 2), True, np.sum).shape == (1, 3, 1)
    assert test_utils.np_reduce(ones, 1, 0, np.sum).shape == (2, 4)
    assert test_utils.np_reduce(ones, None, False, np.sum) == 24
    grid = np.arange(4).reshape(2, 2)
    assert test_utils.assign_each(grid, lambda value: value * 2).tolist() == [[0, 2], [4, 6]]
    assert test_utils.assign_each(grid, None).tolist() == grid.tolist()
    assert test_utils.assign_each2(grid, grid, lambda a, b: a * b).tolist() == [[0, 1], [4, 9]]


# Statistics

# (degrees of freedom, statistic, tail probability), from SciPy's chi2.sf
CHI_SQUARE = [
    (1, 0.01, 0.920344325445942),
    (1, 300.0, 3.2943623833139784e-67),
    (2, 10.0, 0.006737946999085468),
    (3, 3.0, 0.3916251762710877),
    (5, 40.0, 1.493367900050393e-07),
    (10, 0.5, 0.999993388289439),
    (10, 10.0, 0.44049328506521257),
    (50, 40.0, 0.8432273781737623),
    (50, 150.0, 6.315223256933963e-12),
    (200, 1.0, 1.0),
    (200, 150.0, 0.996647558501813),
    (200, 300.0, 5.924540335483916e-06),
]


@pytest.mark.parametrize(("freedom", "statistic", "probability"), CHI_SQUARE)
def test_tail_of_chi_square(freedom, statistic, probability):
    assert statistics._upper_gamma(freedom / 2, statistic / 2) == pytest.approx(probability, rel=1e-11)


def normal(count):
    return np.random.normal(0, 1, count)


def test_moments():
    np.random.seed(1)
    assert test_utils.mean_check(normal, 0, 1, 1000)
    assert not test_utils.mean_check(normal, 1, 1, 1000)
    assert test_utils.var_check(normal, 1, 1000)
    assert not test_utils.var_check(normal, 2, 1000)


def test_chi_square_check():
    np.random.seed(1)
    quartiles = [(-np.inf, -0.6744897501960817), (-0.6744897501960817, 0.0), (0.0, 0.6744897501960817)]
    buckets = [*quartiles, (0.6744897501960817, np.inf)]
    probability, counted, expected = test_utils.chi_square_check(normal, buckets, [0.25] * 4, 10_000)
    assert probability > 1e-3
    assert counted.sum() == 10_000
    assert expected.tolist() == [2500] * 4
    probability, counted, _ = test_utils.chi_square_check(
        lambda count: nd.array(np.random.randint(0, 2, count)), [0, 1], [0.5, 0.5], 1000
    )
    assert probability > 1e-3
    assert counted.sum() == 1000
    assert test_utils.verify_generator(normal, buckets, [0.25] * 4, 1000)
    with pytest.raises(AssertionError, match="Generator test fails, Chi-square p="):
        test_utils.verify_generator(normal, buckets, [0.1, 0.2, 0.3, 0.4], 1000)
    with pytest.raises(ValueError, match=r"sum to 1.1"):
        test_utils.chi_square_check(normal, buckets, [0.25, 0.25, 0.25, 0.35])
    with pytest.raises(ValueError, match="ascending"):
        test_utils.chi_square_check(normal, buckets[::-1], [0.25] * 4, 10)
    with pytest.raises(AssertionError, match="4 buckets but 1 probabilities"):
        test_utils.chi_square_check(normal, buckets, [1.0])


def test_buckets_from_quantiles():
    buckets, probabilities = test_utils.gen_buckets_probs_with_ppf(lambda q: -np.inf if q == 0 else q * 4, 4)
    assert buckets == [(-np.inf, 1.0), (1.0, 2.0), (2.0, 3.0), (3.0, 4.0)]
    assert probabilities == [0.25] * 4


# Surroundings


def test_default_context():
    before = test_utils.default_context()
    assert before == mx.current_context()
    test_utils.set_default_context(mx.cpu(1))
    try:
        assert test_utils.default_context() == mx.current_context() == nd.ones((1,)).context == mx.cpu(1)
    finally:
        test_utils.set_default_context(before)


def test_environment(monkeypatch):
    monkeypatch.setenv("FIRST", "1")
    monkeypatch.delenv("SECOND", raising=False)
    with test_utils.environment("FIRST", "2"):
        assert os.environ["FIRST"] == "2"
        with test_utils.environment({"FIRST": None, "SECOND": "5"}):
            assert "FIRST" not in os.environ
            assert os.environ["SECOND"] == "5"
        with pytest.raises(ZeroDivisionError), test_utils.environment("FIRST", "3"):
            raise ZeroDivisionError
        assert os.environ["FIRST"] == "2"
    assert os.environ["FIRST"] == "1"
    assert "SECOND" not in os.environ
    with pytest.raises(AssertionError, match="Expecting one dict arg or two args"), test_utils.environment("FIRST"):
        pass

    @test_utils.with_environment("SECOND", "x")
    def second():
        return os.environ["SECOND"]

    assert second() == "x"
    assert test_utils.set_env_var("SECOND", "y", "none") == "none"
    assert test_utils.set_env_var("SECOND", "z") == "y"


def test_retry():
    calls = []

    @test_utils.retry(3)
    def third_time_lucky():
        calls.append(1)
        assert len(calls) == 3
        return "done"

    assert third_time_lucky() == "done"

    @test_utils.retry(2)
    def never():
        calls.append(1)
        raise AssertionError("no")

    with pytest.raises(AssertionError, match="no"):
        never()
    assert len(calls) == 5
    with pytest.raises(AssertionError, match="at least once"):
        test_utils.retry(0)


def test_standard_error_is_discarded():
    script = """
import os, sys
from phonograd.test_utils import discard_stderr
with discard_stderr():
    print("lost", file=sys.stderr)
    os.write(2, b"lost, too")
print("kept", file=sys.stderr)
"""
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert result.stderr == "kept\n"


def test_dummy_iter_repeats_the_first_batch():
    class Batches:
        provide_data, provide_label, batch_size = "data", "label", 4

        def __iter__(self):
            return iter(["first", "second"])

    dummy = test_utils.DummyIter(Batches())
    assert [batch for batch, _ in zip(dummy, range(3))] == ["first"] * 3
    assert (dummy.next(), dummy.provide_data, dummy.batch_size) == ("first", "data", 4)


def test_list_gpus():
    assert test_utils.list_gpus() == []


@contextlib.contextmanager
def web_server(answers):
    """Serve bytes (or error statuses) one after the other and yield the address."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            answer = answers.pop(0)
            self.send_response(200 if isinstance(answer, bytes) else answer)
            self.end_headers()
            self.wfile.write(answer if isinstance(answer, bytes) else b"")

        def log_message(self, *arguments):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def test_download(tmp_path, monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("no_proxy", "*")
    answers = [500, b"contents", b"newer", 404]
    with web_server(answers) as address:
        path = test_utils.download(f"{address}/a/file.bin", dirname=str(tmp_path / "new"))
        assert path == str(tmp_path / "new" / "file.bin")
        assert (tmp_path / "new" / "file.bin").read_bytes() == b"contents"
        assert test_utils.download(f"{address}/a/file.bin", dirname=str(tmp_path / "new")) == path
        assert answers == [b"newer", 404]
        test_utils.download(f"{address}/a", fname=path, overwrite=True)
        assert (tmp_path / "new" / "file.bin").read_bytes() == b"newer"
        with pytest.raises(MXNetError, match=r"Failed downloading .*put the file at .*missing.*yourself"):
            test_utils.download(f"{address}/missing", dirname=str(tmp_path), retries=1)
        with pytest.raises(ValueError, match="no file name"):
            test_utils.download(address)
    with pytest.raises(MXNetError, match="after 2 tries"):
        test_utils.download(f"{address}/gone", dirname=str(tmp_path), retries=2)
    assert [path.name for path in tmp_path.iterdir()] == ["new"]


def refuse(asked, request):
    asked.append(getattr(request, "full_url", request))
    raise urllib.error.URLError("no network")


def test_mnist_is_read_or_downloaded(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    asked = []
    monkeypatch.setattr(urllib.request, "urlopen", lambda address, *rest, **options: refuse(asked, address))
    monkeypatch.setenv("MXNET_HOME", str(tmp_path / "home"))
    with pytest.raises(MXNetError, match=r"Failed downloading .*put the file at .*train-images-idx3-ubyte.gz"):
        test_utils.get_mnist()
    assert set(asked) == {"http://data.mxnet.io/data/mnist/train-images-idx3-ubyte.gz"}
    (tmp_path / "data").mkdir()

    def write(name, shape):
        values = bytes(range(int(np.prod(shape))))
        data = bytes([0, 0, 8, len(shape)]) + struct.pack(f">{len(shape)}I", *shape) + values
        (tmp_path / "data" / name).write_bytes(gzip.compress(data))

    for prefix in ("train", "t10k"):
        write(f"{prefix}-images-idx3-ubyte.gz", (2, 3, 4))
        write(f"{prefix}-labels-idx1-ubyte.gz", (2,))
    digits = test_utils.get_mnist()
    assert digits["train_data"].shape == (2, 1, 3, 4)
    assert digits["train_data"].max() == np.float32(23 / 255)
    assert digits["test_label"].tolist() == [0, 1]
    train, validation = test_utils.get_mnist_iterator(2, (1, 3, 4))
    assert next(train).data[0].shape == (2, 1, 3, 4)
    assert next(test_utils.get_mnist_iterator(1, (12,), num_parts=2, part_index=1)[1]).data[0].shape == (1, 12)
    assert sorted(next(validation).label[0].asnumpy().tolist()) == [0, 1]
    (tmp_path / "data" / "t10k-labels-idx1-ubyte.gz").write_bytes(gzip.compress(bytes([0, 0, 8, 1, 0, 0, 1, 0, 5])))
    with pytest.raises(MXNetError, match="damaged"):
        test_utils.get_mnist()


# Gradients


def test_numeric_grad_of_a_function():
    (gradient,) = test_utils.numeric_grad(lambda x: x * x, [np.array([1.0, 3.0])], dtype=np.float64)
    np.testing.assert_allclose(gradient, [2, 6], rtol=1e-8)
    named = test_utils.numeric_grad(lambda a, b: [a * b, a], {"a": nd.array([2.0]), "b": [3.0]}, dtype=np.float64)
    np.testing.assert_allclose([named["a"][0], named["b"][0]], [4, 2], rtol=1e-8)
    with pytest.raises(MXNetError, match="needs a function of NDArrays or a bound executor"):
        test_utils.numeric_grad(3, [])


def test_check_numeric_gradient_of_a_function():
    location = [np.array([0.5, -1.0]), np.array([2.0, 3.0])]
    test_utils.check_numeric_gradient(lambda x, y: nd.exp(x) * y, location)
    test_utils.check_numeric_gradient(lambda x, y: (x * y, nd.tanh(y)), location, dtype=np.float64)
    test_utils.check_numeric_gradient(lambda x, y: x * y, {"x": location[0], "y": location[1]}, grad_nodes=["y"])

    class Wrong(autograd.Function):
        def forward(self, x):
            return x * x

        def backward(self, dy):
            return dy

    with pytest.raises(AssertionError, match="numeric gradient of 0"):
        test_utils.check_numeric_gradient(lambda x: Wrong()(x), [np.array([2.0])])
    with pytest.raises(AssertionError, match="must be float16, float32 or float64"):
        test_utils.check_numeric_gradient(nd.exp, [1], dtype=np.int32)


class ProductExecutor:
    """A bound product of two arguments and one auxiliary state."""

    def __init__(self, args, args_grad, grad_req, aux_states):
        self.arg_dict, self.grad_dict, self.aux_dict = args, args_grad, aux_states
        self.requests = grad_req if isinstance(grad_req, dict) else dict.fromkeys(args, grad_req)

    def forward(self, is_train=False):
        self.outputs = [self.arg_dict["a"] * self.arg_dict["b"] * self.aux_dict["scale"]]

    def backward(self, out_grads=None):
        head = nd.ones_like(self.outputs[0]) if out_grads is None else out_grads[0]
        for name, other in (("a", "b"), ("b", "a")):
            gradient = head * self.arg_dict[other] * self.aux_dict["scale"]
            if self.requests[name] == "write":
                self.grad_dict[name][:] = gradient
            elif self.requests[name] == "add":
                self.grad_dict[name] += gradient


class Product:
    """The least that the symbolic checks ask of a Symbol."""

    def list_arguments(self):
        return ["a", "b"]

    def list_auxiliary_states(self):
        return ["scale"]

    def list_outputs(self):
        return ["product_output"]

    def bind(self, ctx, args, args_grad, grad_req, aux_states):
        return ProductExecutor(args, args_grad, grad_req, aux_states)


def test_symbolic_checks_work_on_whatever_offers_bind():
    a, b, scale = np.array([1.0, 2.0]), np.array([3.0, 4.0]), np.array([2.0])
    options = {"aux_states": [scale]}
    (output,) = test_utils.check_symbolic_forward(Product(), [a, b], [2 * a * b], **options)
    assert output.asnumpy().tolist() == [6, 16]
    test_utils.check_symbolic_forward(Product(), {"b": b, "a": a}, {"product_output": 2 * a * b}, **options)
    with pytest.raises(AssertionError, match=r"\(1,\), expected product_output=8.0, forward product_output=16.0"):
        test_utils.check_symbolic_forward(Product(), [a, b], [a * b], **options)
    heads = [np.array([1.0, 10.0])]
    wanted = [2 * heads[0] * b, 2 * heads[0] * a]
    for request in ("write", "add", "null", ["add", "write"], {"a": "null", "b": "add"}):
        result = test_utils.check_symbolic_backward(Product(), [a, b], heads, wanted, grad_req=request, **options)
        assert list(result) == ["a", "b"]
    test_utils.check_symbolic_backward(Product(), [a, b], None, {"a": 2 * b}, **options)
    with pytest.raises(AssertionError, match="expected gradient of b"):
        test_utils.check_symbolic_backward(Product(), [a, b], heads, [wanted[0], wanted[0]], **options)
    test_utils.check_numeric_gradient(Product(), [a, b], dtype=np.float64, **options)
    numeric = test_utils.numeric_grad(
        Product().bind(None, {"a": nd.array(a), "b": nd.array(b)}, {}, "null", {"scale": nd.array(scale)}), [a, b]
    )
    np.testing.assert_allclose(numeric["a"], 2 * b, rtol=1e-2)


def test_without_symbols_the_error_says_so():
    for check in (test_utils.check_symbolic_forward, test_utils.check_symbolic_backward):
        with pytest.raises(MXNetError, match=r"needs a Symbol with bind\(\), and got object"):
            check(object(), [], [], []) if check is test_utils.check_symbolic_backward else check(object(), [], [])
    with pytest.raises(MXNetError, match="check_numeric_gradient needs a Symbol"):
        test_utils.check_numeric_gradient(object(), [])
    with pytest.raises(ValueError, match="the arguments are a, b, but 1 values were given"):
        test_utils.check_symbolic_forward(Product(), [1], [1])
    with pytest.raises(ValueError, match="the arguments are a, b, but values were given for a"):
        test_utils.check_symbolic_forward(Product(), {"a": 1}, [1])


def test_star_import_brings_what_tests_for_mxnet_expect():
    names = {}
    exec("from phonograd.test_utils import *", names)
    for name in ("np", "rnd", "assert_almost_equal", "default_context", "rand_ndarray", "environment"):
        assert name in names
