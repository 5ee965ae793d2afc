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
    "AdaDelta": (
        r"n = \rho n + (1 - \rho) g^2; "
        r"s = g \sqrt{d + \epsilon} / \sqrt{n + \epsilon}; "
        r"d = \rho d + (1 - \rho) s^2; "
        r"w = w - s - wd w"
    ),
    "AdaGrad": r"h = h + g^2; w = w - \eta (g / \sqrt{h + \epsilon} + wd w)",
    "Adam": (
        r"g = g + wd w; "
        r"m = \beta_1 m + (1 - \beta_1) g; "
        r"v = \beta_2 v + (1 - \beta_2) g^2; "
        r"w = w - \eta (\sqrt{1 - \beta_2^t} / (1 - \beta_1^t)) m / (\sqrt{v} + \epsilon)"
    ),
    "Adamax": (
        r"g = g + wd w; "
        r"m = \beta_1 m + (1 - \beta_1) g; "
        r"u = \max(\beta_2 u, |g|); "
        r"w = w - (\eta / (1 - \beta_1^t)) m / u"
    ),
    "BatchNorm": (
        r"y = \gamma (x - \mu) / \sqrt{\sigma^2 + \epsilon} + \beta, with the mean and the variance of each "
        r"channel"
    ),
    "CTCLoss": r"L = -\log \sum_a \prod_t softmax(p_t)_{a_t}, with a all alignments of the labels",
    "CosineEmbeddingLoss": r"L = 1 - \cos(a, b) where y = 1, else \max(0, \cos(a, b) - margin)",
    "CosineScheduler": r"\eta(n) = \eta_{final} + (\eta_0 - \eta_{final}) (1 + \cos(\pi n / n_{max})) / 2",
    "CrossEntropy": r"-(1 / n) \sum_n \log(p_{n,label_n} + \epsilon)",
    "DCASGD": r"m = \mu m - \eta (g + wd w + \lambda g^2 (w - w_{before})); w = w + m",
    "Dense": r"y = activation(x w^T + b)",
    "ELU": r"y = x where x > 0, else \alpha (e^x - 1)",
    "Embedding": r"y_i = w_{x_i}",
    "F1": r"2 precision recall / (precision + recall)",
    "FTML": (
        r"g = g + wd w; "
        r"v = \beta_2 v + (1 - \beta_2) g^2; "
        r"d_t = ((1 - \beta_1^t) / \eta) (\sqrt{v / (1 - \beta_2^t)} + \epsilon); "
        r"z = \beta_1 z + (1 - \beta_1) g - (d_t - \beta_1 d_{t-1}) w; "
        r"w = -z / d_t"
    ),
    "FactorScheduler": r"\eta(n) = \max(\eta_0 factor^k, \eta_{stop}), with k the largest integer below n / step",
    "Ftrl": (
        r"z = z + g - (\sqrt{n + g^2} - \sqrt{n}) w / \eta; "
        r"n = n + g^2; "
        r"w = -sign(z) \max(0, |z| - \lambda_1) / ((\beta + \sqrt{n}) / \eta + wd)"
    ),
    "GELU": r"y = x \Phi(x)",
    "GRUCell": (
        r"u, z = \sigma(w x_t + b + r h_{t-1} + c), with weights of their own; "
        r"n = \tanh(w_n x_t + b_n + u (r_n h_{t-1} + c_n)); "
        r"h_t = (1 - z) n + z h_{t-1}"
    ),
    "GroupAdaGrad": r"h_i = h_i + (1 / n) \sum_j g_{i,j}^2; w_{i,j} = w_{i,j} - \eta g_{i,j} / \sqrt{h_i + \epsilon}",
    "GroupNorm": (
        r"y = \gamma (x - \mu) / \sqrt{\sigma^2 + \epsilon} + \beta, with the mean and the variance of each "
        r"group of channels of each sample"
    ),
    "HingeLoss": r"L = \max(0, margin - p y)",
    "HuberLoss": r"L = e^2 / (2 \rho) where e = |p - y| is at most \rho, else e - \rho / 2",
    "InstanceNorm": (
        r"y = \gamma (x - \mu) / \sqrt{\sigma^2 + \epsilon} + \beta, with the mean and the variance of each "
        r"channel of each sample"
    ),
    "KLDivLoss": r"L = \sum y (\log y - p)",
    "L1Loss": r"L = |p - y|, the mean over all axes but that of the batch",
    "L2Loss": r"L = (p - y)^2 / 2, the mean over all axes but that of the batch",
    "LAMB": (
        r"m = \beta_1 m + (1 - \beta_1) g; "
        r"v = \beta_2 v + (1 - \beta_2) g^2; "
        r"r = (m / (1 - \beta_1^t)) / (\sqrt{v / (1 - \beta_2^t)} + \epsilon) + wd w; "
        r"w = w - \eta (|w| / |r|) r"
    ),
    "LARS": r"\eta_w = \eta eta |w| / (|g| + wd |w| + \epsilon); m = \mu m - \eta_w (g + wd w); w = w + m",
    "LBSGD": (
        r"\eta_t = \eta (1 + (s - 1) f(t / T)), with s the batch scale, T the batches of the warm-up and f(x) "
        r"= x, x^2 or \sqrt{x}"
    ),
    "LSTMCell": (
        r"i, f, o = \sigma(w x_t + b + r h_{t-1} + c), with weights of their own; "
        r"g = \tanh(w_g x_t + b_g + r_g h_{t-1} + c_g); "
        r"s_t = f s_{t-1} + i g; "
        r"h_t = o \tanh(s_t)"
    ),
    "LayerNorm": (
        r"y = \gamma (x - \mu) / \sqrt{\sigma^2 + \epsilon} + \beta, with the mean and the variance along an "
        r"axis"
    ),
    "LeakyReLU": r"y = x where x > 0, else \alpha x",
    "LogisticLoss": r"L = \log(1 + e^{-y p}), for labels 1 and -1",
    "MAE": r"(1 / n) \sum_n |y_n - p_n|",
    "MCC": r"(TP TN - FP FN) / \sqrt{(TP + FP) (TP + FN) (TN + FP) (TN + FN)}",
    "MSE": r"(1 / n) \sum_n (y_n - p_n)^2",
    "MSRAPrelu": r"s = \sqrt{2 / ((1 + slope^2) n)}, with n as for Xavier",
    "MultiFactorScheduler": r"\eta(n) = \eta_0 factor^k, with k the number of steps below n",
    "NAG": (
        r"s = \mu m - \eta (g + wd w); "
        r"w = w + \mu s - \eta (g + wd w); "
        r"m = \mu m - \eta (g + wd w)"
    ),
    "Nadam": (
        r"g = g + wd w; "
        r"m = \beta_1 m + (1 - \beta_1) g; "
        r"v = \beta_2 v + (1 - \beta_2) g^2; "
        r"\mu_t = \beta_1 (1 - 0.96^{t decay} / 2); "
        r"w = w - \eta (g (1 - \mu_t) / (1 - \prod_{i=1}^t \mu_i) + m \mu_{t+1} / (1 - \prod_{i=1}^{t+1} "
        r"\mu_i)) / (\sqrt{v / (1 - \beta_2^t)} + \epsilon)"
    ),
    "NegativeLogLikelihood": r"-(1 / n) \sum_n \log(p_{n,label_n} + \epsilon)",
    "Orthogonal": r"w = scale q, with q q^T = 1 or q^T q = 1",
    "PReLU": r"y = x where x > 0, else \alpha x",
    "PearsonCorrelation": r"\sum_n (y_n - \mu_y) (p_n - \mu_p) / \sqrt{\sum_n (y_n - \mu_y)^2 \sum_n (p_n - \mu_p)^2}",
    "Perplexity": r"e^{-(1 / n) \sum_n \log p_{n,label_n}}",
    "PoissonNLLLoss": r"L = e^p - y p",
    "PolyScheduler": r"\eta(n) = \eta_{final} + (\eta_0 - \eta_{final}) (1 - n / n_{max})^{pwr}",
    "RMSE": r"\sqrt{(1 / n) \sum_n (y_n - p_n)^2}",
    "RMSProp": r"g = g + wd w; n = \gamma_1 n + (1 - \gamma_1) g^2; w = w - \eta g / \sqrt{n + \epsilon}",
    "RNNCell": r"h_t = activation(w x_t + b + r h_{t-1} + c)",
    "SELU": r"y = \lambda x where x > 0, else \lambda \alpha (e^x - 1)",
    "SGD": r"m = \mu m - \eta (g + wd w); w = w + m",
    "SGLD": r"w = w - (\eta / 2) (g + wd w) + \sqrt{\eta} n, with n drawn from the standard normal distribution",
    "SigmoidBinaryCrossEntropyLoss": (
        r"L = -y \log \sigma(p) - (1 - y) \log(1 - \sigma(p)), with \sigma(p) = 1 / (1 + e^{-p})"
    ),
    "Signum": r"m = \mu m - (1 - \mu) (g + wd w); w = (1 - \eta wd_{lh}) w + \eta sign(m)",
    "SoftmaxCrossEntropyLoss": r"L = -\log softmax(p)_y",
    "SquaredHingeLoss": r"L = \max(0, margin - p y)^2",
    "Swish": r"y = x / (1 + e^{-\beta x})",
    "TopKAccuracy": r"samples whose label is among the k largest predictions / samples",
    "TripletLoss": r"L = \max(0, \sum (p - p_+)^2 - \sum (p - p_-)^2 + margin)",
    "Xavier": r"s = \sqrt{magnitude / n}, with n = (n_{in} + n_{out}) / 2, n_{in} or n_{out}",
}


def with_formula(sections: Mapping[str, str], name: str, is_class: bool = False) -> dict[str, str]:
    """Return the sections of a docstring with the formula, if there is one, behind the summary."""
    table = CLASSES if is_class else OPERATORS
    found = table.get(name) or table.get(name.removeprefix("_np_"))
    if found is None:
        return dict(sections)
    summary, blank, rest = sections[""].partition("\n\n")
    return {**sections, "": f"{summary}\n\n.. math:: {found}{blank}{rest}"}
