"""Pictures in a real browser: no two boxes overlap, text stays in its box, and labels can be read."""

import json
import pathlib
import re
import shutil
import subprocess
from typing import Any

import pytest

import phonograd as mx
from phonograd.gluon import nn

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
BROWSER = next((found for name in BROWSERS if (found := shutil.which(name))), None)
pytestmark = pytest.mark.skipif(BROWSER is None, reason=f"there is no browser here ({', '.join(BROWSERS)})")

#: measures what the browser has drawn; labels stand on the sheet itself, boxes are groups with text
SCRIPT = """
function area(e) { const b = e.getBBox(); return [b.x, b.y, b.x + b.width, b.y + b.height]; }
function common(a, b) {
  const across = Math.min(a[2], b[2]) - Math.max(a[0], b[0]), down = Math.min(a[3], b[3]) - Math.max(a[1], b[1]);
  return Math.max(across, 0) * Math.max(down, 0);
}
const found = {};
for (const svg of document.querySelectorAll('svg')) {
  const boxes = [], problems = [];
  for (const group of svg.querySelectorAll('g')) {
    const shape = area(group.querySelector('rect, ellipse')), texts = [...group.querySelectorAll('text')];
    if (!texts.length) continue;
    boxes.push([texts.map(t => t.textContent).join(' '), shape]);
    for (const text of texts) {
      const own = area(text);
      if (own[0] < shape[0] + 1 || own[2] > shape[2] - 1 || own[1] < shape[1] - 1 || own[3] > shape[3] + 1)
        problems.push('text leaves its box: ' + text.textContent);
    }
  }
  const labels = [...svg.children].filter(e => e.tagName == 'text').map(e => [e.textContent, area(e)]);
  const sheet = [0, 0, svg.width.baseVal.value, svg.height.baseVal.value];
  let hidden = 0;
  for (const [name, own] of [...boxes, ...labels])
    if (own[0] < sheet[0] || own[1] < sheet[1] || own[2] > sheet[2] || own[3] > sheet[3])
      problems.push('cut off: ' + name);
  for (let i = 0; i < boxes.length; i++)
    for (let j = 0; j < i; j++)
      if (common(boxes[i][1], boxes[j][1]) > 0) problems.push('boxes overlap: ' + boxes[i][0] + ', ' + boxes[j][0]);
  for (let i = 0; i < labels.length; i++) {
    const own = labels[i][1], size = (own[2] - own[0]) * (own[3] - own[1]);
    for (const [name, other] of [...boxes, ...labels.slice(0, i)])
      // the box of a text is higher than its letters
      if (common(own, other) > 0.3 * size) { hidden++; problems.push('hidden: ' + labels[i][0] + ' by ' + name); }
  }
  found[svg.id] = {boxes: boxes.length, labels: labels.length, hidden, problems};
}
document.body.innerHTML = '<pre id="found"></pre>';
document.getElementById('found').textContent = JSON.stringify(found);
"""


def lenet() -> Any:
    value = mx.sym.var("data")
    for stage, filters in enumerate((20, 50)):
        value = mx.sym.Convolution(value, kernel=(5, 5), num_filter=filters, name=f"conv{stage}")
        value = mx.sym.Activation(value, act_type="tanh", name=f"tanh{stage}")
        value = mx.sym.Pooling(value, kernel=(2, 2), stride=(2, 2), name=f"pool{stage}")
    value = mx.sym.Activation(mx.sym.FullyConnected(value, num_hidden=500, name="fc0"), act_type="tanh", name="tanh2")
    return mx.sym.SoftmaxOutput(mx.sym.FullyConnected(value, num_hidden=10, name="fc1"), name="softmax")


def unrolled() -> Any:
    outputs, _ = mx.gluon.rnn.LSTMCell(8, input_size=4, prefix="lstm_").unroll(
        4, mx.sym.var("data"), merge_outputs=True
    )
    shapes = {name: (2, 8) for name in outputs.list_arguments() if "begin_state" in name}
    return mx.viz.plot_network(outputs, shape={"data": (2, 4, 4), **shapes})


def trained(*layers: Any, shape: tuple[int, ...]) -> Any:
    """Return the picture of both directions of a network's loss."""
    net = nn.HybridSequential()
    net.add(*layers, nn.Dense(3))
    net.initialize()
    with mx.autograd.record():
        loss = mx.gluon.loss.SoftmaxCrossEntropyLoss()(net(mx.nd.ones(shape)), mx.nd.array([0, 1])).mean()
    return mx.viz.plot_record(loss)


def twice_differentiated() -> Any:
    x, w = mx.nd.ones((5, 7)), mx.nd.ones((2, 7))
    x.attach_grad()
    w.attach_grad()
    with mx.autograd.record():
        value = (mx.nd.tanh(mx.nd.dot(x, w.T)) * 2).sum()
        return mx.viz.plot_record(mx.autograd.grad(value, [x], create_graph=True)[0].sum())


def residual() -> Any:
    net = mx.gluon.model_zoo.vision.resnet18_v1()
    return mx.viz.plot_network(net(mx.sym.var("data")), shape={"data": (1, 3, 224, 224)}, dtype={"data": "float32"})


PICTURES = {
    "lenet": lambda: mx.viz.plot_network(lenet(), shape={"data": (1, 1, 28, 28)}),
    "parameters": lambda: mx.viz.plot_network(
        lenet(), shape={"data": (1, 1, 28, 28)}, dtype={"data": "float32"}, hide_weights=False
    ),
    "resnet": residual,
    "unrolled": unrolled,
    "perceptron": lambda: trained(nn.Dense(16, activation="relu"), nn.Dense(8, activation="tanh"), shape=(2, 6)),
    "convolutional": lambda: trained(
        nn.Conv2D(4, 3), nn.BatchNorm(), nn.Activation("relu"), nn.MaxPool2D(), nn.Flatten(), shape=(2, 3, 8, 8)
    ),
    "twice": twice_differentiated,
}


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return what the browser says of all pictures, which stand on one page."""
    drawn = [
        picture()._repr_svg_().replace("<svg ", f'<svg id="{name}" style="display: block" ', 1)
        for name, picture in PICTURES.items()
    ]
    page = tmp_path_factory.mktemp("pictures") / "page.html"
    page.write_text(f"<!doctype html><meta charset=utf-8><body>{''.join(drawn)}<script>{SCRIPT}</script></body>")
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=5000", "--dump-dom"]
    answer = subprocess.run([str(BROWSER), *options, page.as_uri()], check=True, capture_output=True, timeout=120)
    text = re.search(r'<pre id="found">(.*?)</pre>', answer.stdout.decode(), re.DOTALL)
    assert text is not None, answer.stdout[-2000:]
    found: dict[str, Any] = json.loads(text[1].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))
    return found


@pytest.mark.parametrize("name", PICTURES)
def test_everything_can_be_read(name: str, measured: dict[str, Any]) -> None:
    assert measured[name]["boxes"] > 8
    assert measured[name]["labels"] > 8
    assert measured[name]["problems"] == []


def test_files_are_drawn_as_they_are(tmp_path: pathlib.Path) -> None:
    """A file alone, without a page around it, is drawn too."""
    path = mx.viz.plot_network(lenet(), save_format="svg").render("net", tmp_path)
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]
    uri = pathlib.Path(path).as_uri()
    answer = subprocess.run([str(BROWSER), *options, uri], check=True, capture_output=True, timeout=120)
    assert b"parsererror" not in answer.stdout
    assert answer.stdout.count(b"Convolution") >= 2
