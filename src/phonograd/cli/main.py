"""The command line: run or profile an MXNet script on this library, run the demo, print the installation.

::

    python -m phonograd run script.py [arguments]
    python -m phonograd run -m package.module [arguments]
    python -m phonograd profile [--output report.html] [--memory] script.py [arguments]
    python -m phonograd launch -n 4 script.py [arguments]
    python -m phonograd demo [arguments]
    python -m phonograd bench [arguments]
    python -m phonograd tune [--show]
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
from ..core.base import processor, settings
from ..core.base.assumptions import HAS_GIL
from ..core.base.errors import NoCompilerWarning
from ..core.base.files import obstacle
from ..core.base.terminal import columns, is_terminal
from ..distributed import channel, membership
from ..distributed.world import world
from ..runtime import Features

_PACKAGE_DIRECTORY = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command that the arguments select and return its exit status."""
    given = list(sys.argv[1:] if argv is None else argv)
    try:
        status = _run_command(given)
        sys.stdout.flush()
    except BrokenPipeError:
        # the reader of `phonograd info | head` has closed the pipe; avoid another error at interpreter exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0 if given[:1] == ["info"] else 1
    return status


def _run_command(given: list[str]) -> int:
    # Everything after the script, and after `demo`, belongs to it and must not be parsed as our options.
    if given[:2] == ["run", "--"]:
        del given[1]
    if given[:1] == ["run"] and len(given) > 1 and not given[1].startswith("-"):
        return run_script(given[1], given[2:])
    if given[:1] == ["launch"]:
        return int(importlib.import_module("phonograd.cli.launch").launch(given[1:]))
    if given[:1] == ["demo"]:
        return int(importlib.import_module("phonograd.cli.demo").main(given[1:]))
    if given[:1] == ["tune"]:
        return int(importlib.import_module("phonograd.cli.tune").main(given[1:]))
    if given[:1] == ["bench"] and (_has_benchmarks() or not {"-h", "--help"} & set(given[1:])):
        return run_benchmarks(given[1:])
    arguments = _parser().parse_args(given)
    if getattr(arguments, "gpu_as_cpu", False):
        settings.update(gpu_as_cpu=True)
    if arguments.command == "run":
        run = run_module if arguments.module else run_script
        return run(arguments.script, arguments.arguments)
    if arguments.command == "profile":
        return profile_script(arguments)
    print(information())
    if arguments.command == "doctor":
        found = complaints()
        print("\n" + ("\n".join([f"* {line}" for line in found]) if found else "Nothing slows this installation down."))
    return 0


def _parser() -> argparse.ArgumentParser:
    """Return the parser that documents all commands and parses the simple ones."""
    parser = argparse.ArgumentParser(prog="phonograd", description="MXNet's imperative arrays and autograd, revived.")
    parser.add_argument("--version", action="version", version=f"phonograd {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser(
        "run",
        help="run an unmodified MXNet script",
        description="Run an unmodified MXNet script as `python` would, with this library in place of mxnet.",
    )
    _add_script(run)
    commands.add_parser("launch", help="run a script on several processes that train together; see `launch --help`")
    commands.add_parser("demo", help="train on handwritten digits, profile it, write a report; see `demo --help`")
    profile = commands.add_parser(
        "profile",
        help="run a script under the profiler and write a report",
        description="Run an unmodified MXNet script; print the operators by time, and write an HTML report. "
        "Options go before the script; everything after it belongs to the script.",
    )
    profile.add_argument(
        "--output",
        default="phonograd-profile.html",
        help="the report: .html, .json (Chrome trace) or .csv (default: phonograd-profile.html)",
    )
    profile.add_argument("--memory", action="store_true", help="also record memory allocations")
    profile.add_argument("--stacks", action="store_true", help="also record the call sites of operators")
    profile.add_argument(
        "--rows", type=int, default=15, help="number of rows in the printed table, -1 for all (default: 15)"
    )
    _add_script(profile)
    commands.add_parser(
        "bench", help="compare with other libraries; needs a checkout of the repository (see `make bench`)"
    )
    commands.add_parser("tune", help="measure the speed of this processor and store it; see `tune --help`")
    commands.add_parser("info", help="print versions, processor, caches, threads, executor and settings")
    commands.add_parser("doctor", help="the same, and everything that makes this installation slow, with the remedy")
    return parser


def _add_script(parser: argparse.ArgumentParser) -> None:
    """Add the arguments for the script and for the rest of the line, which belongs to it."""
    parser.add_argument(
        "--gpu-as-cpu", action="store_true", help="let mx.gpu(i) mean mx.cpu(i), for scripts that name GPUs"
    )
    parser.add_argument(
        "-m", dest="module", action="store_true", help="treat the script as a module name, as python -m does"
    )
    parser.add_argument("script", help="the Python file")
    rest = parser.add_argument("arguments", nargs=argparse.REMAINDER, help="the script's sys.argv[1:]")
    rest.required = False  # otherwise a missing script is reported as two missing arguments


def run_script(path: str, arguments: Sequence[str]) -> int:
    """Run a script as ``python path arguments...`` would with MXNet in place, and return its exit status.

    The script is ``__main__`` with its own ``sys.argv`` and ``sys.path[0]``; its tracebacks begin with its own
    lines.
    """
    code = _code_of(path)
    return code if isinstance(code, int) else _run_code(code, path, arguments)


def _code_of(path: str) -> CodeType | int:
    """Return the code of a script; if there is none, print an error and return the exit status."""
    try:
        return _compile_script(path)
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
    """Run a module as ``python -m name arguments...`` would with MXNet in place, and return its exit status."""
    _take_place(os.getcwd(), name, arguments)
    ours = {__file__, runpy.__file__}

    def is_ours(path: str) -> bool:
        return path in ours or path.startswith("<frozen ")

    return _status_after(lambda: runpy.run_module(name, run_name="__main__", alter_sys=True), is_ours)


def _take_place(folder: str, name: str, arguments: Sequence[str]) -> None:
    """Prepare the process for a script: the mxnet alias, its ``sys.path`` and its arguments."""
    install_as_mxnet(numpy_aliases=True)
    channel.connect()
    if membership.is_elastic():
        # failures before the first communication are reported, too
        world()
    sys.argv = [name, *arguments]
    # Workers spawned by multiprocessing import mxnet before our code runs; they inherit this path.
    sys.path[0:1] = [folder, os.path.join(_PACKAGE_DIRECTORY, "compat", "mxnet_path")]


def _status_after(script: Callable[[], object], is_ours: Callable[[str], bool]) -> int:
    """Run a script and return its exit status; uncaught exceptions print as in the interpreter."""
    try:
        script()
    except SystemExit:
        raise
    except BaseException as error:  # noqa: BLE001 - the interpreter, too, reports every uncaught exception
        trace = _below(error.__traceback__, is_ours)
        if trace is None:  # the module does not exist
            print(f"phonograd: {error}", file=sys.stderr)
        else:
            sys.excepthook(type(error), error.with_traceback(trace), trace)
        return 130 if isinstance(error, KeyboardInterrupt) else 1
    return 0


def profile_script(arguments: argparse.Namespace) -> int:
    """Run a script under the profiler and return its exit status; the report is written even if the script fails."""
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
            print("phonograd: nothing to profile: the script called no operators", file=sys.stderr)
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
    """Return the exit status of a SystemExit as the interpreter computes it."""
    if error.code is None or isinstance(error.code, int):
        return error.code or 0
    print(error.code, file=sys.stderr)
    return 1


def _root() -> str:
    """Return the root directory of the repository checkout, if there is one."""
    return os.path.dirname(os.path.dirname(_PACKAGE_DIRECTORY))


def _has_benchmarks() -> bool:
    return os.path.exists(os.path.join(_root(), "benchmarks", "cli/main.py"))


def run_benchmarks(arguments: Sequence[str]) -> int:
    """Run the benchmarks of a repository checkout and return their exit status."""
    if not _has_benchmarks():
        print(
            "phonograd: the package does not include the benchmarks: run `make bench` in a checkout of the repository",
            file=sys.stderr,
        )
        return 2
    return subprocess.run([sys.executable, "-m", "benchmarks", *arguments], cwd=_root(), check=False).returncode


def _compile_script(path: str) -> CodeType:
    """Compile a script, decoding it with its declared encoding."""
    with open(path, "rb") as file:
        source = file.read()
    encoding, _ = tokenize.detect_encoding(io.BytesIO(source).readline)
    return compile(source.decode(encoding), path, "exec", dont_inherit=True)


def _below(trace: TracebackType | None, is_ours: Callable[[str], bool]) -> TracebackType | None:
    """Return a traceback without our own frames at its beginning."""
    while trace is not None and is_ours(trace.tb_frame.f_code.co_filename):
        trace = trace.tb_next
    return trace


def _version_of(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _processor() -> str:
    """Return the processor's name as reported by the system."""
    names = [platform.processor()]
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
        names = [line.partition(":")[2].strip() for line in file if line.startswith("model name")] or names
    return f"{platform.machine()} ({names[0]})" if names[0] not in ("", platform.machine()) else platform.machine()


def _processor_caches() -> str:
    """Return the caches of the first core as reported by the system."""
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
    """Return whether kernels can be compiled; an installed llvmlite may still not work."""
    from ..core.run import kernel_cache

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoCompilerWarning)
        return kernel_cache.available()


def _executor() -> str:
    """Describe the executor and the reason for it."""
    chosen = settings.current().executor
    if chosen == "reference":
        return f"{chosen} (as set)"
    if not _compiles():
        missing = importlib.util.find_spec("llvmlite") is None
        return f"reference (llvmlite {'is not installed' if missing else 'does not work'}: NumPy evaluates everything)"
    return "native (fused kernels, compiled by LLVM)" if chosen == "auto" else f"{chosen} (as set)"


def _matrix_unit() -> str:
    """Describe the matrix unit and whether it is used."""
    if settings.current().executor == "reference" or not _compiles():
        return "not used (NumPy multiplies)"
    from ..core.run.host import host

    with settings.override(matrix_unit=True):
        machine = host()
    uses = {
        "large float32 products": machine.matrix_unit,
        "int8": machine.dots == "amx",
        "pairs of bfloat16": machine.bfloat16_pairs,
    }
    names = [name for name, is_used in uses.items() if is_used]
    if not names:
        return "not available to this process"
    return f"used for {', '.join(names)}" if settings.current().matrix_unit else "not used (as set)"


def _kernels_on_disk() -> str:
    """Describe the location and size of the kernel cache on disk."""
    folder = settings.current().cache_directory
    if not folder:
        return "disabled"
    sizes = []
    for path, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):  # another process may delete files concurrently
                sizes.append(os.path.getsize(os.path.join(path, name)))
    return f"{sum(sizes) / (1 << 20):.1f} MB in {len(sizes)} files at {folder}"


def complaints() -> list[str]:
    """Return the facts that make this installation slow, each with its remedy."""
    now, found = settings.current(), []
    if now.executor == "reference":
        found.append("PHONOGRAD_EXECUTOR=reference: NumPy evaluates everything. Unset it to compile kernels.")
    elif not _compiles():
        found.append("llvmlite does not work here: NumPy evaluates everything. Run `pip install --upgrade llvmlite`.")
    if now.naive:
        found.append("Every operator is evaluated as it is called. Unset PHONOGRAD_NAIVE and MXNET_ENGINE_TYPE.")
    if not now.native_calls:
        found.append("PHONOGRAD_NATIVE_CALLS=0: operator calls are Python functions, which take longer. Unset it.")
    if not HAS_GIL:
        found.append(
            "Python runs without the GIL: operator calls and launches are Python functions, which take longer."
        )
    if not now.cache_directory:
        found.append("No cache directory: kernels are compiled in every process. Set PHONOGRAD_CACHE_DIRECTORY.")
    elif not os.access(_existing_parent(now.cache_directory), os.W_OK):
        found.append(f"{now.cache_directory} is not writable: kernels are compiled in every process.")
    if now.num_threads < (os.cpu_count() or 1):
        found.append(
            f"{now.num_threads} of {os.cpu_count()} cores are used (PHONOGRAD_NUM_THREADS, or the process's own limit)."
        )
    if now.cpu_level != "native":
        found.append(f"PHONOGRAD_CPU_LEVEL={now.cpu_level}: kernels use no newer instructions.")
    return found


def _existing_parent(folder: str) -> str:
    while not os.path.exists(folder) and os.path.dirname(folder) != folder:
        folder = os.path.dirname(folder)
    return folder


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
        "tuning": processor.source() or "defaults (`phonograd tune` measures this processor)",
        **{name: _version_of(name) for name in ("numpy", "llvmlite", "matplotlib", "pillow", "tqdm")},
        "features": ", ".join(name for name, feature in Features().items() if feature.enabled),
    }
    for field in dataclasses.fields(settings.Settings):
        facts[f"setting {field.name}"] = repr(getattr(settings.current(), field.name))
    width = max(map(len, facts))
    return "\n".join(f"{name:<{width}}  {value}" for name, value in facts.items())
