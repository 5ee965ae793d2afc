"""Compile the kernels of :mod:`tests.project.emulated_program` for an emulated processor, on this one.

``python emulated_kernels.py FILE PROCESSOR FEATURES`` runs the program as if this were the processor of that name (as
LLVM calls it) with these features. Kernels are compiled for it, and functions that do nothing run in their place. FILE
receives the code, in the form of the kernels that come with the package. The emulated processor would need minutes to
compile the same code; a kernel that is not in the file is compiled there.
"""

from __future__ import annotations

import os
import sys
import threading
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

os.environ.update(
    PHONOGRAD_CACHE_DIRECTORY="", PHONOGRAD_NUM_THREADS="1", PHONOGRAD_TUNING="off", PHONOGRAD_PLANNER="thread"
)

from emulated_program import TIERS, parts

import phonograd as mx
from phonograd.core.run import host, kernel_cache, prebuilt
from phonograd.core.run.compiler import FULL, QUICK, Compiler, Description
from phonograd.core.run.objects import ObjectCache, ObjectCode


class Collector:
    """The machine code for another processor, by the digests of its texts."""

    def __init__(self, processor: str, before: bytes) -> None:
        index = prebuilt.read_index(before)
        self.codes = {key: zlib.decompress(before[at : at + size]) for key, (at, size) in index.objects.items()}
        self._compiler = Compiler()
        self._compiler._processor, self._compiler._features, self._compiler._machines = processor, "", {}
        self._compiler._converts_halves = True
        self._lock = threading.Lock()

    def note(self, text: str) -> None:
        """Compile a module, unless its code is known."""
        key = prebuilt.text_digest(text)
        with self._lock:
            if key not in self.codes:
                self.codes[key] = self._compiler.emit(text, FULL)

    def patches(self, features: frozenset[str]) -> list[Any]:
        """Return what keeps the kernels of another processor from running on this one."""
        obtain_module = ObjectCache._obtain_module

        def obtain(objects: ObjectCache, disk: object, structure: Any, quick: bool) -> ObjectCode:
            self.note(structure.write(prebuilt.PLACEHOLDER))
            name = objects._new_name()
            code = objects.compiler().emit(f'define i64 @"{name}"() {{\n  ret i64 0\n}}\n', QUICK)
            return ObjectCode(name, None, code, quick=False, compiled=True)

        def of_module(
            objects: ObjectCache, write: Callable[..., str], arguments: tuple[Any, ...], quick: bool
        ) -> bytes:
            # it launches kernels and makes arrays: it must run
            self.note(write(*arguments))
            return obtain_module(objects, write, arguments, quick)

        return [
            mock.patch.object(kernel_cache, "description", return_value=Description("", features)),
            mock.patch.object(host, "_has_tiles", lambda features: "amx-tile" in features),
            mock.patch.object(ObjectCache, "_obtain", obtain),
            mock.patch.object(ObjectCache, "_obtain_module", of_module),
            mock.patch.object(ObjectCache, "_prebuilt", return_value=None),
            mock.patch.object(ObjectCache, "linked", return_value=None),
        ]


def main(path: str, processor: str, features: str) -> None:
    """Run the program, and write the kernels that it asked for."""
    collector = Collector(processor, prebuilt.path_of("x86-64-v4").read_bytes())
    known = len(collector.codes)
    for patch in collector.patches(frozenset(features.split(","))):
        patch.start()
    mx.settings.update(executor="native", quick_kernels=False)
    print("machine", host.host())
    for tiers in TIERS:
        with mx.settings.override(tiers=tiers):
            for kind, results in parts():
                try:
                    for _, result, _ in results:
                        if hasattr(result, "asnumpy"):
                            result.asnumpy()
                # nothing was computed, so checks of values may fail
                except Exception as error:
                    print(f"{kind} {tiers} is left at {type(error).__name__}: {error}")
    Path(path).write_bytes(prebuilt.pack(collector.codes))
    print(f"{path}: {len(collector.codes) - known} kernels compiled for {processor}")


if __name__ == "__main__":
    main(*sys.argv[1:])
