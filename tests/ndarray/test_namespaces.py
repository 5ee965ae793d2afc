"""The names of MXNet's array API: all there with the same arguments, or listed here as left out, with the reason."""

import importlib
import inspect
import json
import sys
from pathlib import Path

import pytest

import phonograd as mx
from phonograd import nd
from phonograd.core.graph.operator import REGISTRY

SURFACE = json.loads((Path(__file__).parent / "data" / "surface.json").read_text(encoding="utf-8"))
SPACES = {"nd": nd, "contrib": nd.contrib, "linalg": nd.linalg, "random": nd.random}

#: what is left out, by reason
LEFT_OUT = {
    "quantization": """
        quantize_asym quantized_rnn
    """,
    "sampling of graphs": """
        dgl_csr_neighbor_non_uniform_sample dgl_csr_neighbor_uniform_sample dgl_graph_compact
    """,
    "a penalty in a gradient that has no loss": "IdentityAttachKLSparseReg",
    "images": "imdecode",
    "gradients of operators, which are derived here": """
        backward_gradientmultiplier backward_hawkesll backward_index_copy backward_quadratic
    """,
    "helpers of MXNet's own Python code": """
        get_indexing_dispatch_code get_oshape_of_gather_nd_op indexing_key_expand_implicit_axes
        contrib.current_context contrib.uniform random.current_context
    """,
}
ABSENT = {name: reason for reason, names in LEFT_OUT.items() for name in names.split()}

#: arguments that differ: variadic functions say here what MXNet hides in **kwargs, and a few more
OTHER_ARGUMENTS = {
    "BatchNorm_v1": "takes the moving statistics that BatchNorm takes",
    "arange_like": "has no ctx: the result lives where the array does",
    "isfinite": "is an operator like all others",
    "isinf": "is an operator like all others",
    "isnan": "is an operator like all others",
    "cond": "takes a name, as in the symbol API",
    "foreach": "takes a name, as in the symbol API",
    "while_loop": "takes a name, as in the symbol API",
}

FUNCTIONS = [(space, name) for space in SPACES for name in SURFACE[space]]
COMPARABLE = [
    (space, name)
    for space, name in FUNCTIONS
    if hasattr(SPACES[space], name) and SURFACE[space][name] is not None and name not in OTHER_ARGUMENTS
]


@pytest.mark.parametrize("space, name", FUNCTIONS, ids=[".".join(pair) for pair in FUNCTIONS])
def test_function_is_there_or_left_out_for_a_reason(space, name):
    assert hasattr(SPACES[space], name) != (name in ABSENT or f"{space}.{name}" in ABSENT)


@pytest.mark.parametrize("space, name", COMPARABLE, ids=[".".join(pair) for pair in COMPARABLE])
def test_arguments_are_those_of_mxnet(space, name):
    theirs = SURFACE[space][name]
    ours = list(inspect.signature(getattr(SPACES[space], name)).parameters)
    if len(theirs) == 2 and theirs[1] == "kwargs":
        # a variadic function of MXNet hides its arguments
        assert ours[0] == theirs[0]
    else:
        # signatures here name everything that a call accepts
        assert [one for one in ours if one != "kwargs"] == [one for one in theirs if one != "kwargs"]


def test_lists_are_true():
    known = {name for space in SPACES for name in SURFACE[space]}
    assert {name.rpartition(".")[2] for name in ABSENT} <= known
    assert set(OTHER_ARGUMENTS) <= known


def test_methods_of_arrays():
    missing = [name for name in SURFACE["NDArray"] if not hasattr(nd.ones((1,)), name)]
    # there is no C library with handles
    assert missing == ["handle"]


@pytest.mark.parametrize(
    ("space", "name", "instead"),
    [
        (nd.contrib, "quantized_rnn", "float32"),
        (nd.contrib, "dgl_csr_neighbor_uniform_sample", "dgl_subgraph"),
        (nd.contrib, "backward_quadratic", "autograd.grad"),
        (nd, "IdentityAttachKLSparseReg", "to the loss"),
        (mx.sym.contrib, "quantize_asym", "float32"),
        (mx.sym, "IdentityAttachKLSparseReg", "to the loss"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_what_is_left_out_says_what_to_do(space, name, instead):
    with pytest.raises(AttributeError, match=instead):
        getattr(space, name)


class TestNamespaces:
    def test_names_are_listed_and_looked_up_once(self):
        for space in (nd, nd.contrib, nd.linalg, nd.op, nd._internal):
            names = [name for name in dir(space) if not name.startswith("__")]
            assert len(names) > 10
            for name in names:
                assert getattr(space, name) is getattr(space, name)

    def test_every_operator_is_reachable(self):
        for name in REGISTRY:
            space = nd._internal if name.startswith("_") else nd
            assert callable(getattr(space, name))

    def test_modules_can_be_imported(self):
        for name in ("contrib", "linalg", "op", "_internal", "random"):
            module = importlib.import_module(f"phonograd.ndarray.{name}")
            assert module is getattr(nd, name)
            assert module is sys.modules[f"phonograd.ndarray.{name}"]

    def test_functions_know_their_names(self):
        for function in (nd.exp, nd.concat, nd.add, nd.power, nd.FullyConnected, nd.contrib.arange_like):
            assert function.__doc__
            assert function.__module__ == "phonograd.ndarray"
        assert (nd.exp.__name__, nd.add.__name__, nd.NDArray.__sub__.__name__) == ("exp", "add", "__sub__")
        assert nd.NDArray.__rtruediv__.__name__ == "__rtruediv__"

    def test_where_mxnet_keeps_things(self):
        assert nd.ndarray.NDArray is nd.NDArray is mx.NDArray
        assert nd.utils.load is nd.load
        assert nd._DTYPE_NP_TO_MX[nd.ones(1).dtype] == 0
        assert nd._DTYPE_MX_TO_NP[4] == nd.ones(1, dtype="int32").dtype

    def test_scalar_forms(self):
        x = nd.array([2.0, 3.0])
        for name, expected in (
            ("_plus", [4, 5]),
            ("_rminus", [0, -1]),
            ("_rdiv", [1, 2 / 3]),
            ("_power", [4, 9]),
            ("_rpower", [4, 8]),
        ):
            found = getattr(nd._internal, f"{name}_scalar")(x, scalar=2)
            assert found.asnumpy() == pytest.approx(expected)
            assert getattr(nd._internal, f"{name}_scalar")(x, 2).asnumpy() == pytest.approx(expected)
        assert (
            nd._internal._PlusScalar(nd.array([1, 0], dtype="bool"), scalar=1).dtype == nd.ones(1, dtype="int64").dtype
        )


def test_namespaces_list_their_functions():
    for space in (nd.contrib, mx.sym.contrib):
        assert {"box_nms", "foreach", "AdaptiveAvgPooling2D"} <= set(space.__all__) <= set(dir(space))
