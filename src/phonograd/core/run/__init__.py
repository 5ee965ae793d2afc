"""Execution layer: compile, cache, load and run kernels; threads, memory, and the NumPy reference executor."""
