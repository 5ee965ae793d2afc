"""Write what MXNet 1.9.1 does with every line of code in the ``*.json`` files beside this one.

Run ``python make.py`` where ``import mxnet`` gives MXNet 1.9.1. To add lines, add ``{"code": "..."}`` to a file first.
A line that kills the process is recorded as ``crash``. An entry may have ``here`` (what this library does instead) and
``why``; they are kept.
"""

import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))


def work():
    """Read lines from standard input and print their outcomes, one JSON text a line."""
    import mxnet
    from outcomes import outcome

    assert mxnet.__version__ == "1.9.1", mxnet.__version__
    mxnet.npx.set_np()
    for line in sys.stdin:
        print(json.dumps(outcome(mxnet, json.loads(line))), flush=True)


def outcomes_of(lines):
    """Return the outcome of each line; a process that dies is started again after the line that killed it."""
    found = []
    while len(found) < len(lines):
        left = lines[len(found) :]
        text = "".join(json.dumps(line) + "\n" for line in left)
        done = subprocess.run([sys.executable, __file__, "work"], input=text, capture_output=True, text=True)
        found += [json.loads(line) for line in done.stdout.splitlines() if line.startswith('"')]
        if done.returncode:
            found.append("crash")
    return found


def main():
    """Record all files, or those named."""
    for name in sys.argv[1:] or sorted(os.listdir(HERE)):
        if not name.endswith(".json"):
            continue
        path = os.path.join(HERE, name)
        with open(path, encoding="utf-8") as file:
            entries = json.load(file)
        for entry, found in zip(entries, outcomes_of([entry["code"] for entry in entries])):
            entry["mxnet"] = found
        with open(path, "w", encoding="utf-8") as file:
            json.dump(entries, file, indent=1, ensure_ascii=False)
            file.write("\n")


if __name__ == "__main__":
    work() if sys.argv[1:] == ["work"] else main()
