"""``.params`` files: the bytes of MXNet, damaged bytes, writing whole or not at all, and the public functions."""

import importlib.util
import io
import os
import pickle
import stat
import struct
import threading
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import phonograd as mx
from phonograd.core.base.dtypes import BFLOAT16, CODES, widen
from phonograd.core.base.errors import MXNetError
from phonograd.core.base.files import write_atomically
from phonograd.ndarray import params
from phonograd.ndarray.params import SparseRecord, decode, encode, pack_record, read, unpack_record

FILES = Path(__file__).resolve().parents[1] / "data" / "params"


def _load_make():
    spec = importlib.util.spec_from_file_location("make_params", FILES / "make.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


CASES = _load_make().cases()
DENSE = [name for name in CASES if not name.startswith("sparse")]


def recorded(name):
    """Return the bytes that MXNet wrote."""
    return (FILES / f"{name}.params").read_bytes()


def listed(contents):
    """Return (arrays, names) of the contents of a case."""
    if isinstance(contents, dict):
        return list(contents.values()), list(contents)
    return list(contents), []


def assert_same(actual, expected):
    """Compare type, shape and bits, so that nan and -0.0 count."""
    assert actual.dtype == expected.dtype
    assert actual.shape == expected.shape
    assert actual.tobytes() == expected.tobytes()


def compressed(stype, dense):
    """Return the sparse record of a dense matrix."""
    if stype == "csr":
        rows, columns = np.nonzero(dense)
        starts = np.searchsorted(rows, np.arange(len(dense) + 1))
        return SparseRecord("csr", dense.shape, dense[rows, columns], (starts.astype(np.int64), columns))
    rows = np.flatnonzero(dense.any(axis=1))
    return SparseRecord("row_sparse", dense.shape, dense[rows], (rows,))


# What MXNet wrote


@pytest.mark.parametrize("name", CASES)
def test_reads_what_mxnet_wrote(name):
    expected, expected_names = listed(CASES[name][0])
    arrays, names = decode(recorded(name))
    assert names == expected_names
    assert len(arrays) == len(expected)
    for actual, wanted in zip(arrays, expected):
        if isinstance(wanted, tuple):
            assert actual.stype == wanted[0]
            assert_same(actual.todense(), wanted[1])
        else:
            assert_same(actual, wanted)


@pytest.mark.parametrize("name", CASES)
def test_writes_the_bytes_of_mxnet(name):
    contents, np_shape = CASES[name]
    arrays, names = listed(contents)
    arrays = [compressed(*array) if isinstance(array, tuple) else array for array in arrays]
    if name == "sparse_zeros":
        # An all-zero csr array of MXNet has no row starts worth the name: three zeros, stored all the same.
        assert arrays[0].indices[0].tolist() == [0, 0, 0]
    assert b"".join(encode(arrays, names, np_shape=np_shape)) == recorded(name)


@pytest.mark.parametrize("name", ["version0", "version1"])
def test_reads_old_layouts(name):
    arrays, names = decode(recorded(name))
    assert names == ["a", "b"]
    assert_same(arrays[0], np.array([[1.5, -2.0, 3.0]], np.float32))
    assert_same(arrays[1], np.array([7, -8], np.int32))


def test_bfloat16_is_read_and_written_as_mxnet_does():
    arrays, _ = decode(recorded("bfloat16"))
    assert arrays[0].dtype == BFLOAT16
    assert_same(widen(arrays[0]), np.array([1.5, -2.0, 0.0, 3.140625, np.inf], np.float32))
    assert b"".join(encode(arrays)) == recorded("bfloat16")


def test_device_numbers_are_written_as_mxnet_does():
    array = np.array([1, 2], np.float32)
    assert b"".join(encode([array], devices=[(1, 3)])) == recorded("context_cpu3")
    assert pack_record(array.reshape(1, 2), (1, 2)) == recorded("pickle_state")


def test_trailing_bytes_and_the_reserved_field_are_ignored():
    data = recorded("list_one")
    assert_same(decode(data + b"more")[0][0], decode(data)[0][0])
    assert_same(decode(data[:8] + b"\xff" * 8 + data[16:])[0][0], decode(data)[0][0])


def test_any_memory_layout_is_written_in_c_order():
    base = np.arange(24, dtype=np.float32).reshape(4, 6)
    assert b"".join(encode([base.T])) == recorded("list_transposed")
    big_endian = base.T.astype(">f4")
    assert b"".join(encode([big_endian])) == recorded("list_transposed")


def test_other_bytes_than_0_and_1_are_true():
    data = b"".join(encode([np.array([True, False])]))
    arrays, _ = decode(data[:-10] + b"\x07\x00" + data[-8:])
    assert arrays[0].view(np.uint8).tolist() == [1, 0]


@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 4), (2, 3)])
@pytest.mark.parametrize("dtype", CODES, ids=str)
def test_records_round_trip(dtype, shape):
    array = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
    assert_same(unpack_record(pack_record(array)), array)
    assert_same(unpack_record(bytearray(pack_record(array))), array)


def test_a_pickled_record_must_be_one_array():
    record = pack_record(np.arange(3.0))
    with pytest.raises(MXNetError, match="1 bytes follow the array"):
        unpack_record(record + b"x")
    with pytest.raises(MXNetError, match="Invalid NDArray file format"):
        unpack_record(record[:-1])
    sparse = recorded("sparse_list")[24:]
    assert unpack_record(sparse[: sparse.index(struct.pack("<I", 0xF993FAC9), 4)]).stype == "csr"


# Sparse records


def sparse_case(**changes):
    record = compressed("csr", np.array([[0, 1, 0], [2, 0, 3]], np.float32))
    values = {name: getattr(record, name) for name in ("stype", "shape", "data", "indices")}
    return SparseRecord(**{**values, **changes})


@pytest.mark.parametrize(
    ("record", "problem"),
    [
        (sparse_case(indices=(np.array([0, 3]), np.array([1, 0, 2]))), "row starts do not fit the shape"),
        (sparse_case(indices=(np.array([0, 1, 2]), np.array([1, 0, 2]))), "row starts do not fit the values"),
        (sparse_case(indices=(np.array([0, 4, 3]), np.array([1, 0, 2]))), "row starts decrease"),
        (sparse_case(indices=(np.array([0, 1, 3]), np.array([1, 0]))), "one column number per value"),
        (sparse_case(indices=(np.array([0, 1, 3]), np.array([1, 0, 3]))), "column number is out of range"),
        (sparse_case(indices=(np.array([0, 1, 3]), np.array([1, 0, -1]))), "column number is out of range"),
        (SparseRecord("row_sparse", (2, 2), np.ones((1, 3)), (np.array([0]),)), "stored rows do not fit"),
        (SparseRecord("row_sparse", (2, 2), np.ones((1, 2)), (np.array([2]),)), "row number is out of range"),
    ],
)
def test_inconsistent_sparse_arrays_do_not_become_dense(record, problem):
    with pytest.raises(MXNetError, match=problem):
        record.todense()


def test_sparse_arrays_cannot_be_written_under_np_shape():
    with pytest.raises(MXNetError, match="only allow serializing ndarray of default storage type"):
        list(encode([sparse_case()], np_shape=True))


# What cannot be written


def test_a_scalar_needs_np_shape():
    with pytest.raises(MXNetError, match=r"np_shape\(True\)"):
        list(encode([np.array(1.0)]))


def test_unknown_types_are_named():
    with pytest.raises(MXNetError, match="complex64 cannot be stored"):
        list(encode([np.zeros(2, np.complex64)]))


def test_names_must_match_the_arrays():
    with pytest.raises(MXNetError, match="1 arrays under 2 names"):
        encode([np.zeros(2)], ["a", "b"])


# Damaged bytes


def with_bytes(name, at, new):
    data = bytearray(recorded(name))
    data[at : at + len(new)] = new
    return bytes(data)


HUGE = struct.pack("<Q", 2**60)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "the file header needs 8 bytes but 0 are left, at byte 0"),
        (b"PK\x03\x04" + bytes(100), "starts with .* instead of 0x112, at byte 0"),
        (recorded("list_one")[:30], "a list of 1 arrays needs 20 bytes but 6 are left, at byte 24"),
        (recorded("list_one")[:50], "the device number of array 0 needs 4 bytes but 2 are left, at byte 48"),
        (with_bytes("list_one", 16, HUGE), "a list of 1152921504606846976 arrays needs"),
        (with_bytes("list_one", 16, struct.pack("<Q", 2)), "array 1 has no shape"),
        (with_bytes("list_one", 28, struct.pack("<i", 7)), "unknown storage type 7, at byte 28"),
        (with_bytes("list_one", 32, struct.pack("<i", 0)), r"array 0 has no shape \(MXNet writes 0-d"),
        (with_bytes("list_one", 32, struct.pack("<i", -1)), "array 0 has -1 axes"),
        (with_bytes("list_one", 32, struct.pack("<i", 2**31 - 1)), "array 0 has 2147483647 axes"),
        (with_bytes("list_one", 36, struct.pack("<q", 2**50)), r"shape \[1125899906842624\] and type float32 needs"),
        (with_bytes("list_one", 36, struct.pack("<q", -1)), r"impossible shape \[-1\]"),
        (with_bytes("list_high_rank", 36, struct.pack("<6q", 0, 2**62, 2**62, 2, 2, 2)), "impossible shape"),
        (with_bytes("list_one", 44, struct.pack("<i", 77)), "unknown device type 77, at byte 44"),
        (with_bytes("list_one", 52, struct.pack("<i", 9)), "unknown type flag 9, at byte 52"),
        (with_bytes("list_one", 76, struct.pack("<Q", 5)), "5 names for 1 arrays"),
        (with_bytes("list_one", 76, struct.pack("<Q", 1)), "the length of name 0 needs 8 bytes but 0 are left"),
        (recorded("list_one")[:76] + struct.pack("<QQ", 1, 2**63), "name 0 needs 9223372036854775808 bytes"),
        (recorded("list_one")[:76] + struct.pack("<QQ", 1, 2) + b"a\xff", "name 0 is not UTF-8 text, at byte 93"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_damage_is_named(data, message):
    with pytest.raises(MXNetError, match="Invalid NDArray file format.*" + message):
        decode(data)


@pytest.mark.parametrize("name", CASES)
def test_every_truncation_is_noticed(name):
    data = recorded(name)
    for length in range(len(data)):
        with pytest.raises(MXNetError, match="Invalid NDArray file format"):
            decode(data[:length])


def peak_of(function):
    """Return the most bytes that Python and NumPy had allocated at once while the function ran."""
    tracemalloc.start()
    try:
        function()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def decode_or_refuse(data):
    try:
        arrays, names = decode(data)
    except MXNetError as error:
        if not str(error).startswith("Invalid NDArray file format"):
            raise
    else:
        assert names == [] or len(names) == len(arrays)
        stored = sum(array.nbytes for array in arrays if isinstance(array, np.ndarray))
        assert stored <= len(data)


@settings(max_examples=400)
@given(st.data())
def test_random_damage_is_refused_or_harmless(data):
    original = bytearray(recorded(data.draw(st.sampled_from([*CASES, "version0", "version1", "bfloat16"]))))
    for _ in range(data.draw(st.integers(1, 4))):
        position = data.draw(st.integers(0, len(original) - 1))
        original[position] = data.draw(st.integers(0, 255))
    damaged = bytes(original[: data.draw(st.integers(0, len(original)))] if data.draw(st.booleans()) else original)
    assert peak_of(lambda: decode_or_refuse(damaged)) < 200_000


@settings(max_examples=100)
@given(st.binary(max_size=300))
def test_random_bytes_after_a_header_are_refused_or_harmless(tail):
    assert peak_of(lambda: decode_or_refuse(struct.pack("<QQQ", 0x112, 0, 3) + tail)) < 200_000


# Round trips

ARRAYS = st.sampled_from(sorted(CODES, key=CODES.get)).flatmap(
    lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, max_dims=5, min_side=0, max_side=4))
)


@given(st.lists(ARRAYS, max_size=4), st.data())
def test_round_trip(arrays, data):
    names = data.draw(st.lists(st.text(st.characters(codec="utf-8")), min_size=len(arrays), max_size=len(arrays)))
    decoded, decoded_names = decode(b"".join(encode(arrays, names, np_shape=True)))
    assert decoded_names == names
    for actual, expected in zip(decoded, arrays, strict=True):
        assert_same(actual, expected)


# Shape semantics


def test_version_and_shape_semantics_must_agree():
    legacy, modern = recorded("list_one"), recorded("np_shape_list")
    with pytest.raises(MXNetError, match="ndarray was saved in np shape semantics, must be loaded"):
        decode(modern, np_shape=0)
    with pytest.raises(MXNetError, match="ndarray was not saved in np shape semantics, but being loaded"):
        decode(legacy, np_shape=1)
    for state, data in [(0, legacy), (1, modern), (2, legacy), (2, modern)]:
        decode(data, np_shape=state)


# Files


def test_read_gives_numpy_arrays(tmp_path):
    arrays, names = read(FILES / "sparse_list.params")
    assert [type(array) for array in arrays] == [SparseRecord, SparseRecord, np.ndarray]
    assert names == []


def test_a_pipe_can_be_read(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=lambda: path.write_bytes(recorded("list_one")))
    writer.start()
    arrays, _ = read(path)
    writer.join()
    assert_same(arrays[0], np.arange(5, dtype=np.float32))


def test_a_file_that_shrinks_while_it_is_read_is_refused():
    data = recorded("list_one")
    for length in (60, 78):
        reader = params._Reader(io.BytesIO(data[:length]), len(data))
        with pytest.raises(MXNetError, match="but the file ended"):
            params._read_file(reader, None)


def failing_chunks():
    yield b"new contents"
    raise ZeroDivisionError("while saving")


def test_a_failed_write_leaves_nothing_behind(tmp_path):
    path = tmp_path / "file"
    with pytest.raises(ZeroDivisionError):
        write_atomically(path, failing_chunks())
    assert list(tmp_path.iterdir()) == []
    path.write_bytes(b"old")
    with pytest.raises(ZeroDivisionError):
        write_atomically(path, failing_chunks())
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_permissions_are_kept_and_new_files_get_the_usual_ones(tmp_path):
    old, new, plain = tmp_path / "old", tmp_path / "new", tmp_path / "plain"
    old.write_bytes(b"old")
    old.chmod(0o640)
    write_atomically(old, [b"replaced"])
    assert stat.S_IMODE(old.stat().st_mode) == 0o640
    assert old.read_bytes() == b"replaced"
    write_atomically(new, [b"x"])
    plain.write_bytes(b"x")
    assert new.stat().st_mode == plain.stat().st_mode


def test_a_symbolic_link_stays_a_link(tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"old")
    link.symlink_to(target)
    write_atomically(link, [b"new"])
    assert link.is_symlink()
    assert target.read_bytes() == b"new"


def test_what_cannot_be_replaced_is_written_directly(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    received = []
    reader = threading.Thread(target=lambda: received.append(path.read_bytes()))
    reader.start()
    write_atomically(path, [b"a", b"b"])
    reader.join()
    assert received == [b"ab"]
    with pytest.raises(IsADirectoryError):
        write_atomically(tmp_path, [b"a"])


# The public functions


def as_ndarrays(contents):
    if isinstance(contents, dict):
        return {name: mx.nd.array(array, dtype=array.dtype) for name, array in contents.items()}
    return [mx.nd.array(array, dtype=array.dtype) for array in contents]


@pytest.mark.parametrize("name", DENSE)
def test_save_writes_the_file_of_mxnet(name, tmp_path):
    contents, np_shape = CASES[name]
    path = str(tmp_path / "file.params")
    with mx.util.np_shape(np_shape):
        assert mx.nd.save(path, as_ndarrays(contents)) is None
        loaded = mx.nd.load(path)
    assert Path(path).read_bytes() == recorded(name)
    expected, names = listed(contents)
    if names:
        assert list(loaded) == names
        loaded = list(loaded.values())
    assert isinstance(loaded, list)
    for actual, wanted in zip(loaded, expected, strict=True):
        assert isinstance(actual, mx.nd.NDArray)
        assert_same(actual.asnumpy(), wanted)


@pytest.mark.parametrize("name", DENSE)
def test_load_frombuffer(name):
    contents, np_shape = CASES[name]
    with mx.util.np_shape(np_shape):
        loaded = mx.nd.load_frombuffer(recorded(name))
    values = list(loaded.values()) if isinstance(loaded, dict) else loaded
    for actual, wanted in zip(values, listed(contents)[0], strict=True):
        assert_same(actual.asnumpy(), wanted)


def test_one_array_is_saved_as_a_list_of_one(tmp_path):
    path = tmp_path / "one"
    mx.nd.save(path, mx.nd.arange(5))
    assert path.read_bytes() == recorded("list_one")


def test_the_context_is_saved_and_not_restored(tmp_path):
    path = str(tmp_path / "context")
    mx.nd.save(path, [mx.nd.array([1.0, 2.0], ctx=mx.cpu(3))])
    assert Path(path).read_bytes() == recorded("context_cpu3")
    with mx.cpu(2):
        assert mx.nd.load(path)[0].context == mx.cpu(0)
    assert mx.nd.load(str(FILES / "gpu_context.params"))[0].context == mx.cpu(0)


def test_files_can_be_named_by_a_file_address(tmp_path):
    address = f"file://{tmp_path}/x.params"
    mx.nd.save(address, mx.nd.ones((2,)))
    assert mx.nd.load(address)[0].shape == (2,)
    with pytest.raises(MXNetError, match="unknown filesystem protocol s3://"):
        mx.nd.load("s3://bucket/x.params")


def test_arguments_of_save(tmp_path):
    path, array = str(tmp_path / "x"), mx.nd.ones((2,))
    not_data = "data needs to either be a NDArray, dict of str, NDArray pairs or a list of NDarrays."
    for data in ((array,), "text", None, 3):
        with pytest.raises(ValueError, match=not_data):
            mx.nd.save(path, data)
    for data in ([1], [array, 2], {"a": 1}, {1: array}):
        with pytest.raises(TypeError, match="save only accept dict str->NDArray or list of NDArray"):
            mx.nd.save(path, data)
    with pytest.raises(TypeError, match="fname required to be a string"):
        mx.nd.save(3, array)
    with pytest.raises(UnicodeEncodeError):
        mx.nd.save(path, {"\udc80": array})
    assert list(tmp_path.iterdir()) == []


def test_arguments_of_load(tmp_path):
    with pytest.raises(TypeError, match="fname required to be a string"):
        mx.nd.load(3)
    with pytest.raises(TypeError, match="buf required to be a string or bytes"):
        mx.nd.load_frombuffer([1])
    with pytest.raises(MXNetError, match="Invalid NDArray file format"):
        mx.nd.load_frombuffer("abc")
    with pytest.raises(MXNetError, match="No such file or directory"):
        mx.nd.load(str(tmp_path / "missing"))
    with pytest.raises(MXNetError, match="No such file or directory"):
        mx.nd.save(str(tmp_path / "missing" / "x"), mx.nd.ones((2,)))
    with pytest.raises(MXNetError, match="Is a directory"):
        mx.nd.load(str(tmp_path))


def test_the_damaged_file_is_named(tmp_path):
    path = tmp_path / "weights.params"
    path.write_bytes(recorded("list_one")[:50])
    with pytest.raises(MXNetError, match=r"Invalid NDArray file format \(.*weights.params\).*at byte 48"):
        mx.nd.load(str(path))


def test_sparse_files_of_mxnet_give_sparse_arrays(tmp_path):
    for name in ("sparse_zeros", "sparse_list"):
        loaded = mx.nd.load(str(FILES / f"{name}.params"))
        arrays = list(loaded.values()) if isinstance(loaded, dict) else loaded
        records, _ = read(FILES / f"{name}.params")
        for array, record in zip(arrays, records, strict=True):
            assert array.stype == getattr(record, "stype", "default")
            np.testing.assert_array_equal(array.asnumpy(), record.todense() if array.stype != "default" else record)
        mx.nd.save(str(tmp_path / "again"), loaded)
        assert (tmp_path / "again").read_bytes() == (FILES / f"{name}.params").read_bytes()


def test_loading_follows_the_shape_semantics():
    with pytest.raises(MXNetError, match="must be loaded in the same semantics"):
        mx.nd.load(str(FILES / "np_shape_list.params"))
    with mx.util.np_shape(True), pytest.raises(MXNetError, match="being loaded in np shape semantics"):
        mx.nd.load(str(FILES / "list_one.params"))
    mx.util.set_np_shape(2)
    try:
        mx.nd.load(str(FILES / "list_one.params"))
        mx.nd.load(str(FILES / "np_shape_list.params"))
    finally:
        mx.util.set_np_shape(0)


def test_saving_over_the_loaded_file_is_safe(tmp_path):
    path = str(tmp_path / "x")
    mx.nd.save(path, {"w": mx.nd.arange(6)})
    for _ in range(3):
        weights = mx.nd.load(path)["w"]
        mx.nd.save(path, {"w": weights + 1})
    assert mx.nd.load(path)["w"].asnumpy().tolist() == [3, 4, 5, 6, 7, 8]


def test_a_large_file_is_read_in_place(tmp_path):
    path = str(tmp_path / "large")
    mx.nd.save(path, [mx.nd.ones((250, 1000)) for _ in range(8)])  # 8 MB
    mx.nd.waitall()
    assert peak_of(lambda: read(path)) < 8_500_000


def test_pickles_hold_the_record_of_mxnet():
    array = mx.nd.array([[1.0, 2.0]])
    state = array.__getstate__()["handle"]
    assert unpack_record(state).tolist() == [[1.0, 2.0]]
    restored = pickle.loads(pickle.dumps(array))
    assert restored.asnumpy().tolist() == [[1.0, 2.0]]
    restored.__setstate__({"handle": bytearray(recorded("pickle_state"))})
    assert restored.asnumpy().tolist() == [[1.0, 2.0]]
