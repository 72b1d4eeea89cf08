"""What comes out of a vendor's stream, the same from all of them, and what it cost.

    (TextArrived | ReasoningArrived)*  ToolCalled*  UsageArrived?  Stopped

`Stopped` is always there and always last. Its message is what belongs into the ledger.
Tool calls are told only once the reply is whole: a stream that broke off has none, in
its events as in its message, so that nothing is ever run or stored that the model
did not finish saying.

Usage is in one unit:

    input_tokens  = all of the prompt: fresh + cache_read + cache_write
    output_tokens = all that was generated, reasoning included

Vendors disagree on what their totals contain: Anthropic and Bedrock leave cached
tokens out of the input, the others count them in; Gemini leaves thoughts out of the
output. Each vendor's `_read_usage` settles that, `cost` applies a profile's prices.

The package genai-prices reads the same fields, and a test compares us with it. It is
not used here because it brings an HTTP client to a room without input or output, and
because prices must come from the profile, where they can be overridden.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

import msgspec

from sightline._amounts import share
from sightline.context.dialects.profile import Prices
from sightline.context.messages.parts import Message, ToolCall

MILLION: Final = 1_000_000
# Far more than any window has. What is beyond it is no count, and no sum of such overflows.
MAX_TOKENS: Final = 1_000 * MILLION


class Usage(msgspec.Struct, frozen=True):
    """Tokens as the vendor reported them. `cache_write_long_tokens` are part of the writes.

    `unusable` names what was reported and is no count of tokens, such as a negative number.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cache_write_long_tokens: int = 0
    reasoning_tokens: int = 0
    unusable: tuple[str, ...] = ()

    @property
    def fresh_tokens(self) -> int:
        """Input that was neither read from a cache nor written to one."""
        return max(0, self.input_tokens - self.cache_read_tokens - self.cache_write_tokens)

    @property
    def evaluated_tokens(self) -> int:
        """Input that the model had to read anew. Ollama reports nothing else."""
        return max(0, self.input_tokens - self.cache_read_tokens)

    @property
    def cached_share(self) -> float:
        """How much of the input came from the cache."""
        return share(self.cache_read_tokens, self.input_tokens)


class CacheMiss(msgspec.Struct, frozen=True):
    """Why the vendor could not reuse a prefix, in its own word, and how much was lost."""

    reason: str
    missed_tokens: int = 0


def cost(usage: Usage, prices: Prices) -> float | None:
    """Return dollars; None where the model has no price, or a count is not known.

    A missing cache price is the input's.
    """
    if prices.input is None or prices.output is None or usage.unusable:
        return None
    read = prices.input if prices.cache_read is None else prices.cache_read
    write = prices.input if prices.cache_write is None else prices.cache_write
    write_long = write if prices.cache_write_long is None else prices.cache_write_long
    short = max(0, usage.cache_write_tokens - usage.cache_write_long_tokens)
    input_cost = (
        usage.fresh_tokens * prices.input
        + usage.cache_read_tokens * read
        + short * write
        + usage.cache_write_long_tokens * write_long
    )
    output_cost = usage.output_tokens * prices.output
    if prices.long_tokens and usage.input_tokens > prices.long_tokens:
        output_factor = prices.long_output_factor
        input_cost *= prices.long_factor
        output_cost *= prices.long_factor if output_factor is None else output_factor
    return (input_cost + output_cost) / MILLION


def at(value: Any, *path: str) -> Any:
    """Look into nested objects; None where there is nothing."""
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


class UsageFields:
    """A usage object, and the names of what in it is no count of tokens."""

    def __init__(self, reported: Any) -> None:
        self.reported = reported
        self.unusable: list[str] = []
        if not isinstance(reported, Mapping):
            self.unusable.append("usage")

    def count(self, *path: str) -> int:
        """Read a count; 0 where there is none."""
        found = at(self.reported, *path)
        if found is None or _is_count(found):
            return int(found or 0)
        self.unusable.append(path[-1])
        return 0


def _is_count(value: Any) -> bool:
    """Whether a value counts tokens. JSON does not tell 7 from 7.0, so neither do we."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and 0 <= value <= MAX_TOKENS and value == int(value)


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
    `repeated` are the ids of calls that came with the id of an earlier call of the reply.
    """

    reason: StopReason
    message: Message
    detail: str = ""
    response_id: str = ""
    code: str = ""
    repeated: tuple[str, ...] = ()

    @property
    def incomplete(self) -> bool:
        """Whether the reply must be stored as incomplete."""
        return self.reason in ("incomplete", "error")


Event: TypeAlias = TextArrived | ReasoningArrived | ToolCalled | UsageArrived | Stopped
