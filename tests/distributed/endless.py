"""A program that trains until it is killed: run by test_faults.py as a script."""

import phonograd as mx
from phonograd import autograd, gluon, nd

net = gluon.nn.HybridSequential()
net.add(gluon.nn.Dense(300, activation="relu", in_units=20), gluon.nn.Dense(200), gluon.nn.Dense(1))
net.initialize()
trainer = gluon.Trainer(net.collect_params(), "adam", kvstore="dist_sync")
mx.settings.update(bucket_bytes=100_000)
# with reductions in the background, also where there is no free core
mx.distributed.world().hides_transfers = True
x = nd.random.normal(shape=(16, 20))
print("ready", flush=True)
while True:
    with autograd.record():
        loss = (net(x) ** 2).mean()
    loss.backward()
    trainer.step(16)
