"""Lists of operators for mixed precision with float16, under MXNet's names."""

from __future__ import annotations

from . import conditional_names, loss_names, names_of

__all__: list[str] = []

FP16_FUNCS = names_of("low")
FP32_FUNCS = names_of("float32")
WIDEST_TYPE_CASTS = names_of("widest")
FP16_FP32_FUNCS = names_of("")
CONDITIONAL_FP32_FUNCS = conditional_names()
LOSS_OUTPUT_FUNCTIONS = loss_names()
