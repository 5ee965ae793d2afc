"""Write what MXNet 1.9.1 does with every line of code in the ``*.json`` files beside this one.

Run ``python make.py`` where ``import mxnet`` gives MXNet 1.9.1. To add lines, add ``{"code": "..."}`` to a file first.
A line that kills the process is recorded as ``crash``. An entry may have ``here`` (what this library does instead) and
``why``; they are kept.
"""

import json
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))


def work():
    """Read lines from standard input and print their outcomes, one JSON text a line."""
    import mxnet
    from lines import outcome

    assert mxnet.__version__ == "1.9.1", mxnet.__version__
    for line in sys.stdin:
        print("=" + json.dumps(outcome(mxnet, json.loads(line))), flush=True)


def outcomes_of(lines):
    """Return the outcome of each line; a process that dies is started again after the line that killed it."""
    found = []
    while len(found) < len(lines):
        text = "".join(json.dumps(line) + "\n" for line in lines[len(found) :])
        done = subprocess.run([sys.executable, __file__, "work"], input=text, capture_output=True, text=True)
        found += [json.loads(line[1:]) for line in done.stdout.splitlines() if line.startswith("=")]
        if done.returncode:
            found.append("crash")
    return found


def main():
    """Record all files."""
    for path in sorted(HERE.glob("*.json")):
        entries = json.loads(path.read_text(encoding="utf-8"))
        for entry, found in zip(entries, outcomes_of([entry["code"] for entry in entries])):
            entry["mxnet"] = found
        text = ",\n".join(json.dumps(entry) for entry in entries)
        path.write_text(f"[\n{text}\n]\n", encoding="utf-8")


if __name__ == "__main__":
    work() if sys.argv[1:] == ["work"] else main()
