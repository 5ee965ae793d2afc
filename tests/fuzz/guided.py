"""Search for inputs on which a parser fails, guided by the code that they reach.

``python -m tests.fuzz.guided --seconds 60`` gives each parser so many seconds, in a process of its own. It needs the
package ``atheris`` (``pip install atheris``), and says so if it is missing. A parser may return or raise a documented
error; everything else, much memory and much time are failures, whose inputs are printed.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import io
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from . import Counts

__all__ = ["PARSERS", "run"]

MEMORY_MB = 1024
SECONDS = 10


class Parser(NamedTuple):
    """A parser of bytes."""

    modules: tuple[str, ...]
    """The modules whose branches guide the search."""
    parse: Callable[[bytes], Any]
    seeds: str
    """The format of :data:`.loaders.LOADERS` whose valid file begins the search."""


def _read_params(data: bytes) -> None:
    importlib.import_module("phonograd.ndarray.params").decode(data)


def _read_states(data: bytes) -> None:
    importlib.import_module("phonograd.optimizer.states").loads(data, "name")


def _read_safetensors(data: bytes) -> None:
    importlib.import_module("phonograd.ndarray.safetensors").decode(io.BytesIO(data), len(data), "name")


def _read_symbol(data: bytes) -> None:
    importlib.import_module("phonograd.symbol.json_format").read(data.decode("utf-8", "replace"))


def _read_npy(data: bytes) -> None:
    importlib.import_module("phonograd.numpy_extension.npy")._read_array(io.BytesIO(data), len(data), "name")


def _with_path(read: Callable[[str], Any]) -> Callable[[bytes], None]:
    """Return the parser of bytes that writes them to a file and reads it."""
    path = Path("/dev/shm" if Path("/dev/shm").is_dir() else tempfile.gettempdir(), f"phonograd-fuzz-{id(read)}")

    def parse(data: bytes) -> None:
        path.write_bytes(data)
        try:
            read(str(path))
        finally:
            path.unlink()

    return parse


def _read_idx(path: str) -> None:
    importlib.import_module("phonograd.io.idx").read_idx(path, 3)


def _read_npz(path: str) -> None:
    importlib.import_module("phonograd.numpy_extension.npy").read_npz(path)


def _read_records(path: str) -> None:
    recordio = importlib.import_module("phonograd.recordio")
    with recordio.MXRecordIO(path, "r") as reader:
        while (record := reader.read()) is not None:
            recordio.unpack(record)


def _read_profile(path: str) -> None:
    importlib.import_module("phonograd.profiler.saving").load_events([path])


PARSERS = {
    "params": Parser(("phonograd.ndarray.params", "phonograd.ndarray.sparse_records"), _read_params, "sparse params"),
    "states of MXNet": Parser(
        ("phonograd.optimizer.pickles", "phonograd.optimizer.records", "phonograd.optimizer.states"),
        _read_states,
        "states of MXNet",
    ),
    "states": Parser(
        ("phonograd.ndarray.safetensors", "phonograd.optimizer.records", "phonograd.optimizer.states"),
        _read_states,
        "states",
    ),
    "safetensors": Parser(("phonograd.ndarray.safetensors",), _read_safetensors, "safetensors"),
    "symbol": Parser(("phonograd.symbol.json_format",), _read_symbol, "symbol"),
    "npy": Parser(("phonograd.numpy_extension.npy",), _read_npy, "npy"),
    "npz": Parser(("phonograd.numpy_extension.npy", "zipfile"), _with_path(_read_npz), "npz"),
    "mnist": Parser(("phonograd.io.idx",), _with_path(_read_idx), "mnist"),
    "records": Parser(("phonograd.recordio",), _with_path(_read_records), "records"),
    "profile": Parser(
        ("phonograd.profiler.saving", "phonograd.profiler.saved_form"), _with_path(_read_profile), "profile"
    ),
}


def search_one(name: str, seconds: int, folder: Path) -> None:
    """Search in this process, which ends with the search: libFuzzer has it so."""
    atheris: Any = importlib.import_module("atheris")
    parser = PARSERS[name]
    with atheris.instrument_imports(include=list(parser.modules)):
        for module in parser.modules:
            importlib.import_module(module)
    from .loaders import DOCUMENTED, LOADERS

    loader = LOADERS[parser.seeds]
    corpus = folder / "corpus"
    corpus.mkdir()
    loader.write(corpus / f"valid{loader.suffix}")

    def test_one(data: bytes) -> None:
        try:
            parser.parse(data)
        except DOCUMENTED as error:
            if isinstance(error, MemoryError):
                raise AssertionError("too much memory") from error

    options = [f"-max_total_time={seconds}", f"-timeout={SECONDS}", f"-rss_limit_mb={MEMORY_MB}", "-max_len=4096"]
    options += [f"-malloc_limit_mb={MEMORY_MB // 4}", f"-artifact_prefix={folder}/found-", "-print_final_stats=1"]
    atheris.Setup([sys.argv[0], str(corpus), *options], test_one)
    atheris.Fuzz()


def run(budget_seconds: float, seed: int = 0) -> Counts:
    """Give each parser an equal part of the time."""
    del seed
    if importlib.util.find_spec("atheris") is None:
        return Counts.unavailable("the package atheris is not installed")
    counts = Counts()
    for name in PARSERS:
        with tempfile.TemporaryDirectory() as folder:
            seconds = max(int(budget_seconds / len(PARSERS)), 1)
            command = [sys.executable, "-m", f"{__package__}.guided", "--one", name, "--folder", folder]
            done = subprocess.run(
                [*command, "--seconds", str(seconds)], capture_output=True, text=True, errors="replace", check=False
            )
            runs = re.search(r"number_of_executed_units: (\d+)|Done (\d+) runs", done.stderr)
            counts.add("parsers")
            counts.add("executions", int(next(filter(None, runs.groups()))) if runs else 0)
            found = [path.read_bytes().hex() for path in Path(folder).glob("found-*")]
            if done.returncode or found or not runs:
                counts.fail(
                    f"{name}: code {done.returncode}, inputs {found}\n{done.stdout[-1500:]}{done.stderr[-3000:]}"
                )
    return counts


def main() -> int:
    """Run from the command line; return 1 if there are failures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=30 * len(PARSERS), help="time for all parsers")
    parser.add_argument("--one", choices=PARSERS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        search_one(options.one, int(options.seconds), options.folder)
    counts = run(options.seconds)
    print("\n".join(counts.failures))
    print(counts.skipped or f"tried: {counts.tried}, failures: {len(counts.failures)}")
    return 1 if counts.failures else 0


if __name__ == "__main__":
    sys.exit(main())
