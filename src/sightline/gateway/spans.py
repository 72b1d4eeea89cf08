"""A request that passed, as a span: part of the trace of its agent, where that has one."""

from __future__ import annotations

from typing import Final

import sightline.telemetry as telemetry
from sightline.agent.host.spans import MAPPING
from sightline.events import UsageReported
from sightline.gateway.observer import Passed, Passing

NANO: Final = 1_000_000_000
# GenAI conventions, gen_ai.provider.name: whose API it is.
_PROVIDERS: Final = {
    "anthropic": "anthropic",
    "openai-responses": "openai",
    "openai-chat": "openai",
    "gemini": "gcp.gemini",
}


def trace_passed(passed: Passed, passing: Passing) -> None:
    """Tell of a request with its usage and what was lost; nothing where nobody traces."""
    if not telemetry.is_on():
        return
    request = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": _PROVIDERS[passed.api],
        "gen_ai.request.model": passed.model,
    }
    attributes: dict[str, str | int | float | tuple[str, ...]] = dict(request)
    if passed.session:
        attributes["gen_ai.conversation.id"] = passed.session
    if passed.stop:
        attributes["gen_ai.response.finish_reasons"] = (passed.stop,)
    if passed.cost_usd is not None:
        attributes["sightline.cost_usd"] = passed.cost_usd
    if passed.usage is not None:
        for name, field in MAPPING[UsageReported].items():
            if name.startswith("gen_ai.usage."):
                attributes[name] = getattr(passed.usage, field)
        for kind in ("input", "output"):
            used = getattr(passed.usage, f"{kind}_tokens")
            counted = {**request, "gen_ai.token.type": kind}
            telemetry.measure("gen_ai.client.token.usage", used, counted)
    if passed.loss is not None:
        attributes["sightline.drift.cause"] = passed.loss.cause
        attributes["sightline.drift.lost_tokens"] = passed.loss.tokens
        attributes["sightline.drift.span"] = passed.loss.path
    began = round(passing.at * NANO)
    parent = passing.headers.get("traceparent", "")
    span = telemetry.started(
        f"chat {passed.model}", attributes, kind="client", parent=parent, at_ns=began
    )
    if passed.status >= 400:
        telemetry.fail(span, str(passed.status))
    lasted_s = max(0.0, passing.ended - passing.sent)
    telemetry.measure("gen_ai.client.operation.duration", lasted_s, request)
    span.end(began + round(lasted_s * NANO))
