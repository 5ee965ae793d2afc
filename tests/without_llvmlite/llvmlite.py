"""Stands before the real llvmlite for a process with this directory in PYTHONPATH, which then has none."""

raise ModuleNotFoundError("No module named 'llvmlite' (hidden for this run)", name="llvmlite")
