"""The strategies that come with Sightline. Each is an ordinary strategy, and short."""

from __future__ import annotations

from typing import Final

from sightline.context.slots.strategies import classic, minimal, sightline
from sightline.context.slots.strategy import Strategy

__all__ = ["BUILT_IN", "DEFAULT"]

BUILT_IN: Final = {
    module.name: Strategy.of(module, origin="built in") for module in (sightline, classic, minimal)
}
DEFAULT: Final = BUILT_IN["sightline"]
