"""Measure speed and memory. ``make bench`` runs the benchmarks; only ratios of one run are meaningful."""
