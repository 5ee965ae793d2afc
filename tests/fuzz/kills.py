"""Kill processes while they save, and look for files that are damaged or left behind.

``python -m tests.fuzz.kills --kills 100`` prints what was found and fails if there is anything. A server process forks
for each case. The child saves arrays to the same few targets, again and again, until it is killed at a random moment.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import phonograd as mx
from phonograd import nd
from phonograd.optimizer import states

from . import Counts

#: elements of the arrays that are saved: large enough that most of the time is spent writing
SIZE = 200_000

#: a process that forks for each line it reads; the child saves until it is killed
SERVER = f"""
import os, sys
import phonograd as mx
from phonograd import gluon, nd
folder = sys.argv[1]
parameter = gluon.Parameter("w", shape=({SIZE},))
parameter.initialize("zeros")
trainer = gluon.Trainer([parameter], "sgd", {{"momentum": 0.5}})
arrays = [nd.full(({SIZE},), number) for number in range(8)]
nd.waitall()
for line in sys.stdin:
    child, number = os.fork(), int(line)
    while not child:
        number += 1
        array = arrays[number % 8]
        nd.save(folder + "/a.params", {{"x": array, "y": array}})
        mx.contrib.safetensors.save(folder + "/b.safetensors", {{"x": array, "y": array}})
        trainer._updaters[0].states[0] = array
        trainer._updaters[0].states_synced[0] = True
        trainer.save_states(folder + "/c.states")
        nd.save(folder + "/new-%d.params" % number, {{"x": array, "y": array}})
    print(child, flush=True)
    os.waitpid(child, 0)
    print("ended", flush=True)
"""


_MAY_STAY = re.compile(r"\.phonograd-[0-9a-f]{16}\.tmp")


def check(folder: Path) -> list[str]:
    """Return what is wrong in a folder: files that cannot be read, mixed contents, other names."""
    problems: list[str] = []
    left: list[str] = []
    for path in sorted(folder.iterdir()):
        try:
            if path.suffix == ".params":
                loaded: Any = nd.load(str(path))
            elif path.suffix == ".safetensors":
                loaded = mx.contrib.safetensors.load(path)
            elif path.suffix == ".states":
                loaded = {"x": states.loads(path.read_bytes(), str(path)).states[0]}
            elif _MAY_STAY.fullmatch(path.name) and not left:
                # a process that is killed between linking its file and renaming it leaves this one
                left.append(path.name)
                continue
            else:
                problems.append(f"left behind: {path.name}")
                continue
        except mx.MXNetError as error:
            problems.append(f"damaged: {error}")
            continue
        values = {float(value) for array in loaded.values() for value in np.unique(array.asnumpy())}
        if len(values) != 1:
            problems.append(f"mixed contents: {path.name} has {sorted(values)}")
    return problems


def search(budget_seconds: float, seed: int, counts: Counts, most: int) -> None:
    """Kill processes that save, at least one, until the time is over or there were enough."""
    draw = random.Random(seed)
    end = time.monotonic() + budget_seconds
    with tempfile.TemporaryDirectory() as name:
        folder, command = Path(name), [sys.executable, "-c", SERVER, name]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdin is not None
            assert server.stdout is not None
            for number in range(most):
                if number and time.monotonic() > end:
                    break
                print(number * 1_000_000, file=server.stdin, flush=True)
                child = int(server.stdout.readline())
                time.sleep(draw.uniform(0.001, 0.25))
                os.kill(child, signal.SIGKILL)
                assert server.stdout.readline() == "ended\n", "the server has ended"
                counts.add("kills during saves")
                for problem in check(folder):
                    counts.fail(f"kill {number}: {problem}")
                for path in folder.glob("new-*"):
                    path.unlink()


def main() -> int:
    """Run from the command line; return 1 if there are problems."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    counts = Counts()
    search(float("inf"), options.seed, counts, options.kills)
    print("\n".join(counts.failures))
    print(f"tried: {counts.tried}, problems: {len(counts.failures)}")
    return 1 if counts.failures else 0


if __name__ == "__main__":
    sys.exit(main())
