"""Tasks have flags of their own, and recording goes on across awaits."""

import asyncio

import pytest

from phonograd import autograd, nd

from .arrays import flags, values, variable


def test_tasks_do_not_see_each_others_flags():
    seen = []

    async def recorder():
        with autograd.record():
            await asyncio.sleep(0)
            seen.append(("recorder", flags()))
            await asyncio.sleep(0)

    async def onlooker():
        await asyncio.sleep(0)
        seen.append(("onlooker", flags()))
        with autograd.train_mode():
            await asyncio.sleep(0)
            seen.append(("onlooker", flags()))

    async def main():
        await asyncio.gather(recorder(), onlooker(), recorder())
        return flags()

    assert asyncio.run(main()) == (False, False)
    assert {entry for entry in seen if entry[0] == "recorder"} == {("recorder", (True, True))}
    assert [entry[1] for entry in seen if entry[0] == "onlooker"] == [(False, False), (False, True)]


def test_a_task_inherits_flags_and_changes_only_its_own():
    async def child():
        before = flags()
        autograd.set_recording(False)
        await asyncio.sleep(0)
        return before, flags()

    async def main():
        with autograd.record():
            inside, after = await asyncio.create_task(child())
            return inside, after, flags()

    assert asyncio.run(main()) == ((True, True), (False, True), (True, True))


def test_one_scope_object_in_many_tasks():
    scope = autograd.record()

    async def worker(mode):
        with mode():
            before = flags()
            with scope:
                await asyncio.sleep(0)
                assert flags() == (True, True)
                await asyncio.sleep(0)
            assert flags() == before

    async def main():
        modes = [autograd.train_mode, autograd.predict_mode, autograd.pause, autograd.record] * 3
        await asyncio.gather(*[worker(mode) for mode in modes])

    asyncio.run(main())


def test_gradients_of_interleaved_tasks():
    async def train(scale):
        x = variable([1.0, 2.0])
        for step in range(1, 4):
            with autograd.record():
                y = x * scale
                await asyncio.sleep(0)
                z = (y * x * step).sum()
                await asyncio.sleep(0)
            if step % 2:
                z.wait_to_read()
            await asyncio.sleep(0)
            z.backward()
            assert values(x.grad) == [2 * scale * step, 4 * scale * step]
        return scale

    async def main():
        return await asyncio.gather(*[train(float(scale)) for scale in range(1, 6)])

    assert asyncio.run(main()) == [1, 2, 3, 4, 5]


def test_a_decorated_coroutine():
    @autograd.record()
    async def forward(x):
        await asyncio.sleep(0)
        assert flags() == (True, True)
        return x * x

    async def main():
        x = variable([3.0])
        coroutine = forward(x)
        assert flags() == (False, False)
        y, _ = await asyncio.gather(coroutine, asyncio.sleep(0))
        assert flags() == (False, False)
        y.backward()
        return values(x.grad)

    assert asyncio.run(main()) == [6]


def test_an_exception_in_a_task_restores_its_flags():
    async def fails():
        try:
            with autograd.record():
                await asyncio.sleep(0)
                raise ZeroDivisionError
        finally:
            assert flags() == (False, False)

    async def main():
        with pytest.raises(ZeroDivisionError):
            await fails()
        task = asyncio.create_task(forever())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    async def forever():
        try:
            with autograd.record():
                await asyncio.sleep(1000)
        finally:
            assert flags() == (False, False)

    asyncio.run(main())


def test_a_generator_closed_by_another_task_leaves_that_task_alone():
    def pieces():
        with autograd.record():
            yield nd.ones((1,)) * 2

    async def open_it():
        generator = pieces()
        next(generator)
        return generator

    async def main():
        generator = await asyncio.create_task(open_it())
        with autograd.train_mode():
            generator.close()
            return flags()

    assert asyncio.run(main()) == (False, True)
