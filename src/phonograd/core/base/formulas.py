r"""Formulas of operators, functions of mx.np and public classes, in LaTeX that reads well as plain text.

Those of operators and functions are in ``formulas.txt`` beside the declarations.

:func:`with_formula` puts them into docstrings, where they follow the summary as ``.. math::``. The names of inputs are
x, or a and b for two operands; w is a weight, g its gradient (rescaled and clipped), \eta the learning rate.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

__all__ = ["CLASSES", "OPERATORS", "with_formula"]


def _read() -> dict[str, str]:
    lines = (Path(__file__).parents[1] / "ops" / "formulas.txt").read_text(encoding="utf-8").splitlines()
    return {name: formula for name, _, formula in [line.partition(": ") for line in lines]}


#: by name of the operator, or of the function of mx.np
OPERATORS = _read()

#: by name of the class
CLASSES = {
    "Accuracy": r"correct predictions / predictions",
    "AdaGrad": r"h = h + g^2; w = w - \eta (g / \sqrt{h + \epsilon} + wd w)",
    "CrossEntropy": r"-(1 / n) \sum_n \log(p_{n,label_n} + \epsilon)",
    "Dense": r"y = activation(x w^T + b)",
    "ELU": r"y = x where x > 0, else \alpha (e^x - 1)",
    "F1": r"2 precision recall / (precision + recall)",
    "HingeLoss": r"L = \max(0, margin - p y)",
    "L1Loss": r"L = |p - y|, the mean over all axes but that of the batch",
    "L2Loss": r"L = (p - y)^2 / 2, the mean over all axes but that of the batch",
    "LeakyReLU": r"y = x where x > 0, else \alpha x",
    "MAE": r"(1 / n) \sum_n |y_n - p_n|",
    "MSE": r"(1 / n) \sum_n (y_n - p_n)^2",
    "RMSE": r"\sqrt{(1 / n) \sum_n (y_n - p_n)^2}",
    "SoftmaxCrossEntropyLoss": r"L = -\log softmax(p)_y",
    "SquaredHingeLoss": r"L = \max(0, margin - p y)^2",
    "Swish": r"y = x / (1 + e^{-\beta x})",
    "TripletLoss": r"L = \max(0, \sum (p - p_+)^2 - \sum (p - p_-)^2 + margin)",
}


def with_formula(sections: Mapping[str, str], name: str, is_class: bool = False) -> dict[str, str]:
    """Return the sections of a docstring with the formula, if there is one, behind the summary."""
    table = CLASSES if is_class else OPERATORS
    found = table.get(name) or table.get(name.removeprefix("_np_"))
    if found is None:
        return dict(sections)
    summary, blank, rest = sections[""].partition("\n\n")
    return {**sections, "": f"{summary}\n\n.. math:: {found}{blank}{rest}"}
