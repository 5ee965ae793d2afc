"""Function: the text of one LLVM function, with blocks, loops, 64-bit numbers and atomic words.

An *index* is such a number, as text: a name or its digits. Vectors are the business of
:class:`~phonograd.core.lower.ir.emitter.Emitter`, which extends this class.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ...base.dtypes import INT64, DType, name_of
from ...base.pace import rest

__all__ = ["FunctionBuilder", "Index", "Value"]

#: a 64-bit number: the name of one, or its digits
Index = str


class Value(NamedTuple):
    """A vector in a register: its name (or literal) and the dtype of its lanes.

    The numbers 0 and 1 that a comparison gives keep the name of the mask they were made of as their ``truth``.
    """

    text: str
    dtype: DType
    truth: str | None = None


class FunctionBuilder:
    """The text of one function, written instruction by instruction.

    >>> f = FunctionBuilder("twice", "ptr %table, i64 %n")
    >>> f.store_word("%table", "0", f.times("%n", "2"))
    >>> print(f.text())
    define void @twice(ptr %table, i64 %n) nounwind {
    entry:
      %v1 = mul i64 %n, 2
      store i64 %v1, ptr %table, align 8
      ret void
    }
    <BLANKLINE>
    """

    def __init__(self, name: str, arguments: str, result: str = "void", *, internal: bool = False) -> None:
        self.name = name
        self.arguments = arguments
        #: type of the result. Where it is not ``void``, every path writes its own ``ret``
        self.result = result
        #: whether only the module of the function sees it
        self.internal = internal
        #: label of the block being written
        self.block = "entry"
        self._lines: list[str] = []
        self._declarations: dict[str, None] = {}
        self._names = 0

    # -- text

    def line(self, text: str) -> None:
        """Write one instruction."""
        self._lines.append(f"  {text}")

    def new_name(self, word: str = "v") -> str:
        """Return a name that nothing else has."""
        self._names += 1
        return f"{word}{self._names}"

    def assign(self, expression: str) -> str:
        """Write ``%name = expression`` and return the name."""
        name = f"%{self.new_name()}"
        self._lines.append(f"  {name} = {expression}")
        return name

    def label(self, name: str) -> None:
        """Begin a block."""
        rest()
        self._lines.append(f"{name}:")
        self.block = name

    def declare(self, declaration: str) -> None:
        """Declare a function of LLVM's; several times is once."""
        self._declarations[declaration] = None

    def body(self) -> str:
        """Return the instructions written so far."""
        return "\n".join(self._lines)

    def text(self) -> str:
        """Return the whole function, after the declarations it needs."""
        declarations = "".join([f"{line}\n" for line in self._declarations])
        linkage = "internal " if self.internal else ""
        head = f"define {linkage}{self.result} @{self.name}({self.arguments}) nounwind {{\nentry:\n"
        end = "  ret void\n" if self.result == "void" else ""
        return f"{declarations}{head}{self.body()}\n{end}}}\n"

    # -- indices

    def plus(self, first: Index, second: Index) -> Index:
        """Return the sum of two indices: ``add i64``, or nothing at all where one of them is 0."""
        if "0" in (first, second):
            return second if first == "0" else first
        return self.assign(f"add i64 {first}, {second}")

    def minus(self, first: Index, second: Index) -> Index:
        """Return the difference of two indices: ``sub i64``."""
        return first if second == "0" else self.assign(f"sub i64 {first}, {second}")

    def times(self, first: Index, second: Index) -> Index:
        """Return the product of two indices: ``mul i64``, or nothing at all where one of them is 0 or 1."""
        if "0" in (first, second):
            return "0"
        if "1" in (first, second):
            return second if first == "1" else first
        return self.assign(f"mul i64 {first}, {second}")

    def shift_down(self, number: Index, bits: int) -> Index:
        """Return the index divided by a power of two: ``lshr i64``."""
        return self.assign(f"lshr i64 {number}, {bits}")

    def least(self, first: Index, second: Index) -> Index:
        """Return the smaller index.

        ::

            %v1 = icmp slt i64 %first, %second
            %v2 = select i1 %v1, i64 %first, i64 %second
        """
        smaller = self.assign(f"icmp slt i64 {first}, {second}")
        return self.assign(f"select i1 {smaller}, i64 {first}, i64 {second}")

    def quotient(self, first: Index, second: Index) -> Index:
        """Return a number that is not negative, divided by a positive one: ``udiv i64``."""
        return first if second == "1" else self.assign(f"udiv i64 {first}, {second}")

    def test(self, predicate: str, first: Index, second: Index) -> str:
        """Return the comparison of two numbers: ``icmp slt i64``, ..."""
        return self.assign(f"icmp {predicate} i64 {first}, {second}")

    def logical_and(self, first: str, second: str) -> str:
        """Return whether two conditions hold: ``and i1``."""
        return self.assign(f"and i1 {first}, {second}")

    def select_index(self, condition: str, first: Index, second: Index) -> Index:
        """Return one of two numbers: ``select i1 %condition, i64 %first, i64 %second``."""
        return self.assign(f"select i1 {condition}, i64 {first}, i64 {second}")

    # -- memory

    def address(self, pointer: str, offset: Index, kind: str) -> str:
        """Return the address of an element: ``getelementptr kind``, or the pointer itself for offset 0."""
        if offset == "0":
            return pointer
        return self.assign(f"getelementptr {kind}, ptr {pointer}, i64 {offset}")

    def load_word(self, pointer: str, offset: Index, kind: str = "i64") -> str:
        """Return one number (or with kind ``ptr`` one address) of a table of 64-bit words."""
        return self.assign(f"load {kind}, ptr {self.address(pointer, offset, 'i64')}, align 8")

    def store_word(self, pointer: str, offset: Index, word: Index, kind: str = "i64") -> None:
        """Write one word of a table of 64-bit words."""
        self.line(f"store {kind} {word}, ptr {self.address(pointer, offset, 'i64')}, align 8")

    def load_atomic(self, pointer: str, order: str) -> Index:
        """Return a word that other threads write: ``load atomic i64, ptr %pointer monotonic``, ..."""
        return self.assign(f"load atomic i64, ptr {pointer} {order}, align 8")

    def store_atomic(self, pointer: str, word: Index, order: str) -> None:
        """Write a word that other threads read: ``store atomic i64 %word, ptr %pointer release``, ..."""
        self.line(f"store atomic i64 {word}, ptr {pointer} {order}, align 8")

    def compare_exchange(self, pointer: str, expected: Index, word: Index, order: str, failure: str) -> str:
        """Replace a word if it is the expected one, and return whether it was.

        ``order`` is the memory order of success, ``failure`` that of failure::

            %v1 = cmpxchg ptr %pointer, i64 %expected, i64 %word acq_rel monotonic
            %v2 = extractvalue { i64, i1 } %v1, 1
        """
        pair = self.assign(f"cmpxchg ptr {pointer}, i64 {expected}, i64 {word} {order} {failure}")
        return self.assign(f"extractvalue {{ i64, i1 }} {pair}, 1")

    def subtract_atomic(self, pointer: str, number: Index, order: str) -> Index:
        """Subtract from a word, and return the word from before: ``atomicrmw sub``."""
        return self.assign(f"atomicrmw sub ptr {pointer}, i64 {number} {order}")

    # -- control

    def vector_type(self, dtype: DType) -> str:
        """Return the type of a value of a dtype: without vectors, of one 64-bit number."""
        if dtype != INT64:
            raise TypeError(f"this function computes with 64-bit numbers, not with {name_of(dtype)}")
        return "i64"

    def go(self, target: str) -> None:
        """End the block with a jump: ``br label %target``."""
        self.line(f"br label %{target}")

    def leave_if(self, condition: str, target: str) -> None:
        """Jump to a label if a condition holds: ``br i1 %condition, label %target, label %go1``."""
        following = self.new_name("go")
        self.line(f"br i1 {condition}, label %{target}, label %{following}")
        self.label(following)

    def leave_unless(self, condition: str, target: str) -> None:
        """Jump to a label if a condition does not hold: ``br i1 %condition, label %go1, label %target``."""
        following = self.new_name("go")
        self.line(f"br i1 {condition}, label %{following}, label %{target}")
        self.label(following)

    def for_each(self, start: Index, stop: Index, body: Callable[[Index], None], step: Index = "1") -> None:
        """Write ``for index in range(start, stop, step)`` with nothing carried from round to round."""

        def inner(index: Index, _: list[Value]) -> Sequence[Value]:
            body(index)
            return ()

        self.loop(start, stop, step, (), inner)

    def when(self, condition: str, then: Callable[[], None], otherwise: Callable[[], None] | None = None) -> None:
        """Write ``if condition: then() else: otherwise()``."""

        def first() -> Sequence[Value]:
            then()
            return ()

        def second() -> Sequence[Value]:
            if otherwise is not None:
                otherwise()
            return ()

        self.choose(condition, first, second)

    def loop(
        self,
        start: Index,
        stop: Index,
        step: Index,
        carried: Sequence[Value],
        body: Callable[[Index, list[Value]], Sequence[Value]],
    ) -> list[Value]:
        """Return what ``carried`` has become after ``for index in range(start, stop, step)``.

        ``body(index, carried)`` writes one round and returns the new values::

            loop1:
              %index2 = phi i64 [ %start, %entry ], [ %v5, %body3 ]
              %carried6 = phi <16 x float> [ %carried, %entry ], [ %new, %body3 ]
              %v7 = icmp slt i64 %index2, %stop
              br i1 %v7, label %body3, label %done4
            body3:
              ...
              %v5 = add i64 %index2, %step
              br label %loop1
            done4:
        """
        head, inside, done = self.new_name("loop"), self.new_name("body"), self.new_name("done")
        index = f"%{self.new_name('index')}"
        names = [Value(f"%{self.new_name('carried')}", value.dtype) for value in carried]
        before = self.block
        self.line(f"br label %{head}")
        self.label(head)
        # the other ends of the phis are known only when the body has been written
        place = len(self._lines)
        self._lines.extend([""] * (1 + len(names)))
        more = self.assign(f"icmp slt i64 {index}, {stop}")
        self.line(f"br i1 {more}, label %{inside}, label %{done}")
        self.label(inside)
        results = body(index, list(names))
        following = self.plus(index, step)
        last = self.block
        self.line(f"br label %{head}")
        self._lines[place] = f"  {index} = phi i64 [ {start}, %{before} ], [ {following}, %{last} ]"
        for position, (name, first, result) in enumerate(zip(names, carried, results, strict=True), place + 1):
            self._lines[position] = "  " + self._merge(name, [(first.text, before), (result.text, last)])
        self.label(done)
        return names

    def repeat(
        self,
        carried: Sequence[Value],
        proceed: Callable[[list[Value]], str],
        body: Callable[[list[Value]], Sequence[Value]],
    ) -> list[Value]:
        """Return what ``carried`` has become when ``proceed(carried)``, an ``i1`` before every round, is false.

        ::

            loop1:
              %carried4 = phi <16 x float> [ %carried, %entry ], [ %new, %body2 ]
              ...
              br i1 %proceed, label %body2, label %done3
            body2:
              ...
              br label %loop1
            done3:
        """
        head, inside, done = self.new_name("loop"), self.new_name("body"), self.new_name("done")
        names = [Value(f"%{self.new_name('carried')}", value.dtype) for value in carried]
        before = self.block
        self.line(f"br label %{head}")
        self.label(head)
        place = len(self._lines)
        self._lines.extend([""] * len(names))
        self.line(f"br i1 {proceed(list(names))}, label %{inside}, label %{done}")
        self.label(inside)
        results = body(list(names))
        last = self.block
        self.line(f"br label %{head}")
        for position, (name, first, result) in enumerate(zip(names, carried, results, strict=True), place):
            self._lines[position] = "  " + self._merge(name, [(first.text, before), (result.text, last)])
        self.label(done)
        return names

    def choose(
        self, condition: str, first: Callable[[], Sequence[Value]], second: Callable[[], Sequence[Value]]
    ) -> list[Value]:
        """Return the values of ``first()`` where the condition (an ``i1``) holds, else those of ``second()``.

        ::

              br i1 %condition, label %then1, label %else2
            then1:
              ...
              br label %end3
            else2:
              ...
              br label %end3
            end3:
              %chosen4 = phi <16 x float> [ %a, %then1 ], [ %b, %else2 ]

        Where the condition is ``true`` already, there is nothing to choose.
        """
        if condition == "true":
            return list(first())
        names = self.new_name("then"), self.new_name("else"), self.new_name("end")
        self.line(f"br i1 {condition}, label %{names[0]}, label %{names[1]}")
        outcomes = []
        for name, write in zip(names, (first, second)):
            self.label(name)
            outcomes.append((write(), self.block))
            self.line(f"br label %{names[2]}")
        self.label(names[2])
        merged = []
        (values, here), (others, there) = outcomes
        for value, other in zip(values, others, strict=True):
            merged.append(Value(f"%{self.new_name('chosen')}", value.dtype))
            self.line(self._merge(merged[-1], [(value.text, here), (other.text, there)]))
        return merged

    def _merge(self, name: Value, sources: list[tuple[str, str]]) -> str:
        ends = ", ".join([f"[ {text}, %{block} ]" for text, block in sources])
        return f"{name.text} = phi {self.vector_type(name.dtype)} {ends}"
