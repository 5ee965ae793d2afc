"""``import mxnet`` gives this library: the same modules, MXNet's version, and helpful errors for what is missing."""

import importlib
import importlib.abc
import importlib.util
import os
import pickle
import subprocess
import sys
import threading
import types

import numpy as np
import pytest

import phonograd
from phonograd import compat


@pytest.fixture
def mxnet():
    """Install the alias, and remove it afterwards."""
    yield compat.install_as_mxnet()
    compat.uninstall()


MODULES = ["ndarray", "autograd", "random", "context", "base", "util", "attribute", "name", "runtime", "engine"]
MODULES += ["libinfo", "test_utils", "contrib", "contrib.autograd"]


@pytest.mark.parametrize("name", MODULES)
def test_modules_are_the_same_objects(mxnet, name):
    alias = importlib.import_module(f"mxnet.{name}")
    assert alias is importlib.import_module(f"phonograd.{name}")
    assert alias.__spec__.name == f"phonograd.{name}"
    # programs compare the names of the modules of operators
    assert alias.__name__ == (f"mxnet.{name}" if name == "ndarray" else f"phonograd.{name}")
    found = mxnet
    for part in name.split("."):
        found = getattr(found, part)
    assert found is alias


def run(statements):
    names = {}
    exec(statements, names)
    return names


def test_every_way_to_import(mxnet):
    names = run("""
import mxnet
import mxnet as mx
import mxnet.ndarray as F
import mxnet.nd
import mxnet.ndarray.ndarray
from mxnet import nd, autograd, cpu, Context
from mxnet.ndarray import NDArray
from mxnet.ndarray.ndarray import NDArray as SameNDArray
from mxnet.base import MXNetError
from mxnet.error import MXNetError as SameError
from mxnet.test_utils import *
from mxnet import np, npx
from mxnet.np import random
import mxnet.numpy as same_np
import mxnet.numpy_extension as same_npx
from mxnet.io.io import DataBatch
from mxnet.image.image import imresize
""")
    assert names["mx"] is names["mxnet"] is mxnet
    assert names["F"] is names["nd"] is phonograd.nd is phonograd.ndarray
    assert names["NDArray"] is names["SameNDArray"] is phonograd.nd.NDArray
    assert names["MXNetError"] is names["SameError"] is phonograd.base.MXNetError
    assert names["Context"] is phonograd.Context
    assert names["np"] is names["same_np"] is phonograd.np
    assert names["npx"] is names["same_npx"] is phonograd.npx
    assert names["random"] is phonograd.np.random
    assert names["DataBatch"] is phonograd.io.DataBatch
    assert names["imresize"] is phonograd.image.imresize
    assert names["assert_almost_equal"] is phonograd.test_utils.assert_almost_equal


def test_star_import(mxnet):
    names = run("from mxnet import *")
    assert names["nd"] is phonograd.nd
    assert names["cpu"] is phonograd.cpu
    assert "_version" not in names


def test_versions_differ(mxnet):
    assert mxnet.__version__ == "1.9.1"
    assert phonograd.__version__ != "1.9.1"
    assert (mxnet.__name__, mxnet.__file__) == ("mxnet", phonograd.__file__)
    assert isinstance(mxnet.__path__, list)
    assert {"nd", "autograd", "__version__"} <= set(dir(mxnet))


def test_a_program_runs(mxnet):
    names = run("""
import mxnet as mx
from mxnet import nd, autograd
x = nd.array([1.0, 2.0])
x.attach_grad()
with autograd.record():
    y = (x * x).sum()
y.backward()
try:
    nd.array([1, 2]) + nd.array([1, 2, 3])
except mx.MXNetError as error:
    caught = error
""")
    assert names["x"].grad.asnumpy().tolist() == [2, 4]
    assert isinstance(names["caught"], RuntimeError)


def test_installing_twice_changes_nothing(mxnet):
    finders = list(sys.meta_path)
    assert compat.install_as_mxnet() is mxnet
    assert sys.meta_path == finders
    assert phonograd.install_as_mxnet is compat.install_as_mxnet


def test_uninstalling_removes_every_trace():
    before = {name for name in sys.modules if name.split(".")[0] == "mxnet"}
    assert before == set()
    compat.install_as_mxnet()
    importlib.import_module("mxnet.ndarray")
    compat.uninstall()
    compat.uninstall()
    assert not any(name.split(".")[0] == "mxnet" for name in sys.modules)
    assert importlib.util.find_spec("phonograd.ndarray").name == "phonograd.ndarray"


def test_a_real_mxnet_is_left_alone(monkeypatch):
    real = types.ModuleType("mxnet")
    real.__file__ = "/usr/lib/mxnet/__init__.py"
    monkeypatch.setitem(sys.modules, "mxnet", real)
    with pytest.raises(RuntimeError, match=r"real MXNet is already imported \(from /usr/lib/mxnet/__init__.py\)"):
        compat.install_as_mxnet()
    compat.uninstall()
    assert sys.modules["mxnet"] is real


@pytest.mark.parametrize(
    ("statement", "advice"),
    [
        ("import mxnet.rtc", "phonograd has no GPU support"),
        ("from mxnet import rtc", "phonograd has no GPU support"),
        ("import mxnet.onnx.missing", "does not provide this part of MXNet"),
        ("from mxnet.nothing import x", "does not provide this part of MXNet"),
        ("import mxnet.ndarray.nothing", "does not provide this part of MXNet"),
    ],
)
def test_missing_parts_are_explained(mxnet, statement, advice):
    with pytest.raises(ModuleNotFoundError, match=f"No module named 'mxnet.*{advice}"):
        run(statement)
    with pytest.raises(ImportError):
        run(statement)


def test_missing_names_are_explained(mxnet):
    with pytest.raises(AttributeError, match=r"module 'mxnet' \(here phonograd\) has no attribute 'nothing'"):
        _ = mxnet.nothing
    with pytest.raises(AttributeError, match=r"has no attribute 'rtc': phonograd has no GPU support"):
        _ = mxnet.rtc
    with pytest.raises(ImportError, match="cannot import name 'nothing'"):
        run("from mxnet.ndarray import nothing")


def test_errors_inside_of_a_module_are_not_mistaken_for_a_missing_one(mxnet, monkeypatch):
    class Broken(importlib.abc.MetaPathFinder):
        def find_spec(self, fullname, path=None, target=None):
            if fullname == "phonograd.broken":
                raise ModuleNotFoundError("No module named 'something_else'", name="something_else")

    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path[:1], Broken(), *sys.meta_path[1:]])
    with pytest.raises(ModuleNotFoundError, match="something_else"):
        importlib.import_module("mxnet.broken")


def test_other_modules_are_found_as_before(mxnet):
    assert importlib.util.find_spec("mxnet_like_but_different") is None
    assert importlib.util.find_spec("json").name == "json"


def test_arrays_pickle_under_the_librarys_own_name(mxnet):
    data = pickle.dumps(mxnet.nd.array([1.0, 2.0]))
    assert b"mxnet" not in data
    compat.uninstall()
    assert pickle.loads(data).asnumpy().tolist() == [1, 2]


def test_imports_from_many_threads(mxnet):
    compat.uninstall()
    found, start = [], threading.Barrier(8)

    def work():
        start.wait()
        module = compat.install_as_mxnet()
        found.append((module, importlib.import_module("mxnet.autograd")))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [(sys.modules["mxnet"], phonograd.autograd)] * 8


def test_the_stand_in_on_the_path_becomes_the_alias():
    directory = os.path.join(os.path.dirname(phonograd.__file__), "compat", "mxnet_path")
    script = """
import mxnet as mx
from mxnet import autograd
import phonograd
assert mx.__version__ == "1.9.1" and autograd is phonograd.autograd, mx
assert type(mx).__name__ == "MXNetModule"
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([directory, *filter(None, sys.path)])}
    subprocess.run([sys.executable, "-c", script], env=environment, check=True)


def test_names_that_numpy_removed_come_back():
    import numpy as np

    with pytest.raises(AttributeError):
        _ = np.float
    compat.install_as_mxnet(numpy_aliases=True)
    try:
        with pytest.warns(DeprecationWarning, match=r"has no np\.float; phonograd provides it"):
            assert np.float is float
        assert np.float is float, "a second use gives no warning"
        with pytest.raises(AttributeError, match="nothing"):
            _ = np.nothing
    finally:
        compat.uninstall()
    with pytest.raises(AttributeError):
        _ = np.float


def test_ragged_lists_are_arrays_of_objects_again():
    phonograd.install_as_mxnet(numpy_aliases=True)
    try:
        with pytest.warns(DeprecationWarning, match="different lengths"):
            found = np.array([[1, 2], [3]])
        assert (found.dtype, found.shape) == (object, (2,))
        assert np.asarray([[1], [2, 3]]).dtype == object
        with pytest.raises(ValueError, match="inhomogeneous"):
            np.array([[1], [2, 3]], dtype=float)
    finally:
        compat.uninstall()
    with pytest.raises(ValueError, match="inhomogeneous"):
        np.array([[1, 2], [3]])


def test_bytes_are_read_as_numbers_again():
    phonograd.install_as_mxnet(numpy_aliases=True)
    try:
        with pytest.warns(DeprecationWarning, match="np.frombuffer"):
            found = np.fromstring(b"\1\2\3\4", dtype=np.uint8)
        found += 1  # a copy, which can be changed
        assert found.tolist() == [2, 3, 4, 5]
        assert np.fromstring(b"\1\2\3\4", np.int8, 2).tolist() == [1, 2]
        assert np.fromstring("1 2", sep=" ").tolist() == [1, 2]
        with pytest.warns(DeprecationWarning, match="np.asscalar"):
            assert np.asscalar(np.array([3.0])) == 3.0
    finally:
        compat.uninstall()


@pytest.mark.parametrize(
    ("line", "advice"),
    [
        ("np.array([[1, 2], [3]])", "different lengths"),
        ("np.float_" if np.__version__ >= "2" else "np.float", "restores it"),
        ("np.ones((2, 2))[[slice(0, 1), slice(0, 1)]]", "a[tuple(index)]"),
        ("np.ones(2).newbyteorder()" if np.__version__ >= "2" else "np.float", "numpy"),
    ],
)
def test_errors_of_a_new_numpy_come_with_advice(line, advice):
    code = f"import phonograd; phonograd.install_as_mxnet(); import numpy as np; {line}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert advice in done.stderr.splitlines()[-1]
    assert done.stderr.splitlines()[-1].startswith("phonograd: ")


def test_modules_that_mxnet_imports_are_attributes():
    code = "import phonograd; phonograd.install_as_mxnet(); import mxnet; print(mxnet.io.io.__name__, mxnet.nd.ndarray)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "mxnet.io.io" in done.stdout


def test_modules_of_others_connect_arrays_with_stores(mxnet):
    model = importlib.import_module("mxnet.model")
    weights = [[phonograd.nd.ones((2,)), phonograd.nd.ones((2,))]]
    gradients = [[phonograd.nd.ones((2,)), 2 * phonograd.nd.ones((2,))]]
    assert (
        model._create_kvstore("local", 1, {"a": weights[0][0]}) == model._create_kvstore(None, 2, {}) == (None, False)
    )
    with pytest.raises(TypeError, match="kvstore must be KVStore, str or None"):
        model._create_kvstore(3, 2, {})
    store, on_store = model._create_kvstore("local", 2, {"a": weights[0][0]})
    assert on_store
    store.set_optimizer(phonograd.optimizer.SGD(learning_rate=0.1))
    model._initialize_kvstore(store, weights, {"a": phonograd.nd.full((2,), 3)}, ["a"], on_store)
    model._update_params_on_kvstore(weights, gradients, store, ["a"])
    assert [float(weight[0]) for weight in weights[0]] == pytest.approx([2.7, 2.7])
    updater = phonograd.optimizer.get_updater(phonograd.optimizer.SGD(learning_rate=0.1))
    model._update_params(weights, gradients, updater, 2)
    assert [float(weight[0]) for weight in weights[0]] == pytest.approx([2.6, 2.5])
    store = phonograd.kv.create("local")
    store.init("a", weights[0][0])
    model._update_params(weights, gradients, updater, 2, store, ["a"])
    assert [float(weight[0]) for weight in weights[0]] == pytest.approx([2.3, 2.2])


def test_arguments_of_operators_have_names_and_kinds():
    found = phonograd.operator.get_operator_arguments("Activation")
    choices = "{'relu', 'sigmoid', 'softrelu', 'softsign', 'tanh'}"
    assert found == (2, ["data", "act_type"], ["NDArray-or-Symbol", f"{choices}, required"])
    assert phonograd.operator.get_operator_arguments("Concat").types[0] == "NDArray-or-Symbol[]"
    assert "training" not in phonograd.operator.get_operator_arguments("BatchNorm").names
    with pytest.raises(phonograd.base.MXNetError, match="Cannot find operator nothing"):
        phonograd.operator.get_operator_arguments("nothing")


def test_modules_of_operators_have_the_names_of_mxnet():
    mxnet = compat.install_as_mxnet()
    try:
        assert mxnet.nd.__name__ == mxnet.ndarray.__name__ == "mxnet.ndarray"
        assert mxnet.sym.__name__ == "mxnet.symbol"
        # lazily found names are those of the same module
        assert mxnet.nd.ndarray.NDArray is phonograd.nd.NDArray
        assert mxnet.sym.symbol.Symbol is phonograd.sym.Symbol
    finally:
        compat.uninstall()
    assert (phonograd.nd.__name__, phonograd.sym.__name__) == ("phonograd.ndarray", "phonograd.symbol")
