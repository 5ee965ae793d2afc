"""Provide callbacks that collect and draw the progress of training in notebooks."""

from . import callback

__all__ = ["callback"]
