"""The demonstration: handwritten digits learned from scratch, three derivatives of a function, and a picture of both.

``make demo``, ``python -m phonograd.demo`` and ``phonograd demo`` all run :func:`main`. Everything is written with
MXNet's imperative interface alone: arrays, operators, ``autograd.record`` and ``autograd.grad``. The package's own
``data/digits.npz`` holds the images.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import io
import itertools
import math
import os
import sys
import time
import webbrowser
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import phonograd as mx
from phonograd import autograd, nd
from phonograd.files import write_atomically
from phonograd.ndarray import NDArray

__all__ = ["Digits", "Network", "derivatives", "load_digits", "main", "train", "with_shifted_copies"]

TRAINING_IMAGES = 1437  # the rest of the file, 360 images, is for testing: see data/README.md
SIZES = (64, 128, 64, 10)
BATCH = 64
MOMENTUM = 0.9
WEIGHT_DECAY = 1e-3
EXPECTED_ACCURACY = 0.97


@dataclass
class Digits:
    """Images of shape (N, 8, 8) with numbers between 0 and 1, and their labels of shape (N,)."""

    train_images: NDArray
    train_labels: NDArray
    test_images: NDArray
    test_labels: NDArray


def load_digits() -> Digits:
    """Return the bundled handwritten digits, split for training and testing."""
    with np.load(Path(__file__).parent / "data" / "digits.npz", allow_pickle=False) as archive:
        images = nd.array(archive["images"] / 16.0)
        labels = nd.array(archive["labels"])
    return Digits(
        images[:TRAINING_IMAGES], labels[:TRAINING_IMAGES], images[TRAINING_IMAGES:], labels[TRAINING_IMAGES:]
    )


class Network:
    """Fully connected layers with ReLU between them, and the momentum of each parameter."""

    def __init__(self) -> None:
        self.parameters: list[NDArray] = []
        for fan_in, fan_out in itertools.pairwise(SIZES):
            self.parameters.append(nd.random.normal(scale=math.sqrt(2.0 / fan_in), shape=(fan_in, fan_out)))
            self.parameters.append(nd.zeros((fan_out,)))
        self.velocities = [nd.zeros(parameter.shape) for parameter in self.parameters]
        for parameter in self.parameters:
            parameter.attach_grad()

    def scores(self, images: NDArray) -> NDArray:
        """Return one row of ten scores per image."""
        hidden = images.reshape((-1, 64))
        for layer in range(0, len(self.parameters), 2):
            if layer:
                hidden = nd.relu(hidden)
            hidden = nd.dot(hidden, self.parameters[layer]) + self.parameters[layer + 1]
        return hidden

    def step(self, images: NDArray, labels: NDArray, rate: float) -> NDArray:
        """Return the mean loss of a batch after one step of gradient descent with momentum."""
        with autograd.record():
            loss: NDArray = -nd.pick(nd.log_softmax(self.scores(images)), labels).mean()
        loss.backward()
        for parameter, velocity in zip(self.parameters, self.velocities):
            velocity[:] = MOMENTUM * velocity - rate * (parameter.grad + WEIGHT_DECAY * parameter)
            parameter += velocity
        return loss

    def accuracy(self, images: NDArray, labels: NDArray) -> float:
        """Return the fraction of the images whose highest score is that of their label."""
        return float((self.scores(images).argmax(axis=1) == labels).mean().asscalar())


def with_shifted_copies(images: NDArray) -> NDArray:
    """Return the images and four copies of them, each moved by one pixel, one after the other."""
    framed = nd.zeros((len(images), 10, 10))
    framed[:, 1:9, 1:9] = images
    moves = [(1, 1), (0, 1), (2, 1), (1, 0), (1, 2)]
    copies: NDArray = nd.concat(*[framed[:, top : top + 8, left : left + 8] for top, left in moves], dim=0)
    return copies


def train(digits: Digits, epochs: int, *, seed: int = 0, peak_rate: float = 0.1) -> tuple[Network, list[float]]:
    """Return a trained network and the mean loss of every epoch."""
    mx.random.seed(seed)
    network = Network()
    images = with_shifted_copies(digits.train_images)
    labels = nd.tile(digits.train_labels, reps=(5,))
    batches = len(labels) // BATCH
    history: list[float] = []
    progress = _Progress(epochs)
    for epoch in progress:
        order = nd.random.shuffle(nd.arange(len(labels)))
        rate = peak_rate * 0.5 * (1.0 + math.cos(math.pi * epoch / epochs))
        total = nd.zeros((1,))
        for batch in range(batches):
            chosen = order[batch * BATCH : (batch + 1) * BATCH]
            total += network.step(images.take(chosen), labels.take(chosen), rate)
        history.append(float(total.asscalar()) / batches)
        progress.report(history[-1])
    return network, history


class _Progress:
    """The numbers of the epochs, with a bar on the terminal, or a line for each where tqdm is not installed."""

    def __init__(self, epochs: int) -> None:
        self.epochs = epochs
        self.done = 0
        self.bar: Any = None
        with contextlib.suppress(ImportError):
            from tqdm import tqdm

            self.bar = tqdm(range(epochs), desc="training", unit="epoch", ncols=80)

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.epochs) if self.bar is None else self.bar)

    def report(self, loss: float) -> None:
        """Show the loss of the epoch that has just ended."""
        self.done += 1
        if self.bar is not None:
            self.bar.set_postfix_str(f"loss {loss:.4f}")
        else:
            print(f"training: epoch {self.done} of {self.epochs}, loss {loss:.4f}")


def derivatives(points: NDArray) -> list[NDArray]:
    """Return exp(-x*x/2) and its first three derivatives, each differentiated from the one before."""
    points.attach_grad()
    with autograd.record():
        value = nd.exp(-0.5 * points * points)
        values = [value]
        for _ in range(3):
            value = autograd.grad(value, points, create_graph=True)[0]
            values.append(value)
    return values


def print_derivatives() -> None:
    """Print a table of exp(-x*x/2) and its derivatives, and how far they are from the exact ones."""
    points = nd.arange(-2, 2.5, 0.5)
    values = [value.asnumpy() for value in derivatives(points)]
    print("\nf(x) = exp(-x*x/2), each derivative taken of the one before by autograd.grad(create_graph=True):")
    print("".join(f"{title:>10}" for title in ("x", "f", "f'", "f''", "f'''")))
    x = points.asnumpy()
    for row in zip(x, *values):
        print("".join(f"{number:10.4f}" for number in row))
    exact = np.stack([np.ones_like(x), -x, x * x - 1, 3 * x - x**3]) * np.exp(-x * x / 2)
    print(f"largest error against the exact derivatives: {np.abs(np.stack(values) - exact).max():.1e}")


def print_digits(images: np.ndarray[Any, Any], predictions: Sequence[int]) -> None:
    """Print images as text, side by side, each above the digit that was read in it."""
    shades = " .:-=+*#%@"
    print("\nfrom the test images, as the network reads them:")
    for row in range(8):
        print("  ".join("".join(shades[int(pixel * 9)] * 2 for pixel in image[row]) for image in images))
    print("  ".join(f"{prediction:^16d}" for prediction in predictions))


def save_picture(
    path: Path, images: np.ndarray[Any, Any], predictions: Sequence[int], labels: Sequence[int], history: list[float]
) -> None:
    """Write the picture: digits with what was read in them, the loss, and a function with three derivatives."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 7), layout="constrained")
    parts: Any = figure.subfigures(2, 1, height_ratios=(1, 1.2))
    top, bottom = parts
    for axes, image, prediction, label in zip(top.subplots(2, 8).flat, images, predictions, labels):
        axes.imshow(image, cmap="gray_r", interpolation="nearest")
        axes.set_title(str(prediction), color="black" if prediction == label else "red", fontsize=10)
        axes.set_axis_off()
    top.suptitle("Test images, with the digit the network reads (red: wrong)")
    loss, curves = bottom.subplots(1, 2)
    loss.plot(range(1, len(history) + 1), history, marker="o")
    loss.set(title="Training loss", xlabel="epoch", yscale="log")
    points = nd.arange(-4, 4.05, 0.05)
    for value, name in zip(derivatives(points), ("f", "f'", "f''", "f'''")):
        curves.plot(points.asnumpy(), value.asnumpy(), label=name)
    curves.set(title="f(x) = exp(-x²/2) and its derivatives", xlabel="x")
    curves.grid(alpha=0.3)
    curves.legend()
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=110)
    write_atomically(path, [content.getvalue()])


def _show(path: Path) -> None:
    """Open a picture with the desktop's own viewer, where there is a desktop."""
    if sys.platform in ("darwin", "win32") or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
        webbrowser.open(path.as_uri())


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="phonograd demo", description="Learn handwritten digits; differentiate thrice."
    )
    parser.add_argument("--epochs", type=int, default=10, help="passes over the training images (default: 10)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the random numbers (default: 0)")
    parser.add_argument("--output", type=Path, default=Path("phonograd-demo.png"), help="where to save the picture")
    parser.add_argument("--show", action="store_true", help="open the picture, where there is a desktop")
    arguments = parser.parse_args(argv)
    if arguments.epochs < 1:
        parser.error("--epochs must be at least 1")
    if not arguments.output.resolve().parent.is_dir():
        parser.error(f"--output: there is no directory {arguments.output.resolve().parent}")
    return arguments


def main(argv: Sequence[str] | None = None) -> int:
    """Run the demonstration and return the exit status: 0, or 1 if the network learned too little."""
    arguments = _arguments(argv)
    digits = load_digits()
    print(
        f"phonograd {mx.__version__}: learning handwritten digits, {len(digits.train_labels)} images to train on, "
        f"{len(digits.test_labels)} to test with"
    )
    started = time.perf_counter()
    network, history = train(digits, arguments.epochs, seed=arguments.seed)
    accuracy = network.accuracy(digits.test_images, digits.test_labels)
    print(f"test accuracy {accuracy:.2%} after {time.perf_counter() - started:.1f} s")

    images = digits.test_images[:16]
    predictions = [int(digit) for digit in network.scores(images).argmax(axis=1).asnumpy()]
    print_digits(images.asnumpy()[:4], predictions[:4])
    print_derivatives()

    if importlib.util.find_spec("matplotlib") is None:
        print("\nno picture: matplotlib is not installed (pip install 'phonograd[plot]')")
    else:
        path = arguments.output.resolve()
        labels = [int(digit) for digit in digits.test_labels[:16].asnumpy()]
        save_picture(path, images.asnumpy(), predictions, labels, history)
        print(f"\npicture: {path}")
        if arguments.show:
            _show(path)
    if accuracy < EXPECTED_ACCURACY:
        print(f"the network learned too little: expected a test accuracy of {EXPECTED_ACCURACY:.0%}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
