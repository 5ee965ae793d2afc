"""The names of the checks, without running them."""

import ast
from pathlib import Path

_TREE = ast.parse((Path(__file__).parent / "checks.py").read_text(encoding="utf-8"))
ALL = [node.name for node in _TREE.body if isinstance(node, ast.FunctionDef) and node.name.startswith("check_")]
