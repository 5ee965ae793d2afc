"""Classes that users select by name (``mxnet.registry``), such as initializers and metrics.

A name may also be given with arguments as JSON: ``'["xavier", {"magnitude": 2}]'``.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

from .core.base.errors import nearest

__all__ = ["get_alias_func", "get_create_func", "get_register_func", "get_registry"]

Class = TypeVar("Class", bound=type)

_REGISTRY: dict[type, dict[str, type]] = {}


def get_registry(base_class: type) -> dict[str, type]:
    """Return the registered subclasses of a class by their lower-case names."""
    return dict(_REGISTRY.setdefault(base_class, {}))


def get_register_func(base_class: type, nickname: str) -> Callable[..., Any]:
    """Return a decorator that registers subclasses of a class; messages refer to them as `nickname`."""
    registry = _REGISTRY.setdefault(base_class, {})

    def register(klass: Class, name: str | None = None) -> Class:
        """Register a class under its own or another name, in lower case, and return the class."""
        assert issubclass(klass, base_class), f"Can only register subclass of {base_class.__name__}"
        key = (name or klass.__name__).lower()
        if key in registry and registry[key] is not klass:
            old = registry[key]
            warnings.warn(
                f"New {nickname} {klass.__module__}.{klass.__name__} registered with name {key} is overriding existing "
                f"{nickname} {old.__module__}.{old.__name__}",
                UserWarning,
                stacklevel=2,
            )
        registry[key] = klass
        return klass

    return register


def get_alias_func(base_class: type, nickname: str) -> Callable[..., Any]:
    """Return a decorator that registers a subclass under further names."""
    register = get_register_func(base_class, nickname)

    def alias(*aliases: str) -> Callable[[Class], Class]:
        """Return a decorator that registers a class under each of the names."""

        def register_all(klass: Class) -> Class:
            for name in aliases:
                register(klass, name)
            return klass

        return register_all

    return alias


def get_create_func(base_class: type, nickname: str) -> Callable[..., Any]:
    """Return a function that creates instances from a name and arguments, and returns instances unchanged."""
    registry = _REGISTRY.setdefault(base_class, {})

    def create(*args: Any, **kwargs: Any) -> Any:
        """Create an instance of the class registered under the given name."""
        if args:
            name, *positional = args
        else:
            name, positional = kwargs.pop(nickname), []
        if isinstance(name, base_class):
            if positional or kwargs:
                raise AssertionError(f"{nickname} is already an instance. Additional arguments are invalid")
            return name
        if isinstance(name, dict):
            return create(**name)
        if isinstance(name, type):
            raise AssertionError(f"{nickname} must be of string type, or an object: write {name.__name__}(...)")
        assert isinstance(name, str), f"{nickname} must be of string type"
        if name.startswith(("[", "{")):
            if positional or kwargs:
                raise AssertionError(f"{nickname} is given as JSON. Additional arguments are invalid")
            given = json.loads(name)
            return create(given[0], **given[1]) if isinstance(given, list) else create(**given)
        key = name.lower()
        assert key in registry, (
            f"{key} is not registered. Please register with {nickname}.register first{nearest(key, list(registry))}"
        )
        return registry[key](*positional, **kwargs)

    return create
