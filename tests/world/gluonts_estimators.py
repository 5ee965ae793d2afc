"""Train small estimators of GluonTS, predict, and predict again after serialization; print lines of JSON for each.

Run it with a Python that has GluonTS and ``mxnet``, real or not. Arguments are names of estimators; without any, all are
tried, but those after ``--skip``. The lines have the seconds of each estimator.
"""

import json
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

LENGTH, PREDICTION = 60, 4


def series(target_dim=0, events=False):
    """Return a dataset of three short series."""
    import pandas as pd
    from gluonts.dataset.common import ListDataset

    random = np.random.RandomState(0)
    if events:
        entries = [
            {
                "target": np.stack([random.uniform(0.1, 1, 20), random.randint(0, 2, 20).astype(float)]),
                "start": pd.Timestamp("2020-01-01"),
                "end": pd.Timestamp("2020-01-01") + pd.Timedelta(20, "H"),
            }
            for _ in range(3)
        ]
        from gluonts.dataset.common import ListDataset as Plain

        return Plain(entries, freq="H", one_dim_target=False)
    shape = (target_dim, LENGTH) if target_dim else (LENGTH,)
    entries = [
        {"target": 5 + random.rand(*shape), "start": "2020-01-01", "feat_static_cat": [each], "item_id": str(each)}
        for each in range(3)
    ]
    return ListDataset(entries, freq="H", one_dim_target=not target_dim)


def estimators():
    """Return functions that make an estimator and its dataset, by name."""
    from gluonts import mx as models
    from gluonts.mx.trainer import Trainer

    trainer = {"trainer": Trainer(epochs=1, num_batches_per_epoch=2, hybridize=False)}
    common = {"freq": "H", "prediction_length": PREDICTION, **trainer}
    plain = {"prediction_length": PREDICTION, **trainer}
    cardinality = {"cardinality": [3]}
    return {
        "DeepAREstimator": lambda: (models.DeepAREstimator(**common, num_layers=1, num_cells=8), series()),
        "SimpleFeedForwardEstimator": lambda: (models.SimpleFeedForwardEstimator(**plain), series()),
        "MQCNNEstimator": lambda: (models.MQCNNEstimator(**common, quantiles=[0.1, 0.5, 0.9]), series()),
        "MQRNNEstimator": lambda: (models.MQRNNEstimator(**common), series()),
        "TemporalFusionTransformerEstimator": lambda: (
            models.TemporalFusionTransformerEstimator(**common, hidden_dim=8, num_heads=2), series(),
        ),
        "TransformerEstimator": lambda: (models.TransformerEstimator(**common, model_dim=8, num_heads=2), series()),
        "WaveNetEstimator": lambda: (models.WaveNetEstimator(**common, cardinality=[3]), series()),
        "NBEATSEstimator": lambda: (
            models.NBEATSEstimator(**common, num_stacks=2, widths=[8], num_blocks=[1], num_block_layers=[2]), series(),
        ),
        "NBEATSEnsembleEstimator": lambda: (
            models.NBEATSEnsembleEstimator(
                **common, meta_context_length=[2], meta_loss_function=["MAPE"], meta_bagging_size=1, num_stacks=2
            ),
            series(),
        ),
        "DeepStateEstimator": lambda: (models.DeepStateEstimator(**common, num_layers=1, num_cells=8, **cardinality,
                                                                 use_feat_static_cat=True, past_length=24), series()),
        "DeepVAREstimator": lambda: (models.DeepVAREstimator(**common, target_dim=2, lags_seq=[1, 2, 3], num_layers=1, num_cells=8),
                                     series(2)),
        "GPVAREstimator": lambda: (models.GPVAREstimator(**common, target_dim=2, lags_seq=[1, 2, 3], num_layers=1, num_cells=8, rank=2),
                                   series(2)),
        "GaussianProcessEstimator": lambda: (models.GaussianProcessEstimator(**common, cardinality=3), series()),
        "LSTNetEstimator": lambda: (
            models.LSTNetEstimator(**plain, context_length=24, num_series=2, skip_size=2, ar_window=4, channels=4),
            series(2),
        ),
        "DeepFactorEstimator": lambda: (models.DeepFactorEstimator(**common, **cardinality), series()),
        "CanonicalRNNEstimator": lambda: (models.CanonicalRNNEstimator(**common, context_length=8, **cardinality), series()),
        "DeepTPPEstimator": lambda: (
            models.DeepTPPEstimator(
                prediction_interval_length=4, context_interval_length=8, num_marks=2, freq="H", **trainer
            ),
            series(events=True),
        ),
        "DeepRenewalProcessEstimator": lambda: (
            models.DeepRenewalProcessEstimator(**plain, context_length=8, num_cells=4, num_layers=1), series(),
        ),
    }  # fmt: skip


def forecast(predictor, data):
    """Return the number of forecasts, computing all of them."""
    return len(list(predictor.predict(data)))


def attempt(make):
    """Train an estimator, predict, write the predictor to files, read it and predict again."""
    from gluonts.model.predictor import Predictor

    estimator, data = make()
    predictor = estimator.train(data)
    count = forecast(predictor, data)
    if type(estimator).__name__ == "NBEATSEnsembleEstimator":
        return count
    with tempfile.TemporaryDirectory() as folder:
        predictor.serialize(Path(folder))
        assert forecast(Predictor.deserialize(Path(folder)), data) == count
    return count


def main():
    """Print one line of JSON before each estimator, and one after it."""
    warnings.simplefilter("ignore")
    chosen, skipped = sys.argv[1:], []
    if "--skip" in chosen:
        place = chosen.index("--skip")
        chosen, skipped = chosen[:place], chosen[place + 1 :]
    for name, make in estimators().items():
        if name in skipped or (chosen and name not in chosen):
            continue
        print(json.dumps({"begin": name}), flush=True)
        began = time.time()
        try:
            result = {"forecasts": attempt(make)}
        except Exception as error:
            result = {"error": f"{type(error).__name__}: {str(error)[:300]}"}
        print(json.dumps({"name": name, "seconds": round(time.time() - began, 2), **result}), flush=True)


if __name__ == "__main__":
    main()
