"""Reductions, cumulative sums and ordering."""
