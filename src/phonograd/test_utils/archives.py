"""Test data as files in the directory ``data``, downloaded and unpacked if a network is available."""

from __future__ import annotations

import bz2
import os
import zipfile
from typing import NoReturn

from ..core.base.errors import MXNetError
from ..core.base.files import write_atomically
from .surroundings import download

__all__ = ["download_model", "get_bz2_data", "get_cifar10", "get_mnist_pkl", "get_mnist_ubyte", "get_zip_data"]

_MNIST = [f"{kind}-{what}" for kind in ("train", "t10k") for what in ("images-idx3-ubyte", "labels-idx1-ubyte")]
_CIFAR10 = [os.path.join("cifar", name) for name in ("train.rec", "test.rec", "train.lst", "test.lst")]


def get_zip_data(data_dir: str, url: str, data_origin_name: str) -> None:
    """Download a zip archive and unpack it into a directory.

    An existing archive `data_origin_name` is not downloaded again.
    """
    path = download(url, data_origin_name, data_dir)
    try:
        with zipfile.ZipFile(path) as archive:
            archive.extractall(data_dir)
    except zipfile.BadZipFile as error:
        raise MXNetError(f"{path} is not a zip archive: {error}. Remove it to download it again.") from error


def get_bz2_data(data_dir: str, data_name: str, url: str, data_origin_name: str) -> None:
    """Download and unpack a file `data_name` into a directory unless it exists."""
    target = os.path.join(data_dir, data_name)
    if os.path.exists(target):
        return
    path = download(url, data_origin_name, data_dir)
    try:
        with bz2.open(path) as packed:
            write_atomically(target, iter(lambda: packed.read(1 << 20), b""))
    except (OSError, EOFError) as error:
        raise MXNetError(f"{path} cannot be unpacked: {error}. Remove it to download it again.") from error
    os.remove(path)


def get_mnist_ubyte() -> None:
    """Raise an error that names the missing files unless the four files of MNIST are in ``./data``."""
    _demand("get_mnist_ubyte", _MNIST)


def get_mnist_pkl() -> None:
    """Raise an error unless ``./data/mnist.pkl.gz`` exists."""
    _demand("get_mnist_pkl", ["mnist.pkl.gz"])


def get_cifar10() -> None:
    """Raise an error that names the missing files unless the records of CIFAR-10 are in ``./data/cifar``."""
    _demand("get_cifar10", _CIFAR10)


def download_model(model_name: str, dst_dir: str = "./", meta_info: object = None) -> NoReturn:
    """Raise an error: phonograd does not depend on MXNet's model server."""
    raise MXNetError(
        f"download_model does not download {model_name}: put its files into {os.path.abspath(dst_dir)} yourself, and "
        "load them with mx.model.load_checkpoint."
    )


def _demand(function: str, names: list[str]) -> None:
    missing = [path for path in [os.path.join("data", name) for name in names] if not os.path.exists(path)]
    if missing:
        raise MXNetError(f"{function} does not download anything: put these files there yourself: {', '.join(missing)}")
