"""Export, import and backup: what comes back says the same."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from context.ledger.helpers import fill, group_ids, prompts, tamper
from sightline.context.ledger import Ledger, LedgerLimits, Session, StoredUsage
from sightline.context.messages.parts import Message
from sightline.context.messages.replay import isolate
from sightline.errors import InvalidInput, LedgerDamaged, LedgerUnusable, NotFound, TooLarge

HEADER = {"kind": "session", "format": 1, "name": "n"}
HELLO = {"kind": "message", "role": "user", "parts": [{"kind": "text", "text": "hello"}]}
OWN = {"id", "group_id", "usage_id", "uuid", "head", "created_at"}


def lines(*values: Any) -> list[bytes]:
    return [json.dumps(value).encode() for value in values]


def without_numbers(exported: list[bytes]) -> list[Any]:
    """Exported lines without what an import makes anew."""

    def bare(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: bare(item) for key, item in value.items() if key not in OWN}
        return [bare(item) for item in value] if isinstance(value, list) else value

    return [bare(json.loads(line)) for line in exported]


@pytest.fixture
def busy(ledger: Ledger, session: Session) -> Session:
    fill(ledger, session.id, 4, tokens=3)
    groups = group_ids(ledger, session.id)
    ledger.groups.drop(session.id, groups[1])
    ledger.groups.remove(session.id, groups[2])
    ledger.states.set(session.id, "### STATE\nGoal: rebuilt")
    ledger.scratchpad.replace(session.id, "plan")
    reply = Message.of("assistant", "more")
    ledger.append(session.id, [reply], strategy="gemini", usage=StoredUsage("m", 10, 2, 1, 99))
    return session


def test_the_first_line_is_the_session_and_each_other_a_message(
    ledger: Ledger, busy: Session
) -> None:
    exported = [json.loads(line) for line in ledger.export(busy.id)]
    assert [line["kind"] for line in exported] == ["session"] + ["message"] * 13
    assert exported[0]["name"] == "work"
    assert exported[1] | {"id": 0, "created_at": ""} == {
        "kind": "message",
        "role": "user",
        "parts": [{"kind": "text", "text": "question 1"}],
        "group_id": 1,
        "status": "complete",
        "outcome": "complete",
        "parsing_strategy": "openai",
        "tokens": 3,
        "tokens_basis": "counted",
        "id": 0,
        "usage_id": None,
        "created_at": "",
    }


def test_an_import_says_what_was_exported_with_numbers_of_its_own(
    ledger: Ledger, busy: Session, tmp_path: Path
) -> None:
    exported = list(ledger.export(busy.id))
    with Ledger(tmp_path / "other.db") as other:
        arrived = other.import_(exported)
        assert without_numbers(list(other.export(arrived.id))) == without_numbers(exported)
        assert prompts(other, arrived.id) == prompts(ledger, busy.id)
        assert other.states.current(arrived.id) == "### STATE\nGoal: rebuilt"
        assert other.scratchpad.read(arrived.id) == "plan"
        assert other.accounts.totals().requests == 0  # paid for elsewhere
        assert other.verify().ok


def test_folds_strategy_states_and_vendors_accounts_come_along(
    ledger: Ledger, busy: Session
) -> None:
    first, dropped, last = group_ids(ledger, busy.id)
    ledger.strategy_states.set(busy.id, first, {"n": 1})
    ledger.strategy_states.set(busy.id, last, {"n": 2, "seen": ["a"]})
    ledger.sessions.fold(busy.id, dropped)
    ledger.accounts.record(busy.id, StoredUsage("m", 1, 1, reported={"tier": {"batch": 1}}))
    brought = ledger.import_(ledger.export(busy.id))
    _, again_dropped, again_last = group_ids(ledger, brought.id)
    assert brought.first_group == again_dropped
    assert ledger.strategy_states.current(brought.id) == {"n": 2, "seen": ["a"]}
    assert ledger.strategy_states.before(brought.id, again_last) == {"n": 1}
    assert ledger.accounts.requests(brought.id)[-1].reported == {"tier": {"batch": 1}}
    assert ledger.sessions.get(brought.id) == brought
    assert ledger.verify().ok


def test_a_state_or_a_fold_of_groups_that_are_not_there_is_passed_over(ledger: Ledger) -> None:
    state = {"group_id": 7, "state": {"n": 1}, "created_at": "2026-01-02T03:04:05Z"}
    header = HEADER | {"first_group": 8, "strategy_states": [state]}
    brought = ledger.import_(lines(header, HELLO | {"group_id": 3}))
    assert brought.first_group == 0
    assert ledger.strategy_states.current(brought.id) == {}


def test_an_import_may_have_another_name(ledger: Ledger, busy: Session) -> None:
    arrived = ledger.import_(ledger.export(busy.id), name="copy")
    assert arrived.name == "copy"
    assert arrived.id != busy.id


def test_messages_in_a_vendors_own_form_are_read_by_their_strategy(ledger: Ledger) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "ls", "arguments": '{"p":1}'}}
    raw = [
        {"role": "user", "content": "list"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "a b"},
        {"role": "user", "content": "thanks"},
    ]
    messages = [{"kind": "message", "parsing_strategy": "openai", "raw": item} for item in raw]
    arrived = ledger.import_(lines(HEADER, *messages))
    entries = ledger.window(arrived.id)
    assert [entry.status for entry in entries] == ["complete", "tool_call", "complete", "complete"]
    assert entries[1].message.tool_calls[0].arguments == {"p": 1}
    assert len(group_ids(ledger, arrived.id)) == 2


def test_answers_without_an_id_find_the_calls_that_wait_in_their_order(ledger: Ledger) -> None:
    names = ["ls", "cat", "ls"]
    calls = [{"function": {"name": name, "arguments": {"n": n}}} for n, name in enumerate(names)]
    answers = [
        {"role": "tool", "tool_name": name, "content": f"answer {n}"}
        for n, name in enumerate(names)
    ]
    turn = [{"role": "assistant", "content": "", "tool_calls": calls}, *answers]
    raw = [{"role": "user", "content": "q"}, *turn, *turn]
    messages = [{"kind": "message", "parsing_strategy": "ollama", "raw": item} for item in raw]
    window = ledger.window(ledger.import_(lines(HEADER, *messages)).id)
    shown = isolate(window, "ollama")
    assert shown == list(window)
    for caller in (1, 5):
        answered = [entry.message.tool_results[0] for entry in shown[caller + 1 : caller + 4]]
        assert [call.id for call in shown[caller].message.tool_calls] == [
            answer.call_id for answer in answered
        ]


def test_an_answer_with_an_id_of_its_own_is_led_nowhere(ledger: Ledger) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "ls", "arguments": "{}"}}
    raw = [
        {"role": "user", "content": "q"},
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c2", "name": "ls", "content": "a"},
    ]
    messages = [{"kind": "message", "parsing_strategy": "openai", "raw": item} for item in raw]
    window = ledger.window(ledger.import_(lines(HEADER, *messages)).id)
    assert window[2].message.tool_results[0].call_id == "c2"


def test_unknown_fields_and_blank_lines_are_passed_over(ledger: Ledger) -> None:
    arrived = ledger.import_([*lines({**HEADER, "new": 1}, {**HELLO, "new": 1}), b"\n"])
    assert prompts(ledger, arrived.id) == ["hello"]


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ([], "line 1: "),
        ([b"not json"], "line 1: "),
        ([b"\xff\xfe"], "line 1: "),
        (lines(HELLO), "line 1: Invalid value"),
        (lines({**HEADER, "format": 2}), "line 1: the export has format 2"),
        (lines({**HEADER, "name": ""}), "line 1: a session's name"),
        (lines({**HEADER, "context_size": -1}), "line 1: a window's size"),
        (lines(HEADER, HELLO, {"kind": "message"}), "line 3: a message has a role"),
        (lines(HEADER, {**HELLO, "role": "god"}), "line 2: Invalid enum value"),
        (lines(HEADER, {**HELLO, "parts": [{"kind": "spell"}]}), "line 2: Invalid value"),
        (lines(HEADER, {**HELLO, "tokens": -1}), "line 2: tokens is a whole number"),
        (lines(HEADER, {**HELLO, "created_at": "yesterday"}), "line 2: not an RFC 3339 timestamp"),
        (
            lines(HEADER, {**HELLO, "parts": [{"kind": "text", "text": "\x00"}]}),
            r"line 2: message, part 0 \(text\)",
        ),
        (
            lines(
                HEADER,
                {**HELLO, "group_id": 1},
                {**HELLO, "group_id": 2},
                {**HELLO, "group_id": 1},
            ),
            "line 4: group 1 goes on",
        ),
        (lines(HEADER, {**HELLO, "raw": {}, "parsing_strategy": "abacus"}), "line 2: no parser"),
        (lines(HEADER, {**HELLO, "raw": [], "parsing_strategy": "openai"}), "line 2: a message of"),
        ([*lines(HEADER), b"[" * 100_000], "line 2: "),
    ],
)
def test_a_bad_line_is_named_and_nothing_is_imported(
    ledger: Ledger, bad: list[bytes], reason: str
) -> None:
    with pytest.raises(InvalidInput, match=reason):
        ledger.import_(bad)
    assert ledger.sessions.recent() == []
    assert ledger.verify().ok


def test_a_line_over_the_limit_is_refused(tmp_path: Path) -> None:
    with Ledger(tmp_path / "l.db", limits=LedgerLimits(message=100)) as ledger:
        long = {**HELLO, "parts": [{"kind": "text", "text": "x" * 300}]}
        with pytest.raises((InvalidInput, TooLarge), match=r"line 2: .* limit"):
            ledger.import_(lines(HEADER, long))


def test_an_import_cannot_pass_a_call_off_as_complete(ledger: Ledger) -> None:
    call = {"kind": "tool_call", "id": "c", "name": "ls"}
    forged = {"kind": "message", "role": "assistant", "parts": [call], "outcome": "complete"}
    arrived = ledger.import_(lines(HEADER, HELLO, forged))
    assert [entry.status for entry in ledger.window(arrived.id)] == ["complete", "tool_call"]


def test_exporting_nothing_says_so(ledger: Ledger) -> None:
    with pytest.raises(NotFound):
        list(ledger.export(9))


def test_a_backup_is_a_private_verified_ledger_of_one_file(
    ledger: Ledger, busy: Session, tmp_path: Path
) -> None:
    target = ledger.backup(tmp_path / "copies.db")
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    with Ledger(target, mode="read") as copy:
        assert list(copy.export(busy.id)) == list(ledger.export(busy.id))
        assert copy.verify().ok
    assert not [file for file in tmp_path.iterdir() if "partial" in file.name]


def test_a_backup_never_overwrites(ledger: Ledger, tmp_path: Path) -> None:
    (tmp_path / "there").write_text("precious")
    with pytest.raises(LedgerUnusable, match="never overwrites"):
        ledger.backup(tmp_path / "there")
    with pytest.raises(LedgerUnusable, match="cannot be made"):
        ledger.backup(tmp_path / "no" / "where.db")
    assert (tmp_path / "there").read_text() == "precious"


@pytest.mark.usefixtures("busy")
def test_a_damaged_ledger_makes_no_backup(
    ledger: Ledger, where: str | Path, tmp_path: Path
) -> None:
    tamper(where, "UPDATE messages SET content = 'forged' WHERE id = 1")
    with pytest.raises(LedgerDamaged):
        ledger.backup(tmp_path / "copy.db")
    assert not (tmp_path / "copy.db").exists()


def test_a_moment_is_imported_as_it_was_and_one_from_elsewhere_as_utc(ledger: Ledger) -> None:
    for said, stored in (
        ("2026-01-02T03:04:05.678Z", "2026-01-02T03:04:05.678Z"),
        ("2026-01-02T03:04:05+02:00", "2026-01-02T01:04:05.000Z"),
    ):
        session = ledger.import_(lines(HEADER, {**HELLO, "created_at": said}))
        assert [entry.created_at for entry in ledger.window(session.id)] == [stored]
