"""Files as older versions of MXNet wrote them, and what MXNet 1.9.1 makes of them."""

from __future__ import annotations

import json
from typing import Any


def node(op: str, name: str, inputs: tuple[int, ...] = (), **fields: Any) -> dict[str, Any]:
    """Return a node; inputs are first outputs, by number."""
    return {"op": op, "name": name, "inputs": [[number, 0] for number in inputs], "backward_source_id": -1, **fields}


def arguments(*names: str) -> list[dict[str, Any]]:
    """Return the nodes of arguments."""
    return [node("null", name, param={}) for name in names]


def graph(*nodes: dict[str, Any], version: int | None = None) -> dict[str, Any]:
    """Return a graph whose output is the last node."""
    places = [number for number, made in enumerate(nodes) if made["op"] == "null"]
    whole: dict[str, Any] = {"nodes": list(nodes), "arg_nodes": places, "heads": [[len(nodes) - 1, 0]]}
    if version is not None:
        whole["attrs"] = {"mxnet_version": ["int", version]}
    return whole


def _factors(version: int | None, field: str) -> dict[str, Any]:
    """Return a layer that has attributes for its weight."""
    given = {"ctx_group": "one", "num_hidden": "3", "weight_lr_mult": "0.1", "data_wd_mult": "0.2", "lr_mult": "7"}
    return graph(
        node("null", "data", attr={"ctx_group": "one", "lr_mult": "0.2"}),
        node("null", "w", attr={"wd_mult": "0.3", "lr_mult": "0.5"}),
        node("null", "b", attr={"__mine__": "1", "force_mirroring": "x", "other": "y"}),
        node("FullyConnected", "fc", (0, 1, 2), **{field: given}),
        version=version,
    )


def _without_inputs() -> dict[str, Any]:
    """Return layers whose parameters are not listed."""
    return graph(
        *arguments("data"),
        node("FullyConnected", "fc", (0,), param={"num_hidden": "3"}),
        node("BatchNorm", "bn", (1,), param={"eps": "0.001", "fix_gamma": "True"}),
        node("LeakyReLU", "slope", (2,), param={"act_type": "prelu"}),
        node("_CrossDeviceCopy", "moved", (3,), param={}),
        node("SoftmaxOutput", "softmax", (4,), param={"grad_scale": "1", "multi_output": "False"}),
    )


def _axis(operator: str, version: int | None, axis: str) -> dict[str, Any]:
    return graph(*arguments("data"), node(operator, "r", (0,), attr={"axis": axis}), version=version)


def _renamed(operator: str, count: int, **attributes: str) -> dict[str, Any]:
    names = [f"x{number}" for number in range(count)]
    return graph(*arguments(*names), node(operator, "r", tuple(range(count)), param=attributes))


OLDER: dict[str, dict[str, Any]] = {
    **{f"factors, version {version}, {field}": _factors(version, field)
       for version in (None, 800, 904, 905, 10000) for field in ("attr", "attrs", "param")},
    "parameters that are not listed": _without_inputs(),
    **{f"{operator} of axis {axis}, version {version}": _axis(operator, version, axis)
       for operator in ("argmax", "argmin", "sum") for version in (None, 904, 905, 10000) for axis in ("-1", "1")},
    **{f"{operator} of two": _renamed(operator, 2)
       for operator in ("_Plus", "_Minus", "_Mul", "_Div", "_Power", "_Maximum", "_Minimum", "_Equal", "_Greater",
                        "_add", "_sub", "_plus", "_minus", "_mul", "_div", "Softmax")},
    **{f"{operator} of one": _renamed(operator, 1, scalar="2")
       for operator in ("_PlusScalar", "_MinusScalar", "_RMinusScalar", "_MulScalar", "_DivScalar", "_RDivScalar",
                        "_PowerScalar", "_RPowerScalar", "_MaximumScalar", "_GreaterScalar")},
    "ElementWiseSum": _renamed("ElementWiseSum", 3, num_args="3"),
    "Reshape by target_shape": _renamed("Reshape", 1, target_shape="(0, 6)"),
}  # fmt: skip


def facts(mx: Any, name: str) -> dict[str, Any]:
    """Return what a library reads: operators, names, attributes and inputs, and shapes."""
    symbol = mx.sym.load_json(json.dumps(OLDER[name]))
    nodes = json.loads(symbol.tojson())["nodes"]
    shapes = {argument: (2, 3) for argument in symbol.list_arguments() if argument == "data" or argument[1:].isdigit()}
    return {
        "nodes": [[n["op"], n["name"], n.get("attrs", {}), [source[:2] for source in n["inputs"]]] for n in nodes],
        "auxiliary": symbol.list_auxiliary_states(),
        "shapes": [[list(shape) for shape in part] for part in symbol.infer_shape_partial(**shapes)],
    }
