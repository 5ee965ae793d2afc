"""Operator calls as machine code against CPython's C API."""
