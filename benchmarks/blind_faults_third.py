"""A third set of ways to lose a prompt cache, written without having read what names them.

Written on 2026-11-16, after what the first two such sets showed had been repaired, by somebody who
had not read the classifier; to be scored once. Their author knew what users are told
(`docs/gateway.md`), the causes with their words (`sightline.context.dialects.drift`), the
sessions and faults of `benchmarks.faults`, and notes on what agents send and vendors keep; neither
the code that is scored, nor its tests, nor the kinds of the two sets before.

    BLIND       changes by which a cache is lost, with the cause and the place
    HARMLESS    changes by which nothing is lost: nothing may be found

Kinds of which the documentation allows two readings were left out. Where several things changed at
once, the first that is read is expected: settings, then tools, instructions and messages.
"""

from __future__ import annotations

import copy
import json
import random
from typing import Any, Final

from benchmarks.faults import (
    CLAUDE,
    MEMORY,
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


def _claude(body: Body) -> bool:
    return "messages" in body


def _block(body: Body, words: str) -> Body:
    return {"type": "text" if _claude(body) else "input_text", "text": words}


def _from(body: Body, role: str, words: str) -> Body:
    if _claude(body):
        return {"role": role, "content": [{"type": "text", "text": words}]}
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": words}]}


def _questions(body: Body) -> list[int]:
    return [
        index
        for index, message in enumerate(messages_of(body))
        if message.get("role") == "user" and is_question(message)
    ]


def _answers(body: Body) -> list[int]:
    """Where the assistant's closing words of a turn stand."""
    return [index for index, message in enumerate(messages_of(body)) if _is_answer(message)]


def _is_answer(message: Body) -> bool:
    if message.get("role") != "assistant":
        return False
    content = message["content"]
    return isinstance(content, str) or content[-1]["type"] in ("text", "output_text")


def _old_call(body: Body, nth: int) -> tuple[int, Body]:
    """The call of an early turn: the index of its message, and the call itself."""
    index = pairs_of(body)[nth][0]
    message = messages_of(body)[index]
    return index, message["content"][-1] if _claude(body) else message


def _old_result(body: Body, nth: int) -> tuple[int, Body, str]:
    """The result of an early turn: the index of its message, what holds it, and under what."""
    index = pairs_of(body)[nth][0] + 1
    message = messages_of(body)[index]
    if _claude(body):
        return index, message["content"][0], "content"
    return index, message, "output"


def _preamble(body: Body) -> int:
    """How many messages stand before the first question whatever the conversation is."""
    return 0 if _claude(body) else 1


def _system_given(body: Body, old: str, new: str) -> None:
    assert replace_system(body, old, new) is not None


# Settings.


def _overloaded_and_passed_to_another_model(_: random.Random, body: Body) -> str:
    body["model"] = "claude-opus-4-8" if _claude(body) else "gpt-5.5"
    return ""


def _other_model_with_instructions_of_its_own(rng: random.Random, body: Body) -> str | None:
    body["model"] = "claude-haiku-5-5" if _claude(body) else "gpt-6-luna"
    found = replace_system(body, "You are an agent that works on code.", f"Be {text(rng, 9)}.")
    return None if found is None else ""


def _effort_raised_for_one_question(_: random.Random, body: Body) -> str:
    if _claude(body):
        body["output_config"]["effort"] = "max"
    else:
        body["reasoning"]["effort"] = "high"
    return ""


def _larger_budget_for_thinking(_: random.Random, body: Body) -> str:
    body["thinking"] = {"type": "enabled", "budget_tokens": 31_000}
    return ""


def _thinking_left_to_the_model(_: random.Random, body: Body) -> str:
    body["thinking"] = {"type": "adaptive"}
    return ""


def _tools_forbidden_for_the_last_word(_: random.Random, body: Body) -> str:
    body["tool_choice"] = {"type": "none"} if _claude(body) else "none"
    return ""


def _form(*names: str) -> Body:
    properties = {name: {"type": "string"} for name in names}
    return {
        "type": "object",
        "properties": properties,
        "required": list(names),
        "additionalProperties": False,
    }


def _with_form(body: Body, *names: str) -> None:
    shape: Body = {"type": "json_schema", "schema": _form(*names)}
    if _claude(body):
        body["output_config"]["format"] = shape
    else:
        body["text"] = {"format": shape | {"name": "finding", "strict": True}}


def _form_given(_: random.Random, body: Body) -> None:
    _with_form(body, "file", "finding")


def _form_gets_a_field(_: random.Random, body: Body) -> str:
    _with_form(body, "file", "finding", "severity")
    return ""


def _answer_wanted_in_a_form(_: random.Random, body: Body) -> str:
    _with_form(body, "verdict", "reason")
    return ""


def _key_stripped_by_a_proxy(_: random.Random, body: Body) -> str:
    del body["prompt_cache_key"]
    return ""


def _key_of_every_worker(rng: random.Random, body: Body) -> str:
    body["prompt_cache_key"] = f"worker-{rng.randrange(10_000)}-{body['prompt_cache_key']}"
    return ""


def _longer_answers_wished_for(_: random.Random, body: Body) -> str:
    body["text"] = {"verbosity": "high"}
    return ""


def _one_call_at_a_time(_: random.Random, body: Body) -> str:
    body["parallel_tool_calls"] = False
    return ""


# Tools.


def _tool_like(rng: random.Random, body: Body, name: str) -> Body:
    like: Body = copy.deepcopy(body["tools"][0])
    return like | {"name": name, "description": text(rng, 14)}


def _schema_of(body: Body, at: int) -> Body:
    found: Body = body["tools"][at]["input_schema" if _claude(body) else "parameters"]
    return found


def _server_connected_late(rng: random.Random, body: Body) -> str:
    at = len(body["tools"]) - 1
    names = ("mcp__calendar__find", "mcp__calendar__move", "mcp__calendar__note")
    body["tools"][at:at] = [_tool_like(rng, body, name) for name in names]
    return f"tools[{at}]"


def _search_of_the_vendor_switched_on(_: random.Random, body: Body) -> str:
    kind = "web_search_20250305" if _claude(body) else "web_search"
    new = {"type": kind, "name": "web_search", "max_uses": 5} if _claude(body) else {"type": kind}
    body["tools"].append(new)
    return f"tools[{len(body['tools']) - 1}]"


def _writing_taken_away_for_planning(_: random.Random, body: Body) -> str:
    kept = [tool for tool in body["tools"] if tool["name"] not in ("Write", "Edit", "Bash")]
    at = next(i for i, tool in enumerate(body["tools"]) if tool["name"] == "Write")
    body["tools"] = kept
    return f"tools[{at}]"


def _server_came_back_under_another_name(_: random.Random, body: Body) -> str:
    at = next(i for i, tool in enumerate(body["tools"]) if tool["name"] == "mcp__db__ask")
    body["tools"][at]["name"] = "mcp__plugin_store_db__ask"
    return f"tools[{at}]"


def _one_plugin_for_another(rng: random.Random, body: Body) -> str:
    at = rng.randrange(2, 7)
    names = ("mcp__forge__list", "mcp__forge__show", "mcp__forge__close")
    body["tools"][at : at + 2] = [_tool_like(rng, body, name) for name in names]
    return f"tools[{at}]"


def _first_difference(old: list[Any], new: list[Any]) -> int:
    return next(i for i, (a, b) in enumerate(zip(old, new, strict=True)) if a != b)


def _tools_sorted_after_an_update(_: random.Random, body: Body) -> str:
    old = body["tools"]
    body["tools"] = sorted(old, key=lambda tool: str(tool["name"]).lower())
    return f"tools[{_first_difference(old, body['tools'])}]"


def _servers_answered_in_another_order(rng: random.Random, body: Body) -> str | None:
    old = list(body["tools"])
    some = old[5:]
    rng.shuffle(some)
    if some == old[5:]:
        return None
    body["tools"] = old[:5] + some
    return f"tools[{_first_difference(old, body['tools'])}]"


def _helpers_given(_: random.Random, body: Body) -> None:
    body["tools"][7]["description"] += "\nHelpers at hand:\n- reviewer: reads a change\n"


def _helper_listed_in_a_description(rng: random.Random, body: Body) -> str:
    body["tools"][7]["description"] += f"- tester: {text(rng, 6)}\n"
    return "tools[7]"


def _limit_given(_: random.Random, body: Body) -> None:
    _schema_of(body, 3)["properties"]["seconds"] = {"type": "integer", "maximum": 600}


def _limit_of_a_parameter_shrinks(rng: random.Random, body: Body) -> str:
    _schema_of(body, 3)["properties"]["seconds"]["maximum"] = rng.randrange(60, 599)
    return "tools[3]"


def _parameter_of_a_newer_server(rng: random.Random, body: Body) -> str:
    at = rng.randrange(9)
    _schema_of(body, at)["properties"]["quiet"] = {"type": "boolean"}
    return f"tools[{at}]"


# Instructions.


def _clock_given(_: random.Random, body: Body) -> None:
    _system_given(body, "Platform: linux\n", "Platform: linux\nLocal time: 14:03\n")


def _clock_moved_on(rng: random.Random, body: Body) -> str | None:
    return replace_system(body, "Local time: 14:03", f"Local time: 14:{rng.randrange(10, 60)}")


def _day_in_words_given(_: random.Random, body: Body) -> None:
    _system_given(body, "Today's date: 2026-11-15", "Today is Sunday, 15 November 2026.")


def _day_in_words(_: random.Random, body: Body) -> str | None:
    return replace_system(body, "Sunday, 15 November 2026", "Monday, 16 November 2026")


def _billing_line_of_a_newer_version(_: random.Random, body: Body) -> str | None:
    return replace_system(body, "header: v=2.1;", "header: v=2.2; build=c41;")


def _billing_line_switched_off(_: random.Random, body: Body) -> str:
    del body["system"][0]
    return "system[0]"


def _branch_switched(_: random.Random, body: Body) -> str | None:
    return replace_system(body, "On branch main", "On branch fix/queue")


def _moved_into_a_worktree(_: random.Random, body: Body) -> str | None:
    return replace_system(body, "directory: /work/project", "directory: /work/project/.trees/a")


def _room_given(_: random.Random, body: Body) -> None:
    _system_given(body, "Platform: linux\n", "Platform: linux\nTokens left: 181,204\n")


def _room_counted_down(rng: random.Random, body: Body) -> str | None:
    return replace_system(body, "left: 181,204", f"left: {rng.randrange(100, 180)},951")


def _relay_given(rng: random.Random, body: Body) -> None:
    _system_given(body, "You are an agent", f"[relay {rng.getrandbits(64):016x}] You are an agent")


def _relay_stamps_each_request(rng: random.Random, body: Body) -> str | None:
    source = body["system"][1]["text"] if _claude(body) else body["instructions"]
    old = source.partition("[relay ")[2].partition("]")[0]
    return replace_system(body, f"[relay {old}]", f"[relay {rng.getrandbits(64):016x}]")


OWN_RULES: Final = "# Instructions of the user (from CLAUDE.md)\n"


def _own_rules_given(rng: random.Random, body: Body) -> None:
    rules = "".join(f"- {text(rng, 7)}\n" for _ in range(4))
    _system_given(body, "# Environment\n", f"{OWN_RULES}{rules}# Environment\n")


def _rule_learnt(rng: random.Random, body: Body) -> str | None:
    return replace_system(body, OWN_RULES, f"{OWN_RULES}- {text(rng, 8)}\n")


def _file_of_a_folder_found(rng: random.Random, body: Body) -> str | None:
    new = f"# Instructions of the folder src/ui (from src/ui/AGENTS.md)\n{text(rng, 30)}\n"
    return replace_system(body, MEMORY, f"{new}{MEMORY}")


def _language_given(_: random.Random, body: Body) -> None:
    _system_given(body, "works on code.", "works on code. Answer in English.")


def _language_chosen(rng: random.Random, body: Body) -> str | None:
    new = rng.choice(("German", "Welsh", "Finnish"))
    return replace_system(body, "Answer in English.", f"Answer in {new}.")


def _paragraph_for_planning(_: random.Random, body: Body) -> str | None:
    new = "# Mode\nOnly plan. Change no file until the plan has been agreed to.\n"
    return replace_system(body, "# Environment\n", f"{new}# Environment\n")


def _style_in_a_block_of_its_own(rng: random.Random, body: Body) -> str:
    said = f"# Style\nExplain as a patient teacher would: {text(rng, 20)}"
    body["system"].append({"type": "text", "text": said})
    return f"system[{len(body['system']) - 1}]"


# Conversation.


def _reminder_moved_to_the_end(_: random.Random, body: Body) -> str:
    messages = messages_of(body)
    index = _questions(body)[0]
    moved = messages[index]["content"].pop(0)
    assert "<system-reminder>" in moved["text"]
    if _claude(body):
        messages[-1]["content"].append(moved)
    else:
        messages.append({"type": "message", "role": "user", "content": [moved]})
    return where(body, index)


def _reminder_in_a_result_given(rng: random.Random, body: Body) -> None:
    _, holder, key = _old_result(body, rng.randrange(3))
    holder[key] += f"\n\n<system-reminder>\nMind this: {text(rng, 14)}\n</system-reminder>"


def _reminder_in_a_result_taken_out(_: random.Random, body: Body) -> str | None:
    for nth in range(3):
        index, holder, key = _old_result(body, nth)
        if "<system-reminder>" in holder[key]:
            holder[key] = holder[key].partition("\n\n<system-reminder>")[0]
            return where(body, index)
    return None


HOOK: Final = "PostToolUse hook additional context: "


def _hook_given(rng: random.Random, body: Body) -> None:
    at = pairs_of(body)[rng.randrange(1, 3)][1]
    role = "system" if _claude(body) else "developer"
    said = f"{HOOK}{rng.randrange(10, 99)} checks fail; {text(rng, 9)}"
    messages_of(body).insert(at, _from(body, role, said))


def _hook_at(body: Body) -> int:
    return next(i for i, m in enumerate(messages_of(body)) if HOOK in json.dumps(m))


def _hook_heard_once(_: random.Random, body: Body) -> str:
    at = _hook_at(body)
    del messages_of(body)[at]
    return where(body, at)


def _hook_says_it_anew(rng: random.Random, body: Body) -> str:
    at = _hook_at(body)
    said = f"{HOOK}{rng.randrange(2, 9)} checks fail; {text(rng, 11)}"
    messages_of(body)[at]["content"][0]["text"] = said
    return where(body, at)


def _compacted_by_the_vendor(rng: random.Random, body: Body) -> str:
    messages = messages_of(body)
    first = _preamble(body)
    if _claude(body):
        folded: Body = {"type": "compaction", "content": text(rng, 50)}
        folded = {"role": "assistant", "content": [folded]}
    else:
        folded = {"type": "compaction", "encrypted_content": f"{rng.getrandbits(512):0128x}"}
    messages[first : _questions(body)[-1]] = [folded]
    return where(body, first)


def _summed_up_by_the_agent(rng: random.Random, body: Body) -> str:
    said = f"Summary of the conversation so far:\n{text(rng, 70)}"
    new = [_from(body, "user", said), _from(body, "assistant", "Understood; I go on from there.")]
    first = _preamble(body)
    messages_of(body)[first : _questions(body)[-1]] = new
    return where(body, first)


def _begun_anew(rng: random.Random, body: Body) -> str:
    first = _preamble(body)
    messages_of(body)[first:] = [_from(body, "user", f"Something else: {text(rng, 18)}")]
    return where(body, first)


def _gone_back_to_an_earlier_question(rng: random.Random, body: Body) -> str:
    at = _questions(body)[1]
    messages_of(body)[at:] = [_from(body, "user", f"Rather do this: {text(rng, 18)}")]
    return where(body, at)


ADDRESS: Final = "kim@example.org"


def _address_given(rng: random.Random, body: Body) -> None:
    index = _questions(body)[rng.randrange(2)]
    block = messages_of(body)[index]["content"][-1]
    block["text"] = f"Ask {ADDRESS} whether {block['text']}"


def _address_masked_by_a_proxy(_: random.Random, body: Body) -> str:
    for index in _questions(body):
        block = messages_of(body)[index]["content"][-1]
        if ADDRESS in block["text"]:
            block["text"] = block["text"].replace(ADDRESS, "<address 1>")
            return where(body, index)
    raise AssertionError


def _say(body: Body, index: int, words: str) -> None:
    message = messages_of(body)[index]
    if isinstance(message["content"], str):
        message["content"] = words
    else:
        message["content"][-1]["text"] = words


def _heard(body: Body, index: int) -> str:
    content = messages_of(body)[index]["content"]
    found: str = content if isinstance(content, str) else content[-1]["text"]
    return found


def _sources_given(rng: random.Random, body: Body) -> None:
    index = _answers(body)[rng.randrange(2)]
    words = _heard(body, index).split()
    words[10:10] = ["(source:", "notes/queue.txt,", "line", "4)"]
    _say(body, index, " ".join(words))


def _sources_taken_out_of_an_answer(_: random.Random, body: Body) -> str:
    for index in _answers(body):
        said = _heard(body, index)
        if "(source:" in said:
            _say(body, index, said.replace("(source: notes/queue.txt, line 4) ", "[1] "))
            return where(body, index)
    raise AssertionError


def _path_of_a_call_made_absolute(rng: random.Random, body: Body) -> str:
    index, call = _old_call(body, rng.randrange(3))
    given = call["input"] if _claude(body) else json.loads(call["arguments"])
    given["path"] = f"/work/project/{given['path']}"
    if not _claude(body):
        call["arguments"] = json.dumps(given)
    return where(body, index)


def _pasted_given(rng: random.Random, body: Body) -> None:
    index = _questions(body)[rng.randrange(2)]
    block = messages_of(body)[index]["content"][-1]
    block["text"] += "\r\n" + "\r\n".join(text(rng, 6) for _ in range(5))


def _line_ends_made_alike(_: random.Random, body: Body) -> str:
    for index in _questions(body):
        block = messages_of(body)[index]["content"][-1]
        if "\r\n" in block["text"]:
            block["text"] = block["text"].replace("\r\n", "\n")
            return where(body, index)
    raise AssertionError


def _padded_answer_given(rng: random.Random, body: Body) -> None:
    index = _answers(body)[rng.randrange(2)]
    _say(body, index, f"{_heard(body, index)}  \n\n")


def _answer_trimmed(_: random.Random, body: Body) -> str:
    for index in _answers(body):
        said = _heard(body, index)
        if said.endswith("  \n\n"):
            _say(body, index, said.rstrip())
            return where(body, index)
    raise AssertionError


def _nested_given(rng: random.Random, body: Body) -> None:
    _, call = _old_call(body, rng.randrange(3))
    edits = [{"old": text(rng, 4), "new": text(rng, 4), "all": True} for _ in range(3)]
    new = {"path": "src/queue.py", "edits": edits}
    call["name"] = "Edit"
    if _claude(body):
        call["input"] = new
    else:
        call["arguments"] = json.dumps(new)


def _keys_within_arguments_sorted(_: random.Random, body: Body) -> str:
    for nth in range(3):
        index, call = _old_call(body, nth)
        given = call["input"] if _claude(body) else json.loads(call["arguments"])
        if "edits" in given:
            given["edits"] = [dict(sorted(edit.items())) for edit in given["edits"]]
            if not _claude(body):
                call["arguments"] = json.dumps(given)
            return where(body, index)
    raise AssertionError


def _example_put_before_a_question(rng: random.Random, body: Body) -> str:
    at = _questions(body)[rng.randrange(1, 3)]
    new = [
        _from(body, "user", f"For example: {text(rng, 12)}"),
        _from(body, "assistant", f"Then I would say: {text(rng, 12)}"),
    ]
    messages_of(body)[at:at] = new
    return where(body, at)


def _turn_taken_out_of_the_middle(_: random.Random, body: Body) -> str:
    first, end = _questions(body)[1:3]
    if not _claude(body):
        first -= 1  # with the hook's words, which stand before the question
    del messages_of(body)[first:end]
    return where(body, first)


def _remark_given(rng: random.Random, body: Body) -> None:
    at = pairs_of(body)[rng.randrange(1, 3)][1]
    remark = _from(body, "assistant", f"Meanwhile: {text(rng, 15)}") | {"phase": "commentary"}
    messages_of(body).insert(at, remark)


def _remark_left_out(_: random.Random, body: Body) -> str:
    messages = messages_of(body)
    at = next(i for i, message in enumerate(messages) if message.get("phase") == "commentary")
    del messages[at]
    return where(body, at)


def _last_turn_kept_only(_: random.Random, body: Body) -> str:
    first = _preamble(body)
    del messages_of(body)[first : _questions(body)[-1]]
    return where(body, first)


def _side_by_side_given(rng: random.Random, body: Body) -> None:
    first, end = pairs_of(body)[rng.randrange(3)]
    messages = messages_of(body)
    path = {"path": "src/other.py", "limit": 7}
    said = text(rng, 90)
    if _claude(body):
        call = {"type": "tool_use", "id": "toolu_beside", "name": "Read", "input": path}
        messages[first]["content"].append(call)
        answer = {"type": "tool_result", "tool_use_id": "toolu_beside", "content": said}
        messages[first + 1]["content"].append(answer)
    else:
        beside = {"call_id": "call_beside"}
        answer = {"type": "function_call_output", **beside, "output": said}
        messages.insert(end, answer)
        call = {"type": "function_call", **beside, "name": "Read", "arguments": json.dumps(path)}
        messages.insert(first + 1, call)


def _results_as_they_were_done(_: random.Random, body: Body) -> str:
    messages = messages_of(body)
    if _claude(body):
        for index, message in enumerate(messages):
            if message["role"] == "user" and "toolu_beside" in json.dumps(message):
                message["content"].reverse()
                return where(body, index)
        raise AssertionError
    at = next(
        i
        for i, item in enumerate(messages)
        if item.get("call_id") == "call_beside" and item["type"] == "function_call_output"
    )
    messages[at - 1], messages[at] = messages[at], messages[at - 1]
    return where(body, at - 1)


def _middle_of_a_result_left_out(rng: random.Random, body: Body) -> str:
    index, holder, key = _old_result(body, rng.randrange(4))
    said = holder[key]
    left_out = len(said) - 240
    holder[key] = f"{said[:120]}\n... {left_out} characters left out ...\n{said[-120:]}"
    return where(body, index)


def _result_put_into_a_file(rng: random.Random, body: Body) -> str:
    index, holder, key = _old_result(body, rng.randrange(4))
    holder[key] = f"(moved to /work/.spill/{rng.randrange(10_000)}.txt to save room)"
    return where(body, index)


def _results_cleared_but_the_last(_: random.Random, body: Body) -> str:
    index = _old_result(body, 0)[0]
    for nth in range(len(pairs_of(body))):
        holder, key = _old_result(body, nth)[1:]
        holder[key] = "[cleared]"
    return where(body, index)


def _reasoning_of_earlier_turns_stripped(_: random.Random, body: Body) -> str:
    messages = messages_of(body)
    last = _questions(body)[-1]
    if _claude(body):
        index = pairs_of(body)[0][0]
        for message in messages[:last]:
            if isinstance(message["content"], list):
                kept = [block for block in message["content"] if block["type"] != "thinking"]
                message["content"] = kept
        return where(body, index)
    index = next(i for i, item in enumerate(messages) if item["type"] == "reasoning")
    messages[:last] = [item for item in messages[:last] if item["type"] != "reasoning"]
    return where(body, index)


def _reasoning_sealed_anew(rng: random.Random, body: Body) -> str:
    seal = f"{rng.getrandbits(256):064x}"
    index = pairs_of(body)[rng.randrange(3)][0]
    if _claude(body):
        messages_of(body)[index]["content"][0]["signature"] = seal
        return where(body, index)
    messages_of(body)[index - 1]["encrypted_content"] = seal
    return where(body, index - 1)


def _picture_at(body: Body) -> tuple[int, list[Body], int]:
    index = _questions(body)[0]
    content = messages_of(body)[index]["content"]
    at = next(i for i, b in enumerate(content) if b["type"] in ("image", "input_image"))
    return index, content, at


def _linked(body: Body, link: str) -> int:
    index, content, at = _picture_at(body)
    if _claude(body):
        content[at] = {"type": "image", "source": {"type": "url", "url": link}}
    else:
        content[at] = {"type": "input_image", "image_url": link}
    return index


def _link_given(_: random.Random, body: Body) -> None:
    _linked(body, "https://files.example.org/shot.png?until=1794765600&seal=0a1b2c")


def _link_to_a_picture_signed_anew(rng: random.Random, body: Body) -> str:
    seal = f"{rng.getrandbits(24):06x}"
    link = f"https://files.example.org/shot.png?until=1794769200&seal={seal}"
    return where(body, _linked(body, link))


def _picture_made_smaller(rng: random.Random, body: Body) -> str:
    index, content, at = _picture_at(body)
    data = f"{rng.getrandbits(128):032x}"
    if _claude(body):
        content[at]["source"] = {"type": "base64", "media_type": "image/jpeg", "data": data}
    else:
        content[at]["image_url"] = f"data:image/jpeg;base64,{data}"
    return where(body, index)


def _words_in_place_of_a_picture(_: random.Random, body: Body) -> str:
    index, content, at = _picture_at(body)
    content[at] = _block(body, "[a picture stood here]")
    return where(body, index)


# Vendor.


def _marks(body: Body) -> list[Body]:
    said = [m["content"] for m in body["messages"] if isinstance(m["content"], list)]
    blocks = [*body["system"], *(block for content in said for block in content)]
    return [block for block in blocks if "cache_control" in block]


def _hour_given(_: random.Random, body: Body) -> None:
    for block in _marks(body):
        block["cache_control"] = {"type": "ephemeral", "ttl": "1h"}


def _away_for_longer_than_the_hour(_: random.Random, __: Body) -> str:
    return ""


def _half_an_hour_given(_: random.Random, body: Body) -> None:
    body["prompt_cache_options"] = {"mode": "implicit", "ttl": "30m"}


def _away_for_the_night(_: random.Random, __: Body) -> str:
    return ""


def _explicit_given(_: random.Random, body: Body) -> None:
    body["prompt_cache_options"] = {"mode": "explicit"}
    for index in _questions(body):
        content = messages_of(body)[index]["content"]
        content[-1]["prompt_cache_breakpoint"] = {"mode": "explicit"}


def _breakpoints_stripped_by_a_proxy(_: random.Random, body: Body) -> str:
    for index in _questions(body):
        del messages_of(body)[index]["content"][-1]["prompt_cache_breakpoint"]
    return ""


def _last_mark_only_given(_: random.Random, body: Body) -> None:
    for block in body["system"]:
        block.pop("cache_control", None)


def _many_notes_at_once(rng: random.Random, body: Body) -> str:
    content = body["messages"][-1]["content"]
    mark = content[-1].pop("cache_control")
    content += [_block(body, f"Note {i}: {text(rng, 8)}") for i in range(rng.randrange(30, 50))]
    content[-1]["cache_control"] = mark
    return ""


def _another_label_and_nothing_read(rng: random.Random, body: Body) -> str:
    label = f"run-{rng.randrange(10_000)}"
    body["metadata"] = {"user_id": label} if _claude(body) else {"run": label}
    return ""


BLIND: Final = (
    Fault("model", "settings", _overloaded_and_passed_to_another_model),
    Fault("model", "settings", _other_model_with_instructions_of_its_own),
    Fault("effort", "settings", _effort_raised_for_one_question, reported="nothing"),
    Fault("thinking", "settings", _larger_budget_for_thinking, CLAUDE),
    Fault("thinking", "settings", _thinking_left_to_the_model, CLAUDE),
    Fault("tool_choice", "settings", _tools_forbidden_for_the_last_word, reported="nothing"),
    Fault("output", "settings", _answer_wanted_in_a_form, reported="nothing"),
    Fault("output", "settings", _form_gets_a_field, reported="nothing", given=_form_given),
    Fault("routing", "settings", _key_stripped_by_a_proxy, OPENAI, reported="nothing"),
    Fault("routing", "settings", _key_of_every_worker, OPENAI, reported="nothing"),
    Fault("setting", "settings", _longer_answers_wished_for, OPENAI, reported="nothing"),
    Fault("setting", "settings", _one_call_at_a_time, OPENAI, reported="nothing"),
    Fault("tool_added", "tools", _server_connected_late),
    Fault("tool_added", "tools", _search_of_the_vendor_switched_on),
    Fault("tool_removed", "tools", _writing_taken_away_for_planning),
    Fault("tools_replaced", "tools", _server_came_back_under_another_name),
    Fault("tools_replaced", "tools", _one_plugin_for_another),
    Fault("tools_reordered", "tools", _tools_sorted_after_an_update),
    Fault("tools_reordered", "tools", _servers_answered_in_another_order),
    Fault("tool_reworded", "tools", _helper_listed_in_a_description, given=_helpers_given),
    Fault("tool_schema", "tools", _limit_of_a_parameter_shrinks, given=_limit_given),
    Fault("tool_schema", "tools", _parameter_of_a_newer_server),
    Fault("date", "system", _clock_moved_on, given=_clock_given),
    Fault("date", "system", _day_in_words, given=_day_in_words_given),
    Fault("billing", "system", _billing_line_of_a_newer_version, CLAUDE),
    Fault("billing", "system", _billing_line_switched_off, CLAUDE),
    Fault("environment", "system", _branch_switched),
    Fault("environment", "system", _moved_into_a_worktree),
    Fault("random", "system", _room_counted_down, given=_room_given),
    Fault("random", "system", _relay_stamps_each_request, given=_relay_given),
    Fault("memory", "system", _rule_learnt, given=_own_rules_given),
    Fault("memory", "system", _file_of_a_folder_found),
    Fault("instructions", "system", _language_chosen, given=_language_given),
    Fault("instructions", "system", _paragraph_for_planning),
    Fault("instructions", "system", _style_in_a_block_of_its_own, CLAUDE),
    Fault("reminder", "messages", _reminder_moved_to_the_end),
    Fault("reminder", "messages", _reminder_in_a_result_taken_out,
          given=_reminder_in_a_result_given),
    Fault("hook", "messages", _hook_heard_once, given=_hook_given),
    Fault("hook", "messages", _hook_says_it_anew, given=_hook_given),
    Fault("compaction", "messages", _compacted_by_the_vendor),
    Fault("compaction", "messages", _summed_up_by_the_agent),
    Fault("cleared", "messages", _begun_anew),
    Fault("rewound", "messages", _gone_back_to_an_earlier_question),
    Fault("edited", "messages", _address_masked_by_a_proxy, given=_address_given),
    Fault("edited", "messages", _sources_taken_out_of_an_answer, given=_sources_given),
    Fault("edited", "messages", _path_of_a_call_made_absolute),
    Fault("spaced", "messages", _line_ends_made_alike, given=_pasted_given),
    Fault("spaced", "messages", _answer_trimmed, given=_padded_answer_given),
    Fault("reserialized", "messages", _keys_within_arguments_sorted, given=_nested_given),
    Fault("inserted", "messages", _example_put_before_a_question),
    Fault("dropped", "messages", _turn_taken_out_of_the_middle),
    Fault("dropped", "messages", _remark_left_out, OPENAI, given=_remark_given),
    Fault("window", "messages", _last_turn_kept_only),
    Fault("reordered", "messages", _results_as_they_were_done, given=_side_by_side_given),
    Fault("result_cut", "messages", _middle_of_a_result_left_out),
    Fault("result_cut", "messages", _result_put_into_a_file),
    Fault("result_cut", "messages", _results_cleared_but_the_last),
    Fault("reasoning", "messages", _reasoning_of_earlier_turns_stripped),
    Fault("reasoning", "messages", _reasoning_sealed_anew),
    Fault("image", "messages", _link_to_a_picture_signed_anew, given=_link_given),
    Fault("image", "messages", _picture_made_smaller),
    Fault("image", "messages", _words_in_place_of_a_picture),
    Fault("expired", "vendor", _away_for_longer_than_the_hour, CLAUDE, idle_s=5_000.0,
          reported="nothing", given=_hour_given),
    Fault("expired", "vendor", _away_for_the_night, OPENAI, idle_s=40_000.0,
          reported="nothing", given=_half_an_hour_given),
    Fault("unmarked", "vendor", _breakpoints_stripped_by_a_proxy, OPENAI, reported="nothing",
          given=_explicit_given),
    Fault("lookback", "vendor", _many_notes_at_once, CLAUDE, reported="nothing",
          given=_last_mark_only_given),
    Fault("lost", "vendor", _another_label_and_nothing_read, reported="nothing"),
)  # fmt: skip


# Harmless.


def _tools_marked_too(rng: random.Random, body: Body) -> str:
    body["tools"][-1]["cache_control"] = {"type": "ephemeral"}
    index = _questions(body)[rng.randrange(2)]
    body["messages"][index]["content"][-1]["cache_control"] = {"type": "ephemeral"}
    return ""


def _marked_by_the_vendor_itself(_: random.Random, body: Body) -> str:
    for block in _marks(body):
        del block["cache_control"]
    body["cache_control"] = {"type": "ephemeral"}
    return ""


def _asked_without_a_stream(_: random.Random, body: Body) -> str:
    body["stream"] = False
    return ""


def _less_room_for_the_answer(rng: random.Random, body: Body) -> str:
    body["max_tokens" if _claude(body) else "max_output_tokens"] = rng.randrange(1_000, 30_000)
    return ""


def _fields_of_the_request_sorted(_: random.Random, body: Body) -> str:
    fields = dict(sorted(body.items()))
    body.clear()
    body.update(fields)
    for message in messages_of(body):
        if isinstance(message.get("content"), list):
            message["content"] = [dict(reversed(b.items())) for b in message["content"]]
    return ""


def _plain_words_as_blocks(_: random.Random, body: Body) -> str:
    for message in body["messages"]:
        if isinstance(message["content"], str):
            message["content"] = [{"type": "text", "text": message["content"]}]
    return ""


def _blocks_as_plain_words(_: random.Random, body: Body) -> str:
    for item in body["input"]:
        if item["type"] == "message" and item["role"] in ("user", "developer"):
            content = item["content"]
            if len(content) == 1 and content[0]["type"] == "input_text":
                item["content"] = content[0]["text"]
    return ""


def _hook_and_reminder_at_the_end(rng: random.Random, body: Body) -> str:
    said = f"<system-reminder>\nMind this: {text(rng, 12)}\n</system-reminder>"
    if _claude(body):
        body["messages"][-1]["content"].append(_block(body, said))
    else:
        body["input"].append(_from(body, "user", said))
    role = "system" if _claude(body) else "developer"
    messages_of(body).append(_from(body, role, f"{HOOK}{text(rng, 20)}"))
    return ""


def _picture_shown_at_the_end(rng: random.Random, body: Body) -> str:
    data = f"{rng.getrandbits(256):064x}"
    if _claude(body):
        source = {"type": "base64", "media_type": "image/png", "data": data}
        body["messages"][-1]["content"].append({"type": "image", "source": source})
    else:
        shown = {"type": "input_image", "image_url": f"data:image/png;base64,{data}"}
        body["input"].append({"type": "message", "role": "user", "content": [shown]})
    return ""


HARMLESS: Final = (
    Fault("", "vendor", _tools_marked_too, CLAUDE),
    Fault("", "vendor", _marked_by_the_vendor_itself, CLAUDE),
    Fault("", "settings", _asked_without_a_stream),
    Fault("", "settings", _less_room_for_the_answer),
    Fault("", "messages", _fields_of_the_request_sorted),
    Fault("", "messages", _plain_words_as_blocks, CLAUDE),
    Fault("", "messages", _blocks_as_plain_words, OPENAI),
    Fault("", "messages", _hook_and_reminder_at_the_end),
    Fault("", "messages", _picture_shown_at_the_end),
)
