"""Find ``mxnet`` and its submodules in this library, and complete the modules that both have.

:class:`AliasFinder` answers imports of ``mxnet.a.b`` with the module ``phonograd.a.b``, or with a
:class:`~.places.VirtualModule` if the library arranges these contents differently. :class:`CompletingFinder` adds the
names that MXNet's module of the same path imports: code in the wild reads ``mx.metric.ndarray`` and the like.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from .. import libinfo
from ..core.base.modules import stored_names
from .places import ALIAS, LIBRARY, MOVED, SHORT_NAMES, VirtualModule, advice, is_module_of_mxnet, resolve, shared

__all__ = ["AliasFinder", "CompletingFinder", "MXNetModule", "complete", "restore"]

#: the hooks of completed modules before they were completed
_before: dict[str, tuple[ModuleType, Any, Any]] = {}


class MXNetModule(ModuleType):
    """The module ``mxnet``; it takes missing names from the library."""

    def __getattr__(self, name: str) -> Any:
        if name == "__all__":
            return [public for public in dir(self) if not public.startswith("_")]
        if is_module_of_mxnet(name) and advice(name) is None:
            return importlib.import_module(f"{ALIAS}.{name}")
        library = importlib.import_module(LIBRARY)
        place = shared(ALIAS).get(name)
        try:
            return getattr(library, name) if place is None else resolve(place)
        except AttributeError:
            reason = advice(name)
            hint = f": {reason}" if reason else ""
            raise AttributeError(f"module {ALIAS!r} (here {LIBRARY}) has no attribute {name!r}{hint}") from None

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *dir(importlib.import_module(LIBRARY)), *shared(ALIAS)})


class AliasFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Find ``mxnet`` and its submodules in the library."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return the spec of ``mxnet`` or one of its submodules; None for all other modules.

        Raises
        ------
        ModuleNotFoundError
            If the library lacks this part; the message gives advice.
        """
        if fullname != ALIAS and not fullname.startswith(ALIAS + "."):
            return None
        module = _import_part(fullname[len(ALIAS) + 1 :])
        return importlib.machinery.ModuleSpec(
            fullname,
            self,
            origin=getattr(module, "__file__", None),
            loader_state=module,
            is_package=hasattr(module, "__path__"),
        )

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        """Return the module ``mxnet`` itself; None for its submodules, which exist already."""
        return MXNetModule(ALIAS, f"MXNet's interface, provided by {LIBRARY}.") if spec.name == ALIAS else None

    def exec_module(self, module: ModuleType) -> None:
        """Put the library's own module into :data:`sys.modules` under the alias."""
        if module.__name__ != ALIAS:
            # The import system returns the entry of sys.modules at the end, not the module it created.
            assert module.__spec__ is not None
            sys.modules[module.__name__] = module.__spec__.loader_state
            return
        module.__file__ = sys.modules[LIBRARY].__file__
        stored_names(module)["__version__"] = libinfo.__version__


def _import_library_module(part: str) -> ModuleType | None:
    """Return the module ``phonograd.<part>``, or None if there is none."""
    name = f"{LIBRARY}.{part}"
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not (name + ".").startswith(error.name + "."):
            raise  # another module is missing, inside a module that exists
        return None


def _find_contents(place: str) -> ModuleType | None:
    """Return a module of the library by its path, or by the path of a module object that is no file."""
    found: Any = _import_library_module(place)
    if found is None:
        parent, _, last = place.rpartition(".")
        found = getattr(importlib.import_module(f"{LIBRARY}.{parent}" if parent else LIBRARY), last, None)
    return found if isinstance(found, ModuleType) else None


def _find_part(part: str) -> ModuleType | None:
    """Return the module behind ``mxnet.<part>``, or None if the library lacks it."""
    if advice(part) is not None:
        return None
    parent, _, last = part.rpartition(".")
    name = f"{ALIAS}.{part}"
    known = None
    if parent and shared(f"{ALIAS}.{parent}").get(last) != name:
        known = getattr(_import_part(parent), last, None)
    if known is not None and not isinstance(known, ModuleType) and not is_module_of_mxnet(part):
        return None  # a function of the parent hides a file of the library with the same name
    found = _import_library_module(part)
    if found is not None:
        return found
    contents = _find_contents(MOVED[part]) if part in MOVED else None
    if contents is not None and part in SHORT_NAMES:
        return contents
    if contents is None and isinstance(known, ModuleType):
        contents = known  # the part is not a file, but its parent has a module under that name
    if is_module_of_mxnet(part) and (contents is not None or shared(name)):
        return VirtualModule(name, contents)
    return contents


def _import_part(part: str) -> ModuleType:
    """Return the module of the library behind ``mxnet.<part>``."""
    if not part:
        return importlib.import_module(LIBRARY)
    if f"{ALIAS}.{part}" in sys.modules:
        return sys.modules[f"{ALIAS}.{part}"]
    found = _find_part(part)
    if found is not None:
        return found
    reason = advice(part)
    # `from mxnet import rtc` hides an error about "mxnet.rtc" itself, so an error with advice has the library's name
    raise ModuleNotFoundError(
        f"No module named '{ALIAS}.{part}': {LIBRARY} does not provide this part of MXNet "
        f"({reason or f'see the list in docs/compatibility.md, or dir({LIBRARY})'})",
        name=f"{ALIAS if reason is None else LIBRARY}.{part}",
    )


#: the modules of operators
_OPERATORS = (f"{LIBRARY}.ndarray", f"{LIBRARY}.symbol")

#: parts that are being looked for
_sought: set[str] = set()


def _imported_submodule(part: str) -> ModuleType | None:
    """Return a module that ``import mxnet`` imports, too: ``mxnet.io.io`` is an attribute without an import of it."""
    if part in _sought or not is_module_of_mxnet(part) or advice(part) is not None:
        return None
    _sought.add(part)
    try:
        return importlib.import_module(f"{ALIAS}.{part}")
    except ModuleNotFoundError as error:
        if error.name not in (f"{ALIAS}.{part}", f"{LIBRARY}.{part}"):
            raise
        return None
    finally:
        _sought.discard(part)


def complete(module: ModuleType) -> None:
    """Let a module of the library offer the names that MXNet's module of the same path imports.

    The modules that ``hybrid_forward`` gets as ``F`` have MXNet's names: programs compare ``F.__name__``.
    """
    name = module.__name__
    places = shared(ALIAS + name[len(LIBRARY) :]) if name.startswith(LIBRARY) else None
    if not places or name in _before or isinstance(module, VirtualModule):
        return
    own: Callable[[str], Any] | None = stored_names(module).get("__getattr__")
    own_dir: Callable[[], list[str]] | None = stored_names(module).get("__dir__")
    _before[name] = module, own, own_dir

    def find(key: str) -> Any:
        if key in places:
            return resolve(places[key])
        module_of_mxnet = _imported_submodule(f"{name[len(LIBRARY) + 1 :]}.{key}")
        if module_of_mxnet is not None:
            return module_of_mxnet
        if own is not None:
            return own(key)
        raise AttributeError(f"module {name!r} has no attribute {key!r}")

    def list_names() -> list[str]:
        return sorted({*(stored_names(module) if own_dir is None else own_dir()), *places})

    # functions of the module, not of its class: they cost nothing where a name is found
    stored_names(module)["__getattr__"] = find
    stored_names(module)["__dir__"] = list_names
    if name in _OPERATORS:
        module.__name__ = ALIAS + name[len(LIBRARY) :]


def restore() -> None:
    """Undo all calls of :func:`complete`."""
    for name, (module, own, own_dir) in _before.items():
        module.__name__ = name
        for hook, value in (("__getattr__", own), ("__dir__", own_dir)):
            if value is None:
                stored_names(module).pop(hook, None)
            else:
                stored_names(module)[hook] = value
    _before.clear()


class CompletingFinder(importlib.abc.MetaPathFinder):
    """Complete each module of the library right after its code has run."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return the usual spec of a module of the library, with a loader that completes it."""
        if not fullname.startswith(LIBRARY + ".") or not shared(ALIAS + fullname[len(LIBRARY) :]):
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def execute_and_complete(module: ModuleType) -> None:
            execute(module)
            # the module may have made others that are no files
            for name, made in list(sys.modules.items()):
                if name == fullname or name.startswith(fullname + "."):
                    complete(made)

        setattr(spec.loader, "exec_module", execute_and_complete)  # noqa: B010 - mypy forbids the plain assignment
        return spec
