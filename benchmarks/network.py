"""Simulate machines with a slow network on this one, for :mod:`benchmarks.distributed`; needs root.

Each machine is a network namespace with a host name of its own. Its only device leads here (TUN), where a loop forwards
packets to the others with the rate and the delay of the network: kernels without ``tc netem`` have no other way. The
loop takes some percent of a core while bytes flow.
"""

from __future__ import annotations

import contextlib
import fcntl
import heapq
import os
import select
import struct
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

#: the requests of <linux/if_tun.h>
_TUNSETIFF, _IFF_TUN, _IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
#: few large packets, because each costs as much time as a small one
_PACKET = 65_000
#: seconds of bytes that a device keeps back before it drops packets
_LONGEST_QUEUE = 0.2
#: variables that name the program with which mpiexec and `phonograd launch --elastic` reach other machines
AGENTS = ("PRTE_MCA_plm_ssh_agent", "PHONOGRAD_SSH")


class Network:
    """Machines that a slow network connects.

    Parameters
    ----------
    machines
        The number of machines.
    bits_per_second
        The rate at which each machine sends.
    delay
        Seconds that a packet travels.
    """

    def __init__(self, machines: int, bits_per_second: float, delay: float) -> None:
        self._byte_seconds, self._delay = 8 / bits_per_second, delay
        self._names = [f"phonograd{number}" for number in range(1, machines + 1)]
        #: the addresses of the machines
        self.addresses = [f"10.77.0.{number}" for number in range(1, machines + 1)]
        self._devices: list[int] = []
        self._is_over = False
        self._folder = tempfile.TemporaryDirectory()
        self._agent = Path(self._folder.name, "agent")
        self._thread = threading.Thread(target=self._forward, daemon=True)

    def __enter__(self) -> Network:
        for name, address in zip(self._names, self.addresses, strict=True):
            _run("ip", "netns", "add", name)
            self._devices.append(_open_device(name))
            _run("ip", "link", "set", name, "netns", name)
            for words in (
                ("link", "set", "lo", "up"),
                ("link", "set", name, "mtu", str(_PACKET)),
                ("addr", "add", f"{address}/24", "dev", name),
                ("link", "set", name, "up"),
            ):
                _run("ip", "-n", name, *words)
        # the agent is called like ssh: options, the machine, and the command
        enter = 'exec ip netns exec phonograd$n unshare -u sh -c "hostname h$n; $*"\n'
        skip = 'while [ "${1#-}" != "$1" ]; do shift; done\n'
        self._agent.write_text(f"#!/bin/sh\n{skip}n=${{1##*.}}; shift\n{enter}")
        self._agent.chmod(0o755)
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._is_over = True
        self._thread.join()
        for device in self._devices:
            os.close(device)
        for name in self._names:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)
        self._folder.cleanup()

    def command(self, machine: int, words: list[str]) -> list[str]:
        """Return the command that runs words on a machine."""
        return [str(self._agent), self.addresses[machine], *words]

    @contextlib.contextmanager
    def reached_by_launchers(self) -> Iterator[None]:
        """Let launchers reach the machines as by ssh, inside a ``with`` block."""
        os.environ.update(dict.fromkeys(AGENTS, str(self._agent)))
        try:
            yield
        finally:
            for name in AGENTS:
                del os.environ[name]

    def _forward(self) -> None:
        """Pass packets on, each when its time has come."""
        by_address = {bytes(map(int, address.split("."))): number for number, address in enumerate(self.addresses)}
        numbers = {device: number for number, device in enumerate(self._devices)}
        free = [0.0] * len(self._devices)
        travelling: list[tuple[float, int, int, bytes]] = []
        count = 0
        while not self._is_over:
            wait = max(0.0, travelling[0][0] - time.monotonic()) if travelling else 0.1
            for device in select.select(self._devices, [], [], wait)[0]:
                sender = numbers[device]
                with contextlib.suppress(BlockingIOError):
                    while True:
                        packet = os.read(device, _PACKET + 100)
                        receiver = by_address.get(packet[16:20])
                        now = time.monotonic()
                        begin = max(now, free[sender])
                        if receiver is None or begin - now > _LONGEST_QUEUE:
                            continue
                        free[sender] = begin + len(packet) * self._byte_seconds
                        count += 1
                        heapq.heappush(travelling, (free[sender] + self._delay, count, receiver, packet))
            while travelling and travelling[0][0] <= time.monotonic():
                _, _, receiver, packet = heapq.heappop(travelling)
                # a device that is full drops a packet, as networks do
                with contextlib.suppress(OSError):
                    os.write(self._devices[receiver], packet)


def _open_device(name: str) -> int:
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _IFF_TUN | _IFF_NO_PI))
    return device


def _run(*words: str) -> None:
    done = subprocess.run(words, check=False, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"cannot simulate a network, which needs root, ip and TUN: {' '.join(words)}: {done.stderr}")
