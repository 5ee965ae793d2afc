"""Installation of hot functions: compile the module of all of them, fill its tables, and replace the Python functions.

Takes functions and classes from :mod:`phonograd.core.base.hot`, the text from :mod:`.statements`. The module is
compiled once for each interpreter version and kept on disk, or comes with the package. Functions are replaced in all
modules of the engine that refer to them, and methods in their classes. Nothing is replaced without the GIL, on other
interpreters, without llvmlite, or with ``PHONOGRAD_NATIVE_CALLS=0``.
"""

from __future__ import annotations

import ast
import ctypes
import hashlib
import importlib
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FunctionType
from typing import Any

from ...base import settings
from ...base.assumptions import HAS_GIL, assumption_holds
from ...base.hot import HOT, SLOTTED
from .. import kernel_cache
from ..native_function import FUNCTION_API, has_declared_layout, is_slot, make_function, slot_offset, slots_are_found
from ..object_layout import new_objects_address
from .interface import API, CALL_FUNCTION, Layout, ModuleText, helpers

__all__ = ["HotFunctions", "are_possible", "module_text"]

_CONSEQUENCE = "The loops of programs that are always new stay Python functions, which take about twice the time"
#: how the names of modules begin whose calls of hot functions matter: looking at all modules takes 10 ms
_USERS = tuple(
    [f"phonograd.core.{name}" for name in ("array", "backward", "base.errors", "capture", "derive", "graph", "plan")]
    + [f"phonograd.core.ops.{name}" for name in ("math.structural", "reduce.accumulation", "vision.regions")]
    + [f"phonograd.core.run.{name}" for name in ("driver", "memory_pool", "reference")]
    + ["phonograd.core.trace"]
)
_KEPT: list[HotFunctions] = []


def are_possible() -> bool:
    """Return whether hot functions can be machine code in this interpreter."""
    return (
        sys.implementation.name == "cpython"
        and HAS_GIL
        and not hasattr(sys, "gettotalrefcount")
        and settings.current().native_calls
        and settings.active.executor != "reference"
        and kernel_cache.available()
        and assumption_holds(
            "the C interface of Python has the functions that hot functions need",
            _CONSEQUENCE,
            lambda: all([hasattr(ctypes.pythonapi, name) for name in (*API, *FUNCTION_API, _call_function())]),
        )
        and assumption_holds(
            "lists and tuples keep their length in the third word, and their items behind it",
            _CONSEQUENCE,
            _rows_are_as_expected,
        )
        and slots_are_found(_CONSEQUENCE)
        and has_declared_layout(_CONSEQUENCE)
    )


def _call_function() -> str:
    """Return the name of the function that calls a Python function with keywords."""
    found, other = CALL_FUNCTION
    return found if hasattr(ctypes.pythonapi, found) else other


def _rows_are_as_expected() -> bool:
    values = [object(), object()]
    row, first = tuple(values), tuple.__basicsize__ // 8
    words = (ctypes.c_size_t * (first + 2)).from_address(id(row))
    if words[1] != id(tuple) or words[2] != 2 or list(words[first:]) != [id(value) for value in values]:
        return False
    words = (ctypes.c_size_t * 4).from_address(id(values))
    items = (ctypes.c_size_t * 2).from_address(words[3])
    return words[1] == id(list) and words[2] == 2 and list(items) == [id(value) for value in values]


def _layout(classes: Sequence[type[Any]]) -> Layout:
    """Return the layout of objects in this interpreter, and that of some classes."""
    slots = [
        (_place(class_), name, slot_offset(class_, name))
        for class_ in sorted(classes, key=_place)
        for name in _slots(class_)
    ]
    tables = [
        _place(class_)
        for class_ in sorted(classes, key=_place)
        if issubclass(class_, dict) and class_.get is dict.get and class_.__getitem__ is dict.__getitem__
    ]
    return Layout(sys.version_info < (3, 12), tuple.__basicsize__, tuple(tables), tuple(slots))


def _place(class_: type[Any]) -> str:
    """Return how the loader finds a class."""
    return f"{class_.__module__}:{class_.__qualname__}"


def _slots(class_: type[Any]) -> list[str]:
    """Return the names of the attributes that objects of a class keep in slots, its bases' as well."""
    found = [base.__dict__.get("__slots__", ()) for base in class_.__mro__]
    names = [name for slots in found for name in ((slots,) if isinstance(slots, str) else slots)]
    return [name for name in dict.fromkeys(names) if is_slot(class_, name)]


def module_text(layout: Sequence[Any], functions: Sequence[tuple[str, str, str]], translator: str) -> str:
    """Return the text of the module of some functions, given by module, name and the digest of their sources.

    ``translator`` is the digest of the sources that translate them.
    """
    # needed only where the machine code is not found
    from .statements import Translation, arguments_of, definition_of

    module = ModuleText(Layout(*layout))
    helpers(module)
    found = {_find(f"{place}:{name}"): f"hot{number}" for number, (place, name, _) in enumerate(functions)}
    for function, symbol in found.items():
        module.add(Translation(symbol, function, module, found).text())
        count = len(arguments_of(definition_of(function)))
        module.add(_entry(module, symbol, f"{function.__module__}:{function.__qualname__}", count))
    return module.text([f"{symbol}_entry" for symbol in found.values()])


def _entry(module: ModuleText, symbol: str, place: str, count: int) -> str:
    """Return the function that Python calls; other numbers of arguments, and keywords, are left to Python."""
    loads = [
        f"  %p{number} = getelementptr ptr, ptr %arguments, i64 {number}\n"
        f"  %v{number} = load ptr, ptr %p{number}, align 8"
        for number in range(count)
    ]
    return "\n".join(
        [
            f"define internal ptr @{symbol}_entry(ptr %self, ptr %arguments, i64 %flagged, ptr %names) nounwind {{",
            f"  %count = and i64 %flagged, {(1 << 63) - 1}",
            f"  %enough = icmp eq i64 %count, {count}",
            "  %plain = icmp eq ptr %names, null",
            "  %usual = and i1 %enough, %plain",
            "  br i1 %usual, label %here, label %python",
            "here:",
            *loads,
            f"  %result = tail call ptr @{symbol}({', '.join([f'ptr %v{number}' for number in range(count)])})",
            "  ret ptr %result",
            "python:",
            f"  %function = load ptr, ptr {module.object('python ' + place)}, align 8",
            f"  %call = load ptr, ptr {module.function(CALL_FUNCTION[0])}, align 8",
            "  %found = tail call ptr %call(ptr %function, ptr %arguments, i64 %flagged, ptr %names)",
            "  ret ptr %found",
            "}",
            "",
        ]
    )


def _find(place: str) -> Any:
    """Return an object by its place: ``module:name``, or ``=`` and a literal. Hot functions are Python functions."""
    if place.startswith("="):
        # most are names, and Python's parser takes longer
        return place[2:-1] if place[1] == "'" and "\\" not in place else ast.literal_eval(place[1:])
    name, _, path = place.partition(":")
    found: Any = sys.modules.get(name) or importlib.import_module(name)
    for part in path.split("."):
        found = found.__dict__[part] if isinstance(found, type) else getattr(found, part)
    python = getattr(found, "__wrapped__", None)
    return found if python is None or python not in HOT else python


class HotFunctions:
    """The machine code of some functions, which reads slots of some classes directly."""

    def __init__(self, functions: Sequence[FunctionType], classes: Sequence[type[Any]]) -> None:
        # whatever the order of imports, the text is the same
        self._python = sorted(functions, key=lambda each: (each.__module__, each.__qualname__))
        digests = {name: _digest(name) for name in {function.__module__ for function in self._python}}
        described = tuple([(each.__module__, each.__qualname__, digests[each.__module__]) for each in self._python])
        self._arguments = (tuple(_layout(classes)), described, _translator())
        self._made: dict[FunctionType, Any] = {}

    def is_prebuilt(self) -> bool:
        """Return whether the package brings the machine code along, so that nothing has to be compiled."""
        return kernel_cache.has_prebuilt_module(module_text, self._arguments)

    def _load(self) -> None:
        """Make the functions."""
        #: the machine code
        self._kernel = kernel_cache.compile_module(
            module_text, self._arguments, "hot_directory", quick=True, described=True
        )
        directory = ctypes.CFUNCTYPE(ctypes.c_void_p)(self._kernel.address)()
        words = [int(word) for word in (ctypes.c_size_t * (3 + len(self._python))).from_address(directory)]
        places = ctypes.string_at(words[2]).decode().splitlines()
        #: the objects that the code refers to
        self._objects = [_find(place.removeprefix("python ")) for place in places]
        table: Any = (ctypes.c_size_t * len(places)).from_address(words[0])
        table[:] = [id(each) for each in self._objects]
        functions_used = [getattr(ctypes.pythonapi, name) for name in (*API, _call_function())]
        addresses = [ctypes.cast(each, ctypes.c_void_p).value or 0 for each in functions_used]
        #: takes what the code subtracts where the number of new objects is not found
        self._spare = ctypes.c_int()
        addresses.append(new_objects_address() or ctypes.addressof(self._spare))
        table = (ctypes.c_size_t * len(addresses)).from_address(words[1])
        table[:] = addresses
        self._made = {
            function: make_function(function, address, ())
            for function, address in zip(self._python, words[3:], strict=True)
        }
        # callers may keep functions, which refer to the code and its objects
        _KEPT.append(self)

    def function(self, function: FunctionType) -> Any:
        """Return the machine code of a function."""
        if not self._made:
            self._load()
        return self._made[function]

    def install(self) -> None:
        """Replace the Python functions."""
        if not self._made:
            self._load()
        _exchange(self._made)

    def uninstall(self) -> None:
        """Bring the Python functions back: tests replace functions that hot ones call."""
        _exchange({made: function for function, made in self._made.items()})


def _exchange(functions: Mapping[Any, Any]) -> None:
    """Replace functions by others of the same place, in classes and in the modules that call them most."""
    others = {id(function): other for function, other in functions.items()}
    for function, other in functions.items():
        class_, _, name = function.__qualname__.rpartition(".")
        if class_:
            setattr(_find(f"{function.__module__}:{class_}"), name, other)
    for slotted in SLOTTED:
        # functions that a class has as methods
        for name, value in list(vars(slotted).items()):
            if id(value) in others:
                setattr(slotted, name, others[id(value)])
    for module_name, module in list(sys.modules.items()):
        if module_name.startswith(_USERS):
            for name, value in list(vars(module).items()):
                if id(value) in others:
                    setattr(module, name, others[id(value)])


def _digest(module: str) -> str:
    """Return the digest of the source of a module."""
    file = sys.modules[module].__file__
    assert file is not None
    return _digest_of([Path(file)])


def _translator() -> str:
    """Return the digest of the sources of the translation."""
    return _digest_of(sorted(Path(__file__).parent.glob("*.py")))


def _digest_of(files: Sequence[Path]) -> str:
    made = hashlib.blake2b(digest_size=16)
    for file in files:
        made.update(file.read_bytes())
    return made.hexdigest()
