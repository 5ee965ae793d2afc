"""Read the surface of MXNet 1.9.1 that ``record.py`` wrote."""

import gzip
import json
from pathlib import Path

_RECORDED = json.loads(gzip.decompress(Path(__file__).with_name("surface.json.gz").read_bytes()))

#: the dotted names of all modules
MODULES = sorted(_RECORDED["modules"])
#: {"module:class": {"bases": [...], "init": signature, "attributes": {name: description}}}
CLASSES = _RECORDED["classes"]


def names_of(module):
    """Return {name: (description, place)} of a module; the place is "" if the module itself defines the name."""
    found = _RECORDED["modules"][module]
    return _RECORDED["modules"][found] if isinstance(found, str) else found
