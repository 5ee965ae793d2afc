"""Text: vocabularies, token counts, and word embeddings from files (``mxnet.contrib.text``)."""

from __future__ import annotations

from . import embedding, utils, vocab

__all__ = ["embedding", "utils", "vocab"]
