"""The processor: its caches and its speed, and the sizes that planners choose by them.

Holds the model from which all choices between equally correct plans are made: how much work is worth handing to
another thread, what stays in a cache, and when a plan is worth its time. Facts are read from the system
(:class:`Facts`). Rates (:class:`Rates`) are measured by ``phonograd tune``, which stores them in the cache directory;
without them the values of the first measured processor hold. :class:`Choices` follow from both.

**No choice changes a bit of a result.** Numbers that do (the order of a sum, the algorithm of a convolution) are
constants of the kernels, the same on all processors with the same vectors. Decision 0038 lists both kinds.
"""

from __future__ import annotations

import functools
import json
import math
import os
import platform
import re
import stat
import warnings
from typing import NamedTuple

from . import settings
from .files import write_atomically

__all__ = ["RANGES", "Choices", "Facts", "Rates", "choices", "choose", "facts", "path", "rates", "source", "store"]

#: the size of a tuning file that is read; ours have some hundred bytes
_MOST_BYTES = 1 << 16
_FORMAT = 1


class Facts(NamedTuple):
    """Facts about the processor that the system gives."""

    model: str = ""
    cores: int = 1
    """Cores of the machine; :attr:`.Settings.num_threads` may be less."""
    level1_bytes: int = 1 << 15
    level2_bytes: int = 1 << 21
    level3_bytes: int = 1 << 25


class Rates(NamedTuple):
    """Speeds of the processor on one thread; the defaults are those of an Intel Xeon with AMX, 2 cores.

    ``python -m phonograd tune`` measures them.
    """

    multiplications_per_second: float = 70e9
    """Of a float32 matrix product, without a matrix unit."""
    bytes_per_second: float = 14e9
    """Read and written by an elementwise kernel on arrays that no cache holds."""
    wake_seconds: float = 55e-6
    """From the release of a lock until the thread that waits for it runs."""
    node_seconds: float = 150e-6
    """Planning an operator, with its share of compilation."""
    kernel_seconds: float = 4e-3
    """Compiling a small kernel quickly."""


#: the values that are possible; a file with others is damaged, or of a machine that this model does not know
RANGES = {name: (usual / 1000, usual * 1000) for name, usual in Rates()._asdict().items()}


class Choices(NamedTuple):
    """The sizes that planners choose by; they change the speed and the memory of a plan, never a bit of its results."""

    chunk_scale: float = 1.0
    """Size of the chunks that threads take, relative to the constants of kernels, which are for the default rates."""
    tasks: int = 16
    """Tasks of a large matrix product."""
    near_bytes: int = 1 << 20
    """Memory that stays in a core's own cache, beside other data."""
    numbers_per_node: int = 1 << 18
    """Average elements of a node above which a new graph is planned at once."""
    node_ns: int = 150_000
    """Time of planning per node, after which a repeated graph is worth a plan."""
    kernel_ns: int = 4_000_000
    """The same for each plan."""
    wake_seconds: float = 55e-6
    """Duration of a region that justifies waking threads, and time that a caller looks for the end before it sleeps."""
    operations_per_byte: float = 4.0
    """Cost of moving a byte, in arithmetic operations."""


def choose(facts: Facts, rates: Rates) -> Choices:
    """Return the choices for a processor.

    >>> choose(Facts(), Rates()) == Choices()
    True
    >>> slow = choose(Facts(level2_bytes=1 << 19), Rates(multiplications_per_second=17.5e9))
    >>> slow.chunk_scale, slow.near_bytes
    (0.5, 262144)
    >>> choose(Facts(cores=64), Rates()).tasks
    128
    """
    usual = Rates()
    # chunks last equally long everywhere: work of both kinds counts
    speed = math.sqrt(
        rates.multiplications_per_second
        / usual.multiplications_per_second
        * rates.bytes_per_second
        / usual.bytes_per_second
    )
    # fusing a node saves a write and a read of each of its numbers
    saved = rates.node_seconds * rates.bytes_per_second / 8
    return Choices(
        chunk_scale=2.0 ** _within(round(math.log2(speed)), -4, 4),
        tasks=_within(2 * facts.cores, 16, 256),
        near_bytes=_power_of_two(facts.level2_bytes / 2, 1 << 16, 1 << 24),
        numbers_per_node=_power_of_two(saved, 1 << 12, 1 << 26),
        node_ns=round(rates.node_seconds * 1e9),
        kernel_ns=round(rates.kernel_seconds * 1e9),
        wake_seconds=rates.wake_seconds,
        # a product counts two operations for each multiplication; elementwise ones reach two fifths of that rate
        operations_per_byte=0.8 * rates.multiplications_per_second / rates.bytes_per_second,
    )


def _within(value: int, least: int, most: int) -> int:
    return max(least, min(value, most))


def _power_of_two(value: float, least: int, most: int) -> int:
    return _within(1 << max(0, round(math.log2(max(1.0, value)))), least, most)


@functools.cache
def facts() -> Facts:
    """Return what the system tells about this processor; what it does not tell has a default."""
    sizes: dict[int, int] = {}
    folder = "/sys/devices/system/cpu/cpu0/cache"
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
        level, kind, size = [_first_line(os.path.join(folder, name, fact)) for fact in ("level", "type", "size")]
        number = re.fullmatch(r"(\d{1,9})K", size)
        if level.isdigit() and kind in ("Data", "Unified") and number is not None and int(number[1]):
            sizes[int(level)] = int(number[1]) << 10
    parts = [line.partition(":") for line in _lines("/proc/cpuinfo")]
    # platform.processor starts a process, which takes 10 ms: the system is asked only if the file does not tell
    named = next((value.strip() for name, _, value in parts if name.strip() == "model name"), None)
    model = platform.processor() or platform.machine() if named is None else named
    usual = Facts()
    near = [sizes.get(level, default) for level, default in zip((1, 2, 3), usual[2:], strict=True)]
    return Facts(model, os.cpu_count() or 1, *near)


def _lines(name: str) -> list[str]:
    try:
        with open(name, encoding="utf-8", errors="replace") as file:
            return file.read().splitlines()
    except OSError:
        return []


def _first_line(name: str) -> str:
    return next(iter(_lines(name)), "").strip()


def path() -> str:
    """Return the name of this processor's tuning file, or '' if none is used."""
    now = settings.current()
    if now.tuning == "off":
        return ""
    if now.tuning != "auto":
        return now.tuning
    if not now.cache_directory:
        return ""
    known = facts()
    name = re.sub(r"[^A-Za-z0-9]+", "-", known.model).strip("-")[:80] or "processor"
    return os.path.join(now.cache_directory, f"tuning-{name}-{known.cores}.json")


def source() -> str:
    """Return the name of the file from which the rates in force were read, or '' for the defaults."""
    return _load()[1]


def rates() -> Rates:
    """Return the rates in force: those that ``phonograd tune`` stored, or the defaults."""
    return _load()[0]


@functools.cache
def choices() -> Choices:
    """Return the choices in force; the same in all of a process."""
    if settings.current().tuning == "off":
        return Choices()
    return choose(facts(), rates())


@functools.cache
def _load() -> tuple[Rates, str]:
    name = path()
    if not name:
        return Rates(), ""
    try:
        return _read(name), name
    except FileNotFoundError:
        if settings.current().tuning == "auto":
            return Rates(), ""
        raise ValueError(f"PHONOGRAD_TUNING={name!r}: there is no such file; `phonograd tune` makes one") from None
    except (OSError, ValueError, RecursionError) as error:
        problem = f"the tuning file {name} cannot be used: {error}"
        if settings.current().tuning != "auto":
            raise ValueError(problem) from error
        warnings.warn(f"{problem}. Defaults are used; `phonograd tune` writes it again", RuntimeWarning, stacklevel=2)
        return Rates(), ""


def _read(name: str) -> Rates:
    """Return the rates in a tuning file; raise ValueError if it is not one."""
    # a pipe or a device in its place must not block
    descriptor = os.open(name, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError("it is not a regular file")
        data = file.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise ValueError(f"it is larger than {_MOST_BYTES} bytes")
    found = json.loads(data.decode("utf-8"))
    if not isinstance(found, dict) or found.get("format") != _FORMAT or not isinstance(found.get("rates"), dict):
        raise ValueError(f"it is not a tuning file of format {_FORMAT}")
    values = found["rates"]
    if set(values) != set(Rates._fields):
        raise ValueError(f"its rates are {', '.join(sorted(values))}, not {', '.join(sorted(Rates._fields))}")
    for field, (least, most) in RANGES.items():
        value = values[field]
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= most:
            raise ValueError(f"{field} is {value!r}, not a number between {least:g} and {most:g}")
    return Rates(**{field: float(values[field]) for field in Rates._fields})


def store(measured: Rates) -> str:
    """Write the rates of this processor, and return the name of the file; later processes use it."""
    name = path()
    if not name:
        raise ValueError("there is no place for a tuning file: set PHONOGRAD_CACHE_DIRECTORY or PHONOGRAD_TUNING")
    os.makedirs(os.path.dirname(os.path.abspath(name)), 0o700, exist_ok=True)
    content = {"format": _FORMAT, "processor": facts().model, "cores": facts().cores, "rates": measured._asdict()}
    write_atomically(name, [(json.dumps(content, indent=2) + "\n").encode()])
    return name
