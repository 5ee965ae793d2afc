"""The connection of a rank to ``phonograd launch``: signs of life, and the reason of a failure.

The launcher listens on a TCP port, which the variable PHONOGRAD_LAUNCHER names with a secret. A thread of each rank
sends a line each second. Without the variable nothing happens: other launchers have their own ways.
"""

from __future__ import annotations

import json
import os
import socket
import threading
from typing import Any

__all__ = ["SECONDS_BETWEEN_SIGNS", "VARIABLE", "connect", "report"]

VARIABLE = "PHONOGRAD_LAUNCHER"
SECONDS_BETWEEN_SIGNS = 1.0
_lock = threading.Lock()
_connection: socket.socket | None = None


def connect() -> None:
    """Connect to the launcher, once; a launcher that has ended is ignored."""
    global _connection
    place = os.environ.get(VARIABLE)
    with _lock:
        if _connection is not None or not place:
            return
        host, port, secret = place.split("|")
        try:
            _connection = socket.create_connection((host, int(port)), timeout=10)
        except OSError as error:
            # the launcher is an observer; ranks work without it
            os.environ.pop(VARIABLE, None)
            os.write(2, f"phonograd: cannot reach the launcher at {host}:{port}: {error}\n".encode())
            return
    _send({"secret": secret, "rank": _rank(), "pid": os.getpid(), "host": socket.gethostname()})
    threading.Thread(target=_give_signs, name="phonograd signs of life", daemon=True).start()


def report(reason: str) -> None:
    """Tell the launcher why this rank fails."""
    _send({"failed": reason})


def _rank() -> int:
    names = ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK")
    return int(next((os.environ[name] for name in names if name in os.environ), "0"))


def _send(message: dict[str, Any]) -> bool:
    """Send a line; return whether the launcher is still there."""
    connection, process = _connection, os.getpid()
    if connection is None or message.get("pid", process) != process:
        return False
    try:
        with _lock:
            connection.sendall(json.dumps(message).encode() + b"\n")
    except OSError:
        return False
    return True


def _give_signs() -> None:
    """Send a sign of life each second. A forked process does not have this thread."""
    pause = threading.Event()
    while not pause.wait(SECONDS_BETWEEN_SIGNS):
        if not _send({"alive": True}):
            return
