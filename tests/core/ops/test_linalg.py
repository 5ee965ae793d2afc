"""Linear algebra on stacks of matrices: definitions, values of MXNet 1.9.1, awkward matrices and errors."""

from __future__ import annotations

import re

import numpy as np
import pytest

import phonograd as mx
from phonograd.core.base.errors import MXNetError
from phonograd.core.derive.gradient import differentiate
from phonograd.core.ops.linalg import lapack
from phonograd.core.ops.linalg.linalg import solve_triangular
from phonograd.core.ops.math.structural import leaf, variable
from phonograd.core.run.reference import evaluate

from .checks import Sample, check_gradients, check_inference, leaves_for
from .samples_linalg import SAMPLES, definite, regular


@pytest.mark.parametrize("sample", SAMPLES, ids=repr)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_inference(sample, dtype):
    arrays = [array.astype(dtype) for array in sample.inputs]
    check_inference(type(sample)(sample.name, arrays, sample.parameters))


@pytest.mark.parametrize("sample", SAMPLES, ids=repr)
def test_gradients(sample):
    check_gradients(sample)


def run(name, *arrays, **parameters):
    values = check_inference(Sample(name, arrays, parameters))
    return values[0] if len(values) == 1 else values


def gradient(name, *arrays, **parameters):
    """Return the gradients for output gradients 1, 2, 3, ... in row-major order, as the recorded values have them."""
    nodes, bindings = leaves_for(arrays)
    nodes = [variable(node, index) for index, node in enumerate(nodes)]
    outs = Sample(name, arrays, parameters).call(nodes)
    heads = []
    for out in outs:
        head = leaf(100 + len(heads), out.shape, out.dtype)
        bindings[head] = np.arange(1, out.size + 1, dtype=out.dtype).reshape(out.shape)
        heads.append(head)
    targets = differentiate(tuple(outs), tuple(heads)).targets
    grads = sorted(((target.attributes[0], grad) for target, grad in targets.items()), key=lambda pair: pair[0])
    return evaluate([grad for _, grad in grads], bindings)


# the matrices of the recorded values; JUNK and FULL hold numbers where a triangular or symmetric operand is not read
SYMMETRIC = np.array([[4, 1, 0.5], [1, 4.25, 0.25], [0.5, 0.25, 3]])
JUNK = np.array([[4, 9, 9], [1, 4.25, 9], [0.5, 0.25, 3]])
FULL = np.array([[2, 7, 7], [0.5, 2, 7], [0.3, 0.2, 1]])
TALL = np.array([[1.0, 2], [3, 4], [5, 7]])
WIDE = np.array([[1.0, 2, 3], [3, 4, 1]])


@pytest.mark.parametrize(
    ("name", "arrays", "parameters", "expected"),
    [
        ("potrf", [SYMMETRIC], {}, [[0.01655, 0.46275, 0.94211, 0.46275, 1.19007, 1.9179, 0.94211, 1.9179, 2.62732]]),
        ("potrf", [JUNK], {}, [[0.01655, 0.46275, 0.94211, 0.46275, 1.19007, 1.9179, 0.94211, 1.9179, 2.62732]]),
        ("potri", [FULL], {}, [[0.49375, 0, 0, -0.23, -0.3925, 0, -4.575, -4.98125, -12.98125]]),
        (
            "trmm",
            [FULL, TALL],
            {},
            [[5, 0, 0, 11, 25, 0, 17, 39, 67], [5, 7.8, 7, 9.2, 5, 6]],
        ),
        (
            "trsm",
            [FULL, TALL],
            {"alpha": 2.0},
            [[1, 0, 0, -3.8, -7.65, 0, -17, -34.75, -121.95], [-1, -0.5, 2, 2.8, 10, 12]],
        ),
        (
            "trsm",
            [FULL, TALL],
            {"transpose": True},
            [[0.625, 0, 0, -1.8, -3.65, 0, -9.5, -19.125, -60.325], [0.5, 1, 1.375, 1.75, 4.575, 5.35]],
        ),
        (
            "trsm",
            [FULL, WIDE],
            {"transpose": True, "rightside": True, "lower": False},
            [[-18.125, 7.75, -3.5, 0, -13.875, 6.75, 0, 0, -37.75], [0.5, -0.75, 4.75, 2, -4.5, 23.5]],
        ),
        ("syrk", [WIDE], {"transpose": True}, [[44, 68, 92, 40, 72, 104]]),
        ("gelqf", [WIDE], {}, [[1.96443, 1.32601, -2.78604, -3.31738, -3.74801, -0.13719]]),
        ("syevd", [SYMMETRIC], {}, [[6.53108, -1.886, 0.81155, -1.886, 1.43208, 3.25898, 0.81155, 3.25898, -1.96317]]),
        (
            "inverse",
            [JUNK],
            {},
            [[-0.47677, 0.3563, -0.15411, -0.00842, -0.06963, -0.01221, -0.7904, 0.62865, -0.25075]],
        ),
        ("det", [JUNK], {}, [[10.5, 1.5, -1.875, -24.75, 7.5, 3.5, 42.75, -27, 8]]),
        ("slogdet", [JUNK], {}, [[0.27184, 0.03883, -0.04854, -0.64078, 0.19417, 0.09061, 1.1068, -0.69903, 0.20712]]),
        ("slogdet", [np.array([[1.0, 2], [2, 4]])], {}, [[0, 0, 0, 0]]),
    ],
)
def test_recorded_gradients(name, arrays, parameters, expected):
    for found, wanted in zip(gradient(f"_linalg_{name}", *arrays, **parameters), expected, strict=True):
        assert np.allclose(found.reshape(-1), wanted, atol=6e-6)


def test_gemm():
    x, y = np.arange(24.0).reshape(2, 3, 1, 4), np.arange(32.0).reshape(2, 4, 1, 4)
    expected = np.einsum("nibk,nkbj->nibj", x, y)
    assert np.array_equal(run("_linalg_gemm2", x, y, axis=1), expected)
    assert np.array_equal(run("_linalg_gemm2", x, y, axis=-3), expected)
    assert np.array_equal(run("_linalg_gemm", x, y, np.ones_like(expected), axis=1, beta=2.0), expected + 2)
    assert np.array_equal(run("_linalg_gemm2", TALL, WIDE, transpose_a=True, transpose_b=True), TALL.T @ WIDE.T)
    # beta=0 means that C is not read
    empty = np.full((2, 2), np.nan)
    assert np.array_equal(run("_linalg_gemm", WIDE, TALL, empty, beta=0.0, alpha=2.0), 2 * (WIDE @ TALL))


@pytest.mark.parametrize("rightside", [False, True])
@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("lower", [False, True])
def test_triangular_operands(lower, transpose, rightside):
    matrix = np.tril(FULL) if lower else np.triu(FULL)
    junk = np.where(matrix == 0, np.nan, matrix)
    factor = matrix.T if transpose else matrix
    right = WIDE if rightside else TALL
    options = {"lower": lower, "transpose": transpose, "rightside": rightside}
    product = run("_linalg_trmm", np.where(np.isnan(junk), 77, junk), right, alpha=3.0, **options)
    assert np.allclose(product, 3 * (right @ factor if rightside else factor @ right), rtol=1e-14)
    solved = run("_linalg_trsm", junk, right, alpha=3.0, **options)
    assert np.allclose(solved @ factor if rightside else factor @ solved, 3 * right, rtol=1e-13)


@pytest.mark.parametrize("transpose", [False, True])
def test_products_by_blocks_have_the_gradients_of_whole_ones(transpose):
    generator = np.random.default_rng(5)
    matrix, right = generator.normal(size=(195, 195)), generator.normal(size=(195, 3))
    factor = np.tril(matrix).T if transpose else np.tril(matrix)
    assert np.allclose(run("_linalg_trmm", matrix, right, transpose=transpose, alpha=2.0), 2 * factor @ right)
    of_matrix, of_right = gradient("_linalg_trmm", matrix, right, transpose=transpose, alpha=2.0)
    head = np.arange(1.0, 195 * 3 + 1).reshape(195, 3)
    whole = right @ head.T if transpose else head @ right.T
    assert np.allclose(of_matrix, 2 * np.tril(whole))
    assert np.allclose(of_right, 2 * factor.T @ head)
    long = right if not transpose else np.ascontiguousarray(right.T)
    assert np.allclose(run("_linalg_syrk", long, transpose=transpose, alpha=0.5), 0.5 * right @ right.T)
    (of_long,) = gradient("_linalg_syrk", long, transpose=transpose, alpha=0.5)
    head = np.arange(1.0, 195 * 195 + 1).reshape(195, 195)
    expected = 0.5 * (head + head.T) @ right
    assert np.allclose(of_long, expected.T if transpose else expected)


@pytest.mark.parametrize("size", [1, 16, 17, 40])
def test_solve_triangular_is_exact_to_rounding(size):
    generator = np.random.default_rng(size)
    matrix = np.tril(generator.normal(size=(2, size, size))) / np.sqrt(size) + np.eye(size)
    right = generator.normal(size=(2, size, 3))
    found = solve_triangular(matrix, right)
    residual = np.abs(matrix @ found - right)
    # the bound of backward substitution: size * eps * |A| |X|
    assert (residual <= size * 4e-16 * (np.abs(matrix) @ np.abs(found)) + 1e-300).all()


def test_singular_triangular_system_gives_infinities():
    with np.errstate(all="ignore"):
        found = run("_linalg_trsm", np.array([[0.0, 0], [1, 1]]), np.array([[1.0], [2]]))
    assert found.reshape(-1).tolist() == [np.inf, -np.inf]


def test_diagonals_and_triangles():
    assert run("_linalg_extractdiag", JUNK, offset=1).tolist() == [9, 9]
    assert run("_linalg_makediag", np.array([1.0, 2]), offset=-1).tolist() == [[0, 0, 0], [1, 0, 0], [0, 2, 0]]
    assert run("_linalg_extracttrian", JUNK).tolist() == [4, 1, 4.25, 0.5, 0.25, 3]
    assert run("_linalg_extracttrian", JUNK, lower=False).tolist() == [4, 9, 4.25, 9, 9, 3]
    numbers = np.arange(16.0).reshape(4, 4)
    assert run("_linalg_extracttrian", numbers, lower=False).tolist() == [0, 1, 5, 2, 6, 10, 3, 7, 11, 15]
    assert run("_linalg_extracttrian", numbers, offset=1).tolist() == [1, 2, 6, 3, 7, 11]
    assert run("_linalg_extracttrian", numbers, offset=-1).tolist() == [4, 8, 9, 12, 13, 14]
    assert run("_linalg_maketrian", np.arange(1.0, 7), lower=False).tolist() == [[1, 2, 4], [0, 3, 5], [0, 0, 6]]
    assert run("_linalg_extracttrian", JUNK, offset=-1, lower=False).tolist() == [1, 0.5, 0.25]
    assert run("_linalg_maketrian", np.array([1.0, 2, 3])).tolist() == [[1, 0], [2, 3]]
    assert run("_linalg_maketrian", np.array([1.0, 2, 3]), lower=False).tolist() == [[1, 2], [0, 3]]
    assert run("_linalg_maketrian", np.array([1.0, 2, 3]), offset=1).tolist() == [[0, 1, 2], [0, 0, 3], [0, 0, 0]]
    assert run("_linalg_maketrian", np.array([1.0, 2, 3]), offset=-1).tolist() == [[0, 0, 0], [1, 0, 0], [2, 3, 0]]
    assert run("_linalg_sumlogdiag", np.stack([np.eye(2), np.diag([3.0, 17])])).tolist() == [0, np.log(3) + np.log(17)]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_factorizations(dtype):
    tolerance = 8 * np.finfo(dtype).eps
    matrix = definite(2, 4, 4).astype(dtype)
    lower = run("_linalg_potrf", matrix)
    assert np.array_equal(lower, np.tril(lower))
    assert np.allclose(lower @ np.swapaxes(lower, -1, -2), matrix, rtol=tolerance, atol=tolerance * 8)
    assert np.allclose(run("_linalg_potri", lower), np.linalg.inv(matrix.astype("d")), rtol=0, atol=tolerance * 8)
    vectors, values = run("_linalg_syevd", matrix)
    assert (np.diff(values) >= 0).all()
    rebuilt = np.swapaxes(vectors, -1, -2) @ (values[..., None] * vectors)
    assert np.allclose(rebuilt, matrix, rtol=0, atol=tolerance * 16)
    assert (np.take_along_axis(vectors, np.abs(vectors).argmax(-1)[..., None], -1) > 0).all()
    wide = regular(2, 4, 4)[:, :3].astype(dtype)
    orthonormal, lower = run("_linalg_gelqf", wide)
    assert np.array_equal(lower, np.tril(lower))
    assert np.allclose(lower @ orthonormal, wide, rtol=0, atol=tolerance)
    assert np.allclose(orthonormal @ np.swapaxes(orthonormal, -1, -2), np.eye(3), rtol=0, atol=tolerance)
    square = regular(2, 4, 4).astype(dtype)
    assert np.allclose(run("_linalg_inverse", square) @ square, np.eye(4), rtol=0, atol=tolerance * 4)
    determinant = run("_linalg_det", square)
    sign, logarithm = run("_linalg_slogdet", square)
    assert np.allclose(determinant, np.linalg.det(square.astype("d")), rtol=tolerance)
    assert np.allclose(sign * np.exp(logarithm), determinant, rtol=tolerance * 4)


def test_recorded_signs():
    orthonormal, lower = run("_linalg_gelqf", WIDE)
    expected = [-0.26726, -0.53452, -0.80178, -0.57735, -0.57735, 0.57735]
    assert np.allclose(orthonormal.reshape(-1), expected, atol=1e-5)
    assert np.allclose(lower.reshape(-1), [-3.74166, 0, -3.74166, -3.4641], atol=1e-5)
    vectors, values = run("_linalg_syevd", JUNK)
    expected = [-0.49728, 0.19217, 0.84604, -0.56182, 0.67176, -0.4828, 0.66112, 0.71541, 0.22609]
    assert np.allclose(vectors.reshape(-1), expected, atol=1e-5)
    assert np.allclose(values, [2.7629, 3.23399, 5.25312], atol=1e-5)


def test_one_matrix_gives_shape_one():
    for name in ("_linalg_det", "_linalg_sumlogdiag"):
        assert run(name, np.eye(2)).shape == (1,)
    assert run("_linalg_det", np.stack([np.eye(2)] * 3)).shape == (3,)
    assert run("_linalg_det", np.array([[1.0, 2], [2, 4]])).tolist() == [0]
    sign, logarithm = run("_linalg_slogdet", np.array([[1.0, 2], [2, 4]]))
    assert (sign.tolist(), logarithm.tolist()) == ([0], [-np.inf])


def test_empty_stacks():
    for name in ("potrf", "potri", "gelqf", "syevd", "inverse", "det", "slogdet", "sumlogdiag"):
        run(f"_linalg_{name}", np.zeros((0, 2, 2)))
        run(f"_linalg_{name}", np.zeros((2, 0, 0)))
    assert run("_linalg_det", np.zeros((2, 0, 0))).tolist() == [1, 1]


def test_not_a_number_passes_through():
    matrix = np.stack([np.full((2, 2), np.nan), np.eye(2)])
    vectors, values = run("_linalg_syevd", matrix)
    assert np.isnan(vectors[0]).all()
    assert values[1].tolist() == [1, 1]
    assert np.array_equal(run("_linalg_inverse", matrix), np.stack([matrix[0], np.eye(2)]), equal_nan=True)
    assert np.array_equal(run("_linalg_potrf", matrix), np.stack([np.tril(matrix[0]), np.eye(2)]), equal_nan=True)
    (grad,) = gradient("_linalg_det", matrix)
    assert np.isnan(grad[0]).all()
    assert grad[1].tolist() == [[2, 0], [0, 2]]


def test_equal_eigenvalues():
    nodes, bindings = leaves_for([np.eye(3)])
    _, values = Sample("_linalg_syevd", [], {}).call([variable(nodes[0], 0)])
    ((_, grad),) = differentiate((values * values,), (None,)).targets.items()
    # the sum of the squared eigenvalues is the sum of the squared elements
    assert np.array_equal(evaluate([grad], bindings)[0], 2 * np.eye(3))


@pytest.mark.parametrize(
    ("name", "arrays", "text"),
    [
        ("potrf", [np.array([[1.0, 2], [2, 1]])], "leading minor of order 2 of the matrix is not positive definite"),
        ("potrf", [np.stack([np.eye(3), -np.eye(3)])], "leading minor of order 1 of matrix [1] of the stack"),
        ("potrf", [np.zeros((2, 3))], "No square matrix as input to potrf. (operator _linalg_potrf, shape [2,3])"),
        ("potrf", [np.zeros(3)], "Operator _linalg_potrf inferring shapes failed: input shapes [3]"),
        ("potrf", [np.eye(2, dtype="float16")], "only supports 32-bit and 64-bit floating point"),
        ("potri", [np.array([[1.0, 0], [1, 0]])], "element 1 of the diagonal of the matrix is zero"),
        ("potri", [np.stack([np.eye(2), np.zeros((2, 2))])], "element 0 of the diagonal of matrix [1] of the stack"),
        ("inverse", [np.array([[1.0, 2], [2, 4]])], "the input matrix is non-convertible: the matrix is singular"),
        ("inverse", [np.zeros((2, 3))], "Input A's last two dimension must be equal"),
        ("det", [np.zeros((2, 3))], "Input A's last two dimension must be equal"),
        ("syevd", [np.zeros((2, 3))], "Input A shape wrong: Last two dimensions must be equal"),
        ("gelqf", [np.zeros((3, 2))], "Last dimension must be >= than second to last"),
        ("trsm", [np.eye(3), np.zeros((2, 3))], "Incompatible matrix dimensions for multiplication"),
        ("trsm", [np.zeros((3, 2)), np.zeros((3, 2))], "First operand must be a tensor of square matrices"),
        ("trmm", [np.zeros((2, 3, 3)), np.zeros((1, 3, 2))], "must be the same, except on last two dimensions"),
        ("trmm", [np.eye(3), np.eye(3, dtype="f")], "Incompatible attr in node  at 1-th input: expected float64"),
        ("gemm2", [np.zeros((2, 3)), np.zeros((2, 3))], "Incompatible matrix dimensions for multiplication: 3 columns"),
        ("gemm2", [np.zeros((2, 2, 3)), np.zeros((3, 3, 2))], "must be the same, except on row/col axis"),
        ("gemm2", [np.zeros((2, 2, 3)), np.zeros((3, 2))], "Operator _linalg_gemm2 inferring shapes failed"),
        ("gemm", [np.eye(2), np.eye(2), np.zeros((1, 2))], "Provided = [1,2], inferred shape=[2,2]"),
        ("extractdiag", [np.zeros((2, 3))], "Input operand must be a tensor of square matrices"),
        ("sumlogdiag", [np.zeros((2, 3))], "sumlogdiag operator requires square matrices as input."),
        ("maketrian", [np.zeros(2)], "maketrian has an invalid dimension for the last axis"),
    ],
)
def test_errors(name, arrays, text):
    with pytest.raises(MXNetError, match=re.escape(text)):
        run(f"_linalg_{name}", *arrays)


def test_parameter_errors():
    with pytest.raises(MXNetError, match=r"Illegal offset 3 for diag/trian extraction"):
        run("_linalg_extractdiag", np.eye(3), offset=3)
    with pytest.raises(MXNetError, match=r"Illegal offset -3"):
        run("_linalg_extracttrian", np.eye(3), offset=-3)
    for axis in (-1, 1, 5):
        with pytest.raises(MXNetError, match=rf"Invalid row axis \({axis}\)"):
            run("_linalg_gemm2", np.eye(3), np.eye(3), axis=axis)


def test_signs_are_those_of_the_first_largest_component():
    rows = np.array([[2.0, -3.0, 1.0], [-1.0, 0.5, 0.0], [4.0, -1.0, 2.0]])
    assert lapack.signs_of_largest(rows)[:, 0].tolist() == [-1, -1, 1]
    equal = np.array([[1.0, -1.0], [-2.0, 2.0], [3.0, 1.0], [-0.0, 0.0]])
    assert lapack.signs_of_largest(equal)[:, 0].tolist() == [1, -1, 1, -1]


@pytest.mark.parametrize("size", [3, 70])
def test_eigenvalues_read_the_lower_triangle_of_finite_matrices_alone(size):
    lower = np.tril(np.random.default_rng(0).normal(size=(3, size, size)))
    dirty = lower + np.triu(np.full((size, size), np.nan), 1)
    dirty[1, 1, 0] = np.inf
    vectors, values = [part.asnumpy() for part in mx.nd.linalg.syevd(mx.nd.array(dirty, dtype="float64"))]
    whole = lower + np.swapaxes(np.tril(lower, -1), -1, -2)
    for place in (0, 2):
        np.testing.assert_allclose(values[place], np.linalg.eigvalsh(whole[place]), atol=1e-10)
        np.testing.assert_allclose((vectors[place].T * values[place]) @ vectors[place], whole[place], atol=1e-10)
    assert np.isnan(values[1]).all()
    assert np.isnan(vectors[1]).all()


@pytest.mark.parametrize("name", ["potrf", "gelqf", "syevd", "trsm", "trmm"])
def test_gradients_of_large_matrices_that_compute_one_triangle(name):
    nd, size, step = mx.nd, 200, 1e-6
    generator = np.random.default_rng(0)
    any_, weights, change = generator.standard_normal((3, size, size))
    point = any_ @ any_.T / size + np.eye(size)
    change = (change + change.T) / 50
    if name in ("trsm", "trmm"):
        point, change = np.linalg.cholesky(point), np.tril(change)
    weight, other = nd.array(weights, dtype="float64"), nd.array(any_, dtype="float64")

    def function(data):
        if name in ("trsm", "trmm"):
            return (getattr(nd.linalg, name)(data, other) * weight).sum()
        found = getattr(nd.linalg, name)(data)
        if name == "syevd":
            return (found[1] * weight[0]).sum()
        return (found * weight).sum() if name == "potrf" else (found[0] * weight + found[1] * weight.T).sum()

    variable = nd.array(point, dtype="float64")
    variable.attach_grad()
    with mx.autograd.record():
        result = function(variable)
    result.backward()
    slope = (variable.grad.asnumpy() * change).sum()
    ends = [function(nd.array(point + sign * step * change, dtype="float64")).asscalar() for sign in (1, -1)]
    assert slope == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-5, abs=1e-4)
