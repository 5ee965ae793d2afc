"""The arithmetic of the benchmarks, and that documents show what they measured. Times are never asserted here."""

import importlib
import inspect
import os
from pathlib import Path

import pytest
from benchmarks import compare, report, roofline, workloads_compiled_nd, workloads_lookups_nd
from benchmarks.convolution_shapes import CASES
from benchmarks.roofline import Peaks, Work
from benchmarks.workloads_nd import ONLY_PHONOGRAD, WITHOUT_JAX, WORKLOADS

import phonograd as mx
from phonograd import settings

ROOT = Path(__file__).resolve().parents[2]
TIMES = {"fast": {"phonograd": 1e-3, "torch": 2e-3, "jax": 5e-4}, "ours": {"phonograd": 2.0, "jax": 1.0}}
RESULTS = {
    "machine": {"processor": "P", "cores": 4, "python": "3", "numpy": "2", "load_before": [0.5], "load_after": [1.5]},
    "threads": 4,
    "clock": "time on the clock",
    "rounds": 3,
    "seconds": TIMES,
    "roofline": {"work": {"fast": {"bound_seconds": 5e-4}, "ours": {"bound_seconds": 0.02}}},
}


# -- documents


@pytest.mark.parametrize("page", report.PAGES, ids=lambda page: page.name)
def test_the_figures_are_those_that_were_measured(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert report.MARKED.search(text)
    assert report.filled(text, report.stored()) == text, "run `python -m benchmarks.report`"


def test_everything_was_measured() -> None:
    assert list(report.stored()["comparison"]["seconds"]) == list(WORKLOADS)


def test_the_table_shows_ratios() -> None:
    assert report.comparison(RESULTS) == [
        "| workload | phonograd | PyTorch | JAX (jit) | roofline |",
        "| --- | ---: | ---: | ---: | ---: |",
        "| fast | 1 ms | 2.00 | 0.50 | 50.0% |",
        "| ours | 2.00 s | - | 0.50 | 1.0% |",
    ]


def test_the_machine_is_described() -> None:
    (line,) = report.machine(RESULTS)
    assert line == (
        "P, 4 cores, Python 3, numpy 2; time on the clock on 4 threads, best of 3 rounds in turn; "
        "load of the machine 0.5 before and 1.5 after."
    )


def test_only_what_is_between_the_marks_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(report.TABLES, "speed", lambda every: ["new"])
    text = "a\n<!-- figures: speed -->\nold\n<!-- end of figures -->\nb\n"
    assert report.filled(text, {}) == "a\n<!-- figures: speed -->\nnew\n<!-- end of figures -->\nb\n"


@pytest.mark.parametrize(
    "seconds, text", [(9.994e-4, "999 us"), (1.5e-6, "1.5 us"), (0.9994, "999 ms"), (12, "12.00 s")]
)
def test_duration(seconds: float, text: str) -> None:
    assert report.duration(seconds) == text


# -- peers


def test_a_peer_is_found_by_its_variable_or_where_make_puts_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for variable, _ in compare.PEERS.values():
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("PEERS_HOME", str(tmp_path))
    assert compare.python_of("jax") is None
    python = tmp_path / "torch" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.touch()
    assert compare.python_of("jax") == compare.python_of("torch") == str(python)
    monkeypatch.setenv("JAX_PYTHON", "somewhere")
    assert compare.python_of("jax") == "somewhere"


@pytest.mark.parametrize("library", ["torch", "jax"])
def test_peers_have_the_same_workloads(library: str) -> None:
    text = (ROOT / "benchmarks" / f"workloads_{library}.py").read_text(encoding="utf-8")
    table = text.partition("\nWORKLOADS = {")[2]
    absent = ONLY_PHONOGRAD | (WITHOUT_JAX if library == "jax" else set())
    assert not [name for name in WORKLOADS if f'"{name}":' not in table and name not in absent]


@pytest.mark.parametrize("name", WORKLOADS)
def test_workload(name: str) -> None:
    smaller = {"size": 64} if "size" in inspect.signature(WORKLOADS[name]).parameters else {}
    step = WORKLOADS[name](mx, **smaller)
    step()
    step()


@pytest.mark.parametrize("name", workloads_lookups_nd.MAKERS)
def test_lookup(name: str) -> None:
    step = workloads_lookups_nd.MAKERS[name](mx, 40, 16, 8)
    step()
    step()


@pytest.mark.parametrize("name", [*workloads_compiled_nd.WORKLOADS])
def test_compiled_step(name: str) -> None:
    make = workloads_compiled_nd.WORKLOADS[name]
    step = make(mx, size=64) if "size" in inspect.signature(make).parameters else make(mx)
    step()
    step()


def test_tables_show_the_ratios_of_peers() -> None:
    assert report.side_by_side({**RESULTS, "seconds": TIMES})[1:5] == [
        "| workload | phonograd | PyTorch | JAX (jit) |",
        "| --- | ---: | ---: | ---: |",
        "| fast | 1 ms | 2.00 | 0.50 |",
        "| ours | 2.00 s | - | 0.50 |",
    ]


# -- the roofline


def test_the_bound_is_the_longer_time() -> None:
    peaks = Peaks(operations_per_second=10.0, bytes_per_second=5.0)
    assert peaks.bound(Work(20.0, 5, 100)) == 2.0
    assert peaks.bound(Work(20.0, 50, 100)) == 10.0


def test_work_of_a_step() -> None:
    pytest.importorskip("llvmlite")
    with settings.override(executor="native"):
        a, b = mx.nd.ones((8, 16)), mx.nd.ones((16, 4))
        mx.nd.waitall()
        work = roofline.work_of_step(lambda: mx.nd.relu(mx.nd.dot(a, b)).wait_to_read())
    assert work.operations == 2 * 8 * 16 * 4 + 8 * 4
    assert work.least_bytes == 4 * (8 * 16 + 16 * 4 + 8 * 4)
    assert work.moved_bytes >= work.least_bytes


def test_the_same_run_function_is_left_behind() -> None:
    from phonograd.core.plan.native_program import NativeProgram

    before = NativeProgram.run
    with pytest.raises(ZeroDivisionError):
        roofline.work_of_step(lambda: 1 / 0)  # type: ignore[arg-type,return-value]
    assert NativeProgram.run is before


@pytest.mark.skipif(not os.environ.get("TORCH_PYTHON"), reason="TORCH_PYTHON names no Python with PyTorch")
def test_a_worker_answers() -> None:
    worker = compare.Worker(os.environ["TORCH_PYTHON"], "torch", 1)
    try:
        assert set(worker.ask("names")) >= set(WORKLOADS) - ONLY_PHONOGRAD
        assert worker.ask("time regression") > 0
    finally:
        worker.close()


def test_benchmarks_can_be_imported() -> None:
    for path in (ROOT / "benchmarks").glob("*.py"):
        if path.stem != "__main__" and not path.stem.endswith(("_jax", "_torch", "_onnxruntime")):
            importlib.import_module(f"benchmarks.{path.stem}")


def test_200_convolutions_are_swept() -> None:
    assert len({case.name for case in CASES}) == len(CASES) == 200
    assert all([min(case.out) > 0 for case in CASES])
    rows = [
        {"case": case.name, "kind": case.kind, "seconds": {"phonograd": {"forward": 1.0}, "torch": {"forward": 2.0}}}
        for case in CASES
    ]
    results = {"machine": {"processor": "P"}, "threads": 1, "clock": "processor time", "rows": rows}
    table = report.convolution({"convolution": results})
    assert table[3] == "| all | 200 | 2.00 | 2.00 | 0 |"
    assert table[-2] == "P, 1 thread, processor time."
