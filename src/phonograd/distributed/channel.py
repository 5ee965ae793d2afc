"""The connection of a rank to ``phonograd launch``: signs of life, the reason of a failure, and the end.

The launcher listens on a TCP port, which the variable PHONOGRAD_LAUNCHER names with a secret. A thread of each rank
sends a line each second. Without the variable nothing happens: other launchers have their own ways.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import socket
import threading
from typing import Any

from ..core.base.launchers import find_place

__all__ = ["SECONDS_BETWEEN_SIGNS", "VARIABLE", "connect", "report"]

VARIABLE = "PHONOGRAD_LAUNCHER"
SECONDS_BETWEEN_SIGNS = 1.0
_lock = threading.Lock()
_connection: socket.socket | None = None
_process = 0


def connect() -> None:
    """Connect to the launcher, once. Without a launcher nothing happens."""
    global _connection, _process
    place = os.environ.get(VARIABLE)
    with _lock:
        if _connection is not None or not place:
            return
        host, port, secret = place.split("|")
        try:
            _connection = socket.create_connection((host, int(port)), timeout=10)
        except OSError as error:
            # the launcher is an observer: ranks work without it
            os.write(2, f"phonograd: cannot reach the launcher at {host}:{port}: {error}\n".encode())
            return
        _connection.settimeout(None)
        _process = os.getpid()
    found = find_place()
    number = 0 if found is None else found.rank
    _send({"secret": secret, "rank": number, "pid": os.getpid(), "host": socket.gethostname()})
    atexit.register(_send, {"ended": True})
    threading.Thread(target=_give_signs, name="phonograd signs of life", daemon=True).start()


def report(traceback: str) -> bool:
    """Tell the launcher why this rank fails; return whether a launcher has heard it."""
    if not _send({"failed": True, "traceback": traceback}):
        return False
    assert _connection is not None
    _connection.settimeout(5)
    try:
        return _connection.recv(1) == b"."
    except OSError:
        return False


def _send(message: dict[str, Any]) -> bool:
    """Send a line; return whether the launcher is still there. A forked process sends nothing."""
    connection = _connection
    if connection is None or os.getpid() != _process:
        return False
    try:
        with _lock:
            connection.sendall(json.dumps(message).encode() + b"\n")
    except OSError:
        return False
    return True


def _give_signs() -> None:
    """Send a sign of life each second; end the process if the launcher is gone, because nothing else would."""
    pause = threading.Event()
    while not pause.wait(SECONDS_BETWEEN_SIGNS):
        if not _send({"alive": True}):
            os.kill(os.getpid(), signal.SIGTERM)
            return
