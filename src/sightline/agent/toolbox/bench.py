"""What the tools work on: one session's ledger, apps, memos, and the nodes it keeps in view."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from sightline.context.ledger import Ledger, MemoShelf
from sightline.slop.hub.hub import Hub

__all__ = ["MOST", "Attention", "Bench"]

MOST: Final = 16
INVOKE_S: Final = 30.0


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


@dataclass(slots=True)
class Bench:
    """What the tools of one session work on. `attention` is swapped by focus and unfocus.

    An action is waited for `invoke_s`; one of an app of our own as `own_invoke_s` says.
    """

    ledger: Ledger
    session_id: int
    hub: Hub
    memos: MemoShelf
    attention: Attention = field(default_factory=Attention)
    invoke_s: float = INVOKE_S
    own_invoke_s: Mapping[str, float] = field(default_factory=dict)
