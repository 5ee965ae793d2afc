"""Provide parameters, constants, and dictionaries of them (``mxnet.gluon.parameter``)."""

from __future__ import annotations

from .dictionary import ParameterDict
from .parameter import Constant, DeferredInitializationError, Parameter, tensor_types

__all__ = ["Constant", "DeferredInitializationError", "Parameter", "ParameterDict", "tensor_types"]
