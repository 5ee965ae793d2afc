"""Damage files of every format and read them: a valid object or a documented error, in bounded memory and time.

A small valid file of each format is cut off at every byte and gets every single bit flipped; of longer files, a random
sample of these. Some damages overwrite several bytes with large numbers or swap pieces. A reader must return something
or raise one of :data:`.loaders.DOCUMENTED`, with the name of the file in the message. It must not take more memory than
:data:`MEMORY`, nor more time than :data:`SECONDS`.

The files are read in another process, whose address space is limited: ``python -m tests.fuzz.files`` runs it.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from . import Counts

#: address space that reading a file of some hundred bytes may add, and seconds that it may take on a busy machine
MEMORY = 256 << 20
SECONDS = 10.0
#: numbers that are put over four and eight bytes of a file
LARGE = [
    b"\xff" * 4,
    b"\xff\xff\xff\x7f",
    b"\0\0\0\x80",
    b"\0\0\0@",
    b"\xff" * 8,
    b"\xff" * 7 + b"\x7f",
    b"\0\0\0\0\0\x10\0\0",
    b"\x7f" + b"\xff" * 7,
]


def damaged_copies(data: bytes, draw: random.Random) -> Iterator[tuple[str, bytes]]:
    """Yield descriptions and damaged copies of a file: all small damages in a random order, then larger ones."""
    small = [("cut", place) for place in range(len(data))]
    small += [("bit", place) for place in range(8 * len(data))]
    draw.shuffle(small)
    for number, (kind, place) in enumerate(small):
        if kind == "cut":
            yield f"cut at byte {place}", data[:place]
        else:
            changed = bytearray(data)
            changed[place // 8] ^= 1 << place % 8
            yield f"bit {place % 8} of byte {place // 8} flipped", bytes(changed)
        if number % 4 == 0 and data:
            yield larger_damage(data, draw)
    while True:
        yield larger_damage(data, draw)


def larger_damage(data: bytes, draw: random.Random) -> tuple[str, bytes]:
    """Return a description and a copy with a large number, a copied piece, a hole or more bytes."""
    begin, end = sorted([draw.randrange(len(data) + 1) for _ in range(2)])
    kind = draw.randrange(4)
    if kind == 0:
        number = draw.choice(LARGE)
        return f"{number.hex()} at byte {begin}", data[:begin] + number + data[begin + len(number) :]
    if kind == 1:
        return f"bytes {begin} to {end} twice", data[:end] + data[begin:end] + data[end:]
    if kind == 2:
        return f"without bytes {begin} to {end}", data[:begin] + data[end:]
    text = bytes([draw.randrange(256) for _ in range(draw.randrange(1, 9))])
    return f"{text.hex()} inserted at byte {begin}", data[:begin] + text + data[begin:]


class _TimeLimit(BaseException):
    """Reading a file takes too long."""


def _stop(number: int, frame: FrameType | None) -> None:
    raise _TimeLimit


def read_copies(name: str, folder: Path, count: int, seconds: float, seed: int) -> tuple[int, list[str]]:
    """Read damaged copies of a format's file; return how many, and the problems."""
    from .loaders import DOCUMENTED, LOADERS

    loader = LOADERS[name]
    valid = folder / f"valid{loader.suffix}"
    loader.write(valid)
    # imports and caches are no part of the measurement
    loader.read(valid)
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    limits = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, limits[1]))
    handler = signal.signal(signal.SIGALRM, _stop)
    problems: list[str] = []
    end, done = time.monotonic() + seconds, 0
    path = folder / f"damaged{loader.suffix}"
    for what, copy in damaged_copies(valid.read_bytes(), random.Random(seed)):
        if done >= count or time.monotonic() > end or len(problems) > 20:
            break
        done += 1
        path.write_bytes(copy)
        problem = ""
        signal.setitimer(signal.ITIMER_REAL, SECONDS)
        try:
            loader.read(path)
        except DOCUMENTED as error:
            if isinstance(error, MemoryError):
                problem = f"takes more than {MEMORY >> 20} MB: {error!r}"
            elif loader.names_file and path.name not in str(error):
                problem = f"the error does not name the file: {error!r}"
        except _TimeLimit:
            problem = f"takes more than {SECONDS} seconds"
        except MemoryError as error:
            problem = f"takes more than {MEMORY >> 20} MB: {error!r}"
        except BaseException as error:  # anything else is a finding
            problem = f"an undocumented error: {error!r}"
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        if problem:
            problems.append(f"{name}, {what}: {problem[:300]}\n  contents: {copy.hex()[:1000]}")
    resource.setrlimit(resource.RLIMIT_AS, limits)
    signal.signal(signal.SIGALRM, handler)
    return done, problems


def main() -> None:
    """Read damaged files of some formats, and print the counts and problems as a line of JSON for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("formats", nargs="*")
    parser.add_argument("--count", type=int, default=1_000, help="damaged copies of each format")
    parser.add_argument("--seconds", type=float, default=60, help="time for each format")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    from .loaders import LOADERS

    warnings.simplefilter("ignore")
    for name in options.formats or LOADERS:
        with tempfile.TemporaryDirectory() as folder:
            done, problems = read_copies(name, Path(folder), options.count, options.seconds, options.seed)
        print(json.dumps([name, done, problems]), flush=True)


def _process(module: str, *arguments: str) -> tuple[list[Any], str]:
    """Run a module of this package in a new process; return the lines that it prints, and its problem."""
    command = [sys.executable, "-m", f"{__package__}.{module}", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
    return lines, f"{command[1:]} ended with {done.returncode}: {done.stderr[-2000:]}" if done.returncode else ""


def damage(formats: list[str], count: int, seconds: float, seed: int, counts: Counts) -> None:
    """Read damaged copies of files in a new process; a process that dies is a failure."""
    limits = ["--count", str(count), "--seconds", str(seconds), "--seed", str(seed)]
    lines, problem = _process("files", *formats, *limits)
    for _, number, problems in lines:
        counts.add("formats")
        counts.add("damaged files", number)
        for text in problems:
            counts.fail(text)
    if problem:
        counts.fail(f"after {[name for name, *_ in lines]}: {problem}")


def disturb(seconds: float, seed: int, counts: Counts) -> None:
    """Save files while the disk is full or the directory is read-only, in a new process."""
    lines, problem = _process("faults", "--seconds", str(seconds), "--seed", str(seed))
    for tried, failures in lines:
        for kind, number in tried.items():
            counts.add(kind, number)
        for text in failures:
            counts.fail(text)
    if problem:
        counts.fail(problem)


def run(budget_seconds: float, seed: int = 0) -> Counts:
    """Read damaged files of all formats, then save files while something goes wrong."""
    from .kills import search
    from .loaders import LOADERS

    counts = Counts()
    if not sys.platform.startswith("linux"):
        return Counts.unavailable("limits of memory and of files are those of Linux")
    formats = list(LOADERS)
    damage(formats, 1_000_000, 0.8 * budget_seconds / len(formats), seed, counts)
    disturb(0.1 * budget_seconds, seed, counts)
    search(0.1 * budget_seconds, seed, counts, 1_000)
    return counts


if __name__ == "__main__":
    main()
