"""Recorded sessions: the shape of what agents sent, and not a word of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
from benchmarks.field import scored, sessions_table
from benchmarks.recording import Host, question, record
from benchmarks.sessions import (
    FILE,
    KINDS,
    ROLES,
    Session,
    expand,
    go_on,
    load,
    main,
    recorded,
    save,
    shape,
    texts,
    written,
)
from hypothesis import given
from hypothesis import strategies as st

from sightline.context.ledger import Ledger
from sightline.context.ledger.exchanges import NewExchange
from sightline.gateway.bodies import RequestBody, read_body
from support.agents import Agent, Claude, Codex, installed

PAGE = Path(__file__).parents[2] / "benchmarks" / "FIELD.md"
# Whoever adds a session adds its name: there is no other text in the file.
AGENTS = ("Claude Code", "Codex", "Sightline")


def strings(value: Any) -> set[str]:
    if isinstance(value, dict):
        return set(value) | strings(list(value.values()))
    if isinstance(value, list):
        return set().union(*map(strings, value))
    return {value} if isinstance(value, str) else set()


def test_the_file_has_no_word_of_what_anybody_said() -> None:
    sessions = load()
    assert tuple(session.agent for session in sessions) == AGENTS
    versions = {session.version for session in sessions}
    assert all(version.replace(".", "").isdigit() for version in versions)
    names = {*Session.__struct_fields__, "marks"}
    assert strings(json.loads(FILE.read_bytes())) <= {*AGENTS, *versions, *names, *KINDS, *ROLES}
    assert FILE.stat().st_size < 200_000


def test_a_session_is_written_the_same_each_time_and_line_for_line_as_long() -> None:
    for session in load():
        first, again = (json.dumps(list(expand(session))) for _ in range(2))
        assert first == again
        lines = texts(session.lengths)
        assert tuple(map(len, lines)) == session.lengths
        assert len(set(lines)) == len(lines)
        assert not any("\n" in line for line in lines)


def test_a_file_is_read_as_it_was_written_and_an_agents_newer_session_takes_the_olders_place(
    tmp_path: Path,
) -> None:
    file, older = tmp_path / "sessions.json", load()
    save([*older, shape("Codex", "9.9.9", [])], file)
    newer = [shape("Codex", "9.9.9", []) if one.agent == "Codex" else one for one in older]
    assert load(file) == newer
    save(older, file)
    assert file.read_bytes() == FILE.read_bytes()


# Few lines and few of each, so that many are equal.
said = st.lists(st.sampled_from(["", "a", "b", "aa", "another line"]), max_size=3).map("\n".join)
messages = st.fixed_dictionaries(
    {"role": st.sampled_from(["system", "user", "assistant"]), "content": said}
) | st.builds(lambda text: {"role": "tool", "tool_call_id": "c", "content": text}, said)
tools = st.builds(
    lambda text: {"type": "function", "function": {"name": "t", "description": text}}, said
)


@st.composite
def bodies(draw: st.DrawFn) -> RequestBody:
    value = {"tools": draw(st.lists(tools, max_size=2)), "messages": draw(st.lists(messages))}
    body = read_body("openai-chat", json.dumps(value).encode())
    assert body is not None
    return body


def common(one: Sequence[object], other: Sequence[object]) -> int:
    pairs = zip(one, other, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def sent(body: RequestBody) -> list[object]:
    """The lines of a request as it came, each part behind the word for what it is."""
    return [
        line for unit in body.units for line in ((unit.role or "system", unit.kind), *written(unit))
    ]


def shown(request: dict[str, Any]) -> list[object]:
    return [
        line for message in request["messages"]
        for line in ((message["role"], message["kind"]), *message["content"].split("\n"))
    ]  # fmt: skip


@given(bodies(), bodies())
def test_two_requests_that_are_written_begin_alike_as_far_as_those_that_were_sent(
    one: RequestBody, other: RequestBody
) -> None:
    both = list(expand(shape("an agent", "1", [one, other])))
    assert common(*map(shown, both)) == common(sent(one), sent(other))
    assert [len(shown(request)) for request in both] == [len(sent(one)), len(sent(other))]


def test_who_begins_with_all_of_the_last_request_goes_on_from_it() -> None:
    said = [{"role": "user", "content": text} for text in ("a", "b", "c")]
    values = ([said[0]], said[:2], said, [said[0], said[2]])
    found = [read_body("openai-chat", json.dumps({"messages": one}).encode()) for one in values]
    session = shape("an agent", "1", [body for body in found if body is not None])
    assert (go_on(session), scored(expand(session))["requests"]) == (2, 4)


def test_what_a_gateway_kept_can_be_added(tmp_path: Path) -> None:
    said = [{"role": "user", "content": text} for text in ("One.", "Two.\nThree.")]
    with Ledger(tmp_path / "l.db") as ledger:
        session = ledger.sessions.create("agent")
        for value in (said[:1], said):
            body = json.dumps({"messages": value}).encode()
            ledger.exchanges.add(session.id, NewExchange("openai-chat", "m", (body,), {}, {}))
    found = shape("mine", "2", recorded(tmp_path / "l.db"))
    assert found.lengths == (4, 4, 6)
    assert [request.blocks for request in found.requests] == [(0,), (0, 1)]


def test_a_ledger_with_nothing_to_add_is_refused_in_a_line(tmp_path: Path) -> None:
    before = FILE.read_bytes()
    with pytest.raises(SystemExit, match="there is no ledger at"):
        main(["add", "mine", "2", str(tmp_path / "none.db")])
    Ledger(tmp_path / "l.db").close()
    with pytest.raises(SystemExit, match="no gateway recorded a request there"):
        main(["add", "mine", "2", str(tmp_path / "l.db")])
    assert FILE.read_bytes() == before


def test_the_page_has_the_rows_of_the_recorded_sessions() -> None:
    rows = "\n".join(sessions_table())
    assert rows in PAGE.read_text("utf-8"), "python -m benchmarks.field table"


@installed
@pytest.mark.parametrize("kind", [Claude, Codex])
def test_a_real_agent_is_recorded(kind: type[Agent]) -> None:
    assert_recorded(record(kind, turns=1), marks=kind is Claude)


def test_our_host_is_recorded() -> None:
    assert_recorded(record(Host, turns=1), marks=True)


def assert_recorded(session: Session, *, marks: bool) -> None:
    first, *_, last = session.requests
    assert len(session.requests) == 4
    assert all(bool(request.marks) == marks for request in session.requests)
    blocks = [session.blocks[number] for number in first.blocks]
    assert sum(block.kind == "tool" for block in blocks) > 5
    assert any(block.role in ("system", "developer") for block in blocks)
    asked = [b for b in blocks if [session.lengths[n] for n in b.lines] == [len(question(0))]]
    assert [(block.role, block.kind) for block in asked] == [("user", "text")]
    kinds = [session.blocks[number].kind for number in last.blocks]
    calls = sum(kind in ("tool_use", "function_call") for kind in kinds)
    assert (calls, sum(kind in ("tool_result", "function_call_output") for kind in kinds)) == (3, 3)
