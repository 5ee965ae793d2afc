# %% [markdown]
# # Deploying with ONNX and safetensors
#
# A trained network has to leave its notebook: for another program, another language, or a server. This tutorial saves
# one in three forms, reads each again, and compares the results. It needs `pip install 'phonograd[onnx]' onnxruntime`.

# %%
from pathlib import Path

import numpy as np

import phonograd as mx
from phonograd import autograd, gluon
from phonograd.contrib import safetensors
from phonograd.gluon import nn

# %% [markdown]
# ## A network to deploy
#
# A small convolutional network for the handwritten digits, trained for a moment.

# %%
mx.random.seed(0)
digits = mx.demo.load_digits()
images = digits.train_images.expand_dims(1)
net = nn.HybridSequential(prefix="digits_")
with net.name_scope():
    net.add(nn.Conv2D(8, 3, activation="relu"), nn.BatchNorm(), nn.MaxPool2D(), nn.Dense(10))
net.initialize(mx.init.Xavier())
net.hybridize()
trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.01})
loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
loader = gluon.data.DataLoader(gluon.data.ArrayDataset(images, digits.train_labels), 64, shuffle=True)
for data, label in mx.progress([batch for _ in range(4) for batch in loader], "training"):
    with autograd.record():
        loss = loss_of(net(data), label)
    loss.backward()
    trainer.step(len(data))

sample = digits.validation_images[:50].expand_dims(1)
expected = net(sample).asnumpy()
accuracy = (expected.argmax(axis=1) == digits.validation_labels[:50].asnumpy()).mean()
assert accuracy > 0.8
f"{accuracy:.0%}"

# %% [markdown]
# ## For Python with this library
#
# `export` writes the graph and the parameters. `SymbolBlock.imports` reads them without the code of the network.

# %%
net.export("digits")
block = gluon.SymbolBlock.imports("digits-symbol.json", ["data"], "digits-0000.params")
print(np.abs(block(sample).asnumpy() - expected).max())

# %% [markdown]
# ## For other runtimes: ONNX
#
# ONNX files run in onnxruntime, TensorRT, OpenVINO, browsers and many other places. `export_model` takes the files of
# `export`, or a symbol and its parameters.

# %%
path = mx.onnx.export_model("digits-symbol.json", "digits-0000.params", [(50, 1, 8, 8)], onnx_file_path="digits.onnx")
f"{path}: {Path(path).stat().st_size / 1000:.0f} kB"

# %%
import onnxruntime

session = onnxruntime.InferenceSession("digits.onnx")
(result,) = session.run(None, {session.get_inputs()[0].name: sample.asnumpy()})
difference = np.abs(result - expected).max()
assert difference < 1e-4
print(f"largest difference: {difference:.1e}")

# %% [markdown]
# ONNX files can be read, too. `import_to_gluon` returns a block, which can be trained further.

# %%
from_onnx = mx.contrib.onnx.import_to_gluon("digits.onnx")
print(np.abs(from_onnx(sample).asnumpy() - expected).max())

# %% [markdown]
# ## For other libraries: safetensors
#
# A safetensors file holds named arrays and nothing that can run, so it is safe to load from anywhere. Most libraries
# read it.

# %%
parameters = {name: parameter.data() for name, parameter in net.collect_params().items()}
safetensors.save("digits.safetensors", parameters, metadata={"accuracy": f"{accuracy:.2f}"})
loaded = safetensors.load("digits.safetensors")
{name: array.shape for name, array in loaded.items()}

# %%
again = nn.HybridSequential(prefix="digits_")
with again.name_scope():
    again.add(nn.Conv2D(8, 3, activation="relu"), nn.BatchNorm(), nn.MaxPool2D(), nn.Dense(10))
again.initialize()
again(sample)  # finds out the shapes
for name, parameter in again.collect_params().items():
    parameter.set_data(loaded[name])
assert (again(sample).asnumpy() == net(sample).asnumpy()).all()

# %% [markdown]
# ## Which one?
#
# | you want | write |
# |---|---|
# | the same network in phonograd or MXNet, without its code | `net.export` |
# | only the weights, for the same code | `net.save_parameters` |
# | another runtime or language | `mx.onnx.export_model` |
# | weights for another library | `mx.contrib.safetensors.save` |
#
# [symbol.md](../symbol.md) has the details of all formats.
