"""The compiler: turns LLVM text into object files with llvmlite, which is imported at the first compilation.

The import takes about 30 ms. A process that finds all its kernels on disk never imports it: the disk cache also stores
LLVM's facts about the processor (:class:`Description`), under a key that needs no llvmlite (:func:`fingerprint`).

llvmlite lets one thread at a time into LLVM. LLVM itself only forbids threads to share contexts and target machines.
These are not shared here, so code generation, which takes most of the time, runs without llvmlite's lock.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import platform
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any, NamedTuple

from ..base.assumptions import assumption_holds
from .cpu_levels import limit
from .half_conversions import emulate_half_conversions
from .object_bundle import object_files

__all__ = [
    "FULL",
    "QUICK",
    "Compiler",
    "Description",
    "Library",
    "fingerprint",
    "locks",
    "preload",
    "reported_features",
]

#: optimization levels of the code generator
QUICK, FULL = 0, 2

#: the constant facts that the system reports about a processor
_PROCESSOR_FACTS = (
    *("vendor_id", "cpu family", "model", "model name", "stepping", "flags"),
    *("CPU implementer", "CPU architecture", "CPU variant", "CPU part", "CPU revision", "Features"),
)

#: what each aarch64 processor has that runs Linux, by LLVM's names
_ARM_FEATURES = frozenset({"fp-armv8", "neon"})


class Description(NamedTuple):
    """The compiler and the processor: everything that machine code depends on except its text."""

    versions: str
    """Versions of the compiler, and the processor that it compiles for."""
    features: frozenset[str]
    """Features of the processor, by LLVM's names."""

    def to_bytes(self) -> bytes:
        """Return the description as bytes."""
        return "\n".join([*sorted(self.features), "", self.versions]).encode()

    @staticmethod
    def from_bytes(data: bytes) -> Description:
        """Return the description that :meth:`to_bytes` encoded.

        >>> Description.from_bytes(Description("LLVM 20", frozenset({"avx2", "fma"})).to_bytes()).versions
        'LLVM 20'
        """
        features, _, versions = data.decode().partition("\n\n")
        return Description(versions, frozenset(features.split("\n")))


class Compiler:
    """LLVM for the processor of this computer; any number of threads can compile at once.

    Raises ImportError, OSError or RuntimeError if llvmlite is missing, cannot be loaded, or does not know the
    processor.

    Parameters
    ----------
    cpu_level
        The highest level of features that code may use (:mod:`~phonograd.core.run.cpu_levels`).
    """

    def __init__(self, cpu_level: str = "native") -> None:
        import llvmlite
        from llvmlite import binding

        binding.initialize_native_target()
        binding.initialize_native_asmprinter()
        #: the Python interface of LLVM
        self.binding: ModuleType = binding
        self._processor, self._features = limit(
            binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten(), cpu_level
        )
        self._versions = llvmlite.__version__, ".".join([str(part) for part in binding.llvm_version_info])
        self._unlocked = assumption_holds(
            "llvmlite keeps its lock in ffi.lib._lock._lock, and the functions of LLVM without it in _cfn",
            "Threads compile one after the other, and a process must not be forked while one of them does",
            lambda: _has_unlocked_calls(binding),
        )
        #: whether the processor converts between float16 and float32
        self._converts_halves = "+f16c" in self._features.split(",") or _is_arm(binding.get_default_triple())
        #: idle code generators, by level
        self._machines: dict[int, list[Any]] = {}
        # fail here rather than at the first kernel
        self._release(QUICK, self._target_machine(QUICK))

    def description(self) -> Description:
        """Return the versions of the compiler and the features of the processor."""
        usable = frozenset([name[1:] for name in self._features.split(",") if name.startswith("+")])
        triple = self.binding.get_default_triple()
        facts = [*self._versions, triple, self._processor, self._features]
        return Description("\n".join(facts), usable | _ARM_FEATURES if _is_arm(triple) else usable)

    def emit(self, text: str, level: int) -> bytes:
        """Return the object file of a module."""
        if not self._converts_halves:
            text = emulate_half_conversions(text)
        try:
            machine = self._machines.setdefault(level, []).pop()
        except IndexError:
            machine = self._target_machine(level)
        try:
            with self.binding.parse_assembly(text, self.binding.create_context()) as module:
                return self._object_file(machine, module)
        finally:
            self._release(level, machine)

    def _object_file(self, machine: Any, module: Any) -> bytes:
        """Return the object file of a module, without blocking other threads that compile."""
        if not self._unlocked:
            code: bytes = machine.emit_object(module)
            return code
        ffi = self.binding.ffi
        with ffi.OutputString() as error:
            buffer = ffi.lib.LLVMPY_TargetMachineEmitToMemory._cfn(machine, module, 1, error)
            if not buffer:
                raise RuntimeError(str(error))
        try:
            return ctypes.string_at(ffi.lib.LLVMPY_GetBufferStart(buffer), ffi.lib.LLVMPY_GetBufferSize(buffer))
        finally:
            ffi.lib.LLVMPY_DisposeMemoryBuffer(buffer)

    def _target_machine(self, level: int) -> Any:
        """Return a new LLVM code generator for this processor; only one thread at a time may use it."""
        target = self.binding.Target.from_default_triple()
        return target.create_target_machine(opt=level, cpu=self._processor, features=self._features)

    def _release(self, level: int, machine: Any) -> None:
        self._machines.setdefault(level, []).append(machine)


def _is_arm(triple: str) -> bool:
    return triple.split("-")[0] in ("aarch64", "arm64")


def _has_unlocked_calls(llvm: ModuleType) -> bool:
    """Return whether the function that generates code can be called without llvmlite's lock."""
    ffi = llvm.ffi
    function = ffi.lib.LLVMPY_TargetMachineEmitToMemory._cfn
    expected = [ffi.LLVMTargetMachineRef, ffi.LLVMModuleRef, ctypes.c_int, ctypes.POINTER(ctypes.c_char_p)]
    is_declared = list(function.argtypes) == expected and function.restype is ffi.LLVMMemoryBufferRef
    return is_declared and hasattr(ffi.lib._lock._lock, "_is_owned")


def locks() -> list[Any]:
    """Return the reentrant lock that llvmlite holds during each call of LLVM; none if llvmlite is not imported."""
    ffi = sys.modules.get("llvmlite.binding.ffi")
    found = getattr(getattr(getattr(ffi, "lib", None), "_lock", None), "_lock", None)
    return [] if found is None else [found]


class Library:
    """Machine code of some kernels, loaded by LLVM; the kernels keep it alive."""

    def __init__(self, llvm: ModuleType) -> None:
        self._llvm = llvm
        # an engine owns its target machine and must not share it; it compiles nothing, so any processor will do
        machine = llvm.Target.from_default_triple().create_target_machine()
        self._engine: Any = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
        self.addresses: dict[str, int] = {}

    def add(self, code_by_name: Mapping[str, bytes]) -> None:
        """Load code, by the names of its functions, which must be new."""
        for code in code_by_name.values():
            for file in object_files(code):
                # an object file takes a third of the memory of a module that stays in the engine
                self._engine.add_object_file(self._llvm.ObjectFileRef.from_data(file))
        self._engine.finalize_object()
        for name in code_by_name:
            self.addresses[name] = int(self._engine.get_function_address(name))


def preload() -> None:
    """Load llvmlite's shared library without the GIL: an import would block all other threads."""
    library = _library()
    if library is not None and os.path.exists(library):
        load = ctypes.CDLL(None).dlopen
        load.restype, load.argtypes = ctypes.c_void_p, (ctypes.c_char_p, ctypes.c_int)
        load(os.fsencode(library), os.RTLD_NOW)


def _library() -> str | None:
    """Return the path of llvmlite's shared library on Linux; None elsewhere, or where llvmlite is missing."""
    if sys.platform != "linux":
        return None
    try:
        found = importlib.util.find_spec("llvmlite")
    except (ImportError, ValueError):
        return None
    if found is None or not found.origin:
        return None
    return os.path.join(os.path.dirname(found.origin), "binding", "libllvmlite.so")


#: LLVM's names of features that Linux calls otherwise; other names differ by underscores at most
_LLVM_NAMES = {"sse4_1": "sse4.1", "sse4_2": "sse4.2", "pni": "sse3", "abm": "lzcnt", "bmi1": "bmi"}


def _llvm_name(flag: str) -> str:
    """Return LLVM's name of a feature that Linux reports.

    >>> [_llvm_name(flag) for flag in ("avx512_vnni", "avx_vnni", "amx_bf16", "sse4_2", "fma")]
    ['avx512vnni', 'avxvnni', 'amx-bf16', 'sse4.2', 'fma']
    """
    return _LLVM_NAMES.get(flag) or flag.replace("_", "" if flag.startswith("avx") else "-")


def reported_features(cpu_level: str) -> frozenset[str] | None:
    """Return the features of a processor that Linux reports, by LLVM's names, without importing llvmlite.

    None is returned on other systems. Features above a level are left out, and so are those that only some processors
    with aarch64 have.
    """
    if sys.platform != "linux" or platform.machine() not in ("x86_64", "aarch64"):
        return None
    if platform.machine() == "aarch64":
        return _ARM_FEATURES
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
            facts = _processor(lines.read().partition("\n\n")[0])
    except OSError:
        return None
    flags = next((line.partition(":")[2].split() for line in facts if line.startswith("flags")), None)
    if flags is None:
        return None
    names = ",".join([f"+{_llvm_name(flag)}" for flag in flags])
    return frozenset([name[1:] for name in limit("", names, cpu_level)[1].split(",") if name.startswith("+")])


def fingerprint() -> str | None:
    """Return a text that identifies the compiler and the processor, without importing llvmlite.

    Return None if the system does not provide the facts.
    """
    library = _library()
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
    """Return the constant facts about one processor."""
    pairs = [line.partition(":") for line in text.splitlines()]
    return [f"{name.strip()}: {value.strip()}" for name, _, value in pairs if name.strip() in _PROCESSOR_FACTS]
