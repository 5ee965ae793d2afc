"""macOS and Windows: the library works where a process lacks what only Linux has.

A process takes away what another system lacks (the loader of machine code, forks, memory files, locks of files, user
numbers, processor affinity), then trains, saves, loads and compares. It cannot imitate how these systems behave where
they have a function; the tests say only that nothing needs the functions of Linux.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

#: what a system lacks: names of os, and modules
MISSING = {
    "linux": ([], []),
    "darwin": (["memfd_create", "sched_getaffinity", "sched_setaffinity", "pidfd_open", "posix_fadvise"], []),
    "win32": (
        [
            *(
                "memfd_create",
                "sched_getaffinity",
                "sched_setaffinity",
                "fork",
                "register_at_fork",
                "geteuid",
                "getuid",
            ),
            *("getgid", "O_NOFOLLOW", "O_DIRECTORY", "fchmod", "fchown", "chown", "mkfifo", "pidfd_open", "RTLD_NOW"),
        ],
        ["fcntl", "pwd", "grp", "resource", "termios", "_posixshmem"],
    ),
}

PROGRAM = """
import json, os, sys, tempfile, warnings
# Python, NumPy and LLVM themselves stay those of Linux
import asyncio, concurrent.futures.process, ctypes, hashlib, llvmlite.binding, multiprocessing.connection
import multiprocessing.pool, multiprocessing.resource_tracker, multiprocessing.shared_memory, numpy, platform, ssl
import subprocess, tarfile, threading, urllib.request, uuid, webbrowser, zipfile
system, names, modules = json.loads(sys.argv[1])
for name in names:
    if hasattr(os, name):
        delattr(os, name)
if system == "win32":
    os.supports_dir_fd = os.supports_dir_fd - {os.open}
for name in modules:
    sys.modules[name] = None
sys.platform = system
warnings.simplefilter("error")
import phonograd as mx
from phonograd.core.run import elf_loader
assert elf_loader.is_supported() == (system == "linux" and platform.machine() == "x86_64")
mx.random.seed(3)
numpy.random.seed(3)
mx.settings.update(num_threads=2)
net = mx.gluon.nn.HybridSequential()
net.add(mx.gluon.nn.Dense(8, activation="tanh"), mx.gluon.nn.Dense(1))
net.initialize(mx.init.Xavier())
net.hybridize()
trainer = mx.gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.01})
data = mx.gluon.data.ArrayDataset(mx.nd.random.normal(shape=(64, 4)), mx.nd.random.normal(shape=(64, 1)))
for epoch in range(3):
    for x, y in mx.gluon.data.DataLoader(data, batch_size=16, num_workers=2, thread_pool=True):
        with mx.autograd.record():
            loss = mx.gluon.loss.L2Loss()(net(x), y)
        loss.backward()
        trainer.step(16)
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "net.params")
    net.save_parameters(path)
    net.load_parameters(path)
    mx.nd.save(os.path.join(folder, "arrays"), [mx.nd.ones(2)])
with mx.profiler.profile() as profile:
    total = mx.nd.dot(mx.nd.ones((300, 300)), mx.nd.ones((300, 300))).sum().asscalar()
assert total == 300**3
assert "dot" in profile.key_averages().table()
print(json.dumps([float(value) for value in net(x).asnumpy().ravel()]))
"""


def run(system: str, directory: Path) -> list[float]:
    """Return the outputs of a network that is trained on an imitated system."""
    variables = os.environ | {
        "PHONOGRAD_CACHE_DIRECTORY": str(directory),
        "LOCALAPPDATA": str(directory),
        "PYTHONPATH": str(ROOT / "src"),
    }
    arguments = json.dumps([system, *MISSING[system]])
    finished = subprocess.run(
        [sys.executable, "-c", PROGRAM, arguments], env=variables, capture_output=True, text=True, check=False
    )
    assert finished.returncode == 0, finished.stderr
    found: list[float] = json.loads(finished.stdout)
    return found


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[float], Path]:
    """Return the outputs on this system, and the directory of the kernels."""
    directory = tmp_path_factory.mktemp("kernels")
    return run("linux", directory), directory


@pytest.mark.skipif(sys.platform != "linux", reason="other systems need no imitation")
@pytest.mark.parametrize("system", [pytest.param("darwin", marks=pytest.mark.slow), "win32"])
def test_training_is_the_same_without_the_functions_of_linux(
    system: str, expected: tuple[list[float], Path], tmp_path: Path
) -> None:
    outputs, _ = expected
    assert len(outputs) == 16
    assert run(system, tmp_path) == outputs


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="other systems need no imitation")
def test_kernels_that_linux_stored_are_loaded_by_llvm(expected: tuple[list[float], Path]) -> None:
    outputs, directory = expected
    assert run("darwin", directory) == outputs
