"""Interrupt first evaluations at random moments: signals, exceptions from other threads, forks, kills.

A server process imports the library and computes nothing. It forks once for each case, so every case plans, compiles or
loads its kernels anew. A case draws its kind, the moment, the exception, and whether kernels are on disk. It fails if
the exception does not reach the program (*lost*), if a later result differs from NumPy's (*wrong*), if the case does
not end (*stuck*), or if the process evaluates with NumPy afterwards (*crippled*).
"""

from __future__ import annotations

import argparse
import ctypes
import faulthandler
import json
import os
import random
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from . import Counts

#: a case takes a second or two; on a machine that is busy with other work some more
PATIENCE_SECONDS = 60.0
KINDS = {
    "signal": "signals during first evaluations",
    "thread": "exceptions raised from other threads",
    "fork": "forks during first evaluations",
    "use": "handlers that use arrays",
    "kill": "kills during first evaluations",
}
#: classes that a handler raises: the library catches each of them somewhere
RAISED = [TimeoutError, OSError, RuntimeError, ImportError, ValueError, IndexError, KeyboardInterrupt]


class Late(TimeoutError):
    """An exception that only cases raise."""


def run(budget_seconds: float, seed: int = 0, cases: int | None = None, kinds: str = ",".join(KINDS)) -> Counts:
    """Run cases for some time, or a number of them."""
    if not hasattr(os, "fork"):
        return Counts.unavailable("this system has no fork")
    counts = Counts()
    with tempfile.TemporaryDirectory() as directory:
        command = [sys.executable, "-m", __name__, "--seconds", str(budget_seconds), "--seed", str(seed)]
        command += ["--directory", directory, "--cases", str(cases or 0), "--kinds", kinds]
        root = Path(__file__).parents[2]
        paths = [str(root), str(root / "src"), os.environ.get("PYTHONPATH", "")]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PHONOGRAD_NUM_THREADS": "2"}
        environment.pop("PHONOGRAD_EXECUTOR", None)
        with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True, cwd=root) as server:
            assert server.stdout is not None
            for line in server.stdout:
                kind, failure = json.loads(line)
                counts.add(KINDS[kind])
                if failure:
                    counts.fail(failure)
        if server.returncode:
            counts.fail(f"the server of seed {seed} ended with {server.returncode}")
    return counts


# -- the server


def serve(seconds: float, seed: int, directory: str, cases: int, kinds: list[str]) -> None:
    """Run cases, and print one line about each."""
    import phonograd as mx

    warm = os.path.join(directory, "warm")
    _fork(lambda: _with_cache(warm, lambda: _check(mx)))
    draw, end, number = random.Random(seed), time.monotonic() + seconds, 0
    while number < cases if cases else not number or time.monotonic() < end:
        case = Case(draw, kinds[number % len(kinds)])
        number += 1
        cold = os.path.join(directory, f"cold{number}")
        failure = _fork(lambda case=case, cold=cold: _with_cache(cold if case.is_cold else warm, lambda: case.run(mx)))
        if case.kind == "kill" and failure in ("", "killed"):
            # another process finds what the first one left behind
            failure = _fork(
                lambda case=case, cold=cold: _with_cache(cold if case.is_cold else warm, lambda: _check(mx))
            )
        shutil.rmtree(cold, ignore_errors=True)
        print(json.dumps([case.kind, failure and f"seed {seed}, case {number} ({case}): {failure}"]), flush=True)


def _with_cache(directory: str, work: Callable[[], str]) -> str:
    import phonograd as mx

    mx.settings.update(cache_directory=directory)
    return work()


def _fork(work: Callable[[], str]) -> str:
    """Return what a forked process says is wrong."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        faulthandler.register(signal.SIGUSR1, all_threads=True)
        try:
            text = work()
        except BaseException:
            text = traceback.format_exc()
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_IGN)
        os.write(writing, text.encode()[:16000] or b"fine")
        # run the exit handlers, too: they wait for threads
        sys.stdout = sys.stderr
        sys.exit(0)
    os.close(writing)
    ready, _, _ = select.select([reading], [], [], PATIENCE_SECONDS)
    said = os.read(reading, 1 << 16).decode() if ready else ""
    os.close(reading)
    end = time.monotonic() + PATIENCE_SECONDS
    status = 0
    while ready:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            break
        if time.monotonic() > end:
            ready = []
        time.sleep(0.005)
    if not ready:
        # print where its threads are
        os.kill(child, signal.SIGUSR1)
        time.sleep(1)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return f"stuck {said}"
    if said not in ("", "fine"):
        return said
    if os.WIFSIGNALED(status):
        return "killed" if os.WTERMSIG(status) == signal.SIGKILL else f"ended by signal {os.WTERMSIG(status)}"
    return "" if said == "fine" else f"ended with {os.waitstatus_to_exitcode(status)}"


# -- cases

DATA = np.linspace(-1, 1, 35, dtype=np.float32).reshape(5, 7)


def work(mx: Any) -> list[Any]:
    """Return results of some small programs: kernels, a matrix product, NumPy, gradients, updates in place."""
    x = mx.nd.array(DATA)
    results = [(mx.nd.tanh(x) * x + mx.nd.exp(x / 4)).sum(axis=1).asnumpy(), mx.nd.dot(x, x.T).asnumpy()]
    results.append(mx.nd.sort(x, axis=1, is_ascend=False).asnumpy())
    x.attach_grad()
    with mx.autograd.record():
        loss = (x * x * x).sum()
    loss.backward()
    results += [x.grad.asnumpy(), loss.asnumpy()]
    for _ in range(2):
        x += 1
    results.append(x.asnumpy())
    return results


def expected() -> list[Any]:
    """Return the same from NumPy."""
    x = DATA
    first = (np.tanh(x) * x + np.exp(x / 4)).sum(axis=1)
    return [first, x @ x.T, -np.sort(-x, axis=1), 3 * x * x, np.sum(x * x * x), x + 2]


def is_right(results: list[Any]) -> bool:
    """Return whether all results are those of NumPy, up to rounding."""
    return all(np.allclose(a, b, rtol=1e-4, atol=1e-5) for a, b in zip(results, expected(), strict=True))


def _check(mx: Any) -> str:
    """Return what is wrong with a process after an interruption."""
    from phonograd.core.run import kernel_cache

    for _ in range(3):
        if not is_right(work(mx)):
            return "wrong"
    y = (mx.nd.array(DATA).reshape((7, 5)) - 0.25).asnumpy()
    if not np.array_equal(y, DATA.reshape(7, 5) - np.float32(0.25)):
        return "wrong for a new shape"
    kernel_cache.wait_for_tier_up()
    return "" if kernel_cache._kernels is not None else f"crippled: {kernel_cache._missing!r}"


class Case:
    """One case, drawn at random."""

    def __init__(self, draw: random.Random, kind: str) -> None:
        self.kind = kind
        self.is_cold = draw.random() < 0.5
        # half of them early, where modules are imported and the compiler starts
        self.delay = (
            draw.uniform(1e-4, 0.04) if draw.random() < 0.5 else draw.uniform(0.04, 0.6 if self.is_cold else 0.2)
        )
        self.raised = draw.choice(RAISED)
        self.every = draw.choice([0.0, 0.0, 0.01])

    def __str__(self) -> str:
        where = "cold" if self.is_cold else "warm"
        return f"{self.kind}, {where}, {self.delay:.5f} s, {self.raised.__name__}, again after {self.every} s"

    def run(self, mx: Any) -> str:
        """Return what is wrong."""
        return str(getattr(self, f"_{self.kind}")(mx))

    def _signal(self, mx: Any) -> str:
        fired: list[BaseException] = []
        ignored: list[BaseException] = []

        #: whether the program is inside of `try`; the handler raises once each time
        armed: list[bool] = []

        def handler(number: int, frame: object) -> None:
            if armed:
                armed.clear()
                fired.append(self.raised("raised by the handler"))
                raise fired[-1]

        # what a handler raises while an object is being finalized, Python itself prints and forgets
        sys.unraisablehook = lambda facts: ignored.append(facts.exc_value)  # type: ignore[assignment]
        caught: list[BaseException] = []
        signal.signal(signal.SIGALRM, handler)
        wanted, end = 1 if not self.every else 5, time.monotonic() + 60
        signal.setitimer(signal.ITIMER_REAL, self.delay, self.every)
        while len(caught) + len(ignored) < wanted and time.monotonic() < end:
            try:
                armed.append(True)
                while len(fired) <= len(caught) + len(ignored) and time.monotonic() < end:
                    if not is_right(work(mx)):
                        return "wrong while signals arrive"
                armed.clear()
            except tuple(RAISED) as error:
                caught.append(error)
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_IGN)
        for error in caught:
            if not any(error is other for other in fired):
                return f"not the handler's error: {''.join(traceback.format_exception(error))}"
        # an exception that interrupts the handling of another one replaces it: Python chains them
        chained = {id(other) for error in caught for other in _chain(error)}
        lost = [error for error in fired if id(error) not in chained and not any(error is other for other in ignored)]
        return f"lost {lost}" if lost else _check(mx)

    def _thread(self, mx: Any) -> str:
        caught: list[BaseException] = []

        def target() -> None:
            try:
                while True:
                    work(mx)
            except BaseException as error:
                caught.append(error)

        thread = threading.Thread(target=target, daemon=True)
        thread.start()
        time.sleep(self.delay)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(Late))
        for _ in range(3):
            thread.join(10)
            if thread.is_alive():
                # an exception that arrives while an object is finalized is forgotten by Python
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(Late))
        if thread.is_alive():
            return f"the thread is stuck; all threads, then again after a second:\n{_stacks()}\n{_stacks(1.0)}"
        return _check(mx) if type(caught[0]) is Late else f"not the exception: {caught[0]!r}"

    def _fork(self, mx: Any) -> str:
        children: list[int] = []

        def handler(number: int, frame: object) -> None:
            child = os.fork()
            if child:
                children.append(child)

        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, self.delay)
        here = os.getpid()
        end = time.monotonic() + 30
        while not children and os.getpid() == here and time.monotonic() < end:
            if not is_right(work(mx)):
                return "wrong while a fork takes place"
        said = _check(mx)
        if os.getpid() != here:
            os._exit(0 if not said else 1)
        for child in children:
            if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
                return "the child is wrong"
        return said

    def _use(self, mx: Any) -> str:
        known = mx.nd.array(DATA)
        known.wait_to_read()
        seen: list[Any] = []
        pending: list[Any] = []
        inside: list[int] = []

        def handler(number: int, frame: object) -> None:
            if inside:
                # on a busy machine the next signal arrives before the handler has ended
                return
            inside.append(number)
            seen.append(known.asnumpy())
            try:
                seen.append((known * 3).asnumpy() / 3)
                if pending:
                    seen.append(pending[-1].asnumpy())
            except mx.MXNetError as error:
                seen.append(error)
            finally:
                inside.clear()

        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, self.delay, 0.02)
        end = time.monotonic() + 0.3 + self.delay
        while time.monotonic() < end or not seen:
            pending.append(known * 1)
            if not is_right(work(mx)):
                return "wrong while a handler uses arrays"
            if not np.array_equal(pending.pop().asnumpy(), DATA):
                return "wrong pending array"
        signal.setitimer(signal.ITIMER_REAL, 0)
        for value in seen:
            if isinstance(value, Exception):
                if "signal handler needs" not in str(value):
                    return f"unclear: {value!r}"
            elif not np.allclose(value, DATA):
                return "wrong in the handler"
        return _check(mx)

    def _kill(self, mx: Any) -> str:
        threading.Timer(self.delay, os.kill, (os.getpid(), signal.SIGKILL)).start()
        while True:
            if not is_right(work(mx)):
                return "wrong"


def _stacks(delay: float = 0.0) -> str:
    """Return where all threads are, after some seconds."""
    time.sleep(delay)
    with tempfile.TemporaryFile("w+") as file:
        faulthandler.dump_traceback(file, all_threads=True)
        file.seek(0)
        return file.read()


def _chain(error: BaseException) -> list[BaseException]:
    found: list[BaseException] = []
    now: BaseException | None = error
    while now is not None and now not in found:
        found.append(now)
        now = now.__context__
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cases", type=int, default=0)
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--directory", required=True)
    given = parser.parse_args()
    serve(given.seconds, given.seed, given.directory, given.cases, given.kinds.split(","))
