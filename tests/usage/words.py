"""Programs with texts: vocabularies, embeddings, counts."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from typing import Any

from .program import Steps, program


def _write(folder: str, name: str, text: str) -> str:
    path = os.path.join(folder, name)
    with open(path, "w") as file:
        file.write(text)
    return path


@program
def vocabularies(mx: Any) -> Steps:
    """Vocabularies of contrib.text with all options, and their errors."""
    text = mx.contrib.text
    counter = text.utils.count_tokens_from_str(" life is great ! \n life is good . \n", to_lower=True)
    yield "counter", sorted(counter.items())
    yield "delimiters", sorted(text.utils.count_tokens_from_str("a-b-a*c", "-", r"\*").items())
    yield "update", sorted(text.utils.count_tokens_from_str("a b", counter_to_update=Counter({"a": 2})).items())
    counts = Counter(["a", "b", "b", "c", "c", "c", "some_word$"])
    for options in (
        {}, {"most_freq_count": 2}, {"min_freq": 2}, {"unknown_token": "<u>"}, {"reserved_tokens": ["<pad>", "<bos>"]},
        {"most_freq_count": None, "min_freq": 1, "unknown_token": "a"}, {"min_freq": 0}, {"most_freq_count": 0},
        {"reserved_tokens": ["b", "b"]}, {"reserved_tokens": ["<unk>"]}, {"min_freq": 100},
        {"most_freq_count": 2, "reserved_tokens": ["b"]},
    ):  # fmt: skip
        yield str(options), lambda options=options: _facts(text.vocab.Vocabulary(counts, **options))
    vocabulary = text.vocab.Vocabulary(counts, reserved_tokens=["<pad>"])
    yield "indices", vocabulary.to_indices(["a", "x", "c"])
    yield "index", vocabulary.to_indices("c")
    yield "tokens", vocabulary.to_tokens([0, 1, 2])
    yield "token", vocabulary.to_tokens(3)
    yield "too large", lambda: vocabulary.to_tokens([99])
    yield "negative", lambda: vocabulary.to_tokens(-1)
    yield "word as index", lambda: vocabulary.to_tokens("a")
    yield "none", lambda: _facts(text.vocab.Vocabulary(None))
    yield "repr", type(vocabulary).__name__


def _facts(vocabulary: Any) -> Any:
    return [
        len(vocabulary), vocabulary.idx_to_token, sorted(vocabulary.token_to_idx.items()), vocabulary.unknown_token,
        vocabulary.reserved_tokens,
    ]  # fmt: skip


@program
def embeddings(mx: Any) -> Steps:
    """Embeddings from files, composites, updates, and their errors."""
    text = mx.contrib.text
    with tempfile.TemporaryDirectory() as folder:
        one = _write(folder, "one.vec", "a 0.1 0.2 0.3\nb 1.1 1.2 1.3\n")
        two = _write(folder, "two.vec", "b 5 6\nc 7 8\n<unk> 0.5 0.5\n")
        header = _write(folder, "header.vec", "2 3\na 0.1 0.2 0.3\nb 1 2 3\n")
        repeated = _write(folder, "repeated.vec", "a 0.1 0.2 0.3\na 1 2 3\n")
        uneven = _write(folder, "uneven.vec", "a 0.1 0.2 0.3\nb 1 2\n")
        empty = _write(folder, "empty.vec", "")
        single = _write(folder, "single.vec", "a 0.1\n")
        comma = _write(folder, "comma.vec", "a,0.1,0.2\n")
        wrong = _write(folder, "wrong.vec", "a 0.1 x\n")
        for path in (one, two, header, repeated, uneven, empty, single, comma, wrong, os.path.join(folder, "none")):
            yield os.path.basename(path), lambda path=path: _embedding(text.embedding.CustomEmbedding(path))
        yield "delimiter", lambda: _embedding(text.embedding.CustomEmbedding(comma, elem_delim=","))
        first, second = text.embedding.CustomEmbedding(one), text.embedding.CustomEmbedding(two)
        yield "vectors", first.get_vecs_by_tokens(["a", "x", "B"])
        yield "lower", first.get_vecs_by_tokens(["a", "x", "B"], lower_case_backup=True)
        yield "vector", first.get_vecs_by_tokens("b")
        vocabulary = text.vocab.Vocabulary(Counter(["b", "b", "c", "z"]), reserved_tokens=["<pad>"])
        yield "composite", lambda: _embedding(text.embedding.CompositeEmbedding(vocabulary, [first, second]))
        yield "composite of one", lambda: _embedding(text.embedding.CompositeEmbedding(vocabulary, first))
        yield "composite wrong", lambda: text.embedding.CompositeEmbedding("a", first)
        yield "composite wrong parts", lambda: text.embedding.CompositeEmbedding(vocabulary, [1])
        yield "with vocabulary", lambda: _embedding(text.embedding.CustomEmbedding(one, vocabulary=vocabulary))
        first.update_token_vectors("a", mx.nd.array([9, 9, 9]))
        yield "updated", first.get_vecs_by_tokens("a")
        first.update_token_vectors(["a", "b"], mx.nd.array([[1, 1, 1], [2, 2, 2]]))
        yield "updated two", first.get_vecs_by_tokens(["a", "b"])
        yield "update unknown word", lambda: first.update_token_vectors("nothing", mx.nd.ones((3,)))
        yield "update unknown", lambda: (
            first.update_token_vectors("<unk>", mx.nd.ones((3,))), first.get_vecs_by_tokens("x")
        )  # fmt: skip
        yield "update wrong shape", lambda: first.update_token_vectors(["a", "b"], mx.nd.ones((3,)))
        yield "update wrong type", lambda: first.update_token_vectors("a", [1, 2, 3])
        yield "unknown vector", lambda: _embedding(text.embedding.CustomEmbedding(one, init_unknown_vec=mx.nd.ones))
    names = text.embedding.get_pretrained_file_names()
    yield "names", {name: len(found) for name, found in sorted(names.items())}
    yield "glove", text.embedding.get_pretrained_file_names("glove")
    yield "fasttext", text.embedding.get_pretrained_file_names("fasttext")[:3]
    yield "unknown names", lambda: text.embedding.get_pretrained_file_names("nothing")
    yield "create unknown", lambda: text.embedding.create("nothing")
    yield "create file", lambda: text.embedding.create("glove", pretrained_file_name="nothing.txt")

    base = text.embedding.CustomEmbedding.__mro__[1]

    @text.embedding.register
    class MyTextEmbed(base):  # type: ignore[misc, valid-type]
        """An embedding of a user."""

        pretrained_file_name_sha1 = {"a.txt": "0"}

        def __init__(self, pretrained_file_name: str = "a.txt", **options: Any) -> None:
            super().__init__(**options)

    yield "registered", lambda: type(text.embedding.create("MyTextEmbed")).__name__
    yield "registered names", lambda: text.embedding.get_pretrained_file_names("mytextembed")


def _embedding(found: Any) -> Any:
    return [len(found), found.vec_len, found.idx_to_token, found.idx_to_vec, found.unknown_token, found.reserved_tokens]
