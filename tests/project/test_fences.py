"""The fences: only the modules listed here know the memory of CPython, NumPy and LLVM.

Everything else is ordinary Python. A module that needs one of these things asks a listed one; to list another takes a
reason, a test of what it assumes (:func:`phonograd.core.base.assumptions.assumption_holds`), and a row in docs/assumptions.md.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "phonograd"
PAGE = ROOT / "docs" / "assumptions.md"

#: by kind of knowledge, who may have it and why
FENCES: dict[str, dict[str, str]] = {
    "ctypes": {
        "core/run/pointers.py": "the only door to addresses of our own memory and of functions",
        "core/run/object_layout.py": "the layout of arrays and tuples, and NumPy's function table",
        "core/run/ufuncs.py": "NumPy makes ufuncs of machine code by a function of its C interface",
        "core/run/elf_loader.py": "makes memory executable, and finds functions of the C library",
        "core/run/compiler.py": "calls LLVM's code generator without llvmlite's lock",
        "core/run/thread_pool.py": "workers sit in machine code and sleep in Python's own locks",
        "core/array/fastcall/native_call.py": "operator calls are machine code that calls Python's C interface",
        "core/run/native_function.py": "the type of functions that are machine code, by Python's C interface",
        "core/run/spawn.py": "starts a process by the C library, without the interpreter",
        "core/run/hot/installation.py": "hot functions are machine code that calls Python's C interface",
        "base.py": "MXNet's names of C types, which scripts import; no address is involved",
        "compat/private.py": "names of C types that MXNet's modules have; no address is involved",
    },
    "mapped memory": {
        "core/run/elf_loader.py": "machine code lies in pages of its own, which are made executable",
        "core/run/memory_pool.py": "large blocks are pages of their own, which return to the system and begin as zeros",
    },
    "reference counts": {
        "core/trace/liveness.py": "which arrays of a trace are alive",
        "core/run/donation.py": "which inputs a plan may write over",
        "profiler/memory.py": "lists the arrays that there are; no reference is counted",
    },
    "object layout": {
        "core/run/object_layout.py": "where arrays keep their addresses and flags, tuples their items",
        "core/array/fastcall/native_call.py": "where arrays, nodes and traces keep their attributes",
        "core/run/native_function.py": "where functions that are machine code keep their code",
        "core/run/hot/installation.py": "where objects keep their slots, lists and tuples their items",
    },
    "forks": {
        "core/base/fork.py": "one handler, one order",
    },
    "llvmlite": {
        "core/run/compiler.py": "the compiler",
        "runtime.py": "what the processor can do, by LLVM's names: llvmlite's public function",
    },
    "error state of NumPy": {
        "core/base/float_errors.py": "NumPy keeps it in a context variable, which is quicker to set than a scope",
    },
    "closures and code": {},
    "class assignment": {
        "core/base/modules.py": "modules get a class with another __dict__, as Python's documentation describes",
        "core/array/handle.py": "a new array becomes one of another dense class, with the same slots",
        "profiler/recording.py": "only open scopes need a finalizer, which slows down all objects of a class",
    },
}

_MODULES = {"ctypes": "ctypes", "_ctypes": "ctypes", "mmap": "mapped memory", "llvmlite": "llvmlite"}
_FUNCTIONS = {
    ("sys", "getrefcount"): "reference counts",
    ("gc", "get_referrers"): "reference counts",
    ("gc", "get_referents"): "reference counts",
    ("gc", "get_objects"): "reference counts",
    ("os", "register_at_fork"): "forks",
    ("os", "fork"): "forks",
    ("os", "forkpty"): "forks",
}
_ATTRIBUTES = {
    "ctypes": "ctypes",
    "pythonapi": "ctypes",
    "from_address": "ctypes",
    "__array_interface__": "ctypes",
    "__array_struct__": "ctypes",
    "__basicsize__": "object layout",
    "__itemsize__": "object layout",
    "__dictoffset__": "object layout",
    "__weakrefoffset__": "object layout",
    "_ARRAY_API": "object layout",
    "_extobj_contextvar": "error state of NumPy",
    "_make_extobj": "error state of NumPy",
    "ffi": "llvmlite",
    "_cfn": "llvmlite",
    "cell_contents": "closures and code",
    "__closure__": "closures and code",
    "__code__": "closures and code",
}


def uses(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Yield the kinds of fenced knowledge that a module uses, and where."""
    for node in ast.walk(tree):
        line = getattr(node, "lineno", 0)
        if isinstance(node, ast.Import):
            yield from [(_MODULES[top], line) for top in _tops(node) if top in _MODULES]
        elif isinstance(node, ast.ImportFrom) and node.module is not None and not node.level:
            if (top := node.module.partition(".")[0]) in _MODULES:
                yield _MODULES[top], line
            yield from [(_FUNCTIONS[top, a.name], line) for a in node.names if (top, a.name) in _FUNCTIONS]
        elif isinstance(node, ast.Attribute):
            if node.attr in _ATTRIBUTES:
                yield _ATTRIBUTES[node.attr], line
            elif isinstance(node.value, ast.Name) and (node.value.id, node.attr) in _FUNCTIONS:
                yield _FUNCTIONS[node.value.id, node.attr], line
            elif node.attr == "__class__" and isinstance(node.ctx, ast.Store):
                yield "class assignment", line
        elif isinstance(node, ast.BinOp) and _is_address(node):
            yield "object layout", line


def _tops(node: ast.Import) -> list[str]:
    return [name.name.partition(".")[0] for name in node.names]


def _is_address(node: ast.BinOp) -> bool:
    """Return whether an identity is calculated with, as only addresses are: others are compared."""
    calls = [side.func for side in (node.left, node.right) if isinstance(side, ast.Call)]
    is_identity = any(isinstance(function, ast.Name) and function.id == "id" for function in calls)
    return is_identity and isinstance(node.op, (ast.Add, ast.Sub))


def _parsed() -> dict[str, ast.Module]:
    paths = sorted(SOURCE.rglob("*.py"))
    return {path.relative_to(SOURCE).as_posix(): ast.parse(path.read_text("utf-8")) for path in paths}


PARSED = _parsed()
FOUND = {name: list(uses(tree)) for name, tree in PARSED.items()}


@pytest.mark.parametrize("kind", FENCES)
def test_only_listed_modules_know(kind: str) -> None:
    outside = [
        f"{name}:{line}"
        for name, found in FOUND.items()
        for what, line in found
        if what == kind and name not in FENCES[kind]
    ]
    assert not outside, f"{kind}: ask a module of FENCES for it, or list this one with a reason and a self-test"


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, names in FENCES.items() for name in names])
def test_the_list_has_nothing_superfluous(kind: str, name: str) -> None:
    assert kind in [what for what, _ in FOUND[name]], f"{name} does not need to be listed for {kind} any more"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("umath._extobj_contextvar", "error state of NumPy"),
        ("import ctypes", "ctypes"),
        ("import ctypes.util as c", "ctypes"),
        ("from ctypes import c_int", "ctypes"),
        ("x = values.ctypes.data", "ctypes"),
        ("x = values.__array_interface__['data']", "ctypes"),
        ("def f():\n    import mmap", "mapped memory"),
        ("import sys\nx = sys.getrefcount(1)", "reference counts"),
        ("from sys import getrefcount", "reference counts"),
        ("import gc\ngc.get_referrers(x)", "reference counts"),
        ("x = object.__basicsize__", "object layout"),
        ("x = 16 + id(value)", "object layout"),
        ("import os\nos.register_at_fork(before=f)", "forks"),
        ("import os\nif not os.fork(): pass", "forks"),
        ("from llvmlite import binding", "llvmlite"),
        ("x = binding.ffi.lib", "llvmlite"),
        ("f.__closure__[0].cell_contents = 1", "closures and code"),
        ("x.__class__ = y", "class assignment"),
    ],
)
def test_uses_are_found(text: str, kind: str) -> None:
    assert kind in {what for what, _ in uses(ast.parse(text))}


def test_ordinary_code_is_free() -> None:
    text = "from .ctypes import x\nfound = {id(v): v for v in values}\nif x.__class__ is list: hash(id(x) >> 4)"
    assert list(uses(ast.parse(text))) == []


def _assumptions() -> list[tuple[str, str]]:
    """Return the modules that test assumptions, and the sentences."""
    calls = [(name, node) for name, tree in PARSED.items() for node in ast.walk(tree) if isinstance(node, ast.Call)]
    tests = [
        (name, node) for name, node in calls if isinstance(node.func, ast.Name) and node.func.id == "assumption_holds"
    ]
    return [(name, ast.literal_eval(node.args[0])) for name, node in tests]


def test_every_assumption_is_on_the_page() -> None:
    page = " ".join(PAGE.read_text("utf-8").split())
    found = _assumptions()
    assert len(found) > 10
    missing = [(name, text) for name, text in found if text not in page or f"`{name}`" not in page]
    assert not missing


#: modules whose knowledge needs no test, because the documents of Python or llvmlite promise it; and one that
#: core/run/pointers.py tests locks and addresses for
PROMISED = {
    "base.py",
    "compat/private.py",
    "core/base/fork.py",
    "core/run/memory_pool.py",
    "core/run/spawn.py",
    "runtime.py",
    "profiler/memory.py",
    "core/run/thread_pool.py",
}
PROMISED |= {*FENCES["class assignment"], *FENCES["closures and code"]}


def test_every_fenced_module_tests_what_it_assumes() -> None:
    testing = {name for name, _ in _assumptions()}
    assert {name for names in FENCES.values() for name in names} - PROMISED == testing
