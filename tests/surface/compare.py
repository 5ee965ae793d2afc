"""Compare the library, installed as ``mxnet``, with the recorded surface of MXNet.

``python -m tests.surface.compare`` prints all differences, with the reasons of those that are intended.
"""

import fnmatch
import functools
import importlib
import inspect
import types
from collections.abc import Iterator

from phonograd import compat
from tests.surface.exceptions import ATTRIBUTES, MODULES_ABSENT, NAMES, SIGNATURES
from tests.surface.record import instance_attributes, signature
from tests.surface.surface import CLASSES, MODULES, names_of


def reason_for(table, what):
    """Return the reason of the first pattern in a table that matches, or None."""
    for patterns, reason in table.items():
        if any(fnmatch.fnmatchcase(what, pattern) for pattern in patterns.split()):
            return reason
    return None


@functools.cache
def import_or_none(module):
    """Return a module of ``mxnet``, or None if there is none."""
    try:
        return importlib.import_module(module)
    except ImportError:
        return None


def missing_modules() -> Iterator[str]:
    """Yield the names of modules that cannot be imported."""
    return (module for module in MODULES if import_or_none(module) is None)


def has(value, name):
    """Return whether an object has an attribute."""
    try:
        getattr(value, name)
    except (AttributeError, ImportError):
        return False
    return True


def missing_names() -> Iterator[str]:
    """Yield ``module:name`` of every name that an importable module lacks."""
    for module in MODULES:
        ours = import_or_none(module)
        if ours is not None:
            yield from (f"{module}:{name}" for name in names_of(module) if not has(ours, name))


def our_class(place):
    """Return the library's class at the place of one of MXNet's, or None."""
    module, name = place.split(":")
    found = getattr(import_or_none(module), name, None) if import_or_none(module) is not None else None
    return found if inspect.isclass(found) else None


@functools.cache
def assigned(cls):
    """Return the names that methods of a class and its bases assign to ``self``."""
    return frozenset().union(*[instance_attributes(base) for base in cls.__mro__[:-1]])


#: objects of classes whose attributes are set in other ways than by assignment in a method
EXAMPLES = {
    "mxnet.symbol.symbol:Symbol": lambda mx: mx.sym.var("x"),
    "mxnet.gluon.nn.basic_layers:LayerNorm": lambda mx: mx.gluon.nn.LayerNorm(),
    "mxnet.gluon.nn.basic_layers:GroupNorm": lambda mx: mx.gluon.nn.GroupNorm(),
    "mxnet.gluon.nn.basic_layers:InstanceNorm": lambda mx: mx.gluon.nn.InstanceNorm(),
    "mxnet.gluon.nn.basic_layers:_BatchNorm": lambda mx: mx.gluon.nn.BatchNorm(),
    "mxnet.gluon.rnn.rnn_cell:RNNCell": lambda mx: mx.gluon.rnn.RNNCell(2),
    "mxnet.gluon.rnn.rnn_cell:LSTMCell": lambda mx: mx.gluon.rnn.LSTMCell(2),
    "mxnet.gluon.rnn.rnn_cell:GRUCell": lambda mx: mx.gluon.rnn.GRUCell(2),
    "mxnet.gluon.contrib.rnn.rnn_cell:LSTMPCell": lambda mx: mx.gluon.contrib.rnn.LSTMPCell(2, 2),
    "mxnet.gluon.contrib.cnn.conv_layers:DeformableConvolution": lambda mx: mx.gluon.contrib.cnn.DeformableConvolution(
        2
    ),
    "mxnet.gluon.contrib.cnn.conv_layers:ModulatedDeformableConvolution": lambda mx: (
        mx.gluon.contrib.cnn.ModulatedDeformableConvolution(2)
    ),
    "mxnet.runtime:Feature": lambda mx: mx.runtime.feature_list()[0],
}


def missing_attributes() -> Iterator[str]:
    """Yield ``module:class.attribute`` of every public attribute that a class lacks."""
    for place, described in CLASSES.items():
        cls = our_class(place)
        if cls is None:
            continue
        example = EXAMPLES[place](importlib.import_module("mxnet")) if place in EXAMPLES else cls
        for name in described["attributes"]:
            if not name.startswith("_") and not has(example, name) and name not in assigned(cls):
                yield f"{place}.{name}"


def functions() -> Iterator[tuple[str, str, object]]:
    """Yield (place, MXNet's signature, our function) of every public function, method and constructor."""
    for module in MODULES:
        # the modules with these names are where MXNet makes its functions; others offer them
        if module.rpartition(".")[2].startswith(("gen_", "_")) or module.startswith("mxnet.contrib."):
            continue
        ours = import_or_none(module)
        for name, (description, place) in names_of(module).items() if ours is not None else ():
            if not name.startswith("_") and description.startswith("(") and place == "" and has(ours, name):
                yield f"{module}:{name}", description[1:-1], getattr(ours, name)
    for place, described in CLASSES.items():
        cls = our_class(place)
        if cls is None or place.split(":")[1].startswith("_"):
            continue
        yield place, described["init"], cls
        for name, description in described["attributes"].items():
            if not name.startswith("_") and description.startswith("(") and hasattr(cls, name):
                yield (
                    f"{place}.{name}",
                    description[1:-1].removeprefix("self, ").removeprefix("cls, "),
                    getattr(cls, name),
                )


def without_kinds(text):
    """Return the parts of a signature, without ``self``."""
    parts = [part.strip() for part in split_arguments(text)]
    return [part for part in parts if part not in ("self", "cls", "")]


def split_arguments(text):
    """Return the arguments of a signature; commas inside of brackets and quotes do not count."""
    parts, depth, quote, begin = [], 0, "", 0
    for place, letter in enumerate(text):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        elif letter in "([{<":
            depth += 1
        elif letter in ")]}>":
            depth -= 1
        elif letter == "," and depth == 0:
            parts.append(text[begin:place])
            begin = place + 1
    return [*parts, text[begin:]]


def accepts(ours, theirs):
    """Return whether a signature accepts every call that MXNet's accepts, with the same defaults."""
    own, wanted = without_kinds(ours), without_kinds(theirs)
    any_keyword = any(part.startswith("**") for part in own)
    any_position = any(part.startswith("*") and not part.startswith("**") and part != "*" for part in own)
    positional, keywords, star = [], {}, False
    for part in own:
        if part == "*" or (part.startswith("*") and not part.startswith("**")):
            star = True
        elif not part.startswith("**"):
            keywords[part.partition("=")[0]] = part
            if not star:
                positional.append(part)
    star = False
    for number, part in enumerate(wanted):
        if part == "*" or part.startswith("*"):
            star = star or not part.startswith("**")
            if part.startswith("**") and not any_keyword and part in ("**kwargs",):
                continue
            continue
        name, _, default = part.partition("=")
        mine = keywords.get(name)
        if mine is None:
            if not any_keyword and not any_position:
                return False
            continue
        if default not in ("", "_Null", "None") and mine.partition("=")[2] != default:
            return False
        if (
            not star
            and not any_position
            and (number >= len(positional) or positional[number].partition("=")[0] != name)
        ):
            return False
    return True


def without_shown_signature(function):
    """Return a function whose signature is that of its code, not the one that it shows to readers."""
    if not isinstance(function, types.FunctionType) or "__signature__" not in vars(function):
        return function
    bare = types.FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    bare.__kwdefaults__ = function.__kwdefaults__
    return bare


def differing_signatures() -> Iterator[tuple[str, str, str]]:
    """Yield (place, our signature, MXNet's) of functions that accept less or have other defaults."""
    for place, theirs, function in functions():
        ours = signature(without_shown_signature(function))
        if ours is None or theirs in (None, "None"):
            continue
        if not accepts(ours, theirs):
            yield place, ours, theirs


def main():
    """Print all differences."""
    compat.install_as_mxnet()
    for title, found, table in (
        ("module", missing_modules(), MODULES_ABSENT),
        ("name", missing_names(), NAMES),
        ("attribute", missing_attributes(), ATTRIBUTES),
    ):
        for what in found:
            print(title, what, "|", reason_for(table, what) or "")
    for place, ours, theirs in differing_signatures():
        print("signature", place, "|", reason_for(SIGNATURES, place) or f"\n    {ours}\n    {theirs}")


if __name__ == "__main__":
    main()
