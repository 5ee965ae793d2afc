"""Read the pickles in which MXNet stores optimizer states, without the pickle module.

A pickle is a program for a stack machine that can call any function. This reader knows only the instructions that
such files contain. It calls nothing: classes become :class:`Reference`, calls become :class:`Record`. Their meaning,
and the check of each value, is the business of :mod:`.records`. Memory is bounded by the size of the file, because no
instruction allocates more than it occupies in the file times a constant.

Takes bytes from :mod:`.states` and hands it a tree of plain values, references and records.
"""

from __future__ import annotations

import codecs
import dataclasses
import struct
from collections.abc import Callable
from typing import Any

from ..core.base.errors import MXNetError

__all__ = ["Record", "Reference", "read_pickle"]

#: protocols 0 to 5: those that Python 2.7 to 3.14 write
_LATEST_PROTOCOL = 5
#: digits of the longest integer, a signed number of 64 bits
_LONGEST_INTEGER = 20
_INTEGER_BYTES = 9


@dataclasses.dataclass(frozen=True)
class Reference:
    """The name of a class or function in a file."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


class Record:
    """A call in a file, and the state that the result gets: ``made = function(*arguments)``."""

    __slots__ = ("arguments", "function", "items", "state")

    def __init__(self, function: Reference, arguments: tuple[Any, ...]) -> None:
        self.function, self.arguments = function, arguments
        self.state: Any = None
        #: entries that are stored in the result, which is a dictionary
        self.items: dict[Any, Any] | None = None


class _Mark:
    """The beginning of a row of values on the stack."""


_MARK = _Mark()


def read_pickle(data: bytes) -> Any:
    """Return the tree in a pickle.

    Raises
    ------
    MXNetError
        If the bytes are damaged, or are not the pickle of plain values and records; the message names the byte.
    """
    return _Machine(data).run()


class _Machine:
    """Follow the instructions of one pickle."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0
        self.begin = 0
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def run(self) -> Any:
        """Return the value that the last instruction leaves on the stack."""
        while True:
            self.begin = self.position
            code = self.take(1)
            if code == b".":
                break
            instruction = _INSTRUCTIONS.get(code)
            if instruction is None:
                raise self.fail(f"the instruction {code!r} is not among those of optimizer states")
            instruction(self)
        value = self.pop()
        if self.stack:
            raise self.fail(f"the file ends with {len(self.stack)} unused values")
        if self.position != len(self.data):
            raise self.fail(f"{len(self.data) - self.position} bytes follow the end")
        return value

    # -- bytes

    def fail(self, problem: str) -> MXNetError:
        """Return the error that states a problem and the place of the instruction."""
        return MXNetError(f"{problem}, at byte {self.begin}")

    def take(self, size: int) -> bytes:
        """Return the next bytes."""
        end = self.position + size
        if end > len(self.data):
            raise self.fail(f"{size} bytes are needed, but only {len(self.data) - self.position} are left")
        found = self.data[self.position : end]
        self.position = end
        return found

    def line(self) -> bytes:
        """Return the bytes up to the next end of a line."""
        end = self.data.find(b"\n", self.position)
        if end < 0:
            raise self.fail("the line has no end")
        found = self.data[self.position : end]
        self.position = end + 1
        return found

    def number(self, layout: str) -> Any:
        """Return a number of a :mod:`struct` type code."""
        return struct.unpack(layout, self.take(struct.calcsize(layout)))[0]

    def text(self, data: bytes, encoding: str = "utf-8") -> str:
        """Return bytes as text."""
        try:
            return data.decode(encoding, "surrogatepass" if encoding == "utf-8" else "strict")
        except UnicodeError as error:
            raise self.fail(f"a text is not {encoding} ({error})") from None

    # -- the stack

    def push(self, value: Any) -> None:
        """Put a value on the stack."""
        self.stack.append(value)

    def pop(self) -> Any:
        """Take the last value from the stack."""
        if not self.stack or self.stack[-1] is _MARK:
            raise self.fail("a value is missing")
        return self.stack.pop()

    def top(self, kind: type[Any] | tuple[type[Any], ...], what: str) -> Any:
        """Return the last value of the stack, which must be of some type."""
        if not self.stack or not isinstance(self.stack[-1], kind):
            raise self.fail(f"{what} is missing")
        return self.stack[-1]

    def row(self) -> list[Any]:
        """Take all values above the last mark from the stack."""
        for place in range(len(self.stack) - 1, -1, -1):
            if self.stack[place] is _MARK:
                found = self.stack[place + 1 :]
                del self.stack[place:]
                return found
        raise self.fail("the beginning of a row of values is missing")

    def several(self, count: int) -> list[Any]:
        """Take some values from the stack, in the order in which they were put there."""
        found = [self.pop() for _ in range(count)]
        found.reverse()
        return found

    # -- values

    def integer_text(self, line: bytes) -> int:
        """Return an integer that is written in decimal digits."""
        digits = line.removesuffix(b"L")
        if len(digits) > _LONGEST_INTEGER or not digits.removeprefix(b"-").isdigit():
            raise self.fail(f"{line[:30]!r} is not an integer of at most 64 bits")
        return int(digits)

    def integer_bytes(self) -> int:
        """Return an integer that is stored in a few bytes."""
        size = self.number("<B")
        if size > _INTEGER_BYTES:
            raise self.fail(f"an integer of {size} bytes is too large")
        return int.from_bytes(self.take(size), "little", signed=True)

    def float_text(self) -> float:
        """Return a floating-point number that is written in decimal digits."""
        line = self.line()
        try:
            return float(line)
        except ValueError:
            raise self.fail(f"{line[:30]!r} is not a number") from None

    def integer_line(self) -> int | bool:
        """Return an integer or a boolean of protocol 0."""
        line = self.line()
        return line == b"01" if line in (b"00", b"01") else self.integer_text(line)

    def escaped_line(self) -> str:
        """Return a text of protocol 0, which Python 2 wrote between quotes."""
        line = self.line().strip()
        if len(line) < 2 or line[:1] != line[-1:] or line[:1] not in (b"'", b'"'):
            raise self.fail("a text is not between quotes")
        try:
            found: bytes = codecs.escape_decode(line[1:-1])[0]
        except ValueError as error:
            raise self.fail(f"a text is damaged ({error})") from None
        return self.text(found, "ascii")

    # -- instructions

    def read_protocol(self) -> None:
        """Check the protocol."""
        protocol = self.number("<B")
        if protocol > _LATEST_PROTOCOL:
            raise self.fail(f"protocol {protocol} is unknown; protocols 0 to {_LATEST_PROTOCOL} can be read")

    def read_frame(self) -> None:
        """Check the length of a frame."""
        size = self.number("<Q")
        if size > len(self.data) - self.position:
            raise self.fail(f"a frame needs {size} bytes, but only {len(self.data) - self.position} are left")

    def put(self, place: int) -> None:
        """Remember the last value of the stack under a number."""
        if not self.stack or self.stack[-1] is _MARK:
            raise self.fail("there is no value to remember")
        self.memo[place] = self.stack[-1]

    def get(self, place: int) -> None:
        """Put a remembered value on the stack."""
        if place not in self.memo:
            raise self.fail(f"the value number {place} does not exist")
        self.push(self.memo[place])

    def append(self, values: list[Any]) -> None:
        """Append values to the list that is the last value of the stack."""
        self.top(list, "a list").extend(values)

    def add(self, values: list[Any]) -> None:
        """Add values to the set that is the last value of the stack."""
        self.top(set, "a set").update(self.elements(values))

    def elements(self, values: list[Any]) -> list[Any]:
        """Return values that may be elements of sets."""
        for value in values:
            if not isinstance(value, (int, float, str)):
                raise self.fail(f"an element of a set is a {type(value).__name__}, not a number or a text")
        return values

    def store(self, values: list[Any]) -> None:
        """Store pairs of keys and values in the dictionary that is the last value of the stack."""
        target = self.top((dict, Record), "a dictionary")
        if isinstance(target, Record):
            if target.items is None:
                target.items = {}
            target = target.items
        target.update(self.pairs(values))

    def pairs(self, values: list[Any]) -> dict[Any, Any]:
        """Return a dictionary of keys and values in turn."""
        if len(values) % 2:
            raise self.fail("a key has no value")
        for key in values[::2]:
            # other keys can be nested, and their hashes cost exponential time
            if not isinstance(key, (int, str)):
                raise self.fail(f"a key is a {type(key).__name__}, not an integer or a text")
        return dict(zip(values[::2], values[1::2]))

    def refer(self, module: Any, name: Any) -> None:
        """Put a reference to a class or function on the stack."""
        if not isinstance(module, str) or not isinstance(name, str):
            raise self.fail("the name of a class is not a text")
        self.push(Reference(module, name))

    def call(self) -> None:
        """Put the record of a call on the stack."""
        function, arguments = self.several(2)
        if not isinstance(function, Reference) or not isinstance(arguments, tuple):
            raise self.fail("something is called that is not a class")
        if function.name == "_reconstructor" and function.module in ("copyreg", "copy_reg"):
            # protocols 0 and 1: copyreg._reconstructor(class, object, None) makes an instance without a state
            if len(arguments) != 3 or not isinstance(arguments[0], Reference) or arguments[2] is not None:
                raise self.fail("an object is not made of a class alone")
            function, arguments = arguments[0], ()
        self.push(Record(function, arguments))

    def build(self) -> None:
        """Give the record under the last value of the stack that value as its state."""
        state = self.pop()
        record = self.top(Record, "an object")
        if record.state is not None:
            raise self.fail("an object has two states")
        record.state = state


def _push(read: Callable[[_Machine], Any]) -> Callable[[_Machine], None]:
    """Return the instruction that puts a value on the stack."""
    return lambda machine: machine.push(read(machine))


def _sized(layout: str, encoding: str | None = None) -> Callable[[_Machine], None]:
    """Return the instruction that puts bytes or a text on the stack, whose length precedes them."""
    if encoding is None:
        return _push(lambda machine: machine.take(machine.number(layout)))
    return _push(lambda machine: machine.text(machine.take(machine.number(layout)), encoding))


def _line_number(machine: _Machine) -> int:
    return machine.integer_text(machine.line())


_INSTRUCTIONS: dict[bytes, Callable[[_Machine], Any]] = {
    b"\x80": _Machine.read_protocol,
    b"\x95": _Machine.read_frame,
    # values
    b"N": _push(lambda machine: None),
    b"\x88": _push(lambda machine: True),
    b"\x89": _push(lambda machine: False),
    b"J": _push(lambda machine: machine.number("<i")),
    b"K": _push(lambda machine: machine.number("<B")),
    b"M": _push(lambda machine: machine.number("<H")),
    b"\x8a": _push(_Machine.integer_bytes),
    b"I": _push(_Machine.integer_line),
    b"L": _push(_line_number),
    b"G": _push(lambda machine: machine.number(">d")),
    b"F": _push(_Machine.float_text),
    b"\x8c": _sized("<B", "utf-8"),
    b"X": _sized("<I", "utf-8"),
    b"\x8d": _sized("<Q", "utf-8"),
    b"U": _sized("<B", "ascii"),
    b"T": _sized("<I", "ascii"),
    b"V": _push(lambda machine: machine.text(machine.line(), "raw-unicode-escape")),
    b"S": _push(_Machine.escaped_line),
    b"C": _sized("<B"),
    b"B": _sized("<I"),
    b"\x8e": _sized("<Q"),
    b"\x96": _sized("<Q"),
    # containers
    b"(": _push(lambda machine: _MARK),
    b")": _push(lambda machine: ()),
    b"\x85": _push(lambda machine: tuple(machine.several(1))),
    b"\x86": _push(lambda machine: tuple(machine.several(2))),
    b"\x87": _push(lambda machine: tuple(machine.several(3))),
    b"t": _push(lambda machine: tuple(machine.row())),
    b"]": _push(lambda machine: []),
    b"l": _push(_Machine.row),
    b"a": lambda machine: machine.append(machine.several(1)),
    b"e": lambda machine: machine.append(machine.row()),
    b"}": _push(lambda machine: {}),
    b"d": _push(lambda machine: machine.pairs(machine.row())),
    b"s": lambda machine: machine.store(machine.several(2)),
    b"u": lambda machine: machine.store(machine.row()),
    b"\x8f": _push(lambda machine: set()),
    b"\x90": lambda machine: machine.add(machine.row()),
    b"\x91": _push(lambda machine: frozenset(machine.elements(machine.row()))),
    b"0": _Machine.pop,
    b"1": _Machine.row,
    # remembered values
    b"p": lambda machine: machine.put(_line_number(machine)),
    b"q": lambda machine: machine.put(machine.number("<B")),
    b"r": lambda machine: machine.put(machine.number("<I")),
    b"\x94": lambda machine: machine.put(len(machine.memo)),
    b"g": lambda machine: machine.get(_line_number(machine)),
    b"h": lambda machine: machine.get(machine.number("<B")),
    b"j": lambda machine: machine.get(machine.number("<I")),
    # classes and objects
    b"c": lambda machine: machine.refer(machine.text(machine.line()), machine.text(machine.line())),
    b"\x93": lambda machine: machine.refer(*machine.several(2)),
    b"R": _Machine.call,
    b"\x81": _Machine.call,
    b"b": _Machine.build,
}
