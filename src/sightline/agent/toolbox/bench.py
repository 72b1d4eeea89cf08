"""What the tools work on: apps, the nodes that are kept in view, and a session's records."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Final

import msgspec

from sightline.slop.hub.hub import Hub

if TYPE_CHECKING:
    from sightline.agent.toolbox.results import Ran
    from sightline.context.ledger import Ledger, MemoShelf
    from sightline.context.messages.parts import ToolCall


MOST: Final = 16
INVOKE_S: Final = 30.0


class Attention(msgspec.Struct, frozen=True):
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


class SessionRecords(msgspec.Struct, frozen=True):
    """What the tools read and write of one session."""

    ledger: Ledger
    session_id: int
    memos: MemoShelf


class Bench(msgspec.Struct):
    """What the tools of one conversation work on; without records there are only the apps'.

    `attention` is swapped by focus and unfocus. An action is waited for `invoke_s`; one of an
    app of our own as `own_invoke_s` says. `query_name` is what the model calls the tool that
    shows more of an app. `delegate` does a task, where tasks can be handed on.
    """

    hub: Hub
    records: SessionRecords | None = None
    attention: Attention = msgspec.field(default_factory=Attention)
    invoke_s: float = INVOKE_S
    own_invoke_s: Mapping[str, float] = msgspec.field(default_factory=dict)
    query_name: str = "slop_query"
    delegate: Callable[[ToolCall], Awaitable[Ran]] | None = None
