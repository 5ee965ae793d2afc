"""Translate hot functions (:mod:`phonograd.core.base.hot`) into machine code, and install it."""
