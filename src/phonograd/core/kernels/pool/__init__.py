"""Pooling kernels, forward and adjoint."""
