"""Pictures of symbols and records: what they show, and that they are drawn."""

import pathlib
import re
import shutil
import subprocess
import xml.etree.ElementTree as ElementTree
from typing import Any

import pytest

import phonograd as mx
from phonograd.visualization.summary import summary_of


def network(depth: int = 1) -> Any:
    value = mx.sym.var("data")
    for index in range(depth):
        value = mx.sym.Convolution(value, kernel=(3, 3), pad=(1, 1), num_filter=8, name=f"conv{index}")
        value = mx.sym.BatchNorm(value, name=f"bn{index}")
        left = mx.sym.Activation(value, act_type="relu", name=f"relu{index}")
        right = mx.sym.Pooling(value, kernel=(1, 1), pool_type="avg", name=f"pool{index}")
        value = mx.sym.Concat(left, right, dim=1, name=f"cat{index}")
    return mx.sym.SoftmaxOutput(mx.sym.FullyConnected(value, num_hidden=10, name="fc"), name="softmax")


SHAPE = {"data": (2, 3, 8, 8)}


def recorded() -> Any:
    x, w = mx.nd.ones((4, 8)), mx.nd.ones((3, 8))
    x.attach_grad()
    w.attach_grad()
    with mx.autograd.record():
        return (mx.nd.tanh(mx.nd.dot(x, w.T)) * 2).sum()


def drawn(picture: Any) -> ElementTree.Element:
    return ElementTree.fromstring(picture._repr_svg_())


def test_summary_is_the_one_of_mxnet() -> None:
    lines = summary_of(network(), SHAPE).split("\n")
    # a row of MXNet 1.9.1
    row = "conv0(Convolution)".ljust(52) + "8x8x8".ljust(24) + "224".ljust(12) + "data".ljust(32)
    assert row in lines
    assert "Total params: 10490" in lines
    assert {len(line) for line in lines if not line.startswith("Total")} == {120}


def test_labels_of_any_name_are_no_parameters() -> None:
    net = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=1, name="fc")
    net = mx.sym.LinearRegressionOutput(net, mx.sym.var("wanted"))
    assert "Total params: 6" in summary_of(net, {"data": (2, 5)})


def test_summary_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    mx.visualization.print_summary(network())
    assert "Total params" in capsys.readouterr().out
    with pytest.raises(TypeError, match="symbol must be Symbol"):
        mx.viz.print_summary(3)
    with pytest.raises(ValueError, match="Input shape is incomplete"):
        mx.viz.print_summary(network(), {"data": (2, 0, 8, 8)})


def test_network_has_the_dot_text_of_mxnet() -> None:
    lines = mx.viz.plot_network(network(), shape=SHAPE, title="my net").source.split("\n")
    assert lines[0] == 'digraph "my net" {'
    box = 'fillcolor="#fb8072" fixedsize=true height=0.8034 shape=box style=filled width=1.3]'
    assert rf'	conv0 [label="Convolution\n3x3/1, 8" {box}' in lines
    assert '	bn0 -> conv0 [label="8x8x8" arrowtail=open dir=back]' in lines
    assert not any("weight" in line for line in lines)


def test_weights_and_types_are_shown_on_request() -> None:
    picture = mx.viz.plot_network(network(), shape=SHAPE, dtype={"data": "float32"}, hide_weights=False)
    assert "conv0_weight" in {box.name for box in picture.boxes}
    assert "8x8x8(float32)" in {edge.label for edge in picture.edges}


def test_node_attributes_are_drawn() -> None:
    picture = mx.viz.plot_network(network(), node_attrs={"shape": "oval", "fillcolor": "#123456"})
    assert {(box.shape, box.fill) for box in picture.boxes} == {("oval", "#123456")}


def test_svg_shows_every_box_once() -> None:
    picture = mx.viz.plot_network(network(40), shape=SHAPE)
    assert len(picture.boxes) > 100
    root = drawn(picture)
    texts = [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")]
    assert texts.count("bn17") == 1
    assert "overflow: auto" in picture._repr_html_()


def test_names_are_escaped() -> None:
    value = mx.sym.var('<script>"&\x01\n') * 2
    picture = mx.viz.plot_network(value, title="</svg><b>")
    drawn(picture)
    assert "<script>" not in picture._repr_svg_()
    assert "<b>" not in picture._repr_html_()


@pytest.mark.parametrize("name", ["svg", "pdf", "dot"])
def test_pictures_are_written(name: str, tmp_path: pathlib.Path) -> None:
    picture = mx.viz.plot_network(network(), save_format=name)
    path = picture.render(tmp_path / "folder" / "net")
    assert path == str(tmp_path / "folder" / f"net.{name}")
    assert pathlib.Path(path).read_bytes().startswith({"svg": b"<svg", "pdf": b"%PDF", "dot": b"digraph"}[name])
    assert (tmp_path / "folder" / "net").read_text() == picture.source
    picture.render("alone", tmp_path, cleanup=True)
    assert not (tmp_path / "alone").exists()


def test_places_in_the_pdf_are_right() -> None:
    content = mx.viz.plot_network(network()).pipe("pdf")
    start = int(content.split(b"startxref\n")[1].split()[0])
    assert content[start:].startswith(b"xref")
    for number, place in enumerate(re.findall(rb"(\d{10}) 00000 n", content), 1):
        assert content[int(place) :].startswith(b"%d 0 obj" % number)


def test_viewing_opens_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    monkeypatch.setattr("webbrowser.open", seen.append)
    path = mx.viz.plot_network(network(), save_format="svg").view()
    assert seen == [pathlib.Path(path).as_uri()]


def test_unknown_format_is_refused() -> None:
    with pytest.raises(ValueError, match="svg, pdf"):
        mx.viz.plot_network(network(), save_format="png")
    with pytest.raises(TypeError, match="symbol must be a Symbol"):
        mx.viz.plot_network(3)


# -- records


def test_text_of_a_record_has_both_directions_and_lines() -> None:
    text = mx.viz.record_text(recorded())
    forward, backward = text.split("backward\n")
    assert "tanh(" in forward
    assert "test_pictures.py:" in forward
    assert "gradient of tanh" in backward
    assert len(re.findall(r"gradient of variable \d+\(", backward)) == 2


def test_kernels_are_groups() -> None:
    pytest.importorskip("llvmlite", reason="llvmlite is not installed")
    with mx.settings.override(executor="native"):
        picture = mx.viz.plot_record(recorded())
    assert picture.groups
    labels = {box.name: box.label for box in picture.boxes}
    assert any("tanh" in [labels[name] for name in group.members] for group in picture.groups)
    assert "cluster_0" in picture.source
    drawn(picture)


def test_record_through_functions_and_several_traces() -> None:
    class Double(mx.autograd.Function):
        def forward(self, x: Any) -> Any:
            return x * 2

        def backward(self, grad: Any) -> Any:
            return grad * 2

    x = mx.nd.ones((4, 3))
    x.attach_grad()
    with mx.autograd.record():
        h = mx.nd.exp(x)
        y = Double()(h)
        y.asnumpy()
        z = (mx.nd.split(y * h, num_outputs=3, axis=1)[1]).sum()
    text = mx.viz.record_text(z)
    assert "Double(" in text
    assert "backward of Double(" in text
    drawn(mx.viz.plot_record(z))
    z.backward()
    assert x.grad.shape == (4, 3)


def test_backward_can_be_left_out() -> None:
    assert "backward" not in mx.viz.record_text(recorded(), backward=False)


def test_only_recorded_arrays_have_a_record() -> None:
    with pytest.raises(mx.MXNetError, match="not part of a computation graph"):
        mx.viz.plot_record(mx.nd.array([1.0]))
    with pytest.raises(ValueError, match="nothing to show"):
        mx.viz.plot_record()
    with pytest.raises(TypeError, match="only arrays"):
        mx.viz.plot_record(3)


# -- notebooks


def test_arrays_are_short_tables() -> None:
    text = mx.nd.ones((100, 200))._repr_html_()
    assert text.count("<tr>") == 11
    assert text.count("<td>") == 121
    assert "NDArray 100x200 float32 @cpu(0)" in text
    for shape in ((1,), (0,), (2, 3, 4), (0, 2, 3), (3, 0)):
        ElementTree.fromstring(mx.nd.ones(shape)._repr_html_())


@pytest.mark.skipif(
    not (shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")),
    reason="there is no browser here (chromium, chromium-browser or google-chrome)",
)
def test_browser_draws_the_picture(tmp_path: pathlib.Path) -> None:
    from matplotlib import image

    browser = next(found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name)))
    path = pathlib.Path(mx.viz.plot_record(recorded()).render("record", tmp_path))
    shot = tmp_path / "shot.png"
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--window-size=1200,1600", f"--screenshot={shot}"]
    subprocess.run([browser, *options, path.as_uri()], check=True, capture_output=True, timeout=120)
    pixels = image.imread(shot)[..., :3]
    # boxes and grounds are neither white nor black
    colored = (pixels.max(axis=2) - pixels.min(axis=2) > 0.03).mean()
    assert colored > 0.01


def test_symbols_show_themselves_in_notebooks() -> None:
    picture = ElementTree.fromstring(network()._repr_svg_())
    assert any("conv0" in (element.text or "") for element in picture.iter())
