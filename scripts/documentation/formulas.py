r"""Formulas of docstrings as MathML, which browsers show without any script.

The formulas are a small part of LaTeX: single letters, Greek letters, functions, ``_`` and ``^``, ``\sqrt{}``, and English
words between them. Each part that ends with a semicolon gets a line of its own.
"""

from __future__ import annotations

import html
import re

__all__ = ["mathml"]

_LETTERS = {
    "Delta": "Δ",
    "Gamma": "Γ",
    "Phi": "Φ",
    "alpha": "α",
    "beta": "β",
    "epsilon": "ε",
    "eta": "η",
    "gamma": "γ",
    "infty": "∞",
    "lambda": "λ",
    "mu": "μ",
    "pi": "π",
    "rho": "ρ",
    "sigma": "σ",
}
_SIGNS = {"cap": "∩", "cup": "∪", "int": "∫", "prod": "∏", "sim": "~", "sum": "∑", "odot": "⊙", "leq": "≤"}
_FUNCTIONS = {*("arccos", "arcsin", "arctan", "cos", "det", "exp", "ln", "log", "max", "min", "sin", "tan", "tanh")}
_TOKEN = re.compile(r"\\[A-Za-z]+|[A-Za-z]+|\d+(?:\.\d+)?|\S")


class _Parser:
    """Read the tokens of a formula in order."""

    def __init__(self, text: str) -> None:
        self._tokens = _TOKEN.findall(text)

    def row(self, end: str | None = None) -> str:
        """Return the elements up to a token, which is dropped, or to the end."""
        parts: list[str] = []
        while self._tokens and self._tokens[0] != end:
            parts.append(self._scripted())
        if end is not None:
            if not self._tokens:
                raise ValueError(f"a formula has no {end!r}")
            self._tokens.pop(0)
        return f"<mrow>{''.join(parts)}</mrow>"

    def _scripted(self) -> str:
        """Return one element with what is below and above it."""
        base, below, above = self._element(), "", ""
        while self._tokens and self._tokens[0] in "_^":
            is_below = self._tokens.pop(0) == "_"
            script = self._element()
            below, above = (script, above) if is_below else (below, script)
        if below and above:
            return f"<msubsup>{base}{below}{above}</msubsup>"
        if below:
            return f"<msub>{base}{below}</msub>"
        return f"<msup>{base}{above}</msup>" if above else base

    def _element(self) -> str:
        token = self._tokens.pop(0)
        if token == "{":
            return self.row("}")
        if token == "\\sqrt":
            return f"<msqrt>{self._element()}</msqrt>"
        if token.startswith("\\"):
            return self._named(token[1:])
        if token[0].isalpha():
            # English, or the name of an argument
            return f"<mi>{token}</mi>" if len(token) == 1 else f"<mtext>&nbsp;{token}&nbsp;</mtext>"
        kind = "mn" if token[0].isdigit() else "mo"
        return f"<{kind}>{html.escape('−' if token == '-' else token)}</{kind}>"

    @staticmethod
    def _named(name: str) -> str:
        if name in _LETTERS:
            return f"<mi>{_LETTERS[name]}</mi>"
        if name in _SIGNS:
            return f"<mo>{_SIGNS[name]}</mo>"
        if name in _FUNCTIONS:
            return f"<mi>{name}</mi><mspace width='0.17em'/>"
        raise ValueError(f"formulas have no \\{name}")


def mathml(formula: str) -> str:
    r"""Return a formula as HTML: a line for each part.

    >>> mathml(r"y = \sqrt{x_i}")
    '<p class="formula"><math><mrow><mi>y</mi><mo>=</mo><msqrt><mrow><msub><mi>x</mi><mi>i</mi></msub></mrow></msqrt></mrow></math></p>'
    """
    lines = [f"<math>{_Parser(part).row()}</math>" for part in formula.split("; ")]
    return f'<p class="formula">{"<br>".join(lines)}</p>'
