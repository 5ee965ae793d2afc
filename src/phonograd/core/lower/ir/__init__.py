"""Builders for the text of LLVM functions: scalars, vectors and random words."""
