"""KVStoreServer, for scripts that import it: there are no servers (``mxnet.kvstore.kvstore_server``)."""

from __future__ import annotations

from typing import Any

from ..core.base.docstrings import complete_classes
from ..core.base.errors import MXNetError

__all__ = ["KVStoreServer"]


class KVStoreServer:
    """Raise an error when it runs: every process is a worker and holds the store."""

    def __init__(self, kvstore: Any) -> None:
        self.kvstore = kvstore

    def run(self) -> None:
        """Raise an error that says how to start without servers."""
        raise MXNetError(
            "there are no servers and no scheduler: every process is a worker and holds the store. Start workers only, "
            "for example with `phonograd launch -n 4 train.py`"
        )


complete_classes(globals())
