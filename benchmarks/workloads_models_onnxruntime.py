"""Run the inference rows of :mod:`benchmarks.workloads_models_nd` in onnxruntime, exported by phonograd."""

import functools
import os
import tempfile

from workloads_models_nd import BATCHES, NETWORKS, predicting


def _infer(name, batch, onnxruntime):
    import phonograd as mx

    net, data = predicting(mx, name, batch)
    with tempfile.TemporaryDirectory() as directory:
        prefix = os.path.join(directory, "network")
        net.export(prefix)
        parameters = f"{prefix}-0000.params"
        mx.onnx.export_model(f"{prefix}-symbol.json", parameters, [data.shape], "float32", f"{prefix}.onnx")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = int(os.environ.get("OMP_NUM_THREADS", "1"))
        session = onnxruntime.InferenceSession(f"{prefix}.onnx", options, ["CPUExecutionProvider"])
    (entrance,) = session.get_inputs()
    given = {entrance.name: data.asnumpy()}
    expected, (found, *_) = net(data).asnumpy(), session.run(None, given)
    assert abs(expected - found).max() <= 1e-3 * max(1, abs(expected).max()), name

    def step():
        session.run(None, given)

    return step


WORKLOADS = {f"infer-{name}-{batch}": functools.partial(_infer, name, batch) for name in NETWORKS for batch in BATCHES}
