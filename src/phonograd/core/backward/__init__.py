"""Backward layer: variables, the reverse pass over arrays, and user-defined functions."""
