"""Name the library and its alias."""

LIBRARY = "phonograd"
ALIAS = "mxnet"
