"""What went through a gateway, in words: a line for each request, a summary of a session."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import msgspec

from sightline.context.dialects.drift import CAUSES, Loss
from sightline.gateway.observer import Passed


class Summary(msgspec.Struct, frozen=True):
    """A session in figures; `causes` are (cause, times, tokens, dollars), the dearest first."""

    requests: int
    failed: int
    input_tokens: int
    reused_tokens: int
    output_tokens: int
    cost_usd: float
    unpriced: int
    unknown: int
    lost_tokens: int
    causes: tuple[tuple[str, int, int, float], ...]


def line_of(passed: Passed) -> list[str]:
    """Say what became of a request: one line, and one more where something was lost."""
    usage = passed.usage
    parts = [passed.model or passed.api]
    if usage is None:
        parts.append(passed.error or passed.stop or "no usage reported")
    else:
        parts += [
            f"{usage.cache_read_tokens:,} reused",
            f"{usage.evaluated_tokens:,} evaluated",
            f"{usage.output_tokens:,} out",
            "price unknown" if passed.cost_usd is None else f"${passed.cost_usd:.4f}",
        ]
    if passed.stop == "cut":
        parts.append("cut off")
    if passed.tail:
        parts.append(passed.tail)
    lines = [" · ".join(parts)]
    if passed.loss is not None:
        lines.append(f"  {loss_words(passed.loss)}")
    if passed.trouble:
        lines.append(f"  {passed.trouble}")
    return lines


def loss_words(loss: Loss) -> str:
    """Say what was lost, why, where, and what to do about it."""
    cost = "" if loss.cost is None else f" (${loss.cost:.4f})"
    where = f" at {loss.path}" if loss.path else ""
    return f"lost {loss.tokens:,} tokens{cost}: {loss.words}{where}; {loss.advice}"


def summarise(passed: Sequence[Passed]) -> Summary:
    """Add up what went through."""
    used = [one.usage for one in passed if one.usage is not None]
    priced = [one.cost_usd for one in passed if one.cost_usd is not None]
    by_cause: dict[str, list[Loss]] = defaultdict(list)
    for one in passed:
        if one.loss is not None:
            by_cause[one.loss.cause].append(one.loss)
    causes = [
        (cause, len(losses), sum(x.tokens for x in losses), sum(x.cost or 0.0 for x in losses))
        for cause, losses in by_cause.items()
    ]
    return Summary(
        len(passed),
        sum(one.status >= 400 or one.stop in ("cut", "incomplete", "error") for one in passed),
        sum(usage.input_tokens for usage in used),
        sum(usage.cache_read_tokens for usage in used),
        sum(usage.output_tokens for usage in used),
        sum(priced),
        len(used) - len(priced),
        len(passed) - len(used),
        sum(cause[2] for cause in causes),
        tuple(sorted(causes, key=lambda cause: (-cause[3], -cause[2]))),
    )


def summary_lines(summary: Summary) -> list[str]:
    """Say a session in words: what it cost, how much was reused, what cost most."""
    if not summary.requests:
        return ["no request went through"]
    share = summary.reused_tokens / summary.input_tokens if summary.input_tokens else 0.0
    failed = f", {summary.failed} failed or cut off" if summary.failed else ""
    lines = [
        f"{summary.requests} requests{failed}: {summary.input_tokens:,} tokens in, "
        f"{share:.0%} reused, {summary.output_tokens:,} out, ${summary.cost_usd:.4f}"
    ]
    if summary.unpriced:
        lines.append(f"{summary.unpriced} of unknown price are not in it")
    if summary.unknown:
        lines.append(f"of {summary.unknown} the usage is unknown")
    for cause, times, tokens, cost in summary.causes:
        words, advice = CAUSES[cause]
        money = f", ${cost:.4f}" if cost else ""
        lines.append(f"lost {tokens:,} tokens{money} in {times}: {words}; {advice}")
    if not summary.causes:
        lines.append("nothing was lost")
    return lines
