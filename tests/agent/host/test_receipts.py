"""The receipts of a session reproduce every request, byte for byte."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import pytest

from agent.host.helpers import hosted, invoke, of_kind, turn
from sightline.agent.host.journal import Journal
from sightline.agent.models.scripted import Reply, ScriptedModel
from sightline.config import LedgerSettings, TailSettings, WindowSettings
from sightline.context.dialects import encode
from sightline.context.dialects.profile import Profile
from sightline.context.dialects.profiles import profile_for
from sightline.context.ledger import Ledger
from sightline.context.messages.parts import Raw, Reasoning, ToolCall
from sightline.errors import NotFound, Overflow, RateLimited
from sightline.events import RequestBuilt
from support.live import LiveApp

STATE = b"<slop-state generated_at"


def reasons(call_id: str) -> Reply:
    return Reply(reasoning="hm", calls=(ToolCall(call_id, "describe_db", {}),))


SCRIPT = [
    ["Let me look.", ToolCall("q1", "slop_query", {"app": "live"}), invoke("c1", "/", "count")],
    [invoke("c2", "/inbox/msg-1", "archive")],
    "Done.\n\n### STATE\nGoal: tidy",
    RateLimited("wait", retry_after_s=0),
    "More.",
    "Even more.",
    Overflow("too long"),
    "Less.",
]
PROFILES = [
    profile_for("openai-chat", "gpt-5.5"),
    profile_for("openai-responses", "gpt-6.1-sol"),
    profile_for("anthropic", "claude-sonnet-5-5"),
    profile_for("gemini", "gemini-3.8-flash"),
    profile_for("bedrock", "anthropic.claude-opus-5"),
    profile_for("ollama", "qwen3"),
]


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.endpoint)
async def test_every_request_can_be_made_again(tmp_path: Path, profile: Profile) -> None:
    window = WindowSettings(size=2, slack=1)
    async with hosted(
        tmp_path, SCRIPT, app=LiveApp(), profile=profile, mode="auto", window=window
    ) as (host, model):
        for text in ("tidy up", "and now?", "more", "again"):
            await turn(host, text, answer=lambda _: True)
        session = host.session.id
    check_all(tmp_path, session, model)


def check_all(directory: Path, session: int, *models: ScriptedModel) -> None:
    """Every request a model got is in the journal, and its digest in the ledger."""
    sent = [request for model in models for request in model.requests]
    journal = Journal(directory / "work.db", read_only=True)
    with Ledger(directory / "work.db", mode="read") as ledger:
        receipts = {receipt.id: receipt for receipt in ledger.accounts.receipts(session)}
    lines = journal.requests(session)
    assert len(lines) == len(sent)
    for line, request in zip(lines, sent, strict=True):
        recorded = journal.request(session, line.turn, line.number)
        again = encode(recorded.prompt, recorded.profile, recorded.options)
        assert again.data == request.data
        assert again.headers == request.headers
        assert line.receipt_id is not None
        receipt = receipts[line.receipt_id]
        assert receipt.body["request"]["sha256"] == sha256(request.data).hexdigest()
        assert receipt.body["request"]["number"] == line.number
        assert receipt.prefix_digest == receipt.body["prefix_digest"]
        assert receipt.body["total"] > 0
    assert len(receipts) == len(sent)
    journal.close()


async def test_bound_reasoning_is_carried_through_a_turn_and_reproduced(tmp_path: Path) -> None:
    profile = profile_for("anthropic", "claude-opus-5-5")
    assert profile.reasoning.bound
    script = [reasons("c1"), reasons("c2"), "done", "next"]
    async with hosted(tmp_path, script, app=LiveApp(), profile=profile) as (host, model):
        await turn(host, "one")
        assert [request.thinking for request in model.requests] == ["turn_append"] * 3
        assert [len(request.sent) for request in model.requests] == [1, 2, 3]
        # The tail of an earlier request of the turn stands where it stood, byte for byte.
        first, second = model.requests[:2]
        assert second.wire.data.startswith(first.wire.data[: first.wire.boundary])
        assert "Observation 1 of this turn" in second.data.decode()
        await turn(host, "two")
        assert [len(request.sent) for request in model.requests[3:]] == [1]
        assert "Observation 2" not in model.requests[3].data.decode()
        session = host.session.id
    check_all(tmp_path, session, model)


async def test_without_reasoning_a_bound_model_gets_one_state_however_long_the_turn(
    tmp_path: Path,
) -> None:
    profile = profile_for("anthropic", "claude-opus-5-5")
    calls = [ToolCall(f"c{n}", "query_db", {"sql": f"SELECT {n}"}) for n in range(12)]
    script = [*([call] for call in calls), "done"]
    async with hosted(tmp_path, script, app=LiveApp(), profile=profile) as (host, model):
        await turn(host, "one")
        session = host.session.id
    assert [request.data.count(STATE) for request in model.requests] == [1] * 13
    check_all(tmp_path, session, model)


async def test_only_the_states_that_reasoning_depends_on_stay_and_within_their_budget(
    tmp_path: Path,
) -> None:
    profile = profile_for("anthropic", "claude-opus-5-5")
    calls = [[ToolCall(f"c{n}", "describe_db", {})] for n in range(3)]
    script = [calls[0], reasons("r1"), calls[1], reasons("r2"), calls[2], "done"]
    async with hosted(tmp_path, script, app=LiveApp(), profile=profile) as (host, model):
        await turn(host, "one")
        session = host.session.id
    assert [request.data.count(STATE) for request in model.requests] == [1, 1, 2, 2, 3, 3]
    assert {request.thinking for request in model.requests} == {"turn_append"}
    check_all(tmp_path, session, model)


async def test_kept_states_have_a_budget_in_tokens(tmp_path: Path) -> None:
    profile = profile_for("anthropic", "claude-opus-5-5")
    script = [*(reasons(f"r{n}") for n in range(5)), "done"]
    tail = TailSettings(kept_tokens=500)
    async with hosted(tmp_path, script, app=LiveApp(), profile=profile, tail=tail) as (
        host,
        model,
    ):
        await turn(host, "one")
    counts = [request.data.count(STATE) for request in model.requests]
    modes = [request.thinking for request in model.requests]
    assert counts == [1, 2, 3, 1, 1, 1]
    assert modes == [*["turn_append"] * 3, *["strip"] * 3]


async def test_reasoning_is_left_out_once_its_prefix_is_gone(tmp_path: Path) -> None:
    profile = profile_for("anthropic", "claude-opus-5-5")
    script = [
        "one",
        "two",
        reasons("c1"),
        Overflow("too long"),
        "done",
    ]
    async with hosted(tmp_path, script, profile=profile) as (host, model):
        for text in ("a", "b", "c"):
            await turn(host, text)
        assert [request.thinking for request in model.requests[2:]] == [
            "turn_append", "turn_append", "strip",
        ]  # fmt: skip


async def test_a_vendor_is_asked_why_its_cache_was_missed(tmp_path: Path) -> None:
    profile = profile_for("anthropic", "claude-sonnet-5-5")
    async with hosted(tmp_path, ["one", "two"], profile=profile) as (host, model):
        await turn(host)
        await turn(host)
        assert "diagnostics" not in model.requests[0].body
        told = model.requests[1].body["diagnostics"]
        assert told == {"previous_message_id": "scripted-1"}


async def test_two_vendors_in_one_session(tmp_path: Path) -> None:
    first = ScriptedModel(
        [["I look.", ToolCall("c1", "describe_db", {})], "Four tables."],
        profile=profile_for("openai-chat", "gpt-5.5"),
    )
    second = ScriptedModel(["As I said."], profile=profile_for("anthropic", "claude-sonnet-5-5"))
    async with hosted(tmp_path, first) as (host, _):
        await turn(host, "what is there?")
        await host.use_model(second)
        await turn(host, "and?")
        body = str(second.requests[0].body["messages"])
        # The words go on; the calls and their results do not.
        assert "what is there?" in body
        assert "Four tables." in body
        assert "describe_db" not in body
        assert "Tables of this conversation" not in body
        first.add("Back.")
        await host.use_model(first)
        await turn(host, "once more")
        body = str(first.requests[-1].body["messages"])
        assert "As I said." in body
        assert "describe_db" in body
        session = host.session.id
        with Ledger(tmp_path / "work.db", mode="read") as ledger:
            strategies = {entry.parsing_strategy for entry in ledger.messages(session)}
        assert strategies == {"openai_chat", "anthropic"}


async def test_calls_can_be_offered_to_any_vendor(tmp_path: Path) -> None:
    first = ScriptedModel([[ToolCall("c1", "describe_db", {})], "Four tables."])
    second = ScriptedModel(["ok"], profile=profile_for("anthropic", "claude-sonnet-5-5"))
    async with hosted(tmp_path, first, isolate="translate") as (host, _):
        await turn(host, "what is there?")
        await host.use_model(second)
        await turn(host, "and?")
        assert "describe_db" in str(second.requests[0].body["messages"])


async def test_signed_reasoning_survives_the_ledger(tmp_path: Path) -> None:
    from sightline.context.dialects.events import Stopped
    from sightline.context.messages.parts import Message, Text

    profile = profile_for("anthropic", "claude-opus-4-8")
    signed = Reasoning(
        "hm", Raw("anthropic", {"type": "thinking", "thinking": "hm", "signature": "s"})
    )

    class Thinker(ScriptedModel):
        async def stream(self, request):  # type: ignore[no-untyped-def]  # as the base has it
            async for event in super().stream(request):
                if isinstance(event, Stopped):
                    event = Stopped("end", Message("assistant", (signed, Text("ok"))))
                yield event

    async with hosted(tmp_path, Thinker(["ok", "ok"], profile=profile)) as (host, model):
        await turn(host)
        await turn(host)
        assert '"signature":"s"' in model.requests[1].data.decode()


async def test_without_recording_there_are_no_receipts_and_no_requests(tmp_path: Path) -> None:
    settings = LedgerSettings(record=False)
    async with hosted(tmp_path, ["ok"], ledger=settings) as (host, _):
        await turn(host)
        session = host.session.id
        assert host.ledger.accounts.receipts(session) == []
    journal = Journal(tmp_path / "work.db", read_only=True)
    assert journal.requests(session) == []
    with pytest.raises(NotFound):
        journal.request(session, 1, 1)
    journal.close()


async def test_tools_that_a_model_cannot_call_are_neither_sent_nor_counted(tmp_path: Path) -> None:
    async with hosted(tmp_path, ["hello"], profile=profile_for("local")) as (host, _):
        events = await turn(host)
        [composed] = of_kind(events, RequestBuilt)
        assert host.last is not None
        assert host.last.prompt.tools == ()
        assert host.last.prompt.receipt.tools == 0
        assert composed.warnings == ("smollm2-135m-instruct cannot call tools: none are offered",)
