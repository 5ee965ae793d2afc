# %% [markdown]
# # A recurrent text model
#
# A recurrent network reads a text letter by letter and learns which letter comes next. Afterwards it can continue a
# text. The data is a few sentences, so training takes seconds.

# %%
import numpy as np

import phonograd as mx
from phonograd import autograd, gluon, nd
from phonograd.gluon import nn, rnn

TEXT = (
    "the needle follows the groove and the groove remembers the song; "
    "the song remembers the singer and the singer remembers the room; "
)
letters = sorted(set(TEXT))
codes = np.array([letters.index(letter) for letter in TEXT])
len(TEXT), "".join(letters)

# %% [markdown]
# ## Batches
#
# Each example is a window of 32 letters. The target is the same window, one letter later. Layouts of recurrent layers
# are (time, batch), so windows are columns.

# %%
WINDOW = 32
around = np.concatenate([codes, codes[: WINDOW + 1]])
windows = np.stack([around[start : start + WINDOW + 1] for start in range(len(codes))], axis=1)
inputs, targets = nd.array(windows[:-1]), nd.array(windows[1:])
inputs.shape, targets.shape

# %% [markdown]
# ## The model
#
# An embedding turns letters into vectors, an LSTM carries a state from letter to letter, and a dense layer scores the
# next letter.


# %%
class Letters(gluon.HybridBlock):
    def __init__(self, count, hidden=64):
        super().__init__()
        with self.name_scope():
            self.embedding = nn.Embedding(count, 16)
            self.lstm = rnn.LSTM(hidden)
            self.scores = nn.Dense(count, flatten=False)

    def forward(self, letters, states):
        output, states = self.lstm(self.embedding(letters), states)
        return self.scores(output), states


mx.random.seed(2)
model = Letters(len(letters))
model.initialize(mx.init.Xavier())
trainer = gluon.Trainer(model.collect_params(), "adam", {"learning_rate": 0.02})
loss_of = gluon.loss.SoftmaxCrossEntropyLoss()

# %% [markdown]
# ## Training
#
# Gradients of recurrent networks can become very large, so we limit their norm.

# %%
curves = mx.curves.Curves()
bar = mx.progress(range(80), "training")
for step in bar:
    with autograd.record():
        scores, _ = model(inputs, model.lstm.begin_state(batch_size=inputs.shape[1]))
        loss = loss_of(scores.reshape((-1, len(letters))), targets.reshape((-1,))).mean()
    loss.backward()
    gluon.utils.clip_global_norm([p.grad() for p in model.collect_params().values()], 1.0)
    trainer.step(1)
    if step % 10 == 9:
        bar.set_postfix(loss=loss)
        curves.add(step=step, loss=loss)
        curves.show()

# %% [markdown]
# The loss ends near the entropy of the text: only the first letters of a window, without anything before them, are hard
# to guess.
#
# ## Continuing a text
#
# The state makes this cheap: each new letter costs one step. `temperature` divides the scores; low values prefer the
# most likely letters.


# %%
def continued(start, length, temperature=0.0):
    state = model.lstm.begin_state(batch_size=1)
    text = start
    given = nd.array([[letters.index(letter)] for letter in start])
    for _ in range(length):
        scores, state = model(given, state)
        last = scores[-1, 0]
        if temperature:
            choice = int(nd.random.multinomial(nd.softmax(last / temperature)).asscalar())
        else:
            choice = int(last.argmax(axis=0).asscalar())
        text += letters[choice]
        given = nd.array([[choice]])
    return text


recited = continued("the needle follows", len(TEXT) - len("the needle follows"))
print(recited)
assert recited == TEXT

# %%
for temperature in (0.5, 1.5):
    print(f"{temperature}:", continued("the s", 60, temperature))

# %% [markdown]
# ## Where to go from here
#
# - `rnn.GRU` and `rnn.RNN` take the same arguments; `rnn.LSTMCell` runs one step at a time.
# - `num_layers`, `bidirectional` and `dropout` are arguments of the layers.
# - [examples/character_rnn.py](../../examples/character_rnn.py) writes the network from scratch.
