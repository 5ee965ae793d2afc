"""Write a network that MXNet 1.9.1 exports with NumPy semantics, and what it computes, beside this file.

Run ``python make.py`` where ``import mxnet`` gives MXNet 1.9.1.
"""

from pathlib import Path

from mxnet import init, np, npx
from mxnet.gluon import nn

HERE = Path(__file__).resolve().parent


class Net(nn.HybridBlock):
    """A block with many operators of np and npx."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.hidden = nn.Dense(4)
        self.output = nn.Dense(3, flatten=False)
        self.factor = self.params.get("factor", shape=(4,), init="ones")

    def hybrid_forward(self, F, x, factor):
        """Return several outputs."""
        h = F.npx.relu(self.hidden(x)) * factor + 1.0
        h = F.np.tanh(h) - h.mean(axis=1, keepdims=True)
        h = F.np.concatenate([h, h / 2], axis=1)
        h = F.np.expand_dims(h, 1).reshape(-1, 2, 4)
        h = h.transpose(0, 2, 1)
        k = F.np.where(h > 0, h, F.np.exp(h))
        return F.npx.softmax(self.output(k)), F.np.sum(k[:, 0], axis=1), F.np.maximum(h, 0), 2 - F.np.sqrt(k * k)


npx.set_np()
net = Net()
net.initialize(init.Constant(0.1))
net.hybridize()
outputs = net(np.ones((2, 3)))
net.export(str(HERE / "net"))
npx.save(str(HERE / "outputs.params"), list(outputs))
