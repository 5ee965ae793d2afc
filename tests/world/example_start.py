"""Run an example of MXNet with made data in the place of downloads: ``example_start.py SCRIPT [ARGUMENT ...]``.

It runs alike with MXNet and with ``python -m phonograd run``. Only the functions that fetch files are replaced.
"""

import io
import json
import os
import re
import runpy
import signal
import sys
import traceback
import urllib.request
from pathlib import Path

import example_data
import mxnet
import mxnet.gluon.data.vision.datasets
import mxnet.test_utils
import requests

SECONDS_CELL = 90


def write_made(url, place):
    """Write the made file with the name of an address, and return its path."""
    Path(place).parent.mkdir(parents=True, exist_ok=True)
    if not os.path.exists(place):
        Path(place).write_bytes(example_data.make(url.split("/")[-1]))
    return str(place)


def download(url, path=None, *ignored, **others):
    """Take the arguments of ``gluon.utils.download``."""
    name = url.split("/")[-1]
    if path is None:
        return write_made(url, name)
    return write_made(url, os.path.join(path, name) if os.path.isdir(path) else path)


def download_for_tests(url, fname=None, dirname=None, *ignored, **others):
    """Take the arguments of ``test_utils.download``."""
    return write_made(url, os.path.join(dirname or "", fname or url.split("/")[-1]))


def replace_downloads():
    """Replace the functions that fetch files, and the check of their sums, in all modules that have them."""
    for module in list(sys.modules.values()):
        if getattr(module, "__name__", "").split(".")[0] in ("mxnet", "phonograd"):
            names = vars(module)
            if callable(names.get("download")):
                module.download = download_for_tests if "test_utils" in module.__name__ else download
            if callable(names.get("check_sha1")):
                module.check_sha1 = lambda *arguments: True


class Answer(io.BytesIO):
    """The made file as the answer of a server, for scripts that fetch by themselves."""

    status_code, ok = 200, True

    def __init__(self, url, *arguments, **options):
        super().__init__(example_data.make(str(url).split("/")[-1]))

    @property
    def content(self):
        """Return all bytes."""
        return self.getvalue()

    def iter_content(self, chunk_size=1):
        """Return the bytes in one piece."""
        return [self.getvalue()]


def cells_of(text, is_page):
    """Return the Python code of the cells of a page or of a notebook, without commands of notebooks."""
    if is_page:
        cells = re.findall(r"```(?:\{?\.?(?:python|\.input)[^\n]*)\n(.*?)```", text, re.DOTALL)
    else:
        cells = ["".join(cell["source"]) for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
    lines = [[line for line in cell.splitlines() if not line.lstrip().startswith(("%", "!"))] for cell in cells]
    return ["\n".join(cell) for cell in lines]


def interrupt(*ignored):
    """End a cell that takes too long."""
    raise TimeoutError(f"more than {SECONDS_CELL} seconds")


def run_cells(text, is_page):
    """Run all cells, also after one that failed, and print a line of JSON with what failed."""
    names = {"__name__": "__main__"}
    failures = {}
    cells = cells_of(text, is_page)
    signal.signal(signal.SIGALRM, interrupt)
    for number, cell in enumerate(cells):
        signal.alarm(SECONDS_CELL)
        try:
            exec(compile(cell, f"cell {number}", "exec"), names)
            mxnet.nd.waitall()
        except Exception as error:
            traceback.print_exc()
            failures[number] = f"{type(error).__name__}: {str(error).splitlines()[0][:100] if str(error) else ''}"
        finally:
            signal.alarm(0)
    print("\n" + json.dumps({"cells": len(cells), "failures": failures}), flush=True)


def main():
    """Run the script that the command line names, as its own program."""
    replace_downloads()
    urllib.request.urlretrieve = lambda url, place=None, *arguments: (download(url, place), None)
    urllib.request.urlopen = Answer
    requests.get = Answer
    script = sys.argv[1]
    sys.argv = sys.argv[1:]
    sys.path[0] = str(Path(script).resolve().parent)
    if script.endswith((".md", ".ipynb")):
        run_cells(Path(script).read_text(encoding="utf-8"), script.endswith(".md"))
    else:
        runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    main()
