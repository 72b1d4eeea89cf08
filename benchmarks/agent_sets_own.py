"""Agents of our own for `benchmarks.agent_sets`: four APIs, a clock in each place, hard cases.

The author of this set knows the matcher: its score shows that nothing broke, not how good it is.
"""

from __future__ import annotations

import copy
import json
import random
import re
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from benchmarks.data import WORDS

APIS: Final = ("anthropic", "openai-chat", "openai-responses", "gemini")
MODELS: Final = {
    "anthropic": "claude-sonnet-4-5", "openai-chat": "gpt-5.5", "openai-responses": "gpt-5.5",
    "gemini": "gemini-2.5-flash",
}  # fmt: skip
SMALL: Final = {
    "anthropic": "claude-haiku-4-5", "openai-chat": "gpt-5.5-mini",
    "openai-responses": "gpt-5.5-mini", "gemini": "gemini-2.5-flash-lite",
}  # fmt: skip
SYSTEM: Final = {
    "anthropic": "system[0]", "openai-chat": "messages[0]", "openai-responses": "instructions",
    "gemini": "systemInstruction",
}  # fmt: skip
Line = dict[str, Any]
# Of a conversation: (who, text), ("call", id, name, arguments) or ("result", id, name, text)
Part = tuple[Any, ...]


def words(rng: random.Random, count: int) -> str:
    return " ".join(rng.choice(WORDS) for _ in range(count))


def clock(step: int) -> str:
    return f"2026-11-19 09:{14 + step:02}:{(7 * step) % 60:02}"


@dataclass
class Shape:
    """What a request is written from; a fault changes it before one is sent."""

    api: str
    model: str
    system: list[str]
    tools: list[Line]
    parts: list[Part] = field(default_factory=list)
    extra: Line = field(default_factory=dict)
    marked: bool = True
    previous: str = ""

    def body(self) -> Line:
        system = "\n".join(self.system)
        if self.api == "anthropic":
            messages: list[Line] = []
            for part in self.parts:
                role, block = self._anthropic(part)
                if messages and messages[-1]["role"] == role:
                    messages[-1]["content"].append(block)
                else:
                    messages.append({"role": role, "content": [block]})
            blocks: list[Line] = [{"type": "text", "text": system}] if system else []
            if self.marked:
                for some in (blocks, messages[-1]["content"]):
                    if some:
                        some[-1] = {**some[-1], "cache_control": {"type": "ephemeral"}}
            tools = [{**t, "input_schema": t["parameters"]} for t in copy.deepcopy(self.tools)]
            for tool in tools:
                del tool["parameters"]
            made = {"model": self.model, "max_tokens": 1_000, "system": blocks, "tools": tools,
                    "messages": messages}  # fmt: skip
        elif self.api == "openai-chat":
            said = [{"role": "system", "content": system}] if system else []
            made = {"model": self.model, "messages": [*said, *map(self._chat, self.parts)],
                    "tools": [{"type": "function", "function": t} for t in self.tools]}  # fmt: skip
        elif self.api == "openai-responses":
            made = {"model": self.model, "instructions": system,
                    "input": list(map(self._responses, self.parts)),
                    "tools": [{"type": "function", **t} for t in self.tools]}  # fmt: skip
            if self.previous:
                made["previous_response_id"] = self.previous
        else:
            made = {"systemInstruction": {"parts": [{"text": system}]},
                    "contents": list(map(self._gemini, self.parts)),
                    "tools": [{"functionDeclarations": self.tools}]}  # fmt: skip
            made = made if system else {k: v for k, v in made.items() if k != "systemInstruction"}
        if not self.tools:
            del made["tools"]
        return {**made, **self.extra}

    def _anthropic(self, part: Part) -> tuple[str, Line]:
        if part[0] == "call":
            return "assistant", {"type": "tool_use", "id": part[1], "name": part[2],
                                 "input": part[3]}  # fmt: skip
        if part[0] == "result":
            return "user", {"type": "tool_result", "tool_use_id": part[1], "content": part[3]}
        role = "assistant" if part[0] == "model" else "user"
        return role, {"type": "text", "text": part[1]}

    def _chat(self, part: Part) -> Line:
        if part[0] == "call":
            function = {"name": part[2], "arguments": json.dumps(part[3])}
            call = {"id": part[1], "type": "function", "function": function}
            return {"role": "assistant", "content": None, "tool_calls": [call]}
        if part[0] == "result":
            return {"role": "tool", "tool_call_id": part[1], "content": part[3]}
        return {"role": "assistant" if part[0] == "model" else "user", "content": part[1]}

    def _responses(self, part: Part) -> Line:
        if part[0] == "call":
            return {"type": "function_call", "call_id": part[1], "name": part[2],
                    "arguments": json.dumps(part[3])}  # fmt: skip
        if part[0] == "result":
            return {"type": "function_call_output", "call_id": part[1], "output": part[3]}
        if part[0] == "model":
            return {"role": "assistant", "content": [{"type": "output_text", "text": part[1]}]}
        return {"role": "user", "content": [{"type": "input_text", "text": part[1]}]}

    def _gemini(self, part: Part) -> Line:
        if part[0] == "call":
            return {"role": "model", "parts": [{"functionCall": {"name": part[2],
                                                                 "args": part[3]}}]}  # fmt: skip
        if part[0] == "result":
            response = {"name": part[2], "response": {"output": part[3]}}
            return {"role": "user", "parts": [{"functionResponse": response}]}
        return {"role": "model" if part[0] == "model" else "user", "parts": [{"text": part[1]}]}

    def where(self, section: str, index: int = 0) -> str:
        if section == "system":
            return SYSTEM[self.api]
        if section == "tools":
            return "tools[0]" if self.api == "gemini" else f"tools[{index}]"
        name = {"anthropic": "messages", "openai-chat": "messages", "openai-responses": "input",
                "gemini": "contents"}[self.api]  # fmt: skip
        return f"{name}[{index + (self.api == 'openai-chat')}]"


Turns = Generator[tuple[Shape, Line], None, None]  # a request, and what the line has besides


class Maker:
    """Makes the turns of one agent."""

    def __init__(self, api: str, name: str, rng: random.Random) -> None:
        self.api, self.name, self.rng = api, name, rng
        self.calls = 0

    def shape(self, *, tools: int = 4, lines: int = 60) -> Shape:
        made = [
            {"name": f"{self.name}_tool_{i}", "description": words(self.rng, 80),
             "parameters": {"type": "object", "properties": {
                 "path": {"type": "string", "description": words(self.rng, 20)},
                 "limit": {"type": "integer"}}, "required": ["path"]}}
            for i in range(tools)
        ]  # fmt: skip
        system = ["You are an agent that helps."] + [words(self.rng, 20) for _ in range(lines)]
        return Shape(self.api, MODELS[self.api], system[: lines + 1] if lines else [], made)

    def ask(self, shape: Shape, count: int = 25) -> None:
        shape.parts.append(("user", words(self.rng, count)))

    def talk(
        self, shape: Shape, turns: int, change: Callable[[Shape, int], str] | None = None,
        conversation: str = "main", cause: str | None = None, text: str = "",
    ) -> Turns:  # fmt: skip
        """Ask, call a tool, answer, so often; a change is made to a copy before it is sent."""
        for turn in range(turns):
            self.ask(shape)
            for calls in (True, False):
                if calls and not shape.tools:
                    continue
                sent = copy.deepcopy(shape)
                where = "" if change is None else change(sent, turn * 2 + (not calls))
                is_first = turn == 0 and (calls or not shape.tools)
                reply: Line = {"text": text or words(self.rng, 30), "calls": []}
                call: Line = {}
                if calls:
                    self.calls += 1
                    name = f"call_{self.name}_{self.calls}"
                    given = {"path": words(self.rng, 2), "limit": self.calls}
                    call = {"id": name, "name": shape.tools[0]["name"], "arguments": given}
                    reply = {"text": "", "calls": [call]}
                yield sent, {"conversation": conversation, "reply": reply,
                             "cause": None if is_first or not where else cause,
                             "where": "" if is_first else where}  # fmt: skip
                if calls:
                    shape.parts.append(("call", call["id"], call["name"], call["arguments"]))
                    result = words(self.rng, 60)
                    shape.parts.append(("result", call["id"], call["name"], result))
                else:
                    shape.parts.append(("model", reply["text"]))


def _clock(at: int) -> Callable[[Shape, int], str]:
    def change(shape: Shape, step: int) -> str:
        index = at % (len(shape.system) + 1)
        shape.system.insert(index, f"Current time: {clock(step)}")
        return shape.where("system")

    return change


def _counter(shape: Shape, step: int) -> str:
    shape.system.insert(20, f"Request id: {random.Random(step).getrandbits(64):016x}")
    return shape.where("system")


def _tool_clock(shape: Shape, step: int) -> str:
    shape.tools[1]["description"] += f" It is {clock(step)} now."
    return shape.where("tools", 1)


def _message_clock(shape: Shape, step: int) -> str:
    shape.parts[0] = ("user", f"It is {clock(step)}.\n{shape.parts[0][1]}\n" + "more words " * 400)
    return shape.where("messages")


def _agents(api: str, rng: random.Random) -> Iterator[tuple[str, Turns]]:
    """Yield the agents of an API: what each is for, and its turns."""

    def maker(name: str) -> Maker:
        return Maker(api, f"{name}_{api[:3]}{rng.randrange(9999)}", random.Random(rng.random()))

    def plain(name: str, change: Any = None, cause: str | None = None, **more: Any) -> Turns:
        made = maker(name)
        shape = made.shape(**{k: v for k, v in more.items() if k in ("tools", "lines")})
        shape.extra = more.get("extra", {})
        return made.talk(shape, 3, change, cause=cause, text=more.get("text", ""))

    yield "quiet", plain("quiet")
    yield "short prompt with a clock", plain("short", _clock(0), tools=1, lines=2)
    for at, name in ((0, "first"), (30, "middle"), (-1, "last")):
        yield f"a clock in the {name} line", plain("clock", _clock(at), "date")
        yield f"no tools, a clock in the {name} line", plain("chat", _clock(at), "date", tools=0)
    yield "a counter", plain("counter", _counter, "random")
    yield "a clock in a tool", plain("toolclock", _tool_clock, "tool_reworded")
    yield "a clock in the first message", plain("asked", _message_clock, "date")
    for _ in range(3):
        yield "a clock, and every answer ok", plain("ok", _clock(0), "date", tools=0, text="ok")
    if api.startswith("openai"):
        for name in ("prompt_cache_key", "user"):
            for _ in range(2):
                extra = {name: "constant"}
                yield f"a clock, constant {name}", plain("key", _clock(0), "date", extra=extra)
    else:
        given = {"metadata": {"user_id": "constant"}} if api == "anthropic" else {}
        for _ in range(2):
            yield "a clock, constant user", plain("key", _clock(0), "date", extra=given)
    for cause, change in _changes(rng):
        yield f"one change: {cause}", _changed(maker(cause), cause, change)
    yield "a batch with a clock", _batch(maker("batch"), 8)
    yield "a batch", _batch(maker("batch"), 8, is_still=True)
    yield "a title and a sub-agent", _family(maker("family"))
    yield "a group", _group(maker("group"))
    yield "one growing text", _growing(maker("grow"))
    yield "found text that leaves", _found_text(maker("rag"))
    yield "a summary", _summary(maker("fold"))
    yield "a reload without white space", _reloaded(maker("reload"))
    for _ in range(3):
        yield "canned first messages", _canned(maker("canned"))
    yield "a retry", _retried(maker("retry"))
    if api.startswith("openai"):
        yield "a key for each request", _routed(maker("routed"))
    if api == "openai-responses":
        yield "held by the vendor, a clock", _held(maker("held"))
    if api == "anthropic":
        yield "never marked", plain("bare", _unmarked, "unmarked")


def _changes(rng: random.Random) -> Iterator[tuple[str, Callable[[Shape], str]]]:
    """Yield the causes that one change to a conversation has, and the change."""

    def system(text: str, at: int = 20) -> Callable[[Shape], str]:
        def change(shape: Shape) -> str:
            shape.system[at:at] = [text]
            return shape.where("system")

        return change

    def tools(edit: Callable[[list[Line]], object], index: int = 0) -> Callable[[Shape], str]:
        def change(shape: Shape) -> str:
            edit(shape.tools)
            return shape.where("tools", index)

        return change

    def parts(edit: Callable[[list[Part]], object]) -> Callable[[Shape], str]:
        def change(shape: Shape) -> str:
            edit(shape.parts)
            return ""

        return change

    more = {"name": "one_more", "description": words(rng, 20), "parameters": {"type": "object"}}
    yield "instructions", system("Answer in short sentences and name the file.")
    yield "environment", system("Git status: On branch main")
    yield "memory", system("# From AGENTS.md\nIndent by four. Name what you change.")
    yield "tool_added", tools(lambda t: t.append(more), 4)
    yield "tool_removed", tools(lambda t: t.pop(2), 2)
    yield "tools_reordered", tools(lambda t: t.reverse())
    yield "tool_reworded", tools(lambda t: t[1].update(description="Does it otherwise."), 1)
    yield "tool_schema", tools(lambda t: t[1]["parameters"].update(required=["limit"]), 1)
    yield "reserialized", tools(lambda t: t[1].update(parameters=dict(
        reversed(t[1]["parameters"].items()))), 1)  # fmt: skip
    yield "edited", parts(lambda p: p.__setitem__(3, ("model", words(rng, 60))))
    yield "spaced", parts(lambda p: p.__setitem__(3, ("model", p[3][1].replace(" ", "\n"))))
    yield "dropped", parts(lambda p: p.__delitem__(slice(5, 7)))
    yield "window", parts(lambda p: p.__delitem__(slice(0, 4)))
    yield "rewound", parts(lambda p: p.__setitem__(slice(4, -1), []))
    yield "inserted", parts(lambda p: p.__setitem__(slice(4, 4), [("user", words(rng, 40))]))
    yield "result_cut", parts(lambda p: p.__setitem__(2, (*p[2][:3], "[cleared]")))
    folded = [("user", "A summary of the conversation so far: " + words(rng, 90))]
    yield "compaction", parts(lambda p: p.__setitem__(slice(0, -1), folded))


def _changed(made: Maker, cause: str, change: Callable[[Shape], str]) -> Turns:
    """A conversation in which one thing changes at its fourth question, and stays so."""
    shape = made.shape()
    yield from made.talk(shape, 3)
    made.ask(shape)
    where = change(shape)
    said = words(made.rng, 30)
    sent = copy.deepcopy(shape)
    yield sent, {"conversation": "main", "cause": cause, "where": where, "reply": {"text": said}}
    shape.parts.append(("model", said))
    yield from made.talk(shape, 1)


def _unmarked(shape: Shape, _: int) -> str:
    shape.marked = False
    return "messages"


def _batch(made: Maker, count: int, *, is_still: bool = False) -> Turns:
    shape = made.shape()
    for step in range(count):
        sent = copy.deepcopy(shape)
        made.ask(sent)
        where = "" if is_still else _clock(1)(sent, step)
        yield sent, {"conversation": f"c{step}", "session": f"s{step}",
                     "reply": {"text": made.rng.choice(("yes", "no"))},
                     "cause": "date" if where and step else None, "where": where}  # fmt: skip


def _family(made: Maker) -> Turns:
    """A conversation with a title request, a suggestion and a sub-agent, all without an id."""
    shape = made.shape()
    turns = made.talk(shape, 3, _clock(0), cause="date")
    yield next(turns)
    question = shape.parts[0][1]
    title = made.shape(tools=0, lines=2)
    title.system[0], title.model = "Write a title of at most six words.", SMALL[made.api]
    title.parts = [("user", f"Write a title for: {question}")]
    yield title, {"conversation": "title", "role": "side", "reply": {"text": "A title of it"}}
    sent, line = next(turns)
    task = words(made.rng, 30)
    call = {
        "id": f"task_{made.name}",
        "name": shape.tools[1]["name"],
        "arguments": {"prompt": task},
    }
    line["reply"] = {"text": "", "calls": [call]}
    yield sent, line
    below = made.shape(tools=2)
    below.system[0] = "You are a searcher."
    below.parts = [("user", task)]
    yield (
        below,
        {"conversation": "sub", "role": "sub_agent", "reply": {"text": words(made.rng, 30)}},
    )
    turns.close()
    shape.parts.append(("call", call["id"], call["name"], call["arguments"]))
    shape.parts.append(("result", call["id"], call["name"], words(made.rng, 40)))
    sent = copy.deepcopy(shape)
    where = _clock(0)(sent, 9)
    answer = words(made.rng, 40)
    yield sent, {"conversation": "main", "reply": {"text": answer}, "cause": "date", "where": where}
    hint = made.shape(tools=0, lines=2)
    hint.system[0], hint.model = "Suggest what comes next.", SMALL[made.api]
    hint.parts = [("user", question), ("model", answer), ("user", "Suggest.")]
    yield hint, {"conversation": "hint", "role": "side", "reply": {"text": "Go on then"}}
    shape.parts.append(("model", answer))
    for sent, line in made.talk(shape, 1, lambda one, step: _clock(0)(one, 20 + step)):
        yield sent, {**line, "cause": "date", "where": shape.where("system")}


def _group(made: Maker) -> Turns:
    """Three speakers over one history."""
    shape, history = made.shape(tools=0), list[Part]()
    history.append(("user", words(made.rng, 40)))
    for turn in range(9):
        name = ("Alice", "Bob", "Carol")[turn % 3]
        sent = copy.deepcopy(shape)
        sent.system[0] = f"You are {name}, one of three who talk."
        sent.parts = [*history, ("user", f"{name}, it is your turn.")]
        said = words(made.rng, 40)
        yield sent, {"conversation": name, "reply": {"text": said}}
        history += [sent.parts[-1], ("model", said)]


def _growing(made: Maker) -> Turns:
    shape, text = made.shape(tools=0), f"User: {words(made.rng, 40)}\nAssistant:"
    for _ in range(5):
        sent = copy.deepcopy(shape)
        sent.parts = [("user", text)]
        said = words(made.rng, 30)
        yield sent, {"conversation": "main", "reply": {"text": said}}
        text += f" {said}\nUser: {words(made.rng, 20)}\nAssistant:"


def _found_text(made: Maker) -> Turns:
    shape = made.shape(tools=0)
    for turn in range(4):
        question, sent = words(made.rng, 12), copy.deepcopy(shape)
        sent.parts.append(("user", f"Context:\n{words(made.rng, 900)}\n\nQuestion: {question}"))
        said = words(made.rng, 30)
        where = shape.where("messages", 2 * turn - 2)
        yield sent, {"conversation": "main", "reply": {"text": said}, "where": where,
                     "cause": "edited" if turn else None}  # fmt: skip
        shape.parts += [("user", question), ("model", said)]


def _summary(made: Maker) -> Turns:
    shape = made.shape(tools=0)
    yield from made.talk(shape, 5)
    folded = f"Until now: {words(made.rng, 60)}"
    shape.parts = [("user", folded), *shape.parts[-2:]]
    turns = made.talk(shape, 2)
    sent, line = next(turns)
    yield sent, {**line, "cause": "compaction", "where": shape.where("messages")}
    yield from turns


def _reloaded(made: Maker) -> Turns:
    shape = made.shape()
    yield from made.talk(shape, 1)
    said = f"**{words(made.rng, 200)}**\n\n- {words(made.rng, 300)}\n\n- {words(made.rng, 9)}  "
    made.ask(shape)
    yield copy.deepcopy(shape), {"conversation": "main", "reply": {"text": said}}
    shape.parts.append(("model", said))
    yield from made.talk(shape, 1)
    at = next(i for i, part in enumerate(shape.parts) if part[1] == said)
    shape.parts[at] = ("model", " ".join(said.split()))
    turns = made.talk(shape, 1)
    sent, line = next(turns)
    yield sent, {**line, "cause": "spaced", "where": ""}
    yield from turns


def _canned(made: Maker) -> Turns:
    shape = made.shape(tools=0)
    shape.system = ["You are a helpful guide.", *["Be kind and brief with all who ask. " * 200]]
    shape.parts = [("user", "Good morning to you, dear guide!"),
                   ("model", "Good morning! How can I help you on this fine day?")]  # fmt: skip
    yield from made.talk(shape, 3)


def _retried(made: Maker) -> Turns:
    shape = made.shape(tools=0)
    made.ask(shape)
    yield copy.deepcopy(shape), {"conversation": "main", "status": 529, "reply": None}
    shape.parts.clear()
    made.rng = random.Random(5)
    made.ask(shape)
    sent = copy.deepcopy(shape)
    yield sent, {"conversation": "main2", "session": "s2", "status": 429, "reply": None}
    said = words(made.rng, 30)
    yield sent, {"conversation": "main2", "session": "s2", "reply": {"text": said}}
    shape.parts.append(("model", said))
    for turn in made.talk(shape, 2, conversation="main2"):
        turn[1]["session"] = "s2"
        yield turn


def _routed(made: Maker) -> Turns:
    shape = made.shape()
    for number, (sent, line) in enumerate(made.talk(shape, 3)):
        sent.extra = {"prompt_cache_key": f"{made.name}-{number}"}
        cause = "routing" if number else None
        yield sent, {**line, "cause": cause, "where": "prompt_cache_key", "routed": True}


def _held(made: Maker) -> Turns:
    shape, previous = made.shape(tools=0), ""
    for turn in range(5):
        sent = copy.deepcopy(shape)
        made.ask(sent)
        sent.previous, name = previous, f"resp_{made.name}_{turn}"
        where = _clock(0)(sent, turn)
        yield sent, {"conversation": "main", "cause": "date" if turn else None, "where": where,
                     "reply": {"text": words(made.rng, 30), "id": name}}  # fmt: skip
        previous = name


def lines_of(seed: int) -> Iterator[Line]:
    """Write the lines of the set: the agents of all APIs, in turns."""
    rng = random.Random(seed)
    agents = [
        (f"{api}.{number}", api, note, turns)
        for api in APIS
        for number, (note, turns) in enumerate(_agents(api, rng))
    ]
    number = 0
    while agents:
        left = []
        for name, api, note, turns in agents:
            found = next(turns, None)
            if found is None:
                continue
            left.append((name, api, note, turns))
            shape, more = found
            session = more.get("session", "s0")
            path = {"anthropic": "/v1/messages", "openai-chat": "/v1/chat/completions",
                    "openai-responses": "/v1/responses",
                    "gemini": f"/v1beta/models/{shape.model}:generateContent"}[api]  # fmt: skip
            yield {"role": "main", "status": 200, "cause": None, "where": "", **more, "n": number,
                   "agent": name, "session": f"{name}.{session}",
                   "conversation": f"{name}.{session}.{more['conversation']}",
                   "credential": "key-1", "api": api, "path": path, "headers": {},
                   "body": shape.body(), "note": note}  # fmt: skip
            number += 1
        agents = left


# The frozen cases of `benchmarks/faults.jsonl`, each as a session from its beginning.


def frozen(path: Path, every: int = 1, lane: int = 24) -> Iterator[Line]:
    """Write the cases as sessions of two requests and what came before, so many in one lane."""
    rows = [json.loads(text) for text in path.read_text("utf-8").splitlines()]
    bases = {row["base"]: row["requests"] for row in rows if "requests" in row}
    cases = [row for row in rows if "kind" in row][::every]
    number = 0
    for start in range(0, len(cases), lane):
        turns = [
            _replayed(row, bases[row["base"]], f"c{start + at}", f"key-{start}")
            for at, row in enumerate(cases[start : start + lane])
        ]
        while any(turns):
            for lines in turns:
                if lines:
                    yield {**lines.pop(0), "n": number}
                    number += 1


def _replayed(row: Line, bases: list[Line], name: str, credential: str) -> list[Line]:
    before, now = (
        _patched(base, row[key]) for base, key in zip(bases, ("before", "now"), strict=True)
    )
    for one in (before, now):
        one.pop("prompt_cache_key", None)
    key = "messages" if "messages" in before else "input"
    said, after = before[key], bases[1][key]
    said = said if isinstance(said, list) else []
    ends = [at for at in range(1, len(said)) if _is_model(said[at]) and not _is_model(said[at - 1])]
    sent = [({**before, key: said[:at]}, _reply(said[at:])) for at in ends]
    sent += [(before, _reply(after[len(said) :])), (now, {"text": "", "calls": []})]
    lines = []
    # The cases share two bases: whoever says something in one says it in words of its own.
    own = {part for one in bases for message in one[key] for part in _texts(message)}
    for body, reply in sent:
        text = json.dumps([body, reply], ensure_ascii=False)
        for prefix in ("toolu_", "call_"):
            text = re.sub(rf'"{prefix}(?=[0-9])', f'"{prefix}{name}_', text)
        for words_ in own:
            quoted = json.dumps(words_, ensure_ascii=False)[1:-1]
            text = text.replace(quoted, f"{quoted} {name} {words_.split()[-1]}")
        body, reply = json.loads(text)
        is_claude = key == "messages"
        lines.append({
            "agent": name, "session": name, "conversation": name, "role": "main",
            "credential": credential, "api": "anthropic" if is_claude else "openai-responses",
            "path": "/v1/messages" if is_claude else "/v1/responses", "headers": {}, "body": body,
            "reply": reply, "status": 200, "cause": None, "where": "", "note": row["kind"],
        })  # fmt: skip
    is_timed = row["idle_s"] > 60  # nobody waits so long here
    lines[-1] |= {"cause": None if is_timed else row["cause"] or None, "where": row["path"] or ""}
    return lines


def _texts(message: Line) -> Iterator[str]:
    content = message.get("content") or []
    for part in [{"text": content}] if isinstance(content, str) else content:
        if len(part.get("text", "")) > 60 and "<" not in part["text"]:
            yield part["text"]


def _is_model(message: Line) -> bool:
    kind = message.get("type", "message")
    return message.get("role") == "assistant" or kind in ("reasoning", "function_call")


def _reply(messages: list[Line]) -> Line:
    """Read what a vendor answered from what the agent repeats of it."""
    text, calls = "", list[Line]()
    for message in messages:
        if not _is_model(message):
            break
        content = message.get("content") or []
        for part in [content] if isinstance(content, str) else [message, *content]:
            if isinstance(part, str):
                text += part
            elif part.get("type") in ("text", "output_text"):
                text += part["text"]
            elif part.get("type") == "tool_use":
                calls.append({"id": part["id"], "name": part["name"], "arguments": part["input"]})
            elif part.get("type") == "function_call":
                calls.append({"id": part["call_id"], "name": part["name"],
                              "arguments": json.loads(part["arguments"])})  # fmt: skip
    return {"text": text, "calls": calls}


def _patched(base: Line, edits: list[Any]) -> Line:
    """Apply the edits of a case to its base."""
    made = copy.deepcopy(base)
    for kind, path, *more in edits:
        *above, last = path.split("/")[1:] or [""]
        if not path:
            made = copy.deepcopy(more[0])
            continue
        at: Any = made
        for step in above:
            at = at[int(step) if isinstance(at, list) else step]
        key: Any = int(last) if isinstance(at, list) else last
        if kind == "-":
            del at[key]
        elif kind == "=":
            at[key] = copy.deepcopy(more[0])
        else:
            start, count, put = more
            old = list(at[key])
            new = [copy.deepcopy(old[one["$"]] if "$" in one else one["v"]) for one in put]
            at[key][start : start + count] = new
    return made
