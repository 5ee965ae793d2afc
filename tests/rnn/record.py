"""Write what MXNet 1.9.1 computes with ``core/run/programs.py`` to ``recorded/``: run it where ``import mxnet`` is MXNet 1.9.1."""

import json
import os

import mxnet as mx
import programs

assert mx.__version__ == "1.9.1", mx.__version__
path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "recorded", "rnn.json")
with open(path, "w", encoding="utf-8") as file:
    json.dump(programs.record(mx), file, separators=(",", ":"))
    file.write("\n")
