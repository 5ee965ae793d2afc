"""Use one cache directory from several processes at once, while its files are damaged, replaced and deleted.

A server process forks the processes of a *round*. In most rounds they save, load, trim and delete entries at random,
and damage files: they truncate them, flip bits, exchange names, plant fifos, links, devices and files of other users.
The server meanwhile adds up the sizes of the files. In the other rounds they evaluate arrays with a small cache, whose
files the server damages. A round fails if an entry is loaded with other contents than were saved, if a result is wrong,
if the files ever exceed the limit, or if a process crashes or does not end.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import random
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path

from . import Counts
from .interrupts import PATIENCE_SECONDS, is_right, work

ENTRIES, PROCESSES = 40, 4
#: seconds of a round in which processes use the cache directly
ROUND_SECONDS = 0.4


def run(budget_seconds: float, seed: int = 0, rounds: int | None = None) -> Counts:
    """Run rounds for some time, or a number of them."""
    if not hasattr(os, "fork"):
        return Counts.unavailable("this system has no fork")
    counts = Counts()
    with tempfile.TemporaryDirectory() as directory:
        command = [sys.executable, "-m", __name__, "--seconds", str(budget_seconds), "--seed", str(seed)]
        command += ["--directory", directory, "--rounds", str(rounds or 0)]
        root = Path(__file__).parents[2]
        paths = [str(root), str(root / "src"), os.environ.get("PYTHONPATH", "")]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PHONOGRAD_NUM_THREADS": "2"}
        environment.pop("PHONOGRAD_EXECUTOR", None)
        with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True, cwd=root) as server:
            assert server.stdout is not None
            for line in server.stdout:
                tried, failures = json.loads(line)
                for kind, number in tried.items():
                    counts.add(kind, number)
                for failure in failures:
                    counts.fail(failure)
        if server.returncode:
            counts.fail(f"the server of seed {seed} ended with {server.returncode}")
    return counts


# -- the server


def serve(seconds: float, seed: int, directory: str, rounds: int) -> None:
    """Run rounds, and print one line about each."""
    import phonograd  # noqa: F401 - the processes of a round share the imported modules

    draw, end, number = random.Random(seed), time.monotonic() + seconds, 0
    while number < rounds if rounds else not number or time.monotonic() < end:
        number += 1
        place = Path(directory, f"round{number}")
        tried, failures = (_evaluations if number % 3 == 0 else _operations)(draw, place)
        shutil.rmtree(place, ignore_errors=True)
        print(json.dumps([tried, [f"seed {seed}, round {number}: {text}" for text in failures]]), flush=True)


def _operations(draw: random.Random, place: Path) -> tuple[dict[str, int], list[str]]:
    """Run a round in which processes use the cache directly."""
    limit = draw.choice([3_000, 20_000, 200_000])
    seeds = [draw.random() for _ in range(PROCESSES)]
    children = [_fork(lambda seed=seed: _operate(random.Random(seed), place, limit)) for seed in seeds]
    failures: list[str] = []
    looks = 0

    def watch() -> None:
        nonlocal looks
        total = _total(place / "kernels")
        looks += 1
        if total > limit:
            failures.append(f"{total} bytes are more than the limit of {limit}")
        time.sleep(0.001)

    said = _wait(children, watch)
    failures += [text for text in said if not text.isdigit()]
    tried = {
        "cache operations": sum(int(text) for text in said if text.isdigit()),
        "processes in a cache directory": PROCESSES,
        "looks at its size": looks,
    }
    return tried, failures


def _evaluations(draw: random.Random, place: Path) -> tuple[dict[str, int], list[str]]:
    """Run a round in which processes evaluate arrays."""
    limit = draw.choice([20_000, 200_000, 1 << 30])
    children = [_fork(lambda: _evaluate(place, limit)) for _ in range(2)]

    def damage() -> None:
        time.sleep(draw.uniform(0.001, 0.05))
        _damage(draw, place / "kernels")

    said = _wait(children, damage)
    # what is left is damaged, and used by a process that starts later
    said += _wait([_fork(lambda: _evaluate(place, limit))], lambda: time.sleep(0.01))
    failures = [text for text in said if not text.isdigit()]
    return {"evaluations with a damaged cache": sum(int(text) for text in said if text.isdigit())}, failures


# -- the processes


def _operate(draw: random.Random, place: Path, limit: int) -> str:
    """Use the cache at random; return the number of operations, or what is wrong."""
    from phonograd.core.run.disk_cache import DiskCache

    # it gives up if a file cannot be replaced, for example by a device of another user
    warnings.simplefilter("ignore")
    count, end = 0, time.monotonic() + ROUND_SECONDS
    cache = DiskCache(place, limit, "")
    while time.monotonic() < end:
        count += 1
        name = draw.randrange(ENTRIES)
        key, choice = cache.key(str(name)), draw.random()
        if choice < 0.45:
            cache.save(key, _content(name, limit))
        elif choice < 0.85:
            found = cache.load(key)
            if found is not None and found != _content(name, limit):
                return f"entry {name} has other contents: {found[:50]!r}"
        elif choice < 0.9:
            cache.remove(key)
        elif choice < 0.92:
            cache.trim()
        elif choice < 0.94:
            cache = DiskCache(place, limit, "")
        else:
            _damage(draw, place / "kernels")
    return str(count)


def _content(name: int, limit: int) -> bytes:
    return random.Random(name).randbytes(name * 37 % (limit // 8))


def _evaluate(place: Path, limit: int) -> str:
    """Evaluate arrays; return the number of evaluations, or what is wrong."""
    import phonograd as mx

    warnings.simplefilter("ignore")
    mx.settings.update(cache_directory=str(place), cache_bytes=limit)
    for _ in range(3):
        if not is_right(work(mx)):
            return "wrong"
    return "3"


def _damage(draw: random.Random, folder: Path) -> None:
    """Damage a file at random; others may do so at the same moment. No file becomes larger."""
    try:
        names = [entry.name for entry in os.scandir(folder)]
        if not names:
            return
        path = folder / draw.choice(names)
        other = folder / draw.choice(names)
        kind = draw.choice(["truncate", "flip", "delete", "rename", "fifo", "link", "mode", "owner", "device"])
        if kind not in ("truncate", "flip") and any(file.name.startswith("account") for file in (path, other)):
            # processes that hold an account under another name do not wait for each other
            return
        if kind == "truncate":
            os.truncate(path, draw.randrange(path.stat().st_size + 1))
        elif kind == "flip" and stat.S_ISREG(path.lstat().st_mode) and path.stat().st_size:
            descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
            place = draw.randrange(path.stat().st_size)
            byte = os.pread(descriptor, 1, place)
            if byte:
                os.pwrite(descriptor, bytes([byte[0] ^ 1 << draw.randrange(8)]), place)
            os.close(descriptor)
        elif kind == "rename":
            os.replace(path, other)
        elif kind == "mode":
            os.chmod(path, draw.choice([0o600, 0o666, 0o400]))
        elif kind == "owner" and os.geteuid() == 0:
            os.chown(path, 12345, -1, follow_symlinks=False)
        elif kind in ("delete", "fifo", "link", "device"):
            os.unlink(path)
            if kind == "fifo":
                os.mkfifo(path)
            elif kind == "link":
                os.symlink(draw.choice([str(other), "/dev/zero", "nowhere"]), path)
            elif kind == "device" and os.geteuid() == 0:
                os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, 5))
    except (OSError, ValueError):
        # another process was faster
        return


def _total(folder: Path) -> int:
    """Return the size of all regular files of this user, without the account itself."""
    total = 0
    try:
        for entry in os.scandir(folder):
            try:
                facts = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            if stat.S_ISREG(facts.st_mode) and facts.st_uid == os.geteuid() and not entry.name.startswith("account"):
                total += facts.st_size
    except OSError:
        return 0
    return total


def _fork(work: Callable[[], str]) -> tuple[int, int]:
    """Return the number of a forked process, and the pipe by which it answers."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        faulthandler.register(signal.SIGUSR1, all_threads=True)
        try:
            text = work()
        except BaseException:
            text = traceback.format_exc()
        os.write(writing, text.encode()[-4000:])
        os._exit(0)
    os.close(writing)
    return child, reading


def _wait(children: list[tuple[int, int]], meanwhile: Callable[[], None]) -> list[str]:
    """Return the answers of some processes, and call a function all the time until they have ended."""
    said: list[str] = []
    end = time.monotonic() + PATIENCE_SECONDS
    for child, reading in children:
        status = 0
        while not os.waitpid(child, os.WNOHANG)[0]:
            meanwhile()
            if time.monotonic() > end:
                # print where its threads are
                os.kill(child, signal.SIGUSR1)
                time.sleep(1)
                os.kill(child, signal.SIGKILL)
                status = os.waitpid(child, 0)[1]
                break
        text = os.read(reading, 4096).decode()
        os.close(reading)
        said.append("stuck" if status else text or "crashed")
    return said


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=0)
    parser.add_argument("--directory", required=True)
    given = parser.parse_args()
    serve(given.seconds, given.seed, given.directory, given.rounds)
