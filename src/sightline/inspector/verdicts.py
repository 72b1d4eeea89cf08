"""What became of a turn and its requests, in words, from what was recorded.

    outcome     what became of the turn, and why
    cache       what of the request was reused and, if it is less than it could be, why
    cost        of the request, its turn and its session
    changed     what is different since the request before it

Of the cache:

    expected    what the last answered request left in the cache, as far as this one begins alike
    reported    what the vendor says that it reused
    the cause   by `missed`, the one function for it

A request that failed left nothing in a cache: the one before it counts, and what both share.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, TypeVar

import msgspec

from sightline._amounts import dollars, percent
from sightline.agent.host.journal import Recorded, RequestLine
from sightline.context.dialects.drift import (
    CAUSES,
    Drift,
    Loss,
    cause_of,
    extra_price,
    lifetime_s,
    missed,
)
from sightline.context.dialects.profile import Profile
from sightline.context.dialects.request import slot_names
from sightline.context.ledger import StoredUsage, Totals
from sightline.context.slots.prompt import Prompt
from sightline.inspector.timeline import ms_between
from sightline.slop.protocol.world import World

T = TypeVar("T")
# Vendors cache in blocks of up to 128 tokens; two of them are no loss.
SLACK_TOKENS: Final = 256
# Anthropic, "Prompt caching": five minutes unless a mark asks for an hour.
MARKED_LIFETIME: Final = "5m"
NANO: Final = 1_000_000_000


class _KeptSlot(msgspec.Struct, frozen=True):
    stability: str = ""
    kept: int = 0


class _AboutRequest(msgspec.Struct, frozen=True):
    drift: Drift | None = None
    marks: int = 0


class KeptReceipt(msgspec.Struct, frozen=True):
    """What a verdict reads of a receipt; decoding skips the rest of it."""

    total: int = 0
    slots: tuple[_KeptSlot, ...] = ()
    request: _AboutRequest = _AboutRequest()

    @property
    def prefix_tokens(self) -> int:
        """What stands before the boundary."""
        return self.total - sum(slot.kept for slot in self.slots if slot.stability == "volatile")


class SentFacts(msgspec.Struct, frozen=True):
    """A request as its cache verdict needs it. `is_taken_back` is one whose turn was undone."""

    line: RequestLine
    usage: StoredUsage | None = None
    receipt: KeptReceipt | None = None
    is_taken_back: bool = False

    @property
    def is_answered(self) -> bool:
        """Whether the vendor read it: only then is anything of it in a cache."""
        return self.usage is not None and self.usage.prompt_tokens > 0


class TurnVerdict(msgspec.Struct, frozen=True):
    """What is to be said of one side of a turn: in a few words, and lines that explain it.

    `tone` is good, bad, odd (worth a look) or empty.
    """

    title: str
    lines: tuple[str, ...] = ()
    tone: str = ""


class CacheVerdict(TurnVerdict, frozen=True):
    """What of a request was reused.

    `reported` and `expected` are tokens, None where nobody knows; `loss` is what was missed.
    """

    reported: int | None = None
    expected: int | None = None
    loss: Loss | None = None


def reason_of(
    group: str,
    status: str,
    judged: Sequence[tuple[SentFacts, CacheVerdict]],
    usages: Sequence[StoredUsage],
) -> str:
    """Say in a line what is to know of a turn: why it failed, or why it cost more than it could.

    `group` is what became of it in the ledger, `status` how it ended.
    """
    if group != "live":
        return _OF_GROUPS[group]
    failures = [usage for usage in usages if usage.error]
    ended = judged[-1][0].line.ended if judged else None
    code = ended.code if ended is not None else ""
    if status in _UNHAPPY:
        last = failures[-1] if failures else None
        code = code or (last.outcome or "" if last else "")
        tries = f" ({len(failures)} times)" if len(failures) > 1 else ""
        return ": ".join(filter(None, [f"{code}{tries}", last.error or "" if last else ""]))
    if failures:
        return f"after {failures[-1].outcome}: {failures[-1].error}"
    losses = [verdict.loss for _, verdict in judged if verdict.loss is not None]
    return max(losses, key=lambda loss: loss.tokens).words if losses else ""


_UNHAPPY: Final = frozenset({"failed", "limit", "cancelled", "interrupted"})
_OF_GROUPS: Final = {
    "dropped": "you took it out of the conversation",
    "undone": "taken back: /redo brings it back until the next turn",
    "removed": "taken back, or removed for good",
}


def used_by(
    lines: Sequence[RequestLine], usages: Sequence[StoredUsage]
) -> list[StoredUsage | None]:
    """Find for each of a turn's last requests what the ledger has of it.

    A reply without a report has left nothing; where some are missing, model and outcome tell.
    """
    left = list(usages)
    is_whole = len(left) >= sum(bool(line.outcome) for line in lines)
    found: list[StoredUsage | None] = []
    for line in reversed(lines):
        fits = (u.model == line.model and u.outcome in (None, line.outcome) for u in left[::-1])
        skipped = 0 if is_whole else next((i for i, fit in enumerate(fits) if fit), None)
        if not line.outcome or not left or skipped is None:
            found.append(None)
            continue
        del left[len(left) - skipped :]
        found.append(left.pop())
    return found[::-1]


def cache_verdict(
    now: SentFacts, earlier: Sequence[SentFacts], profile: Profile, ttl: str = ""
) -> CacheVerdict:
    """Say what of a request was reused and, if it is less than it could be, why.

    `earlier` are the requests before it, the nearest first; `ttl` the lifetime that it asked for.
    """
    usage = now.usage
    if usage is None or not usage.prompt_tokens:
        return CacheVerdict("Not known", ("the vendor reported no usage for this request",))
    reported = usage.cached_tokens
    title = f"{percent(reported, usage.prompt_tokens)} from cache"
    steps = [now, *earlier]
    base_at = next((i for i, one in enumerate(steps) if i and one.is_answered), None)
    if base_at is None:
        first = "nothing was answered before: there is nothing to reuse yet"
        return CacheVerdict(title if reported else "First request", (first,), reported=reported)
    loss, expected, cause = _loss(now, steps[base_at], steps[: base_at + 1], profile, ttl)
    verdict = reuse_verdict(usage.prompt_tokens, reported, expected, loss)
    lines = [*verdict.lines]
    if cause and loss is None:
        lines.append(f"{CAUSES[cause][0]}; nothing was lost by it")
    if usage.cache_miss and (loss is None or usage.cache_miss not in loss.detail):
        lines.append(f"the vendor says: {usage.cache_miss}")
    return msgspec.structs.replace(verdict, lines=tuple(lines))


def reuse_verdict(
    prompt: int, reported: int, expected: int | None, loss: Loss | None
) -> CacheVerdict:
    """Say how much of a prompt was reused, against what was expected; a loss is what is between.

    `expected` is what is known of it where nothing was lost.
    """
    title = f"{percent(reported, prompt)} from cache"
    if loss is not None:
        expected = reported + loss.tokens
    lines = [f"{reported:,} of {prompt:,} prompt tokens reused"]
    if expected is None:
        lines.append("how much could have been reused is not known")
    else:
        lines[0] += f", {expected:,} expected"
    if loss is not None:
        title = f"{title}: {loss.words.partition(' (')[0]}"
        cost = "" if loss.cost is None else f", {dollars(loss.cost)} more"
        detail = f" ({loss.detail})" if loss.detail else ""
        where = f" at {loss.path}" if loss.path else ""
        lines += [f"{loss.tokens:,} tokens read again{cost}{where}{detail}", loss.advice]
    tone = "good" if loss is None else "odd"
    return CacheVerdict(title, tuple(lines), tone, reported, expected, loss)


def _loss(
    now: SentFacts, base: SentFacts, steps: Sequence[SentFacts], profile: Profile, ttl: str
) -> tuple[Loss | None, int | None, str]:
    """What was missed, what was expected, and what changed; `steps` lead from now to the base."""
    usage, was = now.usage, base.usage
    if usage is None or was is None or profile.cache.style == "none":
        return None, None, ""
    is_marked_only = profile.cache.style == "cache_control"
    kept = was.prompt_tokens
    if is_marked_only and was.cache_write_tokens is not None:
        kept = was.cached_tokens + was.cache_write_tokens
    cause, detail = cause_of(None, base.line.model, now.line.model)
    shared, whole = 0, base.receipt.total if base.receipt else 0
    if not cause:
        held = [_held(one, other) for one, other in pairwise(steps)]
        known = [tokens for tokens in held if tokens is not None]
        if len(known) < len(held) or not whole:
            return None, None, ""
        shared = min(known)
        cause, detail = _first_cause(steps)
    loss = missed(
        was.prompt_tokens,
        usage.cached_tokens,
        shared=shared,
        whole=whole,
        kept=kept,
        # What was taken back is not in this prompt: nothing of it can be read again.
        cause="" if cause == "undone" else cause,
        detail=detail,
        reason=usage.cache_miss or "",
        idle_s=ms_between(base.line.sent_at, now.line.sent_at) / 1000,
        lifetime_s=lifetime_s(
            ttl or profile.cache.ttl or (MARKED_LIFETIME if is_marked_only else "")
        ),
        least_tokens=profile.cache.min_tokens,
        slack_tokens=SLACK_TOKENS,
        is_unmarked=is_marked_only and not (now.receipt and now.receipt.request.marks),
        extra_price=extra_price(profile.prices, usage.cache_write_tokens),
        most=_reusable(now) - usage.cached_tokens,
    )
    if loss is not None and loss.tokens < SLACK_TOKENS:
        loss = None
    return loss, int(kept * min(shared, whole) / whole) if whole else 0, cause


def _reusable(now: SentFacts) -> int:
    """How much of a prompt a cache can hold: all but its tail, which is new each time."""
    prompt = now.usage.prompt_tokens if now.usage else 0
    if now.receipt is None or not now.receipt.total:
        return prompt
    return prompt * now.receipt.prefix_tokens // now.receipt.total


def _held(now: SentFacts, before: SentFacts) -> int | None:
    """How much of the earlier request's prefix the later one begins with."""
    if now.receipt is None or before.receipt is None or now.receipt.request.drift is None:
        return None
    change = now.receipt.request.drift
    prefix = before.receipt.prefix_tokens - change.lost_tokens
    return max(0, min(change.common_tokens, prefix))


def _first_cause(steps: Sequence[SentFacts]) -> tuple[str, str]:
    """The first thing that changed on the way from the base, which comes last, to now."""
    for now, before in reversed(list(pairwise(steps))):
        change = now.receipt.request.drift if now.receipt else None
        taken_back = before.is_taken_back and before.line.group_id != now.line.group_id
        found = cause_of(change, before.line.model, now.line.model, is_taken_back=taken_back)
        if found[0]:
            return found
    return "", ""


def outcome_verdict(
    row: Mapping[str, Any], usages: Sequence[StoredUsage], answer: str
) -> TurnVerdict:
    """Say what became of a turn: each error in the vendor's words, and the answer's beginning."""
    status = row["status"]
    broke_off = status == "failed" and bool(answer)
    title = "Broke off" if broke_off else _TITLES.get(status, status)
    after = "after " if status == "answered" else ""
    lines = [f"{after}{usage.outcome}: {usage.error}" for usage in usages if usage.error]
    if not lines and (status in _UNHAPPY or status in _OF_GROUPS):
        lines = [row["reason"]]
    tone = "good" if status == "answered" else "bad" if status == "failed" else "odd"
    return TurnVerdict(title, tuple(filter(None, lines)), tone)


_TITLES: Final = {
    "answered": "Answered",
    "running": "Under way",
    "interrupted": "Interrupted: its program ended",
    "cancelled": "Cancelled",
    "failed": "Failed",
    "limit": "Ended by a limit",
    "unanswered": "Not answered",
    "dropped": "Dropped",
    "undone": "Taken back",
    "removed": "Taken back or removed",
}


def cost_verdict(
    usage: StoredUsage | None, turn: Sequence[StoredUsage], session: Totals
) -> TurnVerdict:
    """Say what a request, its turn and its session cost."""
    known = [one.cost_nanousd for one in turn if one.cost_nanousd is not None]
    title = dollars(sum(known) / NANO, len(turn) - len(known)) if known else "Price unknown"
    lines = []
    if usage is not None and usage.prompt_tokens:
        fresh = max(0, usage.prompt_tokens - usage.cached_tokens)
        price = "" if usage.cost_nanousd is None else f", {dollars(usage.cost_nanousd / NANO)}"
        lines.append(
            f"this request: {usage.prompt_tokens:,} prompt tokens, {fresh:,} of them fresh; "
            f"{usage.completion_tokens:,} answered{price}"
        )
    lines.append(f"the turn: {len(turn)} {'request' if len(turn) == 1 else 'requests'}")
    lines.append(f"the session: {dollars(session.cost_usd, session.unpriced)}")
    return TurnVerdict(title, tuple(lines))


def changed_verdict(name: str, before: Recorded, now: Recorded) -> TurnVerdict:
    """Say what is different since the request before: messages, tail, apps, tools, model."""
    old, new = before.prompt, now.prompt
    was, is_now = (
        Counter(msgspec.json.encode(message) for message in prompt.messages[: prompt.boundary])
        for prompt in (old, new)
    )
    title = counted_changes(was, is_now)
    lines = [*_different_apps(before.world, now.world), *_different_tail(old, new)]
    tools = [{str(tool.get("name")) for tool in prompt.tools} for prompt in (old, new)]
    if old.tools != new.tools:
        lines.append(tool_changes(*tools))
    if before.line.model != now.line.model:
        lines.append(f"model: {before.line.model} → {now.line.model}")
    if not title:
        title = "The same messages" if lines else "Nothing but the time"
    return TurnVerdict(title, (f"since request {name}", *lines))


def counted_changes(was: Counter[T], now: Counter[T]) -> str:
    """Say how many messages came and went; nothing if none did."""
    come, gone = (now - was).total(), (was - now).total()
    counts = [f"{sign} {n}" for sign, n in (("−", gone), ("+", come)) if n]  # noqa: RUF001
    return f"{', '.join(counts)} {'message' if come + gone == 1 else 'messages'}" if counts else ""


def tool_changes(old: set[str], new: set[str]) -> str:
    """Say which tools came and went, of two lists that are not the same."""
    more = [f"+ {one}" for one in sorted(new - old)]
    less = [f"− {one}" for one in sorted(old - new)]  # noqa: RUF001
    return f"tools: {', '.join([*more, *less]) or 'reworded or reordered'}"


def _different_apps(before: World, now: World) -> Iterator[str]:
    for app in now.apps:
        other = before.app(app.id)
        if other is None:
            yield f"state: {app.name} has come"
        elif (other.tree, other.status) != (app.tree, app.status):
            yield f"state: {app.name} changed"
    yield from (f"state: {app.name} has gone" for app in before.apps if now.app(app.id) is None)


def _different_tail(before: Prompt, now: Prompt) -> Iterator[str]:
    """Which blocks of the tail say something else; the state is told by its apps."""
    texts: list[dict[str, str]] = [{}, {}]
    for prompt, found in zip((before, now), texts, strict=True):
        for message, slot in list(zip(prompt.messages, slot_names(prompt), strict=True))[
            prompt.boundary :
        ]:
            found[slot] = found.get(slot, "") + message.text
    for slot in sorted({*texts[0], *texts[1]} - {"state"}):
        if texts[0].get(slot) != texts[1].get(slot):
            yield f"{slot}: changed"
