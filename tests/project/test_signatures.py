"""The smaller modules take the same arguments, in the same order and with the same defaults, as MXNet's."""

import importlib
import inspect
import json
from pathlib import Path

import pytest

RECORDED = json.loads(
    (Path(__file__).resolve().parents[1] / "data" / "signatures" / "signatures.json").read_text(encoding="utf-8")
)

#: modules of MXNet by the module that has their functions here
PLACES = {module: module for module in RECORDED} | {"ndarray.utils": "ndarray"}

#: functions that MXNet has and this library has not, by module: the C library, and wrappers of its operators
ABSENT = {
    "util": "np_ufunc_legal_option wrap_np_binary_func wrap_np_unary_func",
    "base": """add_fileline_to_docstring build_param_doc c2pyerror c_array c_array_buf c_handle_array c_str c_str_array
        check_call ctypes2buffer ctypes2numpy_shared get_last_ffi_error""",
}

FUNCTIONS = [
    (module, name)
    for module, functions in RECORDED.items()
    for name in functions
    if name not in ABSENT.get(module, "").split() and not name.startswith("_")
]


def test_the_list_of_absent_functions_is_true():
    present = [
        f"{module}.{name}"
        for module, names in ABSENT.items()
        for name in names.split()
        if hasattr(importlib.import_module(f"phonograd.{PLACES[module]}"), name) or name not in RECORDED[module]
    ]
    assert present == []


@pytest.mark.parametrize(("module", "name"), FUNCTIONS, ids=[".".join(pair) for pair in FUNCTIONS])
def test_arguments_are_those_of_mxnet(module, name):
    found = importlib.import_module(f"phonograd.{PLACES[module]}")
    for part in name.split("."):
        found = getattr(found, part)
    ours = list(inspect.signature(found).parameters.values())
    theirs = RECORDED[module][name]
    for parameter, (wanted, kind, default) in zip(ours, theirs):
        assert (parameter.name, parameter.kind.name) == (wanted, kind)
        assert (None if parameter.default is parameter.empty else repr(parameter.default)) == default
    more = ours[len(theirs) :]
    assert len(ours) >= len(theirs)
    assert all(parameter.kind is parameter.KEYWORD_ONLY for parameter in more), "more arguments must be keywords"
