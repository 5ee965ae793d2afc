"""Provide modules that train by stochastic variance-reduced gradients (SVRG)."""

from . import svrg_module
from .svrg_module import SVRGModule

__all__ = ["SVRGModule", "svrg_module"]
