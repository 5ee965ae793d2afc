"""Operators on quantized arrays: conversions, exact integer products, layers on int8 and uint8."""
