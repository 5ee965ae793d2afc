"""The dictionaries of namespaces contain their operators."""

import subprocess
import sys

import phonograd as mx
from phonograd.core.base.modules import CompleteModule, stored_names


def test_dictionaries_contain_all_names():
    for module in (mx.nd, mx.sym, mx.np, mx.npx, mx.nd.contrib, mx.sym.contrib, mx.nd.linalg, mx.nd.sparse, mx.sym.np):
        assert isinstance(module, CompleteModule)
        assert set(dir(module)) <= set(vars(module)), module.__name__
        assert vars(module) is stored_names(module)
    assert "box_decode" in mx.nd.contrib.__dict__
    assert mx.nd.contrib.__dict__["box_decode"] is mx.nd.contrib.box_decode


def test_modules_of_mxnet_have_complete_dictionaries():
    program = (
        "import phonograd; phonograd.install_as_mxnet(); import mxnet as mx;"
        "assert 'box_decode' in mx.sym.contrib.__dict__; import mxnet.ndarray.gen_contrib as made;"
        "assert 'box_decode' in vars(made); assert 'NDArray' in vars(mx.nd.ndarray)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_importing_completes_nothing():
    program = (
        "import phonograd as mx; from phonograd.core.base.modules import stored_names;"
        "mx.install_as_mxnet(); import mxnet.ndarray.contrib;"
        "assert 'box_decode' not in stored_names(mx.nd.contrib); assert 'arcsinh' not in stored_names(mx.nd)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_calls_become_machine_code_without_completing_modules() -> None:
    program = """
from phonograd import nd, settings
from phonograd.core.base.modules import stored_names
settings.update(tiers="blocking")
x = nd.ones((2, 2))
for _ in range(20):
    nd.tanh(x).wait_to_read()
names = [name for name in stored_names(nd) if not name.startswith("_")]
assert "arctanh" not in names and "tanh" in names, names
"""
    subprocess.run([sys.executable, "-c", program], check=True)
