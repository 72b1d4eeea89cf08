"""Which strategies can be chosen here, and the runner of the chosen one."""

from __future__ import annotations

from importlib.metadata import entry_points
from pathlib import Path

from sightline.agent.plugins.load import ENTRY_POINTS, load_strategy
from sightline.agent.plugins.run import StrategyRunner
from sightline.config import Settings
from sightline.context.slots.strategies import BUILT_IN

__all__ = ["choices", "label_of", "runner_of"]


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
