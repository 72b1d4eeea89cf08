"""A hub for a loop of one's own: the apps as the end of a request, and as tools.

    async with Hub.connect("mail", "ws://127.0.0.1:8765/slop") as hub:
        tail, tools = hub.tail(), hub.tools()

Both show and do what the host does: the state without keys and walls of text, within a
budget, with what `slop_focus` keeps in view; calls after the same policy.
"""

from __future__ import annotations

from functools import cached_property
from typing import Final

from sightline.adapters.tools import HubTools
from sightline.agent.host.sight import SafeWorlds, SightRules, look
from sightline.agent.policy import Mode
from sightline.agent.toolbox import Bench, Style, Toolbox
from sightline.context.projection.body import Format
from sightline.context.projection.tail import Tail
from sightline.context.tokens.tokens import ESTIMATE, Counter, counter_for, default_counter
from sightline.errors import MissingExtra
from sightline.slop.hub.hub import Hub

TAIL_TOKENS: Final = 4_000


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
    if not isinstance(given, str):
        return given
    try:
        return counter_for(given)
    except MissingExtra:
        return counter_for(ESTIMATE)
