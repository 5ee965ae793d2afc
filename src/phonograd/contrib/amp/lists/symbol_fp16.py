"""MXNet's lists of operators for mixed precision with float16: names, in MXNet's order."""

from __future__ import annotations

from . import recorded

__all__: list[str] = []

_LISTS = recorded()["symbol_fp16"]

FP16_FUNCS: list[str] = _LISTS["FP16_FUNCS"]
FP16_FP32_FUNCS: list[str] = _LISTS["FP16_FP32_FUNCS"]
FP32_FUNCS: list[str] = _LISTS["FP32_FUNCS"]
WIDEST_TYPE_CASTS: list[str] = _LISTS["WIDEST_TYPE_CASTS"]
CONDITIONAL_FP32_FUNCS: list[tuple[str, str, list[str]]] = _LISTS["CONDITIONAL_FP32_FUNCS"]
LOSS_OUTPUT_FUNCTIONS: list[str] = _LISTS["LOSS_OUTPUT_FUNCTIONS"]
