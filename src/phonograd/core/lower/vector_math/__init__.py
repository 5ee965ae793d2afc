"""Elementary functions on vectors: the same sequence of instructions for every element.

All are right for NaN (which stays NaN), infinities, signed zeros and denormal arguments and results, in float32 and
float64. ``python -m benchmarks.ulp --write`` measures their largest errors in units of the last place and writes
docs/numerics.md. No result depends on other lanes of its vector.

========================  ====================================================================================
``formats``               constants of float32 and float64
``parts``                 polynomials, powers of two, error-free sums and products
``coefficients``          the polynomials, written by scripts/make_polynomials.py
``exponential``           exp, expm1, sigmoid, sinh, cosh, tanh
``logarithm``             log, log2, log10, log1p, arcsinh, arccosh, arctanh, softplus
``trigonometry``          sin, cos, tan, and both of a fraction of a turn
``inverse_trigonometry``  arcsin, arccos, arctan
``powers``                power, integer_power, cbrt, hypot
``error_function``        erf, erfinv
``division``              divide and modulo, of integers and of floating point numbers
``conversion``            cast
========================  ====================================================================================
"""

from .conversion import cast
from .division import divide, modulo
from .error_function import erf, erfinv
from .exponential import cosh, exp, expm1, sigmoid, sinh, tanh
from .inverse_trigonometry import arccos, arcsin, arctan
from .logarithm import arccosh, arcsinh, arctanh, log, log1p, log2, log10, softplus
from .powers import cbrt, hypot, integer_power, power
from .trigonometry import cos, cos_sin_of_turns, sin, tan

__all__ = [
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctanh",
    "cast",
    "cbrt",
    "cos",
    "cos_sin_of_turns",
    "cosh",
    "divide",
    "erf",
    "erfinv",
    "exp",
    "expm1",
    "hypot",
    "integer_power",
    "log",
    "log1p",
    "log2",
    "log10",
    "modulo",
    "power",
    "sigmoid",
    "sin",
    "sinh",
    "softplus",
    "tan",
    "tanh",
]
