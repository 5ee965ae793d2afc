"""The environment of a test: default context, environment variables, retries, standard error, external data."""

from __future__ import annotations

import contextlib
import functools
import gzip
import os
import platform
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NoReturn, TypeVar, cast
from urllib.parse import urlparse

import numpy as np

from ..base import data_dir
from ..core.base.devices import Context, current_context
from ..core.base.errors import MXNetError
from ..core.base.files import write_atomically
from ..io import MNISTIter

__all__ = [
    "DummyIter",
    "default_context",
    "discard_stderr",
    "download",
    "environment",
    "get_cuda_compute_capability",
    "get_im2rec_path",
    "get_mnist",
    "get_mnist_iterator",
    "has_tvm_ops",
    "is_aarch64_run",
    "is_cd_run",
    "is_op_runnable",
    "list_gpus",
    "retry",
    "set_default_context",
    "set_env_var",
    "with_environment",
]

_Function = TypeVar("_Function", bound=Callable[..., Any])

_MNIST_SERVER = "http://data.mxnet.io/data/mnist"
_MNIST_FILES = {
    "train_data": "train-images-idx3-ubyte.gz",
    "train_label": "train-labels-idx1-ubyte.gz",
    "test_data": "t10k-images-idx3-ubyte.gz",
    "test_label": "t10k-labels-idx1-ubyte.gz",
}


def default_context() -> Context:
    """Return the default context of this thread."""
    return current_context()


def set_default_context(ctx: Context) -> None:
    """Set the default context of this thread."""
    Context._default.set(Context(ctx))


def list_gpus() -> list[int]:
    """Return the numbers of available GPUs: an empty list."""
    return []


def get_cuda_compute_capability(ctx: Context) -> NoReturn:
    """Raise an error: no context is a GPU."""
    raise ValueError(f"Expecting a gpu context to get cuda compute capability, while received ctx {ctx}")


def has_tvm_ops() -> bool:
    """Return whether TVM operators are available: False."""
    return False


def is_op_runnable() -> bool:
    """Return whether operators run in the current context: True."""
    return True


def is_cd_run() -> bool:
    """Return whether the variable ``CD_JOB`` marks a continuous delivery job."""
    return os.environ.get("CD_JOB") == "1"


def is_aarch64_run() -> bool:
    """Return whether the processor is a 64-bit ARM."""
    return platform.machine() == "aarch64"


def get_im2rec_path(home_env: str = "MXNET_HOME") -> str:
    """Return the path of ``im2rec.py`` below the directory that a variable names.

    Raises
    ------
    MXNetError
        If it does not exist; it is not part of this library.
    """
    candidate = os.path.join(os.environ.get(home_env, ""), "tools", "im2rec.py")
    if home_env in os.environ and os.path.isfile(candidate):
        return candidate
    raise MXNetError(
        f"Could not find path to tools/im2rec.py: set {home_env} to a checkout of MXNet, or write records with "
        "mx.recordio.MXIndexedRecordIO and mx.recordio.pack_img."
    )


@contextlib.contextmanager
def environment(*args: Any) -> Iterator[None]:
    """Return a scope that sets environment variables; None unsets one.

    Parameters
    ----------
    *args
        A name and a value, or one dictionary from names to values.

    >>> with environment("COLOUR", "red"):
    ...     os.environ["COLOUR"]
    'red'
    >>> "COLOUR" in os.environ
    False
    """
    if len(args) == 1 and isinstance(args[0], Mapping):
        changes = dict(args[0])
    else:
        assert len(args) == 2, "Expecting one dict arg or two args: env var name and value"
        changes = {args[0]: args[1]}
    before = {name: os.environ.get(name) for name in changes}
    try:
        _set_variables(changes)
        yield
    finally:
        _set_variables(before)


def _set_variables(values: Mapping[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def with_environment(*args: Any) -> Callable[[_Function], _Function]:
    """Return a decorator that runs a function with changed environment variables; see :func:`environment`."""

    def decorate(function: _Function) -> _Function:
        @functools.wraps(function)
        def wrapped(*positional: Any, **keywords: Any) -> Any:
            with environment(*args):
                return function(*positional, **keywords)

        return cast(_Function, wrapped)

    return decorate


def set_env_var(key: str, val: str, default_val: str = "") -> str:
    """Set an environment variable and return its previous value, or `default_val` if it had none."""
    previous = os.environ.get(key, default_val)
    os.environ[key] = val
    return previous


def retry(n: int) -> Callable[[_Function], _Function]:
    """Return a decorator that repeats a function up to `n` times until none of its assertions fails."""
    assert n > 0, "a function must be tried at least once"

    def decorate(function: _Function) -> _Function:
        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            for _ in range(n - 1):
                with contextlib.suppress(AssertionError):
                    return function(*args, **kwargs)
            return function(*args, **kwargs)

        return cast(_Function, wrapped)

    return decorate


@contextlib.contextmanager
def discard_stderr() -> Iterator[None]:
    """Return a scope that discards standard error, including output of native code."""
    sys.stderr.flush()
    saved = os.dup(2)
    try:
        with open(os.devnull, "wb") as nowhere, contextlib.redirect_stderr(open(os.devnull, "w")) as stream, stream:
            os.dup2(nowhere.fileno(), 2)
            yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)


class DummyIter:
    """An iterator that repeats the first batch of another one forever, to measure speed without input."""

    def __init__(self, real_iter: Any) -> None:
        self.real_iter = real_iter
        self.provide_data = real_iter.provide_data
        self.provide_label = real_iter.provide_label
        self.batch_size = real_iter.batch_size
        self.the_batch = next(iter(real_iter))

    def __iter__(self) -> DummyIter:
        return self

    def __next__(self) -> Any:
        return self.the_batch

    def next(self) -> Any:
        """Return the batch."""
        return self.the_batch

    def reset(self) -> None:
        """Do nothing; every batch is the first one."""


def download(
    url: str, fname: str | None = None, dirname: str | None = None, overwrite: bool = False, retries: int = 5
) -> str:
    """Download a file and return its path; an existing one is used unless `overwrite` is true.

    Parameters
    ----------
    url
        The URL.
    fname
        The name of the file; by default the last part of the URL.
    dirname
        The directory, by default that of `fname` or the current one.
    overwrite
        Whether to download again.
    retries
        The number of attempts.

    Raises
    ------
    MXNetError
        If every attempt failed, for example without a network.
    """
    assert retries >= 1, "there must be at least one try"
    path = fname or os.path.basename(urlparse(url).path)
    if not path:
        raise ValueError(f"the URL {url} has no file name; pass fname")
    if dirname is not None:
        path = os.path.join(dirname, path)
    if os.path.exists(path) and not overwrite:
        return path
    directory = os.path.dirname(path)
    if directory:
        os.makedirs(directory, exist_ok=True)
    reason: Exception | None = None
    for _ in range(retries):
        try:
            with urllib.request.urlopen(url, timeout=30) as response:
                write_atomically(path, iter(lambda: response.read(1 << 20), b""))
            return path
        except urllib.error.HTTPError as error:
            error.close()  # it holds the connection
            reason = error
        except (urllib.error.URLError, TimeoutError, ConnectionError) as error:
            reason = error
    raise MXNetError(
        f"Failed downloading {url} after {retries} tries: {reason}. Without a network, put the file at {path} yourself."
    ) from reason


def get_mnist() -> dict[str, Any]:
    """Return the MNIST digits, downloaded if they are not on this machine.

    The result has images of shape (N, 1, 28, 28) in [0, 1] under ``'train_data'`` and ``'test_data'``, and
    labels under ``'train_label'`` and ``'test_label'``. The function looks for the four files in the current directory,
    in its subdirectory ``data/`` and in ``~/.mxnet/datasets/mnist``.

    Raises
    ------
    MXNetError
        If a file is missing and cannot be downloaded.
    """
    return {key: _read_idx(path, key.endswith("data")) for key, path in _mnist_paths("").items()}


def get_mnist_iterator(
    batch_size: int, input_shape: tuple[int, ...], num_parts: int = 1, part_index: int = 0
) -> tuple[MNISTIter, MNISTIter]:
    """Return iterators over the MNIST digits for training and validation, from the files of :func:`get_mnist`.

    Images are vectors unless `input_shape` has three numbers.
    """
    paths = _mnist_paths("data")
    training, validation = (
        MNISTIter(
            paths[f"{kind}_data"],
            paths[f"{kind}_label"],
            batch_size,
            flat=len(input_shape) != 3,
            num_parts=num_parts,
            part_index=part_index,
        )
        for kind in ("train", "test")
    )
    return training, validation


def _mnist_paths(target: str) -> dict[str, str]:
    """Return the paths of the four files, gzipped or not; download them into a directory if they are nowhere."""
    for directory in (".", "data", os.path.join(data_dir(), "datasets", "mnist")):
        for ending in (".gz", ""):
            names = {key: name.removesuffix(".gz") + ending for key, name in _MNIST_FILES.items()}
            paths = {key: os.path.join(directory, name) for key, name in names.items()}
            if all(os.path.exists(path) for path in paths.values()):
                return paths
    return {key: download(f"{_MNIST_SERVER}/{name}", name, target) for key, name in _MNIST_FILES.items()}


def _read_idx(path: str, images: bool) -> Any:
    """Return the contents of an IDX file of bytes, gzipped or not."""
    with gzip.open(path, "rb") if path.endswith(".gz") else open(path, "rb") as file:
        data = file.read()
    if len(data) < 4 or data[:3] != b"\0\0\x08":
        raise MXNetError(f"{path} is not an IDX file of bytes")
    axes = data[3]
    shape = tuple(int(length) for length in np.frombuffer(data[4 : 4 + 4 * axes], ">u4"))
    if len(shape) != axes or len(data) != 4 + 4 * axes + int(np.prod(shape, dtype=object)):
        raise MXNetError(f"{path} is damaged: its {len(data)} bytes do not match the shape {shape}")
    values = np.frombuffer(data, np.uint8, offset=4 + 4 * axes).reshape(shape)
    if not images:
        return values.astype(np.int32)
    return values.reshape(shape[0], 1, *shape[1:]).astype(np.float32) / 255
