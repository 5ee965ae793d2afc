"""Collect metrics of training in pandas frames, and draw them while a notebook runs.

:class:`PandasLogger` needs pandas. The charts need Matplotlib and, to show themselves again and again, IPython (MXNet's
need Bokeh). ``module.fit(..., **args_wrapper(logger, chart))`` passes their callbacks on.
"""

from __future__ import annotations

import datetime
import importlib
import time
from collections import defaultdict
from collections.abc import Callable
from types import ModuleType
from typing import Any

from ..core.base.docstrings import complete_classes

__all__ = ["LiveBokehChart", "LiveLearningCurve", "LiveTimeSeries", "PandasLogger", "args_wrapper"]


def _import(name: str, user: str) -> ModuleType:
    """Return a package that is optional."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        package = name.split(".")[0]
        raise ImportError(f"{user} needs {package}: pip install {package.lower()}") from error


def _metrics_of(param: Any) -> dict[str, Any]:
    """Return the values of the metric of a callback, and begin the next ones."""
    if param.eval_metric is None:
        return {}
    values = dict(param.eval_metric.get_name_value())
    param.eval_metric.reset()
    return values


class PandasLogger:
    """Collect metrics in three frames: of training batches, of evaluations, and of epochs.

    Parameters
    ----------
    batch_size
        The number of examples in a batch, for the speed.
    frequent
        The number of batches after which metrics are collected.
    """

    def __init__(self, batch_size: int, frequent: int = 50) -> None:
        pandas = _import("pandas", "PandasLogger")
        self.batch_size, self.frequent = batch_size, frequent
        self._dataframes = {name: pandas.DataFrame() for name in ("train", "eval", "epoch")}
        self.last_time = time.time()
        self.start_time = self.last_epoch_time = datetime.datetime.now()

    @property
    def train_df(self) -> Any:
        """Return the frame of training batches."""
        return self._dataframes["train"]

    @property
    def eval_df(self) -> Any:
        """Return the frame of evaluations."""
        return self._dataframes["eval"]

    @property
    def epoch_df(self) -> Any:
        """Return the frame of epochs."""
        return self._dataframes["epoch"]

    @property
    def all_dataframes(self) -> dict[str, Any]:
        """Return all frames by name: ``'train'``, ``'eval'`` and ``'epoch'``."""
        return self._dataframes

    def elapsed(self) -> datetime.timedelta:
        """Return the time since the logger was made."""
        return datetime.datetime.now() - self.start_time

    def append_metrics(self, metrics: dict[str, Any], df_name: str) -> None:
        """Append a row to a frame; new names become new columns."""
        pandas = importlib.import_module("pandas")
        row = pandas.DataFrame([metrics])
        frame = self._dataframes[df_name]
        self._dataframes[df_name] = row if frame.empty else pandas.concat([frame, row], ignore_index=True)

    def train_cb(self, param: Any) -> None:
        """Collect the metrics of a training batch."""
        if param.nbatch % self.frequent == 0:
            self._process_batch(param, "train")

    def eval_cb(self, param: Any) -> None:
        """Collect the metrics of an evaluation."""
        self._process_batch(param, "eval")

    def _process_batch(self, param: Any, dataframe: str) -> None:
        now = time.time()
        seconds = now - self.last_time
        speed = self.frequent / seconds if seconds > 0 else float("inf")
        metrics = _metrics_of(param)
        metrics.update(
            batches_per_sec=speed * self.batch_size,
            records_per_sec=speed,
            elapsed=self.elapsed(),
            minibatch_count=param.nbatch,
            epoch=param.epoch,
        )
        self.append_metrics(metrics, dataframe)
        self.last_time = now

    def epoch_cb(self, *_: Any) -> None:
        """Collect the duration of an epoch."""
        now = datetime.datetime.now()
        self.append_metrics({"elapsed": self.elapsed(), "epoch_time": now - self.last_epoch_time}, "epoch")
        self.last_epoch_time = now

    def callback_args(self) -> dict[str, Callable[..., None]]:
        """Return the callbacks by the names of the parameters of ``fit``."""
        return {
            "batch_end_callback": self.train_cb,
            "eval_end_callback": self.eval_cb,
            "epoch_end_callback": self.epoch_cb,
        }


class LiveBokehChart:
    """Draw a metric of a :class:`PandasLogger` while training runs. Derived classes draw other data.

    Parameters
    ----------
    pandas_logger
        The logger that collects the metrics, or None.
    metric_name
        The metric to draw.
    display_freq
        The number of seconds between two drawings.
    batch_size, frequent
        Arguments of a new logger, if `pandas_logger` is None.
    """

    def __init__(
        self,
        pandas_logger: PandasLogger | None,
        metric_name: str,
        display_freq: float = 10,
        batch_size: int | None = None,
        frequent: int = 50,
    ) -> None:
        self.pandas_logger = PandasLogger(batch_size or 1, frequent) if pandas_logger is None else pandas_logger
        self.metric_name, self.display_freq = metric_name, display_freq
        self._begin()

    def _begin(self) -> None:
        """Make the figure."""
        self.last_update = 0.0
        self.figure, self.axes = _import("matplotlib.pyplot", type(self).__name__).subplots()
        self._display: Any = None
        self.setup_chart()

    def setup_chart(self) -> None:
        """Label the axes."""
        self.axes.set_xlabel("minibatch")
        self.axes.set_ylabel(self.metric_name)

    def _lines(self) -> dict[str, tuple[list[Any], list[Any]]]:
        """Return the points of each line by its name."""
        frame = self.pandas_logger.train_df
        values = [] if self.metric_name not in frame else list(frame[self.metric_name])
        return {self.metric_name: (list(range(len(values))), values)}

    def update_chart_data(self) -> None:
        """Draw all lines."""
        for line in list(self.axes.lines):
            line.remove()
        for name, (places, values) in self._lines().items():
            self.axes.plot(places, values, label=name)
        self.axes.legend()

    def interval_elapsed(self) -> bool:
        """Return whether it is time to draw again."""
        return time.time() - self.last_update > self.display_freq

    def _push_render(self) -> None:
        """Show the figure in the notebook, in the place of the one before."""
        self.last_update = time.time()
        self.figure.canvas.draw()
        display = _import("IPython.display", type(self).__name__)
        if self._display is None:
            self._display = display.display(self.figure, display_id=True)
        else:
            self._display.update(self.figure)

    def _do_update(self) -> None:
        self.update_chart_data()
        self._push_render()

    def batch_cb(self, param: Any) -> None:
        """Draw the chart if it is time."""
        if self.interval_elapsed():
            self._do_update()

    def eval_cb(self, param: Any) -> None:
        """Draw the chart after an evaluation."""
        self._do_update()

    def callback_args(self) -> dict[str, Callable[..., None]]:
        """Return the callbacks by the names of the parameters of ``fit``."""
        return {"batch_end_callback": self.batch_cb, "eval_end_callback": self.eval_cb}


class LiveTimeSeries(LiveBokehChart):
    """Draw values as they arrive: call :meth:`update_chart_data` with each of them.

    Parameters
    ----------
    fig_params
        Properties of the axes, such as ``ylabel``.
    """

    def __init__(self, **fig_params: Any) -> None:
        self.fig_params = fig_params
        self.metric_name, self.display_freq = "value", 0.0
        self.x_axis_val: list[float] = []
        self.y_axis_val: list[Any] = []
        self.start_time = datetime.datetime.now()
        self._begin()

    def setup_chart(self) -> None:
        """Label the axes."""
        self.axes.set_xlabel("seconds")
        self.axes.set(**self.fig_params)

    def elapsed(self) -> datetime.timedelta:
        """Return the time since the chart was made."""
        return datetime.datetime.now() - self.start_time

    def _lines(self) -> dict[str, tuple[list[Any], list[Any]]]:
        return {self.metric_name: (self.x_axis_val, self.y_axis_val)}

    def update_chart_data(self, value: Any = None) -> None:
        """Add a value, and draw the chart."""
        self.x_axis_val.append(self.elapsed().total_seconds())
        self.y_axis_val.append(value)
        super().update_chart_data()
        self._push_render()


class LiveLearningCurve(LiveBokehChart):
    """Draw a metric of training and of evaluation while training runs.

    Parameters
    ----------
    metric_name
        The metric to draw.
    display_freq
        The number of seconds between two drawings.
    frequent
        The number of batches after which the metric of training is collected.
    """

    def __init__(self, metric_name: str, display_freq: float = 10, frequent: int = 50) -> None:
        self.frequent = frequent
        self.start_time = datetime.datetime.now()
        self.metric_name, self.display_freq = metric_name, display_freq
        self._data: dict[str, dict[str, list[Any]]] = {
            name: {"elapsed": [], metric_name: []} for name in ("train", "eval")
        }
        self._begin()

    def setup_chart(self) -> None:
        """Label the axes."""
        self.axes.set_xlabel("seconds")
        self.axes.set_ylabel(self.metric_name)

    def _lines(self) -> dict[str, tuple[list[Any], list[Any]]]:
        return {name: (data["elapsed"], data[self.metric_name]) for name, data in self._data.items()}

    def batch_cb(self, param: Any) -> None:
        """Collect the metric of a training batch, and draw the chart if it is time."""
        if param.nbatch % self.frequent == 0:
            self._process_batch(param, "train")
        if self.interval_elapsed():
            self._do_update()

    def eval_cb(self, param: Any) -> None:
        """Collect the metric of an evaluation, and draw the chart if it is time."""
        self._process_batch(param, "eval")
        if self.interval_elapsed():
            self._do_update()

    def _process_batch(self, param: Any, df_name: str) -> None:
        metrics = _metrics_of(param)
        self._data[df_name]["elapsed"].append((datetime.datetime.now() - self.start_time).total_seconds())
        self._data[df_name][self.metric_name].append(metrics[self.metric_name])


def args_wrapper(*args: Any) -> dict[str, list[Callable[..., None]]]:
    """Return the callbacks of several objects, in lists by the names of the parameters of ``fit``."""
    result: defaultdict[str, list[Callable[..., None]]] = defaultdict(list)
    for each in args:
        for name, function in each.callback_args().items():
            result[name].append(function)
    return dict(result)


complete_classes(globals())
