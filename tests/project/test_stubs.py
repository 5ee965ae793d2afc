"""The type stubs say what the registry says; type checkers and editors understand them."""

import ast
import inspect
import json
import re
import subprocess
import sys
import venv
from pathlib import Path

import numpy as np
import pytest

import phonograd as mx
from phonograd.core.array.call import python_function_of
from phonograd.core.graph.operator import REGISTRY
from phonograd.core.graph.signature import signature_of

ROOT = Path(__file__).resolve().parents[2]
TYPING = ROOT / "tests" / "typing"
PACKAGE = ROOT / "src" / "phonograd"


def test_the_files_are_those_of_the_generator():
    """In a process of its own: here functions may be machine code already."""
    command = [sys.executable, str(ROOT / "scripts" / "make_stubs.py"), "--check"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


def functions_in(stub):
    """Return the first definition of each function in a stub: names of arguments, and of those with a default."""
    made = {}
    for node in ast.parse((PACKAGE / stub).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef) and node.name not in made:
            names = [one.arg for one in (*node.args.args, *node.args.kwonlyargs)]
            optional = [one.arg for one in node.args.args[len(node.args.args) - len(node.args.defaults) :]]
            optional += [one.arg for one, d in zip(node.args.kwonlyargs, node.args.kw_defaults) if d is not None]
            made[node.name] = names, set(optional)
    return made


@pytest.mark.parametrize(
    "stub, space",
    [
        ("ndarray/op.pyi", mx.nd),
        ("ndarray/contrib.pyi", mx.nd.contrib),
        ("ndarray/linalg.pyi", mx.nd.linalg),
        ("ndarray/image.pyi", mx.nd.image),
        ("symbol/op.pyi", mx.sym.op),
        ("numpy/__init__.pyi", mx.np),
        ("numpy_extension/__init__.pyi", mx.npx),
    ],
)
def test_signatures_at_run_time_are_those_of_the_stubs(stub, space):
    found = functions_in(stub)
    assert len(found) > 15
    for name, (names, optional) in found.items():
        arguments = inspect.signature(getattr(space, name)).parameters.values()
        ours = [one.name for one in arguments if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)]
        assert ours == names, name
        # the first overload of a function requires one more argument if that decides the kind of result
        assert {one.name for one in arguments if one.default is not one.empty} >= optional, name


def test_required_arguments_have_no_default():
    signature = inspect.signature(python_function_of(REGISTRY["Convolution"], "Convolution"))
    required = [one.name for one in signature.parameters.values() if one.default is one.empty]
    assert required == ["data", "weight", "kernel", "num_filter"]
    assert "required" not in str(signature)
    assert str(inspect.signature(python_function_of(REGISTRY["softsign"], "softsign"))) == (
        "(data: NDArray, out: NDArray | None = None, name: str | None = None) -> NDArray"
    )


def test_machine_code_has_the_same_signature():
    x = mx.nd.ones(3)
    for _ in range(6):
        (mx.nd.softsign(x) + 1).wait_to_read()
    declared = REGISTRY["softsign"]
    assert inspect.signature(mx.nd.softsign) == signature_of(declared)
    assert python_function_of(declared, "softsign").__doc__ == mx.nd.softsign.__doc__


# -- type checkers


def expected_lines():
    lines = (TYPING / "rejected.py").read_text(encoding="utf-8").splitlines()
    return {number for number, line in enumerate(lines, 1) if "# error:" in line}


def test_mypy_rejects_mistakes():
    """``make lint`` runs mypy on the examples and on tests/typing/accepted.py, and fills the cache for this run."""
    pytest.importorskip("mypy")
    command = [sys.executable, "-m", "mypy", "--no-error-summary", str(TYPING / "rejected.py")]
    report = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout
    assert {int(line) for line in re.findall(r"rejected\.py:(\d+): error", report)} == expected_lines(), report


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Return the Python of an environment that has the package: of an installed one, pyright hides private imports."""
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder, with_pip=False, symlinks=True)
    packages = next(folder.glob("lib/python*/site-packages"))
    (packages / "phonograd").symlink_to(PACKAGE)
    for name in ("numpy", "typing_extensions.py"):
        found = Path(np.__file__).parents[1] / name
        (packages / name).symlink_to(found)
    return folder / "bin" / "python"


@pytest.mark.slow
def test_pyright_accepts_users_code_and_rejects_mistakes(tmp_path, installed):
    pytest.importorskip("basedpyright")
    config = {
        "include": [str(TYPING), str(ROOT / "examples")],
        "typeCheckingMode": "standard",
        "reportMissingModuleSource": False,
    }
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(config))
    command = [
        sys.executable,
        "-m",
        "basedpyright",
        "--outputjson",
        "--pythonpath",
        str(installed),
        "-p",
        str(tmp_path),
    ]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    reports = json.loads(run.stdout)["generalDiagnostics"]
    errors = {(Path(r["file"]).name, r["range"]["start"]["line"] + 1) for r in reports if r["severity"] == "error"}
    assert errors == {("rejected.py", number) for number in expected_lines()}


# -- editors

START = "import phonograd as mx\nx = mx.nd.array([1.0])\na = mx.np.array([1.0])\ns = mx.sym.var('s')\n"
COMPLETIONS = [
    ("mx.nd.Conv", {"Convolution"}),
    ("x.soft", {"softmax", "softmin"}),
    ("mx.np.ar", {"array", "arange", "argmax"}),
    ("mx.gluon.nn.Den", {"Dense"}),
    ("mx.sym.Ful", {"FullyConnected"}),
    ("mx.npx.re", {"relu"}),
    ("a.su", {"sum"}),
    ("s.list_arg", {"list_arguments"}),
    ("(x * 2 + 1).ex", {"exp", "expand_dims"}),
    ("mx.nd.contrib.box", {"box_iou", "box_nms"}),
]


@pytest.mark.slow
@pytest.mark.parametrize("text, names", COMPLETIONS, ids=[text for text, _ in COMPLETIONS])
def test_jedi_completes(text, names):
    jedi = pytest.importorskip("jedi")
    source = START + text
    project = jedi.Project(ROOT, added_sys_path=[str(ROOT / "src")])
    found = {one.name for one in jedi.Script(source, project=project).complete()}
    assert found >= names


class LanguageServer:
    """A conversation with a language server, as an editor has it."""

    def __init__(self, command, python):
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._settings = {"python": {"pythonPath": str(python)}}
        self._number = 0

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self._process.kill()
        self._process.communicate()

    def send(self, **message):
        text = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self._process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(text), text))
        self._process.stdin.flush()

    def _receive(self):
        length = 0
        while line := self._process.stdout.readline().strip():
            if line.lower().startswith(b"content-length:"):
                length = int(line.partition(b":")[2])
        return json.loads(self._process.stdout.read(length))

    def ask(self, method, **parameters):
        """Return the answer to a request; meanwhile, answer those of the server."""
        self._number += 1
        self.send(id=self._number, method=method, params=parameters)
        while True:
            message = self._receive()
            if message.get("id") == self._number and "method" not in message:
                return message["result"]
            if "id" in message:
                sections = [one.get("section") for one in message.get("params", {}).get("items", ())]
                self.send(id=message["id"], result=[self._settings.get(section, {}) for section in sections] or None)


@pytest.mark.slow
def test_pyright_completes(tmp_path, installed):
    server = Path(sys.executable).with_name("basedpyright-langserver")
    if not server.exists():
        pytest.skip("the language server is not installed")
    folder = tmp_path.as_uri()
    with LanguageServer([str(server), "--stdio"], installed) as editor:
        abilities = {"workspace": {"configuration": True, "workspaceFolders": True}}
        folders = [{"uri": folder, "name": "project"}]
        editor.ask("initialize", processId=None, rootUri=folder, workspaceFolders=folders, capabilities=abilities)
        editor.send(method="initialized", params={})
        for number, (text, names) in enumerate(COMPLETIONS):
            document = {"uri": f"{folder}/{number}.py", "languageId": "python", "version": 1, "text": START + text}
            editor.send(method="textDocument/didOpen", params={"textDocument": document})
            place = {"line": START.count("\n"), "character": len(text)}
            found = editor.ask("textDocument/completion", textDocument={"uri": document["uri"]}, position=place)
            assert {item["label"] for item in found["items"]} >= names, text
