"""Registry: observers, their registration in the process, and each thread's selection of them.

Ranges (:mod:`.range`) ask the thread for the observers of their scope; :mod:`.callbacks` changes the registry.
"""

from __future__ import annotations

import enum
import functools
import itertools
import logging
import math
import random
import threading
import weakref
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

from ..base import fork
from ..base.settings import active
from ..base.thread_state import thread_state

if TYPE_CHECKING:
    from .range import Range

__all__ = [
    "AMBIENT",
    "BACKWARD_FUNCTION",
    "COMPILATION",
    "CUSTOM_OPERATORS",
    "EVALUATION",
    "FUNCTION",
    "KERNEL",
    "LISTENING",
    "LOCAL",
    "MEMORY",
    "MODULE",
    "REGISTRY",
    "USER_SCOPE",
    "Observer",
    "RecordScope",
]

logger = logging.getLogger("phonograd.profiler")


class RecordScope(enum.IntEnum):
    """The kind of a range: PyTorch's numbers, then those of this library."""

    FUNCTION = 0
    """An operator call."""
    BACKWARD_FUNCTION = 1
    """The derivation of one operator's gradient."""
    TORCHSCRIPT_FUNCTION = 2
    KERNEL_FUNCTION_DTYPE = 3
    CUSTOM_CLASS = 4
    BUILD_FEATURE = 5
    LITE_INTERPRETER = 6
    USER_SCOPE = 7
    """``record_function``."""
    STATIC_RUNTIME_OP = 8
    STATIC_RUNTIME_MODEL = 9
    KERNEL = 16
    """One launch of a kernel, which may compute many operators."""
    EVALUATION = 17
    """The evaluation of all pending expressions."""
    COMPILATION = 18
    """The planning and compilation of kernels."""
    MEMORY = 19
    """An allocation or deallocation: a moment whose ``value`` is the number of bytes."""
    MODULE = 20
    """The call of one layer of a model."""


FUNCTION = int(RecordScope.FUNCTION)
BACKWARD_FUNCTION = int(RecordScope.BACKWARD_FUNCTION)
KERNEL = int(RecordScope.KERNEL)
EVALUATION = int(RecordScope.EVALUATION)
COMPILATION = int(RecordScope.COMPILATION)
MEMORY = int(RecordScope.MEMORY)
MODULE = int(RecordScope.MODULE)
USER_SCOPE = int(RecordScope.USER_SCOPE)
#: the domain of ranges around the Python code of custom operators, a section of MXNet's tables
CUSTOM_OPERATORS = "Custom Operator"
_SCOPES = max(RecordScope) + 1
#: plain numbers, because enumeration members are slow to hash
_NUMBERS = tuple([int(scope) for scope in RecordScope])
_KNOWN = frozenset(_NUMBERS)

#: for each scope, the handles of the observers in this process that may see it; empty while no observer listens
#: (the inner lists never change identity, so a hot path can keep a reference to one)
LISTENING: tuple[list[int], ...] = tuple([[] for _ in range(_SCOPES)])

#: the scopes of which an observer makes operator calls take the way on which they are observed
_FOLLOWED = (FUNCTION, BACKWARD_FUNCTION, EVALUATION, KERNEL, MEMORY)

Start = Callable[["Range"], Any]
End = Callable[["Range", Any], object]
Collect = Callable[["Range"], object]


class Observer:
    """An observer with callbacks at the start and at the end of ranges.

    Parameters
    ----------
    start : callable, optional
        Called with the range; its result is passed to ``end``.
    end : callable, optional
        Called with the range and the result of ``start`` (None if it raised).
    scopes : collection of RecordScope, optional
        Scopes to observe; all if empty.
    needs_inputs, needs_outputs, needs_ids : bool
        Whether the callbacks use ``range.inputs``, ``range.outputs`` and ``range.handle``.
    sampling_probability : float
        The fraction of ranges to observe, in [0, 1]; the start and end of a range are always sampled together.
    collector : callable, optional
        Replaces ``start`` and ``end``: called once per thread with its number and name. It returns a function that
        receives the thread's ranges as they start.
    """

    __slots__ = (
        "__weakref__",
        "collector",
        "enabled",
        "end",
        "errors",
        "handle",
        "needs_ids",
        "needs_inputs",
        "needs_outputs",
        "removed",
        "sampling_probability",
        "scopes",
        "start",
    )

    def __init__(
        self,
        start: Start | None = None,
        end: End | None = None,
        *,
        scopes: Collection[int] | None = None,
        needs_inputs: bool = False,
        needs_outputs: bool = False,
        needs_ids: bool = False,
        sampling_probability: float = 1.0,
        collector: Callable[[int, str], Collect] | None = None,
    ) -> None:
        for name, function in (("start", start), ("end", end)):
            if function is not None and not callable(function):
                raise TypeError(f"{name} must be callable or None, not {function!r}")
        if not 0.0 <= sampling_probability <= 1.0:
            raise ValueError(f"Invalid sampling probability {sampling_probability!r}: it must be between 0 and 1")
        self.start = start
        self.end = end
        known = isinstance(scopes, frozenset) and scopes <= _KNOWN
        self.scopes: frozenset[int] = (
            frozenset(scopes or ()) if known else frozenset([int(RecordScope(scope)) for scope in scopes or ()])
        )
        self.needs_inputs = needs_inputs
        self.needs_outputs = needs_outputs
        self.needs_ids = needs_ids
        self.sampling_probability = float(sampling_probability)
        self.collector = collector
        self.handle = next(_observer_handles)
        self.enabled = True
        self.removed = False
        self.errors = 0
        """The number of callbacks that raised; the first exception is logged."""

    def sees(self, scope: int) -> bool:
        """Return whether it observes a scope."""
        return not self.scopes or scope in self.scopes

    @property
    def active(self) -> bool:
        """Return whether it is enabled and can be called at all."""
        return self.enabled and not self.removed


_observer_handles = itertools.count(1)
_thread_numbers = itertools.count(1)


_State = tuple[int, tuple[Observer, ...]]


class Ambient:
    """The observation state of a task: whether it is enabled, and observers besides those of the thread.

    It stores each thread's selection for the task, so that a task's observers move with the task.
    """

    __slots__ = ("enabled", "observers", "selections")

    def __init__(self, enabled: bool, observers: tuple[Observer, ...] = ()) -> None:
        self.enabled = enabled
        self.observers = observers
        self.selections: weakref.WeakKeyDictionary[_Thread, tuple[_State, list[Selection]]]
        self.selections = weakref.WeakKeyDictionary()

    def replace(self, enabled: bool, observers: tuple[Observer, ...]) -> Ambient:
        """Return a copy with other contents."""
        if not observers:
            return QUIET if enabled else _DEAF
        return Ambient(enabled, observers)


class _Registry:
    """The observers of the process, and a version number that increases with every change of any observer."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.version = 0
        self.observers: tuple[Observer, ...] = ()
        self.collectors: tuple[Observer, ...] = ()
        self.local: weakref.WeakValueDictionary[int, Observer] = weakref.WeakValueDictionary()
        self.seed: int | None = None

    def publish(self) -> None:
        """Publish a change: update LISTENING and invalidate the selections of every thread."""
        with self.lock:
            observers = [o for o in (*self.observers, *self.collectors, *self.local.values()) if o.active]
            for scope in _NUMBERS:
                LISTENING[scope][:] = [o.handle for o in observers if o.sees(scope) and o.sampling_probability]
            self.version += 1
            # under the lock: of two changes at once, the state of the last one stays
            active.watch(any([LISTENING[scope] for scope in _FOLLOWED]))

    def watch(self, observer: Observer) -> None:
        """Register a thread-local or task-local observer for as long as its thread or task keeps it."""
        with self.lock:
            self.local[observer.handle] = observer
        weakref.finalize(observer, self.publish).atexit = False

    def after_fork(self) -> None:
        # another thread of the parent may have held the lock, and that thread does not exist in the child
        self.lock = threading.RLock()


REGISTRY = _Registry()
fork.register("observers", after_in_child=REGISTRY.after_fork)


class Snapshot:
    """The observers of one range and their needs."""

    __slots__ = ("collect", "collectors", "demanding", "needs", "observers")

    def __init__(
        self, observers: tuple[Observer, ...], collectors: tuple[Collect, ...], needs: tuple[bool, bool, bool]
    ) -> None:
        self.observers = observers
        self.collectors = collectors
        self.needs = needs
        """Whether inputs, outputs and ids are needed, even by observers of the scope that skip this range."""
        self.demanding = bool(observers) or any(needs)
        self.collect: Collect = collectors[0] if collectors else _ignore
        """The function of the first collector."""


def _ignore(entry: Range) -> None:
    """Ignore a range."""


class Selection:
    """The observers of one scope in one thread, with the countdowns of those that sample."""

    __slots__ = ("always", "countdown", "entries", "generator", "needs", "quick", "sampled", "tries", "waited")

    def __init__(self, entries: list[tuple[Observer, Collect | None]], generator: random.Random) -> None:
        observers = [observer for observer, _ in entries]
        self.entries = [entry for entry in entries if entry[0].sampling_probability]
        self.needs = (
            any(o.needs_inputs for o in observers),
            any(o.needs_outputs for o in observers),
            any(o.needs_ids for o in observers),
        )
        self.generator = generator
        self.always = self._snapshot([o.sampling_probability == 1.0 for o, _ in self.entries])
        """The snapshot of a range that no sampling observer sees."""
        self.tries = [self._draw(o.sampling_probability) for o, _ in self.entries]
        self.sampled = any(self.tries)
        simple = len(self.always.collectors) == 1 and not (self.sampled or self.always.observers or any(self.needs[1:]))
        self.quick = self.always if simple else None
        """The snapshot of every range, if a range has nothing to do but pass itself to one collector."""
        self._wait()

    def _snapshot(self, chosen: list[bool]) -> Snapshot:
        entries = [entry for entry, wanted in zip(self.entries, chosen, strict=True) if wanted]
        return Snapshot(
            tuple([observer for observer, collect in entries if collect is None]),
            tuple([collect for _, collect in entries if collect is not None]),
            self.needs,
        )

    def _draw(self, probability: float) -> int:
        """Return the number of ranges until the next sampled one; 0 for an observer that sees all."""
        if probability == 1.0:
            return 0
        return 1 + int(math.log(1.0 - self.generator.random()) / math.log1p(-probability))

    def _wait(self) -> None:
        self.waited = self.countdown = min([tries for tries in self.tries if tries], default=0)

    def sample(self) -> Snapshot:
        """Return the snapshot of the next range."""
        self.countdown -= 1
        if self.countdown:
            return self.always
        chosen = [tries in (0, self.waited) for tries in self.tries]
        self.tries = [
            (tries - self.waited or self._draw(observer.sampling_probability)) if tries else 0
            for tries, (observer, _) in zip(self.tries, self.entries, strict=True)
        ]
        self._wait()
        return self._snapshot(chosen)


SILENCE = [Selection([], random.Random(0))] * _SCOPES


class _Thread:
    """The state of one thread: its number, its own observers, and the observers of each scope."""

    __slots__ = (
        "__weakref__",
        "ambient",
        "busy",
        "generator",
        "name",
        "number",
        "observers",
        "selections",
        "version",
    )

    def __init__(self) -> None:
        self.number = next(_thread_numbers)
        self.name = threading.current_thread().name
        self.observers: tuple[Observer, ...] = ()
        self.version = -1
        self.ambient = QUIET
        self.selections = SILENCE
        self.generator = random.Random()
        self.busy = False

    def refresh(self, ambient: Ambient) -> None:
        """Select the observers again after a change of observers or of the task."""
        if self.busy:  # code of an observer is not observed
            return
        version = REGISTRY.version
        if self.version != version and REGISTRY.seed is not None:
            self.generator.seed(REGISTRY.seed)
        made_for, found = ambient.selections.get(self, (None, SILENCE))
        if made_for != (version, self.observers):
            found = self._select(ambient)
            ambient.selections[self] = (version, self.observers), found
        self.version, self.ambient, self.selections = version, ambient, found

    def change_observers(self, observers: tuple[Observer, ...]) -> None:
        """Replace the observers of this thread."""
        if self.observers != observers:
            self.observers = observers
            self.version = -1

    def _select(self, ambient: Ambient) -> list[Selection]:
        if not ambient.enabled:
            return SILENCE
        return self.select_by_scope((*REGISTRY.observers, *self.observers, *ambient.observers, *REGISTRY.collectors))

    def select_by_scope(self, observers: Collection[Observer]) -> list[Selection]:
        """Return for each scope the selection of the observers that see it."""
        entries = [
            (observer, observer.collector(self.number, self.name) if observer.collector else None)
            for observer in observers
            if observer.active
        ]
        selections = list(SILENCE)
        made: dict[tuple[int, ...], Selection] = {}
        for scope in _NUMBERS:
            chosen = [entry for entry in entries if entry[0].sees(scope)]
            if chosen:
                handles = tuple([observer.handle for observer, _ in chosen])
                selection = made.get(handles)
                # a sampling observer counts each scope separately
                if selection is None or selection.sampled:
                    selection = made[handles] = Selection(chosen, self.generator)
                selections[scope] = selection
        return selections


QUIET = Ambient(True)
_DEAF = Ambient(False)
AMBIENT = thread_state("phonograd.observation", QUIET)


class _Local(threading.local):
    def __init__(self) -> None:
        self.thread = _Thread()


LOCAL = _Local()


@functools.lru_cache(maxsize=256)
def past_thread(number: int, name: str) -> _Thread:
    """Return the record of a thread of another process or of the past: a number and a name, without observers."""
    made = _Thread.__new__(_Thread)
    made.number, made.name = number, name
    return made
