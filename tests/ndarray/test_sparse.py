"""Sparse arrays: what is stored, which results are sparse, gradients, files. Storage types as real MXNet gives them."""

import copy
import operator
import pickle
from typing import Any

import numpy as np
import pytest

import phonograd as mx
from phonograd import autograd, nd
from phonograd.base import NotSupportedForSparseNDArray
from phonograd.core.base.errors import MXNetError
from phonograd.ndarray.sparse import BaseSparseNDArray, CSRNDArray, RowSparseNDArray

MATRIX = np.array([[0, 1, 0], [2, 0, 0], [0, 0, 0], [0, 0, 3]], np.float32)
SHORT = {"c": "csr", "r": "row_sparse", "d": "default"}


def matrix() -> CSRNDArray:
    return nd.sparse.csr_matrix(([1, 2, 3], [1, 0, 2], [0, 1, 2, 2, 3]), shape=(4, 3))


def rows() -> RowSparseNDArray:
    return nd.sparse.row_sparse_array(([[1, 2], [3, 4]], [1, 4]), shape=(6, 2))


def kinds() -> dict[str, nd.NDArray]:
    return {"c": matrix(), "r": nd.array(np.eye(4, 3)).tostype("row_sparse"), "d": nd.ones((4, 3))}


def test_what_a_csr_matrix_stores() -> None:
    x = matrix()
    assert (x.stype, x.shape, x.dtype, x.ndim, len(x)) == ("csr", (4, 3), np.float32, 2, 4)
    assert repr(x) == "\n<CSRNDArray 4x3 @cpu(0)>"
    np.testing.assert_array_equal(x.asnumpy(), MATRIX)
    assert x.data.asnumpy().tolist() == [1, 2, 3]
    assert x.indices.asnumpy().tolist() == [1, 0, 2]
    assert x.indptr.asnumpy().tolist() == [0, 1, 2, 2, 3]
    assert x.indices.dtype == x.indptr.dtype == np.int64


def test_what_a_row_sparse_array_stores() -> None:
    x = rows()
    assert (x.stype, x.shape) == ("row_sparse", (6, 2))
    assert repr(x) == "\n<RowSparseNDArray 6x2 @cpu(0)>"
    assert x.indices.asnumpy().tolist() == [1, 4]
    assert x.data.asnumpy().tolist() == [[1, 2], [3, 4]]
    assert x.asnumpy()[4].tolist() == [3, 4]
    assert not hasattr(x, "indptr")


def test_the_whole_array_is_not_made_until_it_is_needed() -> None:
    wide = nd.sparse.csr_matrix(([1.0, 2.0], [5, 10**9 - 1], [0, 1, 2]), shape=(2, 10**9))
    assert wide[1].data.asnumpy().tolist() == [2]
    assert wide.copy().astype("float64").dtype == np.float64
    assert wide._buffer is None


@pytest.mark.parametrize("stype", ["csr", "row_sparse"])
def test_a_converted_array_keeps_only_what_it_stores(stype: str) -> None:
    dense = nd.array(MATRIX) * 2
    x = dense.tostype(stype)
    dense[:] = 7
    assert x._buffer is None
    assert x._node is None
    np.testing.assert_array_equal(x.asnumpy(), 2 * np.array(MATRIX))
    dense.attach_grad()
    with autograd.record():
        y = dense.tostype(stype) * 3
    y.backward()
    assert dense.grad.asnumpy().tolist() == np.full(np.shape(MATRIX), 3).tolist()


@pytest.mark.parametrize("stype", ["csr", "row_sparse"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8"])
def test_there_and_back(stype: str, dtype: str) -> None:
    dense = nd.array(MATRIX, dtype=dtype)
    x = dense.tostype(stype)
    assert x.stype == stype
    assert x.dtype == dense.dtype
    back = x.tostype("default")
    assert type(back) is nd.NDArray
    np.testing.assert_array_equal(back.asnumpy(), dense.asnumpy())
    x.check_format()


def test_making_them() -> None:
    coordinates = nd.sparse.csr_matrix((np.array([1.0, 2]), (np.array([1, 0]), np.array([2, 1]))), shape=(3, 3))
    assert coordinates.asnumpy().tolist() == [[0, 2, 0], [0, 0, 1], [0, 0, 0]]
    assert nd.sparse.csr_matrix(([1, 2, 3], [1, 0, 2], [0, 1, 2, 2, 3])).shape == (4, 3)
    assert nd.sparse.csr_matrix((3, 4)).asnumpy().tolist() == np.zeros((3, 4)).tolist()
    assert nd.sparse.csr_matrix(np.eye(3)).stype == "csr"
    assert nd.sparse.row_sparse_array(np.eye(3)).indices.asnumpy().tolist() == [0, 1, 2]
    assert nd.sparse.row_sparse_array((3, 4)).shape == (3, 4)
    assert nd.sparse.zeros("csr", (2, 3)).stype == nd.zeros((2, 3), stype="csr").stype == "csr"
    assert nd.sparse.empty("row_sparse", (2, 3)).stype == nd.empty((2, 3), stype="row_sparse").stype == "row_sparse"
    assert nd.sparse.array(matrix()).stype == "csr"
    assert nd.sparse.zeros("default", (2,)).stype == "default"


def test_scipy_matrices() -> None:
    scipy = pytest.importorskip("scipy.sparse")
    x = nd.sparse.array(scipy.csr_matrix(MATRIX))
    same = nd.array(scipy.csr_matrix(MATRIX), dtype="float64")
    assert (same.stype, same.dtype) == ("csr", np.float64)
    np.testing.assert_array_equal(same.asnumpy(), MATRIX)
    np.testing.assert_array_equal(x.asnumpy(), MATRIX)
    np.testing.assert_array_equal(x.asscipy().toarray(), MATRIX)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: nd.sparse.csr_matrix(([1, 2, 3], [1, 0, 9], [0, 1, 2, 2, 3]), shape=(4, 3)), "column number"),
        (lambda: nd.sparse.csr_matrix(([1, 2], [1, 0, 2], [0, 1, 2, 2, 3]), shape=(4, 3)), "row starts"),
        (lambda: nd.sparse.csr_matrix(([1.0], ([7], [0])), shape=(3, 3)), "row number"),
        (lambda: nd.sparse.csr_matrix(([1.0, 2.0], ([1], [0])), shape=(3, 3)), "2 values"),
        (lambda: nd.sparse.csr_matrix(([], [], [0])), "invalid shape"),
        (lambda: nd.sparse.csr_matrix((1, 2, 3, 4)), "length"),
        (lambda: nd.sparse.csr_matrix(5), "2 Dimensional"),
        (lambda: nd.sparse.row_sparse_array(([[1, 2]], [9]), shape=(6, 2)), "row number"),
        (lambda: nd.sparse.row_sparse_array(([[1, 2, 3]], [1]), shape=(6, 2)), "stored rows"),
        (lambda: nd.sparse.array(np.ones((2, 2))), "mx.nd.array"),
        (lambda: nd.sparse.zeros("coo", (2, 2)), "unknown storage type"),
        (lambda: nd.sparse.zeros("csr", (2,)), "cannot be csr"),
        (lambda: nd.ones((2,)).tostype("csr"), "two axes"),
        (lambda: nd.ones((2,)).tostype("coo"), "stype must be"),
        (lambda: matrix().tostype("row_sparse"), "cast_storage from csr to row_sparse is not supported"),
        (lambda: matrix()[1, 1], "Multi-dimension"),
        (lambda: matrix()[::2], "continuous"),
        (lambda: matrix()[4], "out of bounds"),
        (lambda: rows()[0], "only supports"),
        (lambda: matrix().__setitem__(slice(0, 2), 1), "not implemented"),
        (lambda: nd.dot(matrix(), nd.ones((4, 1))), "3 rows are needed"),
        (lambda: nd.dot(matrix(), nd.ones((3, 1), dtype="float64")), "one dtype"),
        (lambda: nd.sparse.retain(rows(), nd.array([7])).asnumpy(), "7"),
        (lambda: nd.sparse.no_such_thing, "no operator"),
    ],
    ids=range(24),
)
def test_mistakes_are_named(make: object, message: str) -> None:
    with pytest.raises((ValueError, MXNetError, IndexError, AttributeError), match=message):
        make()  # type: ignore[operator]


def test_reshape_is_refused_as_in_mxnet() -> None:
    with pytest.raises(NotSupportedForSparseNDArray, match="not supported for SparseNDArray"):
        matrix().reshape((-1,))


UNARY = {
    "csr": (
        "abs arcsin arcsinh arctan arctanh cbrt ceil degrees expm1 fix floor log1p negative radians relu rint round "
        "sign sin sinh sqrt square tan tanh trunc zeros_like BlockGrad make_loss identity"
    ),
    "default": "arccos arccosh cos cosh exp gamma gammaln log rsqrt sigmoid ones_like norm sum mean",
}


@pytest.mark.parametrize(("name", "kept"), [(n, kind == "csr") for kind, all_ in UNARY.items() for n in all_.split()])
@pytest.mark.parametrize("short", ["c", "r"])
def test_functions_of_one_array(name: str, kept: bool, short: str) -> None:
    x = kinds()[short]
    result = getattr(nd, name)(x)
    assert result.stype == (x.stype if kept else "default")
    np.testing.assert_array_equal(result.asnumpy(), getattr(nd, name)(nd.array(x.asnumpy())).asnumpy())


# what MXNet 1.9.1 returns for pairs of (csr, row_sparse, dense); dense wherever a pair is not named
BINARY = {
    "elemwise_add": "cc=c rr=r",
    "elemwise_sub": "cc=c rr=r",
    "elemwise_mul": "cc=c cd=c rr=r rd=r dc=c dr=r",
    "elemwise_div": "",
    "broadcast_add": "",
    "broadcast_mul": "cd=c",
    "broadcast_div": "cd=c",
    "maximum": "",
}


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("pair", ["cc", "cr", "cd", "rc", "rr", "rd", "dc", "dr"])
def test_functions_of_two_arrays(name: str, pair: str) -> None:
    left, right = kinds()[pair[0]], kinds()[pair[1]] + 0
    result = getattr(nd, name)(left, right)
    sparse = dict(item.split("=") for item in BINARY[name].split())
    assert result.stype == SHORT[sparse.get(pair, "d")]
    expected = getattr(nd, name)(nd.array(left.asnumpy()), nd.array(right.asnumpy()))
    np.testing.assert_array_equal(result.asnumpy(), expected.asnumpy())


PYTHON = {
    "add": "cc=c c0=c rr=r r0=r",
    "sub": "cc=c c0=c rr=r r0=r",
    "mul": "cc=c cd=c c2=c c0=c rr=r rd=r r2=r r0=r",
    "truediv": "cd=c c2=c c0=c r2=r r0=r",
    "pow": "",
    "gt": "c2=c c0=c r2=r r0=r",
    "eq": "c2=c r2=r",
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", PYTHON)
@pytest.mark.parametrize("pair", ["cc", "cr", "cd", "c2", "c0", "rc", "rr", "rd", "r2", "r0"])
def test_python_operators(name: str, pair: str) -> None:
    left = kinds()[pair[0]]
    right = float(pair[1]) if pair[1].isdigit() else kinds()[pair[1]]
    result = getattr(operator, name)(left, right)
    sparse = dict(item.split("=") for item in PYTHON[name].split())
    assert result.stype == SHORT[sparse.get(pair, "d")]
    plain = right if isinstance(right, float) else nd.array(right.asnumpy())
    expected = getattr(operator, name)(nd.array(left.asnumpy()), plain)
    np.testing.assert_array_equal(result.asnumpy(), expected.asnumpy())


def test_other_results() -> None:
    c, r = kinds()["c"], kinds()["r"]
    assert [nd.add_n(r, r).stype, nd.add_n(c, c).stype] == ["row_sparse", "default"]
    assert [nd.concat(c, c, dim=0).stype, nd.concat(c, c, dim=1).stype] == ["csr", "default"]
    assert [nd.slice(c, begin=(1,), end=(3,)).stype, nd.slice(c, begin=(1, 1), end=(3, 2)).stype] == ["csr", "csr"]
    assert [nd.take(c, nd.array([1, 0])).stype, nd.take(r, nd.array([1, 0])).stype] == ["csr", "default"]
    assert [(2 - r).stype, (-r).stype, abs(c).stype, nd.clip(c, -1, 1).stype] == ["default", "row_sparse", "csr", "csr"]
    assert nd.sparse.add(c, c).stype == "csr"
    assert nd.sparse.multiply(r, r).stype == "row_sparse"


def test_rows_of_a_matrix() -> None:
    x = matrix()
    for key in (0, -1, slice(1, 3), slice(None), slice(2, 2)):
        part = x[key]
        assert part.stype == "csr"
        np.testing.assert_array_equal(part.asnumpy(), MATRIX[[key]] if isinstance(key, int) else MATRIX[key])
    assert [row.asnumpy().ravel().tolist() for row in x] == MATRIX.tolist()


@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize("pair", ["cd", "dc", "cr", "cc"])
def test_products(pair: str, transpose_a: bool, transpose_b: bool) -> None:
    generator = np.random.default_rng(3)
    left = generator.normal(size=(4, 5) if transpose_a else (5, 4)) * (
        generator.random((4, 5) if transpose_a else (5, 4)) < 0.4
    )
    right = generator.normal(size=(3, 4) if transpose_b else (4, 3)) * (
        generator.random((3, 4) if transpose_b else (4, 3)) < 0.4
    )
    arrays = [nd.array(values, dtype="float64").tostype(SHORT[kind]) for values, kind in zip((left, right), pair)]
    result = nd.dot(*arrays, transpose_a=transpose_a, transpose_b=transpose_b)
    np.testing.assert_allclose(
        result.asnumpy(), (left.T if transpose_a else left) @ (right.T if transpose_b else right), atol=1e-12
    )
    assert (
        result.stype
        == {"cd": ["default", "row_sparse"], "cr": ["default", "row_sparse"]}.get(
            pair, ["csr", "csr"] if pair == "dc" else ["default", "default"]
        )[transpose_a]
    )


def test_a_product_never_makes_the_whole_matrix() -> None:
    wide = nd.sparse.csr_matrix(([1.0, 2.0, 4.0], [5, 7, 999_999], [0, 2, 3]), shape=(2, 1_000_000))
    weight = nd.ones((1_000_000, 1))
    weight.attach_grad(stype="row_sparse")
    with autograd.record():
        loss = nd.dot(wide, weight).sum()
    loss.backward()
    assert loss.asscalar() == 7
    assert wide._buffer is None
    assert weight.grad.indices.asnumpy().tolist() == [5, 7, 999_999]
    assert weight.grad.data.asnumpy().ravel().tolist() == [1, 2, 4]


def test_writing() -> None:
    x, y = rows(), matrix()
    x[:] = 2
    assert x.asnumpy().tolist() == np.full((6, 2), 2).tolist()
    assert x.indices.asnumpy().tolist() == list(range(6))
    y[:] = y * 2
    assert y.data.asnumpy().tolist() == [2, 4, 6]
    y += y
    assert y.stype == "csr"
    assert y.data.asnumpy().tolist() == [4, 8, 12]
    target = nd.zeros((4, 3))
    y.copyto(target)
    np.testing.assert_array_equal(target.asnumpy(), MATRIX * 4)
    nd.ones((4, 3)).copyto(y)
    assert y.indptr.asnumpy().tolist() == [0, 3, 6, 9, 12]
    nd.elemwise_add(matrix(), matrix(), out=y)
    assert y.data.asnumpy().tolist() == [2, 4, 6]


def test_retained_rows() -> None:
    kept = nd.sparse.retain(rows(), nd.array([4, 0]))
    assert kept.stype == "row_sparse"
    assert kept.indices.asnumpy().tolist() == [4]
    assert rows().retain([1]).data.asnumpy().tolist() == [[1, 2]]


@pytest.mark.parametrize("make", [matrix, rows])
def test_copies(make: object) -> None:
    x: BaseSparseNDArray = make()  # type: ignore[operator]
    for y in (
        x.copy(),
        copy.copy(x),
        copy.deepcopy(x),
        pickle.loads(pickle.dumps(x)),
        x.as_in_context(mx.cpu(1)),
        x.detach(),
    ):
        assert type(y) is type(x)
        np.testing.assert_array_equal(y.asnumpy(), x.asnumpy())
    assert x.as_in_context(mx.cpu(1)).context == mx.cpu(1)
    changed = x.copy()
    changed[:] = 0
    assert x.asnumpy().any()


def test_files(tmp_path: object) -> None:
    path = f"{tmp_path}/sparse.params"
    nd.save(path, {"c": matrix(), "r": rows(), "d": nd.ones((2,))})
    loaded = nd.load(path)
    assert {name: array.stype for name, array in loaded.items()} == {"c": "csr", "r": "row_sparse", "d": "default"}
    np.testing.assert_array_equal(loaded["c"].asnumpy(), MATRIX)
    assert loaded["r"].indices.asnumpy().tolist() == [1, 4]


# -- gradients


@pytest.mark.parametrize("stype", ["csr", "row_sparse", "default"])
@pytest.mark.parametrize("name", ["exp", "square", "sqrt", "tanh", "sin", "abs"])
def test_gradients_of_functions(stype: str, name: str) -> None:
    values = np.random.default_rng(0).uniform(0.5, 1.0, (4, 5)).astype(np.float32)
    x = nd.array(values).tostype(stype)
    x.attach_grad()
    assert x.grad.stype == stype
    assert not x.grad.asnumpy().any()
    with autograd.record():
        y = getattr(nd, name)(x)
    y.backward()
    plain = nd.array(values)
    plain.attach_grad()
    with autograd.record():
        y = getattr(nd, name)(plain)
    y.backward()
    assert x.grad.stype == stype
    np.testing.assert_array_equal(x.grad.asnumpy(), plain.grad.asnumpy())


@pytest.mark.parametrize("left", ["c", "r", "d"])
@pytest.mark.parametrize("right", ["c", "r", "d"])
@pytest.mark.parametrize("word", ["add", "mul"])
def test_gradients_of_two(left: str, right: str, word: str) -> None:
    x, y = kinds()[left] * 2, kinds()[right] * 3
    gradients = autograd.grad
    for array in (x, y):
        array.attach_grad()
    with autograd.record():
        z = getattr(operator, word)(x, y)
    dx, dy = gradients(z, [x, y], retain_graph=True)
    z.backward()
    expected = (y.asnumpy(), x.asnumpy()) if word == "mul" else (np.ones((4, 3)),) * 2
    for found, array, wanted in zip((dx, dy), (x, y), expected):
        np.testing.assert_array_equal(found.asnumpy(), wanted)
        np.testing.assert_array_equal(array.grad.asnumpy(), wanted)
        assert array.grad.stype == array.stype


def test_second_derivatives() -> None:
    x = nd.array(np.eye(3)).tostype("csr")
    x.attach_grad()
    with autograd.record():
        y = x * x * x
        (first,) = autograd.grad(y, [x], create_graph=True)
    first.backward()
    np.testing.assert_array_equal(x.grad.asnumpy(), 6 * np.eye(3))


def test_storage_changes_inside_a_record() -> None:
    x = nd.array(np.eye(3))
    x.attach_grad()
    with autograd.record():
        y = x.tostype("csr")
        z = y * 2
    assert [y.stype, z.stype] == ["csr", "csr"]
    z.backward()
    assert x.grad.stype == "default"
    assert (x.grad.asnumpy() == 2).all()

    x = nd.array(np.eye(3)).tostype("csr")
    x.attach_grad()
    with autograd.record():
        z = x.tostype("default") * x.tostype("default")
    z.backward()
    np.testing.assert_array_equal(x.grad.asnumpy(), 2 * np.eye(3))
    with autograd.record():
        z = x[0:2]
    z.backward()
    assert x.grad.asnumpy().tolist() == [[1, 1, 1], [1, 1, 1], [0, 0, 0]]
    with autograd.record():
        z = nd.dot(x, nd.ones((3, 2)))
    z.backward()
    assert (x.grad.asnumpy() == 2).all()


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("stype", ["row_sparse", "default"])
def test_gradients_of_sparse_weights_behind_a_stored_matrix(stype: str, transposed: bool) -> None:
    x = matrix()
    weight = nd.array(np.arange(6 if not transposed else 8).reshape(-1, 2)).tostype("row_sparse")
    weight.attach_grad(stype=stype)
    with autograd.record():
        y = nd.sparse.dot(x, weight, transpose_a=transposed)
        loss = (y * y).sum()
    loss.backward()
    left = MATRIX.T if transposed else MATRIX
    assert weight.grad.stype == stype
    np.testing.assert_allclose(weight.grad.asnumpy(), 2 * left.T @ (left @ weight.asnumpy()))


def test_gradients_of_an_embedding_are_rows() -> None:
    table = nd.ones((5, 2))
    table.attach_grad(stype="row_sparse")
    with autograd.record():
        y = nd.Embedding(nd.array([1, 3, 1]), table, 5, 2, sparse_grad=True)
    y.backward()
    assert table.grad.indices.asnumpy().tolist() == [1, 3]
    assert table.grad.data.asnumpy().tolist() == [[2, 2], [1, 1]]


@pytest.mark.parametrize("name", ["sgd", "adam"])
@pytest.mark.parametrize("lazy", [True, False])
def test_lazy_updates_leave_other_rows_alone(name: str, lazy: bool) -> None:
    options = {"learning_rate": 0.1, "wd": 0.1, "lazy_update": lazy, **({"momentum": 0.9} if name == "sgd" else {})}
    layer = mx.gluon.nn.Embedding(6, 3, sparse_grad=True)
    layer.initialize(mx.init.One())
    trainer = mx.gluon.Trainer(layer.collect_params(), name, options)
    for step in range(4):
        with autograd.record():
            loss = layer(nd.array([1, 4] if step == 0 else [1])).sum()
        loss.backward()
        assert layer.weight.grad().stype == "row_sparse"
        trainer.step(1)
    changed = (layer.weight.data().asnumpy() != 1).any(1)
    assert changed.tolist() == ([False, True, False, False, True, False] if lazy else [True] * 6)


@pytest.mark.parametrize(
    ("name", "options", "stype", "lazy"),
    [
        ("ftrl", {}, "row_sparse", True),
        ("ftrl", {}, "default", False),
        ("nag", {"wd": 0.1}, "default", True),
        ("nag", {"wd": 0.1, "momentum": 0.9}, "default", False),
    ],
)
def test_which_updates_leave_other_rows_alone(name: str, options: dict[str, Any], stype: str, lazy: bool) -> None:
    updater = mx.optimizer.get_updater(mx.optimizer.create(name, learning_rate=0.1, **options))
    weight = nd.full((4, 2), 0.5).tostype(stype)
    for _ in range(2):
        updater(0, nd.sparse.row_sparse_array((np.ones((2, 2), "float32"), [1, 3]), shape=(4, 2)), weight)
    changed = (weight.asnumpy() != 0.5).any(1)
    assert changed.tolist() == ([False, True, False, True] if lazy else [True] * 4)


def test_random_sparse_arrays() -> None:
    for stype in ("csr", "row_sparse"):
        x = mx.test_utils.rand_ndarray((20, 10), stype, density=0.3)
        assert x.stype == stype
        assert 0 < (x.asnumpy() != 0).sum() < 200
    x, (indptr, indices, data) = mx.test_utils.rand_sparse_ndarray((5, 4), "csr", density=1.0)
    assert data.shape == (20,)
    assert indptr.shape == (6,)
    assert indices.shape == (20,)


def test_inside_a_compiled_function() -> None:
    weight = nd.ones((3, 2))
    product = mx.compile(lambda x: nd.dot(x, weight) * 2)
    for _ in range(3):
        np.testing.assert_array_equal(product(matrix()).asnumpy(), MATRIX @ np.ones((3, 2)) * 2)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, w: x.tostype("default") * w,
        lambda x, w: x.detach() * w,
        lambda x, w: nd.sparse.add(x, x) * w,
        lambda x, w: nd.sparse.sgd_update(w, x, lr=0.5),
        lambda x, w: x.indices + 0 * w[0, 0].astype("int64"),
        lambda x, w: x.data * w[0, 0],
    ],
)
@pytest.mark.filterwarnings("ignore:.*is called each time")
def test_values_of_each_call_of_a_compiled_function(function: Any) -> None:
    holder = nd.sparse.zeros("row_sparse", (3, 2))
    weight = nd.ones((3, 2))
    compiled = mx.compile(lambda w: function(holder, w))
    for row in (0, 1, 2, 0):
        holder[:] = nd.sparse.row_sparse_array((np.full((1, 2), row + 1, "float32"), [row]), shape=(3, 2))
        # a copy that was stored by rows, and one that was not
        holder.indices.wait_to_read()
        assert compiled(weight).asnumpy().tolist() == function(holder, weight).asnumpy().tolist()
