"""Membership: how a process of elastic training gets into a group, again and again.

The processes of ``phonograd launch --elastic`` have a second connection to the launcher, which knows who is there
(:mod:`phonograd.cli.elastic`). A process says that it wants to join; the launcher answers all of them with the members
of the next group, as soon as all who belong to it have asked. Hands groups to :mod:`phonograd.distributed.elastic`.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import queue
import select
import socket
import threading
import time
from typing import Any

from ..core.base.errors import MXNetError
from ..core.base.launchers import SLOT
from . import channel
from .sockets import RankLost, SocketCommunicator

__all__ = ["Membership", "is_elastic"]

_SECONDS_TO_CONNECT = 10.0
_GREETING = 32 + 8 + 4


def is_elastic() -> bool:
    """Return whether ``phonograd launch --elastic`` started this process."""
    return SLOT in os.environ


class Membership:
    """The connection of this process to the launcher, and its place in the present group."""

    def __init__(self) -> None:
        host, port, self._secret = os.environ[channel.VARIABLE].split("|")
        self._connection = socket.create_connection((host, int(port)), timeout=_SECONDS_TO_CONNECT)
        self._connection.settimeout(None)
        self._server = socket.create_server(("", 0), backlog=128)
        self._server.setblocking(False)
        #: the address by which other machines reach this one, too
        self._host = self._connection.getsockname()[0]
        self._slot = int(os.environ[SLOT])
        self._news: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._group: SocketCommunicator | None = None
        #: the number of the last group that is over
        self._over = 0
        self._tell({"membership": self._slot, "secret": self._secret, "rank": self._slot})
        threading.Thread(target=self._follow, name="phonograd membership", daemon=True).start()

    def join(self) -> SocketCommunicator | None:
        """Return the next group, once all its members are there; None if training has finished without this process."""
        while True:
            self._tell({"join": [self._host, self._server.getsockname()[1]]})
            while "group" not in (news := self._news.get()):
                if "finished" in news:
                    return None
                if "gone" in news:
                    raise MXNetError("phonograd launch has ended")
            try:
                group = self._connect(news["group"], news["members"])
            except RankLost:
                continue
            with self._lock:
                self._group = group
                if self._over >= news["group"]:
                    group.interrupt()
            return group

    def leave(self) -> None:
        """Tell the launcher that this process needs no other group."""
        self._tell({"leave": True})

    def _tell(self, message: dict[str, Any]) -> None:
        # without the launcher, the thread that gives signs of life ends this process
        with contextlib.suppress(OSError):
            self._connection.sendall(json.dumps(message).encode() + b"\n")

    def _follow(self) -> None:
        """Receive the messages of the launcher."""
        with contextlib.suppress(OSError), self._connection.makefile("rb") as lines:
            for line in lines:
                message = json.loads(line)
                if "over" not in message:
                    self._news.put(message)
                    continue
                with self._lock:
                    self._over = message["over"]
                    if self._group is not None:
                        self._group.interrupt()
        self._news.put({"gone": True})

    def _connect(self, number: int, members: list[list[Any]]) -> SocketCommunicator:
        """Return a group of members, given as slots and addresses in the order of ranks."""
        slots = [slot for slot, _, _ in members]
        rank = slots.index(self._slot)
        links: dict[int, socket.socket] = {}
        until = time.monotonic() + _SECONDS_TO_CONNECT
        try:
            for other in range(rank):
                link = socket.create_connection((members[other][1], members[other][2]), timeout=_SECONDS_TO_CONNECT)
                links[other] = link
                link.sendall(self._greeting(number, self._slot))
            while len(links) < len(members) - 1:
                if self._over >= number or time.monotonic() > until:
                    raise RankLost("a member has not connected")
                self._accept(number, slots, links)
        except (OSError, RankLost) as error:
            for link in links.values():
                link.close()
            raise RankLost(f"the group cannot be connected: {error}") from error
        return SocketCommunicator(rank, [host for _, host, _ in members], links)

    def _accept(self, number: int, slots: list[int], links: dict[int, socket.socket]) -> None:
        """Accept one connection, if it is from a member of this group; those of earlier groups are closed."""
        if not select.select([self._server], [], [], 0.05)[0]:
            return
        try:
            link, _ = self._server.accept()
        except BlockingIOError:
            return
        link.settimeout(_SECONDS_TO_CONNECT)
        greeting = b""
        while len(greeting) < _GREETING and (part := link.recv(_GREETING - len(greeting))):
            greeting += part
        for rank, slot in enumerate(slots):
            if rank not in links and greeting == self._greeting(number, slot):
                links[rank] = link
                return
        link.close()

    def _greeting(self, number: int, slot: int) -> bytes:
        """Return the bytes by which a member shows that it belongs to a group."""
        place = number.to_bytes(8, "little") + slot.to_bytes(4, "little")
        return hashlib.blake2b(place, digest_size=32, key=self._secret.encode()).digest() + place
