"""Programs that users of PyTorch and MXNet have, with another import, and what they find in the results."""

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import phonograd as mx
from phonograd import autograd, gluon, nd, profiler
from phonograd.profiler import (
    ProfilerActivity,
    profile,
    record_function,
    schedule,
    supported_activities,
    tensorboard_trace_handler,
    validate_trace,
)


@pytest.fixture(scope="module")
def network() -> Any:
    network = gluon.nn.Sequential()
    network.add(gluon.nn.Dense(16, activation="relu"), gluon.nn.Dense(4))
    network.initialize()
    network(nd.ones((8, 12))).wait_to_read()
    return network


# -- PyTorch


def test_inference_with_shapes(network: Any) -> None:
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as prof, record_function("model_inference"):
        network(nd.ones((8, 12))).wait_to_read()
    table = prof.key_averages().table(sort_by="cpu_time_total", row_limit=10)
    assert table.split("\n")[3].split()[0] == "model_inference"
    assert "Total FLOPs" in table
    by_shape = prof.key_averages(group_by_input_shape=True).table(sort_by="cpu_time_total", row_limit=20)
    assert "[[8, 12], [16, 12], [16]]" in by_shape
    (layer, _) = [event for event in prof.events() if event.name == "FullyConnected"]
    assert layer.input_shapes == [[8, 12], [16, 12], [16]]
    assert layer.structured_input_strides == [[12, 1], [12, 1], [1]]
    assert layer.input_dtypes == ["float32"] * 3
    assert layer.kwinputs["num_hidden"] == 16
    assert layer.flops >= 2 * 8 * 12 * 16
    assert (layer.device_time_total, layer.node_id, layer.is_remote) == (0, -1, False)
    assert layer.cpu_time_total_str == layer.cpu_time_str


def test_memory_and_stacks(network: Any, tmp_path: Path) -> None:
    with profile(profile_memory=True, with_stack=True, with_modules=True) as prof:
        network(nd.ones((8, 12))).wait_to_read()
    averages = prof.key_averages(group_by_stack_n=5)
    assert "Self CPU Mem" in averages.table(sort_by="self_cpu_memory_usage", row_limit=5)
    assert "test_scripts.py" in averages.table(sort_by="self_cpu_time_total", row_limit=2)
    for export in (prof.export_chrome_trace, prof.events().export_chrome_trace):
        export(tmp_path / "trace.json")
        assert validate_trace(tmp_path / "trace.json") == []
    for write in (prof.export_stacks, prof.events().export_stacks):
        write(tmp_path / "stacks.txt", "self_cpu_time_total")
        assert "test_memory_and_stacks" in (tmp_path / "stacks.txt").read_text()


def test_steps_with_handlers(network: Any, tmp_path: Path) -> None:
    seen: list[tuple[int, str, int]] = []

    def trace_handler(p: profile) -> None:
        table = p.key_averages().table(sort_by="self_cpu_time_total", row_limit=10)
        p.export_chrome_trace(str(tmp_path / f"trace_{p.step_num}.json"))
        seen.append((p.step_num, table, sum(row.count for row in p.key_averages() if row.key == "ProfilerStep*")))

    with profile(
        activities=[ProfilerActivity.CPU],
        schedule=schedule(wait=1, warmup=1, active=2),
        on_trace_ready=trace_handler,
    ) as p:
        for _ in range(8):
            network(nd.ones((8, 12))).wait_to_read()
            p.step()
    assert [(step, count) for step, _, count in seen] == [(4, 2), (8, 2)]
    assert all(validate_trace(tmp_path / f"trace_{step}.json") == [] for step in (4, 8))

    steps = schedule(wait=1, warmup=1, active=3, repeat=2)
    with profile(schedule=steps, on_trace_ready=tensorboard_trace_handler(tmp_path / "log"), record_shapes=True) as p:
        for step in range(12):
            if step >= 10:
                break
            network(nd.ones((8, 12))).wait_to_read()
            p.step()
    names = sorted(path.name for path in (tmp_path / "log").iterdir())
    assert len(names) == 2
    assert all(name.endswith(".pt.trace.json") for name in names)


def test_training_loop_with_everything(network: Any, tmp_path: Path) -> None:
    trainer = gluon.Trainer(network.collect_params(), "sgd", {"learning_rate": 0.1})
    with profile(record_shapes=True, profile_memory=True, with_flops=True) as prof:
        for _ in range(3):
            with record_function("forward"), autograd.record():
                loss = (network(nd.ones((8, 12))) ** 2).mean()
            with record_function("backward"):
                loss.backward()
            with record_function("optimizer"):
                trainer.step(8)
            prof.step()
        loss.wait_to_read()
    prof.add_metadata_json("config", '{"rate": 0.1}')
    prof.export_chrome_trace(tmp_path / "trace.json.gz")
    assert validate_trace(tmp_path / "trace.json.gz") == []
    average = {row.key: row for row in prof.key_averages()}
    assert average["forward"].count == average["backward"].count == 3
    assert average["forward"].backward_kernel_time_total > 0
    assert prof.total_average().count == prof.events().total_average().count == len(prof.events())
    assert prof.total_average().self_cpu_time_total == pytest.approx(prof.self_cpu_time_total)
    assert prof.events().key_averages().table() == prof.key_averages().table() == prof.events().table()


def test_results_name_devices_that_are_not_there() -> None:
    with profile() as prof, record_function("x"):
        pass
    averages = prof.key_averages()
    for key in ("cuda_time_total", "self_device_time_total", "cuda_memory_usage"):
        assert averages.table(sort_by=key, row_limit=10)
    assert averages[0].device_time_total == 0
    assert (averages[0].is_user_annotation, averages[0].is_async) == (True, False)


def test_options_of_pytorch() -> None:
    assert supported_activities() == {ProfilerActivity.CPU}
    with pytest.warns(UserWarning, match="CUDA is not available"):
        profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])
    with pytest.warns(UserWarning, match="CUDA is not available"):
        profile(use_cuda=True)
    with pytest.raises(ValueError, match="No valid profiler activities found"):
        profile(activities=[])
    with pytest.raises(ValueError, match="must not repeat"):
        profile(activities=[ProfilerActivity.CPU] * 2)
    with pytest.raises(TypeError, match="ProfilerActivity"):
        profile(activities=["cpu"])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="post_processing_timeout_s must be non-negative"):
        profile(post_processing_timeout_s=-1)
    with pytest.raises(ValueError, match="not valid JSON"):
        profile().add_metadata_json("key", "{")
    chosen = profile(custom_trace_id_callback=lambda: "mine", acc_events=True, experimental_config=None, use_cuda=False)
    assert chosen.get_trace_id() is None
    with chosen:
        with record_function("seen"):
            pass
        chosen.toggle_collection_dynamic(False, [ProfilerActivity.CPU])
        with record_function("not seen"):
            pass
        chosen.toggle_collection_dynamic(True, [ProfilerActivity.CPU])
    assert chosen.get_trace_id() == "mine"
    assert [event.name for event in chosen.events()] == ["seen"]
    with profile() as first, profile() as second:
        pass
    assert first.get_trace_id() != second.get_trace_id()


def test_threads_tasks_futures_and_errors_in_one_program() -> None:
    @record_function("job")
    async def job(number: int) -> int:
        with record_function(f"part {number}"):
            await asyncio.sleep(0.002)
        return number

    async def main() -> list[int]:
        return list(await asyncio.gather(*[job(number) for number in range(3)]))

    def work(number: int) -> float:
        with record_function("work"):
            time.sleep(0.002)
            return float((nd.ones((4,)) * number).sum().asscalar())

    with profile() as prof:
        with ThreadPoolExecutor(2) as pool:
            with record_function("submitted") as scope:
                done = scope._call_end_callbacks_on_future(pool.submit(work, 3))
            assert done.result() == 12
            assert list(pool.map(work, [1, 2])) == [4, 8]
        assert asyncio.run(main()) == [0, 1, 2]
        thread = threading.Thread(target=work, args=(5,), name="by hand")
        thread.start()
        thread.join()
        with pytest.raises(ZeroDivisionError), record_function("failing"):
            _ = 1 / 0
    events = prof.events()
    names = [event.name for event in events if event.is_user_annotation]
    assert names.count("work") == 4
    assert names.count("job") == 3
    (submitted,) = [event for event in events if event.name == "submitted"]
    assert submitted.is_async
    assert submitted.cpu_time_total >= 2000
    (failing,) = [event for event in events if event.name == "failing"]
    assert (failing.error or "").startswith("ZeroDivisionError")
    assert "by hand" in events.threads.values()
    assert all(event.self_ns >= 0 for event in events)
    parts = [event for event in events if event.name.startswith("part")]
    assert all(part.parent is not None and part.parent.name == "job" for part in parts)


# -- MXNet


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Path]:
    profiler.dumps(reset=True)
    path = tmp_path / "profile_output.json"
    profiler.set_config(profile_all=True, aggregate_stats=True, continuous_dump=True, filename=str(path))
    yield path
    profiler.set_state("stop")
    profiler.dumps(reset=True)
    profiler.set_config(filename="profile.json", profile_all=False, aggregate_stats=False)


def test_mxnets_tutorial(fresh: Path) -> None:
    a, b = nd.ones((200, 200)), nd.ones((200, 200))
    mx.nd.waitall()
    profiler.set_state("run")
    c = nd.dot(a, b)
    mx.nd.waitall()
    profiler.pause()
    nd.exp(c).wait_to_read()
    profiler.resume()
    (c + a).wait_to_read()
    profiler.set_state("stop")
    table = profiler.dumps()
    assert "Profile Statistics:" in table
    assert "exp" not in table
    statistics = json.loads(profiler.dumps(format="json"))
    times = statistics["Time"]
    assert times["operator"]["dot"]["Count"] == times["operator"]["broadcast_add"]["Count"] == 1
    kernels = sum(row["Total"] for row in times["kernel"].values())
    operators = times["operator"]["dot"]["Total"] + times["operator"]["broadcast_add"]["Total"]
    assert operators == pytest.approx(kernels), "an operator has the time of its kernels, not that of its call"
    profiler.dump()
    assert validate_trace(fresh) == []


def test_mxnets_training_has_times_of_gradients(fresh: Path) -> None:
    w, x = nd.ones((64, 64)), nd.ones((64, 64))
    w.attach_grad()
    with autograd.record():
        nd.dot(x, w).sum().backward()
    w.grad.wait_to_read()
    profiler.set_state("run")
    with autograd.record():
        loss = nd.dot(x, w).sum()
    loss.backward()
    w.grad.wait_to_read()
    loss.wait_to_read()
    profiler.set_state("stop")
    rows = json.loads(profiler.dumps(format="json"))["Time"]
    named = rows["operator"]
    assert named["_backward_dot"]["Count"] == named["dot"]["Count"] == 1
    whole = sum(row["Total"] for row in rows["kernel"].values())
    assert 0 < named["dot"]["Total"] < whole
    assert 0 < named["_backward_dot"]["Total"] < whole
