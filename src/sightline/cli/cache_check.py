"""`sightline doctor --cache MODEL`: whether a vendor or a runtime really reuses a prefix.

Two requests that differ in their tail alone, laid out as every request is: prefix, cache mark,
tail. The first lines of the prefix are new each time, so that nothing earlier can be reused.
What the second one's usage says is the answer; a runtime that reports what it evaluated, and
nothing else, is judged by how much less that was.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import aclosing
from secrets import token_hex
from typing import Any, Final, NamedTuple

import click

from sightline.agent.models.base import Model, address_of
from sightline.agent.models.choose import open_model
from sightline.cli.doctor import Finding
from sightline.cli.out import confirm, tell
from sightline.config import load
from sightline.context.dialects import Options, encode
from sightline.context.dialects.events import Stopped, Usage, UsageArrived, cost
from sightline.context.dialects.profile import Profile
from sightline.context.messages.parts import Message
from sightline.context.slots.prompt import Prompt, Receipt, digest_of
from sightline.context.tokens.estimate import estimate
from sightline.errors import ApprovalNeeded, ModelFailed

_LEAST_TOKENS: Final = 256
_MAX_OUTPUT_TOKENS: Final = 256  # of one word, and of whatever a model thinks before it
_QUESTION: Final = "Answer with the one word yes."
# What vendors call the tokens that they reused.
_REUSED: Final = frozenset({
    "cached_tokens", "prompt_cache_hit_tokens", "cache_read_input_tokens",
    "cachedContentTokenCount", "cacheReadInputTokens",
})  # fmt: skip
# Google leaves a count of zero out of its replies, as protocol buffers do.
_LEAVES_ZERO_OUT: Final = frozenset({"gemini"})
# Ollama reports what it evaluated, and not what it reused.
_TELLS_EVALUATED: Final = frozenset({"ollama"})


class _Reuse(NamedTuple):
    """How many tokens of how many the second request did not have to be read for."""

    tokens: int
    of: int


def check_cache(reference: str, *, yes: bool) -> list[Finding]:
    """Send two requests to a model, if a person agrees, and say what became of their prefix.

    Raises `ApprovalNeeded` where nobody can be asked, and what opening or asking a model raises.
    """
    loaded = load(None, os.environ, {"model": reference})
    tell(*loaded.refused)
    model = open_model(reference, loaded.settings, os.environ)
    prefix = _prefix(model.profile, token_hex(8))
    if not yes:
        _agree(model, estimate(prefix))
    first, second = asyncio.run(_ask_twice(model, prefix))
    return [_reuse_finding(model, first, second), _cost_finding(model.profile, first, second)]


def _prefix(profile: Profile, nonce: str) -> str:
    """Write a text that is just long enough for the cache of this model, and like no other."""
    target = max(_LEAST_TOKENS, profile.cache.min_tokens * 5 // 4)
    lines = [f"This is a check of the prompt cache, number {nonce}. The lines below mean nothing."]
    tokens = estimate(lines[0])
    while tokens < target:
        lines.append(f"Line {len(lines)}: the quick brown fox jumps over the lazy dog.")
        tokens += estimate(lines[-1])
    return "\n".join(lines)


def _agree(model: Model, tokens: int) -> None:
    price = cost(Usage(2 * tokens, 2 * _MAX_OUTPUT_TOKENS), model.profile.prices)
    priced = "at no known price" if price is None else f"for about ${price:.4f} at most"
    where = f" at {address}" if (address := address_of(model)) else ""
    question = f"Send two requests of {tokens:,} tokens to {model.label}{where}, {priced}?"
    if not sys.stdin.isatty():
        raise ApprovalNeeded(f"{question[:-1]}: nobody can be asked here; --yes agrees")
    if not confirm(question):
        raise click.Abort


async def _ask_twice(model: Model, prefix: str) -> list[UsageArrived | None]:
    try:
        return [await _ask(model, prefix, f"This is request {n}.") for n in ("one", "two")]
    finally:
        await model.close()


async def _ask(model: Model, prefix: str, tail: str) -> UsageArrived | None:
    stable = [Message.of("system", prefix), Message.of("user", _QUESTION)]
    receipt = Receipt(0, "", "estimated", 0, 0, 0, 0, len(stable), digest_of((), stable), ())
    prompt = Prompt((*stable, Message.of("user", tail)), len(stable), receipt, ())
    options = Options(conversation=digest_of((), stable)[:32], max_output_tokens=_MAX_OUTPUT_TOKENS)
    used = None
    async with aclosing(model.stream(encode(prompt, model.profile, options))) as events:
        async for event in events:
            if isinstance(event, UsageArrived):
                used = event
            elif isinstance(event, Stopped) and event.reason in ("incomplete", "error"):
                raise ModelFailed(f"{model.label}: {event.detail or 'the reply broke off'}")
    return used


def _reuse_finding(
    model: Model, first: UsageArrived | None, second: UsageArrived | None
) -> Finding:
    found = _reuse(model.profile.dialect, first, second)
    if found is None:
        return Finding("cache", "warn", f"not told: {model.label} reports nothing of reuse")
    share = f"{found.tokens:,} of {found.of:,} tokens"
    if 2 * found.tokens >= found.of:
        return Finding("cache", "ok", f"{model.label} reused {share} of the second request")
    return Finding(
        "cache",
        "warn",
        f"{model.label} reused {share} of the second request, whose prefix was the first one's",
        "ask again: a cache may take a while; of a runtime of your own see its slots and memory",
    )


def _reuse(dialect: str, first: UsageArrived | None, second: UsageArrived | None) -> _Reuse | None:
    """Tell how much the second request reused; None where that was not told."""
    if first is None or second is None or first.usage.unusable or second.usage.unusable:
        return None
    if dialect in _TELLS_EVALUATED:
        read = first.usage.evaluated_tokens
        return _Reuse(max(0, read - second.usage.evaluated_tokens), read) if read else None
    if dialect not in _LEAVES_ZERO_OUT and not _REUSED.intersection(_names(second.reported)):
        return None
    return _Reuse(second.usage.cache_read_tokens, second.usage.input_tokens)


def _names(reported: Any) -> Iterator[str]:
    """Name every field of a vendor's account that says something, at any depth."""
    if isinstance(reported, Mapping):
        for name, value in reported.items():
            if value is not None:
                yield name
                yield from _names(value)


def _cost_finding(
    profile: Profile, first: UsageArrived | None, second: UsageArrived | None
) -> Finding:
    usages = [event.usage for event in (first, second) if event]
    prices = [cost(usage, profile.prices) for usage in usages]
    known = [price for price in prices if price is not None]
    if len(known) < 2:
        return Finding("cost", "ok", "not told: no usage" if not usages else "no price is known")
    tokens = sum(usage.input_tokens for usage in usages)
    return Finding("cost", "ok", f"${sum(known):.4f} for {tokens:,} tokens in two requests")
