"""Files of NumPy: the same arrays as numpy.load, and one kind of error for damaged ones."""

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy
import pytest

import phonograd as mx
from phonograd import npx


@pytest.mark.parametrize("dtype", ["float64", ">f4", "float16", "int8", "<i8", ">i4", "uint8", "bool"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_are_those_of_numpy(tmp_path: Path, dtype: str, order: Any) -> None:
    array = numpy.array([[1, 0, 3], [4, 5, 0]], dtype, order=order)
    numpy.save(tmp_path / "a.npy", array)
    numpy.savez(tmp_path / "a.npz", array, b=array[:0])
    numpy.savez_compressed(tmp_path / "c.npz", array)
    loaded = [
        npx.load(tmp_path / "a.npy"),
        npx.load(tmp_path / "a.npz")["arr_0"],
        npx.load(tmp_path / "c.npz")["arr_0"],
    ]
    for found in loaded:
        assert found.asnumpy().tolist() == array.tolist()
        assert numpy.dtype(found.dtype) == array.dtype.newbyteorder("=")
    assert npx.load(tmp_path / "a.npz")["b"].shape == (0, 3)


def npy(header: str, rest: bytes = b"") -> bytes:
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + rest


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,)}"), "need 4000000000000 bytes, but"),
        (npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1, "), "its header is not a dictionary"),
        (npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", b"x" * 8), "only numbers can be read"),
        (npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}"), r"its shape is \(-1,\)"),
        (npy("{'descr': '<f4', 'shape': (1,)}"), "must have descr, fortran_order and shape"),
        (npy("[" * 5000), "its header is not a dictionary"),
        (b"\x93NUMPY\x09\x00", "is not a .npy file of version 1 to 3"),
        (b"", "is cut off"),
    ],
)
def test_damaged_arrays_are_errors(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "bad.npy"
    path.write_bytes(data)
    with pytest.raises(mx.MXNetError, match=message) as caught:
        npx.load(path)
    assert str(path) in str(caught.value)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("x.npy", data)
    (tmp_path / "bad.npz").write_bytes(packed.getvalue())
    with pytest.raises(mx.MXNetError, match=rf"bad.npz \(entry 'x.npy'\).*{message}"):
        npx.load(tmp_path / "bad.npz")


def test_files_that_are_not_there(tmp_path: Path) -> None:
    for name in ("no.npy", "no.npz"):
        with pytest.raises(FileNotFoundError, match=name) as caught:
            npx.load(tmp_path / name)
        assert isinstance(caught.value, mx.MXNetError)


def test_an_archive_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    npx.savez(path, mx.np.ones((2,)))
    before = path.read_bytes()
    with pytest.raises(ZeroDivisionError):
        npx.savez(path, Unreadable())
    assert path.read_bytes() == before
    npx.savez(tmp_path / "without", mx.np.ones((2,)))
    assert sorted([each.name for each in tmp_path.iterdir()]) == ["a.npz", "without.npz"]


class Unreadable:
    """An object whose conversion to an array fails."""

    def __array__(self, *arguments: Any, **keywords: Any) -> Any:
        raise ZeroDivisionError
