"""Run libraries that were written for MXNet, with this library as ``mxnet`` and with real MXNet.

``python -m tests.world`` (``make world``) installs GluonCV, GluonNLP, GluonTS and others, builds every model of GluonCV and
runs the unit tests of the others, and writes the counts into docs/compatibility.md.
"""
