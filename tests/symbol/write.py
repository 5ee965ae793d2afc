"""Writes the records of all programs as symbol files, which ``record.py`` has MXNet read and compute.

::

    python -m tests.symbol.write
"""

from __future__ import annotations

import re

import phonograd as mx
from phonograd import autograd

from .calls import RECORDED
from .programs import GRADIENTS, PROGRAMS, gradient


def text_of(program: str) -> str:
    """Return the file of a program's record; numbers of nodes and arguments start at 0."""
    if program in GRADIENTS:
        y = gradient(mx, program)
    else:
        shape, function = PROGRAMS[program]
        x = mx.nd.ones(shape)
        x.attach_grad()
        with autograd.record():
            y = function(mx.nd, x)
    text = autograd.get_symbol(y).tojson()
    for kind in ("node_", "var", "null"):
        numbers = list(dict.fromkeys(re.findall(rf'"name": "{kind}(\d+)"', text)))
        for new, old in enumerate(numbers):
            text = text.replace(f'"name": "{kind}{old}"', f'"name": "{kind}{new}*"')
        text = text.replace('*"', '"')
    return text


if __name__ == "__main__":
    (RECORDED / "ours").mkdir(parents=True, exist_ok=True)
    for program in (*PROGRAMS, *GRADIENTS):
        (RECORDED / "ours" / f"{program}.json").write_text(text_of(program), encoding="utf-8")
