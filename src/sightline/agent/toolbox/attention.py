"""Which nodes a session keeps in view: a value that is swapped when it changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["MOST", "Attention"]

MOST: Final = 16


@dataclass(frozen=True, slots=True)
class Attention:
    """The focused nodes as (app, path), the newest last; the oldest give way beyond `MOST`."""

    pairs: tuple[tuple[str, str], ...] = ()

    def focus(self, app: str, path: str) -> Attention:
        """Return the attention with a node in view, as the newest."""
        return Attention((*self.unfocus(app, path).pairs, (app, path))[-MOST:])

    def unfocus(self, app: str, path: str) -> Attention:
        """Return the attention without a node."""
        return Attention(tuple(pair for pair in self.pairs if pair != (app, path)))

    def pins(self) -> dict[str, tuple[str, ...]]:
        """List the paths by app, as `projection.select` takes them."""
        apps = dict.fromkeys(app for app, _ in self.pairs)
        return {
            app: tuple(sorted(path for focused, path in self.pairs if focused == app))
            for app in apps
        }
