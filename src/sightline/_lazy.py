"""What is made when it is first used: a package's public names, regular expressions."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, cast


def lazily(
    package: str, homes: Mapping[str, str], check: Callable[[], None] = lambda: None
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return a package's `__getattr__` and `__dir__` from where its names live.

    `homes` maps a module to the names taken from it, each as `name` or `name:public_name`.
    `check` is called before one is loaded, and raises what stands in its way.
    """
    where = {
        public or name: (module, name)
        for module, names in homes.items()
        for name, _, public in (item.partition(":") for item in names.split())
    }

    def get(name: str) -> Any:
        if name not in where:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        check()
        module, inner = where[name]
        value = getattr(import_module(module), inner)
        setattr(sys.modules[package], name, value)
        return value

    return get, lambda: sorted(where)


class _Pattern:
    """Stands for a pattern, and has its methods as attributes once one of them was used."""

    def __init__(self, source: str | Callable[[], str], flags: int) -> None:
        self._source = source
        self._flags = flags
        if isinstance(source, str):
            self.pattern = source

    def __getattr__(self, name: str) -> Any:
        source = self._source if isinstance(self._source, str) else self._source()
        compiled = re.compile(source, self._flags)
        for method in ("finditer", "fullmatch", "match", "pattern", "search", "split", "sub"):
            setattr(self, method, getattr(compiled, method))
        return getattr(compiled, name)


def lazy_pattern(source: str | Callable[[], str], flags: int = 0) -> re.Pattern[str]:
    """Return a pattern that is compiled when first used, which takes 0.1 to 5 ms.

    A function as source is called then.
    """
    return cast("re.Pattern[str]", _Pattern(source, flags))
