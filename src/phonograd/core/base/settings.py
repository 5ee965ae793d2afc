"""Settings: one frozen record of everything that can be tuned, read from PHONOGRAD_* variables once.

>>> from phonograd.core.base import settings
>>> with settings.override(executor="reference"):
...     settings.current().executor
'reference'
"""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .errors import nearest
from .launchers import find_place
from .signals import Signal

__all__ = [
    "CHANGED",
    "CPU_LEVELS",
    "MXNET_BUGS",
    "Settings",
    "bugs_in",
    "current",
    "fix",
    "has_mxnet_bug",
    "override",
    "update",
]

#: values of the setting ``cpu_level``
CPU_LEVELS = ("native", "x86-64-v4", "x86-64-v3", "x86-64-v2", "x86-64")


def _cores() -> int:
    """Return how many cores this process may use: its share, if a launcher started several on this machine."""
    every = os.cpu_count() or 1
    own = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else every
    place = find_place()
    beside = place.local_size if place is not None else 0
    # launchers may bind a process to its cores, or all of them to the same ones
    return min(own, max(1, every // beside)) if beside else own


def _cache_directory() -> str:
    """Return where this platform has programs keep what can be made again, or '' where that is not known."""
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA", "")
    elif sys.platform == "darwin":
        base = os.path.expanduser("~/Library/Caches")
    else:
        base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.path.join(base, "phonograd") if os.path.isabs(base) else ""


@dataclasses.dataclass(frozen=True)
class Settings:
    """Everything that can be tuned; each field is read from ``PHONOGRAD_<FIELD>``."""

    executor: str = "auto"
    """'reference' has NumPy evaluate everything; 'native' and 'auto' compile fused kernels for the operators that have
    a lowering. Where there is no compiler (llvmlite) they say so once, when a value is first asked for, and NumPy does.
    """
    naive: bool = False
    """Evaluate every operator as it is called (also ``MXNET_ENGINE_TYPE=NaiveEngine``): slower, for debugging."""
    explain: bool = False
    """Print every plan to standard error when it is made: what it does, why it is made, what is compiled for it."""
    pending_limit: int = 20_000
    """New expressions a thread may have pending outside of recording before they are evaluated."""
    node_limit: int = 400_000
    """Interned expressions to keep before the least recently used ones are dropped, with their plans and gradients:
    about 0.7 KB each. An eighth is kept while expressions are new all the time, and more when dropped ones come back:
    a program that never repeats takes little memory, and one that repeats after a long time keeps what it needs."""
    plan_limit: int = 2_000
    """Plans to keep before the least recently used ones are dropped."""
    plan_bytes: int = 256 << 20
    """Memory of their tables and constants before the least recently used ones are dropped."""
    kernel_bytes: int = 256 << 20
    """Memory of the machine code of kernels before the least recently used ones are dropped, if no plan uses them."""
    tiers: str = "background"
    """When graphs are planned. 'background' computes a new graph operator by operator at once; it is planned
    when it comes back (see ``planner``), and the plan takes over when it is ready. 'blocking' plans it at the second
    evaluation, while the program waits. 'plan' plans everything at first. The results are the same bits."""
    planner: str = "process"
    """Where graphs are planned in the background. 'process' starts another process for that, at low priority, which
    leaves plans and kernels in the cache directory: steps pause least. It ends half a minute after it was last needed.
    A 'thread' has its first plans ready half a second sooner, and competes with the program for the interpreter
    meanwhile. It is also used without a cache directory, on Windows, under a memory limit, and in processes that share
    the work of a program (forked, or started by a launcher)."""
    num_threads: int = _cores()
    """Threads that share the work of a kernel, the calling one included; the default is the cores of this process."""
    quick_kernels: bool = True
    """Compile kernels quickly first, and those that are used again in full, in the background; else in full at once."""
    native_calls: bool = True
    """Let operator calls and launches run as machine code where that is possible; else Python functions do the same."""
    check_calls: bool = False
    """Let operator calls that run as machine code stop the process if one goes on after an error; for tests. It cannot
    change once they are compiled."""
    winograd: int = 8
    """The largest tiles of Winograd's algorithm in convolutions of float32 with small kernels: 8 is fastest, 6 and 4
    have smaller rounding errors, and 0 never uses it (see docs/numerics.md). Existing plans stay as they are."""
    matrix_unit: bool = True
    """Compute larger products of float32 on the matrix unit of processors that have one, by parts of bfloat16: faster,
    and with smaller rounding errors (see docs/numerics.md). Products of int8 and of bfloat16 use such units as well.
    Existing plans stay as they are."""
    attention_blocks: bool = True
    """Compute attention, and other products larger than their operands that only kernels read, by blocks of rows: the
    memory is linear in the number of rows, and gradients compute the scores again. The results are the same bits.
    Existing plans stay as they are."""
    cpu_level: str = "native"
    """The most that kernels ask of the processor. 'native' uses all it has; 'x86-64-v4' (AVX-512 without AMX),
    'x86-64-v3' (AVX2 and FMA), 'x86-64-v2' (SSE4.2) and 'x86-64' (SSE2) use no more than all processors of that level
    have, so that kernels compute the same bits on all of them. It cannot change once the first kernel is compiled."""
    tuning: str = "auto"
    """The speed of the processor, by which sizes of chunks and blocks are chosen. 'auto' reads what `phonograd tune`
    stored in the cache directory, if it did, and the sizes of caches; 'off' uses neither, for equal plans everywhere;
    anything else is the name of a tuning file. Results have the same bits with all of them. It is read when the first
    plan is made."""
    cache_directory: str = _cache_directory()
    """Where plans and kernels are kept between runs; '' keeps none. The default is the platform's place for caches."""
    cache_bytes: int = 256 << 20
    """Size of that directory before the least recently used files are dropped."""
    spare_bytes: int = 1 << 30
    """Memory of arrays that are gone to keep for new ones; more than that is returned to the system."""
    packed_bytes: int = 1 << 30
    """Memory for weights in the order in which kernels read them, kept from call to call while the weights do not
    change; those of the networks used least recently are dropped first. With 0, every call packs its weights."""
    memory_limit_bytes: int = 0
    """Memory that arrays and temporary values may take; 0 sets no limit. A graph that would take more is planned so
    that values of the forward pass are computed again where the backward pass reads them: the same bits, in less memory
    and more time (docs/performance.md). If that is not enough, a ``MemoryLimitWarning`` gives the figures. Existing
    plans stay as they are."""
    bucket_bytes: int = 8 << 20
    """Bytes of gradients that processes which train together add up at once, while the rest is still computed."""
    rank_timeout: float = 600.0
    """Seconds that such a process waits for the others before it raises an error that names those that are missing; 0
    waits for ever."""
    rank_silence: float = 30.0
    """Seconds without a sign of life from a process after which all end, where `phonograd launch` does not watch them;
    0 waits for ever."""
    gpu_as_cpu: bool = False
    """Let ``mx.gpu(i)`` mean ``mx.cpu(i)``, with one warning, so that scripts that name GPUs run unchanged."""
    states_format: str = "safetensors"
    """The format of new files of optimizer states: 'safetensors', or 'mxnet' for files that MXNet 1.9.1 reads."""
    mxnet_bugs: str = ""
    """Bugs of MXNet 1.9.1 to reproduce, names separated by commas, for programs that rely on them: 'relu_nan' and
    'smooth_alpha' (docs/compatibility.md describes them). It cannot change once one of their operators was called."""


#: the bugs of MXNet that can be reproduced
MXNET_BUGS = ("relu_nan", "smooth_alpha")


def _from_environment() -> Settings:
    values: dict[str, Any] = {}
    for field in dataclasses.fields(Settings):
        text = os.environ.get("PHONOGRAD_" + field.name.upper())
        if text is None:
            continue
        kind: type[Any] = type(field.default)
        try:
            values[field.name] = text.lower() in ("1", "true", "yes", "on") if kind is bool else kind(text)
        except ValueError as error:
            raise ValueError(f"PHONOGRAD_{field.name.upper()}={text!r} is not a valid {kind.__name__}") from error
    if os.environ.get("MXNET_ENGINE_TYPE") == "NaiveEngine":
        values.setdefault("naive", True)
    return _check(Settings(**values))


def _check(settings: Settings) -> Settings:
    if settings.executor not in ("reference", "native", "auto"):
        raise ValueError(f"executor must be 'auto', 'native' or 'reference', not {settings.executor!r}")
    if settings.bucket_bytes < 1 or min(settings.rank_timeout, settings.rank_silence) < 0:
        raise ValueError("bucket_bytes must be positive, and rank_timeout and rank_silence must not be negative")
    if min(settings.plan_bytes, settings.kernel_bytes) < 0:
        raise ValueError("plan_bytes and kernel_bytes must not be negative")
    if settings.memory_limit_bytes < 0:
        raise ValueError(f"memory_limit_bytes must not be negative, not {settings.memory_limit_bytes}; 0 sets no limit")
    if settings.winograd not in (0, 4, 6, 8):
        raise ValueError(f"winograd must be 0, 4, 6 or 8, not {settings.winograd!r}")
    if settings.tiers not in ("background", "blocking", "plan"):
        raise ValueError(f"tiers must be 'background', 'blocking' or 'plan', not {settings.tiers!r}")
    if settings.planner not in ("process", "thread"):
        raise ValueError(f"planner must be 'process' or 'thread', not {settings.planner!r}")
    if settings.states_format not in ("safetensors", "mxnet"):
        raise ValueError(f"states_format must be 'safetensors' or 'mxnet', not {settings.states_format!r}")
    unknown = set(bugs_in(settings)) - set(MXNET_BUGS)
    if unknown:
        raise ValueError(f"mxnet_bugs may have {', '.join(MXNET_BUGS)}, not {', '.join(sorted(unknown))}")
    _check_cpu_level(settings.cpu_level)
    return settings


def bugs_in(settings: Settings) -> list[str]:
    """Return the bugs of MXNet that settings ask for."""
    return [name.strip() for name in settings.mxnet_bugs.split(",") if name.strip()]


def has_mxnet_bug(name: str) -> bool:
    """Return whether operators reproduce a bug of MXNet. Their expressions are cached, so the answer never changes."""
    fix("mxnet_bugs", "operators that depend on it were called")
    return name in bugs_in(_current)


def _check_cpu_level(level: str) -> None:
    if level not in CPU_LEVELS:
        raise ValueError(f"cpu_level must be one of {', '.join(map(repr, CPU_LEVELS))}, not {level!r}")
    if level == "native":
        return
    import platform

    if platform.machine().lower() not in ("x86_64", "amd64"):
        raise ValueError(
            f"cpu_level must be 'native' on this processor ({platform.machine()}), not {level!r}: "
            "the other levels are those of x86-64 processors"
        )


_current = _from_environment()


class _Active:
    """The settings that hot paths read, as slots: one attribute instead of a call."""

    __slots__ = (
        "attentive",
        "executor",
        "immediate",
        "memory_limit_bytes",
        "naive",
        "node_limit",
        "pending_limit",
        "plan_bytes",
        "plan_limit",
        "tiers",
        "watched",
    )

    def __init__(self) -> None:
        self.watched = False
        self.update(_current)

    def update(self, settings: Settings) -> None:
        """Copy the settings."""
        self.naive = settings.naive
        self.tiers = settings.tiers
        self.executor = settings.executor
        self.node_limit = settings.node_limit
        self.memory_limit_bytes = settings.memory_limit_bytes
        self.plan_limit = settings.plan_limit
        self.plan_bytes = settings.plan_bytes
        self.pending_limit = settings.pending_limit
        self._attend()

    def watch(self, watched: bool) -> None:
        """Set whether observers follow operators, kernels or memory."""
        self.watched = watched
        self._attend()

    def _attend(self) -> None:
        #: whether each operator call must be observed or evaluated at once, so that fast paths are off
        self.attentive = self.naive or self.watched
        #: whether calls may compute their results without a graph
        self.immediate = (
            not self.attentive
            and self.executor != "reference"
            and not self.memory_limit_bytes
            and _current.tiers == "background"
        )


active = _Active()

#: by name the reasons why settings cannot change any more
_fixed: dict[str, str] = {}
#: emitted after every change of settings
CHANGED: Signal[[]] = Signal()


def _install(settings: Settings) -> None:
    global _current
    _current = settings
    active.update(settings)
    CHANGED.emit()


def current() -> Settings:
    """Return the settings in force."""
    return _current


def fix(name: str, reason: str) -> None:
    """Refuse to change a setting from now on; the error gives the reason."""
    _fixed[name] = reason


def update(**changes: Any) -> Settings:
    """Change settings for the whole process and return the previous ones."""
    names = [field.name for field in dataclasses.fields(Settings)]
    for name in changes:
        if name not in names:
            raise TypeError(f"there is no setting {name!r}{nearest(name, names)}; settings are {', '.join(names)}")
    previous, changed = _current, _check(dataclasses.replace(_current, **changes))
    for name, reason in _fixed.items():
        if getattr(changed, name) != getattr(previous, name):
            raise ValueError(f"{name} stays {getattr(previous, name)!r} in this process: {reason}")
    _install(changed)
    return previous


@contextmanager
def override(**changes: Any) -> Iterator[Settings]:
    """Change settings inside a ``with`` block."""
    previous = update(**changes)
    try:
        yield _current
    finally:
        # a setting that was fixed inside of the block keeps its value
        _install(dataclasses.replace(previous, **{name: getattr(_current, name) for name in _fixed}))
