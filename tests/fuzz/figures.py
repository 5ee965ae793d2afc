"""Run the searches and write the figures of docs/reliability.md: ``python -m tests.fuzz.figures --seconds 600``.

``--only programs`` runs one search and keeps the figures of the others; ``--write`` runs none. The counts are stored in
tests/fuzz/results.json, and the table is between ``<!-- figures: searches -->`` and ``<!-- end of figures -->``. A test
compares the page with the file.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import importlib.util
import json
import platform
import re
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy

from . import SEARCHES, Counts

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs" / "reliability.md"
RESULTS = ROOT / "tests" / "fuzz" / "results.json"
MARKED = re.compile(r"(<!-- figures: searches -->\n).*?(<!-- end of figures -->)", re.DOTALL)

Results = dict[str, dict[str, Any]]


def available() -> list[str]:
    """Return the names of the searches whose modules are there."""
    return [name for name in SEARCHES if importlib.util.find_spec(f"{__package__}.{name}") is not None]


def search(name: str, seconds: float, seed: int) -> dict[str, Any]:
    """Run a search, and return its counts with the circumstances."""
    start = time.monotonic()
    counts: Counts = importlib.import_module(f"{__package__}.{name}").run(seconds, seed)
    for text in counts.failures:
        print(f"{'-' * 100}\n{text}", file=sys.stderr)
    return {
        **dataclasses.asdict(counts),
        "seconds": round(time.monotonic() - start),
        "seed": seed,
        "machine": f"{platform.machine()}, Python {platform.python_version()}, numpy {numpy.__version__}",
    }


def table(results: Results) -> list[str]:
    """Return the lines of the table."""
    lines = ["| search | tried | minutes | failures |", "| --- | --- | ---: | ---: |"]
    for name, title in SEARCHES.items():
        if name not in results:
            continue
        found = results[name]
        tried = ", ".join([f"{number:,} {kind}" for kind, number in found["tried"].items()]) or found["skipped"]
        failures = "-" if found["skipped"] else f"{len(found['failures'])}"
        lines.append(f"| `{name}`: {title} | {tried} | {found['seconds'] / 60:.0f} | {failures} |")
    machines = sorted({found["machine"] for found in results.values()})
    return ["", *lines, "", "Machine: " + "; ".join(machines) + ".", ""]


def filled(text: str, results: Results) -> str:
    """Return the page with its table regenerated."""
    return MARKED.sub(lambda found: found[1] + "\n".join(table(results)) + "\n" + found[2], text)


def stored() -> Results:
    """Return the counts of the last runs, by search."""
    found: Results = json.loads(RESULTS.read_text(encoding="utf-8"))
    return found


def main() -> None:
    """Run the searches of the command line, store the counts, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--seconds", type=float, default=600.0, help="time of each search")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=available(), help="run one search, and keep the figures of the others")
    parser.add_argument("--write", action="store_true", help="write the page from the stored counts")
    chosen = parser.parse_args()
    results = stored() if RESULTS.exists() else {}
    # blocks and compiled functions say what they cannot do; the searches know
    warnings.simplefilter("ignore")
    for name in [] if chosen.write else [chosen.only] if chosen.only else available():
        results[name] = search(name, chosen.seconds, chosen.seed)
        RESULTS.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8"), results), encoding="utf-8")
    if any([found["failures"] for found in results.values()]):
        sys.exit("there are failures")


if __name__ == "__main__":
    main()
