"""Measure training on several processes: ``python -m benchmarks.distributed``, in 10 minutes on an idle machine.

*Models*: LeNet, ResNet-18 at 64x64 and an LSTM language model on 1 and 2 ranks with one thread each: examples per
second of all ranks, and the share of communication that is hidden behind the backward pass. Two ranks *apart* do not
communicate: what they lose against twice the speed of one rank is the machine's share of the loss. PyTorch's
DistributedDataParallel over gloo trains the same models beside it, if a Python has it (:mod:`benchmarks.compare`
describes how it is found). *Buckets*: ResNet-18 with several sizes. *Reductions*: ``all_reduce`` and mpi4py's bare
``Allreduce``. *Network*: the same models and reductions on machines that are joined by 1 Gbit/s with 1 ms of delay
(:mod:`benchmarks.network`), with and without compression; this needs root. *Larger groups*: the time of messages,
fitted to the measured reductions, gives the efficiency of up to 1,000 ranks (:mod:`benchmarks.distributed_model`).

Runs of both libraries alternate, and the best of two rounds counts. The figures go to docs/distributed.md,
docs/distributed.svg and results/distributed.json. On a busy machine nothing is written, unless ``--write`` insists.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks import compare, distributed_model, machine
from benchmarks.distributed_worker import MODELS
from benchmarks.network import Network

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
RESULTS = HERE / "results" / "distributed.json"
PAGE, FIGURE = ROOT / "docs" / "distributed.md", ROOT / "docs" / "distributed.svg"
BEGIN, END = "<!-- figures of benchmarks.distributed -->", "<!-- end of figures -->"
TITLES = {"lenet": "LeNet", "resnet18": "ResNet-18", "lstm": "LSTM"}
#: least speedup of two ranks, least ratio to PyTorch, and most ratio of reductions to those of MPI
GOALS = {"speedup": 1.85, "torch": 1.5, "reduction": 1.2}
BUCKETS = (1 << 20, 4 << 20, 8 << 20, 25 << 20)
RATE, DELAY = 1e9, 1e-3
#: a machine on which more processes than this run is busy
_BUSY = 0.5


# -- runs


def launch(ranks: int, *arguments: str, network: Network | None = None) -> Any:
    """Return what rank 0 prints, on this machine or on those of a network."""
    places = ["-n", str(ranks)]
    if network is not None:
        places = ["--hosts", ",".join([f"{address}:1" for address in network.addresses[:ranks]])]
    command = [sys.executable, "-m", "phonograd", "launch", "--threads", "1", "--plain", *places]
    command += ["-m", "benchmarks.distributed_worker", *arguments]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    if network is not None:
        command = network.command(0, command)
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=ROOT, timeout=300)
    if done.returncode:
        raise SystemExit(f"{' '.join(arguments)} with {ranks} ranks failed:\n{done.stdout}{done.stderr}")
    return json.loads([line for line in done.stdout.splitlines() if line.startswith("{")][-1])


def launch_torch(name: str, ranks: int, seconds: float, network: Network | None = None) -> Any:
    """Return what rank 0 of PyTorch prints; None without PyTorch."""
    python = compare.python_of("torch")
    if python is None:
        return None
    host = "127.0.0.1" if network is None else network.addresses[0]
    address = f"{host}:{20_000 + os.getpid() % 20_000}"
    started = []
    for rank in range(ranks):
        words = [python, str(HERE / "distributed_worker.py"), "torch", name, str(rank), str(ranks), address]
        command = [*words, str(seconds)] if network is None else network.command(rank, [*words, str(seconds)])
        # gloo binds to the address of the machine's name, which the simulated machines do not know
        variables = {**os.environ, "OMP_NUM_THREADS": "1"}
        if network is not None:
            variables["GLOO_SOCKET_IFNAME"] = f"phonograd{rank + 1}"
        started.append(
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=variables)
        )
    outputs = [process.communicate(timeout=300) for process in started]
    if any([process.returncode for process in started]):
        raise SystemExit(f"PyTorch cannot train {name}:\n{outputs[0][1]}{outputs[-1][1]}")
    return json.loads(outputs[0][0].splitlines()[-1])


def better(first: Any, second: Any) -> Any:
    """Return the better of two runs; None if there was none."""
    found = [each for each in (first, second) if each is not None]
    return max(found, key=lambda each: float(each["examples_per_second"]), default=None)


def run_all(seconds: float, network: bool) -> dict[str, Any]:
    """Return all figures."""
    found: dict[str, Any] = {"machine": machine.description(), "load": machine.load(), "seconds": seconds}
    begin = time.perf_counter()

    def say(text: str) -> None:
        print(f"{time.perf_counter() - begin:5.0f} s  {text}", flush=True)

    models: dict[str, Any] = {name: {} for name in MODELS}
    for number in range(2):
        for name, entry in models.items():
            for ranks in (1, 2):
                own = launch(ranks, "train", name, "none", "0", str(seconds))
                other = launch_torch(name, ranks, seconds)
                entry[f"ours {ranks}"] = better(entry.get(f"ours {ranks}"), own)
                entry[f"torch {ranks}"] = better(entry.get(f"torch {ranks}"), other)
            say(
                f"{name}, round {number + 1}: {[round(each['examples_per_second']) for each in entry.values() if each]}"
            )
    for name, entry in models.items():
        entry["apart"] = launch(2, "train", name, "apart", "0", str(seconds))
    say("ranks that do not communicate")
    found["models"] = models
    found["buckets"] = {
        str(size): launch(2, "train", "resnet18", "none", str(size), str(seconds)) for size in BUCKETS
    }  # fmt: skip
    say("buckets")
    found["reductions"] = launch(2, "reduce", "1")
    say("reductions")
    if network:
        found["network"] = over_network(seconds, say)
    found["load_after"] = machine.load()
    found["duration"] = time.perf_counter() - begin
    return found


def over_network(seconds: float, say: Any) -> dict[str, Any]:
    """Return the figures of machines that a slow network joins."""
    found: dict[str, Any] = {"models": {name: {} for name in MODELS}}
    with Network(4, RATE, DELAY) as network, network.reached_by_launchers():
        for name, entry in found["models"].items():
            for kind in ("none", "2bit"):
                entry[kind] = launch(2, "train", name, kind, "0", str(seconds), network=network)
            entry["torch"] = launch_torch(name, 2, seconds, network)
            rates = {key: round(each["examples_per_second"]) for key, each in entry.items() if each}
            say(f"{name} over the network: {rates}")
        found["reductions"] = {str(ranks): launch(ranks, "reduce", "1", network=network) for ranks in (2, 4)}
        say("reductions over the network")
    return found


# -- the page


def models_table(models: dict[str, Any]) -> list[str]:
    """Return the throughput of one and two ranks."""
    lines = [
        f"| examples/s | 1 rank | 2 ranks apart | 2 ranks | speedup (goal {GOALS['speedup']}) | hidden | "
        f"PyTorch DDP, 1 rank | 2 ranks | ours / PyTorch (goal {GOALS['torch']}) |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, entry in models.items():
        one, apart, two = (entry[key]["examples_per_second"] for key in ("ours 1", "apart", "ours 2"))
        others = [entry[f"torch {ranks}"] for ranks in (1, 2)]
        theirs = [f"{each['examples_per_second']:.0f}" if each else "-" for each in others]
        ratio = f"{two / others[1]['examples_per_second']:.2f}" if others[1] else "-"
        lines.append(
            f"| {TITLES[name]}, {MODELS[name]} per rank | {one:.0f} | {apart:.0f} | {two:.0f} | {two / one:.2f} | "
            f"{hidden(entry['ours 2']):.0%} | {theirs[0]} | {theirs[1]} | {ratio} |"
        )
    lines += ["", "| CPU time of a step, ms | 1 rank | 2 ranks apart, each | 2 ranks, each |", "|---|---|---|---|"]
    for name, entry in models.items():
        times = [1e3 * entry[key]["cpu_seconds"] for key in ("ours 1", "apart", "ours 2")]
        lines.append(f"| {TITLES[name]} | " + " | ".join([f"{each:.1f}" for each in times]) + " |")
    return lines


def hidden(entry: dict[str, Any]) -> float:
    """Return the share of transfers during which the program computed."""
    transfer = entry["transfer_seconds"]
    return max(0.0, 1 - entry["exposed_seconds"] / transfer) if transfer else 0.0


def page(found: dict[str, Any]) -> str:
    """Return the figures as a part of docs/distributed.md."""
    facts = found["machine"]
    lines = [
        f"Measured on {facts['processor']} with {facts['cores']} cores, one thread for each rank. *Hidden* is the share "
        "of the time of transfers in which the program computed. Ranks *apart* do not communicate: they show what two "
        "processes can reach on this machine.",
        "",
        *models_table(found["models"]),
        "",
        "| size of buckets, ResNet-18, 2 ranks | examples/s | CPU time of a step, ms | hidden |",
        "|---|---|---|---|",
    ]
    for size, entry in {"0": found["models"]["resnet18"]["ours 2"], **found["buckets"]}.items():
        title = f"{int(size) >> 20} MB, during the backward pass" if int(size) else "one, after the backward pass"
        lines.append(
            f"| {title} | {entry['examples_per_second']:.0f} | {1e3 * entry['cpu_seconds']:.0f} | {hidden(entry):.0%} |"
        )
    lines += [
        "",
        f"| bytes, 2 ranks | `all_reduce` | bare `Allreduce` | ratio (goal {GOALS['reduction']}) |",
        "|---|---|---|---|",
    ]
    for size, each in found["reductions"].items():
        ours, bare = 1e3 * each["ours"], 1e3 * each["bare"]
        lines.append(f"| {4 * int(size):,} | {ours:.3f} ms | {bare:.3f} ms | {ours / bare:.2f} |")
    if "network" in found:
        lines += network_part(found["network"])
    return "\n".join([*lines, "", *model_part(found)])


def network_part(found: dict[str, Any]) -> list[str]:
    """Return the figures of machines that a slow network joins."""
    lines = [
        "",
        "Two machines with one rank each, joined by 1 Gbit/s with 1 ms of delay (network namespaces; a program forwards "
        "packets):",
        "",
        "| examples/s | all bits | hidden | 2bit compression | PyTorch DDP |",
        "|---|---|---|---|---|",
    ]
    for name, entry in found["models"].items():
        rates = [f"{entry[key]['examples_per_second']:.0f}" if entry[key] else "-" for key in ("none", "2bit", "torch")]
        lines.append(f"| {TITLES[name]} | {rates[0]} | {hidden(entry['none']):.0%} | {rates[1]} | {rates[2]} |")
    lines += [
        "",
        f"| bytes | 2 machines | bare `Allreduce` | ratio (goal {GOALS['reduction']}) | 4 machines | bare `Allreduce` | "
        f"ratio (goal {GOALS['reduction']}) |",
        "|---|---|---|---|---|---|---|",
    ]
    two, four = found["reductions"].values()
    for size in two:
        cells = [
            f"{1e3 * each[size]['ours']:.1f} ms | {1e3 * each[size]['bare']:.1f} ms | "
            f"{each[size]['ours'] / each[size]['bare']:.2f}"
            for each in (two, four)
        ]
        lines.append(f"| {4 * int(size):,} | " + " | ".join(cells) + " |")
    return lines


def model_part(found: dict[str, Any]) -> list[str]:
    """Return the modeled efficiency of larger groups, and write its figure."""
    links = {"one machine": distributed_model.fit(found["reductions"])}
    if "network" in found:
        links["1 Gbit/s"] = distributed_model.fit(found["network"]["reductions"]["2"])
    bucket = _default_bucket()
    models = {TITLES[name]: {**found["models"][name]["ours 2"], **_alone(found["models"][name])} for name in MODELS}
    lines = []
    for link, (alpha, beta) in links.items():
        lines += [
            f"Messages between ranks, {link}: alpha {1e6 * alpha:.0f} µs, beta {1e-9 / beta if beta else 0:.2f} GB/s. "
            "Modeled efficiency of larger groups:",
            "",
            "| ranks | " + " | ".join(models) + " |",
            "|---|" + "---|" * len(models),
        ]
        for ranks in distributed_model.RANKS:
            shares = [
                distributed_model.efficiency(ranks, each["step_seconds"], each["gradient_bytes"], bucket, alpha, beta)
                for each in models.values()
            ]
            lines.append(f"| {ranks} | " + " | ".join([f"{share:.0%}" for share in shares]) + " |")
        limits = [
            f"{name} to {distributed_model.largest_group(0.5, each['step_seconds'], each['gradient_bytes'], bucket, alpha, beta)}"
            for name, each in models.items()
        ]
        lines += [
            "",
            f"Half of the time is computation up to these numbers of ranks (at most 4096): {', '.join(limits)}.",
            "",
        ]
    return [*lines, "![Modeled efficiency](distributed.svg)"]


def image(found: dict[str, Any]) -> str:
    """Return the figure of the modeled efficiency."""
    links = {"one machine": distributed_model.fit(found["reductions"])}
    if "network" in found:
        links["1 Gbit/s"] = distributed_model.fit(found["network"]["reductions"]["2"])
    models = {TITLES[name]: {**found["models"][name]["ours 2"], **_alone(found["models"][name])} for name in MODELS}
    return distributed_model.figure(
        distributed_model.curves_of(models, links, _default_bucket()), "Share of a step in which ranks compute (model)"
    )


def _alone(entry: dict[str, Any]) -> dict[str, float]:
    """Return the time of a step without communication."""
    return {"step_seconds": entry["ours 1"]["step_seconds"]}


def _default_bucket() -> int:
    import phonograd as mx

    return int(mx.settings.current().bucket_bytes)


def main() -> int:
    """Run everything and return an exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write the figures even if the machine was busy")
    parser.add_argument("--no-network", action="store_true", help="leave out the simulated network, which needs root")
    parser.add_argument("--seconds", type=float, default=4.0, help="seconds for each run")
    arguments = parser.parse_args()
    if importlib.util.find_spec("mpi4py") is None:
        raise SystemExit("this benchmark needs pip install 'phonograd[mpi]'")
    found = run_all(arguments.seconds, not arguments.no_network)
    text = page(found)
    print(text)
    if found["load"] and found["load"][0] > _BUSY and not arguments.write:
        print("the machine was busy before the runs: nothing is written", file=sys.stderr)
        return 1
    RESULTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    FIGURE.write_text(image(found), encoding="utf-8")
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n{text}\n{END}{rest.partition(END)[2]}", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
