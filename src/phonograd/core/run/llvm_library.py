"""LLVM without llvmlite's Python: the shared library that llvmlite brings, called by itself.

Importing ``llvmlite.binding`` takes 20 to 30 ms, in which no other thread can run: most of it is Python that has
nothing to do with generating code. A dozen functions of its shared library do; they are declared here as llvmlite
declares them in the versions of :data:`VERSIONS`, which a test compares. With any other version llvmlite is imported.

Functions that take long let other threads run meanwhile. All others do not: each time that a thread lets others run, it
may wait 5 ms for its turn, which is longer than most kernels take to compile.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import re
import sys
from typing import Any

__all__ = ["DECLARATIONS", "LLVM", "LONG", "VERSIONS", "path", "preload", "version"]

#: versions of llvmlite, without their last numbers, whose functions are these
VERSIONS = ("0.45", "0.46", "0.47", "0.48", "0.49", "0.50")

_POINTER, _NUMBER, _TEXT = ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p
_RESULT = ctypes.POINTER(ctypes.c_char_p)

#: by name what a function returns and what it takes; None where llvmlite says nothing about it
DECLARATIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "LLVMPY_InitializeNativeTarget": (_NUMBER, ()),
    "LLVMPY_InitializeNativeAsmPrinter": (_NUMBER, ()),
    "LLVMPY_GetVersionInfo": (ctypes.c_uint, ()),
    "LLVMPY_GetHostCPUFeatures": (_NUMBER, (_RESULT,)),
    "LLVMPY_GetHostCPUName": (_NUMBER, (_RESULT,)),
    "LLVMPY_GetDefaultTargetTriple": (_NUMBER, (_RESULT,)),
    "LLVMPY_DisposeString": (_NUMBER, (_TEXT,)),
    "LLVMPY_GetTargetFromTriple": (_POINTER, (_TEXT, _RESULT)),
    "LLVMPY_CreateTargetMachine": (
        _POINTER,
        (_POINTER, _TEXT, _TEXT, _TEXT, _NUMBER, _TEXT, _TEXT, _NUMBER, _NUMBER, _TEXT),
    ),
    "LLVMPY_ContextCreate": (_POINTER, ()),
    "LLVMPY_ContextDispose": (_NUMBER, (_POINTER,)),
    "LLVMPY_ParseAssembly": (_POINTER, (_POINTER, _TEXT, _RESULT)),
    "LLVMPY_DisposeModule": (_NUMBER, (_POINTER,)),
    "LLVMPY_TargetMachineEmitToMemory": (_POINTER, (_POINTER, _POINTER, _NUMBER, _RESULT)),
    "LLVMPY_GetBufferStart": (_POINTER, (_POINTER,)),
    "LLVMPY_GetBufferSize": (ctypes.c_size_t, (_POINTER,)),
    "LLVMPY_DisposeMemoryBuffer": (_NUMBER, (_POINTER,)),
}
#: functions during which other threads can run
LONG = frozenset({"LLVMPY_TargetMachineEmitToMemory"})


def path() -> str | None:
    """Return where llvmlite's shared library should be; None where that cannot be said, or llvmlite is missing."""
    if sys.platform != "linux":
        return None
    try:
        found = importlib.util.find_spec("llvmlite")
    except (ImportError, ValueError):
        return None
    if found is None or not found.origin:
        return None
    return os.path.join(os.path.dirname(found.origin), "binding", "libllvmlite.so")


def version() -> str | None:
    """Return the version of llvmlite if its functions are known, found without importing it."""
    library = path()
    if library is None or not os.path.exists(library):
        return None
    try:
        with open(os.path.join(os.path.dirname(os.path.dirname(library)), "_version.py"), encoding="utf-8") as file:
            found = re.search(r"'(\d+\.\d+)\.(\d+)'", file.read())
    except (OSError, UnicodeDecodeError):
        return None
    return f"{found[1]}.{found[2]}" if found is not None and found[1] in VERSIONS else None


def preload() -> None:
    """Have the system load the shared library, in a thread that lets all others run."""
    library = path() if version() is not None else None
    if library is not None:
        load = ctypes.CDLL(None).dlopen
        load.restype, load.argtypes = ctypes.c_void_p, (_TEXT, _NUMBER)
        load(os.fsencode(library), os.RTLD_NOW)


class LLVM:
    """The functions, and what LLVM knows about the processor.

    Raises OSError or RuntimeError where the library cannot be loaded or does not know the processor.
    """

    def __init__(self) -> None:
        found, library = version(), path()
        if found is None or library is None:
            raise OSError("there is no version of llvmlite whose functions are known")
        self._functions = _declared(library)
        self._call("InitializeNativeTarget")
        self._call("InitializeNativeAsmPrinter")
        self.triple = self._told("GetDefaultTargetTriple")
        self.processor = self._told("GetHostCPUName")
        features = [name for name in self._told("GetHostCPUFeatures").split(",") if name]
        #: what the processor can do and cannot do: +avx2,-sse4a,...
        self.features = ",".join(sorted(features, key=lambda name: name[1:]))
        packed: int = self._call("GetVersionInfo")
        self.versions = found, ".".join([str(number) for number in packed.to_bytes(4, "big").lstrip(b"\0")])
        message = ctypes.c_char_p()
        self._target = self._call("GetTargetFromTriple", self.triple.encode(), ctypes.byref(message))
        if not self._target:
            raise RuntimeError(self._taken(message) or f"LLVM knows no target {self.triple}")

    def machine(self, level: int) -> int:
        """Return LLVM's code generator for this processor; one thread at a time can use it."""
        facts = self._target, self.triple.encode(), self.processor.encode(), self.features.encode()
        made: int | None = self._call("CreateTargetMachine", *facts, level, b"default", b"jitdefault", 0, 0, b"")
        if not made:
            raise RuntimeError(f"LLVM does not know the processor {self.processor}")
        return made

    def emit(self, machine: int, text: str) -> bytes:
        """Return the object file of a module."""
        call, message = self._call, ctypes.c_char_p()
        context, module = call("ContextCreate"), None
        try:
            module = call("ParseAssembly", context, text.encode(), ctypes.byref(message))
            if not module:
                raise RuntimeError(f"LLVM IR parsing error\n{self._taken(message)}")
            buffer = call("TargetMachineEmitToMemory", machine, module, 1, ctypes.byref(message))
            if not buffer:
                raise RuntimeError(self._taken(message))
            code = ctypes.string_at(call("GetBufferStart", buffer), call("GetBufferSize", buffer))
            call("DisposeMemoryBuffer", buffer)
            return code
        finally:
            if module:
                call("DisposeModule", module)
            call("ContextDispose", context)

    def _call(self, name: str, *arguments: Any) -> Any:
        return self._functions[name](*arguments)

    def _told(self, name: str) -> str:
        """Return what a function says."""
        text = ctypes.c_char_p()
        self._call(name, ctypes.byref(text))
        return self._taken(text)

    def _taken(self, text: ctypes.c_char_p) -> str:
        """Return a text of the library's, and give it back."""
        found = (text.value or b"").decode()
        if text:
            self._call("DisposeString", text)
        return found


def _declared(library: str) -> dict[str, Any]:
    """Return functions by the ends of their names."""
    letting_others_run = ctypes.CDLL(library)
    alone = ctypes.PyDLL(library, handle=letting_others_run._handle)
    functions: dict[str, Any] = {}
    for name, (result, arguments) in DECLARATIONS.items():
        function = getattr(letting_others_run if name in LONG else alone, name, None)
        if function is None:
            raise OSError(f"{library} has no function {name}")
        function.restype, function.argtypes = result, arguments
        functions[name.removeprefix("LLVMPY_")] = function
    return functions
