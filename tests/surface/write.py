"""Write ``src/phonograd/compat/names.json``: where the names are that MXNet's modules import from elsewhere.

Run it with ``python -m tests.surface.write`` after ``record.py``, and after a change to the library's own modules. It
lists only names that the library's module of the same path lacks and that exist at the recorded place.
"""

import importlib
import json
from collections import defaultdict
from pathlib import Path

from phonograd import compat
from phonograd.compat import places
from tests.surface.surface import MODULES, names_of

PATH = Path(places.__file__).with_name("names.json")


def has(module, name):
    """Return whether a module has a name."""
    try:
        getattr(module, name)
    except (AttributeError, ImportError):
        return False
    return True


def import_or_none(name):
    """Return a module, or None if there is none."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def exists(place):
    """Return whether something is at a place."""
    try:
        places.resolve(place)
    except (AttributeError, ImportError):
        return False
    return True


def write(table):
    """Write the table, and make the library forget the one that it read."""
    text = {
        module: {place: " ".join(sorted(names)) for place, names in sorted(by_place.items())}
        for module, by_place in sorted(table.items())
    }
    PATH.write_text(json.dumps(text, indent=0) + "\n", encoding="utf-8")
    compat.uninstall()
    places._table.cache_clear()
    compat.install_as_mxnet()


def main():
    """Write the table in two rounds: names of the second are at places that the first creates."""
    table = {module: {} for module in MODULES}
    for _ in range(3):
        write(table)
        found = {}
        for module in MODULES:
            ours = import_or_none(module) if places.advice(module[6:]) is None else None
            by_place = found[module] = defaultdict(list)
            for place, names in table[module].items():
                by_place[place] = names.split() if isinstance(names, str) else list(names)
            if places.advice(module[6:]) is not None:
                continue
            known = {name for names in by_place.values() for name in names}
            for name, (_, place) in names_of(module).items():
                if name in known or not place or (ours is not None and has(ours, name)):
                    continue
                if place.split(":")[0] != module and exists(place):
                    by_place[place].append(name)
        table = found
    write(table)


if __name__ == "__main__":
    main()
