"""The report of a session as one page: no script, nothing from elsewhere, any screen.

What agents and vendors wrote is text and nothing else: escaped, set apart from what is around it
(its direction too), and without characters that cannot be seen.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from sightline.context.dialects.drift import CAUSES, Loss
from sightline.context.dialects.events import Usage
from sightline.gateway.observer import Passed
from sightline.gateway.report import Summary, summarise, summary_lines

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
    cause, times, tokens, cost = summary.causes[0]
    money = f", {_dollars(cost)}" if cost else ""
    often = "once" if times == 1 else f"{times:,} times"
    most = f"{CAUSES[cause][0]} ({often}, {tokens:,} tokens{money})"
    return [*lines[:-1], f"{summary.lost_tokens:,} tokens were paid again. What cost most: {most}."]


def _causes(summary: Summary) -> Iterator[str]:
    if not summary.causes:
        return
    yield "<h2>What was lost</h2>"
    yield from _table("The dearest first", ("why", "times", "tokens", "cost", "what to do"))
    for cause, times, tokens, cost in summary.causes:
        words, advice = CAUSES[cause]
        yield _row(
            _cell("", _text(words)),
            _cell("times", f"{times:,}"),
            _cell("tokens", f"{tokens:,}"),
            _cell("cost", _dollars(cost or None)),
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
        _cell("cost", "unknown" if passed.cost_usd is None else _dollars(passed.cost_usd)),
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
    share = f"{usage.cached_share:.0%} of {usage.input_tokens:,} tokens reused"
    return f"<span class=bar role=img aria-label='{share}' title='{share}'>{drawn}</span>"


def _loss(loss: Loss) -> str:
    money = "" if loss.cost is None else f", {_dollars(loss.cost)}"
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


def _dollars(cost: float | None) -> str:
    return "" if cost is None else f"${cost:.4f}"


def _text(text: str) -> str:
    """Write a text that anybody may have written."""
    escaped = html.escape(_seen(text))
    return escaped if escaped.isascii() else f"<bdi>{escaped}</bdi>"


def _seen(text: str) -> str:
    return "".join(c if c.isprintable() or c == "\n" else "\ufffd" for c in text)
