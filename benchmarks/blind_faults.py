"""Further ways to lose a prompt cache, written without having read what names them.

Their author knew the causes with their words (`sightline.context.dialects.drift`), the sessions
and the faults of `benchmarks.faults`, and how agents write their prompts; not the code that is
scored.

    BLIND       changes by which a cache is lost, with the cause and the place
    HARMLESS    changes by which nothing is lost: nothing may be found
"""

from __future__ import annotations

import copy
import json
import random
import re
import unicodedata
from collections.abc import Callable
from typing import Final

from benchmarks.faults import (
    CLAUDE,
    Body,
    Fault,
    blocks_of,
    is_question,
    messages_of,
    pairs_of,
    replace_system,
    text,
    texts_with,
    where,
)

__all__ = ["BLIND", "HARMLESS"]


# Where something stands. What both requests must agree on is counted from the beginning.


def _block(body: Body, words: str) -> Body:
    return {"type": "text" if "messages" in body else "input_text", "text": words}


def _user(body: Body, words: str) -> Body:
    said: Body = {"role": "user", "content": [_block(body, words)]}
    return said if "messages" in body else {"type": "message", **said}


def _questions(body: Body) -> list[int]:
    found = enumerate(messages_of(body))
    return [i for i, m in found if m.get("role") == "user" and is_question(m)]


def _answers(body: Body) -> list[int]:
    """Where the assistant only speaks."""
    return [
        index
        for index, message in enumerate(messages_of(body))
        if message.get("role") == "assistant"
        and (isinstance(message["content"], str) or message["content"][-1]["type"] != "tool_use")
    ]


def _answer(body: Body, index: int) -> str:
    content = messages_of(body)[index]["content"]
    found: str = content if isinstance(content, str) else content[-1]["text"]
    return found


def _say(body: Body, index: int, words: str) -> str:
    message = messages_of(body)[index]
    if isinstance(message["content"], str):
        message["content"] = words
    else:
        message["content"][-1]["text"] = words
    return where(body, index)


def _result(body: Body, index: int, at: int) -> str:
    message = messages_of(body)[index]
    found: str = message["output"] if at < 0 else message["content"][at]["content"]
    return found


def _put_result(body: Body, index: int, at: int, words: str) -> str:
    message = messages_of(body)[index]
    if at < 0:
        message["output"] = words
    else:
        message["content"][at]["content"] = words
    return where(body, index)


def _results(body: Body) -> list[tuple[int, int]]:
    return blocks_of(body, ("tool_result", "function_call_output"))


def _schema(tool: Body) -> Body:
    found: Body = tool["input_schema"] if "input_schema" in tool else tool["parameters"]
    return found


def _opened(body: Body, words: str) -> None:
    """Put a block before the first question."""
    messages_of(body)[_questions(body)[0]]["content"].insert(0, _block(body, words))


def _rewritten(body: Body, having: str, change: Callable[[str], str]) -> str:
    """Change the first block of text that has these words."""
    index, at = texts_with(body, having)[0]
    block = messages_of(body)[index]["content"][at]
    block["text"] = change(block["text"])
    return where(body, index)


def _in_system(body: Body, pattern: str, new: Callable[[re.Match[str]], str]) -> str | None:
    """Change what of the instructions fits a pattern."""
    texts = (
        [body["instructions"]] if "instructions" in body else [b["text"] for b in body["system"]]
    )
    old = next(found[0] for words in texts if (found := re.search(pattern, words)))
    return replace_system(body, old, re.sub(pattern, new, old))


def _line(words: str) -> Callable[[Body], None]:
    def write(body: Body) -> None:
        replace_system(body, "# Environment\n", f"{words}\n# Environment\n")

    return write


# Settings.


def _answer_format_given(rng: random.Random, body: Body) -> None:
    schema = {"type": "object", "properties": {rng.choice(("fix", "plan")): {"type": "string"}}}
    if "messages" in body:
        body["output_config"] |= {"format": {"type": "json_schema", "schema": schema}}
    else:
        body["text"] = {"format": {"type": "json_schema", "name": "answer", "schema": schema}}


def _answer_format(rng: random.Random, body: Body) -> str:
    holder = body["output_config"] if "messages" in body else body["text"]
    if rng.random() < 0.5:
        del holder["format"]
    else:
        holder["format"]["schema"]["properties"]["risk"] = {"type": "number"}
    return ""


def _thinking_budget(rng: random.Random, body: Body) -> str:
    body["thinking"]["budget_tokens"] = rng.choice((1_024, 4_000, 31_999))
    return ""


def _fast(_: random.Random, body: Body) -> str:
    # Anthropic, "What invalidates the cache": the speed setting.
    body["speed"] = "fast"
    return ""


# Tools.


def _served(rng: random.Random, body: Body, server: str, at: int) -> None:
    """Put the tools of a server among the others."""
    new = []
    for name in rng.sample(("open", "list", "find", "close", "merge", "wait"), rng.randrange(2, 7)):
        tool = copy.deepcopy(body["tools"][0])
        new.append(tool | {"name": f"mcp__{server}__{name}", "description": text(rng, 20)})
    body["tools"][at:at] = new


def _server_joined(rng: random.Random, body: Body) -> str:
    at = rng.randrange(len(body["tools"]) + 1)
    _served(rng, body, rng.choice(("github", "browser", "tracker")), at)
    return f"tools[{at}]"


def _server_given(rng: random.Random, body: Body) -> None:
    _served(rng, body, "browser", rng.randrange(len(body["tools"]) + 1))


def _server_left(_: random.Random, body: Body) -> str:
    gone = [tool["name"].startswith("mcp__browser__") for tool in body["tools"]]
    body["tools"] = [tool for tool, left in zip(body["tools"], gone, strict=True) if not left]
    return f"tools[{gone.index(True)}]"


def _open_files_given(rng: random.Random, body: Body) -> None:
    tool = rng.choice(body["tools"])
    count = rng.randrange(3, 9)
    _schema(tool)["properties"]["path"]["enum"] = [
        f"src/{i}_{text(rng, 1)}.py" for i in range(count)
    ]


def _open_files(rng: random.Random, body: Body) -> str:
    for at, tool in enumerate(body["tools"]):
        files = _schema(tool)["properties"]["path"].get("enum")
        if files and rng.random() < 0.5:
            files.insert(rng.randrange(len(files) + 1), "src/opened.py")
            return f"tools[{at}]"
        if files:
            del files[rng.randrange(len(files))]
            return f"tools[{at}]"
    raise AssertionError


def _schema_order_given(rng: random.Random, body: Body) -> None:
    more = {name: {"type": "string"} for name in ("text", "after", "mode", "limit")}
    _schema(rng.choice(body["tools"]))["properties"] |= more


def _schema_order(rng: random.Random, body: Body) -> str:
    at = next(i for i, tool in enumerate(body["tools"]) if len(_schema(tool)["properties"]) > 1)
    schema = _schema(body["tools"][at])
    old = list(schema["properties"].items())
    new = old[:]
    while new == old:
        rng.shuffle(new)
    schema["properties"] = dict(new)
    return f"tools[{at}]"


def _tool_tells_state_given(rng: random.Random, body: Body) -> None:
    told = (" Today is 2026-11-15.", f" Scratch folder: /scratch/run-{rng.getrandbits(32):08x}.",
            " It is the index of 214 pages.", " Signed in as anna.")  # fmt: skip
    rng.choice(body["tools"])["description"] += rng.choice(told)


def _tool_tells_state(rng: random.Random, body: Body) -> str:
    for at, tool in enumerate(body["tools"]):
        old = tool["description"]
        tool["description"] = (
            old.replace("2026-11-15", "2026-11-16")
            .replace("214 pages", f"{rng.randrange(215, 999)} pages")
            .replace("as anna", "as boris")
        )
        new = f"/scratch/run-{rng.getrandbits(32):08x}"
        tool["description"] = re.sub(r"/scratch/run-\w+", new, tool["description"])
        if tool["description"] != old:
            return f"tools[{at}]"
    raise AssertionError


# Instructions.


def _gauge_given(rng: random.Random, body: Body) -> None:
    shown = ("Remaining context: 81%", "Tokens used so far: 81,234 of 200,000", "Turn 14 of 50.")
    _line(rng.choice(shown))(body)


def _gauge(rng: random.Random, body: Body) -> str | None:
    new = {"81": "79", "81,234": f"8{rng.randrange(2, 9)},901", "14": "15"}
    pattern = r"(Remaining context: |Tokens used so far: |Turn )([\d,]+)"
    return _in_system(body, pattern, lambda found: found[1] + new[found[2]])


def _surroundings(rng: random.Random, body: Body) -> str | None:
    changes = (
        ("directory: /work/project", "directory: /work/project/web"),
        ("Platform: linux\n", "Platform: linux\nLocale: de_DE.UTF-8\n"),
        ("On branch main", f"On branch fix-{rng.randrange(99)}"),
    )
    return replace_system(body, *rng.choice(changes))


def _feature_flag_given(rng: random.Random, body: Body) -> None:
    _line(f"# Tone\n{text(rng, 25)}")(body)


def _feature_flag(rng: random.Random, body: Body) -> str | None:
    if rng.random() < 0.5:
        return _in_system(body, r"# Tone\n[^\n]+\n", lambda _: "")
    return replace_system(body, "# Tone\n", f"IMPORTANT: {text(rng, 15)}\n# Tone\n")


# The first message, into which agents write what they know.


def _clock_given(rng: random.Random, body: Body) -> None:
    shown = ("Current time: 2026-11-15T14:03:22Z", "It is Sunday, 15 November 2026, 14:03:22.",
             "[14:03:22] The user says:")  # fmt: skip
    _opened(body, rng.choice(shown))


def _clock(rng: random.Random, body: Body) -> str:
    new = f"14:{rng.randrange(10, 60)}:{rng.randrange(10, 60)}"
    return _rewritten(body, "14:03:22", lambda old: old.replace("14:03:22", new))


def _stamp_given(rng: random.Random, body: Body) -> None:
    stamp = rng.choice(("Request id: 5f3a9c01e77b42d0", "[step 14 of 50]", "nonce=918273645"))
    index = _questions(body)[0]
    said = messages_of(body)[index]["content"][-1]
    said["text"] = f"{said['text']}\n\n{stamp}"


def _stamp(rng: random.Random, body: Body) -> str:
    def anew(old: str) -> str:
        head, gap, stamp = old.rpartition("\n\n")
        stamp = stamp.replace("5f3a9c01e77b42d0", f"{rng.getrandbits(64):016x}")
        stamp = stamp.replace("step 14", "step 15")
        return head + gap + stamp.replace("918273645", str(rng.randrange(10**8, 10**9)))

    return _say(body, (index := _questions(body)[0]), anew(_answer(body, index)))


def _todo_given(rng: random.Random, body: Body) -> None:
    todo = "".join(f"- [ ] {text(rng, 5)}\n" for _ in range(rng.randrange(3, 7)))
    _opened(body, f"<system-reminder>\nYour list of things to do:\n{todo}</system-reminder>")


def _todo(rng: random.Random, body: Body) -> str:
    def work(old: str) -> str:
        if rng.random() < 0.3:
            return old.replace("</system", f"- [ ] {text(rng, 5)}\n</system")
        return old.replace("- [ ]", "- [x]", rng.randrange(1, 3))

    return _rewritten(body, "things to do", work)


def _project_file_given(rng: random.Random, body: Body) -> None:
    lines = "".join(f"- {text(rng, 8)}\n" for _ in range(5))
    if "messages" in body:
        head = "# claudeMd\nContents of /work/project/CLAUDE.md (instructions of the project):\n\n"
        _opened(body, f"<system-reminder>\n{head}{lines}</system-reminder>")
    else:
        head = "# AGENTS.md instructions for /work/project\n\n<INSTRUCTIONS>\n"
        _opened(body, f"{head}{lines}</INSTRUCTIONS>")


def _project_file(rng: random.Random, body: Body) -> str:
    def edit(old: str) -> str:
        lines = old.split("\n")
        at = rng.choice([i for i, line in enumerate(lines) if line.startswith("- ")])
        lines[at : at + 1] = rng.choice(
            ([], [lines[at], f"- {text(rng, 6)}"], [f"- {text(rng, 7)}"])
        )
        return "\n".join(lines)

    return _rewritten(body, "CLAUDE.md" if "messages" in body else "AGENTS.md", edit)


def _moved_directory_given(_: random.Random, body: Body) -> None:
    _opened(
        body,
        "<environment_context>\n  <cwd>/work/project</cwd>\n  <approval_policy>on-request"
        "</approval_policy>\n  <sandbox_mode>read-only</sandbox_mode>\n  <shell>bash</shell>\n"
        "</environment_context>",
    )


def _moved_directory(rng: random.Random, body: Body) -> str:
    changes = (("/work/project<", "/work/project/web<"), ("on-request", "never"),
               ("read-only", "workspace-write"))  # fmt: skip
    old, new = rng.choice(changes)
    return _rewritten(body, "<environment_context>", lambda words: words.replace(old, new))


def _session_hook_given(rng: random.Random, body: Body) -> None:
    event = rng.choice(("SessionStart", "PostToolUse:Edit"))
    said = f"{event} hook additional context: {text(rng, 12)}"
    _opened(body, f"<system-reminder>\n{said}\n</system-reminder>")


def _session_hook(rng: random.Random, body: Body) -> str:
    def anew(old: str) -> str:
        return f"{old.partition('context: ')[0]}context: {text(rng, 14)}\n</system-reminder>"

    return _rewritten(body, "hook additional context", anew)


# The conversation.


def _reminder_moved(rng: random.Random, body: Body) -> str:
    index, at = rng.choice(texts_with(body, "<system-reminder>"))
    taken = messages_of(body)[index]["content"].pop(at)
    if "messages" in body:
        messages_of(body)[-1]["content"].append(taken)
    else:
        messages_of(body).append({"type": "message", "role": "user", "content": [taken]})
    return where(body, index)


def _results_cleared(rng: random.Random, body: Body) -> str:
    found = _results(body)
    chosen = sorted(rng.sample(found, rng.randrange(2, len(found) + 1)))
    words = rng.choice(
        ("(removed to save room)", "", "<cleared/>", "Output of 160 words left out.")
    )
    for index, at in chosen:
        _put_result(body, index, at, words)
    return where(body, chosen[0][0])


def _result_middle(rng: random.Random, body: Body) -> str:
    index, at = rng.choice(_results(body))
    words = _result(body, index, at).split()
    head, tail = rng.randrange(10, 60), rng.randrange(5, 40)
    note = f"\n... {len(words) - head - tail} words left out ...\n"
    return _put_result(body, index, at, " ".join(words[:head]) + note + " ".join(words[-tail:]))


def _image_scaled(rng: random.Random, body: Body) -> str:
    index, at = rng.choice(blocks_of(body, ("image", "input_image")))
    block = messages_of(body)[index]["content"][at]
    data = f"{rng.getrandbits(128):032x}"
    if rng.random() < 0.5:
        messages_of(body)[index]["content"][at] = _block(body, "[image of 800 x 600, left out]")
    elif "source" in block:
        block["source"] |= {"media_type": "image/jpeg", "data": data}
    else:
        block["image_url"] = f"data:image/jpeg;base64,{data}"
    return where(body, index)


def _middle_cut(rng: random.Random, body: Body) -> str:
    starts = [first if "messages" in body else first - 1 for first, _ in pairs_of(body)]
    a = rng.randrange(1, len(starts) - 2)
    b = rng.randrange(a + 2, len(starts))
    del messages_of(body)[starts[a] : starts[b]]
    return where(body, starts[a])


def _line_ends_given(rng: random.Random, body: Body) -> None:
    index = _answers(body)[rng.randrange(2)]
    words = _answer(body, index).split()
    ended = " ".join(words[:9]) + "\r\n" + " ".join(words[9:])
    _say(body, index, rng.choice((ended, " ".join(words) + "  \n\n", " ".join(words) + " ")))
    where_, at = _results(body)[rng.randrange(3)]
    _put_result(body, where_, at, _result(body, where_, at).replace(" the ", "\r\n\tthe "))


def _line_ends(rng: random.Random, body: Body) -> str | None:
    if rng.random() < 0.5:
        for index in _answers(body):
            old = _answer(body, index)
            new = old.replace("\r\n", "\n").rstrip()
            if new != old:
                return _say(body, index, new)
    for index, at in _results(body):
        old = _result(body, index, at)
        if "\r\n\t" in old:
            new = old.replace(*rng.choice((("\r\n", "\n"), ("\t", "    "))))
            return _put_result(body, index, at, new)
    return None


def _normalised_given(rng: random.Random, body: Body) -> None:
    index = rng.choice((_answers(body)[0], _answers(body)[1], _questions(body)[0]))
    words = _answer(body, index).split()
    words[rng.randrange(len(words))] = rng.choice(("café", "Zürich", "naïve", "señor"))
    _say(body, index, " ".join(words))


def _normalised(_: random.Random, body: Body) -> str | None:
    for index in sorted(_answers(body) + _questions(body)):
        old = _answer(body, index)
        if (new := unicodedata.normalize("NFD", old)) != old:
            return _say(body, index, new)
    return None


def _ids_renamed(rng: random.Random, body: Body) -> str:
    names: dict[str, str] = {}
    for message in messages_of(body):
        for block in message["content"] if isinstance(message["content"], list) else ():
            for key in ("id", "tool_use_id"):
                if key in block:
                    new = names.setdefault(block[key], f"toolu_{rng.getrandbits(64):016x}")
                    block[key] = new
    return where(body, pairs_of(body)[0][0])


def _parallel_given(rng: random.Random, body: Body) -> None:
    end = pairs_of(body)[rng.randrange(3)][1]
    names = [f"par_{i}" for i in range(rng.randrange(2, 5))]
    outputs = [text(rng, 40) for _ in names]
    if "messages" in body:
        calls: list[Body] = [
            {"type": "tool_use", "id": n, "name": "Grep", "input": {"path": n}} for n in names
        ]
        results: list[Body] = [
            {"type": "tool_result", "tool_use_id": name, "content": output}
            for name, output in zip(names, outputs, strict=True)
        ]
        new: list[Body] = [
            {"role": "assistant", "content": calls}, {"role": "user", "content": results}
        ]  # fmt: skip
    else:
        new = [
            {
                "type": "function_call",
                "call_id": n,
                "name": "Grep",
                "arguments": f'{{"path": "{n}"}}',
            }
            for n in names
        ] + [
            {"type": "function_call_output", "call_id": name, "output": output}
            for name, output in zip(names, outputs, strict=True)
        ]
    messages_of(body)[end:end] = new


def _parallel_results(rng: random.Random, body: Body) -> str:
    messages = messages_of(body)
    if "messages" in body:
        at = next(
            i for i, m in enumerate(messages)
            if str(m["content"][0]).find("'tool_use_id': 'par_") >= 0
        )  # fmt: skip
        results = messages[at]["content"]
        first = rng.randrange(len(results) - 1)
        results[first], results[first + 1] = results[first + 1], results[first]
        return where(body, at)
    found = [
        i for i, item in enumerate(messages)
        if "output" in item and item["call_id"].startswith("par_")
    ]  # fmt: skip
    first = rng.choice(found[:-1])
    messages[first], messages[first + 1] = messages[first + 1], messages[first]
    return where(body, first)


def _answer_shortened(rng: random.Random, body: Body) -> str:
    return _say(body, rng.choice(_answers(body)), f"Done: {text(rng, rng.randrange(4, 12))}.")


def _reasoning_sealed_anew(rng: random.Random, body: Body) -> str:
    found = blocks_of(body, ("thinking", "reasoning"))
    found = found if rng.random() < 0.5 else [rng.choice(found)]
    hidden = rng.random() < 0.5
    for index, at in found:
        if at < 0:
            messages_of(body)[index]["encrypted_content"] = f"sealed {text(rng, 9)}"
        elif hidden:
            new = {"type": "redacted_thinking", "data": text(rng, 9)}
            messages_of(body)[index]["content"][at] = new
        else:
            messages_of(body)[index]["content"][at]["signature"] = f"sealed {text(rng, 3)}"
    return where(body, found[0][0])


def _went_back(rng: random.Random, body: Body) -> str:
    at = rng.choice(_questions(body)[1:])
    messages_of(body)[at:] = [_user(body, f"No, rather: {text(rng, 20)}")]
    return where(body, at)


def _began_anew(rng: random.Random, body: Body) -> str:
    first = 0 if "messages" in body else 1
    messages_of(body)[first:] = [_user(body, text(rng, 20))]
    return where(body, first)


def _folded(rng: random.Random, body: Body) -> str:
    first = 0 if "messages" in body else 1
    head = rng.choice(
        (
            "Summary of the conversation so far:\n",
            "Another model began this task and left a summary of its work:\n",
            "<summary>\n",
        )
    )
    summary = _user(body, f"{head}{text(rng, 70)}")
    if "input" in body and rng.random() < 0.3:
        summary = {"type": "compaction", "encrypted_content": text(rng, 40)}
    messages = messages_of(body)
    kept = 2 if "messages" in body else 3
    messages[:] = [*messages[:first], summary, *messages[-kept:]]
    return where(body, first)


def _many_blocks(rng: random.Random, body: Body) -> str:
    names = [f"toolu_many_{i}" for i in range(rng.randrange(12, 25))]
    calls = [{"type": "tool_use", "id": n, "name": "Read", "input": {"path": n}} for n in names]
    results: list[Body] = [
        {"type": "tool_result", "tool_use_id": name, "content": text(rng, 10)} for name in names
    ]
    results[-1]["cache_control"] = {"type": "ephemeral"}
    messages_of(body)[-2:] = [
        {"role": "assistant", "content": calls},
        {"role": "user", "content": results},
    ]
    return ""


def _arguments_given(rng: random.Random, body: Body) -> None:
    index = pairs_of(body)[rng.randrange(4)][0]
    said = {"path": "a.py", "note": "café", "options": {"limit": rng.randrange(99), "all": True}}
    if "messages" in body:
        messages_of(body)[index]["content"][-1]["input"] = said
    else:
        messages_of(body)[index]["arguments"] = json.dumps(said)


def _arguments_written_anew(rng: random.Random, body: Body) -> str:
    for index, _ in pairs_of(body):
        item = messages_of(body)[index]
        if "messages" in body:
            said = item["content"][-1]["input"]
            if "options" in said:
                said["options"] = dict(reversed(said["options"].items()))
                return where(body, index)
        elif "options" in item["arguments"]:
            said = json.loads(item["arguments"])
            item["arguments"] = rng.choice(
                (
                    json.dumps(said, separators=(",", ":")),
                    json.dumps(said, ensure_ascii=False),
                    json.dumps(said | {"options": dict(reversed(said["options"].items()))}),
                )
            )
            return where(body, index)
    raise AssertionError


BLIND: Final = (
    Fault("output", "settings", _answer_format, given=_answer_format_given),
    Fault("thinking", "settings", _thinking_budget, CLAUDE),
    Fault("setting", "settings", _fast, CLAUDE),
    Fault("tool_added", "tools", _server_joined),
    Fault("tool_removed", "tools", _server_left, given=_server_given),
    Fault("tool_schema", "tools", _open_files, given=_open_files_given),
    Fault("tool_schema", "tools", _schema_order, given=_schema_order_given),
    Fault("tool_reworded", "tools", _tool_tells_state, given=_tool_tells_state_given),
    Fault("random", "system", _gauge, given=_gauge_given),
    Fault("environment", "system", _surroundings),
    Fault("instructions", "system", _feature_flag, given=_feature_flag_given),
    Fault("date", "messages", _clock, given=_clock_given),
    Fault("random", "messages", _stamp, given=_stamp_given),
    Fault("reminder", "messages", _todo, given=_todo_given),
    Fault("memory", "messages", _project_file, given=_project_file_given),
    Fault("environment", "messages", _moved_directory, given=_moved_directory_given),
    Fault("hook", "messages", _session_hook, given=_session_hook_given),
    Fault("reminder", "messages", _reminder_moved),
    Fault("result_cut", "messages", _results_cleared),
    Fault("result_cut", "messages", _result_middle),
    Fault("image", "messages", _image_scaled),
    Fault("dropped", "messages", _middle_cut),
    Fault("spaced", "messages", _line_ends, given=_line_ends_given),
    Fault("edited", "messages", _normalised, given=_normalised_given),
    Fault("random", "messages", _ids_renamed, CLAUDE),
    Fault("reordered", "messages", _parallel_results, given=_parallel_given),
    Fault("edited", "messages", _answer_shortened),
    Fault("reasoning", "messages", _reasoning_sealed_anew),
    Fault("rewound", "messages", _went_back),
    Fault("cleared", "messages", _began_anew),
    Fault("compaction", "messages", _folded),
    Fault("lookback", "vendor", _many_blocks, CLAUDE, reported="nothing"),
    Fault("reserialized", "messages", _arguments_written_anew, given=_arguments_given),
)


# Nothing is lost by these.


def _sampling(rng: random.Random, body: Body) -> str:
    shared = {"temperature": rng.random(), "top_p": 0.9, "metadata": {"user_id": text(rng, 1)}}
    claude = {"max_tokens": rng.randrange(1_000, 64_000), "stop_sequences": ["END"]}
    openai = {"max_output_tokens": rng.randrange(1_000, 64_000), "safety_identifier": text(rng, 1)}
    changes = list((shared | (claude if "messages" in body else openai)).items())
    body |= dict(rng.sample(changes, rng.randrange(1, len(changes) + 1)))
    body["stream"] = rng.random() < 0.5
    return ""


def _marks_moved(rng: random.Random, body: Body) -> str:
    body["system"][-1].pop("cache_control")
    rng.choice(body["tools"])["cache_control"] = {"type": "ephemeral"}
    lists = [m["content"] for m in messages_of(body) if isinstance(m["content"], list)]
    rng.choice(lists)[-1]["cache_control"] = {"type": "ephemeral"}
    return ""


def _strings_and_blocks(rng: random.Random, body: Body) -> str:
    for message in messages_of(body):
        content = message.get("content")
        if isinstance(content, str):
            if rng.random() < 0.7:
                message["content"] = [{"type": "text", "text": content}]
        elif content and len(content) == 1 and "text" in content[0] and rng.random() < 0.7:
            message["content"] = content[0]["text"]
    return ""


def _keys_in_another_order(rng: random.Random, body: Body) -> str:
    for message in messages_of(body):
        if isinstance(message.get("content"), list):
            message["content"] = [dict(reversed(block.items())) for block in message["content"]]
    fields = list(body.items())
    rng.shuffle(fields)
    body.clear()
    body.update(fields)
    return ""


def _new_at_the_end(rng: random.Random, body: Body) -> str:
    said = rng.choice(
        (
            f"<system-reminder>{text(rng, 20)}</system-reminder>",
            f"Current time: 2026-11-15T14:{rng.randrange(10, 60)}:22Z",
            f"Stop hook additional context: {text(rng, 9)}",
            f"Contents of /work/project/CLAUDE.md:\n{text(rng, 12)}",
        )
    )
    if "messages" in body:
        messages_of(body)[-1]["content"].append(_block(body, said))
    else:
        messages_of(body).append(_user(body, said))
    return ""


HARMLESS: Final = (
    Fault("", "settings", _sampling),
    Fault("", "settings", _marks_moved, CLAUDE),
    Fault("", "messages", _strings_and_blocks),
    Fault("", "messages", _keys_in_another_order),
    Fault("", "messages", _new_at_the_end),
)
