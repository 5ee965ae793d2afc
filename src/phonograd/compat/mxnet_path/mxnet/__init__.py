"""What ``import mxnet`` finds in processes that a script under ``python -m phonograd run`` starts.

The directory above stands in :data:`sys.path` there, which workers of :mod:`multiprocessing` inherit; this module
replaces itself by the one that :func:`phonograd.install_as_mxnet` makes.
"""

from phonograd.compat import install_as_mxnet

install_as_mxnet()
