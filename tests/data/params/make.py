"""Write the ``.params`` files beside this script with real MXNet 1.9.1; the tests read the same contents from here.

Run ``python make.py`` where ``import mxnet`` gives MXNet 1.9.1 and NumPy is 1.23. Nothing but NumPy is needed to
import this module, so that the tests can ask :func:`cases` what each file must hold.
"""

import os
import struct
import sys

import numpy as np

DIRECTORY = os.path.dirname(os.path.abspath(__file__))

MAGIC_V1, MAGIC_V2 = 0xF993FAC8, 0xF993FAC9


def of_every_dtype():
    """Return one array per dtype of MXNet, with the values that are easily lost."""
    with np.errstate(all="ignore"):
        floats = np.array([0.0, -0.0, 1.5, -2.25, np.inf, -np.inf, np.nan, 1e-30, 1e30], np.float64)
        return [
            floats.astype(np.float32).reshape(3, 3),
            np.append(floats, [np.finfo(np.float64).tiny / 4, np.finfo(np.float64).max]),
            floats.astype(np.float16).reshape(1, 3, 3),
            np.array([[0, 1], [254, 255]], np.uint8),
            np.array([-(2**31), -1, 0, 16777217, 2**31 - 1], np.int32),
            np.array([-128, -1, 0, 1, 127], np.int8),
            np.array([-(2**63), -1, 0, 2**53 + 1, 2**63 - 1], np.int64),
            np.array([True, False, False, True]).reshape(2, 2),
        ]


def cases():
    """Return {file name without suffix: (contents, np_shape)}; contents is a list or a dict of NumPy arrays.

    A tuple ``('csr' or 'row_sparse', dense array)`` stands for a sparse array.
    """
    counting = np.arange(24, dtype=np.float32)
    return {
        "list_all_dtypes": (of_every_dtype(), False),
        "dict_all_dtypes": ({array.dtype.name: array for array in of_every_dtype()}, False),
        "list_one": ([counting[:5]], False),
        "list_empty": ([], False),
        "dict_empty": ({}, False),
        "dict_unicode": (
            {
                "arg:fc1_weight": counting[:6].reshape(2, 3),
                "aux:bn_moving_mean": counting[:3],
                "größe": counting[:1],
                "漢字": counting[1:2],
                "🙂": counting[2:3],
                "": counting[3:4],
                "n" * 300: counting[4:5],
            },
            False,
        ),
        "list_zero_size": ([counting[:0], counting[:0].reshape(0, 3), counting[:2]], False),
        "list_high_rank": ([counting.reshape(1, 2, 1, 3, 2, 2)], False),
        "list_transposed": ([np.ascontiguousarray(counting.reshape(4, 6).T)], False),
        "np_shape_list": ([np.array(3.5, np.float32), counting[:0].reshape(0, 3), counting[:2]], True),
        "np_shape_dict": ({"scale": np.array(7, np.int64), "flag": np.array(True)}, True),
        "sparse_list": (
            [
                ("csr", np.array([[0, 1, 0], [2, 0, 3]], np.float32)),
                ("row_sparse", np.array([[0, 0], [1, 2], [0, 0], [3, 4]], np.float64)),
                counting[:2],
            ],
            False,
        ),
        "sparse_zeros": (
            {"csr": ("csr", np.zeros((2, 3), np.float32)), "rows": ("row_sparse", np.zeros((4, 2), np.float32))},
            False,
        ),
    }


def header(count):
    """Return the first 24 bytes of a file of `count` arrays."""
    return struct.pack("<QQQ", 0x112, 0, count)


def old_records():
    """Return {name: file bytes} of layouts that MXNet 1.9.1 reads but no longer writes."""
    values = np.array([[1.5, -2.0, 3.0]], np.float32)
    numbers = np.array([7, -8], np.int32)

    def v0(array, flag):
        shape = struct.pack(f"<I{array.ndim}I", array.ndim, *array.shape)
        return shape + struct.pack("<iii", 1, 0, flag) + array.tobytes()

    def v1(array, flag):
        shape = struct.pack(f"<Ii{array.ndim}q", MAGIC_V1, array.ndim, *array.shape)
        return shape + struct.pack("<iii", 1, 0, flag) + array.tobytes()

    names = struct.pack("<QQ", 2, 1) + b"a" + struct.pack("<Q", 1) + b"b"
    return {
        "version0": header(2) + v0(values, 0) + v0(numbers, 4) + names,
        "version1": header(2) + v1(values, 0) + v1(numbers, 4) + names,
        "gpu_context": header(1)
        + struct.pack("<Iii2q", MAGIC_V2, 0, 2, 1, 3)
        + struct.pack("<iii", 2, 1, 0)
        + values.tobytes()
        + struct.pack("<Q", 0),
    }


def main():
    """Write every file and check that MXNet reads the old layouts."""
    import mxnet as mx

    assert mx.__version__ == "1.9.1", mx.__version__

    def as_ndarray(value):
        if isinstance(value, tuple):
            stype, dense = value
            return mx.nd.array(dense, dtype=dense.dtype).tostype(stype)
        return mx.nd.array(value, dtype=value.dtype)

    def path(name):
        return os.path.join(DIRECTORY, name + ".params")

    for name, (contents, np_shape) in cases().items():
        with mx.np_shape(np_shape):
            if isinstance(contents, dict):
                mx.nd.save(path(name), {key: as_ndarray(value) for key, value in contents.items()})
            else:
                mx.nd.save(path(name), [as_ndarray(value) for value in contents])

    mx.nd.save(path("context_cpu3"), [mx.nd.array([1.0, 2.0], ctx=mx.cpu(3))])
    bfloat16 = np.dtype([("bfloat16", np.uint16)])
    mx.nd.save(path("bfloat16"), [mx.nd.array([1.5, -2.0, 0.0, 3.140625, np.inf]).astype(bfloat16)])
    with open(path("pickle_state"), "wb") as file:
        file.write(mx.nd.array([[1.0, 2.0]], ctx=mx.cpu(2)).__getstate__()["handle"])

    for name, data in old_records().items():
        loaded = mx.nd.load_frombuffer(data)
        arrays = list(loaded.values()) if isinstance(loaded, dict) else loaded
        assert arrays[0].asnumpy().tolist() == [[1.5, -2.0, 3.0]], name
        assert arrays[1:] == [] or arrays[1].asnumpy().tolist() == [7, -8], name
        with open(path(name), "wb") as file:
            file.write(data)


if __name__ == "__main__":
    sys.exit(main())
