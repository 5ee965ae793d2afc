"""Nodes and the garbage collector, which looks at few of them; tables that drop nodes free them."""

from __future__ import annotations

import gc
import sys
from typing import Any

import pytest

from phonograd import nd
from phonograd.core.array.handle import node_in
from phonograd.core.base.assumptions import HAS_GIL
from phonograd.core.graph.node import Node
from phonograd.core.ops.math.structural import detach
from phonograd.core.plan import cache
from phonograd.core.trace.trace import LOCAL, ready_trace

pytestmark = pytest.mark.skipif(
    sys.implementation.name != "cpython" or not HAS_GIL, reason="the garbage collector looks at everything"
)


def chain(extent: int, links: int) -> nd.NDArray:
    """Return an array whose expression consists of marked nodes, outside of recording."""
    x = nd.ones((extent,))
    x.attach_grad()
    y = x
    for _ in range(links):
        y = nd.sin(y) * x
    return y


def test_the_garbage_collector_looks_at_no_node() -> None:
    y = chain(3, 5)
    node = node_in(y, ready_trace())
    found: list[Any] = [node, node.inputs]
    detached = detach(node_in(y, LOCAL.trace))
    assert isinstance(detached, Node)
    found += [detached, detached.inputs]
    assert not any([gc.is_tracked(each) for each in found])
    y.wait_to_read()


def test_dropped_nodes_are_freed_at_once() -> None:
    counts = []
    for links in (50, 300):
        chain(7, links).wait_to_read()
        LOCAL.trace.flush(end=True)
        cache.PLANS.root.following.clear()
        cache._forget_except(set())
        gc.collect()
        counts.append(sys.getallocatedblocks())
    # some 1500 blocks would stay of the longer one
    assert counts[1] - counts[0] < 600
