"""All that is known of an operator stands in its declaration, and a new operator is at home everywhere."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import phonograd as mx
from phonograd.core import ops
from phonograd.core.graph.documentation import document
from phonograd.core.graph.interface import Onnx, Quantizes
from phonograd.core.graph.node import Node
from phonograd.core.graph.operator import NAMES, REGISTRY, Array, Operator, operator
from phonograd.core.lower import vector_math
from phonograd.core.ops.math.comparison import greater
from phonograd.core.ops.math.elementary import abs_, unary
from phonograd.symbol.numpy_names import name_of, operator_of
from phonograd.visualization import families

from .declarations import forgotten_operators

SOURCE = Path(mx.__file__).parent
DECLARATIONS = Path(ops.__file__).parent
OPERATORS = list(dict.fromkeys(REGISTRY.values()))
FAMILIES = {declared.family for declared in OPERATORS}

# A collection that names more operators than this is a list of operators.
MOST = 3

# Collections that may name operators, by the name they are bound to, and why.
ALLOWED = {
    "_INPLACE_WORDS": "MXNet's error texts of in-place operators",
    "_OWN": "functions of sym.np that are written beside it, under their names",
    "SHARED": "arguments, some of which are called like an operator",
    "CLASSES": "formulas of classes, some of which are called like an operator",
    "_FAMILIES": "modules of operators, some of which are called like an operator",
}


# -- no other file lists operators


def names_of_operators() -> set[str]:
    """Return every name by which code may refer to an operator."""
    return {*REGISTRY, *NAMES["npx"], *NAMES["with_scalars"]}


def words(node: ast.AST) -> Iterator[str]:
    """Yield the words of all strings inside a node, and the keywords of ``dict(...)``."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Constant) and isinstance(inner.value, str):
            yield from inner.value.split()
        elif isinstance(inner, ast.keyword) and inner.arg is not None:
            yield inner.arg


def is_collection(node: ast.AST) -> bool:
    """Return whether a node is a literal collection, or a text that is split into one."""
    if isinstance(node, ast.Call):
        called = node.func
        if isinstance(called, ast.Name):
            return called.id == "dict"
        return isinstance(called, ast.Attribute) and called.attr == "split" and isinstance(called.value, ast.Constant)
    return isinstance(node, ast.Tuple | ast.List | ast.Set | ast.Dict)


def listed_operators(tree: ast.AST, known: set[str]) -> Iterator[tuple[str, int, list[str]]]:
    """Yield each collection that lists operators: the name that it is bound to, its line, and the operators."""
    if isinstance(tree, ast.Assign | ast.AnnAssign):
        targets = tree.targets if isinstance(tree, ast.Assign) else [tree.target]
        bound = ast.unparse(targets[0])
    else:
        bound = ""
    # __all__ names what a module defines itself
    if bound == "__all__":
        return
    for node in ast.iter_child_nodes(tree):
        found = sorted(known.intersection(words(node))) if is_collection(node) else []
        if len(found) > MOST:
            yield bound, node.lineno, found  # type: ignore[attr-defined]
        else:
            for name, line, inner in listed_operators(node, known):
                yield name or bound, line, inner


def test_no_file_beside_the_declarations_lists_operators() -> None:
    known, unused, wrong = names_of_operators(), set(ALLOWED), []
    for path in sorted(SOURCE.rglob("*.py")):
        if path.is_relative_to(DECLARATIONS):
            continue
        for name, line, found in listed_operators(ast.parse(path.read_text(encoding="utf-8")), known):
            unused.discard(name)
            if name not in ALLOWED:
                wrong.append(f"{path.relative_to(SOURCE)}:{line} {name} lists operators: {', '.join(found)}")
    assert not wrong, "\n".join(["state what is known of operators in their declarations", *wrong])
    assert not unused, f"ALLOWED names collections that list no operators: {unused}"


@pytest.mark.parametrize(
    "text",
    [
        'UNARY = {"exp": "Exp", "log": "Log", "sin": "Sin", "cos": "Cos"}',
        'for name in ("exp", "log", "sin", "cos"):\n    pass',
        'def f():\n    return x in frozenset(["exp", "log", "sin", "cos"])',
        'NAMES = "exp log sin cos".split()',
        "TABLE = dict(exp=1, log=2, sin=3, cos=4)",
        'TABLE = {"#ff0000": "exp log", "#00ff00": "sin cos"}',
        'f(*("BatchNorm", "batch_norm"), *("layer_norm", "softmax", "add", "subtract"))',
    ],
)
def test_a_list_of_operators_is_found(text: str) -> None:
    assert list(listed_operators(ast.parse(text), names_of_operators()))


@pytest.mark.parametrize(
    "text", ['x = ("exp", "log", "sin")', '__all__ = ["exp", "log", "sin", "cos"]', 'x = "exp log sin cos"']
)
def test_other_collections_are_not(text: str) -> None:
    assert not list(listed_operators(ast.parse(text), names_of_operators()))


# -- facts hold


def test_names_elsewhere_are_those_of_the_declarations() -> None:
    assert all(REGISTRY[declared.name] is declared for names in NAMES.values() for declared in names.values())
    for name, declared in NAMES["npx"].items():
        assert getattr(mx.npx, name).__doc__ == document(declared)
        assert getattr(mx.sym.npx, name)
        assert operator_of(f"_npx_{name}") is declared
    for name in NAMES["numpy"]:
        assert callable(getattr(mx.np, name))
        assert callable(getattr(np, name))
        assert getattr(mx.sym.np, name)
    for name in NAMES["answers"]:
        assert callable(getattr(np, name))


@pytest.mark.parametrize("place", list(NAMES))
def test_two_operators_cannot_have_one_name_elsewhere(place: str) -> None:
    taken = next(iter(NAMES[place]))
    records = {"onnx": Onnx, "quantizes": Quantizes}
    facts: dict[str, Any] = {place: records[place](taken) if place in records else taken}
    with forgotten_operators(), pytest.raises(ValueError, match=f"two operators are called '{taken}' .{place}."):

        @operator(name="_twice", **facts)
        def _(data: Array) -> Array:
            return data


@pytest.mark.parametrize(
    "declared", [declared for declared in OPERATORS if declared.onnx], ids=lambda declared: declared.name
)
def test_nodes_of_onnx_exist(declared: Operator) -> None:
    onnx = pytest.importorskip("onnx")
    from phonograd.contrib.onnx import graph, mappings, model, readings

    del mappings, readings
    node = declared.onnx
    assert node is not None
    schema = onnx.defs.get_schema(node.name, graph.OPSET)
    assert set(node.attributes) <= set(schema.attributes)
    assert set(node.attributes.values()) <= set(declared.parameter_names)
    assert not node.writes or node.form in graph.FORMS
    assert not node.reads or node.form in model.FORMS


def test_families_with_a_color_have_operators() -> None:
    colored = {family for family in FAMILIES if families.color_of_family(family) != families.color_of_family("")}
    assert {family for members in families._FAMILIES.values() for family in members} == colored


def test_forms_beside_numbers() -> None:
    """An operator of two operands has a form for each place of a number: ``2 < x`` is ``x > 2``."""
    subtract, less = REGISTRY["broadcast_sub"], REGISTRY["broadcast_lesser"]
    assert {kind: form.name for kind, form in subtract.forms.items()} == {
        "equal_shapes": "elemwise_sub",
        "number_last": "_minus_scalar",
        "number_first": "_rminus_scalar",
    }
    assert less.forms["number_first"] is REGISTRY["_greater_scalar"]
    assert all(set(NAMES["with_scalars"][word].forms) == set(subtract.forms) for word in NAMES["with_scalars"])


# -- a new operator: one declaration


@pytest.fixture
def exp2() -> Iterator[Operator]:
    """Declare a function of elements that NumPy has."""
    with forgotten_operators():
        yield unary(
            "exp2",
            np.exp2,
            lambda g, y, x: g * (y * math.log(2)),
            "two to the power of the element",
            lambda e, x: vector_math.exp(e, e.multiply(x, e.like(x, math.log(2)))),
            numpy="exp2",
            npx="exp2",
            family="activation",
        )


@pytest.fixture
def softshrink() -> Iterator[Operator]:
    """Declare a function of elements that ONNX has, with parameters."""
    with forgotten_operators():

        @operator(onnx=Onnx("Shrink", {"lambd": "lambd", "bias": "lambd"}))
        def softshrink(data: Array, *, lambd: float = 0.5) -> Array:
            """Return the array moved towards zero by lambd, and zero where that would change its sign."""
            return (np.sign(data) * np.maximum(np.abs(data) - data.dtype.type(lambd), 0)).astype(data.dtype)

        @softshrink.gradient
        def softshrink_grad(out_grad: Node, out: Node, data: Node, *, lambd: float) -> Node:
            inside: Node = greater(abs_(data), lambd)
            return out_grad * inside

        yield softshrink


def test_a_new_function_of_numpy(exp2: Operator) -> None:
    x = mx.np.array([1.0, 3.0])
    x.attach_grad()
    with mx.autograd.record():
        y = mx.np.exp2(x)
    y.backward()
    assert isinstance(y, mx.np.ndarray)
    np.testing.assert_allclose(y.asnumpy(), [2, 8], rtol=1e-6)
    np.testing.assert_allclose(x.grad.asnumpy(), np.array([2, 8]) * math.log(2), rtol=1e-6)
    assert mx.np.exp2(3) == 8
    assert x.exp2().asnumpy().tolist() == y.asnumpy().tolist()
    assert isinstance(x.exp2(), mx.np.ndarray)
    assert mx.np.exp2(mx.np.array([True], dtype=bool)).dtype == np.int64
    assert isinstance(np.exp2(mx.nd.array([1.0])), mx.nd.NDArray)
    assert {"exp2"} <= set(dir(mx.np)) & set(dir(mx.npx)) & set(dir(mx.sym.np)) & set(dir(mx.sym.npx))
    assert mx.npx.exp2(x).asnumpy().tolist() == y.asnumpy().tolist()


def test_a_new_function_in_symbols(exp2: Operator) -> None:
    x = mx.sym.var("x").as_np_ndarray()
    symbol = mx.sym.np.exp2(x)
    assert operator_of("_npx_exp2") is exp2
    expression = operator_of("_npi_exp2")
    assert expression is not None
    assert name_of(expression) == "_npi_exp2"
    again = mx.sym.load_json(symbol.tojson())
    np.testing.assert_allclose(again.eval(x=mx.np.array([3.0]))[0].asnumpy(), [8], rtol=1e-6)
    assert families.color_of_operator("exp2") == families.color_of_operator("relu")


def test_a_new_operator_in_onnx(softshrink: Operator, tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    symbol = mx.sym.softshrink(mx.sym.var("x"), lambd=0.25)
    path = mx.onnx.export_model(symbol, {}, [(3,)], onnx_file_path=tmp_path / "model.onnx")
    assert "softshrink" in mx.onnx.get_operator_support()
    x = np.array([-2, 0.2, 1], np.float32)
    expected = [-1.75, 0, 0.75]
    assert runtime.InferenceSession(path).run(None, {"x": x})[0].tolist() == expected
    read, _, _ = mx.onnx.import_model(path)
    assert read.eval(x=mx.nd.array(x))[0].asnumpy().tolist() == expected
    model = onnx.load(path)
    bias = next(attribute for attribute in model.graph.node[0].attribute if attribute.name == "bias")
    bias.f = 0.5
    onnx.save(model, path)
    with pytest.raises(mx.MXNetError, match=r"Shrink .* has bias=0\.5 and lambd=0\.25, which cannot be imported"):
        mx.onnx.import_model(path)


@pytest.mark.parametrize("word", list(NAMES["with_scalars"]))
def test_forms_for_equal_shapes_are_written_to_onnx(word: str, tmp_path: Path) -> None:
    """``x ** y`` and ``sym.maximum(x, y)`` are written as their broadcasting forms are."""
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    form = NAMES["with_scalars"][word].forms["equal_shapes"].name
    symbol = getattr(mx.sym._internal, form)(mx.sym.var("x"), mx.sym.var("y"))
    path = mx.onnx.export_model(symbol, {}, [(4,), (4,)], onnx_file_path=tmp_path / "model.onnx")
    x, y = np.array([1, 2, 3, 0], np.float32), np.array([2, 2, 1, 3], np.float32)
    found = runtime.InferenceSession(path).run(None, {"x": x, "y": y})[0]
    expected = getattr(mx.nd, word)(mx.nd.array(x), mx.nd.array(y)).asnumpy()
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_a_name_in_numpy_is_for_functions_of_one_array() -> None:
    with forgotten_operators(), pytest.raises(ValueError, match="numpy= is for functions of one array"):

        @operator(name="_logaddexp2", numpy="logaddexp2")
        def _(lhs: Array, rhs: Array) -> Array:
            return np.logaddexp2(lhs, rhs)
