"""Operators that a package gets when they are asked for replace no built-in that its own code uses."""

from __future__ import annotations

import ast
import builtins
import importlib
from pathlib import Path

import pytest

PACKAGES = ["ndarray", "ndarray.sparse", "symbol", "symbol.sparse", "numpy", "numpy_extension", "numpy.linalg"]


@pytest.mark.parametrize("name", PACKAGES)
def test_no_name_means_two_things(name: str) -> None:
    module = importlib.import_module(f"phonograd.{name}")
    path = vars(module).get("__file__")
    if path is None:
        pytest.skip("it has no code of its own")
    offered = set(dir(module))
    tree = ast.parse(Path(path).read_text(encoding="utf-8"))
    own = {node.name for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    own |= {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    assert not {each for each in used & offered - own if hasattr(builtins, each) and not each.startswith("__")}
