"""Test data as files in the directory ``data``, downloaded and unpacked if a network is available."""

from __future__ import annotations

import bz2
import os
import zipfile
from collections.abc import Mapping

from ..core.base.errors import MXNetError
from ..core.base.files import write_atomically
from .surroundings import download

__all__ = ["download_model", "get_bz2_data", "get_cifar10", "get_mnist_pkl", "get_mnist_ubyte", "get_zip_data"]

_MNIST = [f"{kind}-{what}" for kind in ("train", "t10k") for what in ("images-idx3-ubyte", "labels-idx1-ubyte")]
_CIFAR10 = [os.path.join("cifar", name) for name in ("train.rec", "test.rec", "train.lst", "test.lst")]
#: the folder of a model on MXNet's server, the name of its files, and the epoch in it
_MODELS = {
    "imagenet1k-inception-bn": ("imagenet/inception-bn", "Inception-BN", "0126"),
    **{
        f"imagenet1k-resnet-{n}": (f"imagenet/resnet/{n}-layers", f"resnet-{n}", "0000") for n in (18, 34, 50, 101, 152)
    },
    **{f"imagenet1k-resnext-{n}": (f"imagenet/resnext/{n}-layers", f"resnext-{n}", "0000") for n in (50, 101)},
    "imagenet1k-resnext-101-64x4d": ("imagenet/resnext/101-layers", "resnext-101-64x4d", "0000"),
    "imagenet11k-resnet-152": ("imagenet-11k/resnet-152", "resnet-152", "0000"),
    **{f"imagenet11k-place365ch-resnet-{n}": ("imagenet-11k-place365-ch", f"resnet-{n}", "0000") for n in (50, 152)},
}


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
    """Download the four files of MNIST and unpack them into ``./data`` unless they are there."""
    _ensure(_MNIST, "mnist.zip")


def get_mnist_pkl() -> None:
    """Download ``./data/mnist.pkl.gz`` unless it exists."""
    download("http://deeplearning.net/data/mnist/mnist.pkl.gz", dirname="data")


def get_cifar10() -> None:
    """Download the records of CIFAR-10 and unpack them into ``./data/cifar`` unless they are there."""
    _ensure(_CIFAR10, "cifar10.zip")


def download_model(
    model_name: str, dst_dir: str = "./", meta_info: Mapping[str, Mapping[str, str]] | None = None
) -> tuple[str | None, int]:
    """Download the symbol and the parameters of a model, and return the prefix of its files and the epoch 0.

    Parameters
    ----------
    model_name
        The name of the model; of an unknown one, (None, 0) is returned.
    dst_dir
        The directory for the files.
    meta_info
        Addresses by name: ``{"model": {"symbol": url, "params": url}}``; by default those of MXNet's server.
    """
    found = meta_info or {name: _addresses(*place) for name, place in _MODELS.items()}
    if model_name not in found:
        return None, 0
    for part in ("symbol", "params"):
        assert part in found[model_name], f"missing {part} url"
    prefix = os.path.join(dst_dir, model_name)
    download(found[model_name]["symbol"], prefix + "-symbol.json")
    download(found[model_name]["params"], prefix + "-0000.params")
    return prefix, 0


def _addresses(folder: str, name: str, epoch: str) -> dict[str, str]:
    place = f"http://data.mxnet.io/models/{folder}/{name}"
    return {"symbol": f"{place}-symbol.json", "params": f"{place}-{epoch}.params"}


def _ensure(names: list[str], archive: str) -> None:
    """Download and unpack an archive into ``./data`` unless its files are there."""
    if not all([os.path.exists(os.path.join("data", name)) for name in names]):
        get_zip_data("data", f"http://data.mxnet.io/mxnet/data/{archive}", archive)
