"""Elastic training: processes are killed, the others go on, replacements join, and the losses stay the same."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from typing import Any

import numpy as np
import pytest

import phonograd as mx

from .launching import FOLDER, environment

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="elastic training needs poll()")

ADAM = {"optimizer": "adam", "optimizer_params": {"learning_rate": 0.01}}
MOMENTUM = {
    "optimizer": "sgd",
    "optimizer_params": {"learning_rate": 0.1, "momentum": 0.9},
    "update_on_kvstore": True,
}


class Run:
    """A run of elastic_training.py under the launcher, whose lines are read in the background."""

    def __init__(self, ranks: int, steps: int, pause: float, options: dict[str, Any], *flags: str) -> None:
        command = [sys.executable, "-m", "phonograd", "launch", "-n", str(ranks), "--elastic", "--plain", *flags]
        script = [str(FOLDER / "elastic_training.py"), str(steps), str(pause), json.dumps(options)]
        self.launcher = subprocess.Popen(
            [*command, *script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()
        )
        self.news: list[dict[str, Any]] = []
        self._changed = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.launcher.stdout is not None
        for line in self.launcher.stdout:
            with self._changed:
                self.news.append(json.loads(line))
                self._changed.notify_all()

    def wait_for(self, found, seconds: float = 120) -> dict[str, Any]:
        """Return the first line for which a function returns True."""
        until, checked = time.monotonic() + seconds, 0
        with self._changed:
            while True:
                for each in self.news[checked:]:
                    if found(each):
                        return each
                checked = len(self.news)
                assert self.launcher.poll() is None or self._reader.is_alive(), "the launcher ended"
                assert time.monotonic() < until, self.news[-3:]
                self._changed.wait(0.2)

    def processes(self) -> dict[int, int]:
        """Return the processes of the last group by rank, if it is complete."""
        with self._changed:
            lines = [each for each in self.news if "process" in each]
        last: dict[int, int] = {}
        for each in reversed(lines):
            if each["size"] != lines[-1]["size"] or each["rank"] in last:
                break
            last[each["rank"]] = each["process"]
        return last if last and len(last) == lines[-1]["size"] else {}

    def result(self) -> tuple[dict[str, Any], str]:
        """Return the last line and the messages of the launcher, after a successful end."""
        assert self.launcher.stderr is not None
        errors = self.launcher.stderr.read()
        assert self.launcher.wait(120) == 0, errors
        self._reader.join(10)
        self.close()
        return self.news[-1], errors

    def close(self) -> None:
        self.launcher.kill()
        self.launcher.wait()
        self._reader.join(10)
        for stream in (self.launcher.stdout, self.launcher.stderr):
            assert stream is not None
            stream.close()


def alone(steps: int, options: dict[str, Any]) -> dict[str, Any]:
    """Return the last line of one process."""
    command = [sys.executable, str(FOLDER / "elastic_training.py"), str(steps), "0", json.dumps(options)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment(), timeout=120)
    return json.loads(done.stdout.splitlines()[-1])


def check(found: dict[str, Any], expected: dict[str, Any]) -> None:
    assert len(found["losses"]) == len(expected["losses"])
    np.testing.assert_allclose(found["losses"], expected["losses"], rtol=1e-4)
    np.testing.assert_allclose(found["weights"], expected["weights"], rtol=1e-3, atol=1e-4)
    assert found["updates"] == expected["updates"]


def test_a_killed_process_is_replaced() -> None:
    run = Run(2, 60, 0.02, ADAM)
    try:
        run.wait_for(lambda line: line.get("done", 0) >= 5)
        os.kill(run.processes()[0], signal.SIGKILL)
        # the other goes on alone, and the replacement joins
        run.wait_for(lambda line: line.get("done", 0) > 5 and line["size"] == 1)
        found, errors = run.result()
    finally:
        run.close()
    assert "was killed by SIGKILL; 1 other goes on, and a replacement starts" in errors
    sizes = [line["size"] for line in run.news if "process" in line]
    assert sizes[:3] == [2, 2, 1]
    check(found, alone(60, ADAM))


@pytest.mark.slow
def test_a_stopped_process_is_replaced() -> None:
    run = Run(3, 200, 0.02, MOMENTUM, "--silence", "3")
    try:
        run.wait_for(lambda line: line.get("done", 0) >= 5)
        os.kill(run.processes()[1], signal.SIGSTOP)
        found, errors = run.result()
    finally:
        run.close()
    assert "has given no sign of life for 3 s (is it stopped?); it is killed" in errors
    check(found, alone(200, MOMENTUM))


@pytest.mark.slow
def test_without_replacements_the_group_shrinks() -> None:
    run = Run(3, 100, 0.02, ADAM, "--restarts", "0")
    try:
        for size in (3, 2):
            last = run.wait_for(lambda line, size=size: line.get("done", 0) >= 5 and line["size"] == size)
            os.kill(run.processes()[size - 1], signal.SIGKILL)
        found, errors = run.result()
    finally:
        run.close()
    assert last["size"] == 2
    assert "2 others go on\n" in errors
    assert "1 other goes on\n" in errors
    assert [line["size"] for line in run.news if "done" in line][-1] == 1
    check(found, alone(100, ADAM))


@pytest.mark.slow
def test_a_process_that_raises_ends_all() -> None:
    run = Run(3, 50, 0.0, {**ADAM, "faulty_step": 7})
    try:
        assert run.launcher.stderr is not None
        errors = run.launcher.stderr.read()
        assert run.launcher.wait(60) == 1
    finally:
        run.close()
    assert errors.count("Traceback") == 1
    assert "ValueError: this rank cannot go on\nphonograd launch: rank 2 (process " in errors


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_signals_to_the_launcher_end_all(number) -> None:
    run = Run(2, 100_000, 0.01, ADAM)
    try:
        run.wait_for(lambda line: line.get("done", 0) >= 5)
        processes = run.processes()
        run.launcher.send_signal(number)
        run.launcher.wait(60)
        until = time.monotonic() + 30
        while any(map(_exists, processes.values())) and time.monotonic() < until:
            time.sleep(0.1)
        assert not any(map(_exists, processes.values()))
    finally:
        run.close()


def _exists(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    with open(f"/proc/{process}/stat", encoding="utf-8") as file:
        return ") Z " not in file.read()


def test_the_state_has_only_known_values() -> None:
    net = mx.gluon.nn.Dense(1, in_units=2)
    net.initialize()
    state = mx.distributed.elastic.State(mx.gluon.Trainer(net.collect_params(), "sgd"), step=0)
    with pytest.raises(AttributeError, match="no value 'epoch'"):
        state.epoch = 1
    with pytest.raises(ValueError, match="'commit'"):
        mx.distributed.elastic.State([], commit=1)


def test_a_state_goes_back_to_its_last_commit() -> None:
    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.Dense(3, in_units=2), mx.gluon.nn.BatchNorm(in_channels=3), mx.gluon.nn.Dropout(0.5))
    net.initialize()
    trainer = mx.gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.1}, kvstore="dist_sync")
    state = mx.distributed.elastic.State(trainer, step=0, losses=[])

    def step() -> None:
        with mx.autograd.record():
            loss = net(mx.nd.array([[1.0, 2.0], [3.0, 5.0]])).sum()
        loss.backward()
        trainer.step(2)
        state.step += 1
        state.losses.append(float(loss.asscalar()))

    def facts() -> Any:
        parameters = [each.data().asnumpy().tobytes() for each in net.collect_params().values()]
        return state.step, list(state.losses), parameters, trainer.optimizer.num_update, np.random.rand()

    state._prepare()
    step()
    state._save()
    # the first steps after the commit, and again after going back, twice
    seen = []
    for _ in range(3):
        for _ in range(2):
            step()
        seen.append(facts())
        state._restore()
    assert seen[0] == seen[1] == seen[2]
    assert seen[0][0] == 3


def make_module() -> mx.mod.Module:
    data = mx.sym.var("data")
    normalized = mx.sym.BatchNorm(mx.sym.FullyConnected(data, num_hidden=3), fix_gamma=False)
    module = mx.mod.Module(mx.sym.SoftmaxOutput(normalized, name="softmax"))
    module.bind([("data", (4, 2))], [("softmax_label", (4,))])
    module.init_params(mx.init.Xavier())
    return module


def test_the_state_of_a_module() -> None:
    module = make_module()
    state = mx.distributed.elastic.State(module, step=0)
    with pytest.raises(mx.MXNetError, match=r"call bind\(\), init_params\(\) and init_optimizer"):
        state._prepare()
    module.init_optimizer("dist_sync", "adam")
    state._prepare()
    batch = mx.io.DataBatch([mx.nd.array(np.arange(8).reshape(4, 2))], [mx.nd.array([0, 1, 2, 0])])

    def facts() -> Any:
        values = [value.asnumpy().tobytes() for each in module.get_params() for value in each.values()]
        return state.step, values, module._optimizer.num_update, module._updater.get_states()

    seen = []
    state._save()
    for _ in range(2):
        before = facts()
        for _ in range(2):
            module.forward(batch, is_train=True)
            module.backward()
            module.update()
            state.step += 1
        seen.append(facts())
        assert before[1] != seen[-1][1]
        state._restore()
    assert seen[0] == seen[1]


def test_the_state_takes_estimators_and_nothing_else() -> None:
    net = mx.gluon.nn.Dense(1, in_units=2)
    net.initialize()
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd")
    estimator = mx.gluon.contrib.estimator.Estimator(net, mx.gluon.loss.L2Loss(), trainer=trainer)
    state = mx.distributed.elastic.State(estimator)
    assert {id(array) for array in state._arrays()} == {id(each.data()) for each in net.collect_params().values()}
    with pytest.raises(TypeError, match="not Dense"):
        mx.distributed.elastic.State(net)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["module", "estimator"])
def test_modules_and_estimators_survive(kind) -> None:
    options = {"kind": kind}
    run = Run(2, 60, 0.02, options)
    try:
        run.wait_for(lambda line: line.get("done", 0) >= 5)
        os.kill(run.processes()[0], signal.SIGKILL)
        run.wait_for(lambda line: line.get("done", 0) > 5 and line["size"] == 1)
        found, _ = run.result()
    finally:
        run.close()
    check(found, alone(60, options))


@pytest.mark.slow
def test_a_program_without_elastic_run(tmp_path) -> None:
    script = tmp_path / "plain.py"
    script.write_text("import phonograd as mx\nmx.kv.create('dist_sync').init(0, mx.nd.ones(1))\n")
    command = [sys.executable, "-m", "phonograd", "launch", "-n", "2", "--elastic", str(script)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment(), timeout=120)
    assert done.returncode == 1
    assert "ended without a call of mx.distributed.elastic.run" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("options", [ADAM, MOMENTUM])
def test_processes_that_are_killed_at_random_moments(options) -> None:
    """50 kills in all: each run has as many as come to pass, of any process at any moment."""
    chance, kills, recoveries = random.Random(3), 0, []
    expected = alone(400, options)
    while kills < 25:
        run = Run(3, 400, 0.01, options)
        try:
            while run.launcher.poll() is None:
                time.sleep(chance.uniform(0, 2))
                processes = run.processes()
                if len(processes) < 2:
                    continue
                moment = time.monotonic()
                with run._changed:
                    seen = len(run.news)
                try:
                    os.kill(chance.choice(sorted(processes.values())), signal.SIGKILL)
                except ProcessLookupError:
                    continue
                kills += 1
                while run.launcher.poll() is None:
                    later = [line for line in run.news[seen:] if "process" in line or "losses" in line]
                    if later:
                        recoveries.append(later[0]["time"] - moment)
                        break
                    time.sleep(0.005)
            found, _ = run.result()
        finally:
            run.close()
        check(found, expected)
    shares = ", ".join([f"{share}%: {np.percentile(recoveries, share):.2f} s" for share in (10, 50, 90, 100)])
    print(f"{kills} kills; seconds until the survivors went on, by share of kills: {shares}")
    assert max(recoveries) < 3, recoveries
