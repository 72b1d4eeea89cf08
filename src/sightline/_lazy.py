"""Public names of a package, each loaded when it is first used."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazily(
    package: str, homes: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return a package's `__getattr__` and `__dir__` from where its names live.

    `homes` maps a module to the names taken from it, each as `name` or `name:public_name`.
    """
    where = {
        public or name: (module, name)
        for module, names in homes.items()
        for name, _, public in (item.partition(":") for item in names.split())
    }

    def get(name: str) -> Any:
        if name not in where:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, inner = where[name]
        value = getattr(import_module(module), inner)
        setattr(sys.modules[package], name, value)
        return value

    return get, lambda: sorted(where)
