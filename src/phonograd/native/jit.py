"""The compiler: from the text of a kernel to the address of its machine code, remembered by structure.

Sizes are no part of a structure, so a new batch size or sequence length compiles nothing new. Compiled kernels are kept
in a cache that forgets the least recently used ones. Machine code lives in *libraries* of some hundred kernels each: a
library's memory is returned when none of its kernels is cached or part of a plan any more.

llvmlite is imported when the first kernel is asked for. Where it is missing, :func:`available` is false and says so
once; everything is then evaluated by NumPy.
"""

from __future__ import annotations

import threading
import warnings
from collections import OrderedDict
from types import ModuleType
from typing import Any

from ..kernels.structure import Structure
from ..kernels.writer import write

__all__ = ["Kernel", "Statistics", "available", "compile_text", "kernel", "statistics"]

#: compiled kernels to remember; about 6 KB each
KERNEL_LIMIT = 4096
#: kernels in one library; an empty library takes 0.8 MB
LIBRARY_SIZE = 256


class Statistics:
    """Counts of what is expensive, so that tests can assert that a loop does not repeat it."""

    __slots__ = ("kernels_compiled", "kernels_found", "native_calls")

    def __init__(self) -> None:
        self.kernels_compiled = 0
        self.kernels_found = 0
        self.native_calls = 0

    def snapshot(self) -> dict[str, int]:
        """Return the counts by name."""
        return {name: getattr(self, name) for name in self.__slots__}


#: kernels compiled, kernels found in the cache, and native calls made in this process
statistics = Statistics()


class Library:
    """Memory for machine code of some kernels; they keep it alive."""

    def __init__(self, llvm: ModuleType) -> None:
        self._llvm = llvm
        # an engine owns its target machine and must not share it
        self._engine: Any = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _target_machine(llvm))
        self.kernels = 0

    def add(self, machine: Any, text: str, name: str) -> int:
        """Return the address of a function, compiled from the text of a module."""
        with self._llvm.parse_assembly(text) as module:
            code = machine.emit_object(module)
        # an object file takes a third of the memory of a module that stays in the engine
        self._engine.add_object_file(self._llvm.ObjectFileRef.from_data(code))
        self._engine.finalize_object()
        self.kernels += 1
        return int(self._engine.get_function_address(name))


class Kernel:
    """Compiled code: its address, valid as long as this object lives."""

    __slots__ = ("_library", "address")

    def __init__(self, address: int, library: Library) -> None:
        self.address = address
        self._library = library


class _Compiler:
    """The one compiler of the process: the current library and the cache of kernels."""

    def __init__(self, llvm: ModuleType) -> None:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        self._llvm = llvm
        self._machine = _target_machine(llvm)
        self._library = Library(llvm)
        self._kernels: OrderedDict[Structure, Kernel] = OrderedDict()
        self._names = 0
        self._lock = threading.Lock()

    def compile(self, text: str, name: str) -> Kernel:
        with self._lock:
            return self._compile(text, name)

    def kernel(self, structure: Structure) -> Kernel:
        with self._lock:
            found = self._kernels.get(structure)
            if found is not None:
                statistics.kernels_found += 1
                self._kernels.move_to_end(structure)
                return found
            statistics.kernels_compiled += 1
            self._names += 1
            name = f"kernel{self._names}"
            made = self._kernels[structure] = self._compile(write(structure, name), name)
            while len(self._kernels) > KERNEL_LIMIT:
                self._kernels.popitem(last=False)
            return made

    def _compile(self, text: str, name: str) -> Kernel:
        if self._library.kernels >= LIBRARY_SIZE:
            self._library = Library(self._llvm)
        return Kernel(self._library.add(self._machine, text, name), self._library)


def _target_machine(llvm: ModuleType) -> Any:
    target = llvm.Target.from_default_triple()
    features = llvm.get_host_cpu_features().flatten()
    return target.create_target_machine(opt=2, cpu=llvm.get_host_cpu_name(), features=features)


_compiler: _Compiler | None = None
_missing: ImportError | None = None
_start = threading.Lock()


def available() -> bool:
    """Return whether kernels can be compiled; warns at the first call if not."""
    global _compiler, _missing
    if _compiler is not None or _missing is not None:
        return _compiler is not None
    with _start:
        if _compiler is None and _missing is None:
            try:
                from llvmlite import binding
            except ImportError as error:
                _missing = error
                warnings.warn(
                    f"kernels cannot be compiled because llvmlite is missing ({error}): NumPy evaluates everything, "
                    f"slower. Install it with 'pip install llvmlite', or set PHONOGRAD_EXECUTOR=reference.",
                    RuntimeWarning,
                    stacklevel=2,
                )
            else:
                _compiler = _Compiler(binding)
    return _compiler is not None


def kernel(structure: Structure) -> Kernel:
    """Return the compiled kernel of a structure, from the cache if it is there."""
    return _started().kernel(structure)


def compile_text(text: str, name: str) -> Kernel:
    """Return the compiled function of a module that is written by hand."""
    return _started().compile(text, name)


def _started() -> _Compiler:
    if not available():
        raise RuntimeError("kernels cannot be compiled without llvmlite")
    assert _compiler is not None
    return _compiler
