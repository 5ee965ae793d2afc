"""Capture layer: record a function once as a template, then replay it without running Python."""
