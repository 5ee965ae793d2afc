"""Calls that look at values, namespaces beside the registry's, and methods that only other objects have."""

import pytest

import phonograd as mx
from phonograd import nd, sym
from phonograd.base import NotImplementedForSymbol
from phonograd.core.base.errors import MXNetError

X, B = sym.var("x"), sym.var("b")
DATA = nd.array([0.1, 0.5, 0.6, 2, 1.0])


class TestHistogram:
    def test_of_bins_of_equal_width(self):
        symbol = sym.histogram(X, bins=3, range=(0, 1), name="h")
        assert symbol.list_outputs() == ["h_output0", "h_output1"]
        assert symbol.infer_shape(x=(5,)) == ([(5,)], [(3,), (4,)], [])
        assert [kind.__name__ for kind in symbol.infer_type(x="float32")[1]] == ["int64", "float32"]
        counts, edges = sym.load_json(symbol.tojson()).eval(x=DATA)
        assert counts.asnumpy().tolist() == [1, 2, 1]
        assert edges.asnumpy().tolist() == pytest.approx([0, 1 / 3, 2 / 3, 1])
        assert symbol.attr_dict() == {"h": {"bin_cnt": "3", "range": "(0, 1)"}}

    def test_of_given_edges(self):
        symbol = sym.histogram(X, bins=B)
        assert symbol.infer_shape(x=(5,), b=(4,))[1] == [(3,), (4,)]
        counts, _ = symbol.eval(x=DATA, b=nd.array([0, 0.5, 1, 3]))
        assert counts.asnumpy().tolist() == [1, 2, 2]

    def test_in_the_middle_of_a_graph(self):
        counts = sym.histogram(X * 2, bins=2, range=(0, 4))[0]
        assert (counts + 1).eval(x=DATA)[0].asnumpy().tolist() == [4, 3]

    def test_mistakes(self):
        with pytest.raises(ValueError, match="null range is not supported in symbol mode"):
            sym.histogram(X, bins=3)
        with pytest.raises(ValueError, match="either an integer or an NDArray"):
            sym.histogram(X, bins="three")
        text = sym.histogram(X, bins=3, range=(0, 1)).tojson()
        with pytest.raises(MXNetError, match="3 bins need two ends"):
            sym.load_json(text.replace('"(0, 1)"', '"(0)"'))
        with pytest.raises(MXNetError, match="Invalid Parameter format for range expect float but value=' one'"):
            sym.load_json(text.replace('"(0, 1)"', '"(0, one)"'))


class TestBooleanMask:
    data, mask = nd.array([[1, 2], [3, 4], [5, 6]]), nd.array([0, 1, 1])

    def test_values_and_gradient(self):
        symbol = sym.contrib.boolean_mask(X * 2, B, name="chosen")
        executor = symbol.bind(mx.cpu(), [self.data, self.mask], [nd.zeros((3, 2)), nd.zeros((3,))])
        assert executor.forward(is_train=True)[0].asnumpy().tolist() == [[6, 8], [10, 12]]
        executor.backward(nd.array([[1, 2], [3, 4]]))
        assert executor.grad_dict["x"].asnumpy().tolist() == [[0, 0], [2, 4], [6, 8]]

    def test_what_is_known_before(self):
        symbol = sym.contrib.boolean_mask(X, B)
        assert symbol.infer_shape_partial(x=(3, 2)) == ([(3, 2), (3,)], [()], [])
        assert symbol.infer_shape(x=(3, 2)) == (None, None, None)
        assert symbol.infer_type(x="float64", b="float32")[1][0].__name__ == "float64"

    def test_another_axis(self):
        symbol = sym.load_json(sym.contrib.boolean_mask(X, B, axis=1).tojson())
        assert symbol.eval(x=self.data, b=nd.array([0, 1]))[0].asnumpy().tolist() == [[2], [4], [6]]


class TestNamespaces:
    def test_sparse_operators_are_those_of_whole_arrays(self):
        assert sym.sparse.dot(X, B).name.startswith("dot")
        kept = sym.sparse.retain(X, B)
        assert kept.eval(x=nd.array([[1, 2], [3, 4]]), b=nd.array([1]))[0].asnumpy().tolist() == [[0, 0], [3, 4]]
        same = sym.sparse.cast_storage(X, stype="csr")
        assert sym.load_json(same.tojson()).eval(x=nd.ones((1, 2)))[0].asnumpy().tolist() == [[1, 1]]
        with pytest.raises(AttributeError, match="has no operator 'nope'"):
            _ = sym.sparse.nope

    def test_images(self):
        tensor = sym.image.to_tensor(X, name="t")
        assert tensor.infer_shape(x=(8, 6, 3))[1] == [(3, 8, 6)]
        assert "resize" in dir(sym.image)

    def test_storage_types_of_variables_are_written(self):
        assert sym.var("x", stype="csr").list_attr() == {"__storage_type__": "2"}
        with pytest.raises(MXNetError, match="unknown storage type 'nope'"):
            sym.var("x", stype="nope")


class TestMethods:
    def test_those_of_arrays_are_refused(self):
        for name in ("asnumpy", "asscalar", "wait_to_read", "backward", "copy", "detach", "as_in_context"):
            with pytest.raises(NotImplementedForSymbol, match=f"Function {name} is not implemented for Symbol"):
                getattr(X, name)()
        with pytest.raises(NotImplementedForSymbol, match=r"namely operator \"bool\""):
            bool(X)

    def test_those_of_other_backends(self):
        assert X.optimize_for("MKLDNN") is X
        with pytest.raises(MXNetError, match="unknown backend 'TensorRT'"):
            X.get_backend_symbol("TensorRT")
        assert X.as_np_ndarray().as_nd_ndarray().list_arguments() == X.list_arguments()

    def test_gradient_says_what_to_do(self):
        with pytest.raises(MXNetError, match=r"bind the symbol .* autograd\.get_symbol"):
            X.gradient(["x"])


def test_attributes_are_texts():
    with pytest.raises(ValueError, match="Set Attr only accepts string values"):
        sym.var("x", attr={"a": 1})
    assert sym.var("x", shape=3).infer_shape() == ([(3,)], [(3,)], [])
    assert sym.var("x", shape=[3, 4]).list_attr() == {"__shape__": "[3, 4]"}


def test_names_of_powers():
    with mx.name.NameManager():
        assert [sym.pow(2, X).name, (2**X).name] == ["_rpowerscalar0", "_rpower_scalar0"]


def test_a_state_that_is_computed_is_not_copied():
    outputs, _ = sym.contrib.foreach(lambda x, s: (x * 2, x + s), X, B)
    assert outputs.tojson().count('"_copy"') == 0
    outputs, _ = sym.contrib.foreach(lambda x, s: (x + s,) * 2, X, B)
    assert outputs.tojson().count('"_copy"') == 1
