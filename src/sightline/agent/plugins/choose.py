"""Which strategies can be chosen, how one is loaded, and the runner of the chosen one."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from hashlib import sha256
from importlib.metadata import EntryPoint, entry_points
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Final

from sightline.agent.plugins.run import StrategyRunner
from sightline.config import Settings
from sightline.context.slots.strategies import BUILT_IN
from sightline.context.slots.strategy import Strategy
from sightline.errors import InvalidStrategy

ENTRY_POINTS: Final = "sightline.strategies"


def load_strategy(spec: str | Path | object) -> Strategy:
    """Load a strategy by name, from a `.py` file, or from a class or object.

    A name is looked up among the built-in ones, then among the entry points of
    installed packages. Raise `InvalidStrategy` when there is none, when its code does
    not load, or when it has no `on_context_build`.
    """
    if isinstance(spec, Path) or (isinstance(spec, str) and spec.endswith(".py")):
        path = Path(spec)
        return Strategy.of(_module_from(path), name=path.stem, origin=str(path))
    if not isinstance(spec, str):
        return Strategy.of(spec)
    if spec in BUILT_IN:
        return BUILT_IN[spec]
    for entry in entry_points(group=ENTRY_POINTS, name=spec):
        return _from_entry_point(entry)
    known = ", ".join([*BUILT_IN, *sorted(entry_points(group=ENTRY_POINTS).names)])
    raise InvalidStrategy(f"there is no strategy {spec!r}; there are {known}, and .py files")


def available() -> Iterator[tuple[str, str, str]]:
    """Yield name, origin and, if it cannot be loaded, the reason, for everything installed."""
    for strategy in BUILT_IN.values():
        yield strategy.name, strategy.origin, ""
    for entry in entry_points(group=ENTRY_POINTS):
        try:
            _from_entry_point(entry)
        except InvalidStrategy as error:
            yield entry.name, entry.value, str(error)
        else:
            yield entry.name, entry.value, ""


def _from_entry_point(entry: EntryPoint) -> Strategy:
    try:
        loaded = entry.load()
    except Exception as error:
        raise InvalidStrategy(f"entry point {entry.name!r} ({entry.value}): {error}") from error
    return Strategy.of(loaded, name=entry.name, origin=entry.value)


def _module_from(path: Path) -> ModuleType:
    """Run a file as a module of its own; what it raises is its fault, and said so."""
    if not path.is_file():
        raise InvalidStrategy(f"{path}: no such file")
    name = f"sightline_strategy_{sha256(str(path.resolve()).encode()).hexdigest()[:12]}"
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise InvalidStrategy(f"{path}: not a Python file")
    module = module_from_spec(spec)
    sys.modules[name] = module  # dataclasses in the file look their module up
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise InvalidStrategy(f"{path}: {type(error).__name__}: {error}") from error
    return module


def choices(settings: Settings) -> dict[str, str]:
    """Return what can be chosen, by label: built in, installed, configured. Nothing is loaded."""
    named = {name: name for name in (*BUILT_IN, *sorted(entry_points(group=ENTRY_POINTS).names))}
    return named | {label_of(settings.strategy): settings.strategy}


def label_of(strategy: str) -> str:
    """Name a strategy without saying where its file is."""
    return Path(strategy).name if strategy.endswith(".py") else strategy


def runner_of(settings: Settings, strategy: str | None = None) -> StrategyRunner:
    """Load the configured strategy with its settings, or another one with its defaults.

    Raises `InvalidStrategy`.
    """
    wanted = settings.strategy if strategy is None else strategy
    loaded = load_strategy(wanted)
    config: dict[str, object] = (
        dict(settings.strategy_config) if wanted == settings.strategy else {}
    )
    if "state_share" in loaded.schema.__struct_fields__:
        config.setdefault("state_share", settings.tail.max_share)
    return StrategyRunner(loaded, config)
