"""Record the lists of mixed precision from real MXNet 1.9.1: ``python scripts/record_amp_lists.py``, with MXNet's Python.

Writes src/phonograd/contrib/amp/lists/mxnet.json. tests/contrib/test_amp.py compares it with the registry's facts.
"""

import json
from pathlib import Path

TARGET = Path(__file__).parents[1] / "src/phonograd/contrib/amp/lists/mxnet.json"


def main() -> None:
    """Write the file."""
    from mxnet.contrib.amp.lists import symbol_bf16, symbol_fp16

    found = {
        module.__name__.rpartition(".")[2]: {name: value for name, value in vars(module).items() if name.isupper()}
        for module in (symbol_fp16, symbol_bf16)
    }
    TARGET.write_text(json.dumps(found, indent=0) + "\n")


if __name__ == "__main__":
    main()
