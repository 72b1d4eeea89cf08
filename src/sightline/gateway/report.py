"""What went through a gateway: a line for each request, a summary of a session, a page, a span.

The page of a session has no script, nothing from elsewhere, and is for any screen. What agents and
vendors wrote is text and nothing else in it: escaped, set apart from what is around it (its
direction too), and without characters that cannot be seen.
"""

from __future__ import annotations

import html
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

import sightline.telemetry as telemetry
from sightline._amounts import dollars, percent
from sightline.agent.host.spans import MAPPING
from sightline.context.dialects.drift import CAUSES, Loss
from sightline.context.dialects.events import Usage
from sightline.events import UsageReported
from sightline.gateway.observer import NANO, Passed, Passing

# GenAI conventions, gen_ai.provider.name: whose API it is.
_PROVIDERS: Final = {
    "anthropic": "anthropic",
    "openai-responses": "openai",
    "openai-chat": "openai",
    "gemini": "gcp.gemini",
}
_POLICY: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
)
_STYLE: Final = """
:root {
  color-scheme: light dark;
  --ground: light-dark(#fff, #15181c); --ink: light-dark(#1b1f24, #e3e6ea);
  --quiet: light-dark(#59636e, #9aa4af); --line: light-dark(#d5d9de, #353b43);
  --raised: light-dark(#f4f5f7, #1e2227); --reused: light-dark(#1a7f37, #57c26c);
  --written: light-dark(#8a5a00, #e6b450); --fresh: light-dark(#b3261e, #ff8a80);
}
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1100px; padding: 12px 16px 48px; background: var(--ground);
  color: var(--ink); font: 15px/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 20px; margin: 8px 0; }
h2 { font-size: 16px; margin: 24px 0 6px; }
.quiet, caption, thead { color: var(--quiet); }
caption { text-align: left; padding: 4px 0; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: left; vertical-align: top; padding: 5px 8px; font-weight: 400;
  border-bottom: 1px solid var(--line); }
td[data-name=cost], td[data-name=sent] { white-space: nowrap; }
.bar { display: flex; width: 120px; height: 12px; margin: 5px 0; overflow: hidden;
  background: var(--raised); border: 1px solid var(--line); border-radius: 3px; }
.reused { background: var(--reused); }
.written { background: var(--written); }
.fresh { background: var(--fresh); }
.key { display: inline-block; width: 10px; height: 10px; margin: 0 4px 0 12px; }
summary { cursor: pointer; }
pre { margin: 4px 0; padding: 6px; font-size: 12.5px; white-space: pre-wrap;
  background: var(--raised); border: 1px solid var(--line); border-radius: 3px; }
@media (max-width: 700px) {
  table, tbody, tr, td, th, caption { display: block; width: 100%; }
  thead { display: none; }
  tr { border-bottom: 2px solid var(--line); padding: 6px 0; }
  td, th { border: 0; padding: 1px 0; }
  td[data-name]::before { content: attr(data-name) " "; color: var(--quiet); }
  .bar { width: 100%; }
}
"""
_COLUMNS: Final = ("", "sent", "model", "prompt", "tokens", "cost", "lost, why, and what to do")


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
    causes: tuple[tuple[str, int, int, float, int], ...]


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
            f"price {dollars(passed.cost_usd)}",
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
    cost = "" if loss.cost is None else f" ({dollars(loss.cost)})"
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
        (
            cause,
            len(losses),
            sum(x.tokens for x in losses),
            sum(x.cost or 0.0 for x in losses),
            sum(x.cost is None for x in losses),
        )
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
    failed = f", {summary.failed} failed or cut off" if summary.failed else ""
    requests = "1 request" if summary.requests == 1 else f"{summary.requests:,} requests"
    lines = [
        f"{requests}{failed}: {summary.input_tokens:,} tokens in, "
        f"{percent(summary.reused_tokens, summary.input_tokens)} reused, "
        f"{summary.output_tokens:,} out, "
        f"price {dollars(summary.cost_usd, summary.unpriced)}"
    ]
    if summary.unknown:
        lines.append(f"of {summary.unknown} the usage is unknown")
    for cause, times, tokens, cost, unpriced in summary.causes:
        words, advice = CAUSES[cause]
        money = f", {dollars(cost, unpriced)}" if cost else ""
        lines.append(f"lost {tokens:,} tokens{money} in {times}: {words}; {advice}")
    if not summary.causes:
        compared = summary.requests - summary.unknown > 1
        lines.append("nothing was lost" if compared else "no two answered requests to compare")
    return lines


# A session as one page.


def report_page(title: str, about: str, sent: Sequence[tuple[str, Passed]]) -> Iterator[str]:
    """Write a session as a page, a part at a time; `sent` are its requests with their moments."""
    summary = summarise([passed for _, passed in sent])
    name = title or "An agent's session"
    yield (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        f"<title>{html.escape(_seen(name))}</title><style>{_STYLE}</style></head><body><main>"
        f"<h1>{_text(name)}</h1><p class=quiet>{_text(about)}</p>"
    )
    yield "".join(f"<p>{_text(line)}</p>" for line in _in_words(summary))
    yield from _causes(summary)
    yield (
        "<h2>Requests</h2><p class=quiet>"
        "<span class='key reused'></span>reused <span class='key written'></span>written to the "
        "cache <span class='key fresh'></span>evaluated and not kept</p>"
    )
    yield from _table("Requests in the order in which they were sent", _COLUMNS)
    for number, (at, passed) in enumerate(sent, 1):
        yield _request(number, at, passed)
    yield "</tbody></table></main></body></html>\n"


def _in_words(summary: Summary) -> list[str]:
    """What it cost in all, and what cost most."""
    lines = summary_lines(msgspec.structs.replace(summary, causes=()))
    if not summary.causes:
        return lines
    cause, times, tokens, cost, unpriced = summary.causes[0]
    money = f", {dollars(cost, unpriced)}" if cost else ""
    often = "once" if times == 1 else f"{times:,} times"
    most = f"{CAUSES[cause][0]} ({often}, {tokens:,} tokens{money})"
    return [*lines[:-1], f"{summary.lost_tokens:,} tokens were paid again. What cost most: {most}."]


def _causes(summary: Summary) -> Iterator[str]:
    if not summary.causes:
        return
    yield "<h2>What was lost</h2>"
    yield from _table("The dearest first", ("why", "times", "tokens", "cost", "what to do"))
    for cause, times, tokens, cost, unpriced in summary.causes:
        words, advice = CAUSES[cause]
        yield _row(
            _cell("", _text(words)),
            _cell("times", f"{times:,}"),
            _cell("tokens", f"{tokens:,}"),
            _cell("cost", dollars(cost, unpriced)),
            _cell("what to do", _text(advice)),
        )
    yield "</tbody></table>"


def _table(caption: str, columns: Iterable[str]) -> Iterator[str]:
    heads = "".join(f"<th scope=col>{name}</th>" for name in columns)
    yield f"<table><caption>{caption}</caption><thead><tr>{heads}</tr></thead><tbody>"


def _request(number: int, at: str, passed: Passed) -> str:
    usage = passed.usage
    reason = passed.error or passed.stop or "no usage reported"
    tokens = (
        _text(reason)
        if usage is None
        else f"{usage.cache_read_tokens:,} reused, {usage.evaluated_tokens:,} evaluated, "
        f"{usage.output_tokens:,} out"
    )
    return _row(
        f"<th scope=row>{number}</th>",
        _cell("sent", _text(at[:19].replace("T", " "))),
        _cell("model", _text(passed.model or passed.api)),
        _cell("", "" if usage is None else _bar(usage)),
        _cell("", tokens),
        _cell("cost", dollars(passed.cost_usd)),
        _cell("", "" if passed.loss is None else _loss(passed.loss)),
    )


def _bar(usage: Usage) -> str:
    """Draw how much of a prompt was reused, written and evaluated."""
    parts = {
        "reused": min(usage.cache_read_tokens, usage.input_tokens),
        "written": min(usage.cache_write_tokens, usage.evaluated_tokens),
        "fresh": usage.fresh_tokens,
    }
    drawn = "".join(
        f"<i class={name} style='width:{100 * count / max(1, usage.input_tokens):.1f}%'></i>"
        for name, count in parts.items()
    )
    share = f"{percent(usage.cached_share)} of {usage.input_tokens:,} tokens reused"
    return f"<span class=bar role=img aria-label='{share}' title='{share}'>{drawn}</span>"


def _loss(loss: Loss) -> str:
    money = "" if loss.cost is None else f", {dollars(loss.cost)}"
    where = f" at <code>{_text(loss.path)}</code>" if loss.path else ""
    words = (
        f"<b>{loss.tokens:,} tokens{money}</b>: {_text(loss.words)}{where}; {_text(loss.advice)}"
    )
    if not (loss.before or loss.now):
        return words
    changed = f"<pre>{_text(loss.before)}</pre><pre>{_text(loss.now)}</pre>"
    return f"{words}<details><summary>before and now</summary>{changed}</details>"


def _row(*cells: str) -> str:
    return f"<tr>{''.join(cells)}</tr>\n"


def _cell(name: str, content: str) -> str:
    return f"<td data-name='{name}'>{content}</td>" if name and content else f"<td>{content}</td>"


def _text(text: str) -> str:
    """Write a text that anybody may have written."""
    escaped = html.escape(_seen(text))
    return escaped if escaped.isascii() else f"<bdi>{escaped}</bdi>"


def _seen(text: str) -> str:
    return "".join(c if c.isprintable() or c == "\n" else "\ufffd" for c in text)


# A request as part of the trace of its agent, where that has one.


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
