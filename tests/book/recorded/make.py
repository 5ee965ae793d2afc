"""Write what the scripts in ``../scripts`` find with MXNet 1.9.1 into ``*.json`` beside this file.

Run ``python make.py`` where ``import mxnet`` gives MXNet 1.9.1; names of scripts as arguments record only those.
"""

import json
import runpy
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def rounded(value):
    """Return numbers with as many digits as float32 has."""
    if isinstance(value, dict):
        return {key: rounded(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [rounded(part) for part in value]
    return float(f"{value:.9g}") if isinstance(value, float) else value


def main():
    """Record all scripts, or those that are named."""
    import mxnet

    assert mxnet.__version__ == "1.9.1", mxnet.__version__
    names = sys.argv[1:] or sorted(path.stem for path in (HERE.parent / "scripts").glob("*.py"))
    for name in names:
        results = runpy.run_path(str(HERE.parent / "scripts" / f"{name}.py"))["results"]
        text = ",\n".join(f"{json.dumps(key)}: {json.dumps(rounded(value))}" for key, value in results.items())
        (HERE / f"{name}.json").write_text("{\n" + text + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
