"""PyTorch's profiler activities. The CPU is the only device that this library can profile."""

from __future__ import annotations

import enum
import warnings
from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["ProfilerActivity", "check_activities", "supported_activities"]


class ProfilerActivity(enum.Enum):
    """A kind of device, by PyTorch's names."""

    CPU = 0
    XPU = 1
    MTIA = 2
    CUDA = 3
    HPU = 4
    PrivateUse1 = 5


def supported_activities() -> set[ProfilerActivity]:
    """Return the kinds of devices that can be profiled: only the CPU.

    >>> supported_activities()
    {<ProfilerActivity.CPU: 0>}
    """
    return {ProfilerActivity.CPU}


def check_activities(activities: Iterable[Any] | Mapping[Any, Any] | None, use_cuda: bool | None) -> None:
    """Raise or warn if a requested activity does not exist here."""
    chosen = [ProfilerActivity.CPU] if activities is None else list(activities)
    if use_cuda:
        chosen.append(ProfilerActivity.CUDA)
    for activity in chosen:
        if not isinstance(activity, ProfilerActivity):
            raise TypeError(f"an activity must be a ProfilerActivity, not {activity!r}")
    if len(set(chosen)) < len(chosen):
        raise ValueError(f"activities must not repeat: {', '.join([activity.name for activity in chosen])}")
    if ProfilerActivity.CPU not in chosen:
        raise ValueError("No valid profiler activities found: only ProfilerActivity.CPU is supported")
    for activity in chosen:
        if activity is not ProfilerActivity.CPU:
            warnings.warn(f"{activity.name} is not available; profiling only the CPU", UserWarning, stacklevel=4)
