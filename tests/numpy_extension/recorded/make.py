"""Write what MXNet 1.9.1 does with every line of code in the ``*.json`` files beside this one, or in those named.

Run ``python make.py`` where ``import mxnet`` gives MXNet 1.9.1. To add lines, add ``{"code": "..."}`` to a file first.
A line that kills the process is recorded as ``crash``. An entry may have ``here`` (what this library does instead) and
``why``, and ``factors`` where the value is a list of factors that are fixed only in part; they are kept.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from tests.numpy_extension.lines import outcome
from tests.recorded_lines import record

if __name__ == "__main__":
    record(__file__, outcome, compact=True)
