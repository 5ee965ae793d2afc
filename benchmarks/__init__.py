"""Measurements. ``make bench`` runs them; only ratios between libraries measured in one run mean anything."""
