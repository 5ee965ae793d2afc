"""Sweeps over all operators: how calls read their arguments, and what symbols infer, compared with MXNet 1.9.1."""
