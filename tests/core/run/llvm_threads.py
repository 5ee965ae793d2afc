"""An interpreter of LLVM text that runs a function from one step on shared memory to the next.

:class:`Program` reads the text of a module, as the compiler does. A :class:`Thread` runs functions of it up to the next
*step*: an instruction on memory that threads share, or a call of a lock or a kernel. :mod:`.interleavings` holds that
memory and chooses the thread that makes the next step.

Values that depend on time (clocks, tunables in ticks) are *unknown*, and a branch on an unknown value is followed both
ways.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

__all__ = ["Layout", "Program", "Step", "Thread", "Word", "atomics"]

#: a number, or None where it is unknown
Word = Any

_NAME, _VALUE = r"%[\w.]+", r"[^ ,]+"
_FORMS = [
    (kind, re.compile(pattern.replace("NAME", _NAME).replace("VALUE", _VALUE)))
    for kind, pattern in [
        (
            "binary",
            r"(?P<to>NAME) = (?P<op>add|sub|mul|udiv|shl|lshr|and|or|xor) (?:i64|i1) (?P<a>VALUE), (?P<b>VALUE)",
        ),
        ("compare", r"(?P<to>NAME) = icmp (?P<op>\w+) (?:i64|ptr) (?P<a>VALUE), (?P<b>VALUE)"),
        ("select", r"(?P<to>NAME) = select i1 (?P<c>VALUE), i64 (?P<a>VALUE), i64 (?P<b>VALUE)"),
        ("address", r"(?P<to>NAME) = getelementptr i64, ptr (?P<a>VALUE), i64 (?P<b>VALUE)"),
        ("success", r"(?P<to>NAME) = extractvalue \{ i64, i1 \} (?P<a>VALUE), 1"),
        ("phi", r"(?P<to>NAME) = phi i64 (?P<ends>.*)"),
        ("load", r"(?P<to>NAME) = load (?:atomic )?(?:i64|ptr), ptr (?P<p>VALUE)(?: (?P<order>\w+))?, align 8"),
        ("store", r"store (?:atomic )?(?:i64|ptr) (?P<a>VALUE), ptr (?P<p>VALUE)(?: (?P<order>\w+))?, align 8"),
        ("cmpxchg", r"(?P<to>NAME) = cmpxchg ptr (?P<p>VALUE), i64 (?P<a>VALUE), i64 (?P<b>VALUE) (?P<order>\w+) \w+"),
        ("sub", r"(?P<to>NAME) = atomicrmw sub ptr (?P<p>VALUE), i64 (?P<a>VALUE) (?P<order>\w+)"),
        ("call", r"(?:(?P<to>NAME) = )?call \w+ (?P<f>[@%][\w.]+)\((?P<arguments>.*)\)"),
        ("go", r"br label %(?P<yes>[\w.]+)"),
        ("branch", r"br i1 (?P<c>VALUE), label %(?P<yes>[\w.]+), label %(?P<no>[\w.]+)"),
        ("ret", r"ret (?:void|\w+ (?P<a>VALUE))"),
    ]
]
_MASK = (1 << 64) - 1


def _signed(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number


_BINARY: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b & _MASK,
    "sub": lambda a, b: a - b & _MASK,
    "mul": lambda a, b: a * b & _MASK,
    "udiv": lambda a, b: a // b,
    "shl": lambda a, b: a << b & _MASK,
    "lshr": lambda a, b: a >> b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "eq": lambda a, b: int(a == b),
    "ne": lambda a, b: int(a != b),
    "ult": lambda a, b: int(a < b),
    "ugt": lambda a, b: int(a > b),
    "slt": lambda a, b: int(_signed(a) < _signed(b)),
    "sgt": lambda a, b: int(_signed(a) > _signed(b)),
    "sge": lambda a, b: int(_signed(a) >= _signed(b)),
}


class Instruction(NamedTuple):
    """One line of a function: its kind, the parts that its form names, and the text."""

    kind: str
    parts: dict[str, str | None]
    text: str

    def uses(self) -> set[str]:
        """Return the names that the instruction reads, phis excluded."""
        read = [self.parts.get(part) or "" for part in ("a", "b", "c", "p", "f")]
        read += re.findall(_NAME, self.parts.get("arguments") or "")
        return {name for name in read if name.startswith("%")}


class FunctionText(NamedTuple):
    """A function: parameters, instructions, where blocks begin, and which names are needed from each line on."""

    name: str
    parameters: list[str]
    code: list[Instruction]
    blocks: dict[str, int]
    block_of: list[str]
    needed: list[set[str]]


def _read_function(name: str, parameters: str, lines: Sequence[str]) -> FunctionText:
    code: list[Instruction] = []
    blocks: dict[str, int] = {}
    block_of: list[str] = []
    for line in lines:
        if line.endswith(":"):
            blocks[line[:-1]] = len(code)
            continue
        for kind, form in _FORMS:
            if found := form.fullmatch(line):
                code.append(Instruction(kind, found.groupdict(), line))
                break
        else:
            code.append(Instruction("unsupported", {}, line))
        block_of.append(next(reversed(blocks)))
    function = FunctionText(name, re.findall(_NAME, parameters), code, blocks, block_of, [set() for _ in code])
    while _spread_needs(function):
        pass
    return function


def _spread_needs(function: FunctionText) -> bool:
    """Carry the names that later lines need one round further up; return whether anything changed."""
    changed = False
    for index in range(len(function.code) - 1, -1, -1):
        instruction = function.code[index]
        after: set[str] = set()
        if instruction.kind in ("go", "branch"):
            for part in ("yes", "no"):
                if target := instruction.parts.get(part):
                    after |= _needed_on_edge(function, index, target)
        elif instruction.kind != "ret":
            after = function.needed[index + 1] - {instruction.parts.get("to") or ""}
        found = after | (instruction.uses() if instruction.kind != "phi" else set())
        if found != function.needed[index]:
            function.needed[index] = found
            changed = True
    return changed


def _phis(function: FunctionText, block: str, source: str) -> dict[str, str]:
    """Return the phis of a block, by name, with what each takes over from a block before it."""
    found: dict[str, str] = {}
    for instruction in function.code[function.blocks[block] :]:
        if instruction.kind != "phi":
            break
        for value, label in re.findall(r"\[ ([^ ,]+), %([\w.]+) \]", instruction.parts["ends"] or ""):
            if label == source:
                found[instruction.parts["to"] or ""] = value
    return found


def _needed_on_edge(function: FunctionText, index: int, block: str) -> set[str]:
    phis = _phis(function, block, function.block_of[index])
    inside = function.needed[function.blocks[block] + len(phis)] - set(phis)
    return inside | {value for value in phis.values() if value.startswith("%")}


class Program:
    """The functions of a module."""

    def __init__(self, text: str) -> None:
        self.functions: dict[str, FunctionText] = {}
        for found in re.finditer(r"define [^@]*@(\w+)\((.*?)\) nounwind \{\n(.*?)\n\}", text, re.DOTALL):
            lines = [line.strip() for line in found[3].splitlines()]
            self.functions[found[1]] = _read_function(found[1], found[2], lines)


def atomics(program: Program, words: dict[tuple[str, int], str], other: str) -> dict[str, list[str]]:
    """Return the atomic instructions of each function in order, with the names of their words.

    Words are named by pointer and offset; a word that is found in another way has the ``other`` name. An instruction is
    a text like ``store QUIT seq_cst``.
    """
    found: dict[str, list[str]] = {}
    for function in program.functions.values():
        names: dict[str | None, str] = {}
        for kind, parts, text in function.code:
            if kind == "address" and (parts["b"] or "").isdigit():
                names[parts["to"]] = words.get((parts["a"] or "", int(parts["b"] or "")), other)
            elif parts.get("order"):
                orders = re.findall(r"\b(?:monotonic|acquire|release|acq_rel|seq_cst)\b", text)
                line = " ".join([kind, names.get(parts["p"], other), *orders])
                found.setdefault(function.name, []).append(line)
    return found


class Layout(NamedTuple):
    """The meaning of addresses, which count words."""

    constants: dict[int, Word]
    """Words that never change; unknown ones depend on time."""
    times: set[int]
    """Words that change with time: unknown always."""
    records: dict[int, tuple[int, Word]]
    """Words of regions and launches: number of the region, and value."""
    shared: dict[int, int]
    """Words that threads share: place in the shared memory."""
    functions: dict[int, str]
    """Functions that are called by address: ``acquire``, ``release`` or ``kernel``."""


class Step(NamedTuple):
    """The next step of a thread."""

    kind: str
    place: int
    """Which word of the shared memory."""
    values: tuple[Word, ...]
    order: str
    reads: frozenset[int]
    """Regions whose records the thread has read since its last step."""
    text: str
    is_busy: bool
    """Whether the caller may have to wait for this thread: it took a chunk in a call that has not returned."""
    returned: int = -1
    """Which call of its script the thread has returned from since its last step, or -1."""


#: a thread between two steps: its calls, innermost last, each with the line and the values that later lines need
_Frozen = tuple[tuple[str, int, tuple[Word, ...]], ...]


class Thread:
    """A thread that calls functions of a program one after the other; its states are numbered."""

    def __init__(self, program: Program, layout: Layout, script: Sequence[tuple[str, tuple[int, ...]]]) -> None:
        self._program, self._layout, self.script = program, layout, script
        self._numbers: dict[tuple[_Frozen, Step, int], int] = {}
        self.steps: list[Step] = []
        self._states: list[tuple[_Frozen, int]] = []
        self._following: dict[tuple[int, Word, bool], tuple[int, ...]] = {}
        self.first = self._begin(0)

    def following(self, state: int, value: Word, is_busy: bool) -> tuple[int, ...]:
        """Return the states after the step of a state, given its result; several where a branch is unknown."""
        key = state, value, is_busy
        if key not in self._following:
            calls, position = self._states[state]
            frames: list[list[Any]] = [
                [self._program.functions[name], line, self._thawed(name, line, kept)] for name, line, kept in calls
            ]
            function, line, values = frames[-1]
            values[function.code[line].parts.get("to") or ""] = value
            frames[-1][1] += 1
            self._following[key] = self._run(frames, position, is_busy)
        return self._following[key]

    def _begin(self, position: int) -> tuple[int, ...]:
        """Return the states at the first steps of a call of the script."""
        if position == len(self.script):
            return (self._number((), Step("end", 0, (), "", frozenset(), "end", False), position),)
        name, arguments = self.script[position]
        function = self._program.functions[name]
        return self._run([[function, 0, dict(zip(function.parameters, arguments, strict=True))]], position, False)

    def _return(self, position: int) -> list[int]:
        """Return the states at the first steps after a call of the script, which note that it has ended."""
        found = []
        for state in self._begin(position + 1):
            calls, following = self._states[state]
            found.append(self._number(calls, self.steps[state]._replace(returned=position), following))
        return found

    def _number(self, calls: _Frozen, step: Step, position: int) -> int:
        key = calls, step, position
        if key not in self._numbers:
            self._numbers[key] = len(self.steps)
            self.steps.append(step)
            self._states.append((calls, position))
        return self._numbers[key]

    def _kept(self, function: FunctionText, line: int) -> list[str]:
        return sorted(function.needed[line + 1] - {function.code[line].parts.get("to") or ""})

    def _thawed(self, name: str, line: int, kept: tuple[Word, ...]) -> dict[str, Word]:
        return dict(zip(self._kept(self._program.functions[name], line), kept, strict=True))

    def _run(self, frames: list[list[Any]], position: int, is_busy: bool) -> tuple[int, ...]:
        """Return the states at the next steps."""
        found: list[int] = []
        pending: list[tuple[list[list[Any]], frozenset[int]]] = [(frames, frozenset())]
        while pending:
            frames, reads = pending.pop()
            while True:
                step = self._line(frames, reads, pending, is_busy)
                if isinstance(step, Step):
                    break
                reads = step
            if step.kind == "return":
                assert not reads
                found += self._return(position)
                continue
            calls = tuple(
                (function.name, line, tuple([values[name] for name in self._kept(function, line)]))
                for function, line, values in frames
            )
            found.append(self._number(calls, step, position))
        return tuple(dict.fromkeys(found))

    def _line(
        self, frames: list[list[Any]], reads: frozenset[int], pending: list[Any], is_busy: bool
    ) -> Step | frozenset[int]:
        """Run one line; return the step that it is, or the regions whose records have been read."""
        function, line, values = frames[-1]
        instruction: Instruction = function.code[line]
        kind, parts = instruction.kind, instruction.parts

        def value(part: str) -> Word:
            return _value(parts[part] or "", values)

        if kind in ("load", "store", "cmpxchg", "sub"):
            place = value("p")
            if place in self._layout.shared:
                operands = tuple([value(part) for part in ("a", "b") if parts.get(part)])
                order = parts["order"] or ""
                text = f"{function.name}: {instruction.text}"
                return Step(kind, self._layout.shared[place], operands, order, reads, text, is_busy and _takes(frames))
            if place in self._layout.records and kind == "load":
                region, values[parts["to"]] = self._layout.records[place]
                reads |= {region}
            elif place in self._layout.times:
                if kind == "load":
                    values[parts["to"]] = None
            else:
                assert kind == "load", instruction.text
                values[parts["to"]] = self._layout.constants[place]
        elif kind == "call":
            return self._call(frames, instruction, reads, is_busy)
        elif kind == "ret":
            result = value("a") if parts["a"] else None
            frames.pop()
            if not frames:
                return Step("return", 0, (), "", reads, f"{function.name}: ret", False)
            outer, outer_line, outer_values = frames[-1]
            outer_values[outer.code[outer_line].parts["to"] or ""] = result
            frames[-1][1] += 1
            return reads
        elif kind in ("go", "branch"):
            condition = 1 if kind == "go" else value("c")
            if condition is None:
                other = [[called, place, dict(names)] for called, place, names in frames]
                _jump(other[-1], parts["no"] or "")
                pending.append((other, reads))
            _jump(frames[-1], (parts["no"] if condition == 0 else parts["yes"]) or "")
            return reads
        else:
            values[parts["to"]] = _computed(kind, parts, value)
        frames[-1][1] += 1
        return reads

    def _call(
        self, frames: list[list[Any]], instruction: Instruction, reads: frozenset[int], is_busy: bool
    ) -> Step | frozenset[int]:
        function, _, values = frames[-1]
        name = instruction.parts["f"] or ""
        arguments = [
            _value(text.split()[-1], values) for text in (instruction.parts["arguments"] or "").split(", ") if text
        ]
        if name.startswith("@llvm."):
            # the clock, or a pause
            values[instruction.parts["to"] or ""] = None
            frames[-1][1] += 1
        elif name.startswith("@"):
            called = self._program.functions[name[1:]]
            frames.append([called, 0, dict(zip(called.parameters, arguments, strict=True))])
        else:
            kind = self._layout.functions[values[name]]
            place = self._layout.shared[arguments[0]] if kind != "kernel" else 0
            return Step(
                kind, place, tuple(arguments), "", reads, f"{function.name}: {kind}", is_busy and _takes(frames)
            )
        return reads


def _takes(frames: list[list[Any]]) -> bool:
    """Return whether a thread is inside the function that takes chunks."""
    return any([function.name == "take_chunks" for function, _, _ in frames])


def _value(text: str, values: dict[str, Word]) -> Word:
    if text.startswith("%"):
        return values[text]
    # -1 stands for a time that is not known
    return {"true": 1, "false": 0, "-1": None}[text] if text in ("true", "false", "-1") else int(text) & _MASK


def _jump(frame: list[Any], block: str) -> None:
    function, line, values = frame
    phis = _phis(function, block, function.block_of[line])
    values.update({name: _value(text, values) for name, text in phis.items()})
    frame[1] = function.blocks[block] + len(phis)


def _computed(kind: str, parts: dict[str, str | None], value: Callable[[str], Word]) -> Word:
    if kind == "success":
        return value("a")
    if kind == "select":
        condition = value("c")
        return None if condition is None else value("a") if condition else value("b")
    assert kind in ("binary", "compare", "address"), (kind, parts)
    operation = parts.get("op") or "add"
    first, second = value("a"), value("b")
    if first is None or second is None:
        # one side may be enough
        if operation == "and" and 0 in (first, second):
            return 0
        return 1 if operation == "or" and 1 in (first, second) else None
    return _BINARY[operation](first, second)
