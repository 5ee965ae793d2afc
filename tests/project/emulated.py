"""Newer processors: run kernels on an emulated Intel processor with AVX-512, VNNI and AMX.

``python -m tests.project.emulated`` starts a small Linux in Bochs, an emulator that knows every instruction of the
processor "Sapphire Rapids". :mod:`tests.project.emulated_program` computes arrays there and on this machine, and the
results are compared: bit for bit where docs/numerics.md promises the same bits, else to within rounding errors.
``make test-emulated`` does so. It needs Linux on x86-64, ``dpkg-deb``, a C++ compiler and ``make``, but no root.

Bochs is built from source (``PHONOGRAD_BOCHS_SOURCE``: a git repository, the project's by default), because packages of
distributions have neither AMX nor, in part, AVX-512. Debian's packages contain Linux, a boot loader and Python; wheels
contain NumPy and llvmlite. All of them are kept below :data:`HOME`. The emulator executes some 30 to 60 million
instructions per second, so the selection of programs is small, and kernels are compiled outside
(:mod:`tests.project.emulated_kernels`).
"""

from __future__ import annotations

import argparse
import compileall
import hashlib
import os
import py_compile
import shutil
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import BinaryIO

from phonograd.core.run.cpu_levels import FEATURES

from .arm import PYTHON, install_wheels, unpack_packages
from .bochs_edits import EDITS, edit
from .versions import ROOT

HOME = Path(os.environ.get("PHONOGRAD_EMULATED_HOME") or Path.home() / ".cache" / "phonograd-emulated")
SOURCE = os.environ.get("PHONOGRAD_BOCHS_SOURCE") or "https://github.com/bochs-emu/Bochs.git"

#: options of Bochs: no window, long mode, and the vector and matrix instructions that packaged versions lack
_OPTIONS = (
    *("--with-nogui", "--without-x", "--enable-cpu-level=6", "--enable-x86-64", "--enable-avx", "--enable-evex"),
    *("--enable-amx", "--enable-all-optimizations", "--enable-cdrom", "--disable-docbook"),
)

#: Debian's packages of Linux, of a shell, of a boot loader and of a program that writes images
_PACKAGES = ("linux-image-cloud-amd64", "busybox-static", "isolinux", "syslinux-common", "xorriso")

#: variants of the processor: the environment of the program
VARIANTS: dict[str, dict[str, str]] = {
    "AVX-512 and AMX": {},
    "AVX-512 without AMX": {"PHONOGRAD_MATRIX_UNIT": "0"},
    "level x86-64-v4": {"PHONOGRAD_CPU_LEVEL": "x86-64-v4"},
}

#: the program, and what LLVM calls the features above x86-64-v4 that kernels are written for
PROGRAM = Path(__file__).with_name("emulated_program.py")
_NEWER = {"avx512vnni", "avx512bf16", "amx-tile", "amx-bf16", "amx-int8"}
#: the last line of a run
_END = "emulated: end"
_CONFIGURATION = """\
megs: 3072
cpu: model=sapphire_rapids, count=1, ips=50000000, reset_on_triple_fault=0
romimage: file={bios}/BIOS-bochs-latest
vgaromimage: file={bios}/VGABIOS-lgpl/VGABIOS-lgpl-latest.bin
ata0-master: type=cdrom, path={image}, status=inserted
boot: cdrom
com1: enabled=1, mode=file, dev={output}
display_library: nogui
log: {log}
clock: sync=none
panic: action=fatal
error: action=report
info: action=ignore
debug: action=ignore
"""
#: with one of the features that are left out here (fast string moves, INVPCID, SMAP, indirect branch tracking) Linux 6.1
#: stops on Bochs while it changes its own code; programs do not need them
_BOOT = """\
DEFAULT linux
LABEL linux
  KERNEL /vmlinuz
  INITRD /initrd
  APPEND console=ttyS0,115200 quiet mitigations=off panic=-1 clearcpuid=580,297,298,308 ibt=off
"""


def build_emulator() -> Path:
    """Return the directory of Bochs with its program and its BIOS; build it if there is none."""
    folder = HOME / "bochs" / "bochs"
    edits = hashlib.sha256(repr(EDITS).encode()).hexdigest()
    done = HOME / "bochs" / "edits"
    if done.exists() and done.read_text("utf-8") == edits:
        return folder
    repository = HOME / "bochs.git"
    if not repository.exists():
        subprocess.run(["git", "clone", "--quiet", "--bare", "--depth=1", SOURCE, repository], check=True)
    shutil.rmtree(folder.parent, ignore_errors=True)
    folder.parent.mkdir(parents=True)
    # firmware of other kinds is not needed, and missing in some mirrors
    wanted = ("bochs", ":(exclude)bochs/bios/OVMF")
    packed = subprocess.run(
        ["git", "-C", repository, "archive", "HEAD", "--", *wanted], capture_output=True, check=True
    )
    subprocess.run(["tar", "x", "-C", folder.parent], input=packed.stdout, check=True)
    edit(folder / "cpu")
    subprocess.run(["sh", "configure", *_OPTIONS], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["make", f"-j{os.cpu_count() or 1}"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    done.write_text(edits, "utf-8")
    return folder


def _copy(source: Path, target: Path) -> None:
    shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True)


def _compile(folder: Path, root: Path) -> None:
    """Write the byte code of Python files, if the emulated computer has this version of Python."""
    if f"{sys.version_info.major}.{sys.version_info.minor}" == PYTHON:
        mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
        compileall.compile_dir(folder, quiet=2, force=True, invalidation_mode=mode, stripdir=root, prependdir="/")


def _compile_kernels(path: Path, variables: dict[str, str]) -> None:
    """Write the kernels of the program for a variant of the processor."""
    level = variables.get("PHONOGRAD_CPU_LEVEL")
    features = FEATURES["x86-64-v4"] if level else FEATURES["x86-64-v4"] | _NEWER
    command = [sys.executable, "-W", "ignore", PROGRAM.with_name("emulated_kernels.py")]
    subprocess.run(
        [*command, path, level or "sapphirerapids", ",".join(sorted(features))],
        env={**os.environ, **variables, "PYTHONPATH": str(ROOT / "src")},
        check=True,
    )


def write_archive(folder: Path, file: BinaryIO) -> None:
    """Write the files of a directory in the form that Linux unpacks into memory (cpio, "newc").

    >>> import io, tempfile
    >>> target = io.BytesIO()
    >>> with tempfile.TemporaryDirectory() as name:
    ...     _ = (Path(name) / "a").write_text("text")
    ...     write_archive(Path(name), target)
    >>> target.getvalue().count(b"070701"), len(target.getvalue()) % 4
    (2, 0)
    """

    def write(name: str, mode: int, data: bytes, number: int) -> None:
        encoded = name.encode() + b"\0"
        words = (number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(encoded), 0)
        head = b"070701" + "".join([f"{word:08x}" for word in words]).encode() + encoded
        file.write(head + bytes(-len(head) % 4))
        file.write(data + bytes(-len(data) % 4))

    for number, path in enumerate(sorted(folder.rglob("*")), 1):
        mode, name = path.lstat().st_mode, str(path.relative_to(folder))
        if stat.S_ISLNK(mode):
            write(name, mode, os.readlink(path).encode(), number)
        else:
            write(name, mode, path.read_bytes() if stat.S_ISREG(mode) else b"", number)
    write("TRAILER!!!", 0, b"", 0)


def make_image(arguments: list[str]) -> Path:
    """Return a bootable image with Linux, Python, this library and the program."""
    packages, root, wheels = HOME / "packages", HOME / "root", HOME / "wheels"
    unpack_packages("amd64", _PACKAGES, packages, True)
    unpack_packages("amd64", (f"python{PYTHON}", "libstdc++6"), root, True)
    install_wheels(wheels, "x86_64")
    for name in ("share", "sbin", "include"):
        shutil.rmtree(root / "usr" / name, ignore_errors=True)
    memory, disk = HOME / "memory", HOME / "disk"
    shutil.rmtree(memory, ignore_errors=True)
    for folder in (root / "usr" / "lib", wheels / "numpy", wheels / "llvmlite"):
        if not (folder / ".compiled").exists():
            _compile(folder, HOME)
            (folder / ".compiled").touch()
    _copy(root, memory)
    for name in ("dev", "proc", "sys", "tmp", "work/tests"):
        (memory / name).mkdir(parents=True, exist_ok=True)
    _copy(ROOT / "src" / "phonograd", memory / "work" / "phonograd")
    _compile(memory / "work" / "phonograd", memory)
    for name in ("numpy", "numpy.libs", "llvmlite"):
        _copy(wheels / name, memory / "work" / name)
    shutil.rmtree(memory / "work" / "numpy" / "_core" / "tests", ignore_errors=True)
    shutil.copy(PROGRAM, memory / "work" / "program.py")
    (memory / "bin").mkdir(exist_ok=True)
    shutil.copy(packages / "bin" / "busybox", memory / "bin" / "busybox")
    runs = []
    for name, variables in VARIANTS.items():
        if not arguments or name in arguments:
            file = f"/work/{len(runs)}.bin"
            _compile_kernels(memory / file[1:], variables)
            words = " ".join([f"{key}={value}" for key, value in variables.items()])
            runs += [
                f'echo "emulated: {name}"',
                f"/bin/busybox cp {file} /work/phonograd/core/run/prebuilt-x86-64-v4.bin",
                f"{words} /usr/bin/python{PYTHON} -X faulthandler -B /work/program.py 2>&1",
            ]
    start = [
        "#!/bin/busybox sh",
        *(f"/bin/busybox mount -t {kind} none {place}" for kind, place in (("proc", "/proc"), ("sysfs", "/sys"))),
        "/bin/busybox mount -t devtmpfs none /dev; /bin/busybox mount -t tmpfs none /tmp",
        # NumPy's products need not be tested, and newer code of OpenBLAS may use more than Bochs knows
        "export OPENBLAS_CORETYPE=Haswell PHONOGRAD_TUNING=off PHONOGRAD_QUICK_KERNELS=0 PHONOGRAD_PLANNER=thread",
        "export HOME=/tmp PHONOGRAD_CACHE_DIRECTORY=/tmp/cache PYTHONPATH=/work",
        *runs,
        f'echo "{_END}"',
        "while true; do /bin/busybox sleep 1000; done",
    ]
    (memory / "init").write_text("\n".join(start) + "\n", "utf-8")
    (memory / "init").chmod(0o755)
    shutil.rmtree(disk, ignore_errors=True)
    (disk / "isolinux").mkdir(parents=True)
    shutil.copy(next((packages / "boot").glob("vmlinuz-*")), disk / "vmlinuz")
    for path in ("usr/lib/ISOLINUX/isolinux.bin", "usr/lib/syslinux/modules/bios/ldlinux.c32"):
        shutil.copy(packages / path, disk / "isolinux")
    (disk / "isolinux" / "isolinux.cfg").write_text(_BOOT, "utf-8")
    with (disk / "initrd").open("wb") as file:
        write_archive(memory, file)
    image = HOME / "image.iso"
    libraries = packages / "usr" / "lib" / "x86_64-linux-gnu"
    command = [
        str(packages / "usr" / "bin" / "xorriso"),
        "-as",
        "mkisofs",
        "-quiet",
        "-iso-level",
        "3",
        "-o",
        str(image),
    ]
    command += ["-b", "isolinux/isolinux.bin", "-c", "isolinux/boot.cat", "-no-emul-boot", "-boot-load-size", "4"]
    command += ["-boot-info-table", str(disk)]
    subprocess.run(command, env={**os.environ, "LD_LIBRARY_PATH": str(libraries)}, check=True)
    return image


def emulate(folder: Path, image: Path, limit: float) -> list[str]:
    """Run the image until its last line, and return the lines."""
    output, log = HOME / "output.txt", HOME / "bochs.log"
    output.unlink(missing_ok=True)
    configuration = HOME / "bochsrc"
    values = {"bios": folder / "bios", "image": image, "output": output, "log": log}
    configuration.write_text(_CONFIGURATION.format(**values), "utf-8")
    variables = {**os.environ, "BXSHARE": str(folder / "bios")}
    command = [folder / "bochs", "-q", "-f", configuration]
    process = subprocess.Popen(
        command, env=variables, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT
    )
    start, shown = time.monotonic(), 0
    lines: list[str] = []
    try:
        while time.monotonic() - start < limit:
            ended = process.poll() is not None
            text = output.read_text("utf-8", "replace") if output.exists() else ""
            lines = text.replace("\r", "").split("\n")
            for line in lines[shown:-1]:
                print(f"{time.monotonic() - start:6.0f} s  {line}", flush=True)
            shown = max(shown, len(lines) - 1)
            if _END in lines:
                return lines
            if ended:
                raise SystemExit(f"Bochs ended with {process.returncode}; its messages are in {log}")
            time.sleep(1)
    finally:
        process.kill()
        process.wait()
    raise SystemExit(f"the emulated computer has not finished within {limit:.0f} s; {output} has its lines")


def read_results(lines: list[str]) -> dict[str, dict[str, tuple[str, float]]]:
    """Return the digest and the relative error of each array, by run.

    >>> read_results(["emulated: a", "result same x 12ab 0.5", "noise"])
    {'a': {'same x': ('12ab', 0.5)}}
    """
    found: dict[str, dict[str, tuple[str, float]]] = {}
    run: dict[str, tuple[str, float]] = {}
    for line in lines:
        if line.startswith("emulated: "):
            run = found[line.removeprefix("emulated: ")] = {}
        elif line.startswith("result "):
            *name, digest, error = line.split(" ")[1:]
            run[" ".join(name)] = digest, float(error)
    return found


def compare(here: dict[str, tuple[str, float]], there: dict[str, tuple[str, float]], matrix_unit: bool) -> list[str]:
    """Return what is wrong with results of another processor.

    >>> here = {"same x": ("1", 0.0), "close y": ("2", 1e-7), "product z": ("3", 1e-7)}
    >>> there = {"same x": ("1", 0.0), "close y": ("5", 1e-7), "product z": ("6", 1e-7)}
    >>> compare(here, there, matrix_unit=True)
    []
    >>> compare(here, there, matrix_unit=False)
    ['product z: other bits than here']
    """
    problems = [f"{name}: missing" for name in here.keys() - there.keys()]
    for name, (digest, error) in there.items():
        # products of float32 use the matrix unit, and convolutions the width of vectors
        kinds = ("same", "product") if not matrix_unit else ("same",)
        if name.split()[0] in kinds and digest != here[name][0]:
            problems.append(f"{name}: other bits than here")
        if not error <= 1:
            problems.append(f"{name}: an error of {error:.3g} times the tolerance")
    return problems


def main(arguments: list[str]) -> int:
    """Run the programs here and there, compare, and return 1 if a result is wrong."""
    parser = argparse.ArgumentParser("python -m tests.project.emulated", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("variant", nargs="*", help=f"which to run (default: all): {', '.join(VARIANTS)}")
    parser.add_argument("--limit", type=float, default=3600.0, help="seconds that the emulated computer may take")
    options = parser.parse_args(arguments)
    HOME.mkdir(parents=True, exist_ok=True)
    folder, image = build_emulator(), make_image(options.variant)
    variables = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "src"),
        "PHONOGRAD_CPU_LEVEL": "x86-64-v3",
        "PHONOGRAD_TUNING": "off",
    }
    variables["PHONOGRAD_CACHE_DIRECTORY"] = str(HOME / "kernels")
    native = subprocess.run([sys.executable, PROGRAM], env=variables, capture_output=True, text=True, check=True)
    here = read_results(["emulated: here", *native.stdout.splitlines()])["here"]
    assert not compare(here, here, False), compare(here, here, False)
    wrong = 0
    for name, there in read_results(emulate(folder, image, options.limit)).items():
        if name not in VARIANTS:
            continue
        problems = compare(here, there, matrix_unit=not VARIANTS[name])
        wrong += bool(problems)
        print(f"{name}: {len(there)} arrays, {len(problems)} problems", *problems, sep="\n  ")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
