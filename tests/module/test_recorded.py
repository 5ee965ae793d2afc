"""Programs with modules find what MXNet found: parameters after training, outputs, logs, files and kinds of errors."""

import json
from pathlib import Path

import numpy as np
import pytest

import phonograd as mx

from . import programs

RECORDED = Path(__file__).resolve().parent / "recorded"
TEXTS = json.loads((RECORDED / "texts.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", programs.PROGRAMS)
def test_program(name):
    found = programs.run(mx, name)
    with np.load(RECORDED / "arrays.npz") as arrays:
        expected = {key: arrays[key] for key in arrays.files if key.startswith(f"{name}/")}
    texts = {key: value for key, value in TEXTS.items() if key.startswith(f"{name}/")}
    assert {f"{name}/{key}" for key in found} == {*expected, *texts}
    for key, value in found.items():
        whole = f"{name}/{key}"
        if whole in texts:
            assert value == texts[whole], key
        else:
            # three epochs of float32
            np.testing.assert_allclose(value, expected[whole], rtol=1e-4, atol=2e-5, err_msg=key)
