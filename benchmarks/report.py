"""Write `REPORT.md`, its pictures and every quoted figure from `results.json`.

    python -m benchmarks.report

Measures nothing: the same results give the same bytes.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.harness import table
from benchmarks.pictures import PICTURES
from benchmarks.plot import svg
from benchmarks.quotes import TABLES, UnknownFigure, renewed
from benchmarks.results import Part, load

__all__ = ["documents", "files", "main"]

HERE = Path(__file__).parent
ROOT = HERE.parent
TITLES = {
    "trees": "Trees, against slop-ai",
    "live": "One change, many subscribers, against slop-ai",
    "connections": "Ten thousand connections to one app",
    "scale_trees": "Ten thousand mirrors of one app over a broker",
    "floods": "A heartbeat while an app floods its host",
    "ledger": "The ledger, against openai-agents and llm",
    "postgres": "The ledger in PostgreSQL, many writers",
    "slots": "Prompts under a budget, against langchain-core and tiktoken",
    "tail": "Showing state safely",
    "composing": "The next request of a running host",
    "cache": "What a prompt costs: layouts priced",
    "forms": "What a tail costs: whole, or once and then its changes",
    "local": "What a real runtime evaluates",
    "inspector": "The inspector on a long session",
    "pages": "A page of ten thousand nodes",
    "startup": "The start of the chat, and of a question",
    "telemetry": "Spans for OpenTelemetry",
    "keystrokes": "A key while an answer streams and an app floods",
    "package": "What it costs to have the library",
    "json_libraries": "Which JSON library",
    "latency": "What the gateway adds, against LiteLLM and mitmproxy",
}


def main() -> int:
    """Write everything that differs, and name it. Exits with 1 if a quote cannot be written."""
    parts = load()
    _write(files(parts))
    try:
        _write(documents(parts))
    except UnknownFigure as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _write(texts: Mapping[Path, str]) -> None:
    for path, text in texts.items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
            print(path.relative_to(ROOT))


def files(parts: Mapping[str, Part]) -> dict[Path, str]:
    """The report and its pictures."""
    found = {HERE / "REPORT.md": "\n".join(_report(parts))}
    for name, part in parts.items():
        for picture in PICTURES.get(name, ()):
            found[HERE / "plots" / picture.file] = svg(picture.draw(part.rows))
    return found


def documents(parts: Mapping[str, Part]) -> dict[Path, str]:
    """Every document that may quote a figure, with the figures of now. Raises UnknownFigure."""
    paths = [ROOT / "README.md", HERE / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    texts = {}
    for path in paths:
        try:
            texts[path] = renewed(path.read_text(encoding="utf-8"), parts)
        except UnknownFigure as error:
            raise UnknownFigure(f"{path.relative_to(ROOT)}: {error}") from error
    return texts


def _report(parts: Mapping[str, Part]) -> Iterator[str]:
    yield "# What was measured"
    yield ""
    yield "Written by `python -m benchmarks.report` from [results.json](results.json), which"
    yield "`python -m benchmarks` fills; not edited by hand. What each figure means, what is kind"
    yield "to whom, and why a bar is missed is in [README.md](README.md). *Ratio* is how many times"
    yield "our cost the peer's is, *bar* the least ratio that we promise."
    yield ""
    yield from _bars(parts)
    for name, part in parts.items():
        yield f"## {TITLES.get(name, name)}"
        yield ""
        yield f"`python -m benchmarks --only {name}`: {_circumstances(part.run)}."
        yield ""
        if name == "cache":
            yield from _cache(parts)
        elif name == "forms":
            yield from _forms(parts)
        else:
            yield table(list(part.rows))
        yield ""
        for picture in PICTURES.get(name, ()):
            yield f"![{picture.shows}](plots/{picture.file})"
            yield ""


def _cache(parts: Mapping[str, Part]) -> Iterator[str]:
    rows = parts["cache"].rows
    least = min(row.more["price"] for row in rows if row.slug.startswith("slack-"))
    yield "How many times the default's the cost is: the mean of three kinds of work, three rates"
    yield "of change, and 30, 90 and 300 turns. Tokens at the prices of each vendor's profile;"
    yield "for a local runtime those evaluated, and those that they attend to."
    yield ""
    yield from TABLES["prices"](parts)
    yield ""
    yield "What costs less than the default by more than a hundredth, all four taken together,"
    yield "shows less of the conversation or departs from what std::slop and SLOP say. Of the"
    yield f"slacks at the default's size the cheapest costs {least:.3f} of it."
    yield ""
    yield "The requests of a chat of 50 turns on a GPU (`python -m benchmarks.gpu`), the state"
    yield "new in each:"
    yield ""
    yield from TABLES["gpu"](parts)


def _forms(parts: Mapping[str, Part]) -> Iterator[str]:
    yield "A chat of 50 turns and 99 requests beside an app of which some rows change before each"
    yield "request. Thousands of tokens, a new one at 1.25 and one read from the cache at 0.1; in"
    yield "brackets those that were evaluated."
    yield ""
    yield from TABLES["forms"](parts)
    yield ""
    yield "- `whole`, the default, is what SLOP's context injection asks for, and as cheap as any"
    yield "  form where most of the state changes at each request, or turns call no tools."
    yield "- `turn` pays where a turn has several requests and little changes between them. The"
    yield "  state whole is still in every request, with its changes behind it."
    yield "- `session` pays where the state is large beside what changes of it, or the vendor holds"
    yield "  the history or binds reasoning to it. Earlier states stay in the request: it departs"
    yield "  from SLOP's context injection, conformance 1."


def _bars(parts: Mapping[str, Part]) -> Iterator[str]:
    judged = [(name, row) for name, part in parts.items() for row in part.rows if row.bar]
    missed = [(name, row) for name, row in judged if not row.met]
    yield f"**{len(judged)} bars, {len(judged) - len(missed)} met.**"
    yield from (f"Missed: {row.work} ({name})." for name, row in missed)
    yield ""


def _circumstances(run: Mapping[str, Any]) -> str:
    """What is known of the run, in a line."""
    when = f"{run['date']} UTC" + (f" at {run['commit']}" if run["commit"] else "")
    known = [when, run["python"], run["system"], f"{run['cores']} cores"]
    if run["seconds"] is not None:
        known.insert(1, f"{run['seconds']} s")
    if run["load"] is not None:
        known.append(f"load {run['load']} when it began")
    return ", ".join(known)


if __name__ == "__main__":
    sys.exit(main())
