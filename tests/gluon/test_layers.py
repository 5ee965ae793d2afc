"""Layers beyond the recorded values: other layouts, dropout, embeddings, and derivatives of every order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import phonograd as mx
from phonograd import autograd, gluon, nd
from phonograd.gluon import nn, rnn

from . import programs


def data(*shape: int) -> Any:
    return nd.array(programs.draw(np.random.RandomState(0), *shape))


@pytest.mark.parametrize("hybridize", [False, True])
def test_embedding(hybridize: bool) -> None:
    layer = nn.Embedding(4, 2, sparse_grad=True)
    layer.initialize()
    layer.hybridize(hybridize)
    for _ in range(3):
        with autograd.record():
            vectors = layer(nd.array([[0, 3, 0]]))
        vectors.backward()
    assert np.array_equal(vectors.asnumpy()[0], layer.weight.data().asnumpy()[[0, 3, 0]])
    assert layer.weight.grad().asnumpy().tolist() == [[2, 2], [0, 0], [0, 0], [1, 1]]
    assert layer(nd.array([1], dtype="int32")).shape == (1, 2)


def test_dropout() -> None:
    layer = nn.Dropout(0.25)
    with autograd.train_mode():
        found = layer(nd.ones((100, 100))).asnumpy()
        rows = nn.Dropout(0.5, axes=(1,))(nd.ones((50, 4))).asnumpy()
    assert set(np.unique(found)) == {0, np.float32(1 / 0.75)}
    assert (found == 0).mean() == pytest.approx(0.25, abs=0.02)
    assert (rows == rows[:, :1]).all()
    assert layer(nd.ones((3,))).asnumpy().tolist() == [1, 1, 1]


def test_batch_norm_with_rectifier() -> None:
    plain, both = nn.BatchNorm(in_channels=3), nn.BatchNormReLU(in_channels=3)
    for layer in (plain, both):
        layer.initialize()
    x = data(4, 3, 2)
    with autograd.train_mode():
        assert np.array_equal(both(x).asnumpy(), np.maximum(plain(x).asnumpy(), 0))
    assert np.array_equal(both.running_mean.data().asnumpy(), plain.running_mean.data().asnumpy())


@pytest.mark.parametrize("kind", [nn.Conv2D, nn.Conv2DTranspose])
def test_channels_last(kind: Any) -> None:
    first, last = kind(3, 2, layout="NCHW"), kind(3, 2, layout="NHWC")
    x = data(2, 4, 5, 5)
    for layer in (first, last):
        layer.initialize()
    try:
        last(x.transpose((0, 2, 3, 1)))
    except mx.MXNetError:
        pytest.skip("the operator has no such layout")
    first(x)
    last.weight.set_data(first.weight.data().transpose((0, 2, 3, 1)))
    found = last(x.transpose((0, 2, 3, 1))).transpose((0, 3, 1, 2))
    np.testing.assert_allclose(found.asnumpy(), first(x).asnumpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", ["MaxPool1D", "AvgPool1D", "GlobalMaxPool1D", "GlobalAvgPool1D"])
def test_pooling_of_sequences_with_channels_last(kind: str) -> None:
    x = data(2, 3, 6)
    found = getattr(nn, kind)(layout="NWC")(x.swapaxes(1, 2)).swapaxes(1, 2)
    np.testing.assert_allclose(found.asnumpy(), getattr(nn, kind)()(x).asnumpy(), rtol=1e-6)
    with pytest.raises(AssertionError, match="Only NCW and NWC layouts are valid for 1D Pooling"):
        getattr(nn, kind)(layout="NHWC")


def test_a_pair_alone_in_its_batch() -> None:
    one, other = data(1, 3), data(1, 3) + 1
    one.attach_grad()
    with autograd.record():
        loss = gluon.loss.SDMLLoss()(one, other)
    loss.backward()
    assert np.isfinite(loss.asnumpy()).all()
    assert one.grad.asnumpy().tolist() == [[0, 0, 0]]


def test_windows_are_checked() -> None:
    with pytest.raises(AssertionError, match="kernel_size must be a number or a list of 2 ints"):
        nn.Conv2D(2, (3,))
    with pytest.raises(AssertionError, match="Only supports 'NCHW' and 'NHWC' layout"):
        nn.Conv2D(2, 3, layout="NCW")
    with pytest.raises(AssertionError, match="pool_size must be a number or a list of 1 ints"):
        nn.MaxPool1D((2, 2))
    with pytest.raises(AssertionError, match="no less than 0"):
        nn.LeakyReLU(-1)
    with pytest.raises(AssertionError, match="Invalid layout"):
        rnn.LSTM(2, layout="NCT")


@pytest.mark.parametrize("hybridize", [False, True])
def test_gradient_penalty(hybridize: bool) -> None:
    """The gradient of a gradient's norm by the parameters, against finite differences."""
    net = nn.HybridSequential()
    net.add(nn.Dense(4, in_units=3, activation="tanh"), nn.LayerNorm(in_channels=4), nn.Dense(1, in_units=4))
    net.initialize()
    programs.fill(mx, net)
    net.cast("float64")
    net.hybridize(hybridize)
    x = data(5, 3).astype("float64")
    x.attach_grad()

    def penalty() -> Any:
        y = net(x).sum()
        slope = autograd.grad(y, x, create_graph=True)[0]
        return (slope**2).sum()

    for _ in range(3):
        with autograd.record():
            value = penalty()
        value.backward()
    weight = net[0].weight
    found, step = weight.grad().asnumpy(), 1e-6
    for place in ((0, 0), (2, 1)):
        ends = []
        for sign in (1, -1):
            moved = weight.data().asnumpy()
            moved[place] += sign * step
            before = weight.data().copy()
            weight.set_data(nd.array(moved, dtype="float64"))
            with autograd.record():
                ends.append(penalty().asscalar())
            weight.set_data(before)
        assert found[place] == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-6)


def test_errors_inside_of_hybridized_blocks() -> None:
    net = nn.Dense(2, in_units=3)
    net.initialize()
    net.hybridize()
    net(nd.ones((2, 3)))
    for _ in range(2):
        with pytest.raises(mx.MXNetError, match="FullyConnected"):
            net(nd.ones((2, 4)))
    assert net(nd.ones((2, 3))).shape == (2, 2)


# -- recurrent


def test_zoneout_keeps_what_was() -> None:
    cell = rnn.ZoneoutCell(rnn.RNNCell(50, input_size=2), zoneout_outputs=0.5, zoneout_states=0.5)
    cell.initialize()
    cell.hybridize()
    with autograd.train_mode():
        outputs, states = cell.unroll(3, data(4, 3, 2), merge_outputs=True)
    assert 0.3 < (outputs.asnumpy()[:, 0] == 0).mean() < 0.7
    kept = outputs.asnumpy()[:, 1] == outputs.asnumpy()[:, 0]
    assert 0.3 < kept.mean() < 0.7
    assert len(states) == 1


def test_variational_dropout_is_the_same_in_all_steps() -> None:
    for drop_states in (0.0, 0.5):
        cell = gluon.contrib.rnn.VariationalDropoutCell(
            rnn.RNNCell(40, input_size=2), drop_states=drop_states, drop_outputs=0.5
        )
        cell.initialize()
        with autograd.train_mode():
            outputs, _ = cell.unroll(3, data(4, 3, 2), merge_outputs=True)
        dropped = outputs.asnumpy() == 0
        assert 0.3 < dropped.mean() < 0.7
        assert (dropped == dropped[:, :1]).all()


def test_modified_cells_are_called_by_their_modifiers() -> None:
    cell = rnn.GRUCell(2, input_size=2)
    rnn.ResidualCell(cell)
    with pytest.raises(AssertionError, match="the base cell cannot be called directly"):
        cell.begin_state(batch_size=1)
    with pytest.raises(AssertionError, match="already modified"):
        rnn.ZoneoutCell(cell)


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_convolutional_cells(kind: str, axes: int) -> None:
    extents = (5, 4, 3)[:axes]
    cell = getattr(gluon.contrib.rnn, f"Conv{axes}D{kind}Cell")((2, *extents), 3, 3, 3, i2h_pad=1)
    cell.initialize()
    cell.hybridize()
    x = data(2, 4, 2, *extents)
    with autograd.record():
        outputs, states = cell.unroll(4, x, layout="NTC" + "DHW"[-axes:], merge_outputs=True)
        total = outputs.sum()
    total.backward()
    assert outputs.shape == (2, 4, 3, *extents)
    assert [state.shape for state in states] == [(2, 3, *extents)] * (2 if kind == "LSTM" else 1)
    assert np.abs(cell.h2h_weight.grad().asnumpy()).max() > 0


def test_layer_and_cells_agree() -> None:
    for layer in (rnn.LSTM(3, 2, bidirectional=True), rnn.GRU(3, 2), rnn.RNN(3, activation="tanh")):
        layer.initialize()
        x = data(4, 5, 2)
        expected = layer(x)
        cells = layer._unfuse()
        found, _ = cells.unroll(4, x, layout="TNC", merge_outputs=True)
        np.testing.assert_allclose(found.asnumpy(), expected.asnumpy(), rtol=1e-5, atol=1e-6)


def test_lengths_in_layers() -> None:
    layer = rnn.LSTM(3, use_sequence_length=True)
    layer.initialize()
    outputs, states = layer(data(4, 2, 2), layer.begin_state(2), nd.array([4, 2]))
    assert np.abs(outputs.asnumpy()[2:, 1]).max() == 0
    assert np.array_equal(states[0].asnumpy()[0, 1], outputs.asnumpy()[1, 1])


def test_states_of_layers() -> None:
    layer = rnn.LSTM(3, 2)
    layer.initialize()
    layer.hybridize()
    x = data(4, 2, 5)
    for _ in range(3):
        alone = layer(x)
        both = layer(x, layer.begin_state(2))
    assert np.array_equal(alone.asnumpy(), both[0].asnumpy())
    assert [state.shape for state in both[1]] == [(2, 2, 3)] * 2
    with pytest.raises(ValueError, match="Invalid recurrent state shape"):
        layer(x, layer.begin_state(3))


def test_dropout_between_layers_is_for_training() -> None:
    layer = rnn.GRU(4, 2, dropout=0.5)
    layer.initialize()
    x = data(3, 2, 5)
    first = layer(x)
    assert np.array_equal(first.asnumpy(), layer(x).asnumpy())
    with autograd.train_mode():
        assert not np.array_equal(layer(x).asnumpy(), layer(x).asnumpy())


@pytest.mark.parametrize(
    ("make", "wrong", "right", "message"),
    [
        (lambda: nn.Conv2D(2, 3), (4, 6, 7), (4, 1, 6, 7), "Input data should be 4D"),
        (lambda: nn.Conv2D(2, 3), (4, 9, 2, 2), (4, 1, 6, 7), "kernel size exceed input"),
        (lambda: nn.Conv1D(4, 2, groups=2), (1, 3, 5), (1, 4, 5), "group"),
        (lambda: nn.Conv3D(2, 3, dilation=2), (1, 1, 4, 9, 9), (1, 2, 5, 9, 9), "kernel size exceed input"),
        (lambda: nn.Conv2DTranspose(2, 3), (4, 6, 7), (4, 1, 6, 7), "4D"),
    ],
)
def test_inputs_that_do_not_fit_decide_nothing(make: Any, wrong: Any, right: Any, message: str) -> None:
    layer = make()
    layer.initialize()
    with pytest.raises(ValueError, match=f"Deferred initialization failed because shape cannot be inferred.*{message}"):
        layer(nd.ones(wrong))
    layer(nd.ones(right))
    assert right[1] in layer.weight.shape or layer._kwargs["num_group"] > 1
