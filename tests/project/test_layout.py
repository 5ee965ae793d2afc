"""The arrangement of the source: layers, lengths, and nothing left half done.

A module imports only from its own layer and from layers above it in the table. To add a module, add its name to a row
of LAYERS; a package stands for everything inside it, unless a longer name says otherwise.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src"
LONGEST_FILE = 600
LONGEST_FUNCTION = 80

LAYERS: list[tuple[str, str]] = [
    (
        "base",
        "errors settings dtypes context files util base libinfo log runtime engine attribute name observers futures "
        "registry terminal _version",
    ),
    (
        "1 expressions",
        "node parameters interface operator shapes philox variates operators gradient "
        # what the lowerings of operators are made of: text only, no compiler
        "kernels.function kernels.emitter kernels.lowering kernels.mathematics kernels.pattern kernels.philox "
        "costs",
    ),
    (
        "2 execution",
        "attribution holdings anomaly state streams reference kernels native plans spending living threads trace",
    ),
    ("3 arrays", "ndarray numpy numpy_extension"),
    (
        "4 differentiation",
        "variable sweep function custom symbol record_reader autograd executor capture direct compilation",
    ),
    ("5 observation", "profiler ops debug explain visualization"),
    (
        "6 learning",
        "gluon optimizer initializer kvstore lr_scheduler metric random testing io recordio image callback "
        "progress_bar curves model module monitor rnn contrib.text",
    ),
    ("7 persistence and scale", "contrib compat mxnet_path test_utils __main__ demo"),
]

# Imports against the order, each inside a function and for a reason. A method of NDArray that MXNet defines there but
# that belongs to a later layer is the only good one.
UPWARD: dict[tuple[str, str], str] = {
    ("phonograd.ndarray.array", "phonograd.autograd"): "x.attach_grad() and x.backward() are methods of arrays",
    (
        "phonograd.core.array.fastcall.native_install",
        "phonograd.core.backward.variable",
    ): "where variables keep gradients is measured on one",
    ("phonograd.symbol.graph", "phonograd.visualization"): "symbols are shown as pictures in notebooks",
    ("phonograd.core.graph.operator", "phonograd.operator"): "mx.operator is where MXNet has CustomOp and CustomOpProp",
}

# The package's own __init__ gathers the public names of every layer.
FRONT_DOOR = "phonograd"

LAYER_OF = {f"phonograd.{name}": depth for depth, (_, names) in enumerate(LAYERS) for name in names.split()}


def files(*folders: str) -> list[Path]:
    """Return every Python file below the folders."""
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def identifier(path: Path) -> str:
    """Return the path as it is shown in the name of a test."""
    return path.relative_to(ROOT).as_posix()


MODULES = files("src")
every_module = pytest.mark.parametrize("path", MODULES, ids=identifier)


def module_name(path: Path) -> str:
    """Return the dotted name under which a file of src is imported."""
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


NAMES = {module_name(path) for path in MODULES}


def layer(module: str) -> int | None:
    """Return the depth of a module in LAYERS, or None if no row names it or a package around it."""
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


def imported_modules(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (line, module) for every module of phonograd that a file imports when it runs."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
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


@every_module
def test_module_has_a_layer(path: Path) -> None:
    name = module_name(path)
    assert name == FRONT_DOOR or layer(name) is not None, (
        f"{name} stands in no layer: add it to a row of LAYERS in {identifier(Path(__file__))}"
    )


@every_module
def test_imports_go_down_the_layers(path: Path) -> None:
    name = module_name(path)
    own = layer(name)
    if name == FRONT_DOOR or own is None:
        return
    wrong = []
    for line, target in imported_modules(path):
        # The front door stands after every layer but the last one, whose modules use the library as users do.
        depth = len(LAYERS) - 1 if target == FRONT_DOOR else layer(target)
        if depth is not None and depth > own and (name, target) not in UPWARD:
            where = LAYERS[depth][0] if target != FRONT_DOOR else "the front door"
            wrong.append(f"{identifier(path)}:{line}: {name} ({LAYERS[own][0]}) imports {target} ({where})")
    assert not wrong, "\n" + "\n".join(wrong)


def test_exceptions_are_still_needed() -> None:
    taken = {(module_name(path), target) for path in MODULES for _, target in imported_modules(path)}
    assert not set(UPWARD) - taken, "no longer imported: remove from UPWARD"


@every_module
def test_file_reads_in_one_sitting(path: Path) -> None:
    length = len(path.read_text(encoding="utf-8").splitlines())
    assert length <= LONGEST_FILE, f"{identifier(path)} has {length} lines: it has more than one subject"


def lines_of_code(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return the length of a function's body, without its signature, its docstring and the text that it emits."""
    body = function.body[1:] if ast.get_docstring(function, clean=False) is not None else function.body
    texts = {
        line
        for statement in body
        for node in ast.walk(statement)
        if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))
        for line in range(node.lineno + 1, (node.end_lineno or 0) + 1)
    }
    return (function.end_lineno or 0) - body[0].lineno + 1 - len(texts) if body else 0


@every_module
def test_functions_fit_a_screen(path: Path) -> None:
    long = [
        f"{identifier(path)}:{node.lineno}: {node.name} has {lines_of_code(node)} lines"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and lines_of_code(node) > LONGEST_FUNCTION
    ]
    assert not long, "\n" + "\n".join(long)


@pytest.mark.parametrize("path", files("src", "tests", "examples", "benchmarks", "scripts"), ids=identifier)
def test_nothing_is_left_half_done(path: Path) -> None:
    # Put together here, so that this file does not find itself.
    marks = re.compile(r"\b(" + "|".join(("TO" + "DO", "FIX" + "ME", "X" * 3)) + r")\b")
    lines = path.read_text(encoding="utf-8").splitlines()
    found = [f"{identifier(path)}:{number}" for number, line in enumerate(lines, 1) if marks.search(line)]
    assert not found, "unfinished: " + ", ".join(found)


def test_every_module_has_a_docstring() -> None:
    missing = [
        identifier(path)
        for path in MODULES
        if path.stat().st_size and ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) is None
    ]
    assert not missing, "no docstring: " + ", ".join(missing)
