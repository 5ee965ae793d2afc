"""``phonograd launch --elastic``: processes that may end, and are replaced, while the others go on.

This process starts the ranks itself, here or by ssh, and tells them who belongs to the present group
(:mod:`phonograd.distributed.membership`). It holds nothing of the training: a replacement gets the state from another
rank. Takes the command of a rank from :mod:`phonograd.cli.launch`.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO

from ..core.base.launchers import SLOT
from .monitor import Monitor

__all__ = ["Coordinator", "Supervisor"]

_SECONDS_TO_END = 3.0
#: replacements of one rank that may end before they join; more of them are useless
_MOST_IN_VAIN = 3


class _Member:
    """A process that has asked to join a group at least once."""

    def __init__(self, slot: int, lines: BinaryIO) -> None:
        self.slot, self._lines = slot, lines
        #: the host and the port where other members reach it
        self.address: list[Any] = []
        self.is_waiting = False

    def tell(self, message: dict[str, Any]) -> None:
        # a member that is gone is noticed where its lines are read
        with contextlib.suppress(OSError, ValueError):
            self._lines.write(json.dumps(message).encode() + b"\n")
            self._lines.flush()


class Coordinator:
    """Form groups of the processes that ask for it.

    The first group has all processes. A later one is formed when a member ends or a new one asks: the present group is
    declared over, and the next one begins when all members have asked.

    Parameters
    ----------
    slots
        The numbers of the processes, which give the order of ranks.
    """

    def __init__(self, slots: Sequence[int]) -> None:
        self._lock = threading.Lock()
        #: the processes that the first group waits for
        self._expected = set(slots)
        self._members: dict[int, _Member] = {}
        self._number = 0
        self._is_over = False
        #: how many groups there were, and whether a member needs no more of them
        self.groups = 0
        self.has_finished = False
        #: processes that have asked to join
        self.joined: set[int] = set()

    def follow(self, slot: int, lines: BinaryIO) -> None:
        """Follow the messages of one process until its connection ends."""
        member = _Member(slot, lines)
        try:
            for line in lines:
                message = json.loads(line)
                with self._lock:
                    if "join" in message:
                        self._add(member, message["join"])
                    elif "leave" in message:
                        self.has_finished = True
                        self._members.pop(slot, None)
                        self._form()
        except (OSError, ValueError):
            # a killed process resets its connection
            pass
        with self._lock:
            if self._members.get(slot) is member:
                del self._members[slot]
                self._end_group()
                self._form()

    def forget(self, slot: int) -> None:
        """Stop to wait for a process that ended before it asked to join."""
        with self._lock:
            self._expected.discard(slot)
            self._form()

    def size(self) -> int:
        """Return the number of members."""
        with self._lock:
            return len(self._members)

    def _add(self, member: _Member, address: list[Any]) -> None:
        if self.has_finished and member.slot not in self._members:
            member.tell({"finished": True})
            return
        is_new = self._members.get(member.slot) is not member
        self.joined.add(member.slot)
        self._members[member.slot] = member
        member.address, member.is_waiting = address, True
        if is_new:
            self._end_group()
        self._form()

    def _end_group(self) -> None:
        """Tell all members that the present group is over."""
        if self._number and not self._is_over:
            self._is_over = True
            for member in self._members.values():
                member.tell({"over": self._number})

    def _form(self) -> None:
        """Form the next group if all its members wait for it."""
        if not self._members or not all([member.is_waiting for member in self._members.values()]):
            return
        if self._number == 0 and not self._expected <= set(self._members):
            return
        self._number += 1
        self._is_over = False
        self.groups += 1
        members = [self._members[slot] for slot in sorted(self._members)]
        message = {"group": self._number, "members": [[each.slot, *each.address] for each in members]}
        for member in members:
            member.is_waiting = False
            member.tell(message)


class Supervisor:
    """Start processes, show their output, and replace those that end.

    Parameters
    ----------
    command
        The command of a process.
    environment
        Its variables.
    hosts
        The machine of each process; "" is this one.
    restarts
        How many replacements to start at most.
    show
        The function that shows a stream of output, given the stream, the target and the rank.
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        hosts: Sequence[str],
        restarts: int,
        show: Any,
    ) -> None:
        self._command, self._environment = list(command), dict(environment)
        self._hosts, self._restarts, self._show = list(hosts), restarts, show
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._in_vain: dict[int, int] = {}
        self._readers: list[threading.Thread] = []
        self.is_interrupted = False

    def run(self, monitor: Monitor, coordinator: Coordinator) -> int:
        """Run all processes until they end, and return the exit status."""
        for slot in range(len(self._hosts)):
            self._start(slot)
        status, problem = 0, ""
        while self._processes and not monitor.has_failures() and not problem:
            for slot, reason in monitor.silent():
                _say(f"{reason}; it is killed")
                self._kill(slot)
            for slot, process in list(self._processes.items()):
                if process.poll() is not None and not problem:
                    del self._processes[slot]
                    status, problem = self._note_end(slot, process, coordinator, status)
            if coordinator.has_finished and not coordinator.size():
                self._end_latecomers(coordinator)
            time.sleep(0.02)
        self.end()
        reason, trace = monitor.reason(1) if monitor.has_failures() else (problem, "")
        if reason:
            print(f"{trace}phonograd launch: {reason}; all ranks were ended", file=sys.stderr)
            return status or 1
        return 0 if coordinator.has_finished else status

    def _note_end(
        self, slot: int, process: subprocess.Popen[bytes], coordinator: Coordinator, status: int
    ) -> tuple[int, str]:
        """Replace a process that ended too early; return the exit status, and why all must end."""
        found = process.returncode
        who = f"rank {slot} (process {process.pid}{' on ' + self._hosts[slot] if self._hosts[slot] else ''})"
        if found == 0 and slot not in coordinator.joined and not coordinator.has_finished:
            return 1, f"{who} ended without a call of mx.distributed.elastic.run, which --elastic needs"
        if found == 0 or coordinator.has_finished:
            return status or (found and _status_of(found)), ""
        how = f"was killed by {signal.Signals(-found).name}" if found < 0 else f"ended with status {found}"
        has_joined = slot in coordinator.joined
        coordinator.joined.discard(slot)
        self._in_vain[slot] = 0 if has_joined else self._in_vain.get(slot, 0) + 1
        others = len(self._processes)
        if self._restarts and self._in_vain[slot] < _MOST_IN_VAIN and (others or not has_joined):
            self._restarts -= 1
            _say(f"{who} {how}; {_go_on(others)}, and a replacement starts")
            self._start(slot)
            return 0, ""
        coordinator.forget(slot)
        if not others:
            return _status_of(found), f"{who} {how}, and no rank is left"
        _say(f"{who} {how}; {_go_on(others)}")
        return status, ""

    def end(self) -> None:
        """End all processes, by force if they do not end in time."""
        for process in self._processes.values():
            process.terminate()
        until = time.monotonic() + _SECONDS_TO_END
        for process in self._processes.values():
            try:
                process.wait(max(0.0, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for reader in self._readers:
            reader.join(_SECONDS_TO_END)

    def _start(self, slot: int) -> None:
        variables = {**self._environment, SLOT: str(slot)}
        command, host = self._command, self._hosts[slot]
        if host:
            command = remote_command(host, command, variables)
        process = subprocess.Popen(
            command,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self._processes[slot] = process
        for source, target in ((process.stdout, sys.stdout), (process.stderr, sys.stderr)):
            reader = threading.Thread(target=self._show, args=(source, target, slot), daemon=True)
            self._readers = [each for each in self._readers if each.is_alive()] + [reader]
            reader.start()

    def _kill(self, slot: int) -> None:
        process = self._processes.get(slot)
        if process is not None:
            process.kill()

    def _end_latecomers(self, coordinator: Coordinator) -> None:
        """End replacements that have not joined: the others have finished."""
        for slot in list(self._processes):
            if slot not in coordinator.joined:
                process = self._processes.pop(slot)
                process.kill()
                process.wait()


def remote_command(host: str, command: Sequence[str], variables: Mapping[str, str]) -> list[str]:
    """Return the command that runs a command on another machine, with variables, in the same folder.

    >>> remote_command("a", ["python", "train.py"], {"PHONOGRAD_SLOT": "1", "HOME": "/root"})[-1].split("&& ")[1]
    'exec env PHONOGRAD_SLOT=1 python train.py'
    """
    kept = [
        f"{name}={value}"
        for name, value in variables.items()
        if name.startswith(("PHONOGRAD_", "OMP_", "OPENBLAS_", "MKL_", "PYTHON"))
    ]
    words = " ".join(map(shlex.quote, ["exec", "env", *kept, *command]))
    agent = os.environ.get("PHONOGRAD_SSH", "ssh -o BatchMode=yes")
    return [*shlex.split(agent), host, f"cd {shlex.quote(os.getcwd())} && {words}"]


def _status_of(returned: int) -> int:
    return 128 - returned if returned < 0 else returned


def _go_on(others: int) -> str:
    return f"{others} other{' goes' if others == 1 else 's go'} on"


def _say(text: str) -> None:
    print(f"phonograd launch: {text}", file=sys.stderr, flush=True)
