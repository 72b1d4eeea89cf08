"""Which conversation and session a request belongs to, whatever its agent leaves out."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from benchmarks.agent_sets_own import APIS, Shape, words
from hypothesis import given, settings
from hypothesis import strategies as st

from sightline.context.dialects.events import Usage
from sightline.context.ledger import Ledger
from sightline.gateway.bodies import read_body
from sightline.gateway.observer import Observer, Passed, Passing
from sightline.gateway.report import summarise, summary_lines
from sightline.gateway.sessions import (
    SESSION_HEADERS,
    Earlier,
    Placement,
    TalkAnswer,
    TalkRequest,
    TalkSessions,
    strong_id,
)

UUID = "0f3c2a10-1111-4222-8333-444455556666"


class Client:
    """Agents, the matcher, and what the vendor answers them."""

    def __init__(self, api: str = "openai-chat") -> None:
        self.api = api
        self.sessions = TalkSessions()
        self.moment = 0.0

    def send(
        self, shape: Shape, answer: str | None = None, *, key: str = "k", session: str = "",
        calls: Sequence[tuple[str, str, str]] = (), connection: str = "", response: str = "",
    ) -> Placement:  # fmt: skip
        """Send a request and hear the answer; None for a refusal."""
        self.moment += 1
        data = json.dumps(shape.body()).encode()
        body = read_body(self.api, data, f"/models/{shape.model}:")  # type: ignore[arg-type]
        assert body is not None
        name = session or strong_id({}, body)
        request = TalkRequest(body, self.moment, ("up", key), name, connection, data)
        placed = self.sessions.assign(request)
        earlier = Earlier(body, self.moment, Usage(4_000, 9)) if answer is not None else None
        heard = TalkAnswer(answer, tuple(calls), response, earlier, int(self.moment))
        self.sessions.add(request, placed, heard)
        return placed


def shape(
    *texts: str,
    api: str = "openai-chat",
    system: str = "You work. " * 40,
    tools: Sequence[str] = (),
) -> Shape:
    """Write a request whose messages are the user's and the model's in turns."""
    parts = [("model" if at % 2 else "user", text) for at, text in enumerate(texts)]
    made = [{"name": name, "description": "", "parameters": {}} for name in tools]
    return Shape(api, "m", [system] if system else [], made, list(parts))


def ids(placed: Sequence[Placement]) -> list[tuple[str, int]]:
    return [(one.conversation.session, one.conversation.number) for one in placed]


def said(number: int) -> str:
    return f"{words(random.Random(number), 12)} number {number}"


@pytest.mark.parametrize("name", SESSION_HEADERS)
def test_a_header_names_the_session(name: str) -> None:
    body = read_body("anthropic", b'{"messages": []}')
    assert body is not None
    assert strong_id({name: "one"}, body) == "one"


@pytest.mark.parametrize(
    ("fields", "strong", "weak"),
    [
        ({"metadata": {"user_id": f"user_a_account__session_{UUID}"}}, UUID, ""),
        ({"metadata": {"user_id": json.dumps({"session_id": UUID})}}, UUID, ""),
        ({"metadata": {"user_id": "somebody"}}, "", "somebody"),
        ({"metadata": {"session_id": "one"}}, "one", ""),
        ({"session_id": "one"}, "one", ""),
        ({"conversation": "conv_1"}, "conv_1", ""),
        ({"conversation": {"id": "conv_1"}}, "conv_1", ""),
        ({"prompt_cache_key": "one", "user": "two"}, "", "one"),
        ({"user": "two"}, "", "two"),
    ],
)
def test_a_body_names_the_session_or_a_weak_id(fields: Any, strong: str, weak: str) -> None:
    body = read_body("openai-responses", json.dumps({"input": [], **fields}).encode())
    assert body is not None
    assert (body.session, body.weak) == (strong, weak)


def test_a_weak_id_joins_no_two_conversations() -> None:
    client = Client()
    first, second = (shape(said(n)) for n in (1, 2))
    for one in (first, second):
        one.extra = {"user": "all"}
    assert len(set(ids([client.send(first, said(3)), client.send(second, said(4))]))) == 2


def test_an_answer_joins_whatever_the_weak_id_is() -> None:
    client = Client()
    first, second = shape("do"), shape("do", said(1), "more")
    first.extra, second.extra = {"prompt_cache_key": "a"}, {"prompt_cache_key": "b"}
    placed = [client.send(first, said(1)), client.send(second, said(2))]
    assert ids(placed)[0] == ids(placed)[1]


def test_the_same_words_under_another_key_are_another_session() -> None:
    client = Client()
    placed = [
        client.send(shape("do"), said(1), key="a"),
        client.send(shape("do"), said(1), key="b"),
    ]
    placed.append(client.send(shape("do", said(1), "on"), said(2), key="a"))
    placed.append(client.send(shape("do", said(1), "on"), said(2), key="b"))
    assert ids(placed)[0] == ids(placed)[2]
    assert ids(placed)[1] == ids(placed)[3]
    assert len(set(ids(placed))) == 2


def test_a_held_conversation_is_found_by_its_answer() -> None:
    client = Client("openai-responses")
    first, second = shape("do", api="openai-responses"), shape("on", api="openai-responses")
    second.previous = "resp_1"
    placed = [client.send(first, said(1), response="resp_1"), client.send(second, said(2))]
    assert placed[1].joined_by == "chain"
    assert ids(placed)[0] == ids(placed)[1]


@pytest.mark.parametrize(
    ("answer", "then", "joined_by"),
    [
        (said(1), ["do", said(1), "on"], "answers"),
        (f"**{said(1)}**\n\n- a", ["do", f"{said(1)} a", "on"], "answers"),
        ("ok", ["do", "ok", "on"], "extends"),
        ("ok", ["do it at 10:00:02 in the place of work", "ok", "on"], "extends"),
        (None, ["do"], "retry"),
        (said(1) * 5, [f"A summary of the conversation:\n{said(1) * 5}\nOn."], "summary"),
        (said(1), [f"do this for me, as I asked\n{said(1)}\non"], "text"),
    ],
)
def test_each_step_finds_the_conversation(
    answer: str | None, then: list[str], joined_by: str
) -> None:
    client = Client()
    start = {
        "text": "do this for me, as I asked",
        "extends": "do it at 10:00:01 in the place of work",
    }
    is_clocked = then[0].startswith("do it at")
    first = start["text"] if joined_by == "text" else start["extends"] if is_clocked else "do"
    placed = [client.send(shape(first), answer), client.send(shape(*then), said(2))]
    assert placed[1].joined_by == joined_by
    assert ids(placed)[0] == ids(placed)[1]
    assert placed[1].attempt == (joined_by == "retry")


def test_a_history_that_nobody_saw_begins_a_conversation() -> None:
    client = Client()
    client.send(shape("do"), said(1))
    placed = client.send(shape("else", said(9), "on"), said(2))
    assert placed.joined_by == "unknown"


def test_a_sub_agent_is_of_the_session_of_its_call() -> None:
    client = Client()
    task = words(random.Random(3), 20)
    calls = [("c1", "Task", json.dumps({"prompt": task}))]
    main = client.send(shape("do", tools=["Task"]), "", calls=calls)
    below = client.send(shape(task, system="You search.", tools=["Grep"]), said(1))
    assert below.conversation.session == main.conversation.session
    assert (below.role, below.joined_by, below.conversation.parent) == ("sub_agent", "sub_agent", 1)


@pytest.mark.parametrize("cut", [None, 80])
def test_a_title_is_beside_the_conversation_that_it_quotes(cut: int | None) -> None:
    client = Client()
    question = words(random.Random(4), 30)
    main = client.send(shape(question, tools=["Read"]), said(1))
    client.send(shape(words(random.Random(5), 30), tools=["Read"]), said(2))
    title = client.send(shape(f"Write a title: {question[:cut]}", system="Titles."), "A title")
    assert title.conversation.session == main.conversation.session
    assert (title.role, title.joined_by) == ("side", "side")


def test_a_title_that_comes_first_is_beside_the_conversation_that_follows() -> None:
    client = Client()
    question = words(random.Random(4), 30)
    title = client.send(shape(f"Write a title: {question}", system="Titles."), "A title")
    main = client.send(shape(question, tools=["Read"]), said(1))
    assert title.conversation.session == main.conversation.session
    assert (title.conversation.role, main.role) == ("side", "main")


def test_a_suggestion_that_quotes_the_end_is_no_edit_of_the_conversation() -> None:
    client = Client()
    history = ["do", said(1), "more", said(2)]
    client.send(shape(history[0], tools=["Read"]), said(1))
    main = client.send(shape(*history[:3], tools=["Read"]), said(2))
    hint = shape(*history[2:], "Suggest.", system="Suggest what comes next.")
    hint.model = "small"
    beside = client.send(hint, "Go on")
    assert (beside.role, beside.base) == ("side", None)
    then = client.send(shape(*history, "on", tools=["Read"]), said(3))
    assert ids([main]) == ids([then])
    assert beside.conversation.session == main.conversation.session


def test_each_speaker_of_a_group_is_a_conversation_of_one_session() -> None:
    client = Client()
    history, placed = ["begin"], []
    for turn in range(9):
        name = ("Alice", "Bob", "Carol")[turn % 3]
        system = f"You are {name}, one of three. " + "Be brief and kind. " * 60
        placed.append(client.send(shape(*history, system=system), said(turn)))
        history += [said(turn), f"and then {turn}"]
    assert ids(placed[:3]) == ids(placed[3:6]) == ids(placed[6:])
    assert len({one.conversation.session for one in placed}) == 1
    assert len(set(ids(placed))) == 3


def test_conversations_with_canned_first_messages_stay_apart() -> None:
    client = Client()
    canned = ["Good morning to you!", "Good morning! How can I help you on this day?"]
    starts = [shape(*canned, f"my question {agent}") for agent in range(3)]
    placed = [client.send(one, said(agent)) for agent, one in enumerate(starts)]
    for agent in range(3):
        then = shape(*canned, f"my question {agent}", said(agent), "on")
        placed.append(client.send(then, said(10 + agent)))
    assert ids(placed[:3]) == ids(placed[3:])
    assert len(set(ids(placed))) == 3


def test_a_history_in_one_growing_text_is_one_conversation() -> None:
    client = Client()
    text, placed = "User: how does it work today?\nAssistant:", []
    for turn in range(4):
        placed.append(client.send(shape(text), said(turn)))
        text += f" {said(turn)}\nUser: and {turn}?\nAssistant:"
    assert len(set(ids(placed))) == 1


def _clocked(*texts: str, moment: int) -> Shape:
    return shape(*texts, system=f"It is 10:00:{moment:02}.\n" + "You work. " * 40)


@pytest.mark.parametrize("case", ["unique", "stripped", "ok", "sentence", "same first", "eight"])
def test_agents_without_ids_are_kept_apart(case: str) -> None:
    client = Client()
    agents = 8 if case == "eight" else 3
    answers = {"ok": "ok", "sentence": "I have done all that you asked me for."}
    histories = [
        ["what is it?" if case == "same first" else said(100 + agent)] for agent in range(agents)
    ]
    placed: list[list[Placement]] = [[] for _ in range(agents)]
    for turn in range(5):
        for agent, history in enumerate(histories):
            answer = answers.get(case, f" {said(10 * turn + agent)}\n")
            request = _clocked(*history, moment=turn)
            placed[agent].append(client.send(request, answer, connection=str(agent)))
            history += [answer.strip() if case == "stripped" else answer, f"more {turn} {agent}"]
    assert [len(set(ids(one))) for one in placed] == [1] * agents
    assert len({one[0].conversation.session for one in placed}) == agents


@pytest.mark.parametrize("connection", ["", "each"])
def test_identical_histories_are_kept_apart_by_the_connection_or_called_alike(
    connection: str,
) -> None:
    client = Client()
    placed: list[list[Placement]] = [[], [], []]
    for texts in (["do"], ["do", said(1), "on"]):
        for agent in range(3):
            request = _clocked(*texts, moment=len(texts))
            placed[agent].append(
                client.send(request, said(1), connection=connection and str(agent))
            )
    if connection:
        assert [len(set(ids(one))) for one in placed] == [1, 1, 1]
    assert placed[0][1].is_alike == (not connection)


def test_histories_in_one_message_and_answers_that_never_come_back() -> None:
    client = Client()
    for is_text in (True, False):
        histories = [[f"the first of agent {agent}: {said(agent)}"] for agent in range(3)]
        placed: list[list[Placement]] = [[], [], []]
        for turn in range(4):
            for agent, history in enumerate(histories):
                request = _clocked("\n".join(history), moment=turn)
                if not is_text:
                    request.parts = [("user", text) for text in history]
                placed[agent].append(client.send(request, said(50 * turn + agent)))
                history += [said(50 * turn + agent), f"on {turn}"] if is_text else [f"on {turn}"]
        assert [len(set(ids(one))) for one in placed] == [1, 1, 1]
        assert len({one[0].conversation for one in placed}) == 3


def test_single_requests_are_a_session_each_and_compared_with_the_one_before() -> None:
    client = Client()
    placed = [client.send(_clocked(f"classify {n}", moment=n), "yes") for n in range(30)]
    assert len({one.conversation.session for one in placed}) == 30
    assert [one.between for one in placed] == [False] + [True] * 29


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_neither_instructions_nor_tools_decide_where_a_request_belongs(
    data: st.DataObject,
) -> None:
    """Law: lines put into instructions, and tools in any order and words, change no placement."""
    lines = [f"This is line {n} of what the agent is told to do." for n in range(12)]
    names = ["Read", "Write", "Bash"]

    def changed() -> tuple[str, list[str]]:
        at = data.draw(st.integers(0, len(lines)))
        put = data.draw(st.sampled_from(["It is 10:00:07.", "id 7f3a9c21", "On branch main", ""]))
        return "\n".join([*lines[:at], put, *lines[at:]]), data.draw(st.permutations(names))

    found: list[list[tuple[int, int, str]]] = []
    for is_changed in (False, True):
        client, histories = Client(), [["one"], ["two"]]
        found.append([])
        for turn in range(3):
            for agent, history in enumerate(histories):
                system, tools = changed() if is_changed else ("\n".join(lines), names)
                answer = said(10 * turn + agent)
                placed = client.send(shape(*history, system=system, tools=tools), answer)
                found[-1].append((agent, placed.conversation.number, placed.joined_by))
                history += [answer, f"on {turn}"]
    assert found[0] == found[1]


def observed(api: str, body: Any, usage: Usage, text: str, **more: Any) -> Passing:
    """A request that was answered in one piece."""
    data = json.dumps(body).encode()
    passing = Passing(api, "/v1/messages", {}, data, 0.0, more.pop("at", 0.0))  # type: ignore[arg-type]
    passing.status, passing.first, passing.ended = more.pop("status", 200), 0.1, 0.5
    fresh = usage.input_tokens - usage.cache_read_tokens - usage.cache_write_tokens
    passing.feed(json.dumps({
        "id": "m", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn",
        "content": [{"type": "text", "text": text}],
        "usage": {"input_tokens": fresh, "output_tokens": 9,
                  "cache_read_input_tokens": usage.cache_read_tokens,
                  "cache_creation_input_tokens": usage.cache_write_tokens},
    }).encode())  # fmt: skip
    for name, value in more.items():
        setattr(passing, name, value)
    return passing


def seen(
    bodies: Sequence[tuple[Shape, str]], observer: Observer | None = None, written: int = 5_000
) -> list[Passed]:
    """Send requests to Anthropic that nothing is reused of."""
    observer = observer or Observer()
    usage = Usage(5_000, 9, 0, written)
    return [
        observer.observe(observed("anthropic", one.body(), usage, text)) for one, text in bodies
    ]


def test_a_conversation_without_an_id_goes_on_after_a_restart(tmp_path: Path) -> None:
    first = _clocked("do", moment=1)
    first.api = "anthropic"
    second, third = copy.deepcopy(first), copy.deepcopy(first)
    second.parts += [("model", said(1)), ("user", "on")]
    second.system[0] = second.system[0].replace("10:00:01", "10:00:09")
    third.parts += [*second.parts[1:], ("model", said(2)), ("user", "on and on")]
    with Ledger(tmp_path / "l.db") as ledger:
        passed = seen([(first, said(1))], Observer(ledger, project="/p"))
        passed += seen([(second, said(2))], Observer(ledger, project="/p"))
        passed += seen([(third, said(3))], Observer(ledger, project="/p"))
        assert len(ledger.sessions.recent()) == 1
    assert [one.joined_by for one in passed] == ["first", "answers", "answers"]
    assert [one.conversation for one in passed] == [1, 1, 1]
    assert passed[1].loss is not None
    assert (passed[1].loss.cause, passed[1].loss.path) == ("date", "system[0]")


def test_a_session_in_which_all_failed_has_nothing_to_compare() -> None:
    first = shape("do", api="anthropic")
    observer = Observer()
    request = observed("anthropic", first.body(), Usage(9, 9), "no", status=529)
    passed = [observer.observe(request), observer.observe(copy.copy(request))]
    assert "no two answered requests to compare" in summary_lines(summarise(passed))
    assert [one.attempt for one in passed] == [0, 1]


def test_the_fields_of_an_exchange_are_kept(tmp_path: Path) -> None:
    one = shape("do", api="anthropic")
    request = observed("anthropic", one.body(), Usage(9, 9), said(1), upstream="anthropic")
    request.headers = {"user-agent": "my-agent/1.2.3 (linux)"}
    with Ledger(tmp_path / "l.db") as ledger:
        Observer(ledger).observe(request)
        [kept] = ledger.exchanges.list(ledger.sessions.recent()[0].id)
    about = kept.about
    assert (about["conversation"], about["role"], about["joined_by"]) == (1, "main", "first")
    assert (about["agent"], about["agent_version"]) == ("my-agent", "1.2.3")
    assert (about["upstream"], about["path"]) == ("anthropic", "/v1/messages")
    assert len(bytes.fromhex(about["anchors"])) == 12
    assert about["price_source"] == "unknown"


def _loss(old: Shape, new: Shape, answer: str = "", written: int = 5_000) -> str:
    answer = answer or said(1)
    loss = seen([(old, answer), (new, said(2))], written=written)[1].loss
    return "" if loss is None else loss.cause


def test_a_prompt_that_is_too_short_to_be_kept_is_no_loss() -> None:
    first, second = _clocked("do", moment=1), _clocked("do", said(1), "on", moment=2)
    for one in (first, second):
        one.api = "anthropic"
    observer, usage = Observer(), Usage(400, 9)
    for one in (first, second):
        passed = observer.observe(observed("anthropic", one.body(), usage, said(1)))
        assert passed.loss is None


def test_retrieved_text_that_is_gone_is_an_edit_of_its_message() -> None:
    old = shape("Found: " + said(4) * 9 + "\nwhy?", api="anthropic")
    assert _loss(old, shape("why?", said(1), "on", api="anthropic")) == "edited"


def test_a_missing_mark_is_named() -> None:
    first, second = shape("do", api="anthropic"), shape("do", said(1), "on", api="anthropic")
    second.marked = False
    assert _loss(first, second) == "unmarked"
    first.marked = False
    assert _loss(first, second, written=0) == "unmarked"


@pytest.mark.parametrize("api", APIS)
def test_tools_with_their_keys_in_another_order_are_the_same_values(api: str) -> None:
    from sightline.gateway.losses import compare

    def body(keys: Sequence[str]) -> Any:
        one = shape("do", api=api, tools=["Read"])
        schema = {"path": {"type": "string"}, "limit": {"type": "integer"}}
        one.tools[0]["parameters"] = {"properties": {name: schema[name] for name in keys}}
        return read_body(api, json.dumps(one.body()).encode(), "/models/m:")  # type: ignore[arg-type]

    found = compare(body(["path", "limit"]), body(["limit", "path"]))
    assert found.cause == "reserialized"
