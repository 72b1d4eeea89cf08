"""The calls of the MCP server's tools: who calls, what is shown, asked and done.

Every result says the version of what it shows and what changed since its caller last looked.
What ran is what the user was asked about: the answer to a question is taken once, and only
while app, node and action are as they were.

    what a caller was shown of an app, with the changes that it is told, is what is there now

A state gets a version when it is first shown to somebody: the app's own number, or the next one
where that would not rise (an app that was started anew counts from one). The last few states of
an app are kept, sharing all that they have in common, so that "changed since version 7" has an
answer; a version that is no longer kept has none, and whoever goes by it is told to look again.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final, NamedTuple

import anyio
import mcp_types as types
import msgspec
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from sightline.adapters.mcp.server_tools import ARGUMENTS, LABEL, WAIT_S
from sightline.adapters.tools import ActionQuestion, HubTools
from sightline.agent.host.sight import SafeWorlds, SightRules, look
from sightline.agent.policy import Mode
from sightline.agent.toolbox import Bench, Ran, Toolbox
from sightline.agent.toolbox.advice import missing_action, missing_app, nearest
from sightline.agent.toolbox.apps import normal_path
from sightline.agent.toolbox.bench import Attention
from sightline.config import PolicyRule
from sightline.context.projection.changes import (
    ChangedNode,
    ShownState,
    changed_nodes,
    render_changes,
)
from sightline.context.projection.escape import escape_line, escape_name, escape_text, reveal
from sightline.context.projection.tools import INVOKE, QUERY
from sightline.context.tokens.tokens import Counter, default_counter
from sightline.errors import InvalidInput, InvalidPath, SightlineError
from sightline.slop.hub.hub import Hub
from sightline.slop.protocol.path import format_path, parse_path
from sightline.slop.protocol.scope import find_action
from sightline.slop.protocol.tree import Node
from sightline.slop.protocol.world import AppState, AvailableApp, World

_FOUND_NODES: Final = 50
_QUESTIONS: Final = 256
_QUESTION_CHARS: Final = 16_000
_ONE: Final = frozenset({"path", "action", "params"})
_NOTHING: Final = "Nothing has changed since you last looked."
_LAPSED: Final = (
    "It has changed since the user was asked: look at it, and call again if it is still right"
)
_STDIO: Final = "stdio"
_SESSION_HEADER: Final = "mcp-session-id"
_CONFIRM: Final = "confirm"
# A form without a field is accepted by some clients unasked: only what a user ticked is a yes.
_FORM: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {_CONFIRM: {"type": "boolean", "title": "Yes, do it"}},
    "required": [_CONFIRM],
}


class ToolReply(NamedTuple):
    """What a tool answers: the same as text, and as structured content."""

    text: str
    data: dict[str, Any]
    ok: bool = True

    def result(self) -> types.CallToolResult:
        """Write it as the protocol has it."""
        return types.CallToolResult(
            content=[types.TextContent(text=self.text)],
            structured_content={"note": LABEL, **self.data},
            is_error=not self.ok,
        )


Answer = ToolReply | types.InputRequiredResult


class AppCalls:
    """What the tools do, for every caller; `names` are the tools that are offered."""

    def __init__(
        self, hub: Hub, names: Sequence[str], mode: Mode, rules: Sequence[PolicyRule], budget: int,
        clock: Callable[[], datetime],
    ) -> None:  # fmt: skip
        self.hub = hub
        self._names = names
        self._worlds = SafeWorlds()
        self._tools = HubTools(
            Toolbox(Bench(hub, query_name="look")), mode, self._worlds, tuple(rules)
        )
        self._budget = budget
        self._clock = clock
        self._counter = default_counter()
        self._callers = Callers()
        self._versions = Versions()
        # What the user is being asked (2026-07-28), by the state that the client brings back.
        self._open: OrderedDict[str, dict[str, str]] = OrderedDict()

    async def call(
        self, ctx: ServerRequestContext[Any, Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        """Answer a call; whatever goes wrong is a result that says so."""
        caller = self._callers.of(caller_key(ctx))
        try:
            answer = await self._answer(ctx, params, caller)
        except SightlineError as error:
            app = (params.arguments or {}).get("app")
            answer = self._failed(Ran.failed(str(error)), app if isinstance(app, str) else None)
        return answer.result() if isinstance(answer, ToolReply) else answer

    async def _answer(
        self, ctx: ServerRequestContext[Any, Any], params: types.CallToolRequestParams,
        caller: Caller,
    ) -> Answer:  # fmt: skip
        name, given = params.name, params.arguments or {}
        if name not in self._names:
            hint = nearest(name, self._names)
            raise InvalidInput(f"there is no tool {name!r:.100}. {hint}")
        ARGUMENTS[name].check(given)
        match name:
            case "apps" | "list_apps":
                return self._list_apps(caller)
            case "look":
                return await self._look(caller, given)
            case "connect_app":
                return (
                    await self._look(caller, given) if "app" in given else self._list_apps(caller)
                )
            case "disconnect_app":
                return await self._let_go(caller, given["app"])
            case "wait":
                return await self._wait(caller, given)
            case "act" | "app_action":
                one = {key: item for key, item in given.items() if key in _ONE}
                return await self._act(ctx, params, caller, [one])
            case _:
                return await self._act(ctx, params, caller, given["actions"])

    def _list_apps(self, caller: Caller) -> ToolReply:
        world = self._worlds.of(self.hub.world)
        every: list[AppState | AvailableApp] = [*world.apps, *world.available]
        lines = [self._app_line(app) for app in every]
        text = "\n".join(lines) or "No app has announced itself on this machine."
        news = self._news(caller, [app for app in world.apps if app.id in caller.seen])
        listed = [self._listed(app) for app in every]
        return ToolReply(joined(LABEL, text, news.text), {"apps": listed, "changes": news.json()})

    async def _look(self, caller: Caller, given: Mapping[str, Any]) -> ToolReply:
        app_id, query = given.get("app"), given.get("query", "").split()
        is_part = "path" in given or "depth" in given
        if app_id is None and is_part:
            raise InvalidInput("look: a path or a depth needs an app")
        if app_id is not None:
            await self.reach(app_id)
        path = normal_path(given.get("path", "/"))
        apps = [app for app in self.apps() if app_id in (None, app.id)]
        if query:
            state = self._found(apps, path, query)
        elif app_id is not None and is_part:
            state = await self.part(app_id, path, given.get("depth"))
            caller.attention = caller.attention.focus(app_id, path)
            apps = [app for app in self.apps() if app.id == app_id]
        else:
            state = self.state(World(tuple(apps)), caller)
        news = self._news(caller, apps)
        listed = [self._listed(app) for app in apps]
        versions = "\n".join(self._app_line(app) for app in apps)
        text = joined(LABEL, state, news.text, versions)
        return ToolReply(text, {"apps": listed, "state": state, "changes": news.json()})

    async def _wait(self, caller: Caller, given: Mapping[str, Any]) -> ToolReply:
        app_id, path = given["app"], normal_path(given.get("path", "/"))
        await self.reach(app_id)
        past = self._past(caller, app_id, given.get("seen_version"))
        was = past.app.status, node_at(past.app, path)
        with anyio.move_on_after(given.get("seconds", WAIT_S)):
            async for _ in self.hub.changes():
                app = self.app(app_id)
                if (app.status, node_at(app, path)) != was:
                    break
        app = self.app(app_id)
        changed = (app.status, node_at(app, path)) != was
        news = self._news(caller, [app], past)
        text = joined(LABEL, news.text or _NOTHING, self._app_line(app))
        now = caller.seen[app_id].version
        data = {"app": app_id, "changed": changed, "version": now, "changes": news.json()}
        return ToolReply(text, data)

    async def _let_go(self, caller: Caller, app_id: str) -> ToolReply:
        if self.hub.world.app(app_id) is None:
            raise InvalidInput(missing_app(self.hub.world, app_id))
        await self.hub.remove(app_id)
        caller.seen.pop(app_id, None)
        return self._list_apps(caller)

    # Actions.

    async def _act(
        self, ctx: ServerRequestContext[Any, Any], params: types.CallToolRequestParams,
        caller: Caller, actions: Sequence[Mapping[str, Any]],
    ) -> Answer:  # fmt: skip
        given = params.arguments or {}
        app_id, wanted = given["app"], given.get("seen_version")
        await self.reach(app_id)
        calls = [{"app": app_id, **one, "path": normal_path(one["path"])} for one in actions]
        past = self._past(caller, app_id, wanted)
        if wanted is not None and (lines := self._changed_since(past, calls)):
            refusal = Ran.failed(f"It has changed since version {wanted}", "\n".join(lines))
            return self._acted(caller, app_id, past, [refusal], calls)
        questions = {
            f"action-{number}": question
            for number, call in enumerate(calls, 1)
            if (question := self._tools.question(INVOKE.name, call)) is not None
        }
        if missing := self._missing(app_id, calls):
            return self._acted(caller, app_id, past, [missing], calls)
        if questions:
            answer = await self._ask(ctx, params, questions)
            if isinstance(answer, types.InputRequiredResult):
                return answer
            if answer is not None:
                return self._acted(caller, app_id, past, [answer], calls)
        agreed = {question.fingerprint for question in questions.values()}
        ran: list[Ran] = []
        for call in calls:
            caller.attention = caller.attention.focus(app_id, call["path"])
            ran.append(await self._done(call, agreed))
            if not ran[-1].ok:
                break
        return self._acted(caller, app_id, past, ran, calls)

    async def _done(self, call: Mapping[str, Any], agreed: Set[str]) -> Ran:
        """Do an action, if nobody need be asked or the user agreed to exactly this."""

        def agrees(question: ActionQuestion) -> bool:
            return question.fingerprint in agreed

        now = self._tools.question(INVOKE.name, call)
        if now is not None and not agrees(now):
            return Ran.failed(_LAPSED)
        return await self._tools.call(INVOKE.name, call, approve=agrees)

    def _missing(self, app_id: str, calls: Sequence[Mapping[str, Any]]) -> Ran | None:
        """Say which action is not there, so that nobody is asked about what cannot be done."""
        app = self.hub.world.app(app_id)
        for call in calls:
            path, action = call["path"], call["action"]
            if app is None or app.tree is None or node_at(app, path) is None:
                continue
            if find_action(app.tree, path, action) is None:
                return Ran.failed(missing_action(self.hub.world, app_id, path, action))
        return None

    def _acted(
        self, caller: Caller, app_id: str, past: Seen, ran: list[Ran],
        calls: Sequence[Mapping[str, Any]],
    ) -> ToolReply:  # fmt: skip
        app = self.app(app_id)
        news = self._news(caller, [app], past)
        ok = len(ran) == len(calls) and all(one.ok for one in ran)
        results = [_result(one) for one in ran]
        results += [{"status": "not_done"}] * (len(calls) - len(ran))
        left = len(calls) - len(ran)
        rest = f"{left} more of the {len(calls)} actions: not done." if left else ""
        texts = [one.content for one in ran]
        text = joined(*texts, rest, LABEL, news.text or _NOTHING, self._app_line(app))
        data = {"app": app_id, "version": caller.seen[app_id].version, "changes": news.json()}
        status = results[-1]["status"] if ok else "not_done"
        one = results[0] if len(results) == 1 else {"results": results}
        failed = next((one.content for one in ran if not one.ok), "")
        return ToolReply(
            text, {**data, **({"error": failed} if failed else {}), **one, "status": status}, ok
        )

    def _changed_since(self, past: Seen, calls: Sequence[Mapping[str, Any]]) -> list[str]:
        """Say what of the nodes that calls are for is not as it was."""
        now = self._number(self.app(past.app.id))
        lines: list[str] = []
        for path in dict.fromkeys(call["path"] for call in calls):
            lines += [
                f"{node.change} {node.path}: {node.text}".rstrip(": ")
                for node in changes_below(past, now, path)
            ]
        for call in calls:
            lines += self._tools.differences(World((past.app,)), INVOKE.name, call)
        return list(dict.fromkeys(lines))

    async def _ask(
        self, ctx: ServerRequestContext[Any, Any], params: types.CallToolRequestParams,
        questions: Mapping[str, ActionQuestion],
    ) -> Ran | types.InputRequiredResult | None:  # fmt: skip
        """Ask the user through the client; None is yes to all, a result says why not."""
        first = next(iter(questions.values()))
        if not _can_ask(ctx):
            return Ran.failed(
                f"It needs the user's approval ({first.reason}), and this client cannot ask for "
                f"it. {_how_to_allow(first)}"
            )
        asked_in = {key: _question_text(question) for key, question in questions.items()}
        if any(len(text) > _QUESTION_CHARS for text in asked_in.values()):
            return Ran.failed("Its parameters are too long to be shown to the user who must agree")
        if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            return await _elicit(ctx, asked_in)
        if params.input_responses is None:
            return self._require_input(questions, asked_in)
        pending = self._open.pop(params.request_state or "", None)
        if pending is None:
            return Ran.failed("The user's answer was used or is too old: call again to ask anew")
        if pending != {key: question.fingerprint for key, question in questions.items()}:
            return Ran.failed(_LAPSED)
        return _refusal(params.input_responses.get(key) for key in questions)

    def _require_input(
        self, questions: Mapping[str, ActionQuestion], asked_in: Mapping[str, str]
    ) -> types.InputRequiredResult:
        state = secrets.token_urlsafe()
        self._open[state] = {key: question.fingerprint for key, question in questions.items()}
        while len(self._open) > _QUESTIONS:
            self._open.popitem(last=False)
        requests: dict[str, types.InputRequest] = {
            key: types.ElicitRequest(
                params=types.ElicitRequestFormParams(message=text, requested_schema=_FORM)
            )
            for key, text in asked_in.items()
        }
        return types.InputRequiredResult(input_requests=requests, request_state=state)

    # What apps show.

    def apps(self) -> tuple[AppState, ...]:
        """List the apps that are followed, without keys."""
        return self._worlds.of(self.hub.world).apps

    def app(self, app_id: str) -> AppState:
        """Find an app; one that is gone shows nothing."""
        found = next((app for app in self.apps() if app.id == app_id), None)
        return AppState(app_id, app_id, "disconnected") if found is None else found

    async def part(self, app_id: str, path: str, depth: int | None = None) -> str:
        """Write what an app shows at a node. Raises InvalidInput where it shows nothing."""
        deep = {} if depth is None else {"depth": depth}
        ran = await self._tools.call(QUERY.name, {"app": app_id, "path": path, **deep})
        if not ran.ok:
            raise InvalidInput(ran.content.removeprefix("Not done. "))
        return ran.content

    async def reach(self, app_id: str) -> None:
        """Connect to an app that is known. Raises InvalidInput or Unreachable."""
        world = self.hub.world
        if world.app(app_id) is not None:
            return
        if all(app.id != app_id for app in world.available):
            raise InvalidInput(missing_app(world, app_id))
        await self.hub.client(app_id)
        await self.hub.ready()

    def _rules(self, caller: Caller) -> SightRules:
        return SightRules(self._budget, "text", caller.attention.pins(), self._budget)

    def state(self, world: World, caller: Caller | None = None) -> str:
        """Write what the apps of a world show, within the budget."""
        rules = self._rules(caller or Caller())
        return look(world, self._now(), rules, self._counter.count).tail.state

    def _past(self, caller: Caller, app_id: str, version: int | None) -> Seen:
        """Find the state that a caller goes by: by number, as it was last told, or as it is now."""
        if version is None:
            return caller.seen.get(app_id) or self._number(self.app(app_id))
        self._number(self.app(app_id))
        seen = self._versions.at(app_id, version)
        if seen is None:
            raise InvalidInput(
                f"version {version} of {app_id!r} is not known here, or too old to compare "
                "with: look at it again"
            )
        return seen

    def _news(
        self, caller: Caller, apps: Sequence[AppState], past: Seen | None = None
    ) -> Difference:
        """Say what changed since a caller last looked, and note that it knows now."""
        texts: list[str] = []
        nodes: list[ChangedNode] = []
        for app in apps:
            now = self._number(app)
            before = past or caller.seen.get(app.id)
            caller.seen[app.id] = now
            if before is not None:
                found = difference(before, now, self._rules(caller), self._counter)
                texts += [found.text] if found.text else []
                nodes += found.nodes
        return Difference("\n".join(texts), tuple(nodes))

    def _now(self) -> datetime:
        return self._clock().replace(microsecond=0)

    def _number(self, app: AppState) -> Seen:
        return self._versions.number(app, self._now())

    def _found(self, apps: Sequence[AppState], path: str, words: Sequence[str]) -> str:
        """List the nodes at or below a path whose line has all the words."""
        wanted = [word.casefold() for word in words]
        shown = ShownState.of(World(tuple(apps)), self._now())
        found = [
            f"{app.id} {escape_line(at)}: {text}"
            for app in shown.apps
            for at, text in app.rows
            if path == "/" or at == path or at.startswith(f"{path}/")
            if all(word in f"{at} {text}".casefold() for word in wanted)
        ]
        more = len(found) - _FOUND_NODES
        lines = found[:_FOUND_NODES] + ([f"({more} more: use more words)"] if more > 0 else [])
        return reveal("\n".join(lines)) or "No node has all these words."

    def _listed(self, app: AppState | AvailableApp) -> dict[str, Any]:
        listed = {"app": app.id, "name": escape_name(app.name)}
        if isinstance(app, AvailableApp):
            return {**listed, "status": "available"}
        return {**listed, "status": app.status, "version": self._number(app).version}

    def _app_line(self, app: AppState | AvailableApp) -> str:
        listed = self._listed(app)
        numbered = f", version {listed['version']}" if "version" in listed else ""
        return f"{app.id} ({listed['name']}): {listed['status']}{numbered}"

    def _failed(self, ran: Ran, app: str | None) -> ToolReply:
        empty = {"apps": [], "app": app or "", "status": "not_done", "changed": False}
        return ToolReply(ran.content, {**empty, "error": ran.content}, ok=False)


def caller_key(ctx: ServerRequestContext[Any, Any]) -> str | None:
    """Tell callers apart: one by standard streams, by session over HTTP, else not at all."""
    if ctx.request is None:
        return _STDIO
    found = ctx.request.headers.get(_SESSION_HEADER)
    return None if found is None else f"http {found}"


def _can_ask(ctx: ServerRequestContext[Any, Any]) -> bool:
    declared = ctx.session.client_capabilities
    found = None if declared is None else declared.elicitation
    # MCP, elicitation, capabilities: an empty object is the form mode.
    return found is not None and (found.form is not None or found.url is None)


async def _elicit(ctx: ServerRequestContext[Any, Any], asked_in: Mapping[str, str]) -> Ran | None:
    answers: list[types.ElicitResult] = []
    for text in asked_in.values():
        try:
            answers.append(await ctx.session.elicit_form(text, _FORM, ctx.request_id))
        except (MCPError, ValueError) as error:
            return Ran.failed(f"The user could not be asked: {error}")
        if answers[-1].action != "accept":
            break
    return _refusal(answers)


def _refusal(answers: Iterable[object]) -> Ran | None:
    """Say why not, unless every answer is a yes."""
    for answer in answers:
        if not isinstance(answer, types.ElicitResult) or answer.action == "cancel":
            return Ran.failed("The user did not answer, so it was not approved")
        if answer.action != "accept" or (answer.content or {}).get(_CONFIRM) is not True:
            return Ran.failed("The user did not approve it. Do not try it again unasked")
    return None


def _question_text(question: ActionQuestion) -> str:
    """Put a question into words; everything of the app's in it is escaped."""
    about = f"\nThe app says of it: {escape_line(question.about)}" if question.about else ""
    what = escape_text(str(question))
    return f"May this be done?\n{what}{about}\nWhy you are asked: {question.reason}."


def _how_to_allow(question: ActionQuestion) -> str:
    """Write the rule by which the user allows this without being asked."""
    fields = {"app": question.app, "path": question.path, "action": question.action}
    rule = [f"{name} = {msgspec.json.encode(value).decode()}" for name, value in fields.items()]
    lines = "\n".join(("[[policy]]", *rule, 'decision = "approve"'))
    return (
        "Tell the user what you wanted to do. The user can allow it with a rule in the file that "
        f"`sightline config path` names, and a new start of this server:\n{lines}\n."
    )


def _result(ran: Ran) -> dict[str, Any]:
    if not ran.ok:
        return {"status": "not_done", "error": ran.content}
    status = "accepted" if ran.accepted else "done"
    return {"status": status, **({} if ran.data is None else {"data": ran.data})}


def joined(*parts: str) -> str:
    """Put lines together, without the empty ones."""
    return "\n".join(filter(None, parts))


# What callers were shown, by version, and what is different now.

_STATES: Final = 64
_APPS: Final = 512
_CALLERS: Final = 256


class Seen(NamedTuple):
    """A state of an app that somebody was shown; without keys, as all that is shown."""

    version: int
    app: AppState
    at: datetime


class Versions:
    """The states of every app that were shown last, each with its number."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, deque[Seen]] = OrderedDict()

    def number(self, app: AppState, at: datetime) -> Seen:
        """Give a state its number: the same one as before if it is the same state."""
        kept = self._kept.setdefault(app.id, deque(maxlen=_STATES))
        self._kept.move_to_end(app.id)
        while len(self._kept) > _APPS:
            self._kept.popitem(last=False)
        if kept and _same(kept[-1].app, app):
            return kept[-1]
        seen = Seen(max(app.version, kept[-1].version + 1 if kept else 1), app, at)
        kept.append(seen)
        return seen

    def at(self, app_id: str, version: int) -> Seen | None:
        """Find a state by its number; None if it is not kept."""
        kept = self._kept.get(app_id, ())
        return next((seen for seen in kept if seen.version == version), None)


@dataclass(slots=True)
class Caller:
    """What one caller was last shown of each app, and the nodes that it looked at or acted on."""

    seen: dict[str, Seen] = field(default_factory=dict)
    attention: Attention = field(default_factory=Attention)


class Callers:
    """Those who call, by what tells them apart; who cannot be told apart is new each time."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, Caller] = OrderedDict()

    def of(self, key: str | None) -> Caller:
        """Find a caller, or make one."""
        if key is None:
            return Caller()
        caller = self._known.setdefault(key, Caller())
        self._known.move_to_end(key)
        while len(self._known) > _CALLERS:
            self._known.popitem(last=False)
        return caller


class Difference(NamedTuple):
    """What changed between two states of an app: as a block of text, and change by change."""

    text: str = ""
    nodes: tuple[ChangedNode, ...] = ()

    def json(self) -> list[dict[str, Any]]:
        """Write the changes as JSON objects, without what is empty."""
        return [{k: v for k, v in node._asdict().items() if v} for node in self.nodes]


def difference(past: Seen, now: Seen, rules: SightRules, counter: Counter) -> Difference:
    """Say what of an app is different, within the rules; nothing if it is the same."""
    if past.version == now.version:
        return Difference()
    before, after = _shown(past, rules, counter), _shown(now, rules, counter)
    nodes = tuple(changed_nodes(before, after))
    return Difference(render_changes(before, after).text, nodes) if nodes else Difference()


def changes_below(past: Seen, now: Seen, path: str) -> Iterator[ChangedNode]:
    """List what changed at a node and below it, however much that is."""
    alone = [replace(one.app, tree=node_at(one.app, path)) for one in (past, now)]
    before, after = (ShownState.of(World((app,)), now.at) for app in alone)
    for node in changed_nodes(before, after):
        rest = "" if node.path == "/" else node.path
        yield node._replace(path=(path.rstrip("/") + rest) or "/")


def node_at(app: AppState | None, path: str) -> Node | None:
    """Find a node of an app that shows its state now."""
    if app is None or app.tree is None or app.status != "connected":
        return None
    try:
        return app.tree.at(format_path(parse_path(path)))
    except InvalidPath:
        return None


def _shown(seen: Seen, rules: SightRules, counter: Counter) -> ShownState:
    return look(World((seen.app,)), seen.at, rules, counter.count).shown


def _same(past: AppState, now: AppState) -> bool:
    return past.tree is now.tree and past.status == now.status and past.name == now.name
