"""Planted keys do not reach the file, by whatever way they come."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sightline.context.parts import Message, Raw, Reasoning, Text, ToolCall, ToolResult
from sightline.ledger import Ledger

CANARY = "sk-ant-" + "canary0123456789abcdef"


def append_text(ledger: Ledger, session: int) -> None:
    ledger.append(session, [Message.of("user", f"my key is {CANARY}, keep it")], strategy="s")


def append_result(ledger: Ledger, session: int) -> None:
    result = ToolResult("c", f"export KEY={CANARY}\n" * 1000)
    ledger.append(session, [Message("tool", (result,))], strategy="s")


def append_arguments(ledger: Ledger, session: int) -> None:
    call = ToolCall("c", "curl", {"headers": [{"x-api-key": CANARY}], CANARY: 1})
    ledger.append(session, [Message("assistant", (call,))], strategy="s")


def append_raw(ledger: Ledger, session: int) -> None:
    part = Reasoning("hm", raw=Raw("anthropic", {"thinking": f"use {CANARY}"}))
    ledger.append(session, [Message("assistant", (part, Text("ok")))], strategy="s")


def append_state(ledger: Ledger, session: int) -> None:
    ledger.append(session, [Message.of("assistant", f"ok\n### STATE\nKey: {CANARY}")], strategy="s")


def set_state(ledger: Ledger, session: int) -> None:
    ledger.append(session, [Message.of("user", "hi")], strategy="s")
    ledger.states.set(session, f"### STATE\nKey: {CANARY}")


def import_lines(ledger: Ledger, _session: int) -> None:
    append = b'{"kind":"message","role":"user","parts":[{"kind":"text","text":"%s"}]}'
    ledger.import_([b'{"kind":"session","format":1,"name":"n"}', append % CANARY.encode()])


WAYS: list[Callable[[Ledger, int], object]] = [
    append_text,
    append_result,
    append_arguments,
    append_raw,
    append_state,
    set_state,
    import_lines,
    lambda ledger, session: ledger.scratchpad.replace(session, CANARY),
    lambda ledger, _session: ledger.memos.save(f"use {CANARY}", ["key"]),
    lambda ledger, session: ledger.sessions.rename(session, CANARY),
    lambda ledger, session: ledger.sessions.clone(session, CANARY),
    lambda ledger, session: ledger.accounts.add_receipt(
        session, {"slots": [CANARY]}, prefix_digest="0"
    ),
]


def bytes_of(ledger: Ledger) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(ledger.path.parent.iterdir()))


@pytest.mark.parametrize("way", WAYS)
def test_a_planted_key_does_not_reach_the_file(
    ledger: Ledger, way: Callable[[Ledger, int], object]
) -> None:
    way(ledger, ledger.sessions.create("s").id)
    stored = bytes_of(ledger)
    assert CANARY.encode() not in stored
    assert b"[redacted:anthropic-key]" in stored
    assert ledger.verify().ok


def test_redaction_can_be_turned_off(tmp_path: Path) -> None:
    with Ledger(tmp_path / "l.db", redact=False) as ledger:
        append_text(ledger, ledger.sessions.create("s").id)
        assert CANARY.encode() in bytes_of(ledger)


def test_a_retry_of_a_redacted_append_is_still_the_same(ledger: Ledger) -> None:
    session = ledger.sessions.create("s")
    message = Message.of("user", f"my key is {CANARY}")
    first = ledger.append(session.id, [message], strategy="s", key="k")
    assert ledger.append(session.id, [message], strategy="s", key="k") == first
