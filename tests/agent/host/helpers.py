"""A host for tests: a scripted model, an app in this process, a ledger in a directory."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from sightline.agent.host import Host
from sightline.agent.models.scripted import ScriptedModel
from sightline.config import AppSettings, Settings
from sightline.context.dialects.profile import Profile
from sightline.context.ledger import Ledger
from sightline.context.ledger.store import Clock
from sightline.context.messages.parts import Message, ToolCall
from sightline.events import ApprovalAsked, HostEvent, TurnEnded
from sightline.slop.hub.hub import Hub
from support.live import Handles, served

E = TypeVar("E", bound=HostEvent)

ALONE = AppSettings(discover=False, workspace=False)
NOW = datetime(2026, 4, 28, 10, 30, tzinfo=UTC)


@contextlib.asynccontextmanager
async def hosted(
    directory: Path,
    script: Iterable[Any] | ScriptedModel = (),  # entries, as `ScriptedModel` takes them
    *,
    app: Handles | None = None,
    app_id: str = "live",
    profile: Profile | None = None,
    session: int | str | None = None,
    url: str | None = None,
    user_ledger: Path | None = None,
    clock: Clock = lambda: NOW,
    **settings: Any,
) -> AsyncIterator[tuple[Host, ScriptedModel]]:
    """Open a host on `directory/work.db` or the ledger of a URL; with an app, it is connected."""
    model = script if isinstance(script, ScriptedModel) else ScriptedModel(script, profile=profile)
    async with contextlib.AsyncExitStack() as stack:
        hub = await stack.enter_async_context(Hub())
        if app is not None:
            dial = await stack.enter_async_context(served("memory", directory, app))
            hub.add(app_id, dial)
            async for world in hub.changes():
                if world.apps and world.apps[0].status == "connected":
                    break
        made = Settings(**{"apps": ALONE, **settings})
        host = await stack.enter_async_context(
            Host.open(
                made, model=model, ledger=url or directory / "work.db", hub=hub, session=session,
                user_ledger=user_ledger, clock=clock,
            )
        )  # fmt: skip
        yield host, model


async def turn(
    host: Host, text: str = "hi", answer: Callable[[ApprovalAsked], bool] | None = None
) -> list[HostEvent]:
    """Ask, answering approvals, to the end."""
    events: list[HostEvent] = []
    async for event in host.ask(text):
        events.append(event)
        if isinstance(event, ApprovalAsked) and answer is not None:
            host.answer(event.call_id, answer(event))
    return events


def ended(events: list[HostEvent]) -> TurnEnded:
    """The end of a turn, which is its last event."""
    last = events[-1]
    assert isinstance(last, TurnEnded)
    return last


def of_kind(events: list[HostEvent], kind: type[E]) -> list[E]:
    """The events of one kind."""
    return [event for event in events if isinstance(event, kind)]


def invoke(
    call_id: str, path: str, action: str, /, *, app: str = "live", **params: Any
) -> ToolCall:
    """A call of `slop_invoke`."""
    arguments = {"app": app, "path": path, "action": action, "params": params}
    return ToolCall(call_id, "slop_invoke", arguments)


def messages(directory: Path, session_id: int = 1, url: str | None = None) -> list[Message]:
    """What the ledger holds, read by somebody else."""
    with Ledger(url or directory / "work.db", mode="read") as ledger:
        return [entry.message for entry in ledger.messages(session_id)]


def statuses(directory: Path, session_id: int = 1) -> list[str]:
    """How each message of the ledger ended."""
    with Ledger(directory / "work.db", mode="read") as ledger:
        return [entry.status for entry in ledger.messages(session_id)]


def check_ledger(directory: Path, session_id: int = 1, url: str | None = None) -> None:
    """Every call has exactly one result, after it; and the ledger is as it was written."""
    open_calls: list[str] = []
    for message in messages(directory, session_id, url):
        if message.role in ("user", "assistant"):
            assert not open_calls
        open_calls += [call.id for call in message.tool_calls]
        for result in message.tool_results:
            open_calls.remove(result.call_id)
    assert not open_calls
    with Ledger(url or directory / "work.db", mode="read") as ledger:
        assert ledger.verify().ok
