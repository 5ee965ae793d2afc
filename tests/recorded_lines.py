"""Lines of code and what real MXNet 1.9.1 did with them: how they are run, recorded, and compared with what is done here.

A line is an expression, or statements separated by `` ;; `` of which the last one may be an expression. Lines stand in
JSON files, one entry each: ``code``, ``mxnet`` (what MXNet did), and where this library differs for a reason, ``here``
and ``why``. Nothing here imports the library under test, so real MXNet can be looked at the same way.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

Entry = dict[str, Any]


def value_of(line: str, scope: dict[str, Any]) -> Any:
    """Return the value of a line of code that sees the names of a scope; that of ``r`` if it ends in a statement."""
    *statements, last = line.split(" ;; ")
    for statement in statements:
        exec(statement, scope)
    try:
        expression = compile(last, "<line>", "eval")
    except SyntaxError:
        exec(last, scope)
        return scope.get("r", "-")
    return eval(expression, scope)


def text_of(value: Any, text_of_one: Callable[[Any], str]) -> str:
    """Return a value as text, given the text of what is neither a list or tuple nor a type."""
    if isinstance(value, (list, tuple)):
        inside = ", ".join([text_of(item, text_of_one) for item in value])
        return f"[{inside}]" if isinstance(value, list) else f"({inside})"
    if isinstance(value, type):
        return value.__name__.rstrip("_")
    return text_of_one(value)


def text_of_array(array: Any, text_of_number: Callable[[float], str]) -> str:
    """Return the dtype, shape and elements of a NumPy array as text that does not depend on the NumPy version."""
    shape = "x".join(map(str, array.shape))
    return f"{array.dtype.name}({shape}) " + " ".join([text_of_number(float(one)) for one in array.reshape(-1)])


def recorded(folder: Path) -> list[tuple[str, Entry]]:
    """Return the entries of all files in a folder, each with a name for its test."""
    return [
        (f"{path.stem}: {entry['code']}", entry)
        for path in sorted(folder.glob("*.json"))
        for entry in json.loads(path.read_text(encoding="utf-8"))
    ]


def check(entry: Entry, found: Any, agree: Callable[[Any, Any], bool], reasons: Collection[str]) -> None:
    """Assert that an outcome is MXNet's, or the one that is written beside it for one of the reasons."""
    expected = entry.get("here", entry["mxnet"])
    assert agree(expected, found), f"{expected}\n{found}"
    if "here" in entry:
        assert entry["why"] in reasons, entry["why"]
        assert not agree(entry["mxnet"], found), "it agrees now: remove 'here' and 'why'"


def record(script: str, outcome: Callable[[Any, str], Any], compact: bool = False) -> None:
    """Write what MXNet does with the lines in the files beside a script, all of them or those named as its arguments.

    The script is also what runs lines, in processes of their own. If ``compact``, every entry is on one line.
    """
    import mxnet

    # before anything is written: a process that fails would be taken for one that a line has killed
    assert mxnet.__version__ == "1.9.1", mxnet.__version__
    if sys.argv[1:] == ["work"]:
        for line in sys.stdin:
            print("=" + json.dumps(outcome(mxnet, json.loads(line))), flush=True)
        return
    folder = Path(script).resolve().parent
    for name in sys.argv[1:] or sorted([path.name for path in folder.glob("*.json")]):
        path = folder / name
        entries = json.loads(path.read_text(encoding="utf-8"))
        for entry, found in zip(entries, _outcomes(script, [entry["code"] for entry in entries]), strict=True):
            entry["mxnet"] = found
        if compact:
            text = "[\n" + ",\n".join([json.dumps(entry, ensure_ascii=False) for entry in entries]) + "\n]"
        else:
            text = json.dumps(entries, indent=1, ensure_ascii=False)
        path.write_text(text + "\n", encoding="utf-8")


def _outcomes(script: str, lines: list[str]) -> list[Any]:
    """Return the outcome of each line; a process that dies is started again after the line that killed it."""
    found: list[Any] = []
    while len(found) < len(lines):
        text = "".join([json.dumps(line) + "\n" for line in lines[len(found) :]])
        done = subprocess.run([sys.executable, script, "work"], input=text, capture_output=True, text=True)
        found += [json.loads(line[1:]) for line in done.stdout.splitlines() if line.startswith("=")]
        if done.returncode:
            found.append("crash")
    return found
