"""Write ``surface.json.gz``: the names, classes and signatures of MXNet 1.9.1.

``make surface`` runs this file with a Python that has MXNet 1.9.1. The walk imports every module of the package and
lists the names in each of them, the attributes of every class, the instance attributes that methods assign, and the
signatures of all functions. ``test_surface.py`` compares the library with the list.
"""

import ast
import gzip
import importlib
import inspect
import json
import os
import pkgutil
import sys
import textwrap
import types

HERE = os.path.dirname(os.path.abspath(__file__))
PATH = os.path.join(HERE, "surface.json.gz")

#: parts of the package that are programs, builds of extensions, or need other packages
SKIPPED = ("mxnet.tools", "mxnet.cython", "mxnet.onnx.setup", "mxnet._cy3", "mxnet._ffi._cy3")


def module_names(package):
    """Return the dotted names of all importable modules, and the errors of those that cannot be imported."""
    names, errors = [package.__name__], {}
    for found in pkgutil.walk_packages(package.__path__, package.__name__ + ".", onerror=lambda name: None):
        if not found.name.startswith(SKIPPED):
            try:
                importlib.import_module(found.name)
            except Exception as error:
                errors[found.name] = repr(error)
            else:
                names.append(found.name)
    # modules that a package offers under another name: mxnet.nd, mxnet.sym, ...
    for name in list(names):
        for key, value in vars(sys.modules[name]).items():
            if isinstance(value, types.ModuleType) and value.__name__ in names and f"{name}.{key}" in sys.modules:
                names.append(f"{name}.{key}")
    return sorted(set(names)), errors


def text_of(default):
    """Return a default value as text that does not depend on the process."""
    text = repr(default)
    if isinstance(default, type) or inspect.isroutine(default):
        return getattr(default, "__name__", text)
    if " at 0x" in text:
        return f"<{type(default).__name__}>"
    if isinstance(default, types.ModuleType):
        # not the file that it is from
        return f"<module {default.__name__!r}>"
    return text


def signature(function):
    """Return the parameters of a function as one line, or None if Python cannot tell."""
    try:
        found = inspect.signature(function)
    except (TypeError, ValueError):
        return None
    parts, star = [], False
    for item in found.parameters.values():
        if item.kind is item.VAR_POSITIONAL:
            star = True
            parts.append("*" + item.name)
            continue
        if item.kind is item.VAR_KEYWORD:
            parts.append("**" + item.name)
            continue
        if item.kind is item.KEYWORD_ONLY and not star:
            star = True
            parts.append("*")
        parts.append(item.name if item.default is item.empty else f"{item.name}={text_of(item.default)}")
    return ", ".join(parts)


def instance_attributes(cls):
    """Return the names that the methods of a class assign to ``self``, by its source."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(cls)))
    except (OSError, TypeError, SyntaxError):
        return set()
    return {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    }


def describe_attribute(value):
    """Return the signature of a method, ``property``, or ``value``."""
    if isinstance(value, (staticmethod, classmethod)):
        value = value.__func__
    if inspect.isfunction(value):
        return f"({signature(value)})"
    return "property" if isinstance(value, property) else "value"


def describe_class(cls):
    """Return {attribute: description} of the attributes that a class itself defines."""
    own = {
        key: describe_attribute(value)
        for key, value in sorted(vars(cls).items())
        if not (key.startswith("__") and key.endswith("__")) or inspect.isfunction(value)
    }
    for name in instance_attributes(cls):
        own.setdefault(name, "instance")
    return own


def home(value):
    """Return "module:name" of a value that knows where it was defined, or None."""
    if isinstance(value, types.ModuleType):
        return value.__name__
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str):
        return None
    found = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return f"{module}:{name}" if found is value else None


def shared_home(modules, name, value):
    """Return "module:name" of the first module with the same object under the same name; base has most of them."""
    if isinstance(value, (int, float, str, bool, type(None))):
        return None
    for module in sorted(modules, key=lambda known: (known != "mxnet.base", known.count("."), known)):
        if vars(sys.modules[module]).get(name) is value:
            return f"{module}:{name}"
    return None


def describe_name(value):
    """Return the kind of a value, and its signature if it is a function."""
    if isinstance(value, types.ModuleType):
        return "module"
    if inspect.isclass(value):
        return "class"
    if inspect.isroutine(value):
        return f"({signature(value)})"
    return "value"


def main():
    """Write the surface of MXNet 1.9.1."""
    import mxnet

    assert mxnet.__version__ == "1.9.1", mxnet.__version__
    names, errors = module_names(mxnet)
    modules, classes, seen = {}, {}, {}
    for name in names:
        module = importlib.import_module(name)
        if id(module) in seen:
            modules[name] = seen[id(module)]
            continue
        seen[id(module)] = name
        modules[name] = {}
        for key, value in sorted(vars(module).items()):
            if key.startswith("__") and key.endswith("__"):
                continue
            place = home(value) or shared_home(names, key, value)
            modules[name][key] = [describe_name(value), "" if place == f"{name}:{key}" else place]
            if inspect.isclass(value) and value.__module__.split(".")[0] == "mxnet" and place not in classes:
                classes[place or f"{name}:{key}"] = {
                    "bases": [home(base) for base in value.__mro__[1:-1]],
                    "init": signature(value),
                    "attributes": describe_class(value),
                }
    result = {"modules": modules, "classes": classes, "errors": errors}
    with gzip.GzipFile(PATH, "wb", mtime=0) as file:
        file.write(json.dumps(result, indent=0, sort_keys=True).encode())
    print(
        len(modules),
        "modules,",
        sum(len(m) for m in modules.values() if isinstance(m, dict)),
        "names,",
        len(classes),
        "classes",
    )


if __name__ == "__main__":
    main()
