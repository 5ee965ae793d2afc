"""Compile the kernels that come with the package: ``python -m scripts.prebuild`` (or ``make prebuilt``).

Runs every sample of every operator with its gradient, in several dtypes and shapes, through eager programs whose
kernels are only noted. The noted kernels are compiled for each level of processors and written to
``src/phonograd/core/run/prebuilt-LEVEL.bin``. Kernels are found there by their text, so a file is never wrong, but it
misses kernels whose writers have changed: run this again after changes to the text of kernels.
"""

from __future__ import annotations

import argparse
import importlib
import os
import pkgutil
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any
from unittest import mock

import numpy as np

os.environ["PHONOGRAD_CACHE_DIRECTORY"] = ""

import phonograd as mx
from phonograd.core.base.errors import MXNetError
from phonograd.core.derive.gradient import differentiate
from phonograd.core.graph.node import Node
from phonograd.core.kernels.launch import Written
from phonograd.core.ops.math.structural import leaf, variable
from phonograd.core.plan import eager, eager_launch
from phonograd.core.run import kernel_cache, objects, prebuilt
from phonograd.core.run.compiler import Description
from phonograd.core.run.cpu_levels import FEATURES
from phonograd.core.run.reference import resolve

DTYPES = ("float32", "float64", "int32", "int64", "uint8", "bool")


class Collector:
    """Notes the kernels that programs ask for, and computes nothing."""

    def __init__(self, level: str) -> None:
        self.wanted: dict[Written, None] = {}
        self._description = Description("", FEATURES[level])

    def patches(self) -> list[Any]:
        """Return what keeps programs from running kernels."""
        return [
            mock.patch.object(kernel_cache, "description", return_value=self._description),
            mock.patch.object(eager, "ufunc_of", self._ufunc),
            mock.patch.object(eager, "multiply", self._multiply),
            mock.patch.object(eager_launch, "launch", self._launch),
            mock.patch.object(eager, "launch", self._launch),
            mock.patch.object(eager._Maker, "_plan", self._plan),
            mock.patch.object(eager._Maker, "evaluate", self._evaluate),
        ]

    def _ufunc(self, loop: Any) -> Callable[..., Any]:
        self.wanted[loop] = None
        return lambda *arrays: np.ones(np.broadcast_shapes(*[np.shape(array) for array in arrays]), loop.dtype)

    def _launch(self, plans: Any, names: Sequence[str], shape: Any, dtype: Any) -> Callable[..., Any]:
        for plan, _ in plans:
            self.wanted.update(dict.fromkeys([each.structure for each in plan.launches]))
        return lambda *arrays: np.ones(shape, dtype)

    def _multiply(self, dtype: Any) -> Callable[..., Any]:
        def product(lhs: Any, rhs: Any) -> Any:
            found = eager_launch._product(lhs, rhs, dtype)
            if found is None:
                found = eager_launch._product(np.ascontiguousarray(lhs), np.ascontiguousarray(rhs), dtype)
            return np.ones((*lhs.shape[:-1], rhs.shape[-1]), dtype)

        return product

    def _plan(self, maker: Any, node: Node) -> None:
        """Note the kernels of the plan of one node; plans of sizes that only a plan has are left to the compiler."""
        maker.function, maker.is_general = _ones(node), False

    def _evaluate(self, maker: Any, node: Node) -> None:
        maker.function, maker.is_general = _ones(node), False


def _ones(node: Node) -> Callable[..., Any]:
    if node.outputs is not None:
        specs = node.outputs
        return lambda *arrays: tuple([np.ones(shape, dtype) for shape, dtype in specs])
    return lambda *arrays: np.ones(node.shape, node.dtype)


def samples() -> list[Any]:
    """Return the samples of all operators."""
    from tests.core import ops

    modules = [module.name for module in pkgutil.iter_modules(ops.__path__) if module.name.startswith("samples_")]
    return [sample for name in modules for sample in importlib.import_module(f"{ops.__name__}.{name}").SAMPLES]


def run_sample(sample: Any, dtype: str) -> None:
    """Run a sample and its gradient eagerly, with its floating point inputs in another dtype."""
    arrays = [array if array is None or array.dtype.kind != "f" else array.astype(dtype) for array in sample.inputs]
    nodes: list[Any] = [
        None if array is None else leaf(number, array.shape, array.dtype) for number, array in enumerate(arrays)
    ]
    if sample.order:
        nodes = [
            variable(node, k) if node is not None and node.dtype.kind == "f" else node for k, node in enumerate(nodes)
        ]
    targets = [resolve(node) for node in sample.call(nodes)]
    heads = tuple([head for head in sample.call(nodes) if head.marked and head.dtype.kind == "f"])
    if sample.order and heads:
        found = differentiate(heads, (None,) * len(heads)).targets.values()
        targets += [resolve(grad) for grad in found if grad is not None]
    program = eager.EagerProgram(targets, lambda node: not node.inputs and node.operator.name == "_leaf")
    program.run([arrays[node.attributes[0]] for node in program.inputs])


class _Text:
    """A module of a given text, as a kernel."""

    def __init__(self, text: str) -> None:
        self._text = text

    def write(self, name: str) -> str:
        """Return the text; its functions have names of their own."""
        return self._text


def modules() -> list[_Text]:
    """Return the modules that run kernels and calls in this version of Python."""
    texts: dict[str, None] = {}
    obtain = objects.ObjectCache._obtain_module

    def note(self: Any, write: Callable[..., str], arguments: Any, quick: bool) -> bytes:
        texts[write(*arguments)] = None
        return obtain(self, write, arguments, quick)

    with mock.patch.object(objects.ObjectCache, "_obtain_module", note):
        x = mx.nd.ones((256, 256))
        x.attach_grad()
        for _ in range(40):
            with mx.autograd.record():
                loss = mx.nd.tanh(mx.nd.dot(x, x)).sum()
            loss.backward()
            x -= 0.1 * x.grad
            x.wait_to_read()
    return [_Text(text) for text in texts]


def collect(level: str) -> Collector:
    """Return the kernels for processors of a level."""
    collector = Collector(level)
    for known in (eager._general, eager._special):
        known.clear()
    patches = collector.patches()
    for patch in patches:
        patch.start()
    try:
        for sample in samples():
            for dtype in DTYPES:
                try:
                    run_sample(sample, dtype)
                except (MXNetError, TypeError, ValueError, AssertionError):
                    # the operator does not take this dtype
                    continue
    finally:
        for patch in patches:
            patch.stop()
        for known in (eager._general, eager._special):
            known.clear()
    return collector


def compile_for(level: str, wanted: Iterable[Written]) -> dict[bytes, bytes]:
    """Return object files by the digests of their texts; those that the file has already are kept."""
    from llvmlite import binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    machine = binding.Target.from_default_triple().create_target_machine(opt=2, cpu=level, features="")
    before = _before(level)
    codes: dict[bytes, bytes] = {}
    for structure in wanted:
        text = structure.write(prebuilt.PLACEHOLDER)
        key = prebuilt.text_digest(text)
        if key in codes:
            continue
        if key in before:
            codes[key] = before[key]
            continue
        with binding.parse_assembly(text, binding.create_context()) as module:
            codes[key] = machine.emit_object(module)
    return codes


def _before(level: str) -> dict[bytes, bytes]:
    import zlib

    path = prebuilt.path_of(level)
    contents = path.read_bytes() if path.exists() else b""
    return {key: zlib.decompress(contents[at : at + size]) for key, (at, size) in prebuilt._read(contents).items()}


def main() -> int:
    """Write the files of all levels."""
    parser = argparse.ArgumentParser(prog="python -m scripts.prebuild", description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="only tell whether kernels are missing")
    options = parser.parse_args()
    missing, of_python = 0, modules()
    for level in prebuilt.LEVELS:
        wanted = [*collect(level).wanted, *of_python]
        if options.check:
            known = _before(level)
            missing += sum([prebuilt.text_digest(each.write(prebuilt.PLACEHOLDER)) not in known for each in wanted])
            continue
        contents = prebuilt.pack(compile_for(level, wanted))
        prebuilt.path_of(level).write_bytes(contents)
        print(f"{level}: {len(wanted)} kernels, {len(contents)} bytes")
    if missing:
        print(f"{missing} kernels are missing: run `make prebuilt`")
    return int(missing > 0)


if __name__ == "__main__":
    sys.exit(main())
