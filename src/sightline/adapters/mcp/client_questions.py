"""What a server asks its user while it works: told by an event, answered with a key.

The key is in no tree, so nothing that a model reads lets it answer. Whoever serves the user
repeats it with the answer (`sightline.slop.hub.mcp`).
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Literal, TypeAlias

import msgspec

from sightline.adapters.mcp.client_nodes import clipped
from sightline.errors import ActionError, InvalidInput
from sightline.slop.app.app import App
from sightline.slop.app.validate import Validator
from sightline.slop.hub.mcp import ANSWER, QUESTION, QUESTIONS

Choice: TypeAlias = Literal["accept", "decline", "cancel"]
Answered: TypeAlias = tuple[Choice, dict[str, Any]]

PENDING: Final = 3
# Whoever asks more often is not answered any more.
MANY: Final = 30
MANY_S: Final = 600.0
WAIT_S: Final = 600.0
_AGAIN_S: Final = 1.0
_FORM_BYTES: Final = 16 * 1024
_FIELDS: Final = 30
_NOBODY: Final[Answered] = ("cancel", {})


class PendingQuestions:
    """The questions of one app that wait for an answer."""

    def __init__(self, app: App, clock: Callable[[], float] = time.monotonic) -> None:
        self._app = app
        self._clock = clock
        self._waiting: dict[str, tuple[asyncio.Future[Answered], Validator | None]] = {}
        self._times: deque[float] = deque(maxlen=MANY)
        app.action(QUESTIONS, ANSWER, refreshes=(), description="For the user's side alone")(
            self._answer
        )

    async def ask(
        self, message: str, form: dict[str, Any] | None = None, url: str = ""
    ) -> Answered:
        """Ask, and wait for the answer; nothing is the answer to whoever asks too much."""
        now = self._clock()
        too_often = len(self._times) == MANY and now - self._times[0] < MANY_S
        if too_often or len(self._waiting) >= PENDING or not _is_form(form):
            return _NOBODY
        self._times.append(now)
        key = secrets.token_urlsafe(16)
        answer: asyncio.Future[Answered] = asyncio.get_running_loop().create_future()
        self._waiting[key] = (answer, None if form is None else Validator(form))
        self._show()
        question = {"key": key, "message": clipped(message), "form": form, "url": clipped(url)}
        try:
            async with asyncio.timeout(WAIT_S):
                while True:
                    # Again, for an event can be lost on the way.
                    self._app.emit(QUESTION, question)
                    await asyncio.wait({answer}, timeout=_AGAIN_S)
                    if answer.done():
                        return answer.result()
        except TimeoutError:
            return _NOBODY
        finally:
            del self._waiting[key]
            self._show()

    async def _answer(self, key: str, action: Choice, content: dict[str, Any]) -> None:
        answer, form = self._waiting.get(key, (None, None))
        if answer is None or answer.done():
            raise ActionError("not_found", "nobody waits for this answer")
        if action == "accept" and form is not None:
            form.check(content)
        answer.set_result((action, content))

    def _show(self) -> None:
        count = len(self._waiting)
        if count:
            many = "1 question waits" if count == 1 else f"{count} questions wait"
            node = {
                "type": "collection", "summary": f"{many} for the user", "meta": {"folded": True},
            }  # fmt: skip
            self._app.register(QUESTIONS, node)
        else:
            self._app.unregister(QUESTIONS)


def _is_form(form: dict[str, Any] | None) -> bool:
    """Tell whether a form is one that a person can fill in."""
    if form is None:
        return True
    if len(msgspec.json.encode(form)) > _FORM_BYTES or len(form.get("properties", ())) > _FIELDS:
        return False
    try:
        Validator(form)
    except InvalidInput:
        return False
    return True
