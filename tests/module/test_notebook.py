"""Callbacks for notebooks collect metrics in frames and draw them."""

import sys
import types

import numpy as np
import pytest

import phonograd as mx
from phonograd.notebook import callback

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")


class Frame:
    """As much of a pandas frame as the logger uses."""

    def __init__(self, rows=()):
        self.rows = list(rows)

    @property
    def empty(self):
        return not self.rows

    def __contains__(self, name):
        return any(name in row for row in self.rows)

    def __getitem__(self, name):
        return [row.get(name) for row in self.rows]


@pytest.fixture
def shown(monkeypatch):
    """Install small stand-ins for pandas and IPython, and return the list of figures that were shown."""
    figures = []
    pandas = types.ModuleType("pandas")
    pandas.DataFrame = Frame
    pandas.concat = lambda frames, ignore_index: Frame([row for frame in frames for row in frame.rows])
    display = types.ModuleType("IPython.display")

    class Place:
        def update(self, figure):
            figures.append(figure)

    def show(figure, display_id):
        figures.append(figure)
        return Place()

    display.display = show
    package = types.ModuleType("IPython")
    package.version_info = (9, 0)
    package.get_ipython = lambda: None
    for name, module in (("pandas", pandas), ("IPython", package), ("IPython.display", display)):
        monkeypatch.setitem(sys.modules, name, module)
    yield figures
    matplotlib.pyplot.close("all")


def fit(**callbacks):
    data = np.random.RandomState(0).rand(12, 2).astype("float32")
    batches = mx.io.NDArrayIter(data, data[:, 0] > 0.5, 4)
    network = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2), name="softmax")
    mx.mod.Module(network).fit(batches, eval_data=batches, num_epoch=2, **callbacks)


def test_a_fit_fills_frames_and_charts(shown):
    logger = callback.PandasLogger(batch_size=4, frequent=2)
    chart = callback.LiveBokehChart(logger, "accuracy", display_freq=0)
    curve = callback.LiveLearningCurve("accuracy", display_freq=0, frequent=1)
    fit(**callback.args_wrapper(logger, chart))
    assert logger.train_df["minibatch_count"] == [0, 2, 0, 2]
    assert logger.eval_df["epoch"] == [0, 1]
    assert len(logger.epoch_df.rows) == 2
    assert set(logger.all_dataframes) == {"train", "eval", "epoch"}
    assert all(0 <= value <= 1 for value in logger.train_df["accuracy"])
    assert (
        chart.axes.lines[0].get_ydata().tolist() == logger.train_df["accuracy"][: len(chart.axes.lines[0].get_ydata())]
    )
    fit(**callback.args_wrapper(curve))
    assert [line.get_label() for line in curve.axes.lines] == ["train", "eval"]
    assert len(curve.axes.lines[0].get_xdata()) == 6
    assert shown


def test_a_series_grows(shown):
    series = callback.LiveTimeSeries(ylabel="loss")
    for value in (3.0, 2.0):
        series.update_chart_data(value)
    assert series.axes.lines[0].get_ydata().tolist() == [3.0, 2.0]
    assert series.axes.get_ylabel() == "loss"
    assert len(shown) == 2


def test_missing_packages_are_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="PandasLogger needs pandas: pip install pandas"):
        callback.PandasLogger(1)
