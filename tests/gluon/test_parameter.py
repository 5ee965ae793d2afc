"""Parameters: when their arrays are made, what they are, and how they are shared."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import phonograd as mx
from phonograd import autograd, gluon, nd
from phonograd.gluon import nn


def ready(**kwargs: Any) -> gluon.Parameter:
    parameter = gluon.Parameter("a_weight", shape=(2, 3), **kwargs)
    parameter.initialize("ones")
    return parameter


def test_not_initialized() -> None:
    parameter = gluon.Parameter("a_weight", shape=(2, 3))
    with pytest.raises(RuntimeError, match=r"Parameter 'a_weight' has not been initialized\. Note that"):
        parameter.data()
    with pytest.raises(RuntimeError, match="has not been initialized"):
        parameter.list_ctx()
    with pytest.raises(AssertionError, match="has not been initialized"):
        parameter.set_data(nd.ones((2, 3)))
    with pytest.raises(ValueError, match="Cannot reset context"):
        parameter.reset_ctx(mx.cpu())


def test_unknown_shapes() -> None:
    with pytest.raises(ValueError, match="because it has invalid shape"):
        gluon.Parameter("a_weight", shape=(2, 0)).initialize()
    parameter = gluon.Parameter("a_weight", shape=(2, 0), allow_deferred_init=True)
    parameter.initialize("ones", ctx=mx.cpu(1))
    with pytest.raises(gluon.DeferredInitializationError, match="initialization was deferred"):
        parameter.data()
    assert parameter.list_ctx() == [mx.cpu(1)]
    parameter.shape = (2, 4)
    parameter._finish_deferred_init()
    assert parameter.data().shape == (2, 4)
    with pytest.raises(AssertionError, match="incompatible with given shape"):
        parameter.shape = (2, 5)


def test_values_given_before_the_shape() -> None:
    net = nn.Dense(2)
    net.initialize()
    net.weight.set_data(nd.full((2, 3), 4))
    net(nd.ones((1, 3)))
    assert net.weight.data().asnumpy().tolist() == [[4] * 3] * 2


def test_initialized_twice() -> None:
    parameter = ready()
    with pytest.warns(UserWarning, match="already initialized, ignoring"):
        parameter.initialize("zeros")
    assert parameter.data().asnumpy().sum() == 6
    parameter.initialize("zeros", force_reinit=True)
    assert parameter.data().asnumpy().sum() == 0


def test_own_initializer_comes_first() -> None:
    parameter = gluon.Parameter("a_weight", shape=(2,), init="zeros")
    parameter.initialize(default_init=mx.init.One())
    assert parameter.data().asnumpy().tolist() == [0, 0]
    other = gluon.Parameter("a_bias", shape=(2,))
    # for a network's initialiser, the end of the name decides nothing if it is given as the initialiser
    other.initialize(default_init=mx.init.One())
    assert other.data().asnumpy().tolist() == [1, 1]


def test_gradients() -> None:
    parameter = ready()
    for _ in range(2):
        with autograd.record():
            y = (parameter.data() * 3).sum()
        y.backward()
    assert parameter.grad().asnumpy().tolist() == [[3] * 3] * 2
    parameter.zero_grad()
    assert parameter.grad().asnumpy().sum() == 0
    parameter.grad_req = "add"
    for _ in range(2):
        with autograd.record():
            y = (parameter.data() * 3).sum()
        y.backward()
    assert parameter.grad().asnumpy().tolist() == [[6] * 3] * 2


def test_no_gradients() -> None:
    parameter = ready()
    parameter.grad_req = "null"
    with pytest.raises(RuntimeError, match="because grad_req='null'"):
        parameter.grad()
    with autograd.record():
        y = (parameter.data() * 3).sum()
    with pytest.raises(mx.MXNetError):
        y.backward()
    parameter.grad_req = "write"
    assert parameter.grad().shape == (2, 3)
    fixed = ready(differentiable=False)
    fixed.grad_req = "write"
    assert fixed.grad_req == "null"
    with pytest.raises(AssertionError, match="grad_req must be one of"):
        parameter.grad_req = "sometimes"


def test_contexts() -> None:
    parameter = gluon.Parameter("a_weight", shape=(2,))
    parameter.initialize("ones", ctx=[mx.cpu(0), mx.cpu(1)])
    assert [array.context for array in parameter.list_data()] == [mx.cpu(0), mx.cpu(1)]
    assert parameter.data(mx.cpu(1)).context == mx.cpu(1)
    assert parameter.data().context == mx.cpu(0)
    with mx.cpu(1):
        assert parameter.grad().context == mx.cpu(1)
    with pytest.raises(RuntimeError, match="was not initialized on context cpu"):
        parameter.data(mx.cpu(2))
    parameter.data(mx.cpu(1))[:] = 3
    parameter.reset_ctx(mx.cpu(2))
    assert parameter.data().asnumpy().tolist() == [2, 2]
    assert parameter.list_ctx() == [mx.cpu(2)]


def test_unknown_dtypes_are_refused_at_once() -> None:
    with pytest.raises(
        TypeError, match=r"Parameter 'weight' cannot be cast: data type 'float8' not understood; use one of"
    ):
        gluon.Parameter("weight", shape=(2, 3)).cast("float8")


def test_cast() -> None:
    parameter = ready()
    parameter.cast("float64")
    assert parameter.data().dtype == parameter.grad().dtype == np.float64
    with autograd.record():
        y = parameter.data().sum()
    y.backward()
    assert parameter.grad().asnumpy().sum() == 6


def test_set_data_is_in_place() -> None:
    parameter = ready()
    data = parameter.data()
    parameter.set_data(nd.full((2, 3), 5, dtype="float64"))
    assert data.asnumpy().sum() == 30
    assert data.dtype == np.float32
    parameter.set_data(np.zeros((2, 3)))
    assert data.asnumpy().sum() == 0


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda p: pickle.loads(pickle.dumps(p))])
def test_copies_can_be_trained(duplicate: Any) -> None:
    other = duplicate(ready())
    with autograd.record():
        y = (other.data() * 2).sum()
    y.backward()
    assert other.grad().asnumpy().sum() == 12


def test_constant() -> None:
    block = nn.HybridSequential(prefix="net_")
    constant = block.params.get_constant("two", [[2.0, 3.0]])
    assert repr(constant) == "Constant net_two (shape=(1, 2), dtype=<class 'numpy.float32'>)"
    constant.initialize()
    assert constant.data().asnumpy().tolist() == [[2, 3]]
    with pytest.warns(UserWarning, match="does not support grad_req"):
        constant.grad_req = "write"
    assert block.params.get_constant("two", np.array([[2.0, 3.0]])) is constant
    with pytest.raises(AssertionError, match="value doesn't match"):
        block.params.get_constant("two", np.array([[2.0, 4.0]]))
    with pytest.raises(KeyError, match="No constant named"):
        block.params.get_constant("three")


# -- dictionaries


def test_get_makes_or_finds() -> None:
    params = gluon.ParameterDict("net_")
    weight = params.get("weight", shape=(2, 0), allow_deferred_init=True)
    assert weight.name == "net_weight"
    assert params.get("weight", shape=(0, 3)) is weight
    assert weight.shape == (2, 3)
    with pytest.raises(AssertionError, match="desired '\\(2, 4\\)' vs stored '\\(2, 3\\)'"):
        params.get("weight", shape=(2, 4))
    assert params.get("weight", dtype="float32") is weight
    assert params["net_weight"] is weight
    assert "net_weight" in params
    assert list(params) == ["net_weight"]
    assert len(params) == 1


def test_shared_dictionaries() -> None:
    source = gluon.ParameterDict("net_")
    weight = source.get("weight", shape=(2,))
    target = gluon.ParameterDict("net_", shared=source)
    assert target.get("weight") is weight
    assert target.get("bias", shape=(2,)).name == "net_bias"
    assert list(source) == ["net_weight"]


def test_update() -> None:
    one, other = gluon.ParameterDict(), gluon.ParameterDict()
    one.get("a", shape=(1,))
    other.get("b", shape=(1,))
    one.update(other)
    assert list(one) == ["a", "b"]
    stranger = gluon.ParameterDict()
    stranger.get("a", shape=(1,))
    with pytest.raises(AssertionError, match="different Parameters with the same name 'a'"):
        one.update(stranger)


def test_all_at_once() -> None:
    net = nn.Dense(2, in_units=3)
    params = net.collect_params()
    params.initialize(mx.init.One(), ctx=[mx.cpu(0), mx.cpu(1)])
    assert params.list_ctx() == [mx.cpu(0), mx.cpu(1)]
    params.reset_ctx(mx.cpu(1))
    assert params.list_ctx() == [mx.cpu(1)]
    params.setattr("grad_req", "add")
    assert net.bias is not None
    assert net.bias.grad_req == "add"
    with autograd.record():
        y = net(nd.ones((1, 3), ctx=mx.cpu(1))).sum()
    y.backward()
    params.zero_grad()
    assert net.weight.grad().asnumpy().sum() == 0


def test_sparse_storage_is_dense() -> None:
    embedding = gluon.contrib.nn.SparseEmbedding(4, 2)
    embedding.initialize("ones")
    with autograd.record():
        y = embedding(nd.array([0, 0, 3])).sum()
    y.backward()
    rows = nd.array([0, 1, 2, 3])
    assert embedding.weight.list_grad()[0].asnumpy().tolist() == [[2, 2], [0, 0], [0, 0], [1, 1]]
    assert embedding.weight.row_sparse_data(rows).shape == (4, 2)
    with pytest.raises(RuntimeError, match="Please use row_sparse_data"):
        embedding.weight.data()
    with pytest.raises(RuntimeError, match="Please use data"):
        nn.Dense(2, in_units=2).weight.row_sparse_data(rows)


def test_row_sparse_parameters(tmp_path: Any) -> None:
    params = gluon.ParameterDict("p_")
    weight = params.get("w", shape=(4, 2), stype="row_sparse", grad_stype="row_sparse", init="ones")
    params.initialize()
    rows = nd.arange(4)
    assert weight.row_sparse_data(rows).stype == "row_sparse"
    trainer = gluon.Trainer(params, "ftrl", {"learning_rate": 0.1})
    x = nd.sparse.csr_matrix(([1.0, 2.0, 1.0], [1, 3, 3], [0, 2, 3]), shape=(2, 4))
    for _ in range(2):
        with autograd.record():
            loss = (nd.sparse.dot(x, weight.row_sparse_data(x.indices)) ** 2).sum()
        loss.backward()
        trainer.step(1)
    found = weight.row_sparse_data(rows)
    assert found.stype == "row_sparse"
    assert (found.asnumpy() != 1).any(1).tolist() == [False, True, False, True]
    params.save(str(tmp_path / "w.params"))
    loaded = nd.load(str(tmp_path / "w.params"))
    assert isinstance(loaded, dict)
    assert loaded["p_w"].stype == "row_sparse"
    for stype in ("row_sparse", "default"):
        others = gluon.ParameterDict("p_")
        other = others.get("w", shape=(4, 2), stype=stype)
        others.load(str(tmp_path / "w.params"))
        array = other.data() if stype == "default" else other.row_sparse_data(rows)
        assert array.stype == stype
        assert array.asnumpy().tolist() == found.asnumpy().tolist()


def test_a_hybridized_block_uses_the_array_that_replaces_that_of_a_parameter() -> None:
    # MXFusion computes the weights of a block; real MXNet gives the same numbers
    net = gluon.nn.Dense(1, use_bias=False, in_units=2)
    net.initialize()
    net.hybridize()
    x, weights = nd.array([[1.0, 2.0]]), nd.array([[[1.0, 0.0]], [[0.0, 1.0]], [[3.0, -1.0]]])
    found = []
    for number in range(3):
        net.weight._data[0] = weights[number]
        found.append(net(x).asscalar())
    assert found == [1.0, 2.0, 1.0]
