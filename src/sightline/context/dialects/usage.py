"""What a request used, in one unit, and what it cost.

    input_tokens  = all of the prompt: fresh + cache_read + cache_write
    output_tokens = all that was generated, reasoning included

Vendors disagree on what their totals contain: Anthropic and Bedrock leave cached
tokens out of the input, the others count them in; Gemini leaves thoughts out of the
output. `usage_from` settles that, `cost` applies a profile's prices.

The package genai-prices reads the same fields, and a test compares us with it. It is
not used here because it brings an HTTP client to a room without input or output, and
because prices must come from the profile, where they can be overridden.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from sightline.context.dialects.profile import Prices

__all__ = ["MAX_TOKENS", "CacheMiss", "Usage", "cache_miss_from", "cost", "usage_from"]

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
        return min(1.0, self.cache_read_tokens / self.input_tokens) if self.input_tokens else 0.0


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
    asked = (
        usage.fresh_tokens * prices.input
        + usage.cache_read_tokens * read
        + short * write
        + usage.cache_write_long_tokens * write_long
    )
    answered = usage.output_tokens * prices.output
    if prices.long_tokens and usage.input_tokens > prices.long_tokens:
        output_factor = prices.long_output_factor
        asked *= prices.long_factor
        answered *= prices.long_factor if output_factor is None else output_factor
    return (asked + answered) / MILLION


def usage_from(dialect: str, reported: Any) -> Usage:
    """Read the usage object of a dialect's response. What is not reported is 0.

    What makes no sense is 0 as well, and named in `Usage.unusable`.
    """
    told = _Report(reported)
    usage = READERS[dialect](told)
    return msgspec.structs.replace(usage, unusable=tuple(told.unusable))


def cache_miss_from(dialect: str, response: Mapping[str, Any]) -> CacheMiss | None:
    """Read why the cache was missed from a response; None if it was not, or nobody asked."""
    if dialect == "anthropic":
        reason = _at(response, "diagnostics", "cache_miss_reason")
        if isinstance(reason, Mapping):
            return CacheMiss(
                str(reason.get("type")), _Report(reason).count("cache_missed_input_tokens")
            )
    if dialect == "openai_responses":
        told = response.get("prompt_cache_diagnostics")
        if isinstance(told, Mapping) and told.get("type") != "cache_hit":
            reason = told.get("reason") or told.get("type")
            return CacheMiss(str(reason), _Report(told).count("cache_missed_tokens"))
    return None


def _at(value: Any, *path: str) -> Any:
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


class _Report:
    """A usage object, and the names of what in it is no count of tokens."""

    def __init__(self, reported: Any) -> None:
        self.reported = reported
        self.unusable: list[str] = []
        if not isinstance(reported, Mapping):
            self.unusable.append("usage")

    def count(self, *path: str) -> int:
        """Read a count; 0 where there is none."""
        found = _at(self.reported, *path)
        if found is None or _is_count(found):
            return int(found or 0)
        self.unusable.append(path[-1])
        return 0


def _is_count(value: Any) -> bool:
    """Whether a value counts tokens. JSON does not tell 7 from 7.0, so neither do we."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and 0 <= value <= MAX_TOKENS and value == int(value)


def _openai_chat(told: _Report) -> Usage:
    read = told.count("prompt_tokens_details", "cached_tokens")
    return Usage(
        input_tokens=told.count("prompt_tokens"),
        output_tokens=told.count("completion_tokens"),
        # DeepSeek's own name for it, from before it took OpenAI's.
        cache_read_tokens=read or told.count("prompt_cache_hit_tokens"),
        cache_write_tokens=told.count("prompt_tokens_details", "cache_write_tokens"),
        reasoning_tokens=told.count("completion_tokens_details", "reasoning_tokens"),
    )


def _openai_responses(told: _Report) -> Usage:
    details = "input_tokens_details"
    return Usage(
        input_tokens=told.count("input_tokens"),
        output_tokens=told.count("output_tokens"),
        cache_read_tokens=told.count(details, "cached_tokens"),
        cache_write_tokens=told.count(details, "cache_write_tokens"),
        cache_write_long_tokens=told.count(details, "cache_write_tokens_details", "ttl_12h_tokens"),
        reasoning_tokens=told.count("output_tokens_details", "reasoning_tokens"),
    )


def _anthropic(told: _Report) -> Usage:
    read = told.count("cache_read_input_tokens")
    write = told.count("cache_creation_input_tokens")
    return Usage(
        input_tokens=told.count("input_tokens") + read + write,
        output_tokens=told.count("output_tokens"),
        cache_read_tokens=read,
        cache_write_tokens=write,
        cache_write_long_tokens=told.count("cache_creation", "ephemeral_1h_input_tokens"),
        reasoning_tokens=told.count("output_tokens_details", "thinking_tokens"),
    )


def _gemini(told: _Report) -> Usage:
    thoughts = told.count("thoughtsTokenCount")
    return Usage(
        input_tokens=told.count("promptTokenCount") + told.count("toolUsePromptTokenCount"),
        output_tokens=told.count("candidatesTokenCount") + thoughts,
        cache_read_tokens=told.count("cachedContentTokenCount"),
        reasoning_tokens=thoughts,
    )


def _bedrock(told: _Report) -> Usage:
    read, write = told.count("cacheReadInputTokens"), told.count("cacheWriteInputTokens")
    details = _at(told.reported, "cacheDetails")
    long = [d for d in details if _at(d, "ttl") == "1h"] if isinstance(details, list) else []
    return Usage(
        input_tokens=told.count("inputTokens") + read + write,
        output_tokens=told.count("outputTokens"),
        cache_read_tokens=read,
        cache_write_tokens=write,
        cache_write_long_tokens=sum(_Report(detail).count("inputTokens") for detail in long),
    )


def _ollama(told: _Report) -> Usage:
    # It reports what it evaluated; what it reused is not told.
    return Usage(
        input_tokens=told.count("prompt_eval_count"), output_tokens=told.count("eval_count")
    )


READERS: Final[dict[str, Callable[[_Report], Usage]]] = {
    "openai_chat": _openai_chat,
    "openai_responses": _openai_responses,
    "anthropic": _anthropic,
    "gemini": _gemini,
    "bedrock": _bedrock,
    "ollama": _ollama,
}
