"""Gluon with arrays of mx.np: everything takes them, and gives them with NumPy semantics on."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as onp
import pytest

import phonograd as mx
from phonograd import autograd, gluon, init, np, npx
from phonograd.gluon import nn, rnn

pytestmark = pytest.mark.usefixtures("semantics")

PICTURE, ROWS = (2, 3, 6, 6), (2, 3)

LAYERS: dict[str, tuple[Callable[[], Any], tuple[int, ...]]] = {
    "dense": (lambda: nn.Dense(4, activation="relu"), ROWS),
    "convolution": (lambda: nn.Conv2D(4, 3), PICTURE),
    "transposed": (lambda: nn.Conv2DTranspose(4, 3), PICTURE),
    "batch norm": (lambda: nn.BatchNorm(), PICTURE),
    "layer norm": (lambda: nn.LayerNorm(), ROWS),
    "group norm": (lambda: nn.GroupNorm(3), PICTURE),
    "instance norm": (lambda: nn.InstanceNorm(), PICTURE),
    "dropout": (lambda: nn.Dropout(0.5), ROWS),
    "flatten": (lambda: nn.Flatten(), PICTURE),
    "max pooling": (lambda: nn.MaxPool2D(2), PICTURE),
    "global pooling": (lambda: nn.GlobalAvgPool2D(), PICTURE),
    "leaky": (lambda: nn.LeakyReLU(0.1), ROWS),
    "prelu": (lambda: nn.PReLU(), ROWS),
    "gelu": (lambda: nn.GELU(), ROWS),
    "swish": (lambda: nn.Swish(), ROWS),
    "lambda": (lambda: nn.HybridLambda("tanh"), ROWS),
    "lambda of F": (lambda: nn.HybridLambda(lambda F, x: F.np.tanh(x) + F.npx.relu(x)), ROWS),
    "padding": (lambda: nn.ReflectionPad2D(1), PICTURE),
    "embedding": (lambda: nn.Embedding(5, 4), ROWS),
}


def values(shape: tuple[int, ...], seed: int = 0) -> onp.ndarray[Any, Any]:
    return onp.random.RandomState(seed).uniform(0, 1, shape).astype("float32")


@pytest.mark.parametrize("hybridize", [False, True])
@pytest.mark.parametrize("name", LAYERS)
def test_layer_computes_what_it_computes_with_other_arrays(name: str, hybridize: bool) -> None:
    make, shape = LAYERS[name]
    found = []
    for kind in (mx.nd.NDArray, np.ndarray):
        npx.set_np() if kind is np.ndarray else npx.reset_np()
        layer = make()
        layer.initialize()
        if hybridize:
            layer.hybridize()
        x = (np if kind is np.ndarray else mx.nd).array(values(shape))
        layer(x)
        for number, parameter in enumerate(layer.collect_params().values()):
            parameter.set_data((np if kind is np.ndarray else mx.nd).array(values(parameter.shape, number) + 0.5))
        x.attach_grad()
        for _ in range(2):
            with autograd.record(train_mode=False):
                y = layer(x)
            y.backward()
        assert type(y) is type(x.grad) is kind
        assert all(type(parameter.data()) is kind for parameter in layer.collect_params().values())
        grads = [p.grad() for p in layer.collect_params().values() if p.grad_req != "null"]
        assert all(type(grad) is kind for grad in grads)
        found.append([array.asnumpy() for array in (y, x.grad, *grads)])
    for theirs, ours in zip(*found, strict=True):
        onp.testing.assert_array_equal(theirs, ours)


LOSSES = {
    "l2": gluon.loss.L2Loss,
    "l1": gluon.loss.L1Loss,
    "sigmoid": gluon.loss.SigmoidBCELoss,
    "huber": gluon.loss.HuberLoss,
    "hinge": gluon.loss.HingeLoss,
    "squared hinge": gluon.loss.SquaredHingeLoss,
    "logistic": gluon.loss.LogisticLoss,
    "divergence": gluon.loss.KLDivLoss,
    "poisson": gluon.loss.PoissonNLLLoss,
}


@pytest.mark.parametrize("name", LOSSES)
def test_loss(name: str) -> None:
    loss = LOSSES[name]()
    first, second = values((4, 3)), values((4, 3), 1)
    found = loss(np.array(first), np.array(second))
    wanted = loss(mx.nd.array(first), mx.nd.array(second))
    assert type(found) is np.ndarray
    assert found.shape == (() if name == "poisson" else (4,))
    onp.testing.assert_array_equal(found.asnumpy().reshape(-1), wanted.asnumpy().reshape(-1))


def test_losses_of_numbers_and_mixed_dtypes() -> None:
    loss = gluon.loss.L2Loss()
    assert loss(np.array(3.0), np.array(1.0)).shape == ()
    assert float(loss(np.array(3.0), np.array(1.0))) == 2.0
    assert loss(np.ones((3,)), np.array([1, 2, 3], dtype="int64")).tolist() == [0.0, 0.5, 2.0]
    entropy = gluon.loss.SoftmaxCELoss()
    mask = np.array([[1], [0]], dtype="int32")
    assert entropy(np.zeros((2, 4)), np.array([1, 2]), mask)[1] == 0


@pytest.mark.parametrize("name", ["RNN", "LSTM", "GRU"])
def test_recurrent(name: str) -> None:
    layer = getattr(rnn, name)(4)
    layer.initialize()
    states = layer.begin_state(batch_size=2)
    assert {type(state) for state in states} == {np.ndarray}
    output, after = layer(np.ones((5, 2, 3)), states)
    assert {type(array) for array in (output, *after)} == {np.ndarray}
    assert type(layer(np.ones((5, 2, 3)))) is np.ndarray
    assert layer.begin_state(batch_size=2, func=np.zeros)[0].shape == (1, 2, 4)


@pytest.mark.parametrize("name", ["RNNCell", "LSTMCell", "GRUCell"])
def test_cells(name: str) -> None:
    cell = getattr(rnn, name)(4)
    cell.initialize()
    outputs, states = cell.unroll(5, np.ones((2, 5, 3)), merge_outputs=True)
    assert outputs.shape == (2, 5, 4)
    assert {type(array) for array in (outputs, *states)} == {np.ndarray}


@pytest.mark.parametrize(
    "initializer",
    [init.Xavier(), init.Normal(0.1), init.Constant(2), init.Orthogonal(), init.MSRAPrelu(), init.Uniform(), "zeros"],
    ids=lambda initializer: initializer if isinstance(initializer, str) else type(initializer).__name__,
)
def test_initializers(initializer: Any) -> None:
    parameter = gluon.Parameter("weight", shape=(4, 4), init=initializer)
    parameter.initialize()
    assert type(parameter.data()) is type(parameter.grad()) is np.ndarray
    assert bool(np.isfinite(parameter.data()).all())


def test_shapes_that_are_not_known() -> None:
    assert nn.Dense(4).weight.shape == (4, -1)
    assert gluon.Parameter("weight", shape=(0, 3)).shape == (-1, 3)
    npx.reset_np()
    assert nn.Dense(4).weight.shape == (4, 0)


def test_parameters_of_several_contexts() -> None:
    parameter = gluon.Parameter("weight", shape=(2, 2))
    parameter.initialize(ctx=[mx.cpu(0), mx.cpu(1)])
    assert {type(array) for array in (*parameter.list_data(), *parameter.list_grad())} == {np.ndarray}
    parameter.reset_ctx(mx.cpu(1))
    parameter.cast("float64")
    parameter.zero_grad()
    assert (type(parameter.data()), str(parameter.data().ctx), parameter.data().dtype) == (
        np.ndarray,
        "cpu(1)",
        "float64",
    )


def test_files(tmp_path: Path) -> None:
    net = nn.Dense(3, in_units=2)
    net.initialize()
    net.save_parameters(str(tmp_path / "net"))
    other = nn.Dense(3)
    other.load_parameters(str(tmp_path / "net"))
    assert type(other.weight.data()) is type(other.weight.grad()) is np.ndarray
    assert bool((other.weight.data() == net.weight.data()).all())
    with mx.util.np_array(False):
        plain = nn.Dense(3)
        plain.load_parameters(str(tmp_path / "net"))
    assert type(plain.weight.data()) is mx.nd.NDArray


def test_metrics() -> None:
    accuracy = mx.metric.Accuracy()
    accuracy.update([np.array([1, 0])], [np.array([[0.2, 0.8], [0.3, 0.7]])])
    assert accuracy.get() == ("accuracy", 0.5)
    mean = mx.metric.Loss()
    mean.update(None, np.array([1.0, 2.0]))
    assert mean.get() == ("loss", 1.5)
    error = mx.metric.MSE()
    error.update([np.array([1.0, 2.0])], [np.array([1.0, 4.0])])
    assert error.get() == ("mse", 2.0)


@pytest.mark.parametrize("workers", [0, 1])
def test_data(workers: int) -> None:
    dataset = gluon.data.ArrayDataset(np.ones((4, 3)), np.arange(4))
    assert type(dataset[0][0]) is np.ndarray
    for X, y in gluon.data.DataLoader(dataset, batch_size=2, num_workers=workers):
        assert type(X) is type(y) is np.ndarray
        assert (X.shape, y.shape) == ((2, 3), (2,))


TRANSFORMS = gluon.data.vision.transforms


@pytest.mark.parametrize(
    "transform",
    [
        TRANSFORMS.ToTensor(),
        TRANSFORMS.Cast("float32"),
        TRANSFORMS.Resize(4),
        TRANSFORMS.CenterCrop(4),
        TRANSFORMS.RandomResizedCrop(4),
        TRANSFORMS.RandomFlipLeftRight(),
        TRANSFORMS.RandomBrightness(0.1),
        TRANSFORMS.RandomColorJitter(0.1, 0.1, 0.1, 0.1),
        TRANSFORMS.Compose([TRANSFORMS.ToTensor(), TRANSFORMS.Normalize(0.5, 0.5)]),
    ],
    ids=lambda transform: type(transform).__name__,
)
def test_transforms(transform: Any) -> None:
    pixels = np.array(onp.arange(192).reshape(8, 8, 3), dtype="uint8")
    assert type(transform(pixels)) is np.ndarray


def test_images() -> None:
    pixels = np.array(onp.arange(192).reshape(8, 8, 3), dtype="uint8")
    assert type(mx.image.imresize(pixels, 4, 4)) is np.ndarray
    assert type(npx.image.imresize(pixels, 4, 4)) is np.ndarray
    assert type(npx.image.to_tensor(pixels)) is np.ndarray


def test_splitting_and_clipping() -> None:
    parts = gluon.utils.split_and_load(onp.ones((4, 3)), [mx.cpu(0), mx.cpu(1)])
    assert [type(part) for part in parts] == [np.ndarray] * 2
    assert [type(part) for part in gluon.utils.split_data(np.ones((2, 4)), 2, batch_axis=1)] == [np.ndarray] * 2
    arrays = [np.array([3.0]), np.array([4.0])]
    assert gluon.utils.clip_global_norm(arrays, 1.0) == 5.0
    assert [round(float(array[0]), 4) for array in arrays] == [0.6, 0.8]


def test_optimizers_change_arrays_of_either_kind_alike() -> None:
    found = []
    for kind in ("nd", "np"):
        npx.set_np() if kind == "np" else npx.reset_np()
        weights = []
        for name in ("sgd", "adam", "rmsprop", "adagrad", "nag", "lamb"):
            net = nn.Dense(2, in_units=3)
            net.initialize(init.Constant(0.5))
            trainer = gluon.Trainer(net.collect_params(), name, {"learning_rate": 0.1, "wd": 0.01})
            x = getattr(mx, kind).array(values((4, 3)))
            for _ in range(3):
                with autograd.record():
                    loss = (net(x) ** 2).sum()
                loss.backward()
                trainer.step(4)
            weights.append(net.weight.data().asnumpy())
        found.append(weights)
    onp.testing.assert_array_equal(found[0], found[1])


def test_mixing_kinds() -> None:
    net = nn.Dense(2, in_units=3)
    net.initialize()
    assert type(net(mx.nd.ones((2, 3)))) is np.ndarray
    npx.reset_np()
    assert type(net(mx.nd.ones((2, 3)))) is np.ndarray
    legacy = nn.Dense(2, in_units=3)
    legacy.initialize()
    assert type(legacy(mx.nd.ones((2, 3)))) is mx.nd.NDArray


def test_a_hybridized_block_keeps_kinds_apart() -> None:
    block = nn.HybridLambda("relu")
    block.hybridize()
    for _ in range(3):
        assert type(block(np.ones((2,)))) is np.ndarray
        assert type(block(mx.nd.ones((2,)))) is mx.nd.NDArray


def test_compiled_functions() -> None:
    @mx.compile
    def double(x: Any) -> tuple[Any, Any]:
        return x * 2, npx.relu(x)

    for _ in range(3):
        assert {type(part) for part in double(np.array([-1.0, 1.0]))} == {np.ndarray}
    assert (double.captured, double.repeated) == (1, 2)


def test_every_derivative() -> None:
    net = nn.Dense(1, in_units=2, activation="tanh")
    net.initialize(init.Constant(0.3))
    x = np.array([[0.5, -1.0]])
    x.attach_grad()
    with autograd.record():
        (slope,) = autograd.grad(net(x), [x], create_graph=True)
        total = (slope**2).sum()
    total.backward()
    assert type(slope) is type(x.grad) is np.ndarray
    y, w = onp.tanh(-0.15), 0.3
    onp.testing.assert_allclose(
        x.grad.asnumpy(), [[2 * 2 * w * (1 - y * y) * w * (-2 * y) * (1 - y * y) * w] * 2], 1e-4
    )


def test_semantics_reach_other_threads() -> None:
    seen: list[Any] = []

    def work() -> None:
        parameter = gluon.Parameter("weight", shape=(1,))
        parameter.initialize()
        seen.append(type(parameter.data()))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [np.ndarray]


def test_custom_operators_see_and_give_arrays_of_the_kind() -> None:
    seen: list[Any] = []

    class Double(mx.operator.CustomOp):
        def forward(self, is_train: bool, req: Any, in_data: Any, out_data: Any, aux: Any) -> None:
            seen.extend([*in_data, *out_data])
            self.assign(out_data[0], req[0], np.tanh(in_data[0]) * 2)

        def backward(self, req: Any, out_grad: Any, in_data: Any, out_data: Any, in_grad: Any, aux: Any) -> None:
            seen.extend([*out_grad, *in_grad])
            self.assign(in_grad[0], req[0], out_grad[0] * 2 * (1 - np.tanh(in_data[0]) ** 2))

    @mx.operator.register("twice_the_tanh")
    class Prop(mx.operator.CustomOpProp):
        def create_operator(self, ctx: Any, in_shapes: Any, in_dtypes: Any) -> Double:
            return Double()

    x = np.array([0.5, 1.0])
    x.attach_grad()
    with autograd.record():
        y = mx.nd.Custom(x, op_type="twice_the_tanh")
    y.backward()
    assert {type(array) for array in (*seen, y, x.grad)} == {np.ndarray}
    onp.testing.assert_allclose(x.grad.asnumpy(), 2 - 2 * onp.tanh([0.5, 1.0]) ** 2, rtol=1e-6)


@pytest.mark.parametrize("name", ["resnet18_v1", "mobilenet_v2_0_25"])
def test_networks_of_the_zoo(name: str) -> None:
    net = getattr(gluon.model_zoo.vision, name)(classes=3)
    net.initialize()
    net.hybridize()
    for _ in range(2):
        assert net(np.ones((1, 3, 32, 32))).shape == (1, 3)


def test_checkpoints() -> None:
    net = nn.Sequential()
    net.add(nn.Dense(4, activation="tanh", in_units=3).checkpoint(), nn.Dense(2, in_units=4))
    net.initialize()
    x = np.ones((2, 3))
    x.attach_grad()
    with autograd.record():
        y = net(x)
    y.backward()
    assert type(y) is type(x.grad) is np.ndarray


def test_gradients_are_of_the_kind_of_their_parameters() -> None:
    parameter = gluon.Parameter("weight", shape=(2,))
    parameter.initialize()
    with mx.util.np_array(False):
        parameter.grad_req = "null"
        parameter.grad_req = "add"
        parameter.reset_ctx(mx.cpu(1))
    assert type(parameter.data()) is type(parameter.grad()) is np.ndarray
    sparse = gluon.Parameter("weight", shape=(2, 2), grad_stype="row_sparse")
    sparse.initialize()
    assert (type(sparse.data()), sparse.grad().stype) == (np.ndarray, "row_sparse")
