"""Every way by which text reaches a ledger, to plant a secret on."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TypeAlias

from sightline.context.ledger import Ledger
from sightline.context.messages.parts import Message, Raw, Reasoning, Text, ToolCall, ToolResult


def append_text(ledger: Ledger, session: int, secret: str) -> None:
    ledger.append(session, [Message.of("user", f"my key is {secret}, keep it")], strategy="s")


def append_result(ledger: Ledger, session: int, secret: str) -> None:
    result = ToolResult("c", f"export KEY={secret}\n" * 1000)
    ledger.append(session, [Message("tool", (result,))], strategy="s")


def append_arguments(ledger: Ledger, session: int, secret: str) -> None:
    call = ToolCall("c", "curl", {"headers": [{"x-api-key": secret}], secret: 1})
    ledger.append(session, [Message("assistant", (call,))], strategy="s")


def append_raw(ledger: Ledger, session: int, secret: str) -> None:
    part = Reasoning("hm", raw=Raw("anthropic", {"thinking": f"use {secret}"}))
    ledger.append(session, [Message("assistant", (part, Text("ok")))], strategy="s")


def append_state(ledger: Ledger, session: int, secret: str) -> None:
    ledger.append(session, [Message.of("assistant", f"ok\n### STATE\nKey: {secret}")], strategy="s")


def set_state(ledger: Ledger, session: int, secret: str) -> None:
    ledger.append(session, [Message.of("user", "hi")], strategy="s")
    ledger.states.set(session, f"### STATE\nKey: {secret}")


def import_lines(ledger: Ledger, _session: int, secret: str) -> None:
    append = b'{"kind":"message","role":"user","parts":[{"kind":"text","text":"%s"}]}'
    ledger.import_(
        [b'{"kind":"session","format":1,"name":"n"}', append % json.dumps(secret)[1:-1].encode()]
    )


Way: TypeAlias = Callable[[Ledger, int, str], object]
WAYS: list[Way] = [
    append_text,
    append_result,
    append_arguments,
    append_raw,
    append_state,
    set_state,
    import_lines,
    lambda ledger, session, secret: ledger.scratchpad.replace(session, secret),
    lambda ledger, _session, secret: ledger.memos.save(f"use {secret}", ["key"]),
    lambda ledger, session, secret: ledger.sessions.rename(session, secret),
    lambda ledger, session, secret: ledger.sessions.clone(session, secret),
    lambda ledger, session, secret: ledger.accounts.add_receipt(
        session, {"slots": [secret]}, prefix_digest="0"
    ),
]


def bytes_of(ledger: Ledger) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(ledger.path.parent.iterdir()))
