"""Symbols are what MXNet's are: names, files, shapes, dtypes and values, recorded from MXNet 1.9.1 by ``record.py``."""

import gzip
import json
from collections import Counter

import numpy as np
import pytest

import phonograd as mx
from phonograd.core.graph.operator import REGISTRY

from . import calls, networks, programs, write
from .calls import RECORDED, Call

CALLS = json.loads(gzip.decompress((RECORDED / "calls.json.gz").read_bytes()))
NETWORKS = json.loads((RECORDED / "networks.json").read_text(encoding="utf-8"))

#: what differs, by function and part of the outcome, and why
WAIVERS = {
    ("Dropout", "error"): "MXNet checks the range of p when the symbol is made, here it is checked when it is computed",
    ("Pooling", "error"): "MXNet demands a kernel when the symbol is made",
    ("Pooling", "rows"): "MXNet counts a hidden output that depends on the library it was built with",
    ("contrib.isnan", "error"): "MXNet has it for arrays only",
    ("contrib.isinf", "error"): "MXNet has it for arrays only",
    ("contrib.isfinite", "error"): "MXNet has it for arrays only",
    ("contrib.boolean_mask", "error"): "the shape of its output depends on values",
    ("fill_element_0index", "error"): "MXNet names its inputs inconsistently",
    ("multi_sum_sq", "types"): "dtypes are not filled in",
    ("where", "types"): "two dtypes that differ are an error when it is computed",
    ("SoftmaxOutput", "shapes"): "MXNet infers a label that it then refuses",
}

#: values that MXNet computes wrongly: central differences of its own outputs say so
WRONG_VALUES = {
    "convolutional/gradient/prelu0_gamma": "the gradient of prelu behind BatchNorm reads what was overwritten",
}


def differences(call: Call, position: int, expected: dict) -> list[str]:
    """Return which parts of an outcome are not as MXNet's."""
    inputs = len(call.inputs) if position == 0 else 1
    found = json.loads(json.dumps(calls.outcome(call, mx, inputs)))
    if "error" in expected or "error" in found:
        return ["error"] if expected.get("error") != found.get("error") else []
    parts = set(expected) - {"inference"}
    if "inference" in expected or "inference" in found:
        # one of the two refuses what the other one does not look at until it is computed
        parts -= {"shapes", "types", "inference"}
    return sorted([part for part in parts if expected[part] != found[part]])


#: all calls by the name of the operator, made once
BY_NAME = {}
for _call in calls.calls():
    BY_NAME.setdefault(_call.name, []).append(_call)


@pytest.mark.parametrize("name", sorted(BY_NAME))
def test_calls(name):
    wrong = []
    for call in BY_NAME[name]:
        for position, expected in enumerate(CALLS.get(call.key, ())):
            parts = [part for part in differences(call, position, expected) if (name, part) not in WAIVERS]
            wrong += [f"{call.key} ({'all inputs' if position == 0 else 'first input'}): {parts}"] * bool(parts)
    assert not wrong, "\n".join(wrong)


def test_every_waiver_is_needed():
    found = set()
    for name in {name for name, _ in WAIVERS}:
        for call in BY_NAME[name]:
            for position, expected in enumerate(CALLS.get(call.key, ())):
                found |= {(name, part) for part in differences(call, position, expected)}
    assert set(WAIVERS) <= found


@pytest.fixture
def fresh_numbers(monkeypatch):
    """Let the graphs inside of loops be numbered as in a new process."""
    monkeypatch.setattr(mx.symbol.control, "_numbers", Counter())


@pytest.mark.usefixtures("fresh_numbers")
@pytest.mark.parametrize("name", networks.NETWORKS)
class TestNetworks:
    def test_what_they_say(self, name):
        expected = dict(NETWORKS[name])
        found = json.loads(json.dumps(networks.facts(mx, name)))
        found.pop("json")
        if name == "conditions":
            expected.pop("shapes"), found.pop("shapes")
            expected.pop("types"), found.pop("types")
        assert found == expected

    def test_the_file_is_the_same_to_the_letter(self, name):
        expected = (RECORDED / "theirs" / f"{name}-symbol.json").read_text(encoding="utf-8")
        assert networks.facts(mx, name)["json"] == expected

    def test_files_of_mxnet_are_read(self, name):
        path = RECORDED / "theirs" / f"{name}-symbol.json"
        symbol = mx.sym.load(str(path))
        assert symbol.tojson() == path.read_text(encoding="utf-8")
        assert symbol.list_arguments() == NETWORKS[name]["arguments"]
        assert symbol.list_auxiliary_states() == NETWORKS[name]["states"]
        assert symbol.list_outputs() == NETWORKS[name]["outputs"]

    def test_values(self, name):
        symbol = mx.sym.load(str(RECORDED / "theirs" / f"{name}-symbol.json"))
        found = networks.computed(mx, name, symbol)
        with np.load(RECORDED / "networks.npz") as recorded:
            for key, value in found.items():
                if f"{name}/{key}" in WRONG_VALUES:
                    continue
                np.testing.assert_allclose(value, recorded[f"{name}/{key}"], rtol=2e-4, atol=2e-5, err_msg=key)


#: records that are written otherwise, and why
OTHERWISE = {
    "clipped": "MXNet records a conversion as a copy, which loses the dtype",
    "indexing": "MXNet adds a reshape that changes nothing after a slice of several axes",
    "parts": "MXNet adds a reshape that changes nothing after a slice of several axes",
}


@pytest.mark.parametrize("program", [program for program in programs.PROGRAMS if program not in OTHERWISE])
def test_records_are_those_of_mxnet(program):
    expected = json.loads((RECORDED / "programs.json").read_text(encoding="utf-8"))[program]
    found = json.loads(json.dumps(programs.record_of(mx, program)))
    assert [(kind, name, inputs) for kind, name, _, inputs in found] == [(k, n, i) for k, n, _, i in expected]
    for (_, name, ours, _), (_, _, theirs, _) in zip(found, expected, strict=True):
        if name != "null":
            # attributes that the user gave although they are defaults are not written here
            declared = REGISTRY[name]
            read = [{key: text for key, text in given.items() if key != "num_args"} for given in (ours, theirs)]
            assert declared.attributes_of(read[0]) == declared.attributes_of(read[1])


@pytest.mark.parametrize("program", [*programs.PROGRAMS, *programs.GRADIENTS])
class TestFilesWrittenHere:
    def test_they_are_still_written_so(self, program):
        stored = (RECORDED / "ours" / f"{program}.json").read_text(encoding="utf-8")
        if program in programs.PROGRAMS:
            assert write.text_of(program) == stored
        else:
            # a derivative may be written in another way; it needs the same arguments
            symbols = [mx.sym.load_json(text) for text in (stored, write.text_of(program))]
            assert symbols[0].list_arguments() == symbols[1].list_arguments()
            given = programs.feed(mx, symbols[0].list_arguments(), program)
            found = [symbol.eval(**given)[0].asnumpy() for symbol in symbols]
            np.testing.assert_allclose(found[0], found[1], rtol=1e-5, atol=1e-6)

    def test_mxnet_computes_the_same(self, program):
        symbol = mx.sym.load(str(RECORDED / "ours" / f"{program}.json"))
        outputs = symbol.eval(**programs.feed(mx, symbol.list_arguments(), program))
        with np.load(RECORDED / "ours.npz") as recorded:
            for index, output in enumerate(outputs):
                np.testing.assert_allclose(output.asnumpy(), recorded[f"{program}/{index}"], rtol=1e-5, atol=1e-6)
