"""Builders for LLVM IR functions: scalars, vectors and random words."""
