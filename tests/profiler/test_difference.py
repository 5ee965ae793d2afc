"""Two profiles: what has become slower, what faster, and what is chance."""

import json

import pytest

from phonograd.profiler.averages import AverageList, key_averages
from phonograd.profiler.difference import Difference, compare, rank_test

from .test_averages import events


def averages(**durations: list[int]) -> AverageList:
    entries = []
    now = 0
    for name, found in durations.items():
        for duration in found:
            entries.append((name, now, now + duration, None))
            now += duration
    return key_averages(events(*entries))


@pytest.fixture
def difference() -> Difference:
    before = averages(same=[100, 101, 99, 100, 102, 98], slow=[100, 101, 102, 103, 104, 105], gone=[5])
    after = averages(same=[101, 100, 98, 102, 99, 100], slow=[200, 201, 202, 203, 204, 205], new=[7])
    return compare(before, after)


def test_changes(difference: Difference) -> None:
    found = {change.key: change for change in difference}
    assert {key: change.status for key, change in found.items()} == {
        "slow": "slower",
        "same": "same",
        "gone": "gone",
        "new": "new",
    }
    assert difference[0].key == "slow", "the largest change first"
    assert found["slow"].ratio == pytest.approx(1.98, abs=0.01)
    assert found["slow"].self_change == pytest.approx(0.6)
    assert (found["new"].count_before, found["new"].count_after, found["new"].ratio) == (0, 1, 1.0)


def test_regressions_fail_a_test(difference: Difference) -> None:
    with pytest.raises(AssertionError, match=r"slower by more than 10%:\n'slow': 1\.98 times as long"):
        difference.check()
    difference.check(tolerance=1.5)
    assert [change.key for change in difference.slower(0.5)] == ["slow"]


def test_faster_is_the_mirror_of_slower() -> None:
    quick, slow = averages(f=list(range(10, 20))), averages(f=list(range(30, 40)))
    assert compare(quick, slow)[0].status == "slower"
    assert compare(slow, quick)[0].status == "faster"
    compare(slow, quick).check(0.0)


def test_few_samples_prove_nothing() -> None:
    assert compare(averages(f=[1, 1, 1]), averages(f=[9, 9, 9]))[0].status == "same"


def test_output(difference: Difference) -> None:
    assert [row["key"] for row in json.loads(difference.to_json())] == [change.key for change in difference]
    lines = str(difference).splitlines()
    assert len(lines) == 3 + len(difference) + 1
    assert lines[3].split()[0] == "slow"
    assert difference.table(row_limit=1).count("\n") == 5
    assert str(Difference([])) == ""


def test_rank_test() -> None:
    assert rank_test([1] * 10, [1] * 10) == 1.0
    assert rank_test([1, 2, 3, 4], [1, 2, 3, 4]) == 1.0
    assert rank_test(range(20), range(20, 40)) < 1e-6
    # the value that SciPy gives: mannwhitneyu([1, 4, 6, 7, 9], [2, 3, 8, 10, 12, 15], method="asymptotic")
    assert rank_test([1, 4, 6, 7, 9], [2, 3, 8, 10, 12, 15]) == pytest.approx(0.3153, abs=2e-4)
