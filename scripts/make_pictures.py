"""Draw the pictures of README.md and of the site into ``docs/images``.

``make pictures`` runs it; ``python scripts/make_pictures.py convolutions`` draws one of them. It trains a small network on the digits that come with the package, and needs matplotlib and,
for the picture of the profile, Chromium.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import phonograd as mx
from phonograd import autograd, gluon, nd
from phonograd.gluon import nn
from phonograd.profiler import profile, record_function

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
EPOCHS = 15
#: a busy machine draws pauses into the profile
MOST_LOAD = 1.0


class Training:
    """A convolutional network, and what a training step needs."""

    def __init__(self, channels: int = 16, batch: int = 64) -> None:
        mx.random.seed(0)
        self.digits = mx.demo.load_digits()
        self.net = nn.HybridSequential()
        self.net.add(nn.Conv2D(channels, 3, activation="relu"), nn.MaxPool2D(), nn.Dense(10))
        self.net.initialize(mx.init.Xavier())
        self.trainer = gluon.Trainer(self.net.collect_params(), "adam", {"learning_rate": 0.005})
        self.loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
        images = self.digits.train_images.expand_dims(1)
        dataset = gluon.data.ArrayDataset(images, self.digits.train_labels)
        self.loader = gluon.data.DataLoader(dataset, batch, shuffle=True)

    def step(self, images: nd.NDArray, labels: nd.NDArray) -> nd.NDArray:
        """Train on a batch, and return its mean loss."""
        with record_function("forward"), autograd.record():
            loss = self.loss_of(self.net(images), labels)
        with record_function("backward"):
            loss.backward()
        with record_function("update"):
            self.trainer.step(len(images))
        return loss.mean()

    def accuracy(self) -> nd.NDArray:
        """Return the accuracy on the images for validation."""
        scores = self.net(self.digits.validation_images.expand_dims(1))
        return (scores.argmax(axis=1) == self.digits.validation_labels).mean()


def draw_curves(training: Training) -> None:
    """Train, and draw loss and accuracy."""
    curves = mx.curves.Curves()
    for epoch in range(1, EPOCHS + 1):
        losses = [training.step(images, labels) for images, labels in training.loader]
        curves.add(step=epoch, loss=sum(losses[1:], losses[0]) / len(losses), accuracy=training.accuracy())
    curves.save(IMAGES / "curves.svg", title="digits, 15 epochs")


def draw_graph() -> None:
    """Draw the record of a small function, forward and backward."""
    x, w = nd.ones((64, 8)), nd.ones((8, 4))
    w.attach_grad()
    with autograd.record():
        loss = nd.tanh(nd.dot(x, w)).sum()
    (IMAGES / "graph.svg").write_text(mx.viz.plot_record(loss)._repr_svg_(), encoding="utf-8")


def draw_profile() -> None:
    """Profile steps of a larger network, and photograph the report of the fastest one in a browser."""
    browser = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if browser is None:
        sys.exit(f"the picture of the profile needs a browser ({', '.join(BROWSERS)})")
    training = Training(channels=64, batch=1024)
    images, labels = next(iter(training.loader))
    for _ in range(50):
        training.step(images, labels).wait_to_read()
    profiles = []
    for _ in range(20):
        with profile(with_modules=True) as profiled, record_function("training step"):
            training.step(images, labels).wait_to_read()
        profiles.append(profiled)
    fastest = min(profiles, key=lambda one: one.events().elapsed_ns)
    with tempfile.TemporaryDirectory() as folder:
        page, picture = Path(folder, "profile.html"), Path(folder, "profile.png")
        fastest.export_html(page, title="A training step")
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--virtual-time-budget=3000"]
        options += [f"--user-data-dir={folder}/browser", "--window-size=1100,430", f"--screenshot={picture}"]
        subprocess.run([browser, *options, f"{page.as_uri()}#timeline"], check=True, capture_output=True, timeout=120)
        shutil.copyfile(picture, IMAGES / "profile.png")


def draw_convolutions() -> None:
    """Draw the ratios of the sweep of convolutions (:mod:`benchmarks.convolution`), sorted and colored by kind."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "phonograd"
    from matplotlib import pyplot

    results = json.loads((IMAGES.parents[1] / "benchmarks" / "results" / "convolution.json").read_text("utf-8"))
    ratios = [
        (sum(row["seconds"]["torch"].values()) / sum(row["seconds"]["phonograd"].values()), row["kind"])
        for row in results["rows"]
    ]
    ratios.sort()
    figure, axes = pyplot.subplots(figsize=(9, 3.6))
    colors = matplotlib.colormaps["tab20"]
    for number, kind in enumerate(dict.fromkeys([row["kind"] for row in results["rows"]])):
        places = [place for place, (_, other) in enumerate(ratios) if other == kind]
        axes.bar(places, [ratios[place][0] for place in places], width=0.9, color=colors(number), label=kind)
    axes.axhline(1, color="black", linewidth=0.8)
    axes.set(yscale="log", xlabel="convolutions, sorted", ylabel="time of PyTorch / ours", xlim=(-1, len(ratios)))
    axes.set_yticks([0.5, 1, 2, 4, 8], ["0.5", "1", "2", "4", "8"])
    axes.legend(fontsize=8, ncols=3, frameon=False)
    figure.tight_layout()
    figure.savefig(IMAGES / "convolutions.svg", metadata={"Date": None})


def main() -> None:
    """Draw all pictures, or the one that is named."""
    IMAGES.mkdir(parents=True, exist_ok=True)
    if sys.argv[1:] == ["convolutions"]:
        draw_convolutions()
        return
    if sys.argv[1:]:
        sys.exit(f"there is no picture {' '.join(sys.argv[1:])}: name convolutions, or none for all")
    if os.getloadavg()[0] > MOST_LOAD:
        sys.exit(
            f"the load of this machine is {os.getloadavg()[0]:.1f}: the profile would show the time of other programs. "
            "Wait until it is idle."
        )
    draw_convolutions()
    draw_graph()
    draw_curves(Training())
    draw_profile()


if __name__ == "__main__":
    main()
