"""Loggers that print one line per message with level, time, process and location (``mxnet.log``)."""

from __future__ import annotations

import logging
import sys
import warnings
from logging import CRITICAL, DEBUG, ERROR, INFO, NOTSET, WARNING

__all__ = ["CRITICAL", "DEBUG", "ERROR", "INFO", "NOTSET", "WARNING", "getLogger", "get_logger"]

#: terminal colors by level
_COLORS = {DEBUG: "\x1b[32m", INFO: "\x1b[32m", WARNING: "\x1b[33m", ERROR: "\x1b[31m", CRITICAL: "\x1b[31m"}


class _Formatter(logging.Formatter):
    """Format a message as one line that begins with the level's first letter; in color for terminals."""

    def __init__(self, colored: bool) -> None:
        super().__init__(datefmt="%m%d %H:%M:%S")
        self._colored = colored

    def format(self, record: logging.LogRecord) -> str:
        """Format a record as one line."""
        place = f"{record.pathname}:{record.funcName}:{record.lineno}"
        start = f"{record.levelname[0]}{self.formatTime(record, self.datefmt)} {record.process} {place}]"
        if self._colored:
            start = f"{_COLORS.get(record.levelno, '')}{start}\x1b[0m"
        error = f"\n{self.formatException(record.exc_info)}" if record.exc_info else ""
        return f"{start} {record.getMessage()}{error}"


def get_logger(
    name: str | None = None, filename: str | None = None, filemode: str | None = None, level: int = WARNING
) -> logging.Logger:
    """Return a logger that writes to a file or to standard error.

    Parameters
    ----------
    name
        The name of the logger; None for the root logger. A logger that was configured before is returned unchanged.
    filename, filemode
        The file and its mode: ``'a'`` (the default) or ``'w'``. Messages in files have no colors.
    level
        Messages below this level are not written.
    """
    logger = logging.getLogger(name)
    if name is None or getattr(logger, "_phonograd_ready", False):
        return logger
    handler: logging.Handler
    if filename is not None:
        handler = logging.FileHandler(filename, filemode or "a", encoding="utf-8")
    else:
        handler = logging.StreamHandler()
    handler.setFormatter(_Formatter(filename is None and sys.stderr.isatty()))
    logger.addHandler(handler)
    logger.setLevel(level)
    logger._phonograd_ready = True  # type: ignore[attr-defined]
    return logger


def getLogger(  # noqa: N802 - MXNet's name
    name: str | None = None, filename: str | None = None, filemode: str | None = None, level: int = WARNING
) -> logging.Logger:
    """Return the logger of :func:`get_logger` (deprecated alias)."""
    warnings.warn("getLogger is deprecated, Use get_logger instead.", DeprecationWarning, stacklevel=2)
    return get_logger(name, filename, filemode, level)
