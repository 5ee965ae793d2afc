"""Keywords that are no parameters: operators without parameters ignore them, others refuse them, as in MXNet."""

import numpy as np
import pytest

import phonograd as mx

A, B = mx.nd.array([[1.0, 2.0], [3.0, 4.0]]), mx.nd.array([[2.0, 3.0], [4.0, 5.0]])


@pytest.mark.parametrize(
    "call",
    [
        lambda: mx.nd.zeros_like(A, dtype="int32"),
        lambda: A.zeros_like(dtype="int32"),
        lambda: mx.nd.broadcast_sub(A, A, axis=-1),
        lambda: mx.nd.elemwise_sub(A, A, axis=1),
        lambda: mx.nd.relu(-A, unknown=2),
        lambda: mx.nd.Flatten(A - A, unknown=1),
    ],
)
def test_operators_without_parameters_ignore_keywords(call):
    result = call()
    assert result.dtype is np.float32
    assert (result.asnumpy() == 0).all()


@pytest.mark.parametrize("name", ["softmax", "sum", "dot", "add_n", "smooth_l1", "reshape_like"])
def test_operators_with_parameters_refuse_keywords(name):
    inputs = [A, B] if name in ("dot", "add_n", "reshape_like") else [A]
    with pytest.raises(mx.MXNetError, match="Cannot find argument 'unknown'"):
        getattr(mx.nd, name)(*inputs, unknown=1)


def test_symbols_take_hidden_keys():
    symbol = mx.sym.FullyConnected(
        mx.sym.var("x"), num_hidden=3, name="fc", lr_mult=2.0, wd_mult=0, ctx_group="dev1", mirror_stage=3, __k__="v"
    )
    attributes = symbol.attr_dict()["fc"]
    assert {
        key: attributes[key] for key in ("__lr_mult__", "lr_mult", "__ctx_group__", "__mirror_stage__", "__k__")
    } == {
        "__lr_mult__": "2.0",
        "lr_mult": "2.0",
        "__ctx_group__": "dev1",
        "__mirror_stage__": "3",
        "__k__": "v",
    }
    assert symbol.attr_dict()["fc_weight"]["__lr_mult__"] == "2.0"
    with pytest.raises(mx.MXNetError, match="Cannot find argument 'unknown'"):
        mx.sym.FullyConnected(mx.sym.var("x"), num_hidden=3, unknown=1)
    assert mx.sym.zeros_like(mx.sym.var("x"), dtype="int32").eval(x=A)[0].dtype is np.float32


def test_attributes_of_operators_may_have_any_value():
    symbol = mx.sym.FullyConnected(
        mx.sym.var("x"), num_hidden=3, name="fc", attr={"__init__": mx.init.One(), "lr_mult": "3"}
    )
    assert symbol.attr_dict()["fc"]["__init__"] == mx.init.One().dumps()
