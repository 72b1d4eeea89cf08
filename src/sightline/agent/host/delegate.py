"""Tasks that a model hands on: each is a session of its own, and its report is one result.

    a call of `delegate` ─▶ a child: its own session, window and budget ─▶ the call's result

A child is a host with the same apps, rules and mode; it cannot delegate. What it wants to ask
the user goes through its parent, one question at a time and with the child's name on it. What
it spends is its parent's. It ends with the turn that began it, whatever ends that.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, aclosing, suppress
from typing import TYPE_CHECKING, Any, Final, cast

from msgspec.structs import replace

import sightline.events as events
from sightline.agent.toolbox.results import Ran
from sightline.context.messages.parts import ToolCall
from sightline.errors import NotFound, SightlineError

if TYPE_CHECKING:
    from sightline.agent.host.host import Host


_TITLE_CHARS: Final = 80
_BRIEF: Final = (
    "(Another agent gave you this task. Your last message goes back to it as your report: what "
    "you found or did, and what is left. It cannot be asked anything.)"
)


class Delegates:
    """The children of one host, while they work.

    `open_child` opens one for a turn of at most so many tokens (0 for no limit of that kind).
    """

    def __init__(
        self,
        open_child: Callable[[int], AbstractAsyncContextManager[Host]],
        tell: Callable[[events.HostEvent], None],
        learn_rules: Callable[[Host], None],
    ) -> None:
        self._open_child = open_child
        self._tell = tell
        self._learn_rules = learn_rules
        self._children: dict[str, Host] = {}
        self._tokens: dict[str, int] = {}
        self._turn_to_ask = asyncio.Lock()
        self._asking: tuple[Host, str] | None = None  # who has the word, and the call's id there

    @property
    def children(self) -> tuple[Host, ...]:
        """Those that work now."""
        return tuple(self._children.values())

    async def run(self, call: ToolCall, max_tokens: int) -> Ran:
        """Do a task; give its report, or say why there is none."""
        if not str(call.arguments["task"]).strip():
            return Ran.failed("the task is empty: say what the helper is to do")
        try:
            async with self._open_child(max_tokens) as child:
                self._children[call.id] = child
                return await self._follow(call, child)
        except SightlineError as error:
            return Ran.failed(str(error))
        finally:
            self._children.pop(call.id, None)

    def take_tokens(self, call_id: str) -> int:
        """Say how many tokens a task took, once."""
        return self._tokens.pop(call_id, 0)

    def stop(self, reason: str) -> None:
        """End what the children do; each says how far it came, and asks nothing any more."""
        stopped = self.children
        self._children.clear()
        for child in stopped:
            child.cancel(reason)

    def answer(self, call_id: str, *given: Any) -> bool:
        """Answer what a child asks, as `Host.answer` does; False if none asks that."""
        if self._asking is None or not call_id or self._asked_as(*self._asking) != call_id:
            return False
        child, inner = self._asking
        child.answer(inner, *given)
        return True

    def spend_more(self, agreed: bool) -> bool:
        """Say whether a child goes on over a limit in money; False if none asks that."""
        if self._asking is None or self._asking[1]:
            return False
        child, _ = self._asking
        self._hand_over(child)
        with suppress(NotFound):  # its turn may have ended meanwhile
            child.spend_more(agreed)
        return True

    async def _follow(self, call: ToolCall, child: Host) -> Ran:
        task = str(call.arguments["task"])
        number, title = child.session.id, " ".join(task.split())[:_TITLE_CHARS]
        name = f"session {number}: {title}"
        words, ended = "", None
        self._tell(events.Noticed(code="delegate", message=f"delegated to {name}"))
        try:
            turn = cast("AsyncGenerator[events.HostEvent, None]", child.ask(f"{task}\n\n{_BRIEF}"))
            async with aclosing(turn) as stream:
                async for event in stream:
                    match event:
                        case events.RequestBuilt():
                            words = ""
                        case events.TextDelta(text=text):
                            words += text
                        case events.UsageReported():
                            used = event.input_tokens + event.output_tokens
                            self._tokens[call.id] = self._tokens.get(call.id, 0) + used
                        case events.TurnEnded():
                            ended = event
                        case _:
                            await self._pass_on(event, child, name)
                    self._learn_rules(child)
        finally:
            self._hand_over(child)
        return _report(number, ended, words)

    async def _pass_on(self, event: events.HostEvent, child: Host, name: str) -> None:
        """Tell the user what a child asks, when it is its turn."""
        match event:
            case events.ApprovalAsked():
                if await self._take_turn(child, event.call_id):
                    called = self._asked_as(child, event.call_id)
                    self._tell(replace(event, call_id=called, delegate=name))
            case events.ApprovalAnswered():
                if self._asking == (child, event.call_id):
                    self._tell(replace(event, call_id=self._asked_as(child, event.call_id)))
                    self._hand_over(child)
            case events.SpendingAsked(scope="delegate"):
                child.spend_more(False)
            case events.SpendingAsked():
                if not await self._take_turn(child, ""):
                    return
                if await asyncio.to_thread(child.still_over, event):
                    self._tell(event)
                else:  # somebody said so to another child meanwhile
                    self.spend_more(True)
            case events.Noticed():
                self._tell(replace(event, message=f"{name}: {event.message}"))
            case _:
                pass

    async def _take_turn(self, child: Host, call_id: str) -> bool:
        """Wait until nobody else asks; False if the child was stopped meanwhile."""
        await self._turn_to_ask.acquire()
        if child not in self._children.values():
            self._turn_to_ask.release()
            return False
        self._asking = child, call_id
        return True

    def _hand_over(self, child: Host) -> None:
        if self._asking is not None and self._asking[0] is child:
            self._asking = None
            self._turn_to_ask.release()

    @staticmethod
    def _asked_as(child: Host, call_id: str) -> str:
        """Name a child's call so that no other has the name."""
        return f"{child.session.id}/{call_id}"


def _report(number: int, ended: events.TurnEnded | None, words: str) -> Ran:
    where = f"(session {number})"
    if ended is not None and ended.outcome == "answered":
        return Ran.of(f"{ended.text}\n{where}")
    why = "it was interrupted" if ended is None else ended.detail or ended.code or ended.outcome
    if ended is not None and ended.outcome == "cancelled":
        why = f"stopped {ended.detail}".rstrip()
    rest = f"\nIts last words: {words}" if words.strip() else ""
    return Ran.of(f"error: the task was not finished {where}: {why}{rest}", ok=False)
