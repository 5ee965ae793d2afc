"""Monitor: what ``phonograd launch`` knows about its ranks.

Ranks connect by TCP and send lines (:mod:`phonograd.distributed.channel`): who they are, a sign of life each second,
the traceback of a failure, and their end. Takes these lines; hands :mod:`phonograd.cli.launch` the reason why all must
end.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import secrets
import signal
import socket
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, BinaryIO, cast

__all__ = ["Monitor"]


#: follows a connection until its end
Coordinator = Callable[[int, BinaryIO], None]


class _Rank:
    """One rank: its process, and when it was heard last."""

    def __init__(self, hello: dict[str, Any]) -> None:
        self.number, self.process, self.host = int(hello["rank"]), int(hello["pid"]), str(hello["host"])
        self.heard = time.monotonic()
        self.has_ended = False


class Monitor:
    """Listen to ranks in the background, inside a ``with`` block.

    Parameters
    ----------
    count
        The number of ranks.
    silence
        Seconds without a sign of life after which all must end; 0 allows any silence.
    machines
        The other machines on which ranks run.
    coordinator
        The function that follows the second connection of a process of elastic training, given its slot and the lines.
    """

    def __init__(
        self, count: int, silence: float, machines: Sequence[str] = (), coordinator: Coordinator | None = None
    ) -> None:
        self._silence = silence
        self._coordinator = coordinator
        self._secret = secrets.token_hex(16)
        self._server = socket.create_server(("" if machines else "127.0.0.1", 0), backlog=count)
        self._lock = threading.Lock()
        self._ranks: dict[int, _Rank] = {}
        #: reasons and tracebacks
        self._failures: list[tuple[str, str]] = []
        self._lost: list[_Rank] = []
        host = _address_towards(machines[-1]) if machines else "127.0.0.1"
        #: the value of the variable that tells ranks where to report
        self.place = f"{host}|{self._server.getsockname()[1]}|{self._secret}"

    def __enter__(self) -> Monitor:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._server.close()

    def must_end(self) -> bool:
        """Return whether a rank has been silent for too long."""
        silent = self.silent()
        with self._lock:
            self._failures += [(reason, "") for _, reason in silent]
        return bool(silent)

    def silent(self) -> list[tuple[int, str]]:
        """Return the ranks that have been silent for too long, with a reason; each is returned once."""
        now = time.monotonic()
        found = []
        with self._lock:
            for rank in self._ranks.values():
                if self._silence and not rank.has_ended and now - rank.heard > self._silence:
                    reason = f"{_describe(rank)} has given no sign of life for {self._silence:.0f} s (is it stopped?)"
                    found.append((rank.number, reason))
                    rank.heard = math.inf
        return found

    def has_failures(self) -> bool:
        """Return whether a rank has reported that it fails."""
        with self._lock:
            return bool(self._failures)

    def reason(self, status: int) -> tuple[str, str]:
        """Return why the group failed and a traceback, given the status of mpiexec; empty texts if that is unknown."""
        with self._lock:
            if self._failures:
                return self._failures[0]
            if self._lost:
                known = 0 < status - 128 < signal.NSIG
                how = f"was killed by {signal.Signals(status - 128).name}" if known else "ended without a message"
                return f"{_describe(self._lost[0])} {how}", ""
        return "", ""

    def end_leftovers(self) -> None:
        """Kill ranks on this machine that mpiexec could not end, for example stopped ones."""
        with self._lock:
            for rank in self._ranks.values():
                if not rank.has_ended and rank.host == socket.gethostname():
                    with contextlib.suppress(ProcessLookupError, PermissionError):
                        os.kill(rank.process, signal.SIGKILL)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._listen, args=(connection,), daemon=True).start()

    def _listen(self, connection: socket.socket) -> None:
        """Follow the lines of one rank until it closes the connection."""
        rank: _Rank | None = None
        try:
            with connection, connection.makefile("rwb") as lines:
                for line in lines:
                    message = json.loads(line)
                    if rank is None:
                        if not secrets.compare_digest(str(message.get("secret", "")), self._secret):
                            return
                        if self._coordinator is not None and "membership" in message:
                            self._coordinator(int(message["membership"]), cast(BinaryIO, lines))
                            return
                        rank = _Rank(message)
                        with self._lock:
                            self._ranks[rank.number] = rank
                    with self._lock:
                        rank.heard = time.monotonic()
                        rank.has_ended = rank.has_ended or "ended" in message
                    if "failed" in message:
                        with self._lock:
                            self._failures.append((f"{_describe(rank)} failed", message["traceback"]))
                            rank.has_ended = True
                        lines.write(b".")
                        lines.flush()
        except (OSError, ValueError):
            # a killed rank resets the connection, and strangers send other things; both are handled below
            pass
        if rank is not None:
            with self._lock:
                if not rank.has_ended:
                    self._lost.append(rank)
                    # it is gone: nothing more will be heard of it
                    rank.has_ended = True


def _address_towards(machine: str) -> str:
    """Return the address of this machine in the network of another one. Nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((machine, 9))
        except OSError:
            # ssh may know the machine by a name that the network does not
            return socket.getfqdn()
        return str(probe.getsockname()[0])


def _describe(rank: _Rank) -> str:
    return f"rank {rank.number} (process {rank.process} on {rank.host})"
