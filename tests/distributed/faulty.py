"""A program in which the last rank behaves as its argument says: run by test_faults.py as a script."""

import os
import signal
import sys
import threading
import time

import mxnet as mx
import numpy as np

store = mx.kv.create("dist_sync")
store.init("a", mx.nd.ones((3,)))
fault, last = sys.argv[1], store.rank == store.num_workers - 1
print("ready", flush=True)
if last and fault == "raise":
    raise ValueError("this rank cannot go on")
if last and fault == "kill":
    os.kill(os.getpid(), signal.SIGKILL)
if last and fault == "stop":
    os.kill(os.getpid(), signal.SIGSTOP)
if last and fault == "exit":
    sys.exit(0)
if last and fault == "sleep":
    time.sleep(3600)
if fault == "wait":
    time.sleep(3600)
if fault == "stop in a transfer":
    if last:
        # in the middle of one of many reductions
        threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGSTOP)).start()
    values = [np.ones(4_000_000, "f")]
    while True:
        mx.distributed.world().all_reduce(values)
for number in range(20):
    if last and fault == "kill later" and number == 10:
        os.kill(os.getpid(), signal.SIGKILL)
    store.push("a", mx.nd.ones((3,)))
    store.pull("a", out=(out := mx.nd.zeros((3,))))
    out.wait_to_read()
print("done", flush=True)
