"""Fused elementwise and reduction kernels, from structure to LLVM IR."""
