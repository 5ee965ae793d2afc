"""Mistakes of the first hour: every error says what to write instead."""

import subprocess
import sys
import warnings

import numpy as np
import pytest

import phonograd as mx
from phonograd import autograd, gluon, nd
from phonograd.cli.main import complaints, main
from phonograd.core.base import devices, settings
from phonograd.gluon import nn

ANY = Exception


def ones(*shape, **facts):
    return nd.ones(shape or (2, 3), **facts)


def made(block):
    block.initialize()
    return block


def recorded(function):
    x = nd.ones(3)
    x.attach_grad()
    with autograd.record():
        return function(x)


def backward_twice():
    loss = recorded(lambda x: (x * x).sum())
    loss.backward()
    loss.backward()


def trainer(net, **arguments):
    return gluon.Trainer(net.collect_params(), "sgd", arguments)


class WithoutSuper(gluon.Block):
    def __init__(self):
        self.dense = nn.Dense(3)


CASES = {
    # names
    "nd.convolution": (lambda: nd.convolution, "'Convolution'"),
    "nd.fully_connected": (lambda: nd.fully_connected, "'FullyConnected'"),
    "nd.batch_norm": (lambda: nd.batch_norm, "'BatchNorm'"),
    "nd.tensor": (lambda: nd.tensor, r"mx\.nd\.array"),
    "nd.cat": (lambda: nd.cat, r"nd\.concat"),
    "mx.tensor": (lambda: mx.tensor, r"mx\.nd\.array"),
    "mx.no_grad": (lambda: mx.no_grad, r"autograd\.pause"),
    "mx.optim": (lambda: mx.optim, r"gluon\.Trainer"),
    "mx.gluonn": (lambda: mx.gluonn, "'gluon'"),
    "autograd.no_grad": (lambda: autograd.no_grad, r"autograd\.pause"),
    "autograd.recrod": (lambda: autograd.recrod, "'record'"),
    "nn.Linear": (lambda: nn.Linear, r"nn\.Dense"),
    "nn.ReLU": (lambda: nn.ReLU, r"Activation\('relu'\)"),
    "nn.conv2d": (lambda: nn.conv2d, "'Conv2D'"),
    "nn.Module": (lambda: nn.Module, "HybridBlock"),
    "loss.MSELoss": (lambda: gluon.loss.MSELoss, "L2Loss"),
    "loss.CrossEntropyLoss": (lambda: gluon.loss.CrossEntropyLoss, "SoftmaxCrossEntropyLoss"),
    "x.numpy": (lambda: ones().numpy(), r"x\.asnumpy\(\)"),
    "x.cuda": (lambda: ones().cuda(), "CPU"),
    "x.to": (lambda: ones().to("cpu"), "as_in_context"),
    "x.view": (lambda: ones().view(6), r"x\.reshape"),
    "x.requires_grad_": (lambda: ones().requires_grad_(), r"x\.attach_grad\(\)"),
    "x.unsqueeze": (lambda: ones().unsqueeze(0), "expand_dims"),
    "mx.zeros": (lambda: mx.zeros((2, 3)), r"mx\.nd\.zeros"),
    "mx.array": (lambda: mx.array([1.0]), r"mx\.nd\.array"),
    "nd.rand": (lambda: nd.rand(2, 3), r"nd\.random\.uniform\(shape="),
    "gluon.Dense": (lambda: gluon.Dense(3), r"gluon\.nn\.Dense"),
    "gluon.L2Loss": (lambda: gluon.L2Loss(), r"gluon\.loss\.L2Loss"),
    "optimizer.adam": (lambda: mx.optimizer.adam, "'Adam'"),
    "init.xavier": (lambda: mx.init.xavier(), "'Xavier'"),
    "metric.accuracy": (lambda: mx.metric.accuracy(), "'Accuracy'"),
    "lr_scheduler.StepLR": (lambda: mx.lr_scheduler.StepLR, "FactorScheduler"),
    "net.parameters": (lambda: nn.Dense(1).parameters(), r"collect_params\(\)"),
    "net.train": (lambda: nn.Dense(1).train(), r"autograd\.record"),
    "net.eval": (lambda: nn.Dense(1).eval(), r"autograd\.record"),
    "net.to": (lambda: nn.Dense(1).to("cuda"), "reset_ctx"),
    "net.state_dict": (lambda: nn.Dense(1).state_dict(), "save_parameters"),
    "trainer.zero_grad": (lambda: trainer(made(nn.Dense(1))).zero_grad(), "grad_req='add'"),
    # arguments
    "no kernel": (lambda: nd.Convolution(ones(), ones(), num_filter=3), "kernel"),
    "padding": (lambda: nd.Convolution(ones(), ones(), kernel=3, num_filter=3, padding=1), "'pad'"),
    "keepdim": (lambda: ones().sum(axis=0, keepdim=True), "'keepdims'"),
    "Relu": (lambda: nd.Activation(ones(), act_type="Relu"), "'relu'"),
    "dim": (lambda: nd.softmax(ones(), dim=1), "'axis'"),
    "axis of concat": (lambda: nd.concat(ones(), ones(), axis=1), r"did you mean 'dim'"),
    "bias": (lambda: nn.Dense(3, bias=False), "Dense .*'use_bias'"),
    "in_channel": (lambda: nn.Conv2D(3, 3, in_channel=1), "Conv2D .*'in_channels'"),
    "workers": (lambda: gluon.data.DataLoader([1], 1, num_worker=2), "'num_workers'"),
    "collate_fn": (lambda: gluon.data.DataLoader([1], 1, collate_fn=list), "'batchify_fn'"),
    "two extents": (lambda: nd.zeros(2, 3), r"nd\.zeros\(\(2, 3\)\)"),
    "shape of a draw": (lambda: nd.random.normal((3, 4)), r"shape=\(3, 4\)"),
    "context": (lambda: ones().as_in_context("gpu"), r"mx\.cpu\(\)"),
    "grad_req": (lambda: ones().attach_grad("Add"), "'add'"),
    "argument of the trainer": (
        lambda: gluon.Trainer(made(nn.Dense(1)).collect_params(), "sgd", learning_rate=0.1),
        "Trainer .*'learning_rate'.*optimizer_params",
    ),
    "number for the trainer": (
        lambda: gluon.Trainer(made(nn.Dense(1)).collect_params(), "sgd", 0.1),
        r"\{'learning_rate': 0\.1\}",
    ),
    "assigned rate": (lambda: setattr(trainer(made(nn.Dense(1))), "learning_rate", 0.1), r"set_learning_rate\(0\.1\)"),
    "no depth": (lambda: nd.one_hot(ones()), "depth"),
    "axis": (lambda: ones().sum(axis=5), r"axis 5.*\[2,3\]"),
    "ctx": (lambda: nd.ones(3, ctx="cpu"), r"mx\.cpu\(\)"),
    "dtype": (lambda: nd.ones(3, dtype="float33"), "float32"),
    "learning rate": (lambda: trainer(made(nn.Dense(1)), lr=0.1), "'learning_rate'"),
    "weight decay": (lambda: trainer(made(nn.Dense(1)), weight_decay=0.1), "'wd'"),
    "optimizer": (lambda: gluon.Trainer(made(nn.Dense(1)).collect_params(), "sdg"), "'sgd'"),
    "trainer of a block": (lambda: gluon.Trainer(nn.Dense(1), "sgd"), "collect_params"),
    "initializer": (lambda: nn.Dense(3).initialize("xavierr"), "'xavier'"),
    "initializer class": (lambda: nn.Dense(3).initialize(mx.init.Xavier), r"Xavier\(\.\.\.\)"),
    "metric": (lambda: mx.metric.create("accuracyy"), "'accuracy'"),
    "sequential of a list": (lambda: nn.Sequential([nn.Dense(2)]), r"net\.add"),
    "added class": (lambda: nn.Sequential().add(nn.Dense), r"Dense\(\.\.\.\)"),
    "added list": (lambda: nn.Sequential().add([nn.Dense(2)]), r"net\.add\(\*blocks\)"),
    "loader": (lambda: gluon.data.DataLoader(gluon.data.ArrayDataset(nd.ones(3))), "batch_size"),
    "dataset": (lambda: gluon.data.ArrayDataset(nd.ones(3), nd.ones(4)), "length 3 .* has 4"),
    # values
    "list": (lambda: nd.dot([1], [2]), r"mx\.nd\.array"),
    "NumPy array": (lambda: nd.exp(np.ones(3)), r"mx\.nd\.array"),
    "list of arrays": (lambda: nd.concat([ones(), ones()]), r"Concat\(\*arrays\)"),
    "sum with a list": (lambda: ones() - [1, 2, 3], r"mx\.nd\.array"),
    "sum with a NumPy array": (lambda: ones() + np.ones(3), r"mx\.nd\.array"),
    "sum with a parameter": (lambda: ones() * made(nn.Dense(1)).weight, r"parameter\.data\(\)"),
    "product with a parameter": (lambda: nd.dot(ones(), made(nn.Dense(1)).weight), r"parameter\.data\(\)"),
    "sum of symbol and array": (lambda: mx.sym.var("x") + ones(), r"mx\.sym\.var"),
    "sum of array and symbol": (lambda: ones() + mx.sym.var("x"), "symbol"),
    "symbol": (lambda: nd.exp(mx.sym.var("x")), r"mx\.sym"),
    "ragged": (lambda: nd.array([[1, 2], [3]]), "equal length"),
    "text": (lambda: nd.array(["hello"]), "numbers.*'hello'"),
    "list for mx.np": (lambda: mx.np.mean([1.0, 2.0]), r"mx\.np\.array"),
    "reshaped list": (lambda: mx.np.reshape([1, 2], (2, 1)), r"mx\.np\.array"),
    "NumPy array to a block": (lambda: made(nn.Dense(4))(np.ones((2, 3))), r"ndarray.*mx\.nd\.array"),
    "dtypes": (lambda: ones() + ones(dtype="float64"), "astype"),
    "shapes": (lambda: ones(2, 3) + ones(4, 5), r"\[2,3\] \[4,5\]"),
    "product": (lambda: nd.dot(ones(2, 3), ones(2, 3)), "must be equal"),
    "weights": (lambda: made(nn.Dense(3, in_units=4))(ones(2, 5)), r"\[2,5\]"),
    "image without batch": (lambda: made(nn.Conv2D(3, 3))(ones(3, 8, 8)), r"4D.*\[3,8,8\]"),
    "labels": (lambda: gluon.loss.SoftmaxCrossEntropyLoss()(ones(2, 3), ones(4)), r"\[4\].*\[2\]"),
    "one-hot labels": (lambda: gluon.loss.SoftmaxCELoss()(ones(2, 3), ones(2, 3)), "sparse_label=False"),
    "labels of L2Loss": (lambda: gluon.loss.L2Loss()(ones(2, 1), ones(3)), r"\(3,\).*\(2, 1\)"),
    "sequence without batch": (lambda: made(gluon.rnn.LSTM(3))(ones(2, 3)), r"3 axes.*TNC.*\(2, 3\)"),
    "reshape": (lambda: ones(2, 3).reshape((4, 4)), "16 elements from 6"),
    "truth": (lambda: bool(nd.ones(3) > 0), r"\.max\(\)"),
    "scalar": (lambda: nd.ones(3).asscalar(), r"\(3,\).*asnumpy"),
    "index": (lambda: ones(2, 3)[5], "size 2"),
    # gradients and state
    "no initialize": (lambda: nn.Dense(3)(ones()), "initialize"),
    "no forward": (lambda: trainer(made(nn.Dense(1))).step(1), "pass one batch"),
    "no record": (lambda: (nd.ones(3) * 2).backward(), r"autograd\.record"),
    "backward twice": (backward_twice, "retain_graph"),
    "not a variable": (lambda: autograd.grad(recorded(lambda x: x * 2), nd.ones(3)), "does not require gradient"),
    "grad of a number": (lambda: autograd.grad(3.0, nd.ones(1)), "NDArrays.*float"),
    "gpu": (lambda: nd.ones(3, ctx=mx.gpu()), "--gpu-as-cpu"),
    "gpu in initialize": (lambda: nn.Dense(3, in_units=2).initialize(ctx=mx.gpu(0)), r"mx\.cpu\(\)"),
    "value of a symbol": (lambda: mx.sym.var("a").asnumpy(), "only available in NDArray"),
    "no hybrid_forward": (lambda: gluon.HybridBlock()(ones()), "hybrid_forward"),
    "no super().__init__": (lambda: WithoutSuper(), r"super\(\)\.__init__"),
    "missing file": (lambda: nd.load("no such file"), "no such file"),
}


def test_there_are_a_hundred_cases():
    assert len(CASES) >= 100


@pytest.mark.parametrize("name", CASES)
def test_the_error_says_what_to_write(name):
    mistake, instead = CASES[name]
    with pytest.raises(ANY, match=f"(?s){instead}"):
        mistake()


def test_foreign_names_are_no_attributes():
    x = nd.ones(2)
    assert not hasattr(x, "numpy")
    assert "numpy" not in dir(x)
    assert "asnumpy" in dir(x)
    net = nn.Dense(2)
    assert not hasattr(net, "parameters")
    assert "parameters" not in dir(net)
    assert "collect_params" in dir(net)


def test_a_block_may_use_foreign_names_itself():
    class Net(gluon.Block):
        def __init__(self):
            super().__init__()
            self.to = nn.Dense(2)

        def train(self):
            return self.to

    net = Net()
    assert net.train() is net.to
    assert {"to", "train"} <= set(dir(net))


@pytest.mark.parametrize(
    "contents, kind",
    [(b"PK\x03\x04 archive", "archive"), (b"\x80\x04 a pickle", "pickle"), (b"\x89HDF\r\n\x1a\n", "HDF5")],
)
def test_files_of_other_libraries_are_recognized(tmp_path, contents, kind):
    path = tmp_path / "weights"
    path.write_bytes(contents)
    with pytest.raises(mx.MXNetError, match=kind):
        nd.load(str(path))


def test_a_gpu_can_mean_the_cpu():
    devices._warn_of_gpu.cache_clear()
    with settings.override(gpu_as_cpu=True):
        with pytest.warns(RuntimeWarning, match=r"mx\.gpu\(i\) means mx\.cpu\(i\)"):
            first = mx.gpu(0)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            second = mx.gpu(1)
        assert (first, second) == (mx.cpu(0), mx.cpu(1))
        assert nd.ones(2, ctx=second).context == mx.cpu(1)
        net = nn.Dense(2, in_units=3)
        net.initialize(ctx=[first, second])
        assert net.weight.list_ctx() == [mx.cpu(0), mx.cpu(1)]
    assert mx.gpu(0) != mx.cpu(0)


def test_the_flag_of_the_command(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import mxnet as mx\nprint(mx.nd.ones(2, ctx=mx.gpu(0)).sum().asscalar())\n")
    command = [sys.executable, "-m", "phonograd", "run", "--gpu-as-cpu", str(script)]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    assert run.stdout == "2.0\n"
    assert run.stderr.count("gpu_as_cpu is set") == 1


def test_the_doctor_names_slow_settings(capsys):
    with settings.override(executor="reference", naive=True, native_calls=False, num_threads=1):
        found = "\n".join(complaints())
        assert main(["doctor"]) == 0
    printed = capsys.readouterr().out
    for word in ("NumPy evaluates everything", "as it is called", "NATIVE_CALLS"):
        assert word in found
        assert word in printed
