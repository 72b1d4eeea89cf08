"""Commands of the user's own at four moments of a turn: what they are told, and may answer.

    before_ask     what the user said, before it is kept    context, or a refusal
    before_call    a call, before it runs                   context, a question, or a refusal
    after_call     a call and its result                    context
    turn_ended     how the turn ended                       nothing

A hook reads one JSON object from stdin and answers by its exit code and stdout, in the form that
the hooks of Claude Code have. It can only make the host more careful: what it allows is still
decided by mode, rules and the user. One that fails is told in a notice. The turn goes on, but the
call that it was to look at is asked about: neither done unseen nor lost.

*Context* is data for the model, from outside: quoted line by line behind a label, in the tail of
the requests that follow in the turn, in no message, and gone with the turn.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import msgspec

from sightline.agent.host.judge import Case
from sightline.agent.policy import Decision
from sightline.agent.toolbox.results import Ran
from sightline.agent.workspace.command import Finished, Output, run_command
from sightline.config import HookSettings
from sightline.errors import HookRefused
from sightline.events import HostEvent, Noticed, TurnEnded

HookVerdict: TypeAlias = Literal["go", "ask", "refuse"]

CONTEXT_CHARS: Final = 10_000
REASON_CHARS: Final = 2_000
_REFUSED: Final = 2  # Claude Code, hooks reference: exit code 2 blocks, stderr is the reason
_NAMES: Final = {
    "before_ask": "UserPromptSubmit",
    "before_call": "PreToolUse",
    "after_call": "PostToolUse",
    "turn_ended": "Stop",
}
_STRICTNESS: Final = ("go", "ask", "refuse")


class HookAnswer(msgspec.Struct, frozen=True):
    """What hooks said together: the strictest verdict, why, and what the model is to know.

    `failure` is why a hook said nothing that can be used, `message` what it tells the user.
    """

    verdict: HookVerdict = "go"
    reason: str = ""
    context: tuple[str, ...] = ()
    message: str = ""
    failure: str = ""

    def also(self, other: HookAnswer) -> HookAnswer:
        """Put another hook's answer beside this one; the stricter verdict stands."""
        strictest = max(self, other, key=lambda one: _STRICTNESS.index(one.verdict))
        return HookAnswer(
            strictest.verdict, strictest.reason, self.context + other.context,
            failure=self.failure or other.failure,
        )  # fmt: skip


class _Specific(msgspec.Struct, frozen=True, rename="camel"):
    additional_context: str | None = None
    permission_decision: Literal["allow", "deny", "ask"] | None = None
    permission_decision_reason: str | None = None
    updated_input: Any = None


class _Output(msgspec.Struct, frozen=True, rename="camel"):
    decision: str | None = None
    reason: str | None = None
    system_message: str | None = None
    stop_reason: str | None = None
    goes_on: bool = msgspec.field(name="continue", default=True)
    hook_specific_output: _Specific | None = None


_OUTPUT: Final = msgspec.json.Decoder(_Output)


def answer_of(event: str, finished: Finished, errors: str) -> HookAnswer:
    """Read what a hook came to; `errors` is what it wrote to stderr."""
    if finished.ended != "exited":
        return HookAnswer(failure=f"{finished.ended} after {finished.seconds:.1f} s")
    if finished.exit_code == _REFUSED:
        return _refusal(errors)
    if finished.exit_code:
        why = f": {errors.strip()}" if errors.strip() else ""
        return HookAnswer(failure=f"exit code {finished.exit_code}{why}"[:REASON_CHARS])
    text = finished.output.strip()
    if not text.startswith("{"):
        return HookAnswer(context=(text,) if text and event == "before_ask" else ())
    try:
        output = _OUTPUT.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        return HookAnswer(failure=f"its answer cannot be read: {error}"[:REASON_CHARS])
    return _answered(output)


def _answered(output: _Output) -> HookAnswer:
    specific = output.hook_specific_output or _Specific()
    reason = specific.permission_decision_reason or output.reason or output.stop_reason or ""
    answer = HookAnswer()
    if specific.permission_decision == "deny" or output.decision == "block" or not output.goes_on:
        answer = _refusal(reason)
    elif specific.updated_input is not None:
        # What runs is what was shown and agreed to; not to run it is the careful reading.
        answer = _refusal("it wants other parameters, which a hook cannot set here")
    elif specific.permission_decision == "ask":
        answer = HookAnswer("ask", Ran.of(reason[:REASON_CHARS]).content)
    context = (specific.additional_context,) if specific.additional_context else ()
    return HookAnswer(answer.verdict, answer.reason, context, output.system_message or "")


def _refusal(reason: str) -> HookAnswer:
    return HookAnswer(
        "refuse", Ran.of(reason.strip()[:REASON_CHARS]).content or "it gave no reason"
    )


def stricter(decision: Decision, answer: HookAnswer, *, can_ask: bool) -> Decision:
    """Decide on a call that the policy does not deny, with what its hooks said of it.

    Without an app's action there is nothing that a user could be shown: a question is a no then.
    """
    if answer.verdict == "refuse":
        return Decision("deny", f"a hook of the user's refused it: {answer.reason}")
    if answer.verdict == "ask":
        why = f": {answer.reason}" if answer.reason else ""
        return Decision("ask" if can_ask else "deny", f"a hook wants it asked{why}")
    if answer.failure and can_ask and decision.verdict == "approve":
        return Decision("ask", f"a hook that looks at such calls failed: {answer.failure}")
    return decision


def noted(contexts: Iterable[tuple[str, str]]) -> str:
    """Write what hooks had to say, each by the moment that it was said at; no line can be ours."""
    blocks: list[str] = []
    for event, text in contexts:
        safe = Ran.of(text[:CONTEXT_CHARS]).content
        if left := len(text) - CONTEXT_CHARS:
            safe += f"\n[cut here: {left:,} more characters]" if left > 0 else ""
        quoted = "\n".join(f"> {line}" for line in safe.splitlines())
        blocks.append(f"From {event}:\n{quoted}")
    return "\n\n".join(blocks)


class TurnHooks:
    """The hooks of one turn, run one after the other in the order of the configuration."""

    def __init__(
        self,
        hooks: Iterable[HookSettings],
        about: Mapping[str, Any],
        tell: Callable[[HostEvent], None],
    ) -> None:
        self._hooks = tuple(hooks)
        self._about = about
        self._tell = tell
        self._stop = threading.Event()

    def stop(self) -> None:
        """End the hook that runs, with all that it started, and begin no other."""
        self._stop.set()

    async def before_ask(self, prompt: str) -> tuple[str, ...]:
        """Give what hooks add to a question. Raises HookRefused if one does not let it be asked."""
        answer = await self._run("before_ask", prompt=prompt)
        if answer.verdict == "refuse":
            raise HookRefused(f"a hook refused this: {answer.reason}")
        return answer.context

    async def before_call(self, case: Case) -> HookAnswer:
        """Have hooks look at a call that would run, or be asked about."""
        return await self._run("before_call", case)

    async def after_call(self, case: Case, content: str, *, ok: bool) -> HookAnswer:
        """Tell hooks what a call came to; one that refuses says so to the model."""
        result = {"content": content, "ok": ok}
        answer = await self._run("after_call", case, tool_response=result)
        if answer.verdict == "go":
            return answer
        return HookAnswer(context=(*answer.context, answer.reason))

    async def turn_ended(self, ended: TurnEnded) -> None:
        """Tell hooks how the turn ended, also one that was stopped."""
        self._stop = threading.Event()
        answer = await self._run(
            "turn_ended", outcome=ended.outcome, code=ended.code, detail=ended.detail,
            last_assistant_message=ended.text, stop_hook_active=False,
        )  # fmt: skip
        if answer.verdict == "refuse":
            self._notice(answer.reason)

    async def _run(self, event: str, case: Case | None = None, **more: Any) -> HookAnswer:
        answer = HookAnswer()
        for hook in self._hooks:
            if hook.event != event or (case is not None and not _fits(hook, case)):
                continue
            if self._stop.is_set() or answer.verdict == "refuse":
                break
            given = {"hook_event_name": _NAMES[event], "event": event, **self._about, **more}
            one = await self._answer(hook, given if case is None else given | _call(case))
            if one.message:
                self._notice(one.message)
            if one.failure and not self._stop.is_set():
                self._notice(f"{hook.command!r:.80} ({event}) failed: {one.failure}")
            answer = answer.also(one)
        return answer

    async def _answer(self, hook: HookSettings, given: Mapping[str, Any]) -> HookAnswer:
        stop, errors = self._stop, Output()
        try:
            here = Path.cwd()
            finished = await asyncio.to_thread(
                run_command, hook.command, here, timeout_s=hook.timeout_s, stop=stop,
                env=os.environ, given=msgspec.json.encode({**given, "cwd": str(here)}),
                errors=errors,
            )  # fmt: skip
        except asyncio.CancelledError:
            stop.set()
            raise
        except (OSError, ValueError) as error:
            return HookAnswer(failure=f"it could not be started: {error}")
        return answer_of(hook.event, finished, errors.text())

    def _notice(self, text: str) -> None:
        self._tell(Noticed(code="hook", message=f"hook: {Ran.of(text[:REASON_CHARS]).content}"))


def _fits(hook: HookSettings, case: Case) -> bool:
    facts = case.facts
    return (
        fnmatchcase(case.call.name, hook.tool)
        and fnmatchcase(facts.app, hook.app)
        and fnmatchcase(facts.action, hook.action)
    )


def _call(case: Case) -> dict[str, Any]:
    """Describe a call; an action's parameters are its input, however the model's tool is called."""
    facts = case.facts
    return {
        "tool_name": case.call.name,
        "tool_use_id": case.call.id,
        "tool_input": case.params,
        "app": facts.app,
        "path": facts.path if case.target is not None else "",
        "action": facts.action,
    }
