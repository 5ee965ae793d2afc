"""Watched calls: what an operator's call does beside its work while somebody observes operators."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..observers import BACKWARD_FUNCTION, EVALUATION, FUNCTION, KERNEL, LISTENING, MEMORY, WHEN_CHANGED, begin
from ..operator import Operator
from ..settings import active
from ..state import FLAGS, RECORDING
from ..trace import LOCAL
from .handle import Handle

__all__ = ["LISTENERS", "watched"]

#: the observers of operators; not empty while there are any
LISTENERS = LISTENING[FUNCTION]
_WATCHED = (FUNCTION, BACKWARD_FUNCTION, EVALUATION, KERNEL, MEMORY)
_numbers = itertools.count()


def watched(declared: Operator, inputs: Iterable[Any], parameters: Mapping[str, Any], call: Callable[[], Any]) -> Any:
    """Return the result of a call that observers are told of."""
    arrays = tuple([value for value in inputs if isinstance(value, Handle)])
    number = next(_numbers) if FLAGS.get() & RECORDING else -1
    with begin(FUNCTION, declared.name, arrays, parameters=parameters, sequence_nr=number) as entry:
        result = call()
        if entry.active:
            results = result if isinstance(result, (list, tuple)) else (result,)
            entry.set_outputs(*results)
            sources = [array._node for array in arrays if array._node is not None]
            LOCAL.trace.attributed().called(entry, sources, [made._node for made in results if made._node is not None])
    return result


def _attend() -> None:
    """Have every call take the way on which observers are told of it, as long as there are any."""
    active.watch(any([LISTENING[scope] for scope in _WATCHED]))


WHEN_CHANGED.append(_attend)
_attend()
