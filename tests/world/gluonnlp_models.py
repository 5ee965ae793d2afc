"""Build the models of GluonNLP, compute their outputs, train them for one step; print lines of JSON for each.

Run it with a Python that has GluonNLP and ``mxnet``, real or not; arguments are those of ``gluoncv_models.py``. Weights
come from NumPy, so that the printed means and deviations of the outputs can be compared between libraries.
``beam_search`` searches for translations with a small transformer.
"""

import numpy as np
from gluoncv_models import flat, number, run, set_initializers, summary

WORDS = 60
LENGTH, BATCH = 12, 2

LANGUAGE_MODELS = ["standard_lstm_lm_200", "standard_lstm_lm_650", "awd_lstm_lm_600", "awd_lstm_lm_1150"]
BERT = ["bert_12_768_12", "distilbert_6_768_12", "roberta_12_768_12", "ernie_12_768_12"]
OTHERS = ["big_rnn_lm_2048_512", "elmo_2x1024_128_2048cnn_1xhighway", "transformer"]
NAMES = [*LANGUAGE_MODELS, *BERT, *OTHERS, "beam_search"]


def vocabulary():
    """Return a vocabulary of made-up words."""
    import gluonnlp as nlp

    return nlp.Vocab(nlp.data.count_tokens([f"word{index}" for index in range(WORDS)]))


def tokens(shape=(BATCH, LENGTH), dtype="float32", seed=0):
    """Return random indices of words."""
    import mxnet as mx

    return mx.nd.array(np.random.RandomState(seed).randint(4, WORDS, shape), dtype=dtype)


def build_language_model(name):
    """Return a language model and the arrays that it takes."""
    import gluonnlp as nlp

    net, _ = nlp.model.get_model(name, dataset_name=None, vocab=vocabulary(), pretrained=False)
    return net, lambda: [tokens((LENGTH, BATCH)), net.begin_state(batch_size=BATCH)]


def build_bert(name):
    """Return an encoder with its heads and the arrays that it takes."""
    import gluonnlp as nlp
    import mxnet as mx

    net, _ = nlp.model.get_model(name, dataset_name=None, vocab=vocabulary(), pretrained=False)
    lengths, places = mx.nd.array([LENGTH, LENGTH - 3]), mx.nd.array([[1, 3], [2, 5]])
    segments = mx.nd.array(np.arange(LENGTH) > LENGTH // 2).broadcast_to((BATCH, LENGTH))

    def arguments():
        if name.startswith("distilbert"):
            return [tokens(), lengths]
        if name.startswith("roberta"):
            return [tokens(), lengths, places]
        return [tokens(), segments, lengths, places]

    return net, arguments


def build_transformer(words):
    """Return a transformer that translates, with two layers."""
    from gluonnlp.model.transformer import get_transformer_encoder_decoder
    from gluonnlp.model.translation import NMTModel

    encoder, decoder, one_step = get_transformer_encoder_decoder(
        num_layers=2, num_heads=4, units=32, hidden_size=64, max_src_length=50, max_tgt_length=50, dropout=0.0
    )
    return NMTModel(words, words, encoder, decoder, one_step_ahead_decoder=one_step, embed_size=32, prefix="net_")


def build_other(name):
    """Return a model of another kind and the arrays that it takes."""
    import gluonnlp as nlp
    import mxnet as mx

    if name == "transformer":
        net = build_transformer(vocabulary())
        lengths = mx.nd.array([LENGTH, LENGTH - 3])
        return net, lambda: [tokens(), tokens(seed=1), lengths, lengths]
    if name.startswith("elmo"):
        net, *_ = nlp.model.get_model(name, dataset_name=None, pretrained=False)
        mask = mx.nd.ones((BATCH, LENGTH))
        return net, lambda: [tokens((BATCH, LENGTH, 50)), net.begin_state(mx.nd.zeros, batch_size=BATCH), mask]
    net, _ = nlp.model.get_model(name, dataset_name=None, vocab=vocabulary(), pretrained=False)
    return net, lambda: [tokens((LENGTH, BATCH)), net.begin_state(batch_size=BATCH)]


def build(name):
    """Return a network and a function that returns its arguments."""
    if name in LANGUAGE_MODELS:
        return build_language_model(name)
    return build_bert(name) if name in BERT else build_other(name)


def search():
    """Return the results of a beam search with a transformer."""
    import gluonnlp as nlp
    import mxnet as mx

    words = vocabulary()
    net = build_transformer(words)
    set_initializers(net)
    net.initialize(force_reinit=True)
    lengths = mx.nd.array([LENGTH, LENGTH - 3])
    encoded, _ = net.encode(tokens(), valid_length=lengths)

    def step(inputs, states):
        scores, states, _ = net.decode_step(inputs, states)
        return mx.nd.log_softmax(scores), states

    scorer = nlp.model.BeamSearchScorer(alpha=0.6, K=5)
    sampler = nlp.model.BeamSearchSampler(4, step, words[words.eos_token], scorer, max_length=20)
    first = mx.nd.full((BATCH,), words[words.bos_token])
    return summary(sampler(first, net.decoder.init_state_from_encoder(encoded, lengths)))


def attempt(name):
    """Build a model, compute its outputs, train it and return the results."""
    import mxnet as mx
    from mxnet import autograd, gluon

    if name == "beam_search":
        return {"outputs": search(), "loss": None}
    net, arguments = build(name)
    set_initializers(net)
    net.initialize(force_reinit=True)
    outputs = summary([each for each in flat(net(*arguments())) if each is not None])
    with autograd.record(train_mode=False):
        found = [each for each in flat(net(*arguments())) if each is not None and each.dtype == np.float32]
        loss = sum([each.square().mean() for each in found])
    loss.backward()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 1e-6})
    trainer.step(1, ignore_stale_grad=True)
    mx.nd.waitall()
    return {"outputs": outputs, "loss": number(loss.asscalar())}


if __name__ == "__main__":
    run(attempt, lambda: NAMES)
