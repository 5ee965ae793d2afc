"""Products of bfloat16 in pairs of terms, by the instruction of AVX512-BF16: the plan and its kernels.

``vdpbf16ps`` adds two products to a float32 sum, one after the other, each with one rounding: first that of the upper
halves of two words, then that of the lower ones. With the earlier term in the upper half, these are the fused
multiply-adds of :mod:`.gemm`, in the same order. But the instruction flushes operands and sums below 2^-126 to zero.

**The bits are those of multiply-adds.** Let all numbers of an operand that are not zero be at least 2^p, and those of
the other one at least 2^q. A bfloat16 has 8 significant bits, so all products are multiples of 2^(p + q - 14), and so
are their rounded sums. If that is at least 2^-126, no operand, product or sum is small enough to be flushed. Kernels
that make the words of pairs find the smallest numbers, one launch decides, and of two launches that multiply the same
words one does nothing: :class:`PairGemm` with the instruction, or ``exact``, with two multiply-adds. Infinities and NaN
need no care. See docs/decisions/0023.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

from ...base.dtypes import BFLOAT16, FLOAT32, INT32
from ...lower.ir.function_builder import Index, Value
from ..epilogue import Epilogue
from ..launch import Launch, Plan, Reference, Words, align_up, operand
from ..routine import Routine, module
from ..target import Machine
from .gemm import MOST_PACKED_HALVES_BYTES, Gemm, Matrices
from .tasks import terms_of_block
from .tiles import WORDS, product_routines

__all__ = ["LEAST_EXPONENTS", "Decide", "MakePairs", "PairGemm", "in_pairs", "is_worth"]

#: sum of the biased exponents of the smallest numbers of both operands from which on no sum is flushed: p + q - 14 is
#: at least -126, and the bias is 127
LEAST_EXPONENTS = 2 * 127 + 14 - 126
#: lines of an item if terms are contiguous, and words otherwise
ITEM_LINES, ITEM_WORDS = 16, 8
#: words worth a call
_CHUNK_WORDS = 1 << 13
#: magnitude of a number that is zero, as float32 bits: no other one is larger but NaN
_NOTHING = 0x7F800000
_WORD = 4

_PAIRS = Words(
    *("lines", "terms", "words", "block_terms", "block_words", "groups", "inner"),
    *("source*", "source_line", "source_term", "source_outer", "source_inner"),
    *("pairs*", "pairs_outer", "pairs_inner", "smallest*"),
)
_DECIDE = Words("first", "second", "first_smallest*", "second_smallest*", "is_safe*")

#: what :func:`in_pairs` asks for: the plan of a product of words, given sizes, strides, the kernel and words of a block
Multiplication = Callable[[tuple[int, int, int], Matrices, Matrices, Gemm, int], Plan]


def is_worth(sizes: tuple[int, int, int]) -> bool:
    """Return whether pairs take fewer cycles than float32 numbers; the results are the same.

    The instruction does twice the multiplications of a vector unit, whose rate is that of
    :func:`.bf16x3.is_worth`; making pairs costs half a cycle per number. No processor with it was at hand.
    """
    rows, terms, columns = sizes
    fits = max(rows, columns) * terms * BFLOAT16.itemsize <= MOST_PACKED_HALVES_BYTES
    return fits and terms > 1 and (rows + columns) * terms / 2 < rows * terms * columns / 54


@dataclasses.dataclass(frozen=True)
class MakePairs:
    """The kernel that makes words of two terms, of lines that are rows of the first operand or columns of the second.

    If terms are contiguous (``by_terms``), lines of words are contiguous; otherwise all lines of a word are. An item is
    some lines or some words; the smallest magnitudes of its numbers are stored beside. The last word of a block of
    terms may have one term.
    """

    lanes: int
    by_terms: bool

    def write(self, name: str) -> str:
        """Return the module's LLVM IR."""
        e = Routine(name, self.lanes, INT32)
        lines, words, inner = [_PAIRS.index(e, word) for word in ("lines", "words", "inner")]
        # 64-bit words of a vector
        smallest = e.scratch(self.lanes // 2)

        def item(number: Index) -> None:
            pair, group = e.split(number, _PAIRS.index(e, "groups"))
            outer, place = e.split(pair, inner)
            source, target = [
                e.at(
                    _PAIRS.pointer(e, of),
                    e.times(outer, _PAIRS.index(e, f"{of}_outer")),
                    e.times(place, _PAIRS.index(e, f"{of}_inner")),
                    dtype=dtype,
                )
                for of, dtype in (("source", BFLOAT16), ("pairs", INT32))
            ]
            e.store(smallest, "0", e.constant(_NOTHING, INT32))
            make, all_of, size = (self._line, lines, ITEM_LINES) if self.by_terms else (self._word, words, ITEM_WORDS)
            first = e.times(group, str(size))
            last = e.least(e.plus(first, str(size)), all_of)
            e.for_each(first, last, lambda at: make(e, source, target, at, smallest))
            found = e.at(_PAIRS.pointer(e, "smallest"), e.times(number, str(self.lanes)))
            e.store(found, "0", e.get(smallest))

        e.for_each("%lo", "%hi", item)
        return module(e)

    def _line(self, e: Routine, source: str, target: str, line: Index, smallest: str) -> None:
        """Write the words of a line of contiguous terms."""
        terms, block_terms, words = [_PAIRS.index(e, word) for word in ("terms", "block_terms", "words")]
        begin = e.at(source, e.times(line, _PAIRS.index(e, "source_line")), dtype=BFLOAT16)
        into = e.at(target, e.times(line, words))

        def block(number: Index) -> None:
            first = e.times(number, block_terms)
            length = e.least(block_terms, e.minus(terms, first))
            numbers = e.at(begin, first, dtype=BFLOAT16)
            to = e.at(into, e.times(number, _PAIRS.index(e, "block_words")))
            count = e.quotient(e.plus(length, "1"), "2")
            whole = e.times(e.quotient(e.quotient(length, "2"), str(self.lanes)), str(self.lanes))

            def vector(at: Index) -> None:
                # in memory the earlier term is in the lower half
                both = e.get(e.at(numbers, e.times(at, "2"), dtype=BFLOAT16))
                sixteen = e.constant(16, INT32)
                turned = e.bits("or", e.bits("shl", both, sixteen), e.bits("lshr", both, sixteen))
                e.store(to, at, turned)
                self._note(e, turned, smallest)

            def single(at: Index) -> None:
                place = e.times(at, "2")
                exists = e.test("slt", e.plus(place, "1"), length)
                halves = [
                    e.assign(f"load i16, ptr {e.at(numbers, term, dtype=BFLOAT16)}, align 2")
                    for term in (place, e.select_index(exists, e.plus(place, "1"), place))
                ]
                high, low = [e.assign(f"zext i16 {half} to i32") for half in halves]
                high, low = e.assign(f"shl i32 {high}, 16"), e.assign(f"select i1 {exists}, i32 {low}, i32 0")
                word = e.assign(f"or i32 {high}, {low}")
                e.put_one(to, word, at)
                self._note(e, e.splat(word, INT32), smallest)

            e.for_each("0", whole, vector, str(self.lanes))
            e.for_each(whole, count, single)

        blocks = e.quotient(e.plus(terms, e.minus(block_terms, "1")), block_terms)
        e.for_each("0", blocks, block)

    def _word(self, e: Routine, source: str, target: str, word: Index, smallest: str) -> None:
        """Write a word of all lines."""
        lines, terms, block_terms = [_PAIRS.index(e, name) for name in ("lines", "terms", "block_terms")]
        line, term = _PAIRS.index(e, "source_line"), _PAIRS.index(e, "source_term")
        block, inside = e.split(word, _PAIRS.index(e, "block_words"))
        first, place = e.times(block, block_terms), e.times(inside, "2")
        exists = e.test("slt", e.plus(place, "1"), e.least(block_terms, e.minus(terms, first)))
        begin = e.at(source, e.times(e.plus(first, place), term), dtype=BFLOAT16)
        halves = [begin, e.at(begin, e.select_index(exists, term, "0"), dtype=BFLOAT16)]
        kept = e.splat(e.assign(f"sext i1 {exists} to i32"), INT32)
        into = e.at(target, e.times(word, lines))
        in_order = e.test("eq", line, "1")
        last, mask = e.tail(lines)

        def combined(values: list[Value]) -> Value:
            high, low = [e.reinterpret(e.widen(value), INT32) for value in values]
            found = e.bits("or", high, e.bits("and", e.bits("lshr", low, e.constant(16, INT32)), kept))
            self._note(e, found, smallest)
            return found

        def gathered(at: Index, where: Value) -> list[Value]:
            return [e.gather(half, e.times(at, line), line, BFLOAT16, where) for half in halves]

        def vector(at: Index) -> None:
            all_lanes = e.below(str(self.lanes))
            values = e.choose(
                in_order,
                lambda: [e.widen(e.load(half, at, BFLOAT16)) for half in halves],
                lambda: [e.widen(value) for value in gathered(at, all_lanes)],
            )
            e.store(into, at, combined(values))

        e.for_each("0", last, vector, str(self.lanes))
        e.store_where(into, last, combined(gathered(last, mask)), mask)

    def _note(self, e: Routine, words: Value, smallest: str) -> None:
        """Write the update of the smallest magnitudes, as float32 bits, by those of the numbers of some words."""
        magnitudes, found = e.constant(0x7FFF0000, INT32), e.get(smallest)
        for halves in (words, e.bits("shl", words, e.constant(16, INT32))):
            value = e.bits("and", halves, magnitudes)
            value = e.select(e.compare("eq", value, e.zeros()), e.constant(_NOTHING, INT32), value)
            found = e.select(e.compare("slt", value, found), value, found)
        e.store(smallest, "0", found)


@dataclasses.dataclass(frozen=True)
class Decide:
    """The kernel that decides whether the instruction has the bits of multiply-adds, from the smallest magnitudes."""

    def write(self, name: str) -> str:
        """Return the module's LLVM IR."""
        e = Routine(name, 1, INT32)

        def exponent(of: str) -> Index:
            pointer = _DECIDE.pointer(e, f"{of}_smallest")

            def one(at: Index, found: list[Value]) -> list[Value]:
                value = e.get(pointer, at)
                return [e.select(e.compare("slt", value, found[0]), value, found[0])]

            (least,) = e.loop("0", _DECIDE.index(e, of), "1", [e.constant(_NOTHING, INT32)], one)
            bits = e.assign(f"extractelement {e.vector_type(INT32)} {least.text}, i64 0")
            return e.shift_down(e.assign(f"zext i32 {bits} to i64"), 23)

        first, second = exponent("first"), exponent("second")
        # denormal numbers have the exponent 0
        are_normal = e.logical_and(e.test("sgt", first, "0"), e.test("sgt", second, "0"))
        is_safe = e.logical_and(are_normal, e.test("sge", e.plus(first, second), str(LEAST_EXPONENTS)))
        e.store_word(_DECIDE.pointer(e, "is_safe"), "0", e.assign(f"zext i1 {is_safe} to i64"))
        return module(e)


@dataclasses.dataclass(frozen=True)
class PairGemm(Gemm):
    """The kernel of products of words of two bfloat16 terms; it takes words for float32 numbers until it multiplies.

    It does nothing where the last operand of its table, a word of memory, asks for the other kind.
    """

    exact: bool = False
    """Whether it multiplies without the instruction."""

    def finished(self, epilogue: Epilogue) -> None:
        """Return None: one of two kernels computes the result, and which one is known at run time."""

    def multiply_add(self, e: Routine, first: Value, second: Value, total: Value) -> Value:
        """Return one step of a sum of products.

        ::

            %v1 = bitcast <16 x float> %first to <32 x bfloat>
            %v2 = bitcast <16 x float> %second to <32 x bfloat>
            %v3 = call <16 x float> @llvm.x86.avx512bf16.dpbf16ps.512(<16 x float> %total, <32 x bfloat> %v1, ...)
        """
        return _two_steps(e, first, second, total) if self.exact else self._dot(e, first, second, total)

    def _dot(self, e: Routine, first: Value, second: Value, total: Value) -> Value:
        kind, halves = e.vector_type(FLOAT32), f"<{2 * e.lanes} x bfloat>"
        name = f"@llvm.x86.avx512bf16.dpbf16ps.{32 * e.lanes}"
        e.declare(f"declare {kind} {name}({kind}, {halves}, {halves})")
        words = [f"{halves} {e.assign(f'bitcast {kind} {value.text} to {halves}')}" for value in (first, second)]
        return Value(e.assign(f"call {kind} {name}({kind} {total.text}, {', '.join(words)})"), FLOAT32)

    def write(self, name: str) -> str:
        """Return the module's LLVM IR."""
        e = Routine(name, self.lanes, FLOAT32)
        is_safe = e.load_word(operand(e, WORDS.count), "0")
        asked = e.test("eq" if self.exact else "ne", is_safe, "0")
        inside = f"{name}_product"
        e.when(asked, lambda: e.invoke(inside, "ptr %table", "ptr %bases", "i64 %lo", "i64 %hi"))
        return module(*product_routines(self, inside), e)


def _two_steps(e: Routine, first: Value, second: Value, total: Value) -> Value:
    """Return a sum after the products of the upper halves of words, then those of the lower ones, are added."""
    bits = [e.reinterpret(words, INT32) for words in (first, second)]
    for operation, number in (("and", -0x10000), ("shl", 16)):
        halves = [e.bits(operation, words, e.constant(number, INT32)) for words in bits]
        left, right = [e.reinterpret(half, FLOAT32) for half in halves]
        total = e.fma(left, right, total)
    return total


# -- plans


class _Side(NamedTuple):
    """An operand, and the words that are made of it: lines are rows of the first one or columns of the second."""

    name: str
    lines: int
    line: int
    term: int
    """Distance of terms in the operand."""
    place: Matrices
    words: int
    matrices: tuple[int, int]
    """Matrices along both batch axes."""

    @property
    def by_terms(self) -> bool:
        """True if the terms of a line are contiguous, and its words."""
        return self.term == 1

    @property
    def copies(self) -> tuple[int, int]:
        """Matrices that are converted: those that are the same along a batch axis are converted once."""
        return self.matrices[0] if self.place.outer else 1, self.matrices[1] if self.place.inner else 1

    @property
    def groups(self) -> int:
        """Items of a matrix."""
        return -(-self.lines // ITEM_LINES) if self.by_terms else -(-self.words // ITEM_WORDS)

    @property
    def strides(self) -> tuple[int, int, int, int]:
        """Distances of lines, words, and outer and inner matrices of words."""
        one = self.lines * self.words
        line, word = (self.words, 1) if self.by_terms else (1, self.lines)
        outer, inner = one * self.copies[1] if self.place.outer else 0, one if self.place.inner else 0
        return line, word, outer, inner

    def sizes(self, lanes: int) -> tuple[int, int]:
        """Return the number of words, and that of smallest magnitudes."""
        matrices = self.copies[0] * self.copies[1]
        return self.lines * self.words * matrices, self.groups * matrices * lanes

    def launch(self, lanes: int, terms: tuple[int, int, int], pairs: Reference, smallest: Reference) -> Launch:
        """Return the launch that makes words, for some terms, of which blocks have some terms and words."""
        _, _, outer, inner = self.strides
        values: dict[str, int | Reference] = {
            "lines": self.lines,
            "terms": terms[0],
            "words": self.words,
            "block_terms": terms[1],
            "block_words": terms[2],
            "groups": self.groups,
            "inner": self.copies[1],
            "source": Reference(self.name),
            "source_line": self.line,
            "source_term": self.term,
            "source_outer": self.place.outer,
            "source_inner": self.place.inner,
            "pairs": pairs,
            "pairs_outer": outer,
            "pairs_inner": inner,
            "smallest": smallest,
        }
        items = self.groups * self.copies[0] * self.copies[1]
        chunk = max(1, _CHUNK_WORDS * self.groups // (self.lines * self.words))
        return Launch(MakePairs(lanes, self.by_terms), _PAIRS.fill(values), items, chunk)


def in_pairs(
    sizes: tuple[int, int, int],
    count: tuple[int, int],
    lhs: Matrices,
    rhs: Matrices,
    machine: Machine,
    multiply: Multiplication,
) -> Plan:
    """Return the launches of a product of bfloat16 matrices, by that of their words, which ``multiply`` returns.

    The other arguments are those of :func:`~phonograd.core.kernels.matmul.gemm.product`.
    """
    rows, terms, columns = sizes
    block = terms_of_block(terms)
    block_words, blocks = -(-block // 2), -(-terms // block)
    words = (blocks - 1) * block_words + -(-(terms - (blocks - 1) * block) // 2)
    sides = (
        _Side("lhs", rows, lhs.row, lhs.column, lhs, words, count),
        _Side("rhs", columns, rhs.column, rhs.row, rhs, words, count),
    )
    left, right = [Matrices(*side.strides) for side in sides]
    right = right._replace(row=right.column, column=right.row)
    lanes = machine.lanes(FLOAT32)
    plan = multiply((rows, words, columns), left, right, PairGemm(FLOAT32, machine), block_words)
    end = align_up(plan.scratch_bytes)
    areas: list[Reference] = []
    for size in (*sides[0].sizes(lanes), *sides[1].sizes(lanes), 2):
        areas.append(Reference("scratch", end))
        end += align_up(size * _WORD)
    is_safe = areas[4]
    before = [
        side.launch(lanes, (terms, block, block_words), *areas[2 * number : 2 * number + 2])
        for number, side in enumerate(sides)
    ]
    decision: dict[str, int | Reference] = {
        "first": sides[0].sizes(lanes)[1],
        "second": sides[1].sizes(lanes)[1],
        "first_smallest": areas[1],
        "second_smallest": areas[3],
        "is_safe": is_safe,
    }
    launches = [*before, Launch(Decide(), _DECIDE.fill(decision), 1)]
    places = {"lhs": areas[0], "rhs": areas[2]}
    for launch in plan.launches:
        launch = launch._replace(words=tuple([_move(word, places) for word in launch.words]))
        kernel = launch.structure
        if isinstance(kernel, PairGemm):
            launch = launch._replace(words=(*launch.words, is_safe))
            launches += [launch, launch._replace(structure=dataclasses.replace(kernel, exact=True), work=0)]
        else:
            launches.append(launch)
    return Plan(tuple(launches), end)


def _move(word: int | Reference, places: dict[str, Reference]) -> int | Reference:
    if not isinstance(word, Reference) or word.operand not in places:
        return word
    place = places[word.operand]
    return Reference(place.operand, place.offset + word.offset)
