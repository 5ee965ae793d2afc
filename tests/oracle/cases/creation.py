"""Cases of functions that make arrays."""

from __future__ import annotations

from ..case import Family, normal, values

family = Family("creation", tolerance="exact")

DTYPES = ("float32", "float64", "float16", "int32", "int64", "uint8", "int8", "bool")
SOURCES = [
    "[1, 2, 3]",
    "[[1.5, 2], [3, 4]]",
    "(1, 2)",
    "[True, False]",
    "5",
    "2.5",
    "np.array(3.5)",
    "np.float64(3.5)",
    "np.arange(6).reshape(2, 3)",
    "np.arange(6).reshape(2, 3).T",
    "np.arange(6, dtype='float64')[::2]",
    "np.array([1, 2], dtype='int32')",
    "np.array([1.5, 2], dtype='float16')",
    "np.array([True, False])",
    "np.zeros((0, 3))",
    "[]",
    "[None, 1]",
    "[[1, 2], [3]]",
    "'abc'",
    "None",
    "range(3)",
    "[float('nan'), float('inf')]",
]
for source in SOURCES:
    family.expression(f"nd.array({source})")
for dtype in DTYPES:
    family.expression(f"nd.array([0, 1, 2.7], dtype='{dtype}')")
    family.expression(f"nd.array(np.array([0, 1, 2]), dtype=np.{dtype + '_' * (dtype == 'bool')})")
    family.expression(f"nd.array(x, dtype='{dtype}')", values([0.0, 1.0, 2.7]), grad=False)
    family.expression("nd.array(x)", values([0, 1], dtype), grad=False)
    for maker in ("zeros", "ones", "empty"):
        suffix = ".shape" if maker == "empty" else ""
        family.expression(f"nd.{maker}((2, 3), dtype='{dtype}'){suffix}")
    family.expression(f"nd.full((2, 3), 2.7, dtype='{dtype}')")
    family.expression(f"nd.arange(4, dtype='{dtype}')")
    family.expression(f"nd.eye(3, dtype='{dtype}')")
    family.expression(f"nd.zeros((2,), dtype='{dtype}').dtype")
    family.expression(f"nd.linspace(0, 1, 5, dtype='{dtype}')", tolerance="elementwise")
for dtype in ("uint16", "complex64", "abc"):
    family.expression(f"nd.zeros((2,), dtype='{dtype}')")
for maker in ("zeros", "ones"):
    for shape in ("3", "(2,)", "(1, 1)", "[2, 3]", "(2, 1, 3)", "()", "(0, 2)", "(2, -1)", "None"):
        family.expression(f"nd.{maker}({shape})")
    family.expression(f"nd.{maker}((2, 3), ctx=mx.cpu())")
    family.expression(f"nd.{maker}((2, 3), mx.cpu(), 'int32')")
    family.statement(f"nd.{maker}((2, 3), out=x)", normal(2, 3))
family.expression("nd.empty((2, 3)).shape")
family.expression("nd.empty(3).shape")
family.expression("nd.empty((2, 3)).dtype")
for call in (
    "nd.full((2, 3), 7)",
    "nd.full(3, 1.5)",
    "nd.full((2,), True)",
    "nd.full((2, 2), float('nan'))",
    "nd.full((2,), -1, dtype='int64')",
):
    family.expression(call)
family.statement("nd.full((2, 3), 4, out=x)", normal(2, 3))
RANGES = [
    "5",
    "1, 5",
    "1, 6, 2",
    "0, 1, 0.3",
    "5, 0, -1",
    "5, 0, -2",
    "2.5",
    "0.5, 3",
    "0",
    "3, 1",
    "0, 3, repeat=2",
    "1, 4, 0.5, repeat=3",
    "3, infer_range=True",
    "3, None",
    "10000001, 10000004",
    "0, 1, 0.1",
]
for arguments in RANGES:
    family.expression(f"nd.arange({arguments})", tolerance="elementwise")
    family.expression(f"nd.arange({arguments}, dtype='float64')", tolerance="elementwise")
    family.expression(f"nd.arange({arguments}, dtype='int32')")
for arguments in ("0, 2, 5", "0, 1, 5, endpoint=False", "2, -2, 4", "1, 1, 3", "0, 1, 1", "0, 10, 11", "0, 1, 0"):
    family.expression(f"nd.linspace({arguments})", tolerance="elementwise")
    family.expression(f"nd.linspace({arguments}, dtype='float64')", tolerance="elementwise")
for arguments in ("3", "3, 4", "3, 4, 1", "3, 4, -1", "3, 0", "3, 3, 5", "3, k=1", "N=2, M=3, k=1"):
    family.expression(f"nd.eye({arguments})")
for name in ("zeros_like", "ones_like"):
    family.call(f"method:{name}", normal(2, 3))
    family.call(f"method:{name}", values([[1, 2]], "int32"))
family.expression("nd.from_numpy(np.arange(6).reshape(2, 3))")
family.expression("nd.from_numpy(np.arange(6, dtype='float32'), zero_copy=False)")
family.expression("nd.from_numpy(np.arange(6).reshape(2, 3).T)")
family.expression("nd.from_numpy(np.arange(6).reshape(2, 3).T, zero_copy=False)")
family.expression("nd.from_dlpack(x.to_dlpack_for_read())", normal(2, 3), grad=False)
family.statement("v = nd.from_dlpack(x.to_dlpack_for_write()); v[:] = 3", normal(2, 3))
family.expression("nd.waitall()")
family.expression("mx.nd.array([1, 2]) + mx.nd.ones(2)")
family.expression("mx.nd.array(x).T", normal(2, 3))

family.statement("nd.save(path, x); result = nd.load(path)", normal(2, 3))
family.statement("nd.save(path, [x, y]); result = nd.load(path)", normal(2, 3), values([1, 2], "int64"))
family.statement("nd.save(path, {'a': x, 'b': y}); result = sorted(nd.load(path))", normal(2), normal(3))
family.statement("nd.save(path, {'a': x}); result = nd.load(path)['a']", normal(2))
family.statement(
    "nd.save(path, {'weight': x, 'b': y}); result = Path(path).read_bytes()", normal(2), values([3], "uint8")
)
family.statement("nd.save(path, [x]); result = Path(path).read_bytes()", values([[1, 2]], "int32"))
family.statement("nd.save(path, (x, x))", normal(2))
family.statement("nd.save(path, {'a': 1})")
family.statement("nd.load(path)")
family.statement("Path(path).write_bytes(b'abc'); nd.load(path)")
family.statement("nd.save(path, [x]); result = nd.load_frombuffer(Path(path).read_bytes())", normal(2))
for dtype in DTYPES:
    family.statement("nd.save(path, [x]); result = nd.load(path)[0]", values([[0, 1]], dtype))
    family.statement("nd.save(path, [x]); result = Path(path).read_bytes()", values([[0, 1]], dtype), tag="bytes")
