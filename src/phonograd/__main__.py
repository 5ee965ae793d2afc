"""The command line: run an MXNet script on this library, see the demonstration, print what is installed.

::

    python -m phonograd run script.py [arguments]
    python -m phonograd demo [arguments]
    python -m phonograd info
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import importlib.metadata
import io
import os
import platform
import sys
import tokenize
from collections.abc import Sequence
from types import CodeType, ModuleType, TracebackType

from . import settings
from ._version import __version__
from .compat import install_as_mxnet
from .runtime import Features

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Return the exit status of the command that the arguments ask for."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    # Everything after the script, and after `demo`, belongs to it and must not be read as options of ours.
    if given[:1] == ["run"] and len(given) > 1 and not given[1].startswith("-"):
        return run_script(given[1], given[2:])
    if given[:1] == ["demo"]:
        return int(importlib.import_module("phonograd.demo").main(given[1:]))
    _parser().parse_args(given)
    print(information())
    return 0


def _parser() -> argparse.ArgumentParser:
    """Return the parser that explains the commands and reads what needs no more than that."""
    parser = argparse.ArgumentParser(prog="phonograd", description="MXNet's imperative arrays and autograd, revived.")
    parser.add_argument("--version", action="version", version=f"phonograd {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="run an unmodified MXNet script")
    run.add_argument("script", help="the Python file")
    run.add_argument("arguments", nargs="*", help="what the script finds in sys.argv[1:]")
    commands.add_parser("demo", help="learn handwritten digits and print derivatives; see `demo --help`")
    commands.add_parser("info", help="print versions, processor and settings")
    return parser


def run_script(path: str, arguments: Sequence[str]) -> int:
    """Return the exit status of a script, run as ``python path arguments...`` would with MXNet in place.

    The script is ``__main__``, sees its own ``sys.argv`` and ``sys.path[0]``, and its tracebacks begin with its own
    lines.
    """
    try:
        code = _compiled(path)
    except OSError as error:
        print(f"phonograd: cannot open {path!r}: {error.strerror}", file=sys.stderr)
        return 2
    except SyntaxError as error:
        sys.excepthook(type(error), error.with_traceback(None), None)
        return 1
    install_as_mxnet()
    module = ModuleType("__main__")
    module.__file__ = path
    module.__dict__["__builtins__"] = __builtins__
    sys.argv = [path, *arguments]
    # Workers that multiprocessing spawns import mxnet before anything of ours runs; they inherit this path.
    stand_in = os.path.join(os.path.dirname(os.path.abspath(__file__)), "mxnet_path")
    sys.path[0:1] = [os.path.dirname(os.path.abspath(path)), stand_in]
    sys.modules["__main__"] = module
    try:
        exec(code, module.__dict__)
    except SystemExit:
        raise
    except BaseException as error:  # noqa: BLE001 - reported as the interpreter reports what a script did not catch
        trace = _from_file(error.__traceback__, code.co_filename)
        sys.excepthook(type(error), error.with_traceback(trace), trace)
        return 130 if isinstance(error, KeyboardInterrupt) else 1
    return 0


def _compiled(path: str) -> CodeType:
    """Return the code of a script, in whatever encoding it declares."""
    with open(path, "rb") as file:
        source = file.read()
    encoding, _ = tokenize.detect_encoding(io.BytesIO(source).readline)
    return compile(source.decode(encoding), path, "exec", dont_inherit=True)


def _from_file(trace: TracebackType | None, path: str) -> TracebackType | None:
    """Return a traceback without the frames above the first one of a file; all of it if there is none."""
    inner = trace
    while inner is not None and inner.tb_frame.f_code.co_filename != path:
        inner = inner.tb_next
    return inner or trace


def _installed(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def information() -> str:
    """Return a report of versions, the processor and the settings, one fact per line."""
    facts = {
        "phonograd": f"{__version__} ({os.path.dirname(os.path.abspath(__file__))})",
        "python": f"{platform.python_version()} ({sys.executable})",
        "system": platform.platform(),
        "processor": f"{platform.machine()}, {os.cpu_count()} cores",
        **{name: _installed(name) for name in ("numpy", "llvmlite", "matplotlib", "tqdm")},
        "features": ", ".join(name for name, feature in Features().items() if feature.enabled),
    }
    for field in dataclasses.fields(settings.Settings):
        facts[f"setting {field.name}"] = repr(getattr(settings.current(), field.name))
    width = max(map(len, facts))
    return "\n".join(f"{name:<{width}}  {value}" for name, value in facts.items())


if __name__ == "__main__":
    sys.exit(main())
