"""What MCP servers ask the user of a host: told as approvals are, answered by nobody else.

A question belongs to no call of the model's, and the model learns of it at most that there is
one. It waits beside the turn, which goes on or ends as it likes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import count
from typing import Any, Final

from sightline.errors import ActionError, InvalidInput
from sightline.events import ApprovalAnswered, ApprovalAsked, HostEvent
from sightline.slop.app.validate import Validator
from sightline.slop.hub.hub import Hub
from sightline.slop.hub.mcp import ANSWER, QUESTIONS, UserAnswer, UserQuestion

_GONE: Final = "the server waits no longer"
_REASON: Final = "the server asks you; the model cannot answer for you"


class UserQuestions:
    """The questions that wait for the user."""

    def __init__(self, hub: Hub, tell: Callable[[HostEvent], None]) -> None:
        self._hub = hub
        self._tell = tell
        self._numbers = count(1)
        self._waiting: dict[str, tuple[ApprovalAsked, asyncio.Future[UserAnswer]]] = {}

    @property
    def open(self) -> tuple[ApprovalAsked, ...]:
        """Those that nobody has answered yet, the oldest first."""
        return tuple(event for event, _ in self._waiting.values())

    async def ask(self, question: UserQuestion) -> UserAnswer:
        """Tell a question, and wait for what the user answers."""
        app = self._hub.world.app(question.app)
        origin = question.origin or self._hub.origin(question.app) or ""
        event = ApprovalAsked(
            call_id=f"question-{next(self._numbers)}", app=question.app, path=f"/{QUESTIONS}",
            action=ANSWER, params={}, dangerous=False, reason=_REASON,
            name="" if app is None else app.name, origin=str(origin),
            type="question", summary=question.message, form=question.form, url=question.url,
        )  # fmt: skip
        answer: asyncio.Future[UserAnswer] = asyncio.get_running_loop().create_future()
        self._waiting[event.call_id] = (event, answer)
        self._tell(event)
        given = UserAnswer("cancel")
        try:
            given = await answer
        finally:
            del self._waiting[event.call_id]
            by, reason = ("cancel", _GONE) if answer.cancelled() else ("user", "")
            approved = given.action == "accept"
            self._tell(
                ApprovalAnswered(call_id=event.call_id, approved=approved, by=by, reason=reason)
            )
        return given

    def answer(self, call_id: str, *, approved: bool, params: dict[str, Any] | None) -> bool:
        """Answer a question; False if there is none of this id.

        Raises InvalidInput if the answer is not what the form asks for.
        """
        event, answer = self._waiting.get(call_id, (None, None))
        if event is None or answer is None:
            return False
        content = params or {}
        if approved and event.form is not None:
            try:
                Validator(event.form).check(content)
            except ActionError as error:
                raise InvalidInput(f"the answer does not fit: {error.message}") from error
        if not answer.done():
            answer.set_result(UserAnswer("accept", content) if approved else UserAnswer("decline"))
        return True
