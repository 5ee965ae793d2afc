"""Plans and kernels are bounded in bytes, not only in number."""

from __future__ import annotations

import phonograd as mx
from phonograd import nd, settings
from phonograd.core.plan.cache import PLANS
from phonograd.core.run import kernel_cache


def work(length: int) -> float:
    """Evaluate a graph of some operators."""
    x = nd.ones((3, length))
    for _ in range(20):
        x = x * 1.5 - nd.sqrt(x)
    return float(x.sum().asscalar())


def test_plans_are_bounded_in_bytes() -> None:
    with settings.override(tiers="plan", plan_bytes=20_000):
        for length in range(100, 140):
            work(length)
            # the plans of the last turn stay, whatever they take
            assert PLANS.nbytes <= 24_000
        assert 0 < mx.memory_info().tables == PLANS.nbytes
        assert PLANS.nbytes == sum([plan.nbytes for _, _, plan in PLANS.all()])
        count = PLANS.count
    with settings.override(tiers="plan"):
        for length in range(100, 140):
            work(length)
        assert PLANS.count > count


def test_kernels_are_bounded_in_bytes() -> None:
    kernel_cache.wait_for_tier_up()
    with settings.override(tiers="plan", kernel_bytes=1):
        work(50)
        y = nd.sin(nd.ones((3, 41))) + nd.cos(nd.ones((3, 1)))
        y.wait_to_read()
        # only those of the last plan are left
        assert sum(kernel_cache.code_in_memory()) < 100_000
