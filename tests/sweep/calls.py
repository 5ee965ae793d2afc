"""The calls of the sweep: every parameter of every operator with values of every type.

A base is a call of an operator that works, taken from the oracle's cases or from :mod:`.bases`. Each call of the sweep
is a base with one argument changed. Arguments are texts that :func:`value_of` evaluates, so that the recording is plain
data. Nothing here imports a library under test: real MXNet and this library run the same code.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..oracle.case import Case, seeded
from ..oracle.cases import families
from .bases import BASES, RANDOM

#: values of every type that users pass
VALUES = """
0|1|2|-1|-7|2.0|1.5|True|False|None|'0'|'1'|' 2 '|'1.5'|'2.0'|'-1'|'True'|'true'|'None'|''|'bogus'|'1e-2'
np.int64(1)|np.int32(-1)|np.float32(0.5)|np.float64(2)|np.bool_(True)|np.array(1)|np.array([1])|np.array([1, 1])
np.array([0.5, 1.0])|[1]|(1,)|()|[]|(1, 1)|[1, 1]|(2, 2)|(0, 0)|(1, 0)|(1, 1, 1)|(0, 1, 2, 3)|(1.0, 2.0)|(0.5,)|(-1, 1)
(None, 1)|'(1, 1)'|'[1, 1]'|'(1,1'|'(1,)'|'1,1'|'()'|'(2L, 2L)'|(np.int64(1), np.int32(1))|{}|'float32'|'float16'
np.float16|np.dtype('int32')|'int64'|float|int|bool|((1, 1), (1, 1))
"""

#: keywords that are no parameters
KEYWORDS = """
unknown=1|axis=1|dtype='int32'|name='named'|attr={}|lr_mult=2.0|wd_mult=0|ctx_group='a'|force_mirroring=True
mirror_stage=1|__key__='value'|__other=1
"""

#: changes of the arrays of a call
INPUTS = """
drop last|none last|one more|number last|list last|numpy last|trailing axis last|leading axis last|float64 last
int32 last|by name|float16 all|float64 all
"""


def _split(text: str) -> list[str]:
    return [item for line in text.strip().splitlines() for item in line.split("|")]


def value_of(text: str) -> Any:
    """Return the value of a text of the sweep."""
    return eval(text, {"np": np})


@dataclass(frozen=True)
class Change:
    """One change of a base: a parameter, a keyword or the arrays."""

    kind: str
    name: str
    text: str

    @property
    def key(self) -> str:
        """Return the change as one line."""
        return f"{self.kind}:{self.name}={self.text}" if self.name else f"{self.kind}:{self.text}"


def forms(value: Any) -> list[str]:
    """Return other ways to write a value of a parameter, right and wrong ones.

    >>> forms(3)
    ['np.int64(3)', '3.0', "'3'", 'np.array(3)', '[3]', '(3,)', 'np.float32(3)']
    """
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return [repr(value), repr(str(value)), repr(str(value).lower())]
    if isinstance(value, int):
        texts = "np.int64({0})|{0}.0|'{0}'|np.array({0})|[{0}]|({0},)|np.float32({0})"
        return [text.format(value) for text in texts.split("|")]
    if isinstance(value, float):
        return [text.format(value) for text in ["np.float32({0})", "'{0}'", "np.array({0})", "({0},)"]]
    if isinstance(value, (list, tuple)) and value:
        items = tuple(value)
        numpy = "(" + " ".join(f"np.int64({item})," if isinstance(item, int) else f"{item}," for item in items) + ")"
        more = [
            (*items, 0),
            (*items, items[-1]),
            items[:-1],
            tuple(float(i) if isinstance(i, int) else i for i in items),
        ]
        longs = "(" + ", ".join(f"{item}L" for item in items) + ")"
        return [repr(list(items)), f"np.array({list(items)})", repr(str(items)), repr(str(list(items))), numpy] + [
            repr(other) for other in (*more, longs, str(items).replace(" ", ""), str(items[0]))
        ]
    return []


def changes(parameters: dict[str, str], given: dict[str, Any]) -> Iterator[Change]:
    """Return all changes of a call; ``parameters`` has MXNet's description of each parameter by name."""
    yield Change("base", "", "")
    for name, described in parameters.items():
        texts = _split(VALUES) + (forms(given[name]) if name in given else [])
        if described.startswith("{"):
            texts = texts + described[1 : described.index("}")].split(", ")
        for text in dict.fromkeys(texts):
            yield Change("parameter", name, text)
    for item in _split(KEYWORDS):
        name, _, text = item.partition("=")
        if name not in parameters:
            yield Change("keyword", name, text)
    for text in _split(INPUTS):
        yield Change("inputs", "", text)


def bases() -> dict[str, list[Case]]:
    """Return the calls to start from, by the operator's path under ``nd``."""
    found: dict[str, list[Case]] = {}
    for family in [*families().values(), BASES, RANDOM]:
        for case in family:
            if case.call.startswith("nd.") and "out" not in case.parameters:
                found.setdefault(case.call[3:], []).append(case)
    return found


def find(module: Any, path: str) -> Any:
    """Return the function at a dotted path."""
    for part in path.split("."):
        module = getattr(module, part)
    return module


def _arguments(
    case: Case, change: Change, names: list[str], wrap: Any, number: Any
) -> tuple[list[Any], dict[str, Any]]:
    """Return the positional arguments and the keywords of a changed call."""
    arrays = case.make_inputs()
    what = change.text if change.kind == "inputs" else ""
    if what.endswith(" all"):
        arrays = [a.astype(what.split()[0]) if a.dtype.kind == "f" else a for a in arrays]
    elif what == "drop last":
        arrays = arrays[:-1]
    elif what == "one more":
        arrays = [*arrays, np.ones((2,), "float32")]
    elif arrays and what == "trailing axis last":
        arrays[-1] = arrays[-1][..., None]
    elif arrays and what == "leading axis last":
        arrays[-1] = arrays[-1][None]
    elif arrays and what.endswith(" last") and what.split()[0] in ("float64", "int32"):
        arrays[-1] = arrays[-1].astype(what.split()[0])
    given = [wrap(index, array) for index, array in enumerate(arrays)]
    if given and what in ("none last", "number last", "list last", "numpy last"):
        odd = {"none": None, "number": 1.5, "list": arrays[-1].tolist(), "numpy": arrays[-1]}
        given[-1] = odd[what.split()[0]]
    keywords = dict(case.parameters)
    if what == "by name" and len(given) <= len(names):
        keywords.update(zip(names, given))
        given = []
    if change.kind in ("parameter", "keyword"):
        keywords[change.name] = value_of(change.text)
    return [*given, *case.arguments], keywords


def number_text(value: float) -> str:
    """Return a number with four digits."""
    return format(float(value), ".4g")


def array_text(array: Any, values: bool) -> str:
    """Return an array as its dtype, shape and two weighted sums."""
    text = f"{array.dtype.name}{'x'.join(map(str, array.shape)) or '()'}"
    if not values:
        return text
    flat = np.nan_to_num(array.astype("float64").ravel(), nan=7.0, posinf=1e3, neginf=-1e3)
    weights = seeded("weights").random_sample(flat.size)
    return f"{text} {number_text(flat.sum())} {number_text((flat * weights).sum())}"


def result_text(result: Any, values: bool) -> str:
    """Return the result of a call of arrays as text."""
    if isinstance(result, (list, tuple)):
        return "[" + "; ".join(result_text(item, values) for item in result) + "]"
    if hasattr(result, "asnumpy"):
        return array_text(result.asnumpy(), values)
    return repr(result)


def array_outcome(mx: Any, path: str, case: Case, change: Change, names: list[str]) -> str:
    """Return the result of a changed call with arrays, or the type of its error."""

    def wrap(_: int, array: Any) -> Any:
        return mx.nd.array(array, dtype=array.dtype.name)

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            given, keywords = _arguments(case, change, names, wrap, None)
            with mx.autograd.pause(train_mode=case.train):
                return result_text(find(mx.nd, path)(*given, **keywords), case.family != "random")
    except Exception as error:
        return "!" + type(error).__name__


def symbol_outcome(mx: Any, path: str, case: Case, change: Change, names: list[str]) -> str:
    """Return the attributes and the inferred shapes of a changed call with symbols, or the type of its error."""
    shapes: dict[str, Any] = {}

    def wrap(index: int, array: Any) -> Any:
        shapes[f"input{index}"] = array.shape
        return mx.sym.var(f"input{index}")

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            given, keywords = _arguments(case, change, names, wrap, None)
            keywords.setdefault("name", "made")
            symbol = find(mx.sym, path)(*given, **keywords)
            found = {k: dict(sorted(v.items())) for k, v in sorted(symbol.attr_dict().items())}
            text = f"{found} {symbol.list_arguments()} {symbol.list_outputs()}"
    except Exception as error:
        return "!" + type(error).__name__
    try:
        return f"{text} {symbol.infer_shape_partial(**shapes)[1]}"
    except Exception as error:
        return f"{text} !{type(error).__name__}"


OUTCOMES = {"nd": array_outcome, "sym": symbol_outcome}
