"""Provide Wikipedia articles as word indices, for language models."""

from __future__ import annotations

import os
import zipfile
from collections import Counter

import numpy as np

from ....contrib.text.vocab import Vocabulary
from ....core.base.devices import CPU
from ....core.base.docstrings import complete_classes
from ....core.base.files import write_atomically
from ....ndarray.array import NDArray, concrete
from ...data.dataset import Dataset
from ...data.vision.datasets import fetch_file, has_files

__all__ = ["WikiText2", "WikiText103"]

_HOME = os.path.join(os.environ.get("MXNET_HOME", os.path.join("~", ".mxnet")), "datasets")
_EOS = "<eos>"

#: the name of a file and its SHA-1
File = tuple[str, str]


class _WikiText(Dataset):
    """Provide sequences of word indices, and as labels the same sequences one word later."""

    _namespace: str
    _archive: File
    _files: dict[str, File]

    def __init__(
        self, root: str | None = None, segment: str = "train", vocab: Vocabulary | None = None, seq_len: int = 35
    ) -> None:
        if segment not in self._files:
            raise ValueError(f"segment must be one of {', '.join(self._files)}, not {segment!r}")
        self._root = os.path.expanduser(os.path.join(_HOME, self._namespace) if root is None else root)
        self._segment, self._seq_len = segment, seq_len
        self._vocab = vocab
        self._counter: Counter[str] | None = None
        os.makedirs(self._root, exist_ok=True)
        self._data, self._label = self._read(self._path())

    def _path(self) -> str:
        """Return the path of the segment's file, after extracting it from the archive if it is missing."""
        name, sha1 = self._files[self._segment]
        path = os.path.join(self._root, name)
        if has_files(self._root, [(name, sha1)]):
            return path
        with zipfile.ZipFile(fetch_file(self._root, self._namespace, self._archive)) as archive:
            for member in archive.namelist():
                if os.path.basename(member):
                    write_atomically(os.path.join(self._root, os.path.basename(member)), [archive.read(member)])
        return path

    def _read(self, path: str) -> tuple[NDArray, NDArray]:
        with open(path, encoding="utf8") as file:
            lines = [line.split() for line in file.read().splitlines()]
        words = [word for line in lines if line for word in (*line, _EOS)]
        if self._vocab is None:
            self._counter = Counter([word for word in words if word != _EOS])
            self._vocab = Vocabulary(self._counter, reserved_tokens=[_EOS])
        numbers = np.array(self._vocab.to_indices(words), np.int32)
        count = (len(numbers) - 1) // self._seq_len * self._seq_len
        shape = (-1, self._seq_len)
        return concrete(numbers[:count].reshape(shape).copy(), CPU), concrete(
            numbers[1 : count + 1].reshape(shape).copy(), CPU
        )

    @property
    def vocabulary(self) -> Vocabulary | None:
        """The words and their indices."""
        return self._vocab

    @property
    def frequencies(self) -> Counter[str] | None:
        """The frequency of each word, or None if the vocabulary was given."""
        return self._counter

    def __getitem__(self, idx: int) -> tuple[NDArray, NDArray]:
        return self._data[idx], self._label[idx]

    def __len__(self) -> int:
        return len(self._label)


class WikiText2(_WikiText):
    """Load WikiText-2: two million words.

    Parameters
    ----------
    root
        The directory of the files. None means ``$MXNET_HOME/datasets/wikitext-2``.
    segment
        ``'train'``, ``'validation'`` or ``'test'``.
    vocab
        The words and their indices. None builds a vocabulary from the file.
    seq_len
        The number of words in a sequence.
    """

    _namespace = "wikitext-2"
    _archive = ("wikitext-2-v1.zip", "3c914d17d80b1459be871a5039ac23e752a53cbe")
    _files = {
        "train": ("wiki.train.tokens", "863f29c46ef9d167fff4940ec821195882fe29d1"),
        "validation": ("wiki.valid.tokens", "0418625c8b4da6e4b5c7a0b9e78d4ae8f7ee5422"),
        "test": ("wiki.test.tokens", "c7b8ce0aa086fb34dab808c5c49224211eb2b172"),
    }


class WikiText103(_WikiText):
    """Load WikiText-103: a hundred million words; see :class:`WikiText2` for the parameters."""

    _namespace = "wikitext-103"
    _archive = ("wikitext-103-v1.zip", "0aec09a7537b58d4bb65362fee27650eeaba625a")
    _files = {
        "train": ("wiki.train.tokens", "b7497e2dfe77e72cfef5e3dbc61b7b53712ac211"),
        "validation": ("wiki.valid.tokens", "c326ac59dc587676d58c422eb8a03e119582f92b"),
        "test": ("wiki.test.tokens", "8a5befc548865cec54ed4273cf87dbbad60d1e47"),
    }


complete_classes(globals())
