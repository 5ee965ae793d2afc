"""Rates of the processor: read, stored and checked, and without influence on results."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from phonograd import settings
from phonograd.cli import tune
from phonograd.core.base import processor
from phonograd.core.base.processor import RANGES, Choices, Facts, Rates, choose

#: prints a digest of results of kernels of all kinds, planned and operator by operator
PROGRAM = """
import hashlib
import numpy as np
import phonograd as mx
from phonograd import autograd, gluon, nd
from phonograd.core.base import processor

mx.settings.update(num_threads=8)
digest = hashlib.sha256()
random = np.random.RandomState(3)


def note(*arrays):
    for array in arrays:
        digest.update(array.asnumpy().tobytes())


def array(*shape, dtype="float32"):
    return nd.array(random.normal(size=shape), dtype=dtype)


for tiers in ("background", "plan"):
    with mx.settings.override(tiers=tiers):
        mx.random.seed(1)
        x, y = array(150, 700), array(150, 700)
        note(nd.tanh(x) * nd.exp(y), nd.sum(x * y, axis=0), nd.sum(x), nd.softmax(x), nd.cumsum(y, axis=1))
        note(nd.random.normal(shape=(70_001,)), nd.Dropout(x, p=0.3, mode="always"), nd.norm(array(300_000)))
        note(nd.dot(array(300, 500), array(500, 200)), nd.batch_dot(array(3, 65, 33), array(3, 33, 70)))
        note(nd.dot(x.astype("float16"), y.astype("float16"), transpose_b=True), nd.linalg.potrf(nd.dot(x, x.T)))
        query, table = array(2, 320, 8), array(50, 9)
        table.attach_grad()
        query.attach_grad()
        with autograd.record():
            scores = nd.softmax(nd.batch_dot(query, query, transpose_b=True))
            z = nd.sum(nd.batch_dot(scores, query)) + nd.sum(nd.take(table, nd.arange(40)) ** 2)
        z.backward()
        note(z, query.grad, table.grad)
        for kernel, stride, channels, groups in ((3, 1, 16, 1), (5, 1, 16, 1), (3, 2, 5, 1), (1, 1, 16, 1), (3, 1, 16, 16)):
            data, weight = array(2, channels, 15, 14), array(16, channels // groups, kernel, kernel)
            data.attach_grad()
            weight.attach_grad()
            with autograd.record():
                out = nd.Convolution(data, weight, kernel=(kernel,) * 2, stride=(stride,) * 2, pad=(1, 1),
                                     num_filter=16, num_group=groups, no_bias=True)
                out = nd.Pooling(nd.relu(out), kernel=(2, 2), pool_type="avg")
            out.backward()
            note(out, data.grad, weight.grad)
        net = gluon.rnn.LSTM(20, input_size=12)
        net.initialize(mx.init.Xavier())
        with autograd.record():
            loss = net(array(7, 5, 12)).sum()
        loss.backward()
        note(loss, *[parameter.grad() for parameter in net.collect_params().values()])
with mx.settings.override(tiers="plan", memory_limit_bytes=3_000_000):
    weights = [array(60, 60) for _ in range(6)]
    for weight in weights:
        weight.attach_grad()
    with autograd.record():
        h = array(2000, 60)
        for weight in weights:
            h = nd.tanh(nd.dot(h, weight))
    h.backward()
    note(*[weight.grad for weight in weights])
print(digest.hexdigest(), tuple(processor.choices()))
"""


@pytest.fixture(autouse=True)
def _unread() -> Iterator[None]:
    """Forget the rates that were read before and after each test."""
    processor._load.cache_clear()
    yield
    processor._load.cache_clear()


def write(path: Path, rates: dict[str, object], version: int = 1) -> Path:
    """Write a tuning file."""
    path.write_text(json.dumps({"format": version, "processor": "?", "rates": rates}))
    return path


def compute(tuning: str) -> list[str]:
    """Return the digest of results in a process with a tuning file, and its choices."""
    variables = {**os.environ, "PHONOGRAD_TUNING": tuning, "PYTHONWARNINGS": "ignore::RuntimeWarning"}
    found = subprocess.run([sys.executable, "-c", PROGRAM], env=variables, capture_output=True, text=True, check=True)
    return found.stdout.split(maxsplit=1)


def end(which: int) -> dict[str, object]:
    """Return the lowest or the highest rates."""
    return {name: limits[which] for name, limits in RANGES.items()}


def test_no_rate_changes_a_bit(tmp_path: Path) -> None:
    digest, usual = compute("off")
    found, choices = compute(str(write(tmp_path / "low.json", end(0))))
    assert (found, choices != usual) == (digest, True)


@pytest.mark.slow
def test_no_combination_of_rates_changes_a_bit(tmp_path: Path) -> None:
    digest, usual = compute("off")
    seen = {usual}
    for number, rates in enumerate([end(1), *[{**end(0), name: end(1)[name]} for name in Rates._fields]]):
        found, choices = compute(str(write(tmp_path / f"{number}.json", rates)))
        assert found == digest, rates
        seen.add(choices)
    assert len(seen) == 2 + len(Rates._fields)


def test_no_process_is_started_where_a_file_names_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> str:
        raise AssertionError("platform.processor starts a process")

    monkeypatch.setattr(platform, "processor", refuse)
    lines = {"/proc/cpuinfo": ["processor : 0", "model name\t: A Model 3: fast", "model name : another"]}
    monkeypatch.setattr(processor, "_lines", lambda name: lines.get(name, []))
    assert processor.facts.__wrapped__().model == "A Model 3: fast"
    lines.clear()
    monkeypatch.setattr(platform, "processor", lambda: "")
    assert processor.facts.__wrapped__().model == platform.machine()


def test_choices_follow_the_processor() -> None:
    assert choose(Facts(), Rates()) == Choices()
    small, large = choose(Facts(level2_bytes=1 << 18), Rates()), choose(Facts(level2_bytes=1 << 24), Rates())
    assert small.near_bytes < Choices().near_bytes < large.near_bytes
    slow = choose(Facts(), Rates(multiplications_per_second=1e9, bytes_per_second=1e9, node_seconds=1e-2))
    assert slow.chunk_scale < 1
    assert slow.node_ns == 10_000_000
    for facts in (Facts(cores=1), Facts(cores=4096, level2_bytes=1 << 40)):
        for ends in (0, 1):
            made = choose(facts, Rates(*[limits[ends] for limits in RANGES.values()]))
            assert all([value > 0 for value in made])


def test_stored_rates_are_read_again(tmp_path: Path) -> None:
    rates = Rates(bytes_per_second=2e10)
    with settings.override(tuning="auto", cache_directory=str(tmp_path)):
        assert processor.source() == ""
        name = processor.store(rates)
        assert os.path.dirname(name) == str(tmp_path)
        processor._load.cache_clear()
        assert (processor.rates(), processor.source()) == (rates, name)
        assert os.listdir(tmp_path) == [os.path.basename(name)]


GOOD: dict[str, object] = {**Rates()._asdict()}


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "Expecting value"),
        (b"\xff\xfe\x00", "codec can't decode"),
        (b"[" * 60_000, "recursion"),
        (b"x" * 70_000, "larger than"),
        (b'{"format": 2, "rates": {}}', "not a tuning file of format 1"),
        (b"[1]", "not a tuning file"),
        (json.dumps({"format": 1, "rates": {"a": 1}}).encode(), "its rates are a, not"),
        (json.dumps({"format": 1, "rates": {**GOOD, "wake_seconds": "1"}}).encode(), "wake_seconds is '1'"),
        (json.dumps({"format": 1, "rates": {**GOOD, "wake_seconds": True}}).encode(), "wake_seconds is True"),
        (json.dumps({"format": 1, "rates": {**GOOD, "node_seconds": float("nan")}}).encode(), "node_seconds is nan"),
        (json.dumps({"format": 1, "rates": {**GOOD, "bytes_per_second": -1}}).encode(), "bytes_per_second is -1"),
        (json.dumps({"format": 1, "rates": {**GOOD, "bytes_per_second": 10**400}}).encode(), "bytes_per_second is 1"),
    ],
    ids=["empty", "binary", "deep", "large", "version", "list", "names", "text", "truth", "nan", "negative", "huge"],
)
def test_damaged_files_are_named(content: bytes, problem: str, tmp_path: Path) -> None:
    with settings.override(tuning="auto", cache_directory=str(tmp_path)):
        name = Path(processor.path())
        name.write_bytes(content)
        with pytest.warns(RuntimeWarning, match=problem) as caught:
            assert processor.rates() == Rates()
        assert str(name) in str(caught[0].message)
    processor._load.cache_clear()
    with settings.override(tuning=str(name)), pytest.raises(ValueError, match=problem):
        processor.rates()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names")
def test_a_pipe_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with settings.override(tuning=str(tmp_path / "pipe")), pytest.raises(ValueError, match="not a regular file"):
        processor.rates()


def test_a_missing_file_is_an_error_if_it_was_named(tmp_path: Path) -> None:
    with settings.override(tuning=str(tmp_path / "none")), pytest.raises(ValueError, match="there is no such file"):
        processor.rates()


def test_the_command_measures_stores_and_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # the measurements themselves take seconds
    monkeypatch.setattr(tune, "_multiplications", lambda: 1e40)
    for name, value in (("_bytes", 2e10), ("_wake", 3e-5), ("_node", 1e-4), ("_kernel", 1e-3)):
        monkeypatch.setattr(tune, name, lambda value=value: value)
    with settings.override(tuning="auto", cache_directory=str(tmp_path)):
        assert tune.main([]) == 0
        assert "stored in" in capsys.readouterr().out
        processor._load.cache_clear()
        # rates beyond the range, of a machine with a broken clock, are cut
        assert processor.rates().multiplications_per_second == RANGES["multiplications_per_second"][1]
        assert tune.main(["--show"]) == 0
        assert processor.path() in capsys.readouterr().out
        assert tune.main(["--forget"]) == 0
        assert not os.path.exists(processor.path())
    with settings.override(tuning="off"), pytest.raises(SystemExit):
        tune.main([])
    assert "no place for a tuning file" in capsys.readouterr().err


@pytest.mark.slow
def test_measurements_are_plausible() -> None:
    measured = tune.measure()
    assert all([least < value < most for value, (least, most) in zip(measured, RANGES.values(), strict=True)])
