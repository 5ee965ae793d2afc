"""Recurrent cells of symbols beyond their values: cells of users, sharing, checkpoints, training in buckets, errors."""

import warnings

import numpy as np
import pytest

import phonograd as mx
from phonograd import nd, rnn


class Decay(rnn.BaseRNNCell):
    """A cell that a user has written."""

    def __init__(self, num_hidden, prefix="decay_", params=None):
        super().__init__(prefix=prefix, params=params)
        self._num_hidden = num_hidden
        self._weight = self.params.get("weight")

    @property
    def state_info(self):
        return [{"shape": (0, self._num_hidden), "__layout__": "NC"}]

    def __call__(self, inputs, states):
        self._counter += 1
        name = f"{self._prefix}t{self._counter}_"
        new = mx.sym.FullyConnected(inputs, self._weight, num_hidden=self._num_hidden, no_bias=True, name=f"{name}i2h")
        output = new + 0.5 * states[0]
        return output, [output]


def test_cells_of_users():
    outputs, states = Decay(2).unroll(3, mx.sym.var("data"), merge_outputs=True)
    assert outputs.list_arguments() == ["data", "decay_weight"]
    data, weight = nd.ones((1, 3, 1)), nd.array([[1.0], [2.0]])
    found = mx.sym.Group([outputs, *states]).eval(data=data, decay_weight=weight)
    assert found[0].asnumpy().tolist() == [[[1, 2], [1.5, 3], [1.75, 3.5]]]
    assert found[1].asnumpy().tolist() == [[1.75, 3.5]]


def test_cells_that_share_weights():
    first = rnn.GRUCell(2, prefix="first_")
    second = rnn.GRUCell(2, prefix="second_", params=first.params)
    output, _ = second(mx.sym.var("data"), second.begin_state())
    assert output.list_arguments()[1:] == [
        f"first_{name}" for name in ("i2h_weight", "i2h_bias", "h2h_weight", "h2h_bias")
    ]
    assert first.params.get("i2h_weight") is second.params.get("i2h_weight")
    with pytest.raises(AssertionError, match="not both"):
        rnn.BidirectionalCell(first, second, params=rnn.RNNParams("both_"))


def test_begin_states():
    cell = rnn.LSTMCell(3)
    names = [state.name for state in cell.begin_state(func=mx.sym.Variable)]
    assert names == ["lstm_begin_state_0", "lstm_begin_state_1"]
    assert cell.state_shape == [(0, 3), (0, 3)]
    modified = rnn.ResidualCell(cell)
    with pytest.raises(AssertionError, match="Call the modifier cell instead"):
        cell.begin_state()
    assert len(modified.begin_state()) == 2
    assert modified.params is cell.params


def test_what_has_no_single_steps():
    fused = rnn.FusedRNNCell(2)
    both = rnn.BidirectionalCell(rnn.RNNCell(2, prefix="l_"), rnn.RNNCell(2, prefix="r_"))
    for cell in (fused, both):
        with pytest.raises(NotImplementedError, match="use unroll"):
            cell(mx.sym.var("x"), [])
    stack = rnn.SequentialRNNCell()
    stack.add(both)
    with pytest.raises(AssertionError, match="use unroll"):
        stack(mx.sym.var("x"), stack.begin_state())
    with pytest.raises(AssertionError, match="no single steps"):
        rnn.ZoneoutCell(both)


def test_errors_say_what_to_do():
    with pytest.raises(ValueError, match="mode must be one of rnn_relu"):
        rnn.FusedRNNCell(2, mode="cnn")
    with pytest.raises(AssertionError, match="Only support odd number"):
        rnn.ConvLSTMCell((2, 3, 6, 7), 2, h2h_kernel=(2, 2))
    with pytest.raises(AttributeError, match="did you mean 'LSTMCell'"):
        _ = rnn.LSTMCel
    with pytest.raises(NotImplementedError, match="has no __call__"):
        rnn.BaseRNNCell()(mx.sym.var("x"), [])


@pytest.mark.parametrize("mode", ["rnn_relu", "rnn_tanh", "lstm", "gru"])
def test_unfused_cells_compute_the_same(mode):
    fused = rnn.FusedRNNCell(3, num_layers=2, mode=mode, bidirectional=True, prefix="f_")
    one, _ = fused.unroll(4, mx.sym.var("data"), merge_outputs=True)
    shapes, _, _ = one.infer_shape(data=(2, 4, 5))
    size = dict(zip(one.list_arguments(), shapes, strict=True))["f_parameters"]
    rng = np.random.RandomState(0)
    vector, data = nd.array(rng.uniform(-1, 1, size)), nd.array(rng.uniform(-1, 1, (2, 4, 5)))
    stack = fused.unfuse()
    other, _ = stack.unroll(4, mx.sym.var("data"), merge_outputs=True)
    weights = stack.pack_weights(fused.unpack_weights({"f_parameters": vector}))
    expected = one.eval(data=data, f_parameters=vector)[0].asnumpy()
    np.testing.assert_allclose(other.eval(data=data, **weights)[0].asnumpy(), expected, rtol=1e-5, atol=1e-6)


def test_checkpoints(tmp_path):
    cell = rnn.FusedRNNCell(2, prefix="f_")
    output, _ = cell.unroll(2, mx.sym.var("data"), merge_outputs=True)
    arrays = {"f_parameters": nd.arange(56), "other": nd.ones((1,))}
    prefix = str(tmp_path / "model")
    rnn.do_rnn_checkpoint(cell, prefix, period=2)(0, output, arrays, {})
    assert not list(tmp_path.iterdir())
    rnn.do_rnn_checkpoint(cell, prefix, period=2)(1, output, arrays, {})
    assert "arg:f_l0_i2h_f_weight" in nd.load(f"{prefix}-0002.params")
    symbol, found, states = rnn.load_rnn_checkpoint([cell], prefix, 2)
    assert symbol.list_arguments() == output.list_arguments()
    assert states == {}
    assert found["f_parameters"].asnumpy().tolist() == list(range(56))


def test_older_names():
    with pytest.warns(UserWarning, match="rnn_unroll is deprecated"):
        outputs, _ = rnn.rnn_unroll(rnn.RNNCell(2), 2, [mx.sym.var("a"), mx.sym.var("b")])
    assert len(outputs) == 2


def test_unknown_words():
    known = {"\n": -1, "a": 0}
    with pytest.raises(AssertionError, match="Unknown token b"):
        rnn.encode_sentences([["a", "b"]], vocab=dict(known))
    numbers, vocabulary = rnn.encode_sentences([["a", "b", "c"]], vocab=dict(known), unknown_token="?")
    assert (numbers, vocabulary) == ([[0, 1, 1]], {**known, "?": 1})
    with pytest.raises(ValueError, match="give buckets="):
        rnn.BucketSentenceIter([[1], [1, 2]], 2)
    with pytest.raises(ValueError, match="Invalid layout XX"):
        rnn.BucketSentenceIter([[1]], 1, layout="XX")


@pytest.mark.filterwarnings("ignore:.*discarded")
def test_training_in_buckets(caplog):
    """A language model of sentences that count: the next word is the present one plus one."""
    sentences = [
        [int(first + k) % 8 for k in range(length)] for first in range(8) for length in (3, 4, 9) for _ in "ab"
    ]
    mx.random.seed(2)
    np.random.seed(2)
    batches = rnn.BucketSentenceIter(sentences, 8, buckets=[3, 4], invalid_label=-1)
    assert "discarded 16 sentences" in caplog.text
    stack = rnn.SequentialRNNCell()
    stack.add(rnn.LSTMCell(16, prefix="lstm_"))

    def network(length):
        words = mx.sym.Embedding(mx.sym.var("data"), input_dim=8, output_dim=8, name="embed")
        stack.reset()
        outputs, _ = stack.unroll(length, words, merge_outputs=True)
        scores = mx.sym.FullyConnected(mx.sym.Reshape(outputs, shape=(-1, 16)), num_hidden=8, name="pred")
        label = mx.sym.Reshape(mx.sym.var("softmax_label"), shape=(-1,))
        loss = mx.sym.SoftmaxOutput(scores, label, use_ignore=True, ignore_label=-1, name="softmax")
        return loss, ("data",), ("softmax_label",)

    module = mx.mod.BucketingModule(network, default_bucket_key=batches.default_bucket_key)
    metric = mx.metric.Perplexity(ignore_label=-1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module.fit(
            batches,
            eval_metric=metric,
            optimizer="adam",
            optimizer_params={"learning_rate": 0.05},
            initializer=mx.init.Xavier(),
            num_epoch=15,
        )
    assert dict([metric.get()])["perplexity"] < 1.5
    arguments, _ = module.get_params()
    assert arguments["lstm_i2h_weight"].shape == (64, 8)
