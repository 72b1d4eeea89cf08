"""The apps' tools for a loop of one's own: definitions in every vendor's form, and calls.

What ran is what was shown: `approve` is asked about an action on a node as they are, and if
either has changed by the time of the answer nothing is done, and the model is told what changed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from inspect import isawaitable
from typing import Any, TypeAlias

import msgspec

from sightline.agent.host.judge import Case, Lapsed, case_of, differences
from sightline.agent.host.sight import SafeWorlds
from sightline.agent.policy import Decision, Mode, decide
from sightline.agent.toolbox import Ran, Toolbox, definitions_of
from sightline.config import PolicyRule
from sightline.context.dialects import anthropic, gemini, openai_chat, openai_responses
from sightline.context.dialects.names import ToolDefinition, read_tools
from sightline.context.messages.given import arguments_given
from sightline.context.messages.parts import ToolCall
from sightline.context.projection.tools import ToolTarget
from sightline.slop.protocol.jsontext import text_of
from sightline.slop.protocol.tree import Affordance
from sightline.slop.protocol.world import World


@dataclass(frozen=True, slots=True)
class ActionQuestion:
    """What somebody is asked to agree to: this action of this app, on this node.

    `label` is what the app calls the node, `about` what it says of the action; `dangerous` is
    its word too. `reason` says why there is a question. `fingerprint` is the same for the same
    question about a node, an action and an app that are as they were.
    """

    app: str
    path: str
    action: str
    params: Mapping[str, Any] = field(default_factory=dict)
    label: str = ""
    about: str = ""
    dangerous: bool = False
    reason: str = ""
    fingerprint: str = ""
    _case: Case | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def digest(self) -> str:
        """Name all that is shown by it; another one if the app, node or action is another."""
        return "" if self._case is None else self._case.digest

    def __str__(self) -> str:
        """Say it in one line."""
        what = f"{self.app}: {self.action} on {self.path}"
        label = f" ({self.label})" if self.label else ""
        params = f" with {msgspec.json.encode(self.params).decode()}" if self.params else ""
        return f"{what}{label}{params}"


Approve: TypeAlias = Callable[[ActionQuestion], bool | Awaitable[bool]]


class HubTools:
    """The tools of a hub as of now, and what a model's call of one comes to."""

    def __init__(
        self, toolbox: Toolbox, mode: Mode, worlds: SafeWorlds, rules: Sequence[PolicyRule] = ()
    ) -> None:
        self._toolbox = toolbox
        self._mode: Mode = mode
        self._worlds = worlds
        self._rules = rules
        self._offered = toolbox.tools()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the tools, to tell them from one's own."""
        return tuple(tool.name for tool in self._offered.tools)

    def openai(self) -> list[dict[str, Any]]:
        """Write them for OpenAI's Chat Completions, and the many who speak it."""
        return list(map(openai_chat.tool_json, self._definitions()))

    def openai_responses(self) -> list[dict[str, Any]]:
        """Write them for OpenAI's Responses."""
        return list(map(openai_responses.tool_json, self._definitions()))

    def anthropic(self) -> list[dict[str, Any]]:
        """Write them for Anthropic's Messages."""
        return list(map(anthropic.tool_json, self._definitions()))

    def gemini(self) -> list[dict[str, Any]]:
        """Write them for Gemini's `generateContent`."""
        return [{"functionDeclarations": list(map(gemini.tool_json, self._definitions()))}]

    def mcp(self) -> list[dict[str, Any]]:
        """Write them as a server of the Model Context Protocol lists them."""
        return [
            {"name": tool.name, "description": tool.description, "inputSchema": tool.parameters}
            for tool in self._definitions()
        ]

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any] | str | None = None,
        *,
        approve: Approve | None = None,
        approved: ActionQuestion | None = None,
    ) -> Ran:
        """Run a model's call; whatever goes wrong is a result whose `content` is for the model.

        `arguments` are an object or its JSON. `approve` answers what the policy asks; without it
        such calls are refused. `approved` is a question of `question()` that had a yes already.
        """
        call, agreed, decision = self._judged(name, arguments)
        if decision.verdict == "deny":
            return Ran.failed(f"It is not allowed here: {decision.reason}")
        asked_about = decision.verdict == "ask" or approved is not None
        if approved is not None and approved._case is not None:
            agreed = approved._case
        elif asked_about:
            if approve is None:
                return Ran.failed(
                    f"It needs the user's approval ({decision.reason}), and nobody can be asked "
                    "here. Tell the user what you wanted to do"
                )
            answer = approve(_question(agreed, decision.reason))
            if not (await answer if isawaitable(answer) else answer):
                return Ran.failed("The user did not approve it. Do not try it again unasked")
        check = partial(self._check, call, agreed, whole=asked_about)
        try:
            return await self._toolbox.run(
                call, self._offered, check, partial(self._may_read, call)
            )
        except Lapsed:
            changed = "; ".join(differences(agreed, self._case(call, agreed.target)))
            return Ran.failed(
                f"It has changed since it was decided on: {changed}",
                "Look at the current state, and call again if it is still right.",
            )

    def question(
        self, name: str, arguments: Mapping[str, Any] | str | None = None
    ) -> ActionQuestion | None:
        """Give what `approve` would be asked about a call as things are; None if nothing.

        `call(…, approved=question)` does what was shown then, or nothing.
        """
        _, case, decision = self._judged(name, arguments)
        return _question(case, decision.reason) if decision.verdict == "ask" else None

    def differences(
        self, seen: World, name: str, arguments: Mapping[str, Any] | str | None = None
    ) -> tuple[str, ...]:
        """Say what of a call's node and action is not as in a world that was shown before."""
        call = ToolCall("", name, arguments_given(arguments))
        now = self._judged(name, arguments)[1]
        target, origin = now.target, now.facts.origin
        past = case_of(call, target, reads=True, world=seen, safe=seen, origin=origin)
        same = past.safe.picture() == now.safe.picture()
        return () if same else differences(past, now)

    def _judged(
        self, name: str, arguments: Mapping[str, Any] | str | None
    ) -> tuple[ToolCall, Case, Decision]:
        call = ToolCall("", name, arguments_given(arguments))
        case = self._case(call, self._toolbox.target(call, self._offered))
        return call, case, decide(case.facts, self._mode, self._rules)

    def _definitions(self) -> list[ToolDefinition]:
        return read_tools(definitions_of(self._offered))

    def _case(self, call: ToolCall, target: ToolTarget | None) -> Case:
        hub = self._toolbox.bench.hub
        origin = None if target is None else hub.origin(target.app)
        return case_of(
            call, target, reads=True, world=hub.world, safe=self._worlds.of(hub.world),
            origin="" if origin is None else str(origin),
        )  # fmt: skip

    def _check(self, call: ToolCall, agreed: Case, target: ToolTarget, *, whole: bool) -> None:
        """Raise `Lapsed` unless a call is what was decided on; by the user, as it was shown."""
        now = self._case(call, target)
        if not (agreed.same(now) if whole else agreed.same_facts(now)):
            raise Lapsed

    def _may_read(self, call: ToolCall, target: ToolTarget, offered: Affordance) -> bool:
        """Tell whether the policy lets a content be read unasked, as the app shows it now."""
        facts = msgspec.structs.replace(
            self._case(call, target).facts, declared=True, dangerous=offered.dangerous is True
        )
        return decide(facts, self._mode, self._rules).verdict == "approve"


def _question(case: Case, reason: str) -> ActionQuestion:
    facts = case.facts
    shown = bytes(text_of([msgspec.to_builtins(facts), case.seen.picture()]))
    question = ActionQuestion(
        facts.app, facts.path, facts.action, deepcopy(facts.params), facts.label, case.safe.about,
        facts.dangerous, reason, sha256(shown).hexdigest(),
    )  # fmt: skip
    object.__setattr__(question, "_case", case)
    return question
