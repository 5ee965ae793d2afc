"""The compiler: LLVM, from text to object files, loaded when something has to be compiled.

That takes some milliseconds (:mod:`~phonograd.core.run.llvm_library`), or 30 where llvmlite has to be imported, so what
it knows about the processor is kept on disk with the kernels (:class:`Description`), found by what can be said without
it (:func:`fingerprint`): a process whose kernels are all there never loads it.

llvmlite lets one thread at a time into LLVM. LLVM itself asks for less: threads must not share contexts and target
machines. Here they do not, and generate code, which is where the time goes, without waiting for others.
"""

from __future__ import annotations

import ctypes
import os
import platform
from collections.abc import Mapping
from types import ModuleType
from typing import Any, NamedTuple

from .cpu_levels import limit
from .llvm_library import LLVM, path, version
from .object_bundle import files

__all__ = ["FULL", "QUICK", "Compiler", "Description", "Library", "fingerprint"]

#: how much the code generator optimises
QUICK, FULL = 0, 2

#: what the system says about a processor beside how fast it is at the moment
_PROCESSOR_FACTS = ("vendor_id", "cpu family", "model", "model name", "stepping", "flags")


class Description(NamedTuple):
    """What machine code depends on beside its text."""

    versions: str
    """The compiler and the processor that it compiles for."""
    features: frozenset[str]
    """What the processor can do."""

    def encoded(self) -> bytes:
        """Return the description as bytes."""
        return "\n".join([*sorted(self.features), "", self.versions]).encode()

    @staticmethod
    def decoded(data: bytes) -> Description:
        """Return a description that was encoded.

        >>> Description.decoded(Description("LLVM 20", frozenset({"avx2", "fma"})).encoded()).versions
        'LLVM 20'
        """
        features, _, versions = data.decode().partition("\n\n")
        return Description(versions, frozenset(features.split("\n")))


class Compiler:
    """LLVM for the processor of this computer; any number of threads can compile at once.

    Raises ImportError, OSError or RuntimeError where llvmlite is missing, cannot be loaded, or does not know the
    processor.

    Parameters
    ----------
    cpu_level
        The most that code may ask of the processor (:mod:`~phonograd.core.run.cpu_levels`).
    """

    def __init__(self, cpu_level: str = "native") -> None:
        llvm: LLVM | _Binding = _Binding() if version() is None else LLVM()
        llvm.processor, llvm.features = limit(llvm.processor, llvm.features, cpu_level)
        self._llvm = llvm
        #: by level the code generators that no thread uses
        self._machines: dict[int, list[Any]] = {}
        # whatever may fail fails here
        self._give_back(QUICK, self._llvm.machine(QUICK))

    @property
    def binding(self) -> ModuleType:
        """The Python interface of LLVM."""
        return self._llvm.binding if isinstance(self._llvm, _Binding) else _Binding().binding

    def description(self) -> Description:
        """Return what is known about the compiler and the processor."""
        llvm = self._llvm
        features = [name[1:] for name in llvm.features.split(",") if name.startswith("+")]
        return Description("\n".join([*llvm.versions, llvm.triple, llvm.processor, llvm.features]), frozenset(features))

    def emit(self, text: str, level: int) -> bytes:
        """Return the object file of a module."""
        try:
            machine = self._machines.setdefault(level, []).pop()
        except IndexError:
            machine = self._llvm.machine(level)
        try:
            return self._llvm.emit(machine, text)
        finally:
            self._give_back(level, machine)

    def _give_back(self, level: int, machine: Any) -> None:
        self._machines.setdefault(level, []).append(machine)


class _Binding:
    """LLVM by way of llvmlite's Python, as :class:`~phonograd.core.run.llvm_library.LLVM` is without."""

    def __init__(self) -> None:
        import llvmlite
        from llvmlite import binding

        binding.initialize_native_target()
        binding.initialize_native_asmprinter()
        self.binding: ModuleType = binding
        self.triple: str = binding.get_default_triple()
        self.processor: str = binding.get_host_cpu_name()
        self.features: str = binding.get_host_cpu_features().flatten()
        self.versions = llvmlite.__version__, ".".join([str(part) for part in binding.llvm_version_info])

    def machine(self, level: int) -> Any:
        """Return LLVM's code generator for this processor; one thread at a time can use it."""
        target = self.binding.Target.from_default_triple()
        return target.create_target_machine(opt=level, cpu=self.processor, features=self.features)

    def emit(self, machine: Any, text: str) -> bytes:
        """Return the object file of a module."""
        with self.binding.parse_assembly(text, self.binding.create_context()) as module:
            return _generated(self.binding, machine, module)


def _generated(llvm: ModuleType, machine: Any, module: Any) -> bytes:
    """Return the object file of a module without keeping others from compiling."""
    library = llvm.ffi.lib
    locked = library.LLVMPY_TargetMachineEmitToMemory
    with llvm.ffi.OutputString() as error:
        # without what llvmlite puts around it, it is the function of the shared library
        buffer = getattr(locked, "_cfn", locked)(machine, module, 1, error)
        if not buffer:
            raise RuntimeError(str(error))
    try:
        return ctypes.string_at(library.LLVMPY_GetBufferStart(buffer), library.LLVMPY_GetBufferSize(buffer))
    finally:
        library.LLVMPY_DisposeMemoryBuffer(buffer)


class Library:
    """Memory for machine code of some kernels that LLVM puts there; they keep it alive."""

    def __init__(self, llvm: ModuleType) -> None:
        self._llvm = llvm
        # an engine owns its target machine and must not share it; it compiles nothing, so any processor will do
        machine = llvm.Target.from_default_triple().create_target_machine()
        self._engine: Any = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
        self.addresses: dict[str, int] = {}

    def add(self, codes: Mapping[str, bytes]) -> None:
        """Take code in, by the name of its function, which is new here."""
        for code in codes.values():
            for file in files(code):
                # an object file takes a third of the memory of a module that stays in the engine
                self._engine.add_object_file(self._llvm.ObjectFileRef.from_data(file))
        self._engine.finalize_object()
        for name in codes:
            self.addresses[name] = int(self._engine.get_function_address(name))


def fingerprint() -> str | None:
    """Return a text that is another one where the compiler or the processor is, found without importing llvmlite.

    None is returned where that cannot be said.
    """
    library = path()
    if library is None:
        return None
    try:
        file = os.stat(library)
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
            facts = _processor(lines.read().partition("\n\n")[0])
    except OSError:
        return None
    return "\n".join([platform.machine(), library, str(file.st_size), str(file.st_mtime_ns), *facts]) if facts else None


def _processor(text: str) -> list[str]:
    """Return what does not change among the facts about one processor."""
    pairs = [line.partition(":") for line in text.splitlines()]
    return [f"{name.strip()}: {value.strip()}" for name, _, value in pairs if name.strip() in _PROCESSOR_FACTS]
