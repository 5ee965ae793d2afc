"""MXNet's lists of operators for mixed precision with bfloat16: names, in MXNet's order."""

from __future__ import annotations

from . import recorded

__all__: list[str] = []

_LISTS = recorded()["symbol_bf16"]

BF16_FUNCS: list[str] = _LISTS["BF16_FUNCS"]
BF16_FP32_FUNCS: list[str] = _LISTS["BF16_FP32_FUNCS"]
FP32_FUNCS: list[str] = _LISTS["FP32_FUNCS"]
WIDEST_TYPE_CASTS: list[str] = _LISTS["WIDEST_TYPE_CASTS"]
CONDITIONAL_FP32_FUNCS: list[tuple[str, str, list[str]]] = _LISTS["CONDITIONAL_FP32_FUNCS"]
LOSS_OUTPUT_FUNCTIONS: list[str] = _LISTS["LOSS_OUTPUT_FUNCTIONS"]
#: operators of 16 bits whose parameters stay float32, and the names of these inputs
BF16_USE_FP32_PARAMS: dict[str, list[str]] = _LISTS["BF16_USE_FP32_PARAMS"]
