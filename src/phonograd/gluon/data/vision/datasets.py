"""Provide datasets of images in files: MNIST, Fashion-MNIST, CIFAR, record files, and directories."""

from __future__ import annotations

import os
import tarfile
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .... import image, recordio
from ....core.base.devices import CPU
from ....core.base.docstrings import complete_classes
from ....core.base.errors import MXNetError
from ....core.base.files import write_atomically
from ....io.idx import read_idx
from ....ndarray.array import NDArray, concrete
from ....ndarray.semantics import of_chosen_kind
from ....util import is_np_array
from ...utils import check_sha1, download
from ..columns import Columns, rows_of
from ..dataset import Dataset, RecordFileDataset

__all__ = [
    "CIFAR10",
    "CIFAR100",
    "MNIST",
    "FashionMNIST",
    "ImageFolderDataset",
    "ImageRecordDataset",
    "fetch_file",
    "has_files",
]

_REPOSITORY = "https://apache-mxnet.s3-accelerate.dualstack.amazonaws.com/"
_HOME = os.path.join(os.environ.get("MXNET_HOME", os.path.join("~", ".mxnet")), "datasets")

Values = np.ndarray[Any, Any]
#: the name of a file and its SHA-1
File = tuple[str, str]


def has_files(root: str, files: list[File]) -> bool:
    """Return whether all files exist and have the expected SHA-1."""
    paths = [os.path.join(root, name) for name, _ in files]
    return all(os.path.exists(path) and check_sha1(path, sha1) for path, (_, sha1) in zip(paths, files))


def fetch_file(root: str, namespace: str, wanted: File, others: Sequence[File] = ()) -> str:
    """Return the path of a file, after downloading it if it is missing or has another SHA-1.

    `others` are further files of the dataset; an error also names those that are missing.

    Raises
    ------
    OSError
        If the download fails. The message lists the missing files and their directory.
    """
    name, sha1 = wanted
    path = os.path.join(root, name)
    if has_files(root, [wanted]):
        return path
    base = os.environ.get("MXNET_GLUON_REPO", _REPOSITORY).rstrip("/")
    try:
        return download(f"{base}/gluon/dataset/{namespace}/{name}", path, overwrite=True, sha1_hash=sha1)
    except OSError as error:
        missing = []
        for each in [wanted, *[other for other in others if not has_files(root, [other])]]:
            wrong = " (the file there has another checksum)" if os.path.exists(os.path.join(root, each[0])) else ""
            missing.append(f"{each[0]} with SHA-1 {each[1]}{wrong}")
        raise OSError(
            f"the dataset {namespace} is not complete in {os.path.abspath(root)}, and cannot be downloaded. Put "
            f"{'these files' if len(missing) > 1 else 'the file'} {', '.join(missing)} there. The reason: {error}"
        ) from error


class _DownloadedDataset(Dataset):
    """Hold images and labels in memory, from files that are downloaded if missing."""

    _namespace = ""

    def __init__(self, root: str, transform: Callable[..., Any] | None) -> None:
        self._transform = transform
        self._root = os.path.expanduser(root)
        os.makedirs(self._root, exist_ok=True)
        data, label = self._read()
        # labels are NumPy's unless arrays of mx.np are chosen, as in MXNet
        self._label: Any = of_chosen_kind(concrete(label, CPU)) if is_np_array() else label
        self._data: NDArray = of_chosen_kind(concrete(np.ascontiguousarray(data), CPU))

    def _read(self) -> tuple[Values, Values]:
        """Return images (example, height, width, channel) and labels."""
        raise NotImplementedError

    def __getitem__(self, idx: int) -> Any:
        if self._transform is not None:
            return self._transform(self._data[idx], self._label[idx])
        return self._data[idx], self._label[idx]

    def _gather_examples(self, numbers: Sequence[Any]) -> list[Any] | Columns:
        if self._transform is not None:
            return super()._gather_examples(numbers)
        return Columns([rows_of(self._data, numbers), rows_of(self._label, numbers)], True)

    def __len__(self) -> int:
        return len(self._label)


class MNIST(_DownloadedDataset):
    """Load handwritten digits: images of shape (28, 28, 1) and dtype uint8, labels of dtype int32.

    Parameters
    ----------
    root
        The directory of the files.
    train
        Whether to load the training examples. Otherwise the dataset has the test examples.
    transform
        A function of image and label that returns the example.
    """

    _namespace = "mnist"
    _train_files: tuple[File, File] = (
        ("train-images-idx3-ubyte.gz", "6c95f4b05d2bf285e1bfb0e7960c31bd3b3f8a7d"),
        ("train-labels-idx1-ubyte.gz", "2a80914081dc54586dbdf242f9805a6b8d2a15fc"),
    )
    _test_files: tuple[File, File] = (
        ("t10k-images-idx3-ubyte.gz", "c3a25af1f52dad7f726cce8cacb138654b760d48"),
        ("t10k-labels-idx1-ubyte.gz", "763e7fa3757d93b0cdec073cef058b2004252c17"),
    )

    def __init__(
        self,
        root: str = os.path.join(_HOME, "mnist"),
        train: bool = True,
        transform: Callable[..., Any] | None = None,
    ) -> None:
        self._train = train
        super().__init__(root, transform)

    def _read(self) -> tuple[Values, Values]:
        images, labels = self._train_files if self._train else self._test_files
        data = read_idx(fetch_file(self._root, self._namespace, images, [labels]), 3)
        label = read_idx(fetch_file(self._root, self._namespace, labels), 1)
        if len(data) != len(label):
            raise MXNetError(f"{images[0]} in {self._root} has {len(data)} images, but {len(label)} labels")
        return data[..., None], label.astype(np.int32)


class FashionMNIST(MNIST):
    """Load images of clothes in the format of MNIST."""

    _namespace = "fashion-mnist"
    _train_files = (
        ("train-images-idx3-ubyte.gz", "0cf37b0d40ed5169c6b3aba31069a9770ac9043d"),
        ("train-labels-idx1-ubyte.gz", "236021d52f1e40852b06a4c3008d8de8aef1e40b"),
    )
    _test_files = (
        ("t10k-images-idx3-ubyte.gz", "626ed6a7c06dd17c0eec72fa3be1740f146a2863"),
        ("t10k-labels-idx1-ubyte.gz", "17f9ab60e7257a1620f4ad76bbbaf857c3920701"),
    )

    def __init__(
        self,
        root: str = os.path.join(_HOME, "fashion-mnist"),
        train: bool = True,
        transform: Callable[..., Any] | None = None,
    ) -> None:
        super().__init__(root, train, transform)


class CIFAR10(_DownloadedDataset):
    """Load small photographs: images of shape (32, 32, 3) and dtype uint8, labels of dtype int32.

    Parameters
    ----------
    root
        The directory of the files, or of their archive.
    train
        Whether to load the training examples. Otherwise the dataset has the test examples.
    transform
        A function of image and label that returns the example.
    """

    _namespace = "cifar10"
    _archive: File = ("cifar-10-binary.tar.gz", "fab780a1e191a7eda0f345501ccd62d20f7ed891")
    _train_files: tuple[File, ...] = (
        ("data_batch_1.bin", "aadd24acce27caa71bf4b10992e9e7b2d74c2540"),
        ("data_batch_2.bin", "c0ba65cce70568cd57b4e03e9ac8d2a5367c1795"),
        ("data_batch_3.bin", "1dd00a74ab1d17a6e7d73e185b69dbf31242f295"),
        ("data_batch_4.bin", "aab85764eb3584312d3c7f65fd2fd016e36a258e"),
        ("data_batch_5.bin", "26e2849e66a845b7f1e4614ae70f4889ae604628"),
    )
    _test_files: tuple[File, ...] = (("test_batch.bin", "67eb016db431130d61cd03c7ad570b013799c88c"),)
    #: the number of labels before an image, and the index of the one to use
    _labels, _label_place = 1, 0

    def __init__(
        self,
        root: str = os.path.join(_HOME, "cifar10"),
        train: bool = True,
        transform: Callable[..., Any] | None = None,
    ) -> None:
        self._train = train
        super().__init__(root, transform)

    def _read(self) -> tuple[Values, Values]:
        files = list(self._train_files if self._train else self._test_files)
        if not has_files(self._root, files):
            _unpack(fetch_file(self._root, self._namespace, self._archive), self._root, files)
        parts = [self._read_batch(os.path.join(self._root, name)) for name, _ in files]
        return np.concatenate([data for data, _ in parts]), np.concatenate([label for _, label in parts])

    def _read_batch(self, filename: str) -> tuple[Values, Values]:
        """Return the images and labels in one file."""
        with open(filename, "rb") as file:
            content = file.read()
        width = self._labels + 3 * 32 * 32
        if not content or len(content) % width:
            raise MXNetError(f"{filename} is cut off or damaged: its {len(content)} bytes are no multiple of {width}")
        rows = np.frombuffer(content, np.uint8).reshape(-1, width)
        images = rows[:, self._labels :].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
        return images, rows[:, self._label_place].astype(np.int32)


class CIFAR100(CIFAR10):
    """Load small photographs with 100 classes in 20 groups.

    `fine_label` selects the classes as labels; otherwise labels are the groups.
    """

    _namespace = "cifar100"
    _archive = ("cifar-100-binary.tar.gz", "a0bb982c76b83111308126cc779a992fa506b90b")
    _train_files = (("train.bin", "e207cd2e05b73b1393c74c7f5e7bea451d63e08e"),)
    _test_files = (("test.bin", "8fb6623e830365ff53cf14adec797474f5478006"),)
    _labels = 2

    def __init__(
        self,
        root: str = os.path.join(_HOME, "cifar100"),
        fine_label: bool = False,
        train: bool = True,
        transform: Callable[..., Any] | None = None,
    ) -> None:
        self._label_place = int(fine_label)
        super().__init__(root, train, transform)


def _unpack(archive: str, root: str, files: list[File]) -> None:
    """Write some files of an archive to a directory, wherever they are in the archive."""
    wanted = dict(files)
    try:
        with tarfile.open(archive) as opened:
            for member in opened:
                # an archive may be hostile: match base names only, and extract only regular files to this directory
                name = os.path.basename(member.name)
                content = opened.extractfile(member) if member.isfile() and name in wanted else None
                if content is not None:
                    write_atomically(os.path.join(root, name), [content.read()])
    except (tarfile.TarError, EOFError, OSError) as error:
        raise MXNetError(f"{archive} cannot be unpacked: {error}") from error
    missing = [name for name in wanted if not has_files(root, [(name, wanted[name])])]
    if missing:
        raise MXNetError(f"{archive} lacks {', '.join(missing)} with the expected checksum")


class ImageRecordDataset(RecordFileDataset):
    """Read the images and labels of a record file with an index.

    Parameters
    ----------
    filename
        The record file ``name.rec``; its index is ``name.idx``.
    flag
        1 for three channels, 0 for one.
    transform
        A function of image and label that returns the example.
    """

    def __init__(
        self, filename: str | os.PathLike[str], flag: int = 1, transform: Callable[..., Any] | None = None
    ) -> None:
        super().__init__(filename)
        self._flag = flag
        self._transform = transform

    def __getitem__(self, idx: int) -> Any:
        header, content = recordio.unpack(super().__getitem__(idx))
        decoded = image.imdecode(content, self._flag)
        if self._transform is not None:
            return self._transform(decoded, header.label)
        return decoded, header.label


class ImageFolderDataset(Dataset):
    """Read the images in the subdirectories of a directory; the sorted names of these are the classes.

    Parameters
    ----------
    root
        The directory.
    flag
        1 for three channels, 0 for one.
    transform
        A function of image and label that returns the example.

    Attributes
    ----------
    synsets
        The names of the classes.
    items
        (path, class index) of each image.
    """

    def __init__(
        self, root: str | os.PathLike[str], flag: int = 1, transform: Callable[..., Any] | None = None
    ) -> None:
        self._root = os.path.expanduser(os.fspath(root))
        self._flag = flag
        self._transform = transform
        self._exts = [".jpg", ".jpeg", ".png"]
        self.synsets: list[str] = []
        self.items: list[tuple[str, int]] = []
        self._list_images(self._root)

    def _list_images(self, root: str) -> None:
        for folder in sorted(os.listdir(root)):
            path = os.path.join(root, folder)
            if not os.path.isdir(path):
                warnings.warn(f"Ignoring {path}, which is not a directory.", stacklevel=3)
                continue
            self.synsets.append(folder)
            for name in sorted(os.listdir(path)):
                ending = os.path.splitext(name)[1]
                if ending.lower() in self._exts:
                    self.items.append((os.path.join(path, name), len(self.synsets) - 1))
                else:
                    warnings.warn(
                        f"Ignoring {os.path.join(path, name)} of type {ending}. Only support {', '.join(self._exts)}",
                        stacklevel=3,
                    )

    def __getitem__(self, idx: int) -> Any:
        path, label = self.items[idx]
        decoded = image.imread(path, self._flag)
        if self._transform is not None:
            return self._transform(decoded, label)
        return decoded, label

    def __len__(self) -> int:
        return len(self.items)


complete_classes(globals())
