"""What comes out of a vendor's stream, the same from all of them.

    (TextDelta | ReasoningDelta)*  ToolCalled*  UsageReported?  Stopped

`Stopped` is always there and always last. Its message is what belongs into the ledger.
Tool calls are told only once the reply is whole: a stream that broke off has none, in
its events as in its message, so that nothing is ever run or stored that the model
did not finish saying.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from sightline.context.dialects.usage import CacheMiss, Usage
from sightline.context.messages.parts import Message, ToolCall

StopReason: TypeAlias = Literal["end", "tool_calls", "length", "refused", "incomplete", "error"]


class TextArrived(msgspec.Struct, frozen=True, tag="text"):
    """The next piece of the answer's text."""

    text: str


class ReasoningArrived(msgspec.Struct, frozen=True, tag="reasoning"):
    """The next piece of the model's reasoning, where the vendor shows it."""

    text: str


class ToolCalled(msgspec.Struct, frozen=True, tag="tool_call"):
    """A complete tool call, under our name for the tool."""

    call: ToolCall


class UsageArrived(msgspec.Struct, frozen=True, tag="usage"):
    """What the request used, and why the cache was missed if the vendor was asked.

    `reported` is the vendor's own account of it, with whatever we have no name for.
    """

    usage: Usage
    cache_miss: CacheMiss | None = None
    reported: dict[str, Any] | None = None


class Stopped(msgspec.Struct, frozen=True, tag="stopped"):
    """The end, and the whole reply. `response_id` is the vendor's, for diagnostics.

    end, tool_calls    the model is done, or waits for its tools
    length             it ran into a limit; what it said is whole as far as it goes
    refused            the vendor's filter or the model itself declined
    incomplete         the stream broke off, or a call could not be read
    error              the vendor said that it failed; `detail` is what it said

    `code` is the error's where we ended an incomplete reply ourselves: see `models.connected`.
    """

    reason: StopReason
    message: Message
    detail: str = ""
    response_id: str = ""
    code: str = ""

    @property
    def incomplete(self) -> bool:
        """Whether the reply must be stored as incomplete."""
        return self.reason in ("incomplete", "error")


Event: TypeAlias = TextArrived | ReasoningArrived | ToolCalled | UsageArrived | Stopped
