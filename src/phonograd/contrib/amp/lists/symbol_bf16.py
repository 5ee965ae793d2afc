"""Lists of operators for mixed precision with bfloat16, under MXNet's names."""

from __future__ import annotations

from . import conditional_names, loss_names, names_of

__all__: list[str] = []

BF16_FUNCS = names_of("low")
FP32_FUNCS = names_of("float32")
WIDEST_TYPE_CASTS = names_of("widest")
BF16_FP32_FUNCS = names_of("")
CONDITIONAL_FP32_FUNCS = conditional_names()
LOSS_OUTPUT_FUNCTIONS = loss_names()
#: 16-bit operators take all their inputs in 16 bits
BF16_USE_FP32_PARAMS: dict[str, list[str]] = {}
