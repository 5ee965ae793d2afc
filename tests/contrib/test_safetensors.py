"""safetensors files: read as written, exchanged with the package of that name, and refused when damaged."""

import json
import pathlib
from typing import Any

import numpy as np
import pytest

import phonograd as mx

save, load = mx.contrib.safetensors.save, mx.contrib.safetensors.load
DTYPES = ("float32", "float64", "float16", "uint8", "int32", "int8", "int64", "bool")


def arrays() -> dict[str, Any]:
    return {f"{dtype} array": mx.nd.array(np.arange(6).reshape(2, 3), dtype=dtype) for dtype in DTYPES}


def written(path: pathlib.Path, header: Any, data: bytes = b"") -> pathlib.Path:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    return path


def test_arrays_come_back(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a.safetensors"
    save(path, {**arrays(), "empty": mx.nd.zeros((0, 3))}, {"format": "é"})
    found = load(path)
    assert found["empty"].shape == (0, 3)
    for name, array in arrays().items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name].asnumpy(), array.asnumpy())
    assert mx.contrib.safetensors.metadata(path) == {"format": "é"}


def test_files_are_exchanged_with_the_package(tmp_path: pathlib.Path) -> None:
    package = pytest.importorskip("safetensors.numpy", reason="safetensors is not installed")
    save(tmp_path / "ours", arrays())
    theirs = package.load_file(tmp_path / "ours")
    package.save_file(theirs, tmp_path / "theirs")
    for name, array in load(tmp_path / "theirs").items():
        assert array.dtype == theirs[name].dtype
        np.testing.assert_array_equal(array.asnumpy(), theirs[name])


def test_bfloat16_is_read(tmp_path: pathlib.Path) -> None:
    numbers = np.array([1.0, -2.5, np.inf], np.float32)
    half = (numbers.view(np.uint32) >> 16).astype("<u2").tobytes()
    path = written(tmp_path / "b", {"x": {"dtype": "BF16", "shape": [3], "data_offsets": [0, 6]}}, half)
    assert load(path)["x"]._dtype == np.dtype([("bfloat16", "<u2")])
    assert load(path)["x"].tolist() == numbers.tolist()


def facts(**changes: Any) -> dict[str, Any]:
    return {"x": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4], **changes}}


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (b"{", "not JSON"),
        (b"\xff", "not JSON"),
        (b"[" * 5000, "not JSON"),
        (b"[]", "not a JSON object"),
        (b'{"a":1,"a":1}', "duplicate name"),
        ({"x": 3}, "must have dtype"),
        ({"__metadata__": {"a": 1}}, "not an object of strings"),
        (facts(shape=[-1]), "has the invalid shape"),
        (facts(shape=[1.5]), "has the invalid shape"),
        (facts(shape=[1 << 62, 4]), "needs"),
        (facts(data_offsets=[4, 0]), "data_offsets"),
        (facts(data_offsets=[4, 8]), "begins at byte 4"),
        (facts(dtype="F8_E4M3"), "is not supported"),
        (facts(dtype="I16", shape=[2]), "is not supported"),
        (facts(shape=[0], data_offsets=[0, 0]), "the file has"),
    ],
)
def test_damaged_files_are_refused(header: Any, message: str, tmp_path: pathlib.Path) -> None:
    with pytest.raises(mx.MXNetError, match=message):
        load(written(tmp_path / "bad", header, b"\0" * 4))


@pytest.mark.parametrize("content", [b"", b"\xff" * 8, (1 << 40).to_bytes(8, "little")])
def test_short_files_are_refused(content: bytes, tmp_path: pathlib.Path) -> None:
    (tmp_path / "short").write_bytes(content)
    with pytest.raises(mx.MXNetError, match="not a safetensors file"):
        load(tmp_path / "short")


def test_only_arrays_by_name_are_written(tmp_path: pathlib.Path) -> None:
    for wrong in ([mx.nd.ones((1,))], {"x": 3}, {3: mx.nd.ones((1,))}):
        with pytest.raises(TypeError, match="dictionary"):
            save(tmp_path / "x", wrong)
    with pytest.raises(ValueError, match="__metadata__"):
        save(tmp_path / "x", {"__metadata__": mx.nd.ones((1,))})
