"""A fourth set of ways to lose a prompt cache, written without having read what names them.

Written on 2026-11-16, after what the first three such sets showed had been repaired, by somebody
who had not read the classifier; to be scored once. Their author knew what users are told
(`docs/gateway.md`), the causes with their words (`sightline.context.dialects.drift`), the
sessions and faults of `benchmarks.faults`, and notes on what agents send and vendors keep; neither
the code that is scored, nor its tests, nor the kinds of the three sets before.

    BLIND       changes by which a cache is lost, with the cause and the place
    HARMLESS    changes by which nothing is lost: nothing may be found

Kinds of which the documentation allows two readings were left out. Where several things changed at
once, the first that is read is expected: settings, then tools, instructions and messages.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from typing import Final, Literal, TypeAlias

from benchmarks.faults import (
    CLAUDE,
    LAYOUTS,
    MEMORY,
    OPENAI,
    Body,
    Fault,
    Layout,
    blocks_of,
    is_question,
    messages_of,
    replace_system,
    text,
    texts_with,
    where,
)  # fmt: skip

__all__ = ["BLIND", "HARMLESS"]

Change: TypeAlias = Callable[[random.Random, Body], str | None]
Given: TypeAlias = Callable[[random.Random, Body], object]
Layouts: TypeAlias = tuple[Layout, ...]
Read: TypeAlias = Literal["shared", "nothing"]


# What the changes are made of.


def _fault(
    kind: str, cause: str, change: Change, layouts: Layouts = LAYOUTS, *,
    given: Given | None = None, reported: Read = "shared", idle_s: float = 10.0,
) -> Fault:  # fmt: skip
    def named(rng: random.Random, body: Body) -> str | None:
        return change(rng, body)

    def prepared(rng: random.Random, body: Body) -> None:
        if given is not None:
            given(rng, body)

    named.__name__ = kind
    return Fault(cause, "", named, layouts, idle_s, reported, prepared)


def _claude(body: Body) -> bool:
    return "messages" in body


def _block(body: Body, words: str) -> Body:
    return {"type": "text" if _claude(body) else "input_text", "text": words}


def _message(body: Body, role: str, words: str) -> Body:
    if _claude(body):
        return {"role": role, "content": [_block(body, words)]}
    kind = "output_text" if role == "assistant" else "input_text"
    role = "developer" if role == "system" else role
    return {"type": "message", "role": role, "content": [{"type": kind, "text": words}]}


def _calls(body: Body, *results: str) -> list[Body]:
    """Calls of tools at once, and their results."""
    done = {f"toolu_x{i}": result for i, result in enumerate(results)}
    if not _claude(body):
        call = {"type": "function_call", "name": "Grep", "arguments": '{"path": "src"}'}
        return [call | {"call_id": name} for name in done] + [
            {"type": "function_call_output", "call_id": name, "output": result}
            for name, result in done.items()
        ]
    use = {"type": "tool_use", "name": "Grep", "input": {"path": "src"}}
    back = [{"type": "tool_result", "tool_use_id": n, "content": r} for n, r in done.items()]
    asked = {"role": "assistant", "content": [use | {"id": name} for name in done]}
    return [asked, {"role": "user", "content": back}]


def _first(body: Body) -> int:
    return 0 if _claude(body) else 1


def _questions(body: Body) -> list[int]:
    found = enumerate(messages_of(body))
    return [i for i, m in found if m.get("role") == "user" and is_question(m)]


def _answers(body: Body) -> list[int]:
    return [index - 1 for index in _questions(body)[2:]]


def _results(body: Body) -> list[int]:
    return [i for i, _ in blocks_of(body, ("tool_result", "function_call_output"))]


def _thoughts(body: Body) -> list[int]:
    return [i for i, _ in blocks_of(body, ("thinking", "reasoning"))]


def _mark_the_end(body: Body) -> None:
    if _claude(body):
        messages_of(body)[-1]["content"][-1]["cache_control"] = {"type": "ephemeral"}


def _nothing(_: random.Random, __: Body) -> str:
    return ""


# Settings, by their fields: as they become, and as they were.


def _setting(kind: str, cause: str, layouts: Layouts, now: Body, was: Body | None = None) -> Fault:
    def given(_: random.Random, body: Body) -> None:
        body.update(was or {})

    def change(_: random.Random, body: Body) -> str:
        for name, value in now.items():
            body.pop(name) if value is None else body.update({name: value})
        return ""

    reported: Read = "nothing" if cause == "lost" or (cause and layouts == OPENAI) else "shared"
    return _fault(kind, cause, change, layouts, given=given, reported=reported)


_SCHEMA: Final = {"type": "object", "properties": {"verdict": {"type": "string"}}}
_FORMAT: Final = {"type": "json_schema", "name": "answer", "schema": _SCHEMA}
_SETTINGS: Final = (
    _setting("plan mode has its model", "model", CLAUDE, {"model": "claude-sonnet-5-5"}),
    _setting("plan mode has its model", "model", OPENAI, {"model": "gpt-6-astra"}),
    _setting("a fallback has no tools", "model", CLAUDE,
             {"model": "claude-haiku-5-5", "tools": []}),
    _setting("a keyword asks for more", "effort", CLAUDE, {"output_config": {"effort": "max"}}),
    _setting("a keyword asks for more", "effort", OPENAI, {"reasoning": {"effort": "xhigh"}}),
    _setting("effort is no longer given", "effort", CLAUDE, {"output_config": None}),
    _setting("thinking is adaptive now", "thinking", CLAUDE, {"thinking": {"type": "adaptive"}}),
    _setting("thinking is no longer given", "thinking", CLAUDE, {"thinking": None}),
    _setting("no tools to wrap up", "tool_choice", CLAUDE,
             {"tool_choice": {"type": "none"}}, {"tool_choice": {"type": "auto"}}),
    _setting("no tools to wrap up", "tool_choice", OPENAI, {"tool_choice": "none"}),
    _setting("an answer by schema", "output", CLAUDE,
             {"output_config": {"effort": "high", "format": _FORMAT}}),
    _setting("an answer by schema", "output", OPENAI, {"text": {"format": _FORMAT}}),
    _setting("a key for each request", "routing", OPENAI,
             {"prompt_cache_key": "9d1c-0002"}, {"prompt_cache_key": "9d1c-0001"}),
    _setting("the key was left out", "routing", OPENAI, {"prompt_cache_key": None}),
    _setting("one call at a time", "setting", OPENAI,
             {"parallel_tool_calls": False}, {"parallel_tool_calls": True}),
)  # fmt: skip


# Tools: the list as it becomes.


def _tools(
    kind: str, cause: str, path: str, write: Callable[[list[Body]], list[Body]],
    layouts: Layouts = LAYOUTS,
) -> Fault:  # fmt: skip
    def change(_: random.Random, body: Body) -> str:
        body["tools"] = write(body["tools"])
        return path

    return _fault(kind, cause, change, layouts)


def _new(tools: list[Body], *names: str) -> list[Body]:
    return [tools[0] | {"name": name} for name in names]


def _schemas(tools: list[Body], write: Callable[[Body], Body]) -> list[Body]:
    key = "input_schema" if "input_schema" in tools[0] else "parameters"
    return [tool | {key: write(tool[key])} for tool in tools]


_TOOLS: Final = (
    _tools("a server came late", "tool_added", "tools[9]",
           lambda t: t + _new(t, "mcp__tracker__find", "mcp__tracker__open")),
    _tools("the vendor's search comes first", "tool_added", "tools[0]",
           lambda t: [{"type": "web_search_20250305", "name": "web_search"}, *t], CLAUDE),
    _tools("the vendor's search comes first", "tool_added", "tools[0]",
           lambda t: [{"type": "web_search"}, *t], OPENAI),
    _tools("a server died", "tool_removed", "tools[4]", lambda t: t[:4] + t[6:]),
    _tools("all tools were taken", "tool_removed", "tools", lambda _: []),
    _tools("deferred tools were loaded", "tools_replaced", "tools[8]",
           lambda t: t[:8] + _new(t, "mcp__mail__list", "mcp__mail__send")),
    _tools("an update sorts tools", "tools_reordered", "tools[0]",
           lambda t: sorted(t, key=lambda tool: tool["name"])),
    _tools("an agent of the user's", "tool_reworded", "tools[7]", lambda t: [
        *t[:7], t[7] | {"description": t[7]["description"] + "\n- reviewer"}, *t[8:]]),
    _tools("schemas of a hash map", "reserialized", "tools[0]",
           lambda t: _schemas(t, lambda s: dict(reversed(s.items())))),
    _tools("schemas were closed", "tool_schema", "tools[0]",
           lambda t: _schemas(t, lambda s: s | {"additionalProperties": False})),
)  # fmt: skip


# Instructions: a line that stands in both requests for an old one, and what it becomes.


def _line(kind: str, cause: str, old: str, was: str, now: str, layouts: Layouts = LAYOUTS) -> Fault:
    return _fault(
        kind, cause, lambda _, body: replace_system(body, was, now), layouts,
        given=lambda _, body: replace_system(body, old, was),
    )  # fmt: skip


def _style_and_day(_: random.Random, body: Body) -> str | None:
    replace_system(body, "2026-11-15", "2026-11-16")
    return replace_system(body, "that works on code", "that teaches while it works on code")


_DAY: Final = "Today's date: 2026-11-15"
_ROLE: Final = "You are an agent that works on code."
_BILLING: Final = "x-anthropic-billing-header: v=2.1;"
_HEADER: Final = "x-anthropic-billing-header: cc_version=2.1.325.d4e; cc_entrypoint=cli; cch={};"
_FILE: Final = "Contents of /work/project/CLAUDE.md (project instructions, checked in):\n\n"
_DIRTY: Final = "modified: src/app.py"
_INSTRUCTIONS: Final = (
    _line("a day in words", "date", _DAY,
          "Today is Sunday, 15 November 2026.", "Today is Monday, 16 November 2026."),
    _line("a moment", "date", _DAY,
          "Current time: 2026-11-15T09:14:03+01:00", "Current time: 2026-11-15T09:15:20+01:00"),
    _line("a month", "date", _DAY,
          "The current month is November 2026.", "The current month is December 2026."),
    _line("a header with a checksum", "billing", _BILLING,
          _HEADER.format("00a1f"), _HEADER.format("7f3c2"), CLAUDE),
    _line("another branch", "environment", "On branch main", "On branch main", "On branch fix/q"),
    _line("a commit was made", "environment", _DIRTY,
          f"{_DIRTY}\nRecent commits:\n3f9a2c1 keep the queue short",
          f"{_DIRTY}\nRecent commits:\na81be04 seal it\n3f9a2c1 keep the queue short"),
    _line("another directory", "environment", "/work/project\n", "/work/project\n", "/work/web\n"),
    _line("turns are counted", "random", _ROLE, f"Turn 12.\n{_ROLE}", f"Turn 13.\n{_ROLE}"),
    _line("a trace", "random", _ROLE, f"Trace: 4bf92f3577b34da6a3ce929d0e0e4736\n{_ROLE}",
          f"Trace: 00f067aa0ba902b7c1d2e3f405162738\n{_ROLE}"),
    _line("a fence", "random", _ROLE, f"Data stands between k7Qp2xZ9vB marks.\n{_ROLE}",
          f"Data stands between Wm4tR8sLq1 marks.\n{_ROLE}"),
    _line("a rule in the file", "memory", MEMORY,
          f"{MEMORY}Run the tests with make test.\n", f"{MEMORY}Run the tests with pytest.\n"),
    _line("a rule in the other agent's file", "memory", MEMORY,
          f"{_FILE}- Indent by tabs.\n", f"{_FILE}- Indent by spaces.\n"),
    _line("a file of a folder", "memory", MEMORY, MEMORY,
          f"# Instructions of the project (from web/AGENTS.md)\nUse no framework.\n{MEMORY}"),
    _line("a style", "instructions", _ROLE, _ROLE, f"{_ROLE} Explain what you do as you do it."),
    _line("a rule less", "instructions", _ROLE, f"{_ROLE} Never commit by yourself.", _ROLE),
    _fault("a style, then a day", "instructions", _style_and_day),
)  # fmt: skip


# The conversation: what is put where other messages stood.

Splice: TypeAlias = tuple[int, int, list[Body]]
END: Final = 1_000


def _spliced(
    kind: str, cause: str, splice: Callable[[random.Random, Body], Splice],
    layouts: Layouts = LAYOUTS, given: Given | None = None,
) -> Fault:  # fmt: skip
    def change(rng: random.Random, body: Body) -> str:
        start, end, new = splice(rng, body)
        messages_of(body)[start:end] = new
        _mark_the_end(body)
        return where(body, start)

    return _fault(kind, cause, change, layouts, given=given)


def _put(index: int, *new: Body) -> Splice:
    return index, index, list(new)


def _second(kind: str, cause: str, was: str, now: str) -> Fault:
    """Words behind the second question."""

    def given(_: random.Random, body: Body) -> None:
        messages_of(body)[_questions(body)[1]]["content"].append(_block(body, was))

    def change(_: random.Random, body: Body) -> str:
        messages_of(body)[_questions(body)[1]]["content"][-1]["text"] = now
        return where(body, _questions(body)[1])

    return _fault(kind, cause, change, given=given)


def _result(kind: str, cause: str, write: Callable[[random.Random, str], str]) -> Fault:
    def change(rng: random.Random, body: Body) -> str:
        index = rng.choice(_results(body))
        item = messages_of(body)[index]
        holder, key = (item["content"][0], "content") if _claude(body) else (item, "output")
        holder[key] = write(rng, holder[key])
        return where(body, index)

    return _fault(kind, cause, change)


def _call(kind: str, cause: str, was: Body, now: Body) -> Fault:
    """The arguments of the second call."""

    def rewrite(body: Body, arguments: Body) -> str:
        index, at = blocks_of(body, ("tool_use", "function_call"))[1]
        item = messages_of(body)[index]
        if at < 0:
            item["arguments"] = json.dumps(arguments)
        else:
            item["content"][at]["input"] = arguments
        return where(body, index)

    def given(_: random.Random, body: Body) -> None:
        rewrite(body, was)

    return _fault(kind, cause, lambda _, body: rewrite(body, now), given=given)


def _leaving_out(body: Body, start: int, end: int, gone: Callable[[Body], bool]) -> Splice:
    kept = [item for item in messages_of(body)[start:end] if not gone(item)]
    for item in kept:
        if isinstance(item.get("content"), list):
            item["content"] = [block for block in item["content"] if not gone(block)]
    return start, end, [item for item in kept if item.get("content") != []]


def _by_text(body: Body, index: int, old: str, new: str) -> Splice:
    """A message whose JSON has something else for what a pattern finds."""
    return index, index + 1, [json.loads(re.sub(old, new, json.dumps(messages_of(body)[index])))]


def _two_at_once(rng: random.Random, body: Body) -> None:
    index = _questions(body)[0] + 1
    messages_of(body)[index:index] = _calls(body, text(rng, 20), text(rng, 30))


def _slower_last(_: random.Random, body: Body) -> str:
    items, index = messages_of(body), _questions(body)[0] + (2 if _claude(body) else 3)
    if _claude(body):
        items[index]["content"].reverse()
    else:
        items[index : index + 2] = reversed(items[index : index + 2])
    return where(body, index)


_TASKS: Final = "<system-reminder>Open tasks: {}</system-reminder>"
_EMPTY: Final = "<system-reminder>\nThe list of tasks is empty.\n</system-reminder>"
_TAGGED: Final = "<user-prompt-submit-hook>coverage is at {} percent</user-prompt-submit-hook>"
_POST: Final = "PostToolUse hook additional context: lint is clean"
_CONTINUED: Final = (
    "This session is being continued from a previous conversation that ran out of context. The "
    "summary below covers the earlier portion of the conversation.\n\nSummary:\n"
)
_HANDED: Final = "Another language model started to solve this problem. Here is its summary:\n"
_MESSAGES: Final = (
    _spliced("a reminder behind a result", "reminder",
             lambda r, b: _put(r.choice(_results(b)) + 1, _message(b, "user", _EMPTY))),
    _second("tasks were reminded of", "reminder",
            _TASKS.format("parser, writer"), _TASKS.format("writer")),
    _spliced("a hook's words were taken out", "hook", lambda _, b: _leaving_out(
        b, i := texts_with(b, "UserPromptSubmit hook")[0][0], i + 1,
        lambda block: "UserPromptSubmit hook" in block.get("text", ""))),
    _spliced("a hook behind a result", "hook",
             lambda r, b: _put(r.choice(_results(b)) + 1, _message(b, "system", _POST))),
    _second("a hook in tags", "hook", _TAGGED.format(81), _TAGGED.format(82)),
    _spliced("a summary and the last turn", "compaction", lambda r, b: (
        _first(b), _questions(b)[-1], [_message(b, "user", _CONTINUED + text(r, 80))])),
    _spliced("a summary of any agent", "compaction", lambda r, b: (_first(b), END, [
        _message(b, "user", f"Summary of the conversation so far:\n{text(r, 80)}")])),
    _spliced("handed over to another", "compaction", lambda r, b: (
        2, END, [*(b["input"][i] for i in _questions(b)[1:]),
                 _message(b, "user", _HANDED + text(r, 80))]), OPENAI),
    _spliced("an item of compaction", "compaction", lambda r, b: (
        1, _questions(b)[-1], [{"type": "compaction", "encrypted_content": text(r, 60)}]), OPENAI),
    _spliced("begun anew", "cleared",
             lambda r, b: (_first(b), END, [_message(b, "user", text(r, 25))])),
    _spliced("gone back", "rewound", lambda r, b: (
        r.choice(_questions(b)[1:-1]), END, [_message(b, "user", text(r, 25))])),
    _second("a password was masked", "edited",
            "The password is hunter2 for now.", "The password is [hidden] for now."),
    _spliced("an answer was rewritten", "edited", lambda r, b: (
        i := r.choice(_answers(b)), i + 1, [_message(b, "assistant", text(r, 30))])),
    _call("a path was made absolute", "edited", {"path": "a.py"}, {"path": "/work/project/a.py"}),
    _result("a file was read again", "edited", lambda r, _: text(r, 160)),
    _second("line ends of Unix", "spaced", "Lines:\r\n1\r\n2\r\nAll.", "Lines:\n1\n2\nAll."),
    _second("a question was stripped", "spaced", "Look at it, too.\n\n", "Look at it, too."),
    _call("keys inside arguments", "reserialized",
          {"path": "a.py", "edits": [{"old": "a b", "new": "a c"}]},
          {"path": "a.py", "edits": [{"new": "a c", "old": "a b"}]}),
    _spliced("an interruption was noted", "inserted", lambda r, b: _put(
        r.choice(_questions(b)[1:]), _message(b, "user", "[Request interrupted by user]"),
        _message(b, "assistant", "I have stopped."))),
    _spliced("the editor speaks", "inserted", lambda r, b: _put(
        r.choice(_questions(b)[1:]), _message(b, "system", "The user opened src/app.py."))),
    _spliced("an answer was filtered", "dropped",
             lambda r, b: (i := r.choice(_answers(b)), i + 1, [])),
    _spliced("a turn was taken out", "dropped",
             lambda _, b: (_questions(b)[1], _questions(b)[2], [])),
    _spliced("two turns were kept", "window", lambda _, b: (_first(b), _questions(b)[-2], [])),
    _fault("the slower result came last", "reordered", _slower_last, given=_two_at_once),
    _result("a result by its head", "result_cut", lambda _, old: f"{old[:200]}… [truncated]"),
    _result("a result by its ends", "result_cut",
            lambda _, old: f"{old[:150]}\n[... 812 lines omitted ...]\n{old[-150:]}"),
    _result("a result was put away", "result_cut",
            lambda _, __: "<persisted-output>Too large, saved to out.txt</persisted-output>"),
    _spliced("thoughts of old turns", "reasoning", lambda _, b: _leaving_out(
        b, _thoughts(b)[0], _questions(b)[-1],
        lambda block: block.get("type") in ("thinking", "reasoning"))),
    _spliced("signed anew", "reasoning", lambda r, b: _by_text(
        b, r.choice(_thoughts(b)), r'(signature|encrypted\w+)": "[^"]*', rf'\1": "{text(r, 9)}')),
    _spliced("an image was made smaller", "image", lambda r, b: _by_text(
        b, _questions(b)[0], "[0-9a-f]{64}", f"{r.getrandbits(160):040x}")),
)  # fmt: skip


# The vendor.


def _marked(mark: Body | None, only: str = "") -> Change:
    """Write each mark of the cache anew; or the one mark at the end, or none at all."""

    def change(_: random.Random, body: Body) -> str:
        spoken = [m["content"] for m in messages_of(body) if isinstance(m.get("content"), list)]
        for block in [*body.get("system", ()), *(block for blocks in spoken for block in blocks)]:
            if only:
                block.pop("cache_control", None)
                block.pop("prompt_cache_breakpoint", None)
            elif "cache_control" in block:
                block["cache_control"] = mark
        if only == "end":
            _mark_the_end(body)
        return ""

    return change


def _breakpoint(_: random.Random, body: Body) -> None:
    body["prompt_cache_options"] = {"mode": "explicit"}
    last = messages_of(body)[_questions(body)[-1]]["content"][-1]
    last["prompt_cache_breakpoint"] = {"mode": "explicit"}


def _many_files(rng: random.Random, body: Body) -> str:
    messages_of(body)[-1]["content"] += [_block(body, text(rng, 20)) for _ in range(26)]
    return _marked(None, "end")(rng, body) or ""


_for_an_hour: Final = _marked({"type": "ephemeral", "ttl": "1h"})
_one_mark: Final = _marked(None, "end")
_VENDOR: Final = (
    _fault("a meal", "expired", _nothing, CLAUDE, idle_s=2_400, reported="nothing"),
    _fault("a long meeting", "expired", _nothing, CLAUDE, given=_for_an_hour,
           idle_s=4_500, reported="nothing"),
    _fault("marks are null", "unmarked", _marked(None), CLAUDE, reported="nothing"),
    _fault("no breakpoint is left", "unmarked", _marked(None, "none"), OPENAI,
           given=_breakpoint, reported="nothing"),
    _fault("many files at once", "lookback", _many_files, CLAUDE,
           given=_one_mark, reported="nothing"),
    _fault("lost within the hour", "lost", _nothing, CLAUDE, given=_for_an_hour,
           idle_s=1_500, reported="nothing"),
    _fault("lost at once", "lost", _nothing, reported="nothing", idle_s=1),
    _setting("lost under another name", "lost", CLAUDE,
             {"metadata": {"user_id": "b"}}, {"metadata": {"user_id": "a"}}),
)  # fmt: skip

BLIND: Final = (*_SETTINGS, *_TOOLS, *_INSTRUCTIONS, *_MESSAGES, *_VENDOR)
HARMLESS: Final = (
    _spliced("a string is a block", "", lambda r, b: (i := r.choice(_answers(b)), i + 1, [
        _message(b, "assistant", messages_of(b)[i]["content"])]), CLAUDE),
    _spliced("a string is a block", "", lambda r, b: (i := r.choice(_answers(b)), i + 1, [
        b["input"][i] | {"content": b["input"][i]["content"][0]["text"]}]), OPENAI),
    _fault("marks stand elsewhere", "", _one_mark, CLAUDE),
    _setting("a shorter answer in one piece", "", CLAUDE, {"max_tokens": 8_000, "stream": False}),
    _setting("a shorter answer in one piece", "", OPENAI,
             {"max_output_tokens": 8_000, "stream": False}),
    _setting("another name of the user", "", CLAUDE,
             {"metadata": {"user_id": "b"}}, {"metadata": {"user_id": "a"}}),
    _setting("another name of the user", "", OPENAI,
             {"metadata": {"name": "b"}}, {"metadata": {"name": "a"}}),
    _spliced("reminder and hook at the end", "", lambda _, b: _put(
        END, _message(b, "user", _EMPTY), _message(b, "system", _POST))),
    _spliced("more calls at the end", "", lambda r, b: _put(
        END, *_calls(b, *(text(r, 60) for _ in range(5))))),
    _spliced("asked once more", "", lambda _, b: (-2 if _claude(b) else -3, END, [])),
    _fault("a short pause", "", _nothing, idle_s=240),
    _fault("a pause within the hour", "", _nothing, CLAUDE, given=_for_an_hour, idle_s=3_000),
)  # fmt: skip
