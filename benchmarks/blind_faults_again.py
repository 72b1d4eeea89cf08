"""Still further ways to lose a prompt cache, written without having read what names them.

Written on 2026-11-16, after what the first such set showed had been repaired, by somebody who had
not read the classifier; to be scored once. Their author knew what users are told
(`docs/gateway.md`), the causes with their words (`sightline.context.dialects.drift`), the
sessions and faults of `benchmarks.faults` and `benchmarks.blind_faults`, and what agents and
vendors are known to do; neither the code that is scored nor its tests.

    BLIND       changes by which a cache is lost, with the cause and the place
    HARMLESS    changes by which nothing is lost: nothing may be found

Where several things changed at once, the first that the vendor reads is expected: settings, then
tools, instructions and messages.
"""

from __future__ import annotations

import copy
import inspect
import json
import random
from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from benchmarks.faults import (
    CLAUDE,
    OPENAI,
    Body,
    Fault,
    is_question,
    messages_of,
    pairs_of,
    replace_system,
    text,
    where,
)

__all__ = ["BLIND", "HARMLESS"]

Given: TypeAlias = Callable[[random.Random, Body], None]


# Where something stands. What both requests must agree on is counted from the beginning: the
# first three questions and the first four calls are in every session.


def _claude(body: Body) -> bool:
    return "messages" in body


def _words(body: Body, said: str) -> Body:
    return {"type": "text" if _claude(body) else "input_text", "text": said}


def _from(body: Body, role: str, said: str) -> Body:
    message: Body = {"role": role, "content": [_words(body, said)]}
    return message if _claude(body) else {"type": "message", **message}


def _aside(body: Body, said: str) -> Body:
    """What the agent itself says between the messages."""
    if _claude(body):
        return {"role": "system", "content": said}
    return _from(body, "developer", said)


def _asked(body: Body) -> list[int]:
    found = enumerate(messages_of(body))
    return [i for i, m in found if m.get("role") == "user" and is_question(m)]


def _answered(body: Body) -> list[int]:
    """Where the assistant speaks and calls nothing."""
    return [
        i for i, m in enumerate(messages_of(body))
        if m.get("role") == "assistant"
        and (isinstance(m["content"], str) or m["content"][-1]["type"] in ("text", "output_text"))
    ]  # fmt: skip


def _spoken(body: Body, index: int) -> str:
    content = messages_of(body)[index]["content"]
    said: str = content if isinstance(content, str) else content[-1]["text"]
    return said


def _speak(body: Body, index: int, said: str) -> str:
    message = messages_of(body)[index]
    if isinstance(message["content"], str):
        message["content"] = said
    else:
        message["content"][-1]["text"] = said
    return where(body, index)


def _change_first(body: Body, change: Callable[[str], str]) -> str | None:
    """Change the first question or answer that the change makes another of."""
    for index in sorted(_asked(body) + _answered(body)):
        old = _spoken(body, index)
        if (new := change(old)) != old:
            return _speak(body, index, new)
    return None


def _holder(body: Body, end: int) -> tuple[Body, str]:
    """What holds the result that ends a pair, and by which key."""
    message = messages_of(body)[end - 1]
    return (message["content"][0], "content") if _claude(body) else (message, "output")


def _arguments(body: Body, first: int) -> Body:
    message = messages_of(body)[first]
    found: Body = (
        message["content"][-1]["input"] if _claude(body) else json.loads(message["arguments"])
    )
    return found


def _argue(body: Body, first: int, said: Body) -> str:
    message = messages_of(body)[first]
    if _claude(body):
        message["content"][-1]["input"] = said
    else:
        message["arguments"] = json.dumps(said)
    return where(body, first)


def _step_begins(body: Body, first: int) -> int:
    """Where what belongs to a call begins: its reasoning is an item of its own or a block."""
    return first if _claude(body) else first - 1


def _step(rng: random.Random, body: Body, name: str) -> list[Body]:
    said = {"path": f"src/{text(rng, 1)}.py", "limit": rng.randrange(99)}
    if _claude(body):
        thought = {"type": "thinking", "thinking": text(rng, 12), "signature": text(rng, 3)}
        call = {"type": "tool_use", "id": name, "name": "Read", "input": said}
        result = {"type": "tool_result", "tool_use_id": name, "content": text(rng, 90)}
        return [
            {"role": "assistant", "content": [thought, call]},
            {"role": "user", "content": [result]},
        ]
    return [
        {"type": "reasoning", "summary": [], "encrypted_content": text(rng, 9)},
        {"type": "function_call", "call_id": name, "name": "Read", "arguments": json.dumps(said)},
        {"type": "function_call_output", "call_id": name, "output": text(rng, 90)},
    ]


def _schema(tool: Body) -> Body:
    found: Body = tool["input_schema"] if "input_schema" in tool else tool["parameters"]
    return found


def _marks(body: Body) -> Iterator[Body]:
    """What is marked for the cache."""
    lists = [body["system"], body["tools"]]
    lists += [m["content"] for m in messages_of(body) if isinstance(m["content"], list)]
    for blocks in lists:
        yield from (block for block in blocks if block.get("cache_control"))


def _mark_last(body: Body) -> None:
    if _claude(body):
        messages_of(body)[-1]["content"][-1]["cache_control"] = {"type": "ephemeral"}


def _line(*lines: str) -> Given:
    """One of these lines stands in the instructions."""

    def write(rng: random.Random, body: Body) -> None:
        replace_system(body, "# Environment\n", f"{rng.choice(lines)}\n# Environment\n")

    return write


def _long(rng: random.Random, body: Body) -> None:
    """Many calls follow the first question."""
    at = _asked(body)[0] + 1
    new: list[Body] = []
    for index in range(rng.randrange(30, 60)):
        new += _step(rng, body, f"long_{index}")
    messages_of(body)[at:at] = new


def _short(_: random.Random, body: Body) -> None:
    """Only the newest question was ever asked."""
    first = 0 if _claude(body) else 1
    del messages_of(body)[first : _asked(body)[-1]]


# Settings.


def _another_model_plans(rng: random.Random, body: Body) -> str:
    body["model"] = "claude-sonnet-5-5" if _claude(body) else "gpt-6-luna"
    _prompt_appended(rng, body)
    _answer_reworded(rng, body)
    return ""


def _openai_effort(rng: random.Random, body: Body) -> str:
    body["reasoning"]["effort"] = rng.choice(("none", "high", "xhigh"))
    return ""


def _answer_schema_given(_: random.Random, body: Body) -> None:
    finding = {
        "type": "object",
        "properties": {
            "file": {"type": "string", "description": "Where it was found."},
            "line": {"type": "integer", "minimum": 1},
        },
        "required": ["file", "line"],
    }
    schema = {
        "type": "object",
        "properties": {"findings": {"type": "array", "maxItems": 5, "items": finding}},
    }
    if _claude(body):
        body["output_config"]["format"] = {"type": "json_schema", "schema": schema}
    else:
        body["text"] = {"format": {"type": "json_schema", "name": "found", "schema": schema}}


def _answer_schema_deep_inside(rng: random.Random, body: Body) -> str:
    holder = body["output_config"] if _claude(body) else body["text"]
    findings = holder["format"]["schema"]["properties"]["findings"]
    if rng.random() < 0.5:
        findings["maxItems"] = rng.randrange(6, 40)
    else:
        findings["items"]["properties"]["file"]["description"] = "The file, from the root."
    return ""


def _thinking_adapts(rng: random.Random, body: Body) -> str:
    if rng.random() < 0.5:
        body["thinking"] = {"type": "adaptive"}
    else:
        del body["thinking"]
    return ""


def _choice_given(_: random.Random, body: Body) -> None:
    body["tool_choice"] = {"type": "auto"}


def _one_call_at_a_time(_: random.Random, body: Body) -> str:
    body["tool_choice"]["disable_parallel_tool_use"] = True
    return ""


def _key_left_out(_: random.Random, body: Body) -> str:
    del body["prompt_cache_key"]
    return ""


def _parallel_given(_: random.Random, body: Body) -> None:
    body["parallel_tool_calls"] = True


def _no_parallel_calls(_: random.Random, body: Body) -> str:
    body["parallel_tool_calls"] = False
    return ""


# Tools.


def _web_search_switched_on(rng: random.Random, body: Body) -> str:
    at = rng.choice((0, len(body["tools"]) // 2, len(body["tools"])))
    new: Body = {"type": "web_search"}
    if _claude(body):
        new = {"type": "web_search_20260209", "name": "web_search", "max_uses": 5}
    body["tools"].insert(at, new)
    return f"tools[{at}]"


def _last_tools_withdrawn(rng: random.Random, body: Body) -> str:
    at = len(body["tools"]) - rng.randrange(1, 4)
    del body["tools"][at:]
    return f"tools[{at}]"


def _tools_withheld(rng: random.Random, body: Body) -> str:
    # Some agents ask for the last answer without any tools.
    if rng.random() < 0.5:
        body["tools"] = []
    else:
        del body["tools"]
    return "tools[0]"


def _placeholder_given(rng: random.Random, body: Body) -> None:
    new = copy.deepcopy(body["tools"][0])
    new |= {"name": "DeferredToolPlaceholder", "description": "Stands for tools not yet loaded."}
    body["tools"].insert(rng.randrange(len(body["tools"]) + 1), new)


def _placeholder_resolved(rng: random.Random, body: Body) -> str:
    tools = body["tools"]
    at = next(i for i, tool in enumerate(tools) if tool["name"] == "DeferredToolPlaceholder")
    loaded = [
        copy.deepcopy(tools[at])
        | {"name": f"mcp__tracker__{name}", "description": text(rng, 25)}
        for name in ("open_issue", "list_issues", "close_issue", "label")[: rng.randrange(1, 5)]
    ]  # fmt: skip
    tools[at : at + 1] = loaded
    return f"tools[{at}]"


def _tools_sorted(rng: random.Random, body: Body) -> str:
    old = [tool["name"] for tool in body["tools"]]
    if rng.random() < 0.5:
        body["tools"].sort(key=lambda tool: tool["name"].casefold())
    else:
        begin = rng.randrange(3)
        middle, end = rng.randrange(begin + 1, begin + 3), rng.randrange(begin + 3, len(old) + 1)
        tools = body["tools"]
        tools[begin:end] = tools[middle:end] + tools[begin:middle]
    new = [tool["name"] for tool in body["tools"]]
    at = next(i for i, (a, b) in enumerate(zip(old, new, strict=True)) if a != b)
    return f"tools[{at}]"


def _agents_given(rng: random.Random, body: Body) -> None:
    tool = next(tool for tool in body["tools"] if tool["name"] == "Task")
    names = ("explorer", "reviewer", "planner", "statusline-setup")
    listed = "".join(f"- {name}: {text(rng, 9)}\n" for name in names)
    tool["description"] = f"Start an agent for a task.\n\nAvailable agents:\n{listed}"


def _agents_in_another_order(rng: random.Random, body: Body) -> str:
    at = next(i for i, tool in enumerate(body["tools"]) if tool["name"] == "Task")
    tool = body["tools"][at]
    head, _, listed = tool["description"].partition("agents:\n")
    old = listed.splitlines(keepends=True)
    new = old[:]
    while new == old:
        rng.shuffle(new)
    tool["description"] = f"{head}agents:\n{''.join(new)}"
    return f"tools[{at}]"


def _indented_given(rng: random.Random, body: Body) -> None:
    tool = body["tools"][rng.choice((0, 4, -1))]
    tool["description"] = f"\n    {text(rng, 12)}\n\n    {text(rng, 14)}\n    "


def _description_trimmed(_: random.Random, body: Body) -> str:
    for at, tool in enumerate(body["tools"]):
        if tool["description"].startswith("\n"):
            tool["description"] = inspect.cleandoc(tool["description"])
            return f"tools[{at}]"
    raise AssertionError


def _edits_given(rng: random.Random, body: Body) -> None:
    schema = _schema(body["tools"][rng.choice((0, 2, 5, -1))])
    edit = {
        "type": "object",
        "properties": {
            "old": {"type": "string", "maxLength": 4_000},
            "new": {"type": "string", "maxLength": 4_000},
            "all": {"type": "boolean", "default": False},
        },
        "required": ["old", "new"],
        "additionalProperties": False,
    }
    schema["properties"]["edits"] = {"type": "array", "minItems": 1, "items": edit}
    schema["properties"]["mode"] = {"anyOf": [{"type": "string"}, {"type": "null"}]}
    schema["required"] = ["path", "edits", "mode"]


def _edits_of(body: Body) -> tuple[int, Body]:
    for at, tool in enumerate(body["tools"]):
        if "edits" in _schema(tool)["properties"]:
            return at, _schema(tool)
    raise AssertionError


def _limit_deep_inside(rng: random.Random, body: Body) -> str:
    at, schema = _edits_of(body)
    items = schema["properties"]["edits"]["items"]
    match rng.randrange(4):
        case 0:
            items["properties"]["new"]["maxLength"] = rng.choice((3_999, 8_000, 100_000))
        case 1:
            items["properties"]["old"]["pattern"] = "^.+$"
        case 2:
            items["additionalProperties"] = True
        case _:
            schema["properties"]["mode"]["anyOf"].pop()
    return f"tools[{at}]"


def _required_in_another_order(rng: random.Random, body: Body) -> str:
    # What a set of names is written as differs from run to run.
    at, schema = _edits_of(body)
    orders = (["edits", "mode", "path"], ["mode", "path", "edits"], ["path", "mode", "edits"])
    schema["required"] = rng.choice(orders)
    return f"tools[{at}]"


def _flag_as_a_number(_: random.Random, body: Body) -> str:
    # A schema that went through a database comes back with 0 for false.
    at, schema = _edits_of(body)
    schema["properties"]["edits"]["items"]["properties"]["all"]["default"] = 0
    return f"tools[{at}]"


# Instructions.

DATES: Final = (
    ("Sunday, 15 November 2026", "Monday, 16 November 2026"),
    ("11/15/2026", "11/16/2026"),
    ("15.11.2026", "16.11.2026"),
    ("Nov 15, 2026", "Nov 16, 2026"),
    ("2026年11月15日", "2026年11月16日"),
    ("Sun Nov 15 23:58:41 UTC 2026", "Mon Nov 16 00:03:12 UTC 2026"),
    ("20261115T235841Z", "20261116T000312Z"),
    ("11:58 PM", "12:03 AM"),
)


def _date_given(rng: random.Random, body: Body) -> None:
    shown = rng.choice(("Today is ", "Date: ", "It is now ")) + rng.choice(DATES)[0]
    replace_system(body, "Today's date: 2026-11-15", shown)


def _date_in_other_forms(_: random.Random, body: Body) -> str | None:
    for old, new in DATES:
        if path := replace_system(body, old, new):
            return path
    return None


def _billing_line_left(_: random.Random, body: Body) -> str:
    del body["system"][0]
    return "system[0]"


def _commits_given(_: random.Random, body: Body) -> None:
    commits = "Recent commits:\n9f3c2ab Read tokens once\n07d1e44 Begin\n"
    replace_system(body, "modified: src/app.py\n", f"modified: src/app.py\n{commits}")


def _committed(rng: random.Random, body: Body) -> str | None:
    new = f"Recent commits:\n{rng.getrandbits(28):07x} Keep the place\n"
    if rng.random() < 0.5:
        replace_system(body, "modified: src/app.py\n", "(clean)\n")
    return replace_system(body, "Recent commits:\n", new)


def _files_given(_: random.Random, body: Body) -> None:
    files = "Files in the working directory:\n- README.md\n- src/\n  - app.py\n  - parser.py\n"
    replace_system(body, "Platform: linux\n", f"Platform: linux\n{files}")


def _files_listed(rng: random.Random, body: Body) -> str | None:
    changes = (
        ("  - parser.py\n", "  - parser.py\n  - writer.py\n"),
        ("- README.md\n", "- README.md\n- notes.txt\n"),
        ("  - parser.py\n", ""),
    )
    return replace_system(body, *rng.choice(changes))


RULES: Final = (
    "CLAUDE.local.md",
    "GEMINI.md",
    ".cursorrules",
    ".cursor/rules/style.mdc",
    ".github/copilot-instructions.md",
)


def _rules_given(rng: random.Random, body: Body) -> None:
    said = "".join(f"- {text(rng, 7)}\n" for _ in range(4))
    _line(f"Contents of /work/project/{rng.choice(RULES)}:\n\n- First, read.\n{said}")(rng, body)


def _rules_of_other_agents(rng: random.Random, body: Body) -> str | None:
    new = rng.choice(("", f"- First, {text(rng, 4)}.\n", "- First, read.\n- Then, write.\n"))
    return replace_system(body, "- First, read.\n", new)


def _prompt_appended(rng: random.Random, body: Body) -> str:
    if "instructions" in body:
        body["instructions"] += f"\n\n{text(rng, 18)}"
        return "system[0]"
    body["system"].append({"type": "text", "text": text(rng, 18)})
    return f"system[{len(body['system']) - 1}]"


def _another_mode(rng: random.Random, body: Body) -> str | None:
    said = body["instructions"] if "instructions" in body else body["system"][-1]["text"]
    head = said.partition("# Environment\n")[0]
    return replace_system(body, head, f"You plan, and write nothing. {text(rng, 45)}\n")


def _language_chosen(rng: random.Random, body: Body) -> str | None:
    new = rng.choice(("Réponds toujours en français.", "请始终用中文回答。", "Отвечай по-русски."))
    return replace_system(body, "Always answer in English.", new)


# What the agent says between the messages and in the first of them.


def _dated_aside_given(rng: random.Random, body: Body) -> None:
    shown = rng.choice(DATES[:6])[0]
    said = f"# Environment\nWorking directory: /work/project\nToday's date is {shown}.\n"
    messages_of(body).insert(_asked(body)[0] + 1, _aside(body, said + text(rng, 30)))


def _date_between_messages(_: random.Random, body: Body) -> str | None:
    return _aside_rewritten(body, DATES)


def _aside_rewritten(body: Body, changes: tuple[tuple[str, str], ...]) -> str | None:
    index = _asked(body)[0] + 1
    for old, new in changes:
        said = _spoken(body, index)
        if old in said:
            return _speak(body, index, said.replace(old, new))
    return None


TRACES: Final = (
    "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    "01JCXW3Z8Q4V7N2K5M9R6T1YBD",
    "req_011CSHoEeqs5C35K2UUqR7Fy",
)


def _traced_given(rng: random.Random, body: Body) -> None:
    said = f"{text(rng, 14)}\nTrace: {rng.choice(TRACES)}\n{text(rng, 9)}"
    messages_of(body).insert(_asked(body)[0] + 1, _aside(body, said))


def _traced_anew(rng: random.Random, body: Body) -> str | None:
    new = (
        f"00-{rng.getrandbits(128):032x}-{rng.getrandbits(64):016x}-01",
        "01JCXW" + "".join(rng.choices("0123456789ABCDEFGHJKMNPQRSTVWXYZ", k=20)),
        "req_011CS" + "".join(rng.choices("abcdefghkmnpqrstuvwxyzABCDEFGHJ23456789", k=19)),
    )
    return _aside_rewritten(body, tuple(zip(TRACES, new, strict=True)))


def _opened(body: Body, said: str) -> None:
    messages_of(body)[_asked(body)[0]]["content"].insert(0, _words(body, said))


def _opening(body: Body, change: Callable[[str], str]) -> str:
    """Change the block that opens the first question."""
    index = _asked(body)[0]
    block = messages_of(body)[index]["content"][0]
    block["text"] = change(block["text"])
    return where(body, index)


def _editor_given(_: random.Random, body: Body) -> None:
    _opened(
        body,
        "<environment_details>\n# Visible files\nsrc/app.py\n\n# Open tabs\nsrc/app.py\n"
        "src/parser.py\n\n# Actively running terminals\nmake watch\n</environment_details>",
    )


def _editor_shows_others(rng: random.Random, body: Body) -> str:
    changes = (
        ("src/parser.py\n", "src/parser.py\nsrc/größe.py\n"),
        ("files\nsrc/app.py", "files\nREADME.md"),
        ("# Actively running terminals\nmake watch\n", ""),
    )
    return _opening(body, lambda said: said.replace(*rng.choice(changes)))


def _file_given(rng: random.Random, body: Body) -> None:
    name = "CLAUDE.md" if _claude(body) else "AGENTS.md"
    said = f"Contents of /work/project/{name} (instructions of the project):\n\n{text(rng, 30)}\n"
    _opened(body, f"<system-reminder>\n{said}</system-reminder>")


def _second_file_read(rng: random.Random, body: Body) -> str:
    # The agent went into a folder that has a file of its own.
    name = "CLAUDE.md" if _claude(body) else "AGENTS.md"
    said = f"\nContents of /work/project/web/{name} (instructions of the folder):\n\n"
    new = f"{said}{text(rng, 20)}\n</system-reminder>"
    return _opening(body, lambda old: old.replace("</system-reminder>", new))


def _tagged_hook_given(rng: random.Random, body: Body) -> None:
    said = f"<user-prompt-submit-hook>\n{text(rng, 11)}\n</user-prompt-submit-hook>"
    _opened(body, said)


def _tagged_hook(rng: random.Random, body: Body) -> str:
    new = f"<user-prompt-submit-hook>\n{text(rng, 13)}\n</user-prompt-submit-hook>"
    return _opening(body, lambda _: new)


def _hook_message_given(rng: random.Random, body: Body) -> None:
    end = pairs_of(body)[rng.randrange(4)][1]
    said = f"PostToolUse:Read hook additional context: {text(rng, 10)}"
    messages_of(body).insert(end, _aside(body, said))


def _hook_message_left(_: random.Random, body: Body) -> str:
    for index, message in enumerate(messages_of(body)):
        if "PostToolUse:Read hook" in str(message.get("content")):
            del messages_of(body)[index]
            return where(body, index)
    raise AssertionError


def _reminded_results_given(rng: random.Random, body: Body) -> None:
    said = f"\n\n<system-reminder>\n{text(rng, 15)}\n</system-reminder>\n"
    for _, end in pairs_of(body)[:4]:
        holder, key = _holder(body, end)
        holder[key] += said


def _reminder_in_results_left(rng: random.Random, body: Body) -> str:
    chosen = sorted(rng.sample(pairs_of(body)[:4], rng.randrange(1, 5)))
    for _, end in chosen:
        holder, key = _holder(body, end)
        holder[key] = holder[key].partition("\n\n<system-reminder>")[0]
    return where(body, chosen[0][1] - 1)


def _reminder_put_in_late(rng: random.Random, body: Body) -> str:
    index = rng.choice(_asked(body)[:2])
    content = messages_of(body)[index]["content"]
    said = f"<system-reminder>\nPlan mode is active. {text(rng, 12)}\n</system-reminder>"
    content.insert(rng.randrange(len(content) + 1), _words(body, said))
    return where(body, index)


# The conversation.


def _fences_given(rng: random.Random, body: Body) -> None:
    mark = f"{rng.getrandbits(48):012x}"
    for _, end in pairs_of(body)[:4]:
        holder, key = _holder(body, end)
        holder[key] = f"<untrusted-{mark}>\n{holder[key]}\n</untrusted-{mark}>"


def _fences_drawn_anew(rng: random.Random, body: Body) -> str:
    # What strangers wrote is fenced with a mark that nobody can guess: a new one each time.
    mark = f"{rng.getrandbits(48):012x}"
    for _, end in pairs_of(body)[:4]:
        holder, key = _holder(body, end)
        inner = holder[key].split("\n", 1)[1].rsplit("\n", 1)[0]
        holder[key] = f"<untrusted-{mark}>\n{inner}\n</untrusted-{mark}>"
    return where(body, pairs_of(body)[0][1] - 1)


def _compacted_but_for_questions(rng: random.Random, body: Body) -> str:
    first = _asked(body)[0]
    messages = messages_of(body)
    asked = [messages[i] for i in _asked(body)]
    said = (
        "Another language model started to solve this problem and produced a summary of its "
        f"thinking process. Use it to build on what has been done: {text(rng, 60)}"
    )
    messages[:] = [*messages[:first], *asked, _from(body, "user", said)]
    _mark_last(body)
    return where(body, first + 1)


def _compacted_by_the_vendor(rng: random.Random, body: Body) -> str:
    messages = messages_of(body)
    summary = {"type": "compaction", "content": f"<summary>{text(rng, 60)}</summary>"}
    messages[-2]["content"].insert(0, summary)
    messages[1:-2] = []
    return where(body, 1)


def _tried_again(rng: random.Random, body: Body) -> str:
    at = _step_begins(body, pairs_of(body)[rng.randrange(1, 4)][0])
    messages_of(body)[at:] = _step(rng, body, f"again_{rng.getrandbits(24):06x}")
    _mark_last(body)
    return where(body, at)


def _answer_reworded(rng: random.Random, body: Body) -> str:
    index = _answered(body)[-1]
    return _speak(body, index, f"{_spoken(body, index)} {text(rng, 4)}")


def _secret_given(rng: random.Random, body: Body) -> None:
    index = _asked(body)[rng.randrange(2)]
    said = f"{_spoken(body, index)} Use ghp_16C7e42F292c6912E7710c838347Ae178B4a to push it."
    _speak(body, index, said)


def _secret_blanked(rng: random.Random, body: Body) -> str | None:
    new = rng.choice(("[redacted]", "***", "<SECRET>"))
    return _change_first(
        body, lambda said: said.replace("ghp_16C7e42F292c6912E7710c838347Ae178B4a", new)
    )


def _odd_characters_given(rng: random.Random, body: Body) -> None:
    index = sorted(_asked(body)[:2] + _answered(body)[:2])[rng.randrange(4)]
    said = _spoken(body, index)
    _speak(body, index, f'{said} It said "<b>größer</b>" & that is 🙂 for 用户.')


def _characters_mangled(rng: random.Random, body: Body) -> str | None:
    changes: tuple[Callable[[str], str], ...] = (
        lambda said: said.replace("🙂", "\ufffd\ufffd"),
        lambda said: said.replace('"<b>', "“<b>").replace('b>"', "b>”"),
        lambda said: said.replace("<b>", "&lt;b&gt;").replace("</b>", "&lt;/b&gt;"),
        lambda said: said.replace("größer", "grÃ¶ÃŸer"),
        lambda said: said.replace("用户", "??"),
    )
    return _change_first(body, rng.choice(changes))


def _result_refreshed(rng: random.Random, body: Body) -> str:
    # The file was changed since: the agent shows what it says now where it was read.
    end = rng.choice(pairs_of(body)[:4])[1]
    holder, key = _holder(body, end)
    words = holder[key].split()
    for at in rng.sample(range(len(words)), rng.randrange(2, 9)):
        words[at] = rng.choice(("returned", "otherwise", "größer"))
    holder[key] = " ".join(words)
    return where(body, end - 1)


def _result_called_an_error(rng: random.Random, body: Body) -> str:
    end = rng.choice(pairs_of(body)[:4])[1]
    _holder(body, end)[0]["is_error"] = True
    return where(body, end - 1)


def _written_given(rng: random.Random, body: Body) -> None:
    for first, _ in pairs_of(body)[:4]:
        _argue(body, first, {"path": "src/app.py", "content": text(rng, 70)})


def _calls_shortened(rng: random.Random, body: Body) -> str:
    chosen = sorted(rng.sample(pairs_of(body)[:4], rng.randrange(1, 5)))
    for first, _ in chosen:
        _argue(body, first, _arguments(body, first) | {"content": "[written to the file]"})
    return where(body, chosen[0][0])


def _document_given(rng: random.Random, body: Body) -> None:
    source = {"type": "text", "media_type": "text/plain", "data": text(rng, 50)}
    document = {"type": "document", "source": source, "citations": {"enabled": False}}
    messages_of(body)[_asked(body)[rng.randrange(2)]]["content"].insert(0, document)


def _citations_switched(_: random.Random, body: Body) -> str:
    for index in _asked(body):
        block = messages_of(body)[index]["content"][0]
        if block["type"] == "document":
            block["citations"]["enabled"] = True
            return where(body, index)
    raise AssertionError


def _one_word_far_back(rng: random.Random, body: Body) -> str:
    end = pairs_of(body)[rng.randrange(5, 25)][1]
    holder, key = _holder(body, end)
    words = holder[key].split()
    words[rng.randrange(len(words))] = "otherwise"
    holder[key] = " ".join(words)
    return where(body, end - 1)


def _only_question_edited(rng: random.Random, body: Body) -> str:
    index = _asked(body)[0]
    words = _spoken(body, index).split()
    words[rng.randrange(len(words))] = "otherwise"
    return _speak(body, index, " ".join(words))


def _blank_lines_given(rng: random.Random, body: Body) -> None:
    index = _asked(body)[rng.randrange(2)]
    words = _spoken(body, index).split()
    _speak(body, index, f"\n\n{' '.join(words[:8])}\n\n\n\n    {' '.join(words[8:])}")


def _blank_lines_folded(rng: random.Random, body: Body) -> str | None:
    changes: tuple[Callable[[str], str], ...] = (
        lambda said: said.replace("\n\n\n\n", "\n\n"),
        lambda said: said.removeprefix("\n\n"),
        lambda said: said.replace("\n    ", "\n"),
    )
    return _change_first(body, rng.choice(changes))


def _hard_spaces_given(rng: random.Random, body: Body) -> None:
    index = sorted(_asked(body)[:2] + _answered(body)[:1])[rng.randrange(3)]
    space = rng.choice(("\u00a0", "\u202f", "\u3000"))
    words = _spoken(body, index).split(" ")
    _speak(body, index, " ".join(words[:6]) + space + " ".join(words[6:]))


def _hard_spaces_softened(_: random.Random, body: Body) -> str | None:
    soft = str.maketrans("\u00a0\u202f\u3000", "   ")
    return _change_first(body, lambda said: said.translate(soft))


def _many_edits_given(rng: random.Random, body: Body) -> None:
    first = pairs_of(body)[rng.randrange(4)][0]
    edits = [{"old": text(rng, 4), "new": "größer", "all": i == 1} for i in range(3)]
    _argue(body, first, {"edits": edits, "file": "src/app.py"})


def _keys_sorted_deep_inside(_: random.Random, body: Body) -> str:
    for first, _end in pairs_of(body):
        said = _arguments(body, first)
        if "edits" in said:
            edits = [dict(sorted(edit.items())) for edit in said["edits"]]
            return _argue(body, first, {"edits": edits, "file": said["file"]})
    raise AssertionError


def _arguments_by_another_writer(rng: random.Random, body: Body) -> str:
    first = rng.choice(pairs_of(body)[:4])[0]
    item = messages_of(body)[first]
    if rng.random() < 0.5:
        item["arguments"] = item["arguments"].replace("/", "\\/")
    else:
        item["arguments"] = json.dumps(json.loads(item["arguments"]), indent=2)
    return where(body, first)


def _late_pair_put_in(rng: random.Random, body: Body) -> str:
    # What ran in the background has ended: it is told where it was begun.
    at = _step_begins(body, pairs_of(body)[rng.randrange(4)][0])
    new = _step(rng, body, "background")
    if _claude(body):
        del new[0]["content"][0]
    else:
        del new[0]
    messages_of(body)[at:at] = new
    return where(body, at)


def _failures_given(rng: random.Random, body: Body) -> None:
    # Only a second call of a turn fails, so that each turn keeps one.
    for at in (1, 3):
        holder, key = _holder(body, pairs_of(body)[at][1])
        holder[key] = f"Error: no such file\n{text(rng, 8)}"


def _failures_forgotten(_: random.Random, body: Body) -> str:
    failed = [pairs_of(body)[at] for at in (1, 3)]
    for first, end in reversed(failed):
        del messages_of(body)[_step_begins(body, first) : end]
    return where(body, _step_begins(body, failed[0][0]))


def _only_the_newest_turn_kept(_: random.Random, body: Body) -> str:
    first = 0 if _claude(body) else 1
    del messages_of(body)[first : _asked(body)[-1]]
    return where(body, first)


def _queued_given(rng: random.Random, body: Body) -> None:
    end = pairs_of(body)[rng.choice((0, 2))][1]
    messages_of(body).insert(end, _from(body, "user", f"While you work: {text(rng, 9)}"))


def _queued_message_moved(_: random.Random, body: Body) -> str:
    messages = messages_of(body)
    for index, message in enumerate(messages):
        if "While you work: " in str(message.get("content")):
            messages.insert(index + (2 if _claude(body) else 3), messages.pop(index))
            return where(body, index)
    raise AssertionError


def _result_put_into_a_file(rng: random.Random, body: Body) -> str:
    end = rng.choice(pairs_of(body)[:4])[1]
    holder, key = _holder(body, end)
    head = " ".join(holder[key].split()[:20])
    holder[key] = (
        "<persisted-output>\nOutput too large (45.2KB). Full output saved to: "
        f"/work/project/.agent/results/{rng.getrandbits(32):08x}.txt\n\n"
        f"Preview (first 2KB):\n{head}\n...\n</persisted-output>"
    )
    return where(body, end - 1)


def _listed_results_given(rng: random.Random, body: Body) -> None:
    for _, end in pairs_of(body)[:4]:
        holder, key = _holder(body, end)
        holder[key] = [_words(body, text(rng, 50)) for _ in range(3)]


def _block_of_a_result_cleared(rng: random.Random, body: Body) -> str:
    end = rng.choice(pairs_of(body)[:4])[1]
    holder, key = _holder(body, end)
    holder[key][rng.randrange(3)]["text"] = "[cleared to save context]"
    return where(body, end - 1)


def _picture(rng: random.Random, body: Body) -> Body:
    data = f"{rng.getrandbits(256):064x}"
    if _claude(body):
        source = {"type": "base64", "media_type": "image/png", "data": data}
        return {"type": "image", "source": source}
    return {"type": "input_image", "image_url": f"data:image/png;base64,{data}"}


def _screenshots_given(rng: random.Random, body: Body) -> None:
    for _, end in pairs_of(body)[:4]:
        holder, key = _holder(body, end)
        holder[key] = [_words(body, text(rng, 12)), _picture(rng, body)]


def _old_screenshots_left(rng: random.Random, body: Body) -> str:
    # Agents that use a screen keep the newest pictures only.
    pairs = pairs_of(body)
    first = rng.randrange(3)
    for _, end in pairs[first : rng.randrange(first + 1, 4)]:
        holder, key = _holder(body, end)
        holder[key].pop()
    return where(body, pairs[first][1] - 1)


def _reasoning_told_as_words(rng: random.Random, body: Body) -> str:
    at = _step_begins(body, rng.choice(pairs_of(body)[:4])[0])
    said = f"<thinking>\n{text(rng, 12)}\n</thinking>"
    message = messages_of(body)[at]
    if _claude(body):
        message["content"][0] = {"type": "text", "text": said}
    else:
        messages_of(body)[at] = {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": said}],
        }
    return where(body, at)


def _old_turns_without_reasoning(_: random.Random, body: Body) -> str:
    last = _asked(body)[-1]
    first = _step_begins(body, pairs_of(body)[0][0])
    messages = messages_of(body)
    if _claude(body):
        for message in messages[:last]:
            if isinstance(message["content"], list):
                message["content"] = [b for b in message["content"] if b["type"] != "thinking"]
    else:
        messages[:last] = [item for item in messages[:last] if item["type"] != "reasoning"]
    return where(body, first)


def _address_given(rng: random.Random, body: Body) -> None:
    content = messages_of(body)[_asked(body)[0]]["content"]
    at = next(i for i, block in enumerate(content) if "image" in block["type"])
    address = f"https://example.org/{rng.randrange(999)}.png"
    if _claude(body):
        content[at] = {"type": "image", "source": {"type": "url", "url": address}}
    else:
        content[at] = {"type": "input_image", "image_url": address, "detail": "auto"}


def _image_fetched(rng: random.Random, body: Body) -> str:
    index = _asked(body)[0]
    content = messages_of(body)[index]["content"]
    at = next(i for i, block in enumerate(content) if "image" in block["type"])
    if not _claude(body) and rng.random() < 0.5:
        content[at]["detail"] = "low"
    else:
        content[at] = _picture(rng, body)
    return where(body, index)


def _image_put_in(rng: random.Random, body: Body) -> str:
    index = rng.choice(_asked(body)[:2])
    content = messages_of(body)[index]["content"]
    content.insert(rng.randrange(len(content) + 1), _picture(rng, body))
    return where(body, index)


# Several at once: the first counts.


def _agent_updated(rng: random.Random, body: Body) -> str:
    at = rng.choice((0, 4, len(body["tools"]) - 1))
    _schema(body["tools"][at])["properties"]["timeout"] = {"type": "integer", "default": 120}
    replace_system(body, "v=2.1;", "v=2.2;")
    replace_system(body, "You are an agent", f"You are {text(rng, 3)}, an agent")
    return f"tools[{at}]"


def _midnight_and_cleared(_: random.Random, body: Body) -> str | None:
    for _first, end in pairs_of(body)[:3]:
        holder, key = _holder(body, end)
        holder[key] = "[Old tool result content cleared]"
    return replace_system(body, "2026-11-15", "2026-11-16")


def _cleared_then_edited(rng: random.Random, body: Body) -> str:
    _answer_reworded(rng, body)
    _reminder_in_last(body)
    end = pairs_of(body)[rng.randrange(2)][1]
    holder, key = _holder(body, end)
    holder[key] = "[Old tool result content cleared]"
    return where(body, end - 1)


def _reminder_in_last(body: Body) -> None:
    content = messages_of(body)[_asked(body)[-1]]["content"]
    content[:] = [block for block in content if "<system-reminder>" not in block.get("text", "")]


# The vendor.


def _nulls_for_marks(_: random.Random, body: Body) -> str:
    for block in list(_marks(body)):
        block["cache_control"] = None
    return ""


def _hour_given(_: random.Random, body: Body) -> None:
    for block in _marks(body):
        block["cache_control"] = {"type": "ephemeral", "ttl": "1h"}


def _hour_passed(_: random.Random, __: Body) -> str:
    return ""


def _lost_within_the_hour(_: random.Random, __: Body) -> str:
    return ""


def _half_hour_given(_: random.Random, body: Body) -> None:
    body["prompt_cache_options"] = {"mode": "implicit", "ttl": "30m"}


def _half_hour_passed(_: random.Random, __: Body) -> str:
    return ""


def _many_attachments(rng: random.Random, body: Body) -> str:
    content = messages_of(body)[-1]["content"]
    mark = content[-1].pop("cache_control")
    content += [
        {"type": "text", "text": f"Attached: notes/{i}.md\n{text(rng, 12)}"}
        for i in range(rng.randrange(22, 41))
    ]
    content[-1]["cache_control"] = mark
    return ""


BLIND: Final = (
    Fault("model", "settings", _another_model_plans),
    Fault("effort", "settings", _openai_effort, OPENAI, reported="nothing"),
    Fault("output", "settings", _answer_schema_deep_inside, given=_answer_schema_given),
    Fault("thinking", "settings", _thinking_adapts, CLAUDE),
    Fault("tool_choice", "settings", _one_call_at_a_time, CLAUDE, given=_choice_given),
    Fault("routing", "settings", _key_left_out, OPENAI),
    Fault("setting", "settings", _no_parallel_calls, OPENAI, reported="nothing",
          given=_parallel_given),
    Fault("tool_added", "tools", _web_search_switched_on),
    Fault("tool_removed", "tools", _last_tools_withdrawn),
    Fault("tool_removed", "tools", _tools_withheld),
    Fault("tools_replaced", "tools", _placeholder_resolved, given=_placeholder_given),
    Fault("tools_reordered", "tools", _tools_sorted),
    Fault("tool_reworded", "tools", _agents_in_another_order, given=_agents_given),
    Fault("tool_reworded", "tools", _description_trimmed, given=_indented_given),
    Fault("tool_schema", "tools", _limit_deep_inside, given=_edits_given),
    Fault("tool_schema", "tools", _required_in_another_order, given=_edits_given),
    Fault("tool_schema", "tools", _flag_as_a_number, given=_edits_given),
    Fault("date", "system", _date_in_other_forms, given=_date_given),
    Fault("billing", "system", _billing_line_left, CLAUDE),
    Fault("environment", "system", _committed, given=_commits_given),
    Fault("environment", "system", _files_listed, given=_files_given),
    Fault("memory", "system", _rules_of_other_agents, given=_rules_given),
    Fault("instructions", "system", _prompt_appended),
    Fault("instructions", "system", _another_mode),
    Fault("instructions", "system", _language_chosen, given=_line("Always answer in English.")),
    Fault("date", "messages", _date_between_messages, given=_dated_aside_given),
    Fault("random", "messages", _traced_anew, given=_traced_given),
    Fault("environment", "messages", _editor_shows_others, given=_editor_given),
    Fault("memory", "messages", _second_file_read, given=_file_given),
    Fault("hook", "messages", _tagged_hook, given=_tagged_hook_given),
    Fault("hook", "messages", _hook_message_left, given=_hook_message_given),
    Fault("reminder", "messages", _reminder_in_results_left, given=_reminded_results_given),
    Fault("reminder", "messages", _reminder_put_in_late),
    Fault("random", "messages", _fences_drawn_anew, given=_fences_given),
    Fault("compaction", "messages", _compacted_but_for_questions),
    Fault("compaction", "messages", _compacted_by_the_vendor, CLAUDE),
    Fault("rewound", "messages", _tried_again),
    Fault("edited", "messages", _secret_blanked, given=_secret_given),
    Fault("edited", "messages", _characters_mangled, given=_odd_characters_given),
    Fault("edited", "messages", _result_refreshed),
    Fault("edited", "messages", _result_called_an_error, CLAUDE),
    Fault("edited", "messages", _calls_shortened, given=_written_given),
    Fault("edited", "messages", _citations_switched, CLAUDE, given=_document_given),
    Fault("edited", "messages", _one_word_far_back, given=_long),
    Fault("edited", "messages", _only_question_edited, given=_short),
    Fault("spaced", "messages", _blank_lines_folded, given=_blank_lines_given),
    Fault("spaced", "messages", _hard_spaces_softened, given=_hard_spaces_given),
    Fault("reserialized", "messages", _keys_sorted_deep_inside, given=_many_edits_given),
    Fault("reserialized", "messages", _arguments_by_another_writer, OPENAI),
    Fault("inserted", "messages", _late_pair_put_in),
    Fault("dropped", "messages", _failures_forgotten, given=_failures_given),
    Fault("window", "messages", _only_the_newest_turn_kept),
    Fault("reordered", "messages", _queued_message_moved, given=_queued_given),
    Fault("result_cut", "messages", _result_put_into_a_file),
    Fault("result_cut", "messages", _block_of_a_result_cleared, given=_listed_results_given),
    Fault("image", "messages", _old_screenshots_left, given=_screenshots_given),
    Fault("image", "messages", _image_fetched, given=_address_given),
    Fault("image", "messages", _image_put_in),
    Fault("reasoning", "messages", _reasoning_told_as_words),
    Fault("reasoning", "messages", _old_turns_without_reasoning),
    Fault("tool_schema", "tools", _agent_updated),
    Fault("date", "system", _midnight_and_cleared),
    Fault("result_cut", "messages", _cleared_then_edited),
    Fault("unmarked", "settings", _nulls_for_marks, CLAUDE, reported="nothing"),
    Fault("expired", "vendor", _hour_passed, CLAUDE, idle_s=4_000.0, reported="nothing",
          given=_hour_given),
    Fault("expired", "vendor", _half_hour_passed, OPENAI, idle_s=7_200.0, reported="nothing",
          given=_half_hour_given),
    Fault("lost", "vendor", _lost_within_the_hour, CLAUDE, idle_s=1_000.0, reported="nothing",
          given=_hour_given),
    Fault("lookback", "vendor", _many_attachments, CLAUDE, reported="nothing"),
)  # fmt: skip


# Nothing is lost by these: the vendor reads the same, and reports that it read all of it.


def _one_block_given(_: random.Random, body: Body) -> None:
    del body["system"][0]


def _system_as_a_string(_: random.Random, body: Body) -> str:
    body["system"] = body["system"][0]["text"]
    return ""


def _results_as_blocks(rng: random.Random, body: Body) -> str:
    for _, end in pairs_of(body):
        holder, key = _holder(body, end)
        if rng.random() < 0.7:
            holder[key] = [_words(body, holder[key])]
    return ""


def _fields_of_tools_in_another_order(_: random.Random, body: Body) -> str:
    body["tools"] = [dict(reversed(tool.items())) for tool in body["tools"]]
    return ""


def _lifetime_written_out(_: random.Random, body: Body) -> str:
    for block in _marks(body):
        block["cache_control"] = {"type": "ephemeral", "ttl": "5m"}
    return ""


def _breakpoints_given(_: random.Random, body: Body) -> None:
    block = messages_of(body)[_asked(body)[0]]["content"][-1]
    block["prompt_cache_breakpoint"] = {"mode": "explicit"}


def _breakpoints_moved(rng: random.Random, body: Body) -> str:
    asked = _asked(body)
    del messages_of(body)[asked[0]]["content"][-1]["prompt_cache_breakpoint"]
    block = messages_of(body)[rng.choice(asked[1:])]["content"][-1]
    block["prompt_cache_breakpoint"] = {"mode": "explicit"}
    return ""


def _choice_written_out(_: random.Random, body: Body) -> str:
    # It is what holds where nothing is said.
    body["tool_choice"] = {"type": "auto"}
    return ""


def _allowed_tools(rng: random.Random, body: Body) -> str:
    # The vendor's own advice: all tools stay in the prompt, and some of them are allowed.
    names = rng.sample([tool["name"] for tool in body["tools"]], 3)
    allowed = [{"type": "function", "name": name} for name in names]
    body["tool_choice"] = {"type": "allowed_tools", "mode": "auto", "tools": allowed}
    return ""


def _bookkeeping(rng: random.Random, body: Body) -> str:
    if _claude(body):
        new: Body = {
            "service_tier": "standard_only",
            "metadata": {"user_id": f"user_{rng.getrandbits(64):016x}"},
            "diagnostics": {"previous_message_id": f"msg_{rng.getrandbits(64):016x}"},
        }
    else:
        new = {
            "service_tier": "default",
            "metadata": {"turn": str(rng.randrange(99))},
            "include": ["reasoning.encrypted_content"],
            "stream_options": {"include_obfuscation": False},
        }
    body |= dict(rng.sample(list(new.items()), rng.randrange(1, len(new) + 1)))
    return ""


def _statuses_told(_: random.Random, body: Body) -> str:
    # Items of a reply are sent back with or without how they ended.
    for item in messages_of(body):
        if item["type"] in ("function_call", "function_call_output"):
            item["status"] = "completed"
    return ""


def _long_pause(_: random.Random, __: Body) -> str:
    return ""


def _asked_again(_: random.Random, body: Body) -> str:
    # The request before, once more: so agents try again. Its mark is on its last block.
    messages = messages_of(body)
    if _claude(body):
        del messages[-2:]
    else:
        del messages[-3:]
    _mark_last(body)
    return ""


def _much_at_the_end(rng: random.Random, body: Body) -> str:
    messages = messages_of(body)
    if _claude(body):
        messages[-1]["content"][-1].pop("cache_control")
        messages[-1]["content"] += [_picture(rng, body), _words(body, text(rng, 30))]
        _mark_last(body)
    else:
        said = _from(body, "user", text(rng, 30))
        said["content"].insert(0, _picture(rng, body))
        messages += [*_step(rng, body, "call_end"), said]
    return ""


def _tools_offered_at_the_end(rng: random.Random, body: Body) -> str:
    new = copy.deepcopy(body["tools"][0])
    new |= {"name": "mcp__tracker__open", "description": text(rng, 15)}
    if _claude(body):
        content = [{"type": "tool_addition", "tool": new}]
        messages_of(body).append({"role": "system", "content": content})
    else:
        messages_of(body).append({"type": "additional_tools", "role": "developer", "tools": [new]})
    return ""


def _search_given(_: random.Random, body: Body) -> None:
    new = {"type": "tool_search_tool_regex_20251119", "name": "tool_search_tool_regex"}
    body["tools"].insert(0, new)


def _tool_found_by_search_only(rng: random.Random, body: Body) -> str:
    # A tool whose loading is deferred stands nowhere in the prompt until it is found.
    new = copy.deepcopy(body["tools"][-1])
    new |= {"name": "mcp__tracker__open", "description": text(rng, 15), "defer_loading": True}
    body["tools"].append(new)
    return ""


def _neighbours_given(rng: random.Random, body: Body) -> None:
    index = _asked(body)[rng.randrange(2)]
    messages_of(body).insert(index + 1, _from(body, "user", f"And besides: {text(rng, 9)}"))


def _neighbours_merged(_: random.Random, body: Body) -> str:
    # The vendor makes one turn of what the same role says in a row.
    messages = messages_of(body)
    for index, message in enumerate(messages):
        if "And besides: " in str(message["content"]):
            said = message["content"]
            said = [_words(body, said)] if isinstance(said, str) else said
            messages[index - 1]["content"] += said
            del messages[index]
            return ""
    raise AssertionError


HARMLESS: Final = (
    Fault("", "system", _system_as_a_string, CLAUDE, given=_one_block_given),
    Fault("", "messages", _results_as_blocks),
    Fault("", "tools", _fields_of_tools_in_another_order),
    Fault("", "settings", _lifetime_written_out, CLAUDE),
    Fault("", "messages", _breakpoints_moved, OPENAI, given=_breakpoints_given),
    Fault("", "settings", _choice_written_out, CLAUDE),
    Fault("", "settings", _allowed_tools, OPENAI),
    Fault("", "settings", _bookkeeping),
    Fault("", "messages", _statuses_told, OPENAI),
    Fault("", "vendor", _long_pause, idle_s=3_000.0),
    Fault("", "messages", _asked_again),
    Fault("", "messages", _much_at_the_end),
    Fault("", "messages", _tools_offered_at_the_end),
    Fault("", "tools", _tool_found_by_search_only, CLAUDE, given=_search_given),
    Fault("", "messages", _neighbours_merged, CLAUDE, given=_neighbours_given),
)
