"""Install the built packages into clean environments, and run a first program in each.

``make package`` builds the wheel and the sdist, and runs this script. It needs the interpreters as arguments, or takes
the one that runs it. The program checks numbers, gradients, type stubs, data files and the command line.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

PROGRAM = """
import pathlib, subprocess, sys
import phonograd as mx
x = mx.nd.array([1.0, 2.0])
x.attach_grad()
with mx.autograd.record():
    y = (x**3).sum()
y.backward()
assert x.grad.asnumpy().tolist() == [3.0, 12.0]
net = mx.gluon.nn.Dense(3)
net.initialize()
assert net(mx.nd.ones((2, 4))).shape == (2, 3)
assert mx.np.sum(mx.np.ones((2, 2))).item() == 4.0
folder = pathlib.Path(mx.__file__).parent
assert (folder / "py.typed").exists() and (folder / "ndarray" / "op.pyi").exists()
assert ">>>" in mx.nd.softsign.__doc__
report = subprocess.run([sys.executable, "-m", "phonograd", "doctor"], capture_output=True, text=True, check=True).stdout
print(sys.version.split()[0], mx.__version__, [line for line in report.splitlines() if line.startswith("executor")][0])
"""


def check(interpreter: str, package: Path) -> None:
    """Install one package with one interpreter and run the program."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([interpreter, "-m", "venv", folder], check=True)
        python = str(Path(folder) / "bin" / "python")
        subprocess.run([python, "-m", "pip", "install", "--quiet", str(package)], check=True)
        subprocess.run([python, "-c", PROGRAM], cwd=folder, check=True)
        sizes = [path.stat().st_size for path in Path(folder).rglob("site-packages/phonograd/**/*") if path.is_file()]
        print(f"{package.name}: phonograd takes {sum(sizes) / 1e6:.1f} MB in {len(sizes)} files")


def main() -> None:
    """Check every package in dist/ with every interpreter."""
    packages = sorted([*Path("dist").glob("*.whl"), *Path("dist").glob("*.tar.gz")])
    if len(packages) != 2:
        raise SystemExit(f"dist/ must hold one wheel and one sdist, not {[path.name for path in packages]}")
    for interpreter in sys.argv[1:] or [sys.executable]:
        for package in packages:
            check(interpreter, package)


if __name__ == "__main__":
    main()
