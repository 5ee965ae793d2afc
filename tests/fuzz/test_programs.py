"""Random programs give the same bits in every way, and NumPy's values; and the harness finds what is wrong."""

from __future__ import annotations

from typing import Any
from unittest import mock

import numpy as np
import pytest

from phonograd import nd
from phonograd.core.graph.operator import REGISTRY

from . import programs, statements, ways
from .model import compare_gradients
from .programs import Failure, Program, check, generate, shrink
from .statements import Statement
from .ways import Argument, Case, Way, difference, run

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::RuntimeWarning")

#: programs of a short run, which take some fifteen seconds
SHORT = 24


def report(failure: Failure | None) -> None:
    """Fail with the script of a failure, made smaller."""
    if failure is not None:
        pytest.fail(str(shrink(failure)), pytrace=False)


@pytest.mark.parametrize("seed", range(SHORT))
def test_programs(seed: int) -> None:
    report(check(generate(seed), every=seed % 8 == 0))


@pytest.mark.slow
def test_many_programs() -> None:
    counts = programs.run(3600, seed=1)
    assert not counts.failures, "\n\n".join(counts.failures)


# -- the harness finds what is wrong


def _program(*lines: Statement, mode: str = "plain", dtype: str = "float32", returns: tuple[str, ...] = ()) -> Program:
    values = tuple([np.arange(1, 7, dtype=dtype).reshape(2, 3) * factor for factor in np.array([1, 2, 3], dtype)])
    made = returns or tuple([name for line in lines for name in line.makes])
    return Program(0, (Argument(values, "nd", "write"),), (), lines, made, mode, False, dtype)


SINE = Statement("v1 = F.sin(a0)", ("v1",), ("a0",), model="v1 = call('sin', [a0], {})", symbolic=True, smooth=True)
TWICE = Statement("v2 = v1 * 2", ("v2",), ("v1",), model="v2 = v1 * 2", symbolic=True, smooth=True)
SQUARE = Statement("v3 = a0 * a0", ("v3",), ("a0",), model="v3 = a0 * a0", symbolic=True, smooth=True)


def test_a_way_with_other_bits_is_found_and_the_program_shrunk() -> None:
    def wrong(case: Case, layers: list[Any]) -> Any:
        def function(*arrays: Any) -> list[Any]:
            results = case.program(nd, layers, *arrays)
            return [result + 1e-6 * ("F.sin" in case.source) for result in results]

        return function

    with mock.patch.dict(ways.FORMS, compiled=wrong):
        failure = check(_program(SQUARE, SINE, TWICE))
        assert failure is not None
        assert failure.second == Way("compiled", "planned")
        smaller = shrink(failure)
    assert [line.text for line in smaller.program.statements] == [SINE.text]


def test_scripts_of_failures_run(capsys: pytest.CaptureFixture[str]) -> None:
    program = _program(SINE, TWICE, mode="backward")
    exec(program.script(Way("called", "native"), Way("hybridized", "native"), "two\nlines"), {"__name__": "script"})
    assert capsys.readouterr().out == "no difference\n"


def test_a_wrong_value_is_found() -> None:
    def nearly(x: Any) -> Any:
        return np.sin(x) * np.float32(1.001)

    with mock.patch.object(REGISTRY["sin"], "function", nearly), mock.patch.object(REGISTRY["sin"], "direct", nearly):
        failure = check(_program(SINE, TWICE), only=(Way("stepwise", "planned"), None))
    assert failure is not None
    assert failure.wrong.startswith(SINE.text)


def test_a_write_that_does_not_show_is_found() -> None:
    # the model says that v1 is a view, the program makes a copy
    view = Statement("v1 = a0[0:1].copy()", ("v1",), ("a0",), model="v1 = a0[0:1]", views=("v1",))
    write = Statement("a0 += 1", (), ("a0",), ("a0",), model="a0 += 1")
    failure = check(_program(view, write), only=(Way("stepwise", "planned"), None))
    assert failure is not None
    assert "v1" in failure.wrong


def test_a_wrong_gradient_is_found() -> None:
    program = _program(SINE, SQUARE, mode="backward", dtype="float64")
    assert program.smooth_results() == [0, 1]
    assert compare_gradients(program.case(), [0, 1]) == ""
    rule = REGISTRY["sin"].gradient_rule
    assert rule is not None
    with mock.patch.object(REGISTRY["sin"], "gradient_rule", lambda grad, *rest: rule(grad, *rest) * 1.001):
        # another graph than above, whose gradient is known
        other = program.case()._replace(program=lambda F, layers, a0: [F.sin(a0 * 3) * 5])
        assert "differences give" in str(compare_gradients(other, [0]))


def test_results_of_statements_without_derivative_are_left_out() -> None:
    floor = Statement("v4 = F.floor(v1)", ("v4",), ("v1",))
    assert _program(SINE, floor, TWICE, mode="backward", dtype="float64").smooth_results() == [0, 2]


def test_each_operator_of_the_registry_can_be_drawn() -> None:
    assert {*statements.OPERATORS} == {REGISTRY[sample.name].name for sample in statements.SAMPLES}
    drawn = {line.operator for seed in range(80) for line in generate(seed).statements}
    assert len(drawn & {*statements.OPERATORS}) > 100


def test_the_same_seed_gives_the_same_program() -> None:
    assert generate(3).source == generate(3).source


def test_runs_of_other_values_differ() -> None:
    case, other = _program(SINE).case(), _program(SQUARE).case()
    assert difference(run(case, "called, native"), run(case, "stepwise, native")) == ""
    assert difference(run(case, "called, native"), run(other, "called, native")).startswith("call 1: result 0")
