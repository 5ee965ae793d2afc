"""Every public class has a summary, described arguments, and an example; test_docs.py executes the examples."""

import enum
import importlib
import inspect
import pkgutil

import pytest

import phonograd as mx
from phonograd.core.base.class_parameters import SHARED
from phonograd.core.base.docstrings import (
    ClassDocstring,
    class_descriptions,
    compose,
    own_descriptions,
    sections_of,
    signature_of_class,
)
from phonograd.core.base.formulas import CLASSES as FORMULAS

#: not for users, or names of MXNet that refuse to load
LEFT_OUT = ("core", "cli", "compat", "quantization", "readings", "mappings", "test_utils", "testing", "__main__")

#: users get instances of them as results and do not make them: their members are documented one by one
RESULTS = {
    "phonograd.distributed.communicator.Communicator",
    "phonograd.distributed.observation.Statistics",
    "phonograd.explain.Evaluation",
    "phonograd.explain.KernelReport",
    "phonograd.explain.PlanLog",
    "phonograd.explain.PlanReport",
    "phonograd.explain.ValueReport",
    "phonograd.gluon.block.plain.HookHandle",
    "phonograd.model.BatchEndParam",
    "phonograd.ops.Namespace",
    "phonograd.ops.Overload",
    "phonograd.ops.Packet",
    "phonograd.profiler.averages.Average",
    "phonograd.profiler.averages.AverageList",
    "phonograd.profiler.event.FunctionEvent",
    "phonograd.profiler.events.EventList",
    "phonograd.profiler.memory.MemoryTimeline",
    "phonograd.profiler.results.LoadedProfile",
    "phonograd.runtime.Feature",
    "phonograd.symbol.entry.Entry",
    "phonograd.visualization.picture.Picture",
}

#: their data are downloaded, or they need a package that the tests do not install
NOT_EXECUTED = {
    *("MNIST", "FashionMNIST", "CIFAR10", "CIFAR100", "WikiText2", "WikiText103"),
    *("LogMetricsCallback", "PandasLogger"),
}


def public_modules():
    """Return the packages and modules whose names users import."""
    for info in pkgutil.walk_packages(mx.__path__, "phonograd."):
        parts = info.name.split(".")
        if any([part in LEFT_OUT or part.startswith("_") for part in parts[1:]]):
            continue
        # modules below a package are public if the package offers them
        package = importlib.import_module(".".join(parts[:-1]))
        if info.ispkg or len(parts) == 2 or parts[-1] in getattr(package, "__all__", ()):
            yield importlib.import_module(info.name)


def public_classes():
    """Return the classes of users by name: those of public modules, without exceptions, enumerations and records."""
    found = {}
    for module in public_modules():
        for name in getattr(module, "__all__", ()):
            value = getattr(module, name, None)
            if not isinstance(value, type) or not value.__module__.startswith("phonograd."):
                continue
            name = f"{value.__module__}.{value.__qualname__}"
            kinds = (BaseException, enum.Enum)
            if not issubclass(value, kinds) and ".core." not in name and name not in RESULTS:
                found[name] = value
    return found


CLASSES = public_classes()


def test_the_list_is_that_of_the_library():
    names = {value.__name__ for value in CLASSES.values()}
    assert {"Dense", "L2Loss", "Adam", "Accuracy", "Xavier", "NDArrayIter", "LSTM", "ToTensor", "Module"} <= names
    assert len(CLASSES) > 300


def test_results_exist():
    for name in RESULTS:
        module, _, attribute = name.rpartition(".")
        assert isinstance(getattr(importlib.import_module(module), attribute), type), name


def test_every_class_is_documented():
    missing = []
    for name, value in CLASSES.items():
        sections = sections_of(value.__doc__ or "")
        described = own_descriptions(sections.get("Parameters", ""))
        arguments = signature_of_class(value).parameters
        missing += [f"{name}({one})" for one in arguments if not described.get(one)]
        if not sections[""].partition("\n\n")[0].rstrip().endswith((".", ":", "::")):
            missing.append(f"{name}: a summary")
        if ">>>" not in sections.get("Examples", ""):
            missing.append(f"{name}: an example")
        if "+SKIP" in sections.get("Examples", "") and value.__name__ not in NOT_EXECUTED:
            missing.append(f"{name}: an example that is executed")
    assert missing == []


def test_every_shared_description_is_used():
    used = set()
    for value in CLASSES.values():
        names = [each.__name__ for each in value.__mro__]
        for argument in signature_of_class(value).parameters:
            used |= {argument, *[f"{name}.{argument}" for name in names]}
    assert sorted(set(SHARED) - used) == []


def test_every_formula_is_used():
    assert set(FORMULAS) <= {value.__name__ for value in CLASSES.values()}


def test_help_shows_the_whole_text():
    text = inspect.getdoc(mx.gluon.nn.Conv2D)
    for part in ("Parameters\n----------", "channels : int", "default 0", "Examples\n--------\n>>> "):
        assert part in text
    assert mx.gluon.nn.Conv2D(3, 3).__doc__ == mx.gluon.nn.Conv2D.__doc__


def test_docstrings_are_made_when_they_are_asked_for():
    assert isinstance(vars(mx.gluon.nn.Dense)["__doc__"], ClassDocstring)
    assert isinstance(mx.gluon.nn.Dense.__doc__, str)


def test_own_descriptions_take_precedence():
    class Base:
        """Do nothing.

        Parameters
        ----------
        axis
            From the base.
        """

        def __init__(self, axis: int = 0, momentum: float = 0.0) -> None: ...

    class Sub(Base):
        """Do nothing else.

        Parameters
        ----------
        axis
            Its own.
        """

    signature = signature_of_class(Sub)
    assert class_descriptions(Sub, signature)["axis"] == "Its own."
    assert class_descriptions(Base, signature)["axis"] == "From the base."
    assert class_descriptions(Sub, signature)["momentum"] == SHARED["momentum"]


def test_a_remark_behind_the_arguments_moves_to_the_summary():
    sections = sections_of("Add.\n\nParameters\n----------\nx\n    A number.\n\nA remark about it.\n\n>>> 1\n1")
    assert sections[""] == "Add.\n\nA remark about it."
    assert sections["Examples"] == ">>> 1\n1"
    signature = inspect.signature(lambda x=1: x)
    text = compose(sections, signature, own_descriptions(sections["Parameters"]), sections["Examples"])
    assert text.count("Parameters") == 1
    assert "x, default 1\n    A number." in text


@pytest.mark.parametrize(
    "section", ["x\n    One.\ny, z : int\n    Two\n    lines.", "*x\n    One.\n**y\n    Two lines."]
)
def test_descriptions_by_name(section):
    found = own_descriptions(section)
    assert found["x"] == "One."
    assert found["y"] == "Two lines."
