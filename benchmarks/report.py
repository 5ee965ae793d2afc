"""Write the tables of README.md and of pages in docs: ``python -m benchmarks.report``.

A table is between ``<!-- figures: NAME -->`` and ``<!-- end of figures -->`` and depends only on the files in
``benchmarks/results``. The tests check that the documents show the last run.
"""

from __future__ import annotations

import json
import math
import re
import statistics
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from benchmarks.workloads_nd import WORKLOADS

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
PAGES = (
    ROOT / "README.md",
    *[ROOT / "docs" / f"{name}.md" for name in ("performance", "precision", "quantization")],
)
TITLES = {"mxnet": "MXNet", "torch": "PyTorch", "jax": "JAX (jit)"}
MARKED = re.compile(r"(<!-- figures: (\w+) -->\n).*?(<!-- end of figures -->)", re.DOTALL)

Results = dict[str, Any]


def duration(seconds: float) -> str:
    """Return a time in a readable unit.

    >>> duration(1.05e-5), duration(0.0123), duration(2.5)
    ('10.5 us', '12.3 ms', '2.50 s')
    """
    for unit, size in (("us", 1e-6), ("ms", 1e-3)):
        if seconds < 999.5 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.2f} s"


def amount(number: float) -> str:
    """Return a number with three digits, or more before the point.

    >>> amount(0.00422), amount(65.04), amount(4647.5)
    ('0.00422', '65', '4,648')
    """
    return f"{number:.3g}" if number < 999.5 else f"{number:,.0f}"


def ratio(times: dict[str, float], peer: str) -> str:
    """Return the ratio of a peer's time to ours, a dash if it was not measured, or that it fails."""
    if times.get(peer) == math.inf:
        return "fails"
    return f"{times[peer] / times['phonograd']:.2f}" if peer in times else "-"


def table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    """Return the lines of a table whose columns after the first are right-aligned."""
    heads = list(heads)
    lines = [heads, ["---", *["---:"] * (len(heads) - 1)], *rows]
    return ["| " + " | ".join(line) + " |" for line in lines]


# -- the tables


def comparison(results: Results) -> list[str]:
    """Return the times of phonograd, the relative times of peers, and the share of the roofline."""
    peers = [peer for peer in TITLES if any([peer in times for times in results["seconds"].values()])]
    rows = []
    for name, times in results["seconds"].items():
        own = times["phonograd"]
        share = results["roofline"]["work"][name]["bound_seconds"] / own
        rows.append([name, duration(own), *[ratio(times, peer) for peer in peers], f"{share:.1%}"])
    return table(["workload", "phonograd", *[TITLES[peer] for peer in peers], "roofline"], rows)


def machine(results: Results) -> list[str]:
    """Return a line about the machine, the versions and the method."""
    facts = results["machine"]
    libraries = ", ".join([f"{name} {facts[name]}" for name in ("numpy", "llvmlite", *TITLES) if facts.get(name)])
    threads, loads = results["threads"], [facts[when][0] for when in ("load_before", "load_after") if facts[when]]
    return [
        f"{facts['processor']}, {facts['cores']} cores, Python {facts['python']}, {libraries}; "
        f"{results['clock']} on {threads} thread{'s' if threads > 1 else ''}, best of {results['rounds']} rounds in turn"
        + (f"; load of the machine {' before and '.join(map(str, loads))} after." if loads else ".")
    ]


def speed(every: dict[str, Results]) -> list[str]:
    """Return the table of README.md."""
    results = every["comparison"]
    return ["", *comparison(results), "", *machine(results), ""]


def _place(results: Results) -> str:
    """Return the processor on which programs ran, and how they were measured."""
    facts = results["machine"]
    load = f", load of the machine before: {facts['load_before'][0]}" if facts.get("load_before") else ""
    return f"{facts['processor']}, {results['threads']} threads, best of {results['rounds']} rounds{load}."


def models(every: dict[str, Results]) -> list[str]:
    """Return the times of whole models, and the relative times of peers."""
    from benchmarks.workloads_models_nd import WORKLOADS as MODELS

    results = every["models"]
    titles = {
        "mxnet": "MXNet",
        "torch": "PyTorch",
        "compiled": "torch.compile",
        "jax": "JAX (jit)",
        "onnxruntime": "onnxruntime",
    }
    peers = [peer for peer in titles if any([peer in times for times in results["seconds"].values()])]
    rows = []
    for name, times in results["seconds"].items():
        described = (getattr(MODELS[name], "__doc__", None) or "").partition(":")[0] if "infer" not in name else ""
        rows.append([name, duration(times["phonograd"]), *[ratio(times, peer) for peer in peers], described])
    lines = table(["model", "phonograd", *[titles[peer] for peer in peers], "what"], rows)
    lines[1] = lines[1][: -len("---: |")] + "--- |"
    versions = ", ".join([f"{titles[peer]} {results['machine'][peer]}" for peer in peers])
    fails = any([time == math.inf for times in results["seconds"].values() for time in times.values()])
    why = " A network *fails* that `torch.compile` rejects, or does not compile within 120 s." if fails else ""
    return ["", *lines, "", f"{_place(results)} {versions}.{why}", ""]


def novel(every: dict[str, Results]) -> list[str]:
    """Return the times of steps of programs that are new in every step."""
    from benchmarks.workloads_novel_nd import WORKLOADS as NOVEL

    rows = []
    for name, found in every["novel"]["milliseconds"].items():
        cold, warm = [found[kind]["later"] for kind in ("cold", "warm")]
        peers = [f"{found[peer]['later'] / cold:.2f}" if peer in found else "-" for peer in ("mxnet", "torch")]
        rows.append([name, duration(cold / 1e3), duration(warm / 1e3), *peers, NOVEL[name].__doc__ or ""])
    if "gluonts" in every:
        seconds = {kind: times["estimators"] for kind, times in every["gluonts"]["seconds"].items()}
        times = [duration(seconds["cold"]), duration(seconds["warm"]), f"{seconds['mxnet'] / seconds['cold']:.2f}", "-"]
        count = len(every["gluonts"]["estimators"])
        rows.append(["gluonts", *times, f"{count} estimators of GluonTS train, predict, are written and read, predict"])
    lines = table(["program", "empty cache", "warm cache", "MXNet", "PyTorch", "one step"], rows)
    lines[1] = lines[1][: -len("---: |")] + "--- |"
    steps = every["novel"]["steps"]
    return ["", *lines, "", f"Mean of {steps} steps of a new process without the first. {_place(every['novel'])}", ""]


def cold(every: dict[str, Results]) -> list[str]:
    """Return the times of new processes, by library."""
    rows = []
    names = {"cold": "phonograd, empty cache", "warm": "phonograd, warm cache", **TITLES}
    for name, found in every["cold"]["starts"].items():
        for kind, start in found.items():
            times = [duration(start[part] / 1e3) for part in ("imported", "first")]
            rows.append([f"cold-{name}", names[kind], *times, f"{start['slowest']:.1f}"])
    heads = ["workload", "library", "import", "first step", f"slowest of {every['cold']['steps'] - 1} more / median"]
    return ["", *table(heads, rows), "", _place(every["cold"]), ""]


def starts(every: dict[str, Results]) -> list[str]:
    """Return the times from the start of a new process to the end of its first step, and the relative times of peers."""
    rows = []
    for name, found in every["cold"]["starts"].items():
        ours = found["cold"]["first"]
        times = [duration(found[kind]["first"] / 1e3) for kind in ("cold", "warm")]
        peers = [f"{found[peer]['first'] / ours:.2f}" if peer in found else "-" for peer in ("mxnet", "torch")]
        pauses = [f"{found[kind]['slowest']:.1f}" for kind in ("cold", "warm")]
        rows.append([f"cold-{name}", *times, *peers, *pauses])
    heads = ["program", "empty cache", "warm cache", "MXNet", "PyTorch", "slowest / median, empty cache", "warm cache"]
    return ["", *table(heads, rows), "", _place(every["cold"]), ""]


def workloads(every: dict[str, Results]) -> list[str]:
    """Return the table of workloads: description, least work, and bytes moved by launches."""
    bounds = every["comparison"]["roofline"]
    rows = []
    for name, work in bounds["work"].items():
        amounts = [amount(work[key] / 1e6) for key in ("operations", "least_bytes", "moved_bytes")]
        rows.append([name, WORKLOADS[name].__doc__ or "", *amounts, duration(work["bound_seconds"])])
    lines = table(["workload", "one step", "MFLOP", "MB at least", "MB moved", "bound"], rows)
    lines[1] = lines[1].replace("| ---: |", "| --- |", 1)
    peaks = bounds["peaks"]
    rate, bandwidth = peaks["operations_per_second"] / 1e9, peaks["bytes_per_second"] / 1e9
    return ["", *lines, "", f"The machine: {rate:.0f} GFLOP/s, {bandwidth:.1f} GB/s.", ""]


def overhead(every: dict[str, Results]) -> list[str]:
    """Return the table of import times and process growth."""
    rows = [
        [library, duration(facts["import_seconds"]), f"{facts['growth_kib_over_10000_iterations']} KiB"]
        for library, facts in every["comparison"]["other"].items()
    ]
    return ["", *table(["library", "import", "growth over 10,000 steps of small50"], rows), ""]


def first(every: dict[str, Results]) -> list[str]:
    """Return the table of first iterations."""
    rows = [
        [
            name,
            *[duration(facts[kind]["process"] / 1e3) for kind in ("cold", "warm")],
            f"{facts['cold']['kernels']:.0f}",
        ]
        for name, facts in every["first"].items()
    ]
    return ["", *table(["workload", "cold", "warm", "kernels"], rows), ""]


def depth(every: dict[str, Results]) -> list[str]:
    """Return the table of times per operator, by number of operators."""
    cases: dict[str, dict[int, list[float]]] = {}
    for case, found in every["scaling"]["depth"].items():
        name, _, number = case.rpartition(" ")
        cases.setdefault(name, {})[int(number)] = found
    numbers = sorted({number for found in cases.values() for number in found})
    kinds = [(kind, place, number) for number in numbers for kind, place in (("first", 0), ("later", 2))]
    rows = [
        [name, *[duration(found[number][place] / number * 1e-6) for _, place, number in kinds]]
        for name, found in cases.items()
    ]
    return ["", *table(["program", *[f"{number:,}, {kind}" for kind, _, number in kinds]], rows), ""]


def size(every: dict[str, Results]) -> list[str]:
    """Return the table of times, by size of arrays."""
    rows = []
    for case, (first_time, _, later, *_) in every["scaling"]["size"].items():
        rows.append([f"{int(case.rpartition(' ')[2]):,}", duration(first_time * 1e-6), duration(later * 1e-6)])
    return ["", *table(["elements", "first", "later"], rows), ""]


def batch(every: dict[str, Results]) -> list[str]:
    """Return the table of times for new batch sizes and sequence lengths in one process."""
    rows = []
    for case, (first_time, later, kernels) in every["scaling"]["batch"].items():
        rows.append([case, duration(first_time * 1e-3), duration(later * 1e-3), f"{kernels:.0f}"])
    return ["", *table(["batch x length", "first", "later", "kernels compiled"], rows), ""]


def memory(every: dict[str, Results]) -> list[str]:
    """Return the table of peak memory beyond the inputs."""
    libraries = list(next(iter(every["memory"].values())))
    rows = [
        [case, *[f"{found[name]['step']:.0f} MiB" for name in libraries]] for case, found in every["memory"].items()
    ]
    return ["", *table(["step", *[TITLES.get(name, name) for name in libraries]], rows), ""]


def memory_models(every: dict[str, Results]) -> list[str]:
    """Return the table of peak memory of processes that run a model, and beyond the import."""
    found = every["memory_models"]
    libraries = list(next(iter(found.values())))
    rows = [
        [name, *[f"{facts[library]['model']:.0f} ({facts[library]['process']:.0f}) MiB" for library in libraries]]
        for name, facts in found.items()
    ]
    return ["", *table(["model", *[TITLES.get(library, library) for library in libraries]], rows), ""]


def memory_limit(every: dict[str, Results]) -> list[str]:
    """Return the memory and the time of steps under memory limits, beside those without a limit."""
    found: Any = every["memory_limit"]
    rows = []
    for case, (free, *limited) in found.items():
        cells = [f"{row['step'] / 2**20:.0f} MiB, {row['seconds'] / free['seconds']:.2f}" for row in limited]
        rows.append([case, f"{free['step'] / 2**20:.0f} MiB", *cells])
    shares = [f"{row['share']:.0%} left" for row in next(iter(found.values()))[1:]]
    return ["", *table(["step", "without a limit", *shares], rows), ""]


def growth(every: dict[str, Results]) -> list[str]:
    """Return the resident size of a program that never repeats, after some turns."""
    curve: Any = every["growth"]
    rows = [[f"{turn:,}", f"{size:.0f} MiB"] for turn, size in curve]
    return ["", *table(["models so far", "resident size"], rows), ""]


def joins(every: dict[str, Results]) -> list[str]:
    """Return the processor time of operators of many inputs: a number of inputs seen first, and the same again."""
    ours, theirs = every["joins"]["phonograd"], every["joins"].get("mxnet", {})
    rows = []
    for what, (_, other, again) in ours.items():
        if "100 " not in what:
            rows.append([what, duration(other), duration(again), duration(theirs[what][2]) if what in theirs else "-"])
    return ["", *table(["operator", "another number of inputs", "again", "MXNet"], rows), ""]


def linear_algebra(every: dict[str, Results]) -> list[str]:
    """Return the ratios of linear algebra on one thread: an operator per row, forward and with backward."""
    seconds = every["linear_algebra"]["seconds"]
    names = [name.split(", ") for name in seconds]
    heads = list(dict.fromkeys([(size, dtype) for _, size, dtype, _ in names]))
    rows = []
    for operator in dict.fromkeys([name[0] for name in names]):
        cells = []
        for size, dtype in heads:
            both = [seconds[f"{operator}, {size}, {dtype}, {kind}"] for kind in ("forward", "backward")]
            cells.append(" / ".join([ratio(times, "torch") for times in both]))
        rows.append([operator, *cells])
    return ["", *table(["operator", *[f"{size}, {dtype}" for size, dtype in heads]], rows), ""]


def side_by_side(results: Results) -> list[str]:
    """Return the times of some workloads and the relative times of peers."""
    peers = [peer for peer in TITLES if any([peer in times for times in results["seconds"].values()])]
    rows = [
        [name, duration(times["phonograd"]), *[ratio(times, peer) for peer in peers]]
        for name, times in results["seconds"].items()
    ]
    return ["", *table(["workload", "phonograd", *[TITLES[peer] for peer in peers]], rows), "", *machine(results), ""]


def attention(every: dict[str, Results]) -> list[str]:
    """Return times, ratios and memory of attention: a length per row, forward and with backward."""
    found = every["attention"]
    rows = []
    for length in dict.fromkeys([name.split(", ")[0] for name in found["seconds"]]):
        cells = []
        for kind in ("forward", "backward"):
            seconds, memory = found["seconds"][f"{length}, {kind}"], found["memory"][f"{length}, {kind}"]
            cells += [f"{seconds['phonograd'] * 1e3:.1f} ms", ratio(seconds, "torch")]
            cells.append(f"{memory['phonograd']:.0f} / {memory['torch']:.0f} MiB")
        rows.append([length, *cells])
    heads = [f"{kind}{column}" for kind in ("forward", "training") for column in ("", ", PyTorch / ours", ", memory")]
    return ["", *table(["length", *heads], rows), ""]


def stored_table(every: dict[str, Results], name: str) -> list[str]:
    """Return the table of a benchmark, or a line that says how to make it."""
    if name not in every:
        return ["", f"`python -m benchmarks.{name} --write` has not run on this machine yet.", ""]
    return side_by_side(every[name])


def convolution(every: dict[str, Results]) -> list[str]:
    """Return the ratios of the sweep of convolutions: a kind per row, geometric means by pass, and slow shapes."""
    found = every["convolution"]
    peers = [name for name in ("torch", "mxnet") if name in found["rows"][0]["seconds"]]
    rows = []
    for kind in ("all", *dict.fromkeys([row["kind"] for row in found["rows"]])):
        some = [row["seconds"] for row in found["rows"] if kind in ("all", row["kind"])]
        cells = [kind, str(len(some))]
        for peer in peers:
            ours = [sum(times["phonograd"].values()) for times in some]
            totals = [sum(times[peer].values()) / mine for times, mine in zip(some, ours)]
            passes = [[times[peer][name] / times["phonograd"][name] for times in some] for name in some[0][peer]]
            means = " / ".join([f"{statistics.geometric_mean(ratios):.2f}" for ratios in passes])
            cells += [f"{statistics.geometric_mean(totals):.2f}", means, str(sum([total < 0.9 for total in totals]))]
        rows.append(cells)
    heads = ["kind", "shapes"]
    for peer in peers:
        heads += [f"{TITLES.get(peer, peer)}", "forward / data / weights", "below 0.9"]
    clock = f"{found['threads']} thread{'s' if found['threads'] > 1 else ''}, {found['clock']}."
    return ["", *table(heads, rows), "", f"{found['machine']['processor']}, {clock}", ""]


def loader(every: dict[str, Results]) -> list[str]:
    """Return the table of loader and training rates, and of the time that training waits."""
    rows = []
    for library, facts in every["loader"].items():
        rates = [f"{facts[name]:,.0f} images/s" for name in ("training", "loading", "both")]
        rows.append([TITLES.get(library, library), *rates, f"{facts['waiting']:.1%}"])
    return ["", *table(["library", "LeNet alone", "loader alone", "both together", "waits for data"], rows), ""]


def precision(every: dict[str, Results]) -> list[str]:
    """Return time and memory of training steps: a network, a library and a precision per row."""
    if "precision" not in every:
        return ["", "`python -m benchmarks.precision --write` has not run on this machine yet.", ""]
    found = every["precision"]
    by_case = {(row["network"], row["library"], row["precision"]): row for row in found["rows"]}
    rows = []
    for (network, library, dtype), row in by_case.items():
        cells = [network, TITLES.get(library, library), dtype]
        if "error" in row:
            rows.append([*cells, row["error"], *["-"] * 6])
            continue
        single, peer = by_case[network, library, "float32"], by_case.get((network, "torch", dtype), {})
        speed = f"{single['milliseconds'] / row['milliseconds']:.2f}" if "milliseconds" in single else "-"
        is_compared = library == "phonograd" and "milliseconds" in peer
        against = f"{peer['milliseconds'] / row['milliseconds']:.2f}" if is_compared else "-"
        saved = f"{1 - row['activations'] / single['activations']:.0%}" if "activations" in single else "-"
        time = f"{row['milliseconds']:.0f} ms", str(row["steps"]), speed, against
        rows.append([*cells, *time, f"{row['megabytes']:.0f} MiB", f"{row['activations']:.1f} MiB", saved])
    heads = ["network", "library", "precision", "step", "steps", "float32 / this", "PyTorch / ours", "peak"]
    clock = "processor time" if found["threads"] == 1 else "time on the clock"
    threads = f"{found['threads']} thread{'s' if found['threads'] > 1 else ''}, {clock}."
    place = f"{found['machine']['processor']}, {threads}"
    return ["", *table([*heads, "activations", "saved"], rows), "", place, ""]


def int8(every: dict[str, Results]) -> list[str]:
    """Return time and memory of predictions in float32 and int8: a network, a library and a precision per row."""
    if "precision_int8" not in every:
        return ["", "`python -m benchmarks.precision_int8 --write` has not run on this machine yet.", ""]
    found = every["precision_int8"]
    by_case = {(row["network"], row["library"], row["precision"]): row for row in found["rows"]}
    titles = {**TITLES, "onnxruntime": "onnxruntime"}
    rows = []
    for (network, library, dtype), row in by_case.items():
        speed = by_case[network, library, "float32"]["milliseconds"] / row["milliseconds"]
        own = by_case[network, "phonograd", dtype]["milliseconds"]
        against = "-" if library == "phonograd" else f"{row['milliseconds'] / own:.2f}"
        cells = [network, titles.get(library, library), dtype, duration(row["milliseconds"] / 1e3)]
        rows.append([*cells, f"{speed:.2f}", against, f"{row['megabytes']:.0f} MiB"])
    heads = ["network", "library", "precision", "prediction", "float32 / this", "this / ours", "peak"]
    clock = "processor time" if found["threads"] == 1 else "time on the clock"
    return ["", *table(heads, rows), "", f"{_place(found)} The figures are {clock}.", ""]


TABLES: dict[str, Callable[[dict[str, Results]], list[str]]] = {
    "speed": speed,
    "models": models,
    "novel": novel,
    "cold": cold,
    "starts": starts,
    "workloads": workloads,
    "overhead": overhead,
    "first": first,
    "depth": depth,
    "size": size,
    "batch": batch,
    "memory": memory,
    "memory_models": memory_models,
    "memory_limit": memory_limit,
    "growth": growth,
    "joins": joins,
    "linear_algebra": linear_algebra,
    "lookups": lambda every: stored_table(every, "lookups"),
    "functions": lambda every: stored_table(every, "functions"),
    "compiled": lambda every: stored_table(every, "compiled"),
    "attention": attention,
    "precision": precision,
    "int8": int8,
    "convolution": convolution,
    "loader": loader,
}


# -- the pages


def stored() -> dict[str, Results]:
    """Return everything in ``benchmarks/results``, by the name of the file."""
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(RESULTS.glob("*.json"))}


#: tables of benchmarks that ``make bench`` does not run: without results they stay as they are
APART = ("memory_models", "memory_limit")


def filled(text: str, every: dict[str, Results]) -> str:
    """Return a page with its tables regenerated."""

    def fill(found: re.Match[str]) -> str:
        if found[2] in APART and found[2] not in every:
            return found[0]
        return found[1] + "\n".join(TABLES[found[2]](every)) + "\n" + found[3]

    return MARKED.sub(fill, text)


def write_pages() -> None:
    """Regenerate the tables of all pages."""
    every = stored()
    for page in PAGES:
        page.write_text(filled(page.read_text(encoding="utf-8"), every), encoding="utf-8")


if __name__ == "__main__":
    write_pages()
    sys.exit(0)
