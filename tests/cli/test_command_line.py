"""``python -m phonograd``: scripts run as under ``python``, and information is printed."""

import os
import subprocess
import sys

import pytest

import phonograd
from phonograd.cli.main import main

SOURCE = os.path.dirname(os.path.dirname(phonograd.__file__))


def phonograd_command(*arguments, cwd=None):
    environment = {**os.environ, "PYTHONPATH": SOURCE}
    command = [sys.executable, "-m", "phonograd", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=cwd)


def test_a_script_sees_itself_as_the_main_program(tmp_path):
    (tmp_path / "neighbour.py").write_text("name = 'next door'\n")
    script = tmp_path / "script.py"
    script.write_text("""\
import sys, os, __main__
import neighbour
import mxnet as mx
from mxnet import nd, autograd

class Thing:
    pass

if __name__ == "__main__":
    x = nd.array([3.0])
    x.attach_grad()
    with autograd.record():
        y = x * x
    y.backward()
    print(x.grad.asscalar(), mx.__version__, neighbour.name)
    print(sys.argv, __file__, sys.path[0])
    print(__main__.Thing is Thing, Thing.__module__, __spec__, __package__)
    sys.exit(7)
""")
    result = phonograd_command("run", script, "--lr", "0.1", "--", "-h")
    assert result.stderr == ""
    assert result.returncode == 7
    assert result.stdout.splitlines() == [
        "6.0 1.9.1 next door",
        f"{[str(script), '--lr', '0.1', '--', '-h']} {script} {tmp_path}",
        "True __main__ None None",
    ]


def test_tracebacks_begin_with_the_script(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import mxnet as mx\n\ndef f():\n    raise KeyError('lost')\n\nf()\n")
    result = phonograd_command("run", script)
    assert result.returncode == 1
    assert result.stderr.startswith(f'Traceback (most recent call last):\n  File "{script}", line 6, in <module>\n')
    assert "KeyError: 'lost'" in result.stderr
    assert "cli/main.py" not in result.stderr


def test_syntax_errors_and_missing_files(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("x = = 1\n")
    result = phonograd_command("run", script)
    assert result.returncode == 1
    assert "SyntaxError" in result.stderr
    assert "cli/main.py" not in result.stderr
    result = phonograd_command("run", "missing.py", cwd=tmp_path)
    assert result.returncode == 2
    assert result.stderr == "phonograd: cannot open 'missing.py': No such file or directory\n"


def test_scripts_may_declare_an_encoding(tmp_path):
    script = tmp_path / "script.py"
    script.write_bytes("# -*- coding: latin-1 -*-\nprint(ascii('größe'))\n".encode("latin-1"))
    result = phonograd_command("run", script)
    assert result.stdout == "'gr\\xf6\\xdfe'\n"


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_worker_processes_find_mxnet_too(tmp_path, method):
    script = tmp_path / "script.py"
    script.write_text("""\
import multiprocessing
import sys
import mxnet as mx

def work(value):
    return float(mx.nd.array([value]).asscalar()) * 2, mx.__version__

if __name__ == "__main__":
    with multiprocessing.get_context(sys.argv[1]).Pool(1) as pool:
        print(pool.map(work, [1.0, 2.0]))
""")
    result = phonograd_command("run", script, method)
    assert result.stderr == ""
    assert result.stdout == "[(2.0, '1.9.1'), (4.0, '1.9.1')]\n"


def test_information(capsys):
    assert main(["info"]) == 0
    facts = dict(line.split("  ", 1) for line in capsys.readouterr().out.splitlines())
    names = {name.strip(): value.strip() for name, value in facts.items()}
    assert names["phonograd"].startswith(phonograd.__version__)
    assert names["numpy"][0].isdigit()
    assert "setting executor" in names
    assert names["threads"].isdigit()
    assert names["executor"].split()[0] in ("native", "reference")
    assert {"processor", "processor caches", "matrix unit", "kernels on disk"} <= set(names)


def test_information_where_the_compiler_does_not_work():
    hidden = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "without_llvmlite")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([hidden, SOURCE])}
    environment.pop("PHONOGRAD_EXECUTOR", None)
    command = [sys.executable, "-W", "error", "-m", "phonograd", "info"]
    result = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert (result.returncode, result.stderr) == (0, "")
    assert "reference (llvmlite does not work: NumPy evaluates everything)" in result.stdout
    assert "not used (NumPy multiplies)" in result.stdout


def test_help_and_wrong_arguments(capsys):
    for arguments, status in ([["--help"], 0], [["run", "--help"], 0], [["--version"], 0], [[], 2], [["run"], 2]):
        with pytest.raises(SystemExit) as caught:
            main(arguments)
        assert caught.value.code == status
    assert "usage: phonograd" in capsys.readouterr().out


def test_the_demonstration_has_its_own_options(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["demo", "--help"])
    assert caught.value.code == 0
    assert "usage:" in capsys.readouterr().out


def test_a_script_is_profiled(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("""\
import sys
import mxnet as mx
from mxnet.gluon import nn

net = nn.Dense(3, prefix="layer_")
net.initialize()
print(net(mx.nd.ones((2, 4))).shape, sys.argv[1:])
sys.exit(5)
""")
    result = phonograd_command("profile", "--output", "report.html", script, "--lr", "0.1", cwd=tmp_path)
    assert result.returncode == 5
    assert "(2, 3) ['--lr', '0.1']" in result.stdout
    assert "FullyConnected" in result.stdout
    assert f"report: {tmp_path / 'report.html'}" in result.stdout
    assert "layer" in (tmp_path / "report.html").read_text(encoding="utf-8")
    result = phonograd_command("profile", "--output", "trace.json", script, cwd=tmp_path)
    assert (tmp_path / "trace.json").exists()


def test_a_script_that_fails_is_profiled_too(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import mxnet as mx\nmx.nd.ones((2,)).asnumpy()\nraise KeyError('lost')\n")
    result = phonograd_command("profile", script, cwd=tmp_path)
    assert result.returncode == 1
    assert "KeyError: 'lost'" in result.stderr
    assert (tmp_path / "phonograd-profile.html").exists()


def test_everything_behind_two_dashes_is_the_script(tmp_path, capsys):
    script = tmp_path / "script.py"
    script.write_text("import sys; print('arguments', sys.argv[1:])")
    assert phonograd_command("run", "--", script, "-x", "y").stdout == "arguments ['-x', 'y']\n"
    for command in ("run", "profile"):
        with pytest.raises(SystemExit):
            main([command])
        assert capsys.readouterr().err.rstrip().endswith("required: script")


def test_information_that_nobody_reads_to_its_end():
    reading, writing = os.pipe()
    os.close(reading)
    environment = {**os.environ, "PYTHONPATH": SOURCE}
    command = [sys.executable, "-m", "phonograd", "info"]
    finished = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, env=environment)
    os.close(writing)
    assert (finished.returncode, finished.stderr) == (0, "")


def test_errors_of_profile_and_bench(tmp_path, capsys, monkeypatch):
    assert main(["profile", "--output", "report.txt", "script.py"]) == 2
    assert "must end in .html" in capsys.readouterr().err
    assert main(["profile", "--output", str(tmp_path / "nowhere" / "report.html"), "script.py"]) == 2
    assert "there is no directory" in capsys.readouterr().err
    monkeypatch.setattr("phonograd.cli.main.__file__", str(tmp_path / "a" / "b" / "c" / "cli/main.py"))
    assert main(["bench"]) == 2
    assert "checkout of the repository" in capsys.readouterr().err
    for command in ("bench", "profile"):
        with pytest.raises(SystemExit) as caught:
            main([command, "--help"])
        assert caught.value.code == 0


PACKAGE = {
    "__init__.py": "import mxnet\n",
    "sibling.py": "value = 3\n",
    "train.py": """\
import multiprocessing
import sys
import mxnet as mx
from .sibling import value

def work(number):
    return float(mx.nd.array([number]).asscalar()) * value

if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(sys.argv[1:], __package__, pool.map(work, [1.0, 2.0]))
    raise KeyError("lost") if "fail" in sys.argv else SystemExit(4)
""",
}


def test_modules_are_run_with_their_packages(tmp_path):
    (tmp_path / "package").mkdir()
    for name, text in PACKAGE.items():
        (tmp_path / "package" / name).write_text(text)
    result = phonograd_command("run", "-m", "package.train", "--lr", "1", cwd=tmp_path)
    assert (result.returncode, result.stderr) == (4, "")
    assert result.stdout == "['--lr', '1'] package [3.0, 6.0]\n"
    result = phonograd_command("profile", "--output", "a.CSV", "-m", "package.train", "fail", cwd=tmp_path)
    assert result.returncode == 1
    trace = f'Traceback (most recent call last):\n  File "{tmp_path / "package" / "train.py"}", line 12'
    assert result.stderr.startswith(trace)
    result = phonograd_command("run", "-m", "package.missing", cwd=tmp_path)
    assert result.returncode == 1
    assert result.stderr == "phonograd: No module named package.missing\n"


def test_reports_that_cannot_be_written(tmp_path, capsys):
    script = tmp_path / "script.py"
    script.write_text("import mxnet as mx\nmx.nd.ones((2,)).asnumpy()\nprint('done')\n")
    assert main(["profile", "--output", str(tmp_path / "missing.html"), str(tmp_path / "none.py")]) == 2
    assert capsys.readouterr().err.count("phonograd:") == 1
    (tmp_path / "folder.html").mkdir()
    assert main(["profile", "--output", str(tmp_path / "folder.html"), str(script)]) == 2
    assert "is a directory" in capsys.readouterr().err
    if os.path.isdir("/proc"):
        result = phonograd_command("profile", "--output", "/proc/report.html", script)
        assert result.returncode == 1 if os.access("/proc", os.W_OK) else 2
        assert "Traceback" not in result.stderr
        assert "/proc" in result.stderr


def test_tables_that_nobody_reads_to_their_end(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import mxnet as mx\nmx.nd.ones((2,)).asnumpy()\n")
    reading, writing = os.pipe()
    os.close(reading)
    environment = {**os.environ, "PYTHONPATH": SOURCE}
    command = [sys.executable, "-m", "phonograd", "profile", str(script)]
    finished = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, env=environment, cwd=tmp_path)
    os.close(writing)
    assert (finished.returncode, finished.stderr) == (1, "")
    assert (tmp_path / "phonograd-profile.html").exists()
