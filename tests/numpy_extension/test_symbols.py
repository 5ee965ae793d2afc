"""Blocks that use F.np and F.npx are exported, and files of either library are read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as onp
import pytest

import phonograd as mx
from phonograd import gluon, np, npx
from phonograd.gluon import nn

EXPORTED = Path(__file__).parent / "exported"
pytestmark = pytest.mark.usefixtures("semantics")


class Net(nn.HybridBlock):
    """Everything that a block does with F."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.hidden = nn.Dense(4)
        self.output = nn.Dense(3, flatten=False)
        self.factor = self.params.get("factor", shape=(4,), init="ones")

    def hybrid_forward(self, F: Any, x: Any, factor: Any) -> Any:
        h = F.npx.relu(self.hidden(x)) * factor + 1.0
        h = F.np.tanh(h) - h.mean(axis=1, keepdims=True)
        h = F.np.concatenate([h, h / 2], axis=1)
        h = F.np.expand_dims(h, 1).reshape(-1, 2, 4)
        h = h.transpose(0, 2, 1)
        k = F.np.where(h > 0, h, F.np.exp(h))
        return (
            F.npx.softmax(self.output(k)),
            F.np.sum(k[:, 0], axis=1),
            F.np.maximum(h, 0),
            2 - k @ k.transpose(0, 2, 1),
        )


def network() -> tuple[Net, Any, Any]:
    net = Net(prefix="net_")
    net.initialize()
    net.hybridize()
    x = np.array([[1.0, -2.0, 3.0], [0.5, 0.25, -1.0]])
    net(x)
    generator = onp.random.RandomState(2)
    for parameter in net.collect_params().values():
        parameter.set_data(np.array(generator.normal(0, 0.4, parameter.shape), dtype="float32"))
    return net, x, net(x)


def test_export_and_import(tmp_path: Path) -> None:
    net, x, wanted = network()
    net.export(str(tmp_path / "net"))
    again = gluon.SymbolBlock.imports(str(tmp_path / "net-symbol.json"), ["data"], str(tmp_path / "net-0000.params"))
    for found, value in zip(again(x), wanted, strict=True):
        assert type(found) is np.ndarray
        assert (found == value).all()


def test_names_are_those_of_mxnet(tmp_path: Path) -> None:
    network()[0].export(str(tmp_path / "net"))
    text = (tmp_path / "net-symbol.json").read_text(encoding="utf-8")
    for name in (
        "_npi_multiply",
        "_npi_tanh",
        "_npi_mean",
        "_npi_concatenate",
        "_np_transpose",
        "_np_sum",
        "_npi_where",
    ):
        assert f'"op": "{name}"' in text


def test_a_file_of_mxnet_is_read() -> None:
    block = gluon.SymbolBlock.imports(str(EXPORTED / "net-symbol.json"), ["data"], str(EXPORTED / "net-0000.params"))
    outputs = block(np.ones((2, 3)))
    wanted = npx.load(str(EXPORTED / "outputs.params"))
    for found, value in zip(outputs, wanted, strict=True):
        onp.testing.assert_allclose(found.asnumpy(), value.asnumpy(), rtol=1e-5, atol=1e-6)


def test_symbols_broadcast_and_take_parts() -> None:
    x, y = mx.sym.var("x").as_np_ndarray(), mx.sym.var("y")
    taken = x[1:, -1] + y
    assert taken.infer_shape(x=(3, 4), y=(5, 2))[1] == [(5, 2)]
    assert x.as_nd_ndarray().as_np_ndarray().T.infer_shape(x=(2, 3, 4))[1] == [(4, 3, 2)]
    assert type(mx.sym.relu(x)) is type(x)
    with pytest.raises(TypeError, match="integers and slices"):
        x[None]


def test_parameters_whose_shape_follows_from_inputs() -> None:
    class Scaled(nn.HybridBlock):
        def __init__(self) -> None:
            super().__init__()
            self.scale = self.params.get("scale", shape=(4, 0), allow_deferred_init=True, init="ones")

        def hybrid_forward(self, F: Any, x: Any, scale: Any) -> Any:
            return F.npx.fully_connected(x, scale, num_hidden=4, no_bias=True)

    block = Scaled()
    block.initialize()
    assert block.scale.shape == (4, -1)
    assert block(np.ones((2, 3))).tolist() == [[3.0] * 4] * 2
    assert block.scale.shape == (4, 3)


@pytest.mark.parametrize("name", ["np", "npx"])
def test_namespaces(name: str) -> None:
    space = getattr(mx.sym, name)
    assert callable(getattr(space, "tanh" if name == "np" else "relu"))
    assert "concatenate" in dir(mx.sym.np)
    assert "softmax" in dir(mx.sym.npx)
    with pytest.raises(AttributeError, match="has no function 'nothing'"):
        _ = space.nothing
