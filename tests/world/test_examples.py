"""The table of examples in docs/compatibility.md is the one that the stored results give."""

from tests.world import example_data, examples


def test_the_page_shows_the_stored_results():
    results = examples.stored()
    shown = examples.PAGE.read_text(encoding="utf-8").split(examples.BEGIN)[1].split(examples.END)[0]
    assert shown.strip().splitlines() == examples.table(results)
    assert set(results) <= {examples.title(example) for example in examples.EXAMPLES}


def test_scripts_and_cells_are_counted_if_both_ran():
    page = {"here": {"cells": 4, "failures": {"1": "E"}}, "mxnet": {"cells": 4, "failures": {}}}
    results = {"a": {"here": None, "mxnet": "E"}, "b": {"here": None, "mxnet": None}, "c": {"here": "E"}, "d": page}
    assert examples.counts(results) == {
        examples.SCRIPTS: {"here": (2, 2), "mxnet": (1, 2)},
        examples.CELLS: {"here": (3, 4), "mxnet": (4, 4)},
    }


def test_made_files_are_the_same_every_time():
    assert example_data.make("train-labels-idx1-ubyte")[:8] == b"\0\0\x08\1" + example_data.TRAIN.to_bytes(4, "big")
    assert example_data.make("series") == example_data.make("series")
    kinds = {kind for example in examples.EXAMPLES for kind in example.files.values()}
    assert kinds <= {*example_data.MAKERS, *example_data.digits()}


def test_no_script_that_runs_with_mxnet_fails_here():
    # docs/compatibility.md says so
    results = examples.stored()
    assert [name for name, found in results.items() if found.get("mxnet", "") is None and found.get("here")] == []
