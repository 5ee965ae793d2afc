"""Provide CheckpointHandler, which saves a network and its trainer during training, and resumes from there."""

from __future__ import annotations

import math
import os
import re
import warnings
from typing import TYPE_CHECKING, Any

from ....core.base.docstrings import complete_classes
from ....metric import EvalMetric
from ...block import HybridBlock
from .events import BatchEnd, EpochEnd, TrainBegin, check_monitor, make_comparison

if TYPE_CHECKING:
    from .estimator import Estimator

__all__ = ["CheckpointHandler"]

_OTHER_PERIOD = (
    "To use resume from checkpoint, you must only specify the same type of period you used for training."
    "For example, if you are training based on number of {0},you must save only based on {0}, and set {1}_period to "
    "None."
)


class CheckpointHandler(TrainBegin, BatchEnd, EpochEnd):
    """Save parameters and trainer states as ``<prefix>-epoch<n>batch<m>.params`` and ``.states``.

    Epochs and batches count from 0. A checkpoint at the end of an epoch has the number of the next batch.

    Parameters
    ----------
    model_dir, model_prefix
        The directory and the prefix of the files. A hybridized network also gets one file ``<prefix>-symbol.json``.
    monitor, save_best, mode
        With `save_best`, the best checkpoint by the metric `monitor` is also saved as ``<prefix>-best.params`` and
        ``.states``. See :class:`EarlyStoppingHandler` for `mode`.
    verbose
        1 to log each checkpoint.
    epoch_period, batch_period
        The intervals of checkpoints; None for never.
    max_checkpoints
        The number of checkpoints to keep.
    resume_from_checkpoint
        Whether to resume from the latest checkpoint in `model_dir`. Then `epochs` or `batches` of ``fit`` is the total
        number.

    Compatibility
    -------------
    In mode ``'auto'`` a lower loss is better; in MXNet a higher one is.
    """

    def __init__(
        self,
        model_dir: str,
        model_prefix: str = "model",
        monitor: EvalMetric | None = None,
        verbose: int = 0,
        save_best: bool = False,
        mode: str = "auto",
        epoch_period: int | None = 1,
        batch_period: int | None = None,
        max_checkpoints: int = 5,
        resume_from_checkpoint: bool = False,
    ) -> None:
        if save_best and not isinstance(monitor, EvalMetric):
            raise ValueError(
                "To save best model only, please provide one of the metric objects from estimator.train_metrics and "
                "estimator.val_metrics as monitor."
            )
        self.monitor = None if monitor is None else check_monitor(monitor)
        self.verbose = verbose
        self.save_best = save_best
        self.is_better = None if monitor is None else make_comparison(monitor, mode)
        self.model_dir = model_dir
        self.model_prefix = model_prefix
        self.epoch_period = epoch_period
        self.batch_period = batch_period
        self.max_checkpoints = max_checkpoints
        self.resume_from_checkpoint = resume_from_checkpoint
        self.saved_checkpoints: list[str] = []
        self.current_epoch = self.current_batch = self.trained_epoch = self.trained_batch = 0
        self.best = math.nan
        os.makedirs(model_dir, exist_ok=True)

    def train_begin(self, estimator: Estimator, *args: Any, **kwargs: Any) -> None:
        """Load the latest checkpoint if `resume_from_checkpoint` is set."""
        self.current_epoch = self.current_batch = self.trained_epoch = self.trained_batch = 0
        self.best = math.nan
        self.saved_checkpoints = []
        if self.resume_from_checkpoint:
            if estimator.max_batch is not None:
                assert not self.epoch_period, _OTHER_PERIOD.format("batches", "epoch")
            else:
                assert not self.batch_period, _OTHER_PERIOD.format("epochs", "batch")
            self._resume(estimator)

    def batch_end(self, estimator: Estimator, *args: Any, **kwargs: Any) -> None:
        """Save a checkpoint if a batch interval is complete."""
        if self.current_batch == 0:
            self._save_symbol(estimator)
        self.current_batch += 1
        if self.batch_period and self.current_batch % self.batch_period == 0:
            self._save_checkpoint(estimator, self.current_batch - 1)

    def epoch_end(self, estimator: Estimator, *args: Any, **kwargs: Any) -> None:
        """Save a checkpoint if an epoch interval is complete."""
        if self.epoch_period and (self.current_epoch + 1) % self.epoch_period == 0:
            self._save_checkpoint(estimator, self.current_batch)
        self.current_epoch += 1

    def _path(self, name: str) -> str:
        return os.path.join(self.model_dir, f"{self.model_prefix}-{name}")

    def _save_symbol(self, estimator: Estimator) -> None:
        net = estimator.net
        if isinstance(net, HybridBlock) and net._outline is not None:
            net._get_graph(net._outline)[1].save(self._path("symbol.json"))
        else:
            estimator.logger.info(
                "Model architecture(symbol file) is not saved, please use HybridBlock to construct your model, and "
                "call net.hybridize() before passing to Estimator in order to save model architecture as %s.",
                self._path("symbol.json"),
            )

    def _save_both(self, estimator: Estimator, name: str) -> None:
        estimator.net.save_parameters(self._path(name) + ".params")
        estimator.trainer.save_states(self._path(name) + ".states")

    def _save_checkpoint(self, estimator: Estimator, batch: int) -> None:
        name = f"epoch{self.current_epoch + self.trained_epoch}batch{batch + self.trained_batch}"
        done = self.current_batch + self.trained_batch
        self._log(estimator, f"trained total {done} batches, saving model at {self.model_dir} with prefix: {name}")
        self._save_both(estimator, name)
        self.saved_checkpoints.append(name)
        while len(self.saved_checkpoints) > self.max_checkpoints:
            oldest = self._path(self.saved_checkpoints.pop(0))
            for suffix in (".params", ".states"):
                if os.path.exists(oldest + suffix):
                    os.remove(oldest + suffix)
        if self.save_best:
            self._save_if_best(estimator)

    def _save_if_best(self, estimator: Estimator) -> None:
        assert self.monitor is not None, "__init__ requires a monitor for save_best"
        assert self.is_better is not None, "__init__ sets it for each monitor"
        name, value = self.monitor.get()
        if math.isnan(value):
            warnings.warn(
                f"Skipping save best because {name} is not updated, make sure you pass one of the metric objects from "
                "estimator.train_metrics and estimator.val_metrics as monitor",
                RuntimeWarning,
                stacklevel=4,
            )
        elif math.isnan(self.best) or self.is_better(value, self.best, 0.0):
            self._log(estimator, f"{name} improved from {self.best:.5f} to {value:.5f}, updating the best model")
            self.best = value
            self._save_both(estimator, "best")
        else:
            self._log(estimator, f"{name} did not improve from {self.best:.5f}, skipping updating best model")

    def _log(self, estimator: Estimator, message: str) -> None:
        if self.verbose > 0:
            estimator.logger.info("[Epoch %d] CheckpointHandler: %s", self.current_epoch, message)

    def _resume(self, estimator: Estimator) -> None:
        """Load the latest checkpoint, and subtract its epochs or batches from those to train."""
        pattern = re.compile(re.escape(self.model_prefix) + r"-epoch(\d+)batch(\d+)\.params$")
        matches = [pattern.match(name) for name in os.listdir(self.model_dir)]
        found = [(int(match[1]), int(match[2])) for match in matches if match is not None]
        if not found:
            estimator.logger.info("CheckpointHandler: No checkpoint found in %s, training from scratch", self.model_dir)
            return
        epoch, batch = max(found)
        path = self._path(f"epoch{epoch}batch{batch}")
        if not os.path.exists(path + ".states"):
            raise ValueError(f"the checkpoint has no trainer states: {path}.states is missing")
        self.trained_epoch, self.trained_batch = epoch + 1, batch if estimator.max_batch is None else batch + 1
        whole = estimator.max_epoch if estimator.max_epoch is not None else estimator.max_batch
        done = self.trained_epoch if estimator.max_epoch is not None else self.trained_batch
        unit = "epochs" if estimator.max_epoch is not None else "batches"
        if whole is not None and done >= whole:
            raise ValueError(
                f"the checkpoint {path}.params was already trained for {done} {unit}: request more than {whole} in fit"
            )
        estimator.net.load_parameters(path + ".params", ctx=estimator.context)
        estimator.trainer.load_states(path + ".states")
        if estimator.max_epoch is not None:
            estimator.max_epoch -= done
        elif estimator.max_batch is not None:
            estimator.max_batch -= done
        left = (whole or 0) - done
        message = f"Checkpoint resumed from epoch {epoch} batch {batch}, continue to train for {left} {unit} "
        estimator.logger.info("CheckpointHandler: %s", message)


complete_classes(globals())
