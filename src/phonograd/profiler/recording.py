"""record_function: a named scope in the user's program, as a ``with`` block or a decorator.

An unobserved scope costs two tests. The state of an open scope is in a :class:`Range <phonograd.core.events.Range>`,
one for each entry: a scope may be entered again while it is open, by the same thread or by others.
"""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Mapping
from time import perf_counter_ns
from types import TracebackType
from typing import Any, Generic, TypeVar, cast

from ..core.base.docstrings import complete_classes
from ..core.events import LISTENING, USER_SCOPE, Range, current_thread_id
from ..core.events.range import CURRENT, OVER, start_range
from ..core.events.registry import LOCAL
from .continuation import end_on, kind_of_future
from .handles import RecordFunctionHandle, begin_scope, text

__all__ = ["record_function"]

Function = TypeVar("Function", bound=Callable[..., Any])
T = TypeVar("T")

#: the listeners to user scopes; empty while no observer is registered
_LISTENERS = LISTENING[USER_SCOPE]


class _NoEntries(list[Range]):
    """Shared empty lists of entries for unobserved scopes; their identity tells the last state of a scope."""


_NEW, _ENTERED, _ATTACHED = _NoEntries(), _NoEntries(), _NoEntries()
_creation = threading.Lock()


class record_function:  # noqa: N801 - PyTorch's name
    """A named scope for observers and profilers: a ``with`` block, or a decorator of functions.

    Parameters
    ----------
    name : str
        Any text, shown unchanged.
    args : str, optional
        Additional text. Observers that request inputs receive it as the only input of the scope.
    attributes : mapping, optional
        Further values by name, shown with the scope in traces. :meth:`set` adds more.

    It decorates functions, methods, generators, coroutines and asynchronous generators. The time in which a generator
    or coroutine is suspended does not count as its own.

    >>> import phonograd as mx
    >>> with mx.profiler.profile() as prof:
    ...     with mx.profiler.record_function("forward"):
    ...         pass
    >>> [event.name for event in prof.events()]
    ['forward']
    """

    __slots__ = ("_details", "_entries", "_state", "name")

    def __init__(self, name: str, args: str | None = None, attributes: Mapping[str, Any] | None = None) -> None:
        if args is None and attributes is None and type(name) is str:
            self.name = name
            self._details: tuple[str | None, Mapping[str, Any] | None] | None = None
        else:
            self.name = text("name", name)
            self._details = (None if args is None else text("args", args), attributes)
        self._entries: list[Range] = [] if _LISTENERS else _NEW

    @property
    def args(self) -> str | None:
        """The additional text of the scope."""
        return None if self._details is None else self._details[0]

    @property
    def attributes(self) -> Mapping[str, Any] | None:
        """The further values of the scope, by name."""
        return None if self._details is None else self._details[1]

    def __enter__(self) -> record_function:
        if not _LISTENERS:
            if self._entries is _NEW:
                self._entries = _ENTERED
                return self
            if self._entries is _ENTERED or self._enter_unobserved():
                return self
        entries = self._entries
        if self._details is None:
            entry = start_range(USER_SCOPE, self.name)
        else:
            entry = begin_scope(self.name, self.args, self.attributes)
        if entry.start_ns and type(entries) is list:
            entries.append(entry)
            self.__class__ = _OpenScope
        else:
            self._keep(entry)
        self._state = _ENTERED
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        if self._entries is _ENTERED:
            return
        entries = self._entries
        if not entries:
            if self._last is _NEW:
                raise AssertionError("Expected record to be set: the scope was never entered")
        elif error is None and len(entries) == 1 and not (entry := entries[0]).attached:
            del entries[0]
            if not entries:
                self.__class__ = record_function
            if entry._snapshot.observers or entry._thread is not LOCAL.thread or entry.end_ns:
                entry.end()
            else:  # inlined entry.end()
                entry.end_ns = perf_counter_ns()
                entry._snapshot = OVER
        else:
            self._exit(error)

    def _enter_unobserved(self) -> bool:
        """Return whether the entry needs no range, because no entry of the scope is observed; note the entry if so."""
        entries = self._entries
        if entries:
            return False
        if type(entries) is list:
            self._state = _ENTERED
        else:
            self._entries = _ENTERED
        return True

    @property
    def _last(self) -> list[Range]:
        """The last state of the scope."""
        entries = self._entries
        return getattr(self, "_state", _NEW) if type(entries) is list else entries

    def _keep(self, entry: Range) -> None:
        """Store an unobserved entry, or the first entry of a scope without its own list."""
        if not entry.start_ns:
            if not self._entries:
                if type(self._entries) is not list:
                    self._entries = _ENTERED
                return
            # keep a marker: the exit of this entry must not close the enclosing one
            entry.mark()
        with _creation:
            if type(self._entries) is not list:
                self._entries = []
        self._entries.append(entry)
        self.__class__ = _OpenScope

    def _exit(self, error: BaseException | None) -> None:
        entries = self._entries
        entry = entries[0] if len(entries) == 1 else self.record
        if entry is None:
            return
        entries.remove(entry)
        if not entries:
            self.__class__ = record_function
        if entry.attached:
            entry.step_out()
            return
        if error is not None:
            entry.error = _error_text(error)
        entry.end()

    @property
    def record(self) -> Range | None:
        """The range of the innermost entry in this thread or task, if observed."""
        entries = list(self._entries)
        if len(entries) > 1:
            found = CURRENT.get()
            while found is not None:
                if found in entries:
                    return found
                found = found.parent
            # entered in another task or thread: prefer the last entry of this thread, then the last entry of all
            entries = [entry for entry in entries if entry.thread_id == current_thread_id()] or entries
        return entries[-1] if entries else None

    @property
    def run_callbacks_on_exit(self) -> bool:
        """Return whether leaving the block ends the scope: False once a future controls its end."""
        entry = self.record
        return self._last is not _ATTACHED if entry is None else not entry.attached

    def set(self, **attributes: Any) -> None:
        """Add attributes to the running scope."""
        entry = self.record
        if entry is not None:
            entry.attributes = {**(entry.attributes or {}), **attributes}

    def event(self, name: str, **attributes: Any) -> None:
        """Record that an event happened now, inside this scope."""
        if _LISTENERS:
            begin_scope(text("name", name), None, attributes, instant=True).end()

    def _call_end_callbacks_on_future(self, fut: Any) -> Any:
        """Return a future like ``fut`` that completes after this scope; the scope ends when ``fut`` completes.

        The scope stays open after the ``with`` block. Call it once for each entry. It accepts futures of
        :mod:`phonograd.futures`, ``concurrent.futures`` and asyncio.
        """
        if self._last is _NEW:
            raise AssertionError("Expected record to be set: the scope was never entered")
        entry = self.record
        if self._last is _ATTACHED if entry is None else entry.attached:
            raise RuntimeError("_call_end_callbacks_on_future can only be called once.")
        if kind_of_future(fut) is None:
            return end_on(fut, _nothing)  # only to raise for an unsupported future
        if type(self._entries) is list:
            self._state = _ATTACHED
        else:
            self._entries = _ATTACHED
        if entry is None:
            return end_on(fut, _nothing)
        entry.attached = entry.is_async = True
        return end_on(fut, RecordFunctionHandle(entry).end)

    end_on = _call_end_callbacks_on_future

    def __call__(self, function: Function) -> Function:
        """Return a function that runs inside this scope."""
        if isinstance(function, staticmethod | classmethod):
            return cast(Function, type(function)(self(function.__func__)))
        if not callable(function):
            raise TypeError(f"record_function({self.name!r}) decorates functions, not {function!r}")
        if inspect.iscoroutinefunction(function):
            return cast(Function, self._around_coroutine(function))
        if inspect.isasyncgenfunction(function):
            return cast(Function, self._around_asynchronous_generator(function))
        if inspect.isgeneratorfunction(function):
            return cast(Function, self._around_generator(function))
        return cast(Function, self._around_function(function))

    def _around_function(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            if not _LISTENERS:
                return function(*args, **kwargs)
            entry = begin_scope(self.name, self.args, self.attributes)
            try:
                return function(*args, **kwargs)
            except BaseException as error:
                entry.error = _error_text(error)
                raise
            finally:
                entry.end()

        return wrapper

    def _around_generator(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
            generator = function(*args, **kwargs)
            if not _LISTENERS:
                return (yield from generator)
            with _Visit(self) as entry:
                return (yield from _steps(entry, generator))

        return wrapper

    def _around_coroutine(self, function: Callable[..., Any]) -> Callable[..., Coroutine[Any, Any, Any]]:
        @functools.wraps(function)
        async def wrapper(*args: Any, **kwargs: Any) -> Any:
            coroutine = function(*args, **kwargs)
            if not _LISTENERS:
                return await coroutine
            with _Visit(self) as entry:
                return await _Steps(entry, coroutine)

        return wrapper

    def _around_asynchronous_generator(self, function: Callable[..., Any]) -> Callable[..., AsyncGenerator[Any, Any]]:
        @functools.wraps(function)
        async def wrapper(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
            generator = function(*args, **kwargs)
            with _Visit(self) as entry:
                step = generator.asend(None)
                while True:
                    try:
                        item = await _Steps(entry, step)
                    except StopAsyncIteration:
                        return
                    entry.suspend()
                    try:
                        sent = yield item
                    except GeneratorExit:
                        entry.resume()
                        await _Steps(entry, generator.aclose())
                        raise
                    except BaseException as error:  # noqa: BLE001 - it belongs into the generator
                        step = generator.athrow(error)
                    else:
                        step = generator.asend(sent)
                    entry.resume()

        return wrapper

    def __repr__(self) -> str:
        return f"record_function({self.name!r})"


class _OpenScope(record_function):
    """An open, observed scope. Only this class has a finalizer, because a finalizer costs time even if unused."""

    __slots__ = ()

    def __del__(self) -> None:
        for entry in self._entries:
            if not entry.attached:
                entry.end()


class _Visit:
    """One run of a generator or coroutine inside a scope."""

    __slots__ = ("entry",)

    def __init__(self, scope: record_function) -> None:
        self.entry = begin_scope(scope.name, scope.args, scope.attributes)

    def __enter__(self) -> Range:
        return self.entry

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is not None and not isinstance(error, GeneratorExit):
            self.entry.error = _error_text(error)
        self.entry.leave()


def _steps(entry: Range, iterator: Any) -> Generator[Any, Any, Any]:
    """Run a generator, coroutine or step of an asynchronous generator; stop the clock while it is suspended."""
    step, value = iterator.send, None
    while True:
        try:
            item = step(value)
        except StopIteration as stop:
            return stop.value
        entry.suspend()
        try:
            value = yield item
        except GeneratorExit:
            entry.resume()
            iterator.close()
            raise
        except BaseException as error:  # noqa: BLE001 - it belongs into the generator
            step, value = iterator.throw, error
        else:
            step = iterator.send
        entry.resume()


class _Steps(Generic[T]):
    """An awaitable of the steps of another one."""

    __slots__ = ("entry", "iterator")

    def __init__(self, entry: Range, iterator: Any) -> None:
        self.entry = entry
        self.iterator = iterator

    def __await__(self) -> Generator[Any, Any, Any]:
        return _steps(self.entry, self.iterator)


def _error_text(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def _nothing() -> None:
    """Do nothing: the end of an unobserved scope."""


complete_classes(globals())
