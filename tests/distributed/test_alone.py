"""A group of one process: no MPI is needed, and nothing differs from a local store."""

import importlib
import io
import subprocess
import sys
import types

import numpy as np
import pytest

import phonograd as mx
from phonograd import nd
from phonograd.cli import launch as launching
from phonograd.distributed.arrays import buckets_of
from phonograd.distributed.compression import make_compression


@pytest.mark.parametrize("kind", ["dist_sync", "dist_device_sync", "dist_sync_device", "dist"])
def test_a_group_of_one_is_like_a_local_store(kind) -> None:
    results = []
    for name in ("local", kind):
        store = mx.kv.create(name)
        assert (store.rank, store.num_workers, store.type) == (0, 1, name)
        store.init("a", nd.ones((2,)))
        store.set_optimizer(mx.optimizer.create("sgd", learning_rate=0.5, momentum=0.9))
        for _ in range(3):
            store.push("a", [nd.ones((2,)), nd.array([1.0, 2.0])])
        store.pull("a", out=(out := nd.zeros((2,))))
        store.barrier()
        results.append(out.asnumpy())
    assert np.array_equal(*results)


def test_types_that_only_add_up() -> None:
    for kind in ("horovod", "byteps"):
        store = mx.kv.create(kind)
        assert (store.type, store.rank, store.num_workers, store.is_capable("optimizer")) == (kind, 0, 1, False)
        value = nd.array([1.0, 2.0])
        store.pushpull("a", value, out=(out := nd.zeros((2,))))
        store.broadcast("b", value, out=(same := nd.zeros((2,))))
        assert out.asnumpy().tolist() == same.asnumpy().tolist() == [1, 2]
        with pytest.raises(mx.MXNetError, match="update_on_kvstore=False"):
            store.set_optimizer(mx.optimizer.create("sgd"))
    with pytest.raises(ValueError, match=r"'dist_async'.*depend on timing.*Use 'dist_sync'"):
        mx.kv.create("dist_async")
    with pytest.raises(mx.MXNetError, match="there are no servers"):
        mx.kv.KVStoreServer(mx.kv.create("dist_sync")).run()


def test_compression_needs_known_parameters() -> None:
    for wrong, message in (
        ({}, "requires `type`"),
        ({"type": "3bit"}, "'3bit'"),
        ({"type": "2bit", "threshold": 0}, "must be positive"),
        ({"type": "2bit", "treshold": 1}, "treshold"),
    ):
        with pytest.raises(ValueError, match=message):
            make_compression(wrong)
    assert make_compression({"type": "none"}) is None


@pytest.mark.parametrize("kind", ["2bit", "1bit"])
def test_compression_sends_everything_in_time(kind) -> None:
    code = make_compression({"type": kind, "threshold": 0.5})
    assert code is not None
    random = np.random.RandomState(0)
    values = random.uniform(-0.4, 0.4, (400, 5)).astype("f")
    sent = sum([code.decompress(code.compress(0, value), 5) for value in values])
    np.testing.assert_allclose(sent, values.sum(axis=0), atol=2.0)
    assert code.compress(1, np.zeros(1000, "f")).nbytes == 1000 * code.bits // 8


def test_buckets_begin_with_the_last_array() -> None:
    assert buckets_of([4, 4, 100, 4], 8) == [[3], [2], [1, 0]]
    # a bucket with less than a quarter takes one more
    assert buckets_of([4, 100, 1], 8) == [[2, 1], [0]]
    assert buckets_of([], 8) == []


def test_a_process_alone_does_not_import_mpi() -> None:
    program = (
        "import sys, phonograd as mx; mx.kv.create('dist_sync').init(0, mx.nd.ones(1)); print('mpi4py' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_commands_of_the_launcher(tmp_path, capsys) -> None:
    script = tmp_path / "train.py"
    script.write_text("")
    hosts = tmp_path / "hosts"
    hosts.write_text("a slots=4\n# a comment\nb:2\nc\n")
    parser = launching._parser()
    given = parser.parse_args(
        ["-n", "7", "-s", "2", "-H", str(hosts), "--launcher", "ssh", "python3", str(script), "-n", "1"]
    )
    assert launching._hosts(parser, given) == [("a", 4), ("b", 2), ("c", 1)]
    command = launching._command(parser, given.command)
    assert command == [sys.executable, "-m", "phonograd", "run", str(script), "-n", "1"]
    given = parser.parse_args(["--hosts", "a:4,b:4", "-m", "package.module", "-m"])
    assert (given.module, given.command) == (True, ["package.module", "-m"])
    for wrong, message in (
        (["train"], "give the number of processes"),
        (["-n", "2"], "give the script"),
        (["-n", "2", "missing.py"], "there is no script 'missing.py'"),
        (["-n", "2", "--launcher", "yarn", str(script)], "--launcher yarn is not supported"),
        (["--hosts", "a:b:c", str(script)], "name:processes"),
        (["-H", str(tmp_path / "none"), str(script)], "cannot read the host file"),
    ):
        with pytest.raises(SystemExit):
            launching.launch(wrong)
        assert message in capsys.readouterr().err


def test_hosts_of_elastic_training_need_enough_places(tmp_path, capsys) -> None:
    script = tmp_path / "train.py"
    script.write_text("")
    assert launching.launch(["-n", "3", "--elastic", "--hosts", "a:1,b:1", str(script)]) == 2
    assert "the hosts have 2 places for 3 processes" in capsys.readouterr().err


def test_output_of_mpi_itself_is_no_output_of_ranks() -> None:
    shown, noise = io.StringIO(), []
    lines = b"[1,0]<stdout>: one\n[1,1]<stderr>: [h2:00000] *** An error occurred in Socket closed\nof mpiexec\n"
    launching._show(io.BytesIO(lines), shown, noise, plain=False)
    assert shown.getvalue() == "[0] one\n"
    assert noise == ["[h2:00000] *** An error occurred in Socket closed\n", "of mpiexec\n"]


def test_threads_are_divided_among_ranks(monkeypatch) -> None:
    class Place:
        place = "127.0.0.1|1|secret"

    monkeypatch.delenv("PHONOGRAD_NUM_THREADS", raising=False)
    with mx.settings.override(num_threads=8):
        assert launching._environment(Place, 3, [], None)["PHONOGRAD_NUM_THREADS"] == "2"
        assert launching._environment(Place, 16, [], None)["PHONOGRAD_NUM_THREADS"] == "1"
        assert launching._environment(Place, 4, [("a", 2), ("b", 2)], None)["OMP_NUM_THREADS"] == "4"
        assert launching._environment(Place, 4, [], 3)["PHONOGRAD_NUM_THREADS"] == "3"


def test_a_kernel_of_jupyter_is_no_rank(monkeypatch) -> None:
    application = types.SimpleNamespace(initialized=lambda: True)
    monkeypatch.setitem(sys.modules, "ipykernel.kernelapp", types.SimpleNamespace(IPKernelApp=application))
    with pytest.raises(mx.MXNetError, match=r"a kernel of Jupyter is no rank.*phonograd launch"):
        importlib.import_module("phonograd.distributed.world")._connect(2)
