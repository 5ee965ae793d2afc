"""Contexts, MXNet's word for devices (``mxnet.context``): all arrays are in host memory."""

from .core.base.devices import Context, cpu, cpu_pinned, current_context, gpu, gpu_memory_info, num_gpus

__all__ = ["Context", "cpu", "cpu_pinned", "current_context", "gpu", "gpu_memory_info", "num_gpus"]
