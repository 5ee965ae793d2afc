r"""Formulas of operators, functions of mx.np and public classes, in LaTeX that reads well as plain text.

:func:`with_formula` puts them into docstrings, where they follow the summary as ``.. math::``. The names of inputs are
x, or a and b for two operands; w is a weight, g its gradient (rescaled and clipped), \eta the learning rate.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["CLASSES", "OPERATORS", "with_formula"]

#: by name of the operator, or of the function of mx.np
OPERATORS = {
    "BatchNorm": r"y = \gamma (x - \mu_c) / \sqrt{\sigma_c^2 + \epsilon} + \beta, per channel c",
    "BatchNorm_v1": r"y = \gamma (x - \mu_c) / \sqrt{\sigma_c^2 + \epsilon} + \beta, per channel c",
    "Convolution": r"y_{n,o,i} = b_o + \sum_{c,k} w_{o,c,k} x_{n,c,s i + d k - p}",
    "Dropout": r"y = m x / (1 - p), with m = 1 with probability 1 - p, else 0",
    "Embedding": r"y_i = w_{x_i}",
    "FullyConnected": r"y = x w^T + b",
    "GroupNorm": r"y = \gamma (x - \mu_g) / \sqrt{\sigma_g^2 + \epsilon} + \beta, per example and group g",
    "InstanceNorm": r"y = \gamma (x - \mu_{n,c}) / \sqrt{\sigma_{n,c}^2 + \epsilon} + \beta, per example and channel",
    "L2Normalization": r"y = x / \sqrt{\sum x^2 + \epsilon}",
    "LayerNorm": r"y = \gamma (x - \mu) / \sqrt{\sigma^2 + \epsilon} + \beta, along an axis",
    "SoftmaxActivation": r"y_i = e^{x_i} / \sum_j e^{x_j}",
    "SoftmaxOutput": r"y_i = e^{x_i} / \sum_j e^{x_j}",
    "_contrib_box_iou": r"y = |a \cap b| / |a \cup b|",
    "_contrib_div_sqrt_dim": r"y = x / \sqrt{d}, with d the extent of the last axis",
    "_contrib_quadratic": r"y = a x^2 + b x + c",
    "_image_normalize": r"y_c = (x_c - mean_c) / std_c",
    "_linalg_det": r"y = \det A",
    "_linalg_gelqf": r"A = L Q, with Q Q^T = I and L lower triangular",
    "_linalg_gemm": r"y = \alpha A B + \beta C",
    "_linalg_gemm2": r"y = \alpha A B",
    "_linalg_inverse": r"y = A^{-1}",
    "_linalg_potrf": r"A = L L^T",
    "_linalg_potri": r"y = (A A^T)^{-1}",
    "_linalg_sumlogdiag": r"y = \sum_i \log A_{ii}",
    "_linalg_syrk": r"y = \alpha A A^T",
    "_random_pdf_exponential": r"y = \lambda e^{-\lambda x}",
    "_random_pdf_normal": r"y = e^{-(x - \mu)^2 / (2 \sigma^2)} / (\sigma \sqrt{2 \pi})",
    "_random_pdf_poisson": r"y = \lambda^x e^{-\lambda} / x!",
    "_random_pdf_uniform": r"y = 1 / (high - low)",
    "abs": r"y = |x|",
    "adam_update": (
        r"g = g + wd w; m = \beta_1 m + (1 - \beta_1) g; v = \beta_2 v + (1 - \beta_2) g^2; "
        r"w = w - \eta m / (\sqrt{v} + \epsilon)"
    ),
    "add_n": r"y = \sum_i x_i",
    "arccos": r"y = \arccos x",
    "arccosh": r"y = \log(x + \sqrt{x^2 - 1})",
    "arcsin": r"y = \arcsin x",
    "arcsinh": r"y = \log(x + \sqrt{x^2 + 1})",
    "arctan": r"y = \arctan x",
    "arctanh": r"y = \log((1 + x) / (1 - x)) / 2",
    "batch_dot": r"y_n = a_n b_n",
    "broadcast_add": r"y = a + b",
    "broadcast_div": r"y = a / b",
    "broadcast_hypot": r"y = \sqrt{a^2 + b^2}",
    "broadcast_mul": r"y = a b",
    "broadcast_power": r"y = a^b",
    "broadcast_sub": r"y = a - b",
    "cbrt": r"y = x^{1/3}",
    "clip": r"y = \min(\max(x, a_min), a_max)",
    "cos": r"y = \cos x",
    "cosh": r"y = (e^x + e^{-x}) / 2",
    "degrees": r"y = 180 x / \pi",
    "dot": r"y_{i,j} = \sum_k a_{i,k} b_{k,j}",
    "elemwise_add": r"y = a + b",
    "elemwise_div": r"y = a / b",
    "elemwise_mul": r"y = a b",
    "elemwise_sub": r"y = a - b",
    "erf": r"y = 2 / \sqrt{\pi} \int_0^x e^{-t^2} dt",
    "erfinv": r"x = erf(y)",
    "exp": r"y = e^x",
    "expm1": r"y = e^x - 1",
    "gamma": r"y = \int_0^\infty t^{x - 1} e^{-t} dt",
    "gammaln": r"y = \log |\Gamma(x)|",
    "hard_sigmoid": r"y = \min(\max(\alpha x + \beta, 0), 1)",
    "log": r"y = \ln x",
    "log10": r"y = \log_{10} x",
    "log1p": r"y = \ln(1 + x)",
    "log2": r"y = \log_2 x",
    "log_softmax": r"y_i = x_i / t - \log \sum_j e^{x_j / t}",
    "mean": r"y = (1 / n) \sum_i x_i",
    "negative": r"y = -x",
    "prod": r"y = \prod_i x_i",
    "radians": r"y = \pi x / 180",
    "rcbrt": r"y = x^{-1/3}",
    "reciprocal": r"y = 1 / x",
    "relu": r"y = \max(x, 0)",
    "rsqrt": r"y = 1 / \sqrt{x}",
    "sgd_mom_update": r"m = \mu m - \eta (g + wd w); w = w + m",
    "sgd_update": r"w = w - \eta (g + wd w)",
    "sigmoid": r"y = 1 / (1 + e^{-x})",
    "sin": r"y = \sin x",
    "sinh": r"y = (e^x - e^{-x}) / 2",
    "softmax": r"y_i = e^{x_i / t} / \sum_j e^{x_j / t}",
    "softmax_cross_entropy": r"y = -\sum_n \log softmax(x_n)_{label_n}",
    "softmin": r"y_i = e^{-x_i / t} / \sum_j e^{-x_j / t}",
    "softsign": r"y = x / (1 + |x|)",
    "sqrt": r"y = \sqrt{x}",
    "square": r"y = x^2",
    "sum": r"y = \sum_i x_i",
    "tan": r"y = \tan x",
    "tanh": r"y = (e^x - e^{-x}) / (e^x + e^{-x})",
    # functions of mx.np that are no operators of mx.nd
    "add": r"y = a + b",
    "average": r"y = \sum_i w_i x_i / \sum_i w_i",
    "hypot": r"y = \sqrt{a^2 + b^2}",
    "logaddexp": r"y = \log(e^a + e^b)",
    "matmul": r"y_{i,j} = \sum_k a_{i,k} b_{k,j}",
    "multiply": r"y = a b",
    "outer": r"y_{i,j} = a_i b_j",
    "power": r"y = a^b",
    "sinc": r"y = \sin(\pi x) / (\pi x)",
    "std": r"y = \sqrt{\sum_i (x_i - \mu)^2 / (n - ddof)}",
    "subtract": r"y = a - b",
    "true_divide": r"y = a / b",
    "var": r"y = \sum_i (x_i - \mu)^2 / (n - ddof)",
}

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
