"""Import the modules that declare programs."""

from . import data, learning, modules, numpy_arrays, pictures, sparse_training, stores, words

MODULES = (data, learning, modules, numpy_arrays, pictures, sparse_training, stores, words)
