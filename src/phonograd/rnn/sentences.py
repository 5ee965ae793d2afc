"""Encode sentences as numbers, and batch them by length."""

from __future__ import annotations

import bisect
import logging
import random
from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from ..core.base.docstrings import complete_classes
from ..io import DataBatch, DataDesc, DataIter
from ..ndarray.creation import array

__all__ = ["BucketSentenceIter", "encode_sentences"]

Vocabulary = dict[Any, int]


def encode_sentences(
    sentences: Sequence[Sequence[Hashable]],
    vocab: Vocabulary | None = None,
    invalid_label: int = -1,
    invalid_key: Hashable = "\n",
    start_label: int = 0,
    unknown_token: Hashable | None = None,
) -> tuple[list[list[int]], Vocabulary]:
    r"""Return sentences with words replaced by numbers, and the vocabulary.

    Parameters
    ----------
    sentences
        Lists of words.
    vocab
        The number of each word; None to number all words in order of appearance, from `start_label` on.
    invalid_label, invalid_key
        The number and the key of the padding word.
    unknown_token
        The replacement for words missing from a given vocabulary; without it they raise.

    >>> encode_sentences([["to", "be"], ["not", "to", "be"]])
    ([[0, 1], [2, 0, 1]], {'\n': -1, 'to': 0, 'be': 1, 'not': 2})
    """
    is_open = vocab is None
    known = {invalid_key: invalid_label} if vocab is None else vocab
    following = start_label

    def number(word: Hashable) -> int:
        nonlocal following
        if word not in known and not is_open:
            assert unknown_token is not None, f"Unknown token {word}"
            word = unknown_token
        if word not in known:
            taken = set(known.values())
            while following in taken:
                following += 1
            known[word] = following
            following += 1
        return known[word]

    return [[number(word) for word in sentence] for sentence in sentences], known


class BucketSentenceIter(DataIter):
    """Iterate over sentences in batches of similar length.

    Sentences are padded to the size of the smallest bucket that fits. The label of each word is the next
    word.

    Parameters
    ----------
    sentences
        Lists of numbers.
    batch_size
        The number of sentences in a batch.
    buckets
        Lengths; by default all lengths with at least a batch of sentences. Longer sentences are discarded.
    invalid_label
        The padding value.
    data_name, label_name
        The names of data and labels.
    dtype
        The dtype of both.
    layout
        'NT': sentences are rows; 'TN': they are columns.
    """

    def __init__(
        self,
        sentences: Sequence[Sequence[int]],
        batch_size: int,
        buckets: Sequence[int] | None = None,
        invalid_label: int = -1,
        data_name: str = "data",
        label_name: str = "softmax_label",
        dtype: str = "float32",
        layout: str = "NT",
    ) -> None:
        super().__init__()
        if sorted(layout) != ["N", "T"]:
            raise ValueError(f"Invalid layout {layout}: Must by NT (batch major) or TN (time major)")
        counts = Counter(len(sentence) for sentence in sentences)
        self.buckets = sorted(buckets or [length for length, count in counts.items() if count >= batch_size])
        if not self.buckets:
            raise ValueError(f"no length has {batch_size} sentences, enough for a batch: give buckets=")
        rows: list[list[Any]] = [[] for _ in self.buckets]
        left_out = 0
        for sentence in sentences:
            place = bisect.bisect_left(self.buckets, len(sentence))
            if place == len(self.buckets):
                left_out += 1
                continue
            row = np.full((self.buckets[place],), invalid_label, dtype=dtype)
            row[: len(sentence)] = sentence
            rows[place].append(row)
        if left_out:
            logging.warning("discarded %d sentences longer than the largest bucket.", left_out)
        self.data = [
            np.array(part, dtype=dtype).reshape(-1, size) for part, size in zip(rows, self.buckets, strict=True)
        ]
        self.batch_size = batch_size
        self.data_name = data_name
        self.label_name = label_name
        self.dtype = dtype
        self.invalid_label = invalid_label
        self.major_axis = layout.find("N")
        self.layout = layout
        self.default_bucket_key = max(self.buckets)
        self.provide_data = self._describe(data_name, self.default_bucket_key)
        self.provide_label = self._describe(label_name, self.default_bucket_key)
        self.idx = [
            (place, first)
            for place, part in enumerate(self.data)
            for first in range(0, len(part) - batch_size + 1, batch_size)
        ]
        self.curr_idx = 0
        self.reset()

    def _describe(self, name: str, length: int) -> list[DataDesc]:
        shape = (self.batch_size, length) if self.major_axis == 0 else (length, self.batch_size)
        return [DataDesc(name=name, shape=shape, layout=self.layout)]

    def reset(self) -> None:
        """Start over, with batches and sentences in another random order."""
        self.curr_idx = 0
        random.shuffle(self.idx)
        self.labels = []
        for part in self.data:
            np.random.shuffle(part)
            label = np.full_like(part, self.invalid_label)
            label[:, :-1] = part[:, 1:]
            self.labels.append(label)

    def next(self) -> DataBatch:
        """Return the next batch; its ``bucket_key`` is the length of its sentences."""
        if self.curr_idx == len(self.idx):
            raise StopIteration
        place, first = self.idx[self.curr_idx]
        self.curr_idx += 1
        rows = slice(first, first + self.batch_size)
        parts = [
            part[place][rows] if self.major_axis == 0 else part[place][rows].T for part in (self.data, self.labels)
        ]
        data, label = [array(part, dtype=self.dtype) for part in parts]
        length = self.buckets[place]
        return DataBatch(
            [data],
            [label],
            pad=0,
            bucket_key=length,
            provide_data=self._describe(self.data_name, length),
            provide_label=self._describe(self.label_name, length),
        )


complete_classes(globals())
