"""A fifth set of ways to lose a prompt cache, written without having read what names them.

Written on 2026-11-16, after what the first four such sets showed had been repaired, by somebody
who had not read the classifier, and scored once. Their author knew what users are told
(`docs/gateway.md`), the names of the causes, the sessions and about half of the faults of
`benchmarks.faults`, notes on what agents send and vendors keep, and the last lines of the fourth
set (its vendor's and harmless kinds); neither the code that is scored, nor its tests, nor the
other kinds of the four sets before.

    BLIND       changes by which a cache is lost, with the cause and the place
    HARMLESS    requests of unusual shape by which nothing is lost: nothing may be found

The kinds follow those notes and what their author remembers of public reports; none was checked
against a report. Kinds of which the documentation allows two readings were left out. Where several
things changed at once, the first that is read is expected: settings, then tools, instructions and
messages. What a change needs to find is written into both requests of a case (`given`), at places
that both have: the first two turns.
"""

from __future__ import annotations

import copy
import json
import random
import re
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal, TypeAlias

from benchmarks.faults import (
    CLAUDE,
    LAYOUTS,
    MEMORY,
    OPENAI,
    Body,
    Fault,
    Layout,
    is_question,
    messages_of,
    text,
    where,
)  # fmt: skip

__all__ = ["BLIND", "HARMLESS"]

Change: TypeAlias = Callable[[random.Random, Body], str | None]
Given: TypeAlias = Callable[[random.Random, Body], object]
Words: TypeAlias = Callable[[random.Random], str]
Items: TypeAlias = Callable[[random.Random, Body], list[Body]]
Edit: TypeAlias = Callable[[random.Random, str], str]
Read: TypeAlias = Literal["shared", "nothing"]

_DATE: Final = "Today's date: 2026-11-15"
_GIT: Final = "Git status: On branch main\nmodified: src/app.py"
_SESSION: Final = r"Session: \S+"
_FILE: Final = rf"{re.escape(MEMORY)}[^\n]*\n[^\n]*"
_END: Final = 1_000_000


# How a kind is put together.


def _kind(
    kind: str, cause: str, change: Change, layouts: tuple[Layout, ...] = LAYOUTS, *,
    given: Given | None = None, reported: Read = "shared", idle_s: float = 10.0,
) -> Fault:  # fmt: skip
    def named(rng: random.Random, body: Body) -> str | None:
        return change(rng, body)

    def prepared(rng: random.Random, body: Body) -> None:
        if given is not None:
            given(rng, body)

    named.__name__ = kind
    return Fault(cause, "", named, layouts, idle_s, reported, prepared)


def _nothing(_: random.Random, __: Body) -> str:
    return ""


def _both(*changes: Change) -> Change:
    """Make several changes; the first is the one that is expected."""

    def change(rng: random.Random, body: Body) -> str | None:
        first, *_ = [made(rng, body) for made in changes]
        return first

    return change


def _all_of(*given: Given) -> Given:
    def write(rng: random.Random, body: Body) -> None:
        for one in given:
            one(rng, body)

    return write


# Settings.


def _set(**values: Any) -> Change:
    """Write settings; None leaves one out."""

    def change(_: random.Random, body: Body) -> str:
        for name, value in values.items():
            if value is None:
                body.pop(name, None)
            else:
                body[name] = copy.deepcopy(value)
        return ""

    return change


_FORMAT: Final = {
    "type": "json_schema",
    "schema": {"type": "object", "properties": {"title": {"type": "string"}}},
}
_SETTINGS: Final = (
    _kind("a cheaper model is picked", "model", _set(model="claude-sonnet-5-5"), CLAUDE,
          reported="nothing"),
    _kind("a cheaper model is picked", "model", _set(model="gpt-5.6-terra"), OPENAI,
          reported="nothing"),
    _kind("an overload leads to a model without effort", "model",
          _set(model="claude-haiku-4-5", output_config=None), CLAUDE, reported="nothing"),
    _kind("a model brings its own instructions", "model", _both(
        _set(model="gpt-5.5"), lambda r, b: _set(instructions=text(r, 90))(r, b)), OPENAI,
          reported="nothing"),
    _kind("the greatest effort", "effort", _set(output_config={"effort": "max"}), CLAUDE),
    _kind("more effort", "effort", _set(reasoning={"effort": "high"}), OPENAI,
          reported="nothing"),
    _kind("a word asks for more thought", "thinking",
          _set(thinking={"type": "enabled", "budget_tokens": 31_999}), CLAUDE),
    _kind("thinking becomes adaptive", "thinking", _set(thinking={"type": "adaptive"}), CLAUDE),
    _kind("thinking is left out", "thinking", _set(thinking=None), CLAUDE),
    _kind("one call at a time", "tool_choice",
          _set(tool_choice={"type": "auto", "disable_parallel_tool_use": True}), CLAUDE,
          given=_set(tool_choice={"type": "auto"})),
    _kind("no more calls", "tool_choice", _set(tool_choice={"type": "none"}), CLAUDE,
          given=_set(tool_choice={"type": "auto"})),
    _kind("no more calls", "tool_choice", _set(tool_choice="none"), OPENAI, reported="nothing"),
    _kind("an answer by a schema", "output",
          _set(output_config={"effort": "high", "format": _FORMAT}), CLAUDE, reported="nothing"),
    _kind("an answer by a schema", "output",
          _set(text={"format": _FORMAT | {"name": "title"}}), OPENAI, reported="nothing"),
    _kind("resumed under another key", "routing",
          lambda r, b: _set(prompt_cache_key=f"{r.getrandbits(128):032x}")(r, b), OPENAI,
          reported="nothing"),
    _kind("the key is left out", "routing", _set(prompt_cache_key=None), OPENAI,
          reported="nothing"),
    _kind("calls side by side", "setting", _set(parallel_tool_calls=True), OPENAI,
          given=_set(parallel_tool_calls=False), reported="nothing"),
)  # fmt: skip


# Tools.


def _schema_of(tool: Body) -> Body:
    found: Body = tool["input_schema"] if "input_schema" in tool else tool["parameters"]
    return found


def _tool(rng: random.Random, body: Body, name: str) -> Body:
    schema = {
        "type": "object",
        "properties": {
            name: {"type": kind, "description": text(rng, 5)}
            for name, kind in (("query", "string"), ("limit", "integer"), ("deep", "boolean"))
        },
        "required": ["query", "limit"],
    }
    said = {"name": name, "description": text(rng, 25)}
    if "messages" in body:
        return said | {"input_schema": schema}
    return {"type": "function"} | said | {"parameters": schema}


def _server(name: str, *tools: str, at: int = _END) -> Change:
    """Write the tools of an MCP server into the list; where the first stands."""

    def change(rng: random.Random, body: Body) -> str:
        first = min(at, len(body["tools"]))
        body["tools"][first:first] = [_tool(rng, body, f"mcp__{name}__{tool}") for tool in tools]
        return f"tools[{first}]"

    return change


_issues: Final = _server("issues", "list", "read", "write")
_wiki: Final = _server("wiki", "find", "read", at=3)


def _at(body: Body, prefix: str) -> int:
    return next(i for i, tool in enumerate(body["tools"]) if tool["name"].startswith(prefix))


def _server_gone(prefix: str) -> Change:
    def change(_: random.Random, body: Body) -> str:
        at = _at(body, prefix)
        body["tools"] = [t for t in body["tools"] if not t["name"].startswith(prefix)]
        return f"tools[{at}]"

    return change


def _no_tools(_: random.Random, body: Body) -> str:
    del body["tools"]
    return "tools"


def _another_server(rng: random.Random, body: Body) -> str:
    at = _at(body, "mcp__issues__")
    for index, name in enumerate(("search", "get", "comment")):
        body["tools"][at + index] = _tool(rng, body, f"mcp__tracker__{name}")
    return f"tools[{at}]"


def _server_renamed(_: random.Random, body: Body) -> str:
    at = _at(body, "mcp__issues__")
    for tool in body["tools"][at:]:
        tool["name"] = tool["name"].replace("mcp__issues__", "mcp__plugin_work_issues__")
    return f"tools[{at}]"


def _sorted_tools(_: random.Random, body: Body) -> str:
    before = list(body["tools"])
    body["tools"].sort(key=lambda tool: str(tool["name"]).lower())
    return f"tools[{next(i for i, t in enumerate(before) if body['tools'][i] != t)}]"


def _servers_swapped(_: random.Random, body: Body) -> str:
    at = _at(body, "mcp__issues__")
    one = [tool for tool in body["tools"] if tool["name"].startswith("mcp__issues__")]
    body["tools"] = [tool for tool in body["tools"] if tool not in one] + one
    return f"tools[{at}]"


def _described(name: str, edit: Edit) -> Change:
    def change(rng: random.Random, body: Body) -> str:
        at = _at(body, name)
        body["tools"][at]["description"] = edit(rng, body["tools"][at]["description"])
        return f"tools[{at}]"

    return change


def _agents(rng: random.Random, said: str) -> str:
    return f"{said}\nAgents:\n- explore: {text(rng, 8)}\n- review: {text(rng, 8)}"


def _schema(name: str, edit: Callable[[Body], object]) -> Change:
    def change(_: random.Random, body: Body) -> str:
        at = _at(body, name)
        edit(_schema_of(body["tools"][at]))
        return f"tools[{at}]"

    return change


def _other_order(values: Body) -> Body:
    return dict(reversed(values.items()))


def _hosted(_: random.Random, body: Body) -> str:
    claude: Body = {"type": "web_search_20250305", "name": "web_search", "max_uses": 8}
    body["tools"].append(claude if "messages" in body else {"type": "web_search"})
    return f"tools[{len(body['tools']) - 1}]"


_TOOLS: Final = (
    _kind("a server connects late", "tool_added", _issues),
    _kind("a server connects among the others", "tool_added", _wiki),
    _kind("a server says how to use it", "tool_added", _both(
        _issues, lambda r, b: _rewrite(b, "$", lambda _: f"\n# issues\n{text(r, 20)}"))),
    _kind("a tool of the vendor's", "tool_added", _hosted),
    _kind("a server leaves", "tool_removed", _server_gone("mcp__issues__"), given=_issues),
    _kind("a server in the midst leaves", "tool_removed", _server_gone("mcp__wiki__"),
          given=_wiki),
    _kind("tools may not be used by a role", "tool_removed", _server_gone("W")),
    _kind("asked without tools", "tool_removed", _no_tools, OPENAI),
    _kind("one server for another", "tools_replaced", _another_server, given=_issues),
    _kind("a server has another name", "tools_replaced", _server_renamed, given=_issues),
    _kind("tools are sorted", "tools_reordered", _sorted_tools),
    _kind("servers answer in another order", "tools_reordered", _servers_swapped,
          given=_all_of(_issues, _server("mail", "send", "read"))),
    _kind("a further agent is told of", "tool_reworded",
          _described("Task", lambda r, s: f"{s}\n- test: {text(r, 8)}"),
          given=_described("Task", _agents)),
    _kind("an agent is told of no more", "tool_reworded",
          _described("Task", lambda _, s: s[: s.index("\n- review")]),
          given=_described("Task", _agents)),
    _kind("a tool knows the directory", "tool_reworded",
          _described("Bash", lambda _, s: s.replace("/work/project", "/work/project/web")),
          given=_described("Bash", lambda _, s: f"Runs in /work/project. {s}")),
    _kind("a line ends after the description", "tool_reworded",
          _described("Grep", lambda _, s: f"{s}\n")),
    _kind("a choice more", "tool_schema",
          _schema("Task", lambda s: s["properties"]["path"]["enum"].append("test")),
          given=_schema("Task", lambda s: s["properties"]["path"].update(enum=["a", "b"]))),
    _kind("nothing beside what is named", "tool_schema",
          _schema("Edit", lambda s: s.update(additionalProperties=False))),
    _kind("required in another order", "tool_schema",
          _schema("mcp__issues__list", lambda s: s["required"].reverse()), given=_issues,
          reported="nothing"),
    _kind("properties in another order", "tool_schema", _schema("mcp__issues__list", lambda s:
          s.update(properties=_other_order(s["properties"]))), given=_issues,
          reported="nothing"),
    _kind("a schema defines a part", "tool_schema", _schema("mcp__issues__list", lambda s: s.update(
          {"$defs": {"q": {"type": "string"}}})), given=_issues),
)  # fmt: skip


# Instructions.


def _rewrite(body: Body, pattern: str, new: Callable[[re.Match[str]], str]) -> str | None:
    """Write the first such words of the instructions anew; where they stand."""
    if "instructions" in body:
        holders = [(0, body, "instructions")]
    elif isinstance(body["system"], str):
        holders = [(0, body, "system")]
    else:
        holders = [(at, block, "text") for at, block in enumerate(body["system"])]
        if pattern == "$":
            holders = holders[-1:]
    for at, holder, key in holders:
        changed = re.sub(pattern, new, holder[key], count=1)
        if changed != holder[key]:
            holder[key] = changed
            return f"system[{at}]"
    return None


def _put(pattern: str, new: Words) -> Change:
    def change(rng: random.Random, body: Body) -> str | None:
        return _rewrite(body, pattern, lambda _: new(rng))

    return change


def _in_front_of(pattern: str, new: Words) -> Change:
    def change(rng: random.Random, body: Body) -> str | None:
        return _rewrite(body, pattern, lambda found: new(rng) + found[0])

    return change


def _day(line: str, form: str, *, at: datetime | None = None) -> Given:
    """Write a day in some form where the agent had written its own."""

    def write(rng: random.Random, body: Body) -> None:
        day = at or datetime(2026, rng.randint(1, 12), rng.randint(1, 28), 23, 55, tzinfo=UTC)
        _rewrite(body, _DATE, lambda _: line.format(day.strftime(form)))

    return write


def _next_day(line: str, form: str, later: timedelta = timedelta(days=1)) -> Change:
    pattern = re.escape(line).replace(r"\{\}", "(.+?)") + r"(?=\n)"

    def change(_: random.Random, body: Body) -> str | None:
        def new(found: re.Match[str]) -> str:
            day = datetime.strptime(found[1], form).replace(tzinfo=UTC) + later
            return line.format(day.strftime(form))

        return _rewrite(body, pattern, new)

    return change


def _dated(kind: str, line: str, form: str, **given: Any) -> Fault:
    later = timedelta(minutes=12) if "%M" in form else timedelta(days=1)
    return _kind(kind, "date", _next_day(line, form, later), given=_day(line, form, **given))


def _hex(rng: random.Random, digits: int) -> str:
    return f"{rng.getrandbits(4 * digits):0{digits}x}"


def _billing_line(rng: random.Random, version: int = 325) -> str:
    line = f"cc_version=2.1.{version}.{_hex(rng, 3)}; cc_entrypoint=cli; cch={_hex(rng, 5)};"
    return f"x-anthropic-billing-header: {line}"


_BILLING: Final = r"x-anthropic-billing-header: [^\n]*"
_billed: Final = _put(_BILLING, _billing_line)


def _without_first_block(_: random.Random, body: Body) -> str:
    del body["system"][0]
    return "system[0]"


def _block(at: int, new: Words) -> Change:
    def change(rng: random.Random, body: Body) -> str:
        body["system"].insert(at, {"type": "text", "text": new(rng)})
        return f"system[{at}]"

    return change


def _without_block(_: random.Random, body: Body) -> str:
    body["system"].pop()
    return f"system[{len(body['system'])}]"


def _lines(rng: random.Random, count: int = 6) -> str:
    return "\n".join(f"- {text(rng, 9)}" for _ in range(count))


def _commits(rng: random.Random) -> str:
    return "\n".join(f"{_hex(rng, 7)} {text(rng, 5)}" for _ in range(3))


def _project_file(rng: random.Random) -> str:
    said = "(rules of the project)"
    return f"Contents of /work/project/CLAUDE.md {said}:\n\n{_lines(rng)}"


def _notes_file(rng: random.Random) -> str:
    return f"Contents of /home/ada/.agent/memory/MEMORY.md:\n\n{_lines(rng)}"


def _agents_file(rng: random.Random) -> str:
    name = "# AGENTS.md instructions for /work/project"
    return f"{name}\n\n<INSTRUCTIONS>\n{_lines(rng)}\n</INSTRUCTIONS>"


def _nested_file(rng: random.Random) -> str:
    return f"\n\nContents of /work/project/web/CLAUDE.md:\n\n{_lines(rng, 3)}"


def _everyones_file(rng: random.Random) -> str:
    return f"Contents of /home/ada/.claude/CLAUDE.md:\n\n{_lines(rng, 3)}\n\n"


def _style(rng: random.Random) -> str:
    return f"# Style\n{text(rng, 30)}\n"


def _plain_system(_: random.Random, body: Body) -> None:
    """Write the instructions as one string, as small agents do."""
    body["system"] = body["system"][1]["text"]


def _count(_: random.Random, body: Body) -> str | None:
    return _rewrite(body, r"(?<=Request )\d+", lambda found: str(int(found[0]) + 1))


def _sections_swapped(_: random.Random, body: Body) -> str | None:
    pattern = r"(# Style\n[^\n]*\n)(# Tests\n[^\n]*\n)"
    return _rewrite(body, pattern, lambda found: found[2] + found[1])


_ENV: Final = "# Environment"
_sandbox: Final = _put(f"{_ENV}\n", lambda _: (
    "<environment_context>\n  <cwd>/work/project</cwd>\n"
    "  <sandbox_mode>workspace-write</sandbox_mode>\n</environment_context>\n"))  # fmt: skip
_other_words: Final = _put("You are an agent", lambda r: f"You help. {text(r, 4)}. You are one")
_next_morning: Final = _put(_DATE, lambda _: _DATE.replace("15", "16"))
_INSTRUCTIONS: Final = (
    _dated("a day in words", "Today is {}.", "%A, %B %d, %Y"),
    _dated("a day with dots", "Heute ist der {}", "%d.%m.%Y"),
    _dated("a day in a tag", "<current_date>{}</current_date>", "%Y-%m-%d"),
    _dated("a moment before midnight", "Current date and time: {}", "%Y-%m-%dT%H:%M:%SZ"),
    _dated("a new year", "The date is {}.", "%b %d, %Y", at=datetime(2026, 12, 31, tzinfo=UTC)),
    _kind("a day in one string", "date", _next_morning, CLAUDE, given=_plain_system),
    _kind("over night with work done", "date", _both(_next_morning, _put(
        "modified: src/app.py", lambda _: "nothing to commit"))),
    _kind("a day, then an edited file", "date", _both(_next_morning, _put(
        _FILE, lambda r: MEMORY + text(r, 50)))),
    _kind("the billing line has another sum", "billing", _billed, CLAUDE, given=_billed),
    _kind("an update is billed", "billing", _put(_BILLING, lambda r: _billing_line(r, 326)),
          CLAUDE, given=_billed),
    _kind("the billing line is switched off", "billing", _without_first_block, CLAUDE,
          given=_billed),
    _kind("a proxy keeps the billing line", "billing", _billed, OPENAI,
          given=_in_front_of("You are", lambda r: f"{_billing_line(r)}\n")),
    _kind("the billing line and a new day", "billing", _both(_billed, _next_morning), CLAUDE,
          given=_billed),
    _kind("another branch", "environment", _put("On branch main", lambda r: (
        f"On branch fix/{r.randrange(999)}"))),
    _kind("more files are changed", "environment", _put("modified: src/app.py", lambda r: (
        f"modified: src/app.py\nmodified: src/{r.randrange(99)}.py\n?? notes.txt"))),
    _kind("a commit was made", "environment", _in_front_of("(?<=Recent commits:\n)", lambda r: (
        f"{_hex(r, 7)} {text(r, 5)}\n")),
          given=_put(_GIT, lambda r: f"{_GIT}\nRecent commits:\n{_commits(r)}")),
    _kind("another directory", "environment", _put("Working directory: /work/project", lambda _:
          "Working directory: /work/project/web")),
    _kind("the system was updated", "environment", _put("6.8.0-45", lambda _: "6.8.0-47"),
          given=_put("Platform: linux", lambda _: (
              "Platform: linux\nOS version: Linux 6.8.0-45-generic"))),
    _kind("the sandbox is opened", "environment", _put("workspace-write", lambda _: (
        "danger-full-access")), given=_sandbox),
    _kind("a session's id", "random", _put(_SESSION, lambda r: (
        f"Session: {uuid.UUID(int=r.getrandbits(128))}"))),
    _kind("a trace's id", "random", _put("trace=[0-9a-f]+", lambda r: f"trace={_hex(r, 32)}"),
          given=_put(_SESSION, lambda r: f"trace={_hex(r, 32)}")),
    _kind("requests are counted", "random", _count,
          given=_put(_SESSION, lambda r: f"Request {r.randrange(10, 80)}")),
    _kind("a file was edited", "memory", _put("(?<=project\\):\n\n)- [^\n]*", lambda r: (
        f"- {text(r, 11)}")), given=_put(_FILE, _project_file)),
    _kind("a note was taken", "memory", _put("(?<=MEMORY.md:\n\n)", lambda r: (
        f"- {text(r, 7)}\n")), given=_put(_FILE, _notes_file)),
    _kind("a rule was struck", "memory", _put("(?<=<INSTRUCTIONS>\n)- [^\n]*\n", lambda _: ""),
          given=_put(_FILE, _agents_file)),
    _kind("a file of a directory", "memory", _put("$", _nested_file),
          given=_put(_FILE, _project_file)),
    _kind("a file of all projects", "memory", _in_front_of("Contents of /work", _everyones_file),
          given=_put(_FILE, _project_file)),
    _kind("a file was deleted", "memory", _put(r"Contents of /work(.|\n)*", lambda _: ""),
          given=_put(_FILE, _project_file)),
    _kind("other words at the beginning", "instructions", _other_words),
    _kind("other words and a new day", "instructions", _both(_other_words, _next_morning)),
    _kind("another style", "instructions", _in_front_of(_ENV, _style)),
    _kind("the style is left", "instructions", _put("# Style\n[^\n]*\n", lambda _: ""),
          given=_in_front_of(_ENV, _style)),
    _kind("another language", "instructions", _in_front_of(_ENV, lambda _: (
        "Answer in German, whatever you are asked in.\n"))),
    _kind("paragraphs change places", "instructions", _sections_swapped,
          given=_in_front_of(_ENV, lambda r: f"{_style(r)}# Tests\n{text(r, 20)}\n")),
    _kind("another role", "instructions", _put(r"^You are(.|\n)*", lambda r: (
        f"Plan, and change nothing. {text(r, 120)}"))),
    _kind("a block in front", "instructions", _block(1, lambda r: text(r, 12)), CLAUDE),
    _kind("a block behind", "instructions", _block(2, _style), CLAUDE),
    _kind("a block is left out", "instructions", _without_block, CLAUDE, given=_block(2, _style)),
)  # fmt: skip


# The conversation.


def _questions(body: Body) -> list[int]:
    return [
        at
        for at, message in enumerate(messages_of(body))
        if message.get("role") == "user" and is_question(message)
    ]


def _message(body: Body, role: str, *said: str) -> Body:
    """Write a message; what the system says is called a developer's by OpenAI."""
    if "messages" in body:
        return {"role": role, "content": [{"type": "text", "text": words} for words in said]}
    kind = "output_text" if role == "assistant" else "input_text"
    role = "developer" if role == "system" else role
    content = [{"type": kind, "text": words} for words in said]
    return {"type": "message", "role": role, "content": content}


def _calls(rng: random.Random, body: Body, count: int, name: str = "side") -> list[Body]:
    """Write calls made at once, and their results."""
    ids = [f"{name}_{at}" for at in range(count)]
    said = [text(rng, 40) for _ in ids]
    if "input" in body:
        made = [{"type": "function_call", "call_id": i, "name": "Grep",
                 "arguments": json.dumps({"path": i})} for i in ids]  # fmt: skip
        return made + [
            {"type": "function_call_output", "call_id": i, "output": words}
            for i, words in zip(ids, said, strict=True)
        ]
    uses = [{"type": "tool_use", "id": i, "name": "Grep", "input": {"path": i}} for i in ids]
    results = [
        {"type": "tool_result", "tool_use_id": i, "content": words}
        for i, words in zip(ids, said, strict=True)
    ]
    return [{"role": "assistant", "content": uses}, {"role": "user", "content": results}]


def _before(turn: int, new: Items) -> Change:
    """Put items in front of a turn's question; where."""

    def change(rng: random.Random, body: Body) -> str:
        at = _questions(body)[turn]
        if "input" in body and messages_of(body)[at - 1]["role"] == "developer" and turn:
            at -= 1
        messages_of(body)[at:at] = new(rng, body)
        return where(body, at)

    return change


def _behind(turn: int, new: Items) -> Change:
    """Put items behind a turn's question; where."""

    def change(rng: random.Random, body: Body) -> str:
        at = _questions(body)[turn] + 1
        messages_of(body)[at:at] = new(rng, body)
        return where(body, at)

    return change


def _one(role: str, new: Words) -> Items:
    return lambda rng, body: [_message(body, role, new(rng))]


def _find(body: Body, having: str) -> int:
    return next(i for i, m in enumerate(messages_of(body)) if having in json.dumps(m))


def _drop(having: str) -> Change:
    def change(_: random.Random, body: Body) -> str:
        at = _find(body, having)
        del messages_of(body)[at]
        return where(body, at)

    return change


def _texts(value: Any) -> list[tuple[Body, str]]:
    """Find the texts of a message: their block and key."""
    if isinstance(value, list):
        return [found for one in value for found in _texts(one)]
    if value.get("type") in ("text", "input_text", "output_text"):
        return [(value, "text")]
    if value.get("type") == "function_call_output":
        return [(value, "output")]
    content = value.get("content")
    return [(value, "content")] if isinstance(content, str) else _texts(content or [])


def _say(having: str, edit: Edit) -> Change:
    """Edit the first text that has these words; where."""

    def change(rng: random.Random, body: Body) -> str | None:
        for at, message in enumerate(messages_of(body)[:-4]):
            for block, key in _texts(message):
                if having in block[key]:
                    block[key] = edit(rng, block[key])
                    return where(body, at)
        return None

    return change


def _in_question(turn: int, edit: Edit) -> Change:
    """Edit the words of a turn's question; where."""

    def change(rng: random.Random, body: Body) -> str:
        at = _questions(body)[turn]
        block = messages_of(body)[at]["content"][-1]
        block["text"] = edit(rng, block["text"])
        return where(body, at)

    return change


def _blocks(turn: int, new: Words, *, at: int = 0) -> Change:
    """Put a text block into a turn's question; where."""

    def change(rng: random.Random, body: Body) -> str:
        index = _questions(body)[turn]
        block = _message(body, "user", new(rng))["content"][0]
        messages_of(body)[index]["content"].insert(at, block)
        return where(body, index)

    return change


def _answers(body: Body) -> list[int]:
    return [
        at
        for at, message in enumerate(messages_of(body)[:-4])
        if message.get("role") == "assistant"
        and (isinstance(message["content"], str) or message["content"][-1]["type"] == "output_text")
    ]


def _in_answer(edit: Edit) -> Change:
    def change(rng: random.Random, body: Body) -> str:
        at = _answers(body)[0]
        block, key = _texts(messages_of(body)[at])[0]
        block[key] = edit(rng, block[key])
        return where(body, at)

    return change


def _results(body: Body) -> list[tuple[int, Body, str]]:
    """Find the results of the first two turns: where, block, key."""
    end = _questions(body)[2]
    return [
        (at, block, key)
        for at, message in enumerate(messages_of(body)[:end])
        for block, key in _texts(message)
        if block.get("type") in ("tool_result", "function_call_output")
    ]


def _in_results(edit: Edit, *, every: bool = False) -> Change:
    """Edit one result of the first two turns or each; where the first stands."""

    def change(rng: random.Random, body: Body) -> str:
        found = _results(body)
        chosen = found if every else [found[rng.randrange(4)]]
        for _, block, key in chosen:
            block[key] = edit(rng, block[key])
        return where(body, chosen[0][0])

    return change


def _summary(opening: str, closing: str = "") -> Items:
    return lambda rng, body: [_message(body, "user", f"{opening}{text(rng, 60)}{closing}")]


def _compacted(new: Items, *, kept: int = 0) -> Change:
    """Put a summary in place of all turns but the first so many and the last."""

    def change(rng: random.Random, body: Body) -> str:
        questions = _questions(body)
        first = questions[kept]
        if "input" in body and messages_of(body)[first - 1]["role"] == "developer" and kept:
            first -= 1
        messages_of(body)[first : questions[-1]] = new(rng, body)
        return where(body, first)

    return change


def _questions_kept(rng: random.Random, body: Body) -> list[Body]:
    """Keep what the user asked, and put a summary behind it."""
    asked = [copy.deepcopy(messages_of(body)[at]) for at in _questions(body)[1:-1]]
    said = f"Another model worked on this before; its summary:\n{text(rng, 60)}"
    return [*asked, _message(body, "user", said)]


def _after_first_question(new: Items) -> Change:
    def change(rng: random.Random, body: Body) -> str:
        questions = _questions(body)
        messages_of(body)[questions[0] + 1 : questions[-1]] = new(rng, body)
        return where(body, questions[0] + 1)

    return change


def _sealed(rng: random.Random, _: Body) -> list[Body]:
    return [{"type": "compaction", "encrypted_content": _hex(rng, 400)}]


def _note(rng: random.Random) -> str:
    return f"<system-reminder>\n{text(rng, 18)}\n</system-reminder>"


def _todo(rng: random.Random) -> str:
    said = "Your list of things to do:"
    return f"<system-reminder>\n{said}\n[1] {text(rng, 5)}\n[2] {text(rng, 5)}\n</system-reminder>"


def _without_block_of(having: str) -> Change:
    def change(_: random.Random, body: Body) -> str:
        at = _find(body, having)
        message = messages_of(body)[at]
        message["content"] = [b for b in message["content"] if having not in json.dumps(b)]
        return where(body, at)

    return change


def _moved_on(rng: random.Random, body: Body) -> str:
    found = _without_block_of("things to do")(rng, body)
    assert found is not None
    messages_of(body)[_questions(body)[-1]]["content"].insert(
        0, _message(body, "user", _todo(rng))["content"][0]
    )
    return found


_HOOK: Final = "UserPromptSubmit hook additional context: build "
_POST: Final = "PostToolUse:Read hook additional context: "
_STOP: Final = "Stop hook feedback:\n- [check.sh]: "
_TAG: Final = "user-prompt-submit-hook"


def _background(rng: random.Random, body: Body) -> list[Body]:
    said = [f"Task {name} has ended: {text(rng, 15)}" for name in ("one", "two")]
    return [_message(body, "user", words) for words in said]


def _swapped(having: str) -> Change:
    def change(_: random.Random, body: Body) -> str:
        at, messages = _find(body, having), messages_of(body)
        messages[at : at + 2] = [messages[at + 1], messages[at]]
        return where(body, at)

    return change


def _call_dropped(rng: random.Random, body: Body) -> str:
    """Drop a call with its result (and what was thought before it, of OpenAI)."""
    first = _questions(body)[rng.choice((0, 1))] + 1
    del messages_of(body)[first : first + (2 if "messages" in body else 3)]
    return where(body, first)


def _turn_dropped(_: random.Random, body: Body) -> str:
    """Drop the second turn; of OpenAI what a hook said in front of it stays."""
    first, end = _questions(body)[1:3]
    del messages_of(body)[first:end]
    return where(body, first)


def _answer_dropped(rng: random.Random, body: Body) -> str:
    at = rng.choice(_answers(body))
    del messages_of(body)[at]
    return where(body, at)


def _slid(turns: int) -> Change:
    def change(_: random.Random, body: Body) -> str | None:
        questions = _questions(body)
        if len(questions) < turns + 2:
            return None
        del messages_of(body)[questions[0] : questions[turns]]
        return where(body, questions[0])

    return change


def _slid_items(_: random.Random, body: Body) -> str:
    del body["input"][1:5]
    return "input[1]"


_ARGUMENTS: Final = (
    '{"file_path": "src/a.py", "edits": [{"old": "a", "new": "b"}], "options": {"all": true}}'
)


def _call_of(body: Body, turn: int) -> tuple[int, Body]:
    """Find the first call of a turn: where, and what holds its arguments."""
    at = _questions(body)[turn] + 1
    if "input" in body:
        return at + 1, body["input"][at + 1]
    return at, body["messages"][at]["content"][-1]


def _arguments(edit: Callable[[Body], Body], turn: int = 1) -> Change:
    def change(_: random.Random, body: Body) -> str:
        at, call = _call_of(body, turn)
        if "arguments" in call:
            call["arguments"] = json.dumps(edit(json.loads(call["arguments"])))
        else:
            call["input"] = edit(call["input"])
        return where(body, at)

    return change


_edit_call: Final = _arguments(lambda _: dict(json.loads(_ARGUMENTS)))


def _nested_order(values: Body) -> Body:
    return values | {"edits": [_other_order(one) for one in values["edits"]]}


def _thought(edit: Callable[[Body], Body | None], *, every: bool = False) -> Change:
    """Edit what was thought in the first two turns, once or always; None leaves it out."""

    def change(_: random.Random, body: Body) -> str:
        found: list[int] = []
        messages = messages_of(body)
        for at in range(_questions(body)[2]):
            if not found or every:
                holder = messages[at : at + 1] if "input" in body else messages[at]["content"]
                if any(b["type"] in ("thinking", "reasoning") for b in holder if "type" in b):
                    found.append(at)
        for at in reversed(found):
            if "input" in body:
                new = edit(messages[at])
                messages[at : at + 1] = [] if new is None else [new]
            else:
                first, *rest = messages[at]["content"]
                new = edit(first)
                messages[at]["content"] = rest if new is None else [new, *rest]
        return where(body, found[0])

    return change


def _picture(edit: Callable[[random.Random, Body], Body | None]) -> Change:
    """Edit the picture in the first question; None leaves it out."""

    def change(rng: random.Random, body: Body) -> str:
        at = _questions(body)[0]
        content = messages_of(body)[at]["content"]
        index = next(i for i, b in enumerate(content) if b["type"] in ("image", "input_image"))
        new = edit(rng, content[index])
        content[index : index + 1] = [] if new is None else [new]
        return where(body, at)

    return change


def _linked(rng: random.Random, block: Body) -> Body:
    url = f"https://files.example.org/a.png?expires={rng.randrange(10**9)}&sig={_hex(rng, 40)}"
    if block["type"] == "image":
        return block | {"source": {"type": "url", "url": url}}
    return block | {"image_url": url}


def _encoded(rng: random.Random, block: Body) -> Body:
    if block["type"] == "image":
        source = {"type": "base64", "media_type": "image/webp", "data": _hex(rng, 80)}
        return block | {"source": source}
    return block | {"image_url": f"data:image/webp;base64,{_hex(rng, 80)}"}


def _named(_: random.Random, block: Body) -> Body:
    return {"type": "text" if block["type"] == "image" else "input_text", "text": "[Image #1]"}


def _windows(said: str) -> str:
    return re.sub(r"((?:\S+ ){8})", r"\1\r\n", said)


def _indented(said: str) -> str:
    return re.sub(r"((?:\S+ ){8})", r"\1\n\t", said)


_CUT: Final = "[old result cleared to save room]"
_MESSAGES: Final = (
    _kind("a summary with a heading", "compaction",
          _compacted(_summary("# Summary of the conversation so far\n\n"))),
    _kind("a summary in a tag", "compaction",
          _compacted(_summary("<summary>\n", "\n</summary>"))),
    _kind("a summary for going on", "compaction", _compacted(_summary(
        "This session goes on from a conversation that ran out of context. Summary:\n\n"))),
    _kind("a summary behind the first turn", "compaction", _compacted(_summary(
        "Summary of the conversation so far:\n"), kept=1)),
    _kind("a summary behind the questions", "compaction", _after_first_question(_questions_kept)),
    _kind("a sealed summary", "compaction", _compacted(_sealed), OPENAI),
    _kind("a list moves on", "reminder", _moved_on, given=_blocks(0, _todo)),
    _kind("a list has other words", "reminder", _say("things to do", lambda r, _: _todo(r)),
          given=_blocks(1, _todo)),
    _kind("a reminder comes late", "reminder", _blocks(1, _note, at=1)),
    _kind("a reminder leaves a question", "reminder", _without_block_of("things to do"),
          given=_blocks(1, _todo, at=1)),
    _kind("a reminder leaves the results", "reminder", _in_results(
        lambda _, s: s[: s.index("\n\n<system-reminder>")], every=True),
          given=_in_results(lambda r, s: f"{s}\n\n{_note(r)}", every=True)),
    _kind("a reminder of its own", "reminder", _behind(1, _one("system", _note))),
    _kind("a reminder of its own leaves", "reminder", _drop("things to do"),
          given=_behind(0, _one("system", _todo))),
    _kind("a hook's words are not kept", "hook", _drop(_HOOK),
          given=_behind(0, _one("system", lambda r: _HOOK + text(r, 10)))),
    _kind("a hook is run again", "hook", _say(_HOOK, lambda r, _: _HOOK + text(r, 10)),
          given=_behind(1, _one("system", lambda r: _HOOK + text(r, 10)))),
    _kind("a hook comes late", "hook", _before(1, _one("system", lambda r: _POST + text(r, 9)))),
    _kind("a hook at the end of a turn", "hook", _say(_STOP[:10], lambda r, _: (
        _STOP + text(r, 12))), given=_before(1, _one("user", lambda r: _STOP + text(r, 12)))),
    _kind("a hook in a tag", "hook", _say(_TAG, lambda r, _: f"<{_TAG}>{text(r, 9)}</{_TAG}>"),
          given=_blocks(1, lambda r: f"<{_TAG}>{text(r, 9)}</{_TAG}>", at=1)),
    _kind("a question is put right", "edited", _in_question(1, lambda _, s: (
        s.replace("teh ", "the ", 1))), given=_in_question(1, lambda _, s: f"see teh {s}")),
    _kind("another question", "edited", _in_question(0, lambda r, _: text(r, 30))),
    _kind("an address is blanked", "edited", _in_question(0, lambda _, s: (
        s.replace("ada@example.org", "[EMAIL]"))),
          given=_in_question(0, lambda _, s: f"Write to ada@example.org {s}")),
    _kind("quotes are made plain", "edited", _in_answer(lambda _, s: s.replace("\u2019", "'")),
          given=_in_answer(lambda _, s: f"It\u2019s done. {s}")),
    _kind("an answer goes on", "edited", _in_answer(lambda r, s: f"{s} {text(r, 20)}")),
    _kind("a path is made absolute", "edited", _arguments(lambda a: (
        a | {"path": f"/work/project/{a['path']}"}))),
    _kind("a file is read anew", "edited", _in_results(lambda r, _: text(r, 220))),
    _kind("a failed call is forgotten", "dropped", _call_dropped),
    _kind("a turn in the midst is forgotten", "dropped", _turn_dropped),
    _kind("an answer is forgotten", "dropped", _answer_dropped),
    _kind("a queued question comes between", "inserted", _before(1, _one("user", lambda r: (
        text(r, 15))))),
    _kind("a break is noted", "inserted", _before(1, _one("user", lambda _: (
        "[interrupted by the user]")))),
    _kind("an answer and a question come between", "inserted", _before(1, lambda r, b: [
        _message(b, "user", text(r, 9)), _message(b, "assistant", text(r, 20))])),
    _kind("calls come between", "inserted", _before(1, lambda r, b: _calls(r, b, 1))),
    _kind("tasks end in another order", "reordered", _swapped("Task one has"),
          given=_before(1, _background)),
    _kind("results come in another order", "reordered", _swapped('"function_call_output", '
          '"call_id": "side_0"'), OPENAI, given=_before(1, lambda r, b: _calls(r, b, 2))),
    _kind("two turns fall off", "window", _slid(2)),
    _kind("the oldest turn falls off", "window", _slid(1)),
    _kind("the oldest call falls off", "window", _slid_items, OPENAI),
    _kind("lines end otherwise", "spaced", _in_results(lambda _, s: s.replace("\r\n", "\n"),
          every=True), given=_in_results(lambda _, s: _windows(s), every=True)),
    _kind("tabs become blanks", "spaced", _in_results(lambda _, s: s.replace("\t", "    ")),
          given=_in_results(lambda _, s: _indented(s), every=True)),
    _kind("an answer is trimmed", "spaced", _in_answer(lambda _, s: s.strip()),
          given=_in_answer(lambda _, s: f"\n\n{s} \n")),
    _kind("a question loses its last line end", "spaced", _in_question(1, lambda _, s: s.rstrip()),
          given=_in_question(1, lambda _, s: f"{s}\n")),
    _kind("arguments are sorted", "reserialized", _arguments(lambda a: dict(sorted(a.items()))),
          given=_edit_call),
    _kind("arguments inside are turned round", "reserialized", _arguments(_nested_order),
          given=_edit_call),
    _kind("old results are cleared", "result_cut", _in_results(lambda _, __: _CUT, every=True)),
    _kind("a result is emptied", "result_cut", _in_results(lambda _, __: "")),
    _kind("only the head is kept", "result_cut", _in_results(lambda _, s: (
        f"{s[:200]}\n... [truncated]"))),
    _kind("the middle is left out", "result_cut", _in_results(lambda _, s: (
        f"{s[:150]}\n\n... 46 lines left out ...\n\n{s[-150:]}"))),
    _kind("a result is kept in a file", "result_cut", _in_results(lambda _, s: (
        f"Output too large; saved to /tmp/result.txt. Its beginning:\n{s[:120]}"))),
    _kind("old thoughts are left out", "reasoning", _thought(lambda _: None, every=True)),
    _kind("a thought is left out", "reasoning", _thought(lambda _: None)),
    _kind("thoughts without words", "reasoning", _thought(lambda b: b | {"thinking": ""},
          every=True), CLAUDE),
    _kind("a thought is signed anew", "reasoning", _thought(lambda b: b | {"signature": "Eq=="}),
          CLAUDE),
    _kind("thoughts are sealed anew", "reasoning", _thought(
        lambda b: b | {"encrypted_content": b["encrypted_content"][::-1]}, every=True), OPENAI),
    _kind("thoughts are not sealed", "reasoning", _thought(
        lambda b: {k: v for k, v in b.items() if k != "encrypted_content"}, every=True), OPENAI),
    _kind("a picture is only named", "image", _picture(_named)),
    _kind("a picture is left out", "image", _picture(lambda _, __: None)),
    _kind("a picture is packed anew", "image", _picture(_encoded)),
    _kind("a picture's address is signed anew", "image", _picture(_linked),
          given=_picture(_linked)),
    _kind("a picture in less detail", "image", _picture(lambda _, b: b | {"detail": "low"}),
          OPENAI, given=_picture(lambda _, b: b | {"detail": "high"})),
    _kind("a new day before an edited question", "date", _both(
        _next_morning, _in_question(0, lambda r, _: text(r, 30)))),
    _kind("an edited question before a cut result", "edited", _both(
        _in_question(0, lambda r, _: text(r, 30)), _in_results(lambda _, __: _CUT, every=True))),
)  # fmt: skip


# The vendor.


def _mark_all(mark: Body | None, *, system: bool = True) -> Change:
    """Mark the instructions and the last block anew; None leaves the marks out."""

    def write(_: random.Random, body: Body) -> str:
        blocks = [b for m in body["messages"] if isinstance(m["content"], list)
                  for b in m["content"]]  # fmt: skip
        for block in [*body["system"], *blocks]:
            block.pop("cache_control", None)
        if mark is not None:
            marked = [body["system"][-1], blocks[-1]] if system else blocks[-1:]
            for block in marked:
                block["cache_control"] = dict(mark)
        return ""

    return write


_FIVE: Final = {"type": "ephemeral"}
_HOUR: Final = {"type": "ephemeral", "ttl": "1h"}
_one_mark: Final = _mark_all(_FIVE, system=False)
_an_hour: Final = _mark_all(_HOUR)


def _many_files(rng: random.Random, body: Body) -> str:
    """Ask with so many files that the mark before is out of sight."""
    body["messages"][-1]["content"][-1].pop("cache_control")
    asked = _message(body, "user", *(f"File {at}:\n{text(rng, 30)}" for at in range(30)))
    body["messages"] += [_message(body, "assistant", text(rng, 9)), asked]
    asked["content"][-1]["cache_control"] = dict(_FIVE)
    return ""


def _breakpoint(_: random.Random, body: Body) -> None:
    body["prompt_cache_options"] = {"mode": "explicit"}
    content = messages_of(body)[_questions(body)[-1]]["content"]
    content[-1]["prompt_cache_breakpoint"] = {"mode": "explicit"}


def _no_breakpoint(_: random.Random, body: Body) -> str:
    for message in messages_of(body):
        for block in message.get("content") or []:
            block.pop("prompt_cache_breakpoint", None)
    return ""


def _kept_for(ttl: str) -> Given:
    return _set(prompt_cache_options={"mode": "implicit", "ttl": ttl})


def _again(_: random.Random, body: Body) -> str:
    """Leave out what is new: the request before, once more."""
    messages = messages_of(body)
    del messages[-2 if "messages" in body else -3 :]
    if "messages" in body:
        messages[-1]["content"][-1]["cache_control"] = dict(_FIVE)
    return ""


_VENDOR: Final = (
    _kind("six minutes", "expired", _nothing, CLAUDE, idle_s=360, reported="nothing"),
    _kind("a night", "expired", _nothing, CLAUDE, idle_s=36_000, reported="nothing"),
    _kind("more than the hour", "expired", _nothing, CLAUDE, given=_an_hour, idle_s=5_400,
          reported="nothing"),
    _kind("more than half an hour", "expired", _nothing, OPENAI, given=_kept_for("30m"),
          idle_s=7_200, reported="nothing"),
    _kind("marks are switched off", "unmarked", _mark_all(None), CLAUDE, reported="nothing"),
    _kind("no breakpoint any more", "unmarked", _no_breakpoint, OPENAI, given=_breakpoint,
          reported="nothing"),
    _kind("thirty files in a question", "lookback", _many_files, CLAUDE, given=_one_mark,
          reported="nothing"),
    _kind("lost after three minutes", "lost", _nothing, CLAUDE, idle_s=180, reported="nothing"),
    _kind("lost within the hour", "lost", _nothing, CLAUDE, given=_an_hour, idle_s=2_700,
          reported="nothing"),
    _kind("lost within half a day", "lost", _nothing, OPENAI, given=_kept_for("12h"),
          idle_s=3_000, reported="nothing"),
    _kind("lost in a retry", "lost", _again, idle_s=2, reported="nothing"),
    _kind("lost with a shorter answer", "lost", _set(max_tokens=16_000, stream=False), CLAUDE,
          reported="nothing"),
)  # fmt: skip


# What loses nothing.


def _more(new: Items) -> Change:
    """Go on with these; the mark moves to the end."""

    def change(rng: random.Random, body: Body) -> str:
        messages_of(body).extend(new(rng, body))
        if "messages" in body:
            _mark_all(_FIVE)(rng, body)
        return ""

    return change


def _many_calls(rng: random.Random, body: Body) -> list[Body]:
    return _calls(rng, body, 12, "many")


def _looks_like_faults(rng: random.Random, body: Body) -> list[Body]:
    """Say at the end what would be a fault further back."""
    said = ("Today's date: 2026-11-16", "# Summary of the conversation so far\nnothing", _CUT,
            _note(rng), f"{_HOOK}{text(rng, 5)}", "x-anthropic-billing-header: cch=1;")  # fmt: skip
    return [_message(body, "assistant", text(rng, 9)), _message(body, "user", *said)]


def _pictures(rng: random.Random, body: Body) -> list[Body]:
    asked = _message(body, "user", text(rng, 9))
    first = messages_of(body)[_questions(body)[0]]["content"]
    shown = next(b for b in first if b["type"] in ("image", "input_image"))
    asked["content"] += [_encoded(rng, shown), _linked(rng, shown)]
    return [_message(body, "assistant", text(rng, 9)), asked]


def _foreign_items(rng: random.Random, body: Body) -> list[Body]:
    """Go on with items of the vendor's own tools."""
    said = text(rng, 20)
    if "input" in body:
        return [
            {"type": "web_search_call", "id": "ws_1", "status": "completed",
             "action": {"type": "search", "query": said}},
            {"type": "custom_tool_call", "call_id": "c1", "name": "apply_patch", "input": said},
            {"type": "custom_tool_call_output", "call_id": "c1", "output": said},
            {"type": "local_shell_call", "call_id": "c2", "status": "completed",
             "action": {"type": "exec", "command": ["ls"], "env": {}}},
            {"type": "local_shell_call_output", "call_id": "c2", "output": said},
        ]  # fmt: skip
    used = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": "a"}}
    found = {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": []}
    pdf = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": said}}
    thought = {"type": "redacted_thinking", "data": _hex(rng, 60)}
    answer = [thought, used, found, {"type": "text", "text": said}]
    asked = [pdf, {"type": "text", "text": said}]
    return [{"role": "assistant", "content": answer}, {"role": "user", "content": asked}]


def _keys_turned(_: random.Random, body: Body) -> str:
    """Write the fields of the request and of its messages in another order."""
    for message in messages_of(body):
        turned = _other_order(message)
        message.clear()
        message.update(turned)
    turned = _other_order(body)
    body.clear()
    body.update(turned)
    return ""


def _as_blocks(_: random.Random, body: Body) -> str:
    """Write every string as a block of text."""
    for message in body["messages"]:
        if isinstance(message["content"], str):
            message["content"] = [{"type": "text", "text": message["content"]}]
        for block in message["content"]:
            if isinstance(block.get("content"), str):
                block["content"] = [{"type": "text", "text": block["content"]}]
    return ""


def _system_as_block(_: random.Random, body: Body) -> str:
    body["system"] = [{"type": "text", "text": body["system"], "cache_control": dict(_FIVE)}]
    return ""


def _as_strings(_: random.Random, body: Body) -> str:
    for message in body["input"]:
        content = message.get("content")
        if isinstance(content, list) and len(content) == 1:
            message["content"] = content[0]["text"]
    return ""


def _text_alone(rng: random.Random, body: Body) -> None:
    body["input"] = text(rng, 90)


def _text_goes_on(rng: random.Random, body: Body) -> str:
    first = body["input"]
    body["input"] = []
    said = (("user", first), ("assistant", text(rng, 9)), ("user", text(rng, 5)))
    body["input"] = [_message(body, role, words) for role, words in said]
    return ""


def _bare(_: random.Random, body: Body) -> None:
    """Ask without tools, instructions and settings, as a small script does."""
    for name in ("tools", "system", "instructions", "thinking", "output_config", "reasoning",
                 "tool_choice", "prompt_cache_key"):  # fmt: skip
        body.pop(name, None)


def _crowded(rng: random.Random, body: Body) -> None:
    """Bring a hundred tools, some without a word about them, one of them deep."""
    body["tools"] += [_tool(rng, body, f"mcp__crowd__{at}") for at in range(100)]
    for tool in body["tools"][::7]:
        tool.pop("description")
    deep: Body = {"type": "string"}
    for _ in range(20):
        deep = {"type": "object", "properties": {"next": deep}}
    _schema_of(body["tools"][-1])["properties"]["deep"] = deep


def _talking_system(rng: random.Random, body: Body) -> None:
    """Tell the environment in the conversation, and let a hook speak in each early turn."""
    said = f"# Environment\nWorking directory: /work\nToday's date: 2026-11-15\n{text(rng, 40)}"
    _behind(0, _one("system", lambda _: said))(rng, body)
    _before(1, _one("system", lambda r: _POST + text(r, 9)))(rng, body)
    _behind(1, _one("system", lambda r: _HOOK + text(r, 9)))(rng, body)


def _foreign_words(rng: random.Random, body: Body) -> None:
    """Say things that are no plain ASCII, and a line that is very long."""
    said = '\U0001f469\u200d\U0001f4bb na\u00efve \u202e\u6f22\u5b57 \x07\u2028 \\u0041 "'
    _before(1, _one("user", lambda r: said + text(r, 2_000)))(rng, body)


HARMLESS: Final = (
    _kind("asked once more", "", _again),
    _kind("many calls at once", "", _more(_many_calls)),
    _kind("what looks like faults at the end", "", _more(_looks_like_faults)),
    _kind("pictures at the end", "", _more(_pictures)),
    _kind("items of the vendor's own", "", _more(_foreign_items)),
    _kind("fields in another order", "", _keys_turned),
    _kind("strings are blocks", "", _as_blocks, CLAUDE),
    _kind("instructions are a block", "", _system_as_block, CLAUDE, given=_plain_system),
    _kind("strings are blocks", "", _as_strings, OPENAI),
    _kind("a text alone goes on", "", _text_goes_on, OPENAI, given=_text_alone),
    _kind("one mark at the end", "", _one_mark, CLAUDE),
    _kind("a bare request", "", _nothing, given=_bare),
    _kind("a hundred tools", "", _nothing, given=_crowded),
    _kind("the system speaks in between", "", _nothing, given=_talking_system),
    _kind("signs of all kinds", "", _nothing, given=_foreign_words),
    _kind("a shorter answer of another", "", _set(max_tokens=16_000, metadata={"user_id": "b"}),
          CLAUDE, given=_set(metadata={"user_id": "a"})),
    _kind("a shorter answer", "", _set(max_output_tokens=4_000, stream=False), OPENAI),
    _kind("just within five minutes", "", _nothing, idle_s=290),
    _kind("just within the hour", "", _nothing, CLAUDE, given=_an_hour, idle_s=3_500),
)  # fmt: skip
BLIND: Final = (*_SETTINGS, *_TOOLS, *_INSTRUCTIONS, *_MESSAGES, *_VENDOR)
