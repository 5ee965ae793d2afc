"""Derivation layer: gradients and costs, which follow from operator declarations."""
