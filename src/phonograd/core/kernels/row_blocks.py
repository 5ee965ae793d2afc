"""Row blocks: one kernel that runs several others on a block of rows, and then on the next block.

Kernels in sequence pass large values on through memory: the scores of attention, for example. This kernel runs the
whole sequence for a few rows at a time, so that these values take the memory of a block, which stays in a cache. It
contains the text of the other kernels, unchanged: each computes the bits that it computes alone.

A *task* is one matrix of a batch, or one block of rows of it. Its blocks follow each other. For each block the kernel
copies the words of the other kernels' tables to the memory of its slot, moves the operands to the block, and calls the
kernels one after the other. The first and the last block have words of their own. See docs/decisions/0029.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from typing import NamedTuple

from ..base.dtypes import FLOAT32
from ..lower.ir.function_builder import Index
from .launch import Launch, Reference, Words, Written
from .routine import Routine, module
from .scratch import SLOT_WORDS, in_slot

__all__ = ["Call", "Moving", "RowBlocks", "Word", "launch_blocks", "size_of"]

WORDS = Words("inner", "row_blocks", "parts", "first", "middle", "last", *SLOT_WORDS)
#: words of a call, of a move, and before those of a block
_CALL_WORDS, _MOVE_WORDS, _HEAD_WORDS = 4, 5, 3


class Moving(NamedTuple):
    """A word of a table that is another one for each block: ``word`` for the first, and what is added to it.

    The word of a reference is its offset in bytes.
    """

    word: int | Reference
    outer: int = 0
    """Added for each matrix along the outer axis of the batch."""
    inner: int = 0
    block: int = 0
    """Added for each block of rows."""
    in_slot: bool = False
    """Whether it is an address in the memory of the slot."""


Word = int | Reference | Moving


class Call(NamedTuple):
    """A launch of another kernel for one block."""

    kernel: Written
    words: tuple[Word, ...]
    begin: int | Moving
    end: int | Moving


@dataclasses.dataclass(frozen=True)
class RowBlocks:
    """The kernel that runs others on blocks of rows."""

    kernels: tuple[Written, ...]

    def write(self, name: str) -> str:
        """Return the module's LLVM IR."""
        texts = [_as_part(kernel.write(f"{name}_part"), f"part{n}_") for n, kernel in enumerate(self.kernels)]
        e = Routine(name, 1, FLOAT32)
        block = _block(len(self.kernels), f"{name}_part")

        def word(of: str) -> Index:
            return WORDS.index(e, of)

        def run(slot: str) -> None:
            distance = e.assign(f"ptrtoint ptr {slot} to i64")
            distance = e.minus(distance, e.assign(f"ptrtoint ptr {WORDS.pointer(e, 'slot_memory')} to i64"))
            blocks, parts = word("row_blocks"), word("parts")

            def task(number: Index) -> None:
                pair, part = e.split(number, parts)
                outer, inner = e.split(pair, word("inner"))
                # a task has all blocks, or one
                is_whole = e.test("eq", parts, "1")
                stop = e.select_index(is_whole, blocks, e.plus(part, "1"))

                def each(row_block: Index) -> None:
                    is_last = e.test("eq", e.plus(row_block, "1"), blocks)
                    place = e.select_index(is_last, word("last"), word("middle"))
                    place = e.select_index(e.test("eq", row_block, "0"), word("first"), place)
                    words = e.address(WORDS.tail(e), place, "i64")
                    numbers = [f"i64 {number}" for number in (outer, inner, row_block, distance)]
                    e.invoke("block", f"ptr {words}", "ptr %bases", f"ptr {slot}", *numbers)

                e.for_each(part, stop, each)

            e.for_each("%lo", "%hi", task)

        in_slot(e, WORDS, run)
        return _join([*texts, module(block, e)])


def _block(kernels: int, name: str) -> Routine:
    """Return the routine that runs the calls of one block; its words are those of :func:`_block_words`."""
    arguments = "ptr %words, ptr %bases, ptr %copy, i64 %outer, i64 %inner, i64 %row_block, i64 %slot"
    e = Routine("block", 1, FLOAT32, arguments)
    calls, moves, count = [e.load_word("%words", str(place)) for place in range(_HEAD_WORDS)]
    first_move = e.address("%words", str(_HEAD_WORDS), "i64")
    first = e.address(first_move, e.times(moves, str(_MOVE_WORDS)), "i64")
    e.for_each("0", count, lambda place: e.store_word("%copy", place, e.load_word(first, place)))

    def move(number: Index) -> None:
        words = e.address(first_move, e.times(number, str(_MOVE_WORDS)), "i64")
        place, *factors = [e.load_word(words, str(part)) for part in range(_MOVE_WORDS)]
        steps = zip(factors, ("%outer", "%inner", "%row_block", "%slot"), strict=True)
        added = [e.times(factor, step) for factor, step in steps]
        e.store_word("%copy", place, e.total(e.load_word("%copy", place), *added))

    e.for_each("0", moves, move)

    def call(number: Index) -> None:
        words = e.address("%copy", e.times(number, str(_CALL_WORDS)), "i64")
        kernel, place, begin, end = [e.load_word(words, str(part)) for part in range(_CALL_WORDS)]
        table = e.address("%copy", place, "i64")

        def choose(one: int) -> None:
            def invoke() -> None:
                e.invoke(f"part{one}_{name}", f"ptr {table}", "ptr %bases", f"i64 {begin}", f"i64 {end}")

            if one == kernels - 1:
                invoke()
            else:
                e.when(e.test("eq", kernel, str(one)), invoke, lambda: choose(one + 1))

        choose(0)

    e.for_each("0", calls, call)
    return e


_DEFINED = re.compile(r"^define (?:internal )?\S+ @([\w.]+)\(", re.MULTILINE)


def _as_part(text: str, prefix: str) -> str:
    """Return the text of a module with all its functions internal, and a prefix before their names."""
    names = set(_DEFINED.findall(text))
    text = re.sub(r"@([\w.]+)\(", lambda found: f"@{prefix if found[1] in names else ''}{found[1]}(", text)
    return re.sub(r"^define (?!internal )", "define internal ", text, flags=re.MULTILINE)


def _join(texts: Sequence[str]) -> str:
    """Return the text of several modules as one, with each declaration once."""
    lines = [line for text in texts for line in text.split("\n")]
    declarations = dict.fromkeys([line for line in lines if line.startswith("declare")])
    return "\n".join([*declarations, *[line for line in lines if not line.startswith("declare")]])


def launch_blocks(
    kernels: tuple[Written, ...],
    blocks: tuple[Sequence[Call], Sequence[Call], Sequence[Call]],
    count: tuple[int, int],
    row_blocks: int,
    in_order: bool,
    slots: dict[str, int | Reference],
    work: int,
) -> Launch:
    """Return the launch that runs calls for all blocks of rows of ``count[0] * count[1]`` matrices.

    Parameters
    ----------
    kernels
        All kernels that are called.
    blocks
        The calls for the first block, for those in the middle, and for the last.
    in_order
        Whether the blocks of a matrix must follow each other.
    slots
        The words that describe the slots, whose memory begins with room for :func:`size_of` the calls.
    work
        The amount of work, in chunks.
    """
    tail: list[int | Reference] = []
    places: list[int] = []
    known: dict[tuple[Call, ...], int] = {}
    length = 0
    for calls in blocks:
        key = tuple(calls)
        if key not in known:
            known[key] = length
            words = _block_words(calls, kernels)
            tail += words
            length += sum([2 if isinstance(word, Reference) else 1 for word in words])
        places.append(known[key])
    parts = 1 if in_order else row_blocks
    values: dict[str, int | Reference] = {
        "inner": count[1],
        "row_blocks": row_blocks,
        "parts": parts,
        **dict(zip(("first", "middle", "last"), places, strict=True)),
        **slots,
    }
    return Launch(RowBlocks(kernels), (*WORDS.fill(values), *tail), count[0] * count[1] * parts, 1, work)


def size_of(calls: Sequence[Call]) -> int:
    """Return the number of bytes that the words of a block take."""
    return 8 * sum([_CALL_WORDS + sum(map(_width, call.words)) for call in calls])


def _width(word: Word) -> int:
    """Return how many words of a table a word takes: references have two."""
    word = word.word if isinstance(word, Moving) else word
    return 2 if isinstance(word, Reference) else 1


def _block_words(calls: Sequence[Call], kernels: tuple[Written, ...]) -> list[int | Reference]:
    """Return the words of a block: numbers of calls, moves and words, the moves, the calls, and their tables."""
    moves: list[int] = []
    copied: list[int | Reference] = []
    length = 0

    def add(word: Word) -> None:
        nonlocal length
        if isinstance(word, Moving):
            # of the two words of a reference, the second moves
            moves.extend((length + _width(word) - 1, word.outer, word.inner, word.block, int(word.in_slot)))
        copied.append(word.word if isinstance(word, Moving) else word)
        length += _width(word)

    place = _CALL_WORDS * len(calls)
    for call in calls:
        for number in (kernels.index(call.kernel), place, call.begin, call.end):
            add(number)
        place += sum(map(_width, call.words))
    for call in calls:
        for word in call.words:
            add(word)
    return [len(calls), len(moves) // _MOVE_WORDS, length, *moves, *copied]
