"""Linux on ARM: run the smoke and kernel tests as an aarch64 process on this processor.

``python -m tests.project.arm`` downloads Debian's packages of QEMU and of an aarch64 Python, and wheels of NumPy,
llvmlite and pytest for aarch64, unpacks them below :data:`HOME`, and runs :data:`TESTS` or the tests that are named.
``make test-arm`` does so. It needs ``dpkg-deb``, no root and no registration with the kernel: the loader of the root file
system runs Python with its libraries, and a process that tests start is the wrapper script again. QEMU's option ``-L``
is of no use here: it maps absolute paths, "/" among them, into the root file system, but not relative ones, so that
the checks of private directories walk along another path.

Processes are 20 to 50 times slower than native ones, so the selection is small.
"""

from __future__ import annotations

import argparse
import lzma
import os
import re
import shlex
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

from .versions import ROOT, requirements

HOME = Path(os.environ.get("PHONOGRAD_ARM_HOME") or Path.home() / ".cache" / "phonograd-arm")
MIRROR = os.environ.get("PHONOGRAD_DEBIAN_MIRROR") or "http://deb.debian.org/debian"
RELEASE = "bookworm"

#: the Python of that release
PYTHON = "3.11"

#: tests of every layer, of kernels, of caches and of the compiler; those that start many processes or multiply large
#: matrices take minutes each, and can be named
TESTS = (
    "tests/smoke",
    "tests/core/kernels/test_kernels.py",
    "tests/core/run/test_compiler.py",
    "tests/core/run/test_cpu_levels.py",
    "tests/core/run/test_disk_cache.py",
    "tests/core/run/test_elf_loader.py",
    "tests/core/run/test_prebuilt.py",
    "tests/core/run/test_ufuncs.py",
    "tests/core/run/test_private_directory.py",
)

#: packages that the tests import; a package without wheels for aarch64 would stop the installation
_TOOLS = ("pytest>=8.0", "hypothesis>=6.100", "pillow>=10.0", "tqdm>=4.60", "typing_extensions")


def _download(url: str, target: Path) -> Path:
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_name(f"{target.name}.part")
        with urllib.request.urlopen(url, timeout=180) as answer:
            part.write_bytes(answer.read())
        part.rename(target)
    return target


def read_index(text: str) -> dict[str, dict[str, str]]:
    """Return the fields of each package in an index of Debian, by the package's name.

    >>> read_index("Package: a\\nDepends: b (>= 2), c | d\\n\\nPackage: b\\nFilename: pool/b.deb\\n")["a"]["Depends"]
    'b (>= 2), c | d'
    """
    packages = {}
    for block in text.split("\n\n"):
        fields = dict(re.findall(r"^([\w-]+): (.*)$", block, re.MULTILINE))
        if "Package" in fields:
            packages[fields["Package"]] = fields
    return packages


def closure(index: dict[str, dict[str, str]], names: tuple[str, ...]) -> list[str]:
    """Return packages with all that they depend on; of alternatives the first that exists.

    >>> closure({"a": {"Depends": "x | b (>= 2)"}, "b": {"Pre-Depends": "c:any"}, "c": {}}, ("a",))
    ['a', 'b', 'c']
    """
    found: list[str] = []
    waiting = list(names)
    while waiting:
        name = waiting.pop(0)
        if name in found:
            continue
        found.append(name)
        for field in ("Pre-Depends", "Depends"):
            for group in filter(None, index[name].get(field, "").split(", ")):
                choices = [re.split(r"[ :(]", choice.strip())[0] for choice in group.split("|")]
                waiting += [choice for choice in choices if choice in index][:1]
    return found


def unpack_packages(architecture: str, names: tuple[str, ...], target: Path, follow: bool) -> None:
    """Unpack packages of Debian, and the packages that they depend on, into a directory."""
    ready = target / ".ready"
    wanted = f"{RELEASE} {architecture} {' '.join(names)}\n"
    if ready.exists() and ready.read_text("utf-8") == wanted:
        return
    url = f"{MIRROR}/dists/{RELEASE}/main/binary-{architecture}/Packages.xz"
    packed = _download(url, HOME / "packages" / f"{architecture}.xz")
    index = read_index(lzma.decompress(packed.read_bytes()).decode("utf-8"))
    target.mkdir(parents=True, exist_ok=True)
    for name in closure(index, names) if follow else names:
        path = index[name]["Filename"]
        package = _download(f"{MIRROR}/{path}", HOME / "packages" / Path(path).name)
        subprocess.run(["dpkg-deb", "-x", package, target], check=True)
    ready.write_text(wanted, "utf-8")


def install_wheels(target: Path, machine: str) -> None:
    """Install the wheels for another machine into a directory."""
    names = [*requirements()[0], *_TOOLS]
    ready = target / ".ready"
    if ready.exists() and ready.read_text("utf-8") == repr(names):
        return
    platforms = [f"manylinux_2_{minor}_{machine}" for minor in range(36, 16, -1)] + [f"manylinux2014_{machine}"]
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--upgrade", "--target", target]
    command += ["--only-binary", ":all:", "--implementation", "cp", "--python-version", PYTHON]
    for platform in platforms:
        command += ["--platform", platform]
    subprocess.run([*command, *names], check=True)
    ready.write_text(repr(names), "utf-8")


def prepare() -> Path:
    """Return the wrapper script that runs Python as an aarch64 process."""
    if sys.platform != "linux":
        raise SystemExit("QEMU's user mode needs Linux")
    tools, root, wheels = HOME / "tools", HOME / "root", HOME / "wheels"
    unpack_packages("amd64", ("qemu-user-static",), tools, follow=False)
    unpack_packages("arm64", (f"python{PYTHON}", "libstdc++6"), root, follow=True)
    install_wheels(wheels, "aarch64")
    wrapper = HOME / f"python{PYTHON}"
    start = HOME / "start"
    start.mkdir(exist_ok=True)
    # the name of the interpreter that tests start: the kernel cannot execute the aarch64 file itself
    (start / "sitecustomize.py").write_text(f"import sys\nsys.executable = {str(wrapper)!r}\n", "utf-8")
    qemu = tools / "usr" / "bin" / "qemu-aarch64-static"
    libraries = ":".join([str(root / place / "aarch64-linux-gnu") for place in ("lib", "usr/lib")])
    loader, program = root / "lib" / "ld-linux-aarch64.so.1", root / "usr" / "bin" / f"python{PYTHON}"
    command = shlex.join(map(str, (qemu, loader, "--library-path", libraries, program)))
    path = shlex.quote(":".join(map(str, (start, ROOT / "src", wheels))))
    # /usr/bin of the file system has no "python3": PYTHONHOME tells where the library is
    wrapper.write_text(
        "#!/bin/sh\n"
        f'PYTHONPATH={path}"${{PYTHONPATH:+:$PYTHONPATH}}" PYTHONHOME={shlex.quote(str(root / "usr"))} exec {command} "$@"\n',
        "utf-8",
    )
    wrapper.chmod(0o755)
    return wrapper


def main(arguments: list[str]) -> int:
    """Run the tests; return pytest's code."""
    parser = argparse.ArgumentParser("python -m tests.project.arm", description="Further arguments go to pytest.")
    parser.add_argument("--shell", metavar="CODE", help="run Python code instead of tests")
    options, further = parser.parse_known_args(arguments)
    wrapper = prepare()
    dropped = ("PYTHONPATH", "PYTHONHOME", "PHONOGRAD_EXECUTOR", "VIRTUAL_ENV")
    variables = {name: value for name, value in os.environ.items() if name not in dropped}
    variables["PHONOGRAD_CACHE_DIRECTORY"] = str(HOME / "kernels")
    # the tests that limit the time of a process multiply it
    variables["PHONOGRAD_TEST_SLOWNESS"] = "10"
    if options.shell:
        return subprocess.run([wrapper, "-c", options.shell], cwd=ROOT, env=variables, check=False).returncode
    command = [
        wrapper,
        "-X",
        "faulthandler",
        "-m",
        "pytest",
        "-q",
        "-m",
        "not slow",
        "-p",
        "no:cacheprovider",
        *further,
    ]
    if not any([argument.startswith("tests/") for argument in further]):
        command += TESTS
    start = time.monotonic()
    code = subprocess.run(command, cwd=ROOT, env=variables, check=False).returncode
    print(f"aarch64, Python {PYTHON}: pytest ended with {code} after {time.monotonic() - start:.0f} s")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
