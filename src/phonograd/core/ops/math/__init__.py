"""Elementwise mathematics, comparisons, casts and the structural primitives."""
