"""Compile the kernels that come with the package: ``python -m scripts.prebuild`` (or ``make prebuilt``).

Runs every sample of every operator with its gradient, in several dtypes and shapes, through eager programs whose
kernels are only noted. The noted kernels are compiled for each level of processors, and for aarch64, and written to
``src/phonograd/core/run/prebuilt-LEVEL.bin``. Kernels are found there by their text, so a file is never wrong, but it
misses kernels whose writers have changed: run this again after changes to the text of kernels. Kernels are found sooner
by their descriptions, if no source has changed that texts depend on: run this last before a release.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import pkgutil
import platform
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any
from unittest import mock

import numpy as np

os.environ["PHONOGRAD_CACHE_DIRECTORY"] = ""

import phonograd as mx
from phonograd.core.array.fastcall import native_call, native_install
from phonograd.core.backward import eager_rules as gradient_rules
from phonograd.core.backward import machine_code, rule_calls
from phonograd.core.base import processor
from phonograd.core.base.errors import MXNetError
from phonograd.core.base.files import write_atomically
from phonograd.core.derive.gradient import call_of, differentiate, order_users_first
from phonograd.core.graph.learned import forget_kinds
from phonograd.core.graph.node import Node
from phonograd.core.graph.operator import REGISTRY, item_operator
from phonograd.core.kernels import selection
from phonograd.core.kernels.elementwise_loop import ElementwiseLoop
from phonograd.core.kernels.launch import Written
from phonograd.core.ops.math.structural import leaf, variable
from phonograd.core.plan import (
    eager,
    eager_expansion,
    eager_folds,
    eager_launch,
    eager_rows,
    eager_selection,
    promotion,
)
from phonograd.core.plan.cache import forget_nodes
from phonograd.core.plan.native_program import NativeProgram
from phonograd.core.run import host, kernel_cache, objects, prebuilt
from phonograd.core.run.compiler import Description
from phonograd.core.run.cpu_levels import FEATURES
from phonograd.core.run.disk_cache import Sources, describe, source_digests
from phonograd.core.run.hot.installation import module_text
from phonograd.core.run.hot.interface import Layout
from phonograd.core.run.program import RecipeProgram
from phonograd.core.run.reference import resolve
from phonograd.core.run.thread_pool_ir import thread_pool_text

_FLOAT32 = np.dtype(np.float32)
_ARM = "aarch64"
DTYPES = ("float32", "float64", "int32", "int64", "uint8", "bool")


@contextlib.contextmanager
def written_for(level: str) -> Iterator[None]:
    """Let the writers of texts see a processor of a level."""
    if level != _ARM:
        yield
        return
    host._machine.cache_clear()
    try:
        with mock.patch.object(platform, "machine", return_value=level):
            yield
    finally:
        host._machine.cache_clear()


class Collector:
    """Notes the kernels that programs ask for, and computes nothing."""

    def __init__(self, level: str) -> None:
        self.wanted: dict[Written, None] = {}
        self._description = Description("", FEATURES.get(level, prebuilt.NEEDED[level]))
        # kernels of fused plans (of compiled functions) are not noted: there is no end of them
        self._is_noting = False

    def patches(self) -> list[Any]:
        """Return what keeps programs from running kernels."""
        return [
            mock.patch.object(kernel_cache, "description", return_value=self._description),
            mock.patch.object(eager, "ufunc_of", self._ufunc),
            mock.patch.object(rule_calls, "linked_ufunc", self._ufunc),
            mock.patch.object(rule_calls, "loop_of", lambda function: getattr(function, "loop", None)),
            mock.patch.object(eager, "Products", self._multiply),
            mock.patch.object(eager_launch, "launch", self._launch),
            mock.patch.object(eager_folds, "launch", self._launch),
            mock.patch.object(eager_folds.Folds, "_run_at_once", return_value=None),
            # small sums are launched, too
            mock.patch.object(eager_folds, "CHUNK_ELEMENTS", 0),
            mock.patch.object(eager_selection.Selections, "_run", self._select),
            mock.patch.object(eager, "launch", self._launch),
            mock.patch.object(eager_expansion, "rows_of", self._rows),
            mock.patch.object(eager._Maker, "_plan", _bound(self._plan)),
            mock.patch.object(eager._Maker, "evaluate", _bound(self._evaluate)),
            mock.patch.object(kernel_cache, "kernels", self._kernels),
            mock.patch.object(kernel_cache, "precompile"),
            mock.patch.object(processor, "choices", return_value=processor.Choices(numbers_per_node=1 << 60)),
            mock.patch.object(promotion, "is_due", return_value=False),
            mock.patch.object(RecipeProgram, "run", _results),
        ]

    def _kernels(self, wanted: Mapping[Written, int]) -> dict[Written, kernel_cache.Kernel]:
        if self._is_noting:
            self.wanted.update(dict.fromkeys(wanted))
        return {structure: kernel_cache.Kernel(0, None) for structure in wanted}  # type: ignore[arg-type]

    def _ufunc(self, loop: Any) -> Callable[..., Any]:
        self.wanted[loop] = None

        def compute(*arrays: Any) -> Any:
            return np.zeros(np.broadcast_shapes(*[np.shape(array) for array in arrays]), loop.dtype)

        compute.loop = loop  # type: ignore[attr-defined]
        return compute

    def _launch(self, plans: Any, names: Sequence[str], shape: Any, dtype: Any) -> Callable[..., Any]:
        for plan, _ in plans:
            self.wanted.update(dict.fromkeys([each.structure for each in plan.launches]))
        return lambda *arrays: np.zeros(shape, dtype)

    def _rows(self, steps: Sequence[eager_rows.Step], arrays: Sequence[Any]) -> None:
        """Note the kernel of rows; large arrays are computed operator by operator, so that these are noted, too."""
        found = eager_rows.rows_of(steps, arrays)
        if found is not None:
            self.wanted[found.structure] = None

    def _multiply(self, dtype: Any) -> Callable[..., Any]:
        def product(lhs: Any, rhs: Any) -> Any:
            found = eager_launch._product(lhs, rhs, dtype)
            if found is None:
                found = eager_launch._product(np.ascontiguousarray(lhs), np.ascontiguousarray(rhs), dtype)
            return np.zeros((*lhs.shape[:-1], rhs.shape[-1]), dtype)

        return product

    def _select(self, attributes: tuple[int, int, bool], array: Any) -> Any:
        """Note the kernels that select elements which are side by side, or apart."""
        axis, count, ascending = attributes
        for inner in (1, 2):
            self.wanted[selection.kernel_for(array.dtype, ascending, inner)] = None
        return np.zeros((*array.shape[:axis], count, *array.shape[axis + 1 :]), np.int64)

    def _plan(self, maker: Any, node: Node) -> None:
        """Note the kernels of the plan of one node."""
        self._is_noting = True
        NativeProgram([node], set(node.inputs).__contains__, False)
        self._is_noting = False
        maker.function, maker.is_general = _zeros(node), False

    def _evaluate(self, maker: Any, node: Node) -> None:
        maker.function, maker.is_general = _zeros(node), False


def _zeros(node: Node) -> Callable[..., Any]:
    if node.outputs is not None:
        specs = node.outputs
        return lambda *arrays: tuple([np.zeros(shape, dtype) for shape, dtype in specs])
    return lambda *arrays: np.zeros(node.shape, node.dtype)


def _results(program: RecipeProgram, inputs: Any, *options: Any) -> list[Any]:
    return [np.zeros(node.shape, node.dtype) for node, _ in program.kept]


def _bound(function: Callable[[Any, Node], None]) -> Callable[[Any, Node], None]:
    """Return a function that becomes a method of a class."""
    return lambda maker, node: function(maker, node)


#: convolutions of well-known networks: channels, filters, kernel, stride, padding, groups, extent of the image
CONVOLUTIONS = (
    (1, 6, 5, 1, 2, 1, 28),
    (1, 20, 5, 1, 0, 1, 28),
    (6, 16, 5, 1, 0, 1, 14),
    (20, 50, 5, 1, 0, 1, 12),
    (3, 64, 7, 2, 3, 1, 224),
    (3, 64, 7, 2, 3, 1, 64),
    (3, 32, 3, 2, 1, 1, 224),
    (3, 64, 3, 1, 1, 1, 32),
    (3, 96, 11, 4, 2, 1, 224),
    (64, 64, 3, 1, 1, 1, 56),
    (64, 64, 3, 1, 1, 1, 16),
    (64, 128, 3, 2, 1, 1, 16),
    (64, 128, 1, 2, 0, 1, 16),
    (128, 256, 3, 2, 1, 1, 8),
    (128, 256, 1, 2, 0, 1, 8),
    (256, 512, 3, 2, 1, 1, 4),
    (256, 512, 1, 2, 0, 1, 4),
    (64, 128, 3, 2, 1, 1, 56),
    (64, 128, 1, 2, 0, 1, 56),
    (128, 128, 3, 1, 1, 1, 28),
    (256, 256, 3, 1, 1, 1, 14),
    (512, 512, 3, 1, 1, 1, 7),
    (512, 512, 3, 1, 1, 1, 2),
    (64, 256, 1, 1, 0, 1, 56),
    (256, 64, 1, 1, 0, 1, 56),
    (32, 32, 3, 1, 1, 32, 112),
    (96, 96, 3, 2, 1, 96, 112),
    (64, 64, 3, 1, 1, 2, 28),
)


def run_convolution(channels: int, filters: int, kernel: int, stride: int, pad: int, groups: int, extent: int) -> None:
    """Run a convolution and its gradients eagerly, for one image and for many."""
    for batch in (1, 32):
        data = variable(leaf(0, (batch, channels, extent, extent), _FLOAT32), 0)
        weight = variable(leaf(1, (filters, channels // groups, kernel, kernel), _FLOAT32), 1)
        out = REGISTRY["Convolution"](
            data,
            weight,
            kernel=(kernel, kernel),
            stride=(stride, stride),
            pad=(pad, pad),
            num_filter=filters,
            num_group=groups,
            no_bias=True,
        )
        grads = differentiate((out,), (None,)).targets.values()
        targets = [resolve(node) for node in (out, *grads) if node is not None]
        program = eager.EagerProgram(targets, lambda node: node.operator.name == "_leaf")
        program.run([np.ones(node.shape, node.dtype) for node in program.inputs])


def workloads() -> list[Callable[[], object]]:
    """Return steps of the workloads of the benchmarks, which have the shapes of real programs."""
    sys.path.insert(0, "benchmarks")
    found: list[Callable[[], object]] = []
    for make in importlib.import_module("workloads_nd").WORKLOADS.values():
        found.append(lambda make=make: make(mx)())
    for make in importlib.import_module("workloads_novel_nd").WORKLOADS.values():
        found += [lambda make=make, number=number: make(mx)(number) for number in range(6)]
    return found


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
    for node in map(call_of, order_users_first(heads)):
        if not node.operator.is_view and node.operator is not item_operator():
            gradient_rules.values_read(node)


class _Text:
    """A module of a given text, as a kernel."""

    def __init__(self, text: str, description: str) -> None:
        self._text = text
        #: the text that stands for it
        self.description = description
        #: whether it consists of translated functions
        self.is_hot = self.is_of(module_text)

    def is_of(self, write: Callable[..., str]) -> bool:
        """Return whether a function has written it."""
        return self.description.startswith(f"{write.__module__}.{write.__qualname__}(")

    def write(self, name: str) -> str:
        """Return the text; its functions have names of their own."""
        return self._text


#: for versions of CPython: whether counts of references are plain numbers, where tuples keep their items, and functions
#: the address of their code: 3.10 and 3.11, 3.12 and 3.13, from 3.14 on. Code for a layout that no version has is not used
LAYOUTS = ((True, 24, 120), (False, 24, 128), (False, 32, 128))


def of_other_versions(write: Callable[..., str], arguments: Any) -> list[Any]:
    """Return what a module is written with in other versions of Python, given what it is written with in this one."""
    found = []
    for plain_counts, tuple_items, vectorcall in LAYOUTS:
        if write is module_text:
            layout, *others = arguments
            found.append((tuple(Layout(*layout)._replace(plain_counts=plain_counts, tuple_items=tuple_items)), *others))
        elif write is native_call._text:
            offsets, *others = arguments
            changed = {**dict(offsets), "item": tuple_items, "vectorcall": vectorcall}
            found.append((tuple(changed.items()), *others))
    return [other for other in found if other != arguments]


def modules(level: str) -> list[_Text]:
    """Return the modules that run kernels and calls."""
    machine = level if level == _ARM else "x86_64"
    texts = {thread_pool_text(machine): objects.module_description(thread_pool_text, (machine,))}
    obtain = objects.ObjectCache._obtain_module

    def note(self: Any, write: Callable[..., str], arguments: Any, quick: bool) -> bytes:
        if write is not thread_pool_text:
            for other in (arguments, *of_other_versions(write, arguments)):
                texts[write(*other)] = objects.module_description(write, other)
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
        native_install.prepare(mx.nd.NDArray)
        code = machine_code.install()
        if code is not None:
            # the collector replaces functions that hot ones call; functions of known nodes refer to hot ones
            code.uninstall()
            forget_nodes()
    found = [_Text(text, description) for text, description in texts.items()]
    missing = [write for write in (native_call._text, module_text) if not any([each.is_of(write) for each in found])]
    if missing:
        raise RuntimeError(f"no module was written by {missing}")
    return found


def collect(level: str) -> Collector:
    """Return the kernels for processors of a level."""
    collector = Collector(level)
    # rules that were made before refer to functions that run
    forget_kinds()
    for known in (eager._general, eager._special, eager.SIMPLE, eager_folds._folds, eager_rows._known):
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
        for numbers in CONVOLUTIONS:
            run_convolution(*numbers)
        for step in workloads():
            step()
            mx.nd.waitall()
    finally:
        for patch in patches:
            patch.stop()
        for known in (eager._general, eager._special, eager.SIMPLE, eager_folds._folds, eager_rows._known):
            known.clear()
    return collector


def compile_for(level: str, wanted: Iterable[Written]) -> tuple[dict[bytes, bytes], dict[bytes, bytes]]:
    """Return object files by the digests of their texts, and those of loops; others that the file has are kept."""
    from llvmlite import binding

    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    is_arm = level == _ARM
    triple = "aarch64-unknown-linux-gnu" if is_arm else binding.get_default_triple()
    target = binding.Target.from_triple(triple)
    processor = {"opt": 2, "cpu": "generic" if is_arm else level, "features": ""}
    # linked code depends on no address; on aarch64, other code is shorter like that, too
    movable = target.create_target_machine(**processor, reloc="pic", codemodel="small")
    machine = movable if is_arm else target.create_target_machine(**processor)
    before = _before(level)
    codes: dict[bytes, bytes] = {}
    loops: dict[bytes, bytes] = {}
    for structure in wanted:
        text = structure.write(prebuilt.PLACEHOLDER)
        key = prebuilt.text_digest(text)
        if key in codes or key in loops:
            continue
        if isinstance(structure, ElementwiseLoop):
            with binding.parse_assembly(text, binding.create_context()) as module:
                module.triple = triple
                loops[key] = movable.emit_object(module)
            continue
        is_hot = isinstance(structure, _Text) and structure.is_hot
        if key in before and not is_hot:
            codes[key] = before[key]
            continue
        with binding.parse_assembly(text, binding.create_context()) as module:
            module.triple = triple
            if is_hot:
                # translated functions keep variables in memory and call helpers; kernels need no passes
                builder = binding.create_pass_builder(machine, binding.create_pipeline_tuning_options(speed_level=2))
                builder.getModulePassManager().run(module, builder)
            codes[key] = machine.emit_object(module)
    return codes, loops


def descriptions(wanted: Iterable[Written], sources: Sources) -> dict[bytes, bytes]:
    """Return the digests of the texts of kernels by those of their descriptions."""
    found: dict[bytes, bytes] = {}
    for structure in wanted:
        is_module = isinstance(structure, _Text)
        description = structure.description if isinstance(structure, _Text) else describe(structure)
        if description is not None:
            text = structure.write(prebuilt.PLACEHOLDER)
            made_by = sources.whole if is_module else sources.writers
            found[prebuilt.structure_digest(description, made_by)] = prebuilt.text_digest(text)
    return found


def _before(level: str) -> dict[bytes, bytes]:
    import zlib

    path = prebuilt.path_of(level)
    contents = path.read_bytes() if path.exists() else b""
    index = prebuilt.read_index(contents)
    return {key: zlib.decompress(contents[at : at + size]) for key, (at, size) in index.objects.items()}


def main() -> int:
    """Write the files of all levels, or of one."""
    parser = argparse.ArgumentParser(prog="python -m scripts.prebuild", description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="only tell whether kernels are missing")
    parser.add_argument("--level", choices=list(prebuilt.NEEDED), help="only this level of processors")
    options = parser.parse_args()
    if options.level is None:
        # each in its own process: programs remember functions of kernels for one level
        given = ["--check"] if options.check else []
        command = [sys.executable, "-m", "scripts.prebuild", *given, "--level"]
        codes = [subprocess.run([*command, level], check=False).returncode for level in prebuilt.NEEDED]
        if min(codes) < 0:
            print("a process was ended by a signal: its file is as before", file=sys.stderr)
        return int(any(codes))
    level, sources = options.level, source_digests()
    if sources is None:
        parser.error("the sources are being edited")
    of_python = modules(level)
    with written_for(level):
        return write_file(level, [*collect(level).wanted, *of_python], sources, options.check)


def write_file(level: str, wanted: Sequence[Written], sources: Sources, only_check: bool) -> int:
    """Write the file of a level, or tell whether it lacks kernels; return the code of the process."""
    if only_check:
        path = prebuilt.path_of(level)
        index = prebuilt.read_index(path.read_bytes() if path.exists() else b"")
        digests = [prebuilt.text_digest(each.write(prebuilt.PLACEHOLDER)) for each in wanted]
        missing = sum([digest not in index.objects and digest not in index.linked for digest in digests])
        if missing:
            print(f"{level}: {missing} kernels are missing: run `make prebuilt`")
        return int(missing > 0)
    codes, loops = compile_for(level, wanted)
    contents = prebuilt.pack(codes, descriptions(wanted, sources), loops)
    # processes that run have the old file in memory
    write_atomically(prebuilt.path_of(level), [contents])
    print(f"{level}: {len(wanted)} kernels, {len(contents)} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
