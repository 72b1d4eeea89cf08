"""Ways in which a prompt cache is lost, put into sessions of agents: what a gateway must name.

    sessions    requests as two well-known agents lay them out, with text of our own
    FAULTS      each changes the last request of a session so that a cache is lost, and says what
                the cause is and where; the rest of the session is as it was

Each fault is put into many sessions of both layouts. Scored are the cause and the place. The
control is the same sessions without a fault: nothing may be found in them.
"""

from __future__ import annotations

import copy
import json
import random
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, Literal, TypeAlias

__all__ = [
    "CLAUDE", "FAULTS", "LAYOUTS", "OPENAI", "Body", "Case", "Fault", "Layout", "blocks_of",
    "cases", "clean", "is_question", "messages_of", "pairs_of", "replace_system", "session",
    "text", "texts_with", "where",
]  # fmt: skip

Body: TypeAlias = dict[str, Any]
Layout: TypeAlias = Literal["anthropic", "openai-responses"]
LAYOUTS: Final[tuple[Layout, ...]] = ("anthropic", "openai-responses")
WORDS: Final = (
    "the", "parser", "reads", "a", "token", "and", "keeps", "its", "place", "while", "writer",
    "waits", "for", "room", "in", "queue", "before", "record", "of", "what", "changed", "is",
    "sealed", "handed", "to", "whoever", "asked", "it", "again",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Case:
    """Two requests in a row, and what happened between them (nothing: an empty cause)."""

    layout: Layout
    before: Body
    now: Body
    cause: str
    path: str = ""
    idle_s: float = 10.0
    reported: Literal["shared", "nothing"] = "shared"
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Fault:
    """A way to lose a cache: its cause, where it is looked for, and the change.

    What `given` writes stands in both requests: what the change needs to find there.
    """

    cause: str
    place: str
    change: Callable[[random.Random, Body], str | None]
    layouts: tuple[Layout, ...] = LAYOUTS
    idle_s: float = 10.0
    reported: Literal["shared", "nothing"] = "shared"
    given: Callable[[random.Random, Body], None] | None = None

    @property
    def kind(self) -> str:
        """Its name: that of the change."""
        return self.change.__name__.strip("_").replace("_", " ")


def text(rng: random.Random, words: int) -> str:
    """Write so many words."""
    return " ".join(rng.choice(WORDS) for _ in range(words))


# Sessions.


def session(rng: random.Random, layout: Layout, turns: int) -> list[Body]:
    """Make the requests of a session: each goes on from the one before it."""
    return list((_anthropic if layout == "anthropic" else _responses)(rng, turns))


def _tool(rng: random.Random, name: str, schema: str) -> Body:
    return {
        "name": name,
        "description": text(rng, 30),
        schema: {
            "type": "object",
            "properties": {"path": {"type": "string", "description": text(rng, 6)}},
            "required": ["path"],
        },
    }


NAMES: Final = ("Read", "Write", "Edit", "Bash", "Grep", "Glob", "WebFetch", "Task", "mcp__db__ask")
MEMORY: Final = "# Instructions of the project (from AGENTS.md)\n"


def _system_text(rng: random.Random) -> str:
    return (
        f"You are an agent that works on code. {text(rng, 60)}\n"
        f"# Environment\nWorking directory: /work/project\nPlatform: linux\n"
        f"Today's date: 2026-11-15\n"
        f"Git status: On branch main\nmodified: src/app.py\n"
        f"Session: {uuid.UUID(int=rng.getrandbits(128))}\n"
        f"{MEMORY}{text(rng, 40)}\n{text(rng, 20)}"
    )


def _anthropic(rng: random.Random, turns: int) -> Iterator[Body]:
    tools = [_tool(rng, name, "input_schema") for name in NAMES]
    system: list[Body] = [
        {"type": "text", "text": f"x-anthropic-billing-header: v=2.1; run={rng.randrange(9999)}"},
        {"type": "text", "text": _system_text(rng), "cache_control": {"type": "ephemeral"}},
    ]
    messages: list[Body] = []
    for turn in range(turns):
        first = [
            {"type": "text", "text": f"<system-reminder>\n{text(rng, 20)}\n</system-reminder>"}
        ]
        if turn == 1:
            first.append(
                {
                    "type": "text",
                    "text": f"UserPromptSubmit hook additional context: {text(rng, 8)}",
                }
            )
        if turn == 0:
            first.append(_picture(rng))
        first.append({"type": "text", "text": text(rng, 25)})
        messages.append({"role": "user", "content": first})
        yield _marked(tools, system, messages)
        for call in range(2):
            messages += _call_and_result(rng, f"toolu_{turn}_{call}")
            yield _marked(tools, system, messages)
        messages.append({"role": "assistant", "content": [{"type": "text", "text": text(rng, 40)}]})


def _picture(rng: random.Random) -> Body:
    data = f"{rng.getrandbits(256):064x}"
    return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}


def _call_and_result(rng: random.Random, call: str) -> list[Body]:
    return [
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": text(rng, 12), "signature": text(rng, 3)},
                {
                    "type": "tool_use",
                    "id": call,
                    "name": "Read",
                    "input": {"path": f"src/{rng.choice(WORDS)}.py", "limit": rng.randrange(99)},
                },
            ],
        },
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": call, "content": text(rng, 160)}],
        },
    ]


def _marked(tools: list[Body], system: list[Body], messages: list[Body]) -> Body:
    """A request as the agent writes it: a mark on the last block, plain strings further back."""
    said = copy.deepcopy(messages)
    for message in said[:-2]:
        content = message["content"]
        if isinstance(content, list) and len(content) == 1 and content[0]["type"] == "text":
            message["content"] = content[0]["text"]
    said[-1]["content"][-1]["cache_control"] = {"type": "ephemeral"}
    return {
        "model": "claude-opus-5-5",
        "messages": said,
        "system": copy.deepcopy(system),
        "tools": copy.deepcopy(tools),
        "max_tokens": 32_000,
        "thinking": {"type": "enabled", "budget_tokens": 10_000},
        "output_config": {"effort": "high"},
        "stream": True,
    }


def _responses(rng: random.Random, turns: int) -> Iterator[Body]:
    tools = [{"type": "function", **_tool(rng, name, "parameters")} for name in NAMES]
    instructions = _system_text(rng)
    items: list[Body] = [
        {"type": "message", "role": "developer", "content": [_said(text(rng, 30))]},
    ]
    for turn in range(turns):
        if turn == 1:
            said = f"UserPromptSubmit hook additional context: {text(rng, 8)}"
            items.append({"type": "message", "role": "developer", "content": [_said(said)]})
        reminder = f"<system-reminder>{text(rng, 20)}</system-reminder>"
        content = [_said(reminder), _said(text(rng, 25))]
        if turn == 0:
            shown = f"data:image/png;base64,{rng.getrandbits(256):064x}"
            content.insert(1, {"type": "input_image", "image_url": shown})
        items.append({"type": "message", "role": "user", "content": content})
        yield _asked(tools, instructions, items)
        for call in range(2):
            name = f"call_{turn}_{call}"
            arguments = {"path": f"src/{rng.choice(WORDS)}.py", "limit": rng.randrange(99)}
            items += [
                {"type": "reasoning", "summary": [], "encrypted_content": text(rng, 9)},
                {"type": "function_call", "call_id": name, "name": "Read",
                 "arguments": json.dumps(arguments)},
                {"type": "function_call_output", "call_id": name, "output": text(rng, 160)},
            ]  # fmt: skip
            yield _asked(tools, instructions, items)
        answer = {"type": "output_text", "text": text(rng, 40)}
        items.append({"type": "message", "role": "assistant", "content": [answer]})


def _said(words: str) -> Body:
    return {"type": "input_text", "text": words}


def _asked(tools: list[Body], instructions: str, items: list[Body]) -> Body:
    return {
        "model": "gpt-6.1",
        "stream": True,
        "instructions": instructions,
        "input": copy.deepcopy(items),
        "tools": copy.deepcopy(tools),
        "tool_choice": "auto",
        "reasoning": {"effort": "medium"},
        "prompt_cache_key": "one",
        "store": False,
    }


# Faults. Each changes what the request before had, and returns where; None if it does not fit.


def messages_of(body: Body) -> list[Body]:
    found: list[Body] = body["messages"] if "messages" in body else body["input"]
    return found


def where(body: Body, index: int) -> str:
    return f"{'messages' if 'messages' in body else 'input'}[{index}]"


def _model(_: random.Random, body: Body) -> str:
    body["model"] += "-mini"
    return ""


def _effort(_: random.Random, body: Body) -> str:
    if "output_config" in body:
        body["output_config"] = {"effort": "low"}
    else:
        body["reasoning"] = {"effort": "low"}
    return ""


def _thinking(_: random.Random, body: Body) -> str:
    body["thinking"] = {"type": "disabled"}
    return ""


def _tool_choice(_: random.Random, body: Body) -> str:
    body["tool_choice"] = {"type": "tool", "name": "Read"}
    return ""


def _routing(_: random.Random, body: Body) -> str:
    body["prompt_cache_key"] = "two"
    return ""


def _tool_added(rng: random.Random, body: Body) -> str:
    at = rng.randrange(len(body["tools"]) + 1)
    new = copy.deepcopy(body["tools"][0]) | {"name": "mcp__new__tool"}
    body["tools"].insert(at, new)
    return f"tools[{at}]"


def _tool_removed(rng: random.Random, body: Body) -> str:
    at = rng.randrange(len(body["tools"]) - 1)
    del body["tools"][at]
    return f"tools[{at}]"


def _tools_replaced(rng: random.Random, body: Body) -> str:
    at = rng.randrange(len(body["tools"]))
    body["tools"][at]["name"] = "mcp__other__tool"
    return f"tools[{at}]"


def _tools_reordered(rng: random.Random, body: Body) -> str:
    at = rng.randrange(len(body["tools"]) - 1)
    body["tools"].append(body["tools"].pop(at))
    return f"tools[{at}]"


def _tool_reworded(rng: random.Random, body: Body) -> str:
    at = rng.randrange(len(body["tools"]))
    body["tools"][at]["description"] += f" Now {rng.randrange(99)} results."
    return f"tools[{at}]"


def _tool_schema(rng: random.Random, body: Body) -> str:
    at = rng.randrange(len(body["tools"]))
    schema = body["tools"][at].get("input_schema") or body["tools"][at]["parameters"]
    schema["properties"]["path"]["enum"] = ["a", "b"]
    return f"tools[{at}]"


def replace_system(body: Body, old: str, new: str) -> str | None:
    if "instructions" in body:
        changed = body["instructions"].replace(old, new)
        if changed == body["instructions"]:
            return None
        body["instructions"] = changed
        return "system[0]"
    for index, block in enumerate(body["system"]):
        if old in block["text"]:
            block["text"] = block["text"].replace(old, new)
            return f"system[{index}]"
    return None


def _date(_: random.Random, body: Body) -> str | None:
    return replace_system(body, "2026-11-15", "2026-11-16")


def _billing(_: random.Random, body: Body) -> str | None:
    return replace_system(body, "v=2.1; run=", "v=2.1; run=7")


def _environment(_: random.Random, body: Body) -> str | None:
    return replace_system(body, "modified: src/app.py", "modified: src/app.py\nmodified: src/b.py")


def _random_id(rng: random.Random, body: Body) -> str | None:
    source = body.get("instructions") or body["system"][-1]["text"]
    old = source.partition("Session: ")[2].partition("\n")[0]
    return replace_system(body, old, str(uuid.UUID(int=rng.getrandbits(128))))


def _memory(rng: random.Random, body: Body) -> str | None:
    return replace_system(body, MEMORY, f"{MEMORY}{text(rng, 6)}\n")


def _instructions(rng: random.Random, body: Body) -> str | None:
    return replace_system(body, "that works on code", f"that {text(rng, 3)} code")


def blocks_of(body: Body, kinds: tuple[str, ...]) -> list[tuple[int, int]]:
    """Where blocks of a kind stand in what the request before had, the newest turn left out."""
    found = []
    for index, message in enumerate(messages_of(body)[:-4]):
        content = message.get("content")
        if isinstance(content, list):
            found += [(index, i) for i, block in enumerate(content) if block["type"] in kinds]
        elif content is None and message["type"] in kinds:
            found.append((index, -1))
    return found


def texts_with(body: Body, having: str) -> list[tuple[int, int]]:
    return [
        (index, at)
        for index, at in blocks_of(body, ("text", "input_text"))
        if having in messages_of(body)[index]["content"][at]["text"]
    ]


def _reminder(rng: random.Random, body: Body) -> str | None:
    index, at = rng.choice(texts_with(body, "<system-reminder>"))
    block = messages_of(body)[index]["content"][at]
    block["text"] = block["text"].replace("</system-reminder>", f"{text(rng, 5)}</system-reminder>")
    return where(body, index)


def _reminder_gone(rng: random.Random, body: Body) -> str | None:
    index, at = rng.choice(texts_with(body, "<system-reminder>"))
    del messages_of(body)[index]["content"][at]
    return where(body, index)


def _hook(rng: random.Random, body: Body) -> str | None:
    found = texts_with(body, "hook additional context")
    if not found:
        return None
    index, at = rng.choice(found)
    block = messages_of(body)[index]["content"][at]
    block["text"] = f"UserPromptSubmit hook additional context: {text(rng, 9)}"
    return where(body, index)


def _compaction(rng: random.Random, body: Body) -> str | None:
    messages = messages_of(body)
    said = "This session is being continued from a previous conversation. " + text(rng, 60)
    block = {"type": "text" if "messages" in body else "input_text", "text": said}
    message: Body = {"role": "user", "content": [block]}
    if "input" in body:
        message["type"] = "message"
    messages[:] = [message]
    return where(body, 0)


def _edited(rng: random.Random, body: Body) -> str | None:
    plain = [
        (i, at) for i, at in blocks_of(body, ("text", "input_text")) if (i, at) not in
        {*texts_with(body, "<system-reminder>"), *texts_with(body, "hook additional")}
    ]  # fmt: skip
    index, at = rng.choice(plain)
    words = messages_of(body)[index]["content"][at]["text"].split()
    words[len(words) // 2] = "otherwise"
    messages_of(body)[index]["content"][at]["text"] = " ".join(words)
    return where(body, index)


def _spaced(rng: random.Random, body: Body) -> str | None:
    index, at = rng.choice(blocks_of(body, ("text", "input_text")))
    block = messages_of(body)[index]["content"][at]
    block["text"] = block["text"].replace(" ", "  ", 1) + "\n"
    return where(body, index)


def _reserialized(rng: random.Random, body: Body) -> str | None:
    index, at = rng.choice(blocks_of(body, ("tool_use", "function_call")))
    if at < 0:
        item = messages_of(body)[index]
        arguments = json.loads(item["arguments"])
        item["arguments"] = json.dumps(dict(reversed(arguments.items())))
    else:
        block = messages_of(body)[index]["content"][at]
        block["input"] = dict(reversed(block["input"].items()))
    return where(body, index)


def _inserted(rng: random.Random, body: Body) -> str | None:
    at = rng.randrange(1, len(messages_of(body)) - 4)
    block = {"type": "text" if "messages" in body else "input_text", "text": text(rng, 12)}
    message: Body = {"role": "user", "content": [block]}
    if "input" in body:
        message["type"] = "message"
    messages_of(body).insert(at, message)
    return where(body, at)


def pairs_of(body: Body) -> list[tuple[int, int]]:
    """Where a call and its result stand: from, to."""
    if "input" in body:
        calls = [
            i for i, item in enumerate(messages_of(body)[:-4]) if item["type"] == "function_call"
        ]
        return [(i, i + 2) for i in calls]
    return [
        (i, i + 2)
        for i, message in enumerate(messages_of(body)[:-4])
        if message["role"] == "assistant"
        and isinstance(message["content"], list)
        and message["content"][-1]["type"] == "tool_use"
    ]


def _dropped(rng: random.Random, body: Body) -> str | None:
    first, end = rng.choice(pairs_of(body)[1:])
    del messages_of(body)[first:end]
    return where(body, first)


def _window(_: random.Random, body: Body) -> str | None:
    messages = messages_of(body)
    users = [i for i, m in enumerate(messages) if m.get("role") == "user" and is_question(m)]
    first = 1 if "input" in body else 0
    if len(users) < 3:
        return None
    del messages[first : users[1]]
    return where(body, first)


def is_question(message: Body) -> bool:
    content = message["content"]
    return isinstance(content, str) or content[-1]["type"] in ("text", "input_text")


def _reordered(rng: random.Random, body: Body) -> str | None:
    first, end = rng.choice(pairs_of(body)[:-1])
    messages = messages_of(body)
    step = end - first if "messages" in body else 3
    start = first if "messages" in body else first - 1
    if start + 2 * step > len(messages) - 4:
        return None
    block = messages[start : start + step]
    messages[start : start + 2 * step] = messages[start + step : start + 2 * step] + block
    return where(body, start)


def _result_cut(rng: random.Random, body: Body) -> str | None:
    index, at = rng.choice(blocks_of(body, ("tool_result", "function_call_output")))
    if at < 0:
        messages_of(body)[index]["output"] = "[Old tool result content cleared]"
    else:
        messages_of(body)[index]["content"][at]["content"] = "[Old tool result content cleared]"
    return where(body, index)


def _reasoning(rng: random.Random, body: Body) -> str | None:
    index, at = rng.choice(blocks_of(body, ("thinking", "reasoning")))
    if at < 0:
        del messages_of(body)[index]
    else:
        del messages_of(body)[index]["content"][at]
    return where(body, index)


def _image(rng: random.Random, body: Body) -> str | None:
    index, at = rng.choice(blocks_of(body, ("image", "input_image")))
    del messages_of(body)[index]["content"][at]
    return where(body, index)


def _unmarked(_: random.Random, body: Body) -> str | None:
    for block in body["system"]:
        block.pop("cache_control", None)
    for message in body["messages"]:
        if isinstance(message["content"], list):
            for block in message["content"]:
                block.pop("cache_control", None)
    return ""


def _nothing(_: random.Random, __: Body) -> str | None:
    return ""


CLAUDE: Final[tuple[Layout, ...]] = ("anthropic",)
OPENAI: Final[tuple[Layout, ...]] = ("openai-responses",)
FAULTS: Final = (
    Fault("model", "settings", _model),
    Fault("effort", "settings", _effort, CLAUDE),
    Fault("thinking", "settings", _thinking, CLAUDE),
    Fault("tool_choice", "settings", _tool_choice, CLAUDE),
    Fault("routing", "settings", _routing, OPENAI),
    Fault("tool_added", "tools", _tool_added),
    Fault("tool_removed", "tools", _tool_removed),
    Fault("tools_replaced", "tools", _tools_replaced),
    Fault("tools_reordered", "tools", _tools_reordered),
    Fault("tool_reworded", "tools", _tool_reworded),
    Fault("tool_schema", "tools", _tool_schema),
    Fault("date", "system", _date),
    Fault("billing", "system", _billing, CLAUDE),
    Fault("environment", "system", _environment),
    Fault("random", "system", _random_id),
    Fault("memory", "system", _memory),
    Fault("instructions", "system", _instructions),
    Fault("reminder", "messages", _reminder),
    Fault("reminder", "messages", _reminder_gone),
    Fault("hook", "messages", _hook),
    Fault("compaction", "messages", _compaction),
    Fault("edited", "messages", _edited),
    Fault("spaced", "messages", _spaced),
    Fault("reserialized", "messages", _reserialized),
    Fault("inserted", "messages", _inserted),
    Fault("dropped", "messages", _dropped),
    Fault("window", "messages", _window),
    Fault("reordered", "messages", _reordered),
    Fault("result_cut", "messages", _result_cut),
    Fault("reasoning", "messages", _reasoning),
    Fault("image", "messages", _image),
    Fault("unmarked", "settings", _unmarked, CLAUDE, reported="nothing"),
    Fault("expired", "vendor", _nothing, CLAUDE, idle_s=1_000.0, reported="nothing"),
    Fault("lost", "vendor", _nothing, reported="nothing"),
)


def cases(rng: random.Random, each: int, faults: tuple[Fault, ...] = FAULTS) -> Iterator[Case]:
    """Make the cases: every fault so many times in each layout that it fits."""
    for fault in faults:
        for layout in fault.layouts:
            for _ in range(each):
                found = _case(rng, fault, layout)
                if found is not None:
                    yield found


def _case(rng: random.Random, fault: Fault, layout: Layout) -> Case | None:
    before, now = session(rng, layout, rng.randrange(3, 6))[-2:]
    now = copy.deepcopy(now)
    if fault.given is not None:
        seed = rng.getrandbits(64)
        for body in (before, now):
            fault.given(random.Random(seed), body)
    path = fault.change(rng, now)
    if path is None:
        return None
    return Case(layout, before, now, fault.cause, path, fault.idle_s, fault.reported, fault.kind)


def clean(rng: random.Random, count: int) -> Iterator[Case]:
    """Make cases in which nothing happened."""
    made = 0
    while made < count:
        layout = rng.choice(LAYOUTS)
        requests = session(rng, layout, 4)
        for before, now in pairwise(requests):
            yield Case(layout, before, now, "")
            made += 1
