"""Figures in documents come from `results.json`, and say so.

A figure that stands in a sentence is followed by a comment that names it, and is written anew
from there, so that no figure is typed by hand:

    costs 80.3 µs<!-- bench: trees/change-diff/ours -->
    some 26,000<!-- bench: trees/change-diff/ratio to 2 digits --> times less
    at worst 77 %<!-- bench: local/all/share in percent --> of it

The name is module, slug and field: `ours`, `peer`, `ratio`, `size`, or one of the row's
further figures. A table stands between two comments and is written as a whole:

    <!-- bench: table local -->
    …
    <!-- bench: end -->
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from math import floor, log10

from benchmarks.capacity import cost_lines, need_lines
from benchmarks.gpu import FOUND, Shape
from benchmarks.harness import quantity, times
from benchmarks.results import Part

__all__ = ["QUOTED", "TABLE", "TABLES", "UnknownFigure", "renewed"]

Parts = Mapping[str, Part]
QUOTED = re.compile(
    r"(?P<figure>[\d,.]*\d(?:\N{MULTIPLICATION SIGN}| ?%| (?:µs|ms|s|kB|MB|GB|tokens)\b)?)"
    r"<!-- bench: (?P<module>\w+)/(?P<slug>[\w-]+)/(?P<field>\w+)(?: (?P<how>[\w ]+))? -->"
)
TABLE = re.compile(
    r"^(?P<indent> *)<!-- bench: table (?P<name>[\w-]+) -->\n.*?^ *<!-- bench: end -->$",
    re.MULTILINE | re.DOTALL,
)
_DIGITS = re.compile(r"to (\d) digits?")


class UnknownFigure(ValueError):
    """A document quotes what was not measured, or in a way that there is none."""


def renewed(text: str, parts: Parts) -> str:
    """Write every quoted figure of a document anew. Raises UnknownFigure."""

    def figure(found: re.Match[str]) -> str:
        mark = found[0].removeprefix(found["figure"])
        return _figure(found, parts) + mark

    def table(found: re.Match[str]) -> str:
        if found["name"] not in TABLES:
            raise UnknownFigure(f"there is no table {found['name']!r}")
        lines = [f"<!-- bench: table {found['name']} -->", *TABLES[found["name"]](parts)]
        return "\n".join(found["indent"] + line for line in (*lines, "<!-- bench: end -->"))

    written = TABLE.sub(table, QUOTED.sub(figure, text))
    marks = text.count("<!-- bench: ")
    understood = len(QUOTED.findall(text)) + 2 * len(TABLE.findall(text))
    if marks != understood:
        raise UnknownFigure(f"{marks - understood} marks of figures stand behind no figure")
    return written


def _figure(found: re.Match[str], parts: Parts) -> str:
    module, slug, name, how = found["module"], found["slug"], found["field"], found["how"] or ""
    try:
        row = parts[module].row(slug)
        fields = {"ours": row.ours, "peer": row.peer, "ratio": row.ratio, "size": row.size}
        amount = {**row.more, **fields}[name]
    except KeyError as error:
        raise UnknownFigure(f"{module}/{slug}/{name}: there is no {error}") from error
    if amount is None:
        raise UnknownFigure(f"{module}/{slug}/{name}: the peer was not run")
    if how == "in percent":
        return f"{amount:.0%}".replace("%", " %")
    unit = row.unit if name in ("ours", "peer") else "times" if name == "ratio" else ""
    if digits := _DIGITS.fullmatch(how):
        amount = _rounded(amount, int(digits[1]))
        return quantity(amount, unit) if unit in ("s", "bytes") else f"{amount:,.15g}"
    if how:
        raise UnknownFigure(f"{module}/{slug}/{name}: no way to write a figure: {how!r}")
    if unit == "times":
        return times(amount)
    if unit in ("s", "bytes"):
        return quantity(amount, unit)
    return f"{amount:,.0f}" if amount >= 100 else f"{amount:.3g}"


def _rounded(amount: float, digits: int) -> float:
    return round(amount, digits - 1 - floor(log10(abs(amount)))) if amount else amount


def _local(parts: Parts) -> list[str]:
    row = parts["local"].row("all")
    more = row.more
    figures = {
        "as a tail": (row.size, row.ours, more["reused"]),
        "before the history": (more["peer_prompt"], row.peer or 0, more["peer_reused"]),
    }
    return [
        "| state block | prompt tokens | evaluated | reused |",
        "| --- | ---: | ---: | ---: |",
        *(
            f"| {name} | {' | '.join(f'{number:,.0f}' for number in numbers)} |"
            for name, numbers in figures.items()
        ),
    ]


# What the README shows: a sentence, a row, and who the peer is.
_HEADLINES = {
    "one property of 100,000 nodes changed, then compared": ("trees", "change-diff", "slop-ai"),
    "one change told to 1,000 subscribers": ("live", "k-1000", "slop-ai, ten of them times 100"),
    "a tree of 100,000 nodes read from JSON": ("trees", "build", "slop-ai"),
    "the next prompt from 10,000 messages": ("slots", "warm-10000", "langchain-core, which counts"),
    "the same, with our counts for both": ("slots", "remembered-10000", "langchain-core"),
    "200 messages read back after a turn": ("ledger", "window-after-agents", "openai-agents"),
    "the same, by a process that just started": ("ledger", "window-first-agents", "openai-agents"),
    "what the gateway adds before a reply begins": ("latency", "litellm-50k", "LiteLLM's proxy"),
    "the same": ("latency", "pipe-50k", "a pipe that looks at nothing"),
    "a turn in a session of 1,000,000 messages": ("ledger", "turn-1000000", "a session of 1,000"),
    "a tree as the text that a model reads": ("trees", "text", "slop-ai"),
    "a child added to a long list": ("trees", "apply-add", "slop-ai, which changes it in place"),
}


def _headlines(parts: Parts) -> list[str]:
    lines = ["| work | ours | peer | | ratio |", "| --- | ---: | ---: | --- | ---: |"]
    for work, (module, slug, peer) in _HEADLINES.items():
        row = parts[module].row(slug)
        theirs = "" if row.peer is None else quantity(row.peer, row.unit)
        ratio = "" if row.ratio is None else times(row.ratio)
        lines.append(f"| {work} | {quantity(row.ours, row.unit)} | {theirs} | {peer} | {ratio} |")
    return lines


_MEASURES = ("price", "anthropic", "openai", "gemini", "deepseek", "evaluated", "attended")


def _prices(parts: Parts) -> list[str]:
    """Layouts, and how many times the default's their costs are."""
    heads = ("all four", "Anthropic", "OpenAI", "Gemini", "DeepSeek", "evaluated", "attended")
    lines = [f"| layout | {' | '.join(heads)} | |", f"| --- |{' ---: |' * len(heads)} --- |"]
    for row in parts["cache"].rows:
        figures = " | ".join(f"{row.more[name]:.2f}" for name in _MEASURES)
        lines.append(f"| {row.work} | {figures} | {row.note} |")
    return lines


def _gpu(parts: Parts) -> list[str]:
    """What a GPU needed: written by `benchmarks.gpu` where there was one."""
    found = json.loads(FOUND.read_text(encoding="utf-8"))
    titles = {row.slug: row.work for row in parts["cache"].rows}
    shape = Shape(**found["shape"])
    lines = [
        f"{found['device']}, PyTorch {found['torch']}, {found['date']};"
        f" {found['model']} ({shape.parameters / 1e9:.1f} billion weights, random, bf16).",
        "",
        "| layout | requests | evaluated | prefill | p95 to the first token |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for layouts in found["works"].values():
        for name, figures in layouts.items():
            lines.append(
                f"| {titles[name]} | {figures['requests']} | {figures['evaluated']:,} tokens"
                f" | {figures['seconds']:.1f} s | {figures['p95'] * 1e3:.0f} ms |"
            )
    return lines


def _forms(parts: Parts) -> list[str]:
    """Forms of a tail by how much of the state changes, in thousands of tokens."""
    rows = parts["forms"].rows
    scenes = dict.fromkeys(row.work.partition(": ")[0] for row in rows)
    lines = [f"| | {' | '.join(scenes)} |", f"| --- |{' ---: |' * len(scenes)}"]
    for title in dict.fromkeys(row.work.partition(": ")[2] for row in rows):
        own = [row for row in rows if row.work.endswith(f": {title}")]
        figures = (f"{row.ours / 1e3:.0f} ({row.more['evaluated'] / 1e3:.0f})" for row in own)
        lines.append(f"| {title} | {' | '.join(figures)} |")
    return lines


TABLES: dict[str, Callable[[Parts], list[str]]] = {
    "local": _local, "headlines": _headlines, "prices": _prices, "gpu": _gpu,
    "forms": _forms, "costs": cost_lines, "capacity": need_lines,
}  # fmt: skip
