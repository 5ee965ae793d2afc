"""Aids of tests for sparse arrays, linear algebra, optimisers, networks and data sets (``test_utils``)."""

import bz2
import zipfile

import numpy as np
import pytest

import phonograd as mx
from phonograd import gluon, nd, test_utils
from phonograd.core.base.errors import MXNetError
from phonograd.test_utils import archives


@pytest.fixture(autouse=True)
def _seed():
    np.random.seed(0)


# -- sparse arrays


def test_sparse_arrays_have_the_rows_and_values_asked_for():
    made = test_utils.create_sparse_array((4, 3), "row_sparse", data_init=2.0, rsp_indices=(1, 3))
    assert made.stype == "row_sparse"
    assert made.indices.asnumpy().tolist() == [1, 3]
    assert made.asnumpy().tolist() == [[0] * 3, [2] * 3, [0] * 3, [2] * 3]
    assert test_utils.create_sparse_array((4, 3), "csr", density=0).asnumpy().sum() == 0
    whole = test_utils.create_sparse_array((4, 3), "csr", density=1, dtype="float64")
    assert (whole.stype, whole.dtype, len(whole.data)) == ("csr", np.float64, 12)
    with pytest.raises(AssertionError, match="Unknown storage type: default"):
        test_utils.create_sparse_array((4, 3), "default")


def test_sparse_arrays_may_store_nothing():
    made = test_utils.create_sparse_array_zd((4, 3), "row_sparse", 0.0, data_init=1.0, rsp_indices=(0, 2, 9))
    assert made.indices.asnumpy().tolist() == [0, 2]
    assert test_utils.create_sparse_array_zd((4, 3), "row_sparse", 0.0).asnumpy().sum() == 0
    assert test_utils.create_sparse_array_zd((40, 30), "csr", 0.5, data_init=1.0).asnumpy().mean() == pytest.approx(
        0.5, abs=0.1
    )


@pytest.mark.parametrize(
    ("shape", "density", "lengths"),
    # as MXNet 1.9.1 distributes them
    [((5, 16), 0.5, [2, 4, 8, 16, 10]), ((4, 4), 0.5, [2, 4, 1, 1]), ((10, 10), 0.2, [2, 4, 7, *[1] * 7])],
)
def test_rows_of_a_power_law_double(shape, density, lengths):
    made, (indptr, _, _) = test_utils.rand_sparse_ndarray(shape, "csr", density, distribution="powerlaw")
    assert np.diff(indptr.asnumpy()).tolist() == lengths
    assert (np.count_nonzero(made.asnumpy(), axis=1) == lengths).all()


@pytest.mark.parametrize(("shape", "density"), [((4, 4), 0.4), ((3, 40), 0.9), ((1, 8), 1.0)])
def test_a_power_law_needs_a_density_that_fits(shape, density):
    with pytest.raises(ValueError, match="not supported for this density"):
        test_utils.rand_sparse_ndarray(shape, "csr", density, distribution="powerlaw")


def test_row_sparse_arrays_have_no_power_law():
    with pytest.raises(AssertionError, match="Distribution powerlaw not supported for row_sparse"):
        test_utils.rand_sparse_ndarray((4, 4), "row_sparse", 0.5, distribution="powerlaw")
    with pytest.raises(MXNetError, match="not 'normal'"):
        test_utils.rand_sparse_ndarray((4, 4), "csr", 0.5, distribution="normal")


def test_columns_are_shuffled_within_their_rows():
    class Matrix:
        indptr = np.array([0, 20, 20, 40])
        indices = np.tile(np.arange(20), 2)

    test_utils.shuffle_csr_column_indices(Matrix)
    for row in (Matrix.indices[:20], Matrix.indices[20:]):
        assert row.tolist() != list(range(20))
        assert sorted(row) == list(range(20))


# -- linear algebra


def test_matrices_have_the_properties_they_are_named_after():
    assert test_utils.get_identity_mat(2).asnumpy().tolist() == [[1, 0], [0, 1]]
    assert test_utils.get_identity_mat_batch(3).shape == (2, 3, 3)
    orthonormal = test_utils.new_orthonormal_matrix_2d(5)
    np.testing.assert_allclose(orthonormal.T @ orthonormal, np.eye(5), atol=1e-12)
    matrices = test_utils.new_matrix_with_real_eigvals_nd((2, 3, 6, 6))
    values = np.linalg.eigvals(matrices)
    assert matrices.shape == (2, 3, 6, 6)
    # NumPy 2.5 returns complex numbers in any case
    np.testing.assert_allclose(np.imag(values), 0)
    assert 0 < abs(values).max() < 10
    symmetric = test_utils.new_sym_matrix_with_real_eigvals_nd((2, 4, 4))
    np.testing.assert_allclose(symmetric, symmetric.swapaxes(-1, -2), atol=1e-12)
    with pytest.raises(AssertionError, match="square"):
        test_utils.new_matrix_with_real_eigvals_nd((2, 3))


# -- what learns


def test_optimizers_are_compared():
    sgd = mx.optimizer.SGD
    test_utils.compare_optimizer(sgd(momentum=0.9), sgd(momentum=0.9), (3, 4), "float32")
    test_utils.compare_optimizer(sgd(momentum=0.9), sgd(momentum=0.9), [(3, 4), (5,)], "float32", ntensors=2)
    both = {"w_stype": "row_sparse", "g_stype": "row_sparse"}
    test_utils.compare_optimizer(sgd(momentum=0.9), sgd(momentum=0.9), (3, 4), "float32", **both)
    with pytest.raises(AssertionError):
        test_utils.compare_optimizer(sgd(), sgd(learning_rate=0.5), (3, 4), "float32")


def test_states_of_optimizers_are_compared():
    class Other(mx.optimizer.Adam):
        def update(self, index, weight, grad, state):
            super().update(index, weight, grad, state)
            state[1][:] += 1

    make = mx.optimizer.Adam
    with pytest.raises(AssertionError):
        test_utils.compare_optimizer(make(), Other(), (3, 4), "float32")
    test_utils.compare_optimizer(make(), Other(), (3, 4), "float32", compare_states=False)


def test_hybridized_networks_are_compared():
    data = [nd.random.normal(shape=(2, 3))]
    check = test_utils.check_gluon_hybridize_consistency
    check(lambda: gluon.nn.Dense(3, activation="tanh"), data)
    check(lambda: gluon.nn.BatchNorm(), data)
    check(lambda: gluon.nn.Embedding(4, 3), [nd.array([0, 3], dtype="int32")])
    check(lambda: gluon.nn.HybridLambda("relu"), data, numpy_func=lambda x: np.maximum(x, 0))
    with pytest.raises(AssertionError, match="NumPy"):
        check(lambda: gluon.nn.HybridLambda("relu"), data, numpy_func=lambda x: x)
    calls = []

    class Fickle(gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            calls.append(0)
            return x * len(calls)

    with pytest.raises(AssertionError, match="output, hybridized"):
        check(Fickle, data)


# -- surroundings and data sets


def test_facts_about_this_machine(monkeypatch):
    monkeypatch.delenv("CD_JOB", raising=False)
    assert not test_utils.is_cd_run()
    monkeypatch.setenv("CD_JOB", "1")
    assert test_utils.is_cd_run()
    assert test_utils.is_op_runnable()
    assert not test_utils.has_tvm_ops()
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    assert test_utils.is_aarch64_run()
    with pytest.raises(ValueError, match=r"Expecting a gpu context .* received ctx cpu\(0\)"):
        test_utils.get_cuda_compute_capability(mx.cpu())


def test_a_checkout_of_mxnet_has_im2rec(tmp_path, monkeypatch):
    monkeypatch.delenv("MXNET_HOME", raising=False)
    with pytest.raises(MXNetError, match="set MXNET_HOME to a checkout of MXNet"):
        test_utils.get_im2rec_path()
    (tmp_path / "tools").mkdir()
    program = tmp_path / "tools" / "im2rec.py"
    program.touch()
    monkeypatch.setenv("MXNET_HOME", str(tmp_path))
    assert test_utils.get_im2rec_path() == str(program)


def test_data_sets_and_models_are_downloaded_unless_they_are_there(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    asked = []

    def fetch(url, fname=None, dirname=None):
        asked.append(url.split("/", 3)[3])
        path = tmp_path / (dirname or "") / (fname or url.split("/")[-1])
        path.parent.mkdir(exist_ok=True)
        names = archives._MNIST if "mnist" in url else archives._CIFAR10
        with zipfile.ZipFile(path, "w") as archive:
            for name in names:
                archive.writestr(name, b"")
        return str(path)

    monkeypatch.setattr(archives, "download", fetch)
    for _ in range(2):
        test_utils.get_mnist_ubyte()
        test_utils.get_cifar10()
    assert asked == ["mxnet/data/mnist.zip", "mxnet/data/cifar10.zip"]
    assert (tmp_path / "data" / "cifar" / "train.rec").exists()
    assert test_utils.download_model("imagenet1k-resnet-18", "models") == ("models/imagenet1k-resnet-18", 0)
    assert asked[2:] == [f"models/imagenet/resnet/18-layers/resnet-18-{end}" for end in ("symbol.json", "0000.params")]
    assert (tmp_path / "models" / "imagenet1k-resnet-18-0000.params").exists()
    assert test_utils.download_model("unknown") == (None, 0)


def test_archives_are_unpacked(tmp_path):
    with zipfile.ZipFile(tmp_path / "some.zip", "w") as archive:
        archive.writestr("inner/text", "hello")
    test_utils.get_zip_data(str(tmp_path), "http://127.0.0.1/never-asked.zip", "some.zip")
    assert (tmp_path / "inner" / "text").read_text() == "hello"
    (tmp_path / "broken.zip").write_bytes(b"no archive")
    with pytest.raises(MXNetError, match=r"broken.zip is not a zip archive"):
        test_utils.get_zip_data(str(tmp_path), "http://127.0.0.1/never-asked.zip", "broken.zip")
    packed = bz2.compress(b"numbers")
    for name, contents in (("whole.bz2", packed), ("cut.bz2", packed[:-5]), ("wrong.bz2", b"no archive")):
        (tmp_path / name).write_bytes(contents)
    test_utils.get_bz2_data(str(tmp_path), "whole", "http://127.0.0.1/never-asked.bz2", "whole.bz2")
    assert (tmp_path / "whole").read_bytes() == b"numbers"
    for name in ("cut", "wrong"):
        with pytest.raises(MXNetError, match="cannot be unpacked"):
            test_utils.get_bz2_data(str(tmp_path), name, "http://127.0.0.1/never-asked.bz2", f"{name}.bz2")
        assert not (tmp_path / name).exists()


# -- comparing


def test_shapes_and_places():
    test_utils.checkShapes(np.zeros((2, 3)), np.ones((2, 3)))
    with pytest.raises(AssertionError, match=r"a.shape = \(2, 3\) and b.shape = \(3, 2\) are not equal"):
        test_utils.checkShapes(np.zeros((2, 3)), np.ones((3, 2)))
    text = test_utils.locationError(np.ones((2, 2)), np.zeros((2, 2)), (0, 1), ("x", "y"), maxError=True)
    assert text == "Location of maximum error: (0, 1), x=1.00000000, y=0.00000000"


def test_star_import_brings_the_library_and_modules():
    names = {}
    exec("from phonograd.test_utils import *", names)
    assert names["mx"] is mx
    for name in ("sys", "time", "logging", "npt", "OrderedDict", "use_np", "compare_optimizer"):
        assert name in names
