"""Write the outcomes of all programs on MXNet 1.9.1 to ``recorded.json``: ``python tests/usage/record.py [NAME ...]``.

Each program runs in a process of its own. A step that kills the process is recorded as ``crash``.
"""

import json
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.usage.program import PROGRAMS, outcomes
from tests.usage.programs import MODULES  # noqa: F401

PLACE = Path(__file__).with_name("recorded.json")


def work(name: str, skipped: list[str]) -> None:
    """Run one program and print its outcomes."""
    import mxnet

    assert mxnet.__version__ == "1.9.1", mxnet.__version__
    for pair in outcomes(mxnet, PROGRAMS[name], skipped):
        print("=" + json.dumps(pair), flush=True)


def run(name: str) -> dict[str, str]:
    """Return the outcomes of a program; after a crash it runs again without the step."""
    crashes: dict[str, str] = {}
    while True:
        command = [sys.executable, __file__, "--work", name, *crashes]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
        found = dict([json.loads(line[1:]) for line in done.stdout.splitlines() if line.startswith("=")])
        if done.returncode == 0:
            return {**found, **crashes}
        label = list(found)[-1]
        assert label not in crashes, (name, label)
        crashes[label] = "crash"


def main() -> None:
    """Run the programs, all or those named, and store their outcomes."""
    if sys.argv[1:2] == ["--work"]:
        work(sys.argv[2], sys.argv[3:])
        return
    found = json.loads(PLACE.read_text(encoding="utf-8")) if PLACE.exists() and sys.argv[1:] else {}
    for name in sys.argv[1:] or PROGRAMS:
        found[name] = run(name)
    PLACE.write_text(json.dumps(found, indent=1, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
