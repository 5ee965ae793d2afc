"""int8 inference against float32: this library, PyTorch's quantized path, and onnxruntime.

    python -m benchmarks.precision_int8 [--torch /path/to/python] [--threads N] [--write] [network ...]

A first process trains nothing: it makes the networks with random weights, calibrates them on their input, and writes
files. Each row then runs in a process of its own, several rounds of all rows one after the other. A row shows the
fastest call in milliseconds, how much faster it is than float32 of the same library, and the peak of its resident
memory, which includes the library itself. With ``--threads 1``, time is that of the processor, for a busy machine.
onnxruntime runs the network that its own quantizer makes of our float32 export (uint8 data, int8 weights per channel).

``--write`` keeps the results and writes the table of docs/quantization.md. It needs both other libraries: ``--torch``
names a Python with PyTorch, and onnxruntime and onnx are in the environment of this library (``pip install onnx
onnxruntime``). All of it takes about a minute on an idle machine with two cores.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["main"]

SHAPES = {"mlp": (64, 784), "resnet18": (4, 3, 224, 224)}
LIBRARIES = {
    "phonograd": ("float32", "int8"),
    "torch": ("float32", "int8"),
    "onnxruntime": ("float32", "int8"),
}
HERE = Path(__file__).parent
_ROUNDS, _CALLS, _WARM_UP = 2, 20, 6
#: time that the calls before the measurement, and those of it, may take
_SECONDS = 2.0


def _data(name: str) -> Any:
    return np.random.default_rng(0).uniform(-1, 1, SHAPES[name]).astype(np.float32)


def _memory(word: str) -> float:
    """Return a figure of this process in megabytes: ``VmHWM`` is the peak of resident memory."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{word}:")) / 1024


def _measure(call: Callable[[], Any], clock: Callable[[], float]) -> dict[str, float]:
    def repeat(count: int) -> list[float]:
        times: list[float] = []
        begin = time.perf_counter()
        while len(times) < count and (len(times) < 3 or time.perf_counter() - begin < _SECONDS):
            start = clock()
            call()
            times.append(clock() - start)
        return times

    repeat(_WARM_UP)
    kernel_cache = sys.modules.get("phonograd.core.run.kernel_cache")
    if kernel_cache is not None:
        kernel_cache.wait_for_tier_up()
        repeat(3)
    # resets the peak of resident memory
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")
    times = repeat(_CALLS)
    return {"milliseconds": 1e3 * min(times), "megabytes": _memory("VmHWM")}


# -- this library


def _network(name: str) -> Any:
    from phonograd import gluon

    if name == "resnet18":
        return gluon.model_zoo.vision.resnet18_v1(classes=1000)
    net = gluon.nn.HybridSequential()
    net.add(*[gluon.nn.Dense(1024, activation="relu") for _ in range(3)], gluon.nn.Dense(10))
    return net


def prepare(name: str, folder: Path) -> None:
    """Write the files of a network: ours in both precisions, and ONNX in both."""
    import phonograd as mx
    from phonograd.contrib import quantization

    mx.random.seed(0)
    net = _network(name)
    net.initialize(mx.init.Xavier())
    net.hybridize()
    data = mx.nd.array(_data(name))
    net(data)
    quantized = quantization.quantize_net_v2(net, calib_data=[data], calib_mode="naive")
    quantized.hybridize()
    quantized(data)
    for precision, block in (("float32", net), ("int8", quantized)):
        block.export(str(folder / f"{name}-{precision}"))
    files = [str(folder / f"{name}-float32-{part}") for part in ("symbol.json", "0000.params")]
    mx.onnx.export_model(*files, [SHAPES[name]], np.float32, str(folder / f"{name}-float32.onnx"))
    _quantize_onnx(name, folder)


def _quantize_onnx(name: str, folder: Path) -> None:
    """Quantize an ONNX file with onnxruntime's own tool, if it is installed."""
    try:
        from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
        from onnxruntime.quantization.shape_inference import quant_pre_process
    except ImportError:
        return

    class Reader(CalibrationDataReader):  # type: ignore[misc, unused-ignore]
        def __init__(self) -> None:
            self.batches: Iterator[dict[str, Any]] = iter([{"data": _data(name)}])

        def get_next(self) -> dict[str, Any] | None:
            return next(self.batches, None)

    source, target = str(folder / f"{name}-float32.onnx"), str(folder / f"{name}-int8.onnx")
    ready = str(folder / f"{name}-ready.onnx")
    quant_pre_process(source, ready, skip_symbolic_shape=True)
    kinds = {"activation_type": QuantType.QUInt8, "weight_type": QuantType.QInt8}
    quantize_static(ready, target, Reader(), quant_format=QuantFormat.QDQ, per_channel=True, **kinds)


def run_phonograd(name: str, precision: str, folder: Path, threads: int) -> Callable[[], Any]:
    """Return a call of our network."""
    os.environ["PHONOGRAD_NUM_THREADS"] = str(threads)
    import phonograd as mx
    from phonograd import gluon

    files = [str(folder / f"{name}-{precision}-{part}") for part in ("symbol.json", "0000.params")]
    symbol = mx.sym.load(files[0])
    inputs = [word for word in symbol.list_inputs() if word.startswith("data")]
    net = gluon.SymbolBlock.imports(files[0], inputs, files[1])
    net.hybridize()
    data = mx.nd.array(_data(name))
    return lambda: net(data).wait_to_read()


# -- PyTorch


def _torch_resnet() -> Any:
    import torch
    from torch import nn

    class Block(nn.Module):  # type: ignore[misc, unused-ignore]
        def __init__(self, before: int, filters: int, stride: int) -> None:
            super().__init__()
            self.conv1, self.bn1 = nn.Conv2d(before, filters, 3, stride, 1, bias=False), nn.BatchNorm2d(filters)
            self.relu = nn.ReLU()
            self.conv2, self.bn2 = nn.Conv2d(filters, filters, 3, 1, 1, bias=False), nn.BatchNorm2d(filters)
            self.down = None
            if stride > 1 or before != filters:
                self.down = nn.Sequential(nn.Conv2d(before, filters, 1, stride, bias=False), nn.BatchNorm2d(filters))
            self.add = torch.ao.nn.quantized.FloatFunctional()

        def forward(self, x: Any) -> Any:
            y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
            return self.add.add_relu(y, x if self.down is None else self.down(x))

    blocks, before = [], 64
    for filters, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        blocks += [Block(before, filters, stride), Block(filters, filters, 1)]
        before = filters
    first = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    return nn.Sequential(*first, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000))


def _torch_pairs(net: Any, name: str) -> list[list[str]]:
    """Return the layers that PyTorch fuses."""
    if name == "mlp":
        return [["0", "1"], ["2", "3"], ["4", "5"]]
    pairs = [["0", "1", "2"]]
    for number, block in enumerate(net):
        if hasattr(block, "conv1"):
            pairs += [[f"{number}.conv1", f"{number}.bn1", f"{number}.relu"], [f"{number}.conv2", f"{number}.bn2"]]
            pairs += [[f"{number}.down.0", f"{number}.down.1"]] if block.down is not None else []
    return pairs


def run_torch(name: str, precision: str, folder: Path, threads: int) -> Callable[[], Any]:
    """Return a call of PyTorch's network; int8 is its quantized path for x86."""
    import warnings

    import torch
    from torch import nn

    warnings.simplefilter("ignore")
    torch.set_num_threads(threads)
    if name == "mlp":
        sizes = ((784, 1024), (1024, 1024), (1024, 1024))
        layers = [layer for pair in sizes for layer in (nn.Linear(*pair), nn.ReLU())]
        net: Any = nn.Sequential(*layers, nn.Linear(1024, 10))
    else:
        net = _torch_resnet()
    net.eval()
    data = torch.from_numpy(_data(name))
    if precision == "int8":
        tools = torch.ao.quantization
        torch.backends.quantized.engine = "x86"
        fused = tools.fuse_modules(net, _torch_pairs(net, name))
        wrapped = nn.Sequential(tools.QuantStub(), fused, tools.DeQuantStub()).eval()
        wrapped.qconfig = tools.get_default_qconfig("x86")
        prepared = tools.prepare(wrapped)
        with torch.inference_mode():
            prepared(data)
        net = tools.convert(prepared)
    else:
        net = torch.jit.optimize_for_inference(torch.jit.trace(net, data))

    def call() -> None:
        with torch.inference_mode():
            net(data)

    return call


# -- onnxruntime


def run_onnxruntime(name: str, precision: str, folder: Path, threads: int) -> Callable[[], Any]:
    """Return a call of onnxruntime's network."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    path = str(folder / f"{name}-{precision}.onnx")
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    data = _data(name)
    return lambda: session.run(None, {"data": data})


# -- rows

_RUNS = {"phonograd": run_phonograd, "torch": run_torch, "onnxruntime": run_onnxruntime}


def _run(python: str, *arguments: str) -> str:
    command = [python, "-m", "benchmarks.precision_int8", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed: {(done.stderr.strip().splitlines() or ['?'])[-1]}")
    return done.stdout


def _measured(name: str, pythons: dict[str, str], threads: int, folder: str) -> list[dict[str, Any]]:
    """Return the rows of a network, each the fastest of several rounds."""
    _run(sys.executable, "--prepare", name, folder)
    cases = [(library, kind) for library, kinds in LIBRARIES.items() if library in pythons for kind in kinds]
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for _ in range(_ROUNDS):
        for case in cases:
            text = _run(pythons[case[0]], "--row", name, *case, folder, "--threads", str(threads))
            row = json.loads(text.splitlines()[-1])
            print(f"{name} {' '.join(case)}: {row['milliseconds']:.2f} ms", file=sys.stderr, flush=True)
            if case not in found or row["milliseconds"] < found[case]["milliseconds"]:
                found[case] = {"network": name, "library": case[0], "precision": case[1], **row}
    return [found[case] for case in cases]


def _has_onnxruntime() -> bool:
    return all([importlib.util.find_spec(name) is not None for name in ("onnx", "onnxruntime")])


def measure(networks: list[str], torch: str | None, threads: int) -> dict[str, Any]:
    """Return the results of some networks, and print them."""
    from benchmarks import machine, report

    pythons = {"phonograd": sys.executable}
    if _has_onnxruntime():
        pythons["onnxruntime"] = sys.executable
    if torch:
        pythons["torch"] = torch
    facts = {**machine.description(), "load_before": machine.load()}
    results: dict[str, Any] = {"machine": facts, "threads": threads, "rounds": _ROUNDS, "rows": []}
    with tempfile.TemporaryDirectory() as folder:
        for name in networks:
            results["rows"] += _measured(name, pythons, threads, folder)
    print("\n".join(report.int8({"precision_int8": results})))
    return results


def main(arguments: list[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", default=list(SHAPES), help="networks to measure")
    parser.add_argument("--torch", help="a Python with PyTorch")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--write", action="store_true", help="keep the results of all networks and write the page")
    parser.add_argument("--prepare", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--row", nargs=4, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.prepare:
        prepare(given.prepare[0], Path(given.prepare[1]))
        return
    if given.row:
        name, library, precision, folder = given.row
        call = _RUNS[library](name, precision, Path(folder), given.threads)
        print(json.dumps(_measure(call, time.process_time if given.threads == 1 else time.perf_counter)))
        return
    if unknown := [name for name in given.networks if name not in SHAPES]:
        parser.error(f"unknown networks {unknown}; they are {', '.join(SHAPES)}")
    if given.write and (given.networks != list(SHAPES) or not given.torch or not _has_onnxruntime()):
        parser.error("--write needs all networks, --torch, and onnx and onnxruntime beside this library")
    results = measure(given.networks, given.torch, given.threads)
    if given.write:
        from benchmarks import report

        (HERE / "results" / "precision_int8.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
        report.write_pages()


if __name__ == "__main__":
    main()
