"""The table of libraries in docs/compatibility.md is the one that the stored results give."""

import json

from tests.world import __main__ as world


def test_the_page_shows_the_stored_results():
    results = json.loads(world.RESULTS.read_text(encoding="utf-8"))
    text = world.PAGE.read_text(encoding="utf-8")
    shown = text.split(world.BEGIN)[1].split(world.END)[0].strip().splitlines()
    assert shown == world.table(results)
    for by_kind in results.values():
        for parts in by_kind.values():
            for found in parts.values():
                assert found["passed"] + len(found["failures"]) >= found["total"]


def test_counts_are_read_from_the_output_of_pytest():
    output = "FAILED tests/a.py::test_x - E\n3 failed, 1440 passed, 5 skipped in 6.1s\n"
    assert world.summary_of(output) == {"passed": 1440, "total": 1443, "failures": ["tests/a.py::test_x"]}


def test_models_are_compared_by_their_outputs():
    result = {"passed": 1, "total": 1, "failures": [], "seconds": 3.0, "loss": 1.0}
    here = {"a": {**result, "outputs": [[[2], 1.0, 2.0]]}, "b": {**result, "outputs": [[[2], 1.0, None]]}}
    there = {"a": {**result, "outputs": [[[2], 1.0001, 2.0]]}, "b": {**result, "outputs": [[[2], 1.0, 2.0]]}}
    lines = world.comparisons({"gluoncv-models": {"here": here, "mxnet": there, "cold": here}}, "gluoncv-models")
    assert [line.split("|")[3:5] for line in lines] == [[" 1 of 2 ", " "], [" 6 and 6 ", " 6 "]]


def test_only_parts_that_both_ran_are_compared():
    one, two = {"passed": 3, "total": 4, "failures": ["a"]}, {"passed": 5, "total": 5, "failures": []}
    results = {"gluonnlp": {"here": {"a.py": one, "b.py": two}}}
    assert world.table(results)[2:] == ["| gluonnlp 0.10.0 | unit tests that pass | 8 of 9 | not run |"]
    results["gluonnlp"]["mxnet"] = {"a.py": {"passed": 4, "total": 4, "failures": []}}
    assert world.table(results)[2:] == ["| gluonnlp 0.10.0 | unit tests that pass | 3 of 4 | 4 of 4 |"]
