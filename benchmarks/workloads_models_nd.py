"""Define whole models in Gluon, for phonograd and for MXNet itself; :mod:`benchmarks.workloads_models_torch` has them,
too."""

from workloads_nd import _trained


def resnet18(mx, batch=8, side=64):
    """ResNet-18 on images of 64 x 64, batch 8: one step of descent"""
    net = mx.gluon.model_zoo.vision.resnet18_v1(classes=10)
    data = mx.nd.random.normal(shape=(batch, 3, side, side))
    return _trained(mx, net, data, mx.nd.arange(batch) % 10)


def bert(mx, batch=8, length=64, words=5_000, width=256, heads=4, layers=4):
    """an encoder like BERT: 4 layers, 256 units, 4 heads, 64 words, batch 8: one step of descent"""
    nn, gluon = mx.gluon.nn, mx.gluon

    class Layer(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            with self.name_scope():
                self.mixed = nn.Dense(3 * width, flatten=False)
                self.out = nn.Dense(width, flatten=False)
                self.wide = nn.Dense(4 * width, flatten=False)
                self.narrow = nn.Dense(width, flatten=False)
                self.first, self.second = nn.LayerNorm(), nn.LayerNorm()
                self.gelu = nn.GELU()

        def hybrid_forward(self, F, x):
            mixed = F.reshape(self.mixed(x), (0, 0, -4, 3 * heads, -1))
            parts = F.split(F.transpose(mixed, (0, 2, 1, 3)), num_outputs=3, axis=1)
            q, k, v = [F.reshape(part, (-3, 0, 0)) for part in parts]
            share = F.softmax(F.batch_dot(q, k, transpose_b=True) * (width // heads) ** -0.5)
            mixed = F.reshape(F.batch_dot(share, v), (-4, -1, heads, 0, 0))
            x = self.first(x + self.out(F.reshape(F.transpose(mixed, (0, 2, 1, 3)), (0, 0, -3))))
            return self.second(x + self.narrow(self.gelu(self.wide(x))))

    net = nn.HybridSequential()
    net.add(nn.Embedding(words, width), *[Layer() for _ in range(layers)])
    net.add(nn.Dense(words, flatten=False), nn.HybridLambda(lambda F, x: F.reshape(x, (-3, 0))))
    data = mx.nd.arange(batch * length).reshape((batch, length)) * 7 % words
    return _trained(mx, net, data, (data + 1).reshape((-1,)) % words)


WORKLOADS = {"resnet18": resnet18, "bert": bert}
