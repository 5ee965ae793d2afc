"""What MXNet keeps under gluon.contrib and contrib: deformable convolutions, text, and parts that say they are missing."""

import collections
import hashlib
import zipfile

import numpy as np
import pytest

import phonograd as mx
from phonograd.contrib import text
from phonograd.gluon.contrib import cnn, data

Counter = collections.Counter


@pytest.mark.parametrize("kind", [cnn.DeformableConvolution, cnn.ModulatedDeformableConvolution])
def test_deformable_convolutions_begin_as_ordinary_ones(kind, tmp_path):
    net = kind(4, kernel_size=(3, 3), padding=(1, 1), activation="relu", prefix="q_")
    assert repr(net).endswith("(None -> 4, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1), Activation(relu))")
    net.initialize(mx.init.Xavier())
    x = mx.nd.random.normal(shape=(2, 3, 6, 5))
    found = net(x)
    planes = 18 if kind is cnn.DeformableConvolution else 27
    shapes = {name: parameter.shape for name, parameter in net.collect_params().items()}
    assert shapes == {
        "q_offset_weight": (planes, 3, 3, 3),
        "q_offset_bias": (planes,),
        "q_deformable_conv_weight": (4, 3, 3, 3),
        "q_deformable_conv_bias": (4,),
    }
    weight, bias = net.deformable_conv_weight.data(), net.deformable_conv_bias.data()
    plain = mx.nd.relu(mx.nd.Convolution(x, weight, bias, kernel=(3, 3), pad=(1, 1), num_filter=4))
    assert np.allclose(found.asnumpy(), plain.asnumpy(), atol=1e-5)
    net.offset_weight.set_data(mx.nd.random.normal(scale=0.1, shape=net.offset_weight.shape))
    expected = net(x).asnumpy()
    assert not np.allclose(expected, plain.asnumpy(), atol=1e-3)
    net.hybridize()
    assert np.allclose(net(x).asnumpy(), expected, atol=1e-6)
    net.export(str(tmp_path / "net"))
    again = mx.gluon.SymbolBlock.imports(str(tmp_path / "net-symbol.json"), ["data"], str(tmp_path / "net-0000.params"))
    assert np.allclose(again(x).asnumpy(), expected, atol=1e-6)


def test_deformable_convolutions_learn_their_shifts():
    mx.random.seed(1)
    net = cnn.DeformableConvolution(2, kernel_size=3, padding=1, num_deformable_group=3, use_bias=False)
    net.initialize(mx.init.Normal(0.3))
    x, wanted = mx.nd.random.normal(shape=(4, 3, 6, 6)), mx.nd.random.normal(shape=(4, 2, 6, 6))
    trainer = mx.gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.05})
    losses = []
    for _ in range(12):
        with mx.autograd.record():
            loss = ((net(x) - wanted) ** 2).mean()
        loss.backward()
        trainer.step(1)
        losses.append(loss.asscalar())
    assert losses[-1] < 0.9 * losses[0]
    assert (net.offset_weight.data().asnumpy() != 0).any()
    with pytest.raises(NotImplementedError, match="does not support adj"):
        cnn.DeformableConvolution(2, adj=1)


# -- text


def test_vocabulary():
    counts = Counter(["a", "b", "b", "c", "c", "c", "some_word$"])
    words = text.vocab.Vocabulary(counts, reserved_tokens=["<pad>"])
    assert words.token_to_idx == {"<unk>": 0, "<pad>": 1, "c": 2, "b": 3, "a": 4, "some_word$": 5}
    assert (words.reserved_tokens, words.unknown_token, len(words)) == (["<pad>"], "<unk>", 6)
    assert words.to_indices("zz") == 0
    assert text.vocab.Vocabulary(counts, most_freq_count=2).idx_to_token == ["<unk>", "c", "b"]
    assert text.vocab.Vocabulary(counts, min_freq=2).idx_to_token == ["<unk>", "c", "b"]
    with pytest.raises(ValueError, match="Token index 100"):
        words.to_tokens(100)
    with pytest.raises(AssertionError, match="cannot contain `unknown_token`"):
        text.vocab.Vocabulary(counts, reserved_tokens=["<unk>"])


def test_embeddings(tmp_path, monkeypatch):
    path = tmp_path / "glove" / "glove.6B.50d.txt"
    with pytest.raises(FileNotFoundError, match=r"glove\.6B\.50d\.txt is missing.*nlp\.stanford\.edu"):
        text.embedding.create("glove", pretrained_file_name="glove.6B.50d.txt", embedding_root=str(tmp_path))
    path.parent.mkdir()
    path.write_text("a 0.1 0.2 0.3\nb 1 2 3\nc 7 8 9\n")
    found = text.embedding.create("glove", pretrained_file_name="glove.6B.50d.txt", embedding_root=str(tmp_path))
    assert (found.idx_to_token, found.vec_len) == (["<unk>", "a", "b", "c"], 3)
    assert found.get_vecs_by_tokens(["c", "zz"]).asnumpy().tolist() == [[7, 8, 9], [0, 0, 0]]
    assert found.get_vecs_by_tokens("B", lower_case_backup=True).asnumpy().tolist() == [1, 2, 3]
    found.update_token_vectors(["b"], mx.nd.array([4, 5, 6]))
    assert found.get_vecs_by_tokens("b").asnumpy().tolist() == [4, 5, 6]
    with pytest.raises(ValueError, match="Token qq is unknown"):
        found.update_token_vectors("qq", mx.nd.ones(3))
    with pytest.raises(KeyError, match=r"Valid pretrained files.*glove\.6B\.50d\.txt"):
        text.embedding.GloVe("glove.7B.txt", embedding_root=str(tmp_path))
    words = text.vocab.Vocabulary(Counter(["c", "b", "x"]))
    path.write_text("<unk> 9 9\na 1 2\na 3 4\nc 5 6\n")
    with pytest.warns(UserWarning, match="duplicate embedding"):
        own = text.embedding.CustomEmbedding(str(path), vocabulary=words)
    assert own.idx_to_vec.asnumpy().tolist() == [[9, 9], [9, 9], [5, 6], [9, 9]]
    both = text.embedding.CompositeEmbedding(words, [own, own])
    assert both.idx_to_vec.shape == (4, 4)
    assert "glove.6B.300d.txt" in text.embedding.get_pretrained_file_names("glove")


def test_articles_from_files(tmp_path, monkeypatch):
    content = b" = Title = \n\n the cat sat \n the dog ran \n"
    archive = tmp_path / "wikitext-2-v1.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("wikitext-2/wiki.train.tokens", content)
    digest = hashlib.sha1(archive.read_bytes()).hexdigest()
    monkeypatch.setattr(data.text.WikiText2, "_archive", ("wikitext-2-v1.zip", digest))
    named = {"train": ("wiki.train.tokens", hashlib.sha1(content).hexdigest())}
    monkeypatch.setattr(data.text.WikiText2, "_files", named)
    articles = data.text.WikiText2(root=str(tmp_path), segment="train", seq_len=3)
    assert articles.vocabulary.idx_to_token == ["<unk>", "<eos>", "=", "the", "Title", "cat", "dog", "ran", "sat"]
    assert articles.frequencies["the"] == 2
    assert len(articles) == 3
    sequence, following = articles[0]
    assert articles.vocabulary.to_tokens(sequence.asnumpy().tolist()) == ["=", "Title", "="]
    assert articles.vocabulary.to_tokens(following.asnumpy().tolist()) == ["Title", "=", "<eos>"]
    assert list(data.IntervalSampler(4, 2)) == [0, 2, 1, 3]
    with pytest.raises(ValueError, match="segment must be"):
        data.text.WikiText2(segment="all")


def test_missing_articles_are_named(tmp_path, monkeypatch):
    monkeypatch.setenv("MXNET_GLUON_REPO", "http://localhost:9")
    with pytest.raises(OSError, match=r"Put the file wikitext-103-v1\.zip with SHA-1 0aec09a7"):
        data.text.WikiText103(root=str(tmp_path))


# -- parts that are missing


def test_a_store_of_several_processes_alone():
    store = mx.kv.create("dist_sync")
    assert (store.rank, store.num_workers) == (0, 1)
