"""mx.log: one line per message, in files without colors; loggers are made once."""

import logging
import re

import pytest

from phonograd import log


@pytest.fixture
def name(request):
    """A name that no other logger has."""
    made = f"phonograd.test.{request.node.name}"
    yield made
    logger = logging.getLogger(made)
    for handler in list(logger.handlers):
        handler.close()
        logger.removeHandler(handler)


def test_lines_of_a_file(tmp_path, name):
    path = tmp_path / "run.log"
    logger = log.get_logger(name, str(path), "w", level=log.INFO)
    logger.info("epoch %d", 3)
    logger.debug("not written")
    try:
        raise ValueError("wrong")
    except ValueError:
        logger.exception("failed")
    first, second, *rest = path.read_text(encoding="utf-8").splitlines()
    assert re.fullmatch(r"I\d{4} \d\d:\d\d:\d\d \d+ .*test_log\.py:test_lines_of_a_file:\d+\] epoch 3", first)
    assert second.startswith("E")
    assert rest[-1] == "ValueError: wrong"


def test_a_logger_is_made_once(name, capsys):
    logger = log.get_logger(name)
    assert log.get_logger(name, level=log.DEBUG) is logger
    assert len(logger.handlers) == 1
    logger.warning("to the terminal")
    logger.info("below the level")
    assert capsys.readouterr().err.endswith("] to the terminal\n")
    assert log.get_logger() is logging.getLogger()
    with pytest.warns(DeprecationWarning, match="Use get_logger"):
        assert log.getLogger(name) is logger


def test_colors(name):
    record = logging.LogRecord(name, logging.ERROR, "file.py", 7, "text", (), None, "function")
    assert re.fullmatch(r"\x1b\[31mE.* file\.py:function:7\]\x1b\[0m text", log._Formatter(True).format(record))
