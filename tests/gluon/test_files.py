"""Files of parameters and trainers are those of MXNet 1.9.1, in both directions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import phonograd as mx
from phonograd import gluon
from phonograd.gluon import nn

from . import programs

FOLDER = Path(__file__).parent / "recorded"
RECORDED = json.loads((FOLDER / "files.json").read_text(encoding="utf-8"))


def numbers(block: gluon.Block) -> dict[str, Any]:
    return {name: programs.values(parameter.data()) for name, parameter in block.collect_params().items()}


def blank() -> Any:
    """Return the network of the files without its values."""
    net = programs.saved_net(mx)
    net.initialize(mx.init.Constant(7), force_reinit=True)
    return net


@pytest.mark.parametrize("name", ["paths", "once", "names", "stripped"])
def test_the_same_bytes_are_written(tmp_path: Path, name: str) -> None:
    programs.save_files(mx, tmp_path)
    assert (tmp_path / f"{name}.params").read_bytes() == (FOLDER / f"{name}.params").read_bytes()


@pytest.mark.parametrize("name", ["paths", "once", "stripped"])
def test_load_parameters(name: str) -> None:
    net = blank()
    net.load_parameters(str(FOLDER / f"{name}.params"))
    assert numbers(net) == RECORDED["params"]


def test_load_by_names() -> None:
    net = blank()
    net.collect_params().load(str(FOLDER / "names.params"))
    assert numbers(net) == RECORDED["params"]
    other = blank()
    other.collect_params().load(str(FOLDER / "stripped.params"), restore_prefix="saved_")
    assert numbers(other) == RECORDED["params"]


@pytest.mark.parametrize("wrong", ["shape", "rank", "dtype", "extra"])
@pytest.mark.parametrize("by_names", [False, True])
def test_a_file_that_does_not_fit_changes_nothing(wrong: str, by_names: bool, tmp_path: Path) -> None:
    net = blank()
    before, path = numbers(net), str(tmp_path / "wrong.params")
    (net.collect_params().save if by_names else net.save_parameters)(path)
    arrays = {name: array + 1 for name, array in mx.nd.load(path).items()}
    last = list(arrays)[-1]
    arrays[last] = {
        "shape": arrays[last].reshape((-1,)).repeat(2),
        "rank": arrays[last].expand_dims(0),
        "dtype": arrays[last].astype("float64"),
        "extra": arrays[last],
    }[wrong]
    if wrong == "extra":
        arrays["other.weight"] = mx.nd.ones((2,))
    mx.nd.save(path, arrays)
    with pytest.raises((AssertionError, ValueError), match=r"wrong\.params"):
        (net.collect_params().load if by_names else net.load_parameters)(path)
    assert numbers(net) == before


def test_load_without_initializing() -> None:
    net = nn.HybridSequential()
    net.add(nn.Conv2D(2, 3), nn.BatchNorm(), nn.Dense(3), nn.Dense(3))
    net.load_parameters(str(FOLDER / "paths.params"), ctx=mx.cpu(1))
    assert net[0].weight.shape == (2, 1, 3, 3)
    assert net[0].weight.list_ctx() == [mx.cpu(1)]
    assert net[0].weight.grad().shape == (2, 1, 3, 3)


def test_missing_and_extra_parameters(tmp_path: Path) -> None:
    small, large = nn.HybridSequential(), nn.HybridSequential()
    small.add(nn.Dense(2, in_units=3))
    large.add(nn.Dense(2, in_units=3), nn.Dense(2, in_units=2))
    for net in (small, large):
        net.initialize()
    small.save_parameters(str(tmp_path / "small.params"))
    large.save_parameters(str(tmp_path / "large.params"))
    with pytest.raises(AssertionError, match=r"Parameter '1\.weight' is missing in file"):
        large.load_parameters(str(tmp_path / "small.params"))
    with pytest.raises(ValueError, match=r"Parameter '1\.weight' loaded from file"):
        small.load_parameters(str(tmp_path / "large.params"))
    small.load_parameters(str(tmp_path / "small.params"))
    large.load_parameters(str(tmp_path / "small.params"), allow_missing=True)
    assert np.array_equal(small[0].weight.data().asnumpy(), large[0].weight.data().asnumpy())
    small.initialize("zeros", force_reinit=True)
    large.save_parameters(str(tmp_path / "large.params"))
    small.load_parameters(str(tmp_path / "large.params"), ignore_extra=True)
    assert np.array_equal(small[0].weight.data().asnumpy(), large[0].weight.data().asnumpy())


def test_dtypes(tmp_path: Path) -> None:
    path = str(tmp_path / "half.params")
    net = nn.Dense(2, in_units=3)
    net.initialize()
    net.cast("float16")
    net.save_parameters(path)
    other = nn.Dense(2, in_units=3)
    other.initialize()
    with pytest.raises(AssertionError, match="Set cast_dtype=True"):
        other.load_parameters(path, allow_missing=True, ignore_extra=True)
    same = nn.Dense(2, in_units=3, prefix=net.prefix)
    same.initialize()
    same.load_parameters(path, cast_dtype=True)
    assert same.weight.data().dtype == np.float32
    same.load_parameters(path, cast_dtype=True, dtype_source="saved")
    assert same.weight.data().dtype == np.float16
    assert np.array_equal(same.weight.data().asnumpy(), net.weight.data().asnumpy())


def test_shapes_must_fit(tmp_path: Path) -> None:
    path = str(tmp_path / "dense.params")
    net, other = nn.Dense(2, in_units=3, prefix="a_"), nn.Dense(2, in_units=4, prefix="a_")
    net.initialize()
    other.initialize()
    net.save_parameters(path)
    with pytest.raises(AssertionError, match="shape incompatible"):
        other.load_parameters(path)


def test_prefix_must_fit(tmp_path: Path) -> None:
    net = nn.Dense(2, in_units=3)
    net.initialize()
    with pytest.raises(ValueError, match="is to be striped before saving"):
        net.collect_params().save(str(tmp_path / "x.params"), strip_prefix="other_")
    with pytest.raises(AssertionError, match="restore_prefix is"):
        net.collect_params().load(str(tmp_path / "x.params"), restore_prefix="other_")


def test_files_of_blocks_without_parameters(tmp_path: Path) -> None:
    block = nn.HybridSequential()
    block.add(nn.Activation("tanh"))
    block.hybridize()
    x = mx.nd.array([0.5, -2.0])
    expected = block(x).asnumpy()
    block.export(str(tmp_path / "case"))
    again = gluon.SymbolBlock.imports(str(tmp_path / "case-symbol.json"), ["data"], str(tmp_path / "case-0000.params"))
    np.testing.assert_array_equal(again(x).asnumpy(), expected)
    # a file of arrays without names is still refused
    mx.nd.save(str(tmp_path / "unnamed"), [x])
    with pytest.raises(AssertionError, match="have no names"):
        again.collect_params().load(str(tmp_path / "unnamed"))


def test_older_methods(tmp_path: Path) -> None:
    path = str(tmp_path / "old.params")
    net = programs.saved_net(mx)
    with pytest.warns(UserWarning, match="save_params is deprecated"):
        net.save_params(path)
    other = blank()
    with pytest.warns(UserWarning, match="load_params is deprecated"):
        other.load_params(path)
    assert numbers(other) == RECORDED["params"]


def test_save_and_load_the_tree(tmp_path: Path) -> None:
    net = programs.saved_net(mx)
    net.save(str(tmp_path / "tree"))
    assert json.loads((tmp_path / "tree-model.json").read_text())["hybridsequential0"]["orig_name"] == "saved"
    other = blank()
    other.load(str(tmp_path / "tree"))
    assert numbers(other) == RECORDED["params"]
