"""Planted keys do not reach the file, by whatever way they come."""

from __future__ import annotations

from pathlib import Path

import pytest

from context.ledger.planted import WAYS, Way, append_text, bytes_of
from sightline.context.ledger import Ledger
from sightline.context.messages.parts import Message

CANARY = "sk-ant-" + "canary0123456789abcdef"


@pytest.mark.of_a_file
@pytest.mark.parametrize("way", WAYS)
def test_a_planted_key_does_not_reach_the_file(ledger: Ledger, way: Way) -> None:
    way(ledger, ledger.sessions.create("s").id, CANARY)
    stored = bytes_of(ledger)
    assert CANARY.encode() not in stored
    assert b"[redacted:anthropic-key]" in stored
    assert ledger.verify().ok


def test_redaction_can_be_turned_off(tmp_path: Path) -> None:
    with Ledger(tmp_path / "l.db", redact=False) as ledger:
        append_text(ledger, ledger.sessions.create("s").id, CANARY)
        assert CANARY.encode() in bytes_of(ledger)


def test_a_retry_of_a_redacted_append_is_still_the_same(ledger: Ledger) -> None:
    session = ledger.sessions.create("s")
    message = Message.of("user", f"my key is {CANARY}")
    first = ledger.append(session.id, [message], strategy="s", key="k")
    assert ledger.append(session.id, [message], strategy="s", key="k") == first
