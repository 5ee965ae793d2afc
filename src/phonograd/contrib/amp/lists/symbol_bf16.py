"""Lists of operators for mixed precision with bfloat16, under MXNet's names."""

from __future__ import annotations

from . import conditional_names, names_of

__all__: list[str] = []

BF16_FUNCS = names_of("low")
FP32_FUNCS = names_of("float32")
WIDEST_TYPE_CASTS = names_of("widest")
BF16_FP32_FUNCS = names_of("")
CONDITIONAL_FP32_FUNCS = conditional_names()
