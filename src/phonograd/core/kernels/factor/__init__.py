"""Factorizations and triangular systems: the kernels, and the plans that call them on blocks of larger matrices.

Takes nodes whose operators are lowered as :class:`~phonograd.core.lower.lowering.Called`, and hands plans to
:mod:`phonograd.core.run.called`. See docs/decisions/0027.
"""
