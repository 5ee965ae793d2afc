"""All operators of the library, by family. Importing this package imports every family, which fills the registry."""

import importlib
import pkgutil

for _module in pkgutil.walk_packages(__path__, f"{__name__}."):
    importlib.import_module(_module.name)
