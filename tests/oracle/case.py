"""The vocabulary of the oracle: input specifications, cases and families of cases.

A case is plain data. Its input arrays are drawn from NumPy's frozen legacy generator, seeded by the
case's name, and are made with additions and multiplications only, so that every NumPy version and
every platform makes the same bits.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
FLOATS = ("float16", "float32", "float64")
SHORT_DTYPES = {
    "float16": "f16",
    "float32": "f32",
    "float64": "f64",
    "uint8": "u8",
    "int8": "i8",
    "int32": "i32",
    "int64": "i64",
    "bool": "b",
}


def seeded(text: str) -> np.random.RandomState:
    """Return the legacy generator that belongs to a text."""
    return np.random.RandomState(zlib.crc32(text.encode()))


def bell(generator: np.random.RandomState, shape: tuple[int, ...]) -> Array:
    """Return near-normal float64 values: twelve uniform draws, summed and centred.

    The usual normal generators call ``log`` and ``cos``, whose last bit depends on the C library.
    """
    total = generator.random_sample(shape)
    for _ in range(11):
        total = total + generator.random_sample(shape)
    return np.asarray(total - 6.0)


@dataclass(frozen=True)
class Spec:
    """One input array, described by its distribution, shape and dtype."""

    kind: str
    shape: tuple[int, ...]
    dtype: str = "float32"
    low: float = 0.0
    high: float = 1.0
    values: Any = None

    @property
    def label(self) -> str:
        """Return the shape and dtype as they stand in case names, such as ``2x3f32``."""
        return "x".join(map(str, self.shape)) + SHORT_DTYPES[self.dtype]

    def make(self, generator: np.random.RandomState) -> Array:
        """Return the array this specification stands for."""
        return np.ascontiguousarray(self._draw(generator)).astype(self.dtype).reshape(self.shape)

    def _draw(self, generator: np.random.RandomState) -> Array:
        if self.kind == "values":
            return np.array(self.values)
        if self.kind == "normal":
            return self.low + self.high * bell(generator, self.shape)
        if self.kind == "uniform":
            return self.low + (self.high - self.low) * generator.random_sample(self.shape)
        if self.kind == "integers":
            return generator.randint(int(self.low), int(self.high), self.shape)
        if self.kind == "distinct":
            count = int(np.prod(self.shape))
            return generator.permutation(count) * self.high + self.low
        if self.kind == "range":
            return self.low + self.high * np.arange(int(np.prod(self.shape)))
        size = self.shape[-1]
        square = bell(generator, self.shape)
        if self.kind == "positive_definite":
            product = np.zeros(self.shape)
            for k in range(size):
                product = product + square[..., :, k, None] * square[..., None, :, k]
            return product * 0.5 + np.eye(size) * self.high
        if self.kind == "triangular":
            diagonal = np.eye(size) * (np.abs(square) + self.high)
            return np.tril(square, -1) * 0.5 + diagonal
        if self.kind == "well_conditioned":
            return square * 0.4 + np.eye(size) * self.high
        raise ValueError(f"no way to make an input of kind {self.kind!r}")


def normal(*shape: int, dtype: str = "float32", loc: float = 0.0, scale: float = 1.0) -> Spec:
    """Return a specification of bell-shaped values around ``loc``."""
    return Spec("normal", shape, dtype, loc, scale)


def uniform(*shape: int, dtype: str = "float32", low: float = 0.0, high: float = 1.0) -> Spec:
    """Return a specification of values spread evenly over ``[low, high)``."""
    return Spec("uniform", shape, dtype, low, high)


def integers(*shape: int, dtype: str = "float32", low: int = 0, high: int = 10) -> Spec:
    """Return a specification of whole numbers in ``[low, high)``, repetitions likely."""
    return Spec("integers", shape, dtype, low, high)


def distinct(*shape: int, dtype: str = "float32", low: float = -2.0, step: float = 0.25) -> Spec:
    """Return a specification of shuffled, equally spaced values: no two are equal."""
    return Spec("distinct", shape, dtype, low, step)


def counting(*shape: int, dtype: str = "float32", start: float = 0.0, step: float = 1.0) -> Spec:
    """Return a specification of ``start, start + step, ...`` in C order."""
    return Spec("range", shape, dtype, start, step)


def values(content: Any, dtype: str = "float32") -> Spec:
    """Return a specification of exactly these values."""
    return Spec("values", np.shape(content), dtype, values=content)


def positive_definite(*shape: int, dtype: str = "float32") -> Spec:
    """Return a specification of symmetric positive definite matrices."""
    return Spec("positive_definite", shape, dtype)


def triangular(*shape: int, dtype: str = "float32") -> Spec:
    """Return a specification of lower triangular matrices with a diagonal above one."""
    return Spec("triangular", shape, dtype)


def well_conditioned(*shape: int, dtype: str = "float32") -> Spec:
    """Return a specification of general square matrices far from singular."""
    return Spec("well_conditioned", shape, dtype, 0.0, 2.0)


@dataclass(frozen=True)
class Case:
    """One computation whose outcome is recorded.

    Exactly one of ``call``, ``expression`` and ``statement`` is given. ``call`` is a dotted path under
    the module (``nd.softmax``) or ``method:`` and the name of a method of the first input. Code sees
    the inputs as ``x, y, z, w`` and ``inputs``, and ``mx``, ``nd``, ``np``, ``Path`` and ``path`` (a file name
    free to use); a statement may leave its answer in ``result``. ``head_outputs`` are the outputs that get a
    head gradient (all by default), ``grad`` the inputs that are differentiated (all floats by default).
    """

    name: str
    family: str
    inputs: tuple[Spec, ...] = ()
    call: str = ""
    expression: str = ""
    statement: str = ""
    arguments: tuple[Any, ...] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)
    grad: bool | tuple[int, ...] = True
    train: bool = False
    head_outputs: tuple[int, ...] | None = None
    tolerance: str = "elementwise"

    @property
    def identifier(self) -> str:
        """Return the name by which tests and waivers know the case."""
        return f"{self.family}/{self.name}"

    def make_inputs(self) -> list[Array]:
        """Return the input arrays, the same at every call."""
        return [spec.make(seeded(f"{self.name}/input{i}")) for i, spec in enumerate(self.inputs)]

    def make_head_gradient(self, position: int, shape: Sequence[int], dtype: Any) -> Array:
        """Return the head gradient of one output."""
        generator = seeded(f"{self.name}/head{position}")
        return bell(generator, tuple(shape)).astype(dtype)

    @property
    def differentiated(self) -> tuple[int, ...]:
        """Return the positions of the inputs whose gradients are recorded."""
        if self.grad is False:
            return ()
        if self.grad is True:
            return tuple(i for i, spec in enumerate(self.inputs) if spec.dtype in FLOATS)
        return self.grad

    @property
    def coarsest(self) -> str:
        """Return the lowest precision among the inputs."""
        found = {spec.dtype for spec in self.inputs}
        return next((dtype for dtype in FLOATS if dtype in found), "float64")

    @property
    def digest(self) -> int:
        """Return a checksum of all that the recorded outcome depends on."""
        what = (self.call, self.expression, self.statement, self.arguments)
        how = (self.differentiated, self.train, self.head_outputs)
        text = repr((*what, sorted(self.parameters.items()), *how))
        checksum = zlib.crc32(text.encode())
        for array in self.make_inputs():
            checksum = zlib.crc32(array.tobytes(), zlib.crc32(repr(array.shape).encode(), checksum))
        return checksum


class Family:
    """The cases of one subject, in the order in which they were declared."""

    def __init__(self, name: str, tolerance: str = "elementwise", train: bool = False) -> None:
        self.name = name
        self.tolerance = tolerance
        self.train = train
        self._cases: dict[str, Case] = {}

    def __iter__(self) -> Iterator[Case]:
        return iter(self._cases.values())

    def __len__(self) -> int:
        return len(self._cases)

    def call(
        self,
        call: str,
        *inputs: Spec,
        tag: str = "",
        arguments: tuple[Any, ...] = (),
        grad: bool | tuple[int, ...] = True,
        train: bool | None = None,
        head_outputs: tuple[int, ...] | None = None,
        tolerance: str = "",
        **parameters: Any,
    ) -> None:
        """Declare a case that calls an operator or a method with the inputs and parameters."""
        train = self.train if train is None else train
        words = [call.removeprefix("nd.").replace("method:", "."), *(s.label for s in inputs)]
        words += [str(a).replace(" ", "") for a in arguments]
        words += [f"{k}={v}".replace(" ", "") for k, v in parameters.items()]
        words += ["train"] * train + [tag] * bool(tag)
        self._add(
            Case(
                name="-".join(words),
                family=self.name,
                inputs=inputs,
                call=call,
                arguments=arguments,
                parameters=parameters,
                grad=grad,
                train=train,
                head_outputs=head_outputs,
                tolerance=tolerance or self.tolerance,
            )
        )

    def expression(
        self,
        code: str,
        *inputs: Spec,
        tag: str = "",
        grad: bool | tuple[int, ...] = True,
        train: bool | None = None,
        tolerance: str = "",
    ) -> None:
        """Declare a case that evaluates an expression of the inputs."""
        train = self.train if train is None else train
        words = [code, *(s.label for s in inputs), *["train"] * train, *[tag] * bool(tag)]
        self._add(
            Case(
                name="-".join(words),
                family=self.name,
                inputs=inputs,
                expression=code,
                grad=grad,
                train=train,
                tolerance=tolerance or self.tolerance,
            )
        )

    def statement(self, code: str, *inputs: Spec, name: str = "", tag: str = "", tolerance: str = "") -> None:
        """Declare a case that executes statements, seen by what they do to the inputs."""
        words = [name or "; ".join(code.split("\n")), *(s.label for s in inputs), *[tag] * bool(tag)]
        self._add(
            Case(
                name="-".join(words),
                family=self.name,
                inputs=inputs,
                statement=code,
                grad=False,
                tolerance=tolerance or self.tolerance,
            )
        )

    def _add(self, case: Case) -> None:
        if case.name in self._cases:
            raise ValueError(f"two cases of {self.name} are called {case.name}: give one a tag")
        self._cases[case.name] = case
