"""Layers as ranges of their own: profiles by module, for hybridized networks too, and nothing while nobody looks."""

from __future__ import annotations

from typing import Any

import pytest

import phonograd as mx
from phonograd import autograd, gluon, nd
from phonograd.core import events
from phonograd.core.events import LISTENING, MODULE
from phonograd.gluon import nn


def network() -> Any:
    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(nn.Dense(8, activation="relu", in_units=4), nn.Dense(2, in_units=8))
    net.initialize()
    return net


def step(net: Any, x: Any) -> None:
    with autograd.record():
        loss = net(x).sum()
    loss.backward()
    loss.asscalar()


@pytest.mark.parametrize("hybridized", [False, True])
def test_profiles_are_grouped_by_layer(hybridized: bool) -> None:
    net, x = network(), nd.ones((3, 4))
    if hybridized:
        net.hybridize()
    step(net, x)
    step(net, x)
    with mx.profiler.profile(with_modules=True, with_flops=True) as profiler:
        step(net, x)
    rows = {row["name"]: row for row in profiler.by_module()}
    assert list(rows) == [
        "net",
        "net > net_dense0",
        "net > net_dense0 > net_dense0_relu",
        "net > net_dense1",
    ]
    assert all(row["calls"] == 1 for row in rows.values())
    assert rows["net > net_dense0"]["kernel_us"] > 0
    assert rows["net > net_dense0"]["backward_kernel_us"] > 0
    assert rows["net"]["kernel_us"] >= rows["net > net_dense0"]["kernel_us"]


@pytest.mark.usefixtures("planned")
def test_gradients_that_are_computed_with_updates_are_backward() -> None:
    """The update of a few weights has more operators than the gradient of a layer, but less to do."""
    pytest.importorskip("llvmlite")
    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(nn.Conv2D(4, 3, in_channels=1), nn.BatchNorm(in_channels=4), nn.Activation("relu"), nn.Conv2D(1, 3))
    net.initialize()
    net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), "adam")

    def train() -> None:
        with autograd.record():
            loss = net(nd.ones((8, 1, 12, 12))).square().mean()
        loss.backward()
        trainer.step(8)
        nd.waitall()

    for _ in range(3):
        train()
    with mx.profiler.profile(with_modules=True) as profiler:
        train()
    rows = {row["name"]: row for row in profiler.by_module()}
    for layer in ("conv0", "batchnorm0", "relu0", "conv1"):
        assert rows[f"net > net_{layer}"]["backward_kernel_us"] > 0
    updates = [row for row in profiler.key_averages() if row.key == "update_all"]
    assert updates
    (shared,) = [
        event.range for event in profiler.events() if {"sqrt", "broadcast_greater"} <= set(event.range.operators)
    ]
    assert {who.name for who in shared.serves} == {"Activation", "BatchNorm", "Convolution"}
    assert all(row.backward_kernel_time_total == 0 for row in updates)


def test_results_are_the_same_when_observed() -> None:
    net, x = network(), nd.random.normal(shape=(3, 4))
    net.hybridize()
    before = net(x).asnumpy()
    with mx.profiler.profile(with_modules=True):
        during = net(x).asnumpy()
    assert (before == during).all()
    assert (net(x).asnumpy() == before).all()


def test_ranges_see_inputs_and_outputs() -> None:
    net = network()
    seen: list[Any] = []
    handle = events.add_global_callback(
        lambda entry: seen.append([array.shape for array in entry.inputs]),
        lambda entry, _: seen.append([array.shape for array in entry.outputs]),
        scopes=[events.RecordScope.MODULE],
        needs_inputs=True,
        needs_outputs=True,
    )
    try:
        net[1](nd.ones((3, 8)))
    finally:
        events.remove_callback(handle)
    assert seen == [[(3, 8)], [(3, 2)]]


def test_a_range_ends_when_the_block_raises() -> None:
    class Failing(gluon.Block):
        def forward(self, x: Any) -> Any:
            raise KeyError("lost")

    with mx.profiler.profile(with_modules=True) as profiler:
        with pytest.raises(KeyError):
            Failing(prefix="failing_")(nd.ones((1,)))
        network()(nd.ones((1, 4)))
    assert "failing > net" not in [row["name"] for row in profiler.by_module()]
    event = next(event for event in profiler.events() if event.name == "failing")
    assert event.range.error == "KeyError: 'lost'"


def test_hybridized_calls_are_repeated_when_nobody_looks() -> None:
    net, x = network(), nd.ones((3, 4))
    net.hybridize()
    net(x)
    net(x)
    assert not LISTENING[MODULE]
    repeated = net._compiled.repeated
    net(x)
    assert net._compiled.repeated == repeated + 1
    with mx.profiler.profile():
        net(x)
    assert net._compiled.repeated == repeated + 2
