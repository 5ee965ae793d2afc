"""The kinds of statements that a :class:`~.statements.Writer` draws, and how often.

A kind is a function of the writer that adds a statement or raises :class:`~.statements.RefusedError`. A new kind is one
more line in :data:`KINDS`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as onp

from phonograd.core.graph.operator import NAMES as ELSEWHERE

from ..core.ops.test_registry import ELEMENTWISE
from . import tables
from .statements import BY_NAME, RefusedError, Statement, Variable, Writer
from .ways import is_recorded


def write(writer: Writer, length: int) -> None:
    """Append about so many statements to a program."""
    kinds = {kind: weight for kind, weight in KINDS.items() if writer.style != "symbolic" or kind in SYMBOLIC}
    for _ in range(length * 8):
        if len(writer.statements) >= length:
            break
        (kind,) = writer.choose.choices(list(kinds), list(kinds.values()))
        count, arguments = len(writer.statements), len(writer.arguments)
        try:
            writer.scope = _draw_scope(writer)
            kind(writer)
        except RefusedError:
            if len(writer.statements) == count:
                # arguments that were made for it are of no use
                writer.drop_arguments(arguments)


def _draw_scope(writer: Writer) -> tuple[str, ...]:
    if writer.style == "symbolic" or writer.chance(0.9):
        return ()
    return (writer.one_of(["autograd.pause()", "autograd.train_mode()", "autograd.predict_mode()"]),)


def elementwise(writer: Writer) -> None:
    """Call a function of one array, of any shape and dtype."""
    source, name = writer.pick(), writer.new_name()
    if source.module == "np":
        word = writer.one_of(ELSEWHERE["numpy"])
        text, model = f"np.{word}({source.name})", f"like({name!r}, onp.{word}({source.name}))"
        operator = ELSEWHERE["numpy"][word].name
    else:
        # operators behind others take what these pass to them: floating-point numbers
        operator = writer.one_of([name for name in ELEMENTWISE if source.is_floating or not name.startswith("_")])
        space = "F._internal" if operator.startswith("_") else "F"
        text, model = f"{space}.{operator}({source.name})", f"call({operator!r}, [{source.name}], {{}})"
    samples = BY_NAME.get(operator, [])
    writer.add(
        Statement(
            f"{name} = {text}",
            (name,),
            (source.name,),
            model=f"{name} = {model}",
            operator=operator,
            symbolic=source.module == "nd",
            smooth=bool(samples) and all([sample.order > 0 for sample in samples]),
        )
    )


def arithmetic(writer: Writer) -> None:
    """Combine two arrays, or an array and a number, by an operator of Python."""
    left, name = writer.pick(), writer.new_name()
    sign, operator, smooth = writer.one_of(tables.SIGNS)
    if writer.chance(0.35):
        number = writer.one_of(tables.NUMBERS)
        words = [left.name, number] if writer.chance(0.7) else [number, left.name]
        text = f" {sign} ".join(words)
        model = f"{name} = like({name!r}, {text})"
        if left.module == "nd" or sign == "%" or not left.is_floating:
            # a number beside an array has its dtype
            scalar = f"onp.array({number}).astype({left.dtype.name!r})"
            model = (
                f"{name} = call({operator!r}, [{', '.join([w if w == left.name else scalar for w in words])}], {{}})"
            )
            model = model if left.is_floating else ""
        reads: tuple[str, ...] = (left.name,)
        symbolic = left.module == "nd"
    else:
        right = writer.pick(lambda v: _broadcasts(v, left) and v.dtype == left.dtype, left.module)
        text, reads = f"{left.name} {sign} {right.name}", (left.name, right.name)
        model = f"{name} = call({operator!r}, [{left.name}, {right.name}], {{}})"
        if left.module == "np":
            # the remainder of a division by zero is zero, other than in NumPy
            model = f"{name} = like({name!r}, {text})" if sign != "%" else model if left.is_floating else ""
        # symbols add arrays of equal shapes only
        symbolic = left.module == "nd" and left.shape == right.shape
    writer.add(
        Statement(f"{name} = {text}", (name,), reads, model=model, operator=operator, symbolic=symbolic, smooth=smooth)
    )


def _broadcasts(one: Variable, other: Variable) -> bool:
    try:
        return bool(onp.broadcast_shapes(one.shape, other.shape) is not None)
    except ValueError:
        return False


def get_part(writer: Writer) -> None:
    """Take a part of an array by a key of any kind."""
    source, name = writer.pick(), writer.new_name()
    key, kind = tables.key_of(writer.choose, source.shape, source.module)
    # a contiguous region is a view, everything else is a copy
    is_basic = kind == "basic"
    writer.add(
        Statement(
            f"{name} = {source.name}[{key}]",
            (name,),
            (source.name,),
            model=f"{name} = part({source.name}, onp.s_[{key}])",
            operator=f"x[{kind}]",
            smooth=True,
            views=(name,) if is_basic else (),
        )
    )


def set_part(writer: Writer) -> None:
    """Write into a part of an array: a number, an array, or an array of NumPy."""
    target = writer.pick(lambda v: writer.may_change(v))
    key, kind = tables.key_of(writer.choose, target.shape, target.module)
    if kind == "advanced" and writer.chance(0.5):
        key, kind = ":" if target.shape else "()", "basic"
    shape = onp.empty(target.shape)[eval(f"onp.s_[{key}]", {"onp": onp})].shape if kind != "mask" else ()
    text, reads = writer.one_of(tables.NUMBERS), [target.name]
    if writer.chance(0.6):
        try:
            fits = lambda v: v.dtype == target.dtype and _spreads(v.shape, shape)  # noqa: E731
            source = writer.pick(fits, target.module)
            text, reads = source.name, [target.name, source.name]
        except RefusedError:
            if writer.chance(0.3):
                text = f"onp.full({shape}, {text}, {target.dtype.name!r})"
    writer.add(
        Statement(
            f"{target.name}[{key}] = {text}",
            (),
            tuple(reads),
            (target.name,),
            model=f"put({target.name}, onp.s_[{key}], {text})",
            operator=f"x[{kind}] = y",
            smooth=True,
        )
    )


def _spreads(shape: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    try:
        return onp.broadcast_shapes(shape, wanted) == wanted
    except ValueError:
        return False


def in_place(writer: Writer) -> None:
    """Change an array by an operator of Python."""
    target = writer.pick(lambda v: v.is_floating and writer.may_change(v))
    sign = writer.one_of(["+=", "-=", "*="])
    text, reads = writer.one_of(["0.5", "2", "-1.25"]), (target.name,)
    if writer.chance(0.6):
        source = writer.pick(lambda v: v.dtype == target.dtype and _spreads(v.shape, target.shape), target.module)
        text, reads = source.name, (target.name, source.name)
    writer.add(
        Statement(
            f"{target.name} {sign} {text}",
            (),
            reads,
            (target.name,),
            model=f"{target.name} {sign} {text}",
            operator=f"x {sign} y",
            smooth=True,
        )
    )


def method(writer: Writer) -> None:
    """Call a method: of shapes, dtypes, copies, conversions between nd and np."""
    source, name = writer.pick(), writer.new_name()
    text, model, view = tables.method_of(writer.choose, source, name)
    writer.add(
        Statement(
            f"{name} = {text}",
            (name,),
            (source.name,),
            model=f"{name} = {model}",
            operator=f"x.{text.partition('.')[2].partition('(')[0]}",
            smooth="astype" not in text,
            views=(name,) if view else (),
        )
    )


def cut_off(writer: Writer) -> None:
    """Detach an array from the record."""
    source, name = writer.pick(), writer.new_name()
    writer.add(
        Statement(
            f"{name} = detached({source.name})",
            (name,),
            (source.name,),
            model=f"{name} = {source.name}",
            operator="x.detach",
            smooth=True,
            views=(name,),
        )
    )


def numpy_function(writer: Writer) -> None:
    """Call a function of mx.np that is NumPy's."""
    source, name = writer.pick(module="np"), writer.new_name()
    other = writer.pick(lambda v: _broadcasts(v, source), "np")
    template, smooth = writer.one_of(tables.NUMPY)
    values = {"x": source.name, "y": other.name, "axis": writer.choose.randrange(max(len(source.shape), 1))}
    text = template.format(**values)
    reads = (source.name, other.name) if "{y}" in template else (source.name,)
    writer.add(
        Statement(
            f"{name} = np.{text}",
            (name,),
            reads,
            model=f"{name} = like({name!r}, onp.{text})",
            operator=f"np.{text.partition('(')[0]}",
            smooth=smooth,
        )
    )


def create(writer: Writer) -> None:
    """Make an array of no others."""
    name, module = writer.new_name(), writer.module()
    text = writer.one_of(tables.CREATIONS).format(module="F" if module == "nd" else "np", dtype=writer.dtype.name)
    if module == "nd" and ("()" in text or "(0" in text or "linspace" in text):
        raise RefusedError("nd arrays have elements")
    writer.add(
        Statement(
            f"{name} = {text}",
            (name,),
            (),
            operator=f"{module}.{text.partition('.')[2].partition('(')[0]}",
            smooth=True,
        )
    )


def layer(writer: Writer) -> None:
    """Call a layer or a loss of Gluon."""
    text, shapes, smooth = writer.one_of(tables.LAYERS)
    module = "nd"
    number = len(writer.layers)
    words = []
    for shape in shapes:
        kind = writer.numbers.integers(0, 3, shape).astype("float32") if shape in tables.LABELS else None
        value = writer.numbers.normal(size=shape).astype(writer.dtype) if kind is None else kind
        words.append(writer.operand(value, module, free=kind is None).name)
    made = tables.make_layer(text, number, writer.dtype.name)
    writer.env["layers"].append(made)
    name = writer.new_name()
    try:
        writer.add(
            Statement(
                f"{name} = layers[{number}]({', '.join(words)})",
                (name,),
                tuple(words),
                operator=text.partition("(")[0],
                symbolic=True,
                smooth=smooth,
                random="Dropout" in text,
                has_effects=True,
            )
        )
    except RefusedError:
        writer.env["layers"].pop()
        raise
    writer.layers.append(text)


def drop(writer: Writer) -> None:
    """Let an array go."""
    names = [name for name in writer.variables if name.startswith("v")]
    if not names:
        raise RefusedError("there are arguments only")
    name = writer.one_of(names)
    del writer.variables[name]
    writer.statements.append(Statement(f"del {name}", reads=(name,), model=f"del {name}", smooth=True, symbolic=True))
    del writer.env[name]


def inner_gradient(writer: Writer) -> None:
    """Differentiate inside of the program, an array that it makes."""
    if writer.is_inside or not writer.can_differentiate:
        raise RefusedError("it is recorded already")
    source, name = writer.pick(lambda v: v.is_floating and v.size > 0), writer.new_name()
    req = writer.one_of(["write", "add"])
    writer.scope = ()
    writer.add(
        Statement(f"{name} = {source.name}.copy()", (name,), (source.name,), model=f"{name} = {source.name}.copy()")
    )
    writer.add(Statement(f"{name}.attach_grad(grad_req={req!r})", (), (name,), operator="attach_grad", model="pass"))
    before = set(writer.variables) - {name}
    writer.is_inside = True
    try:
        others = {key: writer.variables.pop(key) for key in list(before) if writer.chance(0.6)}
        _write_inside(writer)
        writer.variables.update(others)
    finally:
        writer.is_inside = False
        writer.scope = ()
    made = [v for key, v in writer.variables.items() if key not in before and v.is_floating and key != name]
    made = [v for v in made if is_recorded(writer.env[v.name])]
    if not made:
        return
    head, result = made[-1].name, writer.new_name()
    if writer.chance(0.5):
        writer.add(Statement(f"{head}.backward()", (), (head, name), operator="backward", model="pass"))
        writer.add(Statement(f"{result} = {name}.grad.copy()", (result,), (name, head), operator="x.grad"))
    else:
        graph = writer.one_of([True, False])
        writer.scope = ("autograd.record()",)
        writer.add(
            Statement(
                f"{result}, = autograd.grad({head}, [{name}], create_graph={graph})",
                (result,),
                (head, name),
                operator="autograd.grad",
            )
        )
        writer.scope = ()


def _write_inside(writer: Writer) -> None:
    """Write a few statements that are recorded."""
    for _ in range(writer.choose.randrange(1, 4)):
        kind = writer.one_of([arithmetic, elementwise, get_part, in_place, method, Writer.operator])
        writer.scope = ("autograd.record()",)
        try:
            kind(writer)
        except RefusedError:
            continue


#: how often each kind of statement is drawn
KINDS: dict[Callable[[Writer], None], int] = {
    Writer.operator: 40,
    elementwise: 8,
    arithmetic: 14,
    get_part: 12,
    set_part: 8,
    in_place: 7,
    method: 7,
    cut_off: 1,
    numpy_function: 14,
    create: 3,
    layer: 4,
    drop: 3,
    inner_gradient: 2,
}
#: those that symbols have
SYMBOLIC = (Writer.operator, elementwise, arithmetic, layer)
