"""The library, installed as ``mxnet``, has the modules, names, attributes and signatures of MXNet 1.9.1.

``record.py`` recorded them from real MXNet; ``exceptions.py`` lists what is missing, with a reason each.
"""

import fnmatch
import importlib
import json
import os
import pydoc
import subprocess
import sys
from pathlib import Path

import pytest

from phonograd import compat
from tests.surface import compare
from tests.surface.exceptions import ATTRIBUTES, MODULES_ABSENT, NAMES, SIGNATURES


@pytest.fixture(scope="module", autouse=True)
def mxnet():
    yield compat.install_as_mxnet()
    compare.import_or_none.cache_clear()
    compat.uninstall()


CHECKS = {
    "modules": (lambda: list(compare.missing_modules()), MODULES_ABSENT),
    "names": (lambda: list(compare.missing_names()), NAMES),
    "attributes": (lambda: list(compare.missing_attributes()), ATTRIBUTES),
    "signatures": (lambda: differing_signatures(), SIGNATURES),
}


def differing_signatures():
    """Return the places where signatures differ, in a process whose operator calls are not machine code."""
    script = (
        "import json; from phonograd import compat; compat.install_as_mxnet(); from tests.surface import compare; "
        "print(json.dumps([place for place, _, _ in compare.differing_signatures()]))"
    )
    command = [sys.executable, "-W", "ignore", "-c", script]
    root = str(Path(__file__).parents[2])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])}
    found = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, cwd=root)
    return json.loads(found.stdout.splitlines()[-1])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", CHECKS)
def test_nothing_is_missing_without_a_reason(kind):
    find, table = CHECKS[kind]
    missing = find()
    assert [what for what in missing if compare.reason_for(table, what) is None] == []
    patterns = [pattern for patterns in table for pattern in patterns.split()]
    unused = [pattern for pattern in patterns if not fnmatch.filter(missing, pattern)]
    assert unused == [], "these are here now: remove them from exceptions.py"


def test_the_comparison_finds_differences():
    assert compare.accepts("a, b=1, *, c=2", "a, b=1")
    assert compare.accepts("a, b=1, **kwargs", "a, b=1, c=3, **kwargs")
    assert not compare.accepts("a, b=2", "a, b=1")
    assert not compare.accepts("b=1, a=0", "a=0, b=1")
    assert not compare.accepts("a", "a, b=1")
    assert compare.split_arguments("a=(1, 2), b=', '") == ["a=(1, 2)", " b=', '"]


def test_functions_are_found_by_their_path():
    assert pydoc.locate("mxnet.nd.array") is sys.modules["phonograd"].nd.array
    assert pydoc.locate("mxnet.ndarray.array") is sys.modules["phonograd"].nd.array
    with pytest.raises(ModuleNotFoundError) as caught:
        importlib.import_module("mxnet.nd.array")
    assert caught.value.name == "mxnet.nd.array"


def test_names_that_modules_import_are_there(mxnet):
    import collections
    from multiprocessing.reduction import ForkingPickler

    assert mxnet.metric.ndarray is mxnet.nd
    assert mxnet.gluon.data.dataloader.ForkingPickler is ForkingPickler
    assert mxnet.gluon.block.OrderedDict is collections.OrderedDict
    assert "OrderedDict" in dir(mxnet.gluon.block)
    assert mxnet.image.image._get_interp_method(2) == 2
    assert mxnet.executor_manager._split_input_slice(4, [1, 1]) == [slice(0, 2), slice(2, 4)]
    assert importlib.import_module("mxnet.ndarray.ndarray")._STORAGE_TYPE_STR_TO_ID["csr"] == 2
