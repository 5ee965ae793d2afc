"""Arrays and other libraries: NumPy's protocols, DLPack, the buffer protocol, pickles of ours and of real MXNet."""

import io
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import phonograd as mx
from phonograd import autograd, nd

DATA = Path(__file__).parent / "data"
DTYPES = ["float32", "float64", "float16", "uint8", "int32", "int8", "int64", "bool"]


@pytest.fixture
def x():
    return nd.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])


class TestNumpyArray:
    def test_what_numpy_sees_is_read_only(self, x):
        seen = np.asarray(x)
        assert (seen.dtype, seen.shape) == (np.float32, (2, 3))
        with pytest.raises(ValueError, match="read-only"):
            seen[0, 0] = 9
        x += 1
        assert seen[0, 0] == 1

    def test_copies(self, x):
        mine = np.array(x)
        mine[:] = 9
        assert x.asnumpy().max() == 6
        assert np.array(x, dtype="int8").dtype == np.int8
        assert np.asarray(x, np.float64).dtype == np.float64
        assert x.__array__(copy=True).flags.writeable
        with pytest.raises(ValueError, match="without a copy"):
            x.__array__(np.float64, copy=False)

    def test_where_arrays_are_taken(self, x):
        np.testing.assert_array_equal(x, x.asnumpy())
        np.testing.assert_allclose(np.ones((2, 3)), x / x)
        assert np.allclose(x, x.asnumpy())
        buffer = io.BytesIO()
        np.save(buffer, x)
        buffer.seek(0)
        np.testing.assert_array_equal(np.load(buffer), x.asnumpy())


class TestUfuncs:
    @pytest.mark.parametrize(
        "name",
        [
            "exp",
            "log",
            "sin",
            "cos",
            "tan",
            "tanh",
            "sqrt",
            "square",
            "negative",
            "absolute",
            "sign",
            "floor",
            "ceil",
            "trunc",
            "expm1",
            "log1p",
            "log2",
            "log10",
            "arcsin",
            "arctan",
            "sinh",
            "cosh",
            "arcsinh",
            "cbrt",
            "reciprocal",
            "degrees",
            "radians",
            "logical_not",
        ],
    )
    def test_unary_functions_give_arrays(self, name):
        values = np.array([0.25, 0.5], np.float32)
        found = getattr(np, name)(nd.array(values))
        assert isinstance(found, nd.NDArray)
        np.testing.assert_allclose(found.asnumpy(), getattr(np, name)(values).astype(np.float32), rtol=1e-6)

    @pytest.mark.parametrize(
        "name",
        ["add", "subtract", "multiply", "divide", "power", "maximum", "minimum", "remainder", "hypot", "equal", "less"],
    )
    def test_binary_functions_give_arrays(self, name):
        a, b = np.array([1.0, 2.0], np.float32), np.array([2.0, 0.5], np.float32)
        for found in (getattr(np, name)(nd.array(a), nd.array(b)), getattr(np, name)(nd.array(a), 2.0)):
            assert isinstance(found, nd.NDArray)
            assert found.dtype == np.float32
        np.testing.assert_allclose(getattr(np, name)(nd.array(a), nd.array(b)).asnumpy(), getattr(np, name)(a, b))

    def test_recorded(self):
        x = nd.array([0.5, 1.0], dtype="float64")
        x.attach_grad()
        with autograd.record():
            y = np.multiply(np.exp(x), 3) + np.float64(2) * x + np.matmul(x, x)
        y.backward()
        np.testing.assert_allclose(x.grad.asnumpy(), 3 * np.exp([0.5, 1.0]) + 2 + 4 * np.array([0.5, 1.0]))

    def test_without_an_operator_the_result_is_numpys(self, x):
        assert np.isfinite(x).all()
        assert isinstance(np.logaddexp(x, x), np.ndarray)
        assert np.add.reduce(x).tolist() == [5, 7, 9]
        assert np.multiply.outer(x, x).shape == (2, 3, 2, 3)

    def test_out(self, x):
        y = nd.zeros((2, 3))
        assert np.exp(x, out=y) is y
        assert np.add(x, 1, out=y) is y
        assert y.asnumpy().tolist() == [[2, 3, 4], [5, 6, 7]]
        target = np.zeros((2, 3), np.float32)
        assert np.exp(x, out=target) is target
        with pytest.raises(TypeError, match="out="):
            np.logaddexp(x, x, out=y)

    def test_nothing_writes_behind_our_back(self, x):
        with pytest.raises((ValueError, TypeError)):
            np.add.at(x, ([0], [0]), 5)
        assert x.asnumpy()[0, 0] == 1

    def test_numpy_arrays_beside_ours_are_refused(self, x):
        for wrong in (lambda: np.ones(3) + x, lambda: np.add(x, np.ones((2, 3))), lambda: np.ones((2, 3)) == x):
            with pytest.raises(TypeError, match=r"type <class 'numpy\.ndarray'> not supported"):
                wrong()
        target = np.ones((2, 3))
        with pytest.raises(TypeError, match="not supported"):
            target += x


class TestFunctions:
    def test_answered_by_operators(self, x):
        for found in (
            np.sum(x, axis=1), np.mean(x), np.prod(x, axis=0, keepdims=True), np.max(x, 1),
            np.squeeze(x.reshape((1, 6))),
            np.transpose(x), np.expand_dims(x, 0), np.clip(x, 2, 4), np.concatenate([x, x], axis=1), np.stack([x, x]),
            np.where(x > 2, x, -x), np.dot(x, x.T), np.ravel(x), np.repeat(x, 2), np.tile(x, 2), np.zeros_like(x),
        ):  # fmt: skip
            assert isinstance(found, nd.NDArray)
        assert np.sum(x, axis=1).asnumpy().tolist() == [6, 15]
        assert np.concatenate((x, x), axis=1).shape == (2, 6)
        assert np.where(x > 2, x, -x).asnumpy()[0].tolist() == [-1, -2, 3]

    def test_recorded(self, x):
        x.attach_grad()
        with autograd.record():
            y = np.sum(np.concatenate([x, x * x]))
        y.backward()
        np.testing.assert_array_equal(x.grad.asnumpy(), 1 + 2 * x.asnumpy())

    def test_other_arguments_and_functions_are_numpys(self, x):
        assert np.sum(x, axis=1, dtype=np.float64).dtype == np.float64
        assert np.sum(x, 1, np.float64).tolist() == [6, 15]
        assert np.median(x) == 3.5
        assert np.clip(x, None, 4).max() == 4
        assert np.mean(nd.array([1, 2], dtype="int32")) == 1.5
        assert np.concatenate([x, np.ones((1, 3))]).shape == (3, 3)
        assert np.shape(x) == (2, 3)
        assert np.array_equal(x, x.asnumpy())
        assert np.linalg.norm(x) == pytest.approx(np.linalg.norm(x.asnumpy()))
        assert np.split(x, 2)[0].tolist() == [[1, 2, 3]]

    def test_nothing_writes_behind_our_back(self, x):
        with pytest.raises(ValueError, match=r"read-only|not writeable"):
            np.fill_diagonal(x, 0)
        with pytest.raises(ValueError, match="read-only"):
            np.split(x, 2)[0][:] = 7
        with pytest.raises((ValueError, TypeError)):
            np.copyto(x, 7)
        assert x.asnumpy().tolist() == [[1, 2, 3], [4, 5, 6]]


class TestDlpack:
    """DLPack shares memory: what either side writes in place, the other one sees."""

    @pytest.mark.parametrize("dtype", DTYPES)
    @pytest.mark.parametrize("shape", [(2, 3), (0,), ()])
    def test_round_trips(self, dtype, shape):
        x = nd.ones(shape, dtype=dtype)
        there = np.from_dlpack(x)
        assert (there.dtype, there.shape) == (np.dtype(dtype), shape)
        back = nd.from_dlpack(there)
        assert (back.dtype, back.shape) == (np.dtype(dtype).type, shape)
        np.testing.assert_array_equal(back.asnumpy(), x.asnumpy())
        assert x.__dlpack_device__() == (1, 0)

    @pytest.mark.parametrize("export", [nd.to_dlpack_for_read, nd.to_dlpack_for_write, nd.NDArray.to_dlpack_for_write])
    def test_capsule_round_trip_shares_memory(self, export):
        x = nd.ones((2, 3))
        capsule = export(x)
        assert type(capsule).__name__ == "PyCapsule"
        y = nd.from_dlpack(capsule)
        y += 1
        assert x.asnumpy().tolist() == [[2] * 3] * 2
        x[0] = 7
        assert y.asnumpy().tolist() == [[7] * 3, [2] * 3]

    def test_import_shares_memory(self):
        source = np.arange(4.0)
        x = nd.from_dlpack(source)
        source[0] = 100
        assert x.asnumpy()[0] == 100
        x *= 2
        x[3] = -1
        np.exp(np.zeros(1), out=source[1:2])
        assert source.tolist() == [200, 1, 4, -1]
        assert x.asnumpy().tolist() == [200, 1, 4, -1]

    def test_what_was_computed_before_a_change_keeps_its_value(self):
        source = np.arange(3.0)
        x = nd.from_dlpack(source)
        y = x * 10
        x.attach_grad()
        with autograd.record():
            z = x * x
        source[:] = -1
        assert y.asnumpy().tolist() == [0, 10, 20]
        z.backward()
        assert x.grad.asnumpy().tolist() == [0, 2, 4]
        assert (x * 10).asnumpy().tolist() == [-10] * 3

    def test_views_of_shared_memory(self):
        source = np.zeros((2, 3))
        x = nd.from_dlpack(source)
        row = x[1]
        row[:] = 5
        x.reshape(-1)[0] = 7
        assert source.tolist() == [[7, 0, 0], [5, 5, 5]]
        source[1, 1] = 9
        assert row.asnumpy().tolist() == [5, 9, 5]
        picked = x[:, 1]
        source[:] = 0
        assert picked.asnumpy().tolist() == [0, 9]

    def test_exported_view_and_its_base(self):
        x = nd.zeros((2, 3))
        row, other = x[1], x[0:1]
        there = np.from_dlpack(row)
        if there.flags.writeable:
            there[:] = 3
            assert x.asnumpy().tolist() == [[0, 0, 0], [3, 3, 3]]
        x[:] = 8
        assert there.tolist() == [8, 8, 8]
        assert other.asnumpy().tolist() == [[8, 8, 8]]

    def test_variable_stays_a_variable(self):
        x = nd.array([1.0, 2.0])
        x.attach_grad()
        np.from_dlpack(x)
        with autograd.record():
            y = x * x
        y.backward()
        x -= x.grad
        assert x.asnumpy().tolist() == [-1, -2]
        assert x.grad.asnumpy().tolist() == [2, 4]

    def test_recorded_array_is_copied(self):
        x = nd.array([1.0, 2.0])
        x.attach_grad()
        with autograd.record():
            y = x * x
            there = np.from_dlpack(y)
        y += 1
        assert there.tolist() == [1, 4]
        y.backward()
        assert x.grad.asnumpy().tolist() == [2, 4]

    def test_recorded_write_ends_the_sharing(self):
        source = np.zeros(2)
        x, w = nd.from_dlpack(source), nd.array([1.0, 2.0], dtype="float64")
        w.attach_grad()
        with autograd.record():
            x[:] = w * 3
            y = x * x
        y.backward()
        assert w.grad.asnumpy().tolist() == [18, 36]
        assert source.tolist() == [0, 0]

    def test_read_only_memory(self):
        source = np.arange(3.0)
        source.flags.writeable = False
        try:
            x = nd.from_dlpack(source)
        except BufferError:
            pytest.skip("this NumPy does not export read-only memory")
        x += 1
        assert source.tolist() == [0, 1, 2]
        assert x.asnumpy().tolist() == [1, 2, 3]

    def test_strided_memory_is_copied(self):
        source = np.arange(6.0)[::2]
        x = nd.from_dlpack(source)
        source[:] = 0
        assert x.asnumpy().tolist() == [0, 2, 4]

    def test_copy_and_device_arguments(self):
        x = nd.ones((2,))
        capsule = x.__dlpack__(copy=True)
        y = nd.from_dlpack(capsule)
        y += 1
        assert x.asnumpy().tolist() == [1, 1]
        with pytest.raises(BufferError, match="device"):
            x.__dlpack__(dl_device=(2, 0))

    def test_other_dtypes_are_refused(self):
        with pytest.raises(KeyError, match="uint16"):
            nd.from_dlpack(np.ones(2, np.uint16))

    def test_lender_may_go(self):
        source = np.arange(3.0)
        x = nd.from_dlpack(source)
        del source
        assert x.asnumpy().tolist() == [0, 1, 2]


@pytest.mark.skipif(sys.version_info < (3, 12), reason="Python classes can offer buffers since 3.12")
class TestBuffers:
    @pytest.mark.parametrize("dtype", DTYPES)
    def test_memoryview(self, dtype):
        x = nd.array([[0, 1], [1, 1]], dtype=dtype)
        view = memoryview(x)
        assert (view.shape, view.readonly, view.itemsize) == ((2, 2), True, np.dtype(dtype).itemsize)
        assert np.asarray(view).tolist() == x.asnumpy().tolist()
        assert bytes(view) == x.asnumpy().tobytes()

    def test_value_at_that_moment(self):
        x = nd.array([1.0, 2.0])
        view = memoryview(x)
        x += 1
        assert view.tolist() == [1, 2]


def load_mxnet_pickle(path):
    """Unpickle what MXNet pickled: its classes are ours."""

    class Unpickler(pickle.Unpickler):
        def find_class(self, module, name):
            return super().find_class(
                {"mxnet.ndarray.ndarray": "phonograd.nd", "mxnet.context": "phonograd"}.get(module, module), name
            )

    sys.modules.setdefault("phonograd.nd", nd)
    with open(path, "rb") as file:
        return Unpickler(file).load()


class TestPickles:
    @pytest.mark.parametrize("dtype", DTYPES)
    @pytest.mark.parametrize("shape", [(2, 3), (0, 2), (), (1,)])
    @pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
    def test_round_trip(self, dtype, shape, protocol):
        x = nd.ones(shape, dtype=dtype)
        back = pickle.loads(pickle.dumps(x, protocol))
        assert type(back) is nd.NDArray
        assert (back.shape, back.dtype) == (shape, np.dtype(dtype).type)
        np.testing.assert_array_equal(back.asnumpy(), x.asnumpy())
        back[...] = 0
        assert x.asnumpy().all()

    def test_pending_recorded_and_viewed_arrays(self):
        x = nd.array([1.0, 2.0, 3.0])
        x.attach_grad()
        with autograd.record():
            y = x * x
        for array in (x + 1, y, x[1:], x.T, x):
            back = pickle.loads(pickle.dumps(array))
            assert back.grad is None
            np.testing.assert_array_equal(back.asnumpy(), array.asnumpy())

    def test_array_without_a_value(self):
        back = pickle.loads(pickle.dumps(nd.NDArray(None)))
        with pytest.raises(ValueError, match="without a value"):
            back.asnumpy()

    def test_context_is_stored(self):
        state = nd.ones((1,), ctx=mx.cpu(3)).__getstate__()
        assert state["handle"][20:28] == b"\x01\0\0\0\x03\0\0\0"

    @pytest.mark.parametrize("protocol", [0, 2, 4])
    def test_made_by_mxnet(self, protocol):
        found = load_mxnet_pickle(DATA / f"mxnet-protocol-{protocol}.pickle")
        assert found["float32"].asnumpy().tolist() == [[1.5, -2], [0, 3.25]]
        for name in DTYPES[1:]:
            assert (found[name].dtype, found[name].shape) == (np.dtype(name).type, (1, 3))
        assert found["int64"].asnumpy().tolist() == [[0, 1, 2]]
        assert found["context"].asnumpy().tolist() == [7, 8]
        array, facts = found["shared"]
        assert (array.asnumpy().tolist(), facts["ctx"]) == ([0, 1, 2], mx.cpu(2))
        assert found["cpu_pinned"] == mx.cpu_pinned(1)
        with found["cpu_pinned"]:
            assert mx.current_context() == mx.cpu_pinned(1)
        found["float32"] += 1

    def test_made_by_mxnet_with_the_library_installed_in_its_place(self):
        code = (
            "import phonograd, pickle; phonograd.install_as_mxnet();"
            f"found = pickle.load(open({str(DATA / 'mxnet-protocol-4.pickle')!r}, 'rb'));"
            "print(found['float32'].asnumpy().tolist(), found['shared'][1]['ctx'])"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout == "[[1.5, -2.0], [0.0, 3.25]] cpu(2)\n"

    def test_corrupt_state(self):
        x = nd.NDArray(None)
        for record in (b"", b"garbage", bytes(nd.ones((2,)).__getstate__()["handle"])[:-1]):
            with pytest.raises(mx.MXNetError):
                x.__setstate__({"handle": record})
