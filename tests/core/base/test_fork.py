"""The order of what is done around a fork: fixed by one list, whatever is imported first."""

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from phonograd.core.base import fork

MODULES = (
    "phonograd.core.trace.rng",
    "phonograd.core.events",
    "phonograd.core.base.collector",
    "phonograd.core.run.memory_pool",
    "phonograd.core.run.background",
    "phonograd.core.run.thread_pool",
    "phonograd.core.run.driver",
    "phonograd.core.run.kernel_cache",
    "phonograd.core.plan.planner_process",
    "phonograd.core.trace.trace",
    "phonograd.core.array.single",
    "phonograd.core.backward.machine_code",
)


@pytest.fixture
def copy(monkeypatch: pytest.MonkeyPatch) -> tuple[ModuleType, dict[str, Callable[[], None]]]:
    """Return a module of its own, and the functions that it gives to Python."""
    given: dict[str, Any] = {}
    monkeypatch.setattr(os, "register_at_fork", given.update, raising=False)
    spec = importlib.util.spec_from_file_location("fork_copy", fork.__file__)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module, given


@pytest.mark.parametrize("names", [fork.ORDER, fork.ORDER[::-1], fork.ORDER[3:] + fork.ORDER[:3], fork.ORDER[2:5]])
def test_handlers_run_in_the_order_of_the_list(copy: Any, names: tuple[str, ...]) -> None:
    module, given = copy
    called: list[tuple[str, str]] = []
    for name in names:
        handlers = {when: lambda name=name, when=when: called.append((when, name)) for when in given}
        module.register(name, **handlers)
    there = [name for name in fork.ORDER if name in names]
    for when in ("before", "after_in_parent", "after_in_child"):
        called.clear()
        given[when]()
        assert called == [(when, name) for name in (there[::-1] if when == "before" else there)]


def test_unknown_and_repeated_names_are_refused(copy: Any) -> None:
    module, _ = copy
    with pytest.raises(ValueError, match="'coffee' has no place in the order of forks; these have: handover"):
        module.register("coffee")
    module.register("observers")
    with pytest.raises(ValueError, match="'observers' has registered"):
        module.register("observers")


def test_a_handler_that_raises_keeps_no_other_from_running(copy: Any) -> None:
    module, given = copy
    called: list[str] = []
    module.register("memory pool", after_in_child=lambda: 1 / 0)
    module.register("observers", after_in_child=lambda: called.append("observers"))
    module.register("handover of arrays", after_in_child=lambda: called.append("handover"))
    given["before"]()
    with pytest.raises(ZeroDivisionError):
        given["after_in_child"]()
    assert called == ["handover", "observers"]


def test_a_module_that_is_imported_in_the_middle_of_a_fork_takes_no_part_in_it(copy: Any) -> None:
    module, given = copy
    called: list[str] = []
    late = {"before": lambda: called.append("before"), "after_in_parent": lambda: called.append("after")}
    module.register("compiler", before=lambda: module.register("observers", **late))
    given["before"]()
    given["after_in_parent"]()
    assert called == []
    module._registered.pop("compiler")
    given["before"]()
    given["after_in_parent"]()
    assert called == ["before", "after"]


SCRIPT = """
import importlib, json, os, sys
from phonograd.core.base import fork
for name in sys.argv[1:]:
    importlib.import_module(name)
log = []
def logged(name, when, handler):
    return lambda: (log.append((when, name)), handler and handler())[1]
for name, handlers in fork._registered.items():
    fork._registered[name] = fork._Handlers(*[logged(name, w, h) for w, h in zip(handlers._fields, handlers)])
read, write = os.pipe()
child = os.fork()
if not child:
    os.write(write, json.dumps(log).encode())
    os._exit(0)
os.waitpid(child, 0)
print(json.dumps([log, json.loads(os.read(read, 1 << 16))]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_the_order_of_imports_has_no_influence() -> None:
    found = []
    for modules in (MODULES, MODULES[::-1], MODULES[4:] + MODULES[:4]):
        command = [sys.executable, "-c", SCRIPT, *modules]
        answer = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
        found.append(json.loads(answer.stdout))
    before = [["before", name] for name in fork.ORDER[::-1]]
    parent = before + [["after_in_parent", name] for name in fork.ORDER]
    child = before + [["after_in_child", name] for name in fork.ORDER]
    assert found == [[parent, child]] * 3
