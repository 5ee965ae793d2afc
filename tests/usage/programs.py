"""Import the modules that declare programs."""

from . import modules, sparse_training, stores

MODULES = (modules, sparse_training, stores)
