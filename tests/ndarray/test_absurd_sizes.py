"""Results that no computer can store, or for which there is no memory: an error names operator and shape."""

import resource
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

import phonograd as mx
from phonograd import nd, np

HUGE = 1 << 40

CALLS: dict[str, tuple[Callable[[], Any], str]] = {
    "nd.ones": (lambda: nd.ones((HUGE, HUGE)), "_ones"),
    "nd.zeros": (lambda: nd.zeros((1 << 70,)), "_zeros"),
    "nd.full": (lambda: nd.full((HUGE, HUGE), 3), "_full"),
    "nd.empty": (lambda: nd.empty((HUGE, HUGE)), "_"),
    "nd.arange": (lambda: nd.arange(0, 1e30), "_arange"),
    "nd.tile": (lambda: nd.tile(nd.ones((2,)), reps=(HUGE, HUGE)), "tile"),
    "nd.repeat": (lambda: nd.repeat(nd.ones((2,)), repeats=HUGE * HUGE), "repeat"),
    "nd.pad": (
        lambda: nd.pad(nd.ones((1, 1, 2, 2)), mode="constant", pad_width=(0, 0, 0, 0, HUGE, HUGE, HUGE, HUGE)),
        "Pad",
    ),
    "nd.broadcast_to": (lambda: nd.ones((1, 1)).broadcast_to((HUGE, HUGE)), "broadcast_to"),
    "nd.one_hot": (lambda: nd.one_hot(nd.array([1, 2]), depth=1 << 62), "one_hot"),
    "nd.random": (lambda: nd.random.uniform(shape=(HUGE, HUGE)), "_random_uniform"),
    "nd.diag": (lambda: nd.diag(nd.ones((2,)), k=HUGE), "diag"),
    "nd.UpSampling": (lambda: nd.UpSampling(nd.ones((1, 1, 2, 2)), scale=HUGE, sample_type="nearest"), "UpSampling"),
    "nd.Convolution": (
        lambda: nd.Convolution(
            nd.ones((1, 1, 2, 2)), nd.ones((1, 1, 1, 1)), kernel=(1, 1), num_filter=1, no_bias=True, pad=(HUGE, HUGE)
        ),
        "Convolution",
    ),
    "a product": (lambda: nd.ones((1 << 31, 1)) * nd.ones((1, 1 << 31)), "broadcast_mul"),
    "np.zeros": (lambda: np.zeros((HUGE, HUGE)), "_zeros"),
    "np.pad": (lambda: np.pad(np.ones((2, 2)), ((HUGE, HUGE), (HUGE, HUGE))), "pad"),
    "np.vander": (lambda: np.vander(np.ones(3), HUGE * HUGE), "vander"),
    "np.kaiser": (lambda: np.kaiser(HUGE * HUGE, 1.0), "kaiser"),
    "np.resize": (lambda: np.resize(np.ones(3), (1 << 33, 1 << 33)), "resize"),
    "np.eye": (lambda: np.eye(HUGE, HUGE), "_eye"),
    "np.linspace": (lambda: np.linspace(0, 1, HUGE * HUGE), "_linspace"),
    "np.indices": (lambda: np.indices((HUGE, HUGE)), "indices"),
    "np.tri": (lambda: np.tri(HUGE, HUGE), "tri"),
    "np.blackman": (lambda: np.blackman(HUGE * HUGE), "blackman"),
    "np.logspace": (lambda: np.logspace(0, 1, HUGE * HUGE), "logspace"),
    "nd.sparse.zeros": (lambda: nd.sparse.zeros("csr", (1 << 61, 2)), "zeros"),
    "a sparse array": (lambda: nd.sparse.zeros("row_sparse", (HUGE, HUGE)).asnumpy(), "cast_storage"),
    "a symbol": (lambda: mx.sym.ones((HUGE, HUGE)).eval(), "_ones"),
}


@pytest.mark.parametrize("name", CALLS)
def test_results_that_no_computer_can_store(name: str) -> None:
    call, operator = CALLS[name]
    with pytest.raises(mx.MXNetError, match=rf"a result of shape \[[0-9,]+\] and type .*, in operator {operator}"):
        call()


#: NumPy has no memory for the results, or no number as large
HOST_CALLS: dict[str, tuple[Callable[[], Any], str]] = {
    "np.vander": (lambda: np.vander(np.ones(3), HUGE), "vander"),
    "np.pad": (lambda: np.pad(np.ones(3), HUGE, mode="edge"), "pad"),
    "np.pad of too many": (lambda: np.pad(np.ones(3), 1 << 70), "pad"),
    "np.tri": (lambda: np.tri(3, 3, 1 << 70), "tri"),
    "np.histogram": (lambda: np.histogram(np.ones(3), bins=HUGE), "histogram"),
    "nd.histogram": (lambda: nd.histogram(nd.ones(3), bins=HUGE, range=(0, 1)), "histogram"),
    "np.array_split": (lambda: np.array_split(np.ones(6), HUGE), "array_split"),
    "np.insert": (lambda: np.insert(np.ones(3), 1 << 70, 1.0), "insert"),
    "np.unravel_index": (lambda: np.unravel_index(1 << 70, (3, 2)), "unravel_index"),
    "np.tril_indices": (lambda: np.tril_indices(HUGE), "tril_indices"),
    "np.diag_indices": (lambda: np.diag_indices(HUGE), "diag_indices"),
    "np.random.permutation": (lambda: np.random.permutation(HUGE), "permutation"),
    "np.random.choice": (lambda: np.random.choice(HUGE, 2, replace=False), "permutation"),
    "nd.RNN": (
        lambda: nd.RNN(
            nd.ones((2, 1, 2)), nd.ones(10), nd.ones((1, 1, 2)), state_size=2, num_layers=HUGE, mode="rnn_tanh"
        ),
        "RNN",
    ),
    "nd.scatter_nd": (lambda: nd.scatter_nd(nd.ones(1), nd.zeros((1, 1)), shape=(-HUGE,)), ""),
    "image.imresize": (lambda: mx.image.imresize(nd.ones((2, 2, 3), dtype="uint8"), HUGE, 2), "imresize"),
    "image.copyMakeBorder": (
        lambda: mx.image.copyMakeBorder(nd.ones((2, 2, 3), dtype="uint8"), HUGE, 0, 0, 0),
        "copyMakeBorder",
    ),
}


@pytest.mark.parametrize("name", HOST_CALLS)
def test_results_that_numpy_cannot_make(name: str) -> None:
    call, operator = HOST_CALLS[name]
    with pytest.raises(mx.MXNetError, match=f"in operator {operator}$" if operator else "Invalid data") as caught:
        call()
    assert caught.value.__cause__ is None or str(caught.value.__cause__) in str(caught.value)


def test_powers_of_ten_that_are_infinite() -> None:
    assert np.isnan(np.around(np.ones(3), 400)).all()
    assert np.isnan(np.around(np.ones(3), -400)).all()


def test_a_shape_with_negative_extents() -> None:
    with pytest.raises(ValueError, match="non-negative"):
        np.resize(np.ones(3), (-2,))


def test_a_reshape_to_more_elements() -> None:
    with pytest.raises(mx.MXNetError, match=r"in reshape of \[2\] to"):
        nd.ones((2,)).reshape((HUGE, HUGE))


def test_results_without_memory() -> None:
    """An evaluation that needs more memory than there is raises a MemoryError that names the operator."""
    script = (
        "import resource\n"
        "import phonograd as mx\n"
        "from phonograd.core.run.memory_pool import pool\n"
        "mx.nd.ones((2,)).asnumpy()\n"
        "resource.setrlimit(resource.RLIMIT_AS, (8 << 30, resource.RLIM_INFINITY))\n"
        "used = pool.used_bytes\n"
        "try:\n"
        "    mx.nd.ones((1 << 34,)).asnumpy()\n"
        "except MemoryError as error:\n"
        "    assert isinstance(error, mx.MXNetError), error\n"
        "    assert 'in operator _full' in str(error), error\n"
        "    assert '[17179869184]' in str(error), error\n"
        "else:\n"
        "    raise AssertionError\n"
        "assert pool.used_bytes == used, 'the pool counts memory that it never had'\n"
        "assert mx.nd.ones((2,)).asnumpy().tolist() == [1, 1]\n"
    )
    if resource.getrlimit(resource.RLIMIT_AS)[1] not in (resource.RLIM_INFINITY,):
        pytest.skip("the address space is limited already")
    subprocess.run([sys.executable, "-c", script], check=True)
