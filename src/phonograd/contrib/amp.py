"""Mixed precision (``mxnet.contrib.amp``) is not available: importing this module says so, and what to do instead."""

from __future__ import annotations

raise ImportError(
    "mxnet.contrib.amp (mixed precision) is not available: this library computes on the CPU, where float16 saves "
    "memory but no time. Train in float32: leave out amp.init() and amp.init_trainer(trainer), and write "
    "loss.backward() in place of amp.scale_loss(loss, trainer). To store a network in half precision, call "
    "net.cast('float16').",
    name=__name__,
)
