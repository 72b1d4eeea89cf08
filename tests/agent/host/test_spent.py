"""Everything that a vendor reports of a request, and what became of it, is in the ledger."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent.host.helpers import check_ledger, hosted, turn
from sightline.agent.host.writing import ledger_usage
from sightline.agent.models.access import Access, public_url
from sightline.agent.models.base import address_of
from sightline.agent.models.connected import ConnectedModel
from sightline.agent.models.scripted import Cut, Reply, ScriptedModel, Stall
from sightline.agent.turn.steps import Spent
from sightline.config import LimitSettings
from sightline.context.dialects.events import CacheMiss, Event, UsageArrived
from sightline.context.dialects.events import Usage as Reported
from sightline.context.dialects.profiles import profile_for
from sightline.context.ledger import Ledger, StoredUsage
from sightline.errors import ModelFailed, RateLimited
from sightline.events import TextDelta

ALL = Reported(
    input_tokens=1000, output_tokens=50, cache_read_tokens=600, cache_write_tokens=300,
    cache_write_long_tokens=100, reasoning_tokens=20,
)  # fmt: skip
KEY = "sk-ant-api03-" + "a1B2" * 8


TOLD: dict[str, Any] = {"input_tokens": 1000, "service_tier": "batch", "server_tool_use": {"n": 2}}


def requests(directory: Path) -> list[StoredUsage]:
    with Ledger(directory / "work.db", mode="read") as ledger:
        return ledger.accounts.requests(1)


class Talkative(ScriptedModel):
    """A model at an address, whose vendor says why it missed its cache."""

    address = "https://models.example/v1"

    async def stream(self, request):  # type: ignore[no-untyped-def]  # as its parent's
        event: Event
        async for event in super().stream(request):
            if isinstance(event, UsageArrived):
                miss = CacheMiss("tools_changed", 400)
                event = UsageArrived(event.usage, miss, TOLD)
            yield event


async def test_what_the_vendor_reports_is_kept(tmp_path: Path) -> None:
    model = Talkative([Reply(text="ok", usage=ALL)])
    async with hosted(tmp_path, model) as (host, _):
        await turn(host)
    [used] = requests(tmp_path)
    assert (used.prompt_tokens, used.completion_tokens, used.cached_tokens) == (1000, 50, 600)
    assert (used.cache_write_tokens, used.cache_write_long_tokens) == (300, 100)
    assert used.reasoning_tokens == 20
    assert (used.cache_miss, used.cache_missed_tokens) == ("tools_changed", 400)
    assert used.address == "https://models.example/v1"
    assert (used.outcome, used.error) == ("end", None)
    assert used.reported == TOLD
    check_ledger(tmp_path)


def nested(levels: int) -> Any:
    return [] if not levels else [nested(levels - 1)]


@pytest.mark.parametrize(
    ("told", "kept"),
    [
        ({"a": "\0"}, {"a": "␀"}),
        ({"key": KEY}, {"key": "[redacted:anthropic-key]"}),
        ({"a": nested(300)}, None),
        ({"a": float("inf")}, None),
        ({"a": "x" * 10_000}, None),
    ],
)
def test_an_account_that_cannot_be_kept_costs_no_turn(tmp_path: Path, told: Any, kept: Any) -> None:
    spent = Spent(Reported(1, 1), reported=told)
    with Ledger(tmp_path / "l.db") as ledger:
        session = ledger.sessions.create("s").id
        ledger.accounts.record(session, ledger_usage(ScriptedModel([]), spent))
        [used] = ledger.accounts.requests(session)
        assert used.reported == kept


async def test_a_failed_request_is_kept_with_what_was_said_of_it(tmp_path: Path) -> None:
    script = [RateLimited(f"slow down, {KEY}", retry_after_s=0.0), "ok"]
    async with hosted(tmp_path, script) as (host, _):
        await turn(host)
    failed, answered = requests(tmp_path)
    assert (failed.outcome, failed.cost_nanousd) == ("rate_limited", 0)
    assert failed.error is not None
    assert failed.error.startswith("slow down, [redacted:")
    assert answered.outcome == "end"
    with Ledger(tmp_path / "work.db", mode="read") as ledger:
        [group] = ledger.groups.recent(1)
        assert group.snapshot == answered.snapshot
    check_ledger(tmp_path)


async def test_a_reply_that_broke_off_says_why(tmp_path: Path) -> None:
    async with hosted(tmp_path, [Cut("I was ")], limits=LimitSettings(retries=0)) as (host, _):
        await turn(host)
    [broken] = requests(tmp_path)
    assert broken.outcome == "incomplete"
    assert broken.error == "the stream ended before the reply did"
    assert broken.cost_nanousd is None
    check_ledger(tmp_path)


@pytest.mark.parametrize("said", ["", "I was about to "])
async def test_a_cancelled_request_is_kept_as_cancelled(tmp_path: Path, said: str) -> None:
    async with hosted(tmp_path, [Stall(said)]) as (host, model):
        async for event in host.ask("hi"):
            if isinstance(event, TextDelta) or (
                not said and type(event).__name__ == "RequestBuilt"
            ):
                host.cancel("enough")
    if model.requests:
        [cancelled] = requests(tmp_path)
        assert (cancelled.outcome, cancelled.error) == ("cancelled", "enough")
    check_ledger(tmp_path)


async def test_what_became_of_turns_is_known_without_the_wire_file(tmp_path: Path) -> None:
    from sightline.inspector.reader import RecordReader

    script = ["ok", ModelFailed("no such model"), Reply(text="So", reason="length"), Cut("I ")]
    async with hosted(tmp_path, script, limits=LimitSettings(retries=0)) as (host, _):
        for text in "abcd":
            await turn(host, text)
    for path in tmp_path.glob("work.wire*"):
        path.unlink()
    with Ledger(tmp_path / "work.db", mode="read") as ledger:
        statuses = [item["status"] for item in RecordReader(ledger).turns(1)["turns"]]
    assert statuses == ["answered", "failed", "limit", "failed"]


async def test_an_error_that_cannot_be_stored_costs_no_turn(tmp_path: Path) -> None:
    script = [ModelFailed("nul \0 and \ud800 " + "x" * 100_000)]
    async with hosted(tmp_path, script, limits=LimitSettings(retries=0)) as (host, _):
        events = await turn(host)
        assert getattr(events[-1], "code", "") == "model_failed"
    [failed] = requests(tmp_path)
    assert failed.error is not None
    assert failed.error.startswith("nul ␀ and")


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://user:secret@host:8443/v1?key=secret#part", "https://host:8443/v1"),
        ("http://[::1]:11434", "http://[::1]:11434"),
        ("", ""),
    ],
)
def test_an_address_is_kept_without_what_may_be_secret(url: str, shown: str) -> None:
    assert public_url(url) == shown
    access = Access("x:y", profile_for("openai-chat", "m"), url)
    assert address_of(ConnectedModel(access, lambda _: None)) == shown  # type: ignore[arg-type,return-value]
    assert address_of(ScriptedModel()) == ""


def test_usage_survives_export_and_import(tmp_path: Path) -> None:
    told = StoredUsage(
        "m", 10, 5, 2, 7, "reported", 3, 1, 2, "tools_changed", 4, "https://h/v1", "end", None
    )
    with Ledger(tmp_path / "l.db") as ledger:
        session = ledger.sessions.create("s").id
        ledger.accounts.record(session, told)
        ledger.accounts.record(session, StoredUsage("m", 1, 1))
        copy = ledger.import_(ledger.export(session))
        assert ledger.accounts.requests(copy.id) == [told, StoredUsage("m", 1, 1)]
        assert ledger.accounts.requests(ledger.sessions.clone(session).id) == []
        assert ledger.verify().ok
        first = next(iter(ledger.export(session)))
        assert b'"cost_nanousd":null' not in first, "an older program reads what is not new"
