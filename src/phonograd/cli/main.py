"""The command line: run or profile an MXNet script on this library, see the demonstration, print what is installed.

::

    python -m phonograd run script.py [arguments]
    python -m phonograd run -m package.module [arguments]
    python -m phonograd profile [--output report.html] [--memory] script.py [arguments]
    python -m phonograd demo [arguments]
    python -m phonograd bench [arguments]
    python -m phonograd info
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import importlib
import importlib.metadata
import importlib.util
import io
import os
import platform
import runpy
import subprocess
import sys
import tokenize
import warnings
from collections.abc import Callable, Sequence
from types import CodeType, ModuleType, TracebackType

from .. import profiler
from .._version import __version__
from ..compat import install_as_mxnet
from ..core.base import settings
from ..core.base.errors import NoCompilerWarning
from ..core.base.files import obstacle
from ..core.base.terminal import columns, is_terminal
from ..runtime import Features

_PACKAGE_DIRECTORY = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Return the exit status of the command that the arguments ask for."""
    given = list(sys.argv[1:] if argv is None else argv)
    try:
        status = _run_command(given)
        sys.stdout.flush()
    except BrokenPipeError:
        # `phonograd info | head` has read enough; the interpreter is not to try again when it ends
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0 if given[:1] == ["info"] else 1
    return status


def _run_command(given: list[str]) -> int:
    # Everything after the script, and after `demo`, belongs to it and must not be read as options of ours.
    if given[:2] == ["run", "--"]:
        del given[1]
    if given[:1] == ["run"] and len(given) > 1 and not given[1].startswith("-"):
        return run_script(given[1], given[2:])
    if given[:1] == ["demo"]:
        return int(importlib.import_module("phonograd.cli.demo").main(given[1:]))
    if given[:1] == ["bench"] and (_has_benchmarks() or not {"-h", "--help"} & set(given[1:])):
        return run_benchmarks(given[1:])
    arguments = _parser().parse_args(given)
    if arguments.command == "run":
        run = run_module if arguments.module else run_script
        return run(arguments.script, arguments.arguments)
    if arguments.command == "profile":
        return profile_script(arguments)
    print(information())
    return 0


def _parser() -> argparse.ArgumentParser:
    """Return the parser that explains the commands and reads what needs no more than that."""
    parser = argparse.ArgumentParser(prog="phonograd", description="MXNet's imperative arrays and autograd, revived.")
    parser.add_argument("--version", action="version", version=f"phonograd {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser(
        "run",
        help="run an unmodified MXNet script",
        description="Run an unmodified MXNet script as `python` would, with this library in the place of mxnet.",
    )
    _add_script(run)
    commands.add_parser("demo", help="learn handwritten digits, profile that, write a report; see `demo --help`")
    profile = commands.add_parser(
        "profile",
        help="run a script under the profiler and write a report",
        description="Run an unmodified MXNet script; print which operators took the time, and write an HTML report. "
        "Options stand before the script; everything behind it belongs to the script.",
    )
    profile.add_argument(
        "--output",
        default="phonograd-profile.html",
        help="the report: .html, .json (Chrome trace) or .csv (default: phonograd-profile.html)",
    )
    profile.add_argument("--memory", action="store_true", help="record how memory is taken and given back, too")
    profile.add_argument("--stacks", action="store_true", help="record where in the script operators are called, too")
    profile.add_argument(
        "--rows", type=int, default=15, help="rows of the table that is printed, -1 for all (default: 15)"
    )
    _add_script(profile)
    commands.add_parser(
        "bench", help="compare with other libraries; run from a checkout of the repository (see `make bench`)"
    )
    commands.add_parser("info", help="print versions, processor, caches, threads, executor and settings")
    return parser


def _add_script(parser: argparse.ArgumentParser) -> None:
    """Add what says which script to run, and the rest of the line, which belongs to it."""
    parser.add_argument(
        "-m", dest="module", action="store_true", help="the script is named as a module, as in python -m"
    )
    parser.add_argument("script", help="the Python file")
    rest = parser.add_argument("arguments", nargs=argparse.REMAINDER, help="what the script finds in sys.argv[1:]")
    rest.required = False  # or a missing script would be complained of as two missing things


def run_script(path: str, arguments: Sequence[str]) -> int:
    """Return the exit status of a script, run as ``python path arguments...`` would with MXNet in place.

    The script is ``__main__``, sees its own ``sys.argv`` and ``sys.path[0]``, and its tracebacks begin with its own
    lines.
    """
    code = _code_of(path)
    return code if isinstance(code, int) else _run_code(code, path, arguments)


def _code_of(path: str) -> CodeType | int:
    """Return the code of a script, or the exit status if there is none, which was said."""
    try:
        return _compiled(path)
    except OSError as error:
        print(f"phonograd: cannot open {path!r}: {error.strerror}", file=sys.stderr)
        return 2
    except SyntaxError as error:
        sys.excepthook(type(error), error.with_traceback(None), None)
        return 1


def _run_code(code: CodeType, path: str, arguments: Sequence[str]) -> int:
    _take_place(os.path.dirname(os.path.abspath(path)), path, arguments)
    module = ModuleType("__main__")
    module.__file__ = path
    module.__dict__["__builtins__"] = __builtins__
    sys.modules["__main__"] = module
    return _status_after(lambda: exec(code, module.__dict__), lambda name: name != code.co_filename)


def run_module(name: str, arguments: Sequence[str]) -> int:
    """Return the exit status of a module, run as ``python -m name arguments...`` would with MXNet in place."""
    _take_place(os.getcwd(), name, arguments)
    ours = {__file__, runpy.__file__}

    def is_ours(path: str) -> bool:
        return path in ours or path.startswith("<frozen ")

    return _status_after(lambda: runpy.run_module(name, run_name="__main__", alter_sys=True), is_ours)


def _take_place(folder: str, name: str, arguments: Sequence[str]) -> None:
    """Let scripts import this library as MXNet, what lies beside them, and find their arguments."""
    install_as_mxnet()
    sys.argv = [name, *arguments]
    # Workers that multiprocessing spawns import mxnet before anything of ours runs; they inherit this path.
    sys.path[0:1] = [folder, os.path.join(_PACKAGE_DIRECTORY, "compat", "mxnet_path")]


def _status_after(script: Callable[[], object], is_ours: Callable[[str], bool]) -> int:
    """Return the exit status of a script; what it did not catch is reported as the interpreter reports it."""
    try:
        script()
    except SystemExit:
        raise
    except BaseException as error:  # noqa: BLE001 - reported as the interpreter reports what a script did not catch
        trace = _below(error.__traceback__, is_ours)
        if trace is None:  # it did not begin: there is no such module
            print(f"phonograd: {error}", file=sys.stderr)
        else:
            sys.excepthook(type(error), error.with_traceback(trace), trace)
        return 130 if isinstance(error, KeyboardInterrupt) else 1
    return 0


def profile_script(arguments: argparse.Namespace) -> int:
    """Return the exit status of a script that runs under the profiler; the report is written however it ends."""
    kind = os.path.splitext(arguments.output)[1].lower()
    output = os.path.abspath(arguments.output)
    problem = obstacle(output)
    if kind not in (".html", ".json", ".csv"):
        problem = f"must end in .html, .json or .csv, not {arguments.output!r}"
    if problem:
        print(f"phonograd: --output {problem}", file=sys.stderr)
        return 2
    code = None if arguments.module else _code_of(arguments.script)
    if isinstance(code, int):
        return code
    recording = profiler.profile(
        with_modules=True, with_flops=True, profile_memory=arguments.memory, with_stack=arguments.stacks
    )
    with recording:
        try:
            if code is None:
                status = run_module(arguments.script, arguments.arguments)
            else:
                status = _run_code(code, arguments.script, arguments.arguments)
        except SystemExit as error:
            status = _status_of(error)
    if not len(recording.events()):
        if status == 0:
            print("phonograd: nothing was profiled: the script called no operators", file=sys.stderr)
        return status
    try:
        if kind == ".html":
            recording.export_html(output, title=os.path.basename(arguments.script))
        elif kind == ".json":
            recording.export_chrome_trace(output)
        else:
            recording.export_csv(output)
    except OSError as error:
        print(f"phonograd: cannot write the report {output!r}: {error.strerror}", file=sys.stderr)
        status, output = status or 1, ""
    width = columns(sys.stdout) if is_terminal(sys.stdout) else None
    print(recording.table(sort_by="self_cpu_time_total", row_limit=arguments.rows, max_width=width))
    if output:
        print(f"report: {output}")
    return status


def _status_of(error: SystemExit) -> int:
    """Return the exit status that a script asked for, as the interpreter reads it."""
    if error.code is None or isinstance(error.code, int):
        return error.code or 0
    print(error.code, file=sys.stderr)
    return 1


def _root() -> str:
    """Return the directory that a checkout of the repository is in, if this is one."""
    return os.path.dirname(os.path.dirname(_PACKAGE_DIRECTORY))


def _has_benchmarks() -> bool:
    return os.path.exists(os.path.join(_root(), "benchmarks", "cli/main.py"))


def run_benchmarks(arguments: Sequence[str]) -> int:
    """Return the exit status of the benchmarks, which only a checkout of the repository has."""
    if not _has_benchmarks():
        print(
            "phonograd: the benchmarks are not installed with the package: run `make bench` in a checkout of the "
            "repository",
            file=sys.stderr,
        )
        return 2
    return subprocess.run([sys.executable, "-m", "benchmarks", *arguments], cwd=_root(), check=False).returncode


def _compiled(path: str) -> CodeType:
    """Return the code of a script, in whatever encoding it declares."""
    with open(path, "rb") as file:
        source = file.read()
    encoding, _ = tokenize.detect_encoding(io.BytesIO(source).readline)
    return compile(source.decode(encoding), path, "exec", dont_inherit=True)


def _below(trace: TracebackType | None, is_ours: Callable[[str], bool]) -> TracebackType | None:
    """Return a traceback without the frames of our files at its beginning."""
    while trace is not None and is_ours(trace.tb_frame.f_code.co_filename):
        trace = trace.tb_next
    return trace


def _installed(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _processor() -> str:
    """Return the processor's name, as far as the system tells it."""
    names = [platform.processor()]
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
        names = [line.partition(":")[2].strip() for line in file if line.startswith("model name")] or names
    return f"{platform.machine()} ({names[0]})" if names[0] not in ("", platform.machine()) else platform.machine()


def _processor_caches() -> str:
    """Return the caches of the first core, as far as the system tells them."""
    folder = "/sys/devices/system/cpu/cpu0/cache"
    found = []
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
        facts = []
        with contextlib.suppress(OSError):
            for fact in ("level", "type", "size"):
                with open(os.path.join(folder, name, fact), encoding="ascii") as file:
                    facts.append(file.read().strip())
        if len(facts) == 3:
            found.append(f"L{facts[0]} {facts[1].lower()} {facts[2]}")
    return ", ".join(found) or "unknown"


def _compiles() -> bool:
    """Return whether kernels can be compiled: llvmlite may be installed and not work."""
    from ..core.run import kernel_cache

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoCompilerWarning)
        return kernel_cache.available()


def _executor() -> str:
    """Return what evaluates arrays, and why."""
    chosen = settings.current().executor
    if chosen == "reference":
        return f"{chosen} (as set)"
    if not _compiles():
        missing = importlib.util.find_spec("llvmlite") is None
        return f"reference (llvmlite {'is not installed' if missing else 'does not work'}: NumPy evaluates everything)"
    return "native (fused kernels, compiled by LLVM)" if chosen == "auto" else f"{chosen} (as set)"


def _matrix_unit() -> str:
    """Return whether there is a unit for products of matrices, and whether it is used."""
    if settings.current().executor == "reference" or not _compiles():
        return "not used (NumPy multiplies)"
    from ..core.run.host import host

    with settings.override(matrix_unit=True):
        if not host().matrix_unit:
            return "none that this process may use"
    return "used for larger products of float32" if settings.current().matrix_unit else "not used (as set)"


def _kernels_on_disk() -> str:
    """Return where compiled kernels are kept, and how much there is."""
    folder = settings.current().cache_directory
    if not folder:
        return "none are kept"
    sizes = []
    for path, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):  # another process may drop files meanwhile
                sizes.append(os.path.getsize(os.path.join(path, name)))
    return f"{sum(sizes) / (1 << 20):.1f} MB in {len(sizes)} files at {folder}"


def information() -> str:
    """Return a report of versions, the processor and the settings, one fact per line."""
    facts = {
        "phonograd": f"{__version__} ({_PACKAGE_DIRECTORY})",
        "python": f"{platform.python_version()} ({sys.executable})",
        "system": platform.platform(),
        "processor": f"{_processor()}, {os.cpu_count()} cores",
        "processor caches": _processor_caches(),
        "threads": str(settings.current().num_threads),
        "executor": _executor(),
        "matrix unit": _matrix_unit(),
        "kernels on disk": _kernels_on_disk(),
        **{name: _installed(name) for name in ("numpy", "llvmlite", "matplotlib", "pillow", "tqdm")},
        "features": ", ".join(name for name, feature in Features().items() if feature.enabled),
    }
    for field in dataclasses.fields(settings.Settings):
        facts[f"setting {field.name}"] = repr(getattr(settings.current(), field.name))
    width = max(map(len, facts))
    return "\n".join(f"{name:<{width}}  {value}" for name, value in facts.items())
