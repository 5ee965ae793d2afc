"""Word embeddings, read from files: GloVe, fastText, or custom files."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from ... import ndarray
from ...core.base.docstrings import complete_classes
from ...ndarray.array import NDArray
from . import vocab

__all__ = [
    "CompositeEmbedding",
    "CustomEmbedding",
    "FastText",
    "GloVe",
    "create",
    "get_pretrained_file_names",
    "register",
]

#: languages with fastText vectors of their Wikipedia, in MXNet's order
_LANGUAGES = """
aa ab ace ady af ak als am ang an arc ar arz ast as av ay azb az bar bat_smg ba bcl be bg bh bi bjn bm bn bo bpy br bs
bug bxr ca cbk_zam cdo ceb ce cho chr ch chy ckb co crh cr csb cs cu cv cy da de diq dsb dv dz ee el eml en eo es et
eu ext fa ff fiu_vro fi fj fo frp frr fr fur fy gag gan ga gd glk gl gn gom got gu gv hak ha haw he hif hi ho hr hsb
ht hu hy hz ia id ie ig ii ik ilo io is it iu jam ja jbo jv kaa kab ka kbd kg ki kj kk kl km kn koi ko krc kr ksh ks
ku kv kw ky lad la lbe lb lez lg lij li lmo ln lo lrc ltg lt lv mai map_bms mdf mg mhr mh min mi mk ml mn mo mrj mr ms
mt multi.ar multi.bg multi.ca multi.cs multi.da multi.de multi.el multi.en multi.es multi.et multi.fi multi.fr
multi.he multi.hr multi.hu multi.id multi.it multi.mk multi.nl multi.no multi.pl multi.pt multi.ro multi.ru multi.sk
multi.sl multi.sv multi.tr multi.uk multi.vi mus mwl my myv mzn nah nap na nds_nl nds ne new ng nl nn no nov nrm nso
nv ny oc olo om or os pag pam pap pa pcd pdc pfl pih pi pl pms pnb pnt ps pt qu rm rmy rn roa_rup roa_tara ro rue ru
rw sah sa scn sco sc sd se sg sh simple si sk sl sm sn so sq srn sr ss stq st su sv sw szl ta tcy tet te tg th ti tk
tl tn to tpi tr ts tt tum tw ty tyv udm ug uk ur uz vec vep ve vi vls vo war wa wo wuu xal xh xmf yi yo za zea
zh_classical zh_min_nan zh zh_yue zu
"""

_HOME = os.path.join(os.environ.get("MXNET_HOME", os.path.join("~", ".mxnet")), "embeddings")
_EMBEDDINGS: dict[str, type[TokenEmbedding]] = {}

Kind = TypeVar("Kind", bound="type[TokenEmbedding]")
#: creates the vector of unknown tokens, given its shape
Initializer = Callable[..., NDArray]


class DamagedEmbedding(AssertionError, ValueError):
    """A file of vectors is damaged. MXNet raises an AssertionError."""


def register(embedding_cls: Kind) -> Kind:
    """Register a class of embeddings for :func:`create`, and return it."""
    _EMBEDDINGS[embedding_cls.__name__.lower()] = embedding_cls
    return embedding_cls


def create(embedding_name: str, **kwargs: Any) -> TokenEmbedding:
    """Return an embedding by the name of its class: ``'glove'``, ``'fasttext'`` or a registered one."""
    assert embedding_name.lower() in _EMBEDDINGS, (
        f"Cannot find embedding {embedding_name}. Valid ones: {', '.join(sorted(_EMBEDDINGS))}"
    )
    return _EMBEDDINGS[embedding_name.lower()](**kwargs)


def get_pretrained_file_names(embedding_name: str | None = None) -> Any:
    """Return the known files of an embedding, or those of all embeddings by name."""
    if embedding_name is None:
        return {name: _file_names(found) for name, found in _EMBEDDINGS.items()}
    if embedding_name.lower() not in _EMBEDDINGS:
        raise KeyError(f"Cannot find embedding {embedding_name}. Valid ones: {', '.join(sorted(_EMBEDDINGS))}")
    return _file_names(_EMBEDDINGS[embedding_name.lower()])


def _file_names(found: type[TokenEmbedding]) -> list[str]:
    """Return the known files of a class; classes of users list them as MXNet's do, with their digests."""
    return list(found.pretrained_file_names or found.pretrained_file_name_sha1)


def _read(path: str, delimiter: str, encoding: str, unknown: str) -> tuple[list[str], list[Any], Any]:
    """Return the tokens of a file, their vectors, and the vector of the unknown token if the file has one."""
    words: list[str] = []
    seen: set[str] = set()
    vectors: list[Any] = []
    for_unknown = None
    length = 0
    with open(path, "rb") as file:
        for number, content in enumerate(file, 1):
            try:
                line = content.decode(encoding)
            except UnicodeDecodeError as error:
                raise ValueError(f"line {number} of {path} is not {encoding}: {error}") from None
            word, *elements = line.rstrip().split(delimiter)
            if len(elements) <= 1:
                # fastText files begin with a line of two numbers
                logging.debug("line %d of %s has no vector", number, path)
                continue
            try:
                vector = np.array(elements, np.float32)
            except ValueError as error:
                raise ValueError(f"line {number} of {path} is not a token followed by numbers: {error}") from error
            if word == unknown and for_unknown is None:
                for_unknown = vector
            elif word in seen:
                warnings.warn(
                    f"At line {number} of the pre-trained text embedding file: the embedding vector for token {word} "
                    "has been loaded and a duplicate embedding for the same token is seen and skipped.",
                    stacklevel=5,
                )
                continue
            elif length and len(vector) != length:
                raise DamagedEmbedding(f"line {number} of {path} has {len(vector)} numbers, those before have {length}")
            else:
                words.append(word)
                seen.add(word)
                vectors.append(vector)
            length = len(vector)
    if not length:
        raise ValueError(f"{path} has no vectors")
    return words, vectors, for_unknown


class TokenEmbedding(vocab.Vocabulary):
    """A vocabulary whose tokens have vectors."""

    #: known files
    pretrained_file_names: Sequence[str] = ()
    pretrained_file_name_sha1: Mapping[str, str] = {}

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._idx_to_vec: NDArray | None = None

    def _load(self, path: str, delimiter: str, init_unknown_vec: Initializer, encoding: str, words: Any) -> None:
        """Load tokens and vectors from a file; only those of a vocabulary, if given."""
        path = os.path.expanduser(path)
        if not os.path.isfile(path):
            raise ValueError(
                f"`pretrained_file_path` must be a valid path to the pre-trained token embedding file: {path}"
            )
        found, vectors, unknown = _read(path, delimiter, encoding, str(self.unknown_token))
        length = len(vectors[0] if vectors else unknown)
        first = init_unknown_vec(shape=length).asnumpy() if unknown is None else unknown
        self._idx_to_token += found
        self._token_to_idx = {word: number for number, word in enumerate(self._idx_to_token)}
        table = np.zeros((len(self._idx_to_token), length), np.float32)
        table[: len(self._idx_to_token) - len(found)] = first
        if vectors:
            table[len(table) - len(found) :] = vectors
        self._idx_to_vec = ndarray.array(table)
        if words is not None:
            self._take(words, [self])

    def _take(self, words: vocab.Vocabulary, embeddings: Sequence[TokenEmbedding]) -> None:
        """Set the tokens to those of a vocabulary, and their vectors to the concatenated ones of some embeddings."""
        vectors = [embedding.get_vecs_by_tokens(list(words.idx_to_token)) for embedding in embeddings]
        joined = vectors[0] if len(vectors) == 1 else ndarray.concat(*vectors, dim=1)
        self._idx_to_token = list(words.idx_to_token)
        self._token_to_idx = dict(words.token_to_idx)
        self._unknown_token, self._reserved_tokens = words.unknown_token, words.reserved_tokens
        self._idx_to_vec = joined

    @property
    def vec_len(self) -> int:
        """The length of a vector."""
        return 0 if self._idx_to_vec is None else int(self._idx_to_vec.shape[1])

    @property
    def idx_to_vec(self) -> NDArray | None:
        """The vectors of all tokens in index order, of shape (token, element)."""
        return self._idx_to_vec

    def get_vecs_by_tokens(self, tokens: Any, lower_case_backup: bool = False) -> NDArray:
        """Return the vector of a token, or one row for each token of a list.

        With `lower_case_backup`, an unknown token is looked up in lower case.
        """
        assert self._idx_to_vec is not None, "no vectors were loaded"
        words = tokens if isinstance(tokens, list) else [tokens]
        numbers = []
        for word in words:
            number = self.token_to_idx.get(word)
            if number is None and lower_case_backup:
                number = self.token_to_idx.get(word.lower())
            numbers.append(vocab.UNKNOWN_IDX if number is None else number)
        found: NDArray = ndarray.take(self._idx_to_vec, ndarray.array(numbers, dtype="int32"))
        return found if isinstance(tokens, list) else found[0]

    def update_token_vectors(self, tokens: Any, new_vectors: NDArray) -> None:
        """Replace the vectors of tokens: one row for each token of a list, or one vector for a token."""
        assert self._idx_to_vec is not None, "The property `idx_to_vec` has not been properly set."
        words = tokens if isinstance(tokens, list) else [tokens]
        assert isinstance(new_vectors, NDArray), f"new_vectors must be an NDArray, not {type(new_vectors)}"
        wanted = (len(words), self.vec_len)
        assert new_vectors.shape == wanted or (len(words) == 1 and new_vectors.shape == wanted[1:]), (
            f"the new vectors have the shape {new_vectors.shape}, not {wanted}"
        )
        rows = new_vectors.reshape(wanted)
        numbers = []
        for word in words:
            if word not in self.token_to_idx:
                raise ValueError(
                    f"Token {word} is unknown. To update the embedding vector for an unknown token, please specify it "
                    f"explicitly as the `unknown_token` {self.unknown_token} in `tokens`. This is to avoid unintended "
                    "updates."
                )
            numbers.append(self.token_to_idx[word])
        self._idx_to_vec[ndarray.array(numbers, dtype="int32")] = rows


class _Published(TokenEmbedding):
    """Embeddings in published files. It downloads nothing, and reads the files from a directory."""

    _source = ""

    def __init__(
        self,
        pretrained_file_name: str,
        embedding_root: str = _HOME,
        init_unknown_vec: Initializer = ndarray.zeros,
        vocabulary: vocab.Vocabulary | None = None,
        **kwargs: Any,
    ) -> None:
        name = type(self).__name__.lower()
        if self.pretrained_file_names and pretrained_file_name not in self.pretrained_file_names:
            raise KeyError(
                f"Cannot find pretrained file {pretrained_file_name} for token embedding {name}. Valid pretrained "
                f"files for embedding {name}: {', '.join(self.pretrained_file_names)}"
            )
        super().__init__(**kwargs)
        path = os.path.join(os.path.expanduser(embedding_root), name, pretrained_file_name)
        if not os.path.exists(path):
            raise FileNotFoundError(
                f"{path} is missing, and files are not downloaded: get the archive with {pretrained_file_name} from "
                f"{self._source} and put that file there"
            )
        self._load(path, " ", init_unknown_vec, "utf8", vocabulary)


@register
class GloVe(_Published):
    """GloVe embeddings, from ``<embedding_root>/glove/<pretrained_file_name>``.

    Parameters
    ----------
    pretrained_file_name
        The file; see :func:`get_pretrained_file_names`.
    embedding_root
        The directory of all embeddings.
    init_unknown_vec
        Creates the vector of unknown tokens.
    vocabulary
        The tokens to load; by default all tokens of the file.
    **kwargs
        Arguments of :class:`~phonograd.contrib.text.vocab.Vocabulary`.
    """

    _source = "https://nlp.stanford.edu/projects/glove/"
    pretrained_file_names = (
        "glove.42B.300d.txt",
        *[f"glove.6B.{length}d.txt" for length in (50, 100, 200, 300)],
        "glove.840B.300d.txt",
        *[f"glove.twitter.27B.{length}d.txt" for length in (25, 50, 100, 200)],
    )

    def __init__(self, pretrained_file_name: str = "glove.840B.300d.txt", *args: Any, **kwargs: Any) -> None:
        super().__init__(pretrained_file_name, *args, **kwargs)


@register
class FastText(_Published):
    """fastText embeddings, from ``<embedding_root>/fasttext/<pretrained_file_name>``; see :class:`GloVe`."""

    _source = "https://fasttext.cc/"
    pretrained_file_names = (
        "crawl-300d-2M.vec",
        *[f"wiki.{language}.vec" for language in _LANGUAGES.split()],
        "wiki-news-300d-1M-subword.vec",
        "wiki-news-300d-1M.vec",
    )

    def __init__(self, pretrained_file_name: str = "wiki.simple.vec", *args: Any, **kwargs: Any) -> None:
        super().__init__(pretrained_file_name, *args, **kwargs)


class CustomEmbedding(TokenEmbedding):
    """Embeddings from a custom file with a token and numbers in each line.

    Parameters
    ----------
    pretrained_file_path
        The file.
    elem_delim
        The delimiter between the token and the numbers.
    encoding
        The encoding of the file.
    init_unknown_vec
        Creates the vector of unknown tokens.
    vocabulary
        The tokens to load; by default all tokens of the file.
    **kwargs
        Arguments of :class:`~phonograd.contrib.text.vocab.Vocabulary`.
    """

    def __init__(
        self,
        pretrained_file_path: str,
        elem_delim: str = " ",
        encoding: str = "utf8",
        init_unknown_vec: Initializer = ndarray.zeros,
        vocabulary: vocab.Vocabulary | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._load(pretrained_file_path, elem_delim, init_unknown_vec, encoding, vocabulary)


class CompositeEmbedding(TokenEmbedding):
    """The tokens of a vocabulary with the concatenated vectors of several embeddings."""

    def __init__(self, vocabulary: vocab.Vocabulary, token_embeddings: Any) -> None:
        super().__init__()
        assert isinstance(vocabulary, vocab.Vocabulary), (
            f"The argument `vocabulary` must be an instance of Vocabulary, not {type(vocabulary)}"
        )
        embeddings = token_embeddings if isinstance(token_embeddings, list) else [token_embeddings]
        for each in embeddings:
            assert isinstance(each, TokenEmbedding), (
                f"The argument `token_embeddings` must contain token embeddings only, not {type(each)}"
            )
        self._take(vocabulary, embeddings)


complete_classes(globals())
