"""Split batches over contexts, clip gradients, and download files (``mxnet.gluon.utils``)."""

from __future__ import annotations

import functools
import hashlib
import operator
import os
import tempfile
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import ndarray
from ..core.base.devices import Context
from ..ndarray.array import NDArray
from ..ndarray.semantics import of_chosen_kind
from .block.plain import HookHandle
from .parameter.parameter import is_known as shape_is_known
from .text import brief_list, indented

__all__ = [
    "HookHandle",
    "check_sha1",
    "clip_global_norm",
    "download",
    "replace_file",
    "shape_is_known",
    "split_and_load",
    "split_data",
]

_BLOCK_BYTES = 1 << 20
_REPOSITORY = "https://apache-mxnet.s3-accelerate.dualstack.amazonaws.com/"

# other libraries import these under MXNet's names
_indent = indented
_brief_print_list = brief_list


def split_data(data: Any, num_slice: int, batch_axis: int = 0, even_split: bool = True) -> list[Any]:
    """Return an array in `num_slice` parts along an axis.

    Parameters
    ----------
    data
        The array.
    num_slice
        The number of parts.
    batch_axis
        The axis.
    even_split
        Whether all parts must have the same size.

    Raises
    ------
    ValueError
        If `even_split` is set and the parts differ in size.

    Examples
    --------
    >>> import phonograd as mx
    >>> [part.shape for part in split_data(mx.nd.ones((5, 2)), 2, even_split=False)]
    [(3, 2), (2, 2)]
    """
    size = data.shape[batch_axis]
    if even_split and size % num_slice != 0:
        raise ValueError(
            f"data with shape {data.shape} cannot be evenly split into {num_slice} slices along axis {batch_axis}. "
            f"Use a batch size that's multiple of {num_slice} or set even_split=False to allow uneven partitioning of "
            "data."
        )
    each, extra = divmod(size, num_slice)
    ends = [each * (number + 1) + min(number + 1, extra) for number in range(num_slice)]
    bounds = list(zip([0, *ends], ends))
    if batch_axis == 0:
        return [data[begin:end] for begin, end in bounds]
    return [ndarray.slice_axis(data, axis=batch_axis, begin=begin, end=end) for begin, end in bounds]


def split_and_load(
    data: Any, ctx_list: Sequence[Context], batch_axis: int = 0, even_split: bool = True
) -> list[NDArray]:
    """Return an array in as many parts as there are contexts, one part on each context.

    Parameters
    ----------
    data
        An array, or values for one.
    ctx_list
        The contexts.
    batch_axis
        The axis that is split.
    even_split
        Whether all parts must have the same size.

    Examples
    --------
    >>> parts = mx.gluon.utils.split_and_load(mx.nd.ones((4, 2)), [mx.cpu(0), mx.cpu(1)])
    >>> [(part.shape, part.context) for part in parts]
    [((2, 2), cpu(0)), ((2, 2), cpu(1))]
    """
    if not isinstance(data, NDArray):
        data = of_chosen_kind(ndarray.array(data, ctx=ctx_list[0]))
    if len(ctx_list) == 1:
        return [data.as_in_context(ctx_list[0])]
    slices = split_data(data, len(ctx_list), batch_axis, even_split)
    return [part.as_in_context(context) for part, context in zip(slices, ctx_list)]


def clip_global_norm(arrays: Sequence[NDArray], max_norm: float, check_isfinite: bool = True) -> Any:
    """Scale arrays in place so that their common norm is at most `max_norm`; return the norm before scaling.

    With ``check_isfinite=False`` the norm is an array, and the call does not wait for its value.

    Parameters
    ----------
    arrays
        The arrays, gradients as a rule.
    max_norm
        The largest norm of all of them together.
    check_isfinite
        Whether to warn of a norm that is NaN or infinite, which waits for its value.

    Examples
    --------
    >>> gradients = [mx.nd.array([3.0]), mx.nd.array([4.0])]
    >>> float(mx.gluon.utils.clip_global_norm(gradients, 1.0))
    5.0
    >>> [round(float(one), 3) for one in gradients]
    [0.6, 0.8]
    """
    assert len(arrays) > 0, "clip_global_norm needs at least one array"
    context = arrays[0].context
    squares = [ndarray.sum(ndarray.square(array)).as_in_context(context) for array in arrays]
    norm = ndarray.sqrt(functools.reduce(operator.add, squares))
    value: Any = norm.asscalar() if check_isfinite else norm
    if check_isfinite and not np.isfinite(value):
        warnings.warn("nan or inf is detected. Clipping results will be undefined.", UserWarning, stacklevel=2)
    scale = ndarray.minimum(max_norm / (norm + 1e-8), 1.0)
    for array in arrays:
        array *= scale.as_in_context(array.context).astype(array.dtype)
    return value


def check_sha1(filename: str, sha1_hash: str) -> bool:
    """Return whether a file has the given SHA-1 hash.

    Parameters
    ----------
    filename
        The path of the file.
    sha1_hash
        The hash, in hexadecimal digits.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "empty"
    >>> _ = path.write_bytes(b"")
    >>> mx.gluon.utils.check_sha1(str(path), "da39a3ee5e6b4b0d3255bfef95601890afd80709")
    True
    """
    digest = hashlib.sha1(usedforsecurity=False)
    with open(filename, "rb") as file:
        while block := file.read(_BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest() == sha1_hash


def replace_file(src: str, dst: str) -> None:
    """Move a file to the path of another one, atomically.

    Parameters
    ----------
    src
        The path of the file.
    dst
        The path that it gets.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "new").write_text("text")
    >>> mx.gluon.utils.replace_file(str(folder / "new"), str(folder / "old"))
    >>> (folder / "old").read_text()
    'text'
    """
    os.replace(src, dst)


def _get_repo_url() -> str:
    """Return the address of Gluon's datasets and models, with a final slash; MXNET_GLUON_REPO overrides it."""
    return os.environ.get("MXNET_GLUON_REPO", _REPOSITORY).rstrip("/") + "/"


def _get_repo_file_url(namespace: str, filename: str) -> str:
    """Return the address of a file in Gluon's repository."""
    return f"{_get_repo_url()}{namespace}/{filename}"


def download(
    url: str,
    path: str | None = None,
    overwrite: bool = False,
    sha1_hash: str | None = None,
    retries: int = 5,
    verify_ssl: bool = True,
) -> str:
    """Download a file unless it exists, and return its path.

    Parameters
    ----------
    url
        The address of the file.
    path
        The target: a directory or the path of the file. None stands for the current directory.
    overwrite
        Whether to download the file even if it exists.
    sha1_hash
        The expected SHA-1 hash.
    retries
        The number of retries.
    verify_ssl
        Whether to verify certificates.

    Raises
    ------
    OSError
        If the download fails. The message contains the address, the target and the reason.
    """
    # the readers of addresses and certificates take 2 MB, which only downloads need
    from urllib.error import URLError

    assert retries >= 0, f"Number of retries should be at least 0, currently it's {retries}"
    name = url.split("/")[-1]
    if path is None:
        assert name, f"Can't construct file-name from this URL. Please set the `path` option manually: {url}"
        target = name
    else:
        path = os.path.expanduser(path)
        target = os.path.join(path, name) if os.path.isdir(path) else path
    if not overwrite and os.path.exists(target) and (not sha1_hash or check_sha1(target, sha1_hash)):
        return target
    os.makedirs(os.path.dirname(os.path.abspath(os.path.expanduser(target))), exist_ok=True)
    if not verify_ssl:
        warnings.warn(
            "Unverified HTTPS request is being made (verify_ssl=False). Adding certificate verification is strongly "
            "advised.",
            stacklevel=2,
        )
    for attempt in range(retries + 1):
        try:
            _fetch(url, target, sha1_hash, verify_ssl)
            return target
        except (URLError, TimeoutError, ConnectionError) as error:
            if attempt == retries or _is_hopeless(error):
                reason = getattr(error, "reason", error)
                raise OSError(
                    f"{url} could not be downloaded ({reason}). Without a network, put the file at "
                    f"{os.path.abspath(target)!r} by hand; the next call finds it there."
                ) from error
    raise AssertionError("unreachable: the last attempt returns or raises")


def _is_hopeless(error: Exception) -> bool:
    """Return whether a retry is pointless: the address is wrong, or there is no network."""
    from urllib.error import HTTPError

    if isinstance(error, HTTPError):
        return 400 <= error.code < 500
    return isinstance(getattr(error, "reason", None), OSError) and not isinstance(error, TimeoutError)


def _fetch(url: str, target: str, sha1_hash: str | None, verify_ssl: bool) -> None:
    import ssl
    from urllib import request

    context = None if verify_ssl else ssl._create_unverified_context()
    handle, partial = tempfile.mkstemp(dir=os.path.dirname(os.path.abspath(target)))
    try:
        with os.fdopen(handle, "wb") as file, request.urlopen(url, context=context, timeout=60) as source:
            while block := source.read(_BLOCK_BYTES):
                file.write(block)
        if sha1_hash and not check_sha1(partial, sha1_hash):
            raise OSError(
                f"File {target} is downloaded but the content hash does not match. The repo may be outdated or "
                "download may be incomplete. If the `repo_url` is overridden, consider switching to the default repo."
            )
        replace_file(partial, target)
    finally:
        if os.path.exists(partial):
            os.remove(partial)
