"""A turn as spans of OpenTelemetry's GenAI conventions, made from the events that it tells.

    TurnStarted … TurnEnded        invoke_agent sightline
      RequestBuilt … ReplyEnded      chat MODEL              (a failed one ends with the next event)
      CallStarted … CallFinished     execute_tool NAME       (what the app does is part of it)

The tables say which field of an event becomes which attribute; empty fields become none. Texts
are left out unless `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT` is `true`, and then
go through the same redaction as what is stored.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any, Final

import msgspec

import sightline.events as events
import sightline.telemetry as telemetry
from sightline.context.messages.gate import shown_text
from sightline.events import HostEvent
from sightline.telemetry import Attributes

AGENT: Final = "sightline"
CONTENT_VARIABLE: Final = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
# GenAI conventions: the attribute, and the field of the event that it is. `sightline.…` are ours.
MAPPING: Final[Mapping[type, Mapping[str, str]]] = {
    events.TurnEnded: {"sightline.turn.outcome": "outcome"},
    events.RequestBuilt: {
        "sightline.prompt.tokens": "prompt_tokens",
        "sightline.prompt.budget_tokens": "budget_tokens",
        "sightline.prefix.reused_tokens": "reused_tokens",
        "sightline.tail.tokens": "tail_tokens",
        "sightline.drift.cause": "cause",
        "sightline.drift.regression": "regression",
    },
    events.UsageReported: {
        "gen_ai.usage.input_tokens": "input_tokens",
        "gen_ai.usage.output_tokens": "output_tokens",
        "gen_ai.usage.cache_read.input_tokens": "cache_read_tokens",
        "gen_ai.usage.cache_creation.input_tokens": "cache_write_tokens",
        "gen_ai.usage.reasoning.output_tokens": "reasoning_tokens",
        "sightline.cost_usd": "cost_usd",
        "sightline.drift.vendor_reason": "cache_miss",
    },
    events.ReplyEnded: {"gen_ai.response.finish_reasons": "reason"},
    events.CallStarted: {
        "gen_ai.tool.name": "name",
        "gen_ai.tool.call.id": "call_id",
        "sightline.app": "app",
        "sightline.path": "path",
        "sightline.action": "action",
    },
    events.CallFinished: {},
}
_CONTENT: Final[Mapping[type, Mapping[str, str]]] = {
    events.TurnStarted: {"gen_ai.input.messages": "text"},
    events.TurnEnded: {"gen_ai.output.messages": "text"},
    events.CallStarted: {"gen_ai.tool.call.arguments": "arguments"},
    events.CallFinished: {"gen_ai.tool.call.result": "content"},
}
# GenAI conventions, gen_ai.provider.name: those that are spelt otherwise there.
_PROVIDERS: Final = {"gemini": "gcp.gemini", "bedrock": "aws.bedrock"}


class TurnSpans:
    """The spans of one turn; `hear` takes its events as they are told."""

    def __init__(self, conversation: str) -> None:
        self._conversation = {"gen_ai.conversation.id": conversation}
        self._turn_span: Any = None
        self._chat: Any = None
        self._calls: dict[str, Any] = {}
        self._request: Attributes = {}
        self._sent_at = 0.0
        self._waits = False  # for the first part of a reply
        self._with_content = os.environ.get(CONTENT_VARIABLE, "").lower() == "true"

    def hear(self, event: HostEvent) -> None:
        """Begin, fill or end the spans that an event is about."""
        if isinstance(event, events.TurnStarted):
            telemetry.enter_turn(self._conversation["gen_ai.conversation.id"], event.turn)
        if not telemetry.is_on():
            return
        match event:
            case events.TurnStarted():
                named = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": AGENT}
                self._turn_span = self._begin(
                    f"invoke_agent {AGENT}", {**named, **self._conversation}
                )
            case events.RequestBuilt(model=label):
                self._end_chat()
                self._begin_chat(label)
            case events.TextDelta() | events.ReasoningDelta() if self._waits:
                self._waits = False
                self._measure("operation.time_to_first_chunk", time.monotonic() - self._sent_at)
            case events.Retrying(attempt=attempt, reason=reason):
                self._chat.add_event("sightline.retry", {"attempt": attempt, "reason": reason})
            case events.CallStarted(name=name, call_id=call_id):
                named = {"gen_ai.operation.name": "execute_tool", **self._conversation}
                self._calls[call_id] = self._begin(f"execute_tool {name}", named)
            case events.ApprovalAsked(call_id=call_id) | events.ApprovalAnswered(call_id=call_id):
                if call_id in self._calls:
                    self._calls[call_id].add_event(f"sightline.{event.__struct_config__.tag}")
            case _:
                pass
        self._fill(event)
        match event:
            case events.UsageReported():
                for kind in ("input", "output"):
                    used = getattr(event, f"{kind}_tokens")
                    self._measure("token.usage", used, {"gen_ai.token.type": kind})
            case events.ReplyEnded():
                self._end_chat(event.detail if event.reason == "error" else None)
            case events.CallFinished():
                call = self._calls.pop(event.call_id, None)
                if call is not None:
                    if not event.ok:
                        telemetry.fail(call, "call_failed")
                    call.end()
            case events.TurnEnded():
                self._end(event)
            case _:
                pass

    def chatting(self) -> AbstractContextManager[None]:
        """Have the request's span be current inside."""
        return telemetry.current(self._chat)

    def calling(self, call_id: str) -> AbstractContextManager[None]:
        """Have a call's span be current inside."""
        return telemetry.current(self._calls.get(call_id))

    def _begin(self, name: str, attributes: Attributes, **options: Any) -> Any:
        with telemetry.current(self._turn_span):
            return telemetry.started(name, attributes, **options)

    def _begin_chat(self, label: str) -> None:
        endpoint, _, model = label.partition(":")
        self._request = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": _PROVIDERS.get(endpoint, endpoint),
            "gen_ai.request.model": model or endpoint,
        }
        named = {**self._request, **self._conversation}
        self._chat = self._begin(f"chat {model or endpoint}", named, kind="client")
        self._sent_at, self._waits = time.monotonic(), True

    def _end_chat(self, failure: str | None = None, code: str = "model_failed") -> None:
        if self._chat is None:
            return
        if failure is not None:
            telemetry.fail(self._chat, code, failure if self._with_content else "")
        self._measure("operation.duration", time.monotonic() - self._sent_at)
        self._chat.end()
        self._chat, self._waits = None, False

    def _end(self, event: events.TurnEnded) -> None:
        failed = event.outcome == "failed"
        self._end_chat(event.detail if failed else None, event.code or "model_failed")
        for call in self._calls.values():
            telemetry.fail(call, event.outcome)
            call.end()
        self._calls = {}
        if self._turn_span is not None:
            if failed:
                telemetry.fail(self._turn_span, event.code)
            self._turn_span.end()
            self._turn_span = None

    def _fill(self, event: HostEvent) -> None:
        """Set the attributes that an event has for its span."""
        about = self._about(event)
        if about is None:
            return
        fields = dict(MAPPING.get(type(event), {}))
        if self._with_content:
            fields |= _CONTENT.get(type(event), {})
        for name, field in fields.items():
            value = getattr(event, field)
            if field == "reason":
                value = (value,)
            elif isinstance(value, dict):
                value = msgspec.json.encode(value).decode()
            if value is not None and value != "" and value is not False:
                about.set_attribute(name, shown_text(value) if isinstance(value, str) else value)

    def _about(self, event: HostEvent) -> Any:
        match event:
            case events.CallStarted(call_id=call_id) | events.CallFinished(call_id=call_id):
                return self._calls.get(call_id)
            case events.TurnStarted() | events.TurnEnded():
                return self._turn_span
            case events.RequestBuilt() | events.UsageReported() | events.ReplyEnded():
                return self._chat
            case _:
                return None

    def _measure(self, name: str, value: float, more: Attributes | None = None) -> None:
        telemetry.measure(f"gen_ai.client.{name}", value, {**self._request, **(more or {})})
