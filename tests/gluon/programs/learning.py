"""Programs of losses, optimisers, schedulers, metrics and initialisers."""

import numpy as np

from .numbers import draw, values

# -- losses


def losses(mx):
    """Return the values and gradients of all losses."""
    loss = mx.gluon.loss
    rng = np.random.RandomState(3)
    pred, label = draw(rng, 4, 5), draw(rng, 4, 5)
    classes = np.array([0, 3, 4, 2], np.float32)
    signs, bits = np.sign(draw(rng, 4, 5)), (draw(rng, 4, 5) > 0).astype(np.float32)
    weight = np.abs(draw(rng, 4, 1))
    probabilities = np.exp(label) / np.exp(label).sum(1, keepdims=True)
    counts = rng.poisson(3, (4, 5)).astype(np.float32)
    sequence = draw(rng, 2, 6, 4)
    words = np.array([[0, 1, 2], [2, 1, -1]], np.float32)
    cases = {
        "L2Loss": (loss.L2Loss(), pred, label),
        "L2Loss weighted": (loss.L2Loss(weight=0.3, batch_axis=1), pred, label, weight),
        "L1Loss": (loss.L1Loss(), pred, label),
        "L1Loss weighted": (loss.L1Loss(weight=2.0), pred, label, weight),
        "SigmoidBCELoss": (loss.SigmoidBCELoss(), pred, bits),
        "SigmoidBCELoss from sigmoid": (loss.SigmoidBCELoss(from_sigmoid=True), np.abs(pred), bits, weight),
        "SigmoidBCELoss positive": (loss.SigmoidBCELoss(), pred, bits, weight, np.abs(label[:1])),
        "SigmoidBCELoss positive from sigmoid": (
            loss.SigmoidBCELoss(from_sigmoid=True),
            np.abs(pred),
            bits,
            weight,
            np.abs(label[:1]),
        ),
        "SoftmaxCELoss": (loss.SoftmaxCELoss(), pred, classes),
        "SoftmaxCELoss dense": (loss.SoftmaxCELoss(sparse_label=False, weight=0.5), pred, probabilities),
        "SoftmaxCELoss from logits": (loss.SoftmaxCELoss(from_logits=True), pred, classes, weight),
        "SoftmaxCELoss axis": (loss.SoftmaxCELoss(axis=1), draw(rng, 2, 3, 4), np.array([[0, 1, 2, 1]] * 2)),
        "KLDivLoss": (loss.KLDivLoss(), pred, probabilities),
        "KLDivLoss softmax": (loss.KLDivLoss(from_logits=False), pred, probabilities, weight),
        "CTCLoss": (loss.CTCLoss(), sequence, words),
        "CTCLoss lengths": (
            loss.CTCLoss(layout="TNC", label_layout="TN"),
            sequence.swapaxes(0, 1).copy(),
            np.array([[0, 1, 2], [2, 1, 0]], np.float32).T.copy(),
            np.array([6, 5]),
            np.array([3, 2]),
        ),
        "HuberLoss": (loss.HuberLoss(rho=0.5), pred, label),
        "HingeLoss": (loss.HingeLoss(margin=0.4), pred, signs),
        "SquaredHingeLoss": (loss.SquaredHingeLoss(), pred, signs),
        "LogisticLoss": (loss.LogisticLoss(), pred, signs),
        "LogisticLoss binary": (loss.LogisticLoss(label_format="binary"), pred, bits, weight),
        "TripletLoss": (loss.TripletLoss(), pred, label, draw(rng, 4, 5)),
        "PoissonNLLLoss": (loss.PoissonNLLLoss(), pred, counts),
        "PoissonNLLLoss of means": (loss.PoissonNLLLoss(from_logits=False), np.abs(pred), counts, weight),
        "CosineEmbeddingLoss": (loss.CosineEmbeddingLoss(margin=0.1), pred, label, signs[:, 0].copy()),
        "SDMLLoss": (loss.SDMLLoss(), pred, label),
    }
    found = {}
    for name, (function, *arrays) in cases.items():
        given = [mx.nd.array(array) for array in arrays]
        given[0].attach_grad()
        with mx.autograd.record():
            value = function(*given)
        value.backward()
        found[name] = {"value": values(value), "grad": values(given[0].grad), "repr": repr(function)}
    full = loss.PoissonNLLLoss(from_logits=False, compute_full=True)  # MXNet cannot record it
    value = full(mx.nd.array(np.abs(pred)), mx.nd.array(counts + 1))
    found["PoissonNLLLoss full"] = {"value": values(value), "grad": None, "repr": repr(full)}
    return found


# -- optimisers


OPTIMIZERS = [
    ("sgd", {}),
    ("sgd", {"momentum": 0.9, "wd": 0.1}),
    ("sgd", {"momentum": 0.9, "clip_gradient": 0.3, "wd": 0.01, "rescale_grad": 0.5}),
    ("ccsgd", {"momentum": 0.5}),
    ("nag", {"momentum": 0.9, "wd": 0.1}),
    ("nag", {"learning_rate": 0.05}),
    ("signum", {"wd": 0.1, "wd_lh": 0.05}),
    ("signum", {"momentum": 0.0, "wd": 0.1}),
    ("ftml", {"learning_rate": 0.05, "wd": 0.1}),
    ("ftml", {"clip_gradient": 0.3, "wd": 0.1}),
    ("lars", {"learning_rate": 0.5, "momentum": 0.9, "wd": 0.1}),
    ("lars", {"eta": 0.1}),
    ("lbsgd", {"momentum": 0.9, "batch_scale": 2, "updates_per_epoch": 2}),
    ("lbsgd", {"warmup_strategy": "lars", "wd": 0.1}),
    ("lbsgd", {"warmup_strategy": "sqrt", "batch_scale": 3, "updates_per_epoch": 4}),
    ("lamb", {"learning_rate": 0.05, "wd": 0.1}),
    ("lamb", {"bias_correction": False, "lower_bound": 0.5, "upper_bound": 1.5, "clip_gradient": 0.3}),
    ("dcasgd", {"wd": 0.1}),
    ("dcasgd", {"clip_gradient": 0.3, "lamda": 0.5}),
    ("adam", {}),
    ("adam", {"learning_rate": 0.05, "wd": 0.1, "clip_gradient": 0.3, "rescale_grad": 0.5}),
    ("adagrad", {"learning_rate": 0.1, "wd": 0.1}),
    ("rmsprop", {"wd": 0.1}),
    ("rmsprop", {"centered": True, "clip_weights": 0.5, "clip_gradient": 0.3}),
    ("adadelta", {"wd": 0.01, "clip_gradient": 0.3}),
    ("ftrl", {"wd": 0.1}),
    ("ftrl", {"learning_rate": 0.5, "lamda1": 0.1, "clip_gradient": 0.3}),
    ("adamax", {"wd": 0.1}),
    ("nadam", {"wd": 0.1, "clip_gradient": 0.3}),
    ("groupadagrad", {"learning_rate": 0.1, "clip_gradient": 0.3}),
    ("test", {"rescale_grad": 0.1}),
]


def optimizers(mx):
    """Return the weights after each of ten updates by every optimiser, and how they are decided."""
    found = []
    for name, arguments in OPTIMIZERS:
        rng = np.random.RandomState(4)
        weights = [mx.nd.array(draw(rng, 3, 4)), mx.nd.array(draw(rng, 2, 2))]
        updater = mx.optimizer.get_updater(mx.optimizer.create(name, **arguments))
        way = []
        for _ in range(10):
            for index, weight in enumerate(weights):
                updater(index, mx.nd.array(draw(rng, *weight.shape)), weight)
            way.append([values(weight) for weight in weights])
        found.append({"optimizer": name, "arguments": arguments, "way": way})
    return {"ways": found}


SCHEDULERS = [
    ("FactorScheduler", {"step": 3, "factor": 0.5, "base_lr": 1.0, "stop_factor_lr": 0.1}),
    ("FactorScheduler", {"step": 2, "factor": 0.9, "warmup_steps": 4, "warmup_begin_lr": 0.001}),
    ("MultiFactorScheduler", {"step": [2, 5, 11], "factor": 0.1, "base_lr": 0.5}),
    ("MultiFactorScheduler", {"step": [8], "factor": 0.1, "warmup_steps": 5, "warmup_mode": "constant"}),
    ("PolyScheduler", {"max_update": 12, "base_lr": 0.4, "final_lr": 0.1, "pwr": 2}),
    ("PolyScheduler", {"max_update": 15, "pwr": 1, "warmup_steps": 3}),
    ("CosineScheduler", {"max_update": 12, "base_lr": 0.4, "final_lr": 0.1}),
    ("CosineScheduler", {"max_update": 18, "warmup_steps": 3, "warmup_begin_lr": 0.002}),
]


def schedulers(mx):
    """Return learning rates of the first updates."""
    rates = []
    for name, arguments in SCHEDULERS:
        schedule = getattr(mx.lr_scheduler, name)(**arguments)
        rates.append([schedule(update) for update in range(1, 21)])
    return {"rates": rates}


# -- metrics


def metrics(mx):
    """Return names and values of all metrics after three batches."""
    rng = np.random.RandomState(5)
    many = [(rng.randint(0, 4, 6), np.abs(draw(rng, 6, 4)) + np.float32(0.01)) for _ in range(3)]
    many = [(label, pred / pred.sum(1, keepdims=True)) for label, pred in many]
    two = [(rng.randint(0, 2, 8), np.abs(draw(rng, 8, 2))) for _ in range(3)]
    numbers = [(draw(rng, 5), draw(rng, 5)) for _ in range(3)]
    metric = mx.metric
    cases = {
        "accuracy": (metric.Accuracy(), many),
        "accuracy of classes": (metric.Accuracy(), [(label, pred.argmax(1)) for label, pred in many]),
        "top k": (metric.TopKAccuracy(top_k=2), many),
        "f1": (metric.F1(), two),
        "f1 micro": (metric.F1(average="micro"), two),
        "mcc": (metric.MCC(), two),
        "mcc micro": (metric.MCC(average="micro"), two),
        "pcc": (metric.PCC(), many),
        "perplexity": (metric.Perplexity(ignore_label=None), many),
        "perplexity ignoring": (metric.Perplexity(ignore_label=1), many),
        "mae": (metric.MAE(), numbers),
        "mse": (metric.MSE(), numbers),
        "rmse": (metric.RMSE(), numbers),
        "pearson": (metric.PearsonCorrelation(), numbers),
        "cross entropy": (metric.CrossEntropy(), many),
        "nll": (metric.NegativeLogLikelihood(), many),
        "loss": (metric.Loss(), numbers),
        "torch": (metric.Torch(), numbers),
        "custom": (metric.CustomMetric(lambda label, pred: float(np.abs(label - pred).max())), numbers),
        "custom pair": (metric.np(lambda label, pred: (float(pred.sum()), 2), name="mine"), numbers),
        "composite": (metric.create(["acc", "ce", metric.TopKAccuracy(3)]), many),
    }
    found = {}
    for name, (function, batches) in cases.items():
        history = []
        for label, pred in batches:
            function.update([mx.nd.array(label)], [mx.nd.array(pred)])
            history.append(function.get())
        if name != "composite":
            function.reset_local()
        history.append(function.get_global())
        found[name] = {"history": [[a, np.asarray(b, dtype=np.float64).tolist()] for a, b in history]}
    return found


# -- initialisers


def initializers(mx):
    """Return what initialisers are as text, and the mean and spread of what they draw."""
    init = mx.init
    mx.random.seed(0)
    cases = [
        (init.Zero(), (3, 4)),
        (init.One(), (3, 4)),
        (init.Constant(2.5), (3, 4)),
        (init.Uniform(), (300, 400)),
        (init.Uniform(0.5), (300, 400)),
        (init.Normal(), (300, 400)),
        (init.Normal(0.2), (300, 400)),
        (init.Orthogonal(), (100, 200)),
        (init.Orthogonal(scale=1.0, rand_type="normal"), (100, 2, 50)),
        (init.Xavier(), (300, 400)),
        (init.Xavier(rnd_type="gaussian", factor_type="in", magnitude=2), (64, 32, 3, 3)),
        (init.Xavier(factor_type="out"), (64, 32, 3, 3)),
        (init.MSRAPrelu(), (64, 32, 3, 3)),
        (init.MSRAPrelu("in", 0), (64, 32, 3, 3)),
        (init.Bilinear(), (2, 1, 4, 4)),
        (init.LSTMBias(2.0), (8,)),
    ]
    found = []
    for function, shape in cases:
        array = mx.nd.zeros(shape)
        function(init.InitDesc("a_weight"), array)
        data = array.asnumpy().astype(np.float64)
        exact = data.tolist() if data.size < 100 else None
        found.append(
            {
                "text": function.dumps(),
                "shape": list(shape),
                "mean": float(data.mean()),
                "spread": float(data.std()),
                "largest": float(np.abs(data).max()),
                "exact": exact,
            }
        )
    filled = {}
    for name in ("a_weight", "a_bias", "a_gamma", "a_beta", "a_min", "a_max"):
        array = mx.nd.full((2,), 7)
        init.Constant(3)(init.InitDesc(name), array)
        filled[name] = values(array)
    return {"cases": found, "filled": filled}
