"""The demo: train a convolutional network on handwritten digits, and differentiate a function three times.

``make demo``, ``python -m phonograd.cli.demo`` and ``phonograd demo`` all run :func:`main`. It prints its progress and
the slowest operators, and writes one self-contained HTML report. The images are in the package's ``data/digits.npz``;
the test images are used once, at the end.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import html
import importlib.util
import io
import math
import os
import sys
import time
import webbrowser
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import phonograd as mx
from phonograd import autograd, gluon, nd, profiler
from phonograd.core.base.files import obstacle, write_atomically
from phonograd.core.base.terminal import columns, is_terminal
from phonograd.core.run import kernel_cache
from phonograd.curves import Curves, shows_bars
from phonograd.gluon import nn
from phonograd.ndarray import NDArray
from phonograd.profiler.report import html_report

__all__ = ["Digits", "Training", "derivatives", "load_digits", "main", "network", "train", "with_shifted_copies"]

TEST_FROM = 1437  # the 360 images from here on are for testing: see data/README.md
TRAINING_IMAGES = 1200  # the images in between are for validation: they chose the numbers below
CHANNELS = (16, 32, 64)
BATCH = 64
PEAK_RATE = 0.003
PROFILED_STEPS = 10
EXPECTED_ACCURACY = 0.98


@dataclass
class Digits:
    """Images of shape (N, 8, 8) with values in [0, 1], and their labels of shape (N,)."""

    train_images: NDArray
    train_labels: NDArray
    validation_images: NDArray
    validation_labels: NDArray
    test_images: NDArray
    test_labels: NDArray


def load_digits() -> Digits:
    """Return the bundled handwritten digits, split for training, validation and testing."""
    with np.load(Path(__file__).parent.parent / "data" / "digits.npz", allow_pickle=False) as archive:
        images = nd.array(archive["images"] / 16.0)
        labels = nd.array(archive["labels"])
    parts = [slice(TRAINING_IMAGES), slice(TRAINING_IMAGES, TEST_FROM), slice(TEST_FROM, None)]
    return Digits(*[array[part] for part in parts for array in (images, labels)])


def network() -> nn.HybridSequential:
    """Return a small convolutional network, not initialized yet."""
    net = nn.HybridSequential(prefix="digits_")
    with net.name_scope():
        for channels in CHANNELS:
            net.add(nn.Conv2D(channels, 3, padding=1), nn.BatchNorm(), nn.Activation("relu"))
            if channels != CHANNELS[0]:
                net.add(nn.MaxPool2D())
        net.add(nn.Dropout(0.3), nn.Dense(10))
    return net


def read(net: nn.HybridSequential, images: NDArray) -> NDArray:
    """Return the digit that the network recognizes in each image."""
    digits: NDArray = net(images.expand_dims(1)).argmax(axis=1)
    return digits


def accuracy(net: nn.HybridSequential, images: NDArray, labels: NDArray) -> float:
    """Return the fraction of images that the network classifies correctly."""
    return float((read(net, images) == labels).mean().asscalar())


def with_shifted_copies(images: NDArray) -> NDArray:
    """Return the images followed by four copies, each shifted by one pixel."""
    framed = nd.zeros((len(images), 10, 10))
    framed[:, 1:9, 1:9] = images
    moves = [(1, 1), (0, 1), (2, 1), (1, 0), (1, 2)]
    copies: NDArray = nd.concat(*[framed[:, top : top + 8, left : left + 8] for top, left in moves], dim=0)
    return copies


@dataclass
class Training:
    """A trained network, the curves of its training, and the profile of some of its steps."""

    net: nn.HybridSequential
    curves: Curves
    profile: profiler.profile


def train(digits: Digits, epochs: int, *, seed: int = 0) -> Training:
    """Train a network; the validation images only measure its accuracy."""
    mx.random.seed(seed)
    net = network()
    net.initialize(mx.init.Xavier())
    net.hybridize()
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": PEAK_RATE})
    images = with_shifted_copies(digits.train_images).expand_dims(1)
    labels = nd.tile(digits.train_labels, reps=(5,))
    batches = len(labels) // BATCH
    curves = Curves()
    recording = profiler.profile(with_modules=True, with_flops=True)
    warming = profiler.profile(with_modules=True, with_flops=True)
    progress = mx.progress(range(epochs), "training", unit="epoch")
    for epoch in progress:
        order = nd.random.shuffle(nd.arange(len(labels)))
        trainer.set_learning_rate(PEAK_RATE * 0.5 * (1.0 + math.cos(math.pi * epoch / epochs)))
        total = nd.zeros((1,))
        for batch in range(batches):
            if epoch == epochs - 1 and batch == batches - 2 * PROFILED_STEPS:
                # profiling calls layers one by one: warm up, so that the profile contains no compilation and only
                # fully optimized kernels
                warming.start()
            elif epoch == epochs - 1 and batch == batches - PROFILED_STEPS:
                nd.waitall()
                warming.stop()
                kernel_cache.wait_for_tier_up()
                recording.start()
            chosen = order[batch * BATCH : (batch + 1) * BATCH]
            with autograd.record():
                loss = loss_of(net(images.take(chosen)), labels.take(chosen))
            loss.backward()
            trainer.step(BATCH)
            total += loss.mean()
        nd.waitall()
        recording.stop()
        score = accuracy(net, digits.validation_images, digits.validation_labels)
        curves.add(loss=float(total.asscalar()) / batches, validation=score)
        progress.set_postfix(loss=curves.values["loss"][1][-1])
    return Training(net, curves, recording)


def derivatives(points: NDArray) -> list[NDArray]:
    """Return exp(-x*x/2) and its first three derivatives, each the gradient of the previous one."""
    points.attach_grad()
    with autograd.record():
        value = nd.exp(-0.5 * points * points)
        values = [value]
        for _ in range(3):
            value = autograd.grad(value, points, create_graph=True)[0]
            values.append(value)
    return values


def print_derivatives() -> None:
    """Print a table of exp(-x*x/2) and its derivatives, and the error against the exact ones."""
    points = nd.arange(-2, 2.5, 0.5)
    values = [value.asnumpy() for value in derivatives(points)]
    print("\nf(x) = exp(-x*x/2) and its derivatives, each by autograd.grad of the previous one:")
    print("".join(f"{title:>10}" for title in ("x", "f", "f'", "f''", "f'''")))
    x = points.asnumpy()
    for row in zip(x, *values):
        print("".join(f"{number:10.4f}" for number in row))
    exact = np.stack([np.ones_like(x), -x, x * x - 1, 3 * x - x**3]) * np.exp(-x * x / 2)
    print(f"largest error against the exact derivatives: {np.abs(np.stack(values) - exact).max():.1e}")


def print_digits(images: np.ndarray[Any, Any], predictions: Sequence[int]) -> None:
    """Print images as text, side by side, each above its predicted digit."""
    shades = " .:-=+*#%@"
    print("\ntest images and predicted digits:")
    for row in range(8):
        print("  ".join("".join(shades[int(pixel * 9)] * 2 for pixel in image[row]) for image in images))
    print("  ".join(f"{prediction:^16d}" for prediction in predictions))


def picture_of(
    images: np.ndarray[Any, Any], predictions: Sequence[int], labels: Sequence[int], curves: Curves
) -> bytes:
    """Return a PNG figure: digits with predictions, the loss, and a function with three derivatives."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 7), layout="constrained")
    parts: Any = figure.subfigures(2, 1, height_ratios=(1, 1.2))
    top, bottom = parts
    for axes, image, prediction, label in zip(top.subplots(2, 8).flat, images, predictions, labels):
        axes.imshow(image, cmap="gray_r", interpolation="nearest")
        axes.set_title(str(prediction), color="black" if prediction == label else "red", fontsize=10)
        axes.set_axis_off()
    top.suptitle("Test images with the predicted digit (red: wrong)")
    left, right = bottom.subplots(1, 2)
    steps, losses = curves.values["loss"]
    left.plot([step + 1 for step in steps], losses, marker="o", label="training loss")
    left.plot(
        [step + 1 for step in steps], [1 - score for score in curves.values["validation"][1]], label="validation error"
    )
    left.set(title="Training", xlabel="epoch")
    left.legend()
    points = nd.arange(-4, 4.05, 0.05)
    for value, name in zip(derivatives(points), ("f", "f'", "f''", "f'''")):
        right.plot(points.asnumpy(), value.asnumpy(), label=name)
    right.set(title="f(x) = exp(-x²/2) and its derivatives", xlabel="x")
    right.grid(alpha=0.3)
    right.legend()
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=110)
    return content.getvalue()


_PAGE_WIDTH = 150  # characters of a table that fit the report without scrolling
_STYLE = """:root{color-scheme:light dark}
body{font:16px/1.5 system-ui,sans-serif;max-width:72rem;margin:2rem auto;padding:0 1rem}
pre{overflow-x:auto;font-size:12px;background:#8881;padding:1rem}
img,svg{max-width:100%;height:auto;background:#fff;border-radius:4px}
iframe{width:100%;height:48rem;border:1px solid #8886}"""


def report_of(training: Training, score: float, picture: bytes | None) -> str:
    """Return the report as one self-contained HTML page."""
    text = html.escape
    summary = io.StringIO()
    net = network()
    net.initialize()
    with contextlib.redirect_stdout(summary):
        net.summary(nd.zeros((BATCH, 1, 8, 8)), timed=True)
    symbol = training.net(mx.sym.var("data"))
    drawing = mx.viz.plot_network(symbol, shape={"data": (BATCH, 1, 8, 8)}, save_format="svg").pipe("svg").decode()
    curves = f"<pre>{text(training.curves.text())}</pre>"
    if picture is not None:
        curves = f'<img alt="digits and curves" src="data:image/png;base64,{base64.b64encode(picture).decode()}">'
    recorded = training.profile
    sections = {
        f"Handwritten digits: {score:.2%} of the test images recognized": curves,
        "The network": f"<pre>{text(summary.getvalue())}</pre>",
        "Its graph": drawing[drawing.index("<svg") :],
        f"{PROFILED_STEPS} training steps, by layer": f"<pre>{text(recorded.by_module().table())}</pre>",
        "By operator": f"<pre>{text(profile_table(recorded, _PAGE_WIDTH))}</pre>",
        "Full profile": f'<iframe srcdoc="{text(html_report(recorded.events(), "Training"))}"></iframe>',
    }
    body = "".join(f"<h2>{text(title)}</h2>{content}" for title, content in sections.items())
    head = f'<meta charset="utf-8"><title>phonograd demo</title><style>{_STYLE}</style>'
    return f"<!doctype html><html><head>{head}</head><body><h1>phonograd {mx.__version__}</h1>{body}</body></html>\n"


def profile_table(recorded: profiler.profile, width: int | None = None) -> str:
    """Return a table of the slowest operators, with the columns that fit into a width."""
    return recorded.table(sort_by="self_cpu_time_total", row_limit=10, max_width=width)


def _show(path: Path) -> None:
    """Open a page in the desktop's browser, if there is a desktop."""
    if sys.platform in ("darwin", "win32") or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
        webbrowser.open(path.as_uri())


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="phonograd demo", description="Train on handwritten digits; compute derivatives up to order three."
    )
    parser.add_argument("--epochs", type=int, default=8, help="passes over the training images (default: 8)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the random numbers (default: 0)")
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("phonograd-demo.html"),
        help="where to save the report (default: phonograd-demo.html)",
    )
    parser.add_argument("--show", action="store_true", help="open the report, if there is a desktop")
    arguments = parser.parse_args(argv)
    if arguments.epochs < 1:
        parser.error("--epochs must be at least 1")
    if problem := obstacle(arguments.output):
        parser.error(f"--output: {problem}")
    return arguments


def main(argv: Sequence[str] | None = None) -> int:
    """Run the demo and return the exit status: 0, or 1 if the accuracy is too low."""
    arguments = _arguments(argv)
    try:
        return _demonstrate(arguments)
    except KeyboardInterrupt:
        print("\ninterrupted: no report was written", file=sys.stderr)
        return 130


def _demonstrate(arguments: argparse.Namespace) -> int:
    digits = load_digits()
    counts = [len(labels) for labels in (digits.train_labels, digits.validation_labels, digits.test_labels)]
    print(f"phonograd {mx.__version__} trains on handwritten digits")
    print("{} images for training, {} for validation, {} for testing".format(*counts))
    started = time.perf_counter()
    training = train(digits, arguments.epochs, seed=arguments.seed)
    predictions = read(training.net, digits.test_images)
    score = float((predictions == digits.test_labels).mean().asscalar())
    print(f"test accuracy {score:.2%} after {time.perf_counter() - started:.1f} s")
    print(training.curves.text(plain=not shows_bars(sys.stdout)))

    images = digits.test_images[:16].asnumpy()
    shown = [int(digit) for digit in predictions[:16].asnumpy()]
    print_digits(images[:4], shown[:4])
    print_derivatives()
    print(f"\n{PROFILED_STEPS} training steps, slowest operators:")
    print(profile_table(training.profile, columns(sys.stdout) if is_terminal(sys.stdout) else _PAGE_WIDTH))

    picture = None
    if importlib.util.find_spec("matplotlib") is None:
        print("no curves in the report: matplotlib is not installed (pip install 'phonograd[plot]')")
    else:
        picture = picture_of(
            images, shown, [int(digit) for digit in digits.test_labels[:16].asnumpy()], training.curves
        )
    path = arguments.output.resolve()
    page = report_of(training, score, picture).encode("utf-8", "backslashreplace")
    try:
        write_atomically(path, [page])
    except OSError as error:
        print(f"phonograd: cannot write the report {path}: {error.strerror}", file=sys.stderr)
        return 1
    print(f"report: {path}")
    if arguments.show:
        _show(path)
    if score < EXPECTED_ACCURACY:
        print(f"the accuracy is too low: expected at least {EXPECTED_ACCURACY:.0%} on the test images", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
