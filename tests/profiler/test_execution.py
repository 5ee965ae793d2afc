"""Execution traces: a graph of what was called, with the numbers of the arrays that go in and come out."""

import gzip
import json
import threading
from pathlib import Path

import phonograd as mx
from phonograd import autograd, nd
from phonograd.profiler import ExecutionTraceObserver, profile, record_function


def attribute(node, name):
    return {entry["name"]: entry["value"] for entry in node["attrs"]}.get(name)


def named(nodes, name):
    """Return the nodes of a name that are no kernels: a kernel may be called like its only operator."""
    return [node for node in nodes if node["name"] == name and not attribute(node, "operators")]


def program():
    x, w = nd.ones((2, 3)), nd.ones((3, 4))
    w.attach_grad()
    with record_function("forward"), autograd.record():
        y = nd.dot(x, w)
        loss = nd.exp(y).sum()
    loss.backward()
    w.grad.wait_to_read()


def test_every_node_has_a_parent_and_arrays_keep_their_numbers() -> None:
    with ExecutionTraceObserver() as observer:
        program()
    nodes = observer.nodes()
    numbers = [node["id"] for node in nodes]
    assert numbers[0] == 1
    assert len(set(numbers)) == len(numbers)
    assert all(node["ctrl_deps"] in numbers for node in nodes)
    (forward,) = named(nodes, "forward")
    (dot,), (exp,), (total,) = [named(nodes, name) for name in ("dot", "exp", "sum")]
    assert dot["ctrl_deps"] == exp["ctrl_deps"] == forward["id"]
    assert dot["inputs"]["shapes"] == [[2, 3], [3, 4]]
    assert dot["inputs"]["types"] == ["Tensor(float32)"] * 2
    assert dot["outputs"]["values"] == exp["inputs"]["values"]
    assert exp["outputs"]["values"] == total["inputs"]["values"]
    assert exp["outputs"]["values"] != exp["inputs"]["values"]
    number, storage, offset, elements, width, device = exp["inputs"]["values"][0]
    assert (number, offset, elements, width, device) == (storage, 0, 8, 4, "cpu:0")


def test_gradients_name_their_operators_and_kernels_whom_they_serve() -> None:
    with ExecutionTraceObserver() as observer:
        program()
    nodes = observer.nodes()
    (dot,), (gradient,) = named(nodes, "dot"), named(nodes, "_backward_dot")
    assert attribute(gradient, "fw_parent") == dot["id"]
    assert attribute(gradient, "seq_id") == attribute(dot, "seq_id") >= 0
    kernels = [node for node in nodes if attribute(node, "operators")]
    assert kernels
    assert dot["id"] in {number for node in kernels for number in json.loads(attribute(node, "serves"))}


def test_views_share_their_storage() -> None:
    x = nd.zeros((4, 2))
    with ExecutionTraceObserver() as observer:
        nd.exp(x)
        nd.exp(x[1:3])
    first, second = [node["inputs"]["values"][0] for node in named(observer.nodes(), "exp")]
    assert first[0] != second[0]
    assert first[1] == second[1]
    assert second[2:4] == [2, 4]


def test_files_threads_and_profiles(tmp_path: Path) -> None:
    path = tmp_path / "graph.json.gz"
    observer = ExecutionTraceObserver().register_callback(path)
    assert (observer.is_registered, observer.get_output_file_path()) == (True, str(path))
    with profile(execution_trace_observer=observer) as prof:
        thread = threading.Thread(target=program, name="elsewhere")
        thread.start()
        thread.join()
        nd.exp(nd.ones(2), out=nd.ones(2))
    document = json.loads(gzip.decompress(path.read_bytes()))
    assert {"schema", "pid", "time", "start_ts", "finish_ts", "nodes"} <= document.keys()
    threads = named(document["nodes"], "[phonograd|profiler|execution_trace|thread]")
    assert {attribute(node, "thread_name") for node in threads} == {"MainThread", "elsewhere"}
    called = [event for event in prof.events() if event.name == "exp" and not event.operators]
    assert len(named(document["nodes"], "exp")) == len(called) == 2
    assert named(document["nodes"], "dot")[0]["inputs"]["strides"] == [[3, 1], [4, 1]]
    observer.unregister_callback()
    assert not observer.is_registered


def test_nothing_is_kept_alive_and_numbers_are_not_used_again() -> None:
    seen = []
    with ExecutionTraceObserver() as observer:
        for _ in range(5):
            x = nd.ones((2,))
            nd.exp(x)
            x.wait_to_read()
            del x
    for node in named(observer.nodes(), "exp"):
        seen += [value[0] for value in node["inputs"]["values"]]
    assert len(set(seen)) == len(seen)


def test_an_observer_that_runs_already_or_not_at_all() -> None:
    observer = mx.profiler.ExecutionTraceObserver()
    observer.stop()
    observer.start()
    observer.start()
    with record_function("once"):
        pass
    observer.stop()
    observer.stop()
    assert len(named(observer.nodes(), "once")) == 1
