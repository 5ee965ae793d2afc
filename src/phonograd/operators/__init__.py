"""Every operator of the library, by family. Importing this package imports all families, which fills the registry."""

import importlib
import pkgutil

for _family in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_family.name}")
