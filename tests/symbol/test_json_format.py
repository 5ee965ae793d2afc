"""Files of symbols: what is written is read again, and what is damaged is refused with a reason."""

import copy
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import phonograd as mx
from phonograd import nd, sym
from phonograd.core.base.errors import MXNetError

from . import networks, older
from .calls import RECORDED

GRAPH = json.loads((RECORDED / "theirs" / "convolutional-symbol.json").read_text(encoding="utf-8"))
LOOP = json.loads((RECORDED / "theirs" / "loops-symbol.json").read_text(encoding="utf-8"))


NOW = {"mxnet_version": ["int", 10901]}


def node(op="null", name="x", inputs=(), **more):
    return {"op": op, "name": name, "inputs": [list(source) for source in inputs], **more}


def graph(*nodes, heads=((0, 0, 0),), **more):
    return json.dumps({"nodes": list(nodes), "arg_nodes": [], "heads": [list(head) for head in heads], **more})


def test_round_trip(tmp_path):
    for name, make in networks.NETWORKS.items():
        symbol = make(mx)
        path = tmp_path / f"{name}-symbol.json"
        symbol.save(str(path))
        again = mx.sym.load(str(path))
        assert again.tojson() == symbol.tojson()
        assert again.list_outputs() == symbol.list_outputs()
        assert mx.sym.load(path).attr_dict() == symbol.attr_dict()


def test_old_files():
    """Before 1.0 parameters and attributes stood apart, and auxiliary states were not listed."""
    old = graph(
        node(name="data"),
        node(name="bn_gamma"),
        node(name="bn_beta"),
        node("BatchNorm", "bn", [(0, 0), (1, 0), (2, 0)], param={"eps": "0.1"}, attr={"lr_mult": "2"}),
        heads=[(3, 0)],
    )
    symbol = sym.load_json(old)
    assert symbol.list_auxiliary_states() == ["bn_moving_mean", "bn_moving_var"]
    assert symbol.attr("lr_mult") == "2"
    assert symbol.infer_shape(data=(2, 3)) == ([(2, 3), (3,), (3,)], [(2, 3)], [(3,), (3,)])


@pytest.mark.parametrize("name", older.OLDER)
def test_files_of_older_versions(name):
    """They are brought up to date as MXNet does it."""
    recorded = json.loads((RECORDED / "older.json").read_text(encoding="utf-8"))
    assert json.loads(json.dumps(older.facts(mx, name))) == recorded[name]


def test_a_factor_for_nothing():
    old = graph(node(), node("relu", "r", [(0, 0)], attr={"weight_lr_mult": "2"}), heads=[(1, 0)])
    with pytest.raises(MXNetError, match="has the attribute 'weight_lr_mult', but relu has no input 'weight'"):
        sym.load_json(old)


def test_casts_of_mixed_precision_are_left_out():
    x = sym.var("x")
    net = sym.relu(sym.amp_cast(x, dtype="float16"), name="r")
    assert [n["op"] for n in json.loads(net.tojson())["nodes"]] == ["null", "relu"]
    assert [n["op"] for n in json.loads(net.tojson(remove_amp_cast=False))["nodes"]] == ["null", "amp_cast", "relu"]
    assert len(net.get_internals()) == 3, "the symbol itself keeps them"


@pytest.mark.parametrize(
    "text, message",
    [
        ("", "not a symbol file"),
        ("{", "not a symbol file"),
        ("[" * 100_000, "not a symbol file"),
        ("3", "is int, not an object"),
        ("[]", "is list, not an object"),
        ("{}", 'has no list "nodes"'),
        ('{"nodes": []}', 'has no list "heads"'),
        (graph(), "refers to node 0, which does not come before it"),
        (graph(node(), heads=[]), "has no outputs"),
        (graph(3), "node 0 of the graph is int"),
        (graph({"op": "null"}), 'has no strings "op" and "name"'),
        (graph(node(inputs=[(0, 0)])), "refers to node 0, which does not come before it: a graph has no cycles"),
        (graph(node(), node("relu", "r", [(1, 0)])), "a graph has no cycles"),
        (graph(node(), node("relu", "r", [(-1, 0)])), "refers to node -1"),
        (graph(node(), node("relu", "r", [(0, 1)])), "refers to output 1 of 'x', which has 1"),
        (graph(node(), node("relu", "r", [(0,)])), "not a pair of a node and an output"),
        (graph(node(), node("relu", "r", [(0, "0")])), "not a pair of a node and an output"),
        (graph(node(), node("relu", "r", [(True, 0)])), "not a pair of a node and an output"),
        (graph(node(), {"op": "relu", "name": "r", "inputs": 3}), 'has no list "inputs"'),
        (graph(node(), node("relu", "r"), attrs=NOW), "has 0 inputs, but relu takes 1: data"),
        (graph(node(), node(name="y", inputs=[(0, 0)])), "is an argument but has inputs"),
        (graph(node(attrs=3)), 'has "attrs" that is not an object of strings'),
        (graph(node(attrs={"a": 3})), 'has "attrs" that is not an object of strings'),
        (
            graph(node(), node("nope", "r", [(0, 0)])),
            "Failed loading Op r of type nope: Operator nope is not registered",
        ),
        (graph(node(), node("rel", "r", [(0, 0)])), "did you mean 'relu'"),
        (graph(node(), node("_leaf", "r", [(0, 0)])), "Operator _leaf is not registered"),
        (graph(node(), node("_copyto", "r", [(0, 0)], attrs={"context": "x"})), None),
        (graph(node(), node("FullyConnected", "r", [(0, 0)])), "Required parameter num_hidden"),
        (
            graph(node(), node("Reshape", "r", [(0, 0)], attrs={"shape": "import os"})),
            "Invalid Parameter format for shape",
        ),
        (graph(node(), node("relu", "r", [(0, 0)], subgraphs=3)), "has subgraphs that are not a list"),
        (graph(node(), node("_foreach", "r", [(0, 0)])), "_foreach needs 1 inner graphs, but has 0"),
        (graph(node(), node("Concat", "r", [(0, 0)], attrs={"num_args": "x"})), "'x' is not a number of inputs"),
        (
            graph(node(), node("Concat", "r", [(0, 0)], attrs={"num_args": "2"}), attrs=NOW),
            "has 1 inputs, but Concat takes 2",
        ),
        (
            graph(node(), node("Concat", "r", [(0, 0)], attrs={"num_args": "9" * 30})),
            "the number of inputs must be between 0 and 100000, not 999",
        ),
        (
            graph(node(), node("split", "r", [(0, 0)], attrs={"num_outputs": "9" * 30})),
            "the number of outputs must be between 0 and 100000, not 999",
        ),
        (
            graph(node(), node("split", "r", [(0, 0)], attrs={"num_outputs": "-1"})),
            "the number of outputs must be between 0 and 100000, not -1",
        ),
        (graph(node(), node("Custom", "r", [(0, 0)])), "Required parameter op_type"),
        (graph(node(), node("Custom", "r", [(0, 0)], attrs={"op_type": "nope"})), "Cannot find custom operator nope"),
    ],
)
def test_damaged_files(text, message):
    if message is None:
        assert sym.load_json(text).list_arguments() == ["x"]
        return
    with pytest.raises(MXNetError, match=None) as error:
        sym.load_json(text)
    assert message in str(error.value)


def test_no_file(tmp_path):
    with pytest.raises(MXNetError, match=r'Open ".*nope.json": No such file or directory'):
        sym.load(str(tmp_path / "nope.json"))
    with pytest.raises(MXNetError, match=r'Open ".*nowhere.x.json": No such file or directory'):
        sym.var("x").save(tmp_path / "nowhere" / "x.json")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(MXNetError, match="is not a symbol file"):
        sym.load(str(tmp_path / "binary"))
    for wrong in (3, None):
        with pytest.raises(TypeError, match="fname need to be string"):
            sym.load(wrong)
        with pytest.raises(TypeError, match="json_str must be a string"):
            sym.load_json(wrong)
        with pytest.raises(TypeError, match="fname must be a string"):
            sym.var("x").save(wrong)


def test_graphs_nested_too_deep():
    inner = json.loads(graph(node()))
    for _ in range(40):
        inner = json.loads(graph(node(), node("_foreach", "f", [(0, 0)], subgraphs=[inner])))
    with pytest.raises(MXNetError, match="is nested more than 32 graphs deep"):
        sym.load_json(json.dumps(inner))


def test_truncated_files():
    text = json.dumps(GRAPH)
    for end in range(0, len(text) - 1, 97):
        with pytest.raises(MXNetError, match=r"not a symbol file|damaged|Failed loading"):
            sym.load_json(text[:end])


def places(value, path=()):
    """Return the path to everything inside of a JSON value."""
    found = [path] if path else []
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        found += places(item, (*path, key))
    return found


JUNK = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 50), st.just(10**30), st.floats(), st.text(max_size=5), st.just([]),
    st.just({}), st.just([[0, 0, 0]]), st.just("(0, 0)"), st.just("-1"), st.just("null"), st.just("BatchNorm"),
)  # fmt: skip


@pytest.mark.parametrize("whole", [GRAPH, LOOP], ids=["layers", "loop"])
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_hostile_files(whole, data):
    """Whatever stands in a file, it is read or refused with an MXNetError, and what is read can be written."""
    changed = copy.deepcopy(whole)
    for _ in range(data.draw(st.integers(1, 3))):
        *path, last = data.draw(st.sampled_from(places(changed)))
        inside = changed
        for key in path:
            inside = inside[key]
        if data.draw(st.booleans()):
            inside[last] = copy.deepcopy(data.draw(JUNK))
        else:
            del inside[last]
    try:
        symbol = sym.load_json(json.dumps(changed))
    except MXNetError:
        return
    assert sym.load_json(symbol.tojson()).list_outputs() == symbol.list_outputs()


def test_a_very_deep_graph():
    x = sym.var("x")
    for _ in range(5000):
        x = x + 1
    again = sym.load_json(x.tojson())
    assert again.eval(x=nd.zeros((1,)))[0].asscalar() == 5000
    assert again.infer_shape(x=(2,))[1] == [(2,)]
    assert again(x=sym.var("y")).list_arguments() == ["y"]
