"""Save files while something goes wrong: the disk is full, or the directory is read-only.

Afterwards the old file must be there, whole, and no other file. :mod:`.kills` kills processes instead.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import phonograd as mx
from phonograd import gluon, nd

from . import Counts

__all__ = ["SAVERS", "search"]


def _states(form: str) -> Callable[[Path, int], None]:
    def save(path: Path, number: int) -> None:
        updater = mx.optimizer.get_updater(mx.optimizer.SGD(momentum=0.5))
        updater.states[0] = nd.full((300,), number)
        store = mx.kv.create()
        store._set_updater(updater)
        with mx.settings.override(states_format=form):
            store.save_optimizer_states(str(path), dump_optimizer=True)

    return save


def _save_block(path: Path, number: int) -> None:
    net = gluon.nn.Dense(20, in_units=20)
    net.initialize(mx.init.Constant(number))
    net.save_parameters(str(path))


def _save_records(path: Path, number: int) -> None:
    with mx.recordio.MXRecordIO(str(path), "w") as writer:
        for _ in range(100):
            writer.write(b"%d" % number)


def _save_symbol(path: Path, number: int) -> None:
    mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=number + 10, name="fc").save(str(path))


def _save_profile(path: Path, number: int) -> None:
    with mx.profiler.profile() as profile:
        for _ in range(number + 1):
            nd.ones((number + 1,)).asnumpy()
    profile.save(path)


#: functions that save something, depending on a number, to a path
SAVERS: dict[str, tuple[str, Callable[[Path, int], Any]]] = {
    "arrays": (".params", lambda path, number: nd.save(str(path), {"x": nd.full((300,), number)})),
    "np arrays": (".params", lambda path, number: mx.npx.save(str(path), [mx.np.full((300,), number)])),
    "npz": (".npz", lambda path, number: mx.npx.savez(path, mx.np.full((300,), number))),
    "safetensors": (
        ".safetensors",
        lambda path, number: mx.contrib.safetensors.save(path, {"x": nd.full((300,), number)}),
    ),
    "states": (".states", _states("safetensors")),
    "states of MXNet": (".states", _states("mxnet")),
    "parameters of a block": (".params", _save_block),
    "records": (".rec", _save_records),
    "symbol": (".json", _save_symbol),
    "profile": (".json", _save_profile),
}


@contextlib.contextmanager
def _full_disk(limit: int) -> Iterator[None]:
    """Let no file of this process grow beyond a limit: writing more raises an OSError, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@contextlib.contextmanager
def _read_only(folder: Path) -> Iterator[None]:
    """Forbid this process to make files in a directory; root gives up its rights for that time."""
    mode = folder.stat().st_mode
    folder.chmod(0o555)
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(user)
        folder.chmod(mode)


def _try_once(name: str, folder: Path, draw: random.Random, counts: Counts) -> None:
    """Save a first version, then a second one while the disk is full or the directory is read-only."""
    suffix, save = SAVERS[name]
    path = folder / f"target{suffix}"
    exists = draw.random() < 0.7
    if exists:
        save(path, 1)
    old = path.read_bytes() if exists else None
    size = len(old) if old is not None else 500
    full = draw.random() < 0.8
    trouble = _full_disk(draw.randrange(size)) if full else _read_only(folder)
    what = f"{name} on a full disk" if full else f"{name} in a read-only directory"
    failed = False
    with trouble:
        try:
            save(path, 2)
        except (OSError, mx.MXNetError):
            failed = True
    now = path.read_bytes() if path.exists() else None
    counts.add("saves that fail")
    if not failed:
        counts.fail(f"{what}: there was no error")
    elif now != old:
        counts.fail(f"{what}: the old file is gone or changed")
    others = sorted([each.name for each in folder.iterdir() if each != path])
    if others:
        counts.fail(f"{what}: left behind: {others}")
    # whatever happened, the next save works
    save(path, 3)
    path.unlink()


def search(budget_seconds: float, seed: int, counts: Counts) -> None:
    """Let saves of every kind fail, at least once each. This process should be one of its own: it limits itself."""
    draw = random.Random(seed)
    end = time.monotonic() + budget_seconds
    names = list(SAVERS)
    with tempfile.TemporaryDirectory() as name:
        # another user must be able to reach the directory
        os.chmod(name, 0o755)
        folder = Path(name, "saves")
        folder.mkdir()
        number = 0
        while number < len(names) or time.monotonic() < end:
            _try_once(names[number % len(names)], folder, draw, counts)
            number += 1


def main() -> None:
    """Search, and print the counts as a line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    counts = Counts()
    # it would be written to a full disk
    mx.settings.update(cache_directory="")
    search(options.seconds, options.seed, counts)
    print(json.dumps([counts.tried, counts.failures]))


if __name__ == "__main__":
    main()
