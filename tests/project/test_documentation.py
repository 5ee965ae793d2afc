"""Every public operator and function of mx.np has a summary, described arguments, and an example that is executed."""

import doctest
import inspect
import types

import pytest

import phonograd as mx
from phonograd.core.base.docstrings import own_descriptions, sections_of
from phonograd.core.base.formulas import OPERATORS
from phonograd.core.graph.documentation import brief_of, document, example_of, undescribed
from phonograd.core.graph.operator import REGISTRY
from phonograd.core.graph.shared_parameters import SHARED
from phonograd.core.graph.signature import signature_of
from phonograd.numpy.declaration import FUNCTIONS
from phonograd.numpy.shared_parameters import RESULTS, TYPES
from phonograd.numpy.shared_parameters import SHARED as OF_NUMPY

FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
PREFIXES = ("_contrib_", "_linalg_", "_image_")


def is_public(declared):
    return any(not name.startswith("_") or name.startswith(PREFIXES) for name in (declared.name, *declared.aliases))


PUBLIC = sorted({declared for declared in REGISTRY.values() if is_public(declared)}, key=lambda one: one.name)


def test_every_operator_says_what_it_does():
    assert [one.name for one in PUBLIC if not brief_of(one).rstrip().endswith((".", ":", "::"))] == []


def test_every_argument_is_described():
    assert {one.name: undescribed(one) for one in PUBLIC if undescribed(one)} == {}


def test_every_shared_description_is_used():
    used = {name for one in REGISTRY.values() for name in signature_of(one).parameters}
    used |= {f"{one.name}.{name}" for one in REGISTRY.values() for name in signature_of(one).parameters}
    assert sorted(set(SHARED) - used) == []


def test_every_operator_has_an_example():
    assert [one.name for one in PUBLIC if ">>>" not in example_of(one)] == []


@pytest.mark.parametrize("family", sorted({one.function.__module__.split(".")[3] for one in PUBLIC}))
def test_examples_show_what_happens(family):
    """One test for each family: a compiled kernel serves several examples."""
    report = []
    for declared in PUBLIC:
        if declared.function.__module__.split(".")[3] == family:
            text = example_of(declared)
            test = doctest.DocTestParser().get_doctest(text, {"mx": mx}, declared.name, None, 0)
            assert test.examples, declared.name
            doctest.DocTestRunner(optionflags=FLAGS).run(test, out=report.append)
    assert not report, "".join(report)


def test_help_shows_the_whole_text():
    text = inspect.getdoc(mx.nd.Convolution)
    assert text == document(REGISTRY["Convolution"])
    for part in ("Parameters\n----------", "kernel : int | Sequence[int]", "Returns\n-------", ">>> "):
        assert part in text
    assert "kernel : int | Sequence[int]" in mx.sym.Convolution.__doc__
    assert "Symbol | None" in mx.sym.Convolution.__doc__


def test_formulas_are_shown():
    assert ".. math:: y = 1 / (1 + e^{-x})" in mx.nd.sigmoid.__doc__
    assert ".. math:: y = \\sin x" in mx.np.sin.__doc__
    assert ".. math:: L = (p - y)^2 / 2" in mx.gluon.loss.L2Loss.__doc__
    operators = {
        name.removeprefix("_np_") for name in [one.name for one in FUNCTIONS.values() if hasattr(one, "aliases")]
    }
    assert set(OPERATORS) <= {one.name for one in PUBLIC} | operators | set(FUNCTIONS)


def test_an_own_description_takes_precedence():
    assert "updates them" in mx.nd.BatchNorm.__doc__


# -- mx.np and mx.npx


def functions_of(space, names=None):
    """Return the functions of a namespace by name, without those of NumPy itself."""
    found = {name: getattr(space, name) for name in names or dir(space) if not name.startswith("_")}
    kinds = (type, types.ModuleType)
    return {name: one for name, one in found.items() if callable(one) and not isinstance(one, kinds) and ours(one)}


def ours(function):
    return (getattr(function, "__module__", None) or "").startswith("phonograd") or hasattr(function, "facts")


SPACES = {
    "np": functions_of(mx.np),
    "np.linalg": functions_of(mx.np.linalg, mx.np.linalg.__all__),
    "np.random": functions_of(mx.np.random, mx.np.random.__all__),
    "npx": functions_of(mx.npx),
    "npx.random": functions_of(mx.npx.random, mx.npx.random.__all__),
}


def test_the_namespaces_are_complete():
    assert {name for name in FUNCTIONS if not name.startswith("_")} <= {*SPACES["np"], "set_printoptions"}
    assert len(SPACES["npx"]) > 70


@pytest.mark.parametrize("space", SPACES)
def test_functions_of_numpy_are_documented(space):
    missing = []
    for name, function in SPACES[space].items():
        sections = sections_of(inspect.getdoc(function) or "")
        described = own_descriptions(sections.get("Parameters", ""))
        missing += [f"{name}({one})" for one in inspect.signature(function).parameters if not described.get(one)]
        if not sections[""].partition("\n\n")[0].rstrip().endswith((".", ":", "::")):
            missing.append(f"{name}: a summary")
        if ">>>" not in sections.get("Examples", ""):
            missing.append(f"{name}: an example")
    assert missing == []


@pytest.mark.parametrize("space", SPACES)
def test_examples_of_numpy_show_what_happens(space):
    report = []
    # operators of mx.nd have been tried above
    own = {name: one for name, one in SPACES[space].items() if space != "npx" or f"mx.{space}" in one.__doc__}
    assert len(own) > 3
    for name, function in own.items():
        names = {**getattr(function, "__globals__", {}), "mx": mx}
        test = doctest.DocTestParser().get_doctest(function.__doc__, names, f"{space}.{name}", None, 0)
        assert test.examples, name
        doctest.DocTestRunner(optionflags=FLAGS).run(test, out=report.append)
    assert not report, "".join(report)


def test_every_shared_description_of_numpy_is_used():
    used = set()
    for space, functions in SPACES.items():
        prefix = space.partition(".")[2] + "."
        for name, function in functions.items():
            for argument in inspect.signature(function).parameters:
                used |= {argument, f"{name}.{argument}", f"{prefix}{argument}", f"{prefix}{name}.{argument}"}
    assert sorted(set(OF_NUMPY) - used) == []
    assert sorted(set(TYPES) - used) == []
    assert sorted(set(RESULTS) - set(SPACES["np"])) == []


# -- plain functions: creation, random numbers, autograd, images

PLAIN = {
    "nd": {name: one for name, one in functions_of(mx.nd).items() if not hasattr(one, "facts")},
    "nd.random": functions_of(mx.nd.random, mx.nd.random.__all__),
    "random": functions_of(mx.random, mx.nd.random.__all__),
    "autograd": functions_of(mx.autograd, mx.autograd.__all__),
    "gluon.utils": functions_of(mx.gluon.utils, {*mx.gluon.utils.__all__} - {"shape_is_known"}),
    "image": functions_of(mx.image),
}


@pytest.mark.parametrize("space", PLAIN)
def test_plain_functions_are_documented(space):
    assert len(PLAIN[space]) > 5
    missing = []
    for name, function in PLAIN[space].items():
        sections = sections_of(inspect.getdoc(function))
        described = own_descriptions(sections.get("Parameters", ""))
        missing += [f"{name}({one})" for one in inspect.signature(function).parameters if not described.get(one)]
        # an example of download would need the network
        if ">>>" not in sections.get("Examples", "") and name != "download":
            missing.append(f"{name}: an example")
    assert missing == []


def test_functions_of_two_operands_show_what_happens():
    """Their docstrings are made at run time; the tests of modules run all others."""
    report = []
    words = {one.with_scalars for one in REGISTRY.values() if one.with_scalars}
    assert len(words) > 10
    for word in words:
        test = doctest.DocTestParser().get_doctest(getattr(mx.nd, word).__doc__, {"mx": mx}, word, None, 0)
        assert test.examples, word
        doctest.DocTestRunner(optionflags=FLAGS).run(test, out=report.append)
    assert not report, "".join(report)
