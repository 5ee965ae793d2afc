"""Settings: one frozen record of all tuning options, read once from PHONOGRAD_* variables.

>>> from phonograd import settings
>>> with settings.override(executor="reference"):
...     settings.current().executor
'reference'
"""

from .core.base.settings import CHANGED, Settings, current, override, update

__all__ = ["CHANGED", "Settings", "current", "override", "update"]
