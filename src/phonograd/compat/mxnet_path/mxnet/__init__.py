"""A stub for ``import mxnet`` in child processes of a script under ``python -m phonograd run``.

Workers of :mod:`multiprocessing` inherit :data:`sys.path`, which contains the parent directory of this package. The
module replaces itself with the one that :func:`phonograd.install_as_mxnet` creates.
"""

from phonograd.compat import install_as_mxnet

install_as_mxnet(numpy_aliases=True)
