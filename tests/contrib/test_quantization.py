"""Quantized networks: graphs, calibration, accuracy, and errors."""

from __future__ import annotations

import inspect
import itertools
import logging
import re

import numpy as np
import pytest

import phonograd as mx
from phonograd import autograd, gluon, nd
from phonograd.contrib import quantization

DIGITS = np.load(mx.__path__[0] + "/data/digits.npz")
IMAGES = (DIGITS["images"].astype(np.float32) / 16 - 0.3)[:, None]
LABELS = DIGITS["labels"].astype(np.float32)
TRAINED = 1400


def train(net, epochs, learning_rate=5e-3):
    mx.random.seed(1)
    order = np.random.RandomState(1)
    net.initialize(mx.init.Xavier())
    net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": learning_rate})
    loss = gluon.loss.SoftmaxCrossEntropyLoss()
    for _ in range(epochs):
        chosen = order.permutation(TRAINED)
        for start in range(0, TRAINED - 63, 64):
            part = chosen[start : start + 64]
            with autograd.record():
                value = loss(net(nd.array(IMAGES[part])), nd.array(LABELS[part]))
            value.backward()
            trainer.step(64)
    return net


def accuracy(net):
    starts = range(TRAINED, len(IMAGES), 100)
    found = [net(nd.array(IMAGES[start : start + 100])).asnumpy().argmax(1) for start in starts]
    return float(np.mean(np.concatenate(found) == LABELS[TRAINED:]))


def calibration_data(count=256):
    return gluon.data.DataLoader(gluon.data.ArrayDataset(IMAGES[:count], LABELS[:count]), batch_size=64)


def lenet():
    net = gluon.nn.HybridSequential()
    net.add(
        gluon.nn.Conv2D(8, 3, padding=1, activation="relu"),
        gluon.nn.MaxPool2D(2),
        gluon.nn.Conv2D(16, 3, padding=1, activation="relu"),
        gluon.nn.MaxPool2D(2),
        gluon.nn.Flatten(),
        gluon.nn.Dense(32, activation="relu"),
        gluon.nn.Dense(10),
    )
    return net


def perceptron():
    data = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=8, name="fc1")
    data = mx.sym.FullyConnected(mx.sym.Activation(data, act_type="relu", name="relu1"), num_hidden=4, name="fc2")
    net = mx.sym.SoftmaxOutput(data, name="softmax")
    shapes = dict(zip(net.list_arguments(), net.infer_shape(data=(16, 6))[0]))
    random = np.random.RandomState(0)
    params = {
        name: nd.array(random.normal(size=shape))
        for name, shape in shapes.items()
        if name not in ("data", "softmax_label")
    }
    return net, params, nd.array(random.normal(size=(64, 6)))


def test_signatures_are_those_of_mxnet():
    names = list(inspect.signature(quantization.quantize_model).parameters)
    assert names == [
        "sym",
        "arg_params",
        "aux_params",
        "data_names",
        "label_names",
        "ctx",
        "excluded_sym_names",
        "excluded_op_names",
        "calib_mode",
        "calib_data",
        "num_calib_examples",
        "quantized_dtype",
        "quantize_mode",
        "quantize_granularity",
        "logger",
    ]
    assert list(inspect.signature(quantization.quantize_net_v2).parameters) == [
        "network",
        "quantized_dtype",
        "quantize_mode",
        "quantize_granularity",
        "exclude_layers",
        "exclude_layers_match",
        "exclude_operators",
        "calib_data",
        "data_shapes",
        "calib_mode",
        "num_calib_examples",
        "ctx",
        "LayerOutputCollector",
        "logger",
    ]


@pytest.mark.parametrize("mode", ["none", "naive", pytest.param("entropy", marks=pytest.mark.slow)])
def test_models_compute_nearly_the_same(mode):
    net, params, data = perceptron()
    batches = mx.io.NDArrayIter(data, batch_size=16)
    qsym, quantized, states = quantization.quantize_model(net, params, {}, calib_mode=mode, calib_data=batches)
    assert [entry.operator for entry in qsym._entries() if not entry.is_argument] == [
        "_contrib_quantize_v2",
        "_contrib_quantized_fully_connected",
        "_contrib_requantize",
        "_contrib_quantized_act",
        "_contrib_quantized_fully_connected",
        "_contrib_requantize",
        "_contrib_dequantize",
        "SoftmaxOutput",
    ]
    assert quantized["fc1_weight_quantize"].dtype == np.int8
    label = nd.zeros((64,))
    found = qsym.eval(data=data, softmax_label=label, **quantized)[0].asnumpy()
    expected = net.eval(data=data, softmax_label=label, **params)[0].asnumpy()
    assert abs(found - expected).mean() < 0.02
    assert not states


def test_graphs_are_calibrated_with_a_monitor():
    net, params, data = perceptron()
    qsym, _, _, collector = quantization.quantize_graph(net, params, {}, calib_mode="naive")
    executor = net.bind(mx.cpu(), {**params, "data": data, "softmax_label": nd.zeros((64,))}, grad_req="null")
    executor.set_monitor_callback(collector.collect, monitor_all=True)
    executor.forward()
    done, quantized, _ = quantization.calib_graph(qsym, params, {}, collector, calib_mode="naive")
    ranges = [entry.attributes.get("max_calib_range") for entry in done._entries() if "requantize" in entry.operator]
    assert len(ranges) == 2
    assert None not in ranges
    assert abs(float(ranges[0]) - collector.min_max_dict["fc1_output"][1]) < 1e-6
    assert quantized["fc2_bias_quantize"].dtype == np.int8


def test_filters_have_ranges_of_their_own():
    # sums of a filter with small weights are as exact as those of others
    random = np.random.RandomState(0)
    data = random.uniform(-1, 1, (4, 6)).astype(np.float32)
    weight = (random.uniform(-1, 1, (3, 6)) * [[1], [1e-2], [0]]).astype(np.float32)
    values = nd.contrib.quantize_v2(nd.array(data))
    whole = nd.contrib.quantize(nd.array(weight), nd.array([-1.0]), nd.array([1.0]), out_type="int8")
    rows = quantization.api._quantized_filters(nd.array(weight))
    errors = []
    for numbers, low, high in (whole, rows):
        sums, least, most = nd.contrib.quantized_fully_connected(
            values[0], numbers, values[1], values[2], low, high, num_hidden=3, no_bias=True
        )
        found = sums.asnumpy() * (most.asnumpy() / 2.0**31)
        errors.append(abs(found - data @ weight.T).max(axis=0))
        assert np.array_equal(least.asnumpy(), -most.asnumpy())
        again, _, limit = nd.contrib.requantize(sums, least, most)
        assert abs(again.asnumpy() * limit.asnumpy() / 127 - found).max() <= limit.asnumpy() / 254 * 1.001
    assert errors[0][1] > 20 * errors[1][1]
    assert errors[1][1] < 3e-4
    assert errors[1][2] == 0
    with pytest.raises(mx.MXNetError, match="must have one element, or a shape that broadcasts"):
        nd.contrib.requantize(sums, nd.zeros((4,)), nd.ones((4,)))


@pytest.mark.parametrize("mode", ["none", "naive"])
def test_one_large_filter_does_not_spoil_the_others(mode):
    net, params, data = perceptron()
    # the first feature is zero, so the large weight has no effect on outputs
    data[:, 0] = 0
    params["fc1_weight"][0, 0] = 200.0
    label = nd.zeros((64,))
    expected = net.eval(data=data, softmax_label=label, **params)[0].asnumpy()
    errors = []
    for granularity in ("tensor-wise", "channel-wise"):
        batches = mx.io.NDArrayIter(data, batch_size=16)
        qsym, quantized, _ = quantization.quantize_model(
            net, params, {}, calib_mode=mode, calib_data=batches, quantize_granularity=granularity
        )
        assert quantized["fc1_weight_quantize_max"].shape == ((8,) if granularity == "channel-wise" else (1,))
        found = qsym.eval(data=data, softmax_label=label, **quantized)[0].asnumpy()
        errors.append(abs(found - expected).mean())
        bound = mx.sym.load_json(qsym.tojson()).simple_bind(mx.cpu(), data=(64, 6), grad_req="null")
        bound.copy_params_from(quantized)
        assert np.array_equal(bound.forward(data=data)[0].asnumpy(), found)
    assert errors[1] < 0.02
    assert errors[0] > 3 * errors[1]


def test_blocks_without_calibration_have_ranges_of_filters():
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Conv2D(4, 3, in_channels=2), gluon.nn.Dense(3))
    net.initialize()
    data = nd.random.uniform(0, 1, shape=(2, 2, 6, 6))
    quantized = quantization.quantize_net_v2(
        net, quantize_granularity="channel-wise", data_shapes=[("data", data.shape)]
    )
    shapes = {name: value.shape for name, value in quantized.collect_params().items()}
    assert shapes[f"{net[0].name}_weight_quantize_max"] == (4,)
    assert shapes[f"{net[1].name}_weight_quantize_min"] == (3,)
    assert abs(quantized(data) - net(data)).max().asscalar() < 0.05


def test_calibrated_blocks_are_fused_and_keep_their_accuracy(caplog):
    net = train(lenet(), 4)
    real = accuracy(net)
    assert real > 0.8
    for granularity in ("tensor-wise", "channel-wise"):
        with caplog.at_level(logging.INFO):
            quantized = quantization.quantize_net_v2(
                net,
                calib_data=calibration_data(),
                calib_mode="naive",
                quantize_granularity=granularity,
                logger=logging.getLogger(),
            )
        assert abs(accuracy(quantized) - real) <= 0.01
    operators = [entry.operator for entry in quantized._output._entries() if not entry.is_argument]
    assert operators.count("_quantized_convolution") == 2
    assert operators.count("_quantized_dense") == 2
    assert "_contrib_dequantize" not in operators
    assert "_fwd is quantized." in caplog.text


@pytest.mark.slow
@pytest.mark.parametrize("name", ["lenet", "resnet18"])
def test_accuracy_is_within_a_point(name):
    net = lenet() if name == "lenet" else gluon.model_zoo.vision.get_resnet(1, 18, classes=10, thumbnail=True)
    train(net, 6 if name == "lenet" else 4, 5e-3 if name == "lenet" else 1e-3)
    real = accuracy(net)
    assert real > 0.9
    for mode, granularity in itertools.product(("naive", "entropy"), ("tensor-wise", "channel-wise")):
        quantized = quantization.quantize_net_v2(
            net, calib_data=calibration_data(), calib_mode=mode, quantize_granularity=granularity
        )
        found = accuracy(quantized)
        print(f"{name}, {mode}, {granularity}: {found:.4f} instead of {real:.4f}")
        assert abs(found - real) <= 0.01


def test_joined_arrays_are_counted_in_files():
    data = mx.sym.var("data")
    parts = [mx.sym.Convolution(data, kernel=(1, 1), num_filter=n, no_bias=True, name=f"part{n}") for n in (2, 3)]
    joined = mx.sym.Concat(*parts, dim=1, name="joined")
    net = mx.sym.Convolution(joined, kernel=(1, 1), num_filter=4, no_bias=True, name="last")
    shapes = dict(zip(net.list_arguments(), net.infer_shape(data=(2, 3, 4, 4))[0]))
    arrays = {name: nd.random.normal(shape=shape) for name, shape in shapes.items() if name != "data"}
    images = nd.random.uniform(0, 1, shape=(2, 3, 4, 4))
    batches = mx.io.NDArrayIter(images, batch_size=2)
    for make in (quantization.quantize_model, quantization.quantize_model_mkldnn):
        qsym, params, _ = make(net, arrays, {}, label_names=None, calib_mode="naive", calib_data=batches)
        text = qsym.tojson()
        # MXNet counts the arrays, not their limits
        assert re.search(r'"op": "_contrib_quantized_concat".*?"num_args": "2"', text, re.DOTALL)
        again = mx.sym.load_json(text)
        found, expected = [s.eval(data=images, **params)[0].asnumpy() for s in (again, qsym)]
        assert np.array_equal(found, expected)
        assert abs(found - net.eval(data=images, **arrays)[0].asnumpy()).max() < 0.2


def test_unsupported_layers_are_named():
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Dense(4, flatten=False), gluon.nn.LayerNorm(prefix="norm_"))
    net.initialize()
    data = [nd.random.normal(shape=(3, 5))]
    message = r"layers stay in float32: norm_\S+ \(operator LayerNorm has no quantized form\)"
    with pytest.warns(UserWarning, match=message):
        quantization.quantize_net_v2(net, calib_data=data, calib_mode="naive")
    quantization.quantize_net_v2(net, calib_data=data, calib_mode="naive", exclude_operators=["LayerNorm"])


def test_excluded_and_unsupported_layers_stay_real(caplog):
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Dense(8), gluon.nn.Dense(8), gluon.nn.Activation("tanh"))
    net.initialize()
    data = mx.io.NDArrayIter(nd.random.normal(shape=(8, 6)), batch_size=4)
    name = net[0].name + "_fwd"
    with caplog.at_level(logging.INFO):
        quantized = quantization.quantize_net_v2(
            net, calib_data=data, calib_mode="naive", exclude_layers=[name], logger=logging.getLogger()
        )
    operators = [entry.operator for entry in quantized._output._entries()]
    assert operators.count("FullyConnected") == operators.count("_quantized_dense") == 1
    assert f"{name} is NOT quantized: it is excluded" in caplog.text
    assert "act_type is tanh" in caplog.text


class TestBadInput:
    @pytest.fixture
    def net(self):
        net = gluon.nn.HybridSequential()
        net.add(gluon.nn.Dense(4))
        net.initialize()
        return net

    def test_calibration_needs_data(self, net):
        with pytest.raises(ValueError, match="calib_data must be provided when calib_mode=naive"):
            quantization.quantize_net_v2(net, calib_mode="naive", data_shapes=[("data", (2, 3))])
        with pytest.raises(ValueError, match="no batches"):
            quantization.quantize_net_v2(net, calib_mode="naive", calib_data=[])

    def test_unknown_words(self, net):
        shapes = [("data", (2, 3))]
        with pytest.raises(ValueError, match="unknown quantized_dtype int4 received"):
            quantization.quantize_net_v2(net, "int4", data_shapes=shapes)
        with pytest.raises(ValueError, match="unknown calibration mode best"):
            quantization.quantize_net_v2(net, data_shapes=shapes, calib_mode="best")
        with pytest.raises(ValueError, match=r"excluded layers \['nothing'\] are not in the network"):
            quantization.quantize_net_v2(net, data_shapes=shapes, exclude_layers=["nothing"])
        with pytest.raises(ValueError, match="unknown quantize_granularity row-wise"):
            quantization.quantize_net_v2(net, data_shapes=shapes, quantize_granularity="row-wise")

    def test_networks_without_layers_to_quantize(self, net):
        data = [nd.ones((2, 3))]
        name = net[0].name
        with pytest.raises(ValueError, match=rf"no layer .* can be quantized: {name}_fwd \(it is excluded\)"):
            quantization.quantize_net_v2(net, calib_data=data, calib_mode="naive", exclude_operators=["FullyConnected"])
        recurrent = gluon.rnn.LSTM(4)
        recurrent.initialize()
        with pytest.raises(ValueError, match=r"rnn0 \(operator RNN has no quantized form\); quantization needs"):
            quantization.quantize_net_v2(recurrent, calib_data=[nd.ones((3, 2, 5))], calib_mode="naive")
        last = gluon.nn.Conv2D(4, 3, layout="NHWC")
        last.initialize()
        with pytest.raises(ValueError, match=r"fwd \(layout NHWC has channels last\)"):
            quantization.quantize_net_v2(last, calib_data=[nd.ones((1, 8, 8, 3))], calib_mode="naive")

    def test_names_that_do_not_exist(self, net):
        def quantize(**options):
            return quantization.quantize_net_v2(net, calib_data=[nd.ones((2, 3))], calib_mode="naive", **options)

        with pytest.raises(ValueError, match=r"FullyConected does not exist \(did you mean 'FullyConnected'\?\)"):
            quantize(exclude_operators=["FullyConected"])
        with pytest.raises(ValueError, match="'conv', but no layer has it in its name"):
            quantize(exclude_layers_match=["conv"])
        with pytest.raises(ValueError, match="unrecognized quantize mode: best"):
            quantize(quantize_mode="best")

    def test_data_that_calibrates_nothing(self, net):
        def quantize(data, **options):
            return quantization.quantize_net_v2(net, calib_data=data, calib_mode="naive", **options)

        with pytest.raises(ValueError, match="num_calib_examples is 0: use at least 1"):
            quantize([nd.ones((2, 3))], num_calib_examples=0)
        with pytest.raises(ValueError, match="the output 'data' has no elements"):
            quantize([nd.zeros((0, 3))])
        with pytest.raises(ValueError, match=r"data has negative numbers \(down to -1\), .* use quantized_dtype"):
            quantize([-nd.ones((2, 3))], quantized_dtype="uint8")

    def test_calibration_data_that_does_not_fit(self, net):
        rows = nd.ones((4, 3))
        with pytest.warns(UserWarning, match="calib_data has 4 examples, but num_calib_examples is 9"):
            quantization.quantize_net_v2(net, calib_data=[rows], calib_mode="naive", num_calib_examples=9)
        with pytest.raises(ValueError, match=r"calib_data must be a DataIter, .* not int"):
            quantization.quantize_net_v2(net, calib_data=3, calib_mode="naive")
        symbol, params, data = perceptron()
        with pytest.raises(ValueError, match=r"calib_data provides \['image'\], but data_names is \['data'\]"):
            quantization.quantize_model(
                symbol, params, {}, calib_data=mx.io.NDArrayIter({"image": data}, batch_size=16), calib_mode="naive"
            )

        class Sum(gluon.HybridBlock):
            def __init__(self):
                super().__init__()
                self.first, self.second = gluon.nn.Dense(2), gluon.nn.Dense(2)

            def hybrid_forward(self, F, x, y):
                return self.first(x) + self.second(y)

        both = Sum()
        both.initialize()
        with pytest.raises(ValueError, match=r"1 arrays .* an array for each of its inputs"):
            quantization.quantize_net_v2(both, calib_data=[rows], calib_mode="naive")
        with pytest.raises(ValueError, match="a batch of calib_data has 1 arrays, but the network has the inputs"):
            quantization.quantize_net_v2(both, calib_data=[[rows, rows], [rows]], calib_mode="naive")

    def test_data_of_an_iterator_is_known_by_its_name(self):
        left, right = [mx.sym.FullyConnected(mx.sym.var(name), num_hidden=2, name=f"fc_{name}") for name in "ab"]
        symbol = mx.sym.elemwise_add(left, right, name="sum")
        params = {
            f"fc_{name}_{kind}": nd.ones((2, 3) if kind == "weight" else (2,))
            for name in "ab"
            for kind in ("weight", "bias")
        }
        batches = mx.io.NDArrayIter({"b": nd.full((4, 3), 5.0), "a": nd.ones((4, 3))}, batch_size=4)
        # names in another order than the arrays of a batch
        names = [description.name for description in batches.provide_data][::-1]
        qsym, _, _ = quantization.quantize_model(
            symbol, params, {}, data_names=names, label_names=None, calib_data=batches, calib_mode="naive"
        )
        ranges = {e.name: e.attributes["max_calib_range"] for e in qsym._entries() if "quantize_v2" in e.operator}
        assert ranges == {"a_quantize": "1.0", "b_quantize": "5.0"}

    def test_collectors_without_the_ranges_of_a_network(self, net):
        symbol, params, _ = perceptron()
        qsym, _, _, collector = quantization.quantize_graph(symbol, params, {}, calib_mode="naive")

        def calibrate(ranges, mode="customize"):
            collector.min_max_dict = ranges
            return quantization.calib_graph(qsym, params, {}, collector, mode)

        with pytest.raises(ValueError, match="the collector is empty"):
            calibrate({})
        with pytest.raises(
            ValueError, match=r"has no ranges of the outputs \['data', .* it has \['date'\].*did you mean"
        ):
            calibrate({"date": (0, 1)})
        with pytest.raises(ValueError, match=r"range of the output 'fc1_output' is \(0, nan\)"):
            calibrate({"data": (0, 1), "fc1_output": (0, np.nan)})
        with pytest.warns(
            UserWarning, match=r"no ranges of the outputs \['fc1_output', 'fc2_output'\]: they are found"
        ):
            calibrate({"data": (0, 1)})
        with pytest.raises(ValueError, match="'entropy' needs a collector with a dictionary hist_dict"):
            calibrate({"data": (0, 1)}, "entropy")
        with pytest.raises(ValueError, match="instance of CalibrationCollector, not the class"):
            quantization.quantize_graph(
                symbol, params, {}, calib_mode="customize", LayerOutputCollector=quantization.CalibrationCollector
            )
        with pytest.raises(ValueError, match="unknown quantized_dtype int4"):
            quantization.calib_graph(qsym, params, {}, collector, "naive", "int4")

    def test_parameters_that_cannot_be_quantized(self):
        symbol, params, _ = perceptron()
        for wrong, message in (("bfloat16", "fc1_weight is bfloat16"), ("float16", "fc1_weight is float16")):
            arrays = {**params, "fc1_weight": params["fc1_weight"].astype(wrong)}
            with pytest.raises(ValueError, match=message):
                quantization.quantize_model(symbol, arrays, {}, calib_mode="none")
        with pytest.raises(ValueError, match="fc2_bias has infinite numbers or NaN"):
            quantization.quantize_model(
                symbol, {**params, "fc2_bias": params["fc2_bias"] * np.inf}, {}, calib_mode="none"
            )

    def test_networks_that_are_not_float32_or_not_hybrid(self, net):
        net(nd.ones((2, 3)))
        net.cast("float16")
        with pytest.raises(ValueError, match=rf"{net[0].name}_weight is float16, .* call cast\('float32'\) first"):
            quantization.quantize_net_v2(net, calib_data=[nd.ones((2, 3))], calib_mode="naive")
        with pytest.raises(ValueError, match="only a HybridBlock can be quantized, not Sequential"):
            quantization.quantize_net_v2(gluon.nn.Sequential(), calib_data=[nd.ones((2, 3))], calib_mode="naive")

    def test_parameters_that_are_not_finite(self, net):
        net(nd.ones((2, 3)))
        net[0].weight.set_data(nd.full((4, 3), np.inf))
        with pytest.raises(ValueError, match=rf"parameters of layer {net[0].name}_fwd have infinite numbers"):
            quantization.quantize_net_v2(net, calib_data=[nd.ones((2, 3))], calib_mode="naive")

    def test_batches_may_be_numpy_arrays_of_a_generator(self, net):
        rows = np.random.RandomState(0).normal(size=(6, 3)).astype(np.float32)
        parts = (rows[at : at + 2] for at in range(0, 6, 2))
        quantized = quantization.quantize_net_v2(net, calib_data=parts, calib_mode="naive")
        (entry,) = [e for e in quantized._output._entries() if e.operator == "_contrib_quantize_v2"]
        assert np.isclose(float(entry.attributes["max_calib_range"]), abs(rows).max())

    def test_data_that_is_not_finite(self, net):
        data = nd.array([[np.nan, 1, 2], [1, 2, 3]])
        with pytest.raises(ValueError, match=r"the output .* has infinite numbers or NaN"):
            quantization.quantize_net_v2(net, calib_data=[data], calib_mode="naive")

    @pytest.mark.parametrize(
        ("name", "dtype", "options"),
        [
            ("quantize", "int8", {}),
            ("quantize_v2", "int32", {}),
            ("dequantize", "float32", {}),
            ("requantize", "int8", {}),
            ("quantized_conv", "float32", {"kernel": (1, 1), "num_filter": 2}),
            ("quantized_fully_connected", "int32", {"num_hidden": 2}),
            ("quantized_pooling", "float32", {"kernel": (1, 1)}),
            ("quantized_act", "int32", {"act_type": "relu"}),
            ("quantized_elemwise_add", "float32", {}),
            ("quantized_elemwise_mul", "uint8", {}),
            ("quantized_batch_norm", "float32", {}),
            ("calibrate_entropy", "int32", {}),
        ],
    )
    def test_symbols_infer_no_other_dtypes(self, name, dtype, options):
        symbol = getattr(mx.sym.contrib, name)(**options, name="layer")
        with pytest.raises(mx.MXNetError, match=rf"Error in operator layer: \w+ must be .*, not {dtype}"):
            symbol.infer_type(**{symbol.list_arguments()[0]: dtype})

    def test_unsigned_numbers_without_calibration(self, net):
        with pytest.warns(UserWarning, match="negative outputs become zeros"):
            quantization.quantize_net_v2(net, "uint8", data_shapes=[("data", (2, 3))])

    def test_real_data_is_refused_by_quantized_operators(self):
        with pytest.raises(mx.MXNetError, match=r"quantize it with contrib\.quantize_v2"):
            nd.contrib.dequantize(nd.ones((2,)), nd.zeros((1,)), nd.ones((1,)))
