"""Settings: one frozen record of everything that can be tuned, read from PHONOGRAD_* variables once.

>>> from phonograd import settings
>>> with settings.override(executor="reference"):
...     settings.current().executor
'reference'
"""

from .core.base.settings import CHANGED, Settings, current, override, update

__all__ = ["CHANGED", "Settings", "current", "override", "update"]
