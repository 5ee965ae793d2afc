"""The arrangement of the source: one ordered list of layers, lengths, and nothing left half done.

A module imports only from its own layer and from layers before it in ORDER. A new folder of ``core/`` and a new public
module must be added to a line of ORDER.
"""

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src"
LONGEST_FILE = 600
LONGEST_FUNCTION = 80
#: with the text that it emits
LONGEST_FUNCTION_WITH_TEXT = 150

#: one line per layer: the folders of core/ in the order of the data, then the public packages
ORDER = """
core.base
core.events
core.graph
core.lower
core.ops
core.derive
core.kernels
core.run
core.plan
core.observe
core.trace
core.array
core.backward
core.capture
_version attribute base context engine futures libinfo log name registry runtime settings util
autograd executor ndarray numpy numpy_extension operator random symbol
debug explain ops profiler visualization
callback contrib.text curves distributed executor_manager gluon image initializer io kvstore lr_scheduler metric model module monitor notebook optimizer progress_bar recordio rnn testing
__main__ cli compat contrib test_utils
"""
LAYERS = [line.split() for line in ORDER.strip().splitlines()]
LAYER_OF = {f"phonograd.{name}": depth for depth, names in enumerate(LAYERS) for name in names}

#: imports against the order, each inside a function and for a reason
UPWARD: dict[tuple[str, str], str] = {
    ("phonograd.symbol.graph", "phonograd.visualization"): "a notebook shows a symbol as a picture",
}

#: the package's own __init__ collects the public names of every layer but the last, which uses the library as users do
FRONT_DOOR = "phonograd"


def files(*folders: str) -> list[Path]:
    """Return every Python file below the folders."""
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def identifier(path: Path) -> str:
    """Return the path as it is shown in the name of a test."""
    return path.relative_to(ROOT).as_posix()


MODULES = files("src")


def module_name(path: Path) -> str:
    """Return the dotted name under which a file of src is imported."""
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


NAMES = {module_name(path) for path in MODULES}


def layer(module: str) -> int | None:
    """Return the depth of a module in ORDER, or None if no line names it or a package around it."""
    while module:
        if module in LAYER_OF:
            return LAYER_OF[module]
        module = module.rpartition(".")[0]
    return None


def parents_of_types_only(tree: ast.AST) -> set[ast.AST]:
    """Return the nodes under ``if TYPE_CHECKING``, which never run."""
    hidden: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            hidden.update(inner for statement in node.body for inner in ast.walk(statement))
    return hidden


@functools.cache
def parsed(path: Path) -> ast.Module:
    """Return the syntax tree of a file."""
    return ast.parse(path.read_text(encoding="utf-8"))


def imported_modules(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (line, module) for every module of phonograd that a file imports when it runs."""
    tree = parsed(path)
    hidden = parents_of_types_only(tree)
    package = module_name(path) if path.name == "__init__.py" else module_name(path).rpartition(".")[0]
    for node in ast.walk(tree):
        if node in hidden:
            continue
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "phonograd":
                    yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                around = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*around, *([base] if base else [])])
            if base.split(".")[0] == "phonograd":
                for alias in node.names:
                    whole = f"{base}.{alias.name}"
                    yield node.lineno, whole if whole in NAMES else base


def test_every_module_is_in_a_layer() -> None:
    outside = {FRONT_DOOR, "phonograd.core"}
    missing = [name for name in sorted(NAMES) if name not in outside and layer(name) is None]
    assert not missing, f"add to a line of ORDER in {identifier(Path(__file__))}: {', '.join(missing)}"


def test_the_order_names_only_what_exists() -> None:
    assert not set(LAYER_OF) - NAMES


def test_imports_follow_the_order() -> None:
    wrong = []
    for path in MODULES:
        name = module_name(path)
        own = layer(name)
        if own is None:
            continue
        for line, target in imported_modules(path):
            depth = len(LAYERS) - 1 if target == FRONT_DOOR else layer(target)
            if depth is not None and depth > own and (name, target) not in UPWARD:
                wrong.append(f"{identifier(path)}:{line}: {name} imports {target}, which comes later in ORDER")
    assert not wrong, "\n" + "\n".join(wrong)


def test_exceptions_are_still_needed() -> None:
    taken = {(module_name(path), target) for path in MODULES for _, target in imported_modules(path)}
    assert not set(UPWARD) - taken, "no longer imported: remove from UPWARD"


def test_files_read_in_one_sitting() -> None:
    lengths = {identifier(path): len(path.read_text(encoding="utf-8").splitlines()) for path in MODULES}
    long = {name: length for name, length in lengths.items() if length > LONGEST_FILE}
    assert not long, f"more than one subject: {long}"


def lines_of_code(function: ast.FunctionDef | ast.AsyncFunctionDef, with_text: bool = False) -> int:
    """Return the length of a function's body, without its signature and docstring, with or without emitted text."""
    body = function.body[1:] if ast.get_docstring(function, clean=False) is not None else function.body
    if not body:
        return 0
    length = (function.end_lineno or 0) - body[0].lineno + 1
    if with_text:
        return length
    texts = {
        line
        for statement in body
        for node in ast.walk(statement)
        if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))
        for line in range(node.lineno + 1, (node.end_lineno or 0) + 1)
    }
    return length - len(texts)


def functions() -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Yield every function of the source, and where it is."""
    for path in MODULES:
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{identifier(path)}:{node.lineno}", node


def test_functions_fit_a_screen() -> None:
    long = [
        f"{where}: {node.name} has {lines_of_code(node, with_text=True)} lines"
        for where, node in functions()
        if lines_of_code(node) > LONGEST_FUNCTION or lines_of_code(node, with_text=True) > LONGEST_FUNCTION_WITH_TEXT
    ]
    assert not long, "\n" + "\n".join(long)


def test_rules_have_names() -> None:
    unnamed = [where for where, node in functions() if node.name == "_"]
    assert not unnamed, "name these after their rule (<op>_grad, <op>_shape): " + ", ".join(unnamed)


def test_nothing_is_left_half_done() -> None:
    # Put together here, so that this file does not find itself.
    marks = re.compile(r"\b(" + "|".join(("TO" + "DO", "FIX" + "ME", "X" * 3)) + r")\b")
    found = [
        f"{identifier(path)}:{number}"
        for path in files("src", "tests", "examples", "benchmarks", "scripts")
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if marks.search(line)
    ]
    assert not found, "unfinished: " + ", ".join(found)


def test_every_module_has_a_docstring() -> None:
    missing = [identifier(path) for path in MODULES if path.stat().st_size and ast.get_docstring(parsed(path)) is None]
    assert not missing, "no docstring: " + ", ".join(missing)


def test_the_map_names_files_that_exist() -> None:
    text = (SOURCE / "phonograd" / "core" / "README.md").read_text(encoding="utf-8")
    known = [path.relative_to(SOURCE / "phonograd").as_posix() for path in MODULES]
    named = {name for name in re.findall(r"`([\w/]+\.py)`", text) if not name.startswith("tests/")}
    missing = [name for name in sorted(named) if not any(f"/{path}".endswith(f"/{name}") for path in known)]
    assert named
    assert not missing, f"core/README.md names files that do not exist: {missing}"
    folders = [name for names in LAYERS for name in names if name.startswith("core.")]
    assert all(f"| `{name.removeprefix('core.')}/`" in text for name in folders)
