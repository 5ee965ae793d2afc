"""Records what Apache MXNet 1.9.1 finds in all programs.

Run it with a Python that has mxnet 1.9.1 (Python 3.11, NumPy 1.23.5)::

    python tests/module/record.py
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import mxnet
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.module import programs

RECORDED = Path(__file__).resolve().parent / "recorded"

if __name__ == "__main__":
    texts: dict[str, Any] = {}
    arrays: dict[str, Any] = {}
    for name in programs.PROGRAMS:
        for key, value in programs.run(mxnet, name).items():
            (arrays if isinstance(value, np.ndarray) else texts)[f"{name}/{key}"] = value
    np.savez_compressed(RECORDED / "arrays.npz", **arrays)
    (RECORDED / "texts.json").write_text(json.dumps(texts, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    print(len(arrays), "arrays,", len(texts), "texts")
