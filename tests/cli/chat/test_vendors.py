"""One conversation at a terminal, with every vendor in its own format, through its own SDK."""

from __future__ import annotations

from pathlib import Path

import pytest

from sightline.context.ledger import Ledger
from support.person import Person
from support.share import WHOLE
from support.vendors.answers import Call, Refuses, Says, says
from support.vendors.apis import api_of
from support.vendors.server import Vendor

ARCHIVE = Call(
    "slop_invoke", {"app": "desk", "path": "/inbox/msg-104", "action": "archive", "params": {}}
)


OFTEN = ["openai-responses", "bedrock"]  # over HTTP by ourselves, and by a vendor's SDK
SELDOM = ["openai-chat", "anthropic", "gemini", "ollama"]  # as tests/cli/test_ask.py asks them


@pytest.mark.parametrize("model", OFTEN + SELDOM * WHOLE)
def test_a_conversation_with_every_vendor(tmp_path: Path, people: list[Person], model: str) -> None:
    """A wait, a call with consent, a change by the user, a broken answer, and what was sent."""
    answers = (
        Refuses("rate", retry_after="0"),
        says("I put it away.", ARCHIVE),
        says("It is archived now."),
        Says(("There is ", "one ", "unread ", "message ", "and ", "then"), cut=5),
    )
    with Vendor(*answers) as vendor:
        person = Person(tmp_path, vendor, "chat", "--demo", SIGHTLINE_MODEL=model)
        people.append(person)
        person.sees("/help lists commands")
        person.types("archive the launch mail\r")
        person.sees("trying again in 0 s")
        person.sees("I put it away.")
        person.sees("on desk/inbox/msg-104")
        person.sees("do it?")
        person.types("y\r")
        person.sees("It is archived now.")
        person.types('/invoke desk/calendar add_event {"title": "Ferry", "start": "18:00"}\r')
        person.sees("evt-9")  # what the app answers
        person.types("what is left?\r")
        person.sees("There is")
        person.sees("broke off")
        assert person.leaves() == 0
    asked, acted, done, left = (request.body for request in vendor.requests)
    assert {api_of(request.path) for request in vendor.requests} == {model.removeprefix("openai-")}
    assert b"38 messages" in state_of(asked)
    assert b"38 messages" in state_of(acted)  # the same again, after the wait
    assert b"37 messages" in state_of(done)
    assert b"msg-104" not in state_of(done)
    assert b"Ferry" not in state_of(done)
    assert b"Ferry" in state_of(left)  # what the user did is there, too
    assert b"It is archived now." in left
    with Ledger(tmp_path / "work.db", mode="read") as ledger:
        entries = list(ledger.messages(1))
        assert ledger.verify().ok
    assert [entry.role for entry in entries] == [
        "user", "assistant", "tool", "assistant", "user", "assistant",
    ]  # fmt: skip
    assert [entry.status for entry in entries if entry.role == "assistant"] == [
        "tool_call", "complete", "incomplete",
    ]  # fmt: skip


def state_of(body: bytes) -> bytes:
    """The newest state in a request; some APIs have tool rounds behind it."""
    return body.rpartition(b"<slop-state")[2].partition(b"</slop-state")[0]
