"""A hub for a loop of one's own: the apps as the end of a request, and as tools.

    async with Hub.connect("mail", "ws://127.0.0.1:8765/slop") as hub:
        tail, tools = hub.tail(), hub.tools()

Both show and do what the host does: the state without keys and walls of text, within a
budget, with what `slop_focus` keeps in view; calls after the same policy.

A framework asks its user in its own way: it stops, and goes on when there is an answer. What is
asked about is kept until then (`LiveTools`), so that what runs is what was shown. It is kept in
this process: another one asks again, and a yes to all calls of a tool is a yes to none of these.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, Final

import msgspec

from sightline._distribution import install
from sightline.adapters.tools import ActionQuestion, HubTools
from sightline.agent.host.sight import SafeWorlds, SightRules, look
from sightline.agent.models.vendors import EXTRAS, is_installed
from sightline.agent.policy import Mode
from sightline.agent.toolbox import Bench, Ran, Style, Toolbox
from sightline.context.messages.given import arguments_given
from sightline.context.projection.tail import Format, Tail
from sightline.context.tokens.tokens import Counter, default_counter
from sightline.errors import InvalidInput, MissingExtra
from sightline.slop.hub.hub import Hub

TAIL_TOKENS: Final = 4_000
_MOST_WAITING: Final = 1_000


class AgentHub(Hub):
    """Keeps apps connected, and gives a model their state and their actions."""

    @cached_property
    def _bench(self) -> Bench:
        return Bench(self)

    @cached_property
    def _worlds(self) -> SafeWorlds:
        return SafeWorlds()

    def tail(
        self,
        budget: int = TAIL_TOKENS,
        counter: Counter | str | None = None,
        *,
        format: Format = "text",  # noqa: A002 - as in the settings
    ) -> Tail:
        """Write what the apps show now, for the end of one request: never keep it.

        `budget` is in tokens as `counter` counts them: a model's id, an encoding or a counter.
        """
        rules = SightRules(budget, format, self._bench.attention.pins(), budget)
        world = self._worlds.of(self.world)
        return look(world, self._clock(), rules, _counter(counter).count).tail

    def tools(self, style: Style = "fixed", *, mode: Mode = "auto") -> HubTools:
        """Give the tools by which a model looks at the apps and acts in them.

        `mode` is the policy's: `auto` asks before what an app calls dangerous, `ask` before
        every action, `plan` refuses them all.
        """
        return HubTools(Toolbox(self._bench, style), mode, self._worlds)


def _counter(given: Counter | str | None) -> Counter:
    """Find a counter; one that estimates where the model's tokenizer is not installed."""
    if given is None:
        return default_counter()
    return default_counter(given) if isinstance(given, str) else given


class LiveTools:
    """A hub's tail and tools, with the questions that wait for an answer."""

    def __init__(
        self, hub: AgentHub, budget: int, counter: Counter | str | None, mode: Mode
    ) -> None:
        self.offered = hub.tools(mode=mode)
        self._hub, self._budget, self._counter = hub, budget, counter
        self._waiting: dict[bytes, ActionQuestion] = {}

    def tail(self) -> Tail:
        """Write what the apps show now, for one request."""
        return self._hub.tail(self._budget, self._counter)

    def question(self, call_id: str, name: str, arguments: Any) -> ActionQuestion | None:
        """Tell what is asked before a call, as it was when it was first asked; None if nothing."""
        key = _key(call_id, name, arguments)
        question = self._waiting.get(key) or self.offered.question(name, arguments)
        if question is not None:
            self._waiting[key] = question
            if len(self._waiting) > _MOST_WAITING:
                del self._waiting[next(iter(self._waiting))]
        return question

    async def run(self, call_id: str, name: str, arguments: Mapping[str, Any] | str | None) -> Ran:
        """Run a call that the framework lets run; one that was asked about as it was shown."""
        approved = self._waiting.pop(_key(call_id, name, arguments), None)
        if approved is None and self.offered.question(name, arguments) is not None:
            return Ran.failed(
                "The user was not asked about this call as it is now",
                "Call it once more; if it is refused again, tell the user.",
            )
        return await self.offered.call(name, arguments, approved=approved)


def _key(call_id: str, name: str, arguments: Any) -> bytes:
    """Name a call: models give the same id to calls of several turns."""
    return msgspec.json.encode((call_id, name, arguments_given(arguments)), order="sorted")


def held_by_vendor() -> InvalidInput:
    """Make the error for a run whose history the vendor keeps."""
    return InvalidInput(
        "the vendor keeps the history of this run (previous_response_id or a conversation's id), "
        "and every state of the apps would stay in it: keep the history yourself, in a session "
        "or a list of messages"
    )


def needs(extra: str) -> None:
    """Raise `MissingExtra` unless what an extra brings is installed."""
    if not is_installed(extra):
        raise MissingExtra(f"{EXTRAS[extra].without}: {install(extra)}")
