"""phonograd: MXNet's imperative arrays and autograd, recorded lazily, differentiable to every order."""

from . import operators  # noqa: F401
from . import autograd, context, ndarray, settings
from . import ndarray as nd
from ._version import __version__
from .context import Context, cpu, cpu_pinned, current_context, gpu, num_gpus
from .errors import MXNetError
