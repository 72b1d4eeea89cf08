"""The OpenAI Agents SDK: live state in every model call, the apps' tools, the ledger as a session.

    apps = LiveApps(hub)
    agent = Agent("helper", tools=apps.tools())
    result = await Runner.run(
        agent, "What is unread?",
        run_config=RunConfig(call_model_input_filter=apps),
        session=LedgerSession(ledger, "thread 1"),
    )

What needs the user's approval is one of `result.interruptions`; `apps.question(it)` says what
it would do. The state is in no history, neither in the session nor in `result.to_input_list()`.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from sightline.adapters.forms import form_of, with_form
from sightline.adapters.hub import TAIL_TOKENS, AgentHub, LiveTools, held_by_vendor, needs
from sightline.adapters.tools import ActionQuestion
from sightline.agent.policy import Mode
from sightline.context.dialects import openai_responses, parse
from sightline.context.ledger import Ledger
from sightline.context.messages import parts
from sightline.context.messages.gate import storable_json
from sightline.context.messages.window import Window
from sightline.context.tokens.tokens import Counter
from sightline.errors import InvalidInput
from sightline.slop.transports.background import finish

if TYPE_CHECKING:
    from agents import FunctionTool, ToolApprovalItem, TResponseInputItem
    from agents.memory import SessionSettings
    from agents.run import CallModelData, ModelInputData
    from agents.run_context import RunContextWrapper
    from agents.tool_context import ToolContext

__all__ = ["LedgerSession", "LiveApps"]

NAME: Final = "openai_agents"
EXTRA: Final = "openai-agents"
_T = TypeVar("_T")


class LiveApps:
    """What the apps of a hub show and do, for the runs of agents: a filter, and tools."""

    def __init__(
        self,
        hub: AgentHub,
        *,
        budget: int = TAIL_TOKENS,
        counter: Counter | str | None = None,
        mode: Mode = "auto",
    ) -> None:
        """Take a hub; `budget` and `counter` are as for `hub.tail`, `mode` as for `hub.tools`."""
        needs(EXTRA)
        self._live = LiveTools(hub, budget, counter, mode)

    def __call__(self, data: CallModelData[Any]) -> ModelInputData:
        """Put the current state behind the input of one model call: `call_model_input_filter`.

        Raises `InvalidInput` where the vendor keeps the history.
        """
        if _vendor_keeps_history():
            raise held_by_vendor()
        tail: Any = self._live.tail().message()
        return replace(data.model_data, input=[*data.model_data.input, tail])

    def tools(self) -> list[FunctionTool]:
        """Give the apps' tools; a call that needs approval interrupts the run."""
        return [self._tool(offered) for offered in self._live.offered.openai_responses()]

    def question(self, interruption: ToolApprovalItem) -> ActionQuestion | None:
        """Tell what an interruption asks about; None if it is no action of an app."""
        call: Any = interruption.raw_item
        name = interruption.tool_name or ""
        if name not in self._live.offered.names:
            return None
        return self._live.question(call.call_id, name, call.arguments)

    def _tool(self, offered: dict[str, Any]) -> FunctionTool:
        from agents import FunctionTool

        name: str = offered["name"]

        async def asks(_: RunContextWrapper[Any], params: dict[str, Any], call_id: str) -> bool:
            return self._live.question(call_id, name, params) is not None

        async def run(context: ToolContext[Any], arguments: str) -> str:
            return (await self._live.run(context.tool_call_id, name, arguments)).content

        return FunctionTool(
            name=name,
            description=offered["description"],
            params_json_schema=offered["parameters"],
            on_invoke_tool=run,
            strict_json_schema=offered["strict"],
            needs_approval=asks,
        )


def _vendor_keeps_history() -> bool:
    """Tell whether the run that calls the filter sends the vendor only what is new.

    The filter is not told; the loop that calls it knows, by the name of one of its variables.
    """
    frame = sys._getframe()
    while (above := frame.f_back) is not None:
        frame = above
        if "server_conversation_tracker" in frame.f_locals:
            return frame.f_locals["server_conversation_tracker"] is not None
    return False


class LedgerSession:
    """A session of the SDK that is a session of a ledger: `Session`, item by item.

    Every item is a message of the ledger and comes back as it was, those that are no messages
    too (hosted tools, reasoning). What a ledger keeps of no text it keeps of none here: keys, and
    context blocks. Any number of processes may write at once.
    """

    def __init__(
        self, ledger: Ledger, session_id: str, *, session_settings: SessionSettings | None = None
    ) -> None:
        """Take the ledger's session of this name, which begins when something is stored."""
        needs(EXTRA)
        self.session_id = session_id
        self.session_settings = session_settings
        self._ledger = ledger

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """Read the items in order; the last ones, if there is a limit."""
        if limit is None and self.session_settings is not None:
            limit = self.session_settings.limit
        items = await self._aside(self._read)
        return items if limit is None else items[-limit:] if limit > 0 else []

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Store items at the end, all or none."""
        if items:
            await self._aside(self._add, [_message(item) for item in items])

    async def pop_item(self) -> TResponseInputItem | None:
        """Take the last item away and return it; two that pop at once get two."""
        return await self._aside(self._pop)

    async def clear_session(self) -> None:
        """Delete all items for good."""
        await self._aside(self._ledger.groups.clear)

    async def _aside(self, work: Callable[..., _T], *more: Any) -> _T:
        """Do something with the ledger's session in a thread; nothing of it comes later."""

        def run() -> _T:
            return work(self._ledger.sessions.named(self.session_id).id, *more)

        return await finish(asyncio.to_thread(run))

    def _read(self, session: int) -> list[TResponseInputItem]:
        entries = self._ledger.window(session, Window(0))
        return [item for entry in entries for item in _items(entry.message)]

    def _add(self, session: int, messages: list[parts.Message]) -> None:
        self._ledger.append(session, messages, strategy=openai_responses.NAME)

    def _pop(self, session: int) -> TResponseInputItem | None:
        while (entry := self._ledger.groups.pop(session)) is not None:
            items, rest = _items(entry.message), entry.message
            while len(_items(rest)) == len(items) > 1:
                rest = parts.Message(rest.role, rest.parts[:-1])
            if len(items) > 1:  # others write several of them as one message
                self._ledger.append(session, [rest], strategy=entry.parsing_strategy)
            if items:
                item: TResponseInputItem = items[-1]
                return item
        return None


def _message(given: Any) -> parts.Message:
    """Read an item as the message that it is, with its own form where that says more."""
    item = msgspec.json.decode(msgspec.json.encode(storable_json(given)))
    try:
        message = parse(openai_responses.NAME, item)
    except InvalidInput:
        message = parts.Message("assistant")
    plain = message.parts and msgspec.json.encode(_items(message)) == msgspec.json.encode([item])
    return message if plain else with_form(message, item, NAME)


def _items(message: parts.Message) -> list[Any]:
    """Write a message as the item that it was, or as the items that say the same."""
    form = form_of(message, NAME)
    if form is not None:
        return [form]
    if message.role in ("assistant", "tool"):
        return [item for part in message.parts for item in _part_items(part)]
    plain = all(isinstance(part, parts.Text) for part in message.parts)
    content: Any = message.text if plain else [_content(part) for part in message.parts]
    return [{"content": content, "role": message.role}]


def _part_items(part: parts.Part) -> Iterator[dict[str, Any]]:
    match part:
        case parts.Text():
            yield {"content": part.text, "role": "assistant"}
        case parts.ToolCall():
            arguments = msgspec.json.encode(part.arguments).decode()
            yield {
                "arguments": arguments, "call_id": part.id, "name": part.name,
                "type": "function_call",
            }  # fmt: skip
        case parts.ToolResult():
            kind = "function_call_output"
            yield {"call_id": part.call_id, "output": part.content, "type": kind}
        case parts.Reasoning(raw=raw) if raw is not None and raw.strategy == openai_responses.NAME:
            yield dict(raw.data)


def _content(part: parts.Part) -> dict[str, Any]:
    if isinstance(part, parts.File) and part.mime.startswith("image/"):
        return {"detail": "auto", "image_url": part.uri, "type": "input_image"}
    if isinstance(part, parts.File):
        return {"file_data": part.uri, "filename": part.name or "file", "type": "input_file"}
    return {"text": part.text if isinstance(part, parts.Text) else "", "type": "input_text"}
