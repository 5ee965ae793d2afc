"""Kernels are credited to the scopes of the threads, tasks, blocks and compiled functions that caused them."""

import asyncio
import threading

import phonograd as mx
from phonograd import nd
from phonograd.core.events import KERNEL
from phonograd.profiler import profile, record_function
from phonograd.profiler.arguments import served_scopes


def served(prof, operator: str) -> list[list[str]]:
    """Return for each kernel that computes an operator the scopes it serves."""
    kernels = [event.range for event in prof.events() if event.scope == KERNEL]
    return [served_scopes(kernel.serves) for kernel in kernels if operator in kernel.operators]


def work(name: str, operator: str) -> None:
    x = nd.ones((3, 4))
    with record_function(name):
        getattr(nd, operator)(x * 3).wait_to_read()


def test_threads() -> None:
    pairs = [("one", "sin"), ("two", "cos"), ("three", "tanh")]
    with profile() as prof:
        threads = [threading.Thread(target=work, args=pair) for pair in pairs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert [served(prof, operator)[0][0] for _, operator in pairs] == [name for name, _ in pairs]


def test_tasks() -> None:
    async def job(name: str, operator: str) -> None:
        x = nd.ones((3, 4))
        with record_function(name):
            y = getattr(nd, operator)(x * 3)
            await asyncio.sleep(0)
            y.wait_to_read()

    async def jobs() -> None:
        await asyncio.gather(job("one", "sin"), job("two", "cos"))

    with profile() as prof:
        asyncio.run(jobs())
    assert all("one" in scopes for scopes in served(prof, "sin"))
    assert all("two" in scopes for scopes in served(prof, "cos"))


def test_compiled_functions_and_hybrid_blocks() -> None:
    @mx.compile
    def function(x):
        return nd.tanh(x) * 2

    net = mx.gluon.nn.Dense(4, activation="sigmoid")
    net.initialize()
    net.hybridize()
    x = nd.ones((2, 3))
    for _ in range(3):
        function(x).wait_to_read(), net(x).wait_to_read()
    with profile() as prof:
        with record_function("compiled"):
            y = function(x)
        with record_function("hybrid"):
            z = net(x)
        y.wait_to_read(), z.wait_to_read()
    assert any("compiled" in scopes for scopes in served(prof, "tanh"))
    assert any("hybrid" in scopes for scopes in served(prof, "sigmoid"))


def test_what_has_no_operator_of_its_own_is_credited_too() -> None:
    x = nd.ones((4, 4))
    with profile() as prof, record_function("parts"):
        x[1:3] = 5
        x[0] += 1
        x.astype("float64").wait_to_read()
        x.wait_to_read()
    assert served(prof, "cast") == served(prof, "broadcast_add") == [["parts"]]
    assert served(prof, "select") == [["parts"]] * len(served(prof, "select"))
    assert {"_slice_assign", "slice", "Cast"} <= {event.name for event in prof.events()}


def test_what_a_compiled_function_changes_is_credited_too() -> None:
    net = mx.gluon.nn.Dense(4, in_units=3)
    net.initialize()
    trainer = mx.gluon.Trainer(net.collect_params(), "adam")
    x = nd.ones((2, 3))

    def step() -> None:
        with record_function("forward"), mx.autograd.record():
            loss = (net(x) ** 2).mean()
        loss.backward()
        with record_function("update"):
            trainer.step(2)
        mx.nd.waitall()

    for _ in range(3):
        step()
    with profile() as prof:
        step()
    rows = prof.by_scope()
    assert rows["update"]["kernel_us"] > 0
    assert rows["forward"]["kernel_us"] > 0
    assert prof.events().uncredited_ns == 0
    assert served(prof, "sqrt")
    assert all("update" in scopes for scopes in served(prof, "sqrt"))
    assert not any("<locals>" in event.name for event in prof.events())
